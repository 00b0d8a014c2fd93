//! Language runtimes whose functions have no names in stacks: which one it is, and what would bring
//! the names.
//!
//! An interpreter executes all functions of its scripts with the same machine code, and a compiler
//! at run time generates code that no file contains. Runtimes name such functions only on request.
//! A runtime is known by functions or libraries that only it has.

use crate::frame::{Frame, Origin};
use serde::Serialize;

/// A runtime.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Runtime {
    /// A Python that can name its functions.
    Python,
    /// Python before 3.12, which cannot.
    OldPython,
    Node,
    Java,
    /// Java that names its functions, but executes some that it did not compile.
    InterpretedJava,
    /// Another one that generates code.
    Other,
}

impl Runtime {
    pub fn name(self) -> &'static str {
        match self {
            Runtime::Python | Runtime::OldPython => "Python",
            Runtime::Node => "Node",
            Runtime::Java | Runtime::InterpretedJava => "Java",
            Runtime::Other => "a program that generates code",
        }
    }

    /// Returns what brings the names.
    pub fn remedy(self) -> &'static str {
        match self {
            Runtime::Python | Runtime::Node => "`longpole record --runtimes -- CMD` brings them",
            Runtime::OldPython => "Python brings them from 3.12 on: run the program with it, under `longpole record --runtimes -- CMD`",
            Runtime::InterpretedJava => {
                "Java did not compile them because they are called only once; with JAVA_TOOL_OPTIONS=-Xcomp, it compiles all, and starts later"
            }
            Runtime::Java => "`longpole record --runtimes -- CMD` brings those of compiled functions, with Java 17 or later",
            Runtime::Other => "the program must list them in /tmp/perf-PID.map, or log them in jit-PID.dump",
        }
    }
}

/// Functions that execute Python's byte code, by versions.
const PYTHON: [&str; 2] = ["_PyEval_EvalFrameDefault", "PyEval_EvalFrameEx"];
/// Functions of the library of Node through which all code of scripts is called.
const NODE: [&str; 4] = [
    "Builtins_JSEntryTrampoline",
    "Builtins_InterpreterEntryTrampoline",
    "Builtin:JSEntryTrampoline",
    "Builtin:InterpreterEntryTrampoline",
];

/// Returns the runtime that executes functions without names in a stack; `None` if the stack has
/// names of such functions, or no runtime. Frames are in any order.
pub fn without_names<'a>(frames: impl Iterator<Item = &'a Frame>) -> Option<Runtime> {
    let (mut found, mut executes, mut has_list) = (None, false, false);
    for frame in frames {
        let is_generated = frame.origin == Origin::Made;
        if frame.interpreted || is_generated && frame.named && !frame.runtime {
            return None;
        }
        executes |= is_generated || executes_scripts(frame);
        has_list |= frame.runtime;
        found = found.or_else(|| runtime_of(frame));
    }
    if found == Some(Runtime::Java) && has_list {
        found = Some(Runtime::InterpretedJava);
    }
    executes.then(|| found.unwrap_or(Runtime::Other))
}

/// Returns whether this function belongs to the module of a runtime that executes functions.
pub fn is_of_executor(frame: &Frame) -> bool {
    executes_scripts(frame) || frame.module == "libjvm.so"
}

/// Returns whether this function of a runtime executes those of scripts.
fn executes_scripts(frame: &Frame) -> bool {
    PYTHON.contains(&whole(frame)) || NODE.contains(&whole(frame))
}

/// Returns the name of the function. A compiler may divide it into parts, `name.cold`.
fn whole(frame: &Frame) -> &str {
    frame.function.split('.').next().unwrap_or_default()
}

fn runtime_of(frame: &Frame) -> Option<Runtime> {
    let (function, module) = (whole(frame), frame.module.as_str());
    let is_node = NODE.contains(&function) || module == "node" || module.starts_with("libnode.so");
    match is_old_python(module) {
        true if PYTHON.contains(&function) => Some(Runtime::OldPython),
        false if PYTHON.contains(&function) => Some(Runtime::Python),
        _ if is_node => Some(Runtime::Node),
        _ => (module == "libjvm.so").then_some(Runtime::Java),
    }
}

/// Returns whether the version in the name of a Python (`python3.11`, `libpython3.11.so.1.0`) is
/// one that cannot name its functions.
fn is_old_python(module: &str) -> bool {
    let version = module.split_once("python").and_then(|(_, version)| version.split_once('.'));
    let number = |text: &str| text.split(|c: char| !c.is_ascii_digit()).next().and_then(|digits| digits.parse::<u32>().ok());
    let version = version.and_then(|(major, minor)| Some((number(major)?, number(minor)?)));
    version.is_some_and(|version| version < (3, 12))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(function: &str, module: &str, origin: Origin) -> Frame {
        let named = function != module;
        let (function, module) = (function.to_owned(), module.to_owned());
        let (of_system, inlined, interpreted, runtime) = (false, false, false, false);
        Frame { function, module, origin, named, of_system, inlined, file: None, line: None, interpreted, runtime }
    }

    #[test]
    fn a_stack_without_names_of_its_script_has_a_runtime() {
        let eval = frame("_PyEval_EvalFrameDefault", "libpython3.11.so.1.0", Origin::File);
        let script = Frame { interpreted: true, ..frame("work", "[jit]", Origin::Made) };
        assert_eq!(without_names([&eval].into_iter()), Some(Runtime::OldPython));
        assert_eq!(without_names([&eval, &script].into_iter()), None);
        let new = Frame { module: "python3.13".to_owned(), ..eval };
        assert_eq!(without_names([&new].into_iter()), Some(Runtime::Python));

        let (made, call) = (frame("[jit]", "[jit]", Origin::Made), frame("JavaCalls::call", "libjvm.so", Origin::File));
        let interpreter = Frame { runtime: true, ..frame("Interpreter", "[jit]", Origin::Made) };
        let compiled = frame("Main.run()", "[jit]", Origin::Made);
        assert_eq!(without_names([&call].into_iter()), None);
        assert_eq!(without_names([&made, &call].into_iter()), Some(Runtime::Java));
        assert_eq!(without_names([&interpreter, &call].into_iter()), Some(Runtime::InterpretedJava));
        assert_eq!(without_names([&compiled, &interpreter, &call].into_iter()), None);

        let (entry, of_node) = (frame("Builtins_JSEntryTrampoline", "node", Origin::File), frame("uv_run", "node", Origin::File));
        assert_eq!(without_names([&of_node].into_iter()), None);
        assert_eq!(without_names([&entry, &of_node].into_iter()), Some(Runtime::Node));
        assert_eq!(without_names([&made, &of_node].into_iter()), Some(Runtime::Node));
        assert_eq!(without_names([&made].into_iter()), Some(Runtime::Other));
    }

    #[test]
    fn versions_of_python_are_read_from_names_of_files() {
        for old in ["python3.11", "libpython3.9.so.1.0", "python2.7", "libpython3.11d.so"] {
            assert!(is_old_python(old), "{old}");
        }
        for new in ["python3.12", "libpython3.13.so.1.0", "python3", "python", "uwsgi", "python4.0"] {
            assert!(!is_old_python(new), "{new}");
        }
    }
}
