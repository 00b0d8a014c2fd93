//! The system a trace tells of: its machines and queues by name, and the way from an event to a [`Step`].
//!
//! Memory grows with the number of distinct names, threads and classes, never with the number of events.

use crate::dense::Dense;
use crate::hash::IdMap;
use crate::names::{NameId, Names};
pub use crate::plan::Never;
use crate::plan::{Alternative, NameSource, Plan};
use crate::rules::{Action, Origin, RuleError, Rules};
use crate::step::{MachineId, Op, QueueId, Step};
use crate::value;
use longpole_trace::event::{Catalogue, Class, Event, StreamId, Subject, Value};
use std::collections::HashMap;

#[derive(Debug)]
pub struct System {
    rules: Rules,
    plans: Vec<Option<Plan>>,
    pub names: Names,
    pub queues: Vec<Queue>,
    /// By name.
    queue_ids: Dense<QueueId>,
    pub machines: Vec<Machine>,
    machine_of_subject: Vec<Option<MachineId>>,
    machine_of_thread: HashMap<(String, i32, i32), MachineId>,
    machine_of_stream: Dense<MachineId>,
    /// Those that rules name.
    machine_of_name: IdMap<u32, MachineId>,
    /// By rule: the events that it told the meaning of.
    matched: Vec<u64>,
    /// By rule: why there were none, as far as is known.
    never: Vec<Never>,
}

/// A thread, and what the trace calls it.
#[derive(Clone, Debug, Default)]
pub struct Machine {
    pub host: String,
    pub label: String,
    pub thread: String,
    pub pid: Option<i32>,
    pub tid: Option<i32>,
    /// Steps other than [`Op::Other`].
    pub steps: u64,
}

#[derive(Clone, Debug)]
pub struct Queue {
    pub name: NameId,
    pub capacity: Option<u64>,
    pub lifo: bool,
    pub bytes: bool,
}

impl System {
    pub fn new() -> Result<System, RuleError> {
        Ok(System::with_rules(Rules::built_in()?))
    }

    pub fn with_rules(rules: Rules) -> System {
        System {
            matched: vec![0; rules.len()],
            never: vec![Never::Absent; rules.len()],
            rules,
            plans: Vec::new(),
            names: Names::default(),
            queues: Vec::new(),
            queue_ids: Dense::default(),
            machines: Vec::new(),
            machine_of_subject: Vec::new(),
            machine_of_thread: HashMap::new(),
            machine_of_stream: Dense::default(),
            machine_of_name: IdMap::default(),
        }
    }

    /// What the event means. An event that no rule knows is [`Op::Other`]: it still shows that its thread is alive.
    #[inline]
    pub fn step(&mut self, catalogue: &Catalogue, event: &Event<'_>) -> Step {
        let machine = self.machine(catalogue, event);
        let (op, whom) = self.meaning(catalogue, event);
        let machine = whom.unwrap_or(machine);
        if op != Op::Other {
            self.machines[machine.0 as usize].steps += 1;
        }
        Step { t_ns: event.t_ns, machine, op }
    }

    /// What the event means, whoever does it, and the machine that the rule names for that.
    #[inline]
    pub fn meaning(&mut self, catalogue: &Catalogue, event: &Event<'_>) -> (Op, Option<MachineId>) {
        let at = event.class.0 as usize;
        if self.plans.get(at).is_none_or(Option::is_none) {
            self.compile(catalogue, at);
        }
        // The plan leaves its place while names may be interned, so that nothing of it is copied.
        let plan = self.plans.get_mut(at).and_then(Option::take).unwrap_or_default();
        let meaning = match plan.choose(event.fields) {
            Some(alternative) => {
                self.matched[alternative.rule] += 1;
                let whom = alternative.whom.map(|whom| {
                    let name = self.name(whom, event.fields);
                    self.named_machine(name)
                });
                (self.op(alternative, event.fields), whom)
            }
            None => (Op::Other, None),
        };
        if let Some(place) = self.plans.get_mut(at) {
            *place = Some(plan);
        }
        meaning
    }

    /// Whether there are rules beside the built-in ones: only those speak of what is no probe's.
    pub fn has_own_rules(&self) -> bool {
        self.rules.has_own()
    }

    /// The rules that are not built in, how many events each told the meaning of, and where these are none, why.
    pub fn own_rules(&self) -> impl Iterator<Item = (Origin, u64, Option<&Never>)> + '_ {
        let found = self.matched.iter().zip(&self.never);
        self.rules.own().zip(found).map(|(rule, (&events, never))| (rule, events, (events == 0).then_some(never)))
    }

    /// The machine that a rule calls so: one that rules name, or else a thread of this name.
    fn named_machine(&mut self, name: NameId) -> MachineId {
        if let Some(&known) = self.machine_of_name.get(&name.0) {
            return known;
        }
        let text = self.names.text(name).to_owned();
        let is_it =
            |machine: &Machine| machine.thread == text || machine.label == text || machine.tid.is_some_and(|tid| tid.to_string() == text);
        let known = self.machines.iter().position(is_it);
        let machine = MachineId(known.unwrap_or(self.machines.len()) as u32);
        if known.is_none() {
            self.machines.push(Machine { label: text, ..Machine::default() });
        }
        self.machine_of_name.insert(name.0, machine);
        machine
    }

    /// Who wrote last on a stream: whom a loss on it concerns.
    pub fn machine_of_stream(&self, stream: StreamId) -> Option<MachineId> {
        self.machine_of_stream.get(stream.0).copied()
    }

    pub fn queue_name(&self, queue: QueueId) -> &str {
        self.queues.get(queue.0 as usize).map_or("", |queue| self.names.text(queue.name))
    }

    /// Names for people, one per machine and each different: the label; with the thread where one label has several active
    /// threads; with the tid where that is still not enough.
    pub fn machine_names(&self) -> Vec<String> {
        let mut active: HashMap<(&str, &str), usize> = HashMap::new();
        for machine in self.machines.iter().filter(|machine| machine.steps > 0) {
            *active.entry((&machine.host, &machine.label)).or_default() += 1;
        }
        let several_hosts = self.machines.iter().any(|machine| machine.host != self.machines[0].host);
        let names: Vec<String> = self
            .machines
            .iter()
            .map(|machine| {
                let alone = active.get(&(machine.host.as_str(), machine.label.as_str())).copied().unwrap_or(0) <= 1;
                let mut name = match (machine.label.as_str(), machine.thread.as_str()) {
                    ("", "") => machine.tid.map_or_else(|| "unknown".to_owned(), |tid| format!("tid {tid}")),
                    ("", thread) => thread.to_owned(),
                    (label, "") => label.to_owned(),
                    (label, _) if alone && machine.steps > 0 => label.to_owned(),
                    (label, thread) => format!("{label}/{thread}"),
                };
                if several_hosts && !machine.host.is_empty() {
                    name = format!("{}:{name}", machine.host);
                }
                name
            })
            .collect();
        let mut count: HashMap<&str, usize> = HashMap::new();
        for name in &names {
            *count.entry(name).or_default() += 1;
        }
        names
            .iter()
            .enumerate()
            .map(|(at, name)| match (count.get(name.as_str()), self.machines[at].tid) {
                (Some(1) | None, _) => name.clone(),
                (_, Some(tid)) => format!("{name}.{tid}"),
                (_, None) => format!("{name}.{at}"),
            })
            .collect()
    }

    /// What a machine is called whatever else runs, and in another run, too: the label, with the thread where that has a name of its own. Numbers of threads
    /// are no part of it, so that machines of one program have one.
    pub fn machine_classes(&self) -> Vec<String> {
        let several_hosts = self.machines.iter().any(|machine| machine.host != self.machines[0].host);
        let class = |machine: &Machine| {
            let class = match (machine.label.as_str(), machine.thread.as_str()) {
                ("", "") => "unknown".to_owned(),
                ("", thread) => thread.to_owned(),
                (label, thread) if thread.is_empty() || thread == label => label.to_owned(),
                (label, thread) => format!("{label}/{thread}"),
            };
            if several_hosts && !machine.host.is_empty() {
                format!("{}:{class}", machine.host)
            } else {
                class
            }
        };
        self.machines.iter().map(class).collect()
    }

    #[inline]
    pub(crate) fn machine(&mut self, catalogue: &Catalogue, event: &Event<'_>) -> MachineId {
        let known = self.machine_of_subject.get(event.subject.0 as usize).copied().flatten();
        let machine = match known {
            Some(machine) => machine,
            None => self.meet(catalogue, event),
        };
        *self.machine_of_stream.place(event.stream.0) = Some(machine);
        machine
    }

    #[cold]
    fn meet(&mut self, catalogue: &Catalogue, event: &Event<'_>) -> MachineId {
        let at = event.subject.0 as usize;
        let unknown = Subject::default();
        let subject = catalogue.subjects.get(at).unwrap_or(&unknown);
        let next = MachineId(self.machines.len() as u32);
        // A thread that changes its label or name is still one thread.
        let machine = match (subject.pid, subject.tid) {
            (Some(pid), Some(tid)) => *self.machine_of_thread.entry((subject.host.clone(), pid, tid)).or_insert(next),
            _ => next,
        };
        if machine == next {
            self.machines.push(Machine { host: subject.host.clone(), pid: subject.pid, tid: subject.tid, ..Machine::default() });
        }
        let place = &mut self.machines[machine.0 as usize];
        if !subject.label.is_empty() {
            place.label = subject.label.clone();
        }
        if !subject.thread.is_empty() {
            place.thread = subject.thread.clone();
        }
        if at < catalogue.subjects.len() {
            if self.machine_of_subject.len() <= at {
                self.machine_of_subject.resize(at + 1, None);
            }
            self.machine_of_subject[at] = Some(machine);
        }
        machine
    }

    #[cold]
    fn compile(&mut self, catalogue: &Catalogue, at: usize) {
        let unknown = Class::default();
        let class = catalogue.classes.get(at).unwrap_or(&unknown);
        let mut plan = Plan::compile(&self.rules, class, &mut self.names);
        for (rule, why) in std::mem::take(&mut plan.spoken_of) {
            if why > self.never[rule] {
                self.never[rule] = why;
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
            let queue = self.queue(name);
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
        let queue = &mut self.queues[queue.0 as usize];
        for (key, value) in attributes {
            match key.as_str() {
                // A capacity of 0 is "unlimited or unknown".
                "capacity" => queue.capacity = value.parse().ok().filter(|&capacity| capacity > 0).or(queue.capacity),
                "order" => queue.lifo = value == "lifo",
                "unit" => queue.bytes = value == "bytes",
                _ => {}
            }
        }
    }

    fn queue(&mut self, name: NameId) -> QueueId {
        let next = QueueId(self.queues.len() as u32);
        let queue = *self.queue_ids.place(name.0).get_or_insert(next);
        if queue == next {
            self.queues.push(Queue { name, capacity: None, lifo: false, bytes: false });
        }
        queue
    }

    #[inline]
    fn name(&mut self, source: NameSource, fields: &[Value<'_>]) -> NameId {
        match source {
            NameSource::Fixed(name) => name,
            NameSource::Field(at) => match fields.get(at) {
                Some(Value::Str(text)) => self.names.intern_bounded(&String::from_utf8_lossy(text)),
                Some(value) => match value::as_u64(value) {
                    Some(number) => self.names.intern_bounded(&format!("{number:#x}")),
                    None => self.names.intern(""),
                },
                None => self.names.intern(""),
            },
            NameSource::TextAndField(text, at) => {
                let mut name = self.names.text(text).to_owned();
                match fields.get(at) {
                    Some(Value::Str(text)) => name.push_str(&String::from_utf8_lossy(text)),
                    Some(value) => name.extend(value::as_u64(value).map(|number| number.to_string())),
                    None => {}
                }
                self.names.intern_bounded(&name)
            }
        }
    }

    #[inline]
    fn op(&mut self, plan: &Alternative, fields: &[Value<'_>]) -> Op {
        let name = self.name(plan.name, fields);
        let count = || plan.count.read(fields).unwrap_or(1);
        match plan.action {
            Action::State => Op::State { machine: self.name(plan.machine, fields), state: name },
            Action::Declared => match self.names.text(name).rsplit_once("::") {
                Some((machine, state)) => {
                    let (machine, state) = (machine.to_owned(), state.to_owned());
                    Op::State { machine: self.names.intern_bounded(&machine), state: self.names.intern_bounded(&state) }
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
            Action::Put => Op::Put { queue: self.queue(name), count: count() },
            Action::Get => Op::Get { queue: self.queue(name), count: count() },
            Action::Peek => Op::Peek { queue: self.queue(name), count: count() },
            Action::Reserve => Op::Reserve { queue: self.queue(name), count: count() },
            Action::WaitEmpty => Op::WaitEmpty { queue: self.queue(name) },
            Action::WaitFull => Op::WaitFull { queue: self.queue(name) },
            Action::Size => Op::Size { queue: self.queue(name), count: count() },
            Action::Flow => Op::Flow { id: plan.id.read(fields).unwrap_or(0) },
            Action::Block => Op::Block { why: name },
            Action::Wake => Op::Wake { machine: self.named_machine(name) },
            Action::Ignore => Op::Other,
        }
    }
}

fn is_queue(action: Action) -> bool {
    matches!(action, Action::Put | Action::Get | Action::Peek | Action::Reserve | Action::WaitEmpty | Action::WaitFull | Action::Size)
}
