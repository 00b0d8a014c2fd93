//! `record --capture-output`: passes the command's output on unchanged while its lines are
//! recorded.
//!
//! Each of stdout and stderr goes through a pipe, or through a pseudo-terminal if ours is a
//! terminal, so that the command behaves as without a recorder. One thread per stream reads,
//! records the lines, and writes. A slow reader of the output slows down the command, and a reader
//! that closes the output closes it for the command, both as without a recorder. If another process
//! still has a stream open when the recording ends, a separate process continues to pass the stream
//! on.

use longpole_record::Lines;
use longpole_record::Recorder;
use rustix::event::{eventfd, poll, EventfdFlags, PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::pty::{grantpt, openpt, ptsname, unlockpt, OpenptFlags};
use rustix::termios::{tcgetattr, tcgetwinsize, tcsetattr, tcsetwinsize, OptionalActions};
use std::fs::OpenOptions;
use std::io::{self, IsTerminal};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

const PIECE: usize = 64 << 10;
/// Bytes that are still read after the end was requested: more than a pipe holds.
const REST_BYTES: usize = 1 << 20;
/// Interval at which the size of our terminal is checked.
const RESIZED: Timespec = Timespec { tv_sec: 0, tv_nsec: 200_000_000 };
/// First argument of the separate process that continues to pass a stream on.
pub const VERB: &str = "--pass-on";

/// One of the command's output streams.
#[derive(Clone, Copy)]
enum Stream {
    Out,
    Err,
}

impl Stream {
    const ALL: [Stream; 2] = [Stream::Out, Stream::Err];

    fn name(self) -> &'static str {
        match self {
            Stream::Out => "stdout",
            Stream::Err => "stderr",
        }
    }

    /// Returns this process's stream of the same name.
    fn own(self) -> OwnStream {
        match self {
            Stream::Out => OwnStream::Out(io::stdout()),
            Stream::Err => OwnStream::Err(io::stderr()),
        }
    }
}

enum OwnStream {
    Out(io::Stdout),
    Err(io::Stderr),
}

impl AsFd for OwnStream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            OwnStream::Out(stream) => stream.as_fd(),
            OwnStream::Err(stream) => stream.as_fd(),
        }
    }
}

/// The output streams of a command that has not started yet: for each stream our end of its
/// pseudo-terminal, or `None` if it is a pipe.
pub struct Prepared([Option<OwnedFd>; 2]);

/// The threads that pass the output on and record it.
pub struct OutputTee {
    streams: Vec<(Stream, JoinHandle<Option<OwnedFd>>)>,
    end: Arc<OwnedFd>,
}

impl Prepared {
    pub fn new(command: &mut Command) -> io::Result<Prepared> {
        let mut ours = [None, None];
        for (stream, ours) in Stream::ALL.into_iter().zip(&mut ours) {
            let theirs = match stream.own().as_fd().is_terminal() {
                true => {
                    let (own, theirs) = terminal(stream)?;
                    *ours = Some(own);
                    Stdio::from(theirs)
                }
                false => Stdio::piped(),
            };
            match stream {
                Stream::Out => command.stdout(theirs),
                Stream::Err => command.stderr(theirs),
            };
        }
        Ok(Prepared(ours))
    }

    /// Starts passing on; the command has just started.
    pub fn begin(self, child: &mut Child, recorder: &mut Recorder) -> io::Result<OutputTee> {
        let end = Arc::new(eventfd(0, EventfdFlags::CLOEXEC)?);
        let mut streams = Vec::new();
        for (stream, terminal) in Stream::ALL.into_iter().zip(self.0) {
            let is_terminal = terminal.is_some();
            let piped = || match stream {
                Stream::Out => child.stdout.take().map(OwnedFd::from),
                Stream::Err => child.stderr.take().map(OwnedFd::from),
            };
            let Some(source) = terminal.or_else(piped) else { continue };
            let (lines, end) = (recorder.take_lines(stream.name()), end.clone());
            let builder = thread::Builder::new().name(stream.name().to_owned());
            streams.push((stream, builder.spawn(move || pass(source, stream, is_terminal, &lines, &end))?));
        }
        Ok(OutputTee { streams, end })
    }
}

impl OutputTee {
    /// Reads what the command has printed until now, so that it is in the recording. Called when
    /// the command has ended or is left running. Calls `turn` repeatedly meanwhile, for at most
    /// `most`.
    pub fn drain(&self, most: Duration, mut turn: impl FnMut()) {
        let _ = rustix::io::write(&*self.end, &1u64.to_ne_bytes());
        let begin = Instant::now();
        while begin.elapsed() < most && self.streams.iter().any(|(_, thread)| !thread.is_finished()) {
            turn();
        }
    }

    /// Waits until everything is passed on, or until `enough` returns true. A separate process
    /// passes on what other processes still print.
    pub fn end(self, enough: impl Fn() -> bool) {
        for (stream, thread) in self.streams {
            while !thread.is_finished() {
                if enough() {
                    return;
                }
                thread::sleep(Duration::from_millis(2));
            }
            let Ok(Some(source)) = thread.join() else { continue };
            if let Err(error) = leave_to_another(source, stream) {
                eprintln!("longpole: cannot pass on output to {}: {error}", stream.name());
            }
        }
    }
}

/// Passes one stream on. Returns the source if another process still has its other end open.
fn pass(source: OwnedFd, stream: Stream, is_terminal: bool, lines: &Lines, end: &OwnedFd) -> Option<OwnedFd> {
    let own = stream.own();
    let mut buffer = vec![0; PIECE];
    let mut rest = REST_BYTES;
    let timeout = is_terminal.then_some(RESIZED);
    loop {
        let mut ready = [PollFd::new(&source, PollFlags::IN), PollFd::new(end, PollFlags::IN)];
        let polled = poll(&mut ready, timeout.as_ref());
        let (news, ending) = (!ready[0].revents().is_empty(), !ready[1].revents().is_empty());
        if is_terminal {
            resize(&source, &own);
        }
        if !matches!(polled, Ok(1..)) {
            continue;
        }
        if ending && (!news || rest == 0) {
            lines.finish();
            return Some(source);
        }
        let read = match rustix::io::read(&source, &mut buffer) {
            Err(Errno::INTR | Errno::AGAIN) => continue,
            // Reading from a pseudo-terminal whose other end is closed fails with EIO.
            Ok(0) | Err(_) => {
                lines.finish();
                return None;
            }
            Ok(read) => read,
        };
        if ending {
            rest = rest.saturating_sub(read);
        }
        lines.push(&buffer[..read]);
        match write_all(own.as_fd(), &buffer[..read]) {
            Ok(()) => {}
            // The reader has closed our output. Closing the source makes the command's own next
            // write fail, as without a recorder.
            Err(Errno::PIPE) => return None,
            Err(error) => {
                eprintln!("longpole: cannot pass on the command's {}: {error}", stream.name());
                return None;
            }
        }
    }
}

fn write_all(to: BorrowedFd<'_>, mut bytes: &[u8]) -> Result<(), Errno> {
    while !bytes.is_empty() {
        match rustix::io::write(to, bytes) {
            Ok(written) => bytes = &bytes[written..],
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => {
                let _ = poll(&mut [PollFd::new(&to, PollFlags::OUT)], None);
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Makes a pseudo-terminal that changes no byte: our own terminal processes the bytes, and that
/// must happen only once. Returns our end and the command's.
fn terminal(stream: Stream) -> io::Result<(OwnedFd, OwnedFd)> {
    let own = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)?;
    grantpt(&own)?;
    unlockpt(&own)?;
    let name = ptsname(&own, Vec::new())?;
    let path = std::ffi::OsStr::from_bytes(name.as_bytes());
    let theirs =
        OwnedFd::from(OpenOptions::new().read(true).write(true).custom_flags(rustix::fs::OFlags::NOCTTY.bits() as i32).open(path)?);
    let mut modes = tcgetattr(&theirs)?;
    modes.make_raw();
    tcsetattr(&theirs, OptionalActions::Now, &modes)?;
    resize(&own, &stream.own());
    Ok((own, theirs))
}

fn resize(terminal: &OwnedFd, own: &OwnStream) {
    if let (Ok(size), Ok(before)) = (tcgetwinsize(own), tcgetwinsize(terminal)) {
        if (size.ws_row, size.ws_col) != (before.ws_row, before.ws_col) {
            let _ = tcsetwinsize(terminal, size);
        }
    }
}

fn leave_to_another(source: OwnedFd, stream: Stream) -> io::Result<()> {
    let mut command = Command::new("/proc/self/exe");
    command.arg(VERB).stdin(source).stdout(stream.own().as_fd().try_clone_to_owned()?);
    // That process ends when all processes have closed the stream; nobody waits for it.
    command.spawn().map(drop)
}

/// The main function of that process: copies stdin to stdout.
pub fn pass_on() {
    let (from, to) = (io::stdin(), io::stdout());
    let mut buffer = vec![0; PIECE];
    loop {
        match rustix::io::read(from.as_fd(), &mut buffer) {
            Err(Errno::INTR | Errno::AGAIN) => {}
            Ok(0) | Err(_) => return,
            Ok(read) if write_all(to.as_fd(), &buffer[..read]).is_err() => return,
            Ok(_) => {}
        }
    }
}
