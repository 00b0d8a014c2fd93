//! The headers compile alone and together, with every compiler and standard, without a warning; and
//! the hot path has no more instructions than claimed.

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

/// Compilers with the standards that the probes support, as far as Debian's versions know them, the
/// oldest standard first.
const MATRIX: [(&str, &[&str]); 6] = [
    ("gcc", &["-std=c11", "-std=gnu11", "-std=c17", "-std=gnu17", "-std=c2x", "-std=gnu2x"]),
    ("clang", &["-std=c11", "-std=gnu11", "-std=c17", "-std=gnu17", "-std=gnu2x", "-std=c2x"]),
    ("aarch64-linux-gnu-gcc", &["-std=c11", "-std=gnu17", "-std=c2x"]),
    ("g++", &["-std=c++17", "-std=gnu++17", "-std=c++20", "-std=gnu++20", "-std=c++23", "-std=gnu++23"]),
    ("clang++", &["-std=c++17", "-std=gnu++17", "-std=c++20", "-std=gnu++20", "-std=gnu++2b", "-std=c++2b"]),
    ("aarch64-linux-gnu-g++", &["-std=c++17", "-std=gnu++20", "-std=c++23"]),
];

/// The headers that programs include; all others are parts of these.
const WHOLE: [&str; 7] = ["longpole.h", "tsc.h", "points.h", "utilisation.h", "auto.h", "sdt.h", "genode.h"];

/// Compiles a source with `arguments`. Returns `false`, and prints a note, if the compiler is not
/// installed.
fn must_compile(compiler: &str, arguments: &[&str], source: &Path, output: &Path) -> bool {
    match compile(compiler, arguments, source, output) {
        None => println!("skipped: headers with {compiler} (not installed)"),
        Some(result) => {
            result.unwrap_or_else(|e| panic!("{} with {compiler} {arguments:?}: {e}", source.display()));
            return true;
        }
    }
    false
}

#[test]
fn every_probe_compiles_without_a_warning_in_every_language_and_compiler() {
    let folder = scratch("headers");
    let source = repository().join("tests/programs/every_probe.c");
    let names = repository().join("tests/programs/names.cc");
    let unusual = repository().join("tests/programs/unusual_values.c");
    for (compiler, standards) in MATRIX {
        let cpp = compiler.ends_with("++");
        for (nth, standard) in standards.iter().enumerate() {
            // Code is generated for only one standard per compiler, because standards differ only
            // in syntax.
            let generate: &[&[&str]] = if nth == 0 { &[&["-O2"], &["-O1", "-DLONGPOLE_TLS_DYNAMIC"]] } else { &[] };
            let end = nth == 0 || nth == standards.len() - 1;
            let check: &[&[&str]] = &[&["-fsyntax-only"], &["-fsyntax-only", "-DLONGPOLE_DISABLE"]];
            let check = &check[..if end { 2 } else { 1 }];
            for options in check.iter().chain(generate) {
                let mut arguments = vec![*standard, if cpp { "-xc++" } else { "-xc" }];
                arguments.extend_from_slice(options);
                if !must_compile(compiler, &arguments, &source, &folder.join("every_probe")) {
                    break;
                }
                if end && arguments.contains(&"-fsyntax-only") {
                    must_compile(compiler, &arguments, &unusual, &folder.join("unusual_values"));
                }
                if cpp && end && arguments.contains(&"-fsyntax-only") {
                    must_compile(compiler, &arguments, &names, &folder.join("names"));
                }
            }
        }
    }
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn a_program_may_have_macros_of_the_names_of_categories_and_kinds() {
    let folder = scratch("macros");
    let source = repository().join("tests/programs/every_probe.c");
    let names = [
        "STATE",
        "SPAN",
        "MARK",
        "COUNTER",
        "RPC",
        "SIGNAL",
        "QUEUE",
        "LINK",
        "PACKET",
        "EVENT",
        "LOG",
        "SPAN_BEGIN",
        "RPC_CALL",
        "QUEUE_PUT",
    ];
    let macros = names.map(|name| format!("-D{name}=a macro of the program"));
    for compiler in ["gcc", "g++"] {
        let cpp = compiler.ends_with("++");
        let mut arguments = if cpp { vec!["-std=c++17", "-xc++", "-fsyntax-only"] } else { vec!["-std=c11", "-xc", "-fsyntax-only"] };
        arguments.extend(macros.iter().map(String::as_str));
        must_compile(compiler, &arguments, &source, &folder.join("macros"));
    }
    std::fs::remove_dir_all(folder).unwrap();
}

/// Compiles every header alone with one compiler: those that programs include in each standard, and
/// their parts, which only have to include what they need, in the oldest standard.
fn each_alone(folder: &Path, compiler: &str, standards: &[&str]) {
    let cpp = compiler.ends_with("++");
    let source = folder.join(format!("{compiler}.c"));
    let compiles = |headers: &[&str], options: &[&str]| {
        let includes: String = headers.iter().map(|header| format!("#include <longpole/{header}>\n")).collect();
        std::fs::write(&source, format!("{includes}int main(void) {{ return 0; }}\n")).unwrap();
        must_compile(compiler, &[options, &[if cpp { "-xc++" } else { "-xc" }, "-fsyntax-only"]].concat(), &source, folder)
    };
    for entry in std::fs::read_dir(repository().join("include/longpole")).unwrap() {
        let header = entry.unwrap().file_name().into_string().unwrap();
        if header == if cpp { "c.h" } else { "cpp.h" } {
            continue;
        }
        let standards = if WHOLE.contains(&header.as_str()) { standards } else { &standards[..1] };
        if !standards.iter().all(|standard| compiles(&[&header], &[standard])) {
            return;
        }
    }
    // Disabled headers have little syntax: alone in the oldest standard, together in the newest.
    // `sdt.h` must come before all others.
    let mut all = WHOLE;
    all.sort_by_key(|header| *header != "sdt.h");
    for header in all {
        compiles(&[header], &[standards[0], "-DLONGPOLE_DISABLE"]);
    }
    compiles(&all, &[standards[standards.len() - 1], "-DLONGPOLE_DISABLE"]);
    compiles(&all, &[standards[standards.len() - 1]]);
}

#[test]
fn each_header_compiles_alone_in_every_standard() {
    let folder = scratch("alone");
    assert!(WHOLE.iter().all(|header| repository().join("include/longpole").join(header).exists()));
    std::thread::scope(|scope| {
        for part in [&MATRIX[..4], &MATRIX[4..]] {
            let folder = &folder;
            scope.spawn(move || part.iter().for_each(|(compiler, standards)| each_alone(folder, compiler, standards)));
        }
    });
    std::fs::remove_dir_all(folder).unwrap();
}

/// The headers other than `longpole.h`: each kind of use compiles, and with `LONGPOLE_DISABLE`
/// evaluates nothing.
#[test]
fn every_tool_compiles_without_a_warning_in_every_compiler() {
    let folder = scratch("tools");
    let source = repository().join("tests/programs/tools.c");
    for (compiler, standards) in MATRIX {
        let language = if compiler.ends_with("++") { "-xc++" } else { "-xc" };
        for options in
            [&["-O2"][..], &["-O0", "-finstrument-functions"], &["-O2", "-DLONGPOLE_TLS_DYNAMIC"], &["-O1", "-DLONGPOLE_DISABLE"]]
        {
            let arguments = [&[standards[0], language], options].concat();
            if !must_compile(compiler, &arguments, &source, &folder.join("tools")) {
                break;
            }
            if options.contains(&"-DLONGPOLE_DISABLE") && !compiler.starts_with("aarch64") {
                let run = Command::new(folder.join("tools")).output().unwrap();
                assert!(run.status.success(), "{compiler}: {}", String::from_utf8_lossy(&run.stdout));
            }
        }
    }
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn utilisation_of_a_thread_equals_its_own_clock_and_ends_with_the_period() {
    let folder = scratch("utilisation");
    let (source, program) = (repository().join("tests/programs/utilisation.c"), folder.join("utilisation"));
    for (compiler, standards) in MATRIX {
        let cpp = compiler.ends_with("++");
        for options in [&["-O2"] as &[&str], &["-O2", "-DLONGPOLE_DISABLE"]] {
            let mut arguments = vec![standards[0], if cpp { "-xc++" } else { "-xc" }, "-pthread"];
            arguments.extend_from_slice(options);
            if !must_compile(compiler, &arguments, &source, &program) {
                break;
            }
            if compiler.starts_with("aarch64") {
                continue;
            }
            let run = Command::new(&program).output().unwrap();
            assert!(run.status.success());
            let text = String::from_utf8(run.stdout).unwrap();
            let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split(' ').collect()).collect();
            assert_eq!(lines.len(), 5, "{text}");
            for line in lines {
                let numbers: Vec<u64> = line[1..].iter().map(|word| word.parse().unwrap()).collect();
                let expected = u64::from(options.len() == 1 && line[0] != "nobody");
                assert_eq!(numbers[0], expected, "{compiler} {options:?}: {text}");
                if expected == 0 {
                    continue;
                }
                let (told, worked, total, cycles, cpus, schedules) =
                    (numbers[1], numbers[2], numbers[3], numbers[4], numbers[6], numbers[7]);
                // Waiting at a barrier also takes time, and the main thread counts the threads.
                assert!(told >= worked && told - worked < 15_000_000 && total > 60_000_000, "{compiler}: {text}");
                assert!(cycles > total / 100 && cpus > 0 && schedules < 1_000_000, "{compiler}: {text}");
            }
        }
    }
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn names_that_are_made_at_run_time_are_read_while_they_live() {
    let folder = scratch("names");
    let program = folder.join("names");
    let source = repository().join("tests/programs/names.cc");
    let runtime = folder.join("runtime");
    std::fs::create_dir(&runtime).unwrap();
    std::fs::set_permissions(&runtime, std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
    let sanitised = ["-std=c++17", "-g", "-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"];
    compile("g++", &sanitised, &source, &program).expect("g++ is given").unwrap();
    // Enables all categories in the shared memory: the control file belongs to the process and
    // exists before main.
    let text = std::fs::read_to_string(&source).unwrap();
    let on = text.replace("int main()\n{", "int main()\n{\n\tlongpole_page.orders.clock = 0;\n\tlongpole_page.orders.mask = ~0u;");
    assert_ne!(on, text);
    let recorded = folder.join("recorded.cc");
    std::fs::write(&recorded, on).unwrap();
    compile("g++", &sanitised, &recorded, &program).expect("g++ is given").unwrap();
    let run = Command::new(&program).env("LONGPOLE_RUNTIME_DIR", &runtime).output().unwrap();
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    let ring = std::fs::read_dir(&runtime).unwrap().map(|e| e.unwrap().path()).find(|p| p.extension().is_some_and(|e| e == "ring"));
    let bytes = std::fs::read(ring.expect("a ring was made")).unwrap();
    for name in [
        "machine::a name that is made at run time for a state",
        "time for a queue::full",
        "time for a log",
        "time for a packet",
        "time for a event",
    ] {
        assert!(bytes.windows(name.len()).any(|w| w == name.as_bytes()), "{name}");
    }
    std::fs::remove_dir_all(folder).unwrap();
}

const TOO_MANY: &str =
    "LONGPOLE_EVENT(\"many\", \"a\", 1, \"b\", 2, \"c\", 3, \"d\", 4, \"e\", 5, \"f\", 6, \"g\", 7, \"h\", 8, \"i\", 9, \"j\", 10, \
                        \"k\", 11, \"l\", 12, \"m\", 13, \"n\", 14, \"o\", 15, \"p\", 16, \"q\", 17);";

#[test]
fn a_library_with_probes_in_inline_functions_is_unloaded() {
    let folder = scratch("unloaded");
    let (library, loader, program) = (folder.join("library.so"), folder.join("loader.c"), folder.join("loader"));
    let text = "#include <dlfcn.h>\nint main(int count, char **path)\n{\n\tfor (int i = 0; i < 3; i++) {\n\t\tvoid *library = dlopen(path[count - 1], RTLD_NOW);\n\
                \t\tvoid (*all)(int) = (void (*)(int))(long)dlsym(library, \"all_of_library\");\n\t\tall(i);\n\t\tdlclose(library);\n\
                \t\tif (dlopen(path[count - 1], RTLD_NOW | RTLD_NOLOAD) != 0)\n\t\t\treturn 1;\n\t}\n\treturn 0;\n}\n";
    std::fs::write(&loader, text).unwrap();
    compile("gcc", &["-std=gnu11", "-Wno-pedantic"], &loader, &program).expect("gcc is given").unwrap();
    let source = repository().join("tests/programs/inline.cc");
    for compiler in ["g++", "clang++"] {
        if must_compile(compiler, &["-std=c++17", "-O2", "-fPIC", "-shared", "-DLIBRARY"], &source, &library) {
            let run = Command::new(&program).arg(&library).env("LONGPOLE_RUNTIME_DIR", &folder).output().unwrap();
            assert!(run.status.success(), "{compiler}: {}", run.status);
        }
    }
    std::fs::remove_dir_all(folder).unwrap();
}

const WRONG_NAME_C: &str = "the name of a probe must be a text (char *) or a handle (struct longpole_name *)";
const WRONG_NAME_CPP: &str =
    "the name of a probe must be a text (const char *, std::string, std::string_view), a longpole::Name or a longpole::Queue";
const EMPTY_NAME: &str = "the name of a probe must not be empty";
const TEXT_AS_NUMBER: &str = "the value of a counter must be a number, not a text";
const FIELD_WITHOUT_VALUE: &str = "each field of an event is a name";

#[test]
fn a_probe_that_is_used_wrongly_is_rejected_by_the_compiler_with_one_sentence_first() {
    let folder = scratch("refused");
    let both = [
        ("LONGPOLE_MARK(\"\");", EMPTY_NAME),
        ("LONGPOLE_SPAN(\"\");", EMPTY_NAME),
        ("LONGPOLE_STATE(\"machine\", \"\");", EMPTY_NAME),
        ("LONGPOLE_EVENT(\"\", \"field\", 1);", EMPTY_NAME),
        ("LONGPOLE_COUNTER(\"depth\", \"five\");", TEXT_AS_NUMBER),
        ("const char *text = \"five\"; LONGPOLE_COUNTER_HERE(text);", TEXT_AS_NUMBER),
        ("LONGPOLE_EVENT(\"unpaired\", \"field\");", FIELD_WITHOUT_VALUE),
        ("LONGPOLE_EVENT(\"unpaired\", \"field\", 1, \"other\");", FIELD_WITHOUT_VALUE),
        ("LONGPOLE_EVENT_HERE(\"field\");", FIELD_WITHOUT_VALUE),
        (TOO_MANY, "an event has up to 16 fields"),
    ];
    let c = [
        ("LONGPOLE_MARK(5);", WRONG_NAME_C),
        ("LONGPOLE_SPAN(1.5);", WRONG_NAME_C),
        ("int word = 0; LONGPOLE_EVENT(&word, \"field\", 1);", WRONG_NAME_C),
        (
            "static const struct longpole_name queue = LONGPOLE_NAME(\"q\"); LONGPOLE_QUEUE_PUT(&queue, 1);",
            "a struct longpole_name that is used by a probe must not be const",
        ),
    ];
    let cpp = [
        ("LONGPOLE_MARK(5);", WRONG_NAME_CPP),
        ("LONGPOLE_MARK(nullptr);", WRONG_NAME_CPP),
        ("LONGPOLE_SPAN(1.5);", WRONG_NAME_CPP),
        ("int word = 0; LONGPOLE_EVENT(&word, \"field\", 1);", WRONG_NAME_CPP),
        ("LONGPOLE_SPAN(std::string(\"temporary\"));", "the name of a span must outlive the span"),
        ("LONGPOLE_COUNTER(\"depth\", std::string(\"five\"));", TEXT_AS_NUMBER),
        ("LONGPOLE_EVENT(\"unnamed\", 1, 2);", FIELD_WITHOUT_VALUE),
        ("static const longpole::Queue queue{\"q\"}; LONGPOLE_QUEUE_PUT(queue, 1);", "used by a probe must not be const"),
    ];
    for (compiler, standards) in MATRIX {
        let is_cpp = compiler.ends_with("++");
        let own = if is_cpp { &cpp[..] } else { &c };
        for (nth, (statement, message)) in both.iter().chain(own).enumerate() {
            let source = folder.join(format!("refused{nth}.{}", if is_cpp { "cc" } else { "c" }));
            let include = if is_cpp { "#include <string>\n" } else { "" };
            std::fs::write(
                &source,
                format!("{include}#include <longpole/longpole.h>\nint main(void)\n{{\n\t{statement}\n\treturn 0;\n}}\n"),
            )
            .unwrap();
            let Some(result) = compile(compiler, &[standards[0], "-fsyntax-only"], &source, &folder.join("refused")) else {
                println!("skipped: wrong probes with {compiler} (not installed)");
                break;
            };
            let said = result.expect_err(statement);
            let first = said.lines().find(|line| line.contains("error:")).unwrap_or_default();
            assert!(first.contains(message), "{compiler}: {statement}: {said}");
        }
    }
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn on_unsupported_platforms_the_compiler_reports_only_that() {
    let folder = scratch("elsewhere");
    for header in WHOLE {
        let source = folder.join("elsewhere.c");
        let probe = if matches!(header, "points.h" | "utilisation.h") { "" } else { "LONGPOLE_MARK(\"mark\", 1); LONGPOLE_SPAN_HERE();" };
        std::fs::write(&source, format!("#include <longpole/{header}>\nint main(void)\n{{\n\t{probe}\n\treturn 0;\n}}\n")).unwrap();
        for (compiler, arguments, message) in [
            ("gcc", &["-std=c11", "-m32", "-fsyntax-only"][..], "run on Linux on x86-64 and arm64"),
            ("gcc", &["-std=c11", "-mx32", "-fsyntax-only"], "run on Linux on x86-64 and arm64"),
            ("clang", &["-std=c11", "-m32", "-fsyntax-only"], "run on Linux on x86-64 and arm64"),
            ("g++", &["-std=c++14", "-xc++", "-fsyntax-only"], "need C++17"),
            ("clang++", &["-std=c++11", "-xc++", "-fsyntax-only"], "need C++17"),
        ] {
            if cfg!(not(target_arch = "x86_64")) && !compiler.ends_with("++") {
                println!("skipped: headers for another machine (the options are those of x86-64)");
                continue;
            }
            let Some(result) = compile(compiler, arguments, &source, &folder) else {
                println!("skipped: headers for another machine with {compiler} (not installed)");
                continue;
            };
            let said = result.expect_err(message);
            let errors: Vec<&str> = said.lines().filter(|line| line.contains("error:")).collect();
            assert!(errors.len() == 1 && errors[0].contains(message), "{header}, {compiler} {arguments:?}: {said}");
            if !compiler.ends_with("++") {
                compile(compiler, &[arguments, &["-DLONGPOLE_DISABLE"]].concat(), &source, &folder)
                    .unwrap()
                    .unwrap_or_else(|e| panic!("{e}"));
            }
        }
    }
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn a_disabled_probe_evaluates_none_of_its_arguments() {
    let folder = scratch("unevaluated");
    let program = folder.join("unevaluated");
    let source = repository().join("tests/programs/unevaluated.c");
    for (compiler, language, standard) in [("gcc", "-xc", "-std=c11"), ("g++", "-xc++", "-std=c++17")] {
        for optimise in ["-O0", "-O2"] {
            compile(compiler, &[standard, language, optimise, "-DLONGPOLE_DISABLE"], &source, &program)
                .expect("gcc and g++ are given")
                .unwrap();
            let run = Command::new(&program).output().unwrap();
            assert!(run.status.success(), "{compiler} {optimise}: {}", String::from_utf8_lossy(&run.stdout));
        }
    }
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn a_disabled_probe_leaves_nothing_in_the_program() {
    let folder = scratch("disabled");
    let (source, object) = (folder.join("disabled.c"), folder.join("disabled.o"));
    let text =
        "#include <longpole/longpole.h>\nint f(int);\nint f(int x) { LONGPOLE_SPAN(\"a\"); LONGPOLE_MARK(\"b\", f(x)); return x; }\n";
    std::fs::write(&source, text).unwrap();
    compile("gcc", &["-O2", "-c", "-DLONGPOLE_DISABLE"], &source, &object).expect("gcc is given").unwrap();
    let symbols = Command::new("nm").arg(&object).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&symbols.stdout).lines().count(), 1, "only f itself");
    std::fs::remove_dir_all(folder).unwrap();
}

/// The instructions between two returns that contain the read of the counter: the path of an event
/// that finds room.
fn way(object: &Path, function: &str) -> Vec<String> {
    let name = format!("--disassemble={function}");
    let dump = Command::new("objdump").args(["-d", "--no-show-raw-insn", &name]).arg(object).output().unwrap();
    let text = String::from_utf8_lossy(&dump.stdout).into_owned();
    let code: Vec<&str> = text.lines().filter_map(|line| line.split('\t').nth(1)).collect();
    // A jump back to an earlier return also counts as a return.
    let is_return = |line: &&str| line.starts_with("ret") || line.starts_with("jmp");
    let at = code.iter().position(|line| line.starts_with("rdtsc")).unwrap_or_else(|| panic!("{function}: {text}"));
    let begin = code[..at].iter().rposition(&is_return).map_or(0, |at| at + 1);
    let end = code[at..].iter().position(is_return).map_or(code.len(), |end| at + end);
    code[begin..end].iter().map(|line| (*line).to_owned()).collect()
}

#[test]
fn a_span_of_a_scope_makes_no_call_in_cpp_either() {
    if cfg!(not(target_arch = "x86_64")) {
        println!("skipped: the instructions of a span (x86-64 only)");
        return;
    }
    let folder = scratch("scope");
    let (source, object) = (folder.join("scope.cc"), folder.join("scope.o"));
    let text =
        "#include <longpole/longpole.h>\nextern \"C\" void scope();\nvoid scope() { LONGPOLE_SPAN(\"s\"); __asm__ volatile(\"nop\"); }\n";
    std::fs::write(&source, text).unwrap();
    if must_compile("g++", &["-std=c++17", "-O2", "-c"], &source, &object) {
        // Rare cases are in a separate section of the code.
        let dump = Command::new("objdump").args(["-d", "--no-show-raw-insn", "--disassemble=scope"]).arg(&object).output().unwrap();
        let code = String::from_utf8(dump.stdout).unwrap();
        assert_eq!(code.matches("rdtsc").count(), 2, "{code}");
        assert_eq!(code.matches("\tcall").count(), 0, "{code}");
    }
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn a_probe_makes_no_call_and_takes_no_lock_on_the_fast_path() {
    if cfg!(not(target_arch = "x86_64")) {
        println!("skipped: the instructions of a probe (x86-64 only)");
        return;
    }
    let folder = scratch("hot");
    let (source, object) = (folder.join("hot.c"), folder.join("hot.o"));
    let probes = [
        ("mark", "LONGPOLE_MARK(\"m\", x)"),
        ("edge", "LONGPOLE_BEGIN(\"e\")"),
        ("gauge", "LONGPOLE_COUNTER(\"c\", x)"),
        ("queue", "LONGPOLE_QUEUE_PUT(\"q\", x)"),
        ("call", "LONGPOLE_RPC_CALL(\"r\", x)"),
        ("state", "LONGPOLE_STATE(\"machine\", \"state\")"),
    ];
    let body: String = probes
        .iter()
        .map(|(name, probe)| format!("void {name}(unsigned long x);\nvoid {name}(unsigned long x) {{ (void)x; {probe}; }}\n"))
        .collect();
    std::fs::write(&source, format!("#include <longpole/auto.h>\n{body}")).unwrap();
    for compiler in ["gcc", "clang"] {
        if !must_compile(compiler, &["-std=c11", "-O2", "-c"], &source, &object) {
            continue;
        }
        for name in probes.iter().map(|(name, _)| *name).chain(["__cyg_profile_func_enter", "__cyg_profile_func_exit"]) {
            let way = way(&object, name);
            for line in &way {
                let forbidden = ["lock", "call", "syscall", "xchg", "mfence"];
                assert!(!forbidden.iter().any(|one| line.starts_with(one)), "{compiler} {name}: {line}: {way:#?}");
            }
        }
    }
    std::fs::remove_dir_all(folder).unwrap();
}
