//! Sources other than the rings of programs: the kernel's events, stack samples, packets of
//! interfaces. Each may be unavailable; the others are recorded nevertheless.
//!
//! A source is prepared before the recording begins (stacks when the clock is known, the others
//! before), begins with it, and ends before the description is written. With each chunk, stacks and
//! interfaces start again, and the kernel's tracer is redirected. A [`Slot`] is a source with what
//! the description has to say about it at each of these times.

use super::outcome::{InterfacesOutcome, KernelOutcome};
use crate::clock::Clock;
use crate::control::options::Options;
use crate::control::policy::Config;
use crate::error::Error;
use crate::interfaces::{self, InterfaceError, InterfaceSource};
use crate::kernel::{self, KernelError, KernelSource};
use crate::output::account::Account;
use crate::output::destination::Destination;
use crate::stacks::{self, Rates, SampleOutcome, Stacks};
use serde_json::Value;
use std::fmt::Display;
use std::path::Path;

/// Diagnostic for a recorder in a container with its own pid namespace.
const FOREIGN_PIDS: &str = "this recorder runs in a pid namespace of its own, so it cannot match kernel events with probes. Threads that existed at the start are missing. Run it on the host, or use `docker run --pid=host`.";

/// A source that may be missing.
#[derive(Debug)]
pub(super) struct Slot<S> {
    running: Option<S>,
    /// Its entry in `longpole.json`, once it is final.
    entry: Option<Value>,
    /// Reason why the source is missing or incomplete.
    trouble: Option<String>,
}

impl<S> Slot<S> {
    fn new(running: Option<S>, trouble: Option<String>) -> Slot<S> {
        Slot { running, entry: None, trouble }
    }

    pub fn is_running(&self) -> bool {
        self.running.is_some()
    }

    /// Returns whether the source ran until its end.
    pub fn has_ended(&self) -> bool {
        self.entry.is_some()
    }

    pub fn trouble(&self) -> Option<&str> {
        self.trouble.as_deref()
    }

    /// Entry in `longpole.json`; `describe` makes that of a running source.
    fn entry(&self, describe: impl FnOnce(&S) -> Value) -> Option<Value> {
        self.entry.clone().or_else(|| self.running.as_ref().map(describe))
    }
}

/// All sources other than rings.
#[derive(Debug)]
pub(super) struct Sources {
    pub kernel: Slot<KernelSource>,
    pub stacks: Slot<Stacks>,
    pub interfaces: Slot<InterfaceSource>,
}

/// Sources that start again with each chunk.
pub(super) struct Restart {
    stacks: bool,
    interfaces: bool,
}

/// The directory into which the sources write, and their clock.
#[derive(Clone, Copy, Debug)]
pub(super) struct Target<'a> {
    pub destination: &'a Destination,
    pub clock: &'a Clock,
}

impl Sources {
    /// `kernel` and `interfaces` are prepared, or the reason is given why they are not.
    pub fn new(
        (kernel, kernel_trouble): (Option<KernelSource>, Option<String>),
        (interfaces, interfaces_trouble): (Option<InterfaceSource>, Option<String>),
    ) -> Sources {
        Sources {
            kernel: Slot::new(kernel, kernel_trouble),
            stacks: Slot::new(None, None),
            interfaces: Slot::new(interfaces, interfaces_trouble),
        }
    }

    /// Begins all sources.
    pub fn begin(&mut self, target: Target<'_>, stacks: Option<Rates>, account: &mut Account) {
        self.kernel.begin(target, account);
        self.stacks.begin(target, stacks, account);
        self.interfaces.begin(target, account);
    }

    /// Ends without results, because nothing was recorded.
    pub fn abandon(self) {
        drop((self.kernel, self.stacks, self.interfaces));
    }

    /// Redirects the kernel's events to another recording, and ends the other sources. Returns the
    /// sources that must be started again there.
    pub fn rotate(&mut self, path: &Path, clock: &Clock, account: &mut Account) -> Restart {
        self.kernel.rotate(path, clock, account);
        let restart = Restart { stacks: self.stacks.is_running(), interfaces: self.interfaces.is_running() };
        self.stacks.end(account);
        self.interfaces.end(account);
        restart
    }

    /// Starts these sources in the new recording.
    pub fn restart(&mut self, restart: Restart, target: Target<'_>, (options, config): (&Options, &Config), account: &mut Account) {
        (self.kernel.entry, self.stacks.entry, self.interfaces.entry) = (None, None, None);
        if restart.stacks {
            self.stacks.begin(target, options.stacks, account);
        }
        if let (true, Some(request)) = (restart.interfaces, packets_request(options, config)) {
            match InterfaceSource::prepare(&request) {
                Ok(interfaces) => self.interfaces.running = Some(interfaces),
                Err(error) => self.interfaces.trouble = Some(no_packets(&error)),
            }
            self.interfaces.begin(target, account);
        }
    }

    /// Reasons why a source is missing or incomplete.
    pub fn troubles(&self) -> impl Iterator<Item = &str> {
        [self.kernel.trouble(), self.stacks.trouble(), self.interfaces.trouble()].into_iter().flatten()
    }
}

impl Slot<KernelSource> {
    fn begin(&mut self, target: Target<'_>, account: &mut Account) {
        if let Some(kernel) = &mut self.running {
            if let Err(error) = kernel.begin(target.clock.source) {
                self.trouble = Some(no_kernel(&error));
                self.running = None;
                let _ = std::fs::remove_dir_all(target.destination.path.join("kernel"));
            }
        }
        if self.running.is_some() && kernel::has_foreign_pids() {
            self.trouble = Some(FOREIGN_PIDS.to_owned());
        }
        if let Some(trouble) = &self.trouble {
            account.note(trouble);
        }
    }

    /// Pauses the kernel's tracer until [`Slot::resume_after_snapshot`] or [`Slot::resume`].
    pub fn pause(&mut self) -> Option<kernel::Pause> {
        self.running.as_mut()?.pause()
    }

    /// Empties the kernel's buffers into the recording or, if they overwrite, into the snapshot,
    /// and lets the tracer continue. Returns the kernel's entry for the snapshot; null after an
    /// error.
    pub fn resume_after_snapshot(
        &mut self,
        pause: kernel::Pause,
        snapshot: &Path,
        notes: &mut Vec<String>,
        account: &mut Account,
    ) -> Value {
        let Some(kernel) = &mut self.running else { return Value::Null };
        kernel.resume_after_snapshot(pause, snapshot).unwrap_or_else(|error| {
            notes.push(error.clone());
            account.note(error);
            Value::Null
        })
    }

    /// Lets the tracer continue after a pause in which no snapshot could be written.
    pub fn resume(&mut self, pause: kernel::Pause, account: &mut Account) {
        if let Some(Err(error)) = self.running.as_ref().map(|kernel| kernel.resume(pause)) {
            account.note(error);
        }
    }

    /// Begins to write all events that the kernel has recorded until now, also those in pages that
    /// are not full. Returns the number of this flush.
    pub fn flush(&self) -> u64 {
        self.running.as_ref().map_or(0, KernelSource::flush)
    }

    /// Number of the last flush that is complete.
    pub fn flushed(&self) -> u64 {
        self.running.as_ref().map_or(u64::MAX, KernelSource::flushed)
    }

    /// Number of events that the kernel has lost until now; `None` without kernel events, or if its
    /// buffers overwrite the oldest events, which does not count as a loss.
    pub fn lost(&self) -> Option<u64> {
        self.running.as_ref()?.lost()
    }

    /// Bytes of pages that were moved until now.
    pub fn bytes(&self) -> u64 {
        self.running.as_ref().map_or(0, KernelSource::bytes)
    }

    fn rotate(&mut self, path: &Path, clock: &Clock, account: &mut Account) {
        if let Some(kernel) = &mut self.running {
            self.entry = Some(kernel.description(clock));
            if let Err(error) = kernel.rotate(path) {
                account.note(format!("the kernel's events stay in the chunk before: {error}"));
            }
        }
    }

    /// Returns whether kinds of kernel events were switched off since the last call. The
    /// description must then be written again, so that the recording reports it even if this
    /// recorder is killed.
    pub fn note_switched_off(&mut self) -> bool {
        self.running.as_mut().is_some_and(KernelSource::note_switched_off)
    }

    /// Stops the kernel's tracer. Called after the last events of programs were taken.
    pub fn end(&mut self, target: Target<'_>, account: &mut Account) -> Option<KernelOutcome> {
        let mut kernel = self.running.take()?;
        kernel.stop_overload_thread();
        let mut entry = kernel.description(target.clock);
        let switched_off = kernel.switched_off();
        let drained = kernel.stop();
        for diagnostic in &drained.diagnostics {
            account.note(diagnostic);
        }
        note_kinds(&switched_off, target, account);
        let outcome = KernelOutcome { events: drained.events(), lost: drained.lost(), cpus: drained.cpus.len() };
        entry["recorded_bytes"] = drained.bytes.into();
        entry["events"] = outcome.events.into();
        entry["lost"] = outcome.lost.into();
        entry["cpus"] = drained.cpus_json();
        entry["counters"] = drained.grown.map_or(Value::Null, |grown| grown.to_json(target.clock));
        self.entry = Some(entry);
        Some(outcome)
    }

    /// Replaces the counts of the entry by those of the converted events.
    pub fn converted(&mut self, events: u64, lost: u64, damaged_pages: Value) {
        if let Some(entry) = &mut self.entry {
            (entry["events"], entry["lost"]) = (events.into(), lost.into());
            entry["damaged_pages"] = damaged_pages;
        }
    }

    pub fn describe(&self, clock: &Clock) -> Option<Value> {
        self.entry(|kernel| kernel.description(clock))
    }
}

impl Slot<Stacks> {
    fn begin(&mut self, target: Target<'_>, rates: Option<Rates>, account: &mut Account) {
        let Some(rates) = rates else { return };
        let destination = target.destination;
        let begun = Stacks::prepare(rates).and_then(|mut stacks| {
            stacks.begin(&destination.path, &destination.uuid, target.clock)?;
            Ok(stacks)
        });
        match begun {
            Ok(stacks) => self.running = Some(stacks),
            Err(error) => {
                let trouble = format!("stacks are not sampled: {error}");
                account.note(&trouble);
                self.trouble = Some(trouble);
                let _ = std::fs::remove_dir_all(destination.path.join(stacks::FOLDER));
            }
        }
    }

    pub fn end(&mut self, account: &mut Account) -> Option<SampleOutcome> {
        let (outcome, entry, diagnostics) = self.running.take()?.stop();
        diagnostics.into_iter().for_each(|diagnostic| account.note(diagnostic));
        self.entry = Some(entry);
        Some(outcome)
    }

    pub fn describe(&self) -> Option<Value> {
        self.entry(Stacks::describe)
    }
}

impl Slot<InterfaceSource> {
    fn begin(&mut self, target: Target<'_>, account: &mut Account) {
        if let Some(interfaces) = &mut self.running {
            if let Err(error) = interfaces.begin(&target.destination.path, *target.clock) {
                self.trouble = Some(no_packets(&error));
                self.running = None;
            }
        }
        if let Some(trouble) = &self.trouble {
            account.note(trouble);
        }
    }

    pub fn end(&mut self, account: &mut Account) -> Option<InterfacesOutcome> {
        let captured = self.running.take()?.stop();
        for diagnostic in &captured.diagnostics {
            account.note(diagnostic);
        }
        self.entry = Some(captured.to_json());
        account.totals.packets += captured.packets;
        account.totals.packets_refused += captured.lost();
        Some(InterfacesOutcome { packets: captured.packets, lost: captured.lost(), interfaces: captured.interfaces.len() })
    }

    pub fn describe(&self) -> Option<Value> {
        self.entry(InterfaceSource::describe)
    }
}

/// Reports in one sentence which kinds of kernel events were switched off, and when.
fn note_kinds(switched_off: &[kernel::SwitchedOff], target: Target<'_>, account: &mut Account) {
    let start = target.destination.start_ns as i64;
    let since = |ticks: u64| target.clock.unix_ns(ticks).saturating_sub(start).max(0) as f64 / 1e9;
    let parts: Vec<String> = switched_off.iter().map(|off| format!("{} (from +{:.3} s on)", off.step.what, since(off.begin))).collect();
    if let Some((last, others)) = parts.split_last() {
        let named = if others.is_empty() { last.clone() } else { format!("{} and {last}", others.join(", ")) };
        let why = "the kernel emitted more events than could be stored; with --keep-all all kinds of events are lost alike";
        account.note(format!("{named} were not recorded: {why}"));
    }
}

/// Turns an error of the kernel source into a diagnostic, because everything else can be recorded
/// without it. A wrong request, which the user can correct, remains an error.
pub(super) fn without_kernel<T>(result: Result<T, KernelError>, trouble: &mut Option<String>) -> Result<Option<T>, Error> {
    without(result, KernelError::is_wrong_request, no_kernel, trouble)
}

/// Does the same for an error of capturing interfaces.
pub(super) fn without_interfaces<T>(result: Result<T, InterfaceError>, trouble: &mut Option<String>) -> Result<Option<T>, Error> {
    without(result, InterfaceError::is_wrong_request, no_packets, trouble)
}

fn without<T, E: Into<Error>>(
    result: Result<T, E>,
    is_wrong_request: impl Fn(&E) -> bool,
    sentence: impl Fn(&E) -> String,
    trouble: &mut Option<String>,
) -> Result<Option<T>, Error> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if is_wrong_request(&error) => Err(error.into()),
        Err(error) => {
            *trouble = Some(sentence(&error));
            Ok(None)
        }
    }
}

/// The request for packets of interfaces; `None` if no interface is to be captured.
pub(super) fn packets_request(options: &Options, config: &Config) -> Option<interfaces::Request> {
    let mut request = config.packets.clone();
    if let Some(patterns) = &options.packets {
        request.interfaces.clone_from(patterns);
    }
    request.snaplen = options.snaplen.unwrap_or(request.snaplen);
    (!request.interfaces.is_empty()).then_some(request)
}

fn no_packets(error: &impl Display) -> String {
    format!("packets of network devices are not recorded: {error}")
}

fn no_kernel(error: &impl Display) -> String {
    format!("no kernel events are recorded: {error}")
}
