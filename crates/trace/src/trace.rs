//! The reader of a whole trace: opens all inputs and merges their streams by time.
//!
//! [`Trace::open`] recognises what the paths hold and makes one slot per stream. A slot is a
//! source, a window that sorts its items if the source's order cannot be trusted, and the
//! correction of its clock. [`Trace::next_item`] advances the stream that was yielded last and then
//! takes the earliest of all streams from a heap.

mod unmerged;

pub use unmerged::{Run, Unmerged};

use crate::diagnostic::Diagnostic;
use crate::error::Error;
use crate::event::{Catalogue, Item, Loss, StreamId, StreamKind};
use crate::files::ctf_trace::{CtfTrace, Packets};
use crate::files::recording::{Clock, Recording};
use crate::formats::archive::{self, Unpacked};
use crate::formats::capture::{Capture, CaptureSource};
use crate::formats::ctf;
use crate::formats::ftrace_text;
use crate::formats::json::chrome::ChromeSource;
use crate::formats::json::lines::LogSource;
use crate::formats::perf_data::PerfSource;
use crate::formats::sel4::{Dump, DumpSource};
use crate::formats::source::Source;
use crate::formats::trace_dat;
use crate::merge::clock_shift::{Shift, Shifts};
use crate::merge::common_clock::{diagnose_distant_begins, CommonClocks};
use crate::merge::sort_window::{Sequence, Window};
use crate::merge::{Heap, Key};
use crate::moment::Moment;
use crate::open::format::Format;
use crate::open::no_event::NoEvent;
use crate::open::recognise::{recognise, Found};
use crate::shared::Shared;
use crate::value_buffer::ValueBuffer;
use std::path::{Path, PathBuf};

/// Selects the part of a trace to read, and how to read it.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Begin of the part: items before this moment are left out.
    pub begin: Option<Moment>,
    /// End of the part: items after this moment are left out, items at it are yielded.
    pub end: Option<Moment>,
    /// Format of the files if they are raw logs of a kernel, whose content does not identify them.
    pub dump: Option<Dump>,
    /// Corrections of clocks, by path.
    pub shifts: Shifts,
    /// Action at a damaged part of a stream.
    pub damage: Damage,
    /// Requests the event in which a stream is damaged, with the fields that precede the damage.
    /// See [`Event::is_partial`](crate::Event::is_partial).
    pub partial_events: bool,
}

/// What to do where a stream is damaged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Damage {
    /// Continue with the next packet, if there is one that can be read.
    #[default]
    Pass,
    /// End that stream there; the other streams are read on. Deviations from the format that are
    /// read otherwise count as damage: a packet with another UUID than its metadata's, bytes after
    /// the last packet of metadata, words of a draft of CTF 2.
    EndsStream,
    /// End the whole trace there. What counts as damage is the same as for `EndsStream`.
    EndsTrace,
    /// Like `EndsTrace`, and return [`Error::Damaged`] instead of the end.
    IsError,
}

impl Options {
    /// Returns true if the options request the whole trace, uncorrected, from files that identify
    /// themselves, and continue after damage.
    pub fn is_all(&self) -> bool {
        let whole = self.begin.is_none() && self.end.is_none();
        whole && self.dump.is_none() && self.shifts.is_empty() && self.damage == Damage::Pass
    }

    /// Changes the options for callers that show what is stored: one event for each entry of a log
    /// and no event that the reader derives from entries (such as the end of an interval), and also
    /// the partial event at which a stream is damaged.
    pub fn as_stored(self) -> Options {
        Options { dump: self.dump.map(|dump| Dump { ends: false, ..dump }), partial_events: true, ..self }
    }
}

/// An opened trace. The crate's documentation describes its use.
pub struct Trace {
    shared: Shared,
    slots: Vec<Slot>,
    /// One key for each stream that has an item, except the current stream.
    heap: Heap,
    /// Index of the stream whose item was yielded last. The stream is advanced when the next item
    /// is requested, because the item borrows from it until then.
    current: Option<usize>,
    value_buffer: ValueBuffer,
    begin_ns: i64,
    end_ns: i64,
    start_ns: Option<i64>,
    recordings: Vec<Recording>,
    captures: Vec<Capture>,
    ctf_traces: Vec<CtfTrace>,
    clock: Clock,
    probe_cost_ns: Option<f64>,
    producers: Vec<String>,
    has_machine_log: bool,
    /// Set if the trace ends at the first stream that ends at damage ([`Damage::EndsTrace`]).
    ends_at_damage: bool,
    /// Set if damage is an error ([`Damage::IsError`]).
    damage_is_error: bool,
    finished: bool,
    no_event: Option<NoEvent>,
    /// Archives among the inputs. Their unpacked files exist as long as the trace is open.
    unpacked: Vec<Unpacked>,
    shifts: Shifts,
    clocks: CommonClocks,
    /// Index of the path that is being opened.
    root: usize,
}

/// A source, the correction of its clock, and the window that sorts its items if its order cannot
/// be trusted.
pub(crate) struct Slot {
    pub source: Source,
    pub window: Option<Window>,
    pub shift: Shift,
}

impl Slot {
    #[inline]
    pub fn advance(&mut self, shared: &mut Shared, value_buffer: &mut ValueBuffer) -> Result<Option<i64>, Error> {
        let advanced = match &mut self.window {
            None => self.source.advance(shared),
            Some(window) => window.advance(&mut self.source, shared, value_buffer),
        };
        if shared.strict && matches!(advanced, Ok(None)) {
            shared.a_stream_ended_at_damage |= self.source.is_broken();
        }
        if let Some(loss) = shared.loss_ahead.take() {
            shared.catalogue.loss_reached(self.shift.loss(loss));
        }
        match self.shift.is_none() {
            true => advanced,
            false => advanced.map(|t_ns| t_ns.map(|t_ns| self.shift.apply(t_ns))),
        }
    }

    /// Like [`Source::yield_pending_loss_before`], in corrected time. In a sorted stream a loss
    /// that is not yet in the window is not found.
    fn yield_pending_loss_before(&mut self, end_ns: i64) -> bool {
        self.window.is_none() && self.source.yield_pending_loss_before(self.shift.undo(end_ns))
    }

    #[inline]
    pub fn item<'a>(&'a self, value_buffer: &'a mut ValueBuffer) -> Item<'a> {
        match self.shift.is_none() {
            true => self.unshifted(value_buffer),
            false => self.shift.item(self.unshifted(value_buffer)),
        }
    }

    #[inline(always)]
    fn unshifted<'a>(&'a self, value_buffer: &'a mut ValueBuffer) -> Item<'a> {
        match &self.window {
            None => self.source.item(value_buffer),
            Some(window) => window.item(&self.source, value_buffer),
        }
    }
}

impl Trace {
    /// Opens everything that the paths hold as one trace.
    ///
    /// # Errors
    ///
    /// [`Error::NotATrace`] if a path holds no trace, [`Error::Io`] if a file cannot be read, and
    /// the other variants if an input is invalid. If a path holds several traces and one of them
    /// cannot be opened, that one is reported as a diagnostic instead.
    pub fn open<P: AsRef<Path>>(paths: &[P], options: Options) -> Result<Trace, Error> {
        let mut trace = Trace {
            shared: Shared::default(),
            slots: Vec::new(),
            heap: Heap::default(),
            current: None,
            value_buffer: ValueBuffer::default(),
            begin_ns: i64::MIN,
            end_ns: i64::MAX,
            start_ns: None,
            recordings: Vec::new(),
            captures: Vec::new(),
            ctf_traces: Vec::new(),
            clock: Clock::default(),
            probe_cost_ns: None,
            producers: Vec::new(),
            has_machine_log: false,
            ends_at_damage: false,
            damage_is_error: false,
            finished: false,
            no_event: None,
            unpacked: Vec::new(),
            shifts: options.shifts.clone(),
            clocks: CommonClocks::default(),
            root: 0,
        };
        trace.shared.strict = options.damage != Damage::Pass;
        trace.shared.partial_events = options.partial_events;
        trace.shared.has_begin = options.begin.is_some();
        trace.ends_at_damage = matches!(options.damage, Damage::EndsTrace | Damage::IsError);
        trace.damage_is_error = options.damage == Damage::IsError;
        let several = paths.len() > 1;
        let mut ends = Vec::with_capacity(paths.len());
        for (root, path) in paths.iter().enumerate() {
            trace.root = root;
            let path = path.as_ref();
            match options.dump {
                Some(dump) => trace.add_dump(path, dump, several)?,
                None => trace.add_path(path, several)?,
            }
            ends.push(trace.slots.len());
        }
        trace.prime(&options)?;
        trace.shared.diagnostics.extend(diagnose_distant_begins(paths, &ends, trace.heap.keys()));
        Ok(trace)
    }

    fn add_path(&mut self, path: &Path, several: bool) -> Result<(), Error> {
        let Some(mut unpacked) = archive::unpack(path)? else { return self.add(path, path, recognise(path)?, several) };
        let content = unpacked.content().to_owned();
        self.shared.diagnostics.append(&mut unpacked.diagnostics);
        self.unpacked.push(unpacked);
        self.add(path, &content, recognise(&content)?, several)
    }

    /// Adds what was found in a path. `root` is the directory that is read, `shown` the path that
    /// streams are named after; they differ for an unpacked archive.
    fn add(&mut self, shown: &Path, root: &Path, found: Found, several: bool) -> Result<(), Error> {
        let name = |path: &Path| match path.strip_prefix(root) {
            Ok(below) if root != shown && !below.as_os_str().is_empty() => stream_name(shown, &shown.join(below), several),
            _ => stream_name(root, path, several),
        };
        let in_recording = found.recording.is_some();
        if let Some(directory) = found.recording {
            let mut recording = Recording::read(&directory)?.unwrap_or_default();
            let shift = self.shifts.of(&directory);
            recording.start_ns = recording.start_ns.map(|t_ns| shift.apply(t_ns));
            recording.end_ns = recording.end_ns.map(|t_ns| shift.apply(t_ns));
            self.shared.diagnostics.extend(recording.altered(&directory));
            if recording.end_ns.is_none() {
                self.shared.diagnostics.push(Diagnostic::Unfinished { path: directory });
            }
            self.clock = recording.clock.clone();
            self.shared.catalogue.foreign_pids |= recording.kernel_events.as_ref().is_some_and(|kernel| kernel.foreign_pids);
            self.probe_cost_ns = self.probe_cost_ns.or(recording.probe_cost_ns);
            self.recordings.push(recording);
        }
        self.shared.diagnostics.extend(found.unrelated);
        // A part that cannot be opened becomes a diagnostic if there are other parts. If it is the
        // only one, its error is the reason why there is no trace.
        let only = found.ctf.len() + found.files.len() == 1;
        for directory in found.ctf {
            let done = self.add_ctf(&directory, &name);
            self.or_closed(done, directory, only)?;
        }
        if let Some(path) = found.unconverted {
            let recording = self.recordings.last();
            if let Some(begin_ns) = recording.and_then(|recording| recording.start_ns) {
                let end_ns = recording.and_then(|recording| recording.end_ns).unwrap_or(begin_ns);
                let stream = self.shared.stream(name(&path), StreamKind::Kernel);
                let loss = Loss { stream, begin_ns, end_ns, events: None };
                // The loss spans the recording's own times, which are corrected already.
                self.slots.push(Slot { source: Source::Missing { loss, passed: false }, window: None, shift: Shift::default() });
            }
            self.shared.diagnostics.push(Diagnostic::Unconverted { path });
        }
        if let Some(folder) = found.copied_from_tracer {
            let opened = trace_dat::open_raw(&folder, &name(&folder), &mut self.shared)?;
            let shift = self.shifts.of(&folder);
            self.add_kernel(opened, shift);
        }
        for (format, path) in found.files {
            let done = match self.add_file(format, &path, name(&path), in_recording) {
                // The file only begins like one of this format.
                Err(Error::NotATrace { path, tried }) if !only => {
                    self.shared.diagnostics.push(Diagnostic::UnrelatedFiles { path, files: 1, examples: tried });
                    Ok(())
                }
                done => done,
            };
            self.or_closed(done, path, only)?;
        }
        Ok(())
    }

    fn or_closed(&mut self, done: Result<(), Error>, path: PathBuf, only: bool) -> Result<(), Error> {
        match done {
            Err(error) if !only => {
                self.shared.diagnostics.push(Diagnostic::CannotOpen { path, error: error.to_string() });
                Ok(())
            }
            done => done,
        }
    }

    fn add_ctf(&mut self, directory: &Path, name: &dyn Fn(&Path) -> String) -> Result<(), Error> {
        let opened = ctf::open(directory, &mut self.shared, &name)?;
        self.clock.source = self.clock.source.take().or(opened.clock.source);
        self.clock.frequency_hz = self.clock.frequency_hz.or(opened.clock.frequency_hz);
        self.clock.offset_ns = self.clock.offset_ns.or(opened.clock.offset_ns);
        self.probe_cost_ns = self.probe_cost_ns.or(opened.probe_cost_ns);
        self.add_producer(opened.tracer);
        let common_ns = self.clocks.shift(self.root, &opened.ctf_trace, &mut self.shared.diagnostics);
        self.ctf_traces.push(opened.ctf_trace);
        for mut source in opened.streams {
            let mut shift = self.shifts.of(source.path());
            if shift.is_none() {
                shift = Shift::by(common_ns);
            }
            let window = (!opened.trusted).then(|| Window::new(source.lookahead.take()));
            self.slots.push(Slot { source: Source::Ctf(Box::new(source)), window, shift });
        }
        Ok(())
    }

    fn add_file(&mut self, format: Format, path: &Path, name: String, in_recording: bool) -> Result<(), Error> {
        let shift = self.shifts.of(path);
        match format {
            Format::Capture => {
                // The packets that a recording's programs captured are already events of its user
                // trace. Only a capture of interfaces is in no other stream.
                let of_interfaces = || self.recordings.last().is_some_and(|recording| recording.is_of_interfaces(path));
                let is_reported = !in_recording || of_interfaces();
                let capture = Capture { name, path: path.to_owned(), shift };
                if is_reported {
                    let source = CaptureSource::open(&capture, &mut self.shared)?;
                    self.add_slot(Source::Capture(Box::new(source)), true, shift);
                    self.add_producer("packets".to_owned());
                }
                self.captures.push(capture);
            }
            Format::Perf => {
                let source = PerfSource::open(path, name, &mut self.shared)?;
                self.clock.source = self.clock.source.take().or(source.clock());
                // perf itself writes some records late, so they are sorted.
                self.add_slot(Source::Perf(Box::new(source)), true, shift);
                self.add_producer("perf".to_owned());
            }
            Format::ChromeJson => {
                let source = ChromeSource::open(path, name, &mut self.shared)?;
                self.add_slot(Source::ChromeJson(Box::new(source)), false, shift);
                self.add_producer("chrome".to_owned());
            }
            Format::MachineLog => {
                let source = LogSource::open(path, name, &mut self.shared)?;
                self.add_slot(Source::MachineLog(Box::new(source)), false, shift);
                self.add_producer("machine log".to_owned());
                self.has_machine_log = true;
            }
            Format::TraceDat => {
                let opened = trace_dat::open(path, &name, &mut self.shared)?;
                self.add_kernel(opened, shift);
            }
            Format::FtraceText => {
                let source = ftrace_text::open(path, name, &mut self.shared)?;
                self.add_slot(Source::FtraceText(Box::new(source)), true, shift);
                self.add_producer("ftrace".to_owned());
            }
        }
        Ok(())
    }

    /// Adds a source. `sort`: its own order cannot be trusted, so its items pass a window that
    /// sorts them.
    fn add_slot(&mut self, source: Source, sort: bool, shift: Shift) {
        self.slots.push(Slot { source, window: sort.then(Window::default), shift });
    }

    fn add_kernel(&mut self, opened: trace_dat::Opened, shift: Shift) {
        for source in opened.sources {
            let sort = matches!(source, Source::FtraceText(_));
            self.add_slot(source, sort, shift);
        }
        self.clock.source = self.clock.source.take().or(opened.clock);
        self.add_producer("ftrace".to_owned());
    }

    fn add_dump(&mut self, path: &Path, dump: Dump, several: bool) -> Result<(), Error> {
        let source = DumpSource::open(path, stream_name(path, path, several), dump, &mut self.shared)?;
        self.slots.push(Slot { source: Source::Sel4Log(Box::new(source)), window: None, shift: self.shifts.of(path) });
        self.clock.source = Some("the kernel's counter".to_owned());
        self.clock.frequency_hz = dump.frequency_hz;
        self.add_producer("seL4".to_owned());
        Ok(())
    }

    fn add_producer(&mut self, producer: String) {
        if !self.producers.contains(&producer) {
            self.producers.push(producer);
        }
    }

    /// Decodes the first item of every stream, which gives the begin of the trace. Resolves
    /// relative moments against it.
    fn prime(&mut self, options: &Options) -> Result<(), Error> {
        for (index, slot) in self.slots.iter_mut().enumerate() {
            if let Some(t_ns) = slot.advance(&mut self.shared, &mut self.value_buffer)? {
                self.heap.push(Key { t_ns, slot: index as u32 });
            }
        }
        self.start_ns = self.heap.peek().map(|key| key.t_ns);
        let start_ns = self.start_ns.unwrap_or(0);
        self.begin_ns = options.begin.map_or(i64::MIN, |begin| begin.resolve(start_ns));
        self.end_ns = options.end.map_or(i64::MAX, |end| end.resolve(start_ns));
        for slot in &mut self.slots {
            if let Source::Ctf(source) = &mut slot.source {
                source.skip_to(slot.shift.undo(self.begin_ns), &mut slot.window);
            }
        }
        Ok(())
    }

    /// Leaves out the CTF streams of these kinds. Must be called before the first item is
    /// requested.
    pub fn leave_out(&mut self, kinds: &[StreamKind]) {
        let mut kept = Heap::default();
        while let Some(key) = self.heap.pop() {
            let kind = match &self.slots[key.slot as usize].source {
                Source::Ctf(source) => Some(self.shared.catalogue.streams[source.stream().0 as usize].kind),
                _ => None,
            };
            if kind.is_none_or(|kind| !kinds.contains(&kind)) {
                kept.push(key);
            }
        }
        self.heap = kept;
    }

    /// Returns the next event or loss in the order of (time, stream, sequence), or `None` at the
    /// end.
    #[inline]
    pub fn next_item(&mut self) -> Result<Option<Item<'_>>, Error> {
        Ok(self.next_with_catalogue()?.map(|(item, _)| item))
    }

    /// Like [`Trace::next_item`], together with the catalogue that explains the item's ids.
    #[inline]
    pub fn next_with_catalogue(&mut self) -> Result<Option<(Item<'_>, &Catalogue)>, Error> {
        if !self.step()? {
            return Ok(None);
        }
        match self.current {
            Some(index) => Ok(Some((self.slots[index].item(&mut self.value_buffer), &self.shared.catalogue))),
            None => Ok(None),
        }
    }

    /// Like [`Trace::next_with_catalogue`], but passes the item to `see` by reference. An item is
    /// large, so not moving it is faster.
    #[inline]
    pub fn see_next<T>(&mut self, see: impl FnOnce(&Item<'_>, &Catalogue) -> T) -> Result<Option<T>, Error> {
        if !self.step()? {
            return Ok(None);
        }
        let Some(index) = self.current else { return Ok(None) };
        let item = self.slots[index].item(&mut self.value_buffer);
        Ok(Some(see(&item, &self.shared.catalogue)))
    }

    /// Makes the stream with the next item of the requested range the current one. Returns false at
    /// the end.
    #[inline]
    fn step(&mut self) -> Result<bool, Error> {
        if self.finished {
            return Ok(false);
        }
        // `current` is set after every item, so it is empty only before the first one.
        let is_first = self.current.is_none();
        if !is_first {
            self.shared.catalogue.losses_ahead.clear();
        }
        loop {
            let next = match self.current.take() {
                None => self.heap.pop(),
                Some(index) => match self.slots[index].advance(&mut self.shared, &mut self.value_buffer)? {
                    Some(t_ns) => Some(self.heap.exchange(Key { t_ns, slot: index as u32 })),
                    None => self.heap.pop(),
                },
            };
            if self.ends_at_damage && self.shared.a_stream_ended_at_damage && self.is_damaged_strictly() {
                return self.finish();
            }
            let Some(key) = next else {
                if is_first {
                    self.explain_empty();
                }
                return self.finish();
            };
            let index = key.slot as usize;
            self.current = Some(index);
            if key.t_ns > self.end_ns {
                // A loss counts if any of its time lies in the range. All later items of this
                // stream are outside of the range, so its key is dropped.
                if matches!(self.slots[index].item(&mut self.value_buffer), Item::Loss(loss) if loss.begin_ns <= self.end_ns)
                    || self.slots[index].yield_pending_loss_before(self.end_ns)
                {
                    return Ok(true);
                }
                self.current = None;
                continue;
            }
            if key.t_ns >= self.begin_ns {
                return Ok(true);
            }
        }
    }

    /// Records why the trace yielded no item. If a stream is damaged, the damage is the reason, and
    /// diagnostics report it.
    #[cold]
    fn explain_empty(&mut self) {
        let why = NoEvent::why(self.slots.len(), self.start_ns, (self.begin_ns, self.end_ns));
        self.no_event = why.filter(|_| !self.is_damaged());
    }

    /// Ends the trace. Returns false.
    #[cold]
    fn finish(&mut self) -> Result<bool, Error> {
        self.finished = true;
        self.current = None;
        for slot in &self.slots {
            if let Some(window) = &slot.window {
                window.report(&mut self.shared);
            }
            match &slot.source {
                Source::Ctf(source) => source.report(&mut self.shared),
                Source::Sel4Log(source) => source.report(&mut self.shared),
                Source::FtracePages(source) => source.report(&mut self.shared),
                Source::FtraceText(source) => source.report(&mut self.shared),
                Source::Capture(_) | Source::Perf(_) | Source::ChromeJson(_) | Source::MachineLog(_) | Source::Missing { .. } => {}
            }
        }
        match self.first_damage().filter(|_| self.damage_is_error) {
            Some(first) => Err(Error::Damaged(Box::new(first.clone()))),
            None => Ok(false),
        }
    }

    /// Returns everything that was interned until now. The catalogue grows while the trace is read.
    pub fn catalogue(&self) -> &Catalogue {
        &self.shared.catalogue
    }

    /// Returns what was wrong in the part of the trace that was read until now.
    pub fn diagnostics(&self) -> &[Diagnostic] {
        &self.shared.diagnostics
    }

    /// Returns why the trace yielded no item. Returns `None` before the end, if an item was
    /// yielded, or if damage is the reason.
    pub fn no_event(&self) -> Option<NoEvent> {
        self.no_event
    }

    /// Adds diagnostics that the caller has about the inputs.
    pub fn add_diagnostics(&mut self, diagnostics: impl IntoIterator<Item = Diagnostic>) {
        self.shared.diagnostics.extend(diagnostics);
    }

    /// Returns true if something could not be decoded. If damage ends the trace
    /// ([`Damage::EndsTrace`], [`Damage::IsError`]), the same as [`Trace::is_damaged_strictly`].
    pub fn is_damaged(&self) -> bool {
        if self.ends_at_damage {
            return self.is_damaged_strictly();
        }
        self.shared.diagnostics.iter().any(Diagnostic::is_damage)
    }

    /// Like [`Trace::is_damaged`], but also true if a file ends too early, unless the trace
    /// contains a recording: a recording may be read while it is written, whereas any other input
    /// should be complete.
    pub fn is_damaged_strictly(&self) -> bool {
        self.first_damage().is_some()
    }

    fn first_damage(&self) -> Option<&Diagnostic> {
        let lenient = !self.recordings.is_empty();
        self.shared.diagnostics.iter().find(|diagnostic| diagnostic.is_damage() || !lenient && diagnostic.is_cut())
    }

    /// Returns the time of the trace's first item, whatever part was requested, or `None` if the
    /// trace has no item.
    pub fn start_ns(&self) -> Option<i64> {
        self.start_ns
    }

    /// Returns the first and last time of the requested part in ns. Without a request these are
    /// `i64::MIN` and `i64::MAX`.
    pub fn range(&self) -> (i64, i64) {
        (self.begin_ns, self.end_ns)
    }

    /// Returns the recorder's description (`longpole.json`) of each path that is a recording.
    pub fn recordings(&self) -> &[Recording] {
        &self.recordings
    }

    /// Returns the size in bytes of the largest ring that lost events, if a recorder reports it.
    pub fn full_ring(&self) -> Option<u64> {
        self.recordings.iter().flat_map(|recording| &recording.lanes).filter_map(|lane| lane.lost_ring_bytes).max()
    }

    /// Returns the pcapng and pcap files of the trace.
    pub fn captures(&self) -> &[Capture] {
        &self.captures
    }

    /// Returns what the metadata of the CTF traces describe: environment and clocks.
    pub fn ctf_traces(&self) -> &[CtfTrace] {
        &self.ctf_traces
    }

    /// Returns the packet counts of a CTF stream. They are complete only after the trace was read
    /// to its end.
    pub fn packets(&self, stream: StreamId) -> Packets {
        self.shared.packet_counts.get(stream.0 as usize).copied().unwrap_or_default()
    }

    /// Returns the description of the trace's clock, as far as the inputs contain it.
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Returns the cost of one probe in ns on the host where the trace was recorded.
    pub fn probe_cost_ns(&self) -> Option<f64> {
        self.probe_cost_ns
    }

    /// Returns the producers of the trace: names of tracers, and `packets` for captures.
    pub fn producers(&self) -> &[String] {
        &self.producers
    }

    /// Returns true if the trace contains machine logs and nothing else.
    pub fn is_only_machine_log(&self) -> bool {
        self.has_machine_log && self.producers.len() == 1
    }
}

/// Returns the name of a stream: its path below `root`, prefixed with `root` if several traces are
/// open.
pub(crate) fn stream_name(root: &Path, path: &Path, several: bool) -> String {
    let below = match path.strip_prefix(root) {
        Ok(below) if !below.as_os_str().is_empty() => below.to_owned(),
        _ => path.file_name().map_or_else(|| path.to_owned(), PathBuf::from),
    };
    let named = if several && path != root { root.join(below) } else { below };
    named.display().to_string()
}
