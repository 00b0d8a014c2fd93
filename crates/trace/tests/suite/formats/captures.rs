//! Damaged captures, read through every interface that reads them.

use longpole_testing::captures::everything;
use longpole_trace::Damage;
use longpole_trace::Diagnostic;
use longpole_trace::Item;
use longpole_trace::Options;
use longpole_trace::Trace;
use proptest::prelude::*;
use std::fs;
use tempfile::TempDir;

proptest! {
    #![proptest_config(ProptestConfig { cases: 3000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn damaged_capture_leads_to_an_error_or_to_packets_and_never_to_a_panic(
        big in any::<bool>(),
        hits in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 0u8..4), 0..8),
        cut in prop::option::of(any::<prop::sample::Index>()),
    ) {
        let whole = [everything(big), everything(!big)].concat();
        let mut bytes = whole.clone();
        for (place, value, how) in hits {
            let at = place.index(bytes.len());
            match how {
                0 => bytes[at] = value,
                1 => bytes[at] ^= 1 << (value & 7),
                2 => { bytes.splice(at..at, whole[..usize::from(value)].iter().copied()); }
                _ => drop(bytes.drain(at..(at + usize::from(value % 16)).min(bytes.len()))),
            }
            if bytes.is_empty() {
                bytes.push(value);
            }
        }
        if let Some(cut) = cut {
            bytes.truncate(cut.index(bytes.len()) + 1);
        }
        let place = TempDir::new().unwrap();
        let path = place.path().join("x");
        fs::write(&path, &bytes).unwrap();
        let Ok(mut trace) = Trace::open(&[&path], Options::default()) else { return Ok(()) };
        let mut packets = 0;
        while let Ok(Some((item, catalogue))) = trace.next_with_catalogue() {
            if let Item::Event(event) = item {
                let class = &catalogue.classes[event.class.0 as usize];
                prop_assert_eq!(class.fields.len(), event.fields.len());
                packets += u64::from(class.event_name == "packet");
                let _ = format!("{:?}", event.fields);
            }
        }
        prop_assert!(!trace.captures().is_empty() || packets == 0);
        for capture in trace.captures() {
            let (counts, _) = capture.count(i64::MIN, i64::MAX).unwrap();
            let counted: u64 = counts.iter().flat_map(|interface| interface.directions).map(|traffic| traffic.packets).sum();
            prop_assert_eq!(counted, packets);
            let (described, _) = capture.describe().unwrap();
            prop_assert_eq!(described.interfaces.iter().map(|interface| interface.packets).sum::<u64>(), packets);
            capture.check().unwrap();
            capture.frames(i64::MIN, i64::MAX, |frame| assert!(frame.bytes.len() <= bytes.len())).unwrap();
        }
    }
}

/// Makes a section with an interface whose times are seconds since `offset_s`, and with packets.
fn seconds(offset_s: i64, packets: &[u64]) -> Vec<u8> {
    let block = |kind: u32, body: &[u8]| {
        let length = (12 + body.len() as u32).to_le_bytes();
        [&kind.to_le_bytes(), &length, body, &length].concat()
    };
    let header = block(0x0a0d_0d0a, &[&0x1a2b_3c4d_u32.to_le_bytes()[..], &[1, 0, 0, 0], &[0xff; 8]].concat());
    let options = [&[9, 0, 1, 0, 0, 0, 0, 0, 14, 0, 8, 0][..], &offset_s.to_le_bytes(), &[0; 4]].concat();
    let interface = block(1, &[&[1, 0, 0, 0, 0, 0, 0, 0][..], &options].concat());
    let packet = |ticks: &u64| {
        let words = [0, (ticks >> 32) as u32, *ticks as u32, 4, 4, 0];
        block(6, &words.map(u32::to_le_bytes).concat())
    };
    [vec![header, interface], packets.iter().map(packet).collect()].concat().concat()
}

#[test]
fn packet_time_out_of_range_is_damage_and_reported_once_with_its_place() {
    let place = TempDir::new().unwrap();
    let path = place.path().join("x.pcapng");
    let read = |damage| {
        let mut trace = Trace::open(&[&path], Options { damage, ..Options::default() }).unwrap();
        let mut times = Vec::new();
        while let Some(item) = trace.next_item().unwrap() {
            if let Item::Event(event) = item {
                times.push(event.t_ns);
            }
        }
        let told: Vec<String> = trace.diagnostics().iter().map(ToString::to_string).collect();
        let capture = &trace.captures()[0];
        let is_beyond = |diagnostic: &Diagnostic| matches!(diagnostic, Diagnostic::BeyondTime { .. });
        for diagnostics in [capture.check().unwrap(), capture.count(i64::MIN, i64::MAX).unwrap().1] {
            assert_eq!(diagnostics.iter().any(is_beyond), told.iter().any(|text| text.contains("64 bits of ns")), "{diagnostics:?}");
        }
        (times, told, trace.is_damaged())
    };
    let bytes = seconds(0, &[7, 9_223_372_037, 9_223_372_038]);
    fs::write(&path, &bytes).unwrap();
    let (times, told, damaged) = read(Damage::Pass);
    assert_eq!((times, damaged), (vec![7_000_000_000, i64::MAX, i64::MAX], true));
    assert!(told.len() == 1 && told[0].contains(&format!("x.pcapng: at byte {}: 64 bits", bytes.len() - 2 * 36)), "{told:?}");
    let (times, told, damaged) = read(Damage::EndsTrace);
    assert_eq!((times, told.len(), damaged), (vec![7_000_000_000], 1, true));
    fs::write(&path, seconds(i64::MIN, &[7])).unwrap();
    assert_eq!(read(Damage::Pass).0, [i64::MIN]);
    fs::write(&path, seconds(-9_223_372_040, &[9_223_372_041])).unwrap();
    assert_eq!(read(Damage::Pass), (vec![1_000_000_000], vec![], false));
}
