//! Which function of a program a wait counts for.
//!
//! Many programs have one function for all their waits. Postgres waits in `WaitEventSetWait` for a
//! client, a lock or a timer, so the name of this function says little. Such a function is known by
//! the waits of the whole recording: they are of several kinds. A wait counts for the innermost
//! function that waits for one kind of thing.

use super::path_stacks::{is_own, is_script, own_frame, Sampled};
use crate::scheduling::sampled_waits::SampledWait;
use crate::scheduling::time_kind::TimeKind;
use longpole_symbols::{FrameId, Origin, Stacks};
use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

/// Largest number of functions that are distinguished.
const MAX_FUNCTIONS: usize = 1 << 16;
/// Largest part of the waiting time that other kinds have in a function that waits for one kind of
/// thing. A few waits may be of a wrong kind: if a thread ends a wait just when its time is over,
/// for example.
const OTHER_KINDS: f64 = 0.1;

/// The time that each function of a program waits, by the kind of the waits.
#[derive(Clone, Debug, Default)]
pub struct WaitFunctions {
    ns: HashMap<(Rc<str>, FrameId), BTreeMap<TimeKind, f64>>,
}

impl WaitFunctions {
    /// Adds a sampled wait, which represents `weight` waits.
    pub fn add(&mut self, wait: &SampledWait, weight: f64, stacks: &Stacks, sampled: &Sampled) {
        if wait.first_kind() == TimeKind::Cpu {
            return;
        }
        let ns = wait.length_ns() as f64 * weight;
        for &frame in sampled.frames.iter().filter(|frame| is_own(stacks, **frame)) {
            let key = (Rc::clone(&sampled.process), frame);
            if self.ns.len() < MAX_FUNCTIONS || self.ns.contains_key(&key) {
                *self.ns.entry(key).or_default().entry(wait.kind).or_default() += ns;
            }
        }
    }

    /// Returns the position of the function that a wait of this kind counts for: the innermost
    /// function of the program's own code whose waits are nearly all of this kind. Without one, the
    /// result is that of [`waiting_frame`].
    pub fn counted(&self, stacks: &Stacks, process: &Rc<str>, frames: &[FrameId], kind: TimeKind) -> Option<usize> {
        let first = waiting_frame(stacks, frames)?;
        // The functions of a script are not called by those of its interpreter.
        let is_alike = |frame: FrameId| is_own(stacks, frame) && is_script(stacks, frame) == is_script(stacks, frames[first]);
        let is_meant = |frame: FrameId| is_alike(frame) && stacks.frame(frame).named && self.waits_only_for(process, frame, kind);
        if kind == TimeKind::Cpu || self.waits_only_for(process, frames[first], kind) {
            return Some(first);
        }
        Some((first..frames.len()).find(|&at| is_meant(frames[at])).unwrap_or(first))
    }

    /// Returns whether all waits of a function but few are of this kind.
    fn waits_only_for(&self, process: &Rc<str>, frame: FrameId, kind: TimeKind) -> bool {
        let Some(kinds) = self.ns.get(&(Rc::clone(process), frame)) else { return true };
        let all: f64 = kinds.values().sum();
        kinds.get(&kind).copied().unwrap_or(0.0) >= (1.0 - OTHER_KINDS) * all
    }
}

/// Returns the position of the innermost function of the program's own code. If the stack has none,
/// that of the innermost function outside of the kernel, and in a stack of the kernel alone, 0.
pub fn waiting_frame(stacks: &Stacks, frames: &[FrameId]) -> Option<usize> {
    let is_user = |frame: &FrameId| stacks.frame(*frame).origin != Origin::Kernel;
    let first = || (!frames.is_empty()).then_some(0);
    own_frame(stacks, frames).or_else(|| frames.iter().position(is_user)).or_else(first)
}
