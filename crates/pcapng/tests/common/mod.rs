//! What several tests need: a summary of a file that owns its values, a writer of hand-made blocks, and other tools.
#![allow(dead_code)]

use std::process::Command;

use longpole_pcapng::{Block, Direction, Error, Reader};

/// A packet without borrowed parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    pub section: u32,
    pub interface: u32,
    pub name: Option<String>,
    pub time_ns: Option<i128>,
    pub data: Vec<u8>,
    pub original_len: u32,
    pub direction: Direction,
    pub drop_count: Option<u64>,
    pub packet_id: Option<u64>,
    pub comment: Option<String>,
}

#[derive(Debug, Default)]
pub struct Summary {
    /// Short names of the blocks, in order.
    pub blocks: Vec<String>,
    pub packets: Vec<Seen>,
    /// Per section the names of its interfaces.
    pub interfaces: Vec<Vec<Option<String>>>,
    pub errors: Vec<Error>,
}

/// Reads to the end, going on behind damaged blocks.
pub fn summarise(bytes: &[u8]) -> Summary {
    let mut reader = Reader::new(bytes);
    let mut summary = Summary::default();
    loop {
        match reader.next_block() {
            Ok(None) => return summary,
            Ok(Some(block)) => add(&mut summary, &block),
            Err(error) => summary.errors.push(error),
        }
    }
}

fn add(summary: &mut Summary, block: &Block<'_>) {
    let name = match block {
        Block::Section(_) => {
            summary.interfaces.push(Vec::new());
            "SHB".to_owned()
        }
        Block::Interface(interface) => {
            if summary.interfaces.is_empty() {
                summary.interfaces.push(Vec::new());
            }
            let names = summary.interfaces.last_mut().unwrap();
            // Damaged declarations keep their ids.
            names.resize(interface.id as usize, None);
            names.push(interface.info.name.clone());
            "IDB".to_owned()
        }
        Block::Packet(packet) => {
            summary.packets.push(Seen {
                section: packet.section,
                interface: packet.interface,
                name: packet.info.name.clone(),
                time_ns: packet.time_ns(),
                data: packet.data.to_vec(),
                original_len: packet.original_len,
                direction: packet.direction(),
                drop_count: packet.drop_count,
                packet_id: packet.packet_id,
                comment: packet.options.comment(),
            });
            format!("{:?}", packet.form)
        }
        Block::Statistics(_) => "ISB".to_owned(),
        Block::Names(_) => "NRB".to_owned(),
        Block::Raw(raw) => format!("{:#x}", raw.block_type),
        _ => "?".to_owned(),
    };
    summary.blocks.push(name);
}

/// A whole block of `body` (a multiple of 4 bytes) in either byte order.
pub fn block(big: bool, block_type: u32, body: &[u8]) -> Vec<u8> {
    let word = |value: u32| {
        if big {
            value.to_be_bytes()
        } else {
            value.to_le_bytes()
        }
    };
    let length = word(body.len() as u32 + 12);
    [&word(block_type)[..], &length, body, &length].concat()
}

pub fn words(big: bool, values: &[u32]) -> Vec<u8> {
    values.iter().flat_map(|value| if big { value.to_be_bytes() } else { value.to_le_bytes() }).collect()
}

/// A section header without options.
pub fn section(big: bool) -> Vec<u8> {
    // The version is two half words: 1, 0.
    let version = if big { 0x0001_0000 } else { 0x0000_0001 };
    block(big, 0x0a0d_0d0a, &words(big, &[0x1a2b_3c4d, version, u32::MAX, u32::MAX]))
}

/// An Ethernet interface without options.
pub fn interface(big: bool, snaplen: u32) -> Vec<u8> {
    let link = if big { 0x0001_0000 } else { 0x0000_0001 };
    block(big, 1, &words(big, &[link, snaplen]))
}

/// The program's output; none, after saying so, if it is not installed.
pub fn run(what: &str, program: &str, arguments: &[&str]) -> Option<String> {
    match Command::new(program).args(arguments).output() {
        Ok(output) => {
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            assert!(output.status.success(), "{program} {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
            Some(text)
        }
        Err(_) => {
            println!("skipped: {what} ({program} is not installed)");
            None
        }
    }
}
