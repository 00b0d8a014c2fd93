//! The threads that come from one process: those that it forks, and those that these fork.

use longpole_trace::{Catalogue, Event};
use std::collections::BTreeSet;

/// Begins with one process and grows by its forks. Numbers are used again: one that has ended and is another's afterwards is no member twice.
#[derive(Debug)]
pub struct Family {
    root: i64,
    living: BTreeSet<i64>,
    /// tids of all that were there.
    pub members: BTreeSet<i64>,
    /// From the fork of the first process to its end.
    pub begin_ns: Option<i64>,
    pub end_ns: Option<i64>,
}

impl Family {
    pub fn new(root: i32) -> Family {
        Family { root: i64::from(root), living: BTreeSet::new(), members: BTreeSet::new(), begin_ns: None, end_ns: None }
    }

    pub fn event(&mut self, catalogue: &Catalogue, event: &Event<'_>) {
        let class = &catalogue.classes[event.class.0 as usize];
        let field = |name: &str| {
            let at = class.fields.iter().position(|field| field == name)?;
            event.fields.get(at)?.as_i64()
        };
        match class.event_name.as_str() {
            "sched_process_fork" => {
                let (Some(parent), Some(child)) = (field("parent_tid"), field("child_tid")) else { return };
                let first = child == self.root && self.begin_ns.is_none();
                if first {
                    self.begin_ns = Some(event.t_ns);
                }
                if first || self.living.contains(&parent) {
                    self.living.insert(child);
                    self.members.insert(child);
                }
            }
            "sched_process_exit" => {
                let Some(tid) = field("tid").filter(|tid| self.living.remove(tid)) else { return };
                if tid == self.root {
                    self.end_ns = Some(event.t_ns);
                }
            }
            _ => {}
        }
    }
}
