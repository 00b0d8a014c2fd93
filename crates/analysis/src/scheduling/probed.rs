//! Times of threads per state, from their probes. Probes do not see the scheduler: a thread that is
//! ready but not running counts as being in its state, so `runnable` is unknown, and so are the
//! CPUs. If kernel events exist as well ([`crate::scheduling::cpus`]), they provide both, and the
//! probes show how the running time was spent.

use crate::scheduling::blocked::Blocked;
use crate::scheduling::cpus::{AllowedChange, CpuTimes, KernelThread, WakerLine};
use crate::scheduling::stack_gaps::StackGaps;
use crate::scheduling::stacks::{Counts, FunctionShare};
use crate::stats::histogram::since;
use crate::stats::histogram::Histogram;
use crate::stats::windows::probe_ns;
use crate::step_pass::{Observer, Scene, StepPass};
use longpole_model::actors::ActorId;
use longpole_model::interaction::Vocabulary;
use longpole_model::kinds::state_label;
use longpole_model::linux::Linux;
use longpole_model::step::{Op, Step};
use longpole_model::system::activity::{Outcome, State, Total};
use serde::Serialize;
use std::collections::HashMap;

/// The answer of `cpu`: times of CPUs, threads and declared machines.
#[derive(Debug, Serialize)]
pub struct Cpu {
    /// Times of CPUs; empty without kernel events.
    pub cpus: Vec<CpuTime>,
    pub threads: Vec<ThreadTime>,
    /// Machines declared by `state` probes.
    pub machines: Vec<DeclaredTime>,
    pub lost: u64,
    pub probe_cost_ns: Option<f64>,
    /// Counts of stack samples; absent if the trace has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub samples: Option<Counts>,
    /// What the sampled stacks lack.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stack_gaps: Option<StackGaps>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub functions: Option<Vec<FunctionShare>>,
}

/// The time of a CPU. The parts sum to the total.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct CpuTime {
    pub cpu: u32,
    pub total_ns: u64,
    pub idle_ns: u64,
    pub irq_ns: u64,
    pub softirq_ns: u64,
    pub thread_ns: u64,
    /// Time in which events are missing, or for which no event shows what ran.
    pub unknown_ns: u64,
    pub lost: u64,
}

/// The times of a thread; `None` if no event shows them.
#[derive(Debug, Serialize)]
pub struct ThreadTime {
    pub pid: Option<i32>,
    pub tid: Option<i32>,
    pub name: String,
    pub running_ns: Option<u64>,
    pub runnable_ns: Option<u64>,
    pub blocked_ns: Option<u64>,
    /// Number of activities between a wake-up and the next wait.
    pub instances: Option<u64>,
    pub instance_ns: Option<Instances>,
    /// CPUs on which the thread may run at the begin of the range, or at its creation.
    pub allowed_cpus: Option<Vec<u32>>,
    pub used_cpus: Option<Vec<u32>>,
    pub migrations: Option<u64>,
    /// Parts of the blocked time that kernel events show; they sum to it.
    pub blocked: Option<Vec<Blocked>>,
    pub kernel: Option<KernelTime>,
    pub total_ns: u64,
    pub lost: u64,
    pub states: Vec<StateTime>,
}

/// Facts about a thread that only kernel events show.
#[derive(Debug, Serialize)]
pub struct KernelTime {
    /// Time for which the thread existed: the sum of `running_ns`, `interrupted_ns`, `runnable_ns`,
    /// `blocked_ns` and `unknown_ns`.
    pub total_ns: u64,
    /// Time of interrupts and softirqs on top of the thread.
    pub interrupted_ns: u64,
    /// Part of `running_ns` in system calls; null if the trace has none.
    pub syscall_ns: Option<u64>,
    /// Part of `runnable_ns` after preemptions.
    pub preempted_ns: u64,
    /// Part of `blocked_ns` in which no signal could end the wait.
    pub uninterruptible_ns: u64,
    pub unknown_ns: u64,
    /// Running time on each CPU that the thread used, by the number of the CPU.
    #[serde(skip)]
    pub cpu_ns: Vec<(u32, u64)>,
    /// CPUs of the interrupts that woke the thread.
    pub interrupt_cpus: Vec<u32>,
    /// Interrupts that woke the thread.
    pub wakers: Vec<WakerLine>,
    /// Reason for which `allowed_cpus` is null, if known.
    pub allowed_why_unknown: Option<&'static str>,
    /// Number of changes of the affinity mask.
    pub allowed_change_count: u64,
    /// First of these changes.
    pub allowed_changes: Vec<AllowedChange>,
}

/// Lengths of activities, in nanoseconds.
#[derive(Debug, Serialize)]
pub struct Instances {
    pub min: u64,
    pub mean: f64,
    pub max: u64,
}

/// The time of a thread in one state, with its share of the thread's time.
#[derive(Debug, Serialize)]
pub struct StateTime {
    pub state: String,
    pub ns: u64,
    pub share: f64,
    /// Part of `ns` that the probes themselves took.
    pub probe_ns: u64,
    pub idle: bool,
}

/// The time of a declared machine in one state.
#[derive(Debug, Serialize)]
pub struct DeclaredTime {
    pub machine: String,
    pub state: String,
    pub ns: u64,
}

/// Counts the activities of threads; all other data is in the pass over the steps.
#[derive(Debug, Default)]
pub struct Activities {
    threads: Vec<(Option<i64>, Histogram)>,
}

impl Observer for Activities {
    fn step(&mut self, _scene: Scene<'_>, step: &Step, outcome: &Outcome) {
        let at = step.actor.0 as usize;
        if self.threads.len() <= at {
            self.threads.resize_with(at + 1, Default::default);
        }
        let (awake, times) = &mut self.threads[at];
        let waits = matches!(step.op, Op::Wait | Op::WaitEmpty { .. } | Op::WaitFull { .. });
        if waits {
            if let Some(begin) = awake.take() {
                times.record(since(begin, step.t_ns));
            }
        } else if outcome.state.is_idle() || outcome.state == State::Reentry {
            *awake = Some(step.t_ns);
        }
    }
}

/// Returns the times by probes. `probe_cost_ps` is the cost of one probe in picoseconds, if
/// measured.
pub fn answer(step_pass: &StepPass, vocabulary: &Vocabulary, activities: &Activities, probe_cost_ps: Option<u64>) -> Cpu {
    let names = step_pass.scene(vocabulary).names();
    let actors = vocabulary.actors.all();
    let mut threads: Vec<ThreadTime> = Vec::new();
    // One loop over the cells, independent of the number of machines and names.
    let mut times: Vec<Vec<(State, Total)>> = vec![Vec::new(); actors.len()];
    for (cell, time) in step_pass.activity.cells().iter().zip(step_pass.activity.totals()) {
        if let (Some(of), true) = (times.get_mut(cell.actor.0 as usize), time.ns > 0) {
            of.push((cell.state, *time));
        }
    }
    for (at, actor) in actors.iter().enumerate() {
        let mut states: Vec<StateTime> = Vec::new();
        let mut places: HashMap<(String, bool), usize> = HashMap::new();
        let (mut total, mut running, mut blocked) = (0, 0, 0);
        for &(state, time) in &times[at] {
            total += time.ns;
            match state {
                State::Lost => {}
                // A thread that waits for the return of a call does not run.
                state if state.is_idle() || matches!(state, State::Call(_)) => blocked += time.ns,
                _ => running += time.ns,
            }
            let idle = state.is_idle();
            let state = state_name(vocabulary, state);
            let place = *places.entry((state.clone(), idle)).or_insert(states.len());
            if place == states.len() {
                states.push(StateTime { state, ns: 0, share: 0.0, probe_ns: 0, idle });
            }
            states[place].ns += time.ns;
            states[place].probe_ns += probe_ns(time, probe_cost_ps.unwrap_or(0));
        }
        for state in &mut states {
            state.share = if total > 0 { state.ns as f64 / total as f64 } else { 0.0 };
        }
        states.sort_by(|a, b| b.ns.cmp(&a.ns).then_with(|| a.state.cmp(&b.state)));
        let instances = activities.threads.get(at).map(|(_, times)| times).filter(|times| !times.is_empty());
        threads.push(ThreadTime {
            pid: actor.pid,
            tid: actor.tid,
            name: names[at].clone(),
            running_ns: Some(running),
            runnable_ns: None,
            blocked_ns: Some(blocked),
            instances: instances.map(Histogram::count),
            instance_ns: instances.and_then(|times| Some(Instances { min: times.min()?, mean: times.mean()?, max: times.max()? })),
            allowed_cpus: None,
            used_cpus: None,
            migrations: None,
            blocked: None,
            kernel: None,
            total_ns: total,
            lost: step_pass.lost_of.get(&ActorId(at as u32)).copied().unwrap_or(0),
            states,
        });
    }
    threads.sort_by(|a, b| b.running_ns.cmp(&a.running_ns).then_with(|| a.name.cmp(&b.name)));
    let end = step_pass.range().map_or(0, |(_, end)| end);
    let machines = step_pass
        .activity
        .declared(end)
        .into_iter()
        .map(|(machine, state, ns)| DeclaredTime {
            machine: vocabulary.names.text(machine).to_owned(),
            state: vocabulary.names.text(state).to_owned(),
            ns,
        })
        .collect();
    Cpu {
        cpus: Vec::new(),
        threads,
        machines,
        lost: step_pass.lost,
        probe_cost_ns: probe_cost_ps.map(|ps| ps as f64 / 1000.0),
        samples: None,
        stack_gaps: None,
        functions: None,
    }
}

impl Cpu {
    /// Adds the kernel's times to those of the probes. `joined` is true if both identify threads by
    /// the same ids.
    pub fn add_kernel(&mut self, times: &CpuTimes, linux: &Linux, joined: bool) {
        self.cpus = times.cpus(linux);
        self.lost = self.lost.saturating_add(linux.counts.lost);
        for found in times.threads(linux) {
            let same = |thread: &&mut ThreadTime| {
                joined && thread.kernel.is_none() && thread.tid == Some(found.tid) && (found.pid.is_none() || thread.pid == found.pid)
            };
            match self.threads.iter_mut().find(same) {
                Some(thread) => thread.take(found),
                None => {
                    let mut thread = ThreadTime {
                        pid: found.pid,
                        tid: Some(found.tid),
                        name: found.name.clone(),
                        running_ns: None,
                        runnable_ns: None,
                        blocked_ns: None,
                        instances: None,
                        instance_ns: None,
                        allowed_cpus: None,
                        used_cpus: None,
                        migrations: None,
                        blocked: None,
                        kernel: None,
                        total_ns: found.total_ns,
                        lost: 0,
                        states: Vec::new(),
                    };
                    thread.take(found);
                    self.threads.push(thread);
                }
            }
        }
        self.threads.sort_by(|a, b| {
            b.running_ns.cmp(&a.running_ns).then(b.total_ns.cmp(&a.total_ns)).then_with(|| (&a.name, a.tid).cmp(&(&b.name, b.tid)))
        });
    }
}

impl ThreadTime {
    fn take(&mut self, found: KernelThread) {
        self.running_ns = Some(found.running_ns);
        self.runnable_ns = Some(found.runnable_ns);
        self.blocked_ns = Some(found.blocked_ns);
        self.instances = Some(found.instances);
        self.instance_ns = found.instance_ns;
        self.used_cpus = Some(found.used_cpus);
        self.migrations = Some(found.migrations);
        self.allowed_cpus = found.allowed_cpus;
        self.blocked = Some(found.blocked);
        self.kernel = Some(KernelTime {
            total_ns: found.total_ns,
            interrupted_ns: found.interrupted_ns,
            syscall_ns: found.syscall_ns,
            preempted_ns: found.preempted_ns,
            uninterruptible_ns: found.uninterruptible_ns,
            unknown_ns: found.unknown_ns,
            cpu_ns: found.cpu_ns,
            interrupt_cpus: found.interrupt_cpus,
            wakers: found.wakers,
            allowed_why_unknown: found.allowed_why_unknown,
            allowed_change_count: found.allowed_change_count,
            allowed_changes: found.allowed_changes,
        });
    }
}

/// Returns the name of a state for people and for JSON.
pub fn state_name(vocabulary: &Vocabulary, state: State) -> String {
    match state {
        State::Run => "run".to_owned(),
        State::Span(name) | State::Declared(name) | State::Call(name) | State::Service(name) => {
            state_label(vocabulary.names.text(name)).into_owned()
        }
        State::Reentry => "re-entry".to_owned(),
        State::WaitSignal(_) => "wait".to_owned(),
        State::WaitEmpty(queue) => format!("wait: {} empty", vocabulary.program_queue_name(queue)),
        State::WaitFull(queue) => format!("wait: {} full", vocabulary.program_queue_name(queue)),
        State::WaitCall => "wait: call".to_owned(),
        State::Lost => "lost".to_owned(),
    }
}
