//! A filter of labels, processes and threads that can change at any time during a recording.
//!
//! At first nothing is enabled. A choice for a label applies to its processes and threads; a later
//! choice for one of them applies to that one. A choice for a whole replaces all earlier choices
//! for its parts.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The choices, shared by the code that makes them and, through [`Options`](crate::Options), the
/// recorder.
#[derive(Clone, Debug, Default)]
pub struct Selection(Arc<Mutex<Chosen>>);

/// A label, one of its processes, or one of that process's threads.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SelectedPart {
    pub label: String,
    pub pid: Option<i32>,
    pub tid: Option<i32>,
}

#[derive(Debug, Default)]
struct Chosen {
    enabled: HashMap<SelectedPart, bool>,
    /// Ring sizes in bytes.
    buffers: HashMap<SelectedPart, u64>,
    version: u64,
}

impl SelectedPart {
    pub fn label(label: &str) -> SelectedPart {
        SelectedPart { label: label.to_owned(), pid: None, tid: None }
    }

    pub fn process(label: &str, pid: i32) -> SelectedPart {
        SelectedPart { pid: Some(pid), ..SelectedPart::label(label) }
    }

    pub fn thread(label: &str, pid: i32, tid: i32) -> SelectedPart {
        SelectedPart { tid: Some(tid), ..SelectedPart::process(label, pid) }
    }

    /// The part itself and the larger parts that contain it, smallest first.
    fn wholes(&self) -> impl Iterator<Item = SelectedPart> + '_ {
        let process = SelectedPart { tid: None, ..self.clone() };
        let label = SelectedPart::label(&self.label);
        let mut all = vec![self.clone(), process, label];
        all.dedup();
        all.into_iter()
    }

    fn is_within(&self, whole: &SelectedPart) -> bool {
        self.label == whole.label && (whole.pid.is_none() || (self.pid == whole.pid && (whole.tid.is_none() || self.tid == whole.tid)))
    }
}

impl Selection {
    /// Enables or disables a part.
    pub fn enable(&self, part: &SelectedPart, enabled: bool) {
        let mut chosen = self.chosen();
        chosen.enabled.retain(|other, _| !other.is_within(part));
        chosen.enabled.insert(part.clone(), enabled);
        chosen.version += 1;
    }

    /// Sets the ring size in bytes for a label or a process.
    pub fn set_buffer(&self, part: &SelectedPart, size: u64) {
        let mut chosen = self.chosen();
        chosen.buffers.retain(|other, _| !other.is_within(part));
        chosen.buffers.insert(part.clone(), size);
        chosen.version += 1;
    }

    /// Returns whether the part is recorded, apart from smaller parts with a choice of their own.
    pub fn is_enabled(&self, part: &SelectedPart) -> bool {
        let chosen = self.chosen();
        let said = part.wholes().find_map(|whole| chosen.enabled.get(&whole).copied());
        said.unwrap_or(false)
    }

    /// Ring size in bytes for a part, if one was set for it or for a larger part.
    pub fn buffer(&self, part: &SelectedPart) -> Option<u64> {
        let chosen = self.chosen();
        let said = part.wholes().find_map(|whole| chosen.buffers.get(&whole).copied());
        said
    }

    /// Returns whether any part of it is recorded.
    pub fn touches(&self, part: &SelectedPart) -> bool {
        let any = self.chosen().enabled.iter().any(|(other, enabled)| *enabled && other.is_within(part));
        any || self.is_enabled(part)
    }

    /// Number that is different after each change.
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
    fn the_last_choice_for_a_whole_or_a_part_applies() {
        let selection = Selection::default();
        let (label, process, thread) = (SelectedPart::label("a"), SelectedPart::process("a", 1), SelectedPart::thread("a", 1, 2));
        let seen = || [&label, &process, &thread].map(|part| selection.is_enabled(part));
        assert_eq!(seen(), [false; 3]);
        selection.enable(&thread, true);
        assert_eq!(seen(), [false, false, true]);
        assert!(selection.touches(&label) && selection.touches(&process) && !selection.touches(&SelectedPart::process("a", 3)));
        selection.enable(&label, true);
        selection.enable(&process, false);
        assert_eq!(seen(), [true, false, false]);
        assert!(selection.is_enabled(&SelectedPart::thread("a", 3, 4)) && !selection.is_enabled(&SelectedPart::label("ab")));
        selection.enable(&label, false);
        selection.enable(&label, true);
        assert_eq!(seen(), [true; 3]);
        selection.set_buffer(&process, 1 << 20);
        assert_eq!((selection.buffer(&thread), selection.buffer(&label)), (Some(1 << 20), None));
    }
}
