//! Checks of statements that packets make about themselves and their predecessors in the file.
//!
//! A contradiction, such as a packet that ends before it begins, is no damage, because all events
//! are there. But an analysis of times or losses must know of it. Contradictions are counted by
//! kind and reported once per file, with the place of the first.

use crate::diagnostic::{Contradiction, Diagnostic, PacketPosition};
use crate::event::Subject;
use crate::merge::out_of_range::is_saturated;
use crate::shared::Shared;
use longpole_ctf::Packet;
use std::path::Path;

/// Maximum number of streams of one file that are distinguished. Packets of further streams are not
/// checked for overlap.
const MAX_STREAMS: usize = 64;
/// First and last time that is not a result of saturation.
const MIN_TIME: i64 = i64::MIN + 1;
const MAX_TIME: i64 = i64::MAX - 1;

pub(crate) struct PacketChecks {
    /// Range of the current packet, in which its events must lie. It is unlimited if the packet
    /// does not state one.
    begin_ns: i64,
    length_ns: u64,
    ends: Vec<End>,
    /// Last sequence number, by stream class.
    sequences: Vec<Option<u64>>,
    found: Vec<(Contradiction, u64, PacketPosition)>,
}

/// Latest end of the packets of one stream. Packets of different threads or CPUs in one file may
/// overlap.
struct End {
    class: usize,
    instance: Option<u64>,
    cpu: Option<u64>,
    subject: Subject,
    end_ns: i64,
}

impl Default for PacketChecks {
    fn default() -> PacketChecks {
        let mut checks = PacketChecks { begin_ns: 0, length_ns: 0, ends: Vec::new(), sequences: Vec::new(), found: Vec::new() };
        checks.between(MIN_TIME, MAX_TIME);
        checks
    }
}

impl PacketChecks {
    /// Enters a packet whose events follow.
    pub fn enter(&mut self, packet: &Packet) {
        let (begin_ns, end_ns) = (packet.begin_ns.unwrap_or(i64::MIN).max(MIN_TIME), packet.end_ns.unwrap_or(i64::MAX).min(MAX_TIME));
        // No event can lie between an end and a later begin. That contradiction is reported for the
        // packet, so its events are not checked.
        match begin_ns <= end_ns {
            true => self.between(begin_ns, end_ns),
            false => self.between(MIN_TIME, MAX_TIME),
        }
    }

    fn between(&mut self, begin_ns: i64, end_ns: i64) {
        (self.begin_ns, self.length_ns) = (begin_ns, end_ns.wrapping_sub(begin_ns) as u64);
    }

    /// Returns true if an event lies outside of the current packet. Always true for a saturated
    /// time.
    #[inline]
    pub fn is_outside(&self, ns: i64) -> bool {
        ns.wrapping_sub(self.begin_ns) as u64 > self.length_ns
    }

    #[cold]
    pub fn outside(&mut self, event: PacketPosition) {
        self.found(Contradiction::EventOutside, event);
    }

    /// Checks a packet. Must be called for each packet in the order of the file. `ordered` means
    /// that the tracer writes packets in the order of time.
    pub fn packet(&mut self, packet: &Packet, subject: &Subject, ordered: bool) {
        let place = PacketPosition { packet: packet.index, packet_offset: packet.offset, bit: None, event: None };
        if packet.other_uuid {
            self.found(Contradiction::OtherUuid, place);
        }
        if packet.begin_ns.is_some_and(is_saturated) || packet.end_ns.is_some_and(is_saturated) {
            self.found(Contradiction::BeyondTime, place);
        }
        if let (Some(begin_ns), Some(end_ns)) = (packet.begin_ns, packet.end_ns) {
            if end_ns < begin_ns {
                self.found(Contradiction::EndsFirst, place);
            }
            // LTTng reads the clock for a packet's end after it read the clock for the next
            // packet's begin, so these two may overlap.
            let from_ns = if ordered { end_ns } else { begin_ns };
            if self.overlaps(packet, subject, from_ns, end_ns) {
                self.found(Contradiction::Overlap, place);
            }
        }
        let Some(sequence) = packet.sequence else { return };
        if self.sequences.len() <= packet.stream {
            self.sequences.resize(packet.stream + 1, None);
        }
        let before = self.sequences[packet.stream].replace(sequence);
        if before.is_some_and(|before| packet.steps_from(before).is_none_or(|steps| steps == 0)) {
            self.found(Contradiction::OutOfSequence, place);
        }
    }

    fn overlaps(&mut self, packet: &Packet, subject: &Subject, from_ns: i64, end_ns: i64) -> bool {
        let (class, instance, cpu) = (packet.stream, packet.stream_instance, packet.cpu_id);
        let same = |end: &&mut End| (end.class, end.instance, end.cpu) == (class, instance, cpu) && end.subject == *subject;
        match self.ends.iter_mut().find(same) {
            Some(known) => {
                let overlaps = from_ns < known.end_ns;
                known.end_ns = known.end_ns.max(end_ns);
                overlaps
            }
            None => {
                if self.ends.len() < MAX_STREAMS {
                    self.ends.push(End { class, instance, cpu, subject: subject.clone(), end_ns });
                }
                false
            }
        }
    }

    #[cold]
    fn found(&mut self, what: Contradiction, at: PacketPosition) {
        match self.found.iter_mut().find(|(known, ..)| *known == what) {
            Some((_, times, _)) => *times += 1,
            None => self.found.push((what, 1, at)),
        }
    }

    /// Reports the contradictions. Those of several readers of one file are added up.
    pub fn report(&self, file: &Path, shared: &mut Shared) {
        for &(what, times, at) in &self.found {
            let known = shared.diagnostics.iter_mut().find_map(|diagnostic| match diagnostic {
                Diagnostic::Contradiction { path, what: known, times, at } if path == file && *known == what => Some((times, at)),
                _ => None,
            });
            match known {
                Some((all, first)) => {
                    *all += times;
                    if (at.packet, at.event) < (first.packet, first.event) {
                        *first = at;
                    }
                }
                None => shared.diagnostics.push(Diagnostic::Contradiction { path: file.to_owned(), what, times, at }),
            }
        }
    }
}
