//! The reader on hand-made files: byte orders, old kinds of blocks, classic files, and damage.

use crate::common::summarise;
use longpole_pcapng::{Block, ErrorKind, LinkType, Reader, Resolution, MAX_BLOCK_LEN};
use longpole_testing::captures::{block, interface, option, section, words};

/// An enhanced packet of three bytes, followed by options.
fn packet(big: bool, id: u32, ticks: u64, options: &[u8]) -> Vec<u8> {
    let head = words(big, &[id, (ticks >> 32) as u32, ticks as u32, 3, 60]);
    block(big, 6, &[&head[..], &[1, 2, 3, 0], options].concat())
}

#[test]
fn interface_ids_and_byte_order_start_again_in_each_section() {
    let mut file = Vec::new();
    for (big, names) in [(false, ["in", "out"]), (true, ["out", "in"])] {
        file.extend(section(big));
        for name in names {
            let link = if big { 0x0001_0000 } else { 1 };
            let body = [words(big, &[link, 0]), option(big, 2, name.as_bytes())].concat();
            file.extend(block(big, 1, &body));
        }
        file.extend(packet(big, 1, 1_700_000_000_000_005, &[]));
    }
    let summary = summarise(&file);
    assert!(summary.errors.is_empty(), "{:?}", summary.errors);
    let seen: Vec<_> = summary.packets.iter().map(|p| (p.section, p.interface, p.name.as_deref().unwrap())).collect();
    assert_eq!(seen, [(0, 1, "out"), (1, 1, "in")]);
    assert!(summary.packets.iter().all(|p| p.time_ns == Some(1_700_000_000_000_005_000)));
    assert!(summary.packets.iter().all(|p| p.data == [1, 2, 3] && p.original_len == 60));
}

#[test]
fn resolution_and_offset_of_the_interface_give_exact_nanoseconds() {
    for big in [false, true] {
        let offset = if big { (-5i64).to_be_bytes() } else { (-5i64).to_le_bytes() };
        let head = words(big, &[if big { 0x0001_0000 } else { 1 }, 0]);
        let body = [head, option(big, 9, &[0x80 | 20]), option(big, 14, &offset)].concat();
        // Ticks of 2^-20 seconds: ten and a half seconds.
        let file = [section(big), block(big, 1, &body), packet(big, 0, (21 << 20) / 2, &[])].concat();
        let summary = summarise(&file);
        assert!(summary.errors.is_empty());
        assert_eq!(summary.packets[0].time_ns, Some(5_500_000_000));
    }
}

#[test]
fn simple_packets_take_their_length_from_the_first_interface() {
    let body = [words(false, &[60]), vec![7; 20]].concat();
    let file = [section(false), interface(false, 20), block(false, 3, &body)].concat();
    let packet = &summarise(&file).packets[0];
    assert_eq!((packet.data.len(), packet.original_len, packet.time_ns), (20, 60, None));
}

#[test]
fn obsolete_packets_are_read_with_their_own_drop_count() {
    for (drops, expected) in [(4u32, Some(4)), (0xffff, None)] {
        // In little endian the interface is the lower half of the first word.
        let body = [words(false, &[drops << 16, 0, 9, 3, 3]), vec![1, 2, 3, 0]].concat();
        let file = [section(false), interface(false, 0), block(false, 2, &body)].concat();
        let summary = summarise(&file);
        assert_eq!(summary.blocks, ["SHB", "IDB", "Obsolete"]);
        assert_eq!(summary.packets[0].drop_count, expected);
        assert_eq!(summary.packets[0].time_ns, Some(9_000));
    }
}

#[test]
fn unknown_blocks_are_returned_undecoded() {
    let file = [section(false), block(false, 0x4000_0bae, &[1, 2, 3, 4])].concat();
    let mut reader = Reader::new(&file[..]);
    reader.next_block().unwrap();
    let Some(Block::Raw(raw)) = reader.next_block().unwrap() else { panic!("no raw block") };
    assert_eq!((raw.block_type, raw.body), (0x4000_0bae, &[1, 2, 3, 4][..]));
    assert_eq!(reader.offset(), 28);
}

#[test]
fn secrets_journal_entries_and_custom_blocks_are_read_in_both_byte_orders() {
    for big in [false, true] {
        let secrets = [words(big, &[0x544c_534b, 6]), b"CLIENT\0\0".to_vec(), option(big, 1, b"keys")].concat();
        let mut entry = b"__REALTIME_TIMESTAMP=1700000000000005\nMESSAGE\n\x03\0\0\0\0\0\0\0a\nb\nPRIORITY=6\n".to_vec();
        entry.resize(entry.len().next_multiple_of(4), 0);
        let file = [
            section(big),
            block(big, 10, &secrets),
            block(big, 9, &entry),
            block(big, 0xbad, &[words(big, &[32_473]), b"data".to_vec()].concat()),
            block(big, 0x4000_0bad, &words(big, &[7])),
        ]
        .concat();
        let mut reader = Reader::new(&file[..]);
        reader.next_block().unwrap();
        let Some(Block::Secrets(secrets)) = reader.next_block().unwrap() else { panic!("no secrets") };
        assert_eq!((secrets.kind_name(), secrets.data), (Some("TLS key log"), &b"CLIENT"[..]));
        assert_eq!(secrets.options.comment().as_deref(), Some("keys"));
        let Some(Block::Journal(journal)) = reader.next_block().unwrap() else { panic!("no entry") };
        let fields: Vec<_> =
            journal.fields().map(|(name, value)| [name, value].map(|text| String::from_utf8_lossy(text).into_owned())).collect();
        assert_eq!(fields, [["__REALTIME_TIMESTAMP", "1700000000000005"], ["MESSAGE", "a\nb"], ["PRIORITY", "6"]]);
        assert_eq!(journal.time_ns(), Some(1_700_000_000_000_005_000));
        let Some(Block::Custom(custom)) = reader.next_block().unwrap() else { panic!("no custom block") };
        assert_eq!((custom.enterprise, custom.copied, custom.data), (32_473, true, &b"data"[..]));
        let Some(Block::Custom(custom)) = reader.next_block().unwrap() else { panic!("no custom block") };
        assert_eq!((custom.enterprise, custom.copied, custom.data), (7, false, &b""[..]));
    }
}

#[test]
fn every_option_of_a_packet_and_an_interface_is_read() {
    for big in [false, true] {
        let number = |value: u32| if big { value.to_be_bytes() } else { value.to_le_bytes() };
        let long = |value: u64| if big { value.to_be_bytes() } else { value.to_le_bytes() };
        let link = words(big, &[if big { 0x0001_0000 } else { 1 }, 0]);
        let declared = [
            link,
            option(big, 2, b"eth0"),
            option(big, 4, &[192, 168, 1, 9, 255, 255, 255, 0]),
            option(big, 5, &[&[0xfe, 0x80][..], &[0; 13], &[1, 64]].concat()),
            option(big, 6, &[2, 0, 0, 0, 0, 0x17]),
            option(big, 7, &[1, 2, 3, 4, 5, 6, 7, 8]),
            option(big, 8, &long(100_000_000)),
            option(big, 11, b"\0port 80"),
            option(big, 12, b"an os"),
            option(big, 13, &[4]),
            option(big, 15, b"a card"),
        ]
        .concat();
        let options = [
            option(big, 1, b"first"),
            option(big, 2, &number(0x0000_0005)),
            option(big, 3, &[2, 0xde, 0xad, 0xbe, 0xef]),
            option(big, 4, &long(9)),
            option(big, 5, &long(77)),
            option(big, 6, &number(3)),
            option(big, 7, &[1, 0, 0, 0, 0, 0, 0, 0, 2]),
            option(big, 1, b"second"),
            option(big, 0, b""),
        ]
        .concat();
        let file = [section(big), block(big, 1, &declared), packet(big, 0, 5, &options)].concat();
        let mut reader = Reader::new(&file[..]);
        reader.next_block().unwrap();
        let Some(Block::Interface(found)) = reader.next_block().unwrap() else { panic!("no interface") };
        let addresses: Vec<String> = found.options.addresses().map(|address| address.to_string()).collect();
        assert_eq!(addresses, ["192.168.1.9/24", "fe80::1/64", "02:00:00:00:00:17", "01:02:03:04:05:06:07:08"]);
        assert_eq!((found.options.speed(), found.options.filter().as_deref()), (Some(100_000_000), Some("port 80")));
        assert_eq!(found.options.interface_os().as_deref(), Some("an os"));
        assert_eq!((found.options.interface_hardware().as_deref(), found.options.fcs_length()), (Some("a card"), Some(4)));
        let Some(Block::Packet(packet)) = reader.next_block().unwrap() else { panic!("no packet") };
        assert_eq!(packet.options.comments().collect::<Vec<_>>(), ["first", "second"]);
        assert_eq!((packet.flags, packet.drop_count, packet.packet_id, packet.queue()), (Some(5), Some(9), Some(77), Some(3)));
        assert_eq!(packet.verdict(), Some(&[1, 0, 0, 0, 0, 0, 0, 0, 2][..]));
        assert_eq!(packet.hash(), Some(&[2, 0xde, 0xad, 0xbe, 0xef][..]));
    }
}

#[test]
fn names_are_listed_by_address() {
    let mut body = option(true, 1, b"\x7f\x00\x00\x01localhost\0home\0");
    body.extend(option(true, 2, &[&[0; 15][..], b"\x01six\0"].concat()));
    body.extend(option(true, 9, b"?"));
    body.extend([0; 4]);
    body.extend(option(true, 1, b"a comment"));
    let file = [section(true), block(true, 4, &body)].concat();
    let mut reader = Reader::new(&file[..]);
    reader.next_block().unwrap();
    let Some(Block::Names(names)) = reader.next_block().unwrap() else { panic!("no names") };
    let listed: Vec<_> = names
        .records
        .iter()
        .map(|record| {
            let names: Vec<_> = record.names().map(|name| String::from_utf8_lossy(name).into_owned()).collect();
            format!("{:?} {}", record.address, names.join(","))
        })
        .collect();
    assert_eq!(listed, ["Some(127.0.0.1) localhost,home", "Some(::1) six", "None "]);
    assert_eq!(names.options.comment().as_deref(), Some("a comment"));
}

#[test]
fn classic_files_of_both_orders_and_units_are_read() {
    for (magic, unit_ns) in [(0xa1b2_c3d4u32, 1_000), (0xa1b2_3c4d, 1)] {
        for big in [false, true] {
            let version = if big { 0x0002_0004 } else { 0x0004_0002 };
            let mut file = words(big, &[magic, version, 0, 0, 100, 1]);
            file.extend(words(big, &[1_700_000_000, 42, 3, 60]));
            file.extend([1, 2, 3]);
            file.extend(words(big, &[1_700_000_001, 0, 0, 0]));
            let summary = summarise(&file);
            assert!(summary.errors.is_empty(), "{:?}", summary.errors);
            assert_eq!(summary.blocks, ["IDB", "Classic", "Classic"]);
            assert_eq!(summary.packets[0].time_ns, Some(1_700_000_000_000_000_000 + 42 * unit_ns));
            assert_eq!(summary.packets[0].data, [1, 2, 3]);
            assert_eq!(summary.packets[0].original_len, 60);

            let cut = summarise(&file[..file.len() - 1]);
            assert_eq!(cut.packets.len(), 1);
            assert!(cut.errors[0].is_truncation());
            assert_eq!(cut.errors[0].offset, 24 + 19);
        }
    }
}

#[test]
fn an_interface_has_link_type_snaplen_and_unit() {
    let file = [section(true), interface(true, 96)].concat();
    let mut reader = Reader::new(&file[..]);
    while reader.next_block().unwrap().is_some() {}
    let info = reader.interface(0).unwrap();
    assert_eq!((info.link_type, info.snaplen), (LinkType::ETHERNET, 96));
    assert_eq!((info.resolution, info.offset_s), (Resolution::MICROSECONDS, 0));
    assert_eq!(reader.interface_count(), 1);
}

#[test]
fn a_truncated_file_yields_its_whole_blocks_and_the_position_of_the_cut() {
    let blocks = [section(false), interface(false, 0), packet(false, 0, 1, &[]), packet(false, 0, 2, &[])];
    let file = blocks.concat();
    let ends: Vec<usize> = blocks
        .iter()
        .scan(0, |end, block| {
            *end += block.len();
            Some(*end)
        })
        .collect();
    for cut in 0..=file.len() {
        let whole = ends.iter().filter(|&&end| end <= cut).count();
        let summary = summarise(&file[..cut]);
        assert_eq!(summary.blocks.len(), whole, "cut at {cut}");
        if ends.contains(&cut) {
            assert!(summary.errors.is_empty(), "cut at {cut}");
        } else {
            let [error] = &summary.errors[..] else { panic!("cut at {cut}: {:?}", summary.errors) };
            assert!(error.is_truncation(), "cut at {cut}: {error}");
            let begin = if whole == 0 { 0 } else { ends[whole - 1] };
            assert_eq!(error.offset, begin as u64, "cut at {cut}");
        }
    }
}

#[test]
fn a_packet_may_be_as_long_as_the_file_has_bytes_for_it() {
    let data: Vec<u8> = (0..64u32 << 20).map(|at| (at / 4096) as u8).collect();
    let length = data.len() as u32;
    let long = [words(false, &[0, 0, 7, length, length]), data.clone()].concat();
    let file = [section(false), interface(false, 0), block(false, 6, &long), packet(false, 0, 8, &[]), block(false, 6, &long)].concat();
    let lengths = |file: &[u8]| summarise(file).packets.iter().map(|packet| packet.data.len()).collect::<Vec<_>>();
    let summary = summarise(&file);
    assert!(summary.errors.is_empty(), "{:?}", summary.errors);
    assert!(summary.packets[0].data == data);
    assert_eq!(lengths(&file), [64 << 20, 3, 64 << 20]);
    // A packet whose header claims that length but whose data is shorter is not returned.
    let cut = summarise(&file[..file.len() - 1]);
    assert!(cut.errors[0].is_truncation() && cut.packets.len() == 2);
    let classic = [words(false, &[0xa1b2_c3d4, 4 << 16 | 2, 0, 0, 0, 1]), words(false, &[1, 0, length, length]), data].concat();
    assert_eq!(lengths(&classic), [64 << 20]);
}

/// The only error of a file that consists of a section header, an interface and `rest`, its
/// position, and the number of packets read.
fn damaged(rest: &[u8]) -> (ErrorKind, u64, usize) {
    let file = [&section(false)[..], &interface(false, 0), rest].concat();
    let mut summary = summarise(&file);
    assert_eq!(summary.errors.len(), 1, "{:?}", summary.errors);
    let error = summary.errors.remove(0);
    (error.kind, error.offset, summary.packets.len())
}

#[test]
fn a_broken_frame_ends_the_reading_with_its_position() {
    const AT: u64 = 48;
    let whole = packet(false, 0, 1, &[]);

    for length in [0, 8, 31, 33, 36 + 2] {
        let mut bad = whole.clone();
        bad[4..8].copy_from_slice(&u32::to_le_bytes(length));
        assert!(matches!(damaged(&bad), (ErrorKind::BlockLength { length: l, .. }, AT, 0) if l == length));
    }
    let mut long = whole.clone();
    long[4..8].copy_from_slice(&(MAX_BLOCK_LEN + 4).to_le_bytes());
    assert!(matches!(damaged(&long), (ErrorKind::BlockTooLong { .. }, AT, 0)));

    let mut mismatch = [whole.clone(), whole.clone()].concat();
    mismatch[32] ^= 4;
    assert!(matches!(damaged(&mismatch), (ErrorKind::LengthMismatch { leading: 36, .. }, AT, 0)));

    let mut order = section(false);
    order[8] = 0;
    assert!(matches!(damaged(&order), (ErrorKind::ByteOrder { .. }, AT, 0)));
    let mut version = section(false);
    version[12] = 2;
    assert!(matches!(damaged(&version), (ErrorKind::Version { major: 2, minor: 0 }, AT, 0)));
}

#[test]
fn a_damaged_block_is_reported_and_the_next_one_read() {
    const AT: u64 = 48;
    let good = packet(false, 0, 1, &[]);
    let with_good = |bad: &[u8]| damaged(&[bad, &good].concat());

    assert!(matches!(with_good(&packet(false, 5, 1, &[])), (ErrorKind::UnknownInterface { interface: 5, declared: 1 }, AT, 1)));
    let mut captured = good.clone();
    captured[20] = 5;
    assert!(matches!(with_good(&captured), (ErrorKind::CapturedLength { captured: 5, room: 4 }, AT, 1)));
    // Options begin after 8 bytes of header, 20 bytes of fixed fields and 4 bytes of data.
    let long_option = [2, 0, 200, 0];
    assert!(matches!(with_good(&packet(false, 0, 1, &long_option)), (ErrorKind::OptionLength { code: 2, length: 200, room: 0 }, 80, 1)));
    let short_flags = option(false, 2, &[1, 0]);
    assert!(matches!(with_good(&packet(false, 0, 1, &short_flags)), (ErrorKind::OptionSize { code: 2, length: 2, expected: 4 }, AT, 1)));
    let record = [1, 0, 9, 0];
    assert!(matches!(with_good(&block(false, 4, &record)), (ErrorKind::NameRecord { length: 9, room: 0 }, 56, 1)));
}

#[test]
fn a_damaged_interface_keeps_its_id_but_not_its_packets() {
    let bad = block(false, 1, &[words(false, &[1, 0]), option(false, 9, &[6, 6])].concat());
    let file = [section(false), bad, interface(false, 0), packet(false, 0, 1, &[]), packet(false, 1, 1, &[])].concat();
    let mut reader = Reader::new(&file[..]);
    let mut errors = Vec::new();
    let mut ids = Vec::new();
    loop {
        match reader.next_block() {
            Ok(Some(Block::Packet(packet))) => ids.push(packet.interface),
            Ok(Some(_)) => {}
            Ok(None) => break,
            Err(error) => errors.push(error.kind),
        }
    }
    assert_eq!(ids, [1]);
    assert!(matches!(errors[..], [ErrorKind::OptionSize { code: 9, .. }, ErrorKind::DamagedInterface { interface: 0 }]));
}

#[test]
fn a_file_of_another_format_is_rejected() {
    let summary = summarise(b"\x7fELF and so on");
    assert!(matches!(summary.errors[0].kind, ErrorKind::NotACapture { magic: 0x7f45_4c46 }));
    assert_eq!(summary.errors[0].to_string(), "at byte 0: neither pcapng nor pcap: the file begins with 0x7f454c46");
    assert!(summarise(b"").errors[0].is_truncation());
}

/// Returns one byte at a time, and records the size of the buffer that it was offered.
struct Trickle<'a> {
    rest: &'a [u8],
    offered: usize,
}

impl std::io::Read for Trickle<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        self.offered = self.offered.max(buffer.len());
        let Some((first, rest)) = self.rest.split_first() else {
            return Ok(0);
        };
        buffer[0] = *first;
        self.rest = rest;
        Ok(1)
    }
}

#[test]
fn a_block_that_claims_to_be_long_takes_only_the_memory_that_the_input_has() {
    let mut claim = packet(false, 0, 1, &[]);
    claim[4..8].copy_from_slice(&MAX_BLOCK_LEN.to_le_bytes());
    let file = [section(false), interface(false, 0), packet(false, 0, 1, &[]), claim].concat();
    let mut input = Trickle { rest: &file, offered: 0 };
    let mut reader = Reader::new(&mut input);
    let mut packets = 0;
    let error = loop {
        match reader.next_block() {
            Ok(Some(Block::Packet(_))) => packets += 1,
            Ok(_) => {}
            Err(error) => break error,
        }
    };
    assert!(matches!(error.kind, ErrorKind::Truncated { need, have: 36 } if need == u64::from(MAX_BLOCK_LEN)));
    assert_eq!(packets, 1);
    assert!(reader.next_block().unwrap().is_none());
    assert!(input.offered <= 128 << 10, "a window of {} bytes for {} of input", input.offered, file.len());
}
