//! How long things take: calls split into their parts, spans, signals, activity between wake-up and wait, objects' lives.

use crate::histogram::{Histogram, Times};
use crate::linux_account::Account;
use crate::parts::Parts;
use crate::samples::Samples;
use crate::session::{Observer, Scene};
use longpole_model::activity::{Outcome, State};
use longpole_model::actors::ActorId;
use longpole_model::hash::IdMap;
use longpole_model::names::NameId;
use longpole_model::step::{MarkKind, Op, Step};
use longpole_trace::event::Loss;
use serde::Serialize;
use std::collections::{BTreeMap, HashMap, VecDeque};

/// Calls or objects in flight beyond this: the oldest is given up and counted.
const MOST_IN_FLIGHT: usize = 1 << 16;
const MAX_NESTING: usize = 1024;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    Rpc,
    Span,
    Signal,
    Activity,
    Object,
    Custom,
}

/// A line of the answer.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Latency {
    pub kind: Kind,
    pub name: String,
    /// The thread concerned: of a span or an activity its own, of a call the caller, of a signal the receiver.
    pub machine: Option<String>,
    /// The other side: the callee, the sender.
    pub peer: Option<String>,
    #[serde(flatten)]
    pub times: Times,
    pub parts: Parts,
}

impl Latency {
    /// By kind, what took most time first.
    pub(crate) fn sort(lines: &mut [Latency]) {
        lines.sort_by(|a, b| {
            (a.kind as u8, b.times.total_ns, &a.name, &a.machine, &a.peer).cmp(&(
                b.kind as u8,
                a.times.total_ns,
                &b.name,
                &b.machine,
                &b.peer,
            ))
        });
    }
}

/// What several threads took together.
#[derive(Clone, Debug, PartialEq)]
pub struct Together {
    pub kind: Kind,
    pub name: String,
    /// The class of the threads concerned; none where all are together.
    pub class: Option<String>,
    pub times: Times,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Part {
    Times(Times),
    Count(u64),
}

#[derive(Debug, Default)]
pub struct Latencies {
    calls: IdMap<(u32, u32, u32), Calls>,
    open_calls: HashMap<(NameId, u64), OpenCall>,
    call_order: VecDeque<(NameId, u64)>,
    spans: IdMap<(u32, u32), Spans>,
    signals: IdMap<(u32, u32, u32), Signals>,
    activities: IdMap<u32, Histogram>,
    objects: IdMap<u32, Histogram>,
    open_objects: HashMap<Object, i64>,
    object_order: VecDeque<(Object, i64)>,
    threads: Vec<Thread>,
    /// Of the thread of the next step, by the kernel's events; none without.
    pub account: Option<Account>,
    /// Calls and objects that were given up.
    pub given_up: u64,
}

/// An object is known by its address or number, which says something in its process only.
type Object = (Option<i32>, NameId, u64);

#[derive(Debug, Default)]
struct Calls {
    total: Histogram,
    dispatch: Histogram,
    service: Histogram,
    back: Histogram,
}

#[derive(Clone, Copy, Debug)]
struct OpenCall {
    caller: ActorId,
    call_ns: i64,
    dispatched: Option<(ActorId, i64)>,
    reply_ns: Option<i64>,
    returned_ns: Option<i64>,
}

#[derive(Debug, Default)]
struct Spans {
    total: Histogram,
    own: Histogram,
    deepest: u64,
    net: Option<Box<Net>>,
}

/// What a span's time was by the kernel's events: the parts of those spans whose thread these know.
#[derive(Debug, Default)]
struct Net {
    running: Samples,
    interrupted: Samples,
    runnable: Samples,
    blocked: Samples,
    unknown: Samples,
}

impl Net {
    fn record(&mut self, total: u64, account: Account) {
        self.running.record(account.running_ns);
        self.interrupted.record(account.interrupted_ns);
        self.runnable.record(account.runnable_ns);
        self.blocked.record(account.blocked_ns);
        self.unknown.record(total.saturating_sub(account.known_ns()));
    }
}

#[derive(Debug, Default)]
struct Signals {
    times: Histogram,
    submits: u64,
    merged: u64,
    self_sent: u64,
}

#[derive(Debug, Default)]
struct Thread {
    spans: Vec<OpenSpan>,
    /// Calls without an id: a thread waits for one at a time.
    calls: Vec<(NameId, i64)>,
    awake_ns: Option<i64>,
}

#[derive(Clone, Copy, Debug)]
struct OpenSpan {
    name: NameId,
    begin_ns: i64,
    inner_ns: u64,
    account: Option<Account>,
}

impl Observer for Latencies {
    fn step(&mut self, scene: Scene<'_>, step: &Step, outcome: &Outcome) {
        let at = step.actor.0 as usize;
        let process = || scene.vocabulary.actors.all().get(at).and_then(|actor| actor.pid);
        if self.threads.len() <= at {
            self.threads.resize_with(at + 1, Thread::default);
        }
        if matches!(outcome.state, State::WaitSignal(_) | State::WaitEmpty(_) | State::WaitFull(_) | State::Reentry)
            && !matches!(step.op, Op::Wait | Op::WaitEmpty { .. } | Op::WaitFull { .. })
        {
            self.threads[at].awake_ns = Some(step.t_ns);
        }
        match step.op {
            Op::Begin { name } => {
                let account = self.account;
                let spans = &mut self.threads[at].spans;
                if spans.len() < MAX_NESTING {
                    spans.push(OpenSpan { name, begin_ns: step.t_ns, inner_ns: 0, account });
                }
            }
            Op::End { name } => self.end_span(step, name),
            Op::Call { name, id: Some(id) } => {
                self.call(
                    name,
                    id,
                    OpenCall { caller: step.actor, call_ns: step.t_ns, dispatched: None, reply_ns: None, returned_ns: None },
                );
            }
            Op::Call { name, id: None } => {
                let calls = &mut self.threads[at].calls;
                if calls.len() < MAX_NESTING {
                    calls.push((name, step.t_ns));
                }
            }
            Op::Returned { name, id: None } => {
                let calls = &mut self.threads[at].calls;
                if let Some(place) = calls.iter().rposition(|(known, _)| *known == name) {
                    let (_, begin) = calls[place];
                    calls.truncate(place);
                    let key = (name.0, step.actor.0, u32::MAX);
                    self.calls.entry(key).or_default().total.record(since(begin, step.t_ns));
                }
            }
            Op::Dispatch { name, id: Some(id) } => {
                if let Some(call) = self.open_calls.get_mut(&(name, id)) {
                    call.dispatched = Some((step.actor, step.t_ns));
                }
            }
            Op::Reply { name, id: Some(id) } => {
                if let Some(call) = self.open_calls.get_mut(&(name, id)) {
                    call.reply_ns = Some(step.t_ns);
                    if call.returned_ns.is_some() {
                        self.close_call(name, id);
                    }
                }
            }
            Op::Returned { name, id: Some(id) } => {
                if let Some(call) = self.open_calls.get_mut(&(name, id)) {
                    call.returned_ns = Some(step.t_ns);
                    // The callee's probe for a reply may come after the caller has it already.
                    if call.dispatched.is_none() || call.reply_ns.is_some() {
                        self.close_call(name, id);
                    }
                }
            }
            Op::Receive { context, .. } => {
                if let Some(delivery) = outcome.delivery {
                    let entry = self.signals.entry((context.0, delivery.sender.0, step.actor.0)).or_default();
                    entry.times.record(since(delivery.submitted_ns, step.t_ns));
                    entry.submits += delivery.merged;
                    entry.merged += u64::from(delivery.merged > 1);
                    entry.self_sent += u64::from(delivery.self_sent);
                }
            }
            Op::Wait | Op::WaitEmpty { .. } | Op::WaitFull { .. } => {
                if let Some(awake) = self.threads[at].awake_ns.take() {
                    self.activities.entry(step.actor.0).or_default().record(since(awake, step.t_ns));
                }
            }
            Op::Mark { name, object, kind: MarkKind::ObjectNew } => {
                let key = (process(), name, object);
                self.open_objects.insert(key, step.t_ns);
                self.object_order.push_back((key, step.t_ns));
                self.forget_objects();
            }
            Op::Mark { name, object, kind: MarkKind::ObjectDelete } => {
                if let Some(begin) = self.open_objects.remove(&(process(), name, object)) {
                    self.objects.entry(name.0).or_default().record(since(begin, step.t_ns));
                }
            }
            _ => {}
        }
    }

    fn loss(&mut self, _scene: Scene<'_>, machine: Option<ActorId>, _loss: &Loss) {
        if let Some(thread) = machine.and_then(|machine| self.threads.get_mut(machine.0 as usize)) {
            *thread = Thread::default();
        }
    }
}

impl Latencies {
    fn call(&mut self, name: NameId, id: u64, call: OpenCall) {
        if self.open_calls.insert((name, id), call).is_none() {
            self.call_order.push_back((name, id));
        }
        // Closed calls leave their place in the order behind; it goes when it comes to the front or when there are too many.
        while let Some(oldest) = self.call_order.front().copied() {
            let open = self.open_calls.contains_key(&oldest);
            if open && self.call_order.len() <= MOST_IN_FLIGHT {
                break;
            }
            self.call_order.pop_front();
            self.given_up += u64::from(self.open_calls.remove(&oldest).is_some());
        }
    }

    /// Gives up the oldest objects where too many are open. Addresses are used again: a life that is over says nothing of the one that is there now.
    fn forget_objects(&mut self) {
        let open = &mut self.open_objects;
        if self.object_order.len() > 2 * MOST_IN_FLIGHT {
            self.object_order.retain(|(object, begin)| open.get(object) == Some(begin));
        }
        while open.len() > MOST_IN_FLIGHT {
            let Some((oldest, begin)) = self.object_order.pop_front() else { break };
            if open.get(&oldest) == Some(&begin) {
                open.remove(&oldest);
                self.given_up += 1;
            }
        }
    }

    fn close_call(&mut self, name: NameId, id: u64) {
        let Some(call) = self.open_calls.remove(&(name, id)) else { return };
        let Some(returned) = call.returned_ns else { return };
        let callee = call.dispatched.map_or(u32::MAX, |(callee, _)| callee.0);
        let entry = self.calls.entry((name.0, call.caller.0, callee)).or_default();
        entry.total.record(since(call.call_ns, returned));
        if let (Some((_, dispatch)), Some(reply)) = (call.dispatched, call.reply_ns) {
            // Clamped into the call, so that the parts sum to the whole.
            let dispatch = dispatch.clamp(call.call_ns, returned.max(call.call_ns));
            let reply = reply.clamp(dispatch, returned.max(dispatch));
            entry.dispatch.record(since(call.call_ns, dispatch));
            entry.service.record(since(dispatch, reply));
            entry.back.record(since(reply, returned));
        }
    }

    fn end_span(&mut self, step: &Step, name: NameId) {
        let spans = &mut self.threads[step.actor.0 as usize].spans;
        let Some(place) = spans.iter().rposition(|span| span.name == name) else { return };
        let span = spans[place];
        spans.truncate(place);
        let total = since(span.begin_ns, step.t_ns);
        if let Some(outer) = spans.last_mut() {
            outer.inner_ns += total;
        }
        let entry = self.spans.entry((step.actor.0, name.0)).or_default();
        entry.total.record(total);
        entry.own.record(total.saturating_sub(span.inner_ns));
        entry.deepest = entry.deepest.max(place as u64);
        if let Some((begin, end)) = span.account.zip(self.account) {
            entry.net.get_or_insert_default().record(total, end.since(begin));
        }
    }

    /// Share of the round trips' time that the callee served, and who it is: for calls of `name` by `caller`.
    pub fn service(&self, name: NameId, caller: ActorId) -> Option<(ActorId, f64)> {
        let (key, calls) = self
            .calls
            .iter()
            .filter(|((known, by, callee), _)| *known == name.0 && *by == caller.0 && *callee != u32::MAX)
            .max_by_key(|(_, calls)| calls.total.sum())?;
        (calls.total.sum() > 0).then(|| (ActorId(key.2), calls.service.sum() as f64 / calls.total.sum() as f64))
    }

    /// What other spans took within this one, all its instances together.
    pub fn inner_ns(&self, machine: ActorId, state: State) -> u64 {
        let State::Span(name) = state else { return 0 };
        self.spans.get(&(machine.0, name.0)).map_or(0, |spans| spans.total.sum().saturating_sub(spans.own.sum()))
    }

    pub fn answer(&self, scene: Scene<'_>) -> Vec<Latency> {
        let machines = scene.names();
        let machine = |at: u32| machines.get(at as usize).cloned();
        let name = |at: u32| scene.vocabulary.names.text(NameId(at)).to_owned();
        let mut out = Vec::new();
        for (&(call, caller, callee), calls) in &self.calls {
            let mut parts = Vec::new();
            if !calls.service.is_empty() {
                parts.push(("dispatch", Part::Times(calls.dispatch.times())));
                parts.push(("service", Part::Times(calls.service.times())));
                parts.push(("return", Part::Times(calls.back.times())));
            }
            out.push(Latency {
                kind: Kind::Rpc,
                name: name(call),
                machine: machine(caller),
                peer: machine(callee),
                times: calls.total.times(),
                parts: parts.into_iter().collect(),
            });
        }
        for (&(thread, span), spans) in &self.spans {
            let mut parts = vec![("self", Part::Times(spans.own.times())), ("depth", Part::Count(spans.deepest))];
            if let Some(net) = &spans.net {
                let kinds = [("net", &net.running), ("interrupted", &net.interrupted), ("runnable", &net.runnable)];
                let others = [("blocked", &net.blocked), ("unknown", &net.unknown)];
                parts.extend(kinds.into_iter().chain(others).map(|(name, times)| (name, Part::Times(times.times()))));
            }
            out.push(Latency {
                kind: Kind::Span,
                name: name(span),
                machine: machine(thread),
                peer: None,
                times: spans.total.times(),
                parts: parts.into_iter().collect(),
            });
        }
        for (&(context, sender, receiver), signals) in &self.signals {
            let parts = Parts::from([
                ("submits", Part::Count(signals.submits)),
                ("merged", Part::Count(signals.merged)),
                ("self_sent", Part::Count(signals.self_sent)),
            ]);
            out.push(Latency {
                kind: Kind::Signal,
                name: name(context),
                machine: machine(receiver),
                peer: machine(sender),
                times: signals.times.times(),
                parts,
            });
        }
        for (&thread, times) in &self.activities {
            out.push(Latency {
                kind: Kind::Activity,
                name: machine(thread).unwrap_or_default(),
                machine: machine(thread),
                peer: None,
                times: times.times(),
                parts: Parts::default(),
            });
        }
        for (&object, times) in &self.objects {
            out.push(Latency {
                kind: Kind::Object,
                name: name(object),
                machine: None,
                peer: None,
                times: times.times(),
                parts: Parts::default(),
            });
        }
        Latency::sort(&mut out);
        out
    }

    /// All times of a name together, whichever thread of a class they are of (`by_class`), or whichever at all.
    pub fn together(&self, scene: Scene<'_>, by_class: bool) -> Vec<Together> {
        let classes = scene.classes();
        let class = |at: u32| classes.get(at as usize).cloned();
        let name = |at: u32| scene.vocabulary.names.text(NameId(at)).to_owned();
        let mut found: BTreeMap<(Kind, String, Option<String>), Histogram> = BTreeMap::new();
        let mut add = |kind, name, class: Option<String>, times: &Histogram| {
            found.entry((kind, name, class.filter(|_| by_class))).or_default().add(times);
        };
        for (&(call, caller, _), calls) in &self.calls {
            add(Kind::Rpc, name(call), class(caller), &calls.total);
        }
        for (&(thread, span), spans) in &self.spans {
            add(Kind::Span, name(span), class(thread), &spans.total);
        }
        for (&(context, _, receiver), signals) in &self.signals {
            add(Kind::Signal, name(context), class(receiver), &signals.times);
        }
        for (&thread, times) in &self.activities {
            add(Kind::Activity, class(thread).unwrap_or_default(), class(thread), times);
        }
        for (&object, times) in &self.objects {
            add(Kind::Object, name(object), None, times);
        }
        found.into_iter().map(|((kind, name, class), times)| Together { kind, name, class, times: times.times() }).collect()
    }
}

pub(crate) fn since(begin_ns: i64, end_ns: i64) -> u64 {
    end_ns.saturating_sub(begin_ns).max(0) as u64
}
