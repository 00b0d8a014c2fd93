//! Resolved steps of a trace's probes, in blocks, for analyses that run in another thread than the
//! reader.

use crate::stages::left_out::{Gathered, LeftOut};
use longpole_model::actors::ActorId;
use longpole_model::interaction::block::{VocabularyDelta, VocabularySize};
use longpole_model::interaction::Vocabulary;
use longpole_model::step::Step;
use longpole_trace::event::{Catalogue, Item, Loss, StreamKind};

/// A sequence of steps and losses, in their order, with the names that are new in it.
#[derive(Debug, Default)]
pub struct Steps {
    new: VocabularyDelta,
    steps: Vec<Step>,
    /// Losses, each with the number of steps before it.
    losses: Vec<(usize, Option<ActorId>, Loss)>,
}

impl Steps {
    /// Largest number of steps in one block.
    pub const BLOCK_STEPS: usize = 1 << 12;

    pub fn with_room() -> Steps {
        Steps { steps: Vec::with_capacity(Steps::BLOCK_STEPS), ..Steps::default() }
    }

    #[inline]
    pub fn push(&mut self, step: Step) {
        self.steps.push(step);
    }

    /// Adds a loss of events, of `actor` if that is known.
    pub fn loss(&mut self, actor: Option<ActorId>, loss: Loss) {
        self.losses.push((self.steps.len(), actor, loss));
    }

    #[inline]
    pub fn is_full(&self) -> bool {
        self.steps.len() >= Steps::BLOCK_STEPS || self.losses.len() >= Steps::BLOCK_STEPS
    }

    /// Closes the block. A consumer knows the names in `sent` before it processes the block.
    pub fn close(&mut self, vocabulary: &Vocabulary, sent: &mut VocabularySize) {
        self.new = vocabulary.since(sent);
    }

    /// Returns the block without content, with its memory for reuse.
    pub fn emptied(mut self) -> Steps {
        self.steps.clear();
        self.losses.clear();
        self.new = VocabularyDelta::default();
        self
    }

    /// Visits all steps and losses; `vocabulary` learns the new names first.
    pub fn each(&self, vocabulary: &mut Vocabulary, mut visit: impl FnMut(&Vocabulary, StepOrLoss<'_>)) {
        vocabulary.learn(&self.new);
        let mut from = 0;
        for (before, actor, loss) in &self.losses {
            self.steps[from..*before].iter().for_each(|step| visit(vocabulary, StepOrLoss::Step(step)));
            visit(vocabulary, StepOrLoss::Loss(*actor, loss));
            from = *before;
        }
        self.steps[from..].iter().for_each(|step| visit(vocabulary, StepOrLoss::Step(step)));
    }
}

/// An entry of a block.
#[derive(Clone, Copy, Debug)]
pub enum StepOrLoss<'a> {
    Step(&'a Step),
    Loss(Option<ActorId>, &'a Loss),
}

/// Counts of the items of a trace that are not steps.
#[derive(Default)]
pub struct ItemCounts {
    pub kernel_events: u64,
    pub kernel_lost: u64,
    pub uncounted_kernel_losses: u64,
    left_out: Gathered,
}

impl ItemCounts {
    /// Counts the item. Returns whether it belongs to probes: kernel events and stack samples are
    /// not steps of a program.
    #[inline]
    pub fn item(&mut self, catalogue: &Catalogue, item: &Item<'_>) -> bool {
        let stream = match item {
            Item::Event(event) => event.stream,
            Item::Loss(loss) => loss.stream,
        };
        match catalogue.streams.get(stream.0 as usize).map(|stream| stream.kind) {
            Some(StreamKind::Kernel) => {
                match item {
                    Item::Event(_) => self.kernel_events += 1,
                    Item::Loss(Loss { events: Some(events), .. }) => self.kernel_lost = self.kernel_lost.saturating_add(*events),
                    Item::Loss(_) => self.uncounted_kernel_losses += 1,
                }
                false
            }
            Some(StreamKind::Samples) => false,
            _ => {
                if let Item::Event(event) = item {
                    self.left_out.event(catalogue, event);
                }
                true
            }
        }
    }

    pub fn left_out(&self) -> Vec<LeftOut> {
        self.left_out.answer()
    }
}
