//! The headers compile alone and together, everywhere, without a warning; and the hot path is what it claims to be.

use std::path::{Path, PathBuf};
use std::process::Command;

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn scratch(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("longpole-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

/// Runs a compiler; `None` if it is not installed.
fn compile(compiler: &str, arguments: &[&str], source: &Path, output: &Path) -> Option<Result<(), String>> {
    let run = Command::new(compiler)
        .args(["-Wall", "-Wextra", "-Werror", "-pedantic", "-I"])
        .arg(repository().join("include"))
        .args(arguments)
        .arg(source)
        .arg("-o")
        .arg(output)
        .output()
        .ok()?;
    Some(if run.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&run.stderr).into_owned()) })
}

#[test]
fn every_probe_compiles_without_a_warning_in_every_language_and_compiler() {
    let folder = scratch("headers");
    let source = repository().join("tests/programs/every_probe.c");
    let matrix: [(&str, &[&str]); 6] = [
        ("gcc", &["-std=c11", "-std=c17", "-std=gnu11", "-std=gnu2x"]),
        ("clang", &["-std=c11", "-std=c17", "-std=gnu11"]),
        ("aarch64-linux-gnu-gcc", &["-std=c11", "-std=c17"]),
        ("g++", &["-std=c++17", "-std=c++20", "-std=gnu++23"]),
        ("clang++", &["-std=c++17", "-std=c++20"]),
        ("aarch64-linux-gnu-g++", &["-std=c++17", "-std=c++20"]),
    ];
    for (compiler, standards) in matrix {
        let cpp = compiler.ends_with("++");
        for (nth, standard) in standards.iter().enumerate() {
            // Code is generated for one standard of each compiler: what differs between standards is syntax.
            let generate: &[&[&str]] = if nth == 0 { &[&["-O2"], &["-O1", "-DLONGPOLE_TLS_DYNAMIC"]] } else { &[] };
            let check: &[&[&str]] = &[&["-fsyntax-only"], &["-fsyntax-only", "-DLONGPOLE_DISABLE"]];
            for options in check.iter().chain(generate) {
                let mut arguments = vec![*standard, if cpp { "-xc++" } else { "-xc" }];
                arguments.extend_from_slice(options);
                match compile(compiler, &arguments, &source, &folder.join("every_probe")) {
                    None => {
                        println!("skipped: headers with {compiler} (not installed)");
                        break;
                    }
                    Some(result) => result.unwrap_or_else(|e| panic!("{compiler} {arguments:?}: {e}")),
                }
            }
        }
    }
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn each_header_compiles_alone() {
    let folder = scratch("alone");
    for entry in std::fs::read_dir(repository().join("include/longpole")).unwrap() {
        let header = entry.unwrap().file_name().into_string().unwrap();
        let source = folder.join("alone.c");
        std::fs::write(&source, format!("#include <longpole/{header}>\nint main(void) {{ return 0; }}\n")).unwrap();
        let languages: &[(&str, [&str; 3])] = match header.as_str() {
            "c.h" => &[("gcc", ["-std=c11", "-xc", "-fsyntax-only"])],
            "cpp.h" => &[("g++", ["-std=c++17", "-xc++", "-fsyntax-only"])],
            _ => &[("gcc", ["-std=c11", "-xc", "-fsyntax-only"]), ("g++", ["-std=c++17", "-xc++", "-fsyntax-only"])],
        };
        for (compiler, arguments) in languages {
            compile(compiler, arguments, &source, &folder.join("alone"))
                .expect("gcc and g++ are given")
                .unwrap_or_else(|e| panic!("{header} with {compiler}: {e}"));
        }
    }
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn a_disabled_probe_leaves_nothing_in_the_program() {
    let folder = scratch("disabled");
    let (source, object) = (folder.join("disabled.c"), folder.join("disabled.o"));
    let text = "#include <longpole/longpole.h>\nint f(int);\nint f(int x) { LONGPOLE_SPAN(\"a\"); LONGPOLE_MARK(\"b\", f(x)); return x; }\n";
    std::fs::write(&source, text).unwrap();
    compile("gcc", &["-O2", "-c", "-DLONGPOLE_DISABLE"], &source, &object).expect("gcc is given").unwrap();
    let symbols = Command::new("nm").arg(&object).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&symbols.stdout).lines().count(), 1, "only f itself");
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn a_mark_makes_no_call_and_takes_no_lock_on_its_way() {
    let folder = scratch("hot");
    let (source, object) = (folder.join("hot.c"), folder.join("hot.o"));
    let text = "#include <longpole/longpole.h>\nvoid hot(unsigned long);\nvoid hot(unsigned long x) { LONGPOLE_MARK(\"m\", x); }\n";
    std::fs::write(&source, text).unwrap();
    compile("gcc", &["-O2", "-c"], &source, &object).expect("gcc is given").unwrap();
    let dump = Command::new("objdump").args(["-d", "--no-show-raw-insn", "--disassemble=hot"]).arg(&object).output().unwrap();
    let text = String::from_utf8_lossy(&dump.stdout).into_owned();
    if cfg!(target_arch = "x86_64") {
        // Everything between the load of the enable word and the first return is the way of an event that finds room.
        assert!(text.contains("rdtsc"), "{text}");
        let hot: Vec<&str> = text.lines().take_while(|line| !line.contains("ret")).collect();
        for line in hot {
            assert!(!line.contains("lock") && !line.contains("call") && !line.contains("syscall"), "{line}\n{text}");
        }
    }
    std::fs::remove_dir_all(folder).unwrap();
}
