//! Stations: places where work waits for other work, and the predicted gain of more of them.
//!
//! A server that processes one request while fifteen wait, and a lock that passes from thread to
//! thread, are stations of a closed queueing system: `n` pieces of work circulate, `W` of them wait
//! for the station, `M` are processed there, and the others are elsewhere. In units of the time
//! between two replies, one round takes `n` (Little's law). With `N` places instead of `M`, the
//! rate grows at most by the following factors (Denning and Buzen, 1978):
//!
//! - `N / M`, since the station processes at most `N` at a time;
//! - `n / (n - W)`, since a round takes as long as before without that wait;
//! - the factor until the CPUs, or another thread through which all work passes, are busy all the
//!   time.
//!
//! The prediction is the smallest of them. The lower end of the interval is the rate if each piece
//! of work finds all others in front of it, at the station and at the CPUs, of which unrelated
//! programs keep their share.
//!
//! Example: 16 requests are open, 1 is processed, 15 wait. With 4 places the rate is 4 times as
//! high, and with 16 places 16 times, if the CPUs are busy for less than a sixteenth of the time.
//!
//! The recording shows how much work waits, not why. The change itself assumes that it would not
//! wait with more places.

use crate::verdict::data::{Mechanism, Verdict};
use crate::verdict::sentence;
use crate::verdict::subjects::{Level, SubjectId};
use crate::verdict::Case;
use crate::what_if::grammar::MAX_AT_ONCE;
use crate::what_if::{Answer, Bounds, Change, Prediction, Scenario};

/// The circulating work, as mean numbers of pieces.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Load {
    /// All pieces that circulate: open requests, or threads that share a lock.
    pub all: f64,
    /// Pieces that wait for the station.
    pub waiting: f64,
    /// Pieces that are processed at the station.
    pub at_once: f64,
}

impl Load {
    /// Returns the factor of the rate with this number of places (`None`: one for each piece), as
    /// lower end, prediction and upper end.
    ///
    /// `busy` is the share of the time in which the resource that all work shares, such as the
    /// CPUs, is busy (0: unknown). `taken` is the share of that resource that is not available
    /// because others use it.
    pub fn rates(&self, places: Option<f64>, busy: f64, taken: f64) -> [f64; 3] {
        let Load { all, waiting, at_once } = *self;
        let places = places.unwrap_or(f64::INFINITY).max(f64::MIN_POSITIVE);
        let shared = if busy > 0.0 { 1.0 / busy } else { f64::INFINITY };
        // The share that the work uses today remains available, whatever others do.
        let slowest = if busy > 0.0 { busy.min(1.0) / (1.0 - taken).max(busy).min(1.0) } else { 0.0 };
        let elsewhere = all - waiting - at_once;
        let highest = (places / at_once).min(all / (all - waiting)).min(shared.max(1.0));
        let round = elsewhere.max(0.0) + at_once * (all / places).max(1.0) + (all - 1.0).max(0.0) * slowest;
        let lowest = (all / round).min(highest);
        // With at least as many places as before, no piece of work waits longer than before.
        let lowest = if places >= at_once { lowest.max(1.0) } else { lowest };
        [lowest.min(highest), highest, highest]
    }
}

/// A subject, or the lock that its threads share.
#[derive(Clone, Debug)]
pub struct Station {
    subject: SubjectId,
    /// Accepted names; the first is the one that changes use.
    names: Vec<String>,
    /// Machines that belong to the station: they get more places as well.
    machines: Vec<String>,
    /// Circulating requests, or the reason for which no gain of more places is known.
    requests: Result<Load, String>,
    lock: Result<Load, String>,
}

impl Station {
    /// Returns whether a user means this station by a name.
    fn is_called(&self, name: &str) -> bool {
        // A group of threads has the name PROGRAM/THREADS.
        self.names.iter().any(|own| own == name || name.split_once('/').is_some_and(|(program, _)| own == program))
    }

    fn load(&self, change: &Change) -> Result<Load, String> {
        match change {
            Change::Split { .. } => self.lock.clone().or_else(|why| self.requests.clone().map_err(|_| why)),
            _ => self.requests.clone().or_else(|why| self.lock.clone().map_err(|_| why)),
        }
    }

    /// Returns the change that gives each circulating piece of work a place of its own.
    fn widest(&self) -> Option<Scenario> {
        let name = self.names.first()?;
        match (&self.requests, &self.lock) {
            (Ok(load), _) => Some(Scenario::concurrency(name, (load.all.ceil().max(1.0) as u64).min(MAX_AT_ONCE))),
            (_, Ok(_)) => Some(Scenario::split(name)),
            _ => None,
        }
    }

    fn predict(&self, answer: &Answer, scenario: &Scenario, change: &Change) -> Prediction {
        let places = change.at_once().and_then(|(_, places)| places).map(|places| places as f64);
        let Bounds { cpus, threads, taken } = &answer.bounds;
        let others = threads.iter().filter(|(machine, _)| !self.machines.contains(machine)).map(|(_, most)| *most);
        let most = others.chain(*cpus).reduce(f64::min);
        let rates = self.load(change).map(|load| load.rates(places, most.map_or(0.0, |most| 1.0 / most), *taken));
        answer.predict(scenario, rates)
    }
}

/// All stations of a recording.
#[derive(Clone, Debug, Default)]
pub struct Stations(Vec<Station>);

impl Stations {
    /// Returns the prediction for a scenario that gives one of the stations more places. Returns
    /// `None` if the scenario adds no places, or if no station has the given name.
    pub fn predict(&self, answer: &Answer, scenario: &Scenario) -> Option<Prediction> {
        let refused = |why: &str| Some(answer.predict(scenario, Err(why.to_owned())));
        let change = scenario.changes.iter().find(|change| change.at_once().is_some())?;
        let (name, _) = change.at_once()?;
        let mut meant: Vec<&Station> = self.0.iter().filter(|station| station.is_called(name)).collect();
        if meant.len() > 1 && meant.iter().any(|station| station.load(change).is_ok()) {
            meant.retain(|station| station.load(change).is_ok());
        }
        match &meant[..] {
            [] => None,
            _ if scenario.changes.len() > 1 => refused("with kernel events, more concurrency can only be predicted as the only change"),
            [one] => Some(one.predict(answer, scenario, change)),
            [first, second, ..] => {
                let other = |station: &Station| station.names.last().cloned().unwrap_or_default();
                refused(&format!("several are called {name}, such as \"{}\" and \"{}\"", other(first), other(second)))
            }
        }
    }

    /// Returns the prediction for each station if each circulating piece of work has a place.
    pub fn widest(&self, answer: &Answer) -> Vec<Prediction> {
        let one = |station: &Station| {
            let scenario = station.widest()?;
            Some(station.predict(answer, &scenario, scenario.changes.first()?))
        };
        self.0.iter().filter_map(one).collect()
    }
}

impl Case<'_> {
    /// Returns a station for each program on the path, and for each program that answers requests.
    pub fn stations(&self) -> Stations {
        let meant = self.subjects.iter().filter(|(id, subject)| {
            let is_known = self.parts.whole(*id).is_some() || subject.activity.served.count > 0;
            is_known && !subject.is_recorder && matches!(subject.level, Level::Process | Level::Pool)
        });
        Stations(meant.map(|(id, _)| self.station(id)).collect())
    }

    fn station(&self, id: SubjectId) -> Station {
        let subject = self.subjects.get(id);
        let machines = self.subjects.threads().map(|(machine, _)| machine).filter(|machine| self.subjects.known(machine) == Some(id));
        Station {
            subject: id,
            names: self.names_of_station(id),
            machines: machines.map(str::to_owned).collect(),
            requests: self.requests(id).ok_or_else(|| match self.open(id) {
                open if subject.activity.served.count == 0 || open == 0.0 => {
                    format!("no requests to {} were recorded, so it is unknown how many wait for it", subject.name)
                }
                open => format!("{open:.1} requests to {} are open at a time, and hardly any of them waits for another", subject.name),
            }),
            lock: self
                .lock(id)
                .ok_or_else(|| format!("no lock was recorded that the threads of {} hand from one to the next", subject.name)),
        }
    }

    /// Returns the names of a station. The first is the one that changes use: the program's name if
    /// it is unique, otherwise its port or process.
    fn names_of_station(&self, id: SubjectId) -> Vec<String> {
        let (subject, named) = (self.subjects.get(id), self.name(id, None));
        let is_alone = self.subjects.iter().filter(|(_, other)| other.name == subject.name).count() == 1;
        let port = subject.port.map(|port| format!("port {port}"));
        let mut names: Vec<String> = port.into_iter().chain([sentence::name(&named)]).collect();
        match is_alone {
            true => names.insert(0, subject.name.clone()),
            false => names.insert(names.len().min(1), subject.name.clone()),
        }
        names
    }

    /// Returns the load of requests that wait in the subject.
    fn requests(&self, id: SubjectId) -> Option<Load> {
        let activity = &self.subjects.get(id).activity;
        let (open, served, asked) = (self.open(id), &activity.served, &activity.asked);
        let calls = asked.count >= self.limits.min_occurrences && 2 * asked.count >= served.count;
        // The subject may process a request itself, or wait for the server that it calls.
        let at_once = if calls { Some(asked.open()) } else { self.at_a_time(id) }.filter(|at_once| *at_once > 0.0)?;
        let waiting = open - at_once;
        (served.count >= self.limits.min_occurrences && waiting >= self.limits.min_waiting).then_some(Load { all: open, waiting, at_once })
    }

    /// Returns the load of threads that wait for a lock of the subject.
    fn lock(&self, id: SubjectId) -> Option<Load> {
        let turns = self.parts.of(id).next()?.count;
        let convoy = self.convoy(turns, |pool| pool == id).filter(|convoy| convoy.is_chain)?;
        // One of the threads that do not wait holds the lock.
        let all = (convoy.members as f64).max(convoy.waiters + 1.0);
        (convoy.waiters >= self.limits.min_waiting).then_some(Load { all, waiting: convoy.waiters, at_once: 1.0 })
    }

    /// Returns the prediction for more places if the verdict is that work waits for other work.
    pub(in crate::verdict) fn of_station(&self, verdict: &Verdict) -> Option<&Prediction> {
        if !matches!(verdict.mechanism, Some(Mechanism::Serialisation | Mechanism::LockConvoy | Mechanism::OneAtATime)) {
            return None;
        }
        let at = verdict.origin.station.or(verdict.origin.subject)?;
        let stations = self.stations();
        self.predicted(&stations.0.iter().find(|station| station.subject == at)?.widest()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the load and the rate of a closed system with `n` clients, service time `s` and
    /// think time `z`, one after the other.
    fn load(n: f64, s: f64, z: f64) -> (Load, f64) {
        let rate = (1.0 / s).min(n / (s + z));
        let (at_once, elsewhere) = (rate * s, rate * z);
        (Load { all: n, waiting: n - at_once - elsewhere, at_once }, rate)
    }

    #[test]
    fn the_gain_of_more_places_follows_the_law_of_closed_systems() {
        for (n, s, z) in [(16.0, 3.0, 0.2), (8.0, 100.0, 300.0), (4.0, 50.0, 0.0), (3.0, 10.0, 500.0)] {
            let (load, before) = load(n, s, z);
            for places in [1.0, 2.0, 5.0, 100.0] {
                let law = f64::min(places / s, n / (s + z)) / before;
                let [low, rate, high] = load.rates(Some(places), 0.0, 0.0);
                assert!((rate / law - 1.0).abs() < 1e-9, "{n} {s} {z} {places}: {rate} and not {law}");
                assert!(low <= rate && rate <= high);
            }
            let [.., all] = load.rates(None, 0.0, 0.0);
            assert!((all * before / (n / (s + z)) - 1.0).abs() < 1e-9);
        }
    }

    #[test]
    fn a_shared_resource_bounds_the_gain_and_a_full_queue_gives_the_lower_end() {
        let (load, _) = load(16.0, 3.0, 0.0);
        let [low, rate, high] = load.rates(None, 0.25, 0.0);
        assert_eq!((rate, high), (4.0, 4.0));
        // A round takes the service and the work of fifteen others at the CPUs.
        assert!((low - 16.0 / (1.0 + 15.0 * 0.25)).abs() < 1e-9, "{low}");
        // If others use all of the resource except today's share, no gain is certain.
        assert_eq!(load.rates(None, 0.25, 0.75)[0], 1.0);
        // Fewer places are slower.
        assert!(Load { all: 16.0, waiting: 12.0, at_once: 4.0 }.rates(Some(2.0), 0.0, 0.0)[1] == 0.5);
        // CPUs that are always busy allow no gain, and nothing becomes slower.
        assert_eq!(load.rates(None, 1.5, 0.0), [1.0; 3]);
    }
}
