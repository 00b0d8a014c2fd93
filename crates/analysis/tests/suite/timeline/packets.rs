//! The timeline's rows of packets: each packet has a state, and is found again by its number.

use longpole_analysis::timeline::{PacketMark, PacketRow, RowKind, StateClass, Timeline, TimelineWriter};
use longpole_model::interaction::{Effect, Interaction, Vocabulary};
use std::collections::{HashMap, HashSet};
use std::io::Seek;
use std::sync::Arc;

const ORIGIN: u64 = 1 << 60;

fn timeline(length: u64) -> Arc<Timeline> {
    let mut vocabulary = Vocabulary::default();
    let machine = vocabulary.machine("", "m");
    let timeline = Arc::new(Timeline::default());
    let mut writer = TimelineWriter::new(timeline.clone());
    writer.interaction(&vocabulary, &Interaction { t: ORIGIN, line: 0, effect: Effect::Here { machine } });
    writer.until(ORIGIN + length);
    writer.finish(&vocabulary, &HashMap::new());
    timeline
}

fn row(name: &str) -> PacketRow<'_> {
    PacketRow {
        kind: RowKind::Flow,
        group: "packets",
        name,
        detail: String::new(),
        states: vec![("UDP".to_owned(), StateClass::Asleep), ("lost".to_owned(), StateClass::Lost)],
    }
}

#[test]
fn packets_that_overlap_or_are_at_one_moment_have_states_of_their_own() {
    let mut random = fastrand::Rng::with_seed(11);
    let timeline = timeline(10_000_000);
    let mut packets = Vec::new();
    for number in 0..5000 {
        // Some arrive at one moment, as with clocks of microseconds; most overlap their neighbours.
        let end_ns = (ORIGIN + 1000 + number / 3 * 1000) as i64;
        packets.push(PacketMark { begin_ns: end_ns - random.i64(0..5000), end_ns, state: usize::from(number % 7 == 0), number });
    }
    let expected = packets.clone();
    random.shuffle(&mut packets);
    timeline.add_packets(&row("a → b"), packets);
    let listed = timeline.listing().rows.into_iter().find(|row| row.kind == RowKind::Flow).unwrap();
    assert_eq!(listed.states, 5000);
    let (states, more) = timeline.states(listed.id, (0, u64::MAX), 10_000).unwrap();
    assert_eq!((states.len(), more), (5000, false));
    let mut file = tempfile::tempfile().unwrap();
    timeline.write_file(&mut file, b"key", b"").unwrap();
    file.rewind().unwrap();
    let kept = Timeline::default();
    kept.read_file(file, b"key", |_| Some(())).unwrap();
    let mut seen = HashSet::new();
    for state in states {
        for timeline in [&*timeline, &kept] {
            let found = timeline.packet_at(listed.id, state.begin).unwrap().unwrap();
            assert_eq!((found.begin, found.end, found.kind), (state.begin, state.end, RowKind::Flow));
            let packet = expected[found.number as usize];
            // Packets at one moment follow each other at a distance of 2 ns.
            assert!((state.end + ORIGIN).abs_diff(packet.end_ns as u64) <= 6, "{state:?} {packet:?}");
            seen.insert(found.number);
        }
    }
    assert_eq!(seen.len(), 5000);
    assert_eq!(timeline.packet_at(listed.id, 0).unwrap(), None);
    let lost = timeline.search("lost", (0, u64::MAX), 1).unwrap();
    assert_eq!(lost.count, 5000_u64.div_ceil(7));
}

#[test]
fn rows_of_one_title_are_in_one_group() {
    let timeline = timeline(1000);
    timeline.add_packets(&row("a → b"), Vec::new());
    timeline.add_packets(&row("b → a"), Vec::new());
    timeline.add_packets(&PacketRow { group: "packets of lo", ..row("::1 ↔ ::1") }, Vec::new());
    let rows = timeline.listing().rows;
    assert_eq!(rows.iter().filter(|row| row.kind == RowKind::Packets).count(), 2);
    let parent = |name: &str| rows.iter().find(|row| row.name == name).unwrap().parent;
    assert_eq!(parent("a → b"), parent("b → a"));
    assert_ne!(parent("a → b"), parent("::1 ↔ ::1"));
}

#[test]
fn packets_at_the_end_of_the_trace_have_no_states_after_it() {
    let timeline = timeline(1000);
    let end_ns = (ORIGIN + 999) as i64;
    timeline.add_packets(
        &row("a → b"),
        (0..1000).map(|number| PacketMark { begin_ns: end_ns, end_ns: end_ns + 1, state: 0, number }).collect(),
    );
    let listed = timeline.listing().rows.into_iter().find(|row| row.kind == RowKind::Flow).unwrap();
    let (states, _) = timeline.states(listed.id, (0, u64::MAX), 10_000).unwrap();
    assert!(!states.is_empty() && states.iter().all(|state| state.end <= 1000), "{states:?}");
}
