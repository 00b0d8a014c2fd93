//! The bytes that the writer writes, block by block, as drawings.

use longpole_pcapng::{Direction, Interface, InterfaceId, LinkType, Packet, Section, Statistics, WriteError, Writer};

/// The bytes of a drawing: hexadecimal digits, with comments after `|`.
fn drawn(drawing: &str) -> Vec<u8> {
    drawing
        .lines()
        .flat_map(|line| line.split('|').next().unwrap_or("").split_whitespace())
        .map(|byte| u8::from_str_radix(byte, 16).unwrap())
        .collect()
}

/// A writer that has already written its section header, and the number of bytes that were
/// inspected.
struct Bench {
    writer: Writer<Vec<u8>>,
    seen: usize,
}

impl Bench {
    fn new() -> Bench {
        let writer = Writer::new(Vec::new(), &Section::default()).unwrap();
        let seen = writer.get_ref().len();
        Bench { writer, seen }
    }

    fn news(&mut self) -> Vec<u8> {
        let all = self.writer.get_ref();
        let news = all[self.seen..].to_vec();
        self.seen = all.len();
        news
    }
}

#[test]
fn a_section_states_its_origin_and_leaves_its_length_open() {
    let section = Section { hardware: "x86_64", os: "Linux", application: "abcd", comment: "" };
    let writer = Writer::new(Vec::new(), &section).unwrap();
    let expected = drawn(
        "0a 0d 0d 0a  40 00 00 00              | section header, 64 bytes
         4d 3c 2b 1a  01 00 00 00              | byte order, version 1.0
         ff ff ff ff  ff ff ff ff              | length unknown
         02 00 06 00  78 38 36 5f 36 34 00 00  | shb_hardware
         03 00 05 00  4c 69 6e 75 78 00 00 00  | shb_os
         04 00 04 00  61 62 63 64              | shb_userappl, needs no padding
         00 00 00 00                           | opt_endofopt
         40 00 00 00",
    );
    assert_eq!(writer.into_inner(), expected);
}

#[test]
fn a_section_without_options_has_no_end_of_options() {
    let writer = Writer::new(Vec::new(), &Section::default()).unwrap();
    let expected = drawn(
        "0a 0d 0d 0a  1c 00 00 00  4d 3c 2b 1a  01 00 00 00
         ff ff ff ff  ff ff ff ff  1c 00 00 00",
    );
    assert_eq!(writer.into_inner(), expected);
}

#[test]
fn an_interface_states_name_snaplen_and_nanoseconds() {
    let mut bench = Bench::new();
    let id = bench.writer.add_interface(&Interface::ethernet("uplink", 100)).unwrap();
    assert_eq!(id, InterfaceId(0));
    let expected = drawn(
        "01 00 00 00  2c 00 00 00              | interface description, 44 bytes
         01 00 00 00  64 00 00 00              | Ethernet, snaplen 100
         02 00 06 00  75 70 6c 69 6e 6b 00 00  | if_name
         09 00 01 00  09 00 00 00              | if_tsresol: 10^-9
         00 00 00 00
         2c 00 00 00",
    );
    assert_eq!(bench.news(), expected);

    let raw = Interface { name: "", description: "tun", snaplen: 0, link_type: LinkType::RAW };
    assert_eq!(bench.writer.add_interface(&raw).unwrap(), InterfaceId(1));
    let expected = drawn(
        "01 00 00 00  28 00 00 00
         65 00 00 00  00 00 00 00              | raw IP, no limit
         03 00 03 00  74 75 6e 00              | if_description
         09 00 01 00  09 00 00 00
         00 00 00 00
         28 00 00 00",
    );
    assert_eq!(bench.news(), expected);
}

#[test]
fn a_packet_without_options_is_the_minimal_block() {
    let mut bench = Bench::new();
    let id = bench.writer.add_interface(&Interface::ethernet("a", 100)).unwrap();
    bench.news();
    bench.writer.packet(&Packet::new(id, 0x0102_0304_0506_0708, &[0xaa, 0xbb, 0xcc, 0xdd, 0xee])).unwrap();
    let expected = drawn(
        "06 00 00 00  28 00 00 00              | enhanced packet, 40 bytes
         00 00 00 00                           | interface
         04 03 02 01  08 07 06 05              | time: upper word, lower word
         05 00 00 00  05 00 00 00              | captured, original
         aa bb cc dd  ee 00 00 00
         28 00 00 00",
    );
    assert_eq!(bench.news(), expected);
}

#[test]
fn a_packet_is_cut_to_the_snaplen_and_keeps_its_length_and_options() {
    let mut bench = Bench::new();
    let id = bench.writer.add_interface(&Interface::ethernet("a", 2)).unwrap();
    bench.news();
    let packet = Packet {
        original_len: 1500,
        direction: Direction::Outbound,
        drop_count: Some(3),
        packet_id: Some(0x99),
        comment: Some("hello"),
        ..Packet::new(id, 1, &[0xaa, 0xbb, 0xcc, 0xdd])
    };
    bench.writer.packet(&packet).unwrap();
    let expected = drawn(
        "06 00 00 00  54 00 00 00
         00 00 00 00  00 00 00 00  01 00 00 00
         02 00 00 00  dc 05 00 00                | 2 of 1500 bytes
         aa bb 00 00
         01 00 05 00  68 65 6c 6c 6f 00 00 00    | opt_comment
         02 00 04 00  02 00 00 00                | epb_flags: outbound
         04 00 08 00  03 00 00 00 00 00 00 00    | epb_dropcount
         05 00 08 00  99 00 00 00 00 00 00 00    | epb_packetid
         00 00 00 00
         54 00 00 00",
    );
    assert_eq!(bench.news(), expected);
}

#[test]
fn statistics_omit_unknown_counters() {
    let mut bench = Bench::new();
    let id = bench.writer.add_interface(&Interface::ethernet("a", 0)).unwrap();
    bench.news();
    let statistics = Statistics {
        start_ns: Some(1 << 32),
        end_ns: Some(5),
        received: Some(10),
        dropped: Some(1),
        delivered: Some(9),
        ..Statistics::new(id, 6)
    };
    bench.writer.statistics(&statistics).unwrap();
    let expected = drawn(
        "05 00 00 00  58 00 00 00
         00 00 00 00  00 00 00 00  06 00 00 00
         02 00 08 00  01 00 00 00  00 00 00 00   | isb_starttime: upper word first
         03 00 08 00  00 00 00 00  05 00 00 00   | isb_endtime
         04 00 08 00  0a 00 00 00 00 00 00 00    | isb_ifrecv
         05 00 08 00  01 00 00 00 00 00 00 00    | isb_ifdrop
         08 00 08 00  09 00 00 00 00 00 00 00    | isb_usrdeliv
         00 00 00 00
         58 00 00 00",
    );
    assert_eq!(bench.news(), expected);

    bench.writer.statistics(&Statistics::new(id, 6)).unwrap();
    let expected = drawn(
        "05 00 00 00  1c 00 00 00  00 00 00 00  00 00 00 00  06 00 00 00
         00 00 00 00  1c 00 00 00",
    );
    assert_eq!(bench.news(), expected);
}

#[test]
fn a_rejected_block_writes_no_byte() {
    let mut bench = Bench::new();
    let id = bench.writer.add_interface(&Interface::ethernet("a", 0)).unwrap();
    bench.news();
    let stranger = InterfaceId(7);
    assert!(matches!(bench.writer.packet(&Packet::new(stranger, 0, &[])), Err(WriteError::UnknownInterface(7))));
    assert!(matches!(bench.writer.statistics(&Statistics::new(stranger, 0)), Err(WriteError::UnknownInterface(7))));
    let short = Packet { original_len: 1, ..Packet::new(id, 0, &[1, 2]) };
    assert!(matches!(bench.writer.packet(&short), Err(WriteError::OriginalLength { original: 1, captured: 2 })));
    let long = "x".repeat(65_536);
    let commented = Packet { comment: Some(&long), ..Packet::new(id, 0, &[]) };
    assert!(matches!(bench.writer.packet(&commented), Err(WriteError::TextTooLong(65_536))));
    assert!(matches!(bench.writer.add_interface(&Interface::ethernet(&long, 0)), Err(WriteError::TextTooLong(_))));
    assert!(bench.news().is_empty());
    bench.writer.packet(&Packet::new(id, 0, &[])).unwrap();
    assert_eq!(bench.writer.interfaces(), 1);
}

/// Counts the writes, and fails from the given write on.
#[derive(Debug)]
struct Slots {
    writes: Vec<usize>,
    room: usize,
}

impl std::io::Write for Slots {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        if self.writes.len() == self.room {
            return Err(std::io::Error::other("full"));
        }
        self.writes.push(bytes.len());
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn every_block_is_one_write_and_nothing_follows_a_failed_one() {
    let mut writer = Writer::new(Slots { writes: vec![], room: 3 }, &Section::default()).unwrap();
    let id = writer.add_interface(&Interface::ethernet("a", 0)).unwrap();
    writer.packet(&Packet::new(id, 0, &[0; 60])).unwrap();
    let whole = writer.written();
    assert!(matches!(writer.packet(&Packet::new(id, 1, &[0; 60])), Err(WriteError::Io(_))));
    assert!(matches!(writer.packet(&Packet::new(id, 2, &[0; 60])), Err(WriteError::Broken)));
    assert_eq!(writer.written(), whole);
    let slots = writer.into_inner();
    assert_eq!(slots.writes, [28, 40, 92]);
    assert_eq!(whole, 28 + 40 + 92);
}
