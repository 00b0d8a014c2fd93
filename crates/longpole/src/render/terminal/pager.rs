//! The pager, as git uses it: output to a terminal is held back until it is longer than the screen.
//! Then a pager is started and gets it; shorter output is printed as it is.
//!
//! The pager is the command in `LONGPOLE_PAGER`, or else in `PAGER`, or else `less -FRX`. An empty
//! value or `cat` means none. If the pager cannot be started, the output is printed without it. The
//! user may quit the pager early; writing then fails with a broken pipe, which is success.

use crate::global;
use crate::render::terminal::screen;
use std::io::{self, ErrorKind, Write};
use std::process::{Child, ChildStdin, Command, Stdio};

/// Options of `less` if the user sets none: exit if the text fits on the screen (F), show colours
/// (R), leave the text on the screen (X).
const LESS: &str = "FRX";
/// Letters that only a shell understands.
const OF_SHELL: &[char] = &['|', '&', ';', '<', '>', '(', ')', '$', '`', '\\', '"', '\'', '*', '?', '[', '#', '~', '=', '%'];

/// Output to a terminal, through a pager if it is long. Dropping it ends the output and waits for
/// the pager.
pub struct Paged {
    /// Output that still fits on the screen.
    held: Vec<u8>,
    lines: usize,
    size: (usize, usize),
    to: To,
}

enum To {
    Undecided,
    Pager(Child, Option<ChildStdin>),
    Terminal(io::StdoutLock<'static>),
}

impl Paged {
    pub fn new() -> Paged {
        let size = screen::size().unwrap_or((screen::COLUMNS, screen::LINES));
        let to = match global::may_page() && command().is_some() {
            true => To::Undecided,
            false => To::Terminal(io::stdout().lock()),
        };
        Paged { held: Vec::new(), lines: 0, size, to }
    }

    /// Starts the pager, or else prints to the terminal, and passes on what was held back.
    fn decide(&mut self, is_long: bool) -> io::Result<()> {
        self.to = match is_long.then(start).flatten() {
            Some((child, input)) => To::Pager(child, Some(input)),
            None => To::Terminal(io::stdout().lock()),
        };
        let held = std::mem::take(&mut self.held);
        self.write_all(&held)
    }

    /// Returns the number of screen lines of these bytes, each of which may be a column wide.
    fn lines_of(&self, bytes: &[u8]) -> usize {
        bytes.split_inclusive(|&byte| byte == b'\n').map(|line| line.len() / (self.size.0 * 4) + usize::from(line.ends_with(b"\n"))).sum()
    }
}

impl Write for Paged {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.to {
            To::Undecided => {
                self.lines += self.lines_of(bytes);
                self.held.extend_from_slice(bytes);
                // The last line of the screen is for the shell's prompt.
                if self.lines >= self.size.1 {
                    self.decide(true)?;
                }
                Ok(bytes.len())
            }
            To::Pager(_, Some(input)) => input.write(bytes),
            To::Pager(_, None) => Err(ErrorKind::BrokenPipe.into()),
            To::Terminal(terminal) => terminal.write(bytes),
        }
    }

    /// Does not decide: what was written until now may be the begin of a long output.
    fn flush(&mut self) -> io::Result<()> {
        match &mut self.to {
            To::Pager(_, Some(input)) => input.flush(),
            To::Terminal(terminal) => terminal.flush(),
            To::Undecided | To::Pager(_, None) => Ok(()),
        }
    }
}

impl Drop for Paged {
    fn drop(&mut self) {
        if matches!(self.to, To::Undecided) {
            // A terminal that does not take the text shows no message about that either.
            let _ = self.decide(false).and_then(|()| self.flush());
        }
        if let To::Pager(child, input) = &mut self.to {
            drop(input.take());
            let _ = child.wait();
        }
    }
}

/// Returns the pager's command; `None` if there is to be none.
fn command() -> Option<String> {
    let named = ["LONGPOLE_PAGER", "PAGER"].into_iter().find_map(|name| std::env::var(name).ok());
    let command = named.unwrap_or_else(|| format!("less -{LESS}"));
    Some(command.trim().to_owned()).filter(|command| !command.is_empty() && command != "cat")
}

/// Starts the pager. `None` if it is not installed, or cannot be started for another reason.
fn start() -> Option<(Child, ChildStdin)> {
    let command = command()?;
    let mut pager = match command.contains(OF_SHELL) {
        true => {
            let mut shell = Command::new("sh");
            shell.args(["-c", &command]);
            shell
        }
        false => {
            let mut words = command.split_whitespace();
            let mut pager = Command::new(words.next()?);
            pager.args(words);
            pager
        }
    };
    for (name, value) in [("LESS", LESS), ("LV", "-c")] {
        if std::env::var_os(name).is_none() {
            pager.env(name, value);
        }
    }
    let mut child = pager.stdin(Stdio::piped()).spawn().ok()?;
    let input = child.stdin.take()?;
    // SAFETY: `SIG_IGN` is a valid disposition, and the child was started before with the default
    // one. Ctrl-C is for the pager, which stops searching; if it ended this process, the shell and
    // the pager would both read from the terminal.
    unsafe { libc::signal(libc::SIGINT, libc::SIG_IGN) };
    Some((child, input))
}
