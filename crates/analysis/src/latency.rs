//! Latencies: durations of calls with their parts, of spans, of signals, of activity between
//! wake-up and wait, and of objects.
//!
//! Probes report the start and the end of each ([`Latencies`]). A machine log reports states,
//! queues and blocks, from which they follow ([`LatenciesOfMachines`]). What is measured, and the
//! answer, are the same.

mod cases;
pub mod event_pairs;
mod interactions;
pub mod parts;
mod steps;

pub use cases::{Case, LatencyCases};
pub use interactions::LatenciesOfMachines;
pub use steps::Latencies;

use crate::latency::cases::Key;
use crate::latency::parts::Parts;
use crate::stats::histogram::{since, Times};
use crate::stats::samples::Samples;
use longpole_model::hash::IdMap;
use longpole_model::names::NameId;
use serde::Serialize;
use std::cmp::{Ordering, Reverse};
use std::collections::BTreeMap;
use std::hash::Hash;

/// Largest number of calls or objects in flight; beyond it the oldest is given up and counted.
const MAX_IN_FLIGHT: usize = 1 << 16;

/// Kind of a duration. `Custom` is the time between two events that the user names.
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

/// One row of the answer.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Latency {
    pub kind: Kind,
    pub name: String,
    /// The thread of a span or an activity, the caller of a call, or the receiver of a signal.
    pub machine: Option<String>,
    /// The callee of a call, or the sender of a signal.
    pub peer: Option<String>,
    #[serde(flatten)]
    pub times: Times,
    pub parts: Parts,
}

impl Latency {
    /// Compares by kind, then by total time, descending.
    fn order(&self, other: &Latency) -> Ordering {
        let key = |it: &Latency| (it.kind as u8, Reverse(it.times.total_ns));
        key(self).cmp(&key(other)).then_with(|| (&self.name, &self.machine, &self.peer).cmp(&(&other.name, &other.machine, &other.peer)))
    }
}

/// Times of several threads together.
#[derive(Clone, Debug, PartialEq)]
pub struct LatencySum {
    pub kind: Kind,
    pub name: String,
    /// Class of the threads; `None` if all threads are together.
    pub class: Option<String>,
    pub times: Times,
}

/// A part of a latency: times, or a number of events.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Part {
    Times(Times),
    Count(u64),
}

/// All measurements. `W` identifies the machines.
#[derive(Debug)]
struct Measured<W> {
    /// Calls by name, caller and callee.
    calls: IdMap<(NameId, W, Option<W>), Calls>,
    spans: IdMap<(W, NameId), Spans>,
    /// Signals by name, sender and receiver.
    signals: IdMap<(NameId, W, W), Signals>,
    activities: IdMap<W, Samples>,
    objects: IdMap<NameId, Samples>,
}

impl<W> Default for Measured<W> {
    fn default() -> Measured<W> {
        Measured {
            calls: IdMap::default(),
            spans: IdMap::default(),
            signals: IdMap::default(),
            activities: IdMap::default(),
            objects: IdMap::default(),
        }
    }
}

#[derive(Debug, Default)]
struct Calls {
    total: Samples,
    dispatch: Samples,
    service: Samples,
    back: Samples,
}

/// Times of a call that was seen from both sides, in ns.
#[derive(Clone, Copy, Debug)]
struct CallTimes {
    called: i64,
    dispatched: i64,
    replied: i64,
    returned: i64,
}

#[derive(Debug, Default)]
struct Spans {
    total: Samples,
    /// Times without the spans within the span; and its greatest depth within others.
    own: Option<(Samples, u64)>,
    net: Option<Box<Net>>,
}

/// Composition of a span's time, for those spans for which it is known.
#[derive(Debug, Default)]
struct Net {
    running: Samples,
    interrupted: Samples,
    runnable: Samples,
    blocked: Samples,
    /// `None` if all of the time is known.
    unknown: Option<Samples>,
}

#[derive(Debug, Default)]
struct Signals {
    times: Samples,
    submits: u64,
    merged: u64,
    self_sent: u64,
}

impl Calls {
    /// Records the parts of a call, clamped into the call so that they sum to the whole.
    fn record_parts(&mut self, times: CallTimes) {
        let CallTimes { called, dispatched, replied, returned } = times;
        let dispatched = dispatched.clamp(called, returned.max(called));
        let replied = replied.clamp(dispatched, returned.max(dispatched));
        self.dispatch.record(since(called, dispatched));
        self.service.record(since(dispatched, replied));
        self.back.record(since(replied, returned));
    }

    fn parts(&self) -> Parts {
        if self.service.is_empty() {
            return Parts::default();
        }
        Parts::from([
            ("dispatch", Part::Times(self.dispatch.times())),
            ("service", Part::Times(self.service.times())),
            ("return", Part::Times(self.back.times())),
        ])
    }
}

impl Spans {
    fn parts(&self) -> Parts {
        let own = self.own.as_ref().map_or(&self.total, |(own, _)| own);
        let mut parts = vec![("self", Part::Times(own.times()))];
        parts.extend(self.own.as_ref().map(|&(_, deepest)| ("depth", Part::Count(deepest))));
        if let Some(net) = &self.net {
            let kinds = [("net", &net.running), ("interrupted", &net.interrupted), ("runnable", &net.runnable), ("blocked", &net.blocked)];
            let unknown = net.unknown.as_ref().map(|unknown| ("unknown", unknown));
            parts.extend(kinds.into_iter().chain(unknown).map(|(name, times)| (name, Part::Times(times.times()))));
        }
        parts.into_iter().collect()
    }
}

impl Signals {
    fn parts(&self) -> Parts {
        Parts::from([
            ("submits", Part::Count(self.submits)),
            ("merged", Part::Count(self.merged)),
            ("self_sent", Part::Count(self.self_sent)),
        ])
    }
}

impl<W: Copy + Eq + Hash> Measured<W> {
    fn answer(&self, name: impl Fn(NameId) -> String, who: impl Fn(W) -> Option<String>) -> Vec<Latency> {
        self.rows(name, who).into_iter().map(|(_, latency, _)| latency).collect()
    }

    /// Returns the rows of the answer with their identities and times.
    fn rows(&self, name: impl Fn(NameId) -> String, who: impl Fn(W) -> Option<String>) -> Vec<(Key<W>, Latency, &Samples)> {
        let mut out = Vec::new();
        let row = |(kind, name, machine, peer), times: &Samples, parts| Latency { kind, name, machine, peer, times: times.times(), parts };
        for (&(call, caller, callee), calls) in &self.calls {
            let names = (Kind::Rpc, name(call), who(caller), callee.and_then(&who));
            out.push((Key::Call(call, caller, callee), row(names, &calls.total, calls.parts()), &calls.total));
        }
        for (&(of, span), spans) in &self.spans {
            let latency = row((Kind::Span, name(span), who(of), None), &spans.total, spans.parts());
            out.push((Key::Span(of, span), latency, &spans.total));
        }
        for (&(context, sender, receiver), signals) in &self.signals {
            let names = (Kind::Signal, name(context), who(receiver), who(sender));
            out.push((Key::Signal(context, sender, receiver), row(names, &signals.times, signals.parts()), &signals.times));
        }
        for (&of, times) in &self.activities {
            let names = (Kind::Activity, who(of).unwrap_or_default(), who(of), None);
            out.push((Key::Activity(of), row(names, times, Parts::default()), times));
        }
        for (&object, times) in &self.objects {
            out.push((Key::Object(object), row((Kind::Object, name(object), None, None), times, Parts::default()), times));
        }
        out.sort_by(|a, b| a.1.order(&b.1));
        out
    }

    /// Sums up the times by name and, with `by_class`, by class.
    fn together(&self, name: impl Fn(NameId) -> String, class: impl Fn(W) -> Option<String>, by_class: bool) -> Vec<LatencySum> {
        let mut all: Vec<(Kind, String, [Option<String>; 2], &Samples)> = Vec::new();
        for (&(call, caller, callee), calls) in &self.calls {
            all.push((Kind::Rpc, name(call), [class(caller), callee.and_then(&class)], &calls.total));
        }
        for (&(of, span), spans) in &self.spans {
            all.push((Kind::Span, name(span), [class(of), None], &spans.total));
        }
        for (&(context, sender, receiver), signals) in &self.signals {
            all.push((Kind::Signal, name(context), [class(receiver), class(sender)], &signals.times));
        }
        for (&of, times) in &self.activities {
            all.push((Kind::Activity, class(of).unwrap_or_default(), [class(of), None], times));
        }
        for (&object, times) in &self.objects {
            all.push((Kind::Object, name(object), [None, None], times));
        }
        // Sums of floating-point numbers depend on their order, and the order of ids differs
        // between runs.
        all.sort_by(|a, b| (a.0, &a.1, &a.2).cmp(&(b.0, &b.1, &b.2)));
        let mut found: BTreeMap<(Kind, String, Option<String>), Samples> = BTreeMap::new();
        for (kind, name, [class, _], times) in all {
            found.entry((kind, name, class.filter(|_| by_class))).or_default().add(times);
        }
        found.into_iter().map(|((kind, name, class), times)| LatencySum { kind, name, class, times: times.times() }).collect()
    }
}
