//! Packets of one file that overlap in time, as in files to which a tracer writes the packets of
//! several threads.
//!
//! Such a file is read as several chains. A chain is a list of packets that follow one another in
//! time: a packet continues the first chain with the same subject that ended before the packet
//! begins, or else begins a new chain. For example, packets of threads A and B in the order A1 B1
//! A2 B2 form the chains A1 A2 and B1 B2.
//!
//! Each chain has its own reader, which skips the packets of the other chains. A reader either
//! applies the rule to the packets that it passes, so that nothing is stored per packet and memory
//! does not grow with the file, or takes the list of its packets from an index of the file.

use crate::error::Error;
use crate::event::Subject;
use crate::files::file::StreamFile;
use crate::index::{Entry, FileIndex, Position};
use crate::shared::subject::subject_of_packet;
use longpole_ctf::{Metadata, Packet, StreamDecoder};
use std::rc::Rc;
use std::sync::Arc;

/// Maximum number of chains of a file. The last chain takes all packets that fit no other one; the
/// sorting window sorts its events as far as it can.
pub(crate) const MAX_CHAINS: usize = 64;

#[derive(Default)]
pub(crate) struct Chains {
    chains: Vec<Chain>,
    /// Index of the last assigned packet and its chain.
    last: Option<(u64, usize)>,
    /// Latest end of the packets that were assigned, and whether a packet began before that.
    end_ns: Option<i64>,
    overlap: bool,
}

struct Chain {
    subject: Subject,
    end_ns: i64,
}

impl Chains {
    /// Returns the chain of a packet. Packets must be passed in the order of the file; the last one
    /// may be passed again.
    pub fn of(&mut self, packet: &Packet) -> usize {
        if let Some((_, chain)) = self.last.filter(|(index, _)| *index == packet.index) {
            return chain;
        }
        let chain = self.assign(packet);
        self.last = Some((packet.index, chain));
        chain
    }

    fn assign(&mut self, packet: &Packet) -> usize {
        self.overlap |= self.end_ns.zip(packet.begin_ns).is_some_and(|(end_ns, begin_ns)| begin_ns < end_ns);
        self.end_ns = self.end_ns.max(packet.end_ns);
        let (Some(begin_ns), Some(end_ns)) = (packet.begin_ns, packet.end_ns) else { return 0 };
        let subject = subject_of_packet(packet, &Subject::default());
        let follows = |chain: &Chain| chain.end_ns <= begin_ns && chain.subject == subject;
        let found = self.chains.iter().position(follows).unwrap_or(self.chains.len());
        if found < MAX_CHAINS {
            match self.chains.get_mut(found) {
                Some(chain) => chain.end_ns = end_ns,
                None => self.chains.push(Chain { subject, end_ns }),
            }
        }
        found.min(MAX_CHAINS - 1)
    }

    /// Returns the number of readers that a file with these packets needs. One is enough if the
    /// packets follow one another in time, even if their subjects differ.
    pub fn readers(&self) -> usize {
        if self.overlap {
            self.chains.len().clamp(1, MAX_CHAINS)
        } else {
            1
        }
    }

    /// Returns the number of readers that a file needs, determined by a pass over all of its
    /// packets.
    pub fn count(metadata: &Arc<Metadata>, file: &StreamFile, streams: usize) -> Result<usize, Error> {
        let window = file.skim(streams).map_err(Error::io(&file.path))?;
        let mut decoder = StreamDecoder::new(metadata.clone(), window);
        let mut chains = Chains::default();
        // An error ends the count. The reader of the events reports it.
        while let Ok(Some(step)) = decoder.advance() {
            if step == longpole_ctf::Step::PacketBegin {
                chains.of(decoder.packet());
                decoder.skip_packet();
            }
        }
        Ok(chains.readers())
    }
}

/// The packets of a file that one reader reads.
pub(crate) enum Share {
    All,
    /// The packets of the chain with this number, determined from all packets before.
    Rule(Chains, usize),
    /// The packets of a chain, listed by the index.
    Listed(Listed),
}

impl Share {
    /// Returns true if the packet is this reader's. Must be called for all packets in the order of
    /// the file, except those that a [`Listed`] chain skips.
    pub fn has(&mut self, packet: &Packet) -> bool {
        match self {
            Share::All => true,
            Share::Rule(chains, own) => chains.of(packet) == *own,
            Share::Listed(listed) => listed.next.is_some_and(|next| next.packet == packet.index),
        }
    }

    /// Returns true for the one reader of a file that reports what all of them see.
    pub fn is_first(&self) -> bool {
        match self {
            Share::All => true,
            Share::Rule(_, own) => *own == 0,
            Share::Listed(listed) => listed.chain == 0,
        }
    }
}

/// The packets of a chain, from the index.
pub(crate) struct Listed {
    index: Rc<FileIndex>,
    chain: usize,
    /// The chain's next packet, and its number in the chain.
    next: Option<Entry>,
    number: u64,
}

/// Place at which a reader continues.
pub(crate) enum Way {
    /// The next packet of the file.
    On,
    To(Position),
    /// The end: no packet of the chain is left.
    End,
}

impl Listed {
    pub fn new(index: Rc<FileIndex>, chain: usize) -> Listed {
        let next = index.entry(chain, 0);
        Listed { index, chain, next, number: 0 }
    }

    /// Skips packets of the chain that end before `begin_ns`. Returns true if any packet is
    /// skipped.
    pub fn skip_to(&mut self, begin_ns: i64) -> bool {
        let number = self.index.first_from(self.chain, begin_ns);
        let later = number > self.number;
        if later {
            self.number = number;
            self.next = self.index.entry(self.chain, number);
        }
        later
    }

    /// Returns the way from the packet `passed` to the next packet of the chain. It leads through
    /// the packet before that, because the difference of their counters shows what was lost between
    /// them.
    pub fn advance(&mut self, passed: Option<u64>) -> Way {
        if self.next.is_some_and(|next| passed.is_some_and(|passed| next.packet <= passed)) {
            self.number += 1;
            self.next = self.index.entry(self.chain, self.number);
        }
        match self.next {
            None => Way::End,
            Some(next) if passed.is_some_and(|passed| next.before.packet <= passed) => Way::On,
            Some(next) => Way::To(next.before),
        }
    }
}
