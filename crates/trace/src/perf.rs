//! perf.data: the samples of tracepoints as the kernel's events, with the names and fields that the file's own formats tell.
//!
//! The records are read and brought into order by the crate `linux-perf-data`. It believes the lengths that a file states, so they are held
//! against the file's size first.

use crate::error::Error;
use crate::event::{Class, ClassId, Event, Item, Loss, StreamId, StreamKind, Subject, SubjectId};
use crate::oddity::Oddity;
use crate::shelf::Shelf;
use crate::trace::Shared;
use crate::value::Value;
use linux_perf_data::linux_perf_event_reader::{EventRecord, RawEventRecord, ReadFormat, RecordType, SampleFormat, SampleRecord};
use linux_perf_data::{Endianness, Feature, PerfFile, PerfFileReader, PerfFileRecord, PerfRecordIter};
use longpole_ftrace::{perf_formats, ByteOrder, EventFormat, Field, Formats};
use std::collections::HashMap;
use std::fs::File;
use std::io::{BufReader, Read, Seek, SeekFrom};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

/// The first bytes of the file, as perf writes it in either byte order.
pub(crate) fn is_perf(first: &[u8]) -> bool {
    first.starts_with(b"PERF") || first.starts_with(b"2ELI")
}

pub(crate) struct PerfSource {
    path: PathBuf,
    name: String,
    file: PerfFile,
    records: PerfRecordIter<BufReader<File>>,
    order: ByteOrder,
    formats: Formats,
    host: String,
    /// What brings its clock to Unix time, where the file tells.
    offset_ns: i64,
    cpus: HashMap<u32, Lane>,
    /// By the id of the format, and by the index of what is no tracepoint.
    tracepoints: HashMap<u16, Plan>,
    others: HashMap<usize, ClassId>,
    subjects: HashMap<(Option<i32>, Option<i32>), SubjectId>,
    last_ns: i64,
    head: Option<Head>,
    /// The bytes of the tracepoint that was read last.
    raw: Vec<u8>,
}

/// One CPU's events.
#[derive(Clone, Copy)]
struct Lane {
    stream: StreamId,
    last_ns: i64,
}

struct Plan {
    class: ClassId,
    fields: Vec<Field>,
}

#[derive(Clone, Copy)]
enum Head {
    Tracepoint { t_ns: i64, stream: StreamId, cpu: Option<u32>, subject: SubjectId, id: u16 },
    Sample { t_ns: i64, stream: StreamId, cpu: Option<u32>, subject: SubjectId, class: ClassId, ip: u64, period: u64 },
    Loss(Loss),
}

impl PerfSource {
    pub fn open(path: &Path, name: String, shared: &mut Shared) -> Result<PerfSource, Error> {
        let damaged = |what: String| Error::Recording { path: path.to_owned(), what };
        let mut reader = BufReader::with_capacity(1 << 20, File::open(path).map_err(Error::io(path))?);
        check(&mut reader, path)?;
        let PerfFileReader { perf_file: file, record_iter: records } =
            PerfFileReader::parse_file(reader).map_err(|error| damaged(error.to_string()))?;
        let order = match file.endian() {
            Endianness::LittleEndian => ByteOrder::Little,
            Endianness::BigEndian => ByteOrder::Big,
        };
        let formats = match file.feature_section_data(Feature::TRACING_DATA) {
            Some(section) => perf_formats(section).map_err(|error| damaged(format!("formats of its events: {error}")))?.0,
            None => Formats::default(),
        };
        let clock = file.clock_data().ok().flatten();
        let offset_ns = clock.map_or(0, |clock| clock.wall_clock_ns.wrapping_sub(clock.clockid_time_ns) as i64);
        let host = file.feature_section_data(Feature::HOSTNAME).and_then(|section| text(section, order)).unwrap_or_default();
        let mut source = PerfSource {
            path: path.to_owned(),
            name,
            file,
            records,
            order,
            formats,
            host,
            offset_ns,
            cpus: HashMap::new(),
            tracepoints: HashMap::new(),
            others: HashMap::new(),
            subjects: HashMap::new(),
            last_ns: 0,
            head: None,
            raw: Vec::new(),
        };
        source.lane(None, shared);
        Ok(source)
    }

    pub fn advance(&mut self, shared: &mut Shared) -> Result<Option<i64>, Error> {
        loop {
            let (index, record) = match self.records.next_record(&mut self.file) {
                Ok(None) => return Ok(None),
                Ok(Some(PerfFileRecord::EventRecord { attr_index, record })) => (attr_index, record),
                Ok(Some(PerfFileRecord::UserRecord(_))) => continue,
                Err(error) => {
                    shared.oddities.push(Oddity::Damaged { path: self.path.clone(), error: error.to_string() });
                    return Ok(None);
                }
            };
            let cpu = record.common_data().ok().and_then(|common| common.cpu);
            let t_ns = record.timestamp().map_or(self.last_ns, |t| (t as i64).wrapping_add(self.offset_ns));
            // Only what is needed is parsed: the library trusts the inside of some other records.
            let lost = match record.record_type {
                RecordType::LOST => word(&record.data.as_slice(), 8, self.order),
                RecordType::LOST_SAMPLES => word(&record.data.as_slice(), 0, self.order),
                RecordType::SAMPLE if !chain_fits(&record, self.order) => {
                    let error = "a call chain is longer than its sample".to_owned();
                    shared.oddities.push(Oddity::Damaged { path: self.path.clone(), error });
                    return Ok(None);
                }
                RecordType::SAMPLE => match record.parse() {
                    Ok(EventRecord::Sample(sample)) => {
                        self.raw.clear();
                        let raw = sample.raw.map(|raw| self.raw.extend_from_slice(&raw.as_slice())).is_some();
                        let sample = Sample { index, t_ns, raw, ..Sample::of(&sample) };
                        self.last_ns = t_ns;
                        self.sample(sample, shared);
                        return Ok(Some(t_ns));
                    }
                    Ok(_) => None,
                    Err(error) => {
                        shared.oddities.push(Oddity::Damaged { path: self.path.clone(), error: error.to_string() });
                        return Ok(None);
                    }
                },
                _ => None,
            };
            self.last_ns = t_ns;
            if let Some(events) = lost.filter(|&events| events > 0) {
                let lane = self.lane(cpu, shared);
                let begin_ns = if lane.last_ns == 0 { t_ns } else { lane.last_ns.min(t_ns) };
                self.head = Some(Head::Loss(Loss { stream: lane.stream, begin_ns, end_ns: t_ns, events: Some(events) }));
                return Ok(Some(t_ns));
            }
        }
    }

    fn sample(&mut self, sample: Sample, shared: &mut Shared) {
        let Sample { t_ns, cpu, .. } = sample;
        let lane = self.lane(cpu, shared);
        let stream = lane.stream;
        self.cpus.insert(cpu.unwrap_or(u32::MAX), Lane { last_ns: t_ns, ..lane });
        let subject = self.subject(sample.pid, sample.tid, shared);
        // The bytes of a tracepoint begin with its id.
        let id = sample.raw.then(|| self.order.unsigned(self.raw.get(..2)?)).flatten().map(|id| id as u16);
        let id = id.filter(|&id| self.plan(id, shared));
        self.head = Some(match id {
            Some(id) => Head::Tracepoint { t_ns, stream, cpu, subject, id },
            None => {
                let class = self.class(sample.index, shared);
                Head::Sample { t_ns, stream, cpu, subject, class, ip: sample.ip, period: sample.period }
            }
        });
    }

    /// Whether there is a format of this id.
    fn plan(&mut self, id: u16, shared: &mut Shared) -> bool {
        if self.tracepoints.contains_key(&id) {
            return true;
        }
        let Some(format) = self.formats.by_id(id) else { return false };
        let EventFormat { name, fields, .. } = format;
        let class = Class {
            event_name: name.clone(),
            fields: fields.iter().map(|field| field.name.clone()).collect(),
            bases: vec![10; fields.len()],
            ..Class::default()
        };
        self.tracepoints.insert(id, Plan { class: shared.class(class), fields: fields.clone() });
        true
    }

    /// Of what is no tracepoint: a counter, a clock.
    fn class(&mut self, index: usize, shared: &mut Shared) -> ClassId {
        let name = self.file.event_attributes().get(index).and_then(|attribute| attribute.name());
        *self.others.entry(index).or_insert_with(|| {
            let fields = ["ip", "period"].map(str::to_owned).to_vec();
            shared.class(Class { event_name: name.unwrap_or("sample").to_owned(), fields, bases: vec![16, 10], ..Class::default() })
        })
    }

    fn lane(&mut self, cpu: Option<u32>, shared: &mut Shared) -> Lane {
        let name = || match cpu {
            Some(cpu) => format!("{}/cpu{cpu}", self.name),
            None => self.name.clone(),
        };
        *self.cpus.entry(cpu.unwrap_or(u32::MAX)).or_insert_with(|| Lane { stream: shared.stream(name(), StreamKind::Kernel), last_ns: 0 })
    }

    fn subject(&mut self, pid: Option<i32>, tid: Option<i32>, shared: &mut Shared) -> SubjectId {
        let host = &self.host;
        *self.subjects.entry((pid, tid)).or_insert_with(|| shared.subject(Subject { host: host.clone(), pid, tid, ..Subject::default() }))
    }

    pub fn item<'a>(&'a self, shelf: &'a mut Shelf) -> Item<'a> {
        match self.head {
            Some(Head::Tracepoint { t_ns, stream, cpu, subject, id }) => {
                // A head is made of what has a plan.
                let Some(plan) = self.tracepoints.get(&id) else { return self.nothing() };
                let fields = shelf.put(plan.fields.iter().map(|field| value(field, &self.raw, self.order)));
                Item::Event(Event { t_ns, stream, subject, class: plan.class, cpu, fields, context: &[] })
            }
            Some(Head::Sample { t_ns, stream, cpu, subject, class, ip, period }) => {
                let fields = shelf.put([Value::U64(ip), Value::U64(period)]);
                Item::Event(Event { t_ns, stream, subject, class, cpu, fields, context: &[] })
            }
            Some(Head::Loss(loss)) => Item::Loss(loss),
            None => self.nothing(),
        }
    }

    /// The trace asks only for what `advance` has found.
    fn nothing(&self) -> Item<'_> {
        Item::Loss(Loss { stream: StreamId(0), begin_ns: self.last_ns, end_ns: self.last_ns, events: Some(0) })
    }
}

/// What is kept of a sample while the reader goes on.
#[derive(Clone, Copy)]
struct Sample {
    index: usize,
    t_ns: i64,
    cpu: Option<u32>,
    pid: Option<i32>,
    tid: Option<i32>,
    ip: u64,
    period: u64,
    raw: bool,
}

impl Sample {
    fn of(sample: &SampleRecord<'_>) -> Sample {
        let (ip, period) = (sample.ip.unwrap_or(0), sample.period.unwrap_or(0));
        Sample { index: 0, t_ns: 0, cpu: sample.cpu, pid: sample.pid, tid: sample.tid, ip, period, raw: false }
    }
}

/// A field that the record is too short for is empty.
fn value<'a>(field: &'a Field, record: &'a [u8], order: ByteOrder) -> Value<'a> {
    if field.is_text() {
        return Value::Str(field.text(record, order).unwrap_or_default());
    }
    match field.int(record, order) {
        Ok(value) => u64::try_from(value).map_or_else(|_| Value::I64(value as i64), Value::U64),
        Err(_) => Value::Bytes(field.bytes(record, order).unwrap_or_default()),
    }
}

/// A text with its length before it, up to its first NUL.
fn text(section: &[u8], order: ByteOrder) -> Option<String> {
    let length = usize::try_from(order.unsigned(section.get(..4)?)?).ok()?;
    let text = section.get(4..length.checked_add(4)?)?;
    let end = text.iter().position(|byte| *byte == 0).unwrap_or(text.len());
    Some(String::from_utf8_lossy(&text[..end]).into_owned())
}

fn word(bytes: &[u8], at: usize, order: ByteOrder) -> Option<u64> {
    order.unsigned(bytes.get(at..at.checked_add(8)?)?)
}

/// Whether a sample's call chain ends within it. The library multiplies the length that is said, whatever it is.
fn chain_fits(record: &RawEventRecord<'_>, order: ByteOrder) -> bool {
    let (format, read) = (record.parse_info.sample_format, record.parse_info.read_format);
    if !format.contains(SampleFormat::CALLCHAIN) {
        return true;
    }
    let data = record.data.as_slice();
    let told = |at: usize| word(&data, at.checked_mul(8)?, order).and_then(|told| usize::try_from(told).ok());
    // Before it, each of 8 bytes.
    let before = SampleFormat::IDENTIFIER
        | SampleFormat::IP
        | SampleFormat::TID
        | SampleFormat::TIME
        | SampleFormat::ADDR
        | SampleFormat::ID
        | SampleFormat::STREAM_ID
        | SampleFormat::CPU
        | SampleFormat::PERIOD;
    let before = (format & before).bits().count_ones() as usize;
    let has = |what: ReadFormat| usize::from(read.contains(what));
    let times = has(ReadFormat::TOTAL_TIME_ENABLED) + has(ReadFormat::TOTAL_TIME_RUNNING);
    // As the library reads them.
    let values = match (format.contains(SampleFormat::READ), read.contains(ReadFormat::GROUP)) {
        (false, _) => Some(0),
        (true, true) => Some(1 + times + has(ReadFormat::ID)),
        (true, false) => told(before).and_then(|count| count.checked_mul(1 + has(ReadFormat::ID))?.checked_add(1 + times)),
    };
    let at = values.and_then(|values| values.checked_add(before));
    at.is_some_and(|at| told(at).is_some_and(|length| length < data.len() / 8 - at))
}

/// Bytes of an attribute, in its first version and in any that may come.
const ATTRIBUTES: RangeInclusive<u64> = 64..=4096;
/// Numbers of sections that the library reads when it opens a file.
const EVENT_DESCRIPTION: u32 = 12;
const SIMPLEPERF: u32 = 129;

/// Walks the section that describes the events; none where it says of more than it has.
fn described_events(bytes: &[u8], order: ByteOrder) -> Option<()> {
    let mut rest = bytes;
    let mut take = |length: u64| {
        let (taken, behind) = rest.split_at_checked(usize::try_from(length).ok()?)?;
        rest = behind;
        Some(taken)
    };
    let (count, size) = (order.unsigned(take(4)?)?, order.unsigned(take(4)?)?);
    if !ATTRIBUTES.contains(&size) {
        return None;
    }
    for _ in 0..count {
        take(size)?;
        let ids = order.unsigned(take(4)?)?;
        let name = order.unsigned(take(4)?)?;
        take(name)?;
        take(ids.checked_mul(8)?)?;
    }
    Some(())
}

/// Refuses a file whose sections, or traces within it, are said to be longer than the file.
fn check(reader: &mut BufReader<File>, path: &Path) -> Result<(), Error> {
    const AUXTRACE: u32 = 71;
    let io = || Error::io(path);
    let refused = |what: String| Error::Recording { path: path.to_owned(), what };
    let length = reader.get_ref().metadata().map_err(io())?.len();
    let mut head = [0; 104];
    reader.read_exact(&mut head).map_err(|_| refused("it ends within its head".to_owned()))?;
    let order = if head.starts_with(b"PERFILE2") { ByteOrder::Little } else { ByteOrder::Big };
    let word = |bytes: &[u8], at: usize| word(bytes, at, order).unwrap_or(0);
    if word(&head, 8) != 104 {
        return Err(refused("it was written to a pipe; write it to a file (perf record -o FILE)".to_owned()));
    }
    let within = |what: &str, at: u64, size: u64| match at.checked_add(size) {
        Some(end) if end <= length => Ok(end),
        _ => Err(refused(format!(
            "{what} is said to be {size} bytes at byte {at}, and the file has {length}; was perf ended before it wrote its head?"
        ))),
    };
    let attribute = word(&head, 16);
    if !ATTRIBUTES.contains(&attribute) {
        return Err(refused(format!(
            "its attributes are said to have {attribute} bytes each; perf's have {} at least",
            ATTRIBUTES.start()
        )));
    }
    within("the section of attributes", word(&head, 24), word(&head, 32))?;
    let (begin, size) = (word(&head, 40), word(&head, 48));
    let end = within("the section of data", begin, size)?;
    within("the section of event types", word(&head, 56), word(&head, 64))?;
    let features: Vec<u32> = (0..256).filter(|bit| word(&head, 72 + 8 * (bit / 64) as usize) >> (bit % 64) & 1 != 0).collect();
    let mut table = vec![0; 16 * features.len()];
    reader.seek(SeekFrom::Start(end)).map_err(io())?;
    reader.read_exact(&mut table).map_err(|_| refused("it ends within the table of its sections".to_owned()))?;
    let (mut sum, mut described) = (0u64, false);
    for (section, feature) in table.chunks_exact(16).zip(&features) {
        let (at, size) = (word(section, 0), word(section, 8));
        within("a section", at, size)?;
        // All of them are kept, and they may lie over each other.
        sum = sum.saturating_add(size);
        within("what its sections have together", 0, sum)?;
        if *feature == EVENT_DESCRIPTION {
            described = true;
            let mut bytes = vec![0; size as usize];
            reader.seek(SeekFrom::Start(at)).and_then(|_| reader.read_exact(&mut bytes)).map_err(io())?;
            if described_events(&bytes, order).is_none() {
                return Err(refused("the section that describes its events is shorter than it says".to_owned()));
            }
        }
    }
    // Without that section each attribute names a list of ids, in one of two places.
    if !described {
        let types = ((word(&head, 56), word(&head, 64)), attribute + 16, attribute);
        let within_attributes = ((word(&head, 24), word(&head, 32)), attribute, attribute - 16);
        let lists = if word(&head, 64) != 0 { Some(types) } else { features.contains(&SIMPLEPERF).then_some(within_attributes) };
        if let Some(((begin, size), each, ids)) = lists {
            let mut sum = 0u64;
            let mut entry = vec![0; each as usize];
            reader.seek(SeekFrom::Start(begin)).map_err(io())?;
            for _ in 0..size / each {
                reader.read_exact(&mut entry).map_err(io())?;
                let list = &entry[ids as usize..];
                within("a list of ids", word(list, 0), word(list, 8))?;
                sum = sum.saturating_add(word(list, 8));
                within("what its lists of ids have together", 0, sum)?;
            }
        }
    }
    // What a hardware trace adds to a record stands in the record itself.
    let mut at = begin;
    reader.seek(SeekFrom::Start(begin)).map_err(io())?;
    while at + 16 <= end {
        let mut record = [0; 16];
        reader.read_exact(&mut record).map_err(io())?;
        let (kind, size) = (order.unsigned(&record[..4]).unwrap_or(0), order.unsigned(&record[6..8]).unwrap_or(0));
        let more = if kind == u64::from(AUXTRACE) { word(&record, 8) } else { 0 };
        if size < 8 {
            break;
        }
        at = within("a record", at + size, more)?;
        reader.seek_relative((size + more) as i64 - 16).map_err(io())?;
    }
    reader.rewind().map_err(io())
}
