//! Streams that are not in the order of time are yielded as a window of 1024 items sorts them, with
//! or without a lookahead.

use longpole_trace::Diagnostic;
use longpole_trace::EventIndex;
use longpole_trace::Item;
use longpole_trace::Moment;
use longpole_trace::Options;
use longpole_trace::Trace;
use proptest::prelude::*;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs;

/// Returns the metadata. Packets whose times overlap are read as separate streams, so with `timed`
/// unset the packets have no times.
fn metadata(timed: bool) -> String {
    let (ty, begin, end) = if timed { ("stamp", "timestamp_begin", "timestamp_end") } else { ("u64", "first", "last") };
    METADATA.replace("STAMP", ty).replace("BEGIN", begin).replace("END", end)
}

const METADATA: &str = "/* CTF 1.8 */
typealias integer { size = 8; } := u8; typealias integer { size = 32; } := u32; typealias integer { size = 64; } := u64;
trace { major = 1; minor = 8; byte_order = le; packet.header := struct { u32 magic; }; };
clock { name = c; freq = 1000000000; };
typealias integer { size = 64; map = clock.c.value; } := stamp;
stream {
    packet.context := struct { u64 packet_size; u64 content_size; STAMP BEGIN; STAMP END; u64 events_discarded; };
    event.header := struct { u8 id; stamp timestamp; };
};
event { name = e; id = 1; fields := struct { u32 n; string text; }; };";

/// Makes packets from (times, number of events discarded before its end). Each event has its number
/// in the stream.
fn stream(packets: &[(Vec<u64>, u64)]) -> Vec<u8> {
    let (mut bytes, mut number, mut discarded) = (Vec::new(), 0u32, 0);
    for (times, lost) in packets {
        discarded += lost;
        let mut events = Vec::new();
        for time in times {
            events.push(1);
            events.extend(time.to_le_bytes());
            events.extend(number.to_le_bytes());
            events.extend(format!("{}\0", number % 1000).bytes());
            number += 1;
        }
        let bits = (44 + events.len() as u64) * 8;
        bytes.extend(0xc1fc_1fc1u32.to_le_bytes());
        let (begin, end) = (times.iter().min().unwrap_or(&0), times.iter().max().unwrap_or(&0));
        for word in [bits, bits, *begin, *end, discarded] {
            bytes.extend(word.to_le_bytes());
        }
        bytes.extend(events);
    }
    bytes
}

/// Reference implementation: a window that always holds as many items as it can. Returns times and
/// numbers in order of output, the number of sorted events, and the number of events that were too
/// late.
fn sorted(times: impl Iterator<Item = u64>) -> (Vec<(i64, u32)>, u64, u64) {
    let mut times = times.zip(0u32..);
    let (mut held, mut out) = (BinaryHeap::new(), Vec::new());
    let (mut last_in, mut last_out, mut sorted, mut late) = (0, 0, 0, 0);
    loop {
        while held.len() < 1024 {
            let Some(item) = times.next() else { break };
            sorted += u64::from(item.0 < last_in);
            last_in = last_in.max(item.0);
            held.push(Reverse(item));
        }
        let Some(Reverse((time, number))) = held.pop() else { return (out, sorted - late, late) };
        late += u64::from(time < last_out);
        last_out = last_out.max(time);
        out.push((time as i64, number));
    }
}

struct Read {
    events: Vec<(i64, u32)>,
    /// Reported losses: number of events before each, and number of lost events.
    losses: Vec<(usize, Option<u64>)>,
    sorted: u64,
    late: u64,
}

fn read(bytes: &[u8], timed: bool, begin: Option<i64>) -> Read {
    let folder = tempfile::TempDir::new().unwrap();
    fs::write(folder.path().join("metadata"), metadata(timed)).unwrap();
    fs::write(folder.path().join("stream"), bytes).unwrap();
    let options = Options { begin: begin.map(Moment::At), ..Options::default() };
    let mut trace = Trace::open(&[folder.path()], options).unwrap();
    let mut read = Read { events: Vec::new(), losses: Vec::new(), sorted: 0, late: 0 };
    while let Some(item) = trace.next_item().unwrap() {
        match item {
            Item::Event(event) => {
                let number = event.fields[0].as_u64().unwrap() as u32;
                assert_eq!(event.fields[1].text().unwrap(), (number % 1000).to_string());
                read.events.push((event.t_ns, number));
            }
            Item::Loss(loss) => read.losses.push((read.events.len(), loss.events)),
        }
    }
    for diagnostic in trace.diagnostics() {
        match diagnostic {
            Diagnostic::Sorted { events, .. } => read.sorted = *events,
            Diagnostic::Late { events, .. } => read.late = *events,
            other => panic!("{other}"),
        }
    }
    read
}

/// Makes ascending times, except that about one in `each` belongs up to `back` events earlier.
fn times(back: i64, each: u32) -> impl Strategy<Value = Vec<u64>> {
    prop::collection::vec((1i64..100, prop_oneof![each => Just(0), 1 => 0..back]), 1..6000).prop_map(|steps| {
        let mut now = 1_000_000;
        let times = steps.iter().map(|(step, back)| {
            now += step;
            (now - back * 50) as u64
        });
        times.collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]
    #[test]
    fn stream_is_yielded_as_a_window_sorts_it(
        times in prop_oneof![times(1, 1), times(20, 30), times(900, 300), times(2500, 30), times(1300, 2000)], sizes in prop::collection::vec(1usize..900, 1..40), begin in prop::option::of(0i64..300_000),
    ) {
        let mut packets = Vec::new();
        let (mut rest, mut sizes) = (times.as_slice(), sizes.iter().cycle());
        while !rest.is_empty() {
            let (packet, after) = rest.split_at(rest.len().min(*sizes.next().unwrap()));
            packets.push((packet.to_vec(), 0));
            rest = after;
        }
        let timed = packets.windows(2).all(|two| two[1].0.iter().min() >= two[0].0.iter().max());
        let bytes = stream(&packets);
        let (events, sorted, late) = sorted(times.iter().copied());
        let whole = read(&bytes, timed, None);
        prop_assert_eq!(&whole.events, &events);
        prop_assert_eq!((whole.sorted, whole.late), (sorted, late));
        if let Some(begin) = begin.map(|begin| 1_000_000 + begin) {
            let mut expected: Vec<_> = events.into_iter().filter(|(time, _)| *time >= begin).collect();
            let mut found = read(&bytes, timed, Some(begin)).events;
            if late > 0 {
                // If packets were skipped, more of the window is left for late events.
                expected.sort_unstable();
                found.sort_unstable();
            }
            prop_assert_eq!(found, expected);
        }
    }
}

/// An item: its time, the number of its stream, and its own number; `None` for a loss.
type Place = (i64, u32, Option<u64>);

/// Opens the streams in a folder, and calls `each` with the items and their places.
fn read_places(folder: &std::path::Path, begin: Option<i64>, mut each: impl FnMut(&Item<'_>, Place)) {
    let options = Options { begin: begin.map(Moment::At), ..Options::default() };
    let mut trace = Trace::open(&[folder], options).unwrap();
    while let Some(item) = trace.next_item().unwrap() {
        let place = match &item {
            Item::Event(event) => (event.t_ns, event.stream.0, event.fields[0].as_u64()),
            Item::Loss(loss) => (loss.end_ns, loss.stream.0, None),
        };
        each(&item, place);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]
    #[test]
    fn an_index_of_the_items_leads_to_each_of_them(
        streams in prop::collection::vec(
            (prop_oneof![3 => times(1, 1), 1 => times(900, 300)], prop::collection::vec((1usize..900, 0u64..3), 1..20)), 1..4,
        ),
        asked in prop::collection::vec(0u64..20_000, 12),
    ) {
        let folder = tempfile::TempDir::new().unwrap();
        let mut timed = true;
        for (number, (times, sizes)) in streams.iter().enumerate() {
            let (mut packets, mut rest, mut sizes) = (Vec::new(), times.as_slice(), sizes.iter().cycle());
            while !rest.is_empty() {
                let (size, lost) = *sizes.next().unwrap();
                let (packet, after) = rest.split_at(rest.len().min(size));
                packets.push((packet.to_vec(), lost));
                rest = after;
            }
            timed &= packets.windows(2).all(|two| two[1].0.iter().min() >= two[0].0.iter().max());
            fs::write(folder.path().join(format!("stream{number}")), stream(&packets)).unwrap();
        }
        fs::write(folder.path().join("metadata"), metadata(timed)).unwrap();
        let (mut index, mut all) = (EventIndex::default(), Vec::new());
        read_places(folder.path(), None, |item, place| {
            index.add(item);
            all.push(place);
        });
        prop_assert!(index.is_sound());
        prop_assert_eq!(index.items(), all.len() as u64);
        for number in asked.into_iter().map(|number| number % index.items()) {
            let place = index.place_of(number).unwrap();
            prop_assert!(place.first <= number);
            let mut found = Vec::new();
            read_places(folder.path(), Some(place.t_ns), |_, place| found.push(place));
            prop_assert_eq!(&found[(number - place.first) as usize..], &all[number as usize..], "{} of {:?}", number, place);
            let t_ns = all[number as usize].0;
            let place = index.place_at(t_ns).unwrap();
            let first = all.iter().position(|it| it.0 >= t_ns).unwrap();
            prop_assert!(place.first as usize <= first);
        }
    }
}

#[test]
fn loss_follows_its_packet_even_after_an_ordered_part() {
    let ascending = |from: u64, count: u64| (from..from + count).collect::<Vec<_>>();
    let packets = [(ascending(10, 3000), 0), (ascending(5000, 10), 7), (ascending(6000, 2000), 0)];
    let read = read(&stream(&packets), true, None);
    assert_eq!(read.losses, [(3010, Some(7))]);
    assert_eq!(read.events.len(), 5010);
    assert!(read.events.is_sorted());
    assert_eq!((read.sorted, read.late), (0, 0));
}

#[test]
fn damage_is_reported_and_reading_continues_after_it() {
    let times = |from: u64| (from..from + 1500).collect::<Vec<_>>();
    let (first, second) = (stream(&[(times(0), 0)]), stream(&[(times(0), 0), (times(2000), 0)]));
    let mut bytes = second.clone();
    // An event of an unknown class in the second packet.
    bytes[first.len() + 44 + 100 * 17] = 9;
    let folder = tempfile::TempDir::new().unwrap();
    fs::write(folder.path().join("metadata"), metadata(true)).unwrap();
    bytes.extend(stream(&[(times(4000), 0)]));
    fs::write(folder.path().join("stream"), &bytes).unwrap();
    let mut trace = Trace::open(&[folder.path()], Options::default()).unwrap();
    let mut last = None;
    let mut events = 0;
    while let Some(item) = trace.next_item().unwrap() {
        if let Item::Event(event) = item {
            assert!(last.is_none_or(|last| last < event.t_ns));
            last = Some(event.t_ns);
            events += 1;
        }
    }
    assert!(trace.is_damaged());
    assert!((3000..4500).contains(&events) && last == Some(5499), "{events} {last:?}");
}

#[test]
fn streams_of_any_foreign_tracer_are_sorted() {
    let folder = tempfile::TempDir::new().unwrap();
    let named = metadata(true).replace("clock {", "env { tracer_name = \"lttng-ust\"; };\nclock {");
    fs::write(folder.path().join("metadata"), named).unwrap();
    fs::write(folder.path().join("stream"), stream(&[(vec![10, 30, 20, 40], 0), (vec![50, 70, 60], 0)])).unwrap();
    let mut trace = Trace::open(&[folder.path()], Options::default()).unwrap();
    let mut times = Vec::new();
    while let Some(Item::Event(event)) = trace.next_item().unwrap() {
        times.push(event.t_ns);
    }
    assert_eq!(times, [10, 20, 30, 40, 50, 60, 70]);
    assert!(matches!(trace.diagnostics(), [Diagnostic::Sorted { events: 2, .. }]), "{:?}", trace.diagnostics());
}
