//! The times of the events that count as progress, by thread.

use super::Error;
use longpole_model::causes::Composer;
use longpole_model::interaction::MachineId;
use longpole_trace::{Catalogue, Event, Item};
use std::collections::HashMap;

/// Maximum number of times stored per thread. If there are more, only every second, fourth, … is
/// stored.
const MAX_TIMES: usize = 1 << 16;

/// Selects the events that count as progress.
pub trait ProgressEvents {
    /// Returns true if the event counts.
    fn matches(&mut self, event: &Event<'_>, catalogue: &Catalogue) -> bool;

    /// Returns the reason why no event counted, if it is known: for example a field that no event
    /// has.
    fn why_none(&self) -> Option<String>;
}

/// Times at which an event happened in a thread; about every `each`-th is stored.
#[derive(Debug)]
struct Times {
    each: u64,
    count: u64,
    stored: Vec<u64>,
}

impl Times {
    fn add(&mut self, t: u64) {
        if self.count.is_multiple_of(self.each) {
            if self.stored.len() >= MAX_TIMES {
                let mut number = 0;
                self.stored.retain(|_| {
                    number += 1;
                    number % 2 == 1
                });
                self.each *= 2;
            }
            self.stored.push(t);
        }
        self.count += 1;
    }
}

/// The progress events of a trace, by thread.
pub struct ProgressTimes<'a> {
    name: String,
    events: Box<dyn ProgressEvents + 'a>,
    by_thread: HashMap<i32, Times>,
}

impl<'a> ProgressTimes<'a> {
    /// Returns a collector without times. `name` is the name of the events in answers and errors.
    pub fn new(name: impl Into<String>, events: impl ProgressEvents + 'a) -> ProgressTimes<'a> {
        ProgressTimes { name: name.into(), events: Box::new(events), by_thread: HashMap::new() }
    }

    /// Processes the next item of the trace. The composer must have processed it before.
    pub fn item(&mut self, composer: &Composer, catalogue: &Catalogue, item: &Item<'_>) {
        let Item::Event(event) = item else { return };
        if !self.events.matches(event, catalogue) {
            return;
        }
        // A kernel event belongs to the thread that runs on its CPU.
        let running = || composer.linux().tid_on(event.cpu?);
        let subject = catalogue.subjects.get(event.subject.0 as usize).and_then(|subject| subject.tid);
        if let (Some(tid), Ok(t)) = (subject.or_else(running), u64::try_from(event.t_ns)) {
            self.by_thread.entry(tid).or_insert_with(|| Times { each: 1, count: 0, stored: Vec::new() }).add(t);
        }
    }

    /// Returns the name of the events.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the times of each thread in ns, by its machine.
    ///
    /// # Errors
    ///
    /// [`Error::NoProgress`] if no thread has such an event.
    pub fn finish(self, composer: &Composer) -> Result<HashMap<MachineId, Vec<u64>>, Error> {
        let known: HashMap<i32, MachineId> = composer.threads_of_machines().iter().map(|behind| (behind.tid, behind.machine)).collect();
        let times = self.by_thread.into_iter().filter_map(|(tid, times)| Some((*known.get(&tid)?, times.stored)));
        let times: HashMap<MachineId, Vec<u64>> = times.collect();
        if times.is_empty() {
            let why = self.events.why_none().unwrap_or_else(|| "no thread of this trace has such an event".to_owned());
            return Err(Error::NoProgress { event: self.name, why });
        }
        Ok(times)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_many_times_an_even_part_is_stored() {
        let mut times = Times { each: 1, count: 0, stored: Vec::new() };
        (0..3 * MAX_TIMES as u64).for_each(|t| times.add(t));
        assert_eq!(times.each, 4);
        assert!(times.stored.len() <= MAX_TIMES);
        assert!(times.stored.windows(2).all(|pair| pair[1] - pair[0] == 4), "{:?}", &times.stored[..8]);
    }
}
