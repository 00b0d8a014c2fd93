//! Passes interactions, which are decoded and composed once, to several analyses at the same time.
//!
//! The interactions are composed in the thread that opened the trace. The followers run in threads
//! of their own, those that do little together in one, and receive them block by block. A block is
//! freed when the last follower is done with it. A slow follower blocks the others, so memory does
//! not grow with the length of the trace.

use super::{composed, Error, Feed, Interactions, MAX_BLOCKS_IN_FLIGHT};
use crate::critical_path::keys::name_index::OccurringNames;
use crate::critical_path::CriticalPath;
use crate::timeline::TimelineWriter;
use crate::verdict::facts::traffic::Traffic;
use crate::wait_graph::Waits;
use crate::what_if::WhatIf;
use longpole_model::causes::Composer;
use longpole_model::interaction::block::{Block, VocabularySize};
use longpole_model::interaction::{Interaction, Vocabulary};
use longpole_trace::Catalogue;
use longpole_trace::Item;
use std::collections::VecDeque;
use std::sync::mpsc::{sync_channel, Receiver};
use std::sync::Arc;
use std::thread;

/// An analysis that receives all interactions in order.
pub trait Follower: Send {
    /// Sets the begin of the requested part. Interactions before `t` are passed, too, because they
    /// determine the states at `t`.
    fn begin_at(&mut self, t: u64);

    /// Receives the next interaction, with the names as of it.
    fn interaction(&mut self, vocabulary: &Vocabulary, interaction: &Interaction);

    /// Sets the end of the requested part: more interactions follow in the trace, and the analysis
    /// extends to `t`.
    fn until(&mut self, t: u64);

    /// Receives a block of interactions. `vocabulary` has the names as of the block before, and is
    /// brought up to date.
    fn block(&mut self, vocabulary: &mut Vocabulary, block: &Block) {
        block.each(vocabulary, |vocabulary, interaction| self.interaction(vocabulary, interaction));
    }
}

struct SentBlock {
    block: Block,
    /// Begin and end of the requested part, in ns.
    begin: Option<u64>,
    until: Option<u64>,
}

/// Blocks that were sent, in that order. Memory of blocks that all followers are done with is
/// reused.
#[derive(Default)]
struct Sent(VecDeque<Arc<SentBlock>>);

impl Sent {
    fn add(&mut self, parcel: SentBlock) -> Arc<SentBlock> {
        let parcel = Arc::new(parcel);
        self.0.push_back(parcel.clone());
        parcel
    }

    fn returned(&mut self) -> Option<Block> {
        self.0.front_mut().and_then(Arc::get_mut)?;
        self.0.pop_front().and_then(Arc::into_inner).map(|parcel| parcel.block)
    }
}

/// Passes all interactions to all followers, in threads of their own. Passes each item of the
/// trace to `observe`, in the calling thread.
pub fn follow(
    interactions: &mut Interactions,
    mut observe: impl FnMut(&Catalogue, &Item<'_>),
    followers: &mut [&mut dyn Follower],
) -> Result<(), Error> {
    let feed = |composer: &mut Composer, catalogue: &Catalogue, item: &Item<'_>| {
        observe(catalogue, item);
        composed::compose(composer, catalogue, item);
    };
    follow_fed(interactions, feed, followers.iter_mut().map(std::slice::from_mut))
}

/// Passes all interactions to all followers, and each item of the trace to `feed`, which passes it
/// to the composer. Each slice of followers shares one thread: for followers that do little, waking
/// another thread would cost as much as the work.
pub fn follow_fed<'a, 'b: 'a>(
    interactions: &mut Interactions,
    mut feed: impl FnMut(&mut Composer, &Catalogue, &Item<'_>),
    followers: impl IntoIterator<Item = &'a mut [&'b mut dyn Follower]>,
) -> Result<(), Error> {
    thread::scope(|scope| {
        let (mut senders, mut threads) = (Vec::new(), Vec::new());
        for together in followers {
            let (sender, receiver) = sync_channel::<Arc<SentBlock>>(MAX_BLOCKS_IN_FLIGHT);
            senders.push(sender);
            threads.push(scope.spawn(move || attend(together, &receiver)));
        }
        let read = send_all(interactions, &mut feed, |parcel| {
            // Sending fails only if the receiving thread has panicked; joining it reports that.
            senders.iter().for_each(|sender| drop(sender.send(parcel.clone())));
        });
        drop(senders);
        let panicked = threads.into_iter().map(|thread| thread.join()).filter(Result::is_err).count() > 0;
        read?;
        match panicked {
            true => Err(Error::Panicked),
            false => Ok(()),
        }
    })
}

fn attend(followers: &mut [&mut dyn Follower], parcels: &Receiver<Arc<SentBlock>>) {
    // Queues are renamed over time, so each follower has a vocabulary as of its own position.
    let mut vocabularies: Vec<Vocabulary> = followers.iter().map(|_| Vocabulary::default()).collect();
    for parcel in parcels {
        for (follower, vocabulary) in followers.iter_mut().zip(&mut vocabularies) {
            if let Some(begin) = parcel.begin {
                follower.begin_at(begin);
            }
            follower.block(vocabulary, &parcel.block);
            if let Some(until) = parcel.until {
                follower.until(until);
            }
        }
    }
}

fn send_all(interactions: &mut Interactions, feed: &mut Feed<'_>, mut send: impl FnMut(Arc<SentBlock>)) -> Result<(), Error> {
    let (mut known, mut sent) = (VocabularySize::default(), Sent::default());
    interactions.note_renames();
    loop {
        let mut block = sent.returned().map_or_else(Block::with_room, Block::emptied);
        let more = interactions.fill(&mut block, feed)?;
        block.close(interactions.vocabulary(), &mut known);
        let until = interactions.until().filter(|_| !more);
        send(sent.add(SentBlock { block, begin: interactions.range().begin, until }));
        if !more {
            return interactions.rest(feed);
        }
    }
}

/// Implements [`Follower`] for types whose own methods have the same names.
macro_rules! followers {
    ($($who:ty),*) => {
        $(impl Follower for $who {
            fn begin_at(&mut self, t: u64) {
                <$who>::begin_at(self, t);
            }

            #[inline]
            fn interaction(&mut self, vocabulary: &Vocabulary, interaction: &Interaction) {
                <$who>::interaction(self, vocabulary, interaction);
            }

            fn until(&mut self, t: u64) {
                <$who>::until(self, t);
            }
        })*
    };
}

followers!(CriticalPath, WhatIf, Waits);

/// `until` does nothing: it extends an analysis beyond the last interaction, and traffic has
/// nothing to count there.
impl Follower for Traffic {
    fn begin_at(&mut self, t: u64) {
        Traffic::begin_at(self, t);
    }

    #[inline]
    fn interaction(&mut self, vocabulary: &Vocabulary, interaction: &Interaction) {
        Traffic::interaction(self, vocabulary, interaction);
    }

    fn until(&mut self, _t: u64) {}
}

/// A block is passed on as a whole, so that the timeline is locked once for it.
impl Follower for TimelineWriter {
    fn begin_at(&mut self, t: u64) {
        TimelineWriter::begin_at(self, t);
    }

    fn interaction(&mut self, vocabulary: &Vocabulary, interaction: &Interaction) {
        TimelineWriter::interaction(self, vocabulary, interaction);
    }

    fn until(&mut self, t: u64) {
        TimelineWriter::until(self, t);
    }

    fn block(&mut self, vocabulary: &mut Vocabulary, block: &Block) {
        TimelineWriter::block(self, vocabulary, block);
    }
}

/// The names in a trace do not depend on the requested part.
impl Follower for OccurringNames {
    fn begin_at(&mut self, _t: u64) {}

    fn interaction(&mut self, vocabulary: &Vocabulary, interaction: &Interaction) {
        OccurringNames::interaction(self, vocabulary, interaction);
    }

    fn until(&mut self, _t: u64) {}
}
