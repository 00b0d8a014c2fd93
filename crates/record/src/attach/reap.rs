//! Lets go of processes: of those that have ended, and of all at the end of the recording.

use super::claim::count_refused;
use super::{Attach, Visit};
use crate::subjects::ring_source::Decision;
use crate::subjects::Subject;

/// Number of turns after which an ended process is forgotten even if its rings still change,
/// because another process must be writing to them.
const TURNS_DEAD: u32 = 100;

impl Visit<'_> {
    /// Removes processes that have ended and whose events have all been taken.
    pub fn reap(&mut self) {
        let ended = self.directory.processes.iter().filter(|(_, subject)| subject.ended);
        let ended: Vec<String> = ended.map(|(stem, _)| stem.clone()).collect();
        for stem in ended {
            let (processes, mut attach) = self.processes();
            let Some(subject) = processes.get_mut(&stem) else { continue };
            if attach.empties(subject) {
                self.release(&stem, true);
            }
        }
    }

    /// Forgets a process. With `remove`, its files are removed too.
    pub fn release(&mut self, stem: &str, remove: bool) {
        let Some(mut subject) = self.directory.processes.remove(stem) else { return };
        count_refused(&mut subject, &mut self.recording.account);
        let pid = subject.process.pid;
        // A process that executed another program continues under a new control file.
        if !self.recording.triggers.is_empty() && !self.directory.processes.values().any(|other| other.process.pid == pid) {
            self.recording.triggers.process_is_gone(pid);
        }
        // Another recorder may hold the process.
        let remove = remove && subject.claimed;
        if subject.order.mask == 0 && (!subject.wanted || self.recording.rules.config.for_process(&subject.process.label).is_none()) {
            self.recording.account.totals.unwanted += 1;
        }
        for source in subject.rings {
            let totals = &mut self.recording.account.totals;
            totals.waited = totals.waited.saturating_add(source.ring.waited());
            if remove {
                self.directory.common.runtime.remove(&source.ring.name);
                if let Some(larger) = source.larger() {
                    self.directory.common.runtime.remove(&larger.name);
                }
            }
            if let Some(lane) = source.lane {
                self.recording.close_lane(lane, false);
            }
        }
        if remove {
            for name in &subject.ignored {
                self.directory.common.runtime.remove(name);
            }
            self.directory.common.runtime.remove(&format!("{stem}.control"));
        }
    }

    /// Forgets all processes at the end of the recording.
    pub fn release_all(&mut self) {
        let stems: Vec<String> = self.directory.processes.keys().cloned().collect();
        for stem in stems {
            self.release(&stem, false);
        }
    }
}

impl Attach<'_> {
    /// Writes the last losses of a process that has ended. Returns false if its rings still have
    /// events, which the next turn takes.
    fn empties(&mut self, subject: &mut Subject) -> bool {
        // A thread may have switched to a larger ring and died; that ring has not been looked at
        // yet.
        let more = subject.rings.iter().any(|source| !source.broken && source.fresh_since_look());
        subject.turns_dead += 1;
        if more && subject.turns_dead < TURNS_DEAD {
            return false;
        }
        if more {
            let stem = &subject.process.stem;
            self.recording.note(format!("{stem}: its rings change although it has ended; their events were not taken"));
        }
        let Subject { process, rings, .. } = subject;
        for source in rings.iter_mut().filter(|source| !source.broken && source.decision != Decision::NotRecorded) {
            // The interrupted probe will not run again to merge these events.
            source.extra_lost = source.extra_lost.saturating_add(source.ring.unmerged_side_events());
        }
        for source in rings {
            self.drain().tail_losses(process, source, false);
        }
        true
    }
}
