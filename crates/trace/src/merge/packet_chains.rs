//! Packets of one file that overlap in time, as where a tracer writes the packets of several threads into one file.
//!
//! Such a file is read as several chains, each of packets that follow one another: a packet continues the first chain of its
//! subject that ended before the packet begins, else it begins a new chain. Each chain has a reader of its own which passes over
//! the packets of the others. It computes this rule for itself from the packets it passes, so that nothing needs to be kept per
//! packet, and memory does not grow with the file; or an index of the file tells it which packets are its own.

use crate::error::Error;
use crate::event::Subject;
use crate::formats::subject::subject_of_packet;
use crate::index::{Entry, FileIndex, Position};
use crate::open::file::StreamFile;
use longpole_ctf::{Metadata, Packet, StreamDecoder};
use std::rc::Rc;
use std::sync::Arc;

/// More chains than this in a file are not kept apart; the last one takes what is left, and the sorting window does what it can.
pub(crate) const MOST_CHAINS: usize = 64;

#[derive(Default)]
pub(crate) struct Chains {
    chains: Vec<Chain>,
    /// The answer for the packet that was asked for last.
    last: Option<(u64, usize)>,
    /// When the packets so far end, and whether one began before.
    end_ns: Option<i64>,
    overlap: bool,
}

struct Chain {
    subject: Subject,
    end_ns: i64,
}

impl Chains {
    /// The chain of a packet. Packets must be asked for in the order of the file, each as often as one likes.
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
        if found < MOST_CHAINS {
            match self.chains.get_mut(found) {
                Some(chain) => chain.end_ns = end_ns,
                None => self.chains.push(Chain { subject, end_ns }),
            }
        }
        found.min(MOST_CHAINS - 1)
    }

    /// How many readers a file of the packets so far needs: 1 where they follow one another in time, whosever they are.
    pub fn readers(&self) -> usize {
        if self.overlap {
            self.chains.len().clamp(1, MOST_CHAINS)
        } else {
            1
        }
    }

    /// That of a file, by passing over all its packets.
    pub fn count(metadata: &Arc<Metadata>, file: &StreamFile, streams: usize) -> Result<usize, Error> {
        let window = file.skim(streams).map_err(Error::io(&file.path))?;
        let mut decoder = StreamDecoder::new(metadata.clone(), window);
        let mut chains = Chains::default();
        // An error ends the count; the reader of the events will say what it is.
        while let Ok(Some(step)) = decoder.advance() {
            if step == longpole_ctf::Step::PacketBegin {
                chains.of(decoder.packet());
                decoder.skip_packet();
            }
        }
        Ok(chains.readers())
    }
}

/// Which packets of a file are a reader's.
pub(crate) enum Share {
    All,
    /// Those of a chain, told by all packets before.
    Rule(Chains, usize),
    /// Those of a chain, told by the index.
    Listed(Listed),
}

impl Share {
    /// Whether a packet, of which none before was left out but by [`Listed::go_on`], is the reader's.
    pub fn has(&mut self, packet: &Packet) -> bool {
        match self {
            Share::All => true,
            Share::Rule(chains, own) => chains.of(packet) == *own,
            Share::Listed(listed) => listed.next.is_some_and(|next| next.packet == packet.index),
        }
    }

    /// Whether it is the one among the readers of a file that says what all of them see.
    pub fn is_first(&self) -> bool {
        match self {
            Share::All => true,
            Share::Rule(_, own) => *own == 0,
            Share::Listed(listed) => listed.chain == 0,
        }
    }
}

/// The packets of a chain.
pub(crate) struct Listed {
    index: Rc<FileIndex>,
    chain: usize,
    /// The next of them, and its number among them.
    next: Option<Entry>,
    number: u64,
}

/// Where a reader goes on.
pub(crate) enum Way {
    /// With the next packet of the file.
    On,
    To(Position),
    /// There is no more for it.
    End,
}

impl Listed {
    pub fn new(index: Rc<FileIndex>, chain: usize) -> Listed {
        let next = index.entry(chain, 0);
        Listed { index, chain, next, number: 0 }
    }

    /// What ends before is of no interest; whether anything is left out.
    pub fn skip_to(&mut self, begin_ns: i64) -> bool {
        let number = self.index.first_from(self.chain, begin_ns);
        let later = number > self.number;
        if later {
            self.number = number;
            self.next = self.index.entry(self.chain, number);
        }
        later
    }

    /// The way to the next packet of the chain from behind this one. It leads over the packet before that, whose counters tell what was lost
    /// between them.
    pub fn go_on(&mut self, passed: Option<u64>) -> Way {
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
