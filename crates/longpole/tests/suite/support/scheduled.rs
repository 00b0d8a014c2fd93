//! Kernel events of an invented system, as the text of ftrace: verdicts on processes are tested
//! with them without a kernel that may be traced. Each task has a CPU, and times are in µs.

use std::fmt::Write;
use std::path::PathBuf;

/// A process with one thread. Tasks may share a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Task {
    pub name: &'static str,
    pub tid: u32,
    pub cpu: u32,
    /// As the kernel counts it: 120 is nice 0, 139 is nice 19.
    pub priority: u32,
}

impl Task {
    pub fn new(name: &'static str, tid: u32, cpu: u32) -> Task {
        Task { name, tid, cpu, priority: 120 }
    }
}

const IDLE: &str = "swapper";

/// Nobody: the idle task of a CPU.
fn idle(cpu: u32) -> Task {
    Task { name: IDLE, tid: 0, cpu, priority: 120 }
}

/// Time from a wake-up to the first instruction of the woken task on an idle CPU.
const START_US: u64 = 3;

/// A trace under construction. Its clock only moves forward.
#[derive(Debug, Default)]
pub struct Scheduled {
    pub now: u64,
    lines: Vec<(u64, String)>,
    /// Task on each CPU.
    on: Vec<Option<Task>>,
}

impl Scheduled {
    /// Begins a trace in which none of the tasks runs.
    pub fn new(cpus: u32) -> Scheduled {
        Scheduled { now: 1_000_000, on: vec![None; cpus as usize], lines: Vec::new() }
    }

    pub fn event(&mut self, by: Task, text: &str) {
        let Task { name, tid, cpu, .. } = by;
        let name = if tid == 0 { "<idle>" } else { name };
        let at = format!("{}.{:06}", self.now / 1_000_000, self.now % 1_000_000);
        self.lines.push((self.now, format!("{name}-{tid} [{cpu:03}] ..... {at}: {text}\n")));
    }

    /// Lets time pass.
    pub fn after(&mut self, us: u64) -> &mut Scheduled {
        self.now += us;
        self
    }

    /// The CPU's task continues as `to`; `state` is that of the task before: `S` sleeps, `R` is
    /// ready.
    pub fn switch(&mut self, cpu: u32, state: &str, to: Option<Task>) {
        let from = self.on[cpu as usize].unwrap_or_else(|| idle(cpu));
        let next = to.unwrap_or_else(|| idle(cpu));
        let text = format!(
            "sched_switch: prev_comm={} prev_pid={} prev_prio={} prev_state={state} ==> next_comm={} next_pid={} next_prio={}",
            from.name, from.tid, from.priority, next.name, next.tid, next.priority
        );
        self.event(Task { cpu, ..from }, &text);
        self.on[cpu as usize] = to;
    }

    /// The task leaves its CPU until it is woken.
    pub fn sleeps(&mut self, task: Task) {
        self.switch(task.cpu, "S", None);
    }

    /// A process begins, which another one or the first process of the host has forked.
    pub fn starts(&mut self, by: Option<Task>, task: Task) {
        let by = by.unwrap_or(Task::new("init", 1, task.cpu));
        let text = format!("sched_process_fork: comm={} pid={} child_comm={} child_pid={}", by.name, by.tid, task.name, task.tid);
        self.event(by, &text);
        self.wakes(Some(by), task);
    }

    /// The task executes the program of its name.
    pub fn executes(&mut self, task: Task) {
        let Task { name, tid, .. } = task;
        self.event(task, &format!("sched_process_exec: filename=/usr/bin/{name} pid={tid} old_pid={tid}"));
        self.leaves(task, "execve", 0);
    }

    /// The task ends.
    pub fn exits(&mut self, task: Task) {
        self.event(task, &format!("sched_process_exit: comm={} pid={} prio={}", task.name, task.tid, task.priority));
        self.switch(task.cpu, "X", None);
    }

    /// One task wakes another, or the timer of an idle CPU does if `by` is `None`. The woken task
    /// gets its CPU if that is idle.
    pub fn wakes(&mut self, by: Option<Task>, task: Task) {
        let by = by.unwrap_or_else(|| idle(task.cpu));
        let Task { name, tid, priority, cpu } = task;
        for event in ["sched_waking", "sched_wakeup"] {
            self.event(by, &format!("{event}: comm={name} pid={tid} prio={priority} target_cpu={cpu:03}"));
        }
        if self.on[cpu as usize].is_none() {
            self.now += START_US;
            self.switch(cpu, "R", Some(task));
        }
    }

    pub fn enters(&mut self, task: Task, call: &str, arguments: &str) {
        self.event(task, &format!("sys_{call}({arguments})"));
    }

    pub fn leaves(&mut self, task: Task, call: &str, result: u64) {
        self.now += 1;
        self.event(task, &format!("sys_{call} -> {result:#x}"));
    }

    /// A system call that does not wait.
    pub fn calls(&mut self, task: Task, call: &str, arguments: &str, result: u64) {
        self.enters(task, call, arguments);
        self.leaves(task, call, result);
    }

    /// The task sends on a socket, and so wakes the receiver, which waits for that in `recvfrom`.
    pub fn sends(&mut self, (from, fd): (Task, u32), to: Task) {
        self.enters(from, "sendto", &format!("fd: {fd:x}, buff: 7f00, len: 40, flags: 0"));
        self.wakes(Some(from), to);
        self.leaves(from, "sendto", 0x40);
        self.leaves(to, "recvfrom", 0x40);
    }

    /// The task waits for data in `recvfrom`.
    pub fn receives(&mut self, task: Task, fd: u32) {
        self.enters(task, "recvfrom", &format!("fd: {fd:x}, ubuf: 7f00, size: 1000, flags: 0"));
        self.sleeps(task);
    }

    /// The server accepts a connection of the client: both get a descriptor.
    pub fn connects(&mut self, (client, fd): (Task, u32), (server, accepted): (Task, u32)) {
        self.calls(client, "socket", "family: 2, type: 1, protocol: 0", fd.into());
        self.calls(client, "connect", &format!("fd: {fd:x}, uservaddr: 7f00, addrlen: 10"), 0);
        self.calls(server, "accept4", "fd: 3, upeer_sockaddr: 0, upeer_addrlen: 0, flags: 0", accepted.into());
    }

    /// Writes the trace into a file.
    pub fn write(mut self, path: PathBuf) -> PathBuf {
        self.lines.sort_by_key(|(t, _)| *t);
        let mut text = String::from("# tracer: nop\n#\n");
        self.lines.iter().for_each(|(_, line)| text.write_str(line).unwrap());
        std::fs::write(&path, text).unwrap();
        path
    }
}
