//! A temporary directory for recordings made by the command and for the programs of these tests;
//! removed at the end.

use longpole_testing::alike;
use serde_json::Value;
use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// The directory of the binaries that cargo has built.
fn built() -> PathBuf {
    let own = std::env::current_exe().unwrap();
    own.parent().unwrap().parent().unwrap().to_owned()
}

/// A program of this crate that `cargo test` has built.
pub fn example(name: &str) -> PathBuf {
    let path = built().join("examples").join(name);
    assert!(path.exists(), "{} was not built", path.display());
    path
}

pub fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

pub struct Place {
    folder: tempfile::TempDir,
}

impl Drop for Place {
    /// Checks that babeltrace2 reads the recordings like this crate; see [`alike`].
    fn drop(&mut self) {
        if !std::thread::panicking() {
            alike::check_all_with_babeltrace2(&built().join("longpole"), &self.path("traces"));
        }
    }
}

impl Place {
    pub fn new() -> Place {
        let place = Place { folder: tempfile::tempdir().unwrap() };
        for name in ["runtime", "traces"] {
            let path = place.path(name);
            std::fs::create_dir(&path).unwrap();
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o700)).unwrap();
        }
        place
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
        let path = built().join("longpole");
        assert!(path.exists(), "{} was not built: cargo build --release -p longpole", path.display());
        let mut command = self.command(path);
        command.args(arguments);
        command
    }

    /// The command of a recorder without kernel events.
    pub fn recorder(&self, arguments: &[&str]) -> Command {
        let mut command = self.longpole(&["record", "--kernel", "none", "--stacks", "none"]);
        command.args(arguments);
        command
    }

    /// Records a command; returns what it printed.
    pub fn record(&self, options: &[&str], program: &Path, arguments: &[&str]) -> String {
        let output = ok(self.recorder(options).arg("--").arg(program).args(arguments).output().unwrap());
        String::from_utf8(output.stdout).unwrap()
    }

    /// The newest recording.
    pub fn recording(&self) -> PathBuf {
        let all = std::fs::read_dir(self.path("traces")).unwrap().map(|entry| entry.unwrap().path());
        all.max().expect("a recording was made")
    }

    pub fn events(&self) -> Vec<Value> {
        let output = ok(self.longpole(&["print", "--json"]).arg(self.recording()).output().unwrap());
        String::from_utf8(output.stdout).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    pub fn info(&self) -> Value {
        serde_json::from_slice(&ok(self.longpole(&["info", "--json"]).arg(self.recording()).output().unwrap()).stdout).unwrap()
    }

    /// Number of events by name, and number of lost events.
    pub fn counts(&self) -> (BTreeMap<String, u64>, u64) {
        let info = self.info();
        let names = info["names"].as_object().unwrap().iter().map(|(name, count)| (name.clone(), count.as_u64().unwrap()));
        (names.collect(), info["lost"].as_u64().unwrap())
    }

    /// The output of babeltrace2 for the events of programs, one line per event; `None` if it is
    /// not installed.
    pub fn babeltrace(&self) -> Option<Vec<String>> {
        let Ok(output) = Command::new("babeltrace2").arg(self.recording().join("user")).output() else {
            println!("skipped: reading with babeltrace2 (not installed)");
            return None;
        };
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Some(String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect())
    }

    /// Compiles a C program with additional options.
    pub fn compile(&self, source: &Path, name: &str, options: &[&str]) -> PathBuf {
        let output = self.path(name);
        let mut command = Command::new("cc");
        command.args(["-std=gnu11", "-O2", "-pthread", "-I"]).arg(repository().join("include")).arg(source);
        ok(command.args(options).arg("-o").arg(&output).output().unwrap());
        output
    }
}

pub fn ok(output: Output) -> Output {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    output
}

/// Numbers of the events with this name by thread, in the order of the trace.
pub fn numbers(events: &[Value], name: &str) -> BTreeMap<(i64, i64), Vec<u64>> {
    let mut threads: BTreeMap<(i64, i64), Vec<u64>> = BTreeMap::new();
    for event in events.iter().filter(|event| event["name"] == name) {
        let (context, number) = (&event["context"], event["fields"]["data"].as_u64().unwrap());
        threads.entry((context["pid"].as_i64().unwrap(), context["tid"].as_i64().unwrap())).or_default().push(number);
    }
    threads
}
