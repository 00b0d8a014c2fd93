//! From a trace's events to interactions: what threads, interrupts, queues and devices did to
//! themselves and to each other.
//!
//! The [`Composer`] uses the model of the kernel ([`crate::linux`]) and the meaning of probes
//! ([`crate::system`]). It reads the events once and composes [`Interaction`]s in the order of
//! time. Memory grows with living threads, names, and calls and packets in flight, never with the
//! number of events.
//!
//! Principles:
//!
//! - A thread is one machine, whether the kernel or its probes describe it. If the probes say what
//!   its code waits for (a wait, a call), that is the reason of its block; otherwise the kernel's
//!   reason is used.
//! - The kernel's wake-ups carry the edges between blocked threads. If a thread waits for tokens
//!   and is woken for another reason (the timer of a polling loop), it continues to wait, and the
//!   token carries the edge.
//! - Nothing is assumed where events are missing: that time is UNKNOWN, and so is the cause of an
//!   effect in it. [`Composer::counters`] counts which events would have been needed.

mod contexts;
mod devices;
mod early;
mod ending;
mod faults;
mod naming;
mod probes;
mod state_names;
mod thread_table;
mod threads;
mod timers;
mod user_rules;
mod waits;
mod works;

pub use contexts::context_name;
pub use naming::{is_named_as_recorder, ThreadOfMachine};

use crate::causes::state_names::{StateNames, Words};
use crate::interaction::ahead::Ahead;
use crate::interaction::{Cause, Effect, Interaction, MachineId, Vocabulary};
use crate::linux::net::Hop;
use crate::linux::watch::{Moment, Watch};
use crate::linux::Linux;
use crate::names::NameId;
use crate::rules::{RuleError, Rules};
use crate::step::Step;
use crate::system::System;
use longpole_trace::event::{Catalogue, Item, Loss, StreamId, StreamKind};
use std::collections::{BTreeMap, HashMap};

/// What is known about a trace in addition to its events.
#[derive(Clone, Copy, Debug, Default)]
pub struct About {
    /// The process whose end is the end of the analysis: the command that was recorded.
    pub command: Option<i32>,
    /// The process that recorded; `None` if it must be recognised by its name.
    pub recorder: Option<i32>,
    /// The minimum duration of a page fault, as measured when the recording began.
    pub page_fault_ns: Option<u64>,
}

/// Counters that interactions cannot express.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    pub events: u64,
    /// Lost events; `uncounted_losses` counts the losses for which no number is known.
    pub lost: u64,
    pub uncounted_losses: u64,
    /// Blocks that ended without a known cause, by the event group that would have shown it.
    pub unknown_by: BTreeMap<&'static str, u64>,
    /// Items taken that were put before the trace began.
    pub from_before: u64,
    /// Queues whose number of items differed from the number their program reported.
    pub size_mismatches: u64,
}

/// The place where a machine runs. Samples of stacks identify machines by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunsOn {
    /// The thread with this id. Machines with one name are several threads, one after the other.
    Thread(i32),
    /// A context on top of anything that this CPU runs.
    Cpu(u32),
}

/// Composes interactions from the events of a trace. Pass all items with [`Composer::item`] and
/// read the results with [`Composer::next_interaction`]; after the last item call
/// [`Composer::finish`].
pub struct Composer {
    linux: Linux,
    /// The meaning of the probes' events; contains the vocabulary of the interactions.
    system: System,
    about: About,
    words: Words,
    observed: ObservedEffects,
    /// Interactions that were composed and not yet read.
    ahead: Ahead,
    /// Time in ns of the interactions that are composed now.
    now: u64,
    counters: Counters,
    threads: thread_table::ThreadTable,
    naming: naming::Naming,
    contexts: contexts::Contexts,
    devices: devices::Devices,
    waits: waits::Waits,
    early: early::Early,
    works: works::Works,
    timers: timers::TimerSetters,
    faults: faults::Faults,
    names: StateNames,
    ending: ending::Ending,
    /// Losses on streams of probes that the reader has reached but time has not.
    losses_ahead: Vec<Loss>,
    /// The meaning of the last item, if it was an event of a probe.
    step: Option<Step>,
}

/// What the kernel's model reports during one event.
#[derive(Debug, Default)]
struct ObservedEffects {
    moments: Vec<Moment>,
    hops: Vec<devices::PacketEvent>,
    devices: devices::DeviceNumbers,
}

impl Watch for ObservedEffects {
    #[inline]
    fn moment(&mut self, moment: Moment) {
        self.moments.push(moment);
    }

    #[inline]
    fn hopped(&mut self, hop: &Hop<'_>) {
        self.hops.extend(devices::PacketEvent::of(hop, &mut self.devices));
    }
}

impl Composer {
    pub fn new(linux: Linux, mut system: System, about: About) -> Composer {
        let words = Words::new(&mut system.vocabulary);
        Composer {
            linux,
            system,
            about,
            words,
            observed: ObservedEffects::default(),
            ahead: Ahead::default(),
            now: 0,
            counters: Counters::default(),
            threads: thread_table::ThreadTable::default(),
            naming: naming::Naming::default(),
            contexts: contexts::Contexts::default(),
            devices: devices::Devices::default(),
            waits: waits::Waits::default(),
            early: early::Early::default(),
            works: works::Works::default(),
            timers: timers::TimerSetters::default(),
            faults: faults::Faults::default(),
            names: StateNames::default(),
            ending: ending::Ending::default(),
            losses_ahead: Vec::new(),
            step: None,
        }
    }

    pub fn built_in(about: About) -> Result<Composer, RuleError> {
        Composer::with_rules(Rules::built_in()?, about)
    }

    pub fn with_rules(rules: Rules, about: About) -> Result<Composer, RuleError> {
        Ok(Composer::new(Linux::new(i64::MIN, i64::MAX)?, System::with_rules(rules), about))
    }

    pub fn vocabulary(&self) -> &Vocabulary {
        &self.system.vocabulary
    }

    pub fn vocabulary_mut(&mut self) -> &mut Vocabulary {
        &mut self.system.vocabulary
    }

    /// Returns the thread or the CPU of each machine that is a thread or an interrupt context.
    pub fn runs_on(&self) -> &[(MachineId, RunsOn)] {
        &self.naming.runs_on
    }

    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    pub fn system(&self) -> &System {
        &self.system
    }

    pub fn linux(&self) -> &Linux {
        &self.linux
    }

    /// Reports to `watch` what the kernel's model knows only when nothing more follows. Call it
    /// once, after the last item, with the `watch` that was passed with the items.
    pub fn finish_linux<W: Watch>(&mut self, watch: &mut W) {
        self.linux.finish(watch);
    }

    /// The kernel's model, for a caller that has no more questions about machines.
    pub fn into_linux(self) -> Linux {
        self.linux
    }

    /// The next interaction that is known by now.
    #[inline]
    pub fn next_interaction(&mut self) -> Option<Interaction> {
        self.ahead.take_first()
    }

    /// The interactions that were composed and not yet read.
    pub fn ahead(&mut self) -> &mut Ahead {
        &mut self.ahead
    }

    /// The meaning of the last item, if it was an event of a probe.
    #[inline]
    pub fn step(&self) -> Option<Step> {
        self.step
    }

    /// From now on, events are still resolved to steps, but yield no interactions.
    pub fn end_here(&mut self) {
        self.ending.steps_only = true;
    }

    /// Processes the next event or loss, in the order of time.
    pub fn item(&mut self, catalogue: &Catalogue, item: &Item<'_>) {
        self.item_with(catalogue, item, &mut ());
    }

    /// Like [`Composer::item`]; `watch` also receives the reports of the kernel's model, so that
    /// the caller needs no second model.
    pub fn item_with<W: Watch>(&mut self, catalogue: &Catalogue, item: &Item<'_>, watch: &mut W) {
        self.step = None;
        if self.ending.steps_only {
            if let Item::Event(event) = item {
                if yields_steps(catalogue, event.stream) {
                    self.step = Some(self.system.step(catalogue, event));
                }
            }
            return;
        }
        if !(catalogue.losses_ahead.is_empty() && self.losses_ahead.is_empty()) {
            self.losses_begin(catalogue, item.t_ns());
        }
        match item {
            Item::Event(event) => {
                self.counters.events += 1;
                self.release_due(catalogue, event.t_ns);
                match catalogue.streams.get(event.stream.0 as usize).map(|stream| stream.kind) {
                    Some(StreamKind::Kernel) => {
                        self.release_on(catalogue, event.cpu);
                        self.advance_to(event.t_ns);
                        let meaning = if self.system.has_user_rules() { self.rule_meaning(catalogue, event) } else { None };
                        self.linux.event(catalogue, event, &mut (&mut self.observed, watch));
                        let meaning = meaning.and_then(|meaning| self.emit_before(catalogue, event.cpu, meaning));
                        if let Some(cpu) = event.cpu {
                            self.close_contexts(cpu);
                            self.process_reports(catalogue);
                            self.open_contexts(cpu);
                        }
                        if let Some(meaning) = meaning {
                            self.emit_after(catalogue, event, meaning);
                        }
                    }
                    Some(StreamKind::User) => {
                        self.naming.learn(catalogue);
                        let step = self.system.step(catalogue, event);
                        self.step = Some(step);
                        self.probe(catalogue, step);
                    }
                    kind => {
                        self.advance_to(event.t_ns);
                        if kind != Some(StreamKind::Samples) {
                            self.step = Some(self.system.step(catalogue, event));
                        }
                    }
                }
            }
            Item::Loss(loss) => {
                self.release_all(catalogue);
                self.advance_to(loss.end_ns);
                let kind = catalogue.streams.get(loss.stream.0 as usize).map(|stream| stream.kind);
                if !matches!(kind, Some(StreamKind::Kernel | StreamKind::User)) {
                    return;
                }
                match loss.events {
                    Some(events) => self.counters.lost = self.counters.lost.saturating_add(events),
                    None => self.counters.uncounted_losses += 1,
                }
                self.linux.loss(catalogue, loss, &mut (&mut self.observed, watch));
                self.stays_undecided();
                self.close_all_contexts();
                self.process_reports(catalogue);
                if let Some(actor) = self.system.actor_of_stream(loss.stream) {
                    self.probes_lost(catalogue, actor, loss.begin_ns);
                }
            }
        }
    }

    /// Must be called once, after the last event.
    pub fn finish(&mut self, catalogue: &Catalogue) {
        self.release_all(catalogue);
        self.stays_undecided();
        if !std::mem::replace(&mut self.ending.emitted, true) {
            self.emit_end();
        }
    }

    /// Advances the time; it never runs backwards.
    fn advance_to(&mut self, t_ns: i64) {
        let t = self.now.max(u64::try_from(t_ns).unwrap_or(0));
        if self.faults.due().is_some_and(|due| due <= t) {
            self.faults_end(t);
        }
        self.now = t;
    }

    fn process_reports(&mut self, catalogue: &Catalogue) {
        if !self.observed.moments.is_empty() {
            let mut moments = std::mem::take(&mut self.observed.moments);
            for moment in moments.drain(..) {
                self.moment(catalogue, moment);
            }
            self.observed.moments = moments;
        }
        if !self.observed.hops.is_empty() {
            let mut hops = std::mem::take(&mut self.observed.hops);
            for hop in hops.drain(..) {
                self.hop(catalogue, &hop);
            }
            self.observed.hops = hops;
        }
    }

    #[inline]
    fn emit(&mut self, effect: Effect) {
        let interaction = Interaction { t: self.now, line: self.counters.events, effect };
        match &mut self.timers.undecided {
            None => self.ahead.interactions.push(interaction),
            Some(undecided) => {
                undecided.held.push(interaction);
                if undecided.held.len() >= timers::MAX_HELD {
                    self.stays_undecided();
                }
            }
        }
    }

    fn unknown(&mut self, group: &'static str) -> Option<Cause> {
        *self.counters.unknown_by.entry(group).or_default() += 1;
        None
    }

    /// The state of a thread in this system call.
    #[inline]
    fn system_call(&mut self, name: NameId) -> NameId {
        self.names.system_call(name, &self.linux, &mut self.system.vocabulary)
    }

    /// The name of a reason to wait that probes or a user's rule gave.
    #[inline]
    fn reason_of_system(&mut self, name: NameId) -> NameId {
        self.names.reason(name, &mut self.system.vocabulary)
    }
}

/// True if events of the stream are resolved to steps: all but those of a Linux kernel and stack
/// samples.
fn yields_steps(catalogue: &Catalogue, stream: StreamId) -> bool {
    let kind = catalogue.streams.get(stream.0 as usize).map(|stream| stream.kind);
    !matches!(kind, Some(StreamKind::Kernel | StreamKind::Samples))
}

/// Numbers that are reused when they are free.
#[derive(Debug, Default)]
struct Slots {
    free: Vec<u32>,
    next: u32,
}

impl Slots {
    fn take(&mut self) -> u32 {
        self.free.pop().unwrap_or_else(|| {
            self.next += 1;
            self.next - 1
        })
    }

    fn give(&mut self, slot: u32) {
        self.free.push(slot);
    }
}

type Machines = HashMap<MachineId, u32>;
