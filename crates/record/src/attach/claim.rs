//! Decides which recorder records a process.
//!
//! One recorder at a time writes the orders of a process and takes its events: the one that holds
//! the lock of the process's control file. To *claim* a process is to take that lock.
//!
//! A recorder of all programs first claims every process, because a new process follows the orders
//! in `session` before the recorder has looked at it. It releases the processes that it does not
//! record once they are silent. It leaves alone the processes of other recorders, and claims them
//! when those recorders have ended. A recorder of a single process claims only that process. A
//! recorder of a command claims only the command's processes if a recorder of all programs is
//! already running; those processes follow the command's recorder from their start, and the other
//! recorder leaves them alone.

use super::Attach;
use crate::output::account::Account;
use crate::runtime_dir::claim::holder;
use crate::runtime_dir::process::Process;
use crate::runtime_dir::session::{self, Responsibility};
use crate::subjects::Subject;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Number of turns without events after which a process is released, once its orders are to record
/// nothing.
const SILENT_TURNS: u32 = 3;
/// Time between two checks whether the recorder of another command is still running.
const OTHER_RECORDER_INTERVAL: Duration = Duration::from_millis(50);

impl Attach<'_> {
    /// Returns whether another recorder's command started the process and that recorder is running.
    pub(super) fn is_of_another_command(&self, process: &Process) -> bool {
        let number = process.recording_of_command();
        number != 0 && number != self.recording.rules.session && session::is_held(&self.common.runtime, Responsibility::Command(number))
    }

    /// Claims a process if it must be claimed and no other recorder holds it. Returns whether this
    /// recorder holds it.
    pub(super) fn claim(&mut self, subject: &mut Subject) -> bool {
        let now = Instant::now();
        if subject.next_claim_attempt.is_some_and(|until| now < until) {
            return false;
        }
        subject.next_claim_attempt = self.is_of_another_command(&subject.process).then(|| now + OTHER_RECORDER_INTERVAL);
        if subject.next_claim_attempt.is_some() {
            self.report_other_command(subject);
            return false;
        }
        subject.claimed = (subject.order.mask != 0 || !self.common.is_alone()) && subject.process.claim();
        if !subject.claimed && subject.order.mask != 0 && !subject.reported_as_held {
            subject.reported_as_held = true;
            self.recording.account.totals.taken += 1;
            let holder = match holder(&self.common.runtime, subject.process.session()) {
                Some(running) => format!("process {} to {}", running.pid, running.path.display()),
                None => "somebody else".to_owned(),
            };
            let (pid, label) = (subject.process.pid, &subject.process.label);
            self.recording.note(format!("process {pid} ({label}) is recorded by {holder}, and not here until that recording ends"));
        }
        if subject.claimed
            && subject.order.mask != 0
            && matches!(self.common.held.responsibility(), Responsibility::Command(_))
            && subject.process.recording_of_command() != self.recording.rules.session
        {
            let text = "programs of the command without LONGPOLE_SESSION in their environment are recorded only after they were found, because another recorder records new programs";
            self.recording.note(text.to_owned());
        }
        subject.claimed
    }

    /// Reports once that another recorder records the command's processes; there may be thousands
    /// of them.
    fn report_other_command(&mut self, subject: &mut Subject) {
        if subject.order.mask == 0 || std::mem::replace(&mut subject.reported_as_held, true) {
            return;
        }
        self.recording.account.totals.taken += 1;
        let running = holder(&self.common.runtime, subject.process.recording_of_command());
        let whose =
            running.map_or_else(|| "another one".to_owned(), |running| format!("process {} to {}", running.pid, running.path.display()));
        self.recording.note(format!("what a command starts is recorded by {whose}, and not here until that recording ends"));
    }

    /// Releases a process that has nothing to record and is silent, so that another recorder may
    /// claim it.
    pub(super) fn leave_if_silent(&mut self, subject: &mut Subject) {
        let process = &subject.process;
        let silent = subject.order.mask == 0
            && !subject.ended
            && process.control().rings.load(Ordering::Acquire) <= process.rings_seen
            && subject.rings.iter().all(|source| source.broken || !source.fresh_since_look());
        subject.silent_turns = if silent { subject.silent_turns + 1 } else { 0 };
        if subject.silent_turns <= SILENT_TURNS {
            return;
        }
        for mut source in subject.rings.drain(..) {
            self.drain().tail_losses(&subject.process, &mut source, false);
            let totals = &mut self.recording.account.totals;
            totals.waited = totals.waited.saturating_add(source.ring.waited());
            if let Some(lane) = source.lane {
                self.recording.close_lane(lane, false);
            }
        }
        count_refused(subject, &mut self.recording.account);
        subject.silent_turns = 0;
        subject.process.rings_seen = 0;
        subject.process.missing = 0;
        subject.claimed = false;
        subject.process.leave();
    }
}

/// Adds the events of threads without a ring to the sums.
pub(super) fn count_refused(subject: &mut Subject, account: &mut Account) {
    let refused = subject.process.refused();
    if refused == 0 || !subject.wanted || !subject.claimed {
        return;
    }
    subject.process.refused_before = subject.process.refused_before.wrapping_add(refused as u32);
    account.totals.refused += refused;
    account.why_refused = why_refused(subject.process.control().refused_errno.load(Ordering::Relaxed));
    let text = format!("{}: {refused} events had no ring and are lost: {}", subject.process.label, account.why_refused);
    account.note(text);
}

/// Reason why a thread has no ring, from the errno that its process stored.
fn why_refused(errno: u32) -> String {
    match errno as i32 {
        // The process was forked by a signal handler within a probe and has not set a reason.
        0 => "the reason is unknown".to_owned(),
        libc::EACCES => "the runtime directory was not accessible: the process changed its user after its start".to_owned(),
        libc::ENOENT => "the runtime directory was not there: it was removed, or is outside of the process's root (chroot)".to_owned(),
        libc::EAGAIN => "no ring was available: other threads of the process held the table of rings".to_owned(),
        errno => format!("there was no memory for a ring ({})", std::io::Error::from_raw_os_error(errno)),
    }
}
