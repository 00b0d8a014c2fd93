//! Converts one stream: replaces each copied stack by the addresses of its functions. Runs in the
//! sandbox, because it reads the files of programs.

use super::excluded::Excluded;
use super::layout::{Kind, Layout, Parsed, HEADER};
use super::shared::Shared;
use super::stream::{Packet, Reader, Writer};
use super::timeline::Timeline;
use crate::open::{self, User};
use crate::resolve;
use crate::spaces::{ModuleId, Place, Spaces};
use crate::unwind::{walk, Arch, Code, End, Module, Row, Snapshot, Space, Walked};
use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::rc::Rc;

/// Maximum number of bytes of all unwinding tables. Stacks in further modules are truncated.
pub const MAX_TABLES: usize = 768 << 20;
/// Number of events between two signs of progress.
const STEP: u64 = 256;
/// Maximum number of addresses of a list in an event.
const MAX_LIST: usize = u16::MAX as usize;

/// What all streams of a recording share.
pub struct Job<'a> {
    pub layout: &'a Layout,
    pub timeline: &'a Timeline,
    /// Living processes that have a module mapped.
    pub users: &'a HashMap<ModuleId, Vec<User>>,
    /// Modules that are not read, because the sandbox died on them.
    pub excluded: &'a Excluded,
    /// Set if no module is read, and stacks are those that the kernel found by frame pointers.
    pub by_chain: bool,
}

/// The unwinding tables that were read.
struct Modules<'a> {
    job: &'a Job<'a>,
    end_ns: i64,
    known: HashMap<ModuleId, Option<Module>>,
    bytes: usize,
    /// Number of modules beyond [`MAX_TABLES`].
    too_large: u64,
    shared: &'a Shared,
    /// Called as a sign of progress.
    at: &'a mut dyn FnMut(usize),
}

/// The code of a process at the time of a stack.
struct Process<'a, 'b> {
    pid: i32,
    version: u64,
    spaces: &'a Spaces,
    modules: &'a mut Modules<'b>,
    recent: &'a mut Recent,
    shared: &'a Shared,
}

impl Space for Process<'_, '_> {
    fn code(&mut self, address: u64) -> Code<'_> {
        self.shared.set_address(address);
        let known = self.recent.entry(self.version, address);
        if (known.version, known.address) != (self.version, address) {
            let found = match self.spaces.place(self.pid, address) {
                Place::File(id, offset) => self.modules.find(self.spaces, id, offset),
                Place::Made(..) => Found::Made,
                Place::Kernel(_) | Place::Unknown(_) => Found::Outside,
            };
            *known = Known { version: self.version, address, found };
        }
        match &known.found {
            Found::Row(row, Some(id)) => Code::Row(row, self.modules.section(*id, row)),
            Found::Row(row, None) => Code::Row(row, &[]),
            Found::FramePointers => Code::FramePointers,
            Found::Made => Code::Made,
            Found::First => Code::First,
            Found::Switch(row) => Code::Switch(row.as_deref()),
            Found::Unknown => Code::Unknown,
            Found::Unreadable => Code::Unreadable,
            Found::Outside => Code::Outside,
        }
    }
}

/// The code at an address, as in [`Code`].
#[derive(Clone)]
enum Found {
    /// A row, and its module if it has expressions.
    Row(Rc<Row>, Option<ModuleId>),
    FramePointers,
    Made,
    First,
    Switch(Option<Rc<Row>>),
    Unknown,
    Unreadable,
    Outside,
}

/// The code at an address of a process whose mappings have this version.
#[derive(Clone)]
struct Known {
    version: u64,
    address: u64,
    found: Found,
}

/// The code at addresses that were looked up recently.
struct Recent(Vec<Known>);

/// Bits of the number of entries in [`Recent`]: the addresses of a few programs at a time.
const RECENT_BITS: u32 = 14;
/// Factor whose products have evenly distributed upper bits: 2^64 divided by the golden ratio.
const SCATTER: u64 = 0x9e37_79b9_7f4a_7c15;

impl Recent {
    fn new() -> Recent {
        // Without mappings, no address is in code.
        Recent(vec![Known { version: 0, address: 0, found: Found::Outside }; 1 << RECENT_BITS])
    }

    /// Returns the only entry in which this address can be.
    fn entry(&mut self, version: u64, address: u64) -> &mut Known {
        let at = (address ^ version.rotate_right(16)).wrapping_mul(SCATTER) >> (u64::BITS - RECENT_BITS);
        &mut self.0[at as usize]
    }
}

impl Modules<'_> {
    fn find(&mut self, spaces: &Spaces, id: ModuleId, offset: u64) -> Found {
        let module = self.known.entry(id).or_insert_with(|| {
            (self.at)(0);
            let module = read(self.job, spaces, id, self.end_ns);
            (self.at)(0);
            let module = module?;
            let bytes = self.bytes + module.size();
            if bytes > MAX_TABLES {
                self.too_large += 1;
                self.shared.set_too_large(self.too_large);
                return None;
            }
            self.bytes = bytes;
            Some(module)
        });
        let Some(module) = module else { return Found::Unreadable };
        let Some(address) = module.address(offset) else { return Found::Unknown };
        match module.end(address) {
            Some(End::First) => return Found::First,
            Some(End::Switch) => return Found::Switch(module.row(address).filter(|row| !row.has_expressions())),
            None => {}
        }
        match module.row(address) {
            Some(row) => {
                let id = row.has_expressions().then_some(id);
                Found::Row(row, id)
            }
            None if module.is_start(address) => Found::First,
            None if module.has_frame_pointers() => Found::FramePointers,
            None => Found::Unknown,
        }
    }

    /// Returns the section with the expressions of a module's row.
    fn section(&self, id: ModuleId, row: &Row) -> &[u8] {
        self.known.get(&id).and_then(Option::as_ref).map_or(&[], |module| module.section(row))
    }
}

fn read(job: &Job<'_>, spaces: &Spaces, id: ModuleId, end_ns: i64) -> Option<Module> {
    if job.excluded.contains(id) {
        return None;
    }
    let module = spaces.modules().get(id.0 as usize)?;
    let file = match module.path.as_slice() {
        b"[vdso]" => resolve::vdso(),
        path => open::module(path, module.inode, job.users.get(&id).map_or(&[][..], Vec::as_slice), end_ns),
    };
    Module::read(&file?, Arch::HERE)
}

/// Converts a stream. `at` is called now and then, as a sign of progress. `shared` has the position
/// for the process that watches this one.
pub fn convert(job: &Job<'_>, from: &File, to: &File, shared: &Shared, at: &mut dyn FnMut(usize)) -> io::Result<()> {
    convert_events(job, from, to, shared, at).inspect_err(|error| shared.set_error(error))
}

fn convert_events(job: &Job<'_>, from: &File, to: &File, shared: &Shared, at: &mut dyn FnMut(usize)) -> io::Result<()> {
    let layout = job.layout;
    shared.set_too_large(0);
    let mut reader = Reader::new(from, &layout.uuid)?;
    let mut writer = Writer::new(to, &layout.uuid);
    let mut modules = Modules { job, end_ns: layout.ns(job.timeline.end), known: HashMap::new(), bytes: 0, too_large: 0, shared, at };
    let mut replay = job.timeline.replay(layout);
    let (mut unwound, mut recent) = (Unwound::default(), Recent::new());
    let (mut lost, mut events) = (0u64, 0u64);
    let mut last = Packet::default();
    while let Some((packet, mut bytes)) = reader.next()? {
        lost += u64::from(packet.after_gap);
        last = packet;
        writer.packet(&packet, bytes.is_empty(), lost)?;
        while let Some(event) = layout.parse(bytes) {
            bytes = &bytes[event.bytes.len()..];
            events += 1;
            if events % STEP == 0 {
                (modules.at)(0);
            }
            if event.kind == Kind::Copied {
                shared.set_event(event.time, event.pid);
                replay.advance(event.time, modules.at);
                let version = replay.spaces.version(event.pid);
                let mut process =
                    Process { pid: event.pid, version, spaces: &replay.spaces, modules: &mut modules, recent: &mut recent, shared };
                writer.event(event.time, unwound.stack(job, &event, &mut process))?;
                shared.set_address(0);
            } else {
                writer.event(event.time, event.bytes)?;
            }
        }
        // At least one event, from the first one that cannot be read on.
        lost += u64::from(!bytes.is_empty());
        shared.set_done(reader.position());
    }
    writer.finish(&last, lost)
}

/// Buffers for one stack.
#[derive(Default)]
struct Unwound {
    addresses: Vec<u64>,
    chain: Vec<u64>,
    event: Vec<u8>,
}

impl Unwound {
    /// Returns the event that replaces a copied stack.
    fn stack(&mut self, job: &Job<'_>, copied: &Parsed<'_>, space: &mut dyn Space) -> &[u8] {
        let fields = &copied.fields;
        let snapshot =
            Snapshot { ip: fields.number(6), sp: fields.number(7), fp: fields.number(8), lr: fields.number(9), stack: fields.bytes(11) };
        self.chain.clear();
        self.chain.extend(fields.addresses(5));
        let walked = match snapshot.ip {
            // A thread of the kernel has no registers of a program.
            0 if self.chain.is_empty() => {
                self.addresses.clear();
                Walked::Whole
            }
            // The kernel could not copy the stack, e.g. because an exec has just removed it.
            ip if ip == 0 || job.by_chain || snapshot.stack.is_empty() && !self.chain.is_empty() => {
                self.addresses.clone_from(&self.chain);
                Walked::Truncated
            }
            _ => walk(Arch::HERE, &snapshot, &self.chain, space, &mut self.addresses),
        };
        self.addresses.truncate(MAX_LIST);
        self.event.clear();
        self.event.extend_from_slice(&job.layout.stack.to_ne_bytes());
        self.event.extend_from_slice(&copied.bytes[2..HEADER]);
        self.event.extend_from_slice(fields.bytes(0));
        self.event.extend_from_slice(fields.bytes(1));
        self.event.push(u8::from(walked == Walked::Truncated));
        self.event.extend_from_slice(fields.bytes(2));
        self.event.extend_from_slice(fields.bytes(3));
        self.event.extend_from_slice(&(self.addresses.len() as u16).to_ne_bytes());
        self.event.extend(self.addresses.iter().flat_map(|address| address.to_ne_bytes()));
        &self.event
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_watching_process_knows_an_error_of_the_disk() {
        let layout = Layout::new(include_bytes!("../../tests/fixtures/metadata")).unwrap();
        let (timeline, users, excluded) = (Timeline::default(), HashMap::new(), Excluded::default());
        let job = Job { layout: &layout, timeline: &timeline, users: &users, excluded: &excluded, by_chain: false };
        let (from, full) = (tempfile::tempfile().unwrap(), File::options().write(true).open("/dev/full").unwrap());
        let shared = Shared::new().unwrap();
        assert!(convert(&job, &from, &full, &shared, &mut |_| {}).is_err());
        assert_eq!(shared.error().unwrap().kind(), io::ErrorKind::StorageFull);
    }
}
