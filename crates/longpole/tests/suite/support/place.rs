//! A folder for real recordings, with a runtime directory, recordings and programs of its own.
//!
//! The folder is removed at the end. If a test fails and `LONGPOLE_KEEP_FAILED` is set, its folder
//! stays.

use longpole_testing::alike;
use std::cell::Cell;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread::sleep;
use std::time::Duration;

/// The folder of one test.
pub struct Place {
    folder: tempfile::TempDir,
    /// True if recordings may be damaged, so that they are not compared with babeltrace2.
    damage: Cell<bool>,
}

impl Drop for Place {
    fn drop(&mut self) {
        if std::thread::panicking() && std::env::var_os("LONGPOLE_KEEP_FAILED").is_some() {
            self.folder.disable_cleanup(true);
            println!("kept: {}", self.folder.path().display());
        }
        if !std::thread::panicking() && !self.damage.get() {
            alike::check_all_with_babeltrace2(Path::new(env!("CARGO_BIN_EXE_longpole")), &self.path("traces"));
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

    /// Turns off the comparison with babeltrace2, for a test that damages its recordings: other
    /// tools need not read them as Longpole does.
    pub fn damages(&self) {
        self.damage.set(true);
    }

    /// Path of a file in the folder.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A command that uses this runtime directory and this folder for recordings. Its stdin is
    /// empty.
    pub fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new(program);
        command.env("LONGPOLE_RUNTIME_DIR", self.path("runtime")).env("LONGPOLE_ROOT", self.path("traces")).stdin(Stdio::null());
        command
    }

    /// The command `longpole ARGUMENTS`.
    pub fn longpole(&self, arguments: &[&str]) -> Command {
        let mut command = self.command(env!("CARGO_BIN_EXE_longpole"));
        let (verb, rest) = arguments.split_at(arguments.len().min(1));
        command.args(verb);
        // Most of these tests are about programs only, so the kernel and call stacks are not
        // recorded even if the user who runs the tests is root.
        if matches!(verb, ["record" | "start"]) {
            command.args(["--kernel", "none", "--stacks", "none"]);
        }
        command.args(rest);
        command
    }

    /// The JSON answer of a verb about a trace.
    pub fn answer(&self, verb: &str, trace: &Path) -> serde_json::Value {
        serde_json::from_slice(&ok(self.longpole(&[verb, "--json"]).arg(trace).output().unwrap()).stdout).unwrap()
    }

    /// Compiles a program of `tests/programs`. Returns its path.
    pub fn build(&self, name: &str, options: &[&str]) -> String {
        self.build_with(&["cc", "-std=gnu11"], name, name, options)
    }

    /// Compiles a program as C (`c`) or as C++ (`cpp`).
    pub fn build_as(&self, language: &str, name: &str, options: &[&str]) -> String {
        let compiler: &[&str] = if language == "cpp" { &["c++", "-std=gnu++17", "-xc++"] } else { &["cc", "-std=gnu11"] };
        self.build_with(compiler, name, &format!("{name}-{language}"), options)
    }

    /// Compiles a program with this compiler and language standard, into a file named `output`.
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

    /// All recordings, oldest first.
    pub fn recordings(&self) -> Vec<PathBuf> {
        let mut all: Vec<PathBuf> = std::fs::read_dir(self.path("traces")).unwrap().map(|entry| entry.unwrap().path()).collect();
        all.sort();
        all
    }

    /// The newest recording.
    pub fn newest(&self) -> PathBuf {
        self.recordings().pop().expect("a recording was made")
    }

    /// Starts `longpole record ARGUMENTS` and waits until it records.
    pub fn recorder(&self, arguments: &[&str]) -> Running {
        let child = Running::start(self.longpole(&["record"]).args(arguments).stdout(Stdio::null()).stderr(Stdio::piped()));
        // The recorder writes its pid into the session file together with its orders for programs.
        // This is the last step of its start.
        wait_for(|| {
            let status = ok(self.longpole(&["status", "--json"]).output().unwrap());
            serde_json::from_slice::<serde_json::Value>(&status.stdout).unwrap()["recording"]["pid"] == child.id()
        });
        child
    }
}

/// A child process that is killed at the latest when the value is dropped.
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

    /// Waits for the end of the process. Returns its output on stdout; stderr is empty.
    pub fn output(mut self) -> Output {
        let mut stdout = Vec::new();
        self.0.stdout.take().unwrap().read_to_end(&mut stdout).unwrap();
        Output { status: self.0.wait().unwrap(), stdout, stderr: Vec::new() }
    }
}

/// Time, in ns since boot, in which the hypervisor gave CPUs of this virtual host to others. A
/// thread's own clock may leave this time out; the switches of the thread include it.
pub fn stolen() -> u64 {
    let stat = std::fs::read_to_string("/proc/stat").unwrap();
    let ticks = stat.lines().next().and_then(|all| all.split_whitespace().nth(8)).map_or(0, |ticks| ticks.parse().unwrap());
    // The kernel reports ticks of 10 ms (`USER_HZ` = 100) to programs, whatever its own tick is.
    ticks * 10_000_000
}

/// Checks a condition every 10 ms until it is true. Panics after 30 s.
pub fn wait_for(mut done: impl FnMut() -> bool) {
    for _ in 0..3000 {
        if done() {
            return;
        }
        sleep(Duration::from_millis(10));
    }
    panic!("it never happened");
}

/// Sends a signal, given as an option of kill, for example `-INT`.
pub fn signal(child: &Child, number: &str) {
    assert!(Command::new("kill").args([number, &child.id().to_string()]).status().unwrap().success());
}

/// Returns the output of a command. Panics with it if the command failed.
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
