//! Latencies as probes report them.

use super::cases::{AllCases, Key, LatencyCases};
use super::{CallTimes, Latency, LatencySum, Measured, Net, Spans, MAX_IN_FLIGHT};
use crate::scheduling::thread_time::Account;
use crate::stats::histogram::since;
use crate::step_pass::{Observer, Scene};
use longpole_model::actors::ActorId;
use longpole_model::names::NameId;
use longpole_model::step::{MarkKind, Op, Step};
use longpole_model::system::activity::{Outcome, State};
use longpole_trace::event::Loss;
use std::collections::{HashMap, VecDeque};

const MAX_NESTING: usize = 1024;

/// The measurement for probes; it sees each step in the order of time.
#[derive(Debug, Default)]
pub struct Latencies {
    measured: Measured<ActorId>,
    open_calls: HashMap<(NameId, u64), OpenCall>,
    call_order: VecDeque<(NameId, u64)>,
    open_objects: HashMap<Object, i64>,
    object_order: VecDeque<(Object, i64)>,
    threads: Vec<Thread>,
    /// Times of the next step's thread, from the kernel's events; `None` without such events.
    pub account: Option<Account>,
    /// Single cases; `None` if they are not needed.
    cases: Option<Box<AllCases>>,
    /// Number of calls and objects that were given up.
    pub given_up: u64,
}

/// Identity of an object: its address or number is only unique within its process.
type Object = (Option<i32>, NameId, u64);

#[derive(Clone, Copy, Debug)]
struct OpenCall {
    caller: ActorId,
    call_ns: i64,
    dispatched: Option<(ActorId, i64)>,
    reply_ns: Option<i64>,
    returned_ns: Option<i64>,
}

impl Net {
    fn record(&mut self, total: u64, account: Account) {
        self.running.record(account.running_ns);
        self.interrupted.record(account.interrupted_ns);
        self.runnable.record(account.runnable_ns);
        self.blocked.record(account.blocked_ns);
        self.unknown.get_or_insert_default().record(total.saturating_sub(account.known_ns()));
    }
}

#[derive(Debug, Default)]
struct Thread {
    spans: Vec<OpenSpan>,
    /// Calls without an id: a thread waits for one call at a time.
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
            Op::Begin { name } => self.begin_span(step, name),
            Op::End { name } => self.end_span(step, name),
            Op::Call { name, id } | Op::Dispatch { name, id } | Op::Reply { name, id } | Op::Returned { name, id } => match id {
                Some(id) => self.step_of_call(step, name, id),
                None => self.step_of_nested_call(step, name),
            },
            Op::Receive { context, .. } => {
                if let Some(delivery) = outcome.delivery {
                    let entry = self.measured.signals.entry((context, delivery.sender, step.actor)).or_default();
                    entry.times.record(since(delivery.submitted_ns, step.t_ns));
                    keep(&mut self.cases, Key::Signal(context, delivery.sender, step.actor), delivery.submitted_ns, step.t_ns);
                    entry.submits += delivery.merged;
                    entry.merged += u64::from(delivery.merged > 1);
                    entry.self_sent += u64::from(delivery.self_sent);
                }
            }
            Op::Wait | Op::WaitEmpty { .. } | Op::WaitFull { .. } => {
                if let Some(awake) = self.threads[at].awake_ns.take() {
                    self.measured.activities.entry(step.actor).or_default().record(since(awake, step.t_ns));
                    keep(&mut self.cases, Key::Activity(step.actor), awake, step.t_ns);
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
                    self.measured.objects.entry(name).or_default().record(since(begin, step.t_ns));
                    keep(&mut self.cases, Key::Object(name), begin, step.t_ns);
                }
            }
            _ => {}
        }
    }

    fn loss(&mut self, _scene: Scene<'_>, actor: Option<ActorId>, _loss: &Loss) {
        if let Some(thread) = actor.and_then(|actor| self.threads.get_mut(actor.0 as usize)) {
            *thread = Thread::default();
        }
    }
}

/// Records a case, if cases are kept.
#[inline]
fn keep(cases: &mut Option<Box<AllCases>>, key: Key<ActorId>, begin_ns: i64, end_ns: i64) {
    if let Some(cases) = cases {
        cases.record(key, begin_ns, end_ns);
    }
}

impl Latencies {
    /// Keeps single cases from now on.
    pub fn keep_cases(&mut self) {
        self.cases.get_or_insert_default();
    }

    /// Handles a step of a call with an id, which identifies the call in all threads.
    fn step_of_call(&mut self, step: &Step, name: NameId, id: u64) {
        if let Op::Call { .. } = step.op {
            let call = OpenCall { caller: step.actor, call_ns: step.t_ns, dispatched: None, reply_ns: None, returned_ns: None };
            return self.open_call(name, id, call);
        }
        let Some(call) = self.open_calls.get_mut(&(name, id)) else { return };
        let is_over = match step.op {
            Op::Dispatch { .. } => {
                call.dispatched = Some((step.actor, step.t_ns));
                false
            }
            Op::Reply { .. } => {
                call.reply_ns = Some(step.t_ns);
                call.returned_ns.is_some()
            }
            Op::Returned { .. } => {
                call.returned_ns = Some(step.t_ns);
                // The callee's probe for the reply may come after the caller has received it.
                call.dispatched.is_none() || call.reply_ns.is_some()
            }
            _ => false,
        };
        if is_over {
            self.close_call(name, id);
        }
    }

    /// Handles a step of a call without an id: the caller's calls of one name are nested.
    fn step_of_nested_call(&mut self, step: &Step, name: NameId) {
        let calls = &mut self.threads[step.actor.0 as usize].calls;
        match step.op {
            Op::Call { .. } if calls.len() < MAX_NESTING => calls.push((name, step.t_ns)),
            Op::Returned { .. } => {
                if let Some(place) = calls.iter().rposition(|(known, _)| *known == name) {
                    let (_, begin) = calls[place];
                    calls.truncate(place);
                    self.measured.calls.entry((name, step.actor, None)).or_default().total.record(since(begin, step.t_ns));
                    keep(&mut self.cases, Key::Call(name, step.actor, None), begin, step.t_ns);
                }
            }
            _ => {}
        }
    }

    fn open_call(&mut self, name: NameId, id: u64, call: OpenCall) {
        if self.open_calls.insert((name, id), call).is_none() {
            self.call_order.push_back((name, id));
        }
        // Closed calls stay in the order until they are at its front, or until it is too long.
        while let Some(oldest) = self.call_order.front().copied() {
            let open = self.open_calls.contains_key(&oldest);
            if open && self.call_order.len() <= MAX_IN_FLIGHT {
                break;
            }
            self.call_order.pop_front();
            self.given_up += u64::from(self.open_calls.remove(&oldest).is_some());
        }
    }

    /// Gives up the oldest objects if too many are open. Addresses are reused, so an entry of the
    /// order only counts if its start is that of the open object.
    fn forget_objects(&mut self) {
        let open = &mut self.open_objects;
        if self.object_order.len() > 2 * MAX_IN_FLIGHT {
            self.object_order.retain(|(object, begin)| open.get(object) == Some(begin));
        }
        while open.len() > MAX_IN_FLIGHT {
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
        let callee = call.dispatched.map(|(callee, _)| callee);
        let entry = self.measured.calls.entry((name, call.caller, callee)).or_default();
        entry.total.record(since(call.call_ns, returned));
        keep(&mut self.cases, Key::Call(name, call.caller, callee), call.call_ns, returned);
        if let (Some((_, dispatched)), Some(replied)) = (call.dispatched, call.reply_ns) {
            entry.record_parts(CallTimes { called: call.call_ns, dispatched, replied, returned });
        }
    }

    fn begin_span(&mut self, step: &Step, name: NameId) {
        let account = self.account;
        let spans = &mut self.threads[step.actor.0 as usize].spans;
        if spans.len() < MAX_NESTING {
            spans.push(OpenSpan { name, begin_ns: step.t_ns, inner_ns: 0, account });
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
        let entry = self.measured.spans.entry((step.actor, name)).or_default();
        entry.total.record(total);
        keep(&mut self.cases, Key::Span(step.actor, name), span.begin_ns, step.t_ns);
        let (own, deepest) = entry.own.get_or_insert_default();
        own.record(total.saturating_sub(span.inner_ns));
        *deepest = (*deepest).max(place as u64);
        if let Some((begin, end)) = span.account.zip(self.account) {
            entry.net.get_or_insert_default().record(total, end.since(begin));
        }
    }

    /// Returns the callee of `caller`'s calls of `name`, and the share of the calls' time that the
    /// callee served.
    pub fn service(&self, name: NameId, caller: ActorId) -> Option<(ActorId, f64)> {
        let calls = self.measured.calls.iter().filter(|((known, by, callee), _)| *known == name && *by == caller && callee.is_some());
        let (&(_, _, callee), calls) = calls.max_by_key(|(_, calls)| calls.total.sum())?;
        let share = calls.service.sum() as f64 / calls.total.sum() as f64;
        callee.filter(|_| calls.total.sum() > 0).map(|callee| (callee, share))
    }

    /// Returns the time of other spans within this one, over all its instances, in ns.
    pub fn inner_ns(&self, actor: ActorId, state: State) -> u64 {
        let State::Span(name) = state else { return 0 };
        let own = |spans: &Spans| spans.own.as_ref().map_or(0, |(own, _)| own.sum());
        self.measured.spans.get(&(actor, name)).map_or(0, |spans| spans.total.sum().saturating_sub(own(spans)))
    }

    pub fn answer(&self, scene: Scene<'_>) -> Vec<Latency> {
        let names = scene.names();
        self.measured.answer(|name| scene.vocabulary.names.text(name).to_owned(), |actor| names.get(actor.0 as usize).cloned())
    }

    /// Returns the rows of the answer with the cases that were kept.
    pub fn with_cases(&self, scene: Scene<'_>) -> Vec<LatencyCases> {
        let names = scene.names();
        let rows = self.measured.rows(|name| scene.vocabulary.names.text(name).to_owned(), |actor| names.get(actor.0 as usize).cloned());
        let with_cases = rows.into_iter().map(|(key, latency, times)| LatencyCases {
            latency,
            actor: key.machine(),
            cases: self.cases.as_ref().map_or_else(Vec::new, |cases| cases.of(key)),
            buckets: times.histogram().buckets().collect(),
        });
        with_cases.collect()
    }

    /// Sums up the times by name and, with `by_class`, by class.
    pub fn together(&self, scene: Scene<'_>, by_class: bool) -> Vec<LatencySum> {
        let classes = scene.classes();
        let class = |actor: ActorId| classes.get(actor.0 as usize).cloned();
        self.measured.together(|name| scene.vocabulary.names.text(name).to_owned(), class, by_class)
    }
}
