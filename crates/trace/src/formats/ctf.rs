//! CTF traces: converts metadata to the catalogue and stream files to sources, and finds the
//! subject of events in the contexts that tracers write.

mod about;
mod growth;
mod header_batch;
mod pending_loss;

pub(crate) use about::{ctf_trace, diagnostics, kind, Tracer};
pub(crate) use growth::Growth;

use crate::diagnostic::{Diagnostic, PacketPosition, MAX_ERRORS};
use crate::error::Error;
use crate::event::{Class, ClassId, Event, Item, Loss, StreamId, StreamKind, Subject, SubjectId};
use crate::files::ctf_trace::CtfTrace;
use crate::files::directory::stream_files;
use crate::files::file::{FileWindow, StreamFile};
use crate::files::recording::Clock;
use crate::formats::site;
use crate::index::packet_chains::{Chains, Listed, Share, Way};
use crate::index::{self, FileIndex, MIN_FILE};
use crate::merge::lookahead::Lookahead;
use crate::merge::out_of_range::{is_saturated, Beyond};
use crate::merge::packet_checks::PacketChecks;
use crate::merge::sort_window::Window;
use crate::shared::subject::{names_subject, subject_of_packet, EventSubjects};
use crate::shared::Shared;
use crate::value::{has_names, Owned, PacketValues, SharedValues, Value};
use crate::value_buffer::ValueBuffer;
use about::env_number;
use longpole_ctf::types::Scope;
use longpole_ctf::{DecodeError, EnvValue, Field, Metadata, Source, Step, StreamDecoder};
use pending_loss::PendingLoss;
use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

/// Maximum number of bytes of metadata. A larger file is refused.
const MAX_METADATA: u64 = 1 << 30;

/// Maximum number of empty files that are named in a diagnostic.
const MAX_EXAMPLES: usize = 3;

/// An opened CTF directory.
pub(crate) struct Opened {
    pub tracer: String,
    pub clock: Clock,
    pub probe_cost_ns: Option<f64>,
    pub streams: Vec<CtfSource>,
    /// Set if the tracer is known to write each stream in the order of time.
    pub trusted: bool,
    pub ctf_trace: CtfTrace,
}

/// Properties that all streams of a trace share.
pub(crate) struct Plan {
    /// Plans by index of the stream class and index of the event class.
    classes: Vec<Vec<ClassPlan>>,
    /// Indices of the fields of a packet's context that events show, by index of the stream class.
    packets: Vec<Vec<usize>>,
    /// Default subject, from the trace's environment.
    subject: Subject,
}

pub(crate) struct ClassPlan {
    id: ClassId,
    /// Number of fields that are context. The payload's fields follow.
    contexts: usize,
    /// Set if the values of a field can have labels.
    named: bool,
    subjects: Option<EventSubjects>,
}

pub(crate) fn open(directory: &Path, shared: &mut Shared, name: &dyn Fn(&Path) -> String) -> Result<Opened, Error> {
    // The lengths of the streams are read before the metadata, because a live recorder writes
    // metadata before the packets that need it.
    let mut files = Vec::new();
    for path in stream_files(directory)? {
        files.push(StreamFile::look(&path).map_err(Error::io(&path))?);
    }
    let path = directory.join("metadata");
    let (metadata, cut) = metadata_and_cut(&path)?;
    let metadata = Arc::new(metadata);
    shared.diagnostics.extend(cut);
    match metadata.diagnostics().first() {
        Some(first) if shared.strict => return Err(Error::Metadata { path, source: first.error.clone() }),
        _ => shared.diagnostics.extend(nonstandard(&path, &metadata)),
    }
    let text = match files.iter().any(|file| file.length >= MIN_FILE) {
        true => index::hash(&fs::read(&path).map_err(Error::io(&path))?),
        false => 0,
    };
    let env = |key: &str| metadata.trace.env_text(key).filter(|text| !text.is_empty());
    let tracer = Tracer::of(&metadata);
    if tracer != Tracer::Longpole {
        shared.diagnostics.extend(empty(directory, &files));
    }
    let kind = kind(&metadata);
    shared.diagnostics.extend(diagnostics(directory, &metadata));
    let plan = Rc::new(Plan::grown(&metadata, shared, None));
    let (ordered, trusted) = (tracer.orders_packets(), tracer.orders_events());
    let ours = tracer == Tracer::Longpole && kind == StreamKind::User;
    let mut streams = Vec::new();
    // A lookahead has a window of its own, so each file of an untrusted tracer has two.
    let count = if trusted { files.len() } else { files.len() * 2 };
    for file in &files {
        let id = shared.stream(name(&file.path), kind);
        shared.packets(id).bytes = file.length;
        let index = FileIndex::new(file, &metadata, text, ordered, count);
        for share in if ordered { vec![Share::All] } else { shares(&metadata, file, index.as_ref(), shared.has_begin, count)? } {
            let mut window = file.window(count).map_err(Error::io(&file.path))?;
            let decoder = |window| {
                let decoder = StreamDecoder::new(metadata.clone(), window);
                if shared.strict {
                    decoder.strict()
                } else {
                    decoder
                }
            };
            let lookahead = (!trusted && matches!(share, Share::All)).then(|| Box::new(Lookahead::new(decoder(window.twin()))));
            let source = CtfSource::new(decoder(window), plan.clone(), id, file.path.clone());
            let pending_loss = PendingLoss::new(ours);
            let mut source = CtfSource { pending_loss, ordered, trusted, share, index: index.clone(), lookahead, ..source };
            source.leave_out(None);
            streams.push(source);
        }
    }
    let clock = metadata.streams.iter().enumerate().find_map(|(index, _)| metadata.stream_clock(index));
    let clock = clock.and_then(|index| metadata.clocks.get(index));
    Ok(Opened {
        tracer: env("tracer_name").unwrap_or("ctf").to_owned(),
        clock: Clock {
            source: env("clock_source").or(clock.map(|clock| clock.name.as_str())).map(str::to_owned),
            frequency_hz: clock.map(|clock| clock.frequency),
            offset_ns: clock.map(|clock| clock.ns(0)),
            residual_ns: None,
        },
        probe_cost_ns: env_number(&metadata, "probe_cost_ps").filter(|&cost| cost > 0).map(|cost| cost as f64 / 1000.0),
        streams,
        trusted,
        ctf_trace: ctf_trace(directory, &metadata),
    })
}

/// Returns how the packets of a file are shared among readers, for a tracer that may not write in
/// the order of time.
fn shares(
    metadata: &Arc<Metadata>,
    file: &StreamFile,
    index: Option<&Rc<FileIndex>>,
    has_begin: bool,
    streams: usize,
) -> Result<Vec<Share>, Error> {
    // The index is used only if a late part is requested. A reader of the whole file needs no list
    // of its packets, and sees all packets, so it reports more diagnostics.
    if let Some((index, chains)) =
        index.filter(|_| has_begin).and_then(|index| Some((index, index.chains()?))).filter(|(_, chains)| *chains > 1)
    {
        return Ok((0..chains).map(|chain| Share::Listed(Listed::new(index.clone(), chain))).collect());
    }
    let readers = match index.and_then(|index| index.readers_if_known()) {
        Some(readers) => readers,
        None => Chains::count(metadata, file, streams)?,
    };
    Ok(match readers {
        1 => vec![Share::All],
        _ => (0..readers).map(|own| Share::Rule(Chains::default(), own)).collect(),
    })
}

/// Reports files without content. Not used for Longpole's own recorder, which creates files before
/// it writes to them.
pub(crate) fn empty(directory: &Path, files: &[StreamFile]) -> Option<Diagnostic> {
    let mut names = files.iter().filter(|file| file.length == 0).filter_map(|file| Some(file.path.file_name()?.to_string_lossy()));
    let mut examples: Vec<_> = names.by_ref().take(MAX_EXAMPLES).collect();
    let more = names.count();
    if more > 0 {
        examples.push("…".into());
    }
    let files = (examples.len().min(MAX_EXAMPLES) + more) as u64;
    (files > 0).then(|| Diagnostic::Empty { path: directory.to_owned(), files, examples: examples.join(", ") })
}

pub(crate) fn decoder(metadata: &Arc<Metadata>, file: &StreamFile, streams: usize) -> Result<StreamDecoder<FileWindow>, Error> {
    let window = file.window(streams).map_err(Error::io(&file.path))?;
    Ok(StreamDecoder::new(metadata.clone(), window))
}

/// Returns the subject that the trace's environment names.
fn subject_of_trace(metadata: &Metadata) -> Subject {
    let env = |key: &str| metadata.trace.env_text(key).unwrap_or("").to_owned();
    let pid = match metadata.trace.env("vpid") {
        Some(EnvValue::Int(pid)) => i32::try_from(*pid).ok(),
        _ => None,
    };
    Subject { host: env("hostname"), label: env("procname"), pid, ..Subject::default() }
}

impl Plan {
    /// Makes the plan of metadata that may still grow. Classes that `before` contains keep their
    /// ids. Metadata only grows, so they keep their indices.
    pub fn grown(metadata: &Metadata, shared: &mut Shared, before: Option<&Plan>) -> Plan {
        let packets: Vec<Vec<usize>> = (0..metadata.streams.len()).map(|stream| shown_of_packets(metadata, stream)).collect();
        let classes = intern(metadata, shared, &packets, before);
        Plan { classes, packets, subject: subject_of_trace(metadata) }
    }
}

pub(crate) fn read_metadata(path: &Path) -> Result<Metadata, Error> {
    Ok(metadata_and_cut(path)?.0)
}

/// Reads metadata. If they end inside a block, also returns a diagnostic for the part that is not
/// read.
pub(crate) fn metadata_and_cut(path: &Path) -> Result<(Metadata, Option<Diagnostic>), Error> {
    let length = fs::metadata(path).map_err(Error::io(path))?.len();
    if length > MAX_METADATA {
        let tried = format!("{length} bytes are too many for metadata");
        return Err(Error::NotATrace { path: path.to_owned(), tried });
    }
    let bytes = fs::read(path).map_err(Error::io(path))?;
    Metadata::parse(&bytes).map(|metadata| (metadata, None)).or_else(|source| {
        // A recorder that was killed, or that is writing, may leave its last block unfinished. No
        // packet needs that block yet.
        let whole = bytes.windows(4).rposition(|end| end == b"\n};\n").map_or(0, |at| at + 4);
        match Metadata::parse(&bytes[..whole]) {
            Ok(metadata) if source.cut && whole > 0 => {
                let line = 1 + bytes[..whole].iter().filter(|&&byte| byte == b'\n').count();
                Ok((metadata, Some(Diagnostic::CutMetadata { path: path.to_owned(), line, bytes: (bytes.len() - whole) as u64 })))
            }
            _ => Err(Error::Metadata { path: path.to_owned(), source }),
        }
    })
}

/// Returns what metadata contain that the specification does not allow and that is read.
pub(crate) fn nonstandard<'a>(path: &'a Path, metadata: &'a Metadata) -> impl Iterator<Item = Diagnostic> + 'a {
    let found = metadata.diagnostics().iter();
    found.map(|found| Diagnostic::Nonstandard { path: path.to_owned(), byte: found.byte, what: found.to_string() })
}

/// Returns the indices of the packet context's fields that events show: all fields except those
/// that the reader interprets itself. Packets of Longpole's recorder have no others.
fn shown_of_packets(metadata: &Metadata, stream: usize) -> Vec<usize> {
    let fields = metadata.packet_fields(stream);
    if Tracer::of(metadata) == Tracer::Longpole {
        return Vec::new();
    }
    let context = |event| metadata.fields(stream, event).split(|field| field.scope == Scope::EventFields).next().unwrap_or(&[]);
    let by_event = (0..metadata.streams[stream].events.len()).any(|event| EventSubjects::find(context(event)).is_some());
    let shown = |field: &(usize, &Field)| field.1.roles.is_empty() && (by_event || !names_subject(field.1, fields));
    fields.iter().enumerate().filter(shown).map(|(index, _)| index).collect()
}

fn intern(metadata: &Metadata, shared: &mut Shared, packets: &[Vec<usize>], before: Option<&Plan>) -> Vec<Vec<ClassPlan>> {
    let mut streams = Vec::with_capacity(metadata.streams.len());
    for (stream, class) in metadata.streams.iter().enumerate() {
        let mut plans = Vec::with_capacity(class.events.len());
        let packet: Vec<&Field> = packets[stream].iter().map(|&index| &metadata.packet_fields(stream)[index]).collect();
        for (index, event) in class.events.iter().enumerate() {
            let fields = metadata.fields(stream, index);
            let contexts = fields.iter().take_while(|field| field.scope != Scope::EventFields).count();
            let (context, payload) = fields.split_at(contexts);
            let of_stream: HashSet<&str> = context.iter().filter(|f| f.scope == Scope::StreamEventContext).map(|f| &*f.name).collect();
            let name = |field: &Field| match field.scope {
                // The context of the stream class has a field of the same name.
                Scope::EventContext if of_stream.contains(&*field.name) => format!("event.{}", field.name),
                _ => field.name.to_string(),
            };
            let known = before.and_then(|plan| plan.classes.get(stream)?.get(index)).map(|class| class.id);
            let id = known.unwrap_or_else(|| {
                shared.class(Class {
                    event_name: event.name.clone(),
                    fields: payload.iter().map(name).collect(),
                    bases: payload.iter().map(Field::base).collect(),
                    context: context.iter().map(name).collect(),
                    context_bases: context.iter().map(Field::base).collect(),
                    packet: packet.iter().map(|field| name(field)).collect(),
                    packet_bases: packet.iter().map(|field| field.base()).collect(),
                    attributes: event.model_emf_uri.as_deref().map(site::attributes).unwrap_or_default(),
                })
            });
            let named = fields.iter().any(|field| has_names(&field.ty));
            plans.push(ClassPlan { id, contexts, named, subjects: EventSubjects::find(context) });
        }
        streams.push(plans);
    }
    streams
}

/// Source for a stream file, or for one chain of its packets.
pub(crate) struct CtfSource {
    decoder: StreamDecoder<FileWindow>,
    plan: Rc<Plan>,
    stream: StreamId,
    path: PathBuf,
    /// Packets of the file that belong to this source.
    share: Share,
    /// Index of the file, if it is long.
    index: Option<Rc<FileIndex>>,
    /// Begin of the requested part. Packets that end before it are skipped.
    begin_ns: i64,
    packet_subject: SubjectId,
    /// Other values of the packet's context, which are shown with its events.
    packet_values: SharedValues,
    subject: SubjectId,
    cpu: Option<u32>,
    /// The current item if it is a loss. If `None`, the decoder's current event is the item.
    loss: Option<Loss>,
    pending_loss: PendingLoss,
    last_ns: i64,
    counts: Counts,
    /// Set when the source has ended at its first damage ([`Shared::strict`]).
    pub broken: bool,
    /// Set if the tracer writes the packets of a file in the order of time.
    pub ordered: bool,
    /// Set if the tracer writes events in the order of time, so that the source needs no sorting
    /// window.
    trusted: bool,
    /// Lookahead for the sorting window.
    pub lookahead: Option<Box<Lookahead>>,
    /// Set if the item is the partial event in which decoding failed.
    is_partial: bool,
    growth: Growth,
    /// Set if the source has ended at an event that metadata may still describe.
    awaits_metadata: bool,
    packet_checks: PacketChecks,
    beyond: Beyond,
}

/// Counts of what was read of a stream.
#[derive(Default)]
struct Counts {
    packets: u64,
    packets_lost: u64,
    /// Number of events that came after a later one.
    backwards: u64,
    errors: u32,
}

impl CtfSource {
    pub fn new(decoder: StreamDecoder<FileWindow>, plan: Rc<Plan>, stream: StreamId, path: PathBuf) -> CtfSource {
        CtfSource {
            decoder,
            plan,
            stream,
            path,
            share: Share::All,
            index: None,
            begin_ns: i64::MIN,
            packet_subject: SubjectId(0),
            packet_values: None,
            subject: SubjectId(0),
            cpu: None,
            loss: None,
            pending_loss: PendingLoss::default(),
            last_ns: i64::MIN,
            counts: Counts::default(),
            broken: false,
            ordered: false,
            trusted: false,
            lookahead: None,
            is_partial: false,
            growth: Growth::None,
            awaits_metadata: false,
            packet_checks: PacketChecks::default(),
            beyond: Beyond::default(),
        }
    }

    /// The source of a stream that Longpole's recorder writes in the order of time. `of_probes`:
    /// from probes, whose losses it notes in its own way.
    pub fn in_order(self, of_probes: bool) -> CtfSource {
        CtfSource { pending_loss: PendingLoss::new(of_probes), ordered: true, trusted: true, ..self }
    }

    pub fn stream(&self) -> StreamId {
        self.stream
    }

    /// Returns true if the item that was decoded last is an event.
    #[inline]
    pub fn has_event(&self) -> bool {
        self.loss.is_none()
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Skips what is before `begin_ns`, also in the window that sorts the events.
    pub fn skip_to(&mut self, begin_ns: i64, window: &mut Option<Window>) {
        self.begin_ns = begin_ns;
        let packet = self.decoder.packet().index;
        if let Some(window) = window.as_mut().filter(|_| begin_ns > i64::MIN) {
            window.skip(begin_ns, packet);
        }
        // A reader that follows a growing file passes over all of its packets anyway.
        if begin_ns <= self.last_ns || self.growth != Growth::None {
            return;
        }
        if let Share::Listed(listed) = &mut self.share {
            if listed.skip_to(begin_ns) {
                self.leave_out(Some(packet));
            }
        }
        if let Some(index) = self.index.as_ref().filter(|_| matches!(self.share, Share::All)) {
            if let Some(to) = index.position(begin_ns).filter(|to| to.packet > packet) {
                self.decoder.seek_at(to.offset, to.packet, to.clock);
                if let Some(window) = window {
                    window.restart_at(to);
                }
            }
        }
    }

    /// Moves the decoder past packets that the index assigns to other readers. `passed` is the
    /// packet that was read last.
    fn leave_out(&mut self, passed: Option<u64>) {
        let Share::Listed(listed) = &mut self.share else { return };
        match listed.advance(passed) {
            Way::On => {}
            Way::To(position) => self.decoder.seek_at(position.offset, position.packet, position.clock),
            Way::End => self.decoder.seek(self.decoder.source().len(), self.decoder.packet().index),
        }
    }

    #[inline]
    pub fn advance(&mut self, shared: &mut Shared) -> Result<Option<i64>, Error> {
        self.loss = None;
        if self.is_partial {
            self.continue_after_damage(shared);
        }
        loop {
            if let Some(loss) = self.loss {
                shared.loss_ahead = Some(loss);
                return Ok(Some(loss.end_ns));
            }
            match self.decoder.advance() {
                Ok(Some(Step::Event)) => {
                    let event = self.decoder.event();
                    let class = &self.plan.classes[event.stream_index()][event.class_index()];
                    self.subject = match &class.subjects {
                        Some(subjects) => subjects.subject(&event, &self.plan.subject, shared),
                        None => self.packet_subject,
                    };
                    let ns = event.ns();
                    if self.packet_checks.is_outside(ns) && self.outside(ns, PacketPosition::of_event(&self.decoder), shared) {
                        continue;
                    }
                    self.counts.backwards += u64::from(ns < self.last_ns);
                    self.last_ns = ns;
                    return Ok(Some(ns));
                }
                step => {
                    if let Some(found) = self.between_events(step, shared) {
                        return Ok(found);
                    }
                }
            }
        }
    }

    /// Handles a step that is no event, or damage. Returns `Some` at the end of the stream and if
    /// the next item is the partial event at which decoding failed. Sets `loss` if there is a loss
    /// to yield.
    #[cold]
    fn between_events(&mut self, step: Result<Option<Step>, Box<DecodeError>>, shared: &mut Shared) -> Option<Option<i64>> {
        let error = match step {
            Ok(step) => return self.between(step, shared),
            Err(error) => error,
        };
        if self.waits_for(&error.kind) {
            return Some(None);
        }
        self.failed(&error, shared);
        if let Some(event) = self.decoder.partial().filter(|_| shared.partial_events) {
            self.is_partial = true;
            self.last_ns = event.ns();
            return Some(Some(self.last_ns));
        }
        self.continue_after_damage(shared);
        None
    }

    /// Handles a step that is no event. Returns `Some` at the end of the stream, and sets `loss` if
    /// there is a loss to yield.
    #[cold]
    fn between(&mut self, step: Option<Step>, shared: &mut Shared) -> Option<Option<i64>> {
        match step {
            Some(Step::DiscardedEvents(loss)) => {
                if self.owns_packet() {
                    let begin_ns = loss.begin_ns.unwrap_or(self.last_ns);
                    let end_ns = loss.end_ns.unwrap_or(begin_ns).max(begin_ns);
                    self.add_pending_loss(Loss { stream: self.stream, begin_ns, end_ns, events: loss.count });
                }
            }
            Some(Step::DiscardedPackets(loss)) => {
                if self.owns_packet() {
                    let begin_ns = loss.begin_ns.unwrap_or(self.last_ns);
                    let end_ns = loss.end_ns.unwrap_or(begin_ns).max(begin_ns);
                    self.counts.packets_lost = self.counts.packets_lost.saturating_add(loss.count.unwrap_or(0));
                    // Longpole's recorder counts the events of missing packets, so its loss is
                    // already pending. LTTng does not count the events of packets that it
                    // overwrote.
                    if !(self.pending_loss.is_own() && self.pending_loss.is_some()) {
                        self.loss = Some(Loss { stream: self.stream, begin_ns, end_ns, events: None });
                    }
                }
            }
            Some(Step::PacketBegin) => {
                let packet = self.decoder.packet();
                let before = packet.end_ns.is_some_and(|end| end < self.begin_ns);
                self.cpu = packet.cpu_id.and_then(|cpu| u32::try_from(cpu).ok());
                let subject = subject_of_packet(packet, &self.plan.subject);
                let (begin_ns, end_ns) = (packet.begin_ns, packet.end_ns);
                if self.share.is_first() {
                    self.packet_checks.packet(self.decoder.packet(), &subject, self.ordered);
                }
                if before || !self.owns_packet() {
                    self.pending_loss.clear();
                    self.decoder.skip_packet();
                    self.leave_out(Some(self.decoder.packet().index));
                    if self.pending_loss.is_own() {
                        self.last_ns = end_ns.unwrap_or(self.last_ns);
                    }
                } else {
                    self.counts.packets += 1;
                    self.packet_checks.enter(self.decoder.packet());
                    let subject = shared.subject(subject);
                    if let Some(begin_ns) = begin_ns.filter(|_| self.pending_loss.is_own() && !self.decoder.packet_is_empty()) {
                        self.loss = self.pending_loss.end_at(begin_ns, subject == self.packet_subject).or(self.loss);
                    }
                    self.packet_subject = subject;
                    self.subject = subject;
                    self.packet_values = self.values_of_packet();
                }
            }
            Some(Step::PacketEnd) => {
                self.leave_out(Some(self.decoder.packet().index));
                if self.pending_loss.end_packet() {
                    self.yield_pending_loss();
                }
            }
            Some(Step::Event) => {}
            None => {
                // The next packet may end the loss.
                if self.growth == Growth::None {
                    self.yield_pending_loss();
                }
                return self.loss.is_none().then_some(None);
            }
        }
        None
    }

    fn values_of_packet(&self) -> SharedValues {
        let (packet, metadata) = (self.decoder.packet(), self.decoder.metadata());
        let shown = self.plan.packets.get(packet.stream).filter(|shown| !shown.is_empty())?;
        let fields = metadata.packet_fields(packet.stream);
        let value = |&index: &usize| Some(Owned::of(&Value::kept(&packet.context.get(index)?.1, Some(&fields.get(index)?.ty))));
        shown.iter().map(value).collect()
    }

    fn add_pending_loss(&mut self, loss: Loss) {
        self.pending_loss.add(loss, Some(self.last_ns).filter(|&last_ns| last_ns != i64::MIN));
    }

    fn yield_pending_loss(&mut self) {
        self.loss = self.pending_loss.take(self.last_ns).or(self.loss);
    }

    /// Reports at the end what was counted while reading.
    pub fn report(&self, shared: &mut Shared) {
        if self.trusted && self.counts.backwards > 0 {
            let stream = shared.stream_name(self.stream);
            shared.diagnostics.push(Diagnostic::Late { stream, events: self.counts.backwards });
        }
        self.packet_checks.report(&self.path, shared);
        let packets = shared.packets(self.stream);
        packets.packets += self.counts.packets;
        packets.lost = packets.lost.saturating_add(self.counts.packets_lost);
        if self.counts.packets_lost > 0 {
            let stream = shared.stream_name(self.stream);
            shared.diagnostics.push(Diagnostic::PacketsLost { stream, packets: self.counts.packets_lost });
        }
    }

    pub fn yield_pending_loss_before(&mut self, end_ns: i64) -> bool {
        if self.pending_loss.begins_by(end_ns) {
            self.yield_pending_loss();
        }
        self.loss.is_some_and(|loss| loss.begin_ns <= end_ns)
    }

    fn owns_packet(&mut self) -> bool {
        self.share.has(self.decoder.packet())
    }

    /// Handles an event at `place` outside of its packet's range. If its time is out of range, it
    /// is damage: returns true if the stream ends there because of [`Shared::strict`].
    #[cold]
    fn outside(&mut self, ns: i64, place: PacketPosition, shared: &mut Shared) -> bool {
        if !is_saturated(ns) {
            self.packet_checks.outside(place);
            return false;
        }
        self.beyond.report(&self.path, || place, Some(place), &mut shared.diagnostics);
        if shared.strict {
            self.broken = true;
            self.decoder.seek(self.decoder.source().len(), self.decoder.packet().index);
            self.yield_pending_loss();
        }
        shared.strict
    }

    /// Reports that the rest of the packet cannot be decoded. The next packet may be intact.
    #[cold]
    fn failed(&mut self, error: &DecodeError, shared: &mut Shared) {
        if !self.share.is_first() {
            return;
        }
        self.counts.errors += 1;
        // In strict mode the stream ends here, so no next packet is named.
        let next = if shared.strict { None } else { self.decoder.next_packet() };
        // In a growing file the next packet may not exist yet, but its offset is known.
        let packet = self.decoder.packet();
        let end = packet.offset.saturating_add(packet.packet_bits / 8);
        let next = next.or((self.growth != Growth::None && error.event.is_some() && packet.sized).then_some(end));
        let diagnostic = Diagnostic::of_packet(&self.path, error, next);
        if diagnostic.is_cut() || self.counts.errors <= MAX_ERRORS {
            shared.diagnostics.push(diagnostic);
        }
    }

    /// Continues after damage.
    #[cold]
    fn continue_after_damage(&mut self, shared: &Shared) {
        self.is_partial = false;
        // A decoder that has failed yields nothing more unless it is asked to skip the packet.
        match shared.strict {
            true => self.broken = true,
            false => self.decoder.skip_packet(),
        }
        self.yield_pending_loss();
    }

    #[inline]
    pub fn item<'a>(&'a self, value_buffer: &'a mut ValueBuffer) -> Item<'a> {
        if let Some(loss) = self.loss {
            return Item::Loss(loss);
        }
        let event = if self.is_partial { self.decoder.partial() } else { None }.unwrap_or_else(|| self.decoder.event());
        let class = &self.plan.classes[event.stream_index()][event.class_index()];
        let values = value_buffer.lend();
        if class.named {
            event.each(|field, value| values.push(Value::of(value, &field.ty)));
        } else {
            event.each(|_, value| values.push(Value::from(value)));
        }
        let (context, fields) = values.split_at(class.contexts.min(values.len()));
        let (stream, subject, packet) = (self.stream, self.subject, PacketValues::of(&self.packet_values));
        Item::Event(Event { t_ns: event.ns(), stream, subject, class: class.id, cpu: self.cpu, fields, context, packet })
    }
}
