//! The terminal while a screen is drawn on it: raw, on its second page, without a cursor.
//!
//! The terminal is restored when [`Screen`] is dropped, and at a panic before its message is
//! printed. Messages to stderr would be drawn over the screen; they go to a file without a name,
//! and are printed after the screen has ended.

use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::cursor::Show;
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{disable_raw_mode, enable_raw_mode, EnterAlternateScreen, LeaveAlternateScreen};
use ratatui::Terminal;
use std::fs::File;
use std::io::{self, Read, Seek, Stdout, Write};
use std::os::fd::OwnedFd;
use std::panic;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

/// True while the terminal has another state than before.
static IS_TAKEN: AtomicBool = AtomicBool::new(false);

/// The screen of the terminal.
pub struct Screen {
    pub terminal: Terminal<CrosstermBackend<Stdout>>,
    /// Dropped last, so that messages are printed below the restored screen.
    _stderr: Stderr,
}

impl Screen {
    pub fn take() -> io::Result<Screen> {
        let (before, drawing) = (panic::take_hook(), thread::current().id());
        panic::set_hook(Box::new(move |info| {
            if thread::current().id() == drawing {
                restore();
            }
            before(info);
        }));
        let stderr = Stderr::divert()?;
        take()?;
        let terminal = Terminal::new(CrosstermBackend::new(io::stdout())).inspect_err(|_| restore())?;
        Ok(Screen { terminal, _stderr: stderr })
    }

    /// Stops this process as Ctrl-Z does elsewhere, and continues when the shell continues it.
    pub fn suspend(&mut self) -> io::Result<()> {
        restore();
        rustix::process::kill_current_process_group(rustix::process::Signal::TSTP)?;
        take()?;
        self.terminal.clear()
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        restore();
    }
}

fn take() -> io::Result<()> {
    IS_TAKEN.store(true, Ordering::Release);
    enable_raw_mode().and_then(|()| execute!(io::stdout(), EnterAlternateScreen)).inspect_err(|_| restore())
}

/// Restores the state that the terminal had before, once.
fn restore() {
    if IS_TAKEN.swap(false, Ordering::AcqRel) {
        let _ = execute!(io::stdout(), LeaveAlternateScreen, Show);
        let _ = disable_raw_mode();
    }
}

/// The standard error, which writes to a file meanwhile.
struct Stderr {
    own: OwnedFd,
    messages: File,
}

impl Stderr {
    fn divert() -> io::Result<Stderr> {
        let messages = tempfile::tempfile()?;
        let own = rustix::io::fcntl_dupfd_cloexec(io::stderr(), 3)?;
        rustix::stdio::dup2_stderr(&messages)?;
        Ok(Stderr { own, messages })
    }
}

impl Drop for Stderr {
    /// Makes it what it was, and prints the messages.
    fn drop(&mut self) {
        let _ = rustix::stdio::dup2_stderr(&self.own);
        let mut messages = Vec::new();
        if self.messages.rewind().and_then(|()| self.messages.read_to_end(&mut messages)).is_ok() {
            let _ = io::stderr().write_all(&messages);
        }
    }
}
