//! Writes trace.dat files of both versions, in both byte orders and with both sizes of a `long`,
//! and the pages in them, byte by byte as described in trace-cmd.dat.v6(5), trace-cmd.dat.v7(5) and
//! the kernel's ring-buffer-design.rst.

use std::fmt::Write as _;

pub const PAGE: usize = 4096;

/// A recorded host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Machine {
    pub big: bool,
    /// Size of a `long` in bytes, 4 or 8.
    pub long: usize,
}

impl Machine {
    pub const ALL: [Machine; 4] =
        [Machine { big: false, long: 8 }, Machine { big: true, long: 8 }, Machine { big: false, long: 4 }, Machine { big: true, long: 4 }];

    /// Encodes a number in `size` bytes.
    pub fn number(self, value: u64, size: usize) -> Vec<u8> {
        match self.big {
            true => value.to_be_bytes()[8 - size..].to_vec(),
            false => value.to_le_bytes()[..size].to_vec(),
        }
    }

    pub fn header_page(self) -> String {
        let (long, data) = (self.long, 8 + self.long);
        format!(
            "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n\tfield: local_t commit;\toffset:8;\tsize:{long};\tsigned:1;\n\
             \tfield: int overwrite;\toffset:8;\tsize:1;\tsigned:1;\n\tfield: char data;\toffset:{data};\tsize:{};\tsigned:0;\n",
            PAGE - data
        )
    }
}

pub const HEADER_EVENT: &str = include_str!("../../ftrace/tests/fixtures/header_event");

/// A field of a format: its declaration, offset, size, and whether it is signed.
pub type Declared<'a> = (&'a str, usize, usize, bool);

pub fn format(name: &str, id: u16, fields: &[Declared<'_>], print: &str) -> String {
    let mut text = format!("name: {name}\nID: {id}\nformat:\n");
    let common = [
        ("unsigned short common_type", 0, 2, false),
        ("unsigned char common_flags", 2, 1, false),
        ("unsigned char common_preempt_count", 3, 1, false),
        ("int common_pid", 4, 4, true),
    ];
    for (declaration, offset, size, signed) in common.iter().chain(fields) {
        let signed = u8::from(*signed);
        writeln!(text, "\tfield:{declaration};\toffset:{offset};\tsize:{size};\tsigned:{signed};").unwrap();
        if *offset == 4 && *size == 4 {
            text.push('\n');
        }
    }
    write!(text, "\nprint fmt: {print}\n").unwrap();
    text
}

/// The bytes of an event that is being made.
pub struct Record {
    machine: Machine,
    pub bytes: Vec<u8>,
}

impl Record {
    pub fn new(machine: Machine, id: u16, pid: i32) -> Record {
        let mut record = Record { machine, bytes: Vec::new() };
        record.at(0, id.into(), 2).at(2, 1, 1).at(3, 2, 1).at(4, pid as u64, 4);
        record
    }

    /// Writes a number at an offset.
    pub fn at(&mut self, offset: usize, value: u64, size: usize) -> &mut Record {
        self.put(offset, &self.machine.number(value, size))
    }

    pub fn put(&mut self, offset: usize, bytes: &[u8]) -> &mut Record {
        let end = offset + bytes.len();
        self.bytes.resize(self.bytes.len().max(end), 0);
        self.bytes[offset..end].copy_from_slice(bytes);
        self
    }

    /// Adds a dynamic field at `offset`. Its bytes are appended.
    pub fn dynamic(&mut self, offset: usize, bytes: &[u8]) -> &mut Record {
        let start = self.bytes.len();
        self.at(offset, (bytes.len() as u64) << 16 | start as u64, 4).put(start, bytes)
    }

    /// Adds a dynamic field whose position is relative to the end of the field.
    pub fn relative(&mut self, offset: usize, bytes: &[u8]) -> &mut Record {
        let start = self.bytes.len();
        self.at(offset, (bytes.len() as u64) << 16 | (start - offset - 4) as u64, 4).put(start, bytes)
    }
}

/// A page that is being made.
pub struct Page {
    machine: Machine,
    time: u64,
    data: Vec<u8>,
    lost: Option<Option<u64>>,
}

impl Page {
    pub fn new(machine: Machine, time: u64) -> Page {
        Page { machine, time, data: Vec::new(), lost: None }
    }

    /// Marks the page: events were lost before it.
    pub fn lost(mut self, events: Option<u64>) -> Page {
        self.lost = Some(events);
        self
    }

    fn word(&mut self, kind: u32, delta: u32) {
        let word = if self.machine.big { kind << 27 | delta } else { kind | delta << 5 };
        self.data.extend(self.machine.number(word.into(), 4));
    }

    /// Adds an event `delta` after the one before. A short event has its length in the first word,
    /// a longer one in the second.
    pub fn event(mut self, delta: u32, record: &Record) -> Page {
        assert!(delta < 1 << 27);
        let words = record.bytes.len().div_ceil(4);
        if words <= 28 {
            self.word(words as u32, delta);
        } else {
            self.word(0, delta);
            self.data.extend(self.machine.number((4 * words + 4) as u64, 4));
        }
        self.data.extend(&record.bytes);
        self.data.resize(self.data.len().next_multiple_of(4), 0);
        self
    }

    /// Adds a time that does not fit into the next event's word.
    pub fn extend(mut self, delta: u64) -> Page {
        self.word(30, (delta & ((1 << 27) - 1)) as u32);
        self.data.extend(self.machine.number(delta >> 27, 4));
        self
    }

    /// Sets the time from here on.
    pub fn stamp(mut self, time: u64) -> Page {
        self.word(31, (time & ((1 << 27) - 1)) as u32);
        self.data.extend(self.machine.number(time >> 27 & 0xffff_ffff, 4));
        self
    }

    /// Adds an event that its writer discarded, 3 after the one before.
    pub fn taken_back(mut self, bytes: usize) -> Page {
        self.word(29, 3);
        self.data.extend(self.machine.number(bytes as u64 + 4, 4));
        self.data.resize(self.data.len() + bytes, 0xee);
        self
    }

    pub fn bytes(&self) -> Vec<u8> {
        let Machine { long, .. } = self.machine;
        let mut commit = self.data.len() as u64;
        assert!(8 + long + self.data.len() + 8 <= PAGE);
        if let Some(lost) = self.lost {
            commit |= 1 << 31 | u64::from(lost.is_some()) << 30;
        }
        let mut bytes = self.machine.number(self.time, 8);
        bytes.extend(self.machine.number(commit, long));
        bytes.extend(&self.data);
        bytes.extend(self.lost.flatten().map(|events| self.machine.number(events, long)).unwrap_or_default());
        bytes.resize(PAGE, 0);
        bytes
    }
}

/// Compression of a file. The function comes from the tests, so that only they depend on
/// compressors.
#[derive(Clone, Copy, Debug)]
pub struct Compression {
    pub name: &'static str,
    pub pack: Option<fn(&[u8]) -> Vec<u8>>,
}

impl Compression {
    pub const NONE: Compression = Compression { name: "none", pack: None };
}

/// A buffer. The top buffer has no name.
#[derive(Clone)]
pub struct Buffer {
    pub name: &'static str,
    pub clock: &'static str,
    pub cpus: Vec<(u32, Vec<u8>)>,
}

/// A file that is being made.
#[derive(Clone)]
pub struct TraceDat {
    pub machine: Machine,
    pub of_ftrace: Vec<String>,
    pub systems: Vec<(&'static str, Vec<String>)>,
    pub printk: String,
    pub cmdlines: String,
    /// Options in addition to those that the layout requires.
    pub options: Vec<(u16, Vec<u8>)>,
    pub buffers: Vec<Buffer>,
    /// Output of a latency tracer, in place of pages.
    pub text: Option<String>,
}

impl TraceDat {
    fn number(&self, value: u64, size: usize) -> Vec<u8> {
        self.machine.number(value, size)
    }

    fn head(&self, version: &[u8]) -> Vec<u8> {
        let mut out = b"\x17\x08\x44tracing".to_vec();
        out.extend(version);
        out.extend([0, u8::from(self.machine.big), self.machine.long as u8]);
        out.extend(self.number(PAGE as u64, 4));
        out
    }

    fn headers(&self) -> Vec<u8> {
        let mut out = Vec::new();
        for (name, text) in [("header_page\0", self.machine.header_page()), ("header_event\0", HEADER_EVENT.to_owned())] {
            out.extend(name.bytes());
            out.extend(self.number(text.len() as u64, 8));
            out.extend(text.bytes());
        }
        out
    }

    fn texts(&self, all: &[String]) -> Vec<u8> {
        let mut out = self.number(all.len() as u64, 4);
        for text in all {
            out.extend(self.number(text.len() as u64, 8));
            out.extend(text.bytes());
        }
        out
    }

    fn all_systems(&self) -> Vec<u8> {
        let mut out = self.number(self.systems.len() as u64, 4);
        for (system, formats) in &self.systems {
            out.extend(system.bytes().chain([0]));
            out.extend(self.texts(formats));
        }
        out
    }

    fn part(&self, text: &str, size: usize) -> Vec<u8> {
        [self.number(text.len() as u64, size), text.as_bytes().to_vec()].concat()
    }

    fn option(&self, id: u16, data: &[u8]) -> Vec<u8> {
        [self.number(id.into(), 2), self.number(data.len() as u64, 4), data.to_vec()].concat()
    }

    fn kallsyms() -> &'static str {
        "ffffffff81000000 T startup_64\nffffffff81001000 T do_it\nffffffff81002000 T its_caller\n"
    }

    pub fn version_6(&self) -> Vec<u8> {
        let mut out = self.head(b"6");
        out.extend(self.headers());
        out.extend(self.texts(&self.of_ftrace));
        out.extend(self.all_systems());
        out.extend(self.part(Self::kallsyms(), 4));
        out.extend(self.part(&self.printk, 4));
        out.extend(self.part(&self.cmdlines, 8));
        let (top, instances) = self.buffers.split_first().unwrap();
        out.extend(self.number(top.cpus.len() as u64, 4));
        out.extend(b"options  \0");
        for (id, data) in &self.options {
            out.extend(self.option(*id, data));
        }
        if self.text.is_none() {
            out.extend(self.option(4, b""));
        }
        let mut offsets = Vec::new();
        for instance in instances {
            offsets.push(out.len() + 6);
            out.extend(self.option(3, &[&[0; 8], instance.name.as_bytes(), b"\0"].concat()));
        }
        out.extend([0, 0]);
        if let Some(text) = &self.text {
            out.extend(b"latency  \0");
            out.extend(text.bytes());
            return out;
        }
        out.extend(b"flyrecord\0");
        let clock = format!("[{}] counter", top.clock);
        let behind = 8 + clock.len();
        self.table_and_pages(&mut out, top, Some((&clock, behind)));
        for (instance, offset) in instances.iter().zip(offsets) {
            let begin = out.len() as u64;
            out[offset..offset + 8].copy_from_slice(&self.number(begin, 8));
            out.extend(b"options  \0");
            out.extend(self.option(8, &self.number(instance.cpus.len() as u64, 4)));
            out.extend([0, 0]);
            out.extend(b"flyrecord\0");
            self.table_and_pages(&mut out, instance, None);
        }
        out
    }

    fn table_and_pages(&self, out: &mut Vec<u8>, buffer: &Buffer, clock: Option<(&str, usize)>) {
        // If an instance has more CPUs than the header states, the table has one more entry.
        let more = usize::from(clock.is_none() && buffer.cpus.len() > self.buffers[0].cpus.len());
        let end = out.len() + 16 * (buffer.cpus.len() + more) + clock.map_or(0, |(_, bytes)| bytes);
        let mut begin = end.next_multiple_of(PAGE);
        for (_, pages) in &buffer.cpus {
            out.extend(self.number(begin as u64, 8));
            out.extend(self.number(pages.len() as u64, 8));
            begin += pages.len();
        }
        out.resize(out.len() + 16 * more, 0);
        if let Some((clock, _)) = clock {
            out.extend(self.part(clock, 8));
        }
        out.resize(out.len().next_multiple_of(PAGE), 0);
        buffer.cpus.iter().for_each(|(_, pages)| out.extend(pages));
    }

    fn section(&self, out: &mut Vec<u8>, id: u16, compression: Compression, bytes: &[u8]) -> u64 {
        let begin = out.len() as u64;
        out.extend(self.number(id.into(), 2));
        let packed = compression.pack.is_some();
        out.extend(self.number(packed.into(), 2));
        out.extend(self.number(0, 4));
        let content = match compression.pack {
            None => bytes.to_vec(),
            Some(pack) => {
                let content = pack(bytes);
                [self.number(content.len() as u64, 4), self.number(bytes.len() as u64, 4), content].concat()
            }
        };
        out.extend(self.number(content.len() as u64, 8));
        out.extend(content);
        begin
    }

    /// Compresses the data of a buffer in chunks of two pages. Empty data stays empty.
    fn chunks(&self, compression: Compression, bytes: &[u8]) -> Vec<u8> {
        let Some(pack) = compression.pack.filter(|_| !bytes.is_empty()) else { return bytes.to_vec() };
        let chunks: Vec<&[u8]> = bytes.chunks(2 * PAGE).collect();
        let mut out = self.number(chunks.len() as u64, 4);
        for chunk in chunks {
            let packed = pack(chunk);
            out.extend(self.number(packed.len() as u64, 4));
            out.extend(self.number(chunk.len() as u64, 4));
            out.extend(packed);
        }
        out
    }

    pub fn version_7(&self, compression: Compression) -> Vec<u8> {
        let mut out = self.head(b"7");
        out.extend(compression.name.bytes().chain(*b"\x001.5\0"));
        let first_options = out.len();
        out.extend([0; 8]);
        let mut options = Vec::new();
        let parts = [
            (16, self.headers()),
            (17, self.texts(&self.of_ftrace)),
            (18, self.all_systems()),
            (19, self.part(Self::kallsyms(), 4)),
            (20, self.part(&self.printk, 4)),
            (21, self.part(&self.cmdlines, 8)),
        ];
        for (id, bytes) in parts {
            let at = self.section(&mut out, id, compression, &bytes);
            options.extend(self.option(id, &self.number(at, 8)));
        }
        // Two sections of options; the second one follows the pages.
        let strings: Vec<u8> = b"headers\0buffer\0".to_vec();
        self.section(&mut out, 15, Compression::NONE, &strings);
        for (id, data) in &self.options {
            options.extend(self.option(*id, data));
        }
        options.extend(self.option(4, format!("local [{}]\0", self.buffers[0].clock).as_bytes()));
        let begin = self.section(&mut out, 0, Compression::NONE, &[options, self.option(0, &[0; 8])].concat());
        out[first_options..first_options + 8].copy_from_slice(&self.number(begin, 8));
        let next = out.len() - 8;
        let mut options = Vec::new();
        if let Some(text) = &self.text {
            let at = out.len() as u64;
            let content = self.chunks(compression, text.as_bytes());
            out.extend([self.number(22, 2), self.number(compression.pack.is_some().into(), 2), self.number(0, 4)].concat());
            out.extend(self.number(content.len() as u64, 8));
            out.extend(content);
            options.extend(self.option(22, &[self.number(at, 8), b"\0local\0".to_vec()].concat()));
        }
        for buffer in self.buffers.iter().filter(|_| self.text.is_none()) {
            let at = out.len();
            out.extend([self.number(3, 2), self.number(compression.pack.is_some().into(), 2), self.number(0, 4)].concat());
            out.extend([0; 8]);
            out.resize(out.len().next_multiple_of(PAGE), 0);
            let mut table = Vec::new();
            for (cpu, pages) in &buffer.cpus {
                let (begin, content) = (out.len(), self.chunks(compression, pages));
                let size = if content.is_empty() { 0 } else { content.len() };
                table.extend([self.number((*cpu).into(), 4), self.number(begin as u64, 8), self.number(size as u64, 8)].concat());
                out.extend(content);
            }
            let size = self.number((out.len() - at - 16) as u64, 8);
            out[at + 8..at + 16].copy_from_slice(&size);
            let mut data = self.number(at as u64, 8);
            data.extend(buffer.name.bytes().chain([0]).chain(buffer.clock.bytes()).chain([0]));
            data.extend(self.number(PAGE as u64, 4));
            data.extend(self.number(buffer.cpus.len() as u64, 4));
            data.extend(table);
            options.extend(self.option(3, &data));
        }
        let begin = self.section(&mut out, 0, compression, &[options, self.option(0, &[0; 8])].concat());
        out[next..next + 8].copy_from_slice(&self.number(begin, 8));
        out
    }
}
