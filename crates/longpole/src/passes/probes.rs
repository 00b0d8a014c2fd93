//! The analyses of what a trace's probes say, in a thread beside the one that reads it.
//!
//! The composer resolves each event once; what it meant is passed on in blocks.

use anyhow::{anyhow, Context};
use longpole_analysis::report::Pass;
use longpole_analysis::stages::steps::{KnownState, Steps};
use longpole_model::causes::Composer;
use longpole_model::interaction::block::Told;
use longpole_model::interaction::Vocabulary;
use longpole_trace::Catalogue;
use longpole_trace::Item;
use std::sync::mpsc::{channel, sync_channel, Receiver, SyncSender};
use std::thread;

/// Blocks under way.
const UNDER_WAY: usize = 8;

/// What the composer makes of the items, on its way to the analyses.
pub struct Probes {
    to: SyncSender<Steps>,
    /// Blocks that were gone through, whose memory is used again.
    used: Receiver<Steps>,
    steps: Steps,
    told: Told,
    context: KnownState,
}

impl Probes {
    /// The item that the composer had last.
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

    /// Passes on what was not yet; to be called after the last item, too.
    pub fn send(&mut self, vocabulary: &Vocabulary) {
        let next = self.used.try_recv().map_or_else(|_| Steps::with_room(), Steps::emptied);
        let mut steps = std::mem::replace(&mut self.steps, next);
        steps.close(vocabulary, &mut self.told);
        // An end that is gone has panicked, and says so when it is joined.
        drop(self.to.send(steps));
    }
}

/// What `read` returns, and the analyses of what it has passed on.
pub fn context<T>(read: impl FnOnce(&mut Probes) -> anyhow::Result<T>) -> anyhow::Result<(T, Pass)> {
    let mut pass = Pass::of_steps().context("a built-in rule file is wrong")?;
    thread::scope(|scope| {
        let (to, from) = sync_channel::<Steps>(UNDER_WAY);
        let (back, used) = channel();
        let analyses = scope.spawn(move || {
            for steps in from {
                pass.steps(&steps);
                // Nobody needs it after the last item.
                drop(back.send(steps));
            }
            pass
        });
        let mut probes = Probes { to, used, steps: Steps::with_room(), told: Told::default(), context: KnownState::default() };
        let done = read(&mut probes);
        let Probes { to, context, .. } = probes;
        drop(to);
        let mut pass = analyses.join().map_err(|_| anyhow!("internal error: an analysis of the trace panicked"))?;
        pass.context = context;
        Ok((done?, pass))
    })
}
