//! Cross-check with Wireshark's tools: they read the files that we write, and we read the files
//! that they read.

use std::path::{Path, PathBuf};

use crate::common::{run, summarise, Summary};
use longpole_pcapng::{Block, ByteOrder, Direction, Interface, Packet, PacketForm, Reader, Section, Statistics, Writer};

const FIELDS: [&str; 9] = [
    "-Tfields",
    "-eframe.number",
    "-eframe.time_epoch",
    "-eframe.len",
    "-eframe.cap_len",
    "-eframe.interface_name",
    "-eframe.interface_id",
    "-eframe.packet_flags_direction",
    "-eframe.comment",
];

/// The rows that tshark prints for a file.
fn tshark(what: &str, file: &Path) -> Option<Vec<Vec<String>>> {
    let file = file.to_str().unwrap();
    let text = run(what, "tshark", &[&["-n", "-r", file][..], &FIELDS].concat())?;
    Some(text.lines().map(|line| line.split('\t').map(str::to_owned).collect()).collect())
}

fn epoch(time_ns: i128) -> String {
    format!("{}.{:09}", time_ns / 1_000_000_000, time_ns % 1_000_000_000)
}

#[test]
fn tshark_and_capinfos_read_names_directions_lengths_and_times_of_our_file() {
    const BEGIN: u64 = 1_700_000_000_123_456_789;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ours.pcapng");
    let section = Section { hardware: "x86_64", os: "Linux 6", application: "the test", comment: "" };
    let mut writer = Writer::new(std::fs::File::create(&path).unwrap(), &section).unwrap();
    let left = writer.add_interface(&Interface::ethernet("left side", 100)).unwrap();
    let frame = [0x5a; 1514];
    let inbound = Packet { direction: Direction::Inbound, comment: Some("first"), packet_id: Some(1), ..Packet::new(left, BEGIN, &frame) };
    writer.packet(&inbound).unwrap();
    let right = writer.add_interface(&Interface::ethernet("right", 64)).unwrap();
    writer
        .packet(&Packet {
            direction: Direction::Outbound,
            drop_count: Some(7),
            packet_id: Some(1),
            ..Packet::new(right, BEGIN + 1, &frame)
        })
        .unwrap();
    writer.packet(&Packet::new(left, BEGIN + 2, &frame[..61])).unwrap();
    for (id, received) in [(left, 2), (right, 8)] {
        let counts = Statistics {
            start_ns: Some(BEGIN),
            end_ns: Some(BEGIN + 2),
            received: Some(received),
            dropped: Some(received / 8 * 7),
            delivered: Some(received - received / 8 * 7),
            ..Statistics::new(id, BEGIN + 3)
        };
        writer.statistics(&counts).unwrap();
    }
    drop(writer);

    let Some(rows) = tshark("our file through tshark", &path) else {
        return;
    };
    assert_eq!(
        rows,
        [
            ["1", "1700000000.123456789", "1514", "100", "left side", "0", "0x00000001", "first"],
            ["2", "1700000000.123456790", "1514", "64", "right", "1", "0x00000002", ""],
            ["3", "1700000000.123456791", "61", "61", "left side", "0", "", ""],
        ]
    );

    let Some(infos) = run("our file through capinfos", "capinfos", &["-M", path.to_str().unwrap()]) else {
        return;
    };
    for expected in [
        "Number of packets:   3",
        "Number of interfaces in file: 2",
        "Name = left side",
        "Name = right",
        "Capture application: the test",
        "Capture oper-sys:    Linux 6",
        "Capture hardware:    x86_64",
        "Time precision = nanoseconds (9)",
        "Number of stat entries = 1",
    ] {
        assert!(infos.contains(expected), "capinfos does not say {expected:?}:\n{infos}");
    }
}

fn captures(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            captures(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "pcapng") {
            found.push(path);
        }
    }
}

/// The directory of corpora, if there is one.
fn corpora(what: &str) -> Option<PathBuf> {
    let folder = std::env::var_os("LONGPOLE_CORPORA").map(PathBuf::from);
    if folder.is_none() {
        println!("not at hand: traces of other tools (LONGPOLE_CORPORA): {what}");
    }
    folder
}

#[test]
fn the_corpus_is_read_block_by_block_as_described() {
    let Some(corpora) = corpora("the block sequences of the pcapng corpus") else {
        return;
    };
    let mut files = Vec::new();
    captures(&corpora.join("pcapng"), &mut files);
    assert!(!files.is_empty());
    for path in files {
        let description = std::fs::read_to_string(path.with_extension("txt")).unwrap();
        let sequence = description.lines().find_map(|line| line.strip_prefix("Block sequence: ")).unwrap();
        let summary = summarise(&std::fs::read(&path).unwrap());
        assert!(summary.errors.is_empty(), "{}: {:?}", path.display(), summary.errors);
        let ours: Vec<&str> = summary.blocks.iter().map(|block| described(block)).collect();
        assert_eq!(ours.join(", "), sequence, "{}", path.display());
    }
}

/// The name of a block in the descriptions of the corpus.
fn described(block: &str) -> &str {
    match block {
        "Enhanced" => "EPB",
        "Simple" => "SPB",
        "Obsolete" => "PB",
        "0xbad" => "CB",
        "0x40000bad" => "DCB",
        other => other,
    }
}

#[test]
fn packets_of_the_corpus_have_the_lengths_times_interfaces_and_comments_of_tshark() {
    let Some(corpora) = corpora("the pcapng corpus next to tshark") else {
        return;
    };
    let mut files = vec![corpora.join("genode/a.pcapng")];
    captures(&corpora.join("pcapng"), &mut files);
    assert!(files.len() > 40);
    for path in files {
        let summary = summarise(&std::fs::read(&path).unwrap());
        assert!(summary.errors.is_empty(), "{}: {:?}", path.display(), summary.errors);
        // The same captures exist in the other byte order.
        let twin = path.to_str().unwrap().replace("output_le", "output_be");
        let twin = summarise(&std::fs::read(twin).unwrap());
        assert_eq!((&twin.packets, &twin.interfaces), (&summary.packets, &summary.interfaces), "{}", path.display());
        let Some(rows) = tshark("the pcapng corpus next to tshark", &path) else {
            return;
        };
        compare(&path, &summary, &rows);
    }
}

/// Rows without an interface are custom blocks, which tshark counts as frames, unlike this crate.
fn compare(path: &Path, summary: &Summary, rows: &[Vec<String>]) {
    let rows: Vec<_> = rows.iter().filter(|row| !row[5].is_empty() && !row[4].is_empty()).collect();
    assert_eq!(summary.packets.len(), rows.len(), "{}", path.display());
    for (packet, row) in summary.packets.iter().zip(rows) {
        let at = format!("{}, frame {}", path.display(), row[0]);
        assert_eq!(packet.time_ns.map(epoch).unwrap_or_default(), row[1], "{at}");
        assert_eq!(packet.original_len.to_string(), row[2], "{at}");
        assert_eq!(packet.data.len().to_string(), row[3], "{at}");
        assert_eq!(shown(packet.comment.as_deref().unwrap_or_default()), row[7], "{at}");
        // tshark 4.0 looks up the interface ids of later sections in the first one.
        if packet.section == 0 {
            assert_eq!(packet.interface.to_string(), row[5], "{at}");
            assert_eq!(shown(packet.name.as_deref().unwrap_or("unknown")), row[4], "{at}");
        }
    }
}

/// tshark escapes line feeds.
fn shown(text: &str) -> String {
    text.replace('\r', "\\r").replace('\n', "\\n")
}

/// Fields of tshark's dissector for the file itself: type and length of each block, comments,
/// interface ids, lengths, names.
const BLOCKS: [&str; 7] = [
    "pcapng.block.type",
    "pcapng.block.length",
    "pcapng.options.option.data.comment",
    "pcapng.interface_id",
    "pcapng.packet.captured_length",
    "pcapng.packet.packet_length",
    "pcapng.options.option.data.interface.name",
];

fn dissected(path: &Path) -> Option<Vec<Vec<String>>> {
    let mut arguments = vec!["-n", "-r", path.to_str().unwrap(), "-X", "read_format:MIME Files Format", "-Tfields", "-Eaggregator=\x7f"];
    BLOCKS.iter().for_each(|field| arguments.extend(["-e", field]));
    let text = run("the blocks of the pcapng corpus next to tshark", "tshark", &arguments)?;
    let lists = text.trim_end_matches('\n').split('\t');
    // tshark also lists missing comments, as empty texts.
    Some(lists.map(|list| list.split('\x7f').filter(|text| !text.is_empty()).map(str::to_owned).collect()).collect())
}

/// The same lists from our reader.
fn ours(path: &Path) -> Vec<Vec<String>> {
    let bytes = std::fs::read(path).unwrap();
    let mut reader = Reader::new(&bytes[..]);
    let mut lists = vec![Vec::new(); BLOCKS.len()];
    let mut begins = Vec::new();
    let mut order = ByteOrder::Little;
    loop {
        let comments: Vec<String>;
        let Some(block) = reader.next_block().unwrap_or_else(|error| panic!("{}: {error}", path.display())) else { break };
        match &block {
            Block::Section(section) => {
                order = section.order;
                comments = section.options.comments().collect();
            }
            Block::Interface(interface) => {
                lists[6].extend(interface.info.name.clone());
                comments = interface.options.comments().collect();
            }
            Block::Packet(packet) => {
                if packet.form != PacketForm::Simple {
                    lists[3].push(packet.interface.to_string());
                }
                lists[4].push(packet.data.len().to_string());
                lists[5].push(packet.original_len.to_string());
                comments = packet.options.comments().collect();
            }
            Block::Statistics(statistics) => {
                lists[3].push(statistics.interface.to_string());
                comments = statistics.options.comments().collect();
            }
            Block::Names(names) => comments = names.options.comments().collect(),
            _ => comments = Vec::new(),
        }
        lists[2].extend(comments);
        begins.push((reader.offset() as usize, order));
    }
    for (at, order) in begins.iter().map(|(at, order)| (*at, *order)) {
        let word = |at: usize| {
            let raw = bytes[at..at + 4].try_into().unwrap();
            if order == ByteOrder::Big {
                u32::from_be_bytes(raw)
            } else {
                u32::from_le_bytes(raw)
            }
        };
        lists[0].push(format!("{:#010x}", word(at)));
        lists[1].push(word(at + 4).to_string());
    }
    lists.iter().map(|list| list.iter().filter(|text| !text.is_empty()).map(|text| shown(text)).collect()).collect()
}

#[test]
fn blocks_of_the_corpus_have_the_lengths_interfaces_names_and_comments_of_tshark() {
    let Some(corpora) = corpora("the blocks of the pcapng corpus") else {
        return;
    };
    let mut files = vec![corpora.join("genode/a.pcapng")];
    captures(&corpora.join("pcapng"), &mut files);
    assert!(files.len() > 40);
    for path in files {
        let Some(theirs) = dissected(&path) else {
            return;
        };
        let ours = ours(&path);
        // tshark 4.0 does not continue after a section of the other byte order.
        let follows = theirs[0].len() < ours[0].len();
        for ((theirs, ours), field) in theirs.iter().zip(&ours).zip(BLOCKS) {
            let ours = if follows { &ours[..theirs.len().min(ours.len())] } else { &ours[..] };
            assert_eq!(theirs, ours, "{}: {field}", path.display());
        }
        assert!(!follows || path.ends_with("difficult/test202.pcapng"), "{}", path.display());
    }
}

#[test]
fn the_names_of_swapped_interface_ids_follow_the_section() {
    let Some(corpora) = corpora("swapped interface ids") else {
        return;
    };
    let summary = summarise(&std::fs::read(corpora.join("genode/a.pcapng")).unwrap());
    let names: Vec<_> = summary.packets.iter().map(|packet| packet.name.as_deref().unwrap()).collect();
    assert_eq!(names, ["sender_in", "receiver_out", "receiver_out", "sender_in"]);
}
