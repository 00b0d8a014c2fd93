//! What a trace's probes say, resolved, in blocks: for analyses that go through it elsewhere than
//! where it is read.

use crate::stages::left_out::{Gathered, LeftOut};
use longpole_model::interaction::block::{New, Told};
use longpole_model::interaction::Vocabulary;
use longpole_model::step::Step;
use longpole_model::system::actors::ActorId;
use longpole_trace::event::{Catalogue, Item, Loss, StreamKind};

/// A stretch of steps and losses, in their order, with the names that are new in it.
#[derive(Debug, Default)]
pub struct Steps {
    new: New,
    steps: Vec<Step>,
    /// Each with how many of the steps are before it.
    losses: Vec<(usize, Option<ActorId>, Loss)>,
}

impl Steps {
    /// Steps that stand in one block.
    pub const MOST: usize = 1 << 12;

    pub fn with_room() -> Steps {
        Steps { steps: Vec::with_capacity(Steps::MOST), ..Steps::default() }
    }

    #[inline]
    pub fn push(&mut self, step: Step) {
        self.steps.push(step);
    }

    /// Events are missing; of whom, where that is known.
    pub fn loss(&mut self, actor: Option<ActorId>, loss: Loss) {
        self.losses.push((self.steps.len(), actor, loss));
    }

    #[inline]
    pub fn is_full(&self) -> bool {
        self.steps.len() >= Steps::MOST || self.losses.len() >= Steps::MOST
    }

    /// Closes the block: who goes through it has learned `told` by then.
    pub fn close(&mut self, vocabulary: &Vocabulary, told: &mut Told) {
        self.new = vocabulary.since(told);
    }

    /// Without content; its memory stays.
    pub fn emptied(mut self) -> Steps {
        self.steps.clear();
        self.losses.clear();
        self.new = New::default();
        self
    }

    /// Goes through all of it; `vocabulary` learns what is new in it.
    pub fn each(&self, vocabulary: &mut Vocabulary, mut visit: impl FnMut(&Vocabulary, Heard<'_>)) {
        vocabulary.learn(&self.new);
        let mut from = 0;
        for (before, actor, loss) in &self.losses {
            self.steps[from..*before].iter().for_each(|step| visit(vocabulary, Heard::Step(step)));
            visit(vocabulary, Heard::Loss(*actor, loss));
            from = *before;
        }
        self.steps[from..].iter().for_each(|step| visit(vocabulary, Heard::Step(step)));
    }
}

#[derive(Clone, Copy, Debug)]
pub enum Heard<'a> {
    Step(&'a Step),
    Loss(Option<ActorId>, &'a Loss),
}

/// What is counted of a trace's items beside the steps.
#[derive(Default)]
pub struct KnownState {
    pub kernel_events: u64,
    pub kernel_lost: u64,
    pub uncounted_kernel_losses: u64,
    left_out: Gathered,
}

impl KnownState {
    /// Whether the item is one of the probes. Events of the kernel and samples of stacks are no
    /// steps of a program.
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
