//! Reads what the kernel's events of a trace show about packets, in one pass.

use crate::input::Input;
use crate::passes::kernel::{self, Reading};
use longpole_analysis::network::counters::Counted;
use longpole_analysis::network::packet_paths::{PacketPaths, Wanted};
use longpole_analysis::network::packets::Packets;
use longpole_trace::recording_at;
use longpole_trace::Catalogue;
use longpole_trace::Item;
use longpole_trace::Kallsyms;
use longpole_trace::Recording;
use std::path::PathBuf;

pub struct Kernel {
    pub reading: Reading,
    pub packet_paths: PacketPaths,
    /// Packet counters of the kernel; `None` if the recording has none.
    pub counted: Option<Counted>,
    symbols: Kallsyms,
}

impl Kernel {
    /// Reads the trace. `other` also receives every item of the requested part.
    pub fn read(
        input: &Input,
        paths: &[PathBuf],
        wanted: Option<Wanted>,
        other: impl FnMut(&Catalogue, &Item<'_>),
    ) -> anyhow::Result<Kernel> {
        let mut packet_paths = PacketPaths::new(wanted);
        // Counters cover the whole recording, so they cannot be compared with a part of it.
        let counted = if input.begin.is_none() && input.end.is_none() { counted(paths) } else { None };
        packet_paths.losses.watch = counted.as_ref().map(Counted::watch);
        let reading = kernel::read(input, &mut packet_paths, other)?;
        Ok(Kernel { counted, ..Kernel::of(reading, packet_paths, paths) })
    }

    /// Makes the answer's source after the trace's last item.
    pub fn of(reading: Reading, mut packet_paths: PacketPaths, paths: &[PathBuf]) -> Kernel {
        packet_paths.finish();
        let locations = packet_paths.losses.locations();
        let symbols = kernel::symbols(paths, &locations.into_iter().collect::<Vec<_>>());
        Kernel { reading, packet_paths, counted: None, symbols }
    }

    pub fn has_packets(&self) -> bool {
        self.reading.linux.counts.hops.in_range > 0
    }

    /// Calls `ask` with the packets and the symbols for their addresses.
    pub fn packets<T>(&self, ask: impl FnOnce(&Packets<'_>) -> T) -> T {
        let symbol = |address| self.symbols.name(address);
        ask(&Packets { packet_paths: &self.packet_paths, linux: &self.reading.linux, symbol: &symbol })
    }
}

/// Returns the counters of the one recording with kernel events. An invalid description is reported
/// when the recording is opened.
fn counted(paths: &[PathBuf]) -> Option<Counted> {
    let said = |path: &PathBuf| Recording::read(&recording_at(path)?).ok()??.kernel_events;
    paths.iter().find_map(said).and_then(|said| Counted::read(&said.counters))
}
