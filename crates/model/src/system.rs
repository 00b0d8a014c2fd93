//! From an event of a program to a [`Step`], with the vocabulary of all names in the steps.
//!
//! Rules are compiled once per event class into a plan; each event then follows its plan. Memory
//! grows with the number of distinct names, threads and classes, never with the number of events.

pub mod activity;
pub mod signals;

use crate::actors::{Actor, ActorId};
use crate::hash::IdMap;
use crate::interaction::{QueueId, Vocabulary};
use crate::names::{NameId, OTHER_NAMES};
pub use crate::rules::plan::Unmatched;
use crate::rules::plan::{Alternative, NameSource, Plan};
use crate::rules::value;
use crate::rules::{Action, RuleError, Rules, UserRule};
use crate::step::{Op, Step};
use crate::tokens::dense::Dense;
use crate::tokens::{Order, Unit};
use longpole_trace::event::{Catalogue, Class, Event, StreamId, Subject, Value};
use std::collections::HashMap;

/// Resolves events of programs to steps. Owns the vocabulary and the actors.
#[derive(Debug)]
pub struct System {
    rules: Rules,
    plans: Vec<Option<Plan>>,
    pub vocabulary: Vocabulary,
    actor_of_subject: Vec<Option<ActorId>>,
    actor_of_thread: HashMap<(String, i32, i32), ActorId>,
    actor_of_stream: Dense<ActorId>,
    /// Actors that rules name.
    actor_of_name: IdMap<u32, ActorId>,
    /// Per rule, the number of events that it matched.
    matched: Vec<u64>,
    /// Per rule, what kept it from matching an event; the variant nearest to a match.
    unmatched: Vec<Unmatched>,
}

/// The name, and the queue, that represent all further ones if there are too many. They are the
/// first of each system.
pub const OTHER_NAME: NameId = NameId(0);
pub const OTHER_QUEUE: QueueId = QueueId(0);

impl System {
    pub fn new() -> Result<System, RuleError> {
        Ok(System::with_rules(Rules::built_in()?))
    }

    pub fn with_rules(rules: Rules) -> System {
        let mut vocabulary = Vocabulary::default();
        let name = vocabulary.names.intern(OTHER_NAMES);
        let queue = vocabulary.queue_of_program(name);
        debug_assert_eq!((name, queue), (OTHER_NAME, OTHER_QUEUE));
        System {
            matched: vec![0; rules.len()],
            unmatched: vec![Unmatched::NoEvent; rules.len()],
            rules,
            plans: Vec::new(),
            vocabulary,
            actor_of_subject: Vec::new(),
            actor_of_thread: HashMap::new(),
            actor_of_stream: Dense::default(),
            actor_of_name: IdMap::default(),
        }
    }

    /// The meaning of the event. An event that no rule matches is [`Op::Other`]: it still shows
    /// that its thread is alive.
    #[inline]
    pub fn step(&mut self, catalogue: &Catalogue, event: &Event<'_>) -> Step {
        let actor = self.actor(catalogue, event);
        let (op, as_actor) = self.meaning(catalogue, event);
        Step { t_ns: event.t_ns, actor: as_actor.unwrap_or(actor), op }
    }

    /// The meaning of the event without its actor, and the actor if the rule names one.
    #[inline]
    pub fn meaning(&mut self, catalogue: &Catalogue, event: &Event<'_>) -> (Op, Option<ActorId>) {
        let at = event.class.0 as usize;
        if self.plans.get(at).is_none_or(Option::is_none) {
            self.compile(catalogue, at);
        }
        // The plan is taken out while names are interned, so that it need not be copied.
        let plan = self.plans.get_mut(at).and_then(Option::take).unwrap_or_default();
        let meaning = match plan.choose(event.fields) {
            Some(alternative) => {
                self.matched[alternative.rule] += 1;
                let as_actor = alternative.as_actor.map(|as_actor| {
                    let name = self.name(as_actor, event.fields);
                    self.named_actor(name)
                });
                (self.op(alternative, event.fields), as_actor)
            }
            None => (Op::Other, None),
        };
        if let Some(place) = self.plans.get_mut(at) {
            *place = Some(plan);
        }
        meaning
    }

    /// True if there are rules in addition to the built-in ones. Only such rules apply to the
    /// events of a Linux kernel.
    pub fn has_user_rules(&self) -> bool {
        self.rules.has_of_user()
    }

    /// The rules that are not built in, each with the number of events that it matched, and the
    /// reason if there were none.
    pub fn user_rules(&self) -> impl Iterator<Item = (UserRule, u64, Option<&Unmatched>)> + '_ {
        let found = self.matched.iter().zip(&self.unmatched);
        self.rules.own().zip(found).map(|(rule, (&events, unmatched))| (rule, events, (events == 0).then_some(unmatched)))
    }

    /// The actor that a rule names: one that was named before, else a thread with this name, label
    /// or id, else a new actor.
    fn named_actor(&mut self, name: NameId) -> ActorId {
        if let Some(&known) = self.actor_of_name.get(&name.0) {
            return known;
        }
        let text = self.vocabulary.names.text(name).to_owned();
        let actors = &mut self.vocabulary.actors;
        let is_it = |actor: &Actor| actor.thread == text || actor.label == text || actor.tid.is_some_and(|tid| tid.to_string() == text);
        let known = actors.all().iter().position(is_it).map(|at| ActorId(at as u32));
        let actor = known.unwrap_or_else(|| actors.add(Actor { label: text, ..Actor::default() }));
        self.actor_of_name.insert(name.0, actor);
        actor
    }

    /// The actor with the last event on a stream. A loss on the stream concerns this actor.
    pub fn actor_of_stream(&self, stream: StreamId) -> Option<ActorId> {
        self.actor_of_stream.get(stream.0).copied()
    }

    #[inline]
    pub(crate) fn actor(&mut self, catalogue: &Catalogue, event: &Event<'_>) -> ActorId {
        let known = self.actor_of_subject.get(event.subject.0 as usize).copied().flatten();
        let actor = match known {
            Some(actor) => actor,
            None => self.meet(catalogue, event),
        };
        *self.actor_of_stream.slot(event.stream.0) = Some(actor);
        actor
    }

    #[cold]
    fn meet(&mut self, catalogue: &Catalogue, event: &Event<'_>) -> ActorId {
        let at = event.subject.0 as usize;
        let unknown = Subject::default();
        let subject = catalogue.subjects.get(at).unwrap_or(&unknown);
        let actors = &mut self.vocabulary.actors;
        let next = actors.next();
        // A thread that changes its label or name is still one thread.
        let actor = match (subject.pid, subject.tid) {
            (Some(pid), Some(tid)) => *self.actor_of_thread.entry((subject.host.clone(), pid, tid)).or_insert(next),
            _ => next,
        };
        if actor == next {
            actors.add(Actor { host: subject.host.clone(), pid: subject.pid, tid: subject.tid, ..Actor::default() });
        }
        actors.rename(actor, &subject.label, &subject.thread);
        if at < catalogue.subjects.len() {
            if self.actor_of_subject.len() <= at {
                self.actor_of_subject.resize(at + 1, None);
            }
            self.actor_of_subject[at] = Some(actor);
        }
        actor
    }

    #[cold]
    fn compile(&mut self, catalogue: &Catalogue, at: usize) {
        let unknown = Class::default();
        let class = catalogue.classes.get(at).unwrap_or(&unknown);
        let mut plan = Plan::compile(&self.rules, class, &mut self.vocabulary.names);
        for (rule, why) in std::mem::take(&mut plan.unmatched_rules) {
            if why > self.unmatched[rule] {
                self.unmatched[rule] = why;
            }
        }
        let fixed: Vec<NameId> = plan
            .alternatives
            .iter()
            .filter_map(|alternative| match alternative.name {
                NameSource::Fixed(name) if is_queue(alternative.action) => Some(name),
                _ => None,
            })
            .collect();
        for name in fixed {
            let queue = self.vocabulary.queue_of_program(name);
            self.describe_queue(queue, &class.attributes);
        }
        if at < catalogue.classes.len() {
            if self.plans.len() <= at {
                self.plans.resize(at + 1, None);
            }
            self.plans[at] = Some(plan);
        }
    }

    fn describe_queue(&mut self, queue: QueueId, attributes: &[(String, String)]) {
        let mut shape = self.vocabulary.shape(queue);
        for (key, value) in attributes {
            match key.as_str() {
                // A capacity of 0 means "unlimited or unknown".
                "capacity" => shape.capacity = value.parse().ok().filter(|&capacity| capacity > 0).or(shape.capacity),
                "order" => shape.order = if value == "lifo" { Order::Lifo } else { Order::Fifo },
                "unit" => shape.unit = if value == "bytes" { Unit::Bytes } else { Unit::Items },
                _ => {}
            }
        }
        self.vocabulary.describe(queue, shape);
    }

    #[inline]
    fn name(&mut self, source: NameSource, fields: &[Value<'_>]) -> NameId {
        match source {
            NameSource::Fixed(name) => name,
            NameSource::Field(at) => match fields.get(at) {
                Some(Value::Str(text)) => self.vocabulary.names.intern_bounded(&String::from_utf8_lossy(text)),
                Some(value) => match value::as_u64(value) {
                    Some(number) => self.vocabulary.names.intern_bounded(&format!("{number:#x}")),
                    None => self.vocabulary.names.intern(""),
                },
                None => self.vocabulary.names.intern(""),
            },
            NameSource::TextAndField(text, at) => {
                let mut name = self.vocabulary.names.text(text).to_owned();
                match fields.get(at) {
                    Some(Value::Str(text)) => name.push_str(&String::from_utf8_lossy(text)),
                    Some(value) => name.extend(value::as_u64(value).map(|number| number.to_string())),
                    None => {}
                }
                self.vocabulary.names.intern_bounded(&name)
            }
        }
    }

    #[inline]
    fn op(&mut self, plan: &Alternative, fields: &[Value<'_>]) -> Op {
        let name = self.name(plan.name, fields);
        let count = || plan.count.read(fields).unwrap_or(1);
        match plan.action {
            Action::State => Op::State { machine: self.name(plan.machine, fields), state: name },
            Action::Declared => match self.vocabulary.names.text(name).rsplit_once("::") {
                Some((machine, state)) => {
                    let (machine, state) = (machine.to_owned(), state.to_owned());
                    Op::State {
                        machine: self.vocabulary.names.intern_bounded(&machine),
                        state: self.vocabulary.names.intern_bounded(&state),
                    }
                }
                None => Op::Other,
            },
            Action::Begin => Op::Begin { name },
            Action::End => Op::End { name },
            Action::Mark => Op::Mark { name, object: plan.object.read(fields).unwrap_or(0), kind: plan.kind.read(fields) },
            Action::Counter => Op::Counter { name, value: plan.value.read_f64(fields).unwrap_or(0.0) },
            Action::Call => Op::Call { name, id: plan.id.read(fields) },
            Action::Returned => Op::Returned { name, id: plan.id.read(fields) },
            Action::Dispatch => Op::Dispatch { name, id: plan.id.read(fields) },
            Action::Reply => Op::Reply { name, id: plan.id.read(fields) },
            Action::Submit => Op::Submit { context: name, count: count() },
            Action::Receive => Op::Receive { context: name, count: count() },
            Action::Wait => Op::Wait,
            Action::Put => Op::Put { queue: self.vocabulary.queue_of_program(name), count: count() },
            Action::Get => Op::Get { queue: self.vocabulary.queue_of_program(name), count: count() },
            Action::Peek => Op::Peek { queue: self.vocabulary.queue_of_program(name), count: count() },
            Action::Reserve => Op::Reserve { queue: self.vocabulary.queue_of_program(name), count: count() },
            Action::WaitEmpty => Op::WaitEmpty { queue: self.vocabulary.queue_of_program(name) },
            Action::WaitFull => Op::WaitFull { queue: self.vocabulary.queue_of_program(name) },
            Action::Size => Op::Size { queue: self.vocabulary.queue_of_program(name), count: count() },
            Action::Flow => Op::Flow { id: plan.id.read(fields).unwrap_or(0) },
            Action::Block => Op::Block { why: name },
            Action::Wake => Op::Wake { actor: self.named_actor(name) },
            Action::Ignore => Op::Other,
        }
    }
}

fn is_queue(action: Action) -> bool {
    matches!(action, Action::Put | Action::Get | Action::Peek | Action::Reserve | Action::WaitEmpty | Action::WaitFull | Action::Size)
}
