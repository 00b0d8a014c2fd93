//! Packets of one file that overlap in time, as where a tracer writes the packets of several threads into one file.
//!
//! Such a file is read as several chains, each of packets that follow one another: a packet continues the first chain of its
//! subject that ended before the packet begins, else it begins a new chain. Each chain has a reader of its own which passes over
//! the packets of the others, and each computes this rule for itself from the packets it passes. So nothing needs to be kept per
//! packet, and memory does not grow with the file.

use crate::ctf::decoder;
use crate::error::Error;
use crate::event::Subject;
use crate::file::StreamFile;
use crate::subject::subject_of_packet;
use longpole_ctf::{Metadata, Packet};
use std::sync::Arc;

/// More chains than this in a file are not kept apart; the last one takes what is left, and the sorting window does what it can.
pub(crate) const MOST_CHAINS: usize = 64;

#[derive(Default)]
pub(crate) struct Chains {
    chains: Vec<Chain>,
    /// The answer for the packet that was asked for last.
    last: Option<(u64, usize)>,
}

struct Chain {
    subject: Subject,
    end_ns: i64,
}

impl Chains {
    /// The chain of a packet. Packets must be asked for in the order of the file, each as often as one likes.
    pub fn of(&mut self, packet: &Packet, most: usize) -> usize {
        if let Some((index, chain)) = self.last.filter(|(index, _)| *index == packet.index) {
            debug_assert_eq!(index, packet.index);
            return chain;
        }
        let chain = self.assign(packet, most);
        self.last = Some((packet.index, chain));
        chain
    }

    fn assign(&mut self, packet: &Packet, most: usize) -> usize {
        let (Some(begin_ns), Some(end_ns)) = (packet.begin_ns, packet.end_ns) else { return 0 };
        let subject = subject_of_packet(packet, &Subject::default());
        let follows = |chain: &Chain| chain.end_ns <= begin_ns && chain.subject == subject;
        let found = self.chains.iter().position(follows).unwrap_or(self.chains.len());
        if found < most {
            match self.chains.get_mut(found) {
                Some(chain) => chain.end_ns = end_ns,
                None => self.chains.push(Chain { subject, end_ns }),
            }
        }
        found.min(most - 1)
    }

    /// How many chains a file has: 1 where its packets follow one another in time, whosever they are.
    pub fn count(metadata: &Arc<Metadata>, file: &StreamFile, streams: usize) -> Result<usize, Error> {
        let mut decoder = decoder(metadata, file, streams)?;
        let mut chains = Chains::default();
        let mut end_ns = i64::MIN;
        let mut overlap = false;
        // An error ends the count; the reader of the events will say what it is.
        while let Ok(Some(step)) = decoder.advance() {
            if step != longpole_ctf::Step::PacketBegin {
                continue;
            }
            let packet = decoder.packet();
            overlap |= packet.begin_ns.is_some_and(|begin_ns| begin_ns < end_ns);
            end_ns = packet.end_ns.map_or(end_ns, |end| end.max(end_ns));
            chains.of(packet, MOST_CHAINS);
            decoder.skip_packet();
        }
        Ok(if overlap { chains.chains.len().clamp(1, MOST_CHAINS) } else { 1 })
    }
}
