//! Who is recorded while somebody says so: a choice per label, process or thread that may change at any time.
//!
//! Nobody is recorded at first. What is said of a label holds for its processes and threads, what is said later of one of these for that one; what is
//! said last of a whole makes what was said of its parts before void.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Held by who chooses and, in [`Options`](crate::Options), by the recorder.
#[derive(Clone, Debug, Default)]
pub struct Selection(Arc<Mutex<Chosen>>);

/// A label, a process of it, or a thread of that.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Part {
    pub label: String,
    pub pid: Option<i32>,
    pub tid: Option<i32>,
}

#[derive(Debug, Default)]
struct Chosen {
    enabled: HashMap<Part, bool>,
    /// Bytes of a ring.
    buffers: HashMap<Part, u64>,
    version: u64,
}

impl Part {
    pub fn label(label: &str) -> Part {
        Part { label: label.to_owned(), pid: None, tid: None }
    }

    pub fn process(label: &str, pid: i32) -> Part {
        Part { pid: Some(pid), ..Part::label(label) }
    }

    pub fn thread(label: &str, pid: i32, tid: i32) -> Part {
        Part { tid: Some(tid), ..Part::process(label, pid) }
    }

    /// What it is a part of, from itself upwards.
    fn wholes(&self) -> impl Iterator<Item = Part> + '_ {
        let process = Part { tid: None, ..self.clone() };
        let label = Part::label(&self.label);
        let mut all = vec![self.clone(), process, label];
        all.dedup();
        all.into_iter()
    }

    fn is_within(&self, whole: &Part) -> bool {
        self.label == whole.label && (whole.pid.is_none() || (self.pid == whole.pid && (whole.tid.is_none() || self.tid == whole.tid)))
    }
}

impl Selection {
    pub fn enable(&self, part: &Part, enabled: bool) {
        let mut chosen = self.chosen();
        chosen.enabled.retain(|other, _| !other.is_within(part));
        chosen.enabled.insert(part.clone(), enabled);
        chosen.version += 1;
    }

    /// Rings of this size, in bytes; of a label or a process.
    pub fn set_buffer(&self, part: &Part, size: u64) {
        let mut chosen = self.chosen();
        chosen.buffers.retain(|other, _| !other.is_within(part));
        chosen.buffers.insert(part.clone(), size);
        chosen.version += 1;
    }

    /// Whether all of it is recorded, but for parts of which something else was said.
    pub fn is_enabled(&self, part: &Part) -> bool {
        let chosen = self.chosen();
        let said = part.wholes().find_map(|whole| chosen.enabled.get(&whole).copied());
        said.unwrap_or(false)
    }

    pub fn buffer(&self, part: &Part) -> Option<u64> {
        let chosen = self.chosen();
        let said = part.wholes().find_map(|whole| chosen.buffers.get(&whole).copied());
        said
    }

    /// Whether any part of it is recorded.
    pub fn touches(&self, part: &Part) -> bool {
        let any = self.chosen().enabled.iter().any(|(other, enabled)| *enabled && other.is_within(part));
        any || self.is_enabled(part)
    }

    /// Another number after each change.
    pub(crate) fn version(&self) -> u64 {
        self.chosen().version
    }

    fn chosen(&self) -> MutexGuard<'_, Chosen> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_last_of_a_whole_or_a_part_holds() {
        let selection = Selection::default();
        let (label, process, thread) = (Part::label("a"), Part::process("a", 1), Part::thread("a", 1, 2));
        let seen = || [&label, &process, &thread].map(|part| selection.is_enabled(part));
        assert_eq!(seen(), [false; 3]);
        selection.enable(&thread, true);
        assert_eq!(seen(), [false, false, true]);
        assert!(selection.touches(&label) && selection.touches(&process) && !selection.touches(&Part::process("a", 3)));
        selection.enable(&label, true);
        selection.enable(&process, false);
        assert_eq!(seen(), [true, false, false]);
        assert!(selection.is_enabled(&Part::thread("a", 3, 4)) && !selection.is_enabled(&Part::label("ab")));
        selection.enable(&label, false);
        selection.enable(&label, true);
        assert_eq!(seen(), [true; 3]);
        selection.set_buffer(&process, 1 << 20);
        assert_eq!((selection.buffer(&thread), selection.buffer(&label)), (Some(1 << 20), None));
    }
}
