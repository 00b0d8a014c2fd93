//! Interactions in blocks, with the names that are new in them: how several who ask are told of the same ones, each in a thread of its own.
//!
//! Names are only ever added, so whoever goes through the blocks in their order learns them a block at a time. What a passing queue is called changes, and is told
//! where it does.

use crate::interaction::ahead::Ahead;
use crate::interaction::{Interaction, MachineId, Queue, QueueId, Vocabulary};
use crate::names::{Name, NameId};
use crate::system::actors::{Actor, ActorId};
use crate::tokens::Shape;

/// For those that come at the same moment as the last one.
const ROOM: usize = 1 << 6;

/// A stretch of interactions, in their order.
#[derive(Debug, Default)]
pub struct Block {
    pub(crate) interactions: Vec<Interaction>,
    pub(crate) renames: Vec<Rename>,
    pub(crate) texts: String,
    new: New,
}

/// A passing queue is called so from an interaction on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rename {
    pub before: usize,
    pub queue: QueueId,
    /// Where its text ends; it begins where that of the one before ends.
    pub end: usize,
}

/// What a vocabulary has got since.
#[derive(Debug, Default)]
pub struct New {
    pub(crate) names: Vec<Name>,
    pub(crate) machines: Vec<(NameId, NameId)>,
    pub(crate) queues: Vec<Queue>,
    pub(crate) described: Vec<(QueueId, NameId, Shape)>,
    pub(crate) actors: Vec<(ActorId, Actor)>,
    pub(crate) of_kernel: Vec<MachineId>,
    pub(crate) recorders: Vec<(MachineId, bool)>,
}

impl Block {
    /// Interactions that stand in one block.
    pub const MOST: usize = 1 << 11;

    /// Exchanges its interactions, which are none, for others, or back; so others may fill it, up to [`Block::MOST`] or a few more.
    pub fn exchange(&mut self, ahead: &mut Ahead) {
        std::mem::swap(&mut self.interactions, &mut ahead.interactions);
    }

    /// Passing queues are called as they are now from this interaction of the block on. The vocabulary is that of who tells of it.
    #[inline]
    pub fn note_renames(&mut self, vocabulary: &mut Vocabulary, before: usize) {
        if vocabulary.has_renamed() {
            vocabulary.each_renamed(|queue, name| {
                self.texts.push_str(name);
                self.renames.push(Rename { before, queue, end: self.texts.len() });
            });
        }
    }

    /// Closes the block: who reads it has learned `told` by then, what was told of the vocabulary by the blocks before it.
    pub fn close(&mut self, vocabulary: &Vocabulary, told: &mut Told) {
        self.new = vocabulary.since(told);
    }

    pub fn is_empty(&self) -> bool {
        self.interactions.is_empty()
    }

    /// Without content; its memory stays.
    pub fn emptied(mut self) -> Block {
        self.interactions.clear();
        self.renames.clear();
        self.texts.clear();
        self.new = New::default();
        self
    }

    pub fn with_room() -> Block {
        Block { interactions: Vec::with_capacity(Block::MOST + ROOM), ..Block::default() }
    }

    /// Goes through the block, with the names as they are at each of its interactions.
    #[inline]
    pub fn each(&self, vocabulary: &mut Vocabulary, mut visit: impl FnMut(&Vocabulary, &Interaction)) {
        vocabulary.learn(&self.new);
        let (mut from, mut text) = (0, 0);
        for rename in &self.renames {
            self.interactions[from..rename.before].iter().for_each(|interaction| visit(vocabulary, interaction));
            vocabulary.rename(rename.queue, &self.texts[text..rename.end]);
            (from, text) = (rename.before, rename.end);
        }
        self.interactions[from..].iter().for_each(|interaction| visit(vocabulary, interaction));
    }
}

/// How much of a vocabulary has been told.
#[derive(Clone, Copy, Debug, Default)]
pub struct Told {
    pub(crate) names: usize,
    pub(crate) machines: usize,
    pub(crate) queues: usize,
    pub(crate) described: usize,
    pub(crate) actors: usize,
    pub(crate) of_kernel: usize,
    pub(crate) recorders: usize,
}
