//! Captures that are damaged, read in each way in which they are read.

#[path = "../../pcapng/tests/common/mod.rs"]
mod common;

use common::everything;
use longpole_trace::{Item, Options, Trace};
use proptest::prelude::*;
use std::fs;
use tempfile::TempDir;

proptest! {
    #![proptest_config(ProptestConfig { cases: 3000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn damaged_captures_end_in_an_error_or_in_packets_and_in_nothing_else(
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
