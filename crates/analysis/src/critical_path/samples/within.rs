//! The part of each state of the path that is spent within a function, its callees included.

use super::functions::FunctionTable;
use super::path_stacks::Estimate;
use longpole_model::kinds::{SegmentKind, StateKind};
use longpole_symbols::FrameId;
use std::collections::{BTreeMap, HashSet};

/// The part of a state's time in which a function is on the stack.
#[derive(Clone, Debug, PartialEq)]
pub struct Within {
    /// Class (or link) and state.
    pub class: String,
    pub state: String,
    pub part: f64,
    /// Bounds of the part with 95 % confidence.
    pub low: f64,
    pub high: f64,
    /// Whether a change may scale this state: its time does not follow from what it waits for.
    pub is_scalable: bool,
}

impl FunctionTable<'_> {
    /// Returns the states in which stacks contain a function of this name, those with most of its
    /// time first.
    pub fn within(&self, function: &str) -> Vec<Within> {
        let all = self.divided.stacks.iter().flat_map(|stack| stack.frames.iter().copied());
        let all: HashSet<FrameId> = all.collect();
        let wanted: HashSet<FrameId> = all.into_iter().filter(|frame| self.stacks.frame(*frame).function == function).collect();
        if wanted.is_empty() {
            return Vec::new();
        }
        let mut states: BTreeMap<(&str, &str), (Estimate, Estimate, bool)> = BTreeMap::new();
        for stack in &self.divided.stacks {
            let new = (Estimate::default(), Estimate::default(), true);
            let (within, of_state, scalable) = states.entry(self.path.class_and_state(stack.group.key)).or_insert(new);
            *scalable &= is_scalable(self.path.segment_kind(stack.group.key));
            *of_state = [*of_state, stack.time].into_iter().sum();
            if stack.frames.iter().any(|frame| wanted.contains(frame)) {
                *within = [*within, stack.time].into_iter().sum();
            }
        }
        let mut found: Vec<(f64, Within)> = Vec::new();
        for ((class, state), (within, of_state, is_scalable)) in states.into_iter().filter(|(_, (within, ..))| within.ns > 0.0) {
            let (low, high) = within.interval(of_state);
            let (class, state, part) = (class.to_owned(), state.to_owned(), within.ns / of_state.ns);
            found.push((within.ns, Within { class, state, part, low, high, is_scalable }));
        }
        found.sort_by(|a, b| b.0.total_cmp(&a.0));
        found.into_iter().map(|(_, within)| within).collect()
    }
}

/// A link has no time of its own machine, and one of its name may belong to many machines.
fn is_scalable(kind: SegmentKind) -> bool {
    match kind {
        SegmentKind::State(kind) => !matches!(kind, StateKind::Blocked | StateKind::Interrupted | StateKind::Unknown),
        SegmentKind::Link(_) => false,
    }
}
