//! CPU time by sampled stacks: the share of each function, and folded stacks for flame graphs.
//!
//! A sample shows the work of one CPU at one moment, so a share has an error: the interval is
//! Wilson's for a proportion, at 95 %. Shares refer to all samples that found a CPU busy. Memory
//! grows with the number of different functions or stacks. Samples beyond the limits below are
//! counted.

use crate::scheduling::flame_graph::{WeighedStack, TRUNCATED};
use crate::scheduling::time_kind::TimeKind;
use longpole_symbols::{FrameId, Origin, Stack, Stacks};
use serde::Serialize;
use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

/// Largest number of functions of processes that are distinguished.
const MAX_FUNCTIONS: usize = 1 << 20;
/// Largest number of frames of all different stacks that are distinguished.
const MAX_STACK_FRAMES: usize = 1 << 25;
/// Quantile below which 97.5 % of a normal distribution lie.
const Z: f64 = 1.959_963_984_540_054;

/// A function in a process.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FunctionShare {
    /// Process id; null if the kernel did not record it.
    pub pid: Option<i32>,
    pub process: String,
    pub function: String,
    pub module: String,
    /// Number of samples with the function anywhere on the stack.
    pub samples: u64,
    /// Number of samples in which the function runs ([`Stacks::running_frame`]).
    pub self_samples: u64,
    pub self_share: f64,
    pub total_share: f64,
    /// Lower and upper end of the interval that contains `self_share` with 95 % certainty.
    pub self_low: f64,
    pub self_high: f64,
}

/// Counts of samples.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Number of samples that found a CPU busy.
    pub busy: u64,
    pub lost: u64,
    /// Number of samples with functions or stacks beyond the limits.
    pub beyond: u64,
}

type Who = (i32, Rc<str>);

#[derive(Debug, Default)]
pub struct Functions {
    pub counts: Counts,
    rows: HashMap<(Who, FrameId), (u64, u64)>,
    seen: Vec<FrameId>,
}

impl Functions {
    pub fn sample(&mut self, stack: &Stack<'_>) {
        // The recorder takes no samples of idle CPUs.
        self.counts.busy += 1;
        self.seen.clear();
        self.seen.extend_from_slice(stack.frames);
        self.seen.sort_unstable();
        self.seen.dedup();
        let mut beyond = false;
        for &frame in &self.seen {
            let own = u64::from(stack.frames.get(stack.running) == Some(&frame));
            let full = self.rows.len() >= MAX_FUNCTIONS;
            let key = ((stack.pid, Rc::clone(&stack.process)), frame);
            match self.rows.get_mut(&key) {
                Some((all, top)) => (*all, *top) = (*all + 1, *top + own),
                None if full => beyond = true,
                None => {
                    self.rows.insert(key, (1, own));
                }
            }
        }
        self.counts.beyond += u64::from(beyond);
    }

    /// Returns the functions, the one with the most samples of its own first.
    pub fn answer(&self, stacks: &Stacks) -> Vec<FunctionShare> {
        let busy = self.counts.busy;
        let share = |count: u64| if busy > 0 { count as f64 / busy as f64 } else { 0.0 };
        let row = |(((pid, process), frame), (samples, own)): (&(Who, FrameId), &(u64, u64))| {
            let frame = stacks.frame(*frame);
            let (self_low, self_high) = interval(*own, busy);
            FunctionShare {
                pid: (*pid > 0).then_some(*pid),
                process: process.to_string(),
                function: frame.function.clone(),
                module: frame.module.clone(),
                samples: *samples,
                self_samples: *own,
                self_share: share(*own),
                total_share: share(*samples),
                self_low,
                self_high,
            }
        };
        let mut all: Vec<FunctionShare> = self.rows.iter().map(row).collect();
        all.sort_by(|a, b| {
            let key = |row: &FunctionShare| (std::cmp::Reverse((row.self_samples, row.samples)), row.pid);
            key(a).cmp(&key(b)).then_with(|| (&a.process, &a.module, &a.function).cmp(&(&b.process, &b.module, &b.function)))
        });
        all
    }
}

/// Different stacks of running code and of waits, with their counts.
#[derive(Debug, Default)]
pub struct Folded {
    pub counts: Counts,
    /// Stacks by process, frames, whether the outermost functions are missing, and kind of time.
    stacks: HashMap<(Rc<str>, Box<[FrameId]>, bool, TimeKind), u64>,
    frames: usize,
}

impl Folded {
    /// Adds a sample of running code.
    pub fn run(&mut self, stack: &Stack<'_>) {
        // The recorder takes no samples of idle CPUs.
        self.counts.busy += 1;
        self.add(stack, TimeKind::Running, 1);
    }

    /// Adds a sampled wait, which stands for this time of each kind in ns.
    pub fn wait(&mut self, stack: &Stack<'_>, parts: impl Iterator<Item = (TimeKind, u64)>) {
        self.counts.busy += 1;
        parts.filter(|(_, ns)| *ns > 0).for_each(|(kind, ns)| self.add(stack, kind, ns));
    }

    fn add(&mut self, stack: &Stack<'_>, kind: TimeKind, weight: u64) {
        let key = (Rc::clone(&stack.process), Box::from(stack.frames), stack.truncated, kind);
        if let Some(count) = self.stacks.get_mut(&key) {
            *count = count.saturating_add(weight);
        } else if self.frames >= MAX_STACK_FRAMES {
            self.counts.beyond += 1;
        } else {
            self.frames += stack.frames.len() + 1;
            self.stacks.insert(key, weight);
        }
    }

    /// Returns the stacks. A sample of running code counts `run_weight`, a wait its time in ns.
    pub fn stacks(&self, run_weight: u64) -> impl Iterator<Item = WeighedStack<'_>> {
        self.stacks.iter().map(move |((process, frames, truncated, kind), &count)| WeighedStack {
            process: shown(process),
            truncated: *truncated,
            frames,
            leaf: kind.code().map(|code| (kind.text(), code)),
            count: if *kind == TimeKind::Running { count.saturating_mul(run_weight) } else { count },
        })
    }
}

/// Returns lines in the format of flame graph tools: process and frames from the outermost on,
/// kernel frames with `_[k]`, what a wait waits for in brackets, and the count. If the outermost
/// functions are missing, `[truncated]` is in their place. Processes with one name are merged.
pub fn lines<'a>(all: impl Iterator<Item = WeighedStack<'a>>, stacks: &Stacks) -> Vec<String> {
    folded(all, stacks).into_iter().map(|(line, count)| format!("{line} {count}")).collect()
}

/// Returns the lines of [`lines`] without their counts, and the counts.
pub fn folded<'a>(all: impl Iterator<Item = WeighedStack<'a>>, stacks: &Stacks) -> BTreeMap<String, u64> {
    let line = |WeighedStack { process, truncated, frames, leaf, count }: WeighedStack| {
        let mut line = part(process);
        if truncated {
            line.push(';');
            line.push_str(TRUNCATED);
        }
        for &frame in frames.iter().rev() {
            let frame = stacks.frame(frame);
            line.push(';');
            line.push_str(&part(&frame.function));
            line.push_str(match frame.origin {
                Origin::Kernel => "_[k]",
                Origin::Made => "_[j]",
                Origin::File | Origin::Unknown => "",
            });
        }
        if let Some((name, _)) = leaf {
            line.push_str(&format!(";[{}]", part(name)));
        }
        (line, count)
    };
    // Stacks that differ only in what is not shown are merged into one line.
    let mut merged: BTreeMap<String, u64> = BTreeMap::new();
    for (line, count) in all.map(line) {
        let sum = merged.entry(line).or_default();
        *sum = sum.saturating_add(count);
    }
    merged
}

/// Returns the name of a process, also of one that is not known.
pub(crate) fn shown(process: &str) -> &str {
    if process.is_empty() {
        "[unknown]"
    } else {
        process
    }
}

fn part(text: &str) -> String {
    text.replace(';', ":").replace('\n', " ")
}

/// Returns Wilson's interval for `hits` of `all`.
pub(crate) fn interval(hits: u64, all: u64) -> (f64, f64) {
    match all {
        0 => (0.0, 1.0),
        _ => interval_of(hits as f64 / all as f64, all as f64),
    }
}

/// Returns Wilson's interval for the share `p` of `n` samples. With an infinite number, the
/// interval is the share itself.
pub(crate) fn interval_of(p: f64, n: f64) -> (f64, f64) {
    if n.is_infinite() {
        return (p, p);
    }
    let middle = p + Z * Z / (2.0 * n);
    let half = Z * (p * (1.0 - p) / n + Z * Z / (4.0 * n * n)).sqrt();
    let scale = 1.0 + Z * Z / n;
    // Rounding must not exclude the share itself.
    (((middle - half) / scale).clamp(0.0, p), ((middle + half) / scale).clamp(p, 1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_is_that_of_wilson() {
        // Values of the textbook formula, computed separately: 10 of 100, 0 of 10, 10 of 10.
        let near = |(low, high): (f64, f64), expected: (f64, f64)| (low - expected.0).abs() < 1e-4 && (high - expected.1).abs() < 1e-4;
        assert!(near(interval(10, 100), (0.0552, 0.1744)), "{:?}", interval(10, 100));
        assert!(near(interval(0, 10), (0.0, 0.2775)), "{:?}", interval(0, 10));
        assert!(near(interval(10, 10), (0.7225, 1.0)), "{:?}", interval(10, 10));
        assert_eq!(interval(0, 0), (0.0, 1.0));
    }
}
