//! Follows a running recording for `view --live`: fills the timeline until the recorder ends.
//!
//! The recorder's files are the buffer between the two processes. A reader that is too slow falls
//! behind, and the recorder does not notice it. Twice a second the recorder is asked to write all
//! events that have happened ([`Flush`]), since a page of the kernel waits for long on a CPU that
//! has little to do. After its answer, an earlier event follows only from a thread that needed
//! longer than [`EVENT_DELAY`] for it. Such an event is missing in the picture, or in the wrong
//! order, until the recording has ended and is read again as a whole.

use crate::input::in_progress;
use crate::render::table::plain;
use anyhow::{anyhow, bail, Context};
use longpole_analysis::pipeline::passes::live_pass::LivePass;
use longpole_model::rules::Rules;
use longpole_record::kernel::LivePages;
use longpole_record::runtime_dir::session::RunningRecording;
use longpole_record::{Clock, Flush, RuntimeDir};
use longpole_serve::{LiveState, Reading, TraceCounts};
use longpole_trace::{Recording, RecordingFollower};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

/// Nice value of the thread that reads: what is recorded, and the recorder, have priority.
const PATIENT: i32 = 10;
/// Time between two looks at the recording.
const PAUSE: Duration = Duration::from_millis(500);
/// Time that a thread is assumed to need at most from the time of an event until the event can be
/// seen. It may lose its CPU in between.
const EVENT_DELAY: Duration = Duration::from_millis(100);
/// Difference in ns that rounding makes between two conversions of a time.
const ROUNDING_NS: i64 = 3;
/// Time in which the recorder writes its events, and time between two looks whether it has.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(5);
const FLUSH_PAUSE: Duration = Duration::from_millis(20);
/// Time in which a recorder that has begun knows the process of its command.
const BEGIN_TIMEOUT: Duration = Duration::from_secs(5);

/// A recording in progress, and where recorders and their processes meet.
pub struct Followed {
    pub running: RunningRecording,
    pub runtime: RuntimeDir,
}

/// What has become of a recording.
enum Fate {
    /// Its recorder still writes to its directory.
    Running,
    Ended,
    /// Its recorder has begun another chunk, and this one is complete.
    InNextChunk(PathBuf),
}

impl Followed {
    /// Fills the timeline of `reading` until the recording has ended. Returns when all of it can be
    /// read.
    ///
    /// # Errors
    ///
    /// If the recording's directory is no longer there.
    pub fn follow(&self, rules: Rules, reading: &Reading) -> anyhow::Result<()> {
        let follow = || {
            // Only this thread.
            let _ = rustix::process::setpriority_process(None, PATIENT);
            self.follow_here(rules, reading)
        };
        thread::scope(|scope| {
            let follower = thread::Builder::new().name("live".to_owned()).spawn_scoped(scope, follow).context("cannot start a thread")?;
            follower.join().unwrap_or_else(|_| Err(anyhow!("internal error: following the recording was given up")))
        })
    }

    fn follow_here(&self, rules: Rules, reading: &Reading) -> anyhow::Result<()> {
        reading.follows(TraceCounts::default(), LiveState::default());
        let mut live = Live::begin(&self.running.path, rules, reading);
        let stopped_by = |error: &anyhow::Error| format!("The picture no longer grows: {}.", crate::in_one_line(error));
        let mut stopped = live.as_ref().err().map(stopped_by);
        loop {
            // Looked at before reading, so that what was written before the end is read.
            let fate = self.fate()?;
            if let Ok(live) = &mut live {
                if stopped.is_none() {
                    stopped = live.step(reading).err().as_ref().map(stopped_by);
                }
                live.tell(reading);
            }
            if stopped.is_some() {
                reading.set_note(stopped.clone());
            }
            match fate {
                Fate::Running => thread::sleep(PAUSE),
                Fate::Ended => {
                    reading.set_note(None);
                    return Ok(());
                }
                Fate::InNextChunk(next) => {
                    let next = plain(next.display().to_string());
                    reading.set_note(Some(format!("The recording continues in {next}; `longpole view --live` shows it.")));
                    return Ok(());
                }
            }
        }
    }

    fn fate(&self) -> anyhow::Result<Fate> {
        let path = &self.running.path;
        let now = in_progress::again(&self.running, &self.runtime)?;
        if path.is_dir() {
            return Ok(match now {
                Some(now) if now.path == *path => Fate::Running,
                Some(now) => Fate::InNextChunk(now.path),
                None => Fate::Ended,
            });
        }
        match now.filter(|now| now.path != *path) {
            Some(now) => bail!("the recording is now {}; name that directory", plain(now.path.display().to_string())),
            None => bail!("{} was removed; what was read of it is shown", plain(path.display().to_string())),
        }
    }
}

/// The reading of a recording that grows.
struct Live {
    path: PathBuf,
    foreign_pids: bool,
    clock: Clock,
    /// Time up to which the recording is in the picture.
    shown_ns: i64,
    follower: RecordingFollower,
    kernel: Kernel,
    pass: LivePass,
    /// What is missing in the picture.
    note: Option<String>,
    /// Why the picture does not grow for now.
    waits: Option<&'static str>,
}

/// The kernel's events of the recording.
enum Kernel {
    None,
    /// The recorder has not begun to record them.
    Awaited,
    Read(Box<LivePages>),
}

/// What the recorder has written.
enum Flushed {
    /// All events that have happened until it was asked.
    All,
    /// It has not answered, so it is not known which events are in the files.
    NotYet,
    /// It takes no requests: it is about to end, or cannot be asked.
    Never,
}

impl Live {
    fn begin(path: &Path, rules: Rules, reading: &Reading) -> anyhow::Result<Live> {
        let description = begun(path)?;
        let Some(clock) = clock(&description) else { bail!("its clock is not one of this host") };
        let kernel = if description.kernel_events.is_some() { Kernel::Awaited } else { Kernel::None };
        Ok(Live {
            path: path.to_owned(),
            foreign_pids: description.kernel_events.as_ref().is_some_and(|kernel| kernel.foreign_pids),
            shown_ns: clock.unix_ns(clock.now()),
            clock,
            follower: RecordingFollower::open(path)?,
            kernel,
            pass: LivePass::new(&description, rules, reading.timeline.clone())?,
            note: None,
            waits: None,
        })
    }

    /// Tells how far the picture is, and what people should know of it.
    fn tell(&self, reading: &Reading) {
        let (events, lost) = self.pass.counts();
        let behind_ns = u64::try_from(self.clock.unix_ns(self.clock.now()).saturating_sub(self.shown_ns)).unwrap_or(0);
        reading.follows(TraceCounts { events, lost }, LiveState { behind_ns });
        reading.set_note(self.waits.map(str::to_owned).or_else(|| self.note.clone()));
    }

    /// Reads what was written since the last step, up to [`EVENT_DELAY`] before the step.
    fn step(&mut self, reading: &Reading) -> anyhow::Result<()> {
        let clock = self.clock;
        let now = clock.now();
        self.waits = match self.flush()? {
            Flushed::All => None,
            Flushed::NotYet => Some("The recorder is too busy to write its newest events; the picture waits for it."),
            Flushed::Never => {
                Some("The recorder takes no requests, so the picture does not grow; all is shown when the recording has ended.")
            }
        };
        if self.waits.is_some() {
            return Ok(());
        }
        let until = now.saturating_sub(clock.ticks(EVENT_DELAY));
        self.begin_kernel();
        loop {
            let reached = match &mut self.kernel {
                Kernel::Read(pages) => pages.step(until)?,
                Kernel::None => until,
                // Its first events are earlier than those of programs.
                Kernel::Awaited => return Ok(()),
            };
            self.follower.refresh()?;
            let reached_ns = clock.unix_ns(reached) + ROUNDING_NS;
            while let Some((item, catalogue)) = self.follower.next_until(reached_ns)? {
                self.pass.item(catalogue, &item);
            }
            self.pass.show();
            self.shown_ns = reached_ns;
            self.tell(reading);
            if reached >= until {
                return Ok(());
            }
        }
    }

    /// Lets the recorder write all events that have happened until now.
    fn flush(&mut self) -> anyhow::Result<Flushed> {
        let flush = match Flush::ask(&self.path) {
            Ok(flush) => flush,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Flushed::Never),
            Err(error) => return Err(error).context("the recorder cannot be asked to write its events; run as the user who records"),
        };
        let since = Instant::now();
        while since.elapsed() < FLUSH_TIMEOUT {
            match flush.is_done() {
                Ok(true) => return Ok(Flushed::All),
                Ok(false) => thread::sleep(FLUSH_PAUSE),
                Err(_) => return Ok(Flushed::Never),
            }
        }
        Ok(Flushed::NotYet)
    }

    /// Begins to read the kernel's events as soon as the recorder records them.
    fn begin_kernel(&mut self) {
        let Kernel::Awaited = self.kernel else { return };
        let opened = LivePages::open(&self.path).map_err(anyhow::Error::from).and_then(|pages| {
            let Some(pages) = pages else { return Ok(None) };
            self.follower.add_kernel(&pages.metadata(), pages.streams(), self.foreign_pids)?;
            Ok(Some(pages))
        });
        match opened {
            Ok(None) => {}
            Ok(Some(pages)) => self.kernel = Kernel::Read(Box::new(pages)),
            Err(error) => {
                self.kernel = Kernel::None;
                self.note = Some(format!("The kernel's events are shown only at the end: {}.", crate::in_one_line(&error)));
            }
        }
    }
}

/// Returns the clock of a recording, if it is one of this host.
fn clock(description: &Recording) -> Option<Clock> {
    let of = &description.clock;
    Clock::described(of.source.as_deref()?, of.frequency_hz?, of.offset_ns?)
}

/// Returns the recording's description, which soon after its begin has the process of the command.
fn begun(path: &Path) -> anyhow::Result<Recording> {
    let since = Instant::now();
    loop {
        let read = Recording::read(path)?;
        let is_begun = |read: &Recording| read.command_pid.is_some() || read.command.as_array().is_none_or(Vec::is_empty);
        match read {
            Some(read) if is_begun(&read) || since.elapsed() >= BEGIN_TIMEOUT => return Ok(read),
            None if since.elapsed() >= BEGIN_TIMEOUT => bail!("the recorder has not described the recording"),
            _ => thread::sleep(PAUSE),
        }
    }
}
