//! Reading without merging yields the events, losses and diagnostics of a merged reading, whatever
//! the streams contain.

use longpole_trace::{ClassId, Item, Loss, Options, Packets, StreamId, Trace, Unmerged};
use proptest::prelude::*;
use std::fs;
use std::path::Path;

const METADATA: &str = "/* CTF 1.8 */
typealias integer { size = 8; } := u8; typealias integer { size = 32; } := u32; typealias integer { size = 64; } := u64;
trace { major = 1; minor = 8; byte_order = le; packet.header := struct { u32 magic; }; };
env { tracer_name = \"TRACER\"; };
clock { name = c; freq = 2500000000; };
typealias integer { size = 64; map = clock.c.value; } := stamp;
stream {
    packet.context := struct {
        u64 packet_size; u64 content_size; stamp timestamp_begin; stamp timestamp_end; u64 events_discarded;
    };
    event.header := struct { u8 id; stamp timestamp; };
};
event { name = fixed; id = 1; fields := struct { u32 n; }; };
event { name = small; id = 2; fields := struct { u8 n; }; };
event { name = text; id = 3; fields := struct { string text; }; };";

/// One packet: the class, the step in time and the delay of each event, and the number of events
/// that were discarded.
type Packet = (Vec<(u8, u64, u64)>, u64);

fn stream(packets: &[Packet]) -> Vec<u8> {
    let (mut bytes, mut now, mut discarded) = (Vec::new(), 1_000_000, 0);
    for (events, lost) in packets {
        discarded += lost;
        let (begin, mut content) = (now, Vec::new());
        for (class, step, back) in events {
            now += step;
            content.push(*class);
            content.extend((now - back.min(&(now - begin))).to_le_bytes());
            content.extend_from_slice(match class {
                1 => b"four",
                2 => b"1",
                _ => b"text\0",
            });
        }
        let bits = (44 + content.len() as u64) * 8;
        bytes.extend(0xc1fc_1fc1u32.to_le_bytes());
        for word in [bits, bits, begin, now, discarded] {
            bytes.extend(word.to_le_bytes());
        }
        bytes.extend(content);
    }
    bytes
}

/// What a reading yields of one stream.
#[derive(Clone, Debug, Default, PartialEq)]
struct OfStream {
    events: Vec<(i64, ClassId)>,
    /// Losses, each with the number of events before it.
    losses: Vec<(usize, Loss)>,
    packets: Packets,
}

#[derive(Debug, Default, PartialEq)]
struct Seen {
    streams: Vec<OfStream>,
    first: Option<(StreamId, i64)>,
    diagnostics: Vec<String>,
}

impl Seen {
    fn stream(&mut self, id: StreamId) -> &mut OfStream {
        let index = id.0 as usize;
        self.streams.resize(self.streams.len().max(index + 1), OfStream::default());
        &mut self.streams[index]
    }

    fn event(&mut self, stream: StreamId, t_ns: i64, class: ClassId) {
        self.first.get_or_insert((stream, t_ns));
        self.stream(stream).events.push((t_ns, class));
    }

    fn loss(&mut self, loss: Loss) {
        let of_stream = self.stream(loss.stream);
        of_stream.losses.push((of_stream.events.len(), loss));
    }

    fn end(mut self, trace: &Trace) -> Seen {
        for index in 0..trace.catalogue().streams.len() as u32 {
            self.stream(StreamId(index)).packets = trace.packets(StreamId(index));
        }
        self.diagnostics = trace.diagnostics().iter().map(ToString::to_string).collect();
        self
    }
}

fn open(folder: &Path) -> Trace {
    Trace::open(&[folder], Options::default().as_stored()).unwrap()
}

fn merged(folder: &Path) -> Seen {
    let (mut trace, mut seen) = (open(folder), Seen::default());
    while let Some(item) = trace.next_item().unwrap() {
        match item {
            Item::Event(event) => seen.event(event.stream, event.t_ns, event.class),
            Item::Loss(loss) => seen.loss(loss),
        }
    }
    seen.end(&trace)
}

fn unmerged(folder: &Path) -> Seen {
    let (mut trace, mut seen) = (open(folder), Seen::default());
    let read = trace.read_unmerged(|part| match part {
        Unmerged::Loss(loss) => seen.loss(*loss),
        Unmerged::Events(run) => {
            let mut classes = Vec::new();
            run.each_class(|class, events| classes.extend(std::iter::repeat_n(class, events as usize)));
            assert_eq!(classes.len(), run.len());
            let times: Vec<i64> = (0..run.len()).map(|index| run.t_ns(index)).collect();
            assert!(!run.is_ordered() || times.is_sorted());
            times.into_iter().zip(classes).for_each(|(t_ns, class)| seen.event(run.stream(), t_ns, class));
        }
    });
    read.unwrap();
    assert!(trace.next_item().unwrap().is_none());
    seen.end(&trace)
}

fn write(folder: &Path, tracer: &str, streams: &[Vec<u8>]) {
    fs::write(folder.join("metadata"), METADATA.replace("TRACER", tracer)).unwrap();
    for (index, bytes) in streams.iter().enumerate() {
        fs::write(folder.join(format!("stream_{index}")), bytes).unwrap();
    }
}

fn packets() -> impl Strategy<Value = Vec<Packet>> {
    let class = prop_oneof![8 => Just(1u8), 8 => Just(2), 1 => Just(3)];
    let back = prop_oneof![400 => Just(0u64), 1 => 0..40_000u64];
    let lost = prop_oneof![9 => Just(0u64), 1 => 1..9u64];
    prop::collection::vec((prop::collection::vec((class, 0..90u64, back), 0..2500), lost), 1..5)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]
    #[test]
    fn unmerged_reading_yields_what_a_merged_one_yields(
        tracer in prop_oneof![Just("longpole"), Just("lttng-ust"), Just("other")],
        streams in prop::collection::vec(packets(), 1..4),
        damage in prop::collection::vec((0usize..4, any::<prop::sample::Index>(), any::<u8>()), 0..4),
    ) {
        let mut streams: Vec<_> = streams.iter().map(|packets| stream(packets)).collect();
        for (stream, at, byte) in damage {
            if let Some(bytes) = streams.get_mut(stream) {
                let at = at.index(bytes.len());
                bytes[at] = byte;
            }
        }
        let folder = tempfile::TempDir::new().unwrap();
        write(folder.path(), tracer, &streams);
        prop_assert_eq!(unmerged(folder.path()), merged(folder.path()));
    }
}

#[test]
fn diagnostics_come_in_the_order_of_time_although_streams_are_read_one_after_the_other() {
    let whole = |first: usize| vec![(vec![(1, 10, 0); first], 0), (vec![(2, 10, 0); 3000], 0), (vec![(1, 10, 0); 10], 0)];
    let (mut late, mut early) = (stream(&whole(2000)), stream(&whole(1000)));
    // An event of an unknown class, in the second packet of each stream.
    late[44 + 2000 * 13 + 44] = 9;
    early[44 + 1000 * 13 + 44] = 9;
    let folder = tempfile::TempDir::new().unwrap();
    write(folder.path(), "longpole", &[late, early]);
    let seen = unmerged(folder.path());
    assert_eq!(seen, merged(folder.path()));
    assert!(seen.diagnostics[0].contains("stream_1") && seen.diagnostics[1].contains("stream_0"), "{:?}", seen.diagnostics);
    assert_eq!(seen.streams[0].events.len(), 2010);
}

#[test]
fn part_of_a_trace_is_read_like_a_whole_one() {
    let folder = tempfile::TempDir::new().unwrap();
    write(folder.path(), "longpole", &[stream(&[(vec![(1, 2500, 0); 100], 0)])]);
    let begin = longpole_trace::Moment::AfterStart(10_000);
    let mut trace = Trace::open(&[folder.path()], Options { begin: Some(begin), ..Options::default() }).unwrap();
    let mut events = 0;
    let count = |part: &Unmerged<'_>| {
        if let Unmerged::Events(run) = part {
            events += run.len();
        }
    };
    trace.read_unmerged(count).unwrap();
    assert_eq!(events, 90);
}
