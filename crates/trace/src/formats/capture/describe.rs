//! The description of a capture other than its packets: the program and host that captured it, its
//! interfaces, statistics, names and other blocks.

use super::{diagnostic, interface_name, open, Capture};
use crate::diagnostic::{Diagnostic, MAX_ERRORS};
use crate::error::Error;
use crate::merge::out_of_range::nearest;
use longpole_pcapng::{Block, InterfaceBlock, NamesBlock, Options, PacketBlock, PacketForm, Resolution, SectionBlock, StatisticsBlock};
use std::collections::BTreeMap;

/// Maximum number of entries of each list, because a file may have millions.
const MAX_ENTRIES: usize = 1000;

/// Description of a capture. `more` counts the entries that did not fit into the lists.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Description {
    /// `pcapng` or `pcap`.
    pub format: &'static str,
    /// Number of sections.
    pub sections: u64,
    /// Hardware of the sections, without duplicates.
    pub hardware: Vec<String>,
    /// Operating systems of the sections, without duplicates.
    pub os: Vec<String>,
    /// Programs that wrote the sections, without duplicates.
    pub application: Vec<String>,
    pub interfaces: Vec<CaptureInterface>,
    /// Comments of sections, interfaces, statistics, names and secrets. Comments of packets are
    /// fields of the packets' events.
    pub comments: Vec<String>,
    /// Number of comments of packets.
    pub packet_comments: u64,
    /// Addresses with their names.
    pub names: Vec<(String, Vec<String>)>,
    /// Kinds of secrets for decryption, with their counts.
    pub secrets: BTreeMap<String, u64>,
    /// Number of entries of the systemd journal.
    pub journal_entries: u64,
    /// Custom blocks, counted by private enterprise number.
    pub custom: BTreeMap<u32, u64>,
    /// Unknown blocks, counted by type.
    pub unknown: BTreeMap<u32, u64>,
    /// Number of entries that these lists leave out.
    pub more: u64,
}

/// An interface of a section.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CaptureInterface {
    /// Index of the section, from 0.
    pub section: u32,
    /// Number of the interface in its section.
    pub id: u32,
    pub name: String,
    pub description: Option<String>,
    /// Link type: a number from tcpdump.org/linktypes.html.
    pub link_type: u16,
    /// Maximum number of bytes that are stored of a packet; 0 means no limit.
    pub snaplen: u32,
    /// Unit of the interface's times, such as `10^-9 s`.
    pub resolution: String,
    /// Seconds to be added to the interface's times.
    pub offset_s: i64,
    pub addresses: Vec<String>,
    pub speed_bps: Option<u64>,
    /// Filter with which packets were captured.
    pub filter: Option<String>,
    pub os: Option<String>,
    pub hardware: Option<String>,
    /// Number of packets in the file.
    pub packets: u64,
    /// The interface's last statistics.
    pub statistics: Option<Counted>,
}

/// Packet counts since the begin of the capture, as counted by the interface, the filter and the
/// operating system.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    pub t_ns: i64,
    /// Packets that the interface received.
    pub received: Option<u64>,
    /// Packets that the interface dropped.
    pub dropped: Option<u64>,
    /// Packets that the filter accepted.
    pub accepted: Option<u64>,
    /// Packets that the operating system dropped after the filter.
    pub os_dropped: Option<u64>,
    /// Packets that were delivered to the capturing program.
    pub delivered: Option<u64>,
}

impl Description {
    fn room<T>(&mut self, list: impl FnOnce(&mut Description) -> &mut Vec<T>, entry: T) {
        let list = list(self);
        if list.len() < MAX_ENTRIES {
            list.push(entry);
        } else {
            self.more += 1;
        }
    }

    fn once(&mut self, list: impl Fn(&mut Description) -> &mut Vec<String>, text: Option<String>) {
        let Some(text) = text.filter(|text| !text.is_empty()) else { return };
        if !list(self).contains(&text) {
            self.room(list, text);
        }
    }

    fn comments(&mut self, options: &Options<'_>) {
        options.comments().for_each(|comment| self.room(|all| &mut all.comments, comment));
    }

    fn count<K: Ord>(&mut self, list: impl FnOnce(&mut Description) -> &mut BTreeMap<K, u64>, key: K) {
        let list = list(self);
        if list.len() < MAX_ENTRIES || list.contains_key(&key) {
            *list.entry(key).or_default() += 1;
        } else {
            self.more += 1;
        }
    }

    fn add_section(&mut self, block: &SectionBlock<'_>) {
        (self.format, self.sections) = ("pcapng", self.sections + 1);
        self.once(|all| &mut all.hardware, block.hardware());
        self.once(|all| &mut all.os, block.os());
        self.once(|all| &mut all.application, block.application());
        self.comments(&block.options);
    }

    fn add_interface(&mut self, block: &InterfaceBlock<'_>) {
        let (info, options) = (block.info, &block.options);
        let interface = CaptureInterface {
            section: block.section,
            id: block.id,
            name: interface_name(info, block.id),
            description: info.description.clone(),
            link_type: info.link_type.0,
            snaplen: info.snaplen,
            resolution: unit(info.resolution),
            offset_s: info.offset_s,
            addresses: options.addresses().map(|address| address.to_string()).take(MAX_ENTRIES).collect(),
            speed_bps: options.speed(),
            filter: options.filter(),
            os: options.interface_os(),
            hardware: options.interface_hardware(),
            ..CaptureInterface::default()
        };
        self.comments(options);
        self.room(|all| &mut all.interfaces, interface);
    }

    fn add_packet(&mut self, packet: &PacketBlock<'_>, current: &CurrentSection) {
        self.packet_comments += packet.options.comments().count() as u64;
        if packet.form == PacketForm::Classic || packet.section == current.number {
            if let Some(interface) = of(&mut self.interfaces[current.first..], packet.interface) {
                interface.packets += 1;
            }
        }
    }

    fn add_statistics(&mut self, block: &StatisticsBlock<'_>, current: &CurrentSection) {
        self.comments(&block.options);
        if let Some(interface) = of(&mut self.interfaces[current.first..], block.interface) {
            interface.statistics = Some(Counted {
                t_ns: nearest(block.time_ns()),
                received: block.received,
                dropped: block.dropped,
                accepted: block.accepted,
                os_dropped: block.os_dropped,
                delivered: block.delivered,
            });
        }
    }

    fn add_names(&mut self, block: &NamesBlock<'_>) {
        for record in block.records.iter() {
            let Some(address) = record.address else { continue };
            let names = record.names().map(|name| String::from_utf8_lossy(name).into_owned()).take(MAX_ENTRIES).collect();
            self.room(|all| &mut all.names, (address.to_string(), names));
        }
        self.comments(&block.options);
    }
}

/// The section to which the next blocks belong.
struct CurrentSection {
    number: u32,
    /// Index in the list of interfaces of the section's first one.
    first: usize,
}

fn unit(resolution: Resolution) -> String {
    match resolution {
        Resolution::Decimal(exponent) => format!("10^-{exponent} s"),
        Resolution::Binary(exponent) => format!("2^-{exponent} s"),
    }
}

impl Capture {
    /// Reads the whole file. If it is truncated or damaged, describes the part before the damage
    /// and reports it.
    pub fn describe(&self) -> Result<(Description, Vec<Diagnostic>), Error> {
        let mut reader = open(&self.path)?;
        let mut all = Description { format: "pcap", ..Description::default() };
        let mut diagnostics = Vec::new();
        let mut current = CurrentSection { number: 0, first: 0 };
        loop {
            match reader.next_block() {
                Ok(None) => break,
                Ok(Some(Block::Section(block))) => {
                    current = CurrentSection { number: block.section, first: all.interfaces.len() };
                    all.add_section(&block);
                }
                Ok(Some(Block::Interface(block))) => all.add_interface(&block),
                Ok(Some(Block::Packet(packet))) => all.add_packet(&packet, &current),
                Ok(Some(Block::Statistics(block))) => all.add_statistics(&block, &current),
                Ok(Some(Block::Names(block))) => all.add_names(&block),
                Ok(Some(Block::Secrets(block))) => {
                    let kind = block.kind_name().map_or_else(|| format!("{:#010x}", block.kind), str::to_owned);
                    all.count(|all| &mut all.secrets, kind);
                    all.comments(&block.options);
                }
                Ok(Some(Block::Journal(_))) => all.journal_entries += 1,
                Ok(Some(Block::Custom(block))) => all.count(|all| &mut all.custom, block.enterprise),
                Ok(Some(Block::Raw(block))) => all.count(|all| &mut all.unknown, block.block_type),
                Ok(Some(_)) => {}
                Err(error) => {
                    if diagnostics.len() < MAX_ERRORS as usize {
                        diagnostics.push(diagnostic(&self.path, &error));
                    }
                    if !error.is_recoverable() {
                        break;
                    }
                }
            }
        }
        Ok((all, diagnostics))
    }
}

/// Returns an interface by id. The interfaces of a section are in the order of their ids; damaged
/// ones are missing.
fn of(interfaces: &mut [CaptureInterface], id: u32) -> Option<&mut CaptureInterface> {
    let at = interfaces.binary_search_by_key(&id, |interface| interface.id).ok()?;
    interfaces.get_mut(at)
}
