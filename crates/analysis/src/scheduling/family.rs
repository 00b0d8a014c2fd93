//! The threads that descend from one process: those that it forks, and those that they fork.

use longpole_trace::Catalogue;
use longpole_trace::Event;
use std::collections::{BTreeMap, BTreeSet};

/// A set of threads that begins with one process and grows by its forks. Thread ids are reused: an
/// id that belongs to an unrelated thread after its end does not become a member again.
#[derive(Debug)]
pub struct Family {
    root: i64,
    /// Process of each living thread.
    living: BTreeMap<i64, i64>,
    /// Thread ids of all members.
    pub members: BTreeSet<i64>,
    /// Time of the fork of the first process; `end_ns` is the end of its last thread.
    pub begin_ns: Option<i64>,
    pub end_ns: Option<i64>,
}

impl Family {
    pub fn new(root: i32) -> Family {
        Family { root: i64::from(root), living: BTreeMap::new(), members: BTreeSet::new(), begin_ns: None, end_ns: None }
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
                if first || self.living.contains_key(&parent) {
                    self.living.insert(child, field("child_pid").unwrap_or(child));
                    self.members.insert(child);
                }
            }
            "sched_process_exit" => {
                let Some(process) = field("tid").and_then(|tid| self.living.remove(&tid)) else { return };
                // The first thread may end before others.
                if process == self.root && !self.living.values().any(|process| *process == self.root) {
                    self.end_ns = Some(event.t_ns);
                }
            }
            // A thread that executes a program gets the id of its process; the kernel has ended the
            // first thread.
            "sched_process_exec" => {
                let (Some(tid), Some(before)) = (field("tid"), field("old_tid")) else { return };
                if let Some(process) = self.living.remove(&before) {
                    self.living.insert(tid, process);
                    self.members.insert(tid);
                }
            }
            _ => {}
        }
    }
}
