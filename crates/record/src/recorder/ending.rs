//! The end of a recording: takes the last events, completes the files, and explains an empty
//! recording.

use super::*;
use std::hash::{DefaultHasher, Hash, Hasher};

impl Recorder {
    /// Ends the recording: the orders of all processes are withdrawn, all events written until then
    /// are taken, and the files get their final form. A write error becomes a diagnostic and does
    /// not prevent the remaining steps.
    pub fn finish(self) -> Outcome {
        self.finish_with(&mut |_, _| true, &mut |_| Vec::new())
    }

    /// Does the same as [`Recorder::finish`], with two callbacks.
    ///
    /// `progress` is called with the number of kernel pages converted and their total; if it
    /// returns false, the remaining pages are converted by the first reader of the recording.
    /// `complete` may add files to the recording before it is marked as done; it returns
    /// diagnostics.
    pub fn finish_with(mut self, progress: &mut dyn FnMut(u64, u64) -> bool, complete: &mut dyn FnMut(&Path) -> Vec<String>) -> Outcome {
        if let Err(error) = self.follow_moved_folder() {
            self.diagnostic(error.to_string());
        }
        let _ = self.in_each_directory(|recorder| {
            recorder.quiet();
            recorder.drain(true);
            Ok::<(), Error>(())
        });
        self.flush_captures();
        self.write_outputs(true);
        self.close_mailbox();
        let interfaces = self.end_interfaces();
        let mut kernel = self.end_kernel();
        let samples = self.end_stacks();
        let _ = self.in_each_directory(|recorder| {
            recorder.reap();
            recorder.last_losses();
            let stems: Vec<String> = recorder.place.subjects.keys().cloned().collect();
            for stem in stems {
                recorder.release_subject(&stem, false);
            }
            Ok::<(), Error>(())
        });
        self.sample_clock();
        for index in 0..self.lanes.len() {
            self.close_lane(index, true);
        }
        let end = self.now_ns();
        for mut capture in std::mem::take(&mut self.captures).into_values() {
            let result = capture.finish(end).map_err(|error| error.to_string());
            if result.is_err() && self.reserve.give() {
                // Packets may be dropped, but their number must be written.
                let _ = capture.flush();
            }
            self.capture_written(&mut capture, result);
            self.total.packets += capture.packets();
        }
        self.end_chunks();
        if self.total.waited > 0 {
            self.diagnostic(format!("threads waited {:.1} ms in all for room in their rings", self.total.waited as f64 / 1e6));
        }
        self.reserve.remove();
        if let Err(error) = self.describe(Some(end)) {
            self.diagnostic(error.to_string());
        }
        let (mut notes, mut changed) = (Vec::new(), false);
        if let Some(outcome) = &mut kernel {
            match kernel::complete(&self.path, progress) {
                Ok(done) => {
                    // The kernel counts the events that it handed out, including those that did not
                    // reach the disk.
                    (outcome.events, outcome.lost) = (done.events, done.lost);
                    if let Some(told) = &mut self.kernel_entry {
                        (told["events"], told["lost"]) = (done.events.into(), done.lost.into());
                        told["damaged_pages"] = done.damaged_pages.into();
                    }
                    changed = true;
                    notes.extend(done.diagnostics);
                }
                Err(error) => notes.push(format!("the kernel's events are not converted yet: {error}")),
            }
        }
        notes.extend(complete(&self.path));
        if changed || !notes.is_empty() {
            notes.into_iter().for_each(|note| self.diagnostic(note));
            let _ = self.describe(Some(end));
        }
        self.finished();
        Outcome {
            recorded: self.total.recorded,
            lost: self.total.lost,
            lanes: self.closed.len(),
            empty: self
                .why_empty()
                .filter(|_| kernel.is_none_or(|kernel| kernel.events == 0) && samples.is_none_or(|samples| samples.samples == 0)),
            kernel,
            samples,
            interfaces,
            packets: self.total.packets,
            diagnostics: self.diagnostics(),
            path: self.path,
        }
    }

    /// Ends the recording before anything was recorded, and removes it.
    pub fn abandon(mut self) {
        let _ = self.in_each_directory(|recorder| {
            recorder.quiet();
            Ok::<(), Error>(())
        });
        self.kernel = None;
        self.stacks = None;
        self.interfaces = None;
        self.finished();
        // If the removal fails, a readable, empty recording remains.
        let _ = std::fs::remove_dir_all(&self.path);
    }

    /// Marks the recording as complete, so that no later recorder tries to recover it.
    pub(super) fn finished(&self) {
        [&self.place].into_iter().chain(&self.others).for_each(|place| place.held.finished(&place.runtime));
    }

    /// Reason why the recording holds no events; `None` if it holds some.
    pub(super) fn why_empty(&self) -> Option<String> {
        if self.total.recorded > 0 || self.total.packets > 0 {
            return None;
        }
        let total = &self.total;
        let why = if total.processes == 0 {
            let kernel = match self.options.kernel {
                Some(_) => "",
                None => "; programs without probes are recorded through the kernel: `longpole check` says what that needs",
            };
            format!("no process with probes was seen in {}{kernel}", self.place.runtime.path().display())
        } else if !self.config.enable {
            "the configuration says `enable = false`".to_owned()
        } else if total.refused > 0 {
            format!("{} events {}", total.refused, self.why_refused)
        } else if total.packets_only > 0 {
            match total.packets_refused {
                0 => "no packet was captured, and no policy wanted anything else".to_owned(),
                refused => format!("none of {refused} packets could be written"),
            }
        } else if total.dropped > 0 {
            "no policy wanted any of the threads that wrote events".to_owned()
        } else if total.taken > 0 && total.taken + total.unwanted >= total.processes {
            format!("other recorders have {} of the {} processes with probes", total.taken, total.processes)
        } else if total.unwanted == total.processes {
            match self.options.scope {
                Scope::Process(pid) => format!("process {pid} was not among the {} processes with probes", total.processes),
                _ => format!(
                    "all {} processes with probes were left out (by policies, or because the command did not start them)",
                    total.processes
                ),
            }
        } else if total.lost > 0 {
            format!("all {} events were lost", total.lost)
        } else {
            format!("{} processes with probes were there, and none of them came to a probe", total.processes - total.unwanted)
        };
        match self.interfaces_told {
            Some(_) => Some(format!("no packet was seen on the network devices, and {why}")),
            None => Some(why),
        }
    }

    /// Writes `longpole.json` if its contents have changed.
    pub(crate) fn describe(&mut self, end: Option<u64>) -> Result<(), Error> {
        let description = self.description(end);
        let mut hash = DefaultHasher::new();
        description.hash(&mut hash);
        if self.described == Some(hash.finish()) {
            return Ok(());
        }
        recording::describe(&self.home.path(), &description).map_err(Error::io("write", self.path.join("longpole.json")))?;
        self.described = Some(hash.finish());
        Ok(())
    }

    /// Contents of `longpole.json`. `end`: Unix time in ns at which the recording ended.
    pub(crate) fn description(&self, end: Option<u64>) -> serde_json::Value {
        let total = self.chunks.own(&self.total);
        let mut lanes = self.closed.clone();
        for lane in self.lanes.iter().flatten() {
            lanes.insert(lane.number, lane.describe());
        }
        let kernel = self.kernel_entry.clone().or_else(|| self.kernel.as_ref().map(|kernel| kernel.told(&self.clock)));
        let kernel = kernel.map(|mut kernel| {
            if let Some(bytes) = kernel["recorded_bytes"].as_u64() {
                kernel["recorded_bytes"] = self.chunks.own_kernel(bytes).into();
            }
            kernel
        });
        let samples = self.stacks_told.clone().or_else(|| self.stacks.as_ref().map(Stacks::describe));
        let packets = self.interfaces_told.clone().or_else(|| self.interfaces.as_ref().map(interfaces::Source::describe));
        let steady = self.options.steady.and_then(|(asked, _)| match self.steady.as_ref()? {
            Ok(granted) => Some(granted.to_json(asked)),
            Err(why) => Some(json!({ "asked": asked.name(), "policy": null, "priority": null, "slice_ns": null, "why": why })),
        });
        let mut sources = vec!["user"];
        sources.extend(kernel.as_ref().map(|_| "kernel"));
        sources.extend(samples.as_ref().map(|_| "samples"));
        sources.extend(packets.as_ref().map(|_| "packets"));
        json!({
            "version": env!("CARGO_PKG_VERSION"),
            "session": self.session,
            "uuid": self.uuid.to_string(),
            "host": recording::host(),
            "kernel": recording::kernel(),
            "clock": {
                "source": self.clock.source.name(),
                "frequency_hz": self.clock.frequency,
                "offset_ns": self.clock.offset_ns(),
                "residual_ns": self.residual,
            },
            "start_ns": self.start,
            "end_ns": end,
            "command": self.options.command,
            "recorder_pid": std::process::id(),
            "command_pid": self.ancestor.filter(|_| !self.options.command.is_empty()),
            "sources": sources,
            "kernel_events": kernel,
            "samples": samples,
            "interface_packets": packets,
            "steady": steady,
            "mode": self.manner(self.config.manner(None)).mode,
            "policies": self.config.summary(),
            "loss": { "events": total.lost, "refused": total.refused, "packets": total.packets_refused },
            "chunk": self.chunks.to_json(),
            "probe_cost_ns": self.options.probe_cost_ns,
            "lanes": lanes.into_values().collect::<Vec<_>>(),
            "diagnostics": self.diagnostics(),
        })
    }
}
