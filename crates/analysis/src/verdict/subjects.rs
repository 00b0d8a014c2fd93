//! Subjects, which a verdict can name: processes, pools of processes that do the same work, kernel
//! threads, interrupts, and machines of a log.
//!
//! The critical path knows machines by their names. A *subject* is what an engineer would name: the
//! process to which a thread belongs, or the pool of processes that run the same program in the
//! same role.
//!
//! Example: of two Python processes, one sends requests and the other answers them: these are two
//! subjects. Four processes that answer on one port are one subject. Two processes of one program
//! that wait for each other in different ways, one for room in a pipe and one for data in it, are
//! two subjects: they are stages, and what helps one does not help the other.

use super::limits::Limits;
use crate::verdict::facts::exchanges::{SocketActivities, SocketActivity};
use crate::verdict::facts::places::ServicePlace;
use crate::verdict::facts::titles::{self, Titled};
use crate::verdict::facts::traffic::Traffic;
use crate::what_if::Scenario;
use longpole_model::interaction::Vocabulary;
use longpole_model::names::NameId;
use std::collections::{BTreeMap, HashMap, HashSet};

/// Facts from the recording about the thread behind a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Thread {
    /// The process, the last one if several had this machine one after the other.
    pub pid: i32,
    /// The processes that had this machine before it.
    pub earlier: Vec<i32>,
    pub tid: i32,
    /// Name of the process's main thread.
    pub program: String,
    /// Script that the process runs, if it is an interpreter.
    pub script: Option<String>,
    /// Role of the process, derived from its title ([`titles`]).
    pub title: Option<String>,
    pub place: ServicePlace,
    /// Name of the thread.
    pub name: String,
    /// True for a kernel thread.
    pub is_kernel: bool,
    pub is_recorder: bool,
    /// True for a thread of the recorded command, or of a process that it started.
    pub is_of_command: bool,
    /// Number of CPUs on which the thread may run, if known.
    pub allowed: Option<u64>,
    /// True if the thread runs by reservation: a fixed CPU time in each period (`SCHED_DEADLINE`).
    pub is_reserved: bool,
    /// Its priority at its last switch; a smaller number is more important.
    pub priority: Option<i32>,
}

/// Index of a subject in [`Subjects`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SubjectId(pub u32);

/// An ordered pair of two subjects, such as the one that wakes and the one that is woken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FromTo {
    pub from: SubjectId,
    pub to: SubjectId,
}

/// The role of a subject in exchanges of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Role {
    /// Sends requests and receives none.
    Client,
    /// Receives requests.
    Server,
    /// Neither sends nor receives requests.
    None,
}

/// The kind of a subject.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Level {
    Process,
    /// Several processes.
    Pool,
    /// A machine for which no process is known, from a machine log or from probes alone.
    Machine,
    KernelThread,
    Interrupt,
}

/// A subject: what a verdict can name.
#[derive(Clone, Debug)]
pub struct Subject {
    pub level: Level,
    pub host: String,
    pub name: String,
    /// Script, which distinguishes the subject from others of its program.
    pub script: Option<String>,
    pub title: Option<String>,
    /// Unit and container of all its processes.
    pub place: ServicePlace,
    /// True if another subject has the same name in another place.
    pub needs_place: bool,
    pub processes: Vec<i32>,
    /// Port on which it receives requests.
    pub port: Option<u16>,
    pub role: Role,
    pub is_recorder: bool,
    pub is_of_command: bool,
    pub activity: SocketActivity,
    /// Name in what-if scenarios: the program, or the only thread of a stage.
    scenario_name: String,
}

impl Subject {
    /// Returns the parts of its name in a sentence, except for its place.
    fn name_without_place(&self) -> (String, Option<String>, Option<String>, Option<u16>, bool) {
        let port = self.port.filter(|_| self.role == Role::Server);
        (self.name.clone(), self.script.clone(), self.title.clone(), port, self.is_recorder)
    }

    /// Returns the change in which all its work takes half of the time.
    pub fn halved(&self) -> Scenario {
        Scenario::scale_all(&self.scenario_name, 0.5)
    }
}

/// All subjects of a recording.
#[derive(Debug, Default)]
pub struct Subjects {
    list: Vec<Subject>,
    /// Subjects by host and name of the machine, for machines without a process and those of other
    /// hosts.
    by_host: HashMap<(String, String), SubjectId>,
    /// Subjects by name of the machine, for machines of the recording's own host.
    local: HashMap<String, SubjectId>,
    /// Threads by name of the machine.
    threads: HashMap<String, Thread>,
}

impl Subjects {
    /// Builds the subjects. `threads` are the threads by the names of their machines, `stages` the
    /// processes that do other work than the others of their program.
    pub fn new(threads: HashMap<String, Thread>, sockets: &SocketActivities, stages: &HashMap<i32, StageWait>) -> Subjects {
        let mut out = Subjects::default();
        let mut machines: Vec<&String> = threads.keys().collect();
        machines.sort_unstable();
        type Name = (String, Option<String>, Option<String>, ServicePlace);
        type Alike = (Name, Role, Option<u16>, (bool, bool), Option<StageWait>);
        let mut known: HashMap<Alike, SubjectId> = HashMap::new();
        for machine in machines {
            let thread = &threads[machine];
            if thread.is_kernel {
                continue;
            }
            let port = sockets.port(thread.pid);
            let role = match role(sockets.of(thread.pid)) {
                // On connections that existed before the recording, only times distinguish client
                // and server, so a listening port is the better evidence.
                Role::Client if port.is_some() => Role::Server,
                role => role,
            };
            let of = (thread.is_recorder, thread.is_of_command);
            let stage = stages.get(&thread.pid).copied();
            let name = (thread.program.clone(), thread.script.clone(), thread.title.clone(), thread.place.clone());
            let key = (name, role, port.filter(|_| role == Role::Server), of, stage);
            let id = *known.entry(key).or_insert_with(|| {
                out.list.push(Subject {
                    level: Level::Process,
                    host: String::new(),
                    name: thread.program.clone(),
                    script: thread.script.clone(),
                    title: thread.title.clone(),
                    place: thread.place.clone(),
                    needs_place: false,
                    processes: Vec::new(),
                    port,
                    role,
                    is_recorder: thread.is_recorder,
                    is_of_command: thread.is_of_command,
                    activity: SocketActivity::default(),
                    scenario_name: if stage.is_some() || thread.title.is_some() { machine.clone() } else { thread.program.clone() },
                });
                SubjectId(out.list.len() as u32 - 1)
            });
            let subject = &mut out.list[id.0 as usize];
            if subject.scenario_name != *machine {
                // A program with several threads has no other common name.
                subject.scenario_name.clone_from(&thread.program);
            }
            subject.processes.extend(thread.earlier.iter().chain([&thread.pid]));
            subject.port = subject.port.or(port);
            out.local.insert(machine.clone(), id);
        }
        for subject in &mut out.list {
            let mut seen = HashSet::new();
            subject.processes.retain(|process| seen.insert(*process));
            subject.level = if subject.processes.len() > 1 { Level::Pool } else { Level::Process };
            subject.activity = sockets.sum(subject.processes.iter().copied());
        }
        let mut places: HashMap<_, HashSet<ServicePlace>> = HashMap::new();
        for subject in &out.list {
            places.entry(subject.name_without_place()).or_default().insert(subject.place.clone());
        }
        for subject in &mut out.list {
            subject.needs_place = places[&subject.name_without_place()].len() > 1;
        }
        out.threads = threads;
        out
    }

    /// Returns the subject of a machine on the path; a new one if no process is known.
    pub fn of(&mut self, host: &str, machine: &str, class: &str, is_interrupt: bool) -> SubjectId {
        if let Some(id) = self.known(machine).filter(|_| host.is_empty()) {
            return id;
        }
        if let Some(&id) = self.by_host.get(&(host.to_owned(), machine.to_owned())) {
            return id;
        }
        let level = match self.threads.get(machine) {
            _ if is_interrupt => Level::Interrupt,
            Some(thread) if thread.is_kernel => Level::KernelThread,
            _ => Level::Machine,
        };
        let alike = |subject: &Subject| subject.level == level && subject.name == class && subject.host == host;
        let id = match self.list.iter().position(alike) {
            Some(at) => SubjectId(at as u32),
            None => {
                self.list.push(Subject {
                    level,
                    host: host.to_owned(),
                    name: class.to_owned(),
                    script: None,
                    title: None,
                    place: ServicePlace::default(),
                    needs_place: false,
                    processes: Vec::new(),
                    port: None,
                    role: Role::None,
                    is_recorder: false,
                    is_of_command: false,
                    activity: SocketActivity::default(),
                    scenario_name: class.to_owned(),
                });
                SubjectId(self.list.len() as u32 - 1)
            }
        };
        self.by_host.insert((host.to_owned(), machine.to_owned()), id);
        id
    }

    /// Returns the common name of the subject's threads that do the same work as this one, if it
    /// differs from the subject's name.
    pub fn thread_group(&self, id: SubjectId, machine: &str) -> Option<String> {
        let thread = self.threads.get(machine).filter(|thread| thread.name != self.get(id).name)?;
        let unnumbered = thread.name.trim_end_matches(|letter: char| letter.is_ascii_digit());
        // `GC Thread#1` is one of several; `python3` is not.
        let is_number = unnumbered.len() < thread.name.len() && unnumbered.ends_with(['#', '-', '_', '/', ':', ' ', '.']);
        let name = if is_number { unnumbered.trim_end_matches(['#', '-', '_', '/', ':', ' ', '.']) } else { &thread.name };
        (name != self.get(id).name).then(|| name.to_owned())
    }

    /// Returns the subject with this id. `id` must come from this list.
    pub fn get(&self, id: SubjectId) -> &Subject {
        &self.list[id.0 as usize]
    }

    /// Returns the number of CPUs on which each thread of a subject may run.
    pub fn allowed(&self, id: SubjectId) -> Option<u64> {
        let own = self.threads.iter().filter(|(machine, _)| self.known(machine) == Some(id));
        own.filter_map(|(_, thread)| thread.allowed).max()
    }

    /// Returns whether a thread of the subject runs by reservation.
    pub fn is_reserved(&self, id: SubjectId) -> bool {
        self.threads.iter().any(|(machine, thread)| thread.is_reserved && self.known(machine) == Some(id))
    }

    /// Returns the thread behind a machine.
    pub fn thread(&self, machine: &str) -> Option<&Thread> {
        self.threads.get(machine)
    }

    pub fn iter(&self) -> impl Iterator<Item = (SubjectId, &Subject)> {
        self.list.iter().enumerate().map(|(at, subject)| (SubjectId(at as u32), subject))
    }

    /// Returns all threads, by the names of their machines.
    pub fn threads(&self) -> impl Iterator<Item = (&str, &Thread)> {
        self.threads.iter().map(|(name, thread)| (name.as_str(), thread))
    }

    /// Returns the subject of a thread's machine.
    pub fn known(&self, machine: &str) -> Option<SubjectId> {
        self.local.get(machine).copied()
    }
}

/// Removes the script from processes that live for a small part of the time. The first argument of
/// such a process is an item (`gcc order.c`), which does not distinguish it from others.
pub fn remove_item_scripts(threads: &mut HashMap<String, Thread>, traffic: &Traffic, vocabulary: &Vocabulary, least: f64) {
    let mut lives: HashMap<i32, (u64, u64)> = HashMap::new();
    for machine in vocabulary.machines() {
        let thread = threads.get(vocabulary.machine_name(machine));
        let own = traffic.own(machine).and_then(|own| Some((own.first_ns?, own.last_ns)));
        if let (Some(thread), Some((first, last))) = (thread, own) {
            let life = lives.entry(thread.pid).or_insert((first, last));
            *life = (life.0.min(first), life.1.max(last));
        }
    }
    for thread in threads.values_mut() {
        let lived = lives.get(&thread.pid).map_or(0, |(first, last)| last - first);
        if (lived as f64) < least * traffic.length_ns() as f64 {
            thread.script = None;
        }
    }
}

/// Sets the role of each thread's process, as far as titles show it. A process that executed
/// another program has the title of the latter only.
pub fn add_titles(threads: &mut HashMap<String, Thread>, processes: &HashMap<i32, Titled>, min_varying_roles: usize) {
    let roles = titles::roles(processes, min_varying_roles);
    for thread in threads.values_mut() {
        let is_same = processes.get(&thread.pid).is_some_and(|process| process.program == thread.program);
        thread.title = roles.get(&thread.pid).filter(|_| is_same).cloned();
    }
}

/// The wait in which a process mostly waits for others of its program. `None` if it wakes others
/// and waits for none.
pub type StageWait = Option<NameId>;

/// Returns the processes of one program that do different work, because they wait for each other in
/// different ways. A process that hardly ever waits for the others of its program, compared with
/// its other waits, is no stage: two servers may share a lock.
pub fn stages(traffic: &Traffic, threads: &HashMap<String, Thread>, vocabulary: &Vocabulary, limits: &Limits) -> HashMap<i32, StageWait> {
    let thread = |machine| threads.get(vocabulary.machine_name(machine)).filter(|thread| !thread.is_kernel);
    let are_of_one_program = |by: &Thread, woken: &Thread| by.program == woken.program && by.pid != woken.pid;
    // Wake-ups of each process by the others of its program, and all.
    let mut wakes: HashMap<i32, (u64, u64)> = HashMap::new();
    for (by, machine, pair) in traffic.pairs() {
        let Some(woken) = thread(machine) else { continue };
        let (own, all) = wakes.entry(woken.pid).or_default();
        *own += thread(by).filter(|by| are_of_one_program(by, woken)).map_or(0, |_| pair.direct);
        *all += pair.count;
    }
    let is_frequent = |pid: i32| wakes.get(&pid).is_some_and(|&(own, all)| own as f64 >= limits.considerable_share * all as f64);
    let mut waits: BTreeMap<(&str, i32), BTreeMap<NameId, u64>> = BTreeMap::new();
    for (by, machine, pair) in traffic.pairs() {
        let (Some(by), Some(woken), Some(why)) = (thread(by), thread(machine), pair.why) else { continue };
        if are_of_one_program(by, woken) && pair.direct >= limits.min_occurrences && is_frequent(woken.pid) {
            *waits.entry((&woken.program, woken.pid)).or_default().entry(why).or_default() += pair.direct;
            waits.entry((&by.program, by.pid)).or_default();
        }
    }
    let most = |counts: BTreeMap<NameId, u64>| counts.into_iter().max_by_key(|&(_, count)| count).map(|(why, _)| why);
    let of: Vec<((&str, i32), StageWait)> = waits.into_iter().map(|(process, counts)| (process, most(counts))).collect();
    let differs = |program: &str, stage: StageWait| of.iter().any(|((other, _), of)| *other == program && *of != stage);
    of.iter().filter(|((program, _), stage)| differs(program, *stage)).map(|&((_, process), stage)| (process, stage)).collect()
}

fn role(activity: Option<&SocketActivity>) -> Role {
    match activity {
        Some(activity) if activity.served.count > 0 => Role::Server,
        Some(activity) if activity.asked.count > 0 => Role::Client,
        _ => Role::None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn thread(pid: i32, title: Option<&str>, unit: Option<&str>) -> (String, Thread) {
        let thread = Thread {
            pid,
            earlier: Vec::new(),
            tid: pid,
            program: "nginx".to_owned(),
            script: None,
            title: title.map(str::to_owned),
            place: ServicePlace { unit: unit.map(str::to_owned), container: None },
            name: "nginx".to_owned(),
            is_kernel: false,
            is_recorder: false,
            is_of_command: false,
            allowed: None,
            is_reserved: false,
            priority: None,
        };
        (format!("nginx.{pid}"), thread)
    }

    fn subjects(threads: Vec<(String, Thread)>) -> Vec<(Option<String>, Vec<i32>, bool)> {
        let subjects = Subjects::new(threads.into_iter().collect(), &SocketActivities::default(), &HashMap::new());
        subjects.iter().map(|(_, subject)| (subject.title.clone(), subject.processes.clone(), subject.needs_place)).collect()
    }

    #[test]
    fn processes_with_the_same_role_are_one_subject() {
        let worker = || Some("nginx: worker process");
        let found = subjects(vec![thread(1, Some("nginx: master process"), None), thread(2, worker(), None), thread(3, worker(), None)]);
        let (master, worker) = (Some("nginx: master process".to_owned()), worker().map(str::to_owned));
        assert_eq!(found, [(master, vec![1], false), (worker, vec![2, 3], false)]);
    }

    #[test]
    fn processes_that_had_one_machine_after_another_are_a_pool() {
        let (machine, last) = thread(3, None, None);
        let found = subjects(vec![(machine, Thread { earlier: vec![1, 2], ..last })]);
        assert_eq!(found, [(None, vec![1, 2, 3], false)]);
    }

    #[test]
    fn subjects_with_one_name_in_two_units_are_shown_with_their_place() {
        let found =
            subjects(vec![thread(1, None, Some("a.service")), thread(2, None, Some("b.service")), thread(3, Some("nginx: x"), None)]);
        assert_eq!(found, [(None, vec![1], true), (None, vec![2], true), (Some("nginx: x".to_owned()), vec![3], false)]);
    }

    #[test]
    fn a_title_does_not_apply_to_the_program_that_the_process_ran_before() {
        let (_, mut before) = thread(1, None, None);
        before.program = "sh".to_owned();
        let mut threads = HashMap::from([("sh".to_owned(), before), thread(1, None, None)]);
        let titled = Titled { program: "nginx".to_owned(), parent: None, titles: vec!["nginx: worker process".to_owned()] };
        add_titles(&mut threads, &HashMap::from([(1, titled)]), 4);
        assert_eq!((threads["sh"].title.as_deref(), threads["nginx.1"].title.as_deref()), (None, Some("nginx: worker process")));
    }
}
