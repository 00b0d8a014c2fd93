//! Functions that a program generated itself, from the list that it writes for profilers:
//! `/tmp/perf-PID.map`, with lines `start size name`.
//!
//! Anyone can create such a file. It must be a regular file that belongs to the process's user or
//! to root, and it is read up to a size limit.

use crate::open;
use crate::table::{clean, Function};
use std::collections::BTreeMap;
use std::fs::Metadata;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::MetadataExt;

const MAX_BYTES: u64 = 256 << 20;
const LONGEST_LINE: u64 = 4096;

/// Returns the names of those `addresses` that the list contains. `owner` is the process's user id
/// and its process id in its own namespace.
pub fn functions(pid: i32, owner: Option<(u32, i32)>, addresses: &BTreeMap<u64, u64>) -> BTreeMap<u64, Function> {
    let inner = owner.map_or(pid, |(_, inner)| inner);
    let name = format!("perf-{inner}.map");
    let own = rustix::process::geteuid().as_raw();
    let trusted = |found: &Metadata| {
        let uid = found.uid();
        uid == 0 || owner.map_or(uid == own, |(owner, _)| uid == owner)
    };
    let inside = open::below(pid, format!("/tmp/{name}").as_bytes());
    let found = inside.or_else(|| open::list(&name)).and_then(|path| open::regular(path, trusted));
    found.map_or_else(BTreeMap::new, |file| read(BufReader::new(file.take(MAX_BYTES)), addresses))
}

/// Parses the list. A later line overrides earlier ones, because code is replaced.
fn read(mut lines: impl BufRead, addresses: &BTreeMap<u64, u64>) -> BTreeMap<u64, Function> {
    let mut found: BTreeMap<u64, Function> = BTreeMap::new();
    let mut line = Vec::new();
    let mut is_of_java = false;
    loop {
        line.clear();
        match lines.by_ref().take(LONGEST_LINE).read_until(b'\n', &mut line) {
            Ok(0) | Err(_) => break,
            Ok(_) => {}
        }
        let text = String::from_utf8_lossy(&line);
        let mut words = text.trim_end().splitn(3, ' ');
        let mut number = || u64::from_str_radix(words.next()?.trim_start_matches("0x"), 16).ok();
        let (Some(start), Some(size)) = (number(), number()) else { continue };
        let Some(name) = words.next().filter(|name| !name.is_empty()) else { continue };
        is_of_java |= name == JAVA_INTERPRETER;
        if size > 0 {
            for (&address, _) in addresses.range(start..=start.saturating_add(size - 1)) {
                found.insert(address, function(name));
            }
        }
    }
    // Java lists its own code by other names than those of functions.
    for function in found.values_mut().filter(|_| is_of_java) {
        function.runtime |= !function.name.contains('(') || !function.name.contains('.');
    }
    found
}

/// Name of the interpreter in the lists of Java.
const JAVA_INTERPRETER: &str = "Interpreter";
/// Kinds of code in the lists of Node: functions of scripts, and code of the runtime itself.
const NODE: [&str; 5] = ["JS:", "LazyCompile:", "Function:", "Script:", "Eval:"];
const NODE_RUNTIME: [&str; 4] = ["Builtin:", "BytecodeHandler:", "Stub:", "RegExp:"];

/// Returns the function of a name as runtimes write it. Python: `py::function:file`. Node: a kind,
/// a sign for how far it was optimized (`~`: not at all, it is interpreted), function and
/// `file:line:column`. Java: `result package.Class.function(arguments)`. Other names are unchanged.
fn function(name: &str) -> Function {
    if let Some((function, file)) = name.strip_prefix("py::").and_then(|rest| rest.split_once(':')) {
        return Function { file: Some(clean(file)), interpreted: true, ..Function::named(function) };
    }
    let of_node = NODE.iter().find_map(|kind| name.strip_prefix(kind));
    let interpreted = of_node.is_some_and(|rest| rest.starts_with('~'));
    let split = of_node.map(|rest| rest.trim_start_matches(['*', '^', '~', '+'])).and_then(|rest| {
        let (rest, _column) = rest.rsplit_once(':')?;
        let (rest, line) = rest.rsplit_once(':')?;
        let (function, file) = rest.split_once(' ')?;
        Some((function, file.strip_prefix("file://").unwrap_or(file), line.parse().ok()?))
    });
    match split {
        Some((function, file, line)) => {
            let function = if function.is_empty() { "(anonymous)" } else { function };
            Function { file: Some(clean(file)), line: Some(line), interpreted, ..Function::named(function) }
        }
        None => {
            let runtime = NODE_RUNTIME.iter().any(|kind| name.starts_with(kind));
            Function { runtime, ..Function::named(without_result(name)) }
        }
    }
}

/// Returns a name of Java without the type of the result.
fn without_result(name: &str) -> &str {
    let before_arguments = name.find('(').map(|at| &name[..at]);
    let split = before_arguments.and_then(|before| before.split_once(' '));
    match split {
        Some((result, function)) if function.contains('.') && !function.contains([' ', ':', '[']) => &name[result.len() + 1..],
        _ => name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_runtimes_are_split_into_function_file_and_line() {
        let shown = |name: &str| {
            let found = function(name);
            format!("{} {} {} {}", found.name, found.file.as_deref().unwrap_or("-"), found.line.unwrap_or(0), found.interpreted)
        };
        assert_eq!(shown("py::Class.method:/srv/app.py"), "Class.method /srv/app.py 0 true");
        assert_eq!(shown("JS:*work file:///srv/my app.js:7:15"), "work /srv/my app.js 7 false");
        assert_eq!(shown("LazyCompile:~ /srv/app.js:12:3"), "(anonymous) /srv/app.js 12 true");
        assert_eq!(shown("Builtin:ArgumentsAdaptorTrampoline"), "Builtin:ArgumentsAdaptorTrampoline - 0 false");
        assert_eq!(shown("void Main.work(int, long)"), "Main.work(int, long) - 0 false");
        for unchanged in ["Main.work(int, long)", "int32 [System] System.X::f(int)", "vtable stub", "a b(c)"] {
            assert_eq!(shown(unchanged), format!("{unchanged} - 0 false"));
        }
    }

    #[test]
    fn code_of_a_runtime_itself_is_no_function_of_a_program() {
        let wanted = BTreeMap::from([(0x10, 1), (0x20, 1), (0x30, 1)]);
        let of_runtime = |text: &str| -> Vec<bool> { read(text.as_bytes(), &wanted).values().map(|function| function.runtime).collect() };
        assert_eq!(of_runtime("10 8 int A.f(long)\n20 8 vtable stub\n30 8 Interpreter\n"), [false, true, true]);
        assert_eq!(of_runtime("10 8 compiled\n20 8 BytecodeHandler:Add\n30 8 JS:*f /a.js:1:2\n"), [false, true, false]);
    }

    #[test]
    fn latest_line_names_an_address_and_invalid_lines_are_skipped() {
        let wanted = BTreeMap::from([(0x100, 1), (0x10f, 1), (0x110, 1), (u64::MAX, 1)]);
        let text = "100 10 first one\nnonsense\n10f 1\n10f 0 none\n-1 5 minus\n0x10f 2 second\nffffffffffffffff ffffffffffffffff end\n";
        let found = read(text.as_bytes(), &wanted);
        let names: Vec<(u64, &str)> = found.iter().map(|(at, function)| (*at, function.name.as_str())).collect();
        assert_eq!(names, [(0x100, "first one"), (0x10f, "second"), (0x110, "second"), (u64::MAX, "end")]);
    }
}
