//! Address spaces: the files that each process had mapped at the time of a sample.
//!
//! Events come in the order of time. Mappings that existed at the begin of the recording come
//! first. A fork copies a space, an exec empties it, and a later mapping replaces earlier ones at
//! the same addresses.

use longpole_trace::event::{Catalogue, Class, Event, StreamId, StreamKind};
use longpole_trace::Value;
use std::cell::Cell;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::rc::Rc;

/// Index into [`Spaces::modules`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ModuleId(pub u32);

/// A file with code, or a special mapping of the kernel such as `[vdso]`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Module {
    /// Path as the process saw it.
    pub path: Vec<u8>,
    pub inode: u64,
}

/// Meaning of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Place {
    Kernel(u64),
    /// Offset in bytes in a module's file.
    File(ModuleId, u64),
    /// Address in code that this process generated itself.
    Made(i32, u64),
    Unknown(u64),
}

#[derive(Clone, Copy, Debug)]
struct Mapping {
    end: u64,
    offset: u64,
    /// The mapped module; `None` for code that the process generated itself.
    module: Option<ModuleId>,
}

/// A process and its state.
#[derive(Clone, Debug, Default)]
pub struct Process {
    space: Space,
    pub comm: Rc<str>,
    /// User id, and process id in the process's own namespace. Known for processes that generate
    /// code.
    pub owner: Option<(u32, i32)>,
    /// The log of the code that the process generates, if it writes one.
    pub code_log: Option<ModuleId>,
    /// Set after the process's exit.
    pub ended: bool,
}

/// Mappings of a process. A child shares those of its parent until one of the two changes them.
#[derive(Clone, Debug, Default)]
struct Space(Rc<Held>);

#[derive(Debug, Default)]
struct Held {
    mappings: BTreeMap<u64, Mapping>,
    /// Number that no other state of any space has; 0 if there are no mappings.
    version: u64,
    all: Rc<All>,
}

/// What all spaces of a recording have in common.
#[derive(Debug, Default)]
struct All {
    /// Number of mappings in all spaces.
    mappings: Cell<usize>,
    /// The newest version of any space.
    version: Cell<u64>,
}

impl Drop for Held {
    fn drop(&mut self) {
        self.all.mappings.set(self.all.mappings.get().saturating_sub(self.mappings.len()));
    }
}

impl Space {
    /// Returns the mappings for modification, after copying them if they are shared. Returns `None`
    /// if there is no room for a copy.
    fn own(&mut self, all: &Rc<All>) -> Option<&mut BTreeMap<u64, Mapping>> {
        if Rc::get_mut(&mut self.0).is_none() || !Rc::ptr_eq(&self.0.all, all) {
            let sum = all.mappings.get() + self.0.mappings.len();
            if sum > MAX_MAPPINGS_IN_ALL {
                return None;
            }
            all.mappings.set(sum);
            self.0 = Rc::new(Held { mappings: self.0.mappings.clone(), version: 0, all: Rc::clone(all) });
        }
        let held = Rc::get_mut(&mut self.0)?;
        all.version.set(all.version.get() + 1);
        held.version = all.version.get();
        Some(&mut held.mappings)
    }
}

/// Kind of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Sample,
    Stack,
    Copied,
    WaitingRate,
    Mapping,
    Comm,
    Fork,
    Exit,
    Process,
    Other,
}

/// Change of a process or of its mappings.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Change<'a> {
    Mapping {
        start: u64,
        length: u64,
        offset: u64,
        inode: u64,
        path: &'a [u8],
    },
    /// `exec` is set if the process now executes another program.
    Comm {
        exec: bool,
        name: &'a str,
    },
    Fork {
        parent: i32,
    },
    Exit,
    /// User of the process, and its id in its own namespace.
    Process {
        uid: u32,
        inner: i32,
    },
}

/// Reason why a stack was recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Cause {
    /// The thread was running when a timer expired.
    Running,
    /// The thread was off the CPU until just before.
    Waited,
    /// The thread woke the thread `tid`.
    Woke { tid: i32 },
}

/// Addresses of a sample, innermost first.
#[derive(Clone, Copy, Debug)]
pub struct Sample<'a> {
    pub t_ns: i64,
    pub pid: i32,
    pub tid: i32,
    pub cpu: Option<u32>,
    pub cause: Cause,
    /// Set if `user` is known to lack the outermost functions.
    pub truncated: bool,
    /// Set if the stack was copied, so that `truncated` is known.
    pub copied: bool,
    /// Sampling period of waits on this CPU in ns; `None` if waits are not sampled.
    pub waiting_period_ns: Option<u64>,
    pub kernel: &'a [u64],
    pub user: &'a [u64],
}

/// Maximum number of ended processes that are still known. They are needed because samples of a
/// process's last threads may come after its end.
const MAX_ENDED: usize = 4096;
/// Maximum number of mappings of one process, and of modules, because a hostile recording could
/// name any number.
const MAX_MAPPINGS: usize = 1 << 16;
/// Maximum number of mappings of all processes. A space shared by several processes counts once.
const MAX_MAPPINGS_IN_ALL: usize = 1 << 21;
const MAX_MODULES: usize = 1 << 20;
/// Maximum number of streams; there is one per CPU.
const MAX_STREAMS: usize = 1 << 16;
/// Maximum number of processes; Linux allows no more at the same time.
const MAX_PROCESSES: usize = 1 << 22;

/// Follows the processes of a recording and their mappings.
#[derive(Debug, Default)]
pub struct Spaces {
    kinds: Vec<Option<Kind>>,
    modules: Vec<Module>,
    ids: HashMap<Module, ModuleId>,
    processes: HashMap<i32, Process>,
    ended: VecDeque<i32>,
    /// Number of mappings in all spaces, and number of mappings for which there was no room.
    held: Rc<All>,
    left_out: u64,
    kernel: Vec<u64>,
    user: Vec<u64>,
    /// Sampling period of waits in ns, by stream.
    waiting_periods: HashMap<StreamId, u64>,
}

impl Spaces {
    /// Processes an event of any trace. Events of other streams than samples are ignored. Returns
    /// the addresses if the event is a sample.
    pub fn follow(&mut self, catalogue: &Catalogue, event: &Event<'_>) -> Option<Sample<'_>> {
        let kind = self.kind(catalogue, event);
        if kind == Kind::Other {
            return None;
        }
        let id = |value: Option<&Value<'_>>| value.and_then(Value::as_i64).and_then(|id| i32::try_from(id).ok());
        let pid = id(event.context.first())?;
        let tid = id(event.context.get(1))?;
        let number = |at: usize| event.fields.get(at).and_then(Value::as_u64);
        // Number of fields before the addresses.
        let (cause, truncated, before) = match kind {
            Kind::Sample => (Cause::Running, false, 0),
            Kind::Stack => (cause(number(0)?, id(event.fields.get(1))?)?, number(2)? != 0, 3),
            Kind::Copied => (cause(number(0)?, id(event.fields.get(1))?)?, true, 2),
            _ => {
                self.follow_process(kind, (pid, tid), event);
                return None;
            }
        };
        addresses(event.fields.get(before + 1), &mut self.kernel);
        addresses(event.fields.get(before + 3), &mut self.user);
        let waiting_period_ns = self.waiting_periods.get(&event.stream).copied();
        let (t_ns, cpu, copied) = (event.t_ns, event.cpu, kind != Kind::Sample);
        Some(Sample { t_ns, pid, tid, cpu, cause, truncated, copied, waiting_period_ns, kernel: &self.kernel, user: &self.user })
    }

    /// Processes an event that is not a sample.
    fn follow_process(&mut self, kind: Kind, (pid, tid): (i32, i32), event: &Event<'_>) -> Option<()> {
        let id = |value: Option<&Value<'_>>| value.and_then(Value::as_i64).and_then(|id| i32::try_from(id).ok());
        let number = |at: usize| event.fields.get(at).and_then(Value::as_u64);
        match kind {
            Kind::WaitingRate => {
                let room = self.waiting_periods.len() < MAX_STREAMS || self.waiting_periods.contains_key(&event.stream);
                if let Some(period) = number(0).filter(|_| room) {
                    self.waiting_periods.insert(event.stream, period);
                }
            }
            Kind::Mapping => {
                let Some(Value::Str(path)) = event.fields.get(4) else { return None };
                let (start, length, offset, inode) = (number(0)?, number(1)?, number(2)?, number(3)?);
                self.apply(pid, tid, Change::Mapping { start, length, offset, inode, path });
            }
            Kind::Comm => {
                let (exec, name) = (number(0)?, event.fields.get(1).and_then(Value::text)?);
                self.apply(pid, tid, Change::Comm { exec: exec != 0, name: &name });
            }
            Kind::Fork => self.apply(pid, tid, Change::Fork { parent: id(event.fields.first())? }),
            Kind::Exit => self.apply(pid, tid, Change::Exit),
            Kind::Process => self.apply(pid, tid, Change::Process { uid: number(0)? as u32, inner: id(event.fields.get(1))? }),
            Kind::Sample | Kind::Stack | Kind::Copied | Kind::Other => {}
        }
        Some(())
    }

    /// Applies a change of a process.
    pub(crate) fn apply(&mut self, pid: i32, tid: i32, change: Change<'_>) {
        if self.processes.len() >= MAX_PROCESSES && !matches!(change, Change::Exit) {
            return;
        }
        match change {
            Change::Mapping { start, length, offset, inode, path } => self.map(pid, start, length, offset, path, inode),
            Change::Comm { exec, name } => {
                if exec {
                    self.processes.remove(&pid);
                }
                if pid == tid || exec {
                    self.processes.entry(pid).or_default().comm = Rc::from(name);
                }
            }
            Change::Fork { parent } => {
                if parent != pid {
                    let child = self.processes.get(&parent).cloned().unwrap_or_default();
                    self.processes.insert(pid, Process { owner: None, ended: false, ..child });
                }
            }
            Change::Exit => {
                if pid == tid {
                    self.end(pid);
                }
            }
            Change::Process { uid, inner } => self.processes.entry(pid).or_default().owner = Some((uid, inner)),
        }
    }

    fn kind(&mut self, catalogue: &Catalogue, event: &Event<'_>) -> Kind {
        let at = event.class.0 as usize;
        if let Some(Some(kind)) = self.kinds.get(at) {
            return *kind;
        }
        let of_samples = catalogue.streams.get(event.stream.0 as usize).is_some_and(|stream| stream.kind == StreamKind::Samples);
        let kind = catalogue.classes.get(at).filter(|_| of_samples).map_or(Kind::Other, kind);
        if self.kinds.len() <= at {
            self.kinds.resize(at + 1, None);
        }
        self.kinds[at] = Some(kind);
        kind
    }

    fn end(&mut self, pid: i32) {
        let Some(process) = self.processes.get_mut(&pid) else { return };
        if std::mem::replace(&mut process.ended, true) {
            return;
        }
        self.ended.push_back(pid);
        if self.ended.len() > MAX_ENDED {
            if let Some(oldest) = self.ended.pop_front() {
                // The process id may belong to a new process by now.
                if self.processes.get(&oldest).is_some_and(|process| process.ended) {
                    self.processes.remove(&oldest);
                }
            }
        }
    }

    fn map(&mut self, pid: i32, start: u64, length: u64, offset: u64, path: &[u8], inode: u64) {
        let Some(end) = start.checked_add(length).filter(|&end| end > start) else { return };
        let module = match path {
            b"//anon" => None,
            path if path.starts_with(b"/memfd:") => None,
            path => match self.module(path, inode) {
                Some(module) => Some(module),
                None => return,
            },
        };
        let process = self.processes.entry(pid).or_default();
        if module.is_some() && is_code_log(path) {
            process.code_log = module;
        }
        let Some(mappings) = process.space.own(&self.held) else {
            // Without room for a copy, the process's mappings are unknown from here on.
            self.left_out += 1;
            process.space = Space::default();
            return;
        };
        let before = mappings.len();
        cut(mappings, start, end);
        let room = mappings.len() < MAX_MAPPINGS && self.held.mappings.get() < MAX_MAPPINGS_IN_ALL;
        if room {
            mappings.insert(start, Mapping { end, offset, module });
        }
        self.left_out += u64::from(!room);
        let after = mappings.len();
        self.held.mappings.set((self.held.mappings.get() + after).saturating_sub(before));
    }

    fn module(&mut self, path: &[u8], inode: u64) -> Option<ModuleId> {
        let module = Module { path: path.to_vec(), inode };
        if let Some(id) = self.ids.get(&module) {
            return Some(*id);
        }
        if self.modules.len() >= MAX_MODULES {
            return None;
        }
        let id = ModuleId(self.modules.len() as u32);
        self.modules.push(module.clone());
        self.ids.insert(module, id);
        Some(id)
    }

    /// Returns the current meaning of an address in a process's user space.
    pub fn place(&self, pid: i32, address: u64) -> Place {
        let found = self.processes.get(&pid).and_then(|process| process.space.0.mappings.range(..=address).next_back());
        match found {
            Some((&start, mapping)) if address < mapping.end => match mapping.module {
                Some(module) => Place::File(module, (address - start).wrapping_add(mapping.offset)),
                None => Place::Made(pid, address),
            },
            _ => Place::Unknown(address),
        }
    }

    /// Returns a number for the mappings of a process: as long as it is the same, for this process
    /// or another one, so is the module at each address.
    pub(crate) fn version(&self, pid: i32) -> u64 {
        self.processes.get(&pid).map_or(0, |process| process.space.0.version)
    }

    /// Returns the number of mappings for which there was no room. Addresses in them are unknown.
    pub fn left_out(&self) -> u64 {
        self.left_out
    }

    /// Returns all modules, indexed by [`ModuleId`].
    pub fn modules(&self) -> &[Module] {
        &self.modules
    }

    pub fn process(&self, pid: i32) -> Option<&Process> {
        self.processes.get(&pid)
    }

    /// Returns the processes that have not ended, with each of their modules' mappings (begin,
    /// end).
    pub fn living(&self) -> impl Iterator<Item = (i32, ModuleId, (u64, u64))> + '_ {
        let living = self.processes.iter().filter(|(_, process)| !process.ended);
        living.flat_map(|(&pid, process)| {
            process.space.0.mappings.iter().filter_map(move |(&start, mapping)| Some((pid, mapping.module?, (start, mapping.end))))
        })
    }
}

/// Returns whether a mapped file is a log of generated code. A program maps its log as code, so
/// that profilers find it.
fn is_code_log(path: &[u8]) -> bool {
    let name = path.rsplit(|&byte| byte == b'/').next().unwrap_or(path);
    let pid = name.strip_prefix(b"jit-").and_then(|rest| rest.strip_suffix(b".dump"));
    pid.is_some_and(|pid| !pid.is_empty() && pid.iter().all(u8::is_ascii_digit))
}

/// Fields of a sample with a copy of the stack.
const COPIED: [&str; 12] =
    ["cause", "other_tid", "kernel_length", "kernel", "user_length", "user", "ip", "sp", "fp", "lr", "stack_length", "stack"];

/// Returns the reason for a stack; `None` if this version does not know it.
fn cause(number: u64, other_tid: i32) -> Option<Cause> {
    match number {
        0 => Some(Cause::Running),
        1 => Some(Cause::Waited),
        2 => Some(Cause::Woke { tid: other_tid }),
        _ => None,
    }
}

/// Returns the kind of a class. A class is known only if it has exactly the expected fields in
/// their order.
fn kind(class: &Class) -> Kind {
    let known: [(&str, &[&str], Kind); 9] = [
        ("sample", &["kernel_length", "kernel", "user_length", "user"], Kind::Sample),
        ("stack", &["cause", "other_tid", "truncated", "kernel_length", "kernel", "user_length", "user"], Kind::Stack),
        ("copied", &COPIED, Kind::Copied),
        ("waiting_rate", &["period_ns"], Kind::WaitingRate),
        ("mapping", &["start", "length", "offset", "inode", "path"], Kind::Mapping),
        ("comm", &["exec", "comm"], Kind::Comm),
        ("fork", &["parent_pid", "parent_tid"], Kind::Fork),
        ("exit", &[], Kind::Exit),
        ("process", &["uid", "namespace_pid"], Kind::Process),
    ];
    let same = |(name, fields, _): &&(&str, &[&str], Kind)| {
        class.event_name == *name && class.fields.iter().map(String::as_str).eq(fields.iter().copied())
    };
    if !class.context.iter().map(String::as_str).eq(["pid", "tid"]) {
        return Kind::Other;
    }
    known.iter().find(same).map_or(Kind::Other, |(_, _, kind)| *kind)
}

fn addresses(value: Option<&Value<'_>>, to: &mut Vec<u64>) {
    to.clear();
    if let Some(Value::Nested(list)) = value {
        let _ = list.each(|_, address| {
            to.push(address.as_u64().unwrap_or(0));
            Ok::<(), ()>(())
        });
    }
}

/// Makes room for a mapping: removes earlier mappings in the range, and shortens those that extend
/// beyond it.
fn cut(mappings: &mut BTreeMap<u64, Mapping>, start: u64, end: u64) {
    if let Some((&before, &mapping)) = mappings.range(..start).next_back() {
        if mapping.end > start {
            mappings.insert(before, Mapping { end: start, ..mapping });
            if mapping.end > end {
                mappings.insert(end, Mapping { offset: mapping.offset.wrapping_add(end - before), ..mapping });
            }
        }
    }
    while let Some((&within, &mapping)) = mappings.range(start..end).next() {
        mappings.remove(&within);
        if mapping.end > end {
            mappings.insert(end, Mapping { offset: mapping.offset.wrapping_add(end - within), ..mapping });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn total_number_of_mappings_is_bounded() {
        let mut spaces = Spaces::default();
        let many = 1 << 12;
        for n in 0..many {
            spaces.map(1, 0x1000 * (2 * n + 1), 0x1000, 0, b"/a", 1);
        }
        let children = 3000;
        for pid in 2..children {
            let child = spaces.processes[&1].clone();
            spaces.processes.insert(pid, child);
            spaces.map(pid, 0, 0x10, 0, b"/a", 1);
        }
        let held = spaces.held.mappings.get();
        assert!(held <= MAX_MAPPINGS_IN_ALL && held > MAX_MAPPINGS_IN_ALL / 2, "{held}");
        assert!(spaces.left_out() > 1000, "{}", spaces.left_out());
        assert!(matches!(spaces.place(2, 0x1010), Place::File(..)));
        assert_eq!(spaces.place(children - 1, 0x1010), Place::Unknown(0x1010));
        // Ended processes release their room.
        spaces.processes.clear();
        assert_eq!(spaces.held.mappings.get(), 0);
        spaces.map(1, 0x1000, 0x1000, 0, b"/a", 1);
        assert!(matches!(spaces.place(1, 0x1010), Place::File(..)));
    }

    #[test]
    fn later_mapping_replaces_only_the_overlapping_part_of_earlier_ones() {
        let mut spaces = Spaces::default();
        spaces.map(7, 0x1000, 0x4000, 0x100_0000, b"/a", 1);
        spaces.map(7, 0x2000, 0x1000, 0, b"/b", 2);
        let place = |spaces: &Spaces, address| match spaces.place(7, address) {
            Place::File(module, offset) => (spaces.modules()[module.0 as usize].path.clone(), offset),
            other => panic!("{other:?}"),
        };
        assert_eq!(place(&spaces, 0x1fff), (b"/a".to_vec(), 0x100_0fff));
        assert_eq!(place(&spaces, 0x2004), (b"/b".to_vec(), 4));
        assert_eq!(place(&spaces, 0x3000), (b"/a".to_vec(), 0x100_2000));
        assert_eq!(spaces.place(7, 0x5000), Place::Unknown(0x5000));
        assert_eq!(spaces.place(8, 0x2000), Place::Unknown(0x2000));
        spaces.map(7, 0x0, 0x10000, 0, b"//anon", 0);
        assert_eq!(spaces.place(7, 0x3000), Place::Made(7, 0x3000));
        // Neither overflow nor an empty range adds a module.
        spaces.map(7, u64::MAX, 5, 0, b"/c", 3);
        spaces.map(7, 5, 0, 0, b"/c", 3);
        assert_eq!(spaces.modules().len(), 2);
    }
}
