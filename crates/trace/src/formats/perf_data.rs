//! perf.data: samples, whose tracepoint fields are decoded by the formats in the file, and the
//! kernel's other records about threads and memory. The file may come from `perf record` directly
//! or through a pipe, compressed or not, in either byte order.
//!
//! `file` reads the file's header and sections, `records` yields the records in the order of time,
//! `folder` those of several files, and `sample` and `others` decode the content of records. A
//! thread's name is the one that earlier records gave it.

mod file;
mod folder;
mod others;
mod records;
mod sample;

use self::file::FileHeader;
pub(crate) use self::folder::is_folder;
use self::folder::Files;
use self::others::{Layout, Shape, COMM, FORK, LAYOUTS, LOST, LOST_SAMPLES};
use self::records::{Record, Trouble, SAMPLE};
use crate::diagnostic::{Diagnostic, MAX_ERRORS};
use crate::error::Error;
use crate::event::{Class, ClassId, Event, Item, Loss, PacketValues, StreamId, StreamKind, Subject, SubjectId};
use crate::formats::tracepoint::{Machine, Made, Plans};
use crate::merge::out_of_range::Beyond;
use crate::shared::{Shared, MAX_REMEMBERED};
use crate::value::Value;
use crate::value_buffer::ValueBuffer;
use longpole_ctf::OwnedValue;
use longpole_ftrace::format::Shape as FieldShape;
use longpole_ftrace::printk::Printk;
use longpole_ftrace::Formats;
use std::collections::HashMap;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// Returns true if the bytes begin like a perf.data of either byte order.
pub(crate) fn is_perf(first: &[u8]) -> bool {
    first.starts_with(b"PERF") || first.starts_with(b"2ELI")
}

pub(crate) struct PerfSource {
    path: PathBuf,
    name: String,
    header: FileHeader,
    files: Files,
    cpus: HashMap<u32, CpuStream>,
    /// Plans, with the value of `formats_known` for which they were made.
    plans: Option<(u32, Plans)>,
    /// Classes of samples, by event and, for a tracepoint, the id in its bytes.
    samples: HashMap<(usize, Option<u16>), ClassId>,
    others: HashMap<u32, ClassId>,
    subjects: HashMap<(Option<i32>, Option<i32>), SubjectId>,
    /// Names of threads, by thread id.
    names: HashMap<i32, String>,
    last_ns: i64,
    errors: u32,
    beyond: Beyond,
    current: Option<CurrentItem>,
    record: Record,
    /// Parts of the sample other than a tracepoint's bytes.
    parts: Vec<OwnedValue>,
    made: Made,
}

/// Stream of one CPU's events.
#[derive(Clone, Copy)]
struct CpuStream {
    stream: StreamId,
    last_ns: i64,
}

/// The item that is yielded next, or was yielded last.
#[derive(Clone)]
enum CurrentItem {
    Tracepoint { at: At, id: u16, raw: Range<usize> },
    Sample { at: At },
    Other { at: At, layout: &'static Layout, length: usize },
    Loss(Loss),
}

#[derive(Clone, Copy)]
struct At {
    t_ns: i64,
    stream: StreamId,
    cpu: Option<u32>,
    subject: SubjectId,
    class: ClassId,
}

impl PerfSource {
    pub fn open(path: &Path, name: String, shared: &mut Shared) -> Result<PerfSource, Error> {
        let (header, files) = Files::open(path)?;
        if header.end.is_none() && !header.is_pipe {
            let place = "its header does not contain the end of its records".to_owned();
            shared.diagnostics.push(Diagnostic::Truncated { path: path.to_owned(), place, at: None });
        }
        let mut source = PerfSource {
            path: path.to_owned(),
            name,
            files,
            header,
            cpus: HashMap::new(),
            plans: None,
            samples: HashMap::new(),
            others: HashMap::new(),
            subjects: HashMap::new(),
            names: HashMap::from([(0, "swapper".to_owned())]),
            last_ns: 0,
            errors: 0,
            beyond: Beyond::default(),
            current: None,
            record: Record::default(),
            parts: Vec::new(),
            made: Made::default(),
        };
        source.cpu_stream(None, shared);
        Ok(source)
    }

    /// Returns the name of the clock that the recording used, if the file has it.
    pub fn clock(&self) -> Option<String> {
        let name = match self.header.attributes.iter().find_map(|attribute| attribute.clock)? {
            0 => "CLOCK_REALTIME",
            1 => "CLOCK_MONOTONIC",
            4 => "CLOCK_MONOTONIC_RAW",
            7 => "CLOCK_BOOTTIME",
            11 => "CLOCK_TAI",
            _ => return None,
        };
        Some(name.to_owned())
    }

    pub fn advance(&mut self, shared: &mut Shared) -> Result<Option<i64>, Error> {
        loop {
            let record = match self.files.next(&mut self.header) {
                Ok(Some(record)) => record,
                Ok(None) => {
                    if self.header.attributes.is_empty() {
                        self.damaged(self.path.clone(), "it names no event".to_owned(), shared);
                        self.header.attributes.push(Default::default());
                    }
                    return Ok(None);
                }
                Err((path, Trouble::Io(source))) => return Err(Error::Io { path, source }),
                Err((path, Trouble::Truncated { at })) => {
                    shared.diagnostics.push(Diagnostic::Truncated { path, place: format!("at byte {at}"), at: None });
                    continue;
                }
                Err((path, Trouble::Damaged { at, what })) => {
                    self.damaged(path, format!("at byte {at}: {what}"), shared);
                    continue;
                }
            };
            let before = std::mem::replace(&mut self.record, record);
            self.files.recycle(before);
            if let Some(item) = self.turn(shared) {
                let t_ns = match &item {
                    CurrentItem::Tracepoint { at, .. } | CurrentItem::Sample { at } | CurrentItem::Other { at, .. } => at.t_ns,
                    CurrentItem::Loss(loss) => loss.end_ns,
                };
                self.last_ns = t_ns;
                self.current = Some(item);
                return Ok(Some(t_ns));
            }
        }
    }

    fn damaged(&mut self, path: PathBuf, error: String, shared: &mut Shared) {
        self.errors = self.errors.saturating_add(1);
        if self.errors <= MAX_ERRORS {
            shared.diagnostics.push(Diagnostic::Damaged { path, error });
        }
    }

    /// Decodes the current record. Returns `None` if it yields no item.
    fn turn(&mut self, shared: &mut Shared) -> Option<CurrentItem> {
        let Record { kind, misc, attribute, place, time, .. } = self.record;
        let order = self.header.order;
        let ns = i128::from(time) + self.header.offset_ns;
        let t_ns = self.beyond.ns(ns, &self.path, || format!("a record of the time {time}"), &mut shared.diagnostics);
        let lost = match kind {
            LOST => Some(file::word(&self.record.body, 8, order)?),
            LOST_SAMPLES => Some(file::word(&self.record.body, 0, order)?),
            _ => None,
        };
        let stream = self.cpu_stream(place.cpu, shared);
        if let Some(events) = lost {
            let begin_ns = if stream.last_ns == 0 { t_ns } else { stream.last_ns.min(t_ns) };
            return (events > 0).then_some(CurrentItem::Loss(Loss { stream: stream.stream, begin_ns, end_ns: t_ns, events: Some(events) }));
        }
        self.cpus.insert(place.cpu.unwrap_or(u32::MAX), CpuStream { last_ns: t_ns, ..stream });
        let mut at = At { t_ns, stream: stream.stream, cpu: place.cpu, subject: SubjectId(0), class: ClassId(0) };
        if kind != SAMPLE {
            let layout = LAYOUTS.iter().find(|layout| layout.kind == kind)?;
            let behind = self.header.attributes.get(attribute).map_or(0, sample::trailer_length);
            let length = self.record.body.len().saturating_sub(behind);
            let values: Vec<Value<'_>> = layout.values(&self.record.body[..length], misc, order).collect();
            let number = |name: &str| {
                let at = layout.fields.iter().position(|(field, _)| *field == name)?;
                values.get(at).and_then(Value::as_u64).map(|number| number as u32 as i32)
            };
            let (pid, tid, parent) = (number("pid"), number("tid"), number("ptid"));
            let comm = values.last().and_then(|comm| comm.text()).map(|comm| comm.into_owned());
            match kind {
                COMM => self.rename(tid, comm),
                FORK => self.rename(tid, parent.and_then(|parent| self.names.get(&parent).cloned())),
                _ => {}
            }
            at.subject = self.subject(place.pid.or(pid), place.tid.or(tid), shared);
            at.class = self.class_of_other(layout, shared);
            return Some(CurrentItem::Other { at, layout, length });
        }
        let known = self.header.attributes.get(attribute)?;
        let Some(raw) = sample::read(known, &self.record.body, order, &mut self.parts) else {
            self.errors = self.errors.saturating_add(1);
            if self.errors <= MAX_ERRORS {
                let error = format!("a sample of {} bytes is shorter than what it has to hold", self.record.body.len());
                shared.diagnostics.push(Diagnostic::UndecodableRecord { path: self.path.clone(), error });
            }
            return None;
        };
        let is_tracepoint = known.tracepoint().is_some();
        at.subject = self.subject(place.pid, place.tid, shared);
        // A tracepoint's bytes begin with the id of its format.
        let id = order.unsigned(self.record.body[raw.clone()].get(..2).unwrap_or_default()).map(|id| id as u16);
        let id = id.filter(|id| is_tracepoint && self.has_plan(*id, shared));
        at.class = self.class_of_sample(attribute, id, shared);
        Some(match (id, &self.plans) {
            (Some(id), Some((_, plans))) => {
                plans.make(id, &self.record.body[raw.clone()], &mut self.made);
                CurrentItem::Tracepoint { at, id, raw }
            }
            _ => CurrentItem::Sample { at },
        })
    }

    /// Returns true if there is a format with this id.
    fn has_plan(&mut self, id: u16, shared: &mut Shared) -> bool {
        let known = self.header.formats_known;
        if self.plans.as_ref().is_none_or(|(of, _)| *of != known) {
            let machine = Machine { order: self.header.order, long: long_of(&self.header.formats) };
            // The thread is part of each sample, but not the flags.
            self.plans = Some((known, Plans::new(&self.header.formats, Printk::default(), machine, &["common_flags"], shared)));
            self.samples.clear();
        }
        self.plans.as_ref().is_some_and(|(_, plans)| plans.get(id).is_some())
    }

    fn class_of_sample(&mut self, attribute: usize, id: Option<u16>, shared: &mut Shared) -> ClassId {
        if let Some(known) = self.samples.get(&(attribute, id)) {
            return *known;
        }
        let known = &self.header.attributes[attribute];
        let parts = sample::parts(known);
        let names: Vec<String> = parts.iter().map(|(name, _)| (*name).to_owned()).collect();
        let class = match (id, &self.plans) {
            (Some(id), Some((_, plans))) => {
                let class = shared.catalogue.classes[plans.class(id).0 as usize].clone();
                Class { context: class.context.iter().cloned().chain(names).collect(), ..class }
            }
            _ => Class {
                event_name: known.name.clone().unwrap_or_else(|| known.usual_name()),
                bases: parts.iter().map(|(_, is_hex)| if *is_hex { 16 } else { 10 }).collect(),
                fields: names,
                ..Class::default()
            },
        };
        let class = shared.class(class);
        self.samples.insert((attribute, id), class);
        class
    }

    fn class_of_other(&mut self, layout: &'static Layout, shared: &mut Shared) -> ClassId {
        *self.others.entry(layout.kind).or_insert_with(|| {
            shared.class(Class {
                event_name: layout.name.to_owned(),
                fields: layout.fields.iter().map(|(name, _)| (*name).to_owned()).collect(),
                bases: layout.fields.iter().map(|(_, shape)| if *shape == Shape::Address { 16 } else { 10 }).collect(),
                ..Class::default()
            })
        })
    }

    fn rename(&mut self, tid: Option<i32>, name: Option<String>) {
        let (Some(tid), Some(name)) = (tid, name) else { return };
        if self.names.len() >= MAX_REMEMBERED && !self.names.contains_key(&tid) {
            return;
        }
        if self.names.get(&tid) != Some(&name) {
            self.names.insert(tid, name);
            self.subjects.retain(|(_, known), _| *known != Some(tid));
        }
    }

    fn cpu_stream(&mut self, cpu: Option<u32>, shared: &mut Shared) -> CpuStream {
        let name = || match cpu {
            Some(cpu) => format!("{}/cpu{cpu}", self.name),
            None => self.name.clone(),
        };
        let all = self.cpus.get(&u32::MAX).copied().filter(|_| self.cpus.len() >= MAX_REMEMBERED);
        let key = cpu.unwrap_or(u32::MAX);
        match (self.cpus.get(&key), all) {
            (Some(known), _) => *known,
            // No host has this many CPUs, so all further ones share a stream.
            (None, Some(all)) => all,
            (None, None) => {
                let stream = CpuStream { stream: shared.stream(name(), StreamKind::Kernel), last_ns: 0 };
                self.cpus.insert(key, stream);
                stream
            }
        }
    }

    fn subject(&mut self, pid: Option<i32>, tid: Option<i32>, shared: &mut Shared) -> SubjectId {
        if self.subjects.len() >= MAX_REMEMBERED {
            self.subjects.clear();
        }
        let (host, names) = (&self.header.host, &self.names);
        *self.subjects.entry((pid, tid)).or_insert_with(|| {
            let label = tid.and_then(|tid| names.get(&tid).cloned()).unwrap_or_default();
            shared.subject(Subject { host: host.clone(), label, pid, tid, ..Subject::default() })
        })
    }

    pub fn item<'a>(&'a self, value_buffer: &'a mut ValueBuffer) -> Item<'a> {
        let event = |at: &At, fields, context| {
            let At { t_ns, stream, cpu, subject, class } = *at;
            Item::Event(Event { t_ns, stream, subject, class, cpu, fields, context, packet: PacketValues::default() })
        };
        let parts = self.parts.iter().map(Value::from);
        match (&self.current, &self.plans) {
            (Some(CurrentItem::Tracepoint { at, id, raw }), Some((_, plans))) => {
                let (values, common) = plans.values(*id, &self.record.body[raw.clone()], &self.made);
                let values = value_buffer.put(values.chain(parts));
                let (fields, context) = values.split_at(values.len() - self.parts.len() - common);
                event(at, fields, context)
            }
            (Some(CurrentItem::Sample { at }), _) => event(at, value_buffer.put(parts), &[]),
            (Some(CurrentItem::Other { at, layout, length }), _) => {
                let values = layout.values(&self.record.body[..*length], self.record.misc, self.header.order);
                event(at, value_buffer.put(values), &[])
            }
            (Some(CurrentItem::Loss(loss)), _) => Item::Loss(*loss),
            // Not reached: the trace requests only items that `advance` found.
            _ => Item::Loss(Loss { stream: StreamId(0), begin_ns: self.last_ns, end_ns: self.last_ns, events: Some(0) }),
        }
    }
}

/// Returns the size in bytes of the recorded host's `long`, from the first format that has such a
/// field.
fn long_of(formats: &Formats) -> u32 {
    let fields = formats.iter().flat_map(|format| &format.fields);
    let mut longs =
        fields.filter(|field| field.shape == FieldShape::Scalar && matches!(field.type_text.as_str(), "unsigned long" | "long"));
    longs.next().map_or(8, |field| field.size)
}
