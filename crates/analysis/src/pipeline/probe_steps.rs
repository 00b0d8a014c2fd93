//! The analyses of probe events, in a separate thread next to the one that reads the trace.
//!
//! The composer resolves each event to a step only once. The steps are passed to the analyses in
//! blocks.

use super::{Error, MAX_BLOCKS_IN_FLIGHT};
use crate::report::ProbePass;
use crate::stages::step_block::{ItemCounts, Steps};
use longpole_model::causes::Composer;
use longpole_model::interaction::block::VocabularySize;
use longpole_model::interaction::Vocabulary;
use longpole_trace::Catalogue;
use longpole_trace::Item;
use std::sync::mpsc::{channel, sync_channel, Receiver, SyncSender};
use std::thread;

/// Collects the composer's steps and sends them to the analyses.
pub struct ProbeSteps {
    to: SyncSender<Steps>,
    /// Blocks that the analyses have processed; their memory is reused.
    used: Receiver<Steps>,
    steps: Steps,
    known: VocabularySize,
    context: ItemCounts,
}

impl ProbeSteps {
    /// Takes the item that the composer has just processed.
    #[inline]
    pub fn item(&mut self, composer: &Composer, catalogue: &Catalogue, item: &Item<'_>) {
        if !self.context.item(catalogue, item) {
            return;
        }
        match item {
            Item::Event(_) => composer.step().into_iter().for_each(|step| self.steps.push(step)),
            Item::Loss(loss) => self.steps.loss(composer.system().actor_of_stream(loss.stream), *loss),
        }
        if self.steps.is_full() {
            self.send(composer.vocabulary());
        }
    }

    /// Sends the steps that were not sent yet. Must also be called after the last item.
    pub fn send(&mut self, vocabulary: &Vocabulary) {
        let next = self.used.try_recv().map_or_else(|_| Steps::with_room(), Steps::emptied);
        let mut steps = std::mem::replace(&mut self.steps, next);
        steps.close(vocabulary, &mut self.known);
        // Sending fails only if the other thread has panicked; joining it reports that.
        drop(self.to.send(steps));
    }
}

/// Calls `read`, and returns its result together with the analyses of all steps that it sent.
///
/// # Errors
///
/// The error of `read`, or [`Error::Panicked`] if an analysis panicked.
pub fn alongside<T>(read: impl FnOnce(&mut ProbeSteps) -> Result<T, Error>) -> Result<(T, ProbePass), Error> {
    alongside_pass(ProbePass::of_steps()?, read)
}

/// Like [`alongside`], with analyses that have not seen any step yet.
pub fn alongside_pass<T>(mut pass: ProbePass, read: impl FnOnce(&mut ProbeSteps) -> Result<T, Error>) -> Result<(T, ProbePass), Error> {
    thread::scope(|scope| {
        let (to, from) = sync_channel::<Steps>(MAX_BLOCKS_IN_FLIGHT);
        let (back, used) = channel();
        let analyses = scope.spawn(move || {
            for steps in from {
                pass.steps(&steps);
                // Sending fails after the last item, when the block is no longer needed.
                drop(back.send(steps));
            }
            pass
        });
        let mut probes =
            ProbeSteps { to, used, steps: Steps::with_room(), known: VocabularySize::default(), context: ItemCounts::default() };
        let done = read(&mut probes);
        let ProbeSteps { to, context, .. } = probes;
        drop(to);
        let mut pass = analyses.join().map_err(|_| Error::Panicked)?;
        pass.context = context;
        Ok((done?, pass))
    })
}
