//! Clock correction between two hosts, from the messages between them.
//!
//! No message arrives before it was sent. So a message in one direction gives a lower bound of the
//! other clock's correction, and a message in the opposite direction an upper bound. All bounds
//! together form a band. Clocks that run evenly differ by a straight line, which must lie within
//! the band. The convex hulls of both sides hold all relevant messages.
//!
//! Of the lines that fit, the one in the middle between the steepest and the flattest is used. The
//! reported error is the largest distance of any other line that fits, over the requested time. It
//! is not an estimate: if both clocks run evenly, the truth is within it.
//!
//! Sources: A. Duda, G. Harrus, Y. Haddad, G. Bernard, Estimating global time in distributed
//! systems, ICDCS 1987; the hulls as in P. Ashton, Algorithms for off-line clock synchronisation,
//! 1995.

use longpole_trace::Shift;

/// Direction of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// From the host whose clock is the reference.
    There,
    /// To the host whose clock is the reference.
    Back,
}

/// A message, with its times on the clocks of both ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message {
    pub way: Way,
    /// Time on the reference clock.
    pub reference_ns: i64,
    /// Time on the clock that is corrected.
    pub other_ns: i64,
}

/// The correction of the other clock.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    pub shift: Shift,
    /// Largest difference between correction and truth at any time of the range.
    pub error_ns: u64,
    /// Least and greatest drift that fit.
    pub drifts: (f64, f64),
}

#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum Failure {
    #[error("no packet is in both captures")]
    Nothing,
    /// Only one side of the band is known.
    #[error("all packets that are in both captures went one way")]
    OneWay {
        way: Way,
        /// Bound of the value to be added to the other clock: an upper bound with `Way::Back`, a
        /// lower bound with `Way::There`.
        bound_ns: i64,
    },
    #[error("some packet would have arrived {by_ns} ns or more before it was sent, whatever the offset and the drift (up to 1000 ppm)")]
    Contradiction { by_ns: u64 },
}

/// Largest drift; clocks that differ by more are broken.
const MAX_DRIFT: f64 = 1e-3;
/// Number of steps of each search, which exceeds the resolution of the numbers.
const ROUNDS: usize = 200;
/// Capture times are often rounded down to µs, so that two packets in opposite directions may
/// together seem too fast by this much.
const ROUNDING_NS: f64 = 2_000.0;

/// Finds the correction. `range` gives times of the other clock that the error has to cover, in
/// addition to the times of the messages.
pub fn estimate(messages: &[Message], range: Option<(i64, i64)>) -> Result<Estimate, Failure> {
    let Some(first) = messages.first() else { return Err(Failure::Nothing) };
    // Value to be added to the other clock. Times and values count from the first message, so that
    // they are exact as floating point numbers.
    let wanted = |message: &Message| message.reference_ns.saturating_sub(message.other_ns);
    let (since_ns, base_ns) = (messages.iter().map(|message| message.other_ns).min().unwrap_or(0), wanted(first));
    let point = |message: &Message| {
        let x = message.other_ns.saturating_sub(since_ns) as f64;
        (x, wanted(message).saturating_sub(base_ns) as f64)
    };
    let of = |way: Way| messages.iter().filter(move |message| message.way == way);
    let bounds = |way: Way| of(way).map(point).collect::<Vec<_>>();
    // A message that is received on the reference host after it was sent bounds the correction from
    // above.
    let (upper, lower) = (lower_hull(bounds(Way::Back), 1.0), lower_hull(bounds(Way::There), -1.0));
    match (upper.is_empty(), lower.is_empty()) {
        (false, false) => {}
        (false, true) => {
            let bound_ns = of(Way::Back).map(wanted).min().unwrap_or(0);
            return Err(Failure::OneWay { way: Way::Back, bound_ns });
        }
        _ => {
            let bound_ns = of(Way::There).map(wanted).max().unwrap_or(0);
            return Err(Failure::OneWay { way: Way::There, bound_ns });
        }
    }
    let band = Band { upper, lower };
    let drift = greatest(-MAX_DRIFT, MAX_DRIFT, |drift| band.room(drift));
    let room = band.room(drift);
    if room < -ROUNDING_NS {
        return Err(Failure::Contradiction { by_ns: (-room / 2.0) as u64 });
    }
    // A band that rounding has closed is widened by as much, and the error includes that.
    let slack = (-room).max(0.0);
    let fits = |drift: f64| band.room(drift) >= -slack;
    let (flattest, steepest) = (farthest(drift, -MAX_DRIFT, fits), farthest(drift, MAX_DRIFT, fits));
    let middle = (flattest + steepest) / 2.0;
    let at_zero = (band.top(middle) + band.bottom(middle)) / 2.0;
    let last = messages.iter().map(|message| message.other_ns).max().unwrap_or(since_ns);
    let (begin, end) = range.map_or((since_ns, last), |(begin, end)| (begin.min(since_ns), end.max(last)));
    let mut error = 0.0f64;
    for t_ns in [begin, end] {
        let x = t_ns as i128 - i128::from(since_ns);
        let x = x as f64;
        let here = at_zero + middle * x;
        let high = greatest(flattest, steepest, |drift| band.top(drift) + drift * x);
        let low = greatest(flattest, steepest, |drift| -(band.bottom(drift) + drift * x));
        error = error.max(band.top(high) + high * x - here).max(here - (band.bottom(low) + low * x));
    }
    Ok(Estimate {
        shift: Shift { offset_ns: base_ns.saturating_add(at_zero.round() as i64), drift: middle, since_ns },
        // One nanosecond is added for rounding.
        error_ns: (error + slack).ceil() as u64 + 1,
        drifts: (flattest, steepest),
    })
}

/// The bounds from the messages.
struct Band {
    upper: Vec<(f64, f64)>,
    lower: Vec<(f64, f64)>,
}

impl Band {
    /// Returns the value at 0 of the highest line with this slope that no point of the upper side
    /// is below.
    fn top(&self, drift: f64) -> f64 {
        self.upper.iter().map(|(x, y)| y - drift * x).fold(f64::INFINITY, f64::min)
    }

    fn bottom(&self, drift: f64) -> f64 {
        self.lower.iter().map(|(x, y)| y - drift * x).fold(f64::NEG_INFINITY, f64::max)
    }

    fn room(&self, drift: f64) -> f64 {
        self.top(drift) - self.bottom(drift)
    }
}

/// Returns the lower convex hull of the points; with `side` −1 the upper one.
fn lower_hull(mut points: Vec<(f64, f64)>, side: f64) -> Vec<(f64, f64)> {
    points.sort_by(|a, b| a.0.total_cmp(&b.0).then((side * a.1).total_cmp(&(side * b.1))));
    let mut hull: Vec<(f64, f64)> = Vec::new();
    for point in points {
        while let [.., a, b] = hull[..] {
            let turn = (b.0 - a.0) * side * (point.1 - a.1) - side * (b.1 - a.1) * (point.0 - a.0);
            if turn > 0.0 {
                break;
            }
            hull.pop();
        }
        // Only the first of several points with the same time is a corner.
        if hull.last().is_none_or(|last| last.0 < point.0) {
            hull.push(point);
        }
    }
    hull
}

/// Returns the maximum point of a concave function, by ternary search.
fn greatest(mut low: f64, mut high: f64, function: impl Fn(f64) -> f64) -> f64 {
    for _ in 0..ROUNDS {
        let (a, b) = (low + (high - low) / 3.0, high - (high - low) / 3.0);
        if function(a) < function(b) {
            low = a;
        } else {
            high = b;
        }
    }
    (low + high) / 2.0
}

/// Returns the farthest point from `inside` towards `end` that fits, by bisection. `inside` must
/// fit.
fn farthest(inside: f64, end: f64, fits: impl Fn(f64) -> bool) -> f64 {
    if fits(end) {
        return end;
    }
    let (mut fitting, mut not) = (inside, end);
    for _ in 0..ROUNDS {
        let between = (fitting + not) / 2.0;
        match fits(between) {
            true => fitting = between,
            false => not = between,
        }
    }
    fitting
}
