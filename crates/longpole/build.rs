//! Builds the small C programs of `longpole overhead`, which the command carries inside itself.
//! They are programs of their own because whatever links the probes becomes a subject of
//! recordings, and the recorder must not be one. Also makes the command itself smaller.

use std::env;
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

fn main() -> Result<(), Box<dyn Error>> {
    let source = Path::new(&variable("CARGO_MANIFEST_DIR")?).join("src/overhead/subject");
    let include = Path::new(&variable("CARGO_MANIFEST_DIR")?).join("../../include");
    let out = PathBuf::from(variable("OUT_DIR")?);
    println!("cargo::rerun-if-env-changed=CC");
    println!("cargo::rerun-if-changed=build.rs");
    if reads_compact_relocations() {
        // Half a megabyte less. Linkers that do not know this warn and ignore it.
        println!("cargo::rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
    }
    for directory in [&source, &include.join("longpole")] {
        println!("cargo::rerun-if-changed={}", directory.display());
        for file in fs::read_dir(directory)? {
            println!("cargo::rerun-if-changed={}", file?.path().display());
        }
    }
    let compiler = Compiler::new(include, &out);
    let object = |name: &str, file: &str, flags: &[&str]| -> Result<PathBuf, Box<dyn Error>> {
        let object = out.join(name);
        let mut command = compiler.command();
        command.args(flags).arg("-c").arg(source.join(file)).arg("-o").arg(&object);
        run(command)?;
        Ok(object)
    };
    let main = object("main.o", "main.c", &["-fPIE"])?;
    let on = object("on.o", "loops.c", &["-fPIE"])?;
    let off = object("compiled_out.o", "loops.c", &["-fPIE", "-DLONGPOLE_DISABLE"])?;
    let library_on = object("library_on.o", "loops.c", &["-fPIC"])?;
    let library_off = object("library_compiled_out.o", "loops.c", &["-fPIC", "-DLONGPOLE_DISABLE"])?;

    let mut link = compiler.command();
    link.arg("-pie").args([&main, &on, &off]).arg("-o").arg(out.join("subject")).args(["-ldl", "-lpthread"]);
    run(link)?;
    let mut link = compiler.command();
    link.arg("-shared").args([&library_on, &library_off]).arg("-o").arg(out.join("subject.so")).arg("-lpthread");
    run(link)
}

/// Returns true if the program is built for this host, whose C library is glibc 2.36 or later:
/// earlier ones do not apply relocations in the compact form.
fn reads_compact_relocations() -> bool {
    let is_for_here = env::var("HOST").ok() == env::var("TARGET").ok();
    let Ok(answer) = Command::new("getconf").arg("GNU_LIBC_VERSION").output() else { return false };
    let text = String::from_utf8_lossy(&answer.stdout);
    let version = text.trim().strip_prefix("glibc ").and_then(|version| version.split_once('.'));
    let version: Option<(u32, u32)> = version.and_then(|(major, minor)| Some((major.parse().ok()?, minor.parse().ok()?)));
    is_for_here && version.is_some_and(|version| version >= (2, 36))
}

struct Compiler {
    program: String,
    include: PathBuf,
    flags: Vec<&'static str>,
}

impl Compiler {
    fn new(include: PathBuf, out: &Path) -> Compiler {
        let program = env::var("CC").unwrap_or_else(|_| "cc".to_owned());
        let mut compiler = Compiler { program, include, flags: Vec::new() };
        // On some x86 processors a branch that touches a boundary of 32 bytes costs about half a
        // nanosecond. Where that falls is luck, and would decide whether "off" costs 0.0 or 0.6 ns;
        // so nobody has such branches here, the empty loop included.
        let aligned = "-Wa,-mbranches-within-32B-boundaries";
        let probe = out.join("probe.c");
        let accepted = fs::write(&probe, "int main(void) { return 0; }\n").is_ok()
            && Command::new(&compiler.program)
                .args([aligned, "-c"])
                .arg(&probe)
                .arg("-o")
                .arg(out.join("probe.o"))
                .output()
                .is_ok_and(|result| result.status.success());
        if accepted {
            compiler.flags.push(aligned);
        }
        compiler
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.args(["-O2", "-std=gnu11", "-Wall", "-Wextra"]).args(&self.flags).arg("-I").arg(&self.include);
        command
    }
}

fn variable(name: &str) -> Result<String, Box<dyn Error>> {
    env::var(name).map_err(|e| format!("{name}: {e}").into())
}

fn run(mut command: Command) -> Result<(), Box<dyn Error>> {
    let result = command.output().map_err(|e| format!("{command:?}: {e}: a C compiler is needed"))?;
    if !result.status.success() {
        return Err(format!("{command:?}: {}\n{}", result.status, String::from_utf8_lossy(&result.stderr)).into());
    }
    Ok(())
}
