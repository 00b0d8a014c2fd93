//! Names of machines: a thread is named after its component or program and its own name, a context
//! after what it handles and its CPU.

use super::ending::Relation;
use super::{Composer, Machines, RunsOn};
use crate::interaction::{Effect, MachineId};
use crate::kinds::machine_label;
use crate::linux::Linux;
use longpole_trace::event::Catalogue;
use std::collections::{HashMap, HashSet};

/// Maximum number of renames of one thread that are followed.
const MAX_RENAMES: u8 = 32;

#[derive(Debug, Default)]
pub(super) struct Naming {
    /// Number of the catalogue's subjects that have been processed.
    subjects: usize,
    /// Process, label and name of threads with probes, by thread id.
    threads: HashMap<i32, (i32, String, String)>,
    labels: HashMap<i32, String>,
    /// The host that is omitted from the names of its machines.
    home: Option<String>,
    taken: Machines,
    /// Machines that belong to the recorder.
    recorders: HashSet<MachineId>,
    /// The thread of each machine that is a thread of the kernel's events.
    threads_of_machines: Vec<ThreadOfMachine>,
    /// True for each machine whose class was emitted.
    classed: Vec<bool>,
    /// The thread or the CPU of each machine that is a thread or an interrupt context.
    pub runs_on: Vec<(MachineId, RunsOn)>,
}

impl Naming {
    /// Learns the subjects in the catalogue. Threads with probes get their names before their first
    /// event, so that the kernel's events about them use these names too.
    #[inline]
    pub(super) fn learn(&mut self, catalogue: &Catalogue) {
        if self.subjects < catalogue.subjects.len() {
            self.learn_new(catalogue);
        }
    }

    #[cold]
    fn learn_new(&mut self, catalogue: &Catalogue) {
        for subject in &catalogue.subjects[self.subjects..] {
            if !subject.host.is_empty() && self.home.is_none() {
                self.home = Some(subject.host.clone());
            }
            let (Some(pid), Some(tid)) = (subject.pid, subject.tid) else { continue };
            if subject.label.is_empty() {
                continue;
            }
            self.labels.insert(pid, subject.label.clone());
            self.threads.insert(tid, (pid, subject.label.clone(), subject.thread.clone()));
        }
        self.subjects = catalogue.subjects.len();
    }

    pub(super) fn host<'a>(&self, host: &'a str) -> &'a str {
        match &self.home {
            Some(home) if home == host => "",
            _ => host,
        }
    }
}

/// The thread behind a machine, at the time when the machine got its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ThreadOfMachine {
    pub machine: MachineId,
    pub process: i32,
    pub tid: i32,
    /// Name of the process's main thread.
    pub program: String,
    /// Name of the thread.
    pub name: String,
    /// True for a kernel thread.
    pub is_kernel: bool,
    /// True for a thread of the recorded command, or one started by it.
    pub is_of_command: bool,
}

/// The name of a machine, and the class that similar machines share.
pub(super) struct ThreadName {
    pub host: String,
    pub name: String,
    pub class: Option<String>,
    pub tid: Option<i32>,
}

fn whole(label: &str, thread: &str, is_main: bool) -> String {
    match (label, thread) {
        ("", thread) => thread.to_owned(),
        (label, _) if is_main => label.to_owned(),
        (label, "") => label.to_owned(),
        (label, thread) => format!("{label}/{thread}"),
    }
}

impl Composer {
    fn thread_name(&mut self, catalogue: &Catalogue, at: u32) -> ThreadName {
        self.naming.learn(catalogue);
        let thread = &self.threads[at];
        let naming = &self.naming;
        if let Some(id) = thread.linux {
            let of_kernel = &self.linux.threads[id.0 as usize];
            let (tid, comm) = (of_kernel.tid, of_kernel.name());
            if let Some((pid, label, name)) = naming.threads.get(&tid) {
                let name = if name.is_empty() { comm.as_str() } else { name };
                return ThreadName { host: String::new(), name: whole(label, name, *pid == tid), class: None, tid: Some(tid) };
            }
            if of_kernel.kernel {
                let class = comm.split('/').next().filter(|class| *class != comm).map(str::to_owned);
                return ThreadName { host: String::new(), name: comm, class, tid: Some(tid) };
            }
            let process = of_kernel.process.unwrap_or(tid);
            let label = naming.labels.get(&process).cloned().or_else(|| name_of(&self.linux, process)).unwrap_or_default();
            return ThreadName { host: String::new(), name: whole(&label, &comm, process == tid), class: None, tid: Some(tid) };
        }
        let Some(actor) = self.actor_of(at) else {
            return ThreadName { host: String::new(), name: "unknown".to_owned(), class: None, tid: None };
        };
        let mut name = whole(&actor.label, &actor.thread, actor.pid.is_some() && actor.pid == actor.tid);
        if name.is_empty() {
            name = actor.tid.map_or_else(|| "unknown".to_owned(), |tid| format!("tid {tid}"));
        }
        ThreadName { host: naming.host(&actor.host).to_owned(), name, class: None, tid: actor.tid }
    }

    /// The machine of a thread. If the thread has none yet, one is created, and its existence is
    /// emitted.
    pub(super) fn machine(&mut self, catalogue: &Catalogue, at: u32) -> MachineId {
        match self.threads[at].machine {
            Some(machine) => machine,
            None => {
                let machine = self.assign_machine(catalogue, at);
                self.emit(Effect::Here { machine });
                machine
            }
        }
    }

    /// Gives a thread its machine. The caller emits the machine's first effect.
    pub(super) fn assign_machine(&mut self, catalogue: &Catalogue, at: u32) -> MachineId {
        let ThreadName { host, name, class, tid } = self.thread_name(catalogue, at);
        let name = machine_label(&name).into_owned();
        let mut machine = self.system.vocabulary.machine(&host, &name);
        let mut class_name = class.unwrap_or_else(|| name.clone());
        if self.naming.taken.contains_key(&machine) {
            class_name = if class_name == name { name.clone() } else { class_name };
            for number in 0.. {
                let with = match (number, tid) {
                    (0, Some(tid)) => format!("{name}.{tid}"),
                    (number, Some(tid)) => format!("{name}.{tid}.{number}"),
                    (number, None) => format!("{name}.{}", number + 1),
                };
                machine = self.system.vocabulary.machine(&host, &with);
                if !self.naming.taken.contains_key(&machine) {
                    break;
                }
            }
        }
        self.naming.taken.insert(machine, at);
        self.naming.runs_on.extend(tid.map(|tid| (machine, RunsOn::Thread(tid))));
        self.note_thread_of_machine(machine, at);
        self.emit_class(machine, &class_name);
        let id = self.threads[at].linux;
        let recorder = self.is_recorders(at, &name);
        self.mark_recorder(machine, recorder);
        let thread = &mut self.threads[at];
        thread.machine = Some(machine);
        thread.recorder = recorder;
        thread.comm.set(id.map_or(&[], |id| &self.linux.threads[id.0 as usize].name));
        machine
    }

    fn note_thread_of_machine(&mut self, machine: MachineId, at: u32) {
        let Some(id) = self.threads[at].linux else { return };
        let of_kernel = &self.linux.threads[id.0 as usize];
        let (tid, process) = (of_kernel.tid, of_kernel.process.unwrap_or(of_kernel.tid));
        let name = of_kernel.name();
        let program = name_of(&self.linux, process).unwrap_or_else(|| name.clone());
        let is_of_command = self.relation(at) != Relation::Stranger;
        let is_kernel = of_kernel.kernel;
        self.naming.threads_of_machines.push(ThreadOfMachine { machine, process, tid, program, name, is_kernel, is_of_command });
    }

    /// The threads of the kernel's events, each with its machine. A thread that executes another
    /// program becomes another machine and is listed again.
    pub fn threads_of_machines(&self) -> &[ThreadOfMachine] {
        &self.naming.threads_of_machines
    }

    /// True for a thread of the recorder, and for a process that the recorder forked and that
    /// executes no other program yet.
    fn is_recorders(&self, at: u32, name: &str) -> bool {
        let thread = &self.threads[at];
        let Some(pid) = self.about.recorder else { return is_named_as_recorder(name) };
        match thread.linux.map(|id| &self.linux.threads[id.0 as usize]) {
            Some(of_kernel) => of_kernel.process.unwrap_or(of_kernel.tid) == pid || thread.forked_by_recorder && !of_kernel.executed,
            None => false,
        }
    }

    /// Notes that a process forked by the recorder executes a program of its own, even if the
    /// program has the recorder's name.
    pub(super) fn leave_recorder(&mut self, at: u32) {
        let thread = &self.threads[at];
        let of_kernel = thread.linux.map(|id| &self.linux.threads[id.0 as usize]);
        // A program with another name becomes another machine; the machine of the forked process
        // remains the recorder's.
        let renamed = of_kernel.is_some_and(|of_kernel| of_kernel.name != thread.comm.text());
        if renamed || !of_kernel.is_some_and(|of_kernel| of_kernel.executed) || !thread.recorder || !thread.forked_by_recorder {
            return;
        }
        let thread = &mut self.threads[at];
        (thread.recorder, thread.forked_by_recorder) = (false, false);
        if let Some(machine) = thread.machine {
            self.mark_recorder(machine, false);
        }
    }

    fn mark_recorder(&mut self, machine: MachineId, is: bool) {
        match is {
            true => self.naming.recorders.insert(machine),
            false => self.naming.recorders.remove(&machine),
        };
        self.system.vocabulary.mark_recorder(machine, is);
    }

    /// Names of the machines that belong to the recorder.
    pub fn recorders(&self) -> impl Iterator<Item = &str> {
        self.naming.recorders.iter().map(|&machine| self.system.vocabulary.machine_name(machine))
    }

    /// Emits the class of a machine, once.
    pub(super) fn emit_class(&mut self, machine: MachineId, class: &str) {
        let at = machine.0 as usize;
        if self.naming.classed.len() <= at {
            self.naming.classed.resize(at + 1, false);
        }
        if !std::mem::replace(&mut self.naming.classed[at], true) && self.system.vocabulary.machine_name(machine) != class {
            let class = self.system.vocabulary.names.intern(class);
            self.emit(Effect::Class { machine, class });
        }
    }

    pub(super) fn free_name(&mut self, machine: MachineId) {
        self.naming.taken.remove(&machine);
    }

    /// True if the thread executes another program, or has been renamed: it continues as another
    /// machine.
    pub(super) fn takes_new_name(&mut self, at: u32) -> bool {
        let thread = &mut self.threads[at];
        let Some(id) = thread.linux.filter(|_| thread.machine.is_some()) else { return false };
        let of_kernel = &self.linux.threads[id.0 as usize];
        if thread.comm.text() == of_kernel.name || of_kernel.name.is_empty() {
            return false;
        }
        thread.comm.set(&of_kernel.name);
        if thread.renames >= MAX_RENAMES || of_kernel.kernel || self.naming.threads.contains_key(&of_kernel.tid) {
            return false;
        }
        thread.renames += 1;
        true
    }
}

/// True if the name is that of a recorder that was not renamed. A machine log contains nothing else
/// by which a recorder could be recognised.
pub fn is_named_as_recorder(machine: &str) -> bool {
    machine.strip_prefix("longpole").is_some_and(|rest| rest.is_empty() || rest.starts_with(['/', '.']))
}

/// Name of the main thread of a process.
fn name_of(linux: &Linux, process: i32) -> Option<String> {
    linux.thread_of(process).map(|main| &linux.threads[main.0 as usize]).filter(|main| !main.name.is_empty()).map(|main| main.name())
}
