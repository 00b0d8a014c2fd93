//! The time account of each thread up to any moment, from kernel events. It yields net times of
//! probes' spans.
//!
//! The Linux model reports a piece of time when it ends. A query in the middle of a piece makes the
//! model report that piece up to the moment, so the model that feeds these accounts should not also
//! feed observers that count pieces.

use crate::stats::growing::entry;
use longpole_model::linux::watch::{Base, CpuId, Mode, Occupant, ThreadId, ThreadState, Watch};
use longpole_model::linux::Linux;
use longpole_trace::event::{Catalogue, Event, StreamKind};

/// The times of one thread since the begin of the range.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Account {
    pub running_ns: u64,
    /// Time of interrupts on top of the thread.
    pub interrupted_ns: u64,
    /// Time for which the thread was ready without a CPU.
    pub runnable_ns: u64,
    pub blocked_ns: u64,
}

impl Account {
    /// Returns the times that were added since `earlier`.
    pub fn since(self, earlier: Account) -> Account {
        Account {
            running_ns: self.running_ns.saturating_sub(earlier.running_ns),
            interrupted_ns: self.interrupted_ns.saturating_sub(earlier.interrupted_ns),
            runnable_ns: self.runnable_ns.saturating_sub(earlier.runnable_ns),
            blocked_ns: self.blocked_ns.saturating_sub(earlier.blocked_ns),
        }
    }

    pub fn known_ns(self) -> u64 {
        self.running_ns + self.interrupted_ns + self.runnable_ns + self.blocked_ns
    }
}

/// The accounts of all threads.
#[derive(Debug, Default)]
pub struct Accounts {
    threads: Vec<Account>,
}

impl Accounts {
    /// Returns the account of the thread that emitted a program's event, at the time of the event.
    /// Returns `None` without kernel events, for threads that they do not name, and if they
    /// identify threads by ids of another namespace.
    pub fn at(&mut self, linux: &mut Linux, catalogue: &Catalogue, event: &Event<'_>) -> Option<Account> {
        let stream = catalogue.streams.get(event.stream.0 as usize)?;
        if linux.counts.switches.in_all == 0 || catalogue.foreign_pids || stream.kind != StreamKind::User {
            return None;
        }
        let tid = catalogue.subjects.get(event.subject.0 as usize)?.tid?;
        let thread = linux.report_until(tid, event.t_ns, self)?;
        Some(*self.of(thread))
    }

    fn of(&mut self, thread: ThreadId) -> &mut Account {
        entry(&mut self.threads, thread.0)
    }
}

impl Watch for Accounts {
    fn occupied(&mut self, _cpu: CpuId, by: Occupant, base: Base, _mode: Mode, begin_ns: i64, end_ns: i64) {
        let ns = (end_ns - begin_ns) as u64;
        match (by, base) {
            (Occupant::Thread(id), _) => self.of(id).running_ns += ns,
            (Occupant::Context(_), Base::Thread(id)) => self.of(id).interrupted_ns += ns,
            _ => {}
        }
    }

    fn claimed(&mut self, _cpu: CpuId, base: Base, ns: u64, interrupts_ns: u64) {
        if let Base::Thread(id) = base {
            let account = self.of(id);
            account.running_ns += ns;
            account.interrupted_ns += interrupts_ns;
        }
    }

    fn was(&mut self, id: ThreadId, state: ThreadState, begin_ns: i64, end_ns: i64) {
        let ns = (end_ns - begin_ns) as u64;
        match state {
            ThreadState::Runnable | ThreadState::Preempted => self.of(id).runnable_ns += ns,
            ThreadState::Blocked(_) => self.of(id).blocked_ns += ns,
            ThreadState::Unknown | ThreadState::Running | ThreadState::Dead => {}
        }
    }
}
