//! What packets say of themselves, and of those before them in their file, that does not fit together. Their events are all there, so it is no
//! damage; but who reasons about times or losses must know. It is counted by kind and told once for each file, with the first place.

use crate::diagnostic::{Contradiction, Diagnostic, Place};
use crate::event::Subject;
use crate::merge::out_of_range::is_saturated;
use crate::trace::Shared;
use longpole_ctf::Packet;
use std::path::Path;

/// Streams of one file that are told apart; of those beyond it is not said whether their packets overlap.
const MOST_STREAMS: usize = 64;
/// Beside these are only times that saturate.
const EARLIEST: i64 = i64::MIN + 1;
const LATEST: i64 = i64::MAX - 1;

pub(crate) struct Claims {
    /// Where the events of the current packet must be, if it says so.
    begin_ns: i64,
    length_ns: u64,
    ends: Vec<End>,
    /// By stream class, the last sequence number.
    sequences: Vec<Option<u64>>,
    found: Vec<(Contradiction, u64, Place)>,
}

/// When the packets so far of one stream end. Packets of several threads or CPUs in one file overlap rightly.
struct End {
    class: usize,
    instance: Option<u64>,
    cpu: Option<u64>,
    subject: Subject,
    end_ns: i64,
}

impl Default for Claims {
    fn default() -> Claims {
        let mut claims = Claims { begin_ns: 0, length_ns: 0, ends: Vec::new(), sequences: Vec::new(), found: Vec::new() };
        claims.between(EARLIEST, LATEST);
        claims
    }
}

impl Claims {
    /// A packet whose events follow.
    pub fn enter(&mut self, packet: &Packet) {
        let (begin_ns, end_ns) = (packet.begin_ns.unwrap_or(i64::MIN).max(EARLIEST), packet.end_ns.unwrap_or(i64::MAX).min(LATEST));
        // Nothing can be between an end and a later begin, which is told of the packet.
        match begin_ns <= end_ns {
            true => self.between(begin_ns, end_ns),
            false => self.between(EARLIEST, LATEST),
        }
    }

    fn between(&mut self, begin_ns: i64, end_ns: i64) {
        (self.begin_ns, self.length_ns) = (begin_ns, end_ns.wrapping_sub(begin_ns) as u64);
    }

    /// Whether an event is not in the packet that was entered; always true of one whose time saturates.
    #[inline]
    pub fn is_outside(&self, ns: i64) -> bool {
        ns.wrapping_sub(self.begin_ns) as u64 > self.length_ns
    }

    #[cold]
    pub fn outside(&mut self, event: Place) {
        self.found(Contradiction::EventOutside, event);
    }

    /// Each packet of the file, in its order; of a tracer that keeps the order of time or not.
    pub fn packet(&mut self, packet: &Packet, subject: &Subject, ordered: bool) {
        let place = Place { packet: packet.index, packet_offset: packet.offset, bit: None, event: None };
        if packet.begin_ns.is_some_and(is_saturated) || packet.end_ns.is_some_and(is_saturated) {
            self.found(Contradiction::BeyondTime, place);
        }
        if let (Some(begin_ns), Some(end_ns)) = (packet.begin_ns, packet.end_ns) {
            if end_ns < begin_ns {
                self.found(Contradiction::EndsFirst, place);
            }
            // LTTng looks at the clock for a packet's end after it did for the next one's begin.
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
                if self.ends.len() < MOST_STREAMS {
                    self.ends.push(End { class, instance, cpu, subject: subject.clone(), end_ns });
                }
                false
            }
        }
    }

    #[cold]
    fn found(&mut self, what: Contradiction, at: Place) {
        match self.found.iter_mut().find(|(known, ..)| *known == what) {
            Some((_, times, _)) => *times += 1,
            None => self.found.push((what, 1, at)),
        }
    }

    /// Says what was found; several sources of one file are told as one.
    pub fn tell(&self, file: &Path, shared: &mut Shared) {
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
