//! The header and sections of a perf.data: its events, the layout of their samples, and facts about
//! the recorded host.
//!
//! A file has a table of sections. Output through a pipe (`perf record -o -`) has the same content
//! in records before the data, which [`FileHeader::learn`] reads. Both exist in both byte orders.
//! Every length is checked against the file's size before memory is allocated for it. The layouts
//! are defined in the kernel's `perf_event.h` and
//! `tools/perf/Documentation/perf.data-file-format.txt`.

use crate::error::Error;
use longpole_ftrace::{perf_formats, ByteOrder, Formats};
use std::collections::HashMap;
use std::fs::File;
use std::io::{BufReader, Read, Seek, SeekFrom};
use std::ops::RangeInclusive;
use std::path::Path;

/// Numbers of the sections that are read.
const TRACING_DATA: u32 = 1;
const HOSTNAME: u32 = 3;
const EVENT_DESCRIPTION: u32 = 12;
const DIR_FORMAT: u32 = 24;
const CLOCK_DATA: u32 = 29;

/// Valid sizes in bytes of an attribute: the first version's size, up to any plausible later one.
const ATTRIBUTES: RangeInclusive<u64> = 64..=4096;
const MAX_EVENTS: usize = 1 << 16;
/// Maximum number of ids of all events together. Each event has one id per CPU or thread.
const MAX_IDS: usize = 1 << 22;
/// Maximum number of bytes of event formats. The formats of all events of a kernel take about 4 MB.
pub(super) const MAX_FORMATS: u64 = 256 << 20;

/// Value of an attribute's `type` for tracepoints, and bit numbers of its flags.
const TRACEPOINT: u32 = 2;
const SAMPLE_ID_ALL: u32 = 18;
const USE_CLOCKID: u32 = 25;

/// Attribute of an event that was recorded.
#[derive(Clone, Debug, Default)]
pub(super) struct Attribute {
    pub kind: u32,
    pub config: u64,
    pub sample_type: u64,
    pub read_format: u64,
    pub branch_type: u64,
    pub user_regs: u64,
    pub intr_regs: u64,
    /// Set if other records have the same ids and times as samples (`sample_id_all`).
    pub id_all: bool,
    pub clock: Option<u32>,
    pub name: Option<String>,
    pub ids: Vec<u64>,
}

impl Attribute {
    /// Parses the bytes that the file has of an attribute. Returns `None` if they are too few.
    fn parse(bytes: &[u8], order: ByteOrder) -> Option<Attribute> {
        let word = |at: usize| bytes.get(at..at + 8).and_then(|bytes| order.unsigned(bytes)).unwrap_or(0);
        let half = |at: usize| bytes.get(at..at + 4).and_then(|bytes| order.unsigned(bytes)).unwrap_or(0) as u32;
        if (bytes.len() as u64) < *ATTRIBUTES.start() {
            return None;
        }
        // Big-endian compilers place bit fields from the highest bit on.
        let flags = word(40);
        let flag = |bit: u32| if order == ByteOrder::Little { flags >> bit & 1 != 0 } else { flags >> (63 - bit) & 1 != 0 };
        Some(Attribute {
            kind: half(0),
            config: word(8),
            sample_type: word(24),
            read_format: word(32),
            branch_type: word(72),
            user_regs: word(80),
            intr_regs: word(96),
            id_all: flag(SAMPLE_ID_ALL),
            clock: flag(USE_CLOCKID).then(|| half(92)),
            name: None,
            ids: Vec::new(),
        })
    }

    /// Returns the id of the tracepoint, if the event is one.
    pub fn tracepoint(&self) -> Option<u16> {
        (self.kind == TRACEPOINT).then(|| u16::try_from(self.config).ok()).flatten()
    }

    /// Returns perf's usual name of the event, for files that do not name it.
    pub fn usual_name(&self) -> String {
        const HARDWARE: [&str; 10] = [
            "cycles",
            "instructions",
            "cache-references",
            "cache-misses",
            "branches",
            "branch-misses",
            "bus-cycles",
            "stalled-cycles-frontend",
            "stalled-cycles-backend",
            "ref-cycles",
        ];
        const SOFTWARE: [&str; 12] = [
            "cpu-clock",
            "task-clock",
            "page-faults",
            "context-switches",
            "cpu-migrations",
            "minor-faults",
            "major-faults",
            "alignment-faults",
            "emulation-faults",
            "dummy",
            "bpf-output",
            "cgroup-switches",
        ];
        let names: &[&str] = match self.kind {
            0 => &HARDWARE,
            1 => &SOFTWARE,
            _ => &[],
        };
        usize::try_from(self.config)
            .ok()
            .and_then(|config| names.get(config))
            .map_or_else(|| "sample".to_owned(), |name| (*name).to_owned())
    }
}

/// Header information of a file.
pub(super) struct FileHeader {
    pub order: ByteOrder,
    pub attributes: Vec<Attribute>,
    by_id: HashMap<u64, usize>,
    pub formats: Formats,
    /// Number of sets of formats that were read.
    pub formats_known: u32,
    pub host: String,
    /// Offset in ns from perf's clock to Unix time; 0 if the file does not contain it.
    pub offset_ns: i128,
    /// Range of the records in bytes. If `end` is `None`, they extend to the end of the file.
    pub begin: u64,
    pub end: Option<u64>,
    pub is_pipe: bool,
    /// Set if the file is one of several in a folder.
    pub has_others: bool,
}

impl FileHeader {
    pub fn attribute_of(&self, id: u64) -> Option<usize> {
        self.by_id.get(&id).copied()
    }

    /// Reads the header and the sections.
    pub fn read(reader: &mut BufReader<File>, path: &Path) -> Result<FileHeader, Error> {
        let length = reader.get_ref().metadata().map_err(Error::io(path))?.len();
        let (order, head) = read_head(reader, path)?;
        let mut header = FileHeader {
            order,
            attributes: Vec::new(),
            by_id: HashMap::new(),
            formats: Formats::default(),
            formats_known: 0,
            host: String::new(),
            offset_ns: 0,
            begin: 16,
            end: None,
            is_pipe: true,
            has_others: false,
        };
        let Some(head) = head else { return Ok(header) };
        let mut sections = Sections { reader, path, length, order };
        let each = sections.word(&head, 16);
        if !ATTRIBUTES.contains(&each) {
            let least = ATTRIBUTES.start();
            return Err(refused(path, format!("its attributes claim to have {each} bytes each; perf's have at least {least}")));
        }
        let (at, size) = (sections.word(&head, 24), sections.word(&head, 32));
        sections.check("the section of attributes", at, size)?;
        header.begin = sections.word(&head, 40);
        header.is_pipe = false;
        let data = sections.word(&head, 48);
        let end = sections.check("the section of data", header.begin, data)?;
        header.end = Some(end).filter(|_| data > 0);
        let attributes = sections.read(at, size.min(MAX_EVENTS as u64 * each))?;
        header.read_attributes(&attributes, each as usize, &mut sections)?;
        // If the data section has no length, perf did not finish, and the sections after the
        // records were not written.
        let is_present = |bit: &u32| data > 0 && sections.word(&head, 72 + 8 * (bit / 64) as usize) >> (bit % 64) & 1 != 0;
        let features: Vec<u32> = (0..256).filter(is_present).collect();
        header.read_features(&features, end, &mut sections)?;
        if header.attributes.is_empty() {
            return Err(refused(path, "it names no event".to_owned()));
        }
        Ok(header)
    }

    /// Reads the section of attributes, whose entries have `each` bytes, and their lists of ids.
    fn read_attributes(&mut self, entries: &[u8], each: usize, sections: &mut Sections<'_>) -> Result<(), Error> {
        let mut listed = 0u64;
        for entry in entries.chunks_exact(each) {
            let attribute = Attribute::parse(&entry[..entry.len() - 16], self.order);
            let (at, size) = (sections.word(entry, entry.len() - 16), sections.word(entry, entry.len() - 8));
            sections.check("a list of ids", at, size)?;
            // Lists of ids may overlap, so their total size is checked as well.
            listed = listed.saturating_add(size);
            sections.check("what its lists of ids have together", 0, listed)?;
            let ids = sections.read(at, size)?.chunks_exact(8).map(|id| sections.word(id, 0)).collect();
            self.add(Attribute { ids, ..attribute.unwrap_or_default() });
        }
        Ok(())
    }

    /// Reads the sections of `features`, whose table is at byte `table`.
    fn read_features(&mut self, features: &[u32], table: u64, sections: &mut Sections<'_>) -> Result<(), Error> {
        self.has_others = features.contains(&DIR_FORMAT);
        let path = sections.path;
        let size = 16 * features.len() as u64;
        sections
            .check("the table of its sections", table, size)
            .map_err(|_| refused(path, "it ends within the table of its sections".to_owned()))?;
        for (entry, feature) in sections.read(table, size)?.chunks_exact(16).zip(features) {
            let (at, size) = (sections.word(entry, 0), sections.word(entry, 8));
            sections.check("a section", at, size)?;
            let limit = match *feature {
                TRACING_DATA => MAX_FORMATS,
                HOSTNAME | CLOCK_DATA => 4096,
                EVENT_DESCRIPTION => 64 << 20,
                _ => continue,
            };
            let bytes = sections.read(at, size.min(limit))?;
            self.feature(*feature, &bytes).map_err(|what| refused(path, what))?;
        }
        Ok(())
    }

    fn add(&mut self, mut attribute: Attribute) {
        if self.attributes.len() < MAX_EVENTS {
            attribute.ids.truncate(MAX_IDS.saturating_sub(self.by_id.len()));
            self.by_id.extend(attribute.ids.iter().map(|id| (*id, self.attributes.len())));
            self.attributes.push(attribute);
        }
    }

    fn feature(&mut self, feature: u32, bytes: &[u8]) -> Result<(), String> {
        match feature {
            TRACING_DATA => return self.tracing_data(bytes),
            HOSTNAME => self.host = text(bytes, self.order).unwrap_or_default(),
            EVENT_DESCRIPTION if self.described_events(bytes).is_none() => {
                return Err("the section that describes its events is shorter than it says".to_owned());
            }
            CLOCK_DATA => {
                if let (Some(wall), Some(own)) = (word(bytes, 8, self.order), word(bytes, 16, self.order)) {
                    self.offset_ns = i128::from(wall) - i128::from(own);
                }
            }
            _ => {}
        }
        Ok(())
    }

    pub fn tracing_data(&mut self, bytes: &[u8]) -> Result<(), String> {
        self.formats = perf_formats(bytes).map_err(|error| format!("formats of its events: {error}"))?.0;
        self.formats_known += 1;
        Ok(())
    }

    /// Reads the names of events. They are assigned by id, or by index for events without ids.
    fn described_events(&mut self, bytes: &[u8]) -> Option<()> {
        let mut rest = bytes;
        let mut take = |length: u64| {
            let (taken, behind) = rest.split_at_checked(usize::try_from(length).ok()?)?;
            rest = behind;
            Some(taken)
        };
        let order = self.order;
        let (count, size) = (order.unsigned(take(4)?)?, order.unsigned(take(4)?)?);
        if !ATTRIBUTES.contains(&size) {
            return None;
        }
        for index in 0..count {
            take(size)?;
            let ids = order.unsigned(take(4)?)?;
            let length = order.unsigned(take(4)?)?;
            let name = take(length)?;
            let ids = take(ids.checked_mul(8)?)?;
            let name = &name[..name.iter().position(|byte| *byte == 0).unwrap_or(name.len())];
            let first = ids.get(..8).and_then(|id| order.unsigned(id));
            let known = first.and_then(|id| self.attribute_of(id)).or_else(|| usize::try_from(index).ok());
            if let Some(attribute) = known.and_then(|index| self.attributes.get_mut(index)) {
                attribute.name = Some(String::from_utf8_lossy(name).into_owned());
            }
        }
        Some(())
    }

    /// Reads a record that perf wrote for its readers (`PERF_RECORD_HEADER_ATTR` and similar).
    /// Other kinds are ignored.
    pub fn learn(&mut self, kind: u32, body: &[u8]) -> Result<(), String> {
        const HEADER_ATTRIBUTE: u32 = 64;
        const EVENT_UPDATE: u32 = 78;
        const HEADER_FEATURE: u32 = 80;
        const NAME: u64 = 2;
        match kind {
            HEADER_ATTRIBUTE => {
                let size = body.get(4..8).and_then(|size| self.order.unsigned(size)).unwrap_or(0);
                let size = if size == 0 { *ATTRIBUTES.start() } else { size } as usize;
                let (bytes, ids) = body.split_at_checked(size).ok_or("an attribute is longer than its record")?;
                let attribute = Attribute::parse(bytes, self.order).ok_or_else(|| format!("an attribute has {size} bytes"))?;
                let ids = ids.chunks_exact(8).filter_map(|id| self.order.unsigned(id)).collect();
                self.add(Attribute { ids, ..attribute });
            }
            EVENT_UPDATE if word(body, 0, self.order) == Some(NAME) => {
                let named = word(body, 8, self.order).and_then(|id| self.attribute_of(id));
                if let Some(attribute) = named.and_then(|index| self.attributes.get_mut(index)) {
                    let name = body.get(16..).unwrap_or_default();
                    let name = &name[..name.iter().position(|byte| *byte == 0).unwrap_or(name.len())];
                    attribute.name = Some(String::from_utf8_lossy(name).into_owned());
                }
            }
            HEADER_FEATURE => {
                if let (Some(feature), Some(bytes)) = (word(body, 0, self.order), body.get(8..)) {
                    self.feature(u32::try_from(feature).unwrap_or(u32::MAX), bytes)?;
                }
            }
            _ => {}
        }
        Ok(())
    }
}

/// Reads the sections of a file and checks their positions.
struct Sections<'r> {
    reader: &'r mut BufReader<File>,
    path: &'r Path,
    /// Size of the file in bytes.
    length: u64,
    order: ByteOrder,
}

impl Sections<'_> {
    /// Returns the word at byte `at` of `bytes`, or 0 if they are too few.
    fn word(&self, bytes: &[u8], at: usize) -> u64 {
        word(bytes, at, self.order).unwrap_or(0)
    }

    /// Returns the byte after a range, or an error if the file ends within it.
    fn check(&self, what: &str, at: u64, size: u64) -> Result<u64, Error> {
        let length = self.length;
        at.checked_add(size).filter(|end| *end <= length).ok_or_else(|| {
            let claim = format!("{what} should be {size} bytes at byte {at}, but the file has {length} bytes");
            refused(self.path, format!("{claim}; perf may have been ended before it wrote its header"))
        })
    }

    /// Reads a range that was checked.
    fn read(&mut self, at: u64, size: u64) -> Result<Vec<u8>, Error> {
        let mut bytes = vec![0; size as usize];
        let read = self.reader.seek(SeekFrom::Start(at)).and_then(|_| self.reader.read_exact(&mut bytes));
        read.map_err(Error::io(self.path))?;
        Ok(bytes)
    }
}

/// Reads the byte order and the header. The header is `None` for output through a pipe, which has
/// only its first 16 bytes.
fn read_head(reader: &mut BufReader<File>, path: &Path) -> Result<(ByteOrder, Option<[u8; 104]>), Error> {
    let short = |_| refused(path, "it ends within its head".to_owned());
    let mut head = [0; 104];
    reader.read_exact(&mut head[..16]).map_err(short)?;
    let order = match &head[..8] {
        b"PERFILE2" => ByteOrder::Little,
        b"2ELIFREP" => ByteOrder::Big,
        other => {
            let what = format!("its head begins with \"{}\", which is not a known version", other.escape_ascii());
            return Err(refused(path, what));
        }
    };
    match word(&head, 8, order) {
        Some(16) => return Ok((order, None)),
        Some(104) => {}
        size => return Err(refused(path, format!("its header claims to have {} bytes", size.unwrap_or(0)))),
    }
    reader.read_exact(&mut head[16..]).map_err(short)?;
    Ok((order, Some(head)))
}

fn refused(path: &Path, what: String) -> Error {
    Error::Recording { path: path.to_owned(), what }
}

/// Reads a text that is preceded by its length and ends at its first NUL.
fn text(section: &[u8], order: ByteOrder) -> Option<String> {
    let length = usize::try_from(order.unsigned(section.get(..4)?)?).ok()?;
    let text = section.get(4..length.checked_add(4)?)?;
    let end = text.iter().position(|byte| *byte == 0).unwrap_or(text.len());
    Some(String::from_utf8_lossy(&text[..end]).into_owned())
}

pub(super) fn word(bytes: &[u8], at: usize, order: ByteOrder) -> Option<u64> {
    order.unsigned(bytes.get(at..at.checked_add(8)?)?)
}
