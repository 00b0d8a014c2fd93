//! Edge coverage of an input.
//!
//! With `make fuzz`, the compiler adds one byte per edge that counts how often the edge was taken
//! (LLVM's `inline-8bit-counters`, an option that stable Rust passes on). Each object file
//! registers the place of its counters here. An input that takes an edge for the first time, or
//! much more often than any input before, is worth being mutated further. Without the counters, as
//! in `make test`, no input is.

use std::sync::Mutex;

static COUNTERS: Mutex<Vec<(usize, usize)>> = Mutex::new(Vec::new());

/// Registers counters. Called by code that the compiler adds, once per object file, before `main`.
///
/// # Safety
///
/// The range must be that of the counters, which live as long as the program.
#[no_mangle]
pub unsafe extern "C" fn __sanitizer_cov_8bit_counters_init(begin: *mut u8, end: *mut u8) {
    let mut all = COUNTERS.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let range = (begin as usize, (end as usize).saturating_sub(begin as usize));
    if !all.contains(&range) {
        all.push(range);
    }
}

/// The coverage of all inputs up to now: for each counter, the highest step that it has reached.
#[derive(Debug, Default)]
pub struct Coverage {
    seen: Vec<u8>,
    /// Number of edges that were taken at least once.
    pub edges: usize,
}

impl Coverage {
    /// Clears the counters; must be called before each input.
    pub fn clear(&self) {
        each(|_, counters| counters.fill(0));
    }

    /// True if the last input reached a new step of a counter.
    pub fn has_grown(&mut self) -> bool {
        let (seen, edges) = (&mut self.seen, &mut self.edges);
        let mut grown = false;
        each(|at, counters| {
            if seen.len() < at + counters.len() {
                seen.resize(at + counters.len(), 0);
            }
            for (counter, seen) in counters.iter().zip(&mut seen[at..]) {
                let step = step(*counter);
                if step > *seen {
                    *edges += usize::from(*seen == 0);
                    *seen = step;
                    grown = true;
                }
            }
        });
        grown
    }
}

/// The step of a counter: each doubling of the count is one step.
fn step(count: u8) -> u8 {
    8 - count.leading_zeros() as u8
}

fn each(mut what: impl FnMut(usize, &mut [u8])) {
    let mut at = 0;
    for &(begin, length) in COUNTERS.lock().unwrap_or_else(std::sync::PoisonError::into_inner).iter() {
        // SAFETY: The range was registered by code that the compiler added, and its counters live
        // as long as the program. Other threads may count at the same time; then a count is lost.
        let counters = unsafe { std::slice::from_raw_parts_mut(begin as *mut u8, length) };
        what(at, counters);
        at += length;
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn each_doubling_of_a_count_is_one_step() {
        assert_eq!([0, 1, 2, 3, 4, 127, 128, 255].map(super::step), [0, 1, 2, 2, 3, 7, 8, 8]);
    }
}
