//! A log of all packets by flow, from which a timeline gets its rows of packets.

use super::in_flight::End;
use super::packet_paths::FlowKey;
use crate::stats::value_log::{LogFile, ValueLog};
use std::collections::BTreeMap;
use std::io;

/// Largest number of flows with a log of their own; further ones share one.
const MAX_FLOWS: usize = 1024;

/// Largest time in flight in ns that is kept; a number with the end must be a whole one as `f64`.
const MAX_NS: u64 = 1 << 48;
const ENDS: u64 = End::ALL.len() as u64;

/// The packets of each flow.
#[derive(Debug, Default)]
pub struct PacketLog {
    file: LogFile,
    /// Each packet is two values: its end with its time in flight, and its number.
    flows: BTreeMap<FlowKey, ValueLog>,
    others: Option<ValueLog>,
}

/// A packet whose path has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoggedPacket {
    /// Number of its path ([`super::in_flight::PacketPath::number`]).
    pub number: u64,
    pub begin_ns: i64,
    pub end_ns: i64,
    pub end: End,
}

impl PacketLog {
    pub fn record(&mut self, flow: FlowKey, packet: LoggedPacket) {
        let ns = packet.end_ns.saturating_sub(packet.begin_ns).max(0) as u64;
        let value = (ns.min(MAX_NS) * ENDS + packet.end as u64) as f64;
        let PacketLog { file, flows, others } = self;
        let new = || ValueLog::new(file.clone());
        let log = match flows.len() < MAX_FLOWS || flows.contains_key(&flow) {
            true => flows.entry(flow).or_insert_with(new),
            false => others.get_or_insert_with(new),
        };
        log.record(packet.end_ns, value);
        log.record(packet.end_ns, packet.number as f64);
    }

    /// Returns the flows with their numbers of packets; `None` for all that have no log of their
    /// own.
    pub fn flows(&self) -> impl Iterator<Item = (Option<FlowKey>, u64)> + '_ {
        let own = self.flows.iter().map(|(key, log)| (Some(*key), log.count() / 2));
        own.chain(self.others.iter().map(|log| (None, log.count() / 2)))
    }

    /// Passes the packets of a flow, in the order in which their ends became known.
    ///
    /// # Errors
    ///
    /// If the file of the log cannot be read.
    pub fn each(&self, flow: Option<FlowKey>, mut visit: impl FnMut(LoggedPacket)) -> io::Result<()> {
        let log = flow.map_or(self.others.as_ref(), |flow| self.flows.get(&flow));
        let mut packet = None;
        log.map_or(Ok(()), |log| {
            log.each(|end_ns, value| {
                let value = value as u64;
                match packet.take() {
                    None => packet = Some(value),
                    Some(packet) => {
                        let begin_ns = end_ns.saturating_sub((packet / ENDS) as i64);
                        visit(LoggedPacket { number: value, begin_ns, end_ns, end: End::ALL[(packet % ENDS) as usize] });
                    }
                }
            })
        })
    }
}
