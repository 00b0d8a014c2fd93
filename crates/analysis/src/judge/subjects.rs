//! Whom a verdict can name: processes, pools of processes that do the same, threads of the kernel,
//! interrupts, machines of a log.
//!
//! The critical path knows machines by their names. A *subject* is what an engineer would name: the
//! process that a thread belongs to, or the pool of processes that run the same program in the same
//! role. Two Python processes of which one asks and the other answers are two subjects; four that
//! answer on one port are one. So are two that wait for each other in different ways, one for room
//! in a pipe and one for data in it: they are stages, and what helps one does not help the other.

use super::traffic::Traffic;
use crate::exchanges::{Conduct, Conducts};
use crate::what_if::Scenario;
use longpole_model::interaction::Vocabulary;
use longpole_model::names::NameId;
use std::collections::{BTreeMap, HashMap};

/// What the recording knows of the thread behind a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Thread {
    pub pid: i32,
    pub tid: i32,
    /// Name of the process's main thread.
    pub program: String,
    /// The file that the program got as its first argument, of an interpreter its script.
    pub script: Option<String>,
    /// Name of the thread.
    pub name: String,
    /// A thread of the kernel's own.
    pub is_kernel: bool,
    pub is_recorder: bool,
    /// Of the recorded command, or started by it.
    pub is_of_command: bool,
    /// On how many CPUs it may run, if that is known.
    pub allowed: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SubjectId(pub u32);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Role {
    /// It asks and is not asked.
    Client,
    /// It is asked.
    Server,
    None,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Level {
    Process,
    /// Several processes.
    Pool,
    /// A machine of which no process is known: of a machine log, or of probes alone.
    Machine,
    KernelThread,
    Interrupt,
}

#[derive(Clone, Debug)]
pub struct Subject {
    pub level: Level,
    pub host: String,
    pub name: String,
    /// What tells it from others of its program.
    pub script: Option<String>,
    pub processes: Vec<i32>,
    /// The port on which it is asked.
    pub port: Option<u16>,
    pub role: Role,
    pub is_recorder: bool,
    pub is_of_command: bool,
    pub conduct: Conduct,
    /// As the what-if knows it: the program, or the only thread of a stage.
    scaled: String,
}

impl Subject {
    /// All that it does takes half of the time.
    pub fn halved(&self) -> Scenario {
        Scenario::scale_all(&self.scaled, 0.5)
    }
}

#[derive(Debug, Default)]
pub struct Subjects {
    list: Vec<Subject>,
    /// By host and name of the machine.
    of: HashMap<(String, String), SubjectId>,
    /// The same of machines of the recording's own host.
    local: HashMap<String, SubjectId>,
    by_name: HashMap<String, Thread>,
}

impl Subjects {
    /// `threads`: by the names of their machines. `stages`: processes that do not do the same as
    /// others of their program.
    pub fn new(threads: HashMap<String, Thread>, conducts: &Conducts, stages: &HashMap<i32, Stage>) -> Subjects {
        let mut out = Subjects::default();
        let mut names: Vec<&String> = threads.keys().collect();
        names.sort_unstable();
        type Alike = ((String, Option<String>), Role, Option<u16>, (bool, bool), Option<Stage>);
        let mut known: HashMap<Alike, SubjectId> = HashMap::new();
        for name in names {
            let thread = &threads[name];
            if thread.is_kernel {
                continue;
            }
            let port = conducts.port(thread.pid);
            let role = match role(conducts.of(thread.pid)) {
                // Connections that were there before the recording tell only by their times who
                // asks.
                Role::Client if port.is_some() => Role::Server,
                role => role,
            };
            let of = (thread.is_recorder, thread.is_of_command);
            let stage = stages.get(&thread.pid).copied();
            let key = ((thread.program.clone(), thread.script.clone()), role, port.filter(|_| role == Role::Server), of, stage);
            let id = *known.entry(key).or_insert_with(|| {
                out.list.push(Subject {
                    level: Level::Process,
                    host: String::new(),
                    name: thread.program.clone(),
                    script: thread.script.clone(),
                    processes: Vec::new(),
                    port,
                    role,
                    is_recorder: thread.is_recorder,
                    is_of_command: thread.is_of_command,
                    conduct: Conduct::default(),
                    scaled: if stage.is_some() { name.clone() } else { thread.program.clone() },
                });
                SubjectId(out.list.len() as u32 - 1)
            });
            let subject = &mut out.list[id.0 as usize];
            if subject.scaled != *name {
                // A program of several threads has no other name of its own.
                subject.scaled.clone_from(&thread.program);
            }
            if !subject.processes.contains(&thread.pid) {
                subject.processes.push(thread.pid);
            }
            subject.port = subject.port.or(port);
            out.local.insert(name.clone(), id);
        }
        for subject in &mut out.list {
            subject.level = if subject.processes.len() > 1 { Level::Pool } else { Level::Process };
            subject.conduct = conducts.together(subject.processes.iter().copied());
        }
        out.by_name = threads;
        out
    }

    /// The subject of a machine on the path; one of its own where no process is known.
    pub fn of(&mut self, host: &str, machine: &str, class: &str, is_interrupt: bool) -> SubjectId {
        if let Some(id) = self.known(machine).filter(|_| host.is_empty()) {
            return id;
        }
        if let Some(&id) = self.of.get(&(host.to_owned(), machine.to_owned())) {
            return id;
        }
        let level = match self.by_name.get(machine) {
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
                    processes: Vec::new(),
                    port: None,
                    role: Role::None,
                    is_recorder: false,
                    is_of_command: false,
                    conduct: Conduct::default(),
                    scaled: class.to_owned(),
                });
                SubjectId(self.list.len() as u32 - 1)
            }
        };
        self.of.insert((host.to_owned(), machine.to_owned()), id);
        id
    }

    /// What the threads of a subject that do the same are called, where that is not the subject's name.
    pub fn role(&self, id: SubjectId, machine: &str) -> Option<String> {
        let thread = self.by_name.get(machine).filter(|thread| thread.name != self.get(id).name)?;
        let unnumbered = thread.name.trim_end_matches(|letter: char| letter.is_ascii_digit());
        // `GC Thread#1` is one of several; `python3` is not.
        let is_number = unnumbered.len() < thread.name.len() && unnumbered.ends_with(['#', '-', '_', '/', ':', ' ', '.']);
        let name = if is_number { unnumbered.trim_end_matches(['#', '-', '_', '/', ':', ' ', '.']) } else { &thread.name };
        (name != self.get(id).name).then(|| name.to_owned())
    }

    pub fn get(&self, id: SubjectId) -> &Subject {
        &self.list[id.0 as usize]
    }

    /// On how many CPUs the threads of a subject may run, each of them.
    pub fn allowed(&self, id: SubjectId) -> Option<u64> {
        let own = self.by_name.iter().filter(|(machine, _)| self.known(machine) == Some(id));
        own.filter_map(|(_, thread)| thread.allowed).max()
    }

    pub fn thread(&self, machine: &str) -> Option<&Thread> {
        self.by_name.get(machine)
    }

    pub fn iter(&self) -> impl Iterator<Item = (SubjectId, &Subject)> {
        self.list.iter().enumerate().map(|(at, subject)| (SubjectId(at as u32), subject))
    }

    /// All threads, by the names of their machines.
    pub fn threads(&self) -> impl Iterator<Item = (&str, &Thread)> {
        self.by_name.iter().map(|(name, thread)| (name.as_str(), thread))
    }

    /// The subject of a thread's machine.
    pub fn known(&self, machine: &str) -> Option<SubjectId> {
        self.local.get(machine).copied()
    }
}

/// The first argument of a process that lives for a small part of the time is an item (`gcc
/// order.c`), and tells it from nobody.
pub fn leave_items(threads: &mut HashMap<String, Thread>, traffic: &Traffic, vocabulary: &Vocabulary, least: f64) {
    let (begin, end) = traffic.range();
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
        if (lived as f64) < least * (end - begin) as f64 {
            thread.script = None;
        }
    }
}

/// In what a process mostly waits for others of its program. None: it wakes them, and waits for
/// none.
pub type Stage = Option<NameId>;

/// Processes of one program that do not do the same, since they wait for each other in different
/// ways.
pub fn stages(traffic: &Traffic, threads: &HashMap<String, Thread>, vocabulary: &Vocabulary, least: u64) -> HashMap<i32, Stage> {
    let mut waits: BTreeMap<(&str, i32), BTreeMap<NameId, u64>> = BTreeMap::new();
    for (by, machine, pair) in traffic.pairs() {
        let thread = |machine| threads.get(vocabulary.machine_name(machine)).filter(|thread| !thread.is_kernel);
        let (Some(by), Some(woken), Some(why)) = (thread(by), thread(machine), pair.why) else { continue };
        if by.program == woken.program && by.pid != woken.pid && pair.direct >= least {
            *waits.entry((&woken.program, woken.pid)).or_default().entry(why).or_default() += pair.direct;
            waits.entry((&by.program, by.pid)).or_default();
        }
    }
    let most = |counts: BTreeMap<NameId, u64>| counts.into_iter().max_by_key(|&(_, count)| count).map(|(why, _)| why);
    let of: Vec<((&str, i32), Stage)> = waits.into_iter().map(|(process, counts)| (process, most(counts))).collect();
    let differs = |program: &str, stage: Stage| of.iter().any(|((other, _), of)| *other == program && *of != stage);
    of.iter().filter(|((program, _), stage)| differs(program, *stage)).map(|&((_, process), stage)| (process, stage)).collect()
}

fn role(conduct: Option<&Conduct>) -> Role {
    match conduct {
        Some(conduct) if conduct.served.count > 0 => Role::Server,
        Some(conduct) if conduct.asked.count > 0 => Role::Client,
        _ => Role::None,
    }
}
