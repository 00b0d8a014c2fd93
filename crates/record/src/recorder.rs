//! One recording, from its start to its end.
//!
//! The recorder works in turns on one thread. A turn finds new processes, writes their orders,
//! looks at all rings, and takes the events that they hold. The caller decides when a turn runs
//! ([`Recorder::turn`]) and which one is the last; [`Recorder::wait`] sleeps until the next turn is
//! due.
//!
//! The recorder owns the parts of a recording and lets them work in the right order:
//!
//! * [`Recording`]: the rules, the files, the sums, and the conditions that are watched;
//! * [`Directories`]: the runtime directories with their processes and rings, and [`Intake`], the
//!   state of taking up processes;
//! * [`Sources`]: the kernel's events, stack samples, packets of interfaces;
//! * [`Chunks`], [`Requests`], [`Command`], [`Pace`]: limits, snapshots, the recorded command, and
//!   the time of the next turn.
//!
//! What handles a single ring belongs in `drain`, a process in `attach`, a file in `output`.

mod command;
mod description;
mod ending;
mod outcome;
mod pace;
mod requests;
mod rotation;
mod snapshots;
mod sources;
mod start;

use crate::attach::directories::Directories;
use crate::attach::{Intake, Visit};
use crate::chunks::Chunks;
use crate::control::stop::Stop;
use crate::drain;
use crate::error::Error;
use crate::files::wakeups::Wakeup;
use crate::output::command_output::{Lines, Writer};
use crate::recording::rules::Reloaded;
use crate::recording::Recording;
use command::Command;
use description::Published;
pub use outcome::{InterfacesOutcome, KernelOutcome, Outcome};
use pace::Pace;
use requests::Requests;
use sources::Sources;
use std::convert::Infallible;
use std::path::{Path, PathBuf};
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

/// Length of a pause of the recorder from which on times are ambiguous: events have the low 48 bits
/// of the clock, and their time is taken to be less than half of that range away.
const MAX_STALL_TICKS: u64 = 1 << 47;

/// A recorder, from its start to its end. [`Recorder::start`] makes one, [`Recorder::turn`] works,
/// [`Recorder::finish`] ends it.
#[derive(Debug)]
pub struct Recorder {
    recording: Recording,
    directories: Directories,
    intake: Intake,
    sources: Sources,
    chunks: Chunks,
    requests: Requests,
    command: Command,
    pace: Pace,
    published: Published,
}

impl Recorder {
    /// Path of the recording's folder; with a limit of size or age, that of the newest chunk.
    pub fn path(&self) -> &Path {
        &self.recording.files.destination.path
    }

    /// Returns a channel that receives the path of each further chunk, once the chunk before it is
    /// complete.
    pub fn chunks(&mut self) -> Receiver<PathBuf> {
        self.chunks.receiver()
    }

    /// Longest time between two looks at a ring.
    pub fn period(&self) -> Duration {
        self.recording.rules.period()
    }

    /// Limit of the recording's bytes on the disk.
    pub fn max_size(&self) -> Option<u64> {
        self.chunks.max_size()
    }

    /// True if the kernel's events are recorded.
    pub fn records_kernel(&self) -> bool {
        self.sources.kernel.is_running()
    }

    /// True if stacks are sampled.
    pub fn records_stacks(&self) -> bool {
        self.sources.stacks.is_running()
    }

    /// True if packets of network devices are captured.
    pub fn records_interfaces(&self) -> bool {
        self.sources.interfaces.is_running()
    }

    /// Reasons why something that was asked for is missing: kernel events, stacks, packets of
    /// interfaces, or the scheduling of the command.
    pub fn troubles(&self) -> impl Iterator<Item = &str> {
        self.sources.troubles().chain(self.command.trouble())
    }

    /// Adds a diagnostic to the recording's description.
    pub fn note(&mut self, text: &str) {
        self.recording.note(text);
    }

    /// Environment variable (name, value) by which the recorder recognizes the command and its
    /// descendants.
    pub fn environment(&self) -> (&'static str, String) {
        self.recording.rules.environment()
    }

    /// With [`Scope::Descendants`](crate::Scope::Descendants): records what the process `pid`
    /// starts.
    pub fn follow(&mut self, pid: i32) {
        self.recording.rules.ancestor = Some(pid);
        self.command.look(pid, &mut self.recording.account);
    }

    /// Records the lines of one of the command's streams from now on. `name`: `stdout` or `stderr`.
    pub fn take_lines(&mut self, name: &'static str) -> Lines {
        self.command.outputs.take_lines(name, self.recording.clock)
    }

    /// Takes all events that the rings hold now. Returns the longest time until the next turn.
    pub fn turn(&mut self) -> Result<Duration, Error> {
        self.reload();
        if self.recording.rules.selection_changed() {
            self.each(|visit| visit.decide_again());
        }
        self.directories.search_if_reported(&mut self.recording, &mut self.intake);
        let pressure = self.take_events()?;
        self.answer_flushes();
        self.recording.files.captures.flush(&mut self.recording.account);
        self.write_outputs(false);
        if self.sources.kernel.note_switched_off() {
            self.describe(None)?;
        }
        if self.requests.take_changed() {
            self.answer_requests();
        }
        let watching = self.watch();
        self.rotate_if_due();
        let now = Instant::now();
        if self.pace.is_new_second(now) {
            self.follow_moved_folder()?;
            self.each_second();
        }
        let since = self.pace.end_turn(now);
        if self.recording.clock.ticks(since) >= MAX_STALL_TICKS {
            self.recording.note(format!(
                "the recorder stood still for {} s; times of events that were written in that period may be wrong",
                since.as_secs()
            ));
        }
        let longest = [watching, self.directories.time_until_search(now)].into_iter().flatten();
        let next = self.pace.next(pressure, since, (now, self.intake.newest), self.period());
        Ok(longest.fold(next, Duration::min))
    }

    /// Takes up processes and takes the events of all rings. Returns the largest share of a ring
    /// that had filled up.
    fn take_events(&mut self) -> Result<f64, Error> {
        let (changed, deaths) = self.intake.take_reports();
        let mut pressure: f64 = 0.0;
        self.try_each(|visit| {
            if changed || visit.directory.arrivals.take_missed() {
                visit.scan()?;
            } else {
                visit.take_up_reported();
            }
            if deaths {
                visit.directory.mark_dead();
            }
            visit.visit();
            pressure = pressure.max(drain::drain_directory(visit.directory, visit.recording, false));
            visit.reap();
            Ok::<(), Error>(())
        })?;
        Ok(pressure)
    }

    /// Runs `work` for each runtime directory, also after an error. Returns the first error.
    fn try_each<E>(&mut self, mut work: impl FnMut(&mut Visit<'_>) -> Result<(), E>) -> Result<(), E> {
        let mut result = Ok(());
        for directory in self.directories.iter_mut() {
            result = result.and(work(&mut Visit { directory, recording: &mut self.recording, intake: &mut self.intake }));
        }
        result
    }

    /// Runs `work` for each runtime directory.
    fn each(&mut self, mut work: impl FnMut(&mut Visit<'_>)) {
        let Ok(()) = self.try_each(|visit| {
            work(visit);
            Ok::<(), Infallible>(())
        });
    }

    /// Sleeps until a turn is due: `longest` has passed, a process appeared or ended, or a signal
    /// or a request arrived.
    pub fn wait(&mut self, longest: Duration) {
        for wakeup in self.intake.wakeups.wait(longest) {
            match wakeup {
                Wakeup::Directory => {
                    self.pace.hurry();
                    self.directories.read_reports();
                }
                Wakeup::OtherDirectories => self.directories.read_reports_of_others(),
                Wakeup::Stop => {
                    if let Some(wake) = Stop.wake() {
                        let _ = rustix::io::read(wake, &mut [0u8; 8]);
                    }
                }
                Wakeup::Request => self.requests.note_change(),
                Wakeup::Process => self.intake.deaths = true,
            }
        }
    }

    fn each_second(&mut self) {
        self.intake.list_again = true;
        self.intake.deaths = true;
        self.requests.forget_the_dead(&self.recording.triggers);
        self.published.look_at_clock(&self.recording.clock);
        if let Err(error) = self.directories.search(false, &mut self.recording, &mut self.intake) {
            self.recording.note(error.to_string());
        }
        if let Err(error) = self.describe(None) {
            self.recording.note(error.to_string());
        }
    }

    /// Reads the configuration again if its file has changed.
    fn reload(&mut self) {
        match self.recording.rules.reload() {
            Reloaded::Unchanged => {}
            Reloaded::New => {
                self.each(|visit| {
                    visit.directory.common.held.set_orders(&visit.recording.rules.default_order());
                    visit.decide_again();
                });
                eprintln!("longpole: the new configuration is in use");
            }
            Reloaded::Refused(error) => {
                eprintln!("longpole: the new configuration is refused, the old one stays in use: {error}");
                let text = error.to_string();
                self.recording.note(format!("a new configuration was refused: {}", text.lines().next().unwrap_or("")));
            }
        }
    }

    /// Updates the recording's path if its folder was moved.
    fn follow_moved_folder(&mut self) -> Result<(), Error> {
        let destination = &mut self.recording.files.destination;
        let Some(before) = destination.follow()? else { return Ok(()) };
        let path = destination.path.clone();
        self.recording.note(format!("the recording's folder was moved from {} to {}", before.display(), path.display()));
        self.each(|visit| visit.directory.common.held.set_path(&path));
        Ok(())
    }

    /// Writes the lines of the command that have arrived; with `last`, all of them.
    fn write_outputs(&mut self, last: bool) {
        let Recording { rules, files, account, .. } = &mut self.recording;
        let writer = Writer { pid: rules.ancestor, program: rules.options.command.first().map(String::as_str) };
        self.command.outputs.write(last, rules.period(), writer, files, account);
    }
}
