//! `record --capture-output`: what the command prints is passed on unchanged while its lines are recorded.
//!
//! Each of the two streams goes through a pipe, or through a terminal of its own where ours is one, so that the command behaves as without us. A thread
//! per stream reads, notes the lines, and writes; who reads slowly holds up the command, as without us, and who stops reading closes its stream. Where
//! somebody still has a stream when the recording ends, a process of its own goes on passing it on.

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
/// What is still read once the end was asked for: more than a pipe holds.
const REST: usize = 1 << 20;
/// So often the size of a terminal is looked at.
const RESIZED: Timespec = Timespec { tv_sec: 0, tv_nsec: 200_000_000 };
/// First argument of the process that goes on passing on.
pub const VERB: &str = "--pass-on";

/// One of the command's streams.
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

    /// Our own stream of that name.
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

/// A command whose streams lead to us, before it runs. For each stream the terminal's end that is ours, if it is one.
pub struct Prepared([Option<OwnedFd>; 2]);

/// Passes on.
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

    /// The command runs.
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
    /// The command has ended, or is left alone: what it has printed until now shall be in the recording. `turn` is made meanwhile; not for longer than `most`.
    pub fn drain(&self, most: Duration, mut turn: impl FnMut()) {
        let _ = rustix::io::write(&*self.end, &1u64.to_ne_bytes());
        let begin = Instant::now();
        while begin.elapsed() < most && self.streams.iter().any(|(_, thread)| !thread.is_finished()) {
            turn();
        }
    }

    /// Waits until all is passed on, unless `enough`; what others still print is passed on by a process of its own.
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
                eprintln!("longpole: what goes on printing to {} cannot be passed on: {error}", stream.name());
            }
        }
    }
}

/// Returns the source if somebody still has its other end.
fn pass(source: OwnedFd, stream: Stream, is_terminal: bool, lines: &Lines, end: &OwnedFd) -> Option<OwnedFd> {
    let own = stream.own();
    let mut buffer = vec![0; PIECE];
    let mut rest = REST;
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
            // A terminal that nobody has any more says EIO.
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
            // The command is told by its own next write, as without us.
            Err(Errno::PIPE) => return None,
            Err(error) => {
                eprintln!("longpole: the command's {} cannot be passed on: {error}", stream.name());
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

/// A terminal that changes no byte on its way: what ours does with them it does once. Our end, and the command's.
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
    // It ends when everybody has closed the stream; nobody waits for it.
    command.spawn().map(drop)
}

/// The process that goes on: everything that comes in goes out.
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
