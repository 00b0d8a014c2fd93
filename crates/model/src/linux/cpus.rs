//! What each CPU does: threads, idleness, and the interrupts on top of them.

use super::state::{OpenCall, OpenContext};
use super::{Linux, Unclaimed};
use crate::linux::loss::Silence;
use crate::linux::meaning::Key;
use crate::linux::watch::{Base, CpuId, Handling, Mode, Occupant, ThreadId, Wake, Waker, Watch};

/// Maximum nesting depth of contexts.
const MAX_OPEN: usize = 64;

impl Linux {
    /// Reports what the CPU did until now.
    pub(crate) fn report_cpu_until<W: Watch + ?Sized>(&mut self, id: CpuId, t_ns: i64, watch: &mut W) {
        let cpu = &mut self.cpus[id.0 as usize];
        if t_ns <= cpu.since_ns {
            return;
        }
        if cpu.base == Base::Idle {
            // An idle CPU takes a thread as soon as one is in its queue. Usually a switch shows
            // that, but some switches are not traced.
            if let Some(ready) = cpu.ready_ns.filter(|ready| *ready < t_ns) {
                cpu.ready_ns = None;
                self.report_cpu_until(id, ready, watch);
                let cpu = &mut self.cpus[id.0 as usize];
                (cpu.base, cpu.inferred_busy, cpu.unclaimed) = (Base::Unknown, true, Unclaimed::since(cpu.since_ns));
            }
        }
        let cpu = &mut self.cpus[id.0 as usize];
        let begin_ns = std::mem::replace(&mut cpu.since_ns, t_ns);
        let spent = (t_ns - begin_ns) as u64;
        let base = cpu.base;
        let by = cpu.occupant();
        if let Some(open) = cpu.open.last_mut() {
            open.own_ns += spent;
        }
        let mode = match base {
            Base::Thread(thread) => {
                let thread = &mut self.threads[thread.0 as usize];
                if let Occupant::Thread(_) = by {
                    thread.own_ns += spent;
                }
                thread.mode
            }
            Base::Unknown | Base::Idle => Mode::Unknown,
        };
        self.cpus[id.0 as usize].silences.note(Silence { by, base, mode, begin_ns, end_ns: t_ns });
        let Some((begin, end)) = self.clip(begin_ns, t_ns) else { return };
        if base == Base::Unknown {
            let unclaimed = &mut self.cpus[id.0 as usize].unclaimed;
            match by {
                Occupant::Unclaimed => unclaimed.ns += (end - begin) as u64,
                _ => unclaimed.interrupts_ns += (end - begin) as u64,
            }
        }
        watch.occupied(id, by, base, mode, begin, end);
    }

    /// Processes an event that happened in a thread other than the idle thread.
    pub(super) fn in_thread<W: Watch + ?Sized>(&mut self, cpu: CpuId, t_ns: i64, watch: &mut W) {
        self.outside_contexts(cpu, t_ns, watch);
        self.report_cpu_until(cpu, t_ns, watch);
        // If a thread waits in the idle CPU's queue, the base is already unknown here.
        if self.cpus[cpu.0 as usize].base == Base::Idle {
            self.idle_ended(cpu, t_ns, Base::Unknown, watch);
        }
    }

    /// Closes all open interrupts, because this event cannot happen within one.
    pub(super) fn outside_contexts<W: Watch + ?Sized>(&mut self, cpu: CpuId, t_ns: i64, watch: &mut W) {
        if !self.cpus[cpu.0 as usize].open.is_empty() {
            self.counts.contradictions += u64::from(self.covers(t_ns));
            self.report_cpu_until(cpu, t_ns, watch);
            self.cpus[cpu.0 as usize].open.clear();
        }
    }

    pub(super) fn set_mode(&mut self, cpu: CpuId, (mode, call): (Mode, Option<OpenCall>)) -> Option<ThreadId> {
        let place = &mut self.cpus[cpu.0 as usize];
        match place.base {
            Base::Thread(id) => {
                let thread = &mut self.threads[id.0 as usize];
                (thread.mode, thread.call) = (mode, call);
                Some(id)
            }
            Base::Unknown | Base::Idle => {
                place.unclaimed.mode = Some((mode, call));
                None
            }
        }
    }

    pub(super) fn wake(&self, cpu: CpuId, t_ns: i64) -> Wake {
        Wake { t_ns, cpu, waker: self.waker_on(cpu) }
    }

    /// A wake-up by what acts on the CPU now. If the event says that this is an interrupt, it is
    /// none of the thread on the CPU, even if interrupts are not traced.
    pub(super) fn wake_up(&self, cpu: CpuId, t_ns: i64, in_interrupt: bool) -> Wake {
        match self.wake(cpu, t_ns) {
            wake @ Wake { waker: Waker::Context { .. }, .. } => wake,
            wake if in_interrupt => Wake { waker: Waker::UntracedInterrupt, ..wake },
            wake => wake,
        }
    }

    /// The machine that acts on the CPU now.
    pub(crate) fn waker_on(&self, cpu: CpuId) -> Waker {
        let place = &self.cpus[cpu.0 as usize];
        match (place.open.last(), place.base) {
            (Some(open), _) => Waker::Context { id: open.id, began_ns: open.began_ns },
            (None, Base::Thread(thread)) => Waker::Thread(thread),
            (None, Base::Idle) => Waker::UntracedInterrupt,
            (None, Base::Unknown) => Waker::Unknown,
        }
    }

    pub(super) fn enter<W: Watch + ?Sized>(&mut self, cpu: CpuId, t_ns: i64, key: Key, name: &[u8], watch: &mut W) {
        self.report_cpu_until(cpu, t_ns, watch);
        let id = self.context(key, name);
        let covers = self.covers(t_ns);
        self.counts.interrupts.add(covers);
        let place = &mut self.cpus[cpu.0 as usize];
        if place.open.len() >= MAX_OPEN {
            self.counts.contradictions += u64::from(covers);
            place.open.clear();
        }
        let raised_ns = match key {
            Key::Softirq(number) => usize::try_from(number).ok().and_then(|at| place.raised.get_mut(at)).and_then(Option::take),
            Key::Irq(_) | Key::Vector(_) => None,
        };
        place.open.push(OpenContext { id, began_ns: t_ns, own_ns: 0, raised_ns, seen: true });
    }

    pub(super) fn exit<W: Watch + ?Sized>(&mut self, cpu: CpuId, t_ns: i64, key: Key, watch: &mut W) {
        let id = self.context(key, &[]);
        let place = &mut self.cpus[cpu.0 as usize];
        let Some(at) = place.open.iter().rposition(|open| open.id == id) else {
            if place.fresh {
                // The context has been open since before the CPU's first event.
                place.open.push(OpenContext { id, began_ns: place.since_ns, own_ns: 0, raised_ns: None, seen: false });
                self.report_cpu_until(cpu, t_ns, watch);
                self.cpus[cpu.0 as usize].open.clear();
            } else {
                self.counts.contradictions += u64::from(self.covers(t_ns));
            }
            return;
        };
        self.report_cpu_until(cpu, t_ns, watch);
        let covers = self.covers(t_ns);
        let place = &mut self.cpus[cpu.0 as usize];
        if at + 1 < place.open.len() {
            self.counts.contradictions += u64::from(covers);
        }
        let (open, base) = (place.open[at], place.base);
        place.open.truncate(at);
        if open.seen && self.covers(t_ns) {
            let OpenContext { own_ns, raised_ns, began_ns: begin_ns, .. } = open;
            watch.handled(&Handling { context: id, cpu, begin_ns, end_ns: t_ns, own_ns, raised_ns, base });
        }
    }
}
