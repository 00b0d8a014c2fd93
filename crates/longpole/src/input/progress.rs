//! `--progress EVENT`: selects the events that count as progress, and collects their times by
//! thread.

use crate::input::filter::{Filter, Patterns, Sieve};
use anyhow::bail;
use longpole_model::causes::Composer;
use longpole_model::interaction::MachineId;
use longpole_trace::Catalogue;
use longpole_trace::Item;
use std::collections::HashMap;

/// Maximum number of times stored per thread. If there are more, only every second, fourth, … is
/// stored.
const MOST_TIMES: usize = 1 << 16;

/// The selected events.
#[derive(Clone, Debug)]
pub struct Progress {
    pub text: String,
    filter: Option<Filter>,
    names: Option<Patterns>,
}

impl Progress {
    pub fn parse(text: &str) -> Result<Progress, String> {
        let is_name = !text.contains(char::is_whitespace) && !text.contains(['=', '<', '>', '&', '|', '!', '(', ')', '~']);
        let (filter, names) = match is_name {
            true => (None, Some(Patterns::parse(text)?)),
            false => (Some(Filter::parse(text)?), None),
        };
        Ok(Progress { text: text.to_owned(), filter, names })
    }
}

/// Times at which an event happened in a thread; about every `each`-th is stored.
#[derive(Debug)]
struct Times {
    each: u64,
    count: u64,
    kept: Vec<u64>,
}

impl Times {
    fn add(&mut self, t: u64) {
        if self.count.is_multiple_of(self.each) {
            if self.kept.len() >= MOST_TIMES {
                let mut number = 0;
                self.kept.retain(|_| {
                    number += 1;
                    number % 2 == 1
                });
                self.each *= 2;
            }
            self.kept.push(t);
        }
        self.count += 1;
    }
}

/// The progress events of a trace, by thread.
pub struct ProgressTimes {
    text: String,
    sieve: Sieve,
    by_thread: HashMap<i32, Times>,
}

impl ProgressTimes {
    pub fn new(progress: &Progress) -> ProgressTimes {
        let sieve = Sieve::new(progress.filter.clone(), progress.names.clone());
        ProgressTimes { text: progress.text.clone(), sieve, by_thread: HashMap::new() }
    }

    /// Processes the next item of the trace. The composer must have processed it before.
    pub fn item(&mut self, composer: &Composer, catalogue: &Catalogue, item: &Item<'_>) {
        let Item::Event(event) = item else { return };
        if !self.sieve.passes(event, catalogue) {
            return;
        }
        // A kernel event belongs to the thread that runs on its CPU.
        let running = || composer.linux().tid_on(event.cpu?);
        let subject = catalogue.subjects.get(event.subject.0 as usize).and_then(|subject| subject.tid);
        if let (Some(tid), Ok(t)) = (subject.or_else(running), u64::try_from(event.t_ns)) {
            self.by_thread.entry(tid).or_insert_with(|| Times { each: 1, count: 0, kept: Vec::new() }).add(t);
        }
    }

    /// Returns the events as the user named them.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns the times of each thread, by its machine. An error if no event matched.
    pub fn finish(mut self, composer: &Composer) -> anyhow::Result<HashMap<MachineId, Vec<u64>>> {
        let known: HashMap<i32, MachineId> = composer.behind().iter().map(|behind| (behind.tid, behind.machine)).collect();
        let times = self.by_thread.drain().filter_map(|(tid, times)| Some((*known.get(&tid)?, times.kept)));
        let times: HashMap<MachineId, Vec<u64>> = times.collect();
        match (times.is_empty(), self.sieve.notes().first()) {
            (false, _) => Ok(times),
            (true, Some(note)) => bail!("--progress {}: {note}", self.text),
            (true, None) => bail!("--progress {}: no thread of this trace has such an event", self.text),
        }
    }
}
