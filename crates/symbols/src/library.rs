//! Which functions belong to the library or the runtime of a language instead of the program.
//!
//! The file that contains a function does not show this if the language links statically (Rust,
//! Go), if the function is a template (C++), or if it was generated at run time (Node, Java,
//! Python). It is known by a name that the language reserves, or by the folder of its source.
//!
//! Example: a Rust program waits in `std::thread::sleep`, whose source is
//! `/rustc/HASH/library/std/src/thread/mod.rs`. The function of the program is its caller.

use crate::table::Function;
use std::collections::BTreeSet;

/// Maximum number of versions of Go in a recording.
const MAX_GO: usize = 16;
/// Folders of headers.
const HEADERS: [&str; 3] = ["/usr/include/", "/usr/local/include/", "/include/c++/"];
/// Folders of Rust's library: in the toolchains of the project, in those of distributions, and as
/// an installed component.
const RUST: [&str; 3] = ["/rustc/", "/usr/src/rustc", "/lib/rustlib/src/rust/"];
/// Packages of Java that programs cannot, or must not, add to.
const JAVA: [&str; 5] = ["java.", "javax.", "jdk.", "sun.", "com.sun."];

/// Facts about all functions of a recording that decide about each one.
#[derive(Clone, Debug, Default)]
pub struct Libraries {
    /// Folders of the sources of Go's library, each with a slash at the end.
    go: BTreeSet<String>,
}

impl Libraries {
    /// Takes note of a function of the recording.
    pub fn add(&mut self, function: &Function) {
        if self.go.len() < MAX_GO && function.name.starts_with("runtime.") {
            let folder = function.file.as_deref().and_then(|file| file.rsplit_once("runtime/")).map(|(folder, _)| folder);
            self.go.extend(folder.filter(|folder| folder.ends_with('/')).map(str::to_owned));
        }
    }

    /// Returns whether a function belongs to the library or the runtime of its language.
    pub fn contain(&self, function: &Function) -> bool {
        let Function { name, file, .. } = function;
        function.runtime || has_name_of_library(name) || file.as_deref().is_some_and(|file| self.contain_file(file, function.interpreted))
    }

    fn contain_file(&self, file: &str, interpreted: bool) -> bool {
        let is_of_rust = RUST.iter().any(|folder| file.contains(folder)) && file.contains("/library/");
        let is_header = HEADERS.iter().any(|folder| file.contains(folder)) || file.contains("/lib/gcc/");
        let is_of_go = self.go.iter().any(|folder| file.starts_with(folder));
        is_of_rust || is_header || is_of_go || file.starts_with("node:") || interpreted && is_of_python(file)
    }
}

/// Modules of Python's own library. Installed packages are in a folder below it.
fn is_of_python(file: &str) -> bool {
    let within = file.split_once("/lib/python").or_else(|| file.split_once("/lib64/python"));
    file.starts_with("<frozen ") || within.is_some_and(|(_, rest)| !rest.contains("-packages/"))
}

/// Names that languages reserve for their libraries.
fn has_name_of_library(name: &str) -> bool {
    // C++ and Java: the type of the result may precede the name.
    let end = name.find(['(', '<']).unwrap_or(name.len());
    let own = name[..end].rsplit(' ').next().unwrap_or(name);
    let of_rust = name.strip_prefix('<').is_some_and(|rest| ["std::", "core::", "alloc::"].iter().any(|root| rest.starts_with(root)));
    let of_go = ["runtime.", "runtime/", "internal/", "syscall."].iter().any(|package| own.starts_with(package));
    let of_java = name.contains('(') && JAVA.iter().any(|package| own.starts_with(package));
    own.starts_with("std::") || of_rust || of_go || of_java
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(name: &str, file: &str) -> Function {
        let file = (!file.is_empty()).then(|| file.to_owned());
        Function { file, ..Function::named(name) }
    }

    #[test]
    fn functions_of_libraries_are_known_by_their_names_or_sources() {
        let mut all = Libraries::default();
        all.add(&at("runtime.mcall", "/opt/go/src/runtime/asm_amd64.s"));
        let of_library = [
            at("std::thread::sleep", ""),
            at("<alloc::vec::Vec<T> as core::ops::Index<I>>::index", ""),
            at("wrapping_mul", "/rustc/0123abc/library/core/src/num/mod.rs"),
            at("void std::this_thread::sleep_for<long, std::ratio<1l, 1l> >()", ""),
            at("operator[]", "/usr/lib/gcc/x86_64-linux-gnu/12/../../../../include/c++/12/bits/stl_vector.h"),
            at("time.Sleep", "/opt/go/src/time/sleep.go"),
            at("syscall.Syscall6", ""),
            at("java.lang.Thread.sleep(long)", ""),
            at("processTicksAndRejections", "node:internal/process/task_queues"),
            Function { interpreted: true, ..at("wait", "/usr/lib/python3.12/threading.py") },
            Function { runtime: true, ..at("Interpreter", "") },
        ];
        for function in of_library {
            assert!(all.contain(&function), "{function:?}");
        }
        let of_program = [
            at("computes", "/srv/library/a.c"),
            at("place::<impl std::fmt::Display for X>::fmt", "/srv/src/main.rs"),
            at("void work::sleep<std::chrono::seconds>(int)", "/srv/a.cc"),
            at("main.main", "/srv/main.go"),
            at("javafx.Main.run(java.lang.Object)", ""),
            Function { interpreted: true, ..at("handle", "/usr/lib/python3/dist-packages/app.py") },
            Function { interpreted: true, ..at("handle", "/usr/lib/python3.12/site-packages/app.py") },
        ];
        for function in of_program {
            assert!(!all.contain(&function), "{function:?}");
        }
    }
}
