//! Watches the events of probes until the condition of a snapshot has become true.
//!
//! A trigger receives the events of all threads, each thread's in order, and from time to time the
//! clock; it returns when its condition has become true. It knows nothing of rings. Spans and waits
//! that began before it was armed are unknown to it.

use crate::control::condition::{Condition, Part};
use longpole_abi::Kind;
use longpole_predicate::glob;
use std::collections::{HashMap, VecDeque};
use std::time::Duration;

/// Identity of a thread: pid and tid.
pub type Thread = (i32, i32);

/// Limit of the number of threads and names followed at a time; further ones are ignored.
const MAX_FOLLOWED: usize = 10_000;
/// Limit of the number of nested spans per thread.
const MAX_DEPTH: usize = 64;
/// Time over which a rate is measured.
const SECOND: Duration = Duration::from_secs(1);
/// Number of steps into which that time is divided.
const STEPS: u64 = 20;

/// An event as a trigger sees it.
#[derive(Clone, Copy, Debug)]
pub struct Seen<'a> {
    pub thread: Thread,
    /// Time in clock ticks.
    pub time: u64,
    pub kind: Kind,
    pub name: &'a str,
    /// The first word of the payload, as a number.
    pub value: f64,
    /// Capacity of the queue, if it is known.
    pub capacity: Option<u64>,
}

/// The reason for a snapshot.
#[derive(Clone, Debug)]
pub struct Cause {
    /// Time of the event in clock ticks; `None` if the reason is the absence of events.
    pub event: Option<u64>,
    /// Time in clock ticks at which the recorder saw it.
    pub seen: u64,
    pub text: String,
}

/// A condition that has become true.
#[derive(Clone, Debug, PartialEq)]
pub struct Fired {
    /// The same as [`Cause::event`].
    pub event: Option<u64>,
    pub text: String,
}

/// A condition that is being watched.
#[derive(Debug)]
pub struct Trigger(Vec<Watch>);

impl Trigger {
    /// Begins to watch. `frequency` is the clock's in Hz, `now` its current value.
    pub fn new(condition: Condition, frequency: u64, now: u64) -> Trigger {
        Trigger(condition.0.into_iter().map(|part| Watch::new(part, frequency, now)).collect())
    }

    /// Processes an event.
    pub fn event(&mut self, seen: Seen<'_>) {
        self.0.iter_mut().for_each(|watch| watch.event(seen));
    }

    /// Forgets the open spans and waits of a thread. Called if its events were lost or overwritten
    /// before they were seen, so that their ends may be missing, or if the thread has ended.
    pub fn missed(&mut self, thread: Thread) {
        self.0.iter_mut().for_each(|watch| watch.missed(thread));
    }

    /// Forgets everything that a process had begun. Called after it has ended.
    pub fn gone(&mut self, pid: i32) {
        self.0.iter_mut().for_each(|watch| watch.gone(pid));
    }

    /// Reports lost events. `text`: a message for the user.
    pub fn lost(&mut self, now: u64, text: &str) {
        self.0.iter_mut().for_each(|watch| watch.lost(now, text));
    }

    /// Advances the clock: all events up to `now` have been seen. Returns the part of the condition
    /// that has become true, the earliest one if there are several.
    pub fn time(&mut self, now: u64) -> Option<Fired> {
        let fired = self.0.iter_mut().filter_map(|watch| watch.time(now)).collect::<Vec<_>>();
        fired.into_iter().min_by_key(|fired| fired.event.unwrap_or(now))
    }
}

/// One part of a condition that is being watched.
#[derive(Debug)]
struct Watch {
    part: Part,
    /// Clock ticks per second.
    frequency: u64,
    /// Begin times of open spans per thread, innermost last.
    open: HashMap<Thread, Vec<u64>>,
    /// Threads that wait for room, with the queue and the begin of the wait.
    waits: HashMap<Thread, (String, u64)>,
    /// Queues that reported to be full, with the time since when and the pid of the newest report.
    full: HashMap<String, (u64, i32)>,
    /// Begin of the current step of a rate.
    step: u64,
    /// Number of events in each of the latest steps, the current one last.
    counts: VecDeque<u64>,
    fired: Option<Fired>,
}

impl Watch {
    fn new(part: Part, frequency: u64, now: u64) -> Watch {
        Watch {
            part,
            frequency: frequency.max(1),
            open: HashMap::new(),
            waits: HashMap::new(),
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

    fn fire(&mut self, event: Option<u64>, text: String) {
        self.fired.get_or_insert(Fired { event, text });
    }

    /// Processes an event.
    fn event(&mut self, seen: Seen<'_>) {
        match &self.part {
            Part::Span(name, most) => {
                if !matches!(seen.kind, Kind::SpanBegin | Kind::SpanEnd) || !glob::matches(name, seen.name) {
                    return;
                }
                let most = self.ticks(*most);
                if seen.kind == Kind::SpanBegin {
                    if self.open.len() < MAX_FOLLOWED || self.open.contains_key(&seen.thread) {
                        let begins = self.open.entry(seen.thread).or_default();
                        if begins.len() == MAX_DEPTH {
                            // The program never ends these spans.
                            begins.remove(0);
                        }
                        begins.push(seen.time);
                    }
                } else if let Some(begin) = self.open.get_mut(&seen.thread).and_then(Vec::pop) {
                    let took = seen.time.saturating_sub(begin);
                    if took > most {
                        let text = format!("span {} of thread {} took {:.3} ms", seen.name, seen.thread.1, self.ms(took));
                        self.fire(Some(seen.time), text);
                    }
                }
            }
            Part::Full(name, most) => {
                let most = self.ticks(*most);
                let named = glob::matches(name, seen.name);
                let waits = named && seen.kind == Kind::QueueWaitFull;
                if waits && self.waits.get(&seen.thread).is_some_and(|(queue, _)| queue == seen.name) {
                    // The thread has checked the queue again and still waits.
                    return;
                }
                // Any other event of a thread ends its wait.
                let ended = self.waits.remove(&seen.thread);
                if waits && self.waits.len() < MAX_FOLLOWED {
                    self.waits.insert(seen.thread, (seen.name.to_owned(), seen.time));
                }
                let mut full = None;
                if named && seen.kind == Kind::QueueSize {
                    let is_full = seen.capacity.is_some_and(|capacity| seen.value >= capacity as f64);
                    if is_full && self.full.len() < MAX_FOLLOWED {
                        self.full.entry(seen.name.to_owned()).or_insert((seen.time, 0)).1 = seen.thread.0;
                    } else {
                        full = self.full.remove(seen.name).map(|(begin, _)| (seen.name.to_owned(), begin));
                    }
                }
                for (queue, begin) in [ended, full].into_iter().flatten() {
                    let took = seen.time.saturating_sub(begin);
                    if took > most {
                        self.fire(Some(seen.time), format!("queue {queue} was full for {:.3} ms", self.ms(took)));
                    }
                }
            }
            Part::Counter(name, order, bound) => {
                if seen.kind == Kind::Counter && glob::matches(name, seen.name) && order.holds(seen.value, *bound) {
                    self.fire(Some(seen.time), format!("counter {} is {}", seen.name, seen.value));
                }
            }
            Part::Rate(name, ..) => {
                if seen.kind != Kind::SpanEnd && glob::matches(name, seen.name) {
                    if let Some(count) = self.counts.back_mut() {
                        *count += 1;
                    }
                }
            }
            Part::Lost => {}
        }
    }

    fn missed(&mut self, thread: Thread) {
        self.open.remove(&thread);
        self.waits.remove(&thread);
    }

    fn gone(&mut self, pid: i32) {
        self.open.retain(|thread, _| thread.0 != pid);
        self.waits.retain(|thread, _| thread.0 != pid);
        self.full.retain(|_, (_, process)| *process != pid);
    }

    fn lost(&mut self, now: u64, text: &str) {
        if self.part == Part::Lost {
            self.fire(Some(now), text.to_owned());
        }
    }

    fn time(&mut self, now: u64) -> Option<Fired> {
        match &self.part {
            Part::Span(name, most) | Part::Full(name, most) => {
                let ticks = self.ticks(*most);
                let begun = self.open.iter().filter_map(|(thread, begins)| Some((*begins.first()?, name, thread.1)));
                let waits = self.waits.values().map(|(queue, begin)| (*begin, queue, 0));
                let full = self.full.iter().map(|(queue, (begin, _))| (*begin, queue, 0));
                let oldest = begun.chain(waits).chain(full).min();
                if let Some((begin, name, thread)) = oldest.filter(|(begin, ..)| now.saturating_sub(*begin) > ticks) {
                    let since = self.ms(now.saturating_sub(begin));
                    let text = match &self.part {
                        Part::Span(..) => format!("span {name} of thread {thread} has not ended for {since:.3} ms"),
                        _ => format!("queue {name} has been full for {since:.3} ms"),
                    };
                    // The condition became true when the limit was exceeded.
                    self.fire(Some(begin.saturating_add(ticks)), text);
                }
            }
            Part::Rate(name, order, bound) => {
                let length = self.ticks(SECOND) / STEPS;
                let mut text = None;
                while now.saturating_sub(self.step) >= length.max(1) {
                    self.step += length.max(1);
                    if self.counts.len() as u64 >= STEPS {
                        let sum: u64 = self.counts.iter().sum();
                        if text.is_none() && order.holds(sum as f64, *bound) {
                            text = Some((self.step, format!("{sum} events {name} in a second")));
                        }
                        self.counts.pop_front();
                    }
                    self.counts.push_back(0);
                }
                if let Some((step, text)) = text {
                    self.fire(Some(step), text);
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

    /// A trigger with a clock of 1 MHz.
    fn trigger(text: &str) -> Trigger {
        Trigger::new(text.parse().unwrap(), 1_000_000, 0)
    }

    #[test]
    fn a_span_fires_when_it_ends_too_late_or_not_at_all() {
        let mut late = trigger("span('work') > 5ms");
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
        let mut full = trigger("full('in') > 10ms");
        full.event(seen(0, Kind::QueueWaitFull, "in", 0.0));
        full.event(seen(9000, Kind::Mark, "x", 0.0));
        assert_eq!(full.time(50_000), None, "whatever the thread does ends the wait");
        full.event(seen(60_000, Kind::QueueWaitFull, "in", 0.0));
        assert!(full.time(70_001).is_some());
        full.event(seen(80_000, Kind::Mark, "x", 0.0));
        let _ = full.time(80_000);
        // A thread that checks again and again still waits.
        for time in (100_000..110_000).step_by(1000) {
            full.event(seen(time, Kind::QueueWaitFull, "in", 0.0));
            assert_eq!(full.time(time), None);
        }
        assert_eq!(full.time(110_001).unwrap().text, "queue in has been full for 10.001 ms");
    }

    #[test]
    fn the_end_of_a_thread_or_process_ends_what_it_had_begun() {
        for by in ["thread", "process"] {
            let mut late = trigger("span('work') > 5ms");
            let mut full = trigger("full('in') > 5ms");
            late.event(seen(0, Kind::SpanBegin, "work", 0.0));
            full.event(seen(0, Kind::QueueWaitFull, "in", 0.0));
            for trigger in [&mut late, &mut full] {
                if by == "thread" {
                    trigger.missed((1, 2));
                } else {
                    trigger.gone(1);
                }
                assert_eq!(trigger.time(1_000_000), None);
            }
        }
        let mut full = trigger("full('in') > 5ms");
        full.event(Seen { capacity: Some(8), ..seen(0, Kind::QueueSize, "in", 8.0) });
        full.gone(7);
        full.event(Seen { capacity: Some(8), ..seen(4000, Kind::QueueSize, "in", 8.0) });
        full.gone(1);
        assert_eq!(full.time(1_000_000), None);
    }

    #[test]
    fn a_counter_and_a_rate_are_compared() {
        let mut above = trigger("counter('level') > 10");
        above.event(seen(1, Kind::Counter, "level", 10.0));
        assert_eq!(above.time(1), None);
        above.event(seen(2, Kind::Counter, "level", 10.5));
        assert_eq!(above.time(2).unwrap().event, Some(2));

        let mut slow = trigger("rate('beat') < 100");
        let mut first = None;
        for time in 0..4_000_000 {
            // 200 events a second for two seconds, then 50.
            let every = if time < 2_000_000 { 5_000 } else { 20_000 };
            if time % every == 0 {
                slow.event(seen(time, Kind::Mark, "beat", 0.0));
            }
            if time % 1000 == 0 && first.is_none() {
                first = slow.time(time).map(|_| time);
            }
        }
        // After x seconds at the lower rate, the last second holds 200 - 150 x events: less than
        // 100 after two thirds of a second.
        let first = first.unwrap();
        assert!((2_600_000..2_800_000).contains(&first), "{first}");
    }
}
