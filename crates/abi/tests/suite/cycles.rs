//! The cycle counters that need no recorder: their output must match what the programs did.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

struct Program {
    folder: PathBuf,
    path: PathBuf,
}

impl Program {
    /// Compiles a program of `tests/programs`.
    fn build(name: &str, compiler: &str, options: &[&str]) -> Program {
        let folder =
            std::env::temp_dir().join(format!("longpole-{name}-{}-{}-{:?}", compiler, std::process::id(), std::thread::current().id()));
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(folder.join("runtime")).unwrap();
        std::fs::set_permissions(folder.join("runtime"), std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
        let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let path = folder.join(name);
        let language: &[&str] = if compiler == "g++" { &["-xc++", "-std=c++17"] } else { &["-std=c11"] };
        let run = Command::new(compiler)
            .args(["-O2", "-Wall", "-Wextra", "-Werror", "-pedantic", "-pthread", "-I"])
            .arg(repository.join("include"))
            .args(language)
            .args(options)
            .arg(repository.join("tests/programs").join(name).with_extension("c"))
            .arg("-o")
            .arg(&path)
            .output()
            .unwrap();
        assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
        Program { folder, path }
    }

    fn run(&self, arguments: &[&str], label: &str) -> (String, String) {
        let mut command = Command::new(&self.path);
        command.args(arguments).env("LONGPOLE_RUNTIME_DIR", self.folder.join("runtime")).env_remove("LONGPOLE_LABEL");
        if !label.is_empty() {
            command.env("LONGPOLE_LABEL", label);
        }
        let Output { status, stdout, stderr } = command.output().unwrap();
        assert!(status.success());
        (String::from_utf8(stdout).unwrap(), String::from_utf8(stderr).unwrap())
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// Parses `[label] TSC name: SUM (CALLS calls, last LAST)`; numbers with a unit are expanded.
fn line(text: &str) -> (&str, &str, [u64; 3]) {
    let (label, rest) = text.strip_prefix('[').unwrap().split_once("] TSC ").unwrap();
    let (name, rest) = rest.split_once(": ").unwrap();
    let (sum, rest) = rest.split_once(" (").unwrap();
    let (calls, rest) = rest.split_once(" calls, last ").unwrap();
    let last = rest.strip_suffix(')').unwrap();
    let number = |text: &str| match (text.trim_end_matches(['K', 'M', 'G']).parse::<u64>().unwrap(), text.chars().last().unwrap()) {
        (number, unit @ ('K' | 'M' | 'G')) => {
            assert!(number >= 100, "{text}: smaller ones are written out");
            number * [1_000, 1_000_000, 1_000_000_000]["KMG".find(unit).unwrap()]
        }
        (number, _) => number,
    };
    (label, name, [number(sum), number(calls), number(last)])
}

#[test]
fn a_scope_prints_its_sum_its_calls_and_the_last_of_them() {
    for compiler in ["gcc", "g++"] {
        let program = Program::build("tsc", compiler, &[]);
        let (whole, said) = program.run(&["calls"], "system -> part");
        let lines: Vec<_> = said.lines().map(line).collect();
        let calls: Vec<u64> = lines.iter().map(|line| line.2[1]).collect();
        assert_eq!(calls, [3, 6, 9], "{said}");
        assert!(lines.iter().all(|line| (line.0, line.1) == ("system -> part", "calls")), "{said}");
        let [first, second, third] = [lines[0].2, lines[1].2, lines[2].2];
        assert!(first[2] >= 20_000 && first[0] >= 60_000 && second[0] + 1_000 > first[0] + 60_000, "{said}");
        // The ninth call took 30 million cycles.
        assert!(third[2] >= 30_000_000 && third[0] >= second[0] + 30_000_000 && third[0] <= whole.trim().parse().unwrap(), "{said}");
        assert!(said.lines().nth(2).unwrap().contains(['K', 'M']), "{said}");
    }
}

#[test]
fn recursion_counts_every_call_and_the_time_of_the_outermost() {
    let program = Program::build("tsc", "gcc", &[]);
    let (whole, said) = program.run(&["recursion"], "");
    let (label, name, [sum, calls, last]) = line(said.trim_end());
    assert_eq!((label, name, calls), ("tsc", "fib", 21_891), "{said}");
    // If the time of each call were counted, the sum would be some ten times as large.
    assert!(sum == last && sum <= whole.trim().parse().unwrap(), "{said}{whole}");
}

#[test]
fn threads_lose_no_call_without_a_lock() {
    let program = Program::build("tsc", "gcc", &[]);
    let (_, said) = program.run(&["threads"], "");
    let lines: Vec<_> = said.lines().map(line).collect();
    // Twice by each thread, and once by the main thread after the others had added their sums.
    assert_eq!(lines.len(), 9, "{said}");
    assert_eq!(lines[8].2[1], 110_000, "{said}");
    assert!(lines.iter().all(|line| line.1 == "shared" && line.2[1] % 5_000 == 0), "{said}");
}

#[test]
fn names_of_any_length_yield_one_line() {
    let program = Program::build("tsc", "gcc", &[]);
    let (_, said) = program.run(&["names"], &"l".repeat(400));
    let lines: Vec<_> = said.lines().map(line).collect();
    let calls: Vec<u64> = lines.iter().map(|line| line.2[1]).collect();
    assert_eq!(calls, [1, 2, 1], "{said}");
    assert!(lines.iter().all(|line| line.0.len() >= 200 && line.0.chars().all(|c| c == 'l')), "{said}");
    assert!(lines[0].1.len() >= 200 && lines[0].1.chars().all(|c| c == 'x') && lines[2].1.is_empty(), "{said}");
}

#[test]
fn a_library_with_many_scopes_can_be_loaded_at_run_time() {
    let program = Program::build("tsc", "gcc", &[]);
    let scopes: String = (0..100).map(|n| format!("void f{n}(void);\nvoid f{n}(void) {{ LONGPOLE_LOG_TSC(1); }}\n")).collect();
    let loader = "#include <dlfcn.h>\nint main(void) { void *l = dlopen(LIBRARY, RTLD_NOW); void *f = l ? dlsym(l, \"f99\") : 0;
                  if (!f) return 1; ((void (*)(void))f)(); return 0; }";
    let library = program.folder.join("library");
    let compile = |name: &str, text: &str, options: &[&str]| {
        let source = program.folder.join(name).with_extension("c");
        std::fs::write(&source, text).unwrap();
        let mut compiler = Command::new("gcc");
        compiler.arg("-O2").arg(format!("-DLIBRARY=\"{}\"", library.display())).arg("-I");
        compiler.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../include")).arg(&source).args(options);
        assert!(compiler.arg("-o").arg(program.folder.join(name)).status().unwrap().success());
    };
    compile("library", &format!("#include <longpole/tsc.h>\n{scopes}"), &["-shared", "-fPIC"]);
    compile("tsc", loader, &["-ldl"]);
    let (_, said) = program.run(&[], "");
    let (label, name, [_, calls, _]) = line(said.trim_end());
    assert_eq!((label, name, calls), ("tsc", "f99", 1), "{said}");
}

#[test]
fn disabled_counters_print_nothing() {
    for name in ["tsc", "points"] {
        let program = Program::build(name, "g++", &["-DLONGPOLE_DISABLE"]);
        assert_eq!(program.run(&["calls"], "").1, "");
    }
}

/// Samples, minimum, maximum, mean, sigma, sigma in percent, cost, cost around it.
fn results(text: &str) -> std::collections::BTreeMap<u32, [f64; 8]> {
    let row = |line: &str| {
        let words: Vec<f64> = line.split(' ').map(|word| word.parse().unwrap()).collect();
        (words[0] as u32, words[1..].try_into().unwrap())
    };
    text.lines().map(row).collect()
}

#[test]
fn trace_points_nest_interleave_and_count_pairs_only() {
    for compiler in ["gcc", "g++"] {
        let program = Program::build("points", compiler, &[]);
        let (told, said) = program.run(&[], "");
        assert_eq!(said, "", "what was reset is not printed at the end");
        let points = results(&told);
        let samples: Vec<(u32, f64)> = points.iter().map(|(&number, row)| (number, row[0])).collect();
        assert_eq!(samples, [(0, 2000.0), (1, 2000.0), (2, 2000.0), (3, 500.0), (5, 6000.0), (7, 1.0)], "{told}");
        let [_, minimum, maximum, mean, sigma, percent, cost, _] = points[&2];
        assert!(cost > 0.0 && cost < 1000.0, "{told}");
        // 1000 and 5000 cycles alternately; more if the thread loses its CPU.
        assert!((900.0..1500.0).contains(&minimum) && maximum >= 4900.0 && mean >= 2900.0 && sigma >= 1900.0, "{told}");
        assert!((percent - 100.0 * sigma / mean).abs() < 0.01, "{told}");
        let (outer, inner) = (points[&0], points[&1]);
        assert!(inner[1] >= 1900.0 && outer[1] >= 2900.0 && outer[3] >= inner[3] + 2000.0, "{told}");
        // There is no code between the second start and its stop.
        assert!(points[&7][1] < 500_000.0 && points[&5][1] < 500.0, "{told}");
        assert_eq!(points[&7][4], 0.0, "one sample has no deviation");
    }
}

#[test]
fn the_end_of_the_program_prints_results_that_were_not_printed() {
    let program = Program::build("points", "gcc", &[]);
    let (told, said) = program.run(&["rest"], "the label");
    assert!(said.starts_with("[the label] trace points, in cycles\n"), "{said}");
    let rows: Vec<Vec<&str>> = said.lines().skip(2).map(|line| line.split_whitespace().collect()).collect();
    for (number, row) in results(&told) {
        let printed = rows.iter().find(|words| words[0] == number.to_string()).unwrap_or_else(|| panic!("{number}: {said}"));
        let whole: Vec<f64> = printed[1..].iter().map(|word| word.parse().unwrap()).collect();
        assert_eq!(whole[..3], row[..3], "{said}{told}");
        assert!(whole[3..].iter().zip(&row[3..]).all(|(a, b)| (a - b).abs() < 0.11), "{said}{told}");
    }
}
