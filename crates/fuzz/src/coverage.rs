//! Which code an input came to.
//!
//! `make fuzz` has the compiler count in one byte how often each edge was taken (LLVM's `inline-8bit-counters`, which stable Rust passes on);
//! each crate tells here where its counters lie. An input that takes an edge for the first time, or much more often than any before, is worth being
//! damaged further. Without the counters, as in `make test`, no input is.

use std::sync::Mutex;

static COUNTERS: Mutex<Vec<(usize, usize)>> = Mutex::new(Vec::new());

/// Called by the code that the compiler adds, once for each object file, before `main`.
///
/// # Safety
/// The range is that of the counters, which live as long as the program.
#[no_mangle]
pub unsafe extern "C" fn __sanitizer_cov_8bit_counters_init(begin: *mut u8, end: *mut u8) {
    let mut all = COUNTERS.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let range = (begin as usize, (end as usize).saturating_sub(begin as usize));
    if !all.contains(&range) {
        all.push(range);
    }
}

/// What was seen so far: for each counter, the highest step that it came to.
#[derive(Debug, Default)]
pub struct Coverage {
    seen: Vec<u8>,
    /// Edges that were taken at all.
    pub edges: usize,
}

impl Coverage {
    /// Before an input.
    pub fn clear(&self) {
        each(|_, counters| counters.fill(0));
    }

    /// Whether the input took a new way.
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

/// Each doubling is one.
fn step(count: u8) -> u8 {
    8 - count.leading_zeros() as u8
}

fn each(mut what: impl FnMut(usize, &mut [u8])) {
    let mut at = 0;
    for &(begin, length) in COUNTERS.lock().unwrap_or_else(std::sync::PoisonError::into_inner).iter() {
        // SAFETY: counters of this program, told by the code that the compiler added. Other threads may count meanwhile: a count is lost then.
        let counters = unsafe { std::slice::from_raw_parts_mut(begin as *mut u8, length) };
        what(at, counters);
        at += length;
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn each_doubling_is_a_step() {
        assert_eq!([0, 1, 2, 3, 4, 127, 128, 255].map(super::step), [0, 1, 2, 2, 3, 7, 8, 8]);
    }
}
