//! The description of the recording, `longpole.json`, which is written whenever it has changed.

use super::Recorder;
use crate::clock::Clock;
use crate::control::options::Scope;
use crate::error::Error;
use crate::output::recording;
use crate::recording::Recording;
use serde_json::json;
use std::hash::{DefaultHasher, Hash, Hasher};

/// What is known about the newest description.
#[derive(Debug, Default)]
pub(super) struct Published {
    /// Hash of the newest description; one with the same hash is not written again.
    hash: Option<u64>,
    /// Largest deviation of the clock from CLOCK_REALTIME in ns, by absolute value.
    residual: i64,
}

impl Published {
    /// Measures the deviation of the clock.
    pub fn look_at_clock(&mut self, clock: &Clock) {
        let residual = clock.residual_ns();
        if residual.abs() > self.residual.abs() {
            self.residual = residual;
        }
    }
}

impl Recorder {
    /// Writes `longpole.json` if its contents have changed.
    pub(super) fn describe(&mut self, end: Option<u64>) -> Result<(), Error> {
        let description = self.description(end);
        let mut hash = DefaultHasher::new();
        description.hash(&mut hash);
        if self.published.hash == Some(hash.finish()) {
            return Ok(());
        }
        let destination = &self.recording.files.destination;
        let written = recording::describe(&destination.folder.path(), &description);
        written.map_err(Error::io("write", destination.path.join("longpole.json")))?;
        self.published.hash = Some(hash.finish());
        Ok(())
    }

    /// Contents of `longpole.json`. `end`: Unix time in ns at which the recording ended.
    pub(super) fn description(&self, end: Option<u64>) -> serde_json::Value {
        let Recording { rules, files, account, clock, .. } = &self.recording;
        let total = self.chunks.own(&self.recording.account.totals);
        let kernel = self.sources.kernel.describe(&self.recording.clock);
        let kernel = kernel.map(|mut kernel| {
            if let Some(bytes) = kernel["recorded_bytes"].as_u64() {
                kernel["recorded_bytes"] = self.chunks.own_kernel(bytes).into();
            }
            kernel
        });
        let samples = self.sources.stacks.describe();
        let packets = self.sources.interfaces.describe();
        let mut sources = vec!["user"];
        sources.extend(kernel.as_ref().map(|_| "kernel"));
        sources.extend(samples.as_ref().map(|_| "samples"));
        sources.extend(packets.as_ref().map(|_| "packets"));
        json!({
            "version": env!("CARGO_PKG_VERSION"),
            "session": rules.session,
            "uuid": files.destination.uuid.to_string(),
            "host": recording::host(),
            "kernel": recording::kernel(),
            "clock": {
                "source": clock.source.name(),
                "frequency_hz": clock.frequency,
                "offset_ns": clock.offset_ns(),
                "residual_ns": self.published.residual,
            },
            "start_ns": files.destination.start_ns,
            "end_ns": end,
            "command": rules.options.command,
            "recorder_pid": std::process::id(),
            "command_pid": rules.ancestor.filter(|_| !rules.options.command.is_empty()),
            "sources": sources,
            "kernel_events": kernel,
            "samples": samples,
            "interface_packets": packets,
            "steady": self.command.describe(),
            "mode": rules.with_requested_mode(rules.config.full_ring_action(None)).mode,
            "policies": rules.config.summary(),
            "loss": { "events": total.lost, "refused": total.refused, "packets": total.packets_refused },
            "chunk": self.chunks.to_json(),
            "probe_cost_ns": rules.options.probe_cost_ns,
            "lanes": files.stream_files.describe(),
            "diagnostics": account.diagnostics(),
        })
    }

    /// Reason why the recording holds no events; `None` if it holds some.
    pub(super) fn why_empty(&self) -> Option<String> {
        let Recording { rules, account, .. } = &self.recording;
        if account.totals.recorded > 0 || account.totals.packets > 0 {
            return None;
        }
        let total = &account.totals;
        let why = if total.processes == 0 {
            let kernel = match rules.options.kernel {
                Some(_) => "",
                None => "; programs without probes are recorded through the kernel's events: `longpole check` lists the requirements",
            };
            format!("no process with probes was seen in {}{kernel}", self.directories.own().common.runtime.path().display())
        } else if !rules.config.enable {
            "the configuration says `enable = false`".to_owned()
        } else if total.refused > 0 {
            format!("{} events had no ring and are lost: {}", total.refused, account.why_refused)
        } else if total.packets_only > 0 {
            match total.packets_refused {
                0 => "no packet was captured, and no policy wanted anything else".to_owned(),
                refused => format!("none of {refused} packets could be written"),
            }
        } else if total.dropped > 0 {
            "no policy wanted any of the threads that wrote events".to_owned()
        } else if total.taken > 0 && total.taken + total.unwanted >= total.processes {
            format!("other recorders record {} of the {} processes with probes", total.taken, total.processes)
        } else if total.unwanted == total.processes {
            match rules.options.scope {
                Scope::Process(pid) => format!("process {pid} was not among the {} processes with probes", total.processes),
                _ => format!(
                    "all {} processes with probes were left out (by policies, or because the command did not start them)",
                    total.processes
                ),
            }
        } else if total.lost > 0 {
            format!("all {} events were lost", total.lost)
        } else {
            format!("{} processes with probes were found, but none of them executed a probe", total.processes - total.unwanted)
        };
        match self.sources.interfaces.has_ended() {
            true => Some(format!("no packet was seen on the network devices, and {why}")),
            false => Some(why),
        }
    }
}
