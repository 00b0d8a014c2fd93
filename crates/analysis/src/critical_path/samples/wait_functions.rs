//! Which function of a program a wait counts for.
//!
//! Programs wait in functions of their own for that purpose. The innermost function of postgres in
//! any wait is `WaitEventSetWait`, whether it waits for a client, a lock or a timer, so its name
//! says nothing. Such a function is known by the waits of the whole recording: they are of several
//! kinds. A wait counts for the innermost function that waits for one kind of thing.

use super::path_stacks::{is_own, is_script, own_frame, Sampled};
use crate::scheduling::sampled_waits::SampledWait;
use crate::scheduling::time_kind::TimeKind;
use longpole_symbols::{FrameId, Origin, Stacks};
use std::collections::HashMap;
use std::rc::Rc;

/// Largest number of functions that are distinguished.
const MAX_FUNCTIONS: usize = 1 << 16;
/// Part of a function's waiting time from which on a second kind of waits makes it one of the
/// functions that say nothing. Fewer waits may be of a wrong kind: if a thread ends a wait just
/// when its time is over, for example.
const SECOND_KIND: f64 = 0.1;

/// The time that each function of a program waits, by the kind of the waits.
#[derive(Clone, Debug, Default)]
pub struct WaitFunctions {
    ns: HashMap<(Rc<str>, FrameId), HashMap<TimeKind, f64>>,
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

    /// Returns the position of the function that a wait counts for: the innermost one of the
    /// program's own code that waits for one kind of thing. If there is none, the innermost one of
    /// its own code, else of any program, else of all.
    pub fn counted(&self, stacks: &Stacks, process: &Rc<str>, frames: &[FrameId]) -> Option<usize> {
        let first = waiting_frame(stacks, frames)?;
        if !self.is_helper(process, frames[first]) {
            return Some(first);
        }
        // The functions of a script are not called by those of its interpreter.
        let is_alike = |frame: FrameId| is_own(stacks, frame) && is_script(stacks, frame) == is_script(stacks, frames[first]);
        let is_specific = |frame: FrameId| is_alike(frame) && stacks.frame(frame).named && !self.is_helper(process, frame);
        Some((first..frames.len()).find(|&at| is_specific(frames[at])).unwrap_or(first))
    }

    /// Returns whether a function waits for things of several kinds.
    fn is_helper(&self, process: &Rc<str>, frame: FrameId) -> bool {
        let Some(kinds) = self.ns.get(&(Rc::clone(process), frame)) else { return false };
        let all: f64 = kinds.values().sum();
        let most = kinds.values().copied().fold(0.0, f64::max);
        all - most > SECOND_KIND * all
    }
}

/// Returns the position of the innermost function of a wait that is of the program's own code, else
/// of any program, else of all.
pub fn waiting_frame(stacks: &Stacks, frames: &[FrameId]) -> Option<usize> {
    let is_user = |frame: &FrameId| stacks.frame(*frame).origin != Origin::Kernel;
    let first = || (!frames.is_empty()).then_some(0);
    own_frame(stacks, frames).or_else(|| frames.iter().position(is_user)).or_else(first)
}
