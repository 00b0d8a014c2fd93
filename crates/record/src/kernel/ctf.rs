//! Writes `kernel/`: a stream per CPU and metadata, in the layout of LTTng's kernel tracer
//! (`docs/formats/kernel-trace.md`).
//!
//! A loss is written as a packet without events, from the last event before the loss to the first
//! moment after it. Readers take an increase of `events_discarded` for a loss between the end of
//! the previous packet and the end of the current one. Every stream begins with an empty packet
//! whose counter is 0, because the first value that a reader sees is no increase.

use super::layout::{Kind, VERSION};
use crate::output::metadata::{encoded, literal};
use crate::output::packet::CTF_MAGIC;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Write};

/// Size of the packet's header and context in bytes.
pub const HEADER: usize = 84;
/// Size in bytes from which a packet is written.
const FULL: usize = 1 << 20;
/// First event id that needs the extended event header.
const EXTENDED: u16 = u16::MAX;

/// Text in the `env` block by which our kernel traces are recognized.
pub const OWN: &str = "\n\tlongpole_version = ";
/// Field of the `env` block with the number of damaged pages.
pub const DAMAGED: &str = "damaged_pages";

/// The stream of one CPU.
#[derive(Debug)]
pub struct Stream {
    file: File,
    uuid: [u8; 16],
    cpu: u32,
    /// The packet that is being filled. Its first [`HEADER`] bytes are reserved for the header.
    packet: Vec<u8>,
    begin: u64,
    /// Time of the last event, or of the end of the last packet.
    last: u64,
    sequence: u64,
    discarded: u64,
    /// Bytes written.
    pub written: u64,
}

impl Stream {
    /// Begins a stream in an empty file, with a packet that says that nothing was lost until
    /// `start`.
    pub fn begin(file: File, uuid: [u8; 16], cpu: u32, start: u64) -> io::Result<Stream> {
        let mut packet = Vec::with_capacity(FULL + (64 << 10));
        packet.resize(HEADER, 0);
        let mut stream = Stream { file, uuid, cpu, packet, begin: start, last: start, sequence: 0, discarded: 0, written: 0 };
        stream.write()?;
        Ok(stream)
    }

    /// Time of the last event, in ticks.
    pub fn last(&self) -> u64 {
        self.last
    }

    /// Number of events that were lost until now.
    pub fn discarded(&self) -> u64 {
        self.discarded
    }

    /// Begins an event and returns the buffer to which its payload must be appended. `time` must
    /// not be earlier than the last event's.
    #[inline]
    pub fn event(&mut self, time: u64, id: u16) -> io::Result<&mut Vec<u8>> {
        if self.packet.len() >= FULL {
            self.write()?;
        }
        if self.packet.len() == HEADER {
            (self.begin, self.last) = (time, time);
        }
        // A reader completes the 32 bits with the time of the previous event. After a longer pause,
        // the extended header is needed.
        if time.wrapping_sub(self.last) >> 32 == 0 && id != EXTENDED {
            let mut header = [0; 6];
            header[..2].copy_from_slice(&id.to_ne_bytes());
            header[2..].copy_from_slice(&(time as u32).to_ne_bytes());
            self.packet.extend_from_slice(&header);
        } else {
            self.packet.extend_from_slice(&EXTENDED.to_ne_bytes());
            self.packet.extend_from_slice(&u32::from(id).to_ne_bytes());
            self.packet.extend_from_slice(&time.to_ne_bytes());
        }
        self.last = time;
        Ok(&mut self.packet)
    }

    /// Writes that `count` events were lost between the last event and `time`.
    pub fn loss(&mut self, time: u64, count: u64) -> io::Result<()> {
        if count == 0 {
            return Ok(());
        }
        self.flush()?;
        self.begin = self.last;
        self.last = self.last.max(time);
        self.discarded = self.discarded.saturating_add(count);
        self.write()
    }

    /// Writes that an unknown number of events is missing before this point. The sequence number
    /// skips one, so readers report a lost packet.
    pub fn gap(&mut self) -> io::Result<()> {
        self.flush()?;
        self.begin = self.last;
        self.sequence += 1;
        self.write()
    }

    /// Writes the rest and makes it durable. Returns the bytes of the stream.
    pub fn finish(mut self) -> io::Result<u64> {
        self.flush()?;
        self.file.sync_all()?;
        Ok(self.written)
    }

    /// Writes the packet that is being filled, if it has events.
    pub fn flush(&mut self) -> io::Result<()> {
        if self.packet.len() > HEADER {
            self.write()?;
        }
        Ok(())
    }

    fn write(&mut self) -> io::Result<()> {
        let bits = self.packet.len() as u64 * 8;
        let header = &mut self.packet[..HEADER];
        header[0..4].copy_from_slice(&CTF_MAGIC.to_ne_bytes());
        header[4..20].copy_from_slice(&self.uuid);
        header[20..24].copy_from_slice(&0u32.to_ne_bytes());
        header[24..32].copy_from_slice(&u64::from(self.cpu).to_ne_bytes());
        let words = [self.begin, self.last, bits, bits, self.sequence, self.discarded];
        for (at, word) in words.iter().enumerate() {
            header[32 + 8 * at..40 + 8 * at].copy_from_slice(&word.to_ne_bytes());
        }
        header[80..84].copy_from_slice(&self.cpu.to_ne_bytes());
        self.file.write_all(&self.packet)?;
        self.written += self.packet.len() as u64;
        self.packet.truncate(HEADER);
        self.sequence += 1;
        Ok(())
    }
}

/// Content of the metadata before the event classes.
#[derive(Debug)]
pub struct Preamble<'a> {
    pub uuid: String,
    pub host: &'a str,
    pub kernel: &'a str,
    /// Clock of the timestamps: `tsc` or `mono_raw`.
    pub clock_source: &'a str,
    /// The `clock` block, with the name `longpole`.
    pub clock: &'a str,
    /// Number of pages that are not, or not completely, in the trace.
    pub damaged_pages: u64,
    /// Fields of the context of every event, in order.
    pub context: &'a [(String, Kind)],
}

/// Returns the metadata up to the event classes. Its format string is in `ctf/preamble.txt`.
pub fn preamble(of: &Preamble<'_>) -> String {
    let order = if cfg!(target_endian = "big") { "be" } else { "le" };
    let mut context = String::new();
    if !of.context.is_empty() {
        context.push_str("\tevent.context := struct {\n");
        for (name, kind) in of.context {
            kind.declare(name, &mut context);
        }
        context.push_str("\t};\n");
    }
    format!(
        include_str!("ctf/preamble.txt"),
        order = order,
        context = context,
        uuid = of.uuid,
        host = literal(of.host),
        kernel = literal(of.kernel),
        major = VERSION.0,
        minor = VERSION.1,
        patch = VERSION.2,
        version = env!("CARGO_PKG_VERSION"),
        source = literal(of.clock_source),
        clock = of.clock.trim(),
        damage = if of.damaged_pages > 0 { format!("\t{DAMAGED} = {};\n", of.damaged_pages) } else { String::new() },
    )
}

/// Appends an event class. `filter` is the filter with which its events were recorded, if there was
/// one.
pub fn class(text: &mut String, id: u16, name: &str, fields: &[(String, Kind)], filter: Option<&str>) {
    let uri = filter.map(|filter| format!("\tmodel.emf.uri = \"longpole:site?filter={}\";\n", encoded(filter, "")));
    // Writing into a String cannot fail.
    let _ = write!(
        text,
        "\nevent {{\n\tname = \"{}\";\n\tid = {id};\n\tstream_id = 0;\n{}\tfields := struct {{\n",
        literal(name),
        uri.unwrap_or_default()
    );
    for (name, kind) in fields {
        kind.declare(&word(name), text);
    }
    text.push_str("\t};\n};\n");
}

/// Makes a valid name of a field. The kernel's formats have only valid names, but a modified file
/// may not.
fn word(name: &str) -> String {
    name.chars().map(|c| if c.is_ascii_alphanumeric() || c == '_' { c } else { '_' }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use longpole_ctf::{BytesSource, Item, Metadata, StreamDecoder};
    use std::sync::Arc;

    #[test]
    fn pauses_of_any_length_losses_and_full_packets_are_read_as_written() {
        let clock = "clock {\n\tname = \"longpole\";\n\tfreq = 1000000000;\n};";
        let uuid = "00000000-0000-0000-0000-000000000007".to_owned();
        let mut text =
            preamble(&Preamble { uuid, host: "a \"b\"", kernel: "k", clock_source: "tsc", clock, damaged_pages: 0, context: &[] });
        class(&mut text, 0, "tick", &[("n".to_owned(), Kind::Int(super::super::layout::Int::unsigned(32)))], None);
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("cpu3");
        let mut uuid = [0; 16];
        uuid[15] = 7;
        let mut stream = Stream::begin(File::create(&path).unwrap(), uuid, 3, 50).unwrap();
        // Pauses just below, at and above the range of 32 bits, and much longer.
        let mut expected = Vec::new();
        let mut time = 60;
        for pause in [0, 1, (1 << 32) - 1, 1 << 32, (1 << 32) + 1, 1 << 40, 5] {
            time += pause;
            expected.push(time);
            stream.event(time, 0).unwrap().extend_from_slice(&1u32.to_ne_bytes());
        }
        stream.loss(time + 10, 4).unwrap();
        stream.loss(time + 10, 0).unwrap();
        time += 20;
        for _ in 0..200_000 {
            time += 1 << 28;
            expected.push(time);
            stream.event(time, 0).unwrap().extend_from_slice(&1u32.to_ne_bytes());
        }
        assert_eq!(stream.discarded(), 4);
        let written = stream.finish().unwrap();
        let bytes = std::fs::read(&path).unwrap();
        assert_eq!(bytes.len() as u64, written);
        let mut decoder = StreamDecoder::new(Arc::new(Metadata::from_text(&text).unwrap()), BytesSource(bytes));
        let (mut times, mut losses) = (Vec::new(), Vec::new());
        while let Some(item) = decoder.next().unwrap() {
            match item {
                Item::Event(event) => times.push(event.ns() as u64),
                Item::DiscardedEvents(loss) => losses.push((loss.begin_ns.unwrap() as u64, loss.end_ns.unwrap() as u64, loss.count)),
                _ => {}
            }
        }
        assert!(times == expected);
        assert_eq!(losses, [(expected[6], expected[6] + 10, Some(4))]);
    }
}
