//! What a user sees on a terminal: colours, the pager, the progress bar. The command runs on a
//! pseudo-terminal; what it writes there is compared with what it writes into a pipe.

use rustix::fs::{Mode, OFlags};
use rustix::pty::{grantpt, openpt, ptsname, unlockpt, OpenptFlags};
use rustix::termios::{tcsetwinsize, Winsize};
use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use tempfile::TempDir;

/// A pseudo-terminal of 80 columns and 24 lines.
struct Terminal {
    master: File,
    slave: OwnedFd,
}

impl Terminal {
    fn new() -> Terminal {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
        let name = ptsname(&master, Vec::new()).unwrap();
        let slave = rustix::fs::open(name, OFlags::RDWR | OFlags::NOCTTY, Mode::empty()).unwrap();
        tcsetwinsize(&slave, Winsize { ws_row: 24, ws_col: 80, ws_xpixel: 0, ws_ypixel: 0 }).unwrap();
        Terminal { master: File::from(master), slave }
    }

    fn stdio(&self) -> Stdio {
        Stdio::from(self.slave.try_clone().unwrap())
    }

    /// Returns all that is written until every process has closed the terminal.
    fn content(self) -> String {
        drop(self.slave);
        let (mut master, mut bytes, mut part) = (self.master, Vec::new(), [0; 4096]);
        // Linux reports the end as an error.
        while let Ok(count @ 1..) = master.read(&mut part) {
            bytes.extend_from_slice(&part[..count]);
        }
        String::from_utf8_lossy(&bytes).replace("\r\n", "\n")
    }
}

/// The command `longpole ARGUMENTS`, without variables of the environment that concern output.
fn longpole(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_longpole"));
    for name in ["NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE", "LONGPOLE_PAGER", "PAGER", "LESS", "COLUMNS", "CI"] {
        command.env_remove(name);
    }
    command.env("TERM", "xterm-256color").args(arguments).stdin(Stdio::null());
    command
}

/// Runs the command with stdout on a terminal. Returns what it wrote there, and its status.
fn on_terminal(mut command: Command) -> (String, ExitStatus) {
    let terminal = Terminal::new();
    let mut child = command.stdout(terminal.stdio()).stderr(Stdio::null()).spawn().unwrap();
    drop(command);
    let content = terminal.content();
    (content, child.wait().unwrap())
}

fn in_pipe(mut command: Command) -> String {
    String::from_utf8(command.output().unwrap().stdout).unwrap()
}

/// Writes a machine log in which a machine is in `states` different states.
fn log(directory: &Path, states: usize) -> PathBuf {
    let path = directory.join(format!("{states}.jsonl"));
    let mut text = String::new();
    for at in 0..states {
        text.push_str(&format!("{{\"t\":{},\"machine\":\"A\",\"state\":\"state{at}\"}}\n", at * 10));
    }
    text.push_str(&format!("{{\"t\":{},\"end\":\"A\"}}\n", states * 10));
    fs::write(&path, text).unwrap();
    path
}

const ESCAPE: char = '\u{1b}';

#[test]
fn output_is_coloured_on_a_terminal_unless_the_user_or_the_terminal_does_not_want_it() {
    let directory = TempDir::new().unwrap();
    let log = log(directory.path(), 3);
    let path = |arguments: &[&str]| longpole(&[&["path", log.to_str().unwrap()], arguments].concat());
    let with = |name: &str, value: &str| {
        let mut command = path(&[]);
        command.env(name, value);
        command
    };
    let coloured = on_terminal(path(&[])).0;
    assert!(coloured.contains(ESCAPE), "{coloured:?}");
    for plain in [
        with("NO_COLOR", "1"),
        with("TERM", "dumb"),
        path(&["--color", "never"]),
        path(&["--json", "--no-pager"]),
        path(&["--json", "--color", "always", "--no-pager"]),
    ] {
        let text = on_terminal(plain).0;
        assert!(text.contains("state0") && !text.contains(ESCAPE), "{text:?}");
    }
    for plain in [path(&[]), path(&["--json", "--color", "always"])] {
        assert!(!in_pipe(plain).contains(ESCAPE));
    }
    for coloured in [path(&["--color", "always"]), with("CLICOLOR_FORCE", "1")] {
        assert!(in_pipe(coloured).contains(ESCAPE));
    }
}

#[test]
fn colours_do_not_change_the_text() {
    let directory = TempDir::new().unwrap();
    let log = log(directory.path(), 40);
    for verb in ["path", "graph", "what-if", "latency", "report"] {
        let arguments = [verb, log.to_str().unwrap()];
        let with_columns = |color: &str| {
            let mut command = longpole(&[&arguments[..], &["--color", color]].concat());
            command.env("COLUMNS", "80");
            in_pipe(command)
        };
        let (plain, coloured) = (with_columns("never"), with_columns("always"));
        assert_eq!(anstream::adapter::strip_str(&coloured).to_string(), plain, "{verb}");
    }
}

#[test]
fn a_file_is_never_coloured() {
    let directory = TempDir::new().unwrap();
    let (log, file) = (log(directory.path(), 3), directory.path().join("graph.txt"));
    let mut command = longpole(&["graph", "--color", "always", "-o", file.to_str().unwrap(), log.to_str().unwrap()]);
    assert!(command.status().unwrap().success());
    let text = fs::read_to_string(file).unwrap();
    assert!(text.contains("NODES") && !text.contains(ESCAPE), "{text}");
}

#[test]
fn an_error_is_red_on_a_terminal_and_plain_elsewhere() {
    let run = |stderr: Stdio| longpole(&["path", "/nothing/here"]).stderr(stderr).output().unwrap();
    let terminal = Terminal::new();
    assert_eq!(run(terminal.stdio()).status.code(), Some(1));
    let shown = terminal.content();
    assert!(shown.contains("\u{1b}[31mlongpole:"), "{shown:?}");
    let plain = String::from_utf8(run(Stdio::piped()).stderr).unwrap();
    assert!(plain.starts_with("longpole: cannot read /nothing/here") && !plain.contains(ESCAPE), "{plain:?}");
}

#[test]
fn output_that_is_longer_than_the_screen_is_shown_by_the_pager_that_the_user_names() {
    let directory = TempDir::new().unwrap();
    let (short, long) = (log(directory.path(), 3), log(directory.path(), 40));
    let full = |log: &Path, variables: &[(&str, &str)], arguments: &[&str]| {
        let mut command = longpole(&[&["path", "--full", "--color", "never", log.to_str().unwrap()], arguments].concat());
        command.envs(variables.iter().copied());
        let (text, status) = on_terminal(command);
        assert!(status.success(), "{text}");
        assert!(text.contains("state0") && text.contains("path to the end of A"), "{text}");
        text
    };
    let paging = ("LONGPOLE_PAGER", "sed 's/^/paged: /'");
    let shown = full(&long, &[paging], &[]);
    assert!(shown.lines().all(|line| line.starts_with("paged: ")), "{shown}");
    let shown = full(&long, &[("PAGER", "sed s/^/paged:/")], &[]);
    assert!(shown.contains("paged:"), "{shown}");
    let straight = [
        full(&short, &[paging], &[]),
        full(&long, &[paging], &["--no-pager"]),
        full(&long, &[("LONGPOLE_PAGER", ""), ("PAGER", "sed s/^/paged:/")], &[]),
        full(&long, &[("PAGER", "cat")], &[]),
        full(&long, &[("PAGER", "no-such-pager-is-installed")], &[]),
    ];
    for shown in straight {
        assert!(!shown.contains("paged"), "{shown}");
    }
}

#[test]
fn a_pager_that_the_user_quits_is_success() {
    let directory = TempDir::new().unwrap();
    // More than a pipe holds.
    let long = log(directory.path(), 20_000);
    let mut command = longpole(&["path", "--segments", long.to_str().unwrap()]);
    command.env("LONGPOLE_PAGER", "head -n 1");
    let (shown, status) = on_terminal(command);
    assert!(status.success() && shown.lines().count() == 1, "{shown}");
}

#[test]
fn a_pipe_has_no_pager() {
    let directory = TempDir::new().unwrap();
    let mut command = longpole(&["path", "--full", log(directory.path(), 40).to_str().unwrap()]);
    command.env("LONGPOLE_PAGER", "sed s/^/paged:/");
    assert!(!in_pipe(command).contains("paged"));
}

/// Starts `longpole path` on a pipe, and calls `meanwhile` before the pipe gets its content.
fn slowly(stderr: Stdio, meanwhile: impl FnOnce()) -> std::process::Output {
    let directory = TempDir::new().unwrap();
    let pipe = directory.path().join("pipe");
    let made = Command::new("mkfifo").arg(&pipe).status().unwrap();
    assert!(made.success());
    let text = fs::read(log(directory.path(), 3)).unwrap();
    let child = longpole(&["path", pipe.to_str().unwrap()]).stdout(Stdio::piped()).stderr(stderr).spawn().unwrap();
    let mut to = fs::OpenOptions::new().write(true).open(&pipe).unwrap();
    meanwhile();
    to.write_all(&text).unwrap();
    drop(to);
    child.wait_with_output().unwrap()
}

#[test]
fn a_long_step_has_a_bar_on_a_terminal_which_is_cleared_before_the_end() {
    let terminal = Terminal::new();
    let mut master = terminal.master.try_clone().unwrap();
    let output = slowly(terminal.stdio(), || {
        let (mut shown, mut part) = (String::new(), [0; 4096]);
        while !shown.contains("longpole: analysing") {
            let count = master.read(&mut part).unwrap();
            shown.push_str(&String::from_utf8_lossy(&part[..count]));
        }
    });
    assert!(output.status.success());
    assert!(String::from_utf8(output.stdout).unwrap().contains("state0"));
    let rest = terminal.content();
    let last = rest.rfind("analysing").unwrap_or(0);
    assert!(rest[last..].contains("\u{1b}[2K"), "the bar is cleared: {rest:?}");
}

#[test]
fn a_long_step_prints_nothing_if_stderr_is_no_terminal() {
    let output = slowly(Stdio::piped(), || std::thread::sleep(std::time::Duration::from_millis(1_300)));
    assert!(output.status.success() && output.stderr.is_empty(), "{:?}", String::from_utf8_lossy(&output.stderr));
}
