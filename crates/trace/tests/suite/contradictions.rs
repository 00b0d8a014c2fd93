//! Contradictory packets: their events are yielded all the same, and the contradiction is reported
//! with its place.

use longpole_trace::Contradiction;
use longpole_trace::Damage;
use longpole_trace::Diagnostic;
use longpole_trace::Item;
use longpole_trace::LeftOut;
use longpole_trace::Moment;
use longpole_trace::NoEvent;
use longpole_trace::Options;
use longpole_trace::PacketPosition;
use longpole_trace::Trace;
use std::fs;
use std::path::Path;
use tempfile::TempDir;

const METADATA: &str = "/* CTF 1.8 */
trace { major = 1; minor = 8; byte_order = le; packet.header := struct { integer { size = 32; } magic; integer { size = 32; } stream_id; }; };
clock { name = c; freq = 1000000000; };
typealias integer { size = 64; map = clock.c.value; } := time;
stream {
  id = 0;
  packet.context := struct {
    time timestamp_begin; time timestamp_end; integer { size = 32; } content_size; integer { size = 32; } packet_size;
    integer { size = 16; } packet_seq_num; integer { size = 16; } cpu_id;
  };
  event.header := struct { time timestamp; };
};
event { name = e; stream_id = 0; };
";
const HEADER: usize = 8 + 16 + 8 + 4;

struct Packet<'a> {
    begin: u64,
    end: u64,
    sequence: u16,
    cpu: u16,
    events: &'a [u64],
}

impl Packet<'_> {
    fn bytes(&self) -> Vec<u8> {
        let mut bytes = 0xc1fc_1fc1_u64.to_le_bytes().to_vec();
        bytes.extend(self.begin.to_le_bytes());
        bytes.extend(self.end.to_le_bytes());
        let bits = 8 * (HEADER + self.events.len() * 8) as u32;
        bytes.extend([bits, bits].map(u32::to_le_bytes).concat());
        bytes.extend([self.sequence, self.cpu].map(u16::to_le_bytes).concat());
        bytes.extend(self.events.iter().flat_map(|t| t.to_le_bytes()));
        bytes
    }
}

/// Environment of LTTng, which reads the clock for a packet's end after it read the clock for the
/// next packet's begin.
const LTTNG: &str = "env { tracer_name = \"lttng-ust\"; };\n";

fn trace(files: &[(&str, Vec<u8>)]) -> TempDir {
    let place = tempfile::tempdir().unwrap();
    fs::write(place.path().join("metadata"), METADATA).unwrap();
    for (name, bytes) in files {
        fs::write(place.path().join(name), bytes).unwrap();
    }
    place
}

/// Returns the times of the events, the diagnostics except those about sorting, and whether the
/// trace is damaged.
fn read(trace: &Path, damage: Damage) -> (Vec<i64>, Vec<Diagnostic>, bool) {
    let mut trace = Trace::open(&[trace], Options { damage, ..Options::default() }).unwrap();
    let mut times = Vec::new();
    while let Some(item) = trace.next_item().unwrap() {
        if let Item::Event(event) = item {
            times.push(event.t_ns);
        }
    }
    let diagnostics = trace
        .diagnostics()
        .iter()
        .filter(|diagnostic| !matches!(diagnostic, Diagnostic::Sorted { .. } | Diagnostic::Late { .. }))
        .cloned()
        .collect();
    (times, diagnostics, trace.is_damaged_strictly())
}

fn found(packets: &[Packet]) -> Vec<(Contradiction, u64, u64, Option<u64>)> {
    let place = trace(&[("s", packets.iter().flat_map(Packet::bytes).collect())]);
    let (times, diagnostics, damaged) = read(place.path(), Damage::EndsStream);
    assert!(!damaged, "{diagnostics:?}");
    let mut expected: Vec<i64> = packets.iter().flat_map(|packet| packet.events).map(|t| *t as i64).collect();
    expected.sort();
    assert_eq!(times, expected);
    let told = diagnostics.iter().map(|diagnostic| match diagnostic {
        Diagnostic::Contradiction { path, what, times, at } => {
            assert_eq!(*path, place.path().join("s"));
            let before: usize = packets.iter().take(at.packet as usize).map(|packet| packet.bytes().len()).sum();
            assert_eq!((at.packet_offset, at.bit), (before as u64, None));
            (*what, *times, at.packet, at.event)
        }
        other => panic!("{other}"),
    });
    told.collect()
}

fn packet(begin: u64, end: u64, sequence: u16, events: &[u64]) -> Packet<'_> {
    Packet { begin, end, sequence, cpu: 0, events }
}

#[test]
fn consistent_packets_are_not_reported() {
    assert_eq!(found(&[packet(10, 20, 0xffff, &[10, 15, 20]), packet(20, 20, 0, &[20]), packet(30, 40, 1, &[])]), []);
}

#[test]
fn packet_that_ends_before_it_begins_is_reported() {
    assert_eq!(
        found(&[packet(10, 20, 1, &[15]), packet(50, 30, 2, &[51]), packet(80, 70, 3, &[])]),
        [(Contradiction::EndsFirst, 2, 1, None)]
    );
}

#[test]
fn events_outside_of_their_packet_are_counted_and_the_first_one_is_reported() {
    let packets = [packet(10, 20, 1, &[10, 20]), packet(30, 40, 2, &[29, 35, 41]), packet(50, 60, 3, &[61])];
    assert_eq!(found(&packets), [(Contradiction::EventOutside, 3, 1, Some(0))]);
}

#[test]
fn overlapping_packets_are_reported_for_one_stream_but_not_for_two_cpus_in_one_file() {
    let packets = [packet(10, 50, 1, &[10, 50]), packet(20, 30, 2, &[25]), packet(40, 60, 3, &[60]), packet(60, 70, 4, &[65])];
    assert_eq!(found(&packets), [(Contradiction::Overlap, 2, 1, None)]);
    let [a, b, ..] = packets;
    assert_eq!(found(&[a, Packet { cpu: 1, ..b }]), []);
}

#[test]
fn lttng_packets_may_overlap_if_their_ends_are_in_order() {
    let told = |packets: [Packet; 2]| {
        let place = trace(&[("s", packets.iter().flat_map(Packet::bytes).collect())]);
        fs::write(place.path().join("metadata"), format!("{METADATA}{LTTNG}")).unwrap();
        read(place.path(), Damage::EndsStream).1.len()
    };
    assert_eq!(told([packet(10, 50, 1, &[]), packet(45, 60, 2, &[])]), 0);
    assert_eq!(told([packet(10, 50, 1, &[]), packet(45, 48, 2, &[])]), 1);
}

#[test]
fn decreasing_or_repeated_sequence_numbers_are_reported_but_overflows_are_not() {
    let numbered = |numbers: &[u16]| {
        let packets: Vec<_> = numbers.iter().enumerate().map(|(at, &n)| packet(10 * at as u64, 10 * at as u64 + 5, n, &[])).collect();
        found(&packets)
    };
    assert_eq!(numbered(&[0xfffe, 0xffff, 0, 1]), []);
    assert_eq!(numbered(&[5, 6, 6, 7, 3, 4]), [(Contradiction::OutOfSequence, 2, 2, None)]);
}

#[test]
fn message_names_file_packet_and_event() {
    let place = trace(&[("s", packet(10, 20, 1, &[12, 21, 22]).bytes())]);
    let (_, diagnostics, _) = read(place.path(), Damage::Pass);
    let path = place.path().join("s").display().to_string();
    assert_eq!(
        diagnostics.iter().map(ToString::to_string).collect::<Vec<_>>(),
        [format!("{path}: packet 0 at byte 0, event 1: the event is before its packet's begin or after its end; 2 times in this file")]
    );
}

#[test]
fn empty_stream_files_are_reported_by_name() {
    let full = packet(10, 20, 1, &[12]).bytes();
    let place = trace(&[("a", vec![]), ("b", full), ("c", vec![]), ("d", vec![]), ("e", vec![])]);
    let (times, diagnostics, damaged) = read(place.path(), Damage::EndsStream);
    assert_eq!((times, damaged), (vec![12], false));
    assert_eq!(diagnostics, [Diagnostic::Empty { path: place.path().to_owned(), files: 4, examples: "a, c, d, …".to_owned() }]);
}

#[test]
fn reading_continues_after_a_damaged_packet_header_and_reports_the_skipped_bytes() {
    let packets = [packet(10, 20, 1, &[12]), packet(30, 40, 2, &[32, 33]), packet(50, 60, 3, &[52])];
    let mut bytes: Vec<u8> = packets.iter().flat_map(Packet::bytes).collect();
    let second = packets[0].bytes().len();
    bytes[second] = 0;
    let place = trace(&[("s", bytes)]);
    let damage = |left_out| Diagnostic::Undecodable {
        path: place.path().join("s"),
        at: PacketPosition { packet: 1, packet_offset: second as u64, bit: Some(0), event: None },
        reason: "wrong magic number 0xc1fc1f00".to_owned(),
        left_out,
    };
    let (times, diagnostics, damaged) = read(place.path(), Damage::Pass);
    assert_eq!((times, damaged), (vec![12, 52], true));
    let left_out = LeftOut::Bytes(packets[1].bytes().len() as u64);
    assert!(diagnostics.contains(&damage(left_out)), "{diagnostics:?}");
    assert!(diagnostics.iter().any(|diagnostic| matches!(diagnostic, Diagnostic::PacketsLost { packets: 1, .. })), "{diagnostics:?}");
    assert!(damage(left_out).to_string().ends_with("; 52 bytes up to the next packet are not read"), "{}", damage(left_out));
    let (times, diagnostics, _) = read(place.path(), Damage::EndsStream);
    assert_eq!((times, diagnostics), (vec![12], vec![damage(LeftOut::File)]));
}

#[test]
fn event_time_out_of_range_is_damage_and_reported_once_with_its_place() {
    let beyond = i64::MAX as u64 + 7;
    let stamps = [32, beyond, beyond + 9];
    let packets = [packet(10, 20, 1, &[12]), packet(30, u64::MAX, 2, &stamps)];
    let place = trace(&[("s", packets.iter().flat_map(Packet::bytes).collect())]);
    let path = place.path().join("s");
    let at = |event| PacketPosition { packet: 1, packet_offset: packets[0].bytes().len() as u64, bit: None, event };
    let of_event = Diagnostic::BeyondTime { path: path.clone(), place: at(Some(1)).to_string(), at: Some(at(Some(1))) };
    let of_packet = Diagnostic::Contradiction { path: path.clone(), what: Contradiction::BeyondTime, times: 1, at: at(None) };
    let (times, diagnostics, damaged) = read(place.path(), Damage::Pass);
    assert_eq!((times, damaged), (vec![12, 32, i64::MAX, i64::MAX], true));
    assert_eq!(diagnostics, [of_event.clone(), of_packet.clone()]);
    for damage in [Damage::EndsStream, Damage::EndsTrace] {
        let (times, diagnostics, damaged) = read(place.path(), damage);
        assert_eq!((times, damaged), (vec![12, 32], true));
        assert!(diagnostics.contains(&of_event), "{diagnostics:?}");
    }
    let text = of_event.to_string();
    assert!(text.starts_with(&format!("{}: packet 1 at byte 44, event 1: 64 bits of ns do not hold", path.display())), "{text}");
}

#[test]
fn clock_offset_is_damage_only_if_the_resulting_times_are_out_of_range() {
    let told = |clock: &str, cycles: u64| {
        let place = trace(&[("s", packet(cycles, cycles + 5, 1, &[cycles, cycles + 1]).bytes())]);
        fs::write(place.path().join("metadata"), METADATA.replace("freq = 1000000000;", clock)).unwrap();
        let (times, diagnostics, damaged) = read(place.path(), Damage::Pass);
        (times, diagnostics.len(), damaged)
    };
    // 400 years, 584 years, and a second before the year 1677.
    assert_eq!(told("freq = 1000000000; offset_s = 12622780800;", 5), (vec![i64::MAX; 2], 2, true));
    assert_eq!(told("freq = 1;", 18_446_744_073), (vec![i64::MAX; 2], 2, true));
    assert_eq!(told("freq = 1000000000; offset_s = -9223372037;", 0), (vec![i64::MIN; 2], 2, true));
    assert_eq!(
        told("freq = 1000000000; offset_s = -9223372037;", 1_000_000_000),
        (vec![-9_223_372_036_000_000_000, -9_223_372_035_999_999_999], 0, false)
    );
}

#[test]
fn trace_without_events_reports_the_reason() {
    let told = |files: &[(&str, Vec<u8>)], begin, end| {
        let place = trace(files);
        let options = Options { begin: Option::map(begin, Moment::At), end: Option::map(end, Moment::At), ..Options::default() };
        let mut trace = Trace::open(&[place.path()], options).unwrap();
        while trace.next_item().unwrap().is_some() {}
        assert!(!trace.is_damaged());
        trace.no_event()
    };
    let full = || [("s", packet(10, 20, 1, &[12, 14]).bytes())];
    assert_eq!(told(&[], None, None), Some(NoEvent::NoStream));
    assert_eq!(told(&[("s", packet(10, 20, 1, &[]).bytes())], None, None), Some(NoEvent::Anywhere));
    assert_eq!(told(&full(), None, None), None);
    assert_eq!(told(&full(), Some(14), None), None);
    assert_eq!(told(&full(), Some(15), None), Some(NoEvent::InPart { first_ns: 12, begin_ns: Some(15), end_ns: None }));
    assert_eq!(told(&full(), None, Some(11)), Some(NoEvent::InPart { first_ns: 12, begin_ns: None, end_ns: Some(11) }));
    assert_eq!(
        NoEvent::InPart { first_ns: 12, begin_ns: Some(15), end_ns: Some(17) }.to_string(),
        "there is no event in the requested part: the first event is at 12 ns, and none from 15 ns on up to 17 ns"
    );
}
