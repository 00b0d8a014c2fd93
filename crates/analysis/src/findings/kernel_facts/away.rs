//! Interrupts that wake a thread which runs on another CPU. This costs an interrupt between CPUs,
//! and often the wake-up of an idle CPU.
//!
//! A softirq counts if an interrupt led to it, and not if a thread's own system call did: a thread
//! that sends to itself has no interrupt that could be moved. Timers are left out, because they
//! belong to no device.

use super::{largest, ClassesOnPath};
use crate::findings::{Facts, Scope};
use crate::stats::evidence::Evidence;
use longpole_model::linux::meaning::Key;
use longpole_model::linux::watch::{ContextId, CpuId, Start, ThreadId, Waker};
use longpole_model::linux::Linux;
use std::collections::HashMap;

/// Numbers of softirqs of timers, the scheduler and RCU, from the kernel's `enum`.
const SOFTIRQS_WITHOUT_DEVICE: [i64; 4] = [1, 7, 8, 9];
/// Largest number of softirqs that are distinguished; the kernel has ten.
const SOFTIRQS: usize = 32;

/// Collects wake-ups by interrupts.
#[derive(Debug, Default)]
pub(super) struct Away {
    /// Reports of the current event.
    reports: Vec<Report>,
    /// For each CPU and softirq, whether an interrupt led to its last raise.
    raised: Vec<[bool; SOFTIRQS]>,
    woken: HashMap<(ContextId, ThreadId), Woken>,
}

#[derive(Clone, Copy, Debug)]
enum Report {
    /// A softirq was raised on a CPU.
    Raised(CpuId, u8, Waker),
    /// A thread started to run after a wake-up.
    Started(Start),
}

/// Wake-ups of a thread by an interrupt context.
#[derive(Clone, Debug, Default)]
struct Woken {
    count: u64,
    /// Number of wake-ups on another CPU than that on which the thread then started.
    away: u64,
    /// Time from wake-ups on another CPU to the start of the thread.
    away_ns: u64,
    /// Begin and end of the longest of these times.
    longest: (i64, i64),
}

impl Away {
    pub fn raised(&mut self, cpu: CpuId, number: u8, by: Waker) {
        self.reports.push(Report::Raised(cpu, number, by));
    }

    pub fn started(&mut self, start: &Start) {
        if !start.preempted && start.wake.is_some_and(|wake| matches!(wake.waker, Waker::Context { .. })) {
            self.reports.push(Report::Started(*start));
        }
    }

    #[inline]
    pub fn after(&mut self, linux: &Linux) {
        if self.reports.is_empty() {
            return;
        }
        let mut reports = std::mem::take(&mut self.reports);
        for report in reports.drain(..) {
            match report {
                Report::Raised(cpu, number, by) => {
                    let is_of_interrupt = self.is_of_interrupt(linux, cpu, by);
                    if let Some(known) = self.of_cpu(cpu).get_mut(usize::from(number)) {
                        *known = is_of_interrupt;
                    }
                }
                Report::Started(start) => self.count(linux, &start),
            }
        }
        self.reports = reports;
    }

    /// Returns the softirqs of a CPU; makes room for a new CPU.
    fn of_cpu(&mut self, cpu: CpuId) -> &mut [bool; SOFTIRQS] {
        let at = cpu.0 as usize;
        if self.raised.len() <= at {
            self.raised.resize(at + 1, [false; SOFTIRQS]);
        }
        &mut self.raised[at]
    }

    /// Returns whether an interrupt led to what `by` did on this CPU.
    fn is_of_interrupt(&mut self, linux: &Linux, cpu: CpuId, by: Waker) -> bool {
        match by {
            // An interrupt that is not traced lies on top of a thread that is not in a system call.
            Waker::Thread(id) => linux.calls_nothing(id),
            Waker::UntracedInterrupt => true,
            Waker::Unknown => false,
            Waker::Context { id, .. } => match linux.contexts[id.0 as usize].key {
                Key::Irq(_) | Key::Vector(_) => true,
                Key::Softirq(number) => usize::try_from(number).ok().and_then(|at| self.of_cpu(cpu).get(at).copied()).unwrap_or(false),
            },
        }
    }

    fn count(&mut self, linux: &Linux, start: &Start) {
        let Some(wake) = start.wake else { return };
        let Waker::Context { id, .. } = wake.waker else { return };
        let context = &linux.contexts[id.0 as usize];
        let is_of_device = match context.key {
            // No event identifies the interrupts of timers except for their names.
            Key::Irq(_) => !context.name.contains("timer"),
            Key::Softirq(number) => !SOFTIRQS_WITHOUT_DEVICE.contains(&number) && self.is_of_interrupt(linux, wake.cpu, wake.waker),
            Key::Vector(_) => false,
        };
        if !is_of_device {
            return;
        }
        let woken = self.woken.entry((id, start.thread)).or_default();
        woken.count += 1;
        if wake.cpu != start.cpu {
            woken.away += 1;
            woken.away_ns += start.t_ns.saturating_sub(wake.t_ns).max(0) as u64;
            if start.t_ns - wake.t_ns > woken.longest.1 - woken.longest.0 {
                woken.longest = (wake.t_ns, start.t_ns);
            }
        }
    }

    pub fn facts(&self, linux: &Linux, path: &ClassesOnPath) -> Vec<Facts> {
        let mut pairs: HashMap<(ContextId, &str), Woken> = HashMap::new();
        for (&(context, thread), of) in &self.woken {
            let Some(class) = path.class(linux, thread) else { continue };
            let sum = pairs.entry((context, class)).or_default();
            sum.count += of.count;
            sum.away += of.away;
            sum.away_ns += of.away_ns;
            if of.longest.1 - of.longest.0 > sum.longest.1 - sum.longest.0 {
                sum.longest = of.longest;
            }
        }
        largest(pairs.into_iter().filter(|(_, of)| of.away > 0).map(|((context, class), of)| {
            let texts = vec![("machine", class.to_owned()), ("interrupt", linux.contexts[context.0 as usize].name.clone())];
            let numbers = vec![
                ("share", path.share_of(of.away_ns)),
                ("count", of.away as f64),
                ("away", of.away as f64 / of.count.max(1) as f64),
                ("on_path", path.shares(class).all),
            ];
            Facts::new(Scope::Interrupt, texts, numbers, Evidence { start_ns: of.longest.0, end_ns: of.longest.1 })
        }))
    }
}
