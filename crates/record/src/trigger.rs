//! What a snapshot may wait for: `span NAME > 5ms`, `queue NAME full > 10ms`, `counter NAME > X`, `rate NAME < X`, `lost`.
//!
//! A trigger sees the events of the threads one after the other, each thread's in order, and the clock between; it says when it has happened. It knows
//! nothing of rings. What began before it was armed it has not seen.

use crate::glob;
use crate::policy::parse_duration;
use longpole_abi::Kind;
use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// A thread: of which process, and its number.
pub type Thread = (i32, i32);

/// Threads and names that are followed at the same time, and spans within each other; more than that are not.
const MOST: usize = 10_000;
const DEEPEST: usize = 64;
/// Over so long a rate is taken.
const SECOND: Duration = Duration::from_secs(1);
const STEPS: u64 = 20;

#[derive(Clone, Debug, PartialEq)]
pub enum Condition {
    /// One takes longer than this.
    Span(String, Duration),
    /// It is full for longer than this.
    Queue(String, Duration),
    Counter(String, Order, f64),
    /// Events of this name in a second.
    Rate(String, Order, f64),
    Lost,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    Above,
    Below,
}

impl Order {
    fn holds(self, value: f64, bound: f64) -> bool {
        match self {
            Order::Above => value > bound,
            Order::Below => value < bound,
        }
    }
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = |order: &Order| if *order == Order::Above { '>' } else { '<' };
        match self {
            Condition::Span(name, time) => write!(f, "span \"{name}\" > {}ns", time.as_nanos()),
            Condition::Queue(name, time) => write!(f, "queue \"{name}\" full > {}ns", time.as_nanos()),
            Condition::Counter(name, order, bound) => write!(f, "counter \"{name}\" {} {bound}", sign(order)),
            Condition::Rate(name, order, bound) => write!(f, "rate \"{name}\" {} {bound}", sign(order)),
            Condition::Lost => f.write_str("lost"),
        }
    }
}

impl FromStr for Condition {
    type Err = String;

    fn from_str(text: &str) -> Result<Condition, String> {
        let wrong = |why: &str| {
            let known = "`span NAME > 5ms`, `queue NAME full > 10ms`, `counter NAME > 100`, `rate NAME < 100`, `lost`";
            format!("{text:?} is nothing to wait for: {why} (there are {known})")
        };
        let trimmed = text.trim();
        if trimmed == "lost" {
            return Ok(Condition::Lost);
        }
        let (kind, rest) = trimmed.split_once(char::is_whitespace).ok_or_else(|| wrong("it names nothing"))?;
        let at = rest.rfind(['>', '<']).ok_or_else(|| wrong("it compares with nothing"))?;
        let order = if rest.as_bytes()[at] == b'>' { Order::Above } else { Order::Below };
        let (name, bound) = (rest[..at].trim(), rest[at + 1..].trim());
        let name_of = |name: &str| match name.strip_prefix('"').and_then(|name| name.strip_suffix('"')) {
            None if name.contains(['>', '<']) => Err(wrong("a name with > or < stands in quotes")),
            quoted => match quoted.unwrap_or(name) {
                "" => Err(wrong("it names nothing")),
                name => Ok(name.to_owned()),
            },
        };
        let time = || match (order, parse_duration(bound)) {
            (Order::Above, Some(time)) => Ok(time),
            (Order::Below, _) => Err(wrong("only what takes longer can be waited for")),
            (_, None) => Err(wrong(&format!("{bound:?} is no time"))),
        };
        let number = || match bound.parse::<f64>() {
            Ok(number) if number.is_finite() => Ok(number),
            _ => Err(wrong(&format!("{bound:?} is no number"))),
        };
        match kind {
            "span" => Ok(Condition::Span(name_of(name)?, time()?)),
            "queue" => match name.strip_suffix("full").filter(|name| name.ends_with(char::is_whitespace)) {
                Some(name) => Ok(Condition::Queue(name_of(name.trim())?, time()?)),
                None => Err(wrong("of a queue, only `full` can be waited for")),
            },
            "counter" => Ok(Condition::Counter(name_of(name)?, order, number()?)),
            "rate" => Ok(Condition::Rate(name_of(name)?, order, number()?)),
            _ => Err(wrong(&format!("{kind:?} is no kind of it"))),
        }
    }
}

/// An event as a trigger sees it.
#[derive(Clone, Copy, Debug)]
pub struct Seen<'a> {
    pub thread: Thread,
    /// Counter.
    pub time: u64,
    pub kind: Kind,
    pub name: &'a str,
    /// Its first word, as a number.
    pub value: f64,
    /// Of a queue, where it is known.
    pub capacity: Option<u64>,
}

/// It has happened.
#[derive(Clone, Debug, PartialEq)]
pub struct Fired {
    /// Counter; none: something did not happen.
    pub event: Option<u64>,
    pub told: String,
}

/// A condition that is watched.
#[derive(Debug)]
pub struct Trigger {
    condition: Condition,
    /// Ticks of a second.
    frequency: u64,
    /// Begins of spans and of waits that have not ended, innermost last.
    open: HashMap<Thread, Vec<u64>>,
    /// Queues that said that they are full, and since when.
    full: HashMap<String, u64>,
    /// Begin of the step that counts now; numbers of those before.
    step: u64,
    counts: VecDeque<u64>,
    fired: Option<Fired>,
}

impl Trigger {
    pub fn new(condition: Condition, frequency: u64, now: u64) -> Trigger {
        Trigger {
            condition,
            frequency: frequency.max(1),
            open: HashMap::new(),
            full: HashMap::new(),
            step: now,
            counts: VecDeque::from([0]),
            fired: None,
        }
    }

    fn ticks(&self, time: Duration) -> u64 {
        u64::try_from(time.as_nanos() * u128::from(self.frequency) / 1_000_000_000).unwrap_or(u64::MAX)
    }

    fn ms(&self, ticks: u64) -> f64 {
        ticks as f64 * 1000.0 / self.frequency as f64
    }

    fn fire(&mut self, event: Option<u64>, told: String) {
        self.fired.get_or_insert(Fired { event, told });
    }

    pub fn event(&mut self, seen: Seen<'_>) {
        match &self.condition {
            Condition::Span(name, most) => {
                if !matches!(seen.kind, Kind::SpanBegin | Kind::SpanEnd) || !glob::matches(name, seen.name) {
                    return;
                }
                let most = self.ticks(*most);
                if seen.kind == Kind::SpanBegin {
                    if self.open.len() < MOST || self.open.contains_key(&seen.thread) {
                        let begins = self.open.entry(seen.thread).or_default();
                        if begins.len() == DEEPEST {
                            // A program that ends none of them.
                            begins.remove(0);
                        }
                        begins.push(seen.time);
                    }
                } else if let Some(begin) = self.open.get_mut(&seen.thread).and_then(Vec::pop) {
                    let took = seen.time.saturating_sub(begin);
                    if took > most {
                        let told = format!("span {} of thread {} took {:.3} ms", seen.name, seen.thread.1, self.ms(took));
                        self.fire(Some(seen.time), told);
                    }
                }
            }
            Condition::Queue(name, most) => {
                let most = self.ticks(*most);
                let named = glob::matches(name, seen.name);
                // Whatever a thread does ends its wait.
                let ended = self.open.remove(&seen.thread).and_then(|waits| waits.last().copied());
                let full = match seen.kind {
                    Kind::QueueWaitFull if named && self.open.len() < MOST => {
                        self.open.insert(seen.thread, vec![seen.time]);
                        None
                    }
                    Kind::QueueSize if named => match seen.capacity.is_some_and(|capacity| seen.value >= capacity as f64) {
                        true if self.full.len() < MOST => {
                            self.full.entry(seen.name.to_owned()).or_insert(seen.time);
                            None
                        }
                        _ => self.full.remove(seen.name),
                    },
                    _ => None,
                };
                for begin in [ended, full].into_iter().flatten() {
                    let took = seen.time.saturating_sub(begin);
                    if took > most {
                        let told = format!("queue {} was full for {:.3} ms", if named { seen.name } else { "" }, self.ms(took));
                        self.fire(Some(seen.time), told.replace("  ", " "));
                    }
                }
            }
            Condition::Counter(name, order, bound) => {
                if seen.kind == Kind::Counter && glob::matches(name, seen.name) && order.holds(seen.value, *bound) {
                    self.fire(Some(seen.time), format!("counter {} is {}", seen.name, seen.value));
                }
            }
            Condition::Rate(name, ..) => {
                if seen.kind != Kind::SpanEnd && glob::matches(name, seen.name) {
                    if let Some(count) = self.counts.back_mut() {
                        *count += 1;
                    }
                }
            }
            Condition::Lost => {}
        }
    }

    /// Events of a thread were lost, or overwritten before they were seen: what it had begun may have ended.
    pub fn missed(&mut self, thread: Thread) {
        self.open.remove(&thread);
    }

    pub fn lost(&mut self, now: u64, told: &str) {
        if self.condition == Condition::Lost {
            self.fire(Some(now), told.to_owned());
        }
    }

    /// All that had happened by `now` has been seen.
    pub fn time(&mut self, now: u64) -> Option<Fired> {
        match &self.condition {
            Condition::Span(name, most) | Condition::Queue(name, most) => {
                let ticks = self.ticks(*most);
                let begun = self.open.iter().filter_map(|(thread, begins)| Some((*begins.first()?, thread.1)));
                let full = self.full.values().map(|begin| (*begin, 0));
                let oldest = begun.chain(full).min();
                if let Some((begin, thread)) = oldest.filter(|(begin, _)| now.saturating_sub(*begin) > ticks) {
                    let since = self.ms(now.saturating_sub(begin));
                    let told = match &self.condition {
                        Condition::Span(..) => format!("span {name} of thread {thread} has not ended for {since:.3} ms"),
                        _ => format!("queue {name} has been full for {since:.3} ms"),
                    };
                    // It happened when it had taken too long.
                    self.fire(Some(begin.saturating_add(ticks)), told);
                }
            }
            Condition::Rate(name, order, bound) => {
                let length = self.ticks(SECOND) / STEPS;
                let mut told = None;
                while now.saturating_sub(self.step) >= length.max(1) {
                    self.step += length.max(1);
                    if self.counts.len() as u64 >= STEPS {
                        let sum: u64 = self.counts.iter().sum();
                        if told.is_none() && order.holds(sum as f64, *bound) {
                            told = Some((self.step, format!("{sum} events {name} in a second")));
                        }
                        self.counts.pop_front();
                    }
                    self.counts.push_back(0);
                }
                if let Some((step, told)) = told {
                    self.fire(Some(step), told);
                }
            }
            _ => {}
        }
        self.fired.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(time: u64, kind: Kind, name: &str, value: f64) -> Seen<'_> {
        Seen { thread: (1, 2), time, kind, name, value, capacity: None }
    }

    /// A clock of one tick a microsecond.
    fn trigger(text: &str) -> Trigger {
        Trigger::new(text.parse().unwrap(), 1_000_000, 0)
    }

    #[test]
    fn what_is_nothing_to_wait_for_is_refused_with_its_reason() {
        for (text, reason) in [
            ("", "names nothing"),
            ("span", "names nothing"),
            ("span x", "compares with nothing"),
            ("span x > soon", "\"soon\" is no time"),
            ("span x < 5ms", "takes longer"),
            ("span > 5ms", "names nothing"),
            ("queue x > 5ms", "only `full`"),
            ("counter x > many", "no number"),
            ("counter x > 5 > 3", "stands in quotes"),
            ("counter x > nan", "no number"),
            ("spam x > 1", "\"spam\" is no kind"),
        ] {
            let error = text.parse::<Condition>().unwrap_err();
            assert!(error.contains(reason), "{text}: {error}");
        }
        assert_eq!("span \"a > b\" > 5ms".parse(), Ok(Condition::Span("a > b".into(), Duration::from_millis(5))));
        assert_eq!("queue in full > 1s".parse(), Ok(Condition::Queue("in".into(), SECOND)));
        assert_eq!("rate x < 1e3".parse(), Ok(Condition::Rate("x".into(), Order::Below, 1000.0)));
    }

    #[test]
    fn a_span_fires_when_it_ends_too_late_or_not_at_all() {
        let mut late = trigger("span work > 5ms");
        late.event(seen(0, Kind::SpanBegin, "work", 0.0));
        late.event(seen(5000, Kind::SpanEnd, "work", 0.0));
        assert_eq!(late.time(5000), None, "not longer");
        late.event(seen(6000, Kind::SpanBegin, "other", 0.0));
        late.event(seen(7000, Kind::SpanBegin, "work", 0.0));
        assert_eq!(late.time(12_000), None);
        assert_eq!(late.time(12_001).unwrap().event, Some(12_000));
        late.event(seen(13_000, Kind::SpanEnd, "work", 0.0));
        assert_eq!(late.time(13_000).unwrap().event, Some(13_000));
    }

    #[test]
    fn a_queue_is_full_as_long_as_a_thread_waits_for_it() {
        let mut full = trigger("queue in full > 10ms");
        full.event(seen(0, Kind::QueueWaitFull, "in", 0.0));
        full.event(seen(9000, Kind::Mark, "x", 0.0));
        assert_eq!(full.time(50_000), None, "whatever the thread does ends the wait");
        full.event(seen(60_000, Kind::QueueWaitFull, "in", 0.0));
        assert!(full.time(70_001).is_some());
    }

    #[test]
    fn a_counter_and_a_rate_are_compared() {
        let mut above = trigger("counter level > 10");
        above.event(seen(1, Kind::Counter, "level", 10.0));
        assert_eq!(above.time(1), None);
        above.event(seen(2, Kind::Counter, "level", 10.5));
        assert_eq!(above.time(2).unwrap().event, Some(2));

        let mut slow = trigger("rate beat < 100");
        let mut first = None;
        for time in 0..4_000_000 {
            // 200 a second for two seconds, then 50.
            let every = if time < 2_000_000 { 5_000 } else { 20_000 };
            if time % every == 0 {
                slow.event(seen(time, Kind::Mark, "beat", 0.0));
            }
            if time % 1000 == 0 && first.is_none() {
                first = slow.time(time).map(|_| time);
            }
        }
        // 150 · x of 200 are missing when a second holds less than 100: after two thirds of a second.
        let first = first.unwrap();
        assert!((2_600_000..2_800_000).contains(&first), "{first}");
    }
}
