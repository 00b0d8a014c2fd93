//! Written files must be read back unchanged, and damaged ones must never crash the reader.

use crate::common::{summarise, Seen};
use longpole_pcapng::{Direction, Interface, Packet, Section, Statistics, Writer};
use longpole_testing::captures;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

#[derive(Clone, Debug)]
struct Made {
    interface: usize,
    time_ns: u64,
    data: Vec<u8>,
    beyond: u16,
    direction: Direction,
    drop_count: Option<u64>,
    packet_id: Option<u64>,
    comment: Option<String>,
}

fn made() -> impl Strategy<Value = Made> {
    let direction = prop_oneof![Just(Direction::Unknown), Just(Direction::Inbound), Just(Direction::Outbound)];
    let extras = (option::of(any::<u64>()), option::of(any::<u64>()), option::of("[a-zäß ]{1,9}"));
    (any::<prop::sample::Index>(), any::<u64>(), vec(any::<u8>(), 0..80), any::<u16>(), direction, extras).prop_map(
        |(index, time_ns, data, beyond, direction, (drop_count, packet_id, comment))| Made {
            interface: index.index(5),
            time_ns,
            data,
            beyond,
            direction,
            drop_count,
            packet_id,
            comment,
        },
    )
}

/// Writes the packets; each interface is declared directly before its first packet. Also returns
/// what must be read back.
fn write(packets: &[Made], snaplen: u32) -> (Vec<u8>, Vec<Seen>) {
    let mut writer = Writer::new(Vec::new(), &Section { os: "test", ..Section::default() }).unwrap();
    let mut ids = [None; 5];
    let mut expected = Vec::new();
    for made in packets {
        let name = format!("if{}", made.interface);
        let id = *ids[made.interface].get_or_insert_with(|| writer.add_interface(&Interface::ethernet(&name, snaplen)).unwrap());
        let original_len = made.data.len() as u32 + u32::from(made.beyond);
        let packet = Packet {
            interface: id,
            time_ns: made.time_ns,
            data: &made.data,
            original_len,
            direction: made.direction,
            drop_count: made.drop_count,
            packet_id: made.packet_id,
            comment: made.comment.as_deref(),
        };
        writer.packet(&packet).unwrap();
        let kept = if snaplen == 0 { made.data.len() } else { made.data.len().min(snaplen as usize) };
        expected.push(Seen {
            section: 0,
            interface: id.0,
            name: Some(name),
            time_ns: Some(made.time_ns.into()),
            data: made.data[..kept].to_vec(),
            original_len,
            direction: made.direction,
            drop_count: made.drop_count,
            packet_id: made.packet_id,
            comment: made.comment.clone(),
        });
    }
    for id in ids.into_iter().flatten() {
        writer.statistics(&Statistics { received: Some(1), ..Statistics::new(id, 1) }).unwrap();
    }
    (writer.into_inner(), expected)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4096, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn written_packets_are_read_back(packets in vec(made(), 0..20), snaplen in prop_oneof![Just(0u32), 1..90u32]) {
        let (file, expected) = write(&packets, snaplen);
        let summary = summarise(&file);
        prop_assert!(summary.errors.is_empty(), "{:?}", summary.errors);
        prop_assert_eq!(summary.packets, expected);
    }

    #[test]
    fn damaged_files_never_crash_the_reader(
        packets in vec(made(), 1..8),
        hits in vec((any::<prop::sample::Index>(), any::<u8>()), 1..12),
        cut in any::<prop::sample::Index>(),
    ) {
        let (mut file, _) = write(&packets, 0);
        for (place, value) in hits {
            let at = place.index(file.len());
            file[at] = value;
        }
        summarise(&file);
        summarise(&file[..cut.index(file.len())]);
    }

    #[test]
    fn damage_after_a_valid_begin_never_crashes_the_reader(
        big in any::<bool>(),
        blocks in vec((0..8u32, vec(any::<u8>(), 0..64)), 0..12),
    ) {
        let mut file = [captures::section(big), captures::interface(big, 0)].concat();
        for (block_type, mut body) in blocks {
            body.resize(body.len().next_multiple_of(4), 0);
            file.extend(captures::block(big, block_type, &body));
        }
        summarise(&file);
    }

    #[test]
    fn damage_in_blocks_of_every_kind_never_crashes_the_reader(
        big in any::<bool>(),
        hits in vec((any::<prop::sample::Index>(), any::<u8>(), any::<bool>()), 0..6),
        cut in option::of(any::<prop::sample::Index>()),
    ) {
        let mut file = [captures::everything(big), captures::everything(!big)].concat();
        prop_assert!(!hits.is_empty() || summarise(&file).errors.is_empty());
        for (place, value, flips) in hits {
            let at = place.index(file.len());
            file[at] = if flips { file[at] ^ (1 << (value & 7)) } else { value };
        }
        if let Some(cut) = cut {
            file.truncate(cut.index(file.len()));
        }
        let summary = summarise(&file);
        // Blocks before the damage are read, and an error has its position.
        prop_assert!(summary.errors.iter().all(|error| error.offset <= file.len() as u64));
        prop_assert!(!summary.errors.is_empty() || summary.blocks.len() <= 24);
    }

    #[test]
    fn random_bytes_never_crash_the_reader(noise in vec(any::<u8>(), 0..200)) {
        summarise(&noise);
        summarise(&[&0xa1b2_c3d4u32.to_le_bytes()[..], &noise].concat());
    }
}
