//! Shared by several tests: a summary of a file, and calls of other tools.

use std::process::Command;

use longpole_pcapng::{Block, Direction, Error, Reader};

/// A packet that owns its data.
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
    /// Names of the interfaces of each section.
    pub interfaces: Vec<Vec<Option<String>>>,
    pub errors: Vec<Error>,
}

/// Reads to the end, and continues after damaged blocks.
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
        Block::Custom(custom) if custom.copied => "0xbad".to_owned(),
        Block::Custom(_) => "0x40000bad".to_owned(),
        Block::Secrets(_) => "DSB".to_owned(),
        Block::Journal(_) => "Journal".to_owned(),
        Block::Raw(raw) => format!("{:#x}", raw.block_type),
        _ => "?".to_owned(),
    };
    summary.blocks.push(name);
}

/// The output of a program; `None` if it is not installed, which is reported.
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
