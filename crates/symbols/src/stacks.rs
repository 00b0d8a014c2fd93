//! Samples as stacks of named frames, for analyses.

use crate::kernel::Kernel;
use crate::spaces::{Place, Spaces};
use crate::table::{clean, Function, Table};
use longpole_trace::event::{Catalogue, Event};
use std::collections::HashMap;
use std::path::Path;
use std::rc::Rc;

/// Index for [`Stacks::frame`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FrameId(pub u32);

/// Origin of a frame's code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Origin {
    Kernel,
    File,
    /// Code that the process generated itself.
    Made,
    Unknown,
}

/// A frame of a stack. Frames with equal content have the same [`FrameId`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Frame {
    /// Name of the function; `module+0xoffset` if only the module is known, `[unknown]` if nothing
    /// is known.
    pub function: String,
    /// Name of the file without folders; `[kernel]` or the kernel's module; `[jit]`; `[unknown]`.
    pub module: String,
    pub origin: Origin,
    /// Set if `function` is the name of a function.
    pub named: bool,
}

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
    /// Frames, innermost first: the kernel's frames, then the program's. Inlined functions have
    /// frames of their own.
    pub frames: &'a [FrameId],
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
    frames: Vec<Frame>,
    ids: HashMap<Frame, FrameId>,
    places: HashMap<Place, Box<[FrameId]>>,
    stack: Vec<FrameId>,
    addresses: Vec<Place>,
}

impl Stacks {
    /// Loads the names from a recording. Without a recording, frames are modules with offsets.
    pub fn open(recording: Option<&Path>) -> Stacks {
        match recording {
            Some(recording) => Stacks { kernel: Kernel::load(recording), table: Table::load(recording), ..Stacks::default() },
            None => Stacks::default(),
        }
    }

    /// Processes an event of any stream. Returns a stack if the event is a sample.
    pub fn follow(&mut self, catalogue: &Catalogue, event: &Event<'_>) -> Option<Stack<'_>> {
        let sample = self.spaces.follow(catalogue, event)?;
        let (t_ns, pid, tid, cpu) = (sample.t_ns, sample.pid, sample.tid, sample.cpu);
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
        self.stack.clear();
        for &place in &places {
            self.put(place);
        }
        self.addresses = places;
        let process = match self.spaces.process(pid) {
            _ if pid == 0 => Rc::from("unknown process"),
            Some(process) => Rc::clone(&process.comm),
            None => Rc::from(""),
        };
        Some(Stack { t_ns, pid, tid, cpu, process, frames: &self.stack })
    }

    pub fn frame(&self, id: FrameId) -> &Frame {
        &self.frames[id.0 as usize]
    }

    fn put(&mut self, place: Place) {
        if let Some(known) = self.places.get(&place) {
            self.stack.extend_from_slice(known);
            return;
        }
        let frames: Vec<Frame> = self.name(place);
        let ids: Box<[FrameId]> = frames.into_iter().map(|frame| self.intern(frame)).collect();
        self.stack.extend_from_slice(&ids);
        if self.places.len() < MAX_PLACES {
            self.places.insert(place, ids);
        }
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

    fn name(&self, place: Place) -> Vec<Frame> {
        let named = |functions: &[Function], module: &str, origin| -> Vec<Frame> {
            let frame = |function: &Function| Frame { function: function.name.clone(), module: module.to_owned(), origin, named: true };
            functions.iter().map(frame).collect()
        };
        match place {
            Place::Kernel(address) => match self.kernel.find(address) {
                Some((function, module)) => {
                    vec![Frame { function: clean(function), module: clean(module), origin: Origin::Kernel, named: true }]
                }
                None => {
                    vec![Frame {
                        function: format!("[kernel]+{address:#x}"),
                        module: "[kernel]".to_owned(),
                        origin: Origin::Kernel,
                        named: false,
                    }]
                }
            },
            Place::File(module, offset) => {
                let module = &self.spaces.modules()[module.0 as usize];
                let path = String::from_utf8_lossy(&module.path);
                let name = clean(path.rsplit('/').next().filter(|name| !name.is_empty()).unwrap_or(&path));
                match self.table.file(module, offset) {
                    [] => vec![Frame { function: format!("{name}+{offset:#x}"), module: name, origin: Origin::File, named: false }],
                    functions => named(functions, &name, Origin::File),
                }
            }
            Place::Made(pid, address) => match self.table.made(pid, address) {
                [] => vec![Frame { function: format!("[jit]+{address:#x}"), module: JIT.to_owned(), origin: Origin::Made, named: false }],
                functions => named(functions, JIT, Origin::Made),
            },
            Place::Unknown(_) => vec![unknown()],
        }
    }
}

const UNKNOWN: &str = "[unknown]";
const JIT: &str = "[jit]";

fn unknown() -> Frame {
    Frame { function: UNKNOWN.to_owned(), module: UNKNOWN.to_owned(), origin: Origin::Unknown, named: false }
}

/// Returns the addresses to look up. All except the innermost are return addresses. A return
/// address may be the first byte of the next function, so one byte is subtracted to get into the
/// call.
pub(crate) fn lookup_addresses(chain: &[u64]) -> impl Iterator<Item = u64> + '_ {
    chain.iter().enumerate().map(|(at, &address)| address.wrapping_sub(u64::from(at > 0)))
}
