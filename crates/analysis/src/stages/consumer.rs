//! Probes of a thread around a receive call: the spans and states that were open, and the probes
//! that followed, up to the thread's next receive call.

use longpole_model::rules::RuleError;
use longpole_model::step::Op;
use longpole_model::system::System;
use longpole_trace::event::{Catalogue, Event, Item, StreamKind};
use serde::Serialize;
use std::ops::ControlFlow;

/// Largest number of probes after the call that are reported.
const MAX_AFTER: usize = 16;
/// Time after the call, in nanoseconds, beyond which probes are unrelated to the packet.
const LONGEST_NS: i64 = 100_000_000;
const MAX_OPEN: usize = 64;

/// Collects the probes around a receive call.
#[derive(Debug)]
pub struct Consumer {
    system: System,
    tid: i32,
    at_ns: i64,
    found: Probes,
}

/// The probes around a receive call.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Probes {
    /// Open spans of the thread, the innermost last.
    pub open: Vec<String>,
    pub after: Vec<Probe>,
}

/// A probe after the call.
#[derive(Clone, Debug, Serialize)]
pub struct Probe {
    pub t_ns: i64,
    /// Name of the event, as `print` shows it.
    pub name: String,
}

impl Probes {
    pub fn is_empty(&self) -> bool {
        self.open.is_empty() && self.after.is_empty()
    }
}

impl Consumer {
    /// Returns an observer for the thread that took a packet at this time.
    pub fn new(tid: i32, at_ns: i64) -> Result<Consumer, RuleError> {
        Ok(Consumer { system: System::new()?, tid, at_ns, found: Probes::default() })
    }

    /// Processes an item. All items of the trace have to be passed in order, until it returns
    /// `Break`.
    pub fn item(&mut self, catalogue: &Catalogue, item: &Item<'_>) -> ControlFlow<()> {
        let Item::Event(event) = item else { return ControlFlow::Continue(()) };
        if event.t_ns > self.at_ns.saturating_add(LONGEST_NS) || self.found.after.len() >= MAX_AFTER {
            return ControlFlow::Break(());
        }
        let stream = catalogue.streams.get(event.stream.0 as usize);
        match stream.map(|stream| stream.kind) {
            Some(StreamKind::User) => self.probe(catalogue, event),
            Some(StreamKind::Kernel) if event.t_ns > self.at_ns && self.next_call(catalogue, event) => return ControlFlow::Break(()),
            _ => {}
        }
        ControlFlow::Continue(())
    }

    pub fn found(self) -> Probes {
        self.found
    }

    fn probe(&mut self, catalogue: &Catalogue, event: &Event<'_>) {
        let subject = catalogue.subjects.get(event.subject.0 as usize);
        if subject.is_none_or(|subject| subject.tid != Some(self.tid)) {
            return;
        }
        if event.t_ns > self.at_ns {
            let class = catalogue.classes.get(event.class.0 as usize);
            let name = class.map_or_else(String::new, |class| class.event_name.clone());
            self.found.after.push(Probe { t_ns: event.t_ns, name });
            return;
        }
        let open = &mut self.found.open;
        match self.system.step(catalogue, event).op {
            Op::Begin { name } if open.len() < MAX_OPEN => open.push(self.system.vocabulary.names.text(name).to_owned()),
            Op::End { name } => {
                let name = self.system.vocabulary.names.text(name);
                if let Some(at) = open.iter().rposition(|open| open == name) {
                    open.truncate(at);
                }
            }
            _ => {}
        }
    }

    /// Returns whether the thread receives again.
    fn next_call(&self, catalogue: &Catalogue, event: &Event<'_>) -> bool {
        let Some(class) = catalogue.classes.get(event.class.0 as usize).filter(|class| class.event_name == "sock_recv_length") else {
            return false;
        };
        let tid = class.fields.iter().position(|field| field == "tid").and_then(|at| event.fields.get(at));
        tid.and_then(longpole_trace::Value::as_i64) == Some(i64::from(self.tid))
    }
}
