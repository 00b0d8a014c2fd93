//! trace.dat, and folders with the kernel's raw pages. Each CPU of each buffer is a stream, decoded
//! by the kernel's format descriptions.
//!
//! Pages are read directly from the file, one per stream at a time. Lost events that a page reports
//! become a loss that ends at the begin of the page. If the kernel's final count is higher, the
//! difference becomes a loss over the whole stream, yielded at its end. A damaged page is reported,
//! and reading continues with the next one.
//!
//! Times are those of the recording's clock, which is Unix time only if the file contains the
//! conversion.

use crate::diagnostic::{Diagnostic, MAX_ERRORS};
use crate::error::Error;
use crate::event::{Event, Item, Loss, PacketValues, StreamId, StreamKind, Subject, SubjectId};
use crate::formats::ftrace_text::TextSource;
use crate::formats::source::Source;
use crate::formats::tracepoint::{Machine, Made, Plans, COMMON};
use crate::merge::out_of_range::Beyond;
use crate::shared::{Shared, MAX_REMEMBERED};
use crate::value_buffer::ValueBuffer;
use longpole_ftrace::dat::Clock;
use longpole_ftrace::printk::Printk;
use longpole_ftrace::{ByteOrder, Dat, EventFormat, Field, Formats, Item as Stored, PageLayout, PageStream};
use std::collections::HashMap;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Returns true if the file begins like a trace.dat.
pub(crate) fn is_dat(first: &[u8]) -> bool {
    first.starts_with(b"\x17\x08\x44t")
}

/// Returns true if the folder has the least content of a copy of the tracer's files.
pub(crate) fn is_raw(folder: &Path) -> bool {
    folder.join("events/header_page").is_file() && folder.join("per_cpu").is_dir()
}

/// Properties that the streams of one file share.
struct Kernel {
    path: PathBuf,
    plans: Plans,
    order: ByteOrder,
    /// Field with the id of the running thread (`common_pid`).
    pid: Option<Field>,
    clock: Clock,
    names: HashMap<i32, String>,
    host: String,
}

pub(crate) struct Opened {
    pub sources: Vec<Source>,
    pub clock: Option<String>,
}

/// Opens a trace.dat. The names of its streams begin with `name`.
pub(crate) fn open(path: &Path, name: &str, shared: &mut Shared) -> Result<Opened, Error> {
    let wrong = |error: longpole_ftrace::DatError| Error::Recording { path: path.to_owned(), what: error.to_string() };
    let file = Arc::new(File::open(path).map_err(Error::io(path))?);
    let dat = Dat::open(file).map_err(wrong)?;
    let clock = dat.clock().or_else(|| dat.buffers().first()?.clock.clone());
    let times = dat.times();
    if let (Some(clock), None) = (clock.as_deref().filter(|clock| counts_no_ns(clock)), times.cycles) {
        shared.diagnostics.push(Diagnostic::ClockNotInNs { path: path.to_owned(), clock: clock.to_owned() });
    }
    let machine = Machine { order: dat.order(), long: dat.layout().long_size() as u32 };
    let names = dat.cmdlines().map(|(pid, name)| (pid, name.to_owned())).collect();
    let host = dat.host().unwrap_or_default();
    let printk = Printk::parse(dat.printk_formats());
    let kernel = Arc::new(Kernel::new(path, dat.formats(), printk, machine, Times { clock: times, names, host }, shared));
    let lost: HashMap<u32, u64> = dat.stats().into_iter().map(|stats| (stats.cpu, stats.lost)).collect();
    let mut sources = Vec::new();
    for (index, buffer) in dat.buffers().iter().enumerate() {
        let name = if buffer.name.is_empty() { name.to_owned() } else { format!("{name}/{}", buffer.name) };
        if let Some(text) = dat.text(index) {
            sources.push(Source::FtraceText(Box::new(TextSource::new(path, name.clone(), Box::new(text), shared))));
        }
        for cpu in buffer.cpus.iter().filter(|cpu| cpu.extent.size > 0) {
            let pages = dat.shared_stream(index, cpu.cpu).map_err(wrong)?;
            let stream = shared.stream(format!("{name}/cpu{}", cpu.cpu), StreamKind::Kernel);
            let lost = lost.get(&cpu.cpu).copied().unwrap_or(0);
            sources.push(Source::FtracePages(Box::new(PageSource::new(&kernel, pages.boxed(), cpu.cpu, stream, lost))));
        }
    }
    Ok(Opened { sources, clock })
}

/// Opens a folder copied from the tracer's directory: `events/` with the formats,
/// `per_cpu/cpuN/trace_pipe_raw`, and other files that exist.
pub(crate) fn open_raw(folder: &Path, name: &str, shared: &mut Shared) -> Result<Opened, Error> {
    let wrong = |what: String| Error::Recording { path: folder.to_owned(), what };
    let text = |file: &str| limited(&folder.join(file)).map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    let header = text("events/header_page")?;
    let layout = PageLayout::parse(&header, ByteOrder::NATIVE).map_err(|error| wrong(format!("events/header_page: {error}")))?;
    // No file in such a folder states the byte order, so both are tried.
    let orders = [ByteOrder::NATIVE, if ByteOrder::NATIVE == ByteOrder::Little { ByteOrder::Big } else { ByteOrder::Little }];
    let mut files = Vec::new();
    for (entry, path) in entries(&folder.join("per_cpu"))? {
        let cpu = entry.strip_prefix("cpu").and_then(|number| number.parse::<u32>().ok());
        let pages = path.join("trace_pipe_raw");
        if let (Some(cpu), Ok(found)) = (cpu, fs::metadata(&pages)) {
            if found.is_file() && found.len() > 0 {
                files.push((cpu, pages, found.len()));
            }
        }
    }
    files.sort();
    let mut formats = Formats::default();
    for (system, path) in entries(&folder.join("events"))?.into_iter().filter(|(_, path)| path.is_dir()) {
        for (_, path) in entries(&path)?.into_iter().filter(|(_, path)| path.join("format").is_file()) {
            let path = path.join("format");
            let format = EventFormat::parse(&system, &String::from_utf8_lossy(&limited(&path)?));
            formats.add(format.map_err(|error| Error::Recording { path, what: error.to_string() })?);
        }
    }
    // With the wrong byte order a page is damaged or seems to be empty.
    let events = |order| files.iter().try_fold(0, |sum, (_, path, _)| Some(sum + first_events(path, &header, order)?));
    let found = orders.into_iter().rev().filter_map(|order| Some((events(order)?, order)));
    let order = found.max_by_key(|(events, _)| *events).map(|(_, order)| order);
    let order = order.ok_or_else(|| wrong("its pages do not have the layout of events/header_page, in either byte order".to_owned()))?;
    let mut layout = formats.iter().next().map_or(layout, |format| layout.with_ids_of(format));
    layout.order = order;
    let machine = Machine { order, long: layout.long_size() as u32 };
    let printk = Printk::parse(&limited(&folder.join("printk_formats")).unwrap_or_default());
    let names = text("saved_cmdlines").unwrap_or_default();
    let names = names.lines().filter_map(|line| line.split_once(' ')).filter_map(|(pid, name)| Some((pid.parse().ok()?, name.to_owned())));
    let clock = text("trace_clock").ok().and_then(|all| Some(all.split_once('[')?.1.split_once(']')?.0.to_owned()));
    if let Some(clock) = clock.as_deref().filter(|clock| counts_no_ns(clock)) {
        shared.diagnostics.push(Diagnostic::ClockNotInNs { path: folder.to_owned(), clock: clock.to_owned() });
    }
    let times = Times { clock: Clock::default(), names: names.collect(), host: String::new() };
    let kernel = Arc::new(Kernel::new(folder, &formats, printk, machine, times, shared));
    let mut sources = Vec::new();
    for (cpu, path, length) in files {
        let file = File::open(&path).map_err(Error::io(&path))?.take(length);
        let stream = shared.stream(format!("{name}/cpu{cpu}"), StreamKind::Kernel);
        let pages = PageStream::new(Box::new(file) as Pages, layout);
        sources.push(Source::FtracePages(Box::new(PageSource::new(&kernel, pages, cpu, stream, 0))));
    }
    Ok(Opened { sources, clock })
}

/// Returns the number of events in a file's first page, or `None` if the page does not fit this
/// byte order.
fn first_events(path: &Path, header: &str, order: ByteOrder) -> Option<usize> {
    let layout = PageLayout::parse(header, order).ok()?;
    let mut page = Vec::new();
    File::open(path).and_then(|file| file.take(layout.page_size() as u64).read_to_end(&mut page)).ok()?;
    let page = longpole_ftrace::Page::new(&layout, &page, 0, 0).ok()?;
    page.events().try_fold(0, |count, event| event.ok().map(|_| count + 1))
}

/// Maximum number of bytes that are read of a text file; no text file of the tracer is longer.
const MAX_TEXT: u64 = 64 << 20;
const MAX_ENTRIES: usize = 100_000;

fn limited(path: &Path) -> Result<Vec<u8>, Error> {
    let mut bytes = Vec::new();
    File::open(path).and_then(|file| file.take(MAX_TEXT).read_to_end(&mut bytes)).map_err(Error::io(path))?;
    Ok(bytes)
}

fn entries(folder: &Path) -> Result<Vec<(String, PathBuf)>, Error> {
    let mut all = Vec::new();
    for entry in fs::read_dir(folder).map_err(Error::io(folder))? {
        let entry = entry.map_err(Error::io(folder))?;
        all.push((entry.file_name().to_string_lossy().into_owned(), entry.path()));
        if all.len() > MAX_ENTRIES {
            return Err(Error::TooMany { what: "entries of a folder of the tracer", limit: MAX_ENTRIES });
        }
    }
    all.sort();
    Ok(all)
}

/// Returns true for the tracer's clocks that do not count ns.
fn counts_no_ns(clock: &str) -> bool {
    matches!(clock, "counter" | "uptime" | "x86-tsc" | "ppc-tb" | "tsc2nsec")
}

struct Times {
    clock: Clock,
    names: HashMap<i32, String>,
    host: String,
}

impl Kernel {
    fn new(path: &Path, formats: &Formats, printk: Printk, machine: Machine, times: Times, shared: &mut Shared) -> Kernel {
        let common = formats.iter().next().map(|format| &format.common);
        let pid = common.and_then(|common| common.iter().find(|field| field.name == "common_pid")).cloned();
        let Times { clock, names, host } = times;
        let plans = Plans::new(formats, printk, machine, &COMMON, shared);
        Kernel { path: path.to_owned(), plans, order: machine.order, pid, clock, names, host }
    }
}

type Pages = Box<dyn Read + Send>;

/// Source for the events of one CPU.
pub(crate) struct PageSource {
    kernel: Arc<Kernel>,
    pages: PageStream<Pages>,
    cpu: u32,
    stream: StreamId,
    /// Subjects by thread id. The subject of the last event is tried first.
    subjects: HashMap<i32, SubjectId>,
    running: Option<(i32, SubjectId)>,
    first_ns: Option<i64>,
    last_ns: i64,
    /// Number of events with a time before that of the event before them.
    late: u64,
    errors: u32,
    beyond: Beyond,
    /// Lost events in the kernel's count that no page reported until now.
    lost: u64,
    current: CurrentItem,
    made: Made,
}

/// The item that is yielded next, or was yielded last.
#[derive(Clone, Copy)]
enum CurrentItem {
    Event { t_ns: i64, subject: SubjectId },
    Loss(Loss),
}

impl PageSource {
    fn new(kernel: &Arc<Kernel>, pages: PageStream<Pages>, cpu: u32, stream: StreamId, lost: u64) -> PageSource {
        PageSource {
            kernel: kernel.clone(),
            pages,
            cpu,
            stream,
            subjects: HashMap::new(),
            running: None,
            first_ns: None,
            last_ns: i64::MIN,
            late: 0,
            errors: 0,
            beyond: Beyond::default(),
            lost,
            current: CurrentItem::Loss(Loss { stream, begin_ns: 0, end_ns: 0, events: Some(0) }),
            made: Made::default(),
        }
    }

    pub fn advance(&mut self, shared: &mut Shared) -> Result<Option<i64>, Error> {
        loop {
            let (id, time, pid) = match self.pages.next_item() {
                Ok(Some(Stored::Event(record))) => {
                    let pid = self.kernel.pid.as_ref().and_then(|field| field.i64(record.data, self.kernel.order).ok());
                    (record.id, record.time, pid.map(|pid| pid as i32))
                }
                Ok(Some(Stored::Loss { time, loss })) => {
                    let t_ns = self.time(time, shared);
                    return Ok(Some(self.turn_to_loss(t_ns, loss.count)));
                }
                Ok(None) => return Ok(self.rest()),
                Err(error) => {
                    self.errors = self.errors.saturating_add(1);
                    if self.errors <= MAX_ERRORS {
                        let error = format!("cpu {}: {error}", self.cpu);
                        shared.diagnostics.push(Diagnostic::Damaged { path: self.kernel.path.clone(), error });
                    }
                    continue;
                }
            };
            let t_ns = self.time(time, shared);
            if t_ns < self.last_ns {
                self.late += 1;
            }
            self.last_ns = t_ns;
            self.first_ns.get_or_insert(t_ns);
            let subject = self.subject(pid, shared);
            let record = self.pages.event();
            self.kernel.plans.make(id, record.data, &mut self.made);
            self.current = CurrentItem::Event { t_ns, subject };
            return Ok(Some(t_ns));
        }
    }

    #[inline]
    fn time(&mut self, stamp: u64, shared: &mut Shared) -> i64 {
        let ns = self.kernel.clock.time(self.cpu, stamp);
        self.beyond.ns(ns, &self.kernel.path, || format!("cpu {}, stamp {stamp}", self.cpu), &mut shared.diagnostics)
    }

    fn turn_to_loss(&mut self, end_ns: i64, events: Option<u64>) -> i64 {
        self.lost = self.lost.saturating_sub(events.unwrap_or(0));
        let begin_ns = if self.first_ns.is_some() { self.last_ns.min(end_ns) } else { end_ns };
        self.current = CurrentItem::Loss(Loss { stream: self.stream, begin_ns, end_ns, events });
        end_ns
    }

    /// Turns to the loss of events at unknown times, which no page reported. It spans the whole
    /// stream.
    fn rest(&mut self) -> Option<i64> {
        let events = std::mem::take(&mut self.lost);
        if events == 0 {
            return None;
        }
        let end_ns = if self.first_ns.is_some() { self.last_ns } else { 0 };
        self.current = CurrentItem::Loss(Loss { stream: self.stream, begin_ns: self.first_ns.unwrap_or(0), end_ns, events: Some(events) });
        Some(end_ns)
    }

    #[inline]
    fn subject(&mut self, pid: Option<i32>, shared: &mut Shared) -> SubjectId {
        // A kernel without `common_pid` names no thread, so all events have the same unnamed
        // subject.
        let key = pid.unwrap_or(i32::MIN);
        if let Some((_, subject)) = self.running.filter(|(running, _)| *running == key) {
            return subject;
        }
        if self.subjects.len() >= MAX_REMEMBERED {
            self.subjects.clear();
        }
        let kernel = &self.kernel;
        let subject = *self.subjects.entry(key).or_insert_with(|| {
            let label = match pid {
                Some(0) => "<idle>".to_owned(),
                Some(pid) => kernel.names.get(&pid).cloned().unwrap_or_else(|| "<...>".to_owned()),
                None => String::new(),
            };
            shared.subject(Subject { host: kernel.host.clone(), label, tid: pid, ..Subject::default() })
        });
        self.running = Some((key, subject));
        subject
    }

    pub fn item<'a>(&'a self, value_buffer: &'a mut ValueBuffer) -> Item<'a> {
        match self.current {
            CurrentItem::Loss(loss) => Item::Loss(loss),
            CurrentItem::Event { t_ns, subject } => {
                let record = self.pages.event();
                let (values, context) = self.kernel.plans.values(record.id, record.data, &self.made);
                let values = value_buffer.put(values);
                let (fields, context) = values.split_at(values.len() - context);
                let class = self.kernel.plans.class(record.id);
                Item::Event(Event {
                    t_ns,
                    stream: self.stream,
                    subject,
                    class,
                    cpu: Some(self.cpu),
                    fields,
                    context,
                    packet: PacketValues::default(),
                })
            }
        }
    }

    /// Reports at the end what was counted while reading.
    pub fn report(&self, shared: &mut Shared) {
        if self.late > 0 {
            let stream = shared.stream_name(self.stream);
            shared.diagnostics.push(Diagnostic::Late { stream, events: self.late });
        }
    }
}
