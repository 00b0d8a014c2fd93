//! Which samples of stacks lie on the critical path: those of the thread, or the interrupt's CPU, that the path goes through at that moment.
//!
//! Samples are too few to say when a path was where, and the path does not say which function it was; together they are a flame graph of nothing
//! but what holds the system back.

use crate::lineage::{Kind, Path};
use longpole_model::causes::Seat;
use std::collections::HashMap;

/// A piece of the path in which something runs: begin, end, and which seats it is.
type Piece = (u64, u64, u32);

#[derive(Debug, Default)]
pub struct OnPath {
    pieces: Vec<Piece>,
    /// Of each number of the path's.
    seats: HashMap<u32, Vec<Seat>>,
    /// Time on the path that a sample could find.
    pub running_ns: u64,
}

impl OnPath {
    /// `seats` are those of the machines by name.
    pub fn new(path: &Path, seats: &HashMap<&str, Vec<Seat>>) -> OnPath {
        let mut on = OnPath::default();
        for stretch in path.stretches() {
            if !matches!(path.kind(stretch.of), Kind::Running | Kind::SystemCall | Kind::Interrupt) {
                continue;
            }
            let Some(known) = seats.get(path.machine(stretch.of)) else { continue };
            on.seats.entry(stretch.of).or_insert_with(|| known.clone());
            on.pieces.push((stretch.start, stretch.end, stretch.of));
            on.running_ns += stretch.end - stretch.start;
        }
        on
    }

    /// Whether the path goes through what was sampled.
    pub fn holds(&self, t_ns: i64, tid: i32, cpu: Option<u32>) -> bool {
        let Ok(t) = u64::try_from(t_ns) else { return false };
        let at = self.pieces.partition_point(|&(start, ..)| start <= t);
        let Some(&(_, end, of)) = at.checked_sub(1).and_then(|at| self.pieces.get(at)) else { return false };
        t < end
            && self.seats.get(&of).is_some_and(|seats| {
                seats.iter().any(|&seat| match seat {
                    Seat::Thread(thread) => thread == tid,
                    Seat::Cpu(number) => Some(number) == cpu,
                })
            })
    }
}
