//! A toy kernel: CPUs, threads, interrupts within softirqs within system calls, wake-ups and
//! migrations at random. It produces the events that a reader would yield, and the true times,
//! summed up step by step in the simplest way.

use crate::support::Random;
pub use longpole_testing::kernel::{
    comm, each_interaction, exit, fork, pass, probes, text, two_cpus, Kernel, Val, ALL, BLOCKED, DEAD, RCU,
};
use std::collections::BTreeMap;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Running,
    Woken,
    PutOff,
    Blocked,
}

#[derive(Clone, Debug)]
struct Worker {
    tid: i32,
    state: State,
    cpu: u32,
    ready_ns: i64,
    /// Begin and name of the interrupt that woke the thread.
    by: Option<(i64, String)>,
    call: Option<(&'static str, i64)>,
    stay_ns: u64,
    last_ran: Option<u32>,
}

#[derive(Clone, Debug)]
struct Handling {
    name: String,
    softirq: bool,
    number: i64,
    began_ns: i64,
    raised_ns: Option<i64>,
    own_ns: u64,
}

#[derive(Clone, Debug)]
struct Core {
    thread: Option<usize>,
    open: Vec<Handling>,
    raised: [Option<i64>; 10],
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CpuTruth {
    pub idle: u64,
    pub irq: u64,
    pub softirq: u64,
    pub thread: u64,
}

#[derive(Clone, Debug, Default)]
pub struct ThreadTruth {
    pub running: u64,
    pub in_calls: u64,
    pub interrupted: u64,
    pub woken: u64,
    pub put_off: u64,
    pub blocked: u64,
    pub instances: Vec<u64>,
    pub delays: Vec<u64>,
    pub put_offs: Vec<u64>,
    pub kept: BTreeMap<String, u64>,
    pub migrations: u64,
}

#[derive(Default)]
pub struct Truth {
    pub cpus: Vec<CpuTruth>,
    pub threads: BTreeMap<i32, ThreadTruth>,
    /// Own times by the name of the context; the next two are raise delays and delays to starts.
    pub handled: BTreeMap<String, Vec<u64>>,
    pub raised: BTreeMap<String, Vec<u64>>,
    pub starts: BTreeMap<String, Vec<u64>>,
    /// Entries, durations and number of errors by the name of the call.
    pub calls: BTreeMap<String, (u64, Vec<u64>, u64)>,
    pub end_ns: i64,
}

pub const BEGIN_NS: i64 = 1_000;

/// Simulates a kernel. The truth covers the time `range`.
pub fn simulate(seed: u64, cpus: u32, threads: i32, steps: usize, range: (i64, i64)) -> (Kernel, Truth) {
    let mut random = Random::new(seed);
    let mut kernel = Kernel::new(cpus);
    let mut truth = Truth { cpus: vec![CpuTruth::default(); cpus as usize], ..Truth::default() };
    let mut cores = vec![Core { thread: None, open: Vec::new(), raised: [None; 10] }; cpus as usize];
    let mut workers: Vec<Worker> = (0..threads)
        .map(|n| Worker {
            tid: 11 + n,
            state: State::Blocked,
            cpu: n as u32 % cpus,
            ready_ns: 0,
            by: None,
            call: None,
            stay_ns: 0,
            last_ran: None,
        })
        .collect();
    let mut now = BEGIN_NS;
    for worker in &workers {
        kernel.dump(now, worker.tid, 5, worker.cpu);
        truth.threads.insert(worker.tid, ThreadTruth::default());
    }
    for cpu in 0..cpus {
        // Reports that all CPUs are idle.
        kernel.switch(now, cpu, 0, 0, 0);
    }
    for _ in 0..steps {
        let step = 1 + random.below(1_000) as i64;
        account(&mut truth, &mut cores, &mut workers, (now, now + step), range);
        now += step;
        let cpu = random.below(u64::from(cpus)) as u32;
        let inside = now >= range.0 && now <= range.1;
        act(&mut kernel, &mut truth, &mut cores, &mut workers, cpu, now, inside, &mut random);
    }
    truth.end_ns = now.min(range.1);
    (kernel, truth)
}

fn account(truth: &mut Truth, cores: &mut [Core], workers: &mut [Worker], (from, to): (i64, i64), range: (i64, i64)) {
    let whole = (to - from) as u64;
    let ns = to.min(range.1).saturating_sub(from.max(range.0)).max(0) as u64;
    for (at, core) in cores.iter_mut().enumerate() {
        let cpu = &mut truth.cpus[at];
        match (core.open.last_mut(), core.thread) {
            (Some(open), thread) => {
                *(if open.softirq { &mut cpu.softirq } else { &mut cpu.irq }) += ns;
                open.own_ns += whole;
                if let Some(thread) = thread {
                    truth.threads.get_mut(&workers[thread].tid).unwrap().interrupted += ns;
                }
            }
            (None, Some(thread)) => {
                cpu.thread += ns;
                let worker = &mut workers[thread];
                worker.stay_ns += whole;
                let thread = truth.threads.get_mut(&worker.tid).unwrap();
                thread.running += ns;
                thread.in_calls += if worker.call.is_some() { ns } else { 0 };
            }
            (None, None) => cpu.idle += ns,
        }
    }
    for worker in workers.iter() {
        let thread = truth.threads.get_mut(&worker.tid).unwrap();
        match worker.state {
            State::Running => {}
            State::Woken => thread.woken += ns,
            State::PutOff => thread.put_off += ns,
            State::Blocked => thread.blocked += ns,
        }
        if worker.state == State::Woken && ns > 0 {
            let core = &cores[worker.cpu as usize];
            let by = match (core.open.last(), core.thread) {
                (Some(open), _) => open.name.clone(),
                (None, Some(thread)) => comm(workers[thread].tid),
                (None, None) => "idle".to_owned(),
            };
            *thread.kept.entry(by).or_default() += ns;
        }
    }
}

#[allow(clippy::too_many_arguments)] // a toy
fn act(
    kernel: &mut Kernel,
    truth: &mut Truth,
    cores: &mut [Core],
    workers: &mut [Worker],
    cpu: u32,
    now: i64,
    inside: bool,
    random: &mut Random,
) {
    let cpus = cores.len() as u64;
    let at = cpu as usize;
    let blocked: Vec<usize> = (0..workers.len()).filter(|&n| workers[n].state == State::Blocked).collect();
    let choice = random.below(10);
    if choice < 2 && cores[at].open.len() < 3 {
        // Starts an interrupt, or, if none is active, possibly a softirq.
        if cores[at].open.is_empty() && random.below(2) == 0 {
            let vec = random.below(10) as i64;
            let name = format!("softirq {}", SOFTIRQS[vec as usize]);
            kernel.softirq(now, cpu, vec, "entry");
            let raised_ns = cores[at].raised[vec as usize].take();
            cores[at].open.push(Handling { name, softirq: true, number: vec, began_ns: now, raised_ns, own_ns: 0 });
        } else {
            let irq = 30 + random.below(3) as i64;
            if cores[at].open.iter().all(|open| open.softirq || open.number != irq) {
                kernel.irq(now, cpu, irq, true);
                let name = format!("irq {irq} dev");
                cores[at].open.push(Handling { name, softirq: false, number: irq, began_ns: now, raised_ns: None, own_ns: 0 });
            }
        }
        return;
    }
    if choice < 3 {
        let vec = random.below(10);
        kernel.softirq(now, cpu, vec as i64, "raise");
        cores[at].raised[vec as usize].get_or_insert(now);
        return;
    }
    if choice < 5 && !blocked.is_empty() {
        let who = blocked[random.below(blocked.len() as u64) as usize];
        let before = workers[who].cpu;
        kernel.waking(now, cpu, workers[who].tid, before);
        let target = random.below(cpus) as u32;
        if target != before {
            kernel.migrate(now, cpu, workers[who].tid, before, target);
        }
        kernel.wakeup(now, cpu, workers[who].tid, target);
        let by = cores[at].open.last().map(|open| (open.began_ns, open.name.clone()));
        let worker = &mut workers[who];
        (worker.state, worker.cpu, worker.ready_ns, worker.by) = (State::Woken, target, now, by);
        return;
    }
    if let Some(open) = cores[at].open.pop() {
        match open.softirq {
            true => kernel.softirq(now, cpu, open.number, "exit"),
            false => kernel.irq(now, cpu, open.number, false),
        }
        if inside {
            if let Some(raised) = open.raised_ns {
                truth.raised.entry(open.name.clone()).or_default().push((open.began_ns - raised) as u64);
            }
            truth.handled.entry(open.name).or_default().push(open.own_ns);
        }
        return;
    }
    if let (Some(thread), true) = (cores[at].thread, choice < 8) {
        let name = ["read", "write", "futex"][random.below(3) as usize];
        match workers[thread].call.take() {
            None => {
                kernel.syscall(now, cpu, name, None);
                workers[thread].call = Some((name, now));
                if inside {
                    truth.calls.entry(name.to_owned()).or_default().0 += 1;
                }
            }
            Some((name, began)) => {
                let result = random.below(3) as i64 * -11;
                kernel.syscall(now, cpu, name, Some(result));
                if inside {
                    let call = truth.calls.entry(name.to_owned()).or_default();
                    call.1.push((now - began) as u64);
                    call.2 += u64::from(result < 0);
                }
            }
        }
        return;
    }
    let ready: Vec<usize> =
        (0..workers.len()).filter(|&n| matches!(workers[n].state, State::Woken | State::PutOff) && workers[n].cpu == cpu).collect();
    let next = (!ready.is_empty()).then(|| ready[random.below(ready.len() as u64) as usize]);
    let before = cores[at].thread;
    if next.is_none() && before.is_none() {
        return;
    }
    let put_off = next.is_some() && random.below(2) == 0;
    let tid = |thread: Option<usize>| thread.map_or(0, |thread| workers[thread].tid);
    kernel.switch(now, cpu, tid(before), if put_off { 0 } else { 1 }, tid(next));
    if let Some(thread) = before {
        let worker = &mut workers[thread];
        let stay = std::mem::take(&mut worker.stay_ns);
        if inside {
            truth.threads.get_mut(&worker.tid).unwrap().instances.push(stay);
        }
        (worker.state, worker.ready_ns, worker.by) = (if put_off { State::PutOff } else { State::Blocked }, now, None);
    }
    if let Some(thread) = next {
        let worker = &mut workers[thread];
        let of = truth.threads.get_mut(&worker.tid).unwrap();
        let waited = (now - worker.ready_ns) as u64;
        if inside {
            match worker.state {
                State::Woken => of.delays.push(waited),
                _ => of.put_offs.push(waited),
            }
            if let Some((began, name)) = worker.by.take() {
                truth.starts.entry(name).or_default().push((now - began) as u64);
            }
        }
        of.migrations += u64::from(worker.last_ran.is_some_and(|last| last != cpu));
        (worker.state, worker.last_ran) = (State::Running, Some(cpu));
    }
    cores[at].thread = next;
}

const SOFTIRQS: [&str; 10] = ["HI", "TIMER", "NET_TX", "NET_RX", "BLOCK", "IRQ_POLL", "TASKLET", "SCHED", "HRTIMER", "RCU"];
