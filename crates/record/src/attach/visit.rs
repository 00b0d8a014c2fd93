//! Visits every process once a turn: writes its orders, reads its changed label, and takes up its
//! new rings.

use super::rings::{rings_of, MAX_RINGS, MAX_WAITING_TURNS};
use super::{Attach, Visit};
use crate::subjects::Subject;
use std::sync::atomic::Ordering;

/// Limit of new rings per process and turn, because a damaged counter must not block the recorder.
const RINGS_A_TURN: u32 = 256;

impl Visit<'_> {
    /// Writes orders, reads changed labels, and takes up new rings of all processes.
    pub fn visit(&mut self) {
        let (processes, mut attach) = self.processes();
        processes.values_mut().for_each(|subject| attach.visit(subject));
    }

    /// Decides again about all processes after a change of the configuration or the selection.
    pub fn decide_again(&mut self) {
        let rules = &self.recording.rules;
        for subject in self.directory.processes.values_mut() {
            subject.set_order(rules.order_for(&subject.process.label, subject.process.pid, subject.wanted));
        }
    }
}

impl Attach<'_> {
    /// Decides whether and how a process is recorded. The next visit writes the orders.
    pub(super) fn decide(&mut self, subject: &mut Subject) {
        let rules = &self.recording.rules;
        subject.wanted = rules.wants(&subject.process);
        subject.set_order(rules.order_for(&subject.process.label, subject.process.pid, subject.wanted));
    }

    fn visit(&mut self, subject: &mut Subject) {
        if subject.process.refresh_label() {
            self.decide(subject);
            for source in &subject.rings {
                if let Some(lane) = source.lane.and_then(|lane| self.recording.files.stream_files.get_mut(lane)) {
                    lane.set_label(&subject.process.label);
                }
            }
        }
        if !subject.claimed && (subject.order.mask == 0 || subject.ended || !self.take_up(subject)) {
            return;
        }
        subject.order.apply(&subject.process.control().orders);
        self.leave_if_silent(subject);
        if !subject.claimed {
            return;
        }
        self.take_new_rings(subject);
    }

    /// Takes up the rings that the process has announced since the last visit.
    fn take_new_rings(&mut self, subject: &mut Subject) {
        let rings = subject.process.control().rings.load(Ordering::Acquire);
        // A process that has ended gets no further turn.
        let a_turn = if subject.ended { MAX_RINGS as u32 } else { RINGS_A_TURN };
        let most = subject.process.rings_seen.saturating_add(a_turn);
        while subject.process.rings_seen < rings.min(most) {
            let number = subject.process.rings_seen;
            if !self.take_ring(subject, number, true, false, false) {
                subject.process.missing += 1;
                if subject.process.missing < MAX_WAITING_TURNS {
                    break;
                }
                // One text for all rings of the process, because the number of different
                // diagnostics is limited.
                self.recording.note(format!("{}: a ring that it announced is not there", subject.process.stem));
                // Later missing rings of this process are given up at once.
                subject.process.missing = MAX_WAITING_TURNS - 1;
            } else {
                subject.process.missing = 0;
            }
            subject.process.rings_seen += 1;
        }
    }

    /// Takes up a process that another recorder held before, or that was not selected before.
    fn take_up(&mut self, subject: &mut Subject) -> bool {
        if !self.claim(subject) {
            return false;
        }
        subject.process.forget_refused();
        let entries = self.common.entries().unwrap_or_default();
        self.take_rings(subject, &rings_of(&entries), false, false);
        true
    }
}
