//! The recent past of a machine in a replay: needed because a cause may have happened before the
//! interaction that names it.
//!
//! The past has no copy of the times at each moment. It has the stretches of the machine's own
//! time, which can be subtracted, and the times before each jump, which cannot.
//!
//! Example: at 9 ms the trace reports that A woke B at 7 ms. A has worked from 5 ms on, so its
//! times at 7 ms are its present ones less 2 ms in each world, scaled by the world's factor.

use std::collections::VecDeque;

/// The recent past of a machine. It is needed because a cause may have happened before the
/// interaction that names it.
#[derive(Debug, Default)]
pub struct Past {
    /// Stretches of its own time as (from, to, key), newest last.
    pub own: VecDeque<(u64, u64, u32)>,
    /// Times at which a wait ended, or the machine's times were replaced: the previous times, and
    /// the time in the trace that they belong to.
    pub jumps: VecDeque<Jump>,
    /// Moments at which the machine only stated that it exists, with its times then. A later cause
    /// may name them however much the machine does afterwards.
    pub marks: VecDeque<Jump>,
}

/// Times of a machine before they were replaced at `t`; they belong to the moment `since`.
#[derive(Debug)]
pub struct Jump {
    pub since: u64,
    pub t: u64,
    pub v: Box<[f64]>,
    pub node: u64,
}

impl Past {
    pub fn own(&mut self, from: u64, to: u64, key: u32, most: usize) {
        match self.own.back_mut() {
            Some(last) if last.1 == from && last.2 == key => last.1 = to,
            _ => {
                if self.own.len() >= most {
                    self.own.pop_front();
                }
                self.own.push_back((from, to, key));
            }
        }
    }

    pub fn jump(&mut self, since: u64, t: u64, v: &[f64], node: u64, most: usize) {
        push(&mut self.jumps, (since, t), v, node, most);
    }

    pub fn mark(&mut self, t: u64, v: &[f64], node: u64, most: usize) {
        push(&mut self.marks, (t, t), v, node, most);
    }
}

/// Appends a jump, reusing the memory of the oldest one if there are `most` of them.
fn push(jumps: &mut VecDeque<Jump>, (since, t): (u64, u64), v: &[f64], node: u64, most: usize) {
    let oldest = if jumps.len() >= most { jumps.pop_front() } else { None };
    let mut jump = oldest.unwrap_or_else(|| Jump { since, t, v: vec![0.0; v.len()].into(), node });
    (jump.since, jump.t, jump.node) = (since, t, node);
    jump.v.copy_from_slice(v);
    jumps.push_back(jump);
}
