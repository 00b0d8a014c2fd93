//! Blocks of interactions, with the names that are new in them. Blocks pass the same interactions
//! to several analyses, each of which runs in a thread of its own.
//!
//! Names are only ever added, so an analysis that reads the blocks in order learns them block by
//! block. The names of passing queues change; a block contains each change at the place where it
//! happens.

use crate::actors::{Actor, ActorId};
use crate::interaction::ahead::Ahead;
use crate::interaction::{Interaction, MachineId, QueueEntry, QueueId, Vocabulary};
use crate::names::{Name, NameId};
use crate::tokens::Shape;

/// Room for the interactions at the same moment as the last one of a full block.
const ROOM: usize = 1 << 6;

/// A sequence of interactions, in order.
#[derive(Debug, Default)]
pub struct Block {
    pub(crate) interactions: Vec<Interaction>,
    pub(crate) renames: Vec<Rename>,
    pub(crate) texts: String,
    new: VocabularyDelta,
}

/// A new name of a passing queue, from an interaction on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rename {
    pub before: usize,
    pub queue: QueueId,
    /// End of the name in [`Block`]'s texts; it begins where the previous one ends.
    pub end: usize,
}

/// What was added to a vocabulary since a certain state.
#[derive(Debug, Default)]
pub struct VocabularyDelta {
    pub(crate) names: Vec<Name>,
    pub(crate) machines: Vec<(NameId, NameId)>,
    pub(crate) queues: Vec<QueueEntry>,
    pub(crate) declared_shapes: Vec<(QueueId, NameId, Shape)>,
    pub(crate) actors: Vec<(ActorId, Actor)>,
    pub(crate) kernel_threads: Vec<MachineId>,
    pub(crate) recorders: Vec<(MachineId, bool)>,
}

impl Block {
    /// Maximum number of interactions in a block, apart from those at the moment of the last one.
    pub const MAX_INTERACTIONS: usize = 1 << 11;

    /// Exchanges the block's interactions with those of `ahead`. Called with an empty block so that
    /// others fill it, up to [`Block::MAX_INTERACTIONS`] or a few more, and again to take the
    /// result.
    pub fn exchange(&mut self, ahead: &mut Ahead) {
        std::mem::swap(&mut self.interactions, &mut ahead.interactions);
    }

    /// Records the current names of passing queues that were renamed, from the interaction with the
    /// index `before` on. `vocabulary` is that of the producer.
    #[inline]
    pub fn note_renames(&mut self, vocabulary: &mut Vocabulary, before: usize) {
        if vocabulary.has_renamed() {
            vocabulary.each_renamed(|queue, name| {
                self.texts.push_str(name);
                self.renames.push(Rename { before, queue, end: self.texts.len() });
            });
        }
    }

    /// Closes the block. `sent` is the part of the vocabulary that the blocks before this one
    /// contained, which a reader has learned by then.
    pub fn close(&mut self, vocabulary: &Vocabulary, sent: &mut VocabularySize) {
        self.new = vocabulary.since(sent);
    }

    pub fn is_empty(&self) -> bool {
        self.interactions.is_empty()
    }

    /// Empties the block and retains its memory.
    pub fn emptied(mut self) -> Block {
        self.interactions.clear();
        self.renames.clear();
        self.texts.clear();
        self.new = VocabularyDelta::default();
        self
    }

    pub fn with_room() -> Block {
        Block { interactions: Vec::with_capacity(Block::MAX_INTERACTIONS + ROOM), ..Block::default() }
    }

    /// Visits the interactions of the block, with the names as they are at each of them.
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

/// The part of a vocabulary that the blocks produced by now contain.
#[derive(Clone, Copy, Debug, Default)]
pub struct VocabularySize {
    pub(crate) names: usize,
    pub(crate) machines: usize,
    pub(crate) queues: usize,
    pub(crate) declared_shapes: usize,
    pub(crate) actors: usize,
    pub(crate) kernel_threads: usize,
    pub(crate) recorders: usize,
}
