//! Sources other than the rings of programs: the kernel's events, stack samples, packets of
//! interfaces. Each may be unavailable; the others are recorded nevertheless.

use super::*;

/// Diagnostic for a recorder in a container with its own pid namespace.
const FOREIGN_PIDS: &str = "this recorder is in a pid namespace of its own, and the kernel's events name threads by the numbers of the whole machine: who was there at the start is not recorded, and probes and kernel events are not joined by threads (record outside, or in a container with the host's pids: `docker run --pid=host`)";

/// Sources that start again with each chunk.
pub(crate) struct Context {
    uuid: Uuid,
    stacks: bool,
    interfaces: bool,
}

impl Recorder {
    pub(super) fn begin_kernel(&mut self) {
        if let Some(kernel) = &mut self.kernel {
            if let Err(error) = kernel.begin(self.clock.source) {
                self.kernel_trouble = Some(no_kernel(&error));
                self.kernel = None;
                let _ = std::fs::remove_dir_all(self.path.join("kernel"));
            }
        }
        if self.kernel.is_some() && kernel::has_foreign_pids() {
            self.kernel_trouble = Some(FOREIGN_PIDS.to_owned());
        }
        if let Some(trouble) = self.kernel_trouble.clone() {
            self.diagnostic(trouble);
        }
    }

    /// Pauses the kernel's tracer until [`Recorder::thaw_kernel`].
    pub(crate) fn pause_kernel(&mut self) -> Option<kernel::Pause> {
        self.kernel.as_mut()?.freeze()
    }

    /// Empties the kernel's buffers into the recording or, if they overwrite, into the snapshot,
    /// and lets the tracer continue. Returns the kernel's entry for the snapshot; null after an
    /// error.
    pub(crate) fn thaw_kernel(&mut self, frozen: kernel::Pause, snapshot: &Path, notes: &mut Vec<String>) -> serde_json::Value {
        let Some(kernel) = &mut self.kernel else { return serde_json::Value::Null };
        kernel.thaw(frozen, snapshot).unwrap_or_else(|error| {
            notes.push(error.clone());
            self.diagnostic(error);
            serde_json::Value::Null
        })
    }

    /// Number of events that the kernel has lost until now; `None` without kernel events, or if its
    /// buffers overwrite the oldest events, which does not count as a loss.
    pub(crate) fn kernel_lost(&self) -> Option<u64> {
        self.kernel.as_ref()?.lost()
    }

    pub(super) fn open_mailbox(&mut self) {
        match Mailbox::make(&self.path) {
            Ok(mailbox) => {
                let _ = epoll::add(&self.epoll, &mailbox.watch, epoll::EventData::new_u64(TOKEN_REQUEST), epoll::EventFlags::IN);
                self.mailbox = Some(mailbox);
            }
            Err(error) => self.diagnostic(format!("no snapshot can be asked for: {error}")),
        }
    }

    pub(crate) fn kernel_bytes(&self) -> u64 {
        self.kernel.as_ref().map_or(0, kernel::Source::bytes)
    }

    /// Redirects the sources other than rings to the recording at `path`. Returns the sources that
    /// must be started again there.
    pub(crate) fn rotate_sources(&mut self, path: &Path, uuid: &Uuid) -> Context {
        if let Some(kernel) = &mut self.kernel {
            self.kernel_entry = Some(kernel.told(&self.clock));
            if let Err(error) = kernel.rotate(path) {
                self.diagnostic(format!("the kernel's events stay in the chunk before: {error}"));
            }
        }
        let context = Context { uuid: *uuid, stacks: self.stacks.is_some(), interfaces: self.interfaces.is_some() };
        self.end_stacks();
        self.end_interfaces();
        context
    }

    /// Starts the sources of `context` in the new recording.
    pub(crate) fn begin_with(&mut self, context: Context) {
        (self.kernel_entry, self.stacks_told, self.interfaces_told) = (None, None, None);
        if context.stacks {
            let uuid = std::mem::replace(&mut self.uuid, context.uuid);
            self.begin_stacks();
            self.uuid = uuid;
        }
        if let (true, Some(request)) = (context.interfaces, packets_request(&self.options, &self.config)) {
            self.interfaces = interfaces::Source::prepare(&request).ok();
            self.begin_interfaces();
        }
    }

    pub(crate) fn move_mailbox(&mut self, old: &Path) {
        if let Some(mailbox) = &self.mailbox {
            if let Err(error) = mailbox.move_to(old, &self.path) {
                self.diagnostic(format!("no snapshot can be asked for any more: {error}"));
            }
        }
    }

    pub(super) fn close_mailbox(&mut self) {
        if let Some(mailbox) = self.mailbox.take() {
            for (name, _) in mailbox.requests() {
                mailbox.answer(&name, &Err("the recording ended".to_owned()));
            }
            mailbox.close(&self.path);
        }
    }

    pub(super) fn begin_stacks(&mut self) {
        let Some(hz) = self.options.stacks else { return };
        let begun = Stacks::prepare(hz).and_then(|mut stacks| {
            stacks.begin(&self.path, &self.uuid, &self.clock)?;
            Ok(stacks)
        });
        match begun {
            Ok(stacks) => self.stacks = Some(stacks),
            Err(error) => {
                let trouble = no_stacks(&error);
                self.diagnostic(trouble.clone());
                self.stacks_trouble = Some(trouble);
                let _ = std::fs::remove_dir_all(self.path.join(stacks::FOLDER));
            }
        }
    }

    pub(super) fn end_stacks(&mut self) -> Option<SampleOutcome> {
        let (outcome, told, diagnostics) = self.stacks.take()?.stop();
        diagnostics.into_iter().for_each(|diagnostic| self.diagnostic(diagnostic));
        self.stacks_told = Some(told);
        Some(outcome)
    }

    /// Reports in one sentence which kinds of kernel events were switched off, and when.
    fn diagnostics_of(&mut self, switched_off: &[kernel::SwitchedOff]) {
        let since = |ticks: u64| self.clock.unix_ns(ticks).saturating_sub(self.start as i64).max(0) as f64 / 1e9;
        let parts: Vec<String> = switched_off.iter().map(|off| format!("{} (from +{:.3} s on)", off.step.what, since(off.begin))).collect();
        if let Some((last, others)) = parts.split_last() {
            let named = if others.is_empty() { last.clone() } else { format!("{} and {last}", others.join(", ")) };
            let why = "the kernel emitted more events than could be stored; --keep-all gives up no kind, and loses of all alike";
            self.diagnostic(format!("{named} were not recorded: {why}"));
        }
    }

    /// Rewrites the description if kinds of kernel events were switched off, so that the recording
    /// reports it even if this recorder is killed.
    pub(super) fn note_switched_off(&mut self) -> Result<(), Error> {
        match self.kernel.as_mut().is_some_and(kernel::Source::note_switched_off) {
            true => self.describe(None),
            false => Ok(()),
        }
    }

    /// Stops the kernel's tracer. Called after the last events of programs were taken.
    pub(super) fn end_kernel(&mut self) -> Option<KernelOutcome> {
        let mut kernel = self.kernel.take()?;
        kernel.calm();
        let mut told = kernel.told(&self.clock);
        let switched_off = kernel.switched_off();
        let drained = kernel.stop();
        for diagnostic in &drained.diagnostics {
            self.diagnostic(diagnostic.clone());
        }
        self.diagnostics_of(&switched_off);
        let outcome = KernelOutcome { events: drained.events(), lost: drained.lost(), cpus: drained.cpus.len() };
        told["recorded_bytes"] = drained.bytes.into();
        told["events"] = outcome.events.into();
        told["lost"] = outcome.lost.into();
        told["cpus"] = drained.cpus_json();
        told["counters"] = drained.grown.map_or(serde_json::Value::Null, |grown| grown.to_json(&self.clock));
        self.kernel_entry = Some(told);
        Some(outcome)
    }

    pub(super) fn begin_interfaces(&mut self) {
        if let Some(interfaces) = &mut self.interfaces {
            if let Err(error) = interfaces.begin(&self.path, self.clock) {
                self.interfaces_trouble = Some(no_packets(&error));
                self.interfaces = None;
            }
        }
        if let Some(trouble) = self.interfaces_trouble.clone() {
            self.diagnostic(trouble);
        }
    }

    pub(super) fn end_interfaces(&mut self) -> Option<InterfacesOutcome> {
        let captured = self.interfaces.take()?.stop();
        for diagnostic in &captured.diagnostics {
            self.diagnostic(diagnostic.clone());
        }
        self.interfaces_told = Some(captured.to_json());
        self.total.packets += captured.packets;
        self.total.packets_refused += captured.lost();
        Some(InterfacesOutcome { packets: captured.packets, lost: captured.lost(), interfaces: captured.interfaces.len() })
    }
}

/// Turns an error of the kernel source into a diagnostic, because everything else can be recorded
/// without it. A wrong request, which the user can correct, remains an error.
pub(super) fn without_kernel<T>(result: Result<T, kernel::KernelError>, trouble: &mut Option<String>) -> Result<Option<T>, Error> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.is_wrong_request() => Err(error.into()),
        Err(error) => {
            *trouble = Some(no_kernel(&error));
            Ok(None)
        }
    }
}

pub(super) fn no_stacks(error: &StacksError) -> String {
    format!("no stacks are sampled: {error}")
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

pub(super) fn without_interfaces<T>(
    result: Result<T, interfaces::InterfaceError>,
    trouble: &mut Option<String>,
) -> Result<Option<T>, Error> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.is_wrong_request() => Err(error.into()),
        Err(error) => {
            *trouble = Some(no_packets(&error));
            Ok(None)
        }
    }
}

pub(super) fn no_packets(error: &interfaces::InterfaceError) -> String {
    format!("no packets of interfaces are recorded: {error}")
}

pub(super) fn no_kernel(error: &kernel::KernelError) -> String {
    format!("no kernel events are recorded: {error}")
}
