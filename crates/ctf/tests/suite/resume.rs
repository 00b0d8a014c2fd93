//! Decoding that continues after the stream, and possibly its metadata, has grown.

use std::io;
use std::sync::Arc;

use longpole_ctf::{BytesSource, DecodeErrorKind, Metadata, Source, Step, StreamDecoder, Value};

const SIZED: &str = "u8 packet_size;";
const UNSIZED: &str = "u8 unused;";

/// Metadata with this member in the packets' context and these events, whose ids are their indices.
fn metadata(context: &str, events: &[&str]) -> Arc<Metadata> {
    let mut text = format!(
        "trace {{ major = 1; minor = 8; byte_order = le; }};
         clock {{ name = c; freq = 1000000000; }};
         typealias integer {{ size = 8; }} := u8;
         stream {{ packet.context := struct {{ {context} }};
           event.header := struct {{ u8 id; integer {{ size = 8; map = clock.c.value; }} timestamp; }}; }};"
    );
    for (id, name) in events.iter().enumerate() {
        text.push_str(&format!("event {{ name = {name}; id = {id}; fields := struct {{ u8 n; }}; }};"));
    }
    Arc::new(Metadata::from_text(&text).unwrap())
}

/// The steps up to the end of the data or an error; an event as `NAME@TIME=VALUE`.
fn steps(decoder: &mut StreamDecoder<BytesSource<Vec<u8>>>) -> Vec<String> {
    let mut steps = Vec::new();
    // Without the limit, a decoder that never reaches the end would not fail the test.
    while steps.len() < 20 {
        steps.push(match decoder.advance() {
            Ok(None) => break,
            Ok(Some(Step::PacketBegin)) => format!("begin {}", decoder.packet().index),
            Ok(Some(Step::PacketEnd)) => "end".to_owned(),
            Ok(Some(Step::Event)) => {
                let event = decoder.event();
                format!("{}@{}={}", event.name(), event.cycles(), event.get("n").unwrap().as_u64().unwrap())
            }
            Ok(Some(step)) => panic!("{step:?}"),
            Err(error) => {
                steps.push(format!("event {}: {}", error.event.unwrap(), error.kind));
                break;
            }
        });
    }
    steps
}

fn grow(decoder: &mut StreamDecoder<BytesSource<Vec<u8>>>, bytes: &[u8], metadata: &Arc<Metadata>) {
    decoder.source_mut().0.extend_from_slice(bytes);
    decoder.resume(metadata);
}

#[test]
fn an_empty_stream_continues_with_its_first_packet() {
    for context in [SIZED, UNSIZED] {
        let metadata = metadata(context, &["a"]);
        for later in [metadata.clone(), self::metadata(context, &["a", "b"])] {
            let mut decoder = StreamDecoder::new(metadata.clone(), BytesSource(Vec::new()));
            assert!(steps(&mut decoder).is_empty());
            grow(&mut decoder, &[32, 0, 10, 1], &later);
            assert_eq!(steps(&mut decoder), ["begin 0", "a@10=1", "end"], "{context}");
        }
    }
}

#[test]
fn a_complete_packet_is_followed_by_the_next_one() {
    let metadata = metadata(SIZED, &["a"]);
    for later in [metadata.clone(), self::metadata(SIZED, &["a", "b"])] {
        let mut decoder = StreamDecoder::new(metadata.clone(), BytesSource(vec![32, 0, 10, 1]));
        assert_eq!(steps(&mut decoder), ["begin 0", "a@10=1", "end"]);
        // Nothing was appended.
        decoder.resume(&later);
        assert!(steps(&mut decoder).is_empty());
        grow(&mut decoder, &[32, 0, 20, 2], &later);
        assert_eq!(steps(&mut decoder), ["begin 1", "a@20=2", "end"]);
    }
}

#[test]
fn a_packet_without_a_size_continues_with_its_next_event() {
    let metadata = metadata(UNSIZED, &["a"]);
    for later in [metadata.clone(), self::metadata(UNSIZED, &["a", "b"])] {
        let mut decoder = StreamDecoder::new(metadata.clone(), BytesSource(vec![0, 0, 200, 1]));
        assert_eq!(steps(&mut decoder), ["begin 0", "a@200=1", "end"]);
        // The time has only the lowest bits of the clock, which has wrapped.
        grow(&mut decoder, &[0, 10, 2], &later);
        assert_eq!(steps(&mut decoder), ["a@266=2", "end"]);
    }
}

#[test]
fn an_incomplete_event_is_decoded_again_when_the_rest_of_it_is_there() {
    for context in [SIZED, UNSIZED] {
        let metadata = metadata(context, &["a"]);
        for later in [metadata.clone(), self::metadata(context, &["a", "b"])] {
            let bytes = [80, 0, 200, 1, 0, 10, 2, 0, 20, 3];
            // Within the header, and behind it.
            for (cut, has_header) in [(5, false), (6, true)] {
                let mut decoder = StreamDecoder::new(metadata.clone(), BytesSource(bytes[..cut].to_vec()));
                let error = "event 1: the data ends here, 8 bits more are needed";
                assert_eq!(steps(&mut decoder), ["begin 0", "a@200=1", error], "{context}");
                assert_eq!(decoder.partial().is_some(), has_header);
                grow(&mut decoder, &bytes[cut..], &later);
                assert!(decoder.partial().is_none());
                assert_eq!(steps(&mut decoder), ["a@266=2", "a@276=3", "end"], "{context}");
            }
        }
    }
}

#[test]
fn an_event_that_only_later_metadata_describes_is_decoded_then() {
    for context in [SIZED, UNSIZED] {
        let bytes = vec![80, 0, 200, 1, 1, 10, 2, 0, 20, 3];
        let mut decoder = StreamDecoder::new(metadata(context, &["a"]), BytesSource(bytes));
        let found = steps(&mut decoder);
        assert_eq!(found[..2], ["begin 0", "a@200=1"]);
        assert!(found[2].starts_with("event 1: "), "{found:?}");
        grow(&mut decoder, &[], &metadata(context, &["a", "b"]));
        assert_eq!(steps(&mut decoder), ["b@266=2", "a@276=3", "end"], "{context}");
    }
}

#[test]
fn later_metadata_may_have_more_streams_and_larger_events() {
    let first = "trace { major = 1; minor = 8; byte_order = le; packet.header := struct { integer { size = 8; } stream_id; }; };
        typealias integer { size = 8; } := u8;
        stream { id = 0; packet.context := struct { u8 packet_size; u8 packet_seq_num; }; };
        event { name = a; stream_id = 0; fields := struct { u8 n; }; };";
    let second = "stream { id = 1; packet.context := struct { u8 packet_size; u8 packet_seq_num; }; };
        event { name = b; stream_id = 1; fields := struct { string s; string t; u8 l; u8 list[l]; u8 n; }; };";
    let bytes = [0, 32, 0, 1];
    let mut decoder = StreamDecoder::new(Arc::new(Metadata::from_text(first).unwrap()), BytesSource(bytes.to_vec()));
    assert_eq!(steps(&mut decoder), ["begin 0", "a@0=1", "end"]);
    let packet = |sequence| [1, 88, sequence, b'x', 0, b'y', 0, 2, 3, 4, 9];
    let later = Arc::new(Metadata::from_text(&format!("{first} {second}")).unwrap());
    grow(&mut decoder, &[packet(5), packet(8)].concat(), &later);
    assert_eq!(decoder.advance().unwrap(), Some(Step::PacketBegin));
    assert_eq!(decoder.advance().unwrap(), Some(Step::Event));
    let Some(Value::Bytes(list)) = decoder.event().get("list") else { panic!("{:?}", decoder.event().get("list")) };
    assert_eq!((list, decoder.event().get("n").unwrap().as_u64()), (&[3, 4][..], Some(9)));
    assert_eq!(decoder.advance().unwrap(), Some(Step::PacketEnd));
    // The packets of the new stream are compared with each other.
    let Some(Step::DiscardedPackets(loss)) = decoder.advance().unwrap() else { panic!("no loss") };
    assert_eq!(loss.count, Some(2));
    assert_eq!(steps(&mut decoder), ["begin 2", "b@0=9", "end"]);
}

/// Bytes of which only the first are visible; no others can be read.
struct Failing {
    bytes: Vec<u8>,
    visible: usize,
}

impl Source for Failing {
    fn len(&self) -> u64 {
        self.bytes.len() as u64
    }

    fn bytes(&self) -> &[u8] {
        &self.bytes[..self.visible]
    }

    fn start(&self) -> u64 {
        0
    }

    fn load(&mut self, _: u64, _: usize) -> io::Result<()> {
        Err(io::Error::other("failed"))
    }
}

#[test]
fn part_of_an_event_is_not_kept_if_reading_fails_afterwards() {
    let metadata = metadata(SIZED, &["a"]);
    let mut decoder = StreamDecoder::new(metadata.clone(), Failing { bytes: vec![32, 0, 10], visible: 3 });
    assert_eq!(decoder.advance().unwrap(), Some(Step::PacketBegin));
    assert!(matches!(decoder.advance().unwrap_err().kind, DecodeErrorKind::Truncated { .. }));
    assert!(decoder.partial().is_some());
    decoder.source_mut().bytes.push(1);
    decoder.resume(&metadata);
    assert!(matches!(decoder.advance().unwrap_err().kind, DecodeErrorKind::Io(_)));
    assert!(decoder.partial().is_none());
}
