//! Writes any trace as CTF: events and losses become packets, and their shapes become the metadata.
//!
//! The events of one host and domain form one CTF trace, and all of its times are on one clock in
//! ns. Each stream has a file for each CPU of its events. The metadata is written last, when all
//! classes and labels are known, so an unfinished export is not mistaken for a trace. Files are
//! opened again for each write, because a trace may have more streams than a process may have open
//! files.

mod classes;
pub(crate) mod ctf_version;
mod names;
mod packets;
mod schema;
mod shape;
mod text;

use crate::error::Error;
use crate::event::{Catalogue, Event, Item, Loss, StreamId, StreamKind, SubjectId};
use crate::value::{SharedValues, Value};
use classes::Classes;
use longpole_ctf::write::{self, Layout, StreamWriter, WriteError};
use longpole_ctf::{EnvValue, Metadata, MetadataError, OwnedValue, Packet};
use packets::PacketKinds;
use schema::Form;
use shape::{plain, spread, until_nul};
use std::collections::HashMap;
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Version of CTF to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// CTF 1.8.
    One,
    Two,
}

/// Bytes of events in a packet, and of all packets that are not written yet.
const PACKET: usize = 64 << 10;
const PENDING: usize = 64 << 20;
const MIN_PACKET: usize = 2 << 10;
/// Each packet belongs to one thread. If the threads of a stream have taken turns at least
/// `MANY_TURNS` times, with fewer than `SHORT_TURN` events per turn, packets would be too small.
/// The stream's threads then get files of their own, `MAX_THREADS` at most.
const MANY_TURNS: u64 = 256;
const SHORT_TURN: u64 = 64;
const MAX_THREADS: u32 = 1024;
/// Maximum number of files for a stream that is not in the order of time. Each of these files is in
/// order.
const MAX_FILES: usize = 16;

/// Writes a trace as CTF. The module's documentation explains how.
pub struct CtfWriter {
    directory: PathBuf,
    version: Version,
    base_s: i64,
    environment: Vec<(String, EnvValue)>,
    groups: Vec<Group>,
    by_group: HashMap<(String, StreamKind), usize>,
    outs: Vec<Out>,
    by_stream: HashMap<Key, usize>,
    /// The last event's destination, for each stream that had an event.
    last: HashMap<StreamId, Last>,
    /// Losses of streams that have had no event yet.
    early: HashMap<StreamId, Vec<Loss>>,
    layouts: HashMap<Form, Arc<Layout>>,
    kinds: PacketKinds,
    /// Values of an event that are not written in the form in which they were read.
    values: Vec<OwnedValue>,
    written: ExportCounts,
}

/// Counts of what was written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExportCounts {
    /// Number of events.
    pub events: u64,
    /// Number of lost events, as far as they were counted.
    pub lost: u64,
    /// Number of losses without a count. They are written as missing packets.
    pub uncounted: u64,
    /// Number of losses of streams without any event, which are not written.
    pub untold: u64,
    /// Number of events that are written after later ones, in streams whose order differs too much
    /// from that of time.
    pub late: u64,
    /// Number of events before the clock's begin, which get the time of its begin.
    pub moved: u64,
}

/// Identifies a file: stream, CPU of its events, form of its packets, trace, thread if threads have
/// files of their own, and the number of the file, because an event that is too late for the files
/// before goes to another one.
type Key = (StreamId, Option<u32>, Form, usize, Option<u32>, usize);

/// The last event of a stream and where it was written. The next event that agrees with it goes to
/// the same file without a lookup.
struct Last {
    subject: SubjectId,
    cpu: Option<u32>,
    /// Values of the packet's context.
    packet: SharedValues,
    /// Set if no context names the thread.
    alone: bool,
    key: Key,
    /// Index of the file of `key`.
    out: usize,
    /// Number of events of the stream.
    events: u64,
    /// Number of changes from one thread to another.
    turns: u64,
}

/// A CTF trace.
struct Group {
    name: String,
    host: String,
    kind: StreamKind,
    classes: Classes,
    files: HashMap<String, usize>,
}

/// A stream file.
struct Out {
    group: usize,
    file: String,
    form: Form,
    layout: Arc<Layout>,
    writer: StreamWriter,
    /// Set if a packet is open.
    open: bool,
    cpu: Option<u32>,
    subject: SubjectId,
    /// Further values of the packets' context.
    packet: SharedValues,
    end_ns: i64,
    /// Number of packets until now, including missing ones.
    sequence: u64,
    discarded: u64,
    /// Set if the file exists.
    made: bool,
}

/// Creates the folder if it does not exist. Fails if it is not empty, because its content must not
/// be overwritten.
pub(crate) fn empty_folder(directory: &Path) -> Result<(), Error> {
    fs::create_dir_all(directory).map_err(Error::write(directory))?;
    if fs::read_dir(directory).map_err(Error::io(directory))?.next().is_some() {
        let source = std::io::Error::new(std::io::ErrorKind::AlreadyExists, "the folder is not empty");
        return Err(Error::Write { path: directory.to_owned(), source });
    }
    Ok(())
}

impl CtfWriter {
    /// Creates a writer into a folder, which is created or must be empty.
    ///
    /// `begin_ns` is the approximate first time. The clock begins then or at 0, whichever is
    /// earlier, because in a trace that is not in order an event of any time may come late.
    /// `environment` is added to the host and domain in the metadata.
    pub fn create(directory: &Path, version: Version, begin_ns: i64, environment: Vec<(String, EnvValue)>) -> Result<CtfWriter, Error> {
        empty_folder(directory)?;
        Ok(CtfWriter {
            directory: directory.to_owned(),
            version,
            base_s: begin_ns.div_euclid(1_000_000_000).min(0),
            environment,
            groups: Vec::new(),
            by_group: HashMap::new(),
            outs: Vec::new(),
            by_stream: HashMap::new(),
            last: HashMap::new(),
            early: HashMap::new(),
            layouts: HashMap::new(),
            kinds: PacketKinds::default(),
            values: Vec::new(),
            written: ExportCounts::default(),
        })
    }

    /// Writes an item. Items of a stream should come in the order of time; a late event goes to
    /// another file of the stream.
    pub fn item(&mut self, item: &Item<'_>, catalogue: &Catalogue) -> Result<(), Error> {
        match item {
            Item::Event(event) => self.event(event, catalogue),
            Item::Loss(loss) => match self.last.get(&loss.stream) {
                Some(last) => self.loss(last.out, loss, catalogue),
                None => {
                    self.early.entry(loss.stream).or_default().push(*loss);
                    Ok(())
                }
            },
        }
    }

    fn event(&mut self, event: &Event<'_>, catalogue: &Catalogue) -> Result<(), Error> {
        let (out, is_new) = self.place(event, catalogue)?;
        if is_new {
            for loss in self.early.remove(&event.stream).unwrap_or_default() {
                self.loss(out, &loss, catalogue)?;
            }
        }
        if self.outs[out].sequence == 0 {
            // Readers derive losses from the difference between the counters of two packets. This
            // first packet is the base.
            self.begin(out, event.t_ns, catalogue)?;
            self.end(out)?;
        }
        let most = (PENDING / self.outs.len()).clamp(MIN_PACKET, PACKET);
        let Out { form, open, writer, subject, packet, .. } = &self.outs[out];
        let other = (form.names && *subject != event.subject) || (form.kind > 0 && !event.packet.are(packet));
        if *open && (writer.packet_bits() / 8 >= most as u64 || other) {
            self.end(out)?;
        }
        if !self.outs[out].open {
            self.outs[out].subject = event.subject;
            self.outs[out].packet = event.packet.share();
            self.begin(out, event.t_ns, catalogue)?;
        }
        self.put(out, event, catalogue)
    }

    /// Returns the file of an event, and whether the event is the first of its stream.
    fn place(&mut self, event: &Event<'_>, catalogue: &Catalogue) -> Result<(usize, bool), Error> {
        // If there are contexts, they name the thread.
        let alone = event.context.is_empty();
        let last = self.last.get_mut(&event.stream);
        let is_first = last.is_none();
        let (key, first) = match last {
            Some(last) if (last.subject, last.cpu, last.alone) == (event.subject, event.cpu, alone) && event.packet.are(&last.packet) => {
                last.events += 1;
                (last.key, last.out)
            }
            last => {
                let (events, turns) = last.map_or((1, 0), |last| (last.events + 1, last.turns + u64::from(last.subject != event.subject)));
                let (stream, subject) = (&catalogue.streams[event.stream.0 as usize], &catalogue.subjects[event.subject.0 as usize]);
                let group = match self.by_group.get(&(subject.host.clone(), stream.kind)) {
                    Some(&group) => group,
                    None => self.group(&subject.host, stream.kind),
                };
                let names = alone && !(subject.label.is_empty() && subject.thread.is_empty());
                let kind = self.kinds.of(event, catalogue);
                let (pid, tid) = (names && subject.pid.is_some(), names && subject.tid.is_some());
                let form = Form { cpu: event.cpu.is_some(), names, pid, tid, kind };
                let per_thread = names && turns >= MANY_TURNS && events / turns < SHORT_TURN;
                let key = (event.stream, event.cpu, form, group, per_thread.then_some(event.subject.0 % MAX_THREADS), 0);
                let out = self.out(key, event, catalogue)?;
                let (subject, cpu, packet) = (event.subject, event.cpu, event.packet.share());
                self.last.insert(event.stream, Last { subject, cpu, packet, alone, key, out, events, turns });
                (key, out)
            }
        };
        let mut out = first;
        // Readers require each file to be in the order of time, and merge the files. A late event
        // goes to another file.
        for number in 1..MAX_FILES {
            if self.outs[out].end_ns <= event.t_ns {
                break;
            }
            out = self.out((key.0, key.1, key.2, key.3, key.4, number), event, catalogue)?;
        }
        self.written.late += u64::from(self.outs[out].end_ns > event.t_ns);
        Ok((out, is_first))
    }

    /// Writes an event into the open packet.
    fn put(&mut self, out: usize, event: &Event<'_>, catalogue: &Catalogue) -> Result<(), Error> {
        let cycles = self.stamp(event.t_ns);
        self.written.moved += u64::from(event.t_ns.div_euclid(1_000_000_000) < self.base_s);
        let Self { groups, outs, values, .. } = self;
        let out = &mut outs[out];
        let classes = &mut groups[out.group].classes;
        let done = match classes.of(out.form, event, catalogue, &out.layout) {
            Some(class) => {
                let class = &mut classes.all[class];
                class.learn(event);
                let all = event.context.iter().chain(event.fields);
                if class.plain {
                    out.writer.new_event(&class.layout, cycles, all.map(plain))
                } else {
                    values.clear();
                    let shapes = class.signature.context.iter().chain(&class.signature.fields);
                    all.zip(shapes).for_each(|(value, shape)| spread(value, shape, values));
                    out.writer.new_event(&class.layout, cycles, &*values)
                }
            }
            None => {
                let description = &catalogue.classes[event.class.0 as usize];
                let (class, named) = classes.other(out.form, event, catalogue, &out.layout).map_err(Error::metadata(&self.directory))?;
                let texts = [text::object(&description.context, event.context), text::object(&description.fields, event.fields)];
                let context = (!event.context.is_empty()).then_some(Value::Str(&texts[0]));
                let name = named.then_some(Value::Str(description.event_name.as_bytes()));
                let all = context.into_iter().chain(name).chain([Value::Str(&texts[1])]);
                out.writer.new_event(&classes.all[class].layout, cycles, all.map(|value| plain(&value)))
            }
        };
        done.map_err(unwritable(&out.file))?;
        out.end_ns = event.t_ns.max(out.end_ns);
        self.written.events += 1;
        Ok(())
    }

    fn stamp(&self, t_ns: i64) -> u64 {
        u64::try_from(i128::from(t_ns) - i128::from(self.base_s) * 1_000_000_000).unwrap_or(0)
    }

    fn group(&mut self, host: &str, kind: StreamKind) -> usize {
        let domain = match kind {
            StreamKind::User => "user",
            StreamKind::Kernel => "kernel",
            StreamKind::Packets => "packets",
            StreamKind::Samples => "samples",
        };
        // Folders are named `HOST-DOMAIN`, because a folder `user` would look like that of a
        // recording.
        let wanted = format!("{}-{domain}", if host.is_empty() { "trace".to_owned() } else { tame(host) });
        let taken = |name: &str| self.groups.iter().any(|group| group.name == name);
        let name = (2..).map(|n| format!("{wanted}-{n}")).find(|name| !taken(name)).filter(|_| taken(&wanted)).unwrap_or(wanted);
        self.groups.push(Group { name, host: host.to_owned(), kind, classes: Classes::default(), files: HashMap::new() });
        self.by_group.insert((host.to_owned(), kind), self.groups.len() - 1);
        self.groups.len() - 1
    }

    fn out(&mut self, key: Key, event: &Event<'_>, catalogue: &Catalogue) -> Result<usize, Error> {
        if let Some(&out) = self.by_stream.get(&key) {
            return Ok(out);
        }
        let (_, cpu, form, group, ..) = key;
        let layout = match self.layouts.get(&form) {
            Some(layout) => layout.clone(),
            None => {
                let bare = schema::schema(Vec::new(), self.base_s, vec![(form, Vec::new())], &self.kinds);
                let layout = Arc::new(self.version.layout(bare).map_err(Error::metadata(&self.directory))?);
                self.layouts.insert(form, layout.clone());
                layout
            }
        };
        let wanted = tame(&catalogue.streams[event.stream.0 as usize].name);
        let files = &mut self.groups[group].files;
        let count = files.entry(wanted.clone()).or_insert(0);
        *count += 1;
        let file = if *count == 1 { wanted } else { format!("{wanted}.{count}") };
        self.outs.push(Out {
            group,
            file,
            form,
            writer: StreamWriter::new(layout.clone(), 0),
            layout,
            open: false,
            cpu,
            subject: event.subject,
            packet: event.packet.share(),
            end_ns: i64::MIN,
            sequence: 0,
            discarded: 0,
            made: false,
        });
        self.by_stream.insert(key, self.outs.len() - 1);
        Ok(self.outs.len() - 1)
    }

    /// Writes a loss as two packets without events, one at its begin and one at its end, because
    /// readers derive losses from the difference between packets. A counted loss that began before
    /// the last event is counted in that event's packet instead, as tracers do, because times must
    /// not run backwards.
    fn loss(&mut self, out: usize, loss: &Loss, catalogue: &Catalogue) -> Result<(), Error> {
        let Out { end_ns, open, .. } = self.outs[out];
        match loss.events {
            Some(count) if open && loss.begin_ns < end_ns => {
                self.lose(out, count);
                self.outs[out].end_ns = loss.end_ns.max(end_ns);
            }
            count => {
                let begin_ns = loss.begin_ns.min(loss.end_ns).max(end_ns);
                self.end(out)?;
                self.begin(out, begin_ns, catalogue)?;
                self.end(out)?;
                match count {
                    Some(count) => self.lose(out, count),
                    None => {
                        self.outs[out].sequence += 1;
                        self.written.uncounted += 1;
                    }
                }
                self.begin(out, loss.end_ns.max(begin_ns), catalogue)?;
            }
        }
        self.end(out)
    }

    fn lose(&mut self, out: usize, events: u64) {
        self.outs[out].discarded = self.outs[out].discarded.wrapping_add(events);
        self.written.lost = self.written.lost.saturating_add(events);
    }

    /// Begins a packet.
    fn begin(&mut self, out: usize, begin_ns: i64, catalogue: &Catalogue) -> Result<(), Error> {
        let begin = self.stamp(begin_ns);
        let out = &mut self.outs[out];
        let who = catalogue.subjects.get(out.subject.0 as usize);
        let text = |text: Option<&str>| OwnedValue::Str(until_nul(text.unwrap_or_default().as_bytes()).to_vec());
        let id = |id: Option<i32>| OwnedValue::I64(i64::from(id.unwrap_or(0)));
        let mut context: Vec<(Arc<str>, OwnedValue)> = Vec::new();
        if out.form.names {
            context.push(("label".into(), text(who.map(|who| who.label.as_str()))));
            context.push(("thread".into(), text(who.map(|who| who.thread.as_str()))));
        }
        if out.form.pid {
            context.push(("pid".into(), id(who.and_then(|who| who.pid))));
        }
        if out.form.tid {
            context.push(("tid".into(), id(who.and_then(|who| who.tid))));
        }
        if out.form.kind > 0 {
            let fields = out.layout.metadata().packet_fields(0).iter().skip(out.form.fields());
            context.extend(fields.map(|field| field.name.clone()).zip(self.kinds.values(out.form.kind, &out.packet)));
        }
        let packet =
            Packet { begin: Some(begin), sequence: Some(out.sequence), cpu_id: out.cpu.map(u64::from), context, ..Packet::default() };
        out.writer.begin(&packet).map_err(unwritable(&out.file))?;
        (out.open, out.end_ns) = (true, begin_ns.max(out.end_ns));
        out.sequence += 1;
        Ok(())
    }

    /// Ends the open packet, if there is one.
    fn end(&mut self, out: usize) -> Result<(), Error> {
        let end = self.stamp(self.outs[out].end_ns);
        let most = PENDING / self.outs.len();
        let one = &mut self.outs[out];
        if !std::mem::take(&mut one.open) {
            return Ok(());
        }
        let packet = one.writer.packet_mut();
        (packet.end, packet.discarded) = (Some(end), Some(one.discarded));
        one.writer.end().map_err(unwritable(&one.file))?;
        match one.writer.bytes().len() >= most.min(PACKET) {
            true => self.store(out),
            false => Ok(()),
        }
    }

    /// Appends the finished packets to their file.
    fn store(&mut self, out: usize) -> Result<(), Error> {
        let out = &mut self.outs[out];
        let folder = self.directory.join(&self.groups[out.group].name);
        let path = folder.join(&out.file);
        if !std::mem::replace(&mut out.made, true) {
            fs::create_dir_all(&folder).map_err(Error::write(&folder))?;
        }
        let opened = OpenOptions::new().append(true).create(true).open(&path);
        opened.and_then(|mut file| file.write_all(&out.writer.take())).map_err(Error::write(&path))
    }

    /// Writes the remaining packets and the metadata. If the export is a single CTF trace, it is in
    /// the folder itself, else each trace is in a folder below it.
    pub fn finish(mut self) -> Result<ExportCounts, Error> {
        for out in 0..self.outs.len() {
            self.end(out)?;
            self.store(out)?;
        }
        self.written.untold = self.early.values().map(|losses| losses.len() as u64).sum();
        if self.groups.is_empty() {
            // A trace without events is valid, but CTF 2 requires a description of at least one
            // stream.
            let form = Form::default();
            let text = self.metadata(self.environment.clone(), &[form], &Classes::default()).map_err(Error::metadata(&self.directory))?;
            let path = self.directory.join("metadata");
            fs::write(&path, text).map_err(Error::write(&path))?;
        }
        let alone = self.groups.len() == 1;
        for (index, group) in self.groups.iter().enumerate() {
            let folder = self.directory.join(&group.name);
            let mut environment = self.environment.clone();
            let mut entry = |name: &str, value: &str| environment.push((name.to_owned(), EnvValue::Text(value.to_owned())));
            entry("tracer_name", "longpole-convert");
            if !group.host.is_empty() {
                entry("hostname", &group.host);
            }
            match group.kind {
                StreamKind::Kernel => entry("domain", "kernel"),
                StreamKind::Samples => entry("domain", "longpole-samples"),
                StreamKind::User | StreamKind::Packets => {}
            }
            let mut forms: Vec<Form> = self.outs.iter().filter(|out| out.group == index).map(|out| out.form).collect();
            forms.sort();
            forms.dedup();
            let text = self.metadata(environment, &forms, &group.classes).map_err(Error::metadata(&folder))?;
            let place = if alone { self.directory.clone() } else { folder.clone() };
            if alone {
                for out in &self.outs {
                    let path = folder.join(&out.file);
                    fs::rename(&path, place.join(&out.file)).map_err(Error::write(&path))?;
                }
                fs::remove_dir(&folder).map_err(Error::write(&folder))?;
            }
            let path = place.join("metadata");
            fs::write(&path, text).map_err(Error::write(&path))?;
        }
        Ok(self.written)
    }

    fn metadata(&self, environment: Vec<(String, EnvValue)>, forms: &[Form], classes: &Classes) -> Result<String, MetadataError> {
        let of = |form: &Form| {
            let classes = classes.all.iter().enumerate().filter(|(_, class)| class.signature.form == *form);
            (*form, classes.map(|(id, class)| class.description(id as u64)).collect())
        };
        let schema = schema::schema(environment, self.base_s, forms.iter().map(of).collect(), &self.kinds);
        Ok(write::metadata(self.version.layout(schema)?.metadata()))
    }
}

impl Version {
    /// Converts a schema of CTF 2 to this version.
    fn layout(self, schema: longpole_ctf::Schema) -> Result<Layout, MetadataError> {
        match self {
            Version::One => Layout::to_ctf1(&schema),
            Version::Two => Layout::new(Arc::new(Metadata::from_schema(schema)?)),
        }
    }
}

fn unwritable(file: &str) -> impl FnOnce(Box<WriteError>) -> Error + '_ {
    move |source| Error::Unwritable { path: PathBuf::from(file), source }
}

/// Returns the name with all characters replaced that are unsuitable for a file name.
fn tame(name: &str) -> String {
    let tame: String = name
        .chars()
        .map(|letter| if letter.is_ascii_alphanumeric() || "-_.,+@".contains(letter) { letter } else { '_' })
        .take(200)
        .collect();
    match tame.trim_start_matches('.') {
        "" | "metadata" | "index" => format!("stream_{tame}"),
        trimmed => trimmed.to_owned(),
    }
}
