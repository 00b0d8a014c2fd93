//! The kernel's timers: when each is due, when its function is called, and how long the
//! function runs.
//!
//! A timer is identified by its address. Its expiry time is known from its start event. Timers that
//! count ticks have no expiry time in ns in their events, so their delay is unknown.

use crate::hash::IdMap;
use crate::linux::watch::{CpuId, Expiry, TimerKind};

/// Maximum number of pending timers.
const MAX_PENDING: usize = 1 << 20;

/// The pending timers, and the functions of timers that run.
#[derive(Debug, Default)]
pub(crate) struct Timers {
    /// Expiry times of pending timers, in ns of each timer's own clock.
    programmed: IdMap<u64, i64>,
    /// Running functions, by CPU: an interrupt may call one function on top of another.
    open: Vec<Vec<RunningTimer>>,
    /// Purposes of timers, by the address of their function.
    kinds: IdMap<u64, TimerKind>,
}

#[derive(Clone, Copy, Debug)]
struct RunningTimer {
    timer: u64,
    function: Option<u64>,
    fine: bool,
    begin_ns: i64,
    late_ns: Option<i64>,
}

impl Timers {
    pub fn start(&mut self, timer: u64, at: Option<i64>) {
        match at {
            Some(at) if self.programmed.len() < MAX_PENDING => {
                self.programmed.insert(timer, at);
            }
            _ => self.cancel(timer),
        }
    }

    pub fn function(&mut self, address: u64, kind: TimerKind) {
        if self.kinds.len() < MAX_PENDING {
            self.kinds.insert(address, kind);
        }
    }

    /// The purpose of a timer with this function. If the trace names some functions, unnamed ones
    /// are timers of the kernel itself.
    pub fn kind(&self, function: Option<u64>) -> TimerKind {
        match function {
            Some(function) if !self.kinds.is_empty() => self.kinds.get(&function).copied().unwrap_or(TimerKind::Kernel),
            _ => TimerKind::Unknown,
        }
    }

    pub fn cancel(&mut self, timer: u64) {
        self.programmed.remove(&timer);
    }

    /// Notes the call of a timer's function. `now` is the time in ns of the timer's own clock; only
    /// high-resolution timers have it.
    pub fn enter(&mut self, cpu: CpuId, t_ns: i64, timer: u64, function: Option<u64>, now: Option<i64>) {
        let late_ns = now.zip(self.programmed.remove(&timer)).map(|(now, at)| now.saturating_sub(at));
        let at = cpu.0 as usize;
        if self.open.len() <= at {
            self.open.resize_with(at + 1, Vec::new);
        }
        // An earlier call of this timer's function whose end was not seen is over.
        self.open[at].retain(|open| open.timer != timer);
        self.open[at].push(RunningTimer { timer, function, fine: now.is_some(), begin_ns: t_ns, late_ns });
    }

    pub fn leave(&mut self, cpu: CpuId, t_ns: i64, timer: u64) -> Option<Expiry> {
        let open = self.open.get_mut(cpu.0 as usize)?;
        let RunningTimer { function, fine, begin_ns, late_ns, .. } = open.swap_remove(open.iter().rposition(|open| open.timer == timer)?);
        Some(Expiry { cpu, function, fine, begin_ns, end_ns: t_ns, late_ns })
    }

    /// Forgets what became uncertain by a loss of events: all pending timers, and the running
    /// functions of this CPU.
    pub fn lost(&mut self, cpu: CpuId) {
        self.programmed.clear();
        if let Some(open) = self.open.get_mut(cpu.0 as usize) {
            open.clear();
        }
    }
}
