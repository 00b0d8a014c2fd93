//! The known threads, interrupt contexts and CPUs, and what the dump of the system's state says
//! about them.

use super::calls::files::Arguments;
use super::state::{Context, Cpu, OpenCall, Thread};
use super::{Linux, Unclaimed};
use crate::linux::loss::Silences;
use crate::linux::meaning::{Key, Meaning};
use crate::linux::watch::{softirq_name, Base, BlockCause, ContextId, CpuId, Mode, Moment, TaskState, ThreadId, ThreadState, Watch};
use longpole_trace::event::Event;

/// No kernel supports a CPU number from here on.
const MAX_CPUS: u32 = 1 << 16;

impl Linux {
    /// Takes from the dump of the system's state what no event has shown; events take precedence
    /// over the dump.
    pub(super) fn dumped<W: Watch + ?Sized>(&mut self, meaning: Meaning<'_>, watch: &mut W) {
        let Meaning::Process { tid, process, parent, name, status, cpu, kernel, allowed, level, call } = meaning else { return };
        if tid == 0 {
            return;
        }
        if let (Some(process), Some(parent)) = (process, parent) {
            self.processes.set_parent(process, parent);
        }
        let call = call.map(|(name, about)| (self.names.intern(&String::from_utf8_lossy(name)), about));
        let cpu = cpu.and_then(|number| self.known_cpu(number));
        let begin = self.begin_ns.unwrap_or(0);
        let id = self.thread(tid, &[], false);
        let thread = &mut self.threads[id.0 as usize];
        thread.process = thread.process.or(process);
        if thread.name.is_empty() {
            thread.name = name.to_vec();
        }
        // 5 is a waiting process in LTTng's `enum lttng_process_status`.
        if thread.state == ThreadState::Unknown && thread.early_wake.is_none() && status == Some(5) && thread.cpu.is_none() {
            (thread.state, thread.since_ns) = (ThreadState::Blocked(TaskState::Interruptible), begin);
            if let Some((name, about)) = call {
                let arguments = Arguments { about, ..Arguments::default() };
                (thread.mode, thread.call) = (Mode::Syscall, Some(OpenCall { name, t_ns: None, arguments }));
            }
        }
        thread.kernel |= kernel;
        thread.mask.dumped(allowed);
        thread.pid_namespace.is_foreign |= level.is_some_and(|level| level > 0);
        thread.cpu = thread.cpu.or(cpu);
        let (state, unexplained) = (thread.state, thread.block_cause == BlockCause::Unknown);
        if let (ThreadState::Blocked(state), true) = (state, unexplained) {
            self.threads[id.0 as usize].block_cause = self.determine_block_cause(id, state);
        }
        if let (ThreadState::Blocked(_), Some(5)) = (state, status) {
            watch.moment(Moment::Left { thread: id, state });
        }
    }

    /// The thread with this id. If the known one is dead and `fresh` says that the thread lives, a
    /// new one is created.
    pub(super) fn thread(&mut self, tid: i32, name: &[u8], fresh: bool) -> ThreadId {
        let next = ThreadId(self.threads.len() as u32);
        let id = *self.ids.threads.entry(tid).or_insert(next);
        if id == next {
            self.living.push(id);
            self.threads.push(Thread { tid, name: name.to_vec(), since_ns: self.begin_ns.unwrap_or(0), ..Thread::default() });
            return id;
        }
        let thread = &mut self.threads[id.0 as usize];
        if fresh && thread.state == ThreadState::Dead {
            self.ids.threads.remove(&tid);
            return self.thread(tid, name, false);
        }
        if !name.is_empty() && thread.name != name {
            thread.name.clear();
            thread.name.extend_from_slice(name);
        }
        id
    }

    pub(super) fn context(&mut self, key: Key, name: &[u8]) -> ContextId {
        let next = ContextId(self.contexts.len() as u32);
        let id = *self.ids.contexts.entry(key).or_insert(next);
        if id == next {
            let name = String::from_utf8_lossy(name);
            let name = match key {
                Key::Irq(number) => format!("irq {number} {name}").trim_end().to_owned(),
                Key::Softirq(number) => softirq_name(number).map_or_else(|| format!("softirq {number}"), |name| format!("softirq {name}")),
                Key::Vector(name) => self.names.text(name).to_owned(),
            };
            let runs_timers = match key {
                Key::Softirq(number) => matches!(number, Key::TIMER_SOFTIRQ | Key::HRTIMER_SOFTIRQ),
                Key::Vector(_) => name == "local_timer",
                Key::Irq(_) => name.contains("timer"),
            };
            self.contexts.push(Context { key, name, runs_timers, allowed: None });
        }
        id
    }

    pub(super) fn known_cpu(&self, number: u32) -> Option<CpuId> {
        self.ids.cpus.get(number as usize).copied().flatten()
    }

    #[inline]
    pub(super) fn cpu(&mut self, number: u32, event: &Event<'_>) -> Option<CpuId> {
        match self.ids.cpus.get(number as usize) {
            Some(Some(id)) => Some(*id),
            _ => self.meet(number, event),
        }
    }

    #[cold]
    pub(super) fn meet(&mut self, number: u32, event: &Event<'_>) -> Option<CpuId> {
        if number >= MAX_CPUS {
            return None;
        }
        let begin = *self.begin_ns.get_or_insert(event.t_ns);
        let id = CpuId(self.cpus.len() as u32);
        self.cpus.push(Cpu {
            number,
            since_ns: begin,
            base: Base::Unknown,
            open: Vec::new(),
            seen_ns: begin,
            unclaimed: Unclaimed::since(begin),
            fresh: true,
            raised: [None; 32],
            silences: Silences::default(),
            ready_ns: None,
            inferred_busy: false,
            lost: 0,
        });
        if self.ids.cpus.len() <= number as usize {
            self.ids.cpus.resize(number as usize + 1, None);
        }
        self.ids.cpus[number as usize] = Some(id);
        Some(id)
    }

    #[cold]
    pub(super) fn meet_stream<W: Watch + ?Sized>(&mut self, cpu: CpuId, event: &Event<'_>, watch: &mut W) {
        let at = event.stream.0 as usize;
        if self.ids.cpu_of_stream.len() <= at {
            self.ids.cpu_of_stream.resize(at + 1, None);
        }
        self.ids.cpu_of_stream[at] = Some(cpu);
        if let Some(loss) = self.early_losses.remove(&event.stream.0) {
            self.lose(cpu, loss, watch);
        }
    }
}
