//! Random types with random values: written and read again they must be the same, in both versions
//! of the format, through a whole buffer, a file, and the smallest possible window; and a second,
//! independent decoder must agree.
//!
//! `PROPTEST_CASES` sets the number of cases.

use crate::common;
use std::io;
use std::sync::Arc;

use crate::common::generate::{case, Case};
use crate::common::oracle;
use crate::common::values::{copied, lifted_events, plain, plain_events};
use longpole_ctf::types::*;
use longpole_ctf::write::{self, Layout, StreamWriter};
use longpole_ctf::{BytesSource, FileSource, Item, Metadata, Packet, Source, StreamDecoder};
use proptest::prelude::*;

/// A source whose window is never larger than requested.
struct Narrow {
    bytes: Vec<u8>,
    start: usize,
    len: usize,
}

impl Source for Narrow {
    fn len(&self) -> u64 {
        self.bytes.len() as u64
    }

    fn bytes(&self) -> &[u8] {
        &self.bytes[self.start..self.start + self.len]
    }

    fn start(&self) -> u64 {
        self.start as u64
    }

    fn load(&mut self, start: u64, want: usize) -> io::Result<()> {
        self.start = (start as usize).min(self.bytes.len());
        self.len = want.min(self.bytes.len() - self.start);
        Ok(())
    }
}

/// The content of a stream, with the start of each packet, and the error that ended it, if any.
#[derive(Debug, PartialEq)]
struct Read {
    events: oracle::Events,
    packets: Vec<(u64, u64, Option<u64>, Option<u64>)>,
    error: Option<String>,
}

fn read<S: Source>(metadata: &Arc<Metadata>, source: S) -> Read {
    let mut stream = StreamDecoder::new(metadata.clone(), source);
    let mut read = Read { events: Vec::new(), packets: Vec::new(), error: None };
    loop {
        match stream.next() {
            Ok(None) => return read,
            Ok(Some(Item::Event(event))) => {
                let values = event.values().map(|v| plain(v.to_owned())).collect();
                read.events.push((event.class_index(), event.cycles(), values));
            }
            Ok(Some(Item::PacketEnd(packet))) => {
                read.packets.push((packet.content_bits, packet.packet_bits, packet.begin, packet.end));
            }
            Ok(Some(_)) => {}
            Err(e) => {
                read.error = Some(e.to_string());
                return read;
            }
        }
    }
}

/// One number that represents every value of every event.
fn checksum(events: &oracle::Events) -> u64 {
    use std::hash::{DefaultHasher, Hash, Hasher};
    let mut hasher = DefaultHasher::new();
    format!("{events:?}").hash(&mut hasher);
    hasher.finish()
}

type Outcome<T> = Result<T, TestCaseError>;

fn fail<E: std::fmt::Display>(what: &str) -> impl FnOnce(E) -> TestCaseError + '_ {
    move |e| TestCaseError::fail(format!("{what}: {e}"))
}

fn layout(metadata: &Arc<Metadata>) -> Outcome<Arc<Layout>> {
    Ok(Arc::new(Layout::new(metadata.clone()).map_err(fail("layout"))?))
}

fn written(case: &Case, layout: Arc<Layout>) -> Outcome<Vec<u8>> {
    let mut writer = StreamWriter::new(layout, 0);
    let begin = case.events.first().map_or(0, |(_, time, _)| *time);
    let packet = Packet { begin: Some(begin), sequence: Some(0), context: case.context.clone(), ..Packet::default() };
    writer.begin(&packet).map_err(fail("packet"))?;
    for (index, (class, time, values)) in case.events.iter().enumerate() {
        if index % 5 == 4 {
            let packet = Packet { begin: Some(*time), sequence: Some(index as u64), ..packet.clone() };
            writer.begin(&packet).map_err(fail("packet"))?;
        }
        writer.event(*class, *time, values).map_err(fail("event"))?;
    }
    writer.end().map_err(fail("end"))?;
    Ok(writer.take())
}

/// The events that the generator intended. Without a field for it, an event has no time.
fn expected(case: &Case, events: &oracle::Events) -> oracle::Events {
    let timed = case.schema.streams[0].event_header.is_some();
    let mut expected = plain_events(&case.events);
    if !timed {
        for (event, read) in expected.iter_mut().zip(events) {
            event.1 = read.1;
        }
    }
    expected
}

fn comes_back(version: Version, tape: &[u8]) -> Outcome<()> {
    let case = case(version, tape);
    let text = write::metadata(&case.schema);
    let metadata = Arc::new(Metadata::parse(text.as_bytes()).map_err(fail(&text))?);
    prop_assert_eq!(metadata.schema(), &case.schema, "{}", text);
    let bytes = written(&case, layout(&metadata)?)?;
    let found = read(&metadata, BytesSource(&bytes));
    prop_assert_eq!(&found.error, &None, "{}\n{:02x?}", text, bytes);
    prop_assert_eq!(&found.events, &expected(&case, &found.events), "{}\n{:02x?}", text, bytes);
    let total: u64 = found.packets.iter().map(|(_, bits, ..)| bits).sum();
    prop_assert_eq!(total, bytes.len() as u64 * 8);

    // Through a file, and through the smallest window.
    let path = std::env::temp_dir().join(format!("longpole-ctf-properties-{}-{version:?}", std::process::id()));
    std::fs::write(&path, &bytes).map_err(fail("file"))?;
    let file = std::fs::File::open(&path).and_then(FileSource::new).map_err(fail("file"))?;
    prop_assert_eq!(&read(&metadata, file), &found);
    let narrow = || Narrow { bytes: bytes.clone(), start: 0, len: 0 };
    prop_assert_eq!(&read(&metadata, narrow()), &found);
    // Reading by columns must yield the same.
    let rows = common::dump_rows(&metadata, BytesSource(&bytes));
    prop_assert_eq!(&common::dump_columns(&metadata, BytesSource(&bytes)), &rows);
    prop_assert_eq!(&common::dump_columns(&metadata, narrow()), &rows);
    prop_assert_eq!(common::dump_headers(&metadata, narrow()), common::headers_of(&rows));

    let (seen, good) = oracle::events(&case.schema, &bytes);
    prop_assert!(good, "{}\n{:02x?}", text, bytes);
    let seen = plain_events(&seen);
    prop_assert_eq!(&seen, &found.events, "{}\n{:02x?}", text, bytes);
    prop_assert_eq!(checksum(&seen), checksum(&found.events));

    // Writing the values that a reader returns must yield the same bytes.
    let again = copied(&metadata, &bytes, layout(&metadata)?, 0).map_err(fail("copy"))?;
    prop_assert_eq!(&again, &bytes, "{}", text);
    Ok(())
}

fn damaged(version: Version, tape: &[u8], flips: &[(u16, u8)]) -> Outcome<()> {
    let case = case(version, tape);
    let metadata = Arc::new(Metadata::from_schema(case.schema.clone()).map_err(fail("schema"))?);
    let mut bytes = written(&case, layout(&metadata)?)?;
    if bytes.is_empty() {
        return Ok(());
    }
    // Flips bits after the header of the first packet; a damaged magic number or UUID would end the
    // stream there.
    for (at, bit) in flips {
        let at = 40.min(bytes.len() - 1) + usize::from(*at) % (bytes.len() - 40.min(bytes.len() - 1));
        bytes[at] ^= 1 << (bit % 8);
    }
    let found = read(&metadata, BytesSource(&bytes));
    let (seen, _) = oracle::events(&case.schema, &bytes);
    let seen = plain_events(&seen);
    // Both decoders must agree up to the event at which one of them stops.
    let both = seen.len().min(found.events.len());
    prop_assert_eq!(&seen[..both], &found.events[..both]);
    let narrow = || Narrow { bytes: bytes.clone(), start: 0, len: 0 };
    prop_assert_eq!(read(&metadata, narrow()), found);
    let rows = common::dump_rows(&metadata, BytesSource(&bytes));
    prop_assert_eq!(&common::dump_columns(&metadata, BytesSource(&bytes)), &rows);
    prop_assert_eq!(&common::dump_columns(&metadata, narrow()), &rows);
    prop_assert_eq!(common::dump_headers(&metadata, narrow()), common::headers_of(&rows));
    Ok(())
}

fn tape() -> impl Strategy<Value = Vec<u8>> {
    proptest::collection::vec(any::<u8>(), 0..900)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, max_shrink_iters: 20000, ..ProptestConfig::default() })]

    #[test]
    fn streams_of_ctf_1_are_read_as_they_were_written(tape in tape()) {
        comes_back(Version::V1_8, &tape)?;
    }

    #[test]
    fn streams_of_ctf_2_are_read_as_they_were_written(tape in tape()) {
        comes_back(Version::V2, &tape)?;
    }

    #[test]
    fn both_decoders_agree_on_damaged_streams(tape in tape(), two: bool, flips in proptest::collection::vec(any::<(u16, u8)>(), 1..4)) {
        damaged(if two { Version::V2 } else { Version::V1_8 }, &tape, &flips)?;
    }

    #[test]
    fn a_schema_of_ctf_1_means_the_same_in_ctf_2(tape in tape()) {
        let case = case(Version::V1_8, &tape);
        let metadata = Arc::new(Metadata::from_schema(case.schema.clone()).map_err(fail("schema"))?);
        let bytes = written(&case, layout(&metadata)?)?;
        let raised = write::to_ctf2(&case.schema).map_err(fail("raised"))?;
        let text = write::metadata(&raised);
        let other = Arc::new(Metadata::parse(text.as_bytes()).map_err(fail(&text))?);
        prop_assert_eq!(other.schema(), &raised, "{}", text);
        let found = read(&metadata, BytesSource(&bytes));
        let copy = copied(&metadata, &bytes, layout(&other)?, 0).map_err(fail("copy"))?;
        let again = read(&other, BytesSource(&copy));
        prop_assert_eq!(&again.events, &found.events, "{}", text);
        prop_assert_eq!(&again.error, &None);
    }
    #[test]
    fn a_stream_of_ctf_2_keeps_its_values_in_ctf_1(tape in tape()) {
        let case = case(Version::V2, &tape);
        let metadata = Arc::new(Metadata::from_schema(case.schema.clone()).map_err(fail("schema"))?);
        let bytes = written(&case, layout(&metadata)?)?;
        let layout = Arc::new(Layout::to_ctf1(&case.schema).map_err(fail("lowered"))?);
        let text = write::metadata(layout.metadata().schema());
        let lowered = Arc::new(Metadata::parse(text.as_bytes()).map_err(fail(&text))?);
        prop_assert_eq!(lowered.schema(), layout.metadata().schema(), "{}", text);
        let found = read(&metadata, BytesSource(&bytes));
        let copy = copied(&metadata, &bytes, layout.clone(), 0).map_err(fail("copy"))?;
        let again = read(&lowered, BytesSource(&copy));
        prop_assert_eq!(&again.error, &None, "{}\n{:02x?}", text, copy);
        let events = lifted_events(&metadata, 0, &found.events);
        prop_assert_eq!(&lifted_events(&lowered, 0, &again.events), &events, "{}", text);
        // Writing from a tree of values must yield the same.
        let direct = read(&lowered, BytesSource(written(&case, layout)?));
        prop_assert_eq!(direct.error, None);
        let values = |events: &oracle::Events| events.iter().map(|(class, _, values)| (*class, values.clone())).collect::<Vec<_>>();
        prop_assert_eq!(values(&lifted_events(&lowered, 0, &direct.events)), values(&events));
    }
}
