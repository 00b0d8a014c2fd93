//! The kernel's timers: when each was to go off, when its function was called, and how long that took.
//!
//! A timer is its address. When it was to go off is known from its start; timers whose moments are counted in ticks have no length that
//! an event tells, so how late they are is not known.

use crate::hash::IdMap;
use crate::linux::watch::{CpuId, Expiry, TimerKind};

/// More timers than this are not waited for at once.
const MOST: usize = 1 << 20;

#[derive(Debug, Default)]
pub(crate) struct Timers {
    /// What each is to go off at, by its own clock.
    programmed: IdMap<u64, i64>,
    /// Functions that run, by CPU: an interrupt may call one on top of another.
    open: Vec<Vec<Open>>,
    /// By the address of the function.
    kinds: IdMap<u64, TimerKind>,
}

#[derive(Clone, Copy, Debug)]
struct Open {
    timer: u64,
    function: Option<u64>,
    fine: bool,
    begin_ns: i64,
    late_ns: Option<i64>,
}

impl Timers {
    pub fn start(&mut self, timer: u64, at: Option<i64>) {
        match at {
            Some(at) if self.programmed.len() < MOST => {
                self.programmed.insert(timer, at);
            }
            _ => self.cancel(timer),
        }
    }

    pub fn function(&mut self, address: u64, kind: TimerKind) {
        if self.kinds.len() < MOST {
            self.kinds.insert(address, kind);
        }
    }

    /// What a timer of this function is for. Where the trace names some functions, the others are the kernel's own.
    pub fn kind(&self, function: Option<u64>) -> TimerKind {
        match function {
            Some(function) if !self.kinds.is_empty() => self.kinds.get(&function).copied().unwrap_or(TimerKind::Kernel),
            _ => TimerKind::Unknown,
        }
    }

    pub fn cancel(&mut self, timer: u64) {
        self.programmed.remove(&timer);
    }

    /// `now` is the moment by the timer's own clock; only timers with a fine one tell it in ns.
    pub fn enter(&mut self, cpu: CpuId, t_ns: i64, timer: u64, function: Option<u64>, now: Option<i64>) {
        let late_ns = now.zip(self.programmed.remove(&timer)).map(|(now, at)| now.saturating_sub(at));
        let at = cpu.0 as usize;
        if self.open.len() <= at {
            self.open.resize_with(at + 1, Vec::new);
        }
        // One whose end was not seen is over.
        self.open[at].retain(|open| open.timer != timer);
        self.open[at].push(Open { timer, function, fine: now.is_some(), begin_ns: t_ns, late_ns });
    }

    pub fn leave(&mut self, cpu: CpuId, t_ns: i64, timer: u64) -> Option<Expiry> {
        let open = self.open.get_mut(cpu.0 as usize)?;
        let Open { function, fine, begin_ns, late_ns, .. } = open.swap_remove(open.iter().rposition(|open| open.timer == timer)?);
        Some(Expiry { cpu, function, fine, begin_ns, end_ns: t_ns, late_ns })
    }

    /// Events are missing: what was programmed meanwhile is unknown, and so is what ended on this CPU.
    pub fn lost(&mut self, cpu: CpuId) {
        self.programmed.clear();
        if let Some(open) = self.open.get_mut(cpu.0 as usize) {
            open.clear();
        }
    }
}
