//! What changes would bring, against systems that are simulated anew with the change.
//!
//! The simulator here is small and knows nothing of the replay: stages with queues between them, computed item by item from the definition of a
//! bounded queue; workers that join; a lock; calls. It writes the machine log of the unchanged run, and says how long any run takes.

use longpole_analysis::what_if::propose::{self, Order};
use longpole_analysis::what_if::{Answer, NoAnswer, Options, Prediction, Scenario, WhatIf};
use longpole_model::machine_log::Reader;
use proptest::prelude::*;
use std::fmt::Write;

fn ask(log: &str, scenarios: &[&str]) -> Result<Answer, NoAnswer> {
    let scenarios = scenarios.iter().map(|text| Scenario::parse(text).unwrap()).collect();
    let mut reader = Reader::new(log.as_bytes());
    let mut worlds = WhatIf::new(Options { scenarios, ..Options::default() });
    while let Some(interaction) = reader.next_interaction().unwrap() {
        worlds.interaction(reader.vocabulary(), &interaction);
    }
    worlds.answer(reader.vocabulary())
}

fn predicted(log: &str, change: &str) -> Prediction {
    ask(log, &[change]).unwrap().predictions.remove(0)
}

fn ns(log: &str, change: &str) -> u64 {
    let prediction = predicted(log, change);
    prediction.predicted_ns.unwrap_or_else(|| panic!("{prediction:?}"))
}

/// A small generator of numbers, so that a test is the same everywhere.
struct Draw(u64);

impl Draw {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n
    }

    /// From a half of the mean to one and a half.
    fn around(&mut self, mean: u64) -> u64 {
        mean / 2 + self.below(mean + 1)
    }
}

/// Lines of each machine in its order; they are put into one order by time, and by what must be there before.
#[derive(Default)]
struct Lines {
    head: String,
    machines: Vec<Vec<(u64, String, Needs)>>,
}

/// What a line takes and makes: (queue, units) each.
#[derive(Clone, Default)]
struct Needs {
    takes: Option<String>,
    makes: Option<String>,
}

impl Lines {
    fn machine(&mut self) -> usize {
        self.machines.push(Vec::new());
        self.machines.len() - 1
    }

    fn say(&mut self, at: usize, t: u64, name: &str, rest: &str) {
        self.machines[at].push((t, format!("{{\"t\":{t},\"machine\":\"{name}\",{rest}}}\n"), Needs::default()));
    }

    fn put(&mut self, at: usize, t: u64, name: &str, queue: &str) {
        self.say(at, t, name, &format!("\"put\":\"{queue}\""));
        let needs = &mut self.machines[at].last_mut().unwrap().2;
        (needs.makes, needs.takes) = (Some(queue.to_owned()), Some(format!("room {queue}")));
    }

    fn get(&mut self, at: usize, t: u64, name: &str, queue: &str, rest: &str) {
        self.say(at, t, name, &format!("\"get\":\"{queue}\"{rest}"));
        let needs = &mut self.machines[at].last_mut().unwrap().2;
        (needs.takes, needs.makes) = (Some(queue.to_owned()), Some(format!("room {queue}")));
    }

    /// One log, with so much room in each queue that has a capacity, and units that are there from the begin.
    fn log(self, room: &[(&str, i64)], end: (u64, &str)) -> String {
        let mut there: std::collections::HashMap<String, i64> = room.iter().map(|(name, n)| ((*name).to_owned(), *n)).collect();
        let bounded = |name: &str| name.strip_prefix("room ").is_some_and(|_| !room.iter().any(|it| it.0 == name));
        let mut log = self.head;
        let mut next = vec![0; self.machines.len()];
        loop {
            let ready = self.machines.iter().enumerate().filter_map(|(at, lines)| {
                let (t, text, needs) = lines.get(next[at])?;
                let is_there = needs.takes.as_ref().is_none_or(|name| bounded(name) || there.get(name).copied().unwrap_or(0) > 0);
                is_there.then_some((*t, at, text, needs))
            });
            let Some((_, at, text, needs)) = ready.min_by_key(|it| it.0) else { break };
            log += text;
            next[at] += 1;
            if let Some(name) = &needs.takes {
                *there.entry(name.clone()).or_default() -= 1;
            }
            if let Some(name) = &needs.makes {
                *there.entry(name.clone()).or_default() += 1;
            }
        }
        assert!(next.iter().zip(&self.machines).all(|(next, lines)| *next == lines.len()), "the log is whole");
        let _ = writeln!(log, "{{\"t\":{},\"end\":\"{}\"}}", end.0, end.1);
        log
    }
}

/// Stages m0, m1, …, with queues q1, q2, … of these capacities between them; `times[stage][item]`.
struct Tandem {
    capacity: Vec<usize>,
    times: Vec<Vec<u64>>,
}

/// When each stage took an item, was done with it, and got rid of it.
type Runs = Vec<Vec<(u64, u64, u64)>>;

impl Tandem {
    fn draw(seed: u64, stages: usize, items: usize, random: bool) -> Tandem {
        let mut draw = Draw(seed);
        let means: Vec<u64> = (0..stages).map(|_| 100 + draw.below(900)).collect();
        let time = |draw: &mut Draw, mean: u64| if random { 2 * draw.around(mean) } else { 2 * mean };
        let times = means.iter().map(|&mean| (0..items).map(|_| time(&mut draw, mean)).collect()).collect();
        let capacity = (1..stages).map(|_| 1 + draw.below(6) as usize).collect();
        Tandem { capacity, times }
    }

    fn run(&self) -> Runs {
        let (stages, items) = (self.times.len(), self.times[0].len());
        let mut runs: Runs = vec![Vec::new(); stages];
        for item in 0..items {
            for stage in 0..stages {
                let free = runs[stage].last().map_or(0, |run| run.2);
                let took = if stage == 0 { free } else { free.max(runs[stage - 1][item].2) };
                let done = took + self.times[stage][item];
                // The unit of room comes from the get of the item that is so many before, which only a later stage's loop tells.
                runs[stage].push((took, done, done));
            }
            // Room: from the last stage on, a put waits for the get of the item K before, which is known from earlier items.
            for stage in 0..stages {
                let free = if item == 0 { 0 } else { runs[stage][item - 1].2 };
                let took = if stage == 0 { free } else { free.max(runs[stage - 1][item].2) };
                let done = took + self.times[stage][item];
                let room = match self.capacity.get(stage) {
                    Some(&k) if item >= k => runs[stage + 1][item - k].0,
                    _ => 0,
                };
                runs[stage][item] = (took, done, done.max(room));
            }
        }
        runs
    }

    fn end(&self) -> u64 {
        self.run().last().and_then(|run| run.last()).map_or(0, |run| run.2)
    }

    fn log(&self) -> String {
        let runs = self.run();
        let mut lines = Lines::default();
        for (at, k) in self.capacity.iter().enumerate() {
            let _ = writeln!(lines.head, "{{\"queue\":\"q{}\",\"capacity\":{k}}}", at + 1);
        }
        for (stage, run) in runs.iter().enumerate() {
            let (at, name, last) = (lines.machine(), format!("m{stage}"), stage + 1 == runs.len());
            let (from, to) = (format!("q{stage}"), format!("q{}", stage + 1));
            lines.say(at, 0, &name, "\"state\":\"begin\"");
            let mut free = 0;
            for &(took, done, put) in run {
                if took > free {
                    lines.say(at, free, &name, &format!("\"blocked\":\"empty\",\"on\":\"{from}\",\"for\":\"tokens\""));
                }
                match stage {
                    0 => lines.say(at, took, &name, "\"state\":\"work\""),
                    _ => lines.get(at, took, &name, &from, ",\"state\":\"work\""),
                }
                if put > done {
                    lines.say(at, done, &name, &format!("\"blocked\":\"full\",\"on\":\"{to}\",\"for\":\"space\""));
                }
                match last {
                    true => lines.say(at, done, &name, "\"state\":\"work\""),
                    false => lines.put(at, put, &name, &to),
                }
                free = put;
            }
        }
        let rooms: Vec<(String, i64)> = self.capacity.iter().enumerate().map(|(at, &k)| (format!("room q{}", at + 1), k as i64)).collect();
        let rooms: Vec<(&str, i64)> = rooms.iter().map(|(name, k)| (name.as_str(), *k)).collect();
        lines.log(&rooms, (self.end(), &format!("m{}", runs.len() - 1)))
    }

    fn with(&self, stage: usize, halves: u64) -> Tandem {
        let mut times = self.times.clone();
        times[stage].iter_mut().for_each(|time| *time = *time / 2 * halves);
        Tandem { capacity: self.capacity.clone(), times }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    #[test]
    fn a_changed_stage_is_predicted_to_the_nanosecond(seed: u64, stages in 2usize..6, items in 1usize..60, random: bool, stage in 0usize..6, halves in 0u64..5) {
        let tandem = Tandem::draw(seed, stages, items, random);
        let stage = stage % stages;
        let log = tandem.log();
        let answer = ask(&log, &[&format!("m{stage}::work x{}", halves as f64 / 2.0)]).unwrap();
        prop_assert_eq!((answer.baseline_ns, answer.replayed_ns, answer.contradictions), (tandem.end(), tandem.end(), 0));
        prop_assert_eq!(answer.predictions[0].predicted_ns, Some(tandem.with(stage, halves).end()), "{}", log);
    }

    #[test]
    fn a_changed_capacity_is_predicted_to_the_nanosecond(seed: u64, stages in 2usize..5, items in 1usize..60, queue in 0usize..5, capacity in 1usize..20) {
        let tandem = Tandem::draw(seed, stages, items, true);
        let queue = queue % (stages - 1);
        let mut changed = tandem.with(0, 2);
        changed.capacity[queue] = capacity;
        prop_assert_eq!(ns(&tandem.log(), &format!("queue q{} capacity {capacity}", queue + 1)), changed.end());
        changed.capacity[queue] = 1_000_000;
        prop_assert_eq!(ns(&tandem.log(), &format!("queue q{} capacity unlimited", queue + 1)), changed.end());
    }
}
