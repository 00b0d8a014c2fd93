//! Rows of packets: each packet is a short state, and has a number by which it is found again.
//!
//! The states of a row cannot overlap, but packets in flight do. A state therefore ends with its
//! packet, and begins with it or just after the end of the packet before it. A packet of which only
//! one moment is known has a state of one nanosecond; packets at one moment follow each other.

use super::rows::RowKind;
use super::state_names::{StateClass, StateId};
use super::store::{RowId, StateInterval, ValueStep};
use super::Timeline;
use std::io;

/// Number of packets for which the timeline is locked at once.
const PACKETS_AT_ONCE: usize = 4096;

/// A row for the packets of one flow or conversation.
pub struct PacketRow<'a> {
    /// `Flow` or `Captured`.
    pub kind: RowKind,
    /// Title of the group; rows of one title are in one group.
    pub group: &'a str,
    pub name: &'a str,
    pub detail: String,
    /// The states that [`PacketMark::state`] refers to.
    pub states: Vec<(String, StateClass)>,
}

/// A packet of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketMark {
    pub begin_ns: i64,
    pub end_ns: i64,
    /// Index of its state.
    pub state: usize,
    /// Number by which the packet is found again, below 2^53.
    pub number: u64,
}

/// A packet at a moment of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketAt {
    pub kind: RowKind,
    pub number: u64,
    /// Begin and end of its state, in ns since the begin of the timeline.
    pub begin: u64,
    pub end: u64,
}

impl Timeline {
    /// Adds a row of packets, which may be in any order.
    pub fn add_packets(&self, series: &PacketRow<'_>, mut packets: Vec<PacketMark>) {
        packets.sort_by_key(|packet| (packet.end_ns, packet.begin_ns, packet.number));
        let (row, numbers) = self.write().add_packet_row(series);
        let mut states: Vec<Option<StateId>> = vec![None; series.states.len()];
        let mut last = 0;
        for packets in packets.chunks(PACKETS_AT_ONCE) {
            let mut content = self.write();
            let (origin, length) = (content.begin, content.end - content.begin);
            let since = |t_ns: i64| u64::try_from(t_ns).unwrap_or(0).saturating_sub(origin);
            for packet in packets {
                let Some((name, class)) = series.states.get(packet.state) else { continue };
                let state = *states[packet.state].get_or_insert_with(|| content.names.intern(name, *class));
                // A gap keeps equal neighbours apart. Of many packets at the end of the trace, the
                // last ones have no room.
                if since(packet.begin_ns) > length || last + 2 > length {
                    continue;
                }
                let end = since(packet.end_ns).min(length).max(last + 2);
                let begin = since(packet.begin_ns).clamp(last + 1, end - 1);
                last = end;
                content.store.push(row, StateInterval { begin, end, state });
                content.store.push_value(numbers, ValueStep { begin, end, value: packet.number as f64 });
            }
        }
        self.write().version += 1;
    }

    /// Returns the row of the thread with this id at a moment. An id is used again, and a thread
    /// that executes another program has another row.
    pub fn thread_row(&self, tid: i32, t: u64) -> Option<RowId> {
        let content = self.read();
        let mut rows: Vec<RowId> = content.rows.iter().filter(|row| row.tid == Some(tid)).map(|row| row.id).collect();
        rows.sort_unstable();
        let has_state = |row: &&RowId| content.store.count_at_most(**row, t, t.saturating_add(1), 0) > 0;
        rows.iter().find(has_state).or(rows.first()).copied()
    }

    /// Returns the row of the interrupt that has this name on a CPU.
    pub fn interrupt_row(&self, name: &str, cpu: u32) -> Option<RowId> {
        let of_cpu = longpole_model::causes::context_name(name, cpu);
        let content = self.read();
        let mut rows = content.rows.iter().filter(|row| row.kind == RowKind::Interrupt && row.name == of_cpu);
        rows.next().map(|row| row.id)
    }

    /// Returns the packet whose state is at this moment of a row.
    ///
    /// # Errors
    ///
    /// If the file of the timeline cannot be read.
    pub fn packet_at(&self, row: RowId, t: u64) -> io::Result<Option<PacketAt>> {
        let content = self.read();
        let (Some(numbers), Some(kind)) = (content.rows.numbers(row), content.rows.kind(row)) else { return Ok(None) };
        let (steps, _) = super::value_bins::first_steps(&content.store, numbers, (t, t.saturating_add(1)), 1)?;
        Ok(steps.first().map(|step| PacketAt { kind, number: step.value as u64, begin: step.begin, end: step.end }))
    }
}

impl super::Content {
    fn add_packet_row(&mut self, series: &PacketRow<'_>) -> (RowId, RowId) {
        let group = self.packet_groups.get(series.group).copied().unwrap_or_else(|| {
            let group = self.rows.titled_group(&mut self.store, RowKind::Packets, series.group, "");
            self.packet_groups.insert(series.group.to_owned(), group);
            group
        });
        self.rows.add_packets(&mut self.store, series.kind, (series.name, &series.detail), group)
    }
}
