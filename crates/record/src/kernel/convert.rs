//! Converts the kernel's raw pages to CTF, after the recording.
//!
//! `kernel/raw` (pages, formats, state dump) is read once, page by page, all CPUs together in order
//! of time. Only in that order is it known to which process a thread belongs when it forks. The
//! result is written to `kernel/.converting` and moved to `kernel/` when it is complete and
//! durable, `metadata` last; the pages are removed only after that. So a conversion that is
//! interrupted at any point is either repeated, or only the removal of the pages is left to do; and
//! on a disk that is too full nothing is lost but the attempt.
//!
//! Nothing in the directory is trusted: pages may be damaged, formats missing, descriptions false.
//! Data that cannot be decoded is either kept as bytes and counted, or counted as lost. Memory use
//! is limited to a read buffer per CPU and a packet per stream.

mod calls;
mod cpu_pages;
mod dump;
mod follow;
mod marks;
mod source;

use super::ctf::{self, Preamble, Stream};
use super::layout::encode::{integer, Plan};
use super::layout::known_threads::KnownThreads;
use super::layout::{Int, Kind, Layout, LayoutError};
use super::masks;
use crate::output::folder::Folder;
use calls::Calls;
use cpu_pages::{Bounds, CpuPages, Next};
use follow::{follow, Context, Follow, Running};
use longpole_ftrace::{ByteOrder, Field, FormatError};
use marks::Marks;
use rustix::fs::FlockOperation;
use source::Description;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

#[cfg(test)]
pub(crate) use dump::classes as statedump_classes;

const TID: Int = Int { signed: true, ..Int::unsigned(32) };
/// Folder in `kernel/` of a conversion that is not complete.
const BUILDING: &str = ".converting";
/// Largest number of diagnostics that a conversion returns.
const MOST_MESSAGES: usize = 20;
/// Bytes of pages after which `progress` is called again.
const PROGRESS_STEP: u64 = 4 << 20;
/// Limit for text files, larger than any that a recorder writes.
const MOST_BYTES: u64 = 16 << 20;

/// Error of a conversion. The conversion can be repeated, because the pages are removed only after
/// a complete one.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConvertError {
    #[error("cannot {what} {}: {error}", path.display())]
    Io { what: &'static str, path: PathBuf, error: io::Error },
    #[error("the disk is too full to convert the kernel's pages ({} in {}); the pages stay: free some space and read the recording again", size(*bytes), path.display())]
    Full { path: PathBuf, bytes: u64 },
    #[error("another process records or converts {}", path.display())]
    Busy { path: PathBuf },
    #[error("{} belongs to user {owner}, and root converts no pages of other users in place; run `longpole check {}` as that user, or copy the recording and read the copy", path.display(), path.display())]
    Foreign { path: PathBuf, owner: u32 },
    #[error("{}: {error}", path.display())]
    Format { path: PathBuf, error: FormatError },
    #[error("{}: {what}", path.display())]
    Description { path: PathBuf, what: String },
    #[error(transparent)]
    Layout(#[from] LayoutError),
    #[error("the conversion was ended by a signal; the pages stay, and the next verb that reads the recording converts them")]
    Ended,
}

fn size(bytes: u64) -> String {
    format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20))
}

impl ConvertError {
    fn io(what: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> ConvertError {
        let path = path.into();
        move |error| ConvertError::Io { what, path, error }
    }
}

/// Result of a conversion.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Converted {
    /// Number of events in the pages.
    pub events: u64,
    /// Number of events of each class. Classes without events are left out.
    pub names: BTreeMap<String, u64>,
    /// Number of events that the kernel lost, by its own count if that is known.
    pub lost: u64,
    pub cpus: usize,
    /// Bytes of pages that were read.
    pub raw_bytes: u64,
    /// Bytes of CTF that were written.
    pub bytes: u64,
    /// Number of pages that could not be read completely.
    pub damaged_pages: u64,
    /// Number of events whose format was not saved. They are kept as bytes.
    pub unknown: u64,
    /// Number of records that contradict their format.
    pub short: u64,
    /// Number of events that were earlier than their predecessor and got its time instead.
    pub moved: u64,
    pub diagnostics: Vec<String>,
}

impl Converted {
    fn note(&mut self, text: String) {
        if self.diagnostics.len() < MOST_MESSAGES {
            self.diagnostics.push(text);
        }
    }
}

/// True if the recording has pages that are not yet converted, or not yet removed after the
/// conversion.
pub fn is_pending(recording: &Path) -> bool {
    recording.join("kernel/raw").is_dir()
}

/// Converts the raw pages of a recording; without any, nothing happens. `progress` gets the bytes
/// done and the total.
pub fn convert(recording: &Path, progress: &mut dyn FnMut(u64, u64)) -> Result<Converted, ConvertError> {
    convert_while(recording, &mut |done, total| {
        progress(done, total);
        true
    })
}

/// Like [`convert`], but ends with [`ConvertError::Ended`] when `progress` returns false.
pub fn convert_while(recording: &Path, progress: &mut dyn FnMut(u64, u64) -> bool) -> Result<Converted, ConvertError> {
    if !is_pending(recording) {
        return Ok(Converted::default());
    }
    let open = |path: &Path| Folder::open(path).map_err(ConvertError::io("open", path));
    let inner = |folder: &Folder, name: &str| folder.folder(name).map_err(ConvertError::io("open", folder.join(name)));
    let recording = open(recording)?;
    let kernel = inner(&recording, "kernel")?;
    let raw = inner(&kernel, "raw")?;
    for folder in [&recording, &kernel, &raw] {
        let owner = folder.owner().map_err(ConvertError::io("look at", folder.path()))?;
        if owner != 0 && rustix::process::geteuid().is_root() {
            return Err(ConvertError::Foreign { path: recording.path().to_owned(), owner });
        }
    }
    // Two processes may try to convert at the same time. The kernel releases the lock when its
    // holder ends.
    match rustix::fs::flock(&raw, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {}
        Err(rustix::io::Errno::WOULDBLOCK) => return Err(ConvertError::Busy { path: raw.path().to_owned() }),
        Err(error) => return Err(ConvertError::io("lock", raw.path())(error.into())),
    }
    let done = match kernel.holds("metadata") {
        // Another process converted the pages, or a conversion was interrupted before it removed
        // them.
        true => Converted::default(),
        false => {
            remove(&kernel, BUILDING)?;
            let building = kernel.make(BUILDING).map_err(ConvertError::io("make", kernel.join(BUILDING)))?;
            let mut done = pages_to_ctf(&recording, &raw, &building, progress).map_err(|error| {
                let _ = kernel.remove(BUILDING);
                match error {
                    ConvertError::Io { error, path, .. } if full(&error) => ConvertError::Full { path, bytes: bytes_of(&raw) },
                    error => error,
                }
            })?;
            publish(&building, &kernel)?;
            if done.damaged_pages > 0 {
                let damaged = kernel.join("damaged");
                done.diagnostics.push(format!("{} damaged pages of the kernel stay in {}", done.damaged_pages, damaged.display()));
            }
            done
        }
    };
    let path = kernel.join("metadata");
    let metadata = kernel.text("metadata", MOST_BYTES).map_err(ConvertError::io("read", &path))?;
    if !metadata.contains(ctf::OWN) {
        let what = "no conversion wrote this; the pages stay in raw".to_owned();
        return Err(ConvertError::Description { path, what });
    }
    // The metadata has this field if pages are missing in the trace.
    if metadata.contains(&format!("\n\t{} = ", ctf::DAMAGED)) {
        // Pages that could not be read here may be readable with another tool, so they are kept.
        kernel.rename("raw", &kernel, "damaged").map_err(ConvertError::io("move the damaged pages to", kernel.join("damaged")))?;
        return Ok(done);
    }
    remove(&kernel, "raw")?;
    Ok(done)
}

fn full(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENOSPC | libc::EDQUOT | libc::EFBIG))
}

fn bytes_of(raw: &Folder) -> u64 {
    let names = raw.names().unwrap_or_default().into_iter();
    names.filter_map(|name| Some(raw.read(name).ok()?.metadata().ok()?.len())).sum()
}

fn remove(folder: &Folder, name: &str) -> Result<(), ConvertError> {
    folder.remove(name).map_err(ConvertError::io("remove", folder.join(name)))
}

/// Moves the streams first and the metadata last, so a directory with metadata is complete.
fn publish(building: &Folder, kernel: &Folder) -> Result<(), ConvertError> {
    let sync = |folder: &Folder| folder.sync().map_err(ConvertError::io("sync", folder.path()));
    let mut names = building.names().map_err(ConvertError::io("read", building.path()))?;
    names.sort_by_key(|name| name == "metadata");
    sync(building)?;
    for name in names {
        if name == "metadata" {
            sync(kernel)?;
        }
        building.rename(&name, kernel, &name).map_err(ConvertError::io("move a file to", kernel.join(&name)))?;
    }
    sync(kernel)?;
    let _ = kernel.remove(BUILDING);
    Ok(())
}

/// What is done with an event of the kernel, by its id.
enum Class {
    Plain {
        id: u16,
        plan: Box<Plan>,
        follow: Box<Follow>,
        /// For a switch, the field with the thread that runs next.
        to: Option<Box<Field>>,
    },
    SysEnter,
    SysExit,
    /// A mark that the recorder itself wrote among the events.
    Mark(Marks),
}

/// State of a conversion.
struct Conversion {
    classes: Vec<Option<Class>>,
    calls: Calls,
    threads: KnownThreads,
    context: Context,
    unknown: u16,
    /// Id of our event for a thread that runs although no switch to it is in the trace.
    running: u16,
    /// Id of our event for the CPUs on which a thread may run. The next id is the same for masks
    /// that were read at the end of the recording.
    mask: u16,
    /// Id of our event for events that are not recorded any more.
    switched_off: u16,
    /// Such events that are not written yet, in order of time.
    offs: VecDeque<marks::SwitchedOff>,
    /// Clock ticks of one second.
    second: u64,
    counts: Vec<u64>,
    done: Converted,
    order: ByteOrder,
}

/// Converts the pages into the folder `building`, metadata included.
fn pages_to_ctf(
    recording: &Folder,
    raw: &Folder,
    building: &Folder,
    progress: &mut dyn FnMut(u64, u64) -> bool,
) -> Result<Converted, ConvertError> {
    let order = ByteOrder::NATIVE;
    let mut done = Converted::default();
    let mut description = Description::read(recording, raw, &mut done)?;
    let layout = Layout::new(&description.arch)?;
    let formats = Description::formats(raw, &mut done);
    let total: u64 = description.pages.iter().map(|cpu_pages| cpu_pages.bytes).sum();
    if formats.is_empty() && total > 0 {
        let what = "no format of an event can be read, so no event could be; the pages stay".to_owned();
        return Err(ConvertError::Description { path: raw.join("events"), what });
    }
    let page = description.page_layout(raw, order, formats.first())?;

    // Ids follow the order of the formats, then come our own classes. The metadata is written last,
    // when it is known which classes are used.
    let context = Context::new(&description.context, formats.first());
    let mut names: Vec<(String, Vec<(String, Kind)>)> = Vec::new();
    let mut classes: Vec<Option<Class>> = Vec::new();
    // Filters, by the id of the class.
    let mut filters: Vec<Option<String>> = Vec::new();
    let mut calls = Calls::default();
    for format in &formats {
        let class = match (format.system.as_str(), format.name.as_str()) {
            ("raw_syscalls", "sys_enter") if calls.enter(format, order) => Class::SysEnter,
            ("raw_syscalls", "sys_exit") if calls.exit(format, order) => Class::SysExit,
            marker if marker == masks::MARKER => match Marks::new(format) {
                Some(marks) => Class::Mark(marks),
                None => continue,
            },
            (system, name) => {
                let plan = Plan::new(format, layout.event(system, name), order, page.long_size());
                let id = names.len() as u16;
                names.push((plan.name.clone(), plan.fields.clone()));
                filters.push(description.filter(system, name).map(str::to_owned));
                let to = ((system, name) == ("sched", "sched_switch")).then(|| format.field("next_pid")).flatten();
                Class::Plain {
                    id,
                    plan: Box::new(plan),
                    follow: Box::new(follow(format, !context.is_empty())),
                    to: to.cloned().map(Box::new),
                }
            }
        };
        let at = usize::from(format.id);
        if classes.len() <= at {
            classes.resize_with(at + 1, || None);
        }
        classes[at] = Some(class);
    }
    let dump_ids = names.len() as u16;
    names.extend(dump::classes());
    let unknown = names.len() as u16;
    let byte = Int { base: 16, ..Int::unsigned(8) };
    names.push(("unknown".to_owned(), vec![("id".to_owned(), Kind::Int(Int::unsigned(16))), ("bytes".to_owned(), Kind::List(32, byte))]));
    let running = names.len() as u16;
    names.push(("longpole_running".to_owned(), vec![("tid".to_owned(), Kind::Int(TID))]));
    let mask = names.len() as u16;
    names.push(marks::Mask::class());
    // Its id must be the one after `mask`; see `Conversion::mask`.
    names.push(marks::Mask::class_at_end());
    let switched_off = names.len() as u16;
    names.push(marks::SwitchedOff::class());
    calls.name(&layout, &mut names);

    let mut pages = Vec::new();
    for source::Pages { cpu, file, .. } in std::mem::take(&mut description.pages) {
        let counted = description.counted.get(&cpu);
        let bounds = Bounds {
            begin: description.earliest.saturating_sub(description.second),
            end: description.end.map_or(u64::MAX, |end| end.saturating_add(description.second)),
            slack: description.second / 1000,
            most_lost: counted.map_or(u64::MAX, |counted| counted.lost.saturating_add(counted.read)),
        };
        done.damaged_pages += u64::from(file.is_none());
        pages.push(CpuPages::new(cpu, file, page, bounds));
    }
    let path = |cpu: u32| raw.join(format!("cpu{cpu}"));
    let of_event = |event: &str| {
        let format = formats.iter().find(|format| event.split_once(':') == Some((&format.system, &format.name)))?;
        match classes.get(usize::from(format.id)) {
            Some(Some(Class::Plain { id, .. })) => Some(names[usize::from(*id)].0.clone()),
            _ => None,
        }
    };
    let offs = description.switched_off.iter().map(|off| marks::SwitchedOff::new(off, of_event)).collect();
    let mut conversion = Conversion {
        classes,
        calls,
        threads: KnownThreads::default(),
        context,
        unknown,
        running,
        mask,
        switched_off,
        offs,
        second: description.second,
        counts: vec![0; names.len()],
        done,
        order,
    };

    // All streams begin at the earliest moment of all CPUs; the events of the state dump have that
    // time.
    let mut heap = BinaryHeap::new();
    for (index, cpu_pages) in pages.iter_mut().enumerate() {
        if let Some(time) = cpu_pages.time(&mut conversion.done).map_err(ConvertError::io("read", path(cpu_pages.cpu)))? {
            heap.push(Reverse((time, index)));
        }
    }
    let start = heap.peek().map_or(description.begin, |Reverse((time, _))| *time);
    let mut streams = Vec::new();
    for CpuPages { cpu, .. } in &pages {
        let name = format!("cpu{cpu}");
        let stream = building.create(&name).and_then(|file| Stream::begin(file, description.uuid, *cpu, start));
        streams.push(stream.map_err(ConvertError::io("write", building.join(name)))?);
    }
    if let Some(first) = streams.first_mut() {
        let Conversion { threads, context, done, counts, .. } = &mut conversion;
        let mut dump = dump::Dump { stream: first, time: start, first: dump_ids, counts, context: context.nobody(), layout: &layout };
        dump.write(raw.read("state.jsonl"), raw.read("names.jsonl"), threads, done).map_err(ConvertError::io("write", building.path()))?;
    }
    if let Some(stream) = streams.first_mut() {
        conversion.offs_until(start, stream).map_err(ConvertError::io("write", building.path()))?;
    }

    let mut running: Vec<Running> = pages.iter().map(|_| Running::default()).collect();
    let (mut read, mut reported) = (0, 0);
    while let Some(Reverse((_, index))) = heap.pop() {
        let until = heap.peek().map_or(u64::MAX, |Reverse((time, _))| *time);
        let cpu_pages = &mut pages[index];
        let before = cpu_pages.read;
        let written = conversion.run((cpu_pages, &mut running[index]), &mut streams[index], until);
        written.map_err(ConvertError::io("write", building.join(format!("cpu{}", cpu_pages.cpu))))?;
        if let Some(time) = cpu_pages.time(&mut conversion.done).map_err(ConvertError::io("read", path(cpu_pages.cpu)))? {
            heap.push(Reverse((time, index)));
        }
        read += cpu_pages.read - before;
        if read >= reported + PROGRESS_STEP {
            reported = read;
            if !progress(read, total) {
                return Err(ConvertError::Ended);
            }
        }
    }

    if let Some(stream) = streams.first_mut() {
        conversion.offs_until(u64::MAX, stream).map_err(ConvertError::io("write", building.path()))?;
    }
    let Conversion { calls, context, counts, mut done, .. } = conversion;
    for (index, mut stream) in streams.into_iter().enumerate() {
        let cpu_pages = &pages[index];
        let path = || building.join(format!("cpu{}", cpu_pages.cpu));
        match description.counted.get(&cpu_pages.cpu) {
            // The buffer was emptied: losses inside the snapshot's window are in its pages, and the
            // kernel's count also contains those before it.
            Some(counted) if counted.cut => {}
            // Losses that are in no page: no page follows the newest loss, some pages have no
            // count, and some pages were read from the kernel but never reached the disk.
            Some(counted) => {
                let lost = counted.lost.saturating_add(counted.read.saturating_sub(cpu_pages.found));
                let (end, rest) = (stream.last(), lost.saturating_sub(stream.discarded()));
                stream.loss(end, rest).map_err(ConvertError::io("write", path()))?;
            }
            None => stream.gap().map_err(ConvertError::io("write", path()))?,
        }
        done.lost += stream.discarded();
        done.bytes += stream.finish().map_err(ConvertError::io("write", path()))?;
    }
    if description.counted.is_empty() {
        done.note("what the kernel counted as lost was not noted to the end; how many events are missing is not known".to_owned());
    }
    if done.moved > 0 {
        done.note(format!("{} events lay before their predecessor in time, and were moved to it", done.moved));
    }
    let mut text = ctf::preamble(&Preamble {
        uuid: description.uuid_text(),
        host: &description.host,
        kernel: &description.kernel,
        clock_source: &description.clock_source,
        clock: &description.clock,
        damaged_pages: done.damaged_pages,
        context: &context.fields(),
    });
    for (id, (name, fields)) in names.iter().enumerate() {
        let count = counts[id];
        // Of system calls, only those that occurred get a class, because there are hundreds.
        if count > 0 || id < usize::from(calls.first) {
            let filter = filters.get(id).and_then(Option::as_deref);
            ctf::class(&mut text, id as u16, name, fields, filter);
        }
        if count > 0 {
            *done.names.entry(name.clone()).or_insert(0) += count;
        }
    }
    let written = building.create("metadata").and_then(|mut file| file.write_all(text.as_bytes()).and_then(|()| file.sync_all()));
    written.map_err(ConvertError::io("write", building.join("metadata")))?;
    done.cpus = pages.len();
    done.raw_bytes = pages.iter().map(|cpu_pages| cpu_pages.read).sum();
    done.bytes += text.len() as u64;
    if !progress(total, total) {
        return Err(ConvertError::Ended);
    }
    Ok(done)
}

impl Conversion {
    /// Writes the notes about events that were switched off until `time`. Called before an event of
    /// that time is written.
    fn offs_until(&mut self, time: u64, stream: &mut Stream) -> io::Result<()> {
        while self.offs.front().is_some_and(|off| off.time <= time) {
            let Some(off) = self.offs.pop_front() else { break };
            self.counts[usize::from(self.switched_off)] += 1;
            // Events may be lost on this CPU, so that its stream is already later than the moment
            // of switching off.
            let time = off.time.max(stream.last());
            let out = stream.event(time, self.switched_off)?;
            out.extend_from_slice(&self.context.nobody());
            off.write(time, self.second, out);
        }
        Ok(())
    }

    /// Writes the events of the cpu_pages's current page, up to the time `until`.
    fn run(&mut self, (cpu_pages, running): (&mut CpuPages, &mut Running), stream: &mut Stream, until: u64) -> io::Result<()> {
        self.threads.cpu = cpu_pages.cpu;
        while let Some(next) = cpu_pages.next(until) {
            match next {
                Next::Loss { time, count, gap } => {
                    running.lost();
                    stream.loss(time, count)?;
                    if gap {
                        stream.gap()?;
                    }
                }
                Next::Event { time, id, data } => {
                    self.offs_until(time, stream)?;
                    let last = stream.last();
                    if time < last {
                        self.done.moved += 1;
                    }
                    let time = time.max(last);
                    self.done.events += 1;
                    let class = self.classes.get(usize::from(id)).and_then(Option::as_ref);
                    let to = match class {
                        Some(Class::Plain { to: Some(to), .. }) => to.int(data, self.order).ok(),
                        _ => None,
                    };
                    if let Some(tid) = running.unseen(self.context.tid(data, self.order), to.map(|to| to as i32)) {
                        self.counts[usize::from(self.running)] += 1;
                        let out = stream.event(time, self.running)?;
                        self.context.write(data, self.order, &self.threads, out);
                        integer(out, tid.into(), TID);
                    }
                    match class {
                        Some(Class::Plain { id, plan, follow, .. }) => {
                            self.counts[usize::from(*id)] += 1;
                            let out = stream.event(time, *id)?;
                            self.context.write(data, self.order, &self.threads, out);
                            if !plan.encode(data, &mut self.threads, out) {
                                self.done.short += 1;
                            }
                            follow.see(data, self.order, &mut self.threads);
                        }
                        Some(Class::Mark(marks)) if marks.mask(data, self.order).is_some() => {
                            if let Some(mask) = marks.mask(data, self.order) {
                                let id = self.mask + u16::from(mask.is_at_end());
                                self.counts[usize::from(id)] += 1;
                                let out = stream.event(time, id)?;
                                self.context.write(data, self.order, &self.threads, out);
                                mask.write(time, self.second, out);
                            }
                        }
                        Some(Class::SysEnter) => {
                            let id = self.calls.enter_id(data);
                            self.counts[usize::from(id)] += 1;
                            let out = stream.event(time, id)?;
                            self.context.write(data, self.order, &self.threads, out);
                            self.calls.write_enter(data, out);
                        }
                        Some(Class::SysExit) => {
                            let id = self.calls.exit_id(data);
                            self.counts[usize::from(id)] += 1;
                            let out = stream.event(time, id)?;
                            self.context.write(data, self.order, &self.threads, out);
                            self.calls.write_exit(data, out);
                        }
                        _ => {
                            self.done.unknown += 1;
                            self.counts[usize::from(self.unknown)] += 1;
                            let out = stream.event(time, self.unknown)?;
                            self.context.write(data, self.order, &self.threads, out);
                            out.extend_from_slice(&id.to_ne_bytes());
                            out.extend_from_slice(&(data.len() as u32).to_ne_bytes());
                            out.extend_from_slice(data);
                        }
                    }
                }
            }
        }
        Ok(())
    }
}
