//! Writes small traces in the layout of docs/formats/user-trace.md, byte by byte and without
//! Longpole's own writers, so that an error that reader and writer share is still found.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

pub const UUID: [u8; 16] = [0x10, 0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18, 0x19, 0x1a, 0x1b, 0x1c, 0x1d, 0x1e, 0x1f];
/// Begin of the clock in seconds of Unix time: 2025-11-20T23:04:05Z.
pub const EPOCH_S: i64 = 1_763_679_845;
const HEADER: usize = 256;
const PAGE: usize = 4096;

/// Declared type of a field of an event class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    U64,
    I64,
    F64,
    Text,
    U32,
    /// `uint8_t name[captured]`, after a field `captured`.
    Bytes,
}

/// Value of a field; it must match the declaration.
#[derive(Clone, Copy, Debug)]
pub enum Field<'a> {
    U64(u64),
    I64(i64),
    F64(f64),
    Text(&'a str),
    U32(u32),
    Bytes(&'a [u8]),
}

struct Class {
    name: String,
    fields: Vec<(String, Kind)>,
    uri: Option<String>,
}

/// A recording directory that is being written. Its clock counts ns.
pub struct Fake {
    pub directory: PathBuf,
    classes: Vec<Class>,
    lanes: usize,
}

impl Fake {
    pub fn new(directory: &Path) -> Fake {
        fs::create_dir_all(directory.join("user")).unwrap();
        Fake { directory: directory.to_owned(), classes: Vec::new(), lanes: 0 }
    }

    /// Declares a class and returns its id. Ids count from 1.
    pub fn class(&mut self, name: &str, fields: &[(&str, Kind)]) -> u16 {
        self.class_at(name, fields, None)
    }

    pub fn class_at(&mut self, name: &str, fields: &[(&str, Kind)], uri: Option<&str>) -> u16 {
        let fields = fields.iter().map(|(name, kind)| (name.to_string(), *kind)).collect();
        self.classes.push(Class { name: name.to_owned(), fields, uri: uri.map(str::to_owned) });
        self.classes.len() as u16
    }

    pub fn lane(&mut self, label: &str, thread: &str, pid: i32, tid: i32) -> Lane {
        let file = format!("{}-{}", label.replace(['/', ' '], "_"), self.lanes);
        self.lanes += 1;
        let mut lane = Lane {
            path: self.directory.join("user").join(file),
            label: label.to_owned(),
            thread: thread.to_owned(),
            pid,
            tid,
            bytes: Vec::new(),
            events: Vec::new(),
            begin: None,
            end: 0,
            sequence: 0,
            discarded: 0,
        };
        lane.packet_at(0, 0);
        lane
    }

    pub fn metadata(&self) -> String {
        let mut text = String::from(
            "/* CTF 1.8 */\n\
             trace {\n\tmajor = 1;\n\tminor = 8;\n\tuuid = \"10111213-1415-1617-1819-1a1b1c1d1e1f\";\n\tbyte_order = le;\n\
             \tpacket.header := struct {\n\
             \t\tinteger { size = 32; align = 8; base = 16; } magic;\n\
             \t\tinteger { size = 8; align = 8; } uuid[16];\n\
             \t\tinteger { size = 32; align = 8; } stream_id;\n\t};\n};\n\
             env {\n\thostname = \"testhost\";\n\tdomain = \"longpole-user\";\n\ttracer_name = \"longpole\";\n\
             \ttracer_major = 0;\n\ttracer_minor = 1;\n\tprobe_cost_ps = 9800;\n\tclock_source = \"mono_raw\";\n};\n",
        );
        write!(
            text,
            "clock {{\n\tname = longpole;\n\tfreq = 1000000000;\n\toffset_s = {EPOCH_S};\n\toffset = 0;\n\tabsolute = true;\n}};\n"
        )
        .unwrap();
        text.push_str(
            "typealias integer { size = 64; align = 8; map = clock.longpole.value; } := full_t;\n\
             typealias integer { size = 48; align = 8; map = clock.longpole.value; } := short_t;\n\
             typealias integer { size = 64; align = 64; } := u64;\n\
             typealias integer { size = 64; align = 64; signed = true; } := i64;\n\
             typealias integer { size = 32; align = 32; } := u32;\n\
             typealias floating_point { exp_dig = 11; mant_dig = 53; align = 64; } := f64;\n\
             stream {\n\tid = 0;\n\
             \tevent.header := struct {\n\t\tinteger { size = 16; align = 8; } id;\n\t\tshort_t timestamp;\n\t} align(64);\n\
             \tpacket.context := struct {\n\t\tfull_t timestamp_begin;\n\t\tfull_t timestamp_end;\n\
             \t\tinteger { size = 64; align = 8; } content_size;\n\t\tinteger { size = 64; align = 8; } packet_size;\n\
             \t\tinteger { size = 64; align = 8; } packet_seq_num;\n\t\tinteger { size = 64; align = 8; } events_discarded;\n\
             \t\tinteger { size = 32; align = 8; signed = true; } pid;\n\t\tinteger { size = 32; align = 8; signed = true; } tid;\n\
             \t\tinteger { size = 64; align = 8; } position;\n\
             \t\tinteger { size = 8; align = 8; encoding = UTF8; } label[128];\n\
             \t\tinteger { size = 8; align = 8; encoding = UTF8; } thread[32];\n\
             \t\tinteger { size = 8; align = 8; } reserved[8];\n\t};\n};\n",
        );
        for (index, Class { name, fields, uri }) in self.classes.iter().enumerate() {
            write!(text, "event {{\n\tname = \"{name}\";\n\tid = {};\n\tstream_id = 0;\n", index + 1).unwrap();
            if let Some(uri) = uri {
                writeln!(text, "\tmodel.emf.uri = \"{uri}\";").unwrap();
            }
            text.push_str("\tfields := struct {\n");
            for (index, (name, kind)) in fields.iter().enumerate() {
                match kind {
                    Kind::U64 => writeln!(text, "\t\tu64 _{name};"),
                    Kind::I64 => writeln!(text, "\t\ti64 _{name};"),
                    Kind::F64 => writeln!(text, "\t\tf64 _{name};"),
                    Kind::U32 => writeln!(text, "\t\tu32 _{name};"),
                    Kind::Text => writeln!(text, "\t\tstring {{ encoding = UTF8; }} _{name};\n\t\tstruct {{ }} align(64) _align{index};"),
                    Kind::Bytes => writeln!(
                        text,
                        "\t\tinteger {{ size = 8; align = 8; }} _{name}[_captured];\n\t\tstruct {{ }} align(64) _align{index};"
                    ),
                }
                .unwrap();
            }
            text.push_str("\t};\n};\n");
        }
        text
    }

    /// Writes the metadata. Each lane is written by its own `finish`.
    pub fn finish(&self) {
        fs::write(self.directory.join("user/metadata"), self.metadata()).unwrap();
    }

    pub fn describe(&self, json: &str) {
        fs::write(self.directory.join("longpole.json"), json).unwrap();
    }
}

pub struct Lane {
    pub path: PathBuf,
    pub label: String,
    pub thread: String,
    pub pid: i32,
    pub tid: i32,
    pub bytes: Vec<u8>,
    events: Vec<u8>,
    begin: Option<u64>,
    end: u64,
    sequence: u64,
    /// Number of events lost until now; the next packet contains it.
    pub discarded: u64,
}

impl Lane {
    pub fn event(&mut self, t: u64, class: u16, fields: &[Field]) {
        self.begin.get_or_insert(t);
        self.end = t;
        self.events.extend_from_slice(&(t << 16 | u64::from(class)).to_le_bytes());
        for field in fields {
            match field {
                Field::U64(value) => self.events.extend_from_slice(&value.to_le_bytes()),
                Field::I64(value) => self.events.extend_from_slice(&value.to_le_bytes()),
                Field::F64(value) => self.events.extend_from_slice(&value.to_le_bytes()),
                Field::U32(value) => self.events.extend_from_slice(&value.to_le_bytes()),
                Field::Text(text) => {
                    self.events.extend_from_slice(text.as_bytes());
                    self.events.push(0);
                }
                Field::Bytes(bytes) => self.events.extend_from_slice(bytes),
            }
            if matches!(field, Field::Text(_) | Field::Bytes(_)) {
                self.events.resize(self.events.len().next_multiple_of(8), 0);
            }
        }
        self.events.resize(self.events.len().next_multiple_of(8), 0);
        if self.events.len() >= 60_000 {
            self.packet();
        }
    }

    /// Ends the current packet.
    pub fn packet(&mut self) {
        let begin = self.begin.unwrap_or(self.end);
        self.packet_at(begin, self.end);
    }

    pub fn packet_at(&mut self, begin: u64, end: u64) {
        let content = HEADER + self.events.len();
        let size = content.next_multiple_of(PAGE);
        let start = self.bytes.len();
        let out = &mut self.bytes;
        out.extend_from_slice(&0xc1fc_1fc1u32.to_le_bytes());
        out.extend_from_slice(&UUID);
        out.extend_from_slice(&0u32.to_le_bytes());
        for value in [begin, end, content as u64 * 8, size as u64 * 8, self.sequence, self.discarded] {
            out.extend_from_slice(&value.to_le_bytes());
        }
        out.extend_from_slice(&self.pid.to_le_bytes());
        out.extend_from_slice(&self.tid.to_le_bytes());
        out.extend_from_slice(&0u64.to_le_bytes());
        text(out, &self.label, 128);
        text(out, &self.thread, 32);
        out.resize(start + HEADER, 0);
        out.append(&mut self.events);
        out.resize(start + size, 0);
        self.sequence += 1;
        self.begin = None;
    }

    pub fn finish(mut self) -> PathBuf {
        if !self.events.is_empty() {
            self.packet();
        }
        fs::write(&self.path, &self.bytes).unwrap();
        self.path
    }
}

fn text(out: &mut Vec<u8>, text: &str, room: usize) {
    let end = out.len() + room;
    out.extend(text.bytes().take(room - 1));
    out.resize(end, 0);
}

/// Returns the number of events and of lost events that babeltrace2 finds in a directory, or `None`
/// if it is not installed.
pub fn babeltrace2(directory: &Path) -> Option<(u64, u64)> {
    let output = match Command::new("babeltrace2").arg(directory).output() {
        Ok(output) => output,
        Err(_) => {
            println!("skipped: comparison with babeltrace2 (it is not installed)");
            return None;
        }
    };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let events = output.stdout.iter().filter(|&&byte| byte == b'\n').count() as u64;
    let mut lost = 0;
    for line in String::from_utf8_lossy(&output.stderr).lines() {
        if let Some(rest) = line.split("Tracer discarded ").nth(1).or_else(|| line.split("Tracer may have discarded ").nth(1)) {
            lost += rest.split(' ').next().and_then(|count| count.parse::<u64>().ok()).unwrap_or(0);
        }
    }
    Some((events, lost))
}

/// Returns a folder of the corpora, if they are installed.
pub fn corpus(name: &str) -> Option<PathBuf> {
    match std::env::var_os("LONGPOLE_CORPORA") {
        Some(root) => Some(PathBuf::from(root).join(name)),
        None => {
            println!("not at hand: traces of other tools (LONGPOLE_CORPORA): {name}");
            None
        }
    }
}
