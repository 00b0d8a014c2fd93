//! A place of its own for real recordings: runtime directory, recordings, programs. Removed at the end; that of a test that failed stays
//! where LONGPOLE_KEEP_FAILED is set.
#![allow(dead_code)]

#[path = "alike.rs"]
pub mod alike;

use std::cell::Cell;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread::sleep;
use std::time::Duration;

pub struct Place {
    folder: tempfile::TempDir,
    damage: Cell<bool>,
}

impl Drop for Place {
    fn drop(&mut self) {
        if std::thread::panicking() && std::env::var_os("LONGPOLE_KEEP_FAILED").is_some() {
            self.folder.disable_cleanup(true);
            println!("kept: {}", self.folder.path().display());
        }
        if !std::thread::panicking() && !self.damage.get() {
            alike::hold_all(Path::new(env!("CARGO_BIN_EXE_longpole")), &self.path("traces"));
        }
    }
}

impl Place {
    pub fn new() -> Place {
        let place = Place { folder: tempfile::tempdir().unwrap(), damage: Cell::new(false) };
        for name in ["runtime", "traces"] {
            let path = place.path(name);
            std::fs::create_dir(&path).unwrap();
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o700)).unwrap();
        }
        place
    }

    /// The point of the test is damage: other tools need not read its recordings as we do.
    pub fn damages(&self) {
        self.damage.set(true);
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new(program);
        command.env("LONGPOLE_RUNTIME_DIR", self.path("runtime")).env("LONGPOLE_ROOT", self.path("traces")).stdin(Stdio::null());
        command
    }

    pub fn longpole(&self, arguments: &[&str]) -> Command {
        let mut command = self.command(env!("CARGO_BIN_EXE_longpole"));
        let (verb, rest) = arguments.split_at(arguments.len().min(1));
        command.args(verb);
        // Programs are what these tests are about, whoever runs them.
        if matches!(verb, ["record" | "start"]) {
            command.args(["--kernel", "none", "--stacks", "none"]);
        }
        command.args(rest);
        command
    }

    /// What a verb answers with `--json` of a trace.
    pub fn answer(&self, verb: &str, trace: &Path) -> serde_json::Value {
        serde_json::from_slice(&ok(self.longpole(&[verb, "--json"]).arg(trace).output().unwrap()).stdout).unwrap()
    }

    /// Compiles one of `tests/programs`.
    pub fn build(&self, name: &str, options: &[&str]) -> String {
        self.build_with(&["cc", "-std=gnu11"], name, name, options)
    }

    /// As C or as C++ ("c", "cpp").
    pub fn build_as(&self, language: &str, name: &str, options: &[&str]) -> String {
        let compiler: &[&str] = if language == "cpp" { &["c++", "-std=gnu++17", "-xc++"] } else { &["cc", "-std=gnu11"] };
        self.build_with(compiler, name, &format!("{name}-{language}"), options)
    }

    /// With a compiler and its standard, under a name of its own.
    pub fn build_with(&self, compiler: &[&str], name: &str, output: &str, options: &[&str]) -> String {
        let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let output = self.path(output);
        let run = Command::new(compiler[0])
            .args(&compiler[1..])
            .args(["-O2", "-Wall", "-Wextra", "-Werror", "-pthread", "-I"])
            .arg(repository.join("include"))
            .arg(repository.join("tests/programs").join(name).with_extension("c"))
            .args(options)
            .arg("-o")
            .arg(&output)
            .output()
            .unwrap();
        assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
        output.to_str().unwrap().to_owned()
    }

    /// The recordings so far, oldest first.
    pub fn recordings(&self) -> Vec<PathBuf> {
        let mut all: Vec<PathBuf> = std::fs::read_dir(self.path("traces")).unwrap().map(|entry| entry.unwrap().path()).collect();
        all.sort();
        all
    }

    pub fn newest(&self) -> PathBuf {
        self.recordings().pop().expect("a recording was made")
    }

    /// Starts `longpole record ARGUMENTS` and waits until it records.
    pub fn recorder(&self, arguments: &[&str]) -> Running {
        let child = Running::start(self.longpole(&["record"]).args(arguments).stdout(Stdio::null()).stderr(Stdio::piped()));
        // It says who it is together with its orders to programs, and last of all.
        wait_for(|| {
            let status = ok(self.longpole(&["status", "--json"]).output().unwrap());
            serde_json::from_slice::<serde_json::Value>(&status.stdout).unwrap()["recording"]["pid"] == child.id()
        });
        child
    }
}

/// A child that does not outlive its test.
pub struct Running(Child);

impl std::ops::Deref for Running {
    type Target = Child;

    fn deref(&self) -> &Child {
        &self.0
    }
}

impl std::ops::DerefMut for Running {
    fn deref_mut(&mut self) -> &mut Child {
        &mut self.0
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Running {
    pub fn start(command: &mut Command) -> Running {
        Running(command.spawn().unwrap())
    }

    /// What it printed until its end.
    pub fn output(mut self) -> Output {
        let mut stdout = Vec::new();
        self.0.stdout.take().unwrap().read_to_end(&mut stdout).unwrap();
        Output { status: self.0.wait().unwrap(), stdout, stderr: Vec::new() }
    }
}

/// How long the host of this virtual machine has kept CPUs away from it so far, in ns. A thread's own clock may leave that out; its switches do not.
pub fn stolen() -> u64 {
    let stat = std::fs::read_to_string("/proc/stat").unwrap();
    let ticks = stat.lines().next().and_then(|all| all.split_whitespace().nth(8)).map_or(0, |ticks| ticks.parse().unwrap());
    // The kernel tells programs of ticks of 10 ms, however long its own are.
    ticks * 10_000_000
}

pub fn wait_for(mut done: impl FnMut() -> bool) {
    for _ in 0..3000 {
        if done() {
            return;
        }
        sleep(Duration::from_millis(10));
    }
    panic!("it never happened");
}

pub fn signal(child: &Child, number: &str) {
    assert!(Command::new("kill").args([number, &child.id().to_string()]).status().unwrap().success());
}

pub fn ok(output: Output) -> Output {
    assert!(
        output.status.success(),
        "{}: {}{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    output
}
