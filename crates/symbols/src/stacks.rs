//! Samples as stacks of named frames, for analyses.

use crate::frame::{Frame, FrameId, Origin};
use crate::kernel::Kernel;
use crate::library::Libraries;
use crate::runtime::{self, Runtime};
use crate::spaces::{Cause, Place, Spaces};
use crate::table::{clean, Function, Table};
use longpole_trace::event::{Catalogue, Event};
use std::collections::HashMap;
use std::path::Path;
use std::rc::Rc;

/// One sample.
#[derive(Clone, Debug)]
pub struct Stack<'a> {
    pub t_ns: i64,
    /// Process id; 0 for a process without an id in the recorder's pid namespace, as when the
    /// recorder runs in a container.
    pub pid: i32,
    pub tid: i32,
    pub cpu: Option<u32>,
    /// Name of the process; empty if unknown.
    pub process: Rc<str>,
    /// Reason why the stack was recorded.
    pub cause: Cause,
    /// Set if the stack is known to lack its outermost functions.
    pub truncated: bool,
    /// Set if the stack was copied, so that `truncated` is known. The kernel follows other stacks
    /// by frame pointers, and does not report where these are wrong.
    pub copied: bool,
    /// Sampling period of waits on this CPU in ns: a wait of length L was recorded with probability
    /// min(1, L / period). `None` if waits are not sampled.
    pub waiting_period_ns: Option<u64>,
    /// Functions, innermost first: the kernel's, then the program's. Inlined functions have frames
    /// of their own. A function has one id wherever in it the stack goes through, and all code of a
    /// module without names is one function.
    pub frames: &'a [FrameId],
    /// Place in each function of `frames`: the same function, with file and line where they are
    /// known, or the offset in a module without names.
    pub places: &'a [FrameId],
    /// Position in `frames` of the function that runs ([`Stacks::running_frame`]).
    pub running: usize,
}

/// Maximum number of different frames. Further ones are `[unknown]`.
const MAX_FRAMES: usize = 1 << 22;
/// Maximum number of places whose frames are remembered.
const MAX_PLACES: usize = 1 << 22;

/// Follows a trace, event by event in the order of time.
#[derive(Debug, Default)]
pub struct Stacks {
    spaces: Spaces,
    kernel: Kernel,
    table: Table,
    libraries: Libraries,
    frames: Vec<Frame>,
    ids: HashMap<Frame, FrameId>,
    /// Functions of a place, and the places in them.
    known: HashMap<Place, Box<[(FrameId, FrameId)]>>,
    functions: Vec<FrameId>,
    places: Vec<FrameId>,
    addresses: Vec<Place>,
}

impl Stacks {
    /// Loads the names from a recording. Without a recording, frames are modules with offsets.
    pub fn open(recording: Option<&Path>) -> Stacks {
        match recording {
            Some(recording) => {
                let (kernel, table) = (Kernel::load(recording), Table::load(recording));
                let mut libraries = Libraries::default();
                table.functions().for_each(|function| libraries.add(function));
                Stacks { kernel, table, libraries, ..Stacks::default() }
            }
            None => Stacks::default(),
        }
    }

    /// Processes an event of any stream. Returns a stack if the event is a sample.
    pub fn follow(&mut self, catalogue: &Catalogue, event: &Event<'_>) -> Option<Stack<'_>> {
        let sample = self.spaces.follow(catalogue, event)?;
        let (t_ns, pid, tid, cpu) = (sample.t_ns, sample.pid, sample.tid, sample.cpu);
        let (cause, truncated, copied, waiting_period_ns) = (sample.cause, sample.truncated, sample.copied, sample.waiting_period_ns);
        let mut places = std::mem::take(&mut self.addresses);
        places.clear();
        places.extend(lookup_addresses(sample.kernel).map(Place::Kernel));
        let user = places.len();
        places.extend(lookup_addresses(sample.user).map(Place::Unknown));
        for place in &mut places[user..] {
            if let Place::Unknown(address) = *place {
                *place = self.spaces.place(pid, address);
            }
        }
        self.functions.clear();
        self.places.clear();
        for &place in &places {
            self.put(place);
        }
        self.addresses = places;
        self.fold_interpreter();
        let process = match self.spaces.process(pid) {
            _ if pid == 0 => Rc::from("unknown process"),
            Some(process) => Rc::clone(&process.comm),
            None => Rc::from(""),
        };
        let (frames, places) = (&*self.functions, &*self.places);
        let running = self.running_frame(frames).unwrap_or(0);
        Some(Stack { t_ns, pid, tid, cpu, process, cause, truncated, copied, waiting_period_ns, frames, places, running })
    }

    /// Returns the position of the function that runs: the innermost one, except that the time of
    /// an inlined function of a library belongs to the function that contains it, and the time of
    /// an interpreter to the function that it executes. `None` if there are no frames.
    pub fn running_frame(&self, frames: &[FrameId]) -> Option<usize> {
        let frame = |at: usize| &self.frames[frames[at].0 as usize];
        let scripted = (0..frames.len()).find(|&at| frame(at).interpreted);
        // The function that the code of the script calls is one of the interpreter.
        let interpreter = scripted.and_then(|at| at.checked_sub(1)).map(frame);
        if let Some(interpreter) = interpreter.filter(|interpreter| interpreter.origin == Origin::File) {
            let mut inner = (0..frames.len()).map(frame).take_while(|frame| !frame.interpreted);
            if inner.all(|frame| frame.module == interpreter.module) {
                return scripted;
            }
        }
        (0..frames.len()).find(|&at| !frame(at).inlined).or_else(|| (!frames.is_empty()).then_some(0))
    }

    pub fn frame(&self, id: FrameId) -> &Frame {
        &self.frames[id.0 as usize]
    }

    /// Returns whether the function at this position of a stack is one of a runtime that executes
    /// functions without names there.
    pub fn is_of_runtime_without_names(&self, frames: &[FrameId], at: usize) -> bool {
        let module = frames.get(at).map(|&id| self.frame(id).module.as_str());
        let is_meant = |frame: &Frame| runtime::is_of_executor(frame) && Some(frame.module.as_str()) == module;
        frames.iter().any(|&id| is_meant(self.frame(id))) && self.runtime_without_names(frames).is_some()
    }

    /// Returns the runtime that executes functions without names in a stack. `None` if the stack
    /// has names of such functions, or no runtime.
    pub fn runtime_without_names(&self, frames: &[FrameId]) -> Option<Runtime> {
        runtime::without_names(frames.iter().map(|&id| self.frame(id)))
    }

    /// Removes the frames of the interpreter between two functions that it executes, which are
    /// frames of one module.
    fn fold_interpreter(&mut self) {
        let frames = &self.frames;
        let frame = |id: FrameId| &frames[id.0 as usize];
        // Number of frames that remain, and position of the first one after an interpreted
        // function.
        let (mut kept, mut first) = (0, None);
        let mut one_module = true;
        for at in 0..self.functions.len() {
            let id = self.functions[at];
            if frame(id).interpreted {
                if let Some(first) = first.filter(|_| one_module) {
                    kept = first;
                }
                (first, one_module) = (Some(kept + 1), true);
            } else if let Some(first) = first.filter(|first| *first < kept) {
                one_module &= frame(self.functions[first]).module == frame(id).module;
            }
            self.functions[kept] = id;
            self.places[kept] = self.places[at];
            kept += 1;
        }
        self.functions.truncate(kept);
        self.places.truncate(kept);
    }

    fn put(&mut self, place: Place) {
        let ids = match self.known.get(&place) {
            Some(known) => &**known,
            None => {
                let frames = self.name(place);
                let ids: Box<[_]> = frames.into_iter().map(|frame| (self.intern(function_of(&frame)), self.intern(frame))).collect();
                if self.known.len() >= MAX_PLACES {
                    self.known.clear();
                }
                self.known.entry(place).or_insert(ids)
            }
        };
        self.functions.extend(ids.iter().map(|(function, _)| function));
        self.places.extend(ids.iter().map(|(_, place)| place));
    }

    fn intern(&mut self, frame: Frame) -> FrameId {
        if let Some(id) = self.ids.get(&frame) {
            return *id;
        }
        if self.frames.len() >= MAX_FRAMES && frame.function != UNKNOWN {
            return self.intern(unknown());
        }
        let id = FrameId(self.frames.len() as u32);
        self.frames.push(frame.clone());
        self.ids.insert(frame, id);
        id
    }

    /// Returns the functions at a place, innermost first.
    fn name(&self, place: Place) -> Vec<Frame> {
        let mut of_system = matches!(place, Place::Kernel(_));
        if let Place::File(module, _) = place {
            of_system = is_of_system(&self.spaces.modules()[module.0 as usize].path);
        }
        let named = |functions: &[Function], module: &str, origin| -> Vec<Frame> {
            let frame = |(at, function): (usize, &Function)| {
                let of_library = origin != Origin::Kernel && self.libraries.contain(function);
                Frame {
                    function: function.name.clone(),
                    module: module.to_owned(),
                    origin,
                    named: true,
                    of_system: of_system || of_library,
                    inlined: of_library && at + 1 < functions.len(),
                    file: function.file.as_deref().map(Rc::from),
                    line: function.line,
                    interpreted: function.interpreted,
                    runtime: function.runtime,
                }
            };
            functions.iter().enumerate().map(frame).collect()
        };
        let unnamed = |module: &str, offset: u64, origin| {
            let (function, module) = (format!("{module}+{offset:#x}"), module.to_owned());
            vec![Frame { function, module, origin, of_system, ..unknown() }]
        };
        match place {
            Place::Kernel(address) => match self.kernel.find(address) {
                Some((function, module)) => named(&[Function::named(function)], &clean(module), Origin::Kernel),
                None => unnamed(KERNEL, address, Origin::Kernel),
            },
            Place::File(module, offset) => {
                let module = &self.spaces.modules()[module.0 as usize];
                let path = String::from_utf8_lossy(&module.path);
                let name = clean(path.rsplit('/').next().filter(|name| !name.is_empty()).unwrap_or(&path));
                match self.table.file(module, offset) {
                    [] => unnamed(&name, offset, Origin::File),
                    functions => named(functions, &name, Origin::File),
                }
            }
            Place::Made(pid, address) => match self.table.made(pid, address) {
                [] => unnamed(JIT, address, Origin::Made),
                functions => named(functions, JIT, Origin::Made),
            },
            Place::Unknown(_) => vec![unknown()],
        }
    }
}

/// Returns the function that a place is in.
fn function_of(place: &Frame) -> Frame {
    let function = if place.named { &place.function } else { &place.module };
    Frame { function: function.clone(), module: place.module.clone(), file: None, line: None, ..*place }
}

const UNKNOWN: &str = "[unknown]";
const JIT: &str = "[jit]";
const KERNEL: &str = "[kernel]";

fn unknown() -> Frame {
    let (function, module) = (UNKNOWN.to_owned(), UNKNOWN.to_owned());
    let origin = Origin::Unknown;
    Frame {
        function,
        module,
        origin,
        named: false,
        of_system: false,
        inlined: false,
        file: None,
        line: None,
        interpreted: false,
        runtime: false,
    }
}

/// Folders in which the system's packages install shared libraries.
const LIBRARY_FOLDERS: [&[u8]; 5] = [b"/lib", b"/usr/lib", b"/usr/local/lib", b"/nix/store/", b"/gnu/store/"];

/// Returns whether a file is a shared library in a folder of the system, or a special mapping of
/// the kernel. Programs are not, wherever they are installed.
fn is_of_system(path: &[u8]) -> bool {
    let name = path.rsplit(|&byte| byte == b'/').next().unwrap_or(path);
    let is_library = name.ends_with(b".so") || name.windows(4).any(|part| part == b".so.");
    path.starts_with(b"[") || is_library && LIBRARY_FOLDERS.iter().any(|folder| path.starts_with(folder))
}

/// Returns the addresses to look up. All except the innermost are return addresses. A return
/// address may be the first byte of the next function, so one byte is subtracted to get into the
/// call.
pub(crate) fn lookup_addresses(chain: &[u64]) -> impl Iterator<Item = u64> + '_ {
    chain.iter().enumerate().map(|(at, &address)| address.wrapping_sub(u64::from(at > 0)))
}
