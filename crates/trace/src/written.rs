//! Writes any trace as CTF: events and losses, one after the other, become packets; what they look like becomes the metadata.
//!
//! What comes from one host and domain is one CTF trace, with all of its times on one clock in ns. Each stream keeps its own file, one for each CPU of which it has events. The
//! metadata is written last, when all classes and labels are known: what is not finished is no trace. Files are opened for each packet anew, since a trace may
//! have more streams than a process may have open files.

mod metadata;
mod shape;

use crate::error::Error;
use crate::event::{Catalogue, Event, Item, Loss, StreamId, StreamKind, SubjectId};
use longpole_ctf::EnvValue;
use metadata::{Class, Described, Form};
use shape::{put_text, Fields};
use std::collections::HashMap;
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

/// Which CTF.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// 1.8
    One,
    Two,
}

/// Bytes of events in a packet, and of all packets that are not written yet.
const PACKET: usize = 64 << 10;
const PENDING: usize = 64 << 20;
const LEAST_PACKET: usize = 2 << 10;
/// Classes of one name that differ in the lengths of arrays.
const MANY: usize = 8;
/// Classes of one name that differ in what their events look like; a trace of which every event is another one is none.
const MOST_SHAPES: usize = 4096;

const MAGIC: u32 = 0xC1FC_1FC1;

/// See the module.
pub struct CtfWriter {
    directory: PathBuf,
    version: Version,
    base_s: i64,
    environment: Vec<(String, EnvValue)>,
    groups: Vec<Group>,
    by_group: HashMap<(String, StreamKind), usize>,
    outs: Vec<Out>,
    by_stream: HashMap<(StreamId, Option<u32>, Form, usize), usize>,
    /// The out that a stream's last event went to.
    last: HashMap<StreamId, usize>,
    /// Losses of streams that had no event yet.
    early: HashMap<StreamId, Vec<Loss>>,
    scratch: Vec<u8>,
    written: Written,
}

/// What was written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Written {
    pub events: u64,
    /// Counted.
    pub lost: u64,
    /// Losses that nobody counted; they are packets that are missing.
    pub uncounted: u64,
    /// Losses of streams without any event.
    pub untold: u64,
}

/// A CTF trace.
struct Group {
    name: String,
    host: String,
    kind: StreamKind,
    classes: Vec<Class>,
    /// Of each class of the catalogue in each form: those that it became, the last used first.
    by_class: HashMap<(u32, Form), Vec<usize>>,
    files: HashMap<String, usize>,
}

/// A stream file.
struct Out {
    group: usize,
    file: String,
    form: Form,
    cpu: Option<u32>,
    subject: SubjectId,
    begin_ns: i64,
    end_ns: i64,
    sequence: u64,
    discarded: u64,
    events: Vec<u8>,
}

/// Makes the folder, if it is not there; what is in it is nobody's to overwrite.
pub(crate) fn empty_folder(directory: &Path) -> Result<(), Error> {
    fs::create_dir_all(directory).map_err(Error::io(directory))?;
    if fs::read_dir(directory).map_err(Error::io(directory))?.next().is_some() {
        let source = std::io::Error::new(std::io::ErrorKind::AlreadyExists, "the folder is not empty");
        return Err(Error::Io { path: directory.to_owned(), source });
    }
    Ok(())
}

impl CtfWriter {
    /// Into a folder, which is made, or is empty. `base_ns`: no time is before. `environment`: what is to be said beside host and domain.
    pub fn create(directory: &Path, version: Version, base_ns: i64, environment: Vec<(String, EnvValue)>) -> Result<CtfWriter, Error> {
        empty_folder(directory)?;
        Ok(CtfWriter {
            directory: directory.to_owned(),
            version,
            base_s: base_ns.div_euclid(1_000_000_000),
            environment,
            groups: Vec::new(),
            by_group: HashMap::new(),
            outs: Vec::new(),
            by_stream: HashMap::new(),
            last: HashMap::new(),
            early: HashMap::new(),
            scratch: Vec::new(),
            written: Written::default(),
        })
    }

    pub fn item(&mut self, item: &Item<'_>, catalogue: &Catalogue) -> Result<(), Error> {
        match item {
            Item::Event(event) => self.event(event, catalogue),
            Item::Loss(loss) => match self.last.get(&loss.stream) {
                Some(&out) => self.loss(out, loss, catalogue),
                None => {
                    self.early.entry(loss.stream).or_default().push(*loss);
                    Ok(())
                }
            },
        }
    }

    fn event(&mut self, event: &Event<'_>, catalogue: &Catalogue) -> Result<(), Error> {
        let (stream, subject) = (&catalogue.streams[event.stream.0 as usize], &catalogue.subjects[event.subject.0 as usize]);
        let group = match self.by_group.get(&(subject.host.clone(), stream.kind)) {
            Some(&group) => group,
            None => self.group(&subject.host, stream.kind),
        };
        // Contexts say who it was where there are some.
        let alone = event.context.is_empty();
        let names = alone && !(subject.label.is_empty() && subject.thread.is_empty());
        let form = Form { cpu: event.cpu.is_some(), names, ids: names && subject.pid.is_some() && subject.tid.is_some() };
        let key = (event.stream, event.cpu, form, group);
        let out = match self.by_stream.get(&key) {
            Some(&out) => out,
            None => {
                let out = self.out(group, &stream.name, form, event);
                self.by_stream.insert(key, out);
                out
            }
        };
        if self.last.insert(event.stream, out).is_none() {
            for loss in self.early.remove(&event.stream).unwrap_or_default() {
                self.loss(out, &loss, catalogue)?;
            }
        }
        let most = (PENDING / self.outs.len()).clamp(LEAST_PACKET, PACKET);
        let full = self.outs[out].events.len() >= most;
        if full || (form.names && self.outs[out].subject != event.subject) {
            self.flush(out, catalogue)?;
        }
        let stamp = self.stamp(event.t_ns);
        let class = self.class(group, form, event, catalogue);
        let Self { groups, outs, .. } = self;
        let (class, out) = (&mut groups[group].classes[class], &mut outs[out]);
        if out.events.is_empty() {
            (out.begin_ns, out.subject) = (event.t_ns, event.subject);
        }
        out.end_ns = event.t_ns.max(out.begin_ns);
        out.events.extend(class.id.to_le_bytes());
        out.events.extend(stamp.to_le_bytes());
        class.context.put(event.context, &mut out.events);
        class.fields.put(event.fields, &mut out.events);
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
        // A folder `user` would be that of a recording.
        let wanted = format!("{}-{domain}", if host.is_empty() { "trace".to_owned() } else { tame(host) });
        let taken = |name: &str| self.groups.iter().any(|group| group.name == name);
        let name = (2..).map(|n| format!("{wanted}-{n}")).find(|name| !taken(name)).filter(|_| taken(&wanted)).unwrap_or(wanted);
        let (classes, by_class, files) = (Vec::new(), HashMap::new(), HashMap::new());
        self.groups.push(Group { name, host: host.to_owned(), kind, classes, by_class, files });
        self.by_group.insert((host.to_owned(), kind), self.groups.len() - 1);
        self.groups.len() - 1
    }

    fn out(&mut self, group: usize, stream: &str, form: Form, event: &Event<'_>) -> usize {
        let wanted = tame(stream);
        let files = &mut self.groups[group].files;
        let count = files.entry(wanted.clone()).or_insert(0);
        *count += 1;
        let file = if *count == 1 { wanted } else { format!("{wanted}.{count}") };
        let (cpu, subject, begin_ns, end_ns) = (event.cpu, event.subject, event.t_ns, i64::MIN);
        self.outs.push(Out { group, file, form, cpu, subject, begin_ns, end_ns, sequence: 0, discarded: 0, events: Vec::new() });
        self.outs.len() - 1
    }

    /// The class of events that look like this one.
    fn class(&mut self, group: usize, form: Form, event: &Event<'_>, catalogue: &Catalogue) -> usize {
        let Group { classes, by_class, .. } = &mut self.groups[group];
        let known = by_class.entry((event.class.0, form)).or_default();
        let fits = |class: &usize| classes[*class].fields.fit(event.fields) && classes[*class].context.fit(event.context);
        if let Some(at) = known.iter().position(fits) {
            known.swap(0, at);
            return known[0];
        }
        let told = &catalogue.classes[event.class.0 as usize];
        let (id, many) = (classes.len() as u32, known.len() >= MANY);
        classes.push(Class {
            form,
            id,
            name: told.event_name.clone(),
            attributes: told.attributes.clone(),
            context: Fields::of(&told.context, &told.context_bases, event.context, many),
            fields: Fields::of(&told.fields, &told.bases, event.fields, many),
        });
        known.push(classes.len() - 1);
        known.truncate(MOST_SHAPES);
        classes.len() - 1
    }

    /// A loss lies between two packets without events, of its begin and of its end: readers see steps only. One that began before the last event is told by the packet
    /// of that, as tracers do: times never run backwards.
    fn loss(&mut self, out: usize, loss: &Loss, catalogue: &Catalogue) -> Result<(), Error> {
        let Out { begin_ns, end_ns, sequence, ref events, .. } = self.outs[out];
        let begun = !events.is_empty() && loss.begin_ns < end_ns;
        match loss.events {
            Some(count) if begun => {
                if sequence == 0 {
                    let pending = std::mem::take(&mut self.outs[out].events);
                    self.packet(out, begin_ns, begin_ns, catalogue)?;
                    self.outs[out].events = pending;
                }
                self.lose(out, count);
                self.packet(out, begin_ns, loss.end_ns.max(end_ns), catalogue)?;
            }
            told => {
                self.flush(out, catalogue)?;
                let begin_ns = loss.begin_ns.min(loss.end_ns).max(end_ns);
                self.packet(out, begin_ns, begin_ns, catalogue)?;
                match told {
                    Some(count) => self.lose(out, count),
                    None => {
                        self.outs[out].sequence += 1;
                        self.written.uncounted += 1;
                    }
                }
                let end_ns = loss.end_ns.max(begin_ns);
                self.packet(out, end_ns, end_ns, catalogue)?;
            }
        }
        let out = &mut self.outs[out];
        out.end_ns = out.end_ns.max(loss.end_ns);
        Ok(())
    }

    fn lose(&mut self, out: usize, events: u64) {
        self.outs[out].discarded = self.outs[out].discarded.wrapping_add(events);
        self.written.lost += events;
    }

    fn flush(&mut self, out: usize, catalogue: &Catalogue) -> Result<(), Error> {
        match self.outs[out].events.is_empty() {
            true => Ok(()),
            false => self.packet(out, self.outs[out].begin_ns, self.outs[out].end_ns, catalogue),
        }
    }

    /// Writes what is pending.
    fn packet(&mut self, out: usize, begin_ns: i64, end_ns: i64, catalogue: &Catalogue) -> Result<(), Error> {
        let stamps = [self.stamp(begin_ns), self.stamp(end_ns)];
        let Out { form, cpu, subject, sequence, discarded, group, file, events, .. } = &mut self.outs[out];
        let mut rest = Vec::new();
        if let Some(cpu) = cpu {
            rest.extend(cpu.to_le_bytes());
        }
        let who = catalogue.subjects.get(subject.0 as usize);
        if form.names {
            put_text(who.map_or("", |who| &who.label).as_bytes(), &mut rest);
            put_text(who.map_or("", |who| &who.thread).as_bytes(), &mut rest);
        }
        if form.ids {
            for id in [who.and_then(|who| who.pid), who.and_then(|who| who.tid)] {
                rest.extend(id.unwrap_or(0).to_le_bytes());
            }
        }
        let bits = 8 * (8 + 6 * 8 + rest.len() + events.len()) as u64;
        let bytes = &mut self.scratch;
        bytes.clear();
        bytes.extend(MAGIC.to_le_bytes());
        bytes.extend(form.id().to_le_bytes());
        for value in [stamps[0], stamps[1], bits, bits, *sequence, *discarded] {
            bytes.extend(value.to_le_bytes());
        }
        bytes.extend_from_slice(&rest);
        bytes.append(events);
        *sequence += 1;
        let folder = self.directory.join(&self.groups[*group].name);
        let path = folder.join(&*file);
        if *sequence == 1 {
            fs::create_dir_all(&folder).map_err(Error::io(&folder))?;
        }
        let opened = OpenOptions::new().append(true).create(true).open(&path);
        opened.and_then(|mut file| file.write_all(bytes)).map_err(Error::io(&path))
    }

    /// Writes the rest, and the metadata. What was one trace lies in the folder itself.
    pub fn finish(mut self, catalogue: &Catalogue) -> Result<Written, Error> {
        for out in 0..self.outs.len() {
            self.flush(out, catalogue)?;
        }
        self.written.untold = self.early.values().map(|losses| losses.len() as u64).sum();
        let alone = self.groups.len() == 1;
        for (index, group) in self.groups.iter().enumerate() {
            let folder = self.directory.join(&group.name);
            let mut environment = self.environment.clone();
            let mut told = |name: &str, value: &str| environment.push((name.to_owned(), EnvValue::Text(value.to_owned())));
            told("tracer_name", "longpole-convert");
            if !group.host.is_empty() {
                told("hostname", &group.host);
            }
            match group.kind {
                StreamKind::Kernel => told("domain", "kernel"),
                StreamKind::Samples => told("domain", "longpole-samples"),
                StreamKind::User | StreamKind::Packets => {}
            }
            let mut forms: Vec<Form> = self.outs.iter().filter(|out| out.group == index).map(|out| out.form).collect();
            forms.sort();
            forms.dedup();
            let described = Described { environment: &environment, base_s: self.base_s, forms: &forms, classes: &group.classes };
            let text = match self.version {
                Version::One => metadata::text(&described),
                Version::Two => metadata::fragments(&described),
            };
            let place = if alone { self.directory.clone() } else { folder.clone() };
            if alone {
                for out in &self.outs {
                    let path = folder.join(&out.file);
                    // A stream of which nothing was written has no file.
                    if path.exists() {
                        fs::rename(&path, place.join(&out.file)).map_err(Error::io(&path))?;
                    }
                }
                fs::remove_dir(&folder).map_err(Error::io(&folder))?;
            }
            let path = place.join("metadata");
            fs::write(&path, text).map_err(Error::io(&path))?;
        }
        Ok(self.written)
    }
}

/// A name of a file.
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
