//! Requests for snapshots: those that are answered at once, and those that wait for a condition.
//! Requests to write all events, from processes that follow the recording.

use super::Recorder;
use crate::control::condition::Condition;
use crate::control::mailbox::{Mailbox, Request};
use crate::files::wakeups::{Wakeup, Wakeups};
use crate::recording::triggers::{start_at_head, Triggers, MAX_LOOK_INTERVAL};
use std::path::Path;
use std::time::Duration;

/// The mailbox in which requests arrive.
#[derive(Debug, Default)]
pub(super) struct Requests {
    /// `None` if no requests can be made.
    mailbox: Option<Mailbox>,
    /// True if a request arrived or was withdrawn.
    changed: bool,
    /// Requests to write all events, each with the number of the kernel's flush that it waits for.
    flushes: Vec<(String, u64)>,
}

impl Requests {
    /// Takes requests from now on. Returns a diagnostic if that is not possible.
    pub fn open(&mut self, recording: &Path, wakeups: &Wakeups) -> Result<(), String> {
        let mailbox = Mailbox::make(recording).map_err(|error| format!("snapshots cannot be requested: {error}"))?;
        let _ = wakeups.watch(&mailbox.watch, Wakeup::Request);
        self.mailbox = Some(mailbox);
        Ok(())
    }

    pub fn note_change(&mut self) {
        self.changed = true;
    }

    /// Returns whether requests have changed since the last call.
    pub fn take_changed(&mut self) -> bool {
        std::mem::take(&mut self.changed)
    }

    /// Existing requests and their names, oldest first.
    fn existing(&self) -> Vec<(String, Request)> {
        let Some(mailbox) = &self.mailbox else { return Vec::new() };
        mailbox.discard_reports();
        mailbox.requests()
    }

    fn answer(&self, name: &str, answer: &Result<serde_json::Value, String>) {
        if let Some(mailbox) = &self.mailbox {
            mailbox.answer(name, answer);
        }
    }

    /// Removes waiting requests whose process was killed.
    pub fn forget_the_dead(&self, triggers: &Triggers) {
        let Some(mailbox) = &self.mailbox else { return };
        triggers.names().for_each(|name| mailbox.remove_if_left(name));
    }

    /// Notes new requests to write all events. `begin` begins to write those of the kernel, and
    /// returns the number of this flush.
    fn note_flushes(&mut self, begin: impl FnOnce() -> u64) {
        let Some(mailbox) = &self.mailbox else { return };
        let mut new = mailbox.flushes();
        new.retain(|name| self.flushes.iter().all(|(known, _)| known != name));
        if !new.is_empty() {
            let number = begin();
            self.flushes.extend(new.into_iter().map(|name| (name, number)));
        }
    }

    /// Answers the requests to write all events that were noted before the last turn took events.
    /// `done` is the number of the kernel's last flush that is complete.
    fn answer_flushes(&mut self, done: u64) {
        let Some(mailbox) = &self.mailbox else { return };
        self.flushes.retain(|(name, number)| {
            let is_done = *number <= done;
            if is_done {
                mailbox.flushed(name);
            }
            !is_done
        });
    }

    /// Moves to the next chunk. Returns a diagnostic if that is not possible.
    pub fn move_to(&self, old: &Path, new: &Path) -> Result<(), String> {
        let Some(mailbox) = &self.mailbox else { return Ok(()) };
        mailbox.move_to(old, new).map_err(|error| format!("snapshots can no longer be requested: {error}"))
    }

    /// Refuses all requests from now on.
    pub fn close(&mut self, recording: &Path) {
        if let Some(mailbox) = self.mailbox.take() {
            for (name, _) in mailbox.requests() {
                mailbox.answer(&name, &Err("the recording ended".to_owned()));
            }
            mailbox.close(recording);
        }
    }
}

impl Recorder {
    /// Answers requests to write all events, after events were taken.
    pub(super) fn answer_flushes(&mut self) {
        self.requests.answer_flushes(self.sources.kernel.flushed());
    }

    /// Takes up new requests, and drops those that were withdrawn.
    pub(super) fn answer_requests(&mut self) {
        let Recorder { requests, sources, .. } = self;
        requests.note_flushes(|| sources.kernel.flush());
        let requests = self.requests.existing();
        let names: Vec<&str> = requests.iter().map(|(name, _)| name.as_str()).collect();
        self.recording.triggers.keep(&names);
        for (name, request) in requests {
            if self.recording.triggers.names().any(|known| known == name) {
                continue;
            }
            match &request.when {
                None => {
                    let answer = self.snapshot(&request, None).map_err(|error| error.to_string());
                    self.requests.answer(&name, &answer);
                }
                Some(when) => match when.parse::<Condition>() {
                    Ok(condition) => self.arm(name, request, condition),
                    Err(error) => self.requests.answer(&name, &Err(error)),
                },
            }
        }
    }

    fn arm(&mut self, name: String, request: Request, condition: Condition) {
        if self.recording.triggers.is_empty() {
            // Earlier events do not count.
            self.each(|visit| {
                let subjects = visit.directory.processes.values_mut();
                subjects.flat_map(|subject| &mut subject.rings).for_each(start_at_head);
            });
        }
        self.recording.triggers.arm(name, request, condition, &self.recording.clock);
    }

    /// Checks all conditions after all rings were looked at, and takes the snapshots that are due.
    /// Returns the longest time until the next look; `None` without waiting requests.
    pub(super) fn watch(&mut self) -> Option<Duration> {
        let triggers = &mut self.recording.triggers;
        if triggers.is_empty() {
            return None;
        }
        if triggers.reads_kernel() {
            if let Some(lost) = self.sources.kernel.lost() {
                triggers.kernel_has_lost(lost, &self.recording.clock);
            }
        }
        for index in triggers.due(&self.recording.clock).into_iter().rev() {
            let triggers = &mut self.recording.triggers;
            let Some(due) = triggers.take(index) else { continue };
            let unseen = triggers.take_unseen();
            if unseen > 0 {
                self.recording.note(format!("{unseen} events were overwritten before a trigger saw them"));
            }
            let answer = self.snapshot(&due.request, Some(due.cause)).map_err(|error| error.to_string());
            self.requests.answer(&due.name, &answer);
        }
        Some(MAX_LOOK_INTERVAL)
    }
}
