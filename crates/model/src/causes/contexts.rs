//! Interrupts and softirqs as machines on top of what they interrupt, one per CPU.
//!
//! The cause of a softirq is the machine that raised it. An interrupt does not show its cause: its
//! path is that of the first request or packet that it takes. If it takes none that is known, the
//! cause is its device, which is a machine of its own: what the device waits for is outside of the
//! system. A thread of a program that it wakes waits for that device ([`Composer::outside_link`]).

use super::timers::TimerCause;
use super::{Composer, RunsOn};
use crate::interaction::{Cause, Effect, MachineId};
use crate::kinds::{LinkKind, NameKind, StateKind};
use crate::linux::meaning::Key;
use crate::linux::watch::{Base, ContextId, CpuId, Waker};
use crate::names::NameId;
use longpole_trace::event::Catalogue;

#[derive(Debug, Default)]
pub(super) struct Contexts {
    cpus: Vec<CpuContexts>,
    /// The machine of each context and CPU.
    machines: Vec<Vec<Option<ContextMachine>>>,
    /// The device of each context that is an interrupt.
    devices: Vec<Option<Device>>,
}

/// The machine of a context, and the state in which the context runs.
#[derive(Clone, Copy, Debug)]
pub(super) struct ContextMachine {
    pub machine: MachineId,
    pub state: NameId,
}

/// The machine of a device, and the link of waits for what it brings from outside of the trace.
#[derive(Clone, Copy, Debug)]
struct Device {
    machine: MachineId,
    outside: NameId,
}

#[derive(Debug, Default)]
struct CpuContexts {
    open: Vec<RunningContext>,
    raised: [Option<Raise>; 16],
}

/// An open context on a CPU.
#[derive(Clone, Copy, Debug)]
struct RunningContext {
    id: ContextId,
    machine: MachineId,
    /// True if the cause of its path is known, or known to be the context itself.
    caused: bool,
    /// The raise of this softirq, if the raiser has no known path of its own.
    raise: Option<Raise>,
    /// The device's interrupt from which the emitted path of this context comes, if nothing in the
    /// trace caused it.
    device: Option<ContextId>,
    /// True if a timer led to this context.
    timer: bool,
    /// The machine that set this timer, and when, if that is known.
    timer_cause: Option<TimerCause>,
    /// The machine that has caused what this context does now, and the time since which it does
    /// that.
    acts_for: Option<MachineId>,
    acts_since: u64,
}

/// A raise of a softirq that has not run yet.
#[derive(Clone, Copy, Debug)]
struct Raise {
    by: MachineId,
    t: u64,
    /// True if the cause of the path of `by` is known.
    caused: bool,
    /// The context that raised it, if it was one.
    context: Option<ContextId>,
    /// True if a timer led to the raise.
    timer: bool,
}

impl Contexts {
    fn cpu(&mut self, cpu: CpuId) -> &mut CpuContexts {
        let at = cpu.0 as usize;
        if self.cpus.len() <= at {
            self.cpus.resize_with(at + 1, CpuContexts::default);
        }
        &mut self.cpus[at]
    }
}

impl Composer {
    /// Ends the contexts that the kernel's model has closed on this CPU.
    #[inline]
    pub(super) fn close_contexts(&mut self, number: u32) {
        if let Some(cpu) = self.linux.cpu_of_number(number) {
            self.close_contexts_of(cpu);
        }
    }

    pub(super) fn close_all_contexts(&mut self) {
        for cpu in 0..self.contexts.cpus.len() {
            self.close_contexts_of(CpuId(cpu as u32));
        }
    }

    #[inline]
    fn close_contexts_of(&mut self, cpu: CpuId) {
        let open = &self.linux.cpus[cpu.0 as usize].open;
        let known = self.contexts.cpu(cpu);
        if known.open.is_empty() {
            return;
        }
        let same = known.open.iter().zip(open).take_while(|(known, open)| known.id == open.id).count();
        while self.contexts.cpu(cpu).open.len() > same {
            if let Some(open) = self.contexts.cpu(cpu).open.pop() {
                self.emit(Effect::Pop { machine: open.machine });
            }
        }
        self.undecided_timer_ends(cpu);
    }

    /// Begins the contexts that the kernel's model has opened on this CPU.
    #[inline]
    pub(super) fn open_contexts(&mut self, number: u32) {
        let Some(cpu) = self.linux.cpu_of_number(number) else { return };
        let known = self.contexts.cpu(cpu).open.len();
        if self.linux.cpus[cpu.0 as usize].open.len() > known {
            for at in known..self.linux.cpus[cpu.0 as usize].open.len() {
                let id = self.linux.cpus[cpu.0 as usize].open[at].id;
                self.begin_context(cpu, id);
            }
        }
    }

    fn begin_context(&mut self, cpu: CpuId, id: ContextId) {
        let ContextMachine { machine, state } = self.context(cpu, id);
        let key = self.linux.contexts[id.0 as usize].key;
        let number = match key {
            Key::Softirq(number) => usize::try_from(number).ok(),
            Key::Irq(_) | Key::Vector(_) => None,
        };
        let raise = number.and_then(|number| self.contexts.cpu(cpu).raised.get_mut(number)).and_then(Option::take);
        let raised_by = raise.filter(|raise| raise.caused);
        let cause = raised_by.map(|raise| Some(Cause { by: raise.by, at: Some(raise.t), link: Some(self.words.links[LinkKind::Raise]) }));
        let over = self.contexts.cpu(cpu).open.len();
        let below = self.below(cpu, over);
        self.emit(Effect::Push { machine, below, cause });
        self.emit_context_state(machine, state, true);
        let raise = raise.filter(|raise| !raise.caused);
        let timer = raised_by.is_none() && raise.map_or_else(|| self.is_timer(id), |raise| raise.timer);
        self.contexts.cpu(cpu).open.push(RunningContext {
            id,
            machine,
            caused: raised_by.is_some(),
            raise,
            device: None,
            timer,
            timer_cause: None,
            acts_for: raised_by.map(|raise| raise.by),
            acts_since: self.now,
        });
        // The device exists from its first interrupt on.
        if let Key::Irq(_) = key {
            self.device(id);
        }
    }

    /// The machine below the context at this place.
    fn below(&mut self, cpu: CpuId, place: usize) -> Option<MachineId> {
        let open = place.checked_sub(1).and_then(|place| self.contexts.cpu(cpu).open.get(place));
        match (open, self.linux.cpus[cpu.0 as usize].base) {
            (Some(open), _) => Some(open.machine),
            // A thread that is not known as a machine yet is not interrupted.
            (None, Base::Thread(thread)) => {
                let at = self.thread_of_linux(thread);
                self.threads[at].machine
            }
            (None, Base::Idle | Base::Unknown) => None,
        }
    }

    /// Turns the context to something that the machine `of` sent or requested at time `t`.
    ///
    /// A context handles several requests and packets in a row, and none of them is the cause of
    /// what the next one leads to, so the context begins a new path for each. Packets from one
    /// sender belong together (`is_stream`); requests do not, because their issuer works for many
    /// others.
    pub(super) fn turn_to(&mut self, cpu: CpuId, by: Waker, (of, is_stream): (MachineId, bool), t: u64) {
        let Waker::Context { id, .. } = by else { return };
        let place = self.contexts.cpu(cpu).open.len().saturating_sub(1);
        let Some(open) = self.contexts.cpu(cpu).open.last_mut().filter(|open| open.id == id) else { return };
        // What the context has sent meanwhile is caused by what it does now.
        let same = is_stream && open.acts_for == Some(of) || of == open.machine && t >= open.acts_since;
        let again = open.caused && !same;
        if again {
            (open.timer, open.timer_cause) = (false, None);
        }
        if !same {
            open.acts_for = Some(of);
        }
        if again {
            self.begin_new_path(cpu, place);
        }
    }

    /// Processes the expiry of a timer in this context: what the context does now is for the
    /// machine that set the timer, if that is known.
    pub(super) fn act_for_timer(&mut self, cpu: CpuId, id: ContextId, timer_cause: Option<TimerCause>) {
        let place = self.contexts.cpu(cpu).open.len().saturating_sub(1);
        let Some(open) = self.contexts.cpu(cpu).open.last_mut().filter(|open| open.id == id && open.timer) else { return };
        open.timer_cause = timer_cause;
        if open.caused {
            self.begin_new_path(cpu, place);
        }
        if timer_cause.is_some() {
            self.context_that_acts(cpu, id);
        }
    }

    /// Sets the link of open contexts whose timer's purpose has just been determined.
    pub(super) fn contexts_decided(&mut self, before: NameId, link: NameId) {
        for open in self.contexts.cpus.iter_mut().flat_map(|cpu| &mut cpu.open) {
            if let Some(due) = open.timer_cause.as_mut().filter(|due| due.link == before) {
                due.link = link;
            }
        }
    }

    /// Begins a new path for the context at this place: what it has done is no cause of what it
    /// does now.
    fn begin_new_path(&mut self, cpu: CpuId, place: usize) {
        let now = self.now;
        let open = &mut self.contexts.cpu(cpu).open[place];
        (open.caused, open.raise, open.device, open.acts_since) = (false, None, None, now);
        let id = open.id;
        let ContextMachine { machine, state } = self.context(cpu, id);
        let below = self.below(cpu, place);
        self.emit(Effect::Pop { machine });
        self.emit(Effect::Push { machine, below, cause: None });
        self.emit_context_state(machine, state, true);
    }

    pub(super) fn context(&mut self, cpu: CpuId, id: ContextId) -> ContextMachine {
        let machines = &mut self.contexts.machines;
        if machines.len() <= id.0 as usize {
            machines.resize_with(id.0 as usize + 1, Vec::new);
        }
        let of_cpu = &mut machines[id.0 as usize];
        if of_cpu.len() <= cpu.0 as usize {
            of_cpu.resize(cpu.0 as usize + 1, None);
        }
        if let Some(known) = of_cpu[cpu.0 as usize] {
            return known;
        }
        let name = self.linux.contexts[id.0 as usize].name.clone();
        let number = self.linux.cpus[cpu.0 as usize].number;
        let machine = self.system.vocabulary.machine("", &context_name(&name, number));
        // `irq 36 virtio0` handles virtio0, `softirq NET_RX` handles NET_RX.
        let state = match self.linux.contexts[id.0 as usize].key {
            Key::Irq(_) => name.splitn(3, ' ').nth(2).unwrap_or(&name),
            Key::Softirq(_) => name.split_once(' ').map_or(name.as_str(), |(_, state)| state),
            Key::Vector(_) => &name,
        };
        let state = self.system.vocabulary.names.intern_as(state, NameKind::State(StateKind::Interrupt));
        let known = ContextMachine { machine, state };
        self.contexts.machines[id.0 as usize][cpu.0 as usize] = Some(known);
        self.emit_class(machine, &name);
        self.naming.runs_on.push((machine, RunsOn::Cpu(number)));
        known
    }

    /// The device of an interrupt; what the device waits for is outside.
    fn device(&mut self, id: ContextId) -> Device {
        let at = id.0 as usize;
        if self.contexts.devices.len() <= at {
            self.contexts.devices.resize(at + 1, None);
        }
        if let Some(known) = self.contexts.devices[at] {
            return known;
        }
        let name = self.linux.contexts[at].name.clone();
        let name = name.splitn(3, ' ').nth(2).unwrap_or(&name);
        let machine = self.system.vocabulary.machine("", &format!("device {name}"));
        let kind = NameKind::Link(LinkKind::Outside);
        let outside = self.system.vocabulary.names.intern_as(&format!("outside {name}"), kind);
        let device = Device { machine, outside };
        self.contexts.devices[at] = Some(device);
        self.emit_class(machine, "device");
        self.emit(Effect::State { machine, state: self.words.outside });
        device
    }

    /// True if timers run in this context.
    pub(super) fn is_timer(&self, id: ContextId) -> bool {
        self.linux.contexts[id.0 as usize].runs_timers
    }

    /// True for a timer's interrupt, not for a softirq.
    pub(super) fn is_hard_timer(&self, id: ContextId) -> bool {
        !self.linux.contexts[id.0 as usize].key.is_softirq() && self.is_timer(id)
    }

    /// True for the softirq in which the kernel wakes threads that wait for a grace period.
    pub(super) fn is_rcu(&self, id: ContextId) -> bool {
        self.linux.contexts[id.0 as usize].key == Key::Softirq(Key::RCU_SOFTIRQ)
    }

    /// True if what this context does now was caused by a timer whose setter is unknown.
    pub(super) fn is_timed(&mut self, cpu: CpuId, id: ContextId) -> bool {
        let open = self.contexts.cpu(cpu).open.iter().rfind(|open| open.id == id).copied();
        open.map_or_else(|| self.is_timer(id), |open| open.timer && !open.caused)
    }

    /// True if the context is open according to the emitted interactions.
    pub(super) fn is_open(&mut self, cpu: CpuId, id: ContextId) -> bool {
        self.contexts.cpu(cpu).open.iter().any(|open| open.id == id)
    }

    /// The machine of a context that is the cause of something now. Emits the cause of the context
    /// itself if that was not done yet.
    pub(super) fn context_that_acts(&mut self, cpu: CpuId, id: ContextId) -> MachineId {
        let machine = self.context(cpu, id).machine;
        let Some(at) = self.contexts.cpu(cpu).open.iter().rposition(|open| open.id == id) else { return machine };
        let open = self.contexts.cpu(cpu).open[at];
        if open.caused {
            return machine;
        }
        let of_timer = open.timer_cause.map(|TimerCause { by, t, link }| Cause { by, at: Some(t), link: Some(link) });
        let cause = match (open.raise, self.linux.contexts[id.0 as usize].key) {
            _ if of_timer.is_some() => of_timer,
            _ if open.timer => self.unknown("timer"),
            (Some(raise), _) => Some(Cause { by: raise.by, at: Some(raise.t), link: Some(self.words.links[LinkKind::Raise]) }),
            // A disk's interrupt means that a request is done, but not which one. The oldest one is
            // assumed if no completion was recorded by now.
            (None, Key::Irq(_)) if self.oldest_request(id).is_some() => self.oldest_request(id),
            (None, Key::Irq(_)) if !self.is_timer(id) => {
                let by = self.device(id).machine;
                Some(Cause { by, at: None, link: None })
            }
            (None, Key::Softirq(_)) => self.unknown("softirq"),
            (None, _) => self.unknown("timer"),
        };
        let device = self.device_behind(&open);
        let open = &mut self.contexts.cpu(cpu).open[at];
        (open.caused, open.device) = (true, device);
        // Emits the machine from which the context's path comes; without a cause the path begins
        // with the context.
        if cause.is_some() {
            self.emit(Effect::Wake { machine, cause });
            let state = self.context(cpu, id).state;
            self.emit_context_state(machine, state, false);
        }
        machine
    }

    /// The link of a wait for a device, if what this context does now has no other cause: it is
    /// that device's interrupt, or a softirq that it raised, and has taken nothing that a machine
    /// of the trace sent.
    pub(super) fn outside_link(&mut self, cpu: CpuId, id: ContextId) -> Option<NameId> {
        let open = self.contexts.cpu(cpu).open.iter().rfind(|open| open.id == id).copied()?;
        let interrupt = self.device_behind(&open)?;
        Some(self.device(interrupt).outside)
    }

    /// The interrupt of the device behind a context that nothing in the trace has caused.
    fn device_behind(&self, open: &RunningContext) -> Option<ContextId> {
        if open.caused {
            return open.device;
        }
        let id = open.raise.map_or(Some(open.id), |raise| raise.context)?;
        let is_device = matches!(self.linux.contexts[id.0 as usize].key, Key::Irq(_)) && !self.is_timer(id);
        let has_cause = open.timer || open.timer_cause.is_some() || self.oldest_request(id).is_some();
        (is_device && !has_cause).then_some(id)
    }

    /// The interrupt in which something happens now, or the one that raised the current softirq.
    pub(super) fn interrupt(&mut self, cpu: CpuId, by: Waker) -> Option<ContextId> {
        let Waker::Context { id, .. } = by else { return None };
        let open = *self.contexts.cpu(cpu).open.last().filter(|open| open.id == id)?;
        let id = open.raise.and_then(|raise| raise.context).unwrap_or(id);
        matches!(self.linux.contexts[id.0 as usize].key, Key::Irq(_)).then_some(id)
    }

    /// Notes that the context has taken something that determines its path.
    pub(super) fn note_taken(&mut self, cpu: Option<CpuId>, by: Waker) {
        let Waker::Context { id, .. } = by else { return };
        for cpu in cpu.map_or(0..self.contexts.cpus.len(), |cpu| cpu.0 as usize..cpu.0 as usize + 1) {
            if let Some(open) = self.contexts.cpus.get_mut(cpu).and_then(|cpu| cpu.open.last_mut()).filter(|open| open.id == id) {
                (open.caused, open.device) = (true, None);
            }
        }
    }

    pub(super) fn raised(&mut self, catalogue: &Catalogue, cpu: CpuId, number: u8, by: Waker) {
        if self.contexts.cpu(cpu).raised.get(usize::from(number)).is_none_or(Option::is_some) {
            return;
        }
        let raise = match by {
            // A program raises no softirq without a system call: an untraced interrupt did (for
            // example from another CPU that had packets for this one).
            Waker::Thread(thread) if self.linux.calls_nothing(thread) => None,
            Waker::Thread(thread) => {
                let at = self.thread_of_linux(thread);
                Some(Raise { by: self.machine(catalogue, at), t: self.now, caused: true, context: None, timer: false })
            }
            Waker::Context { id, .. } => {
                let open = self.contexts.cpu(cpu).open.last().filter(|open| open.id == id).copied();
                open.map(|open| {
                    let device = self.device_behind(&open);
                    // A raiser without a known path of its own leaves it to the softirq to find
                    // one.
                    let has_cause = open.caused
                        || open.timer_cause.is_some()
                        || !open.timer && matches!(self.linux.contexts[id.0 as usize].key, Key::Softirq(_));
                    let caused = has_cause && device.is_none();
                    let by = if caused { self.context_that_acts(cpu, id) } else { open.machine };
                    Raise { by, t: self.now, caused, context: device.or(Some(id)), timer: open.timer && !open.caused }
                })
            }
            Waker::UntracedInterrupt | Waker::Unknown => None,
        };
        self.contexts.cpu(cpu).raised[usize::from(number)] = raise;
    }

    /// The machine that does something now, if the cause of that is known.
    pub(super) fn machine_with_cause(&mut self, catalogue: &Catalogue, cpu: CpuId, by: Waker) -> Option<MachineId> {
        match by {
            Waker::Thread(id) if self.linux.calls_nothing(id) || self.linux.missing_context_group_for(id).is_some() => None,
            Waker::Thread(id) => {
                let at = self.thread_of_linux(id);
                Some(self.machine(catalogue, at))
            }
            Waker::Context { id, .. } if self.is_open(cpu, id) && !self.is_timed(cpu, id) => Some(self.context_that_acts(cpu, id)),
            Waker::Context { .. } | Waker::UntracedInterrupt | Waker::Unknown => None,
        }
    }

    /// The machine that set the timer that led to what this context does now.
    pub(super) fn timer_of(&mut self, cpu: CpuId, id: ContextId) -> Option<MachineId> {
        self.contexts.cpu(cpu).open.iter().rfind(|open| open.id == id).and_then(|open| open.timer_cause).map(|cause| cause.by)
    }

    /// The machine that did something now, if it is known.
    pub(super) fn machine_of_waker(&mut self, catalogue: &Catalogue, cpu: Option<CpuId>, by: Waker) -> Option<MachineId> {
        match by {
            Waker::Thread(thread) if self.linux.missing_context_group_for(thread).is_some() => None,
            Waker::Thread(thread) => {
                let at = self.thread_of_linux(thread);
                Some(self.machine(catalogue, at))
            }
            Waker::Context { id, .. } => {
                let open = |cpu: usize| self.contexts.cpus.get(cpu).and_then(|cpu| cpu.open.last()).filter(|open| open.id == id);
                match cpu {
                    Some(cpu) => open(cpu.0 as usize).map(|open| open.machine),
                    None => (0..self.contexts.cpus.len()).find_map(open).map(|open| open.machine),
                }
            }
            Waker::UntracedInterrupt | Waker::Unknown => None,
        }
    }
}

/// Returns the name of the machine that an interrupt is on a CPU.
pub fn context_name(name: &str, cpu: u32) -> String {
    format!("{name} cpu{cpu}")
}
