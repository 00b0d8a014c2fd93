//! When somebody, or a lock, is idle in a world: times into which what comes out of the trace's order may fit.

/// As many are remembered.
const MOST: usize = 64;

#[derive(Clone, Debug, Default)]
pub struct Idle(Vec<(f64, f64)>);

impl Idle {
    pub fn add(&mut self, from: f64, to: f64) {
        if from < to {
            if self.0.len() >= MOST {
                let (mut oldest, mut until) = (0, f64::INFINITY);
                for (at, &(_, to)) in self.0.iter().enumerate() {
                    (oldest, until) = if to < until { (at, to) } else { (oldest, until) };
                }
                self.0.swap_remove(oldest);
            }
            self.0.push((from, to));
        }
    }

    /// Takes the idle time of which something that is ready then can use a part soonest, if that part is long enough. Returns that time's begin and end, and when the part begins.
    pub fn take(&mut self, ready: f64, is_enough: impl Fn(f64, f64) -> bool) -> Option<(f64, f64, f64)> {
        let mut first = None;
        for (at, &(from, to)) in self.0.iter().enumerate() {
            let start = if from > ready { from } else { ready };
            if is_enough(start, to) && first.is_none_or(|(_, before)| start < before) {
                first = Some((at, start));
            }
        }
        let (at, start) = first?;
        let (from, to) = self.0.swap_remove(at);
        Some((from, to, start))
    }
}
