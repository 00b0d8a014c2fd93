//! A trace whose interactions are composed from its events.

use super::{begin_ns, kernel_sources, Error, Feed};
use longpole_model::causes::{About, Composer};
use longpole_model::interaction::Interaction;
use longpole_model::rules::Rules;
use longpole_trace::{Catalogue, Item, NoEvent, Options, Recording, Trace};
use std::path::PathBuf;

/// Passes each item to the composer only. The simplest [`Feed`].
pub fn compose(composer: &mut Composer, catalogue: &Catalogue, item: &Item<'_>) {
    composer.item(catalogue, item);
}

pub(super) struct Composed {
    pub trace: Trace,
    pub composer: Composer,
    /// Begin of the requested part, and the time of the last item that was read.
    begin_ns: i64,
    last_ns: Option<i64>,
    /// The error for a part without events is made from these.
    paths: Vec<PathBuf>,
    part: Options,
    /// Is called after the trace's last item.
    at_end: Option<Box<dyn FnOnce(&Trace)>>,
    finished: bool,
}

/// Returns true if the recording's process ids are the ones in the kernel's events. In a pid
/// namespace of its own, the recorder sees other ids.
pub fn has_kernel_ids(recordings: &[Recording]) -> bool {
    !recordings.iter().any(|recording| recording.kernel_events.as_ref().is_some_and(|kernel| kernel.foreign_pids))
}

/// Returns what the recordings in a trace describe of the command and the recorder.
pub(super) fn about(recordings: &[Recording]) -> About {
    let first = |of: fn(&Recording) -> Option<i32>| recordings.iter().find_map(of);
    About {
        command: first(|recording| recording.command_pid),
        recorder: first(|recording| recording.recorder_pid).filter(|_| has_kernel_ids(recordings)),
        page_fault_ns: recordings
            .iter()
            .find_map(|recording| recording.kernel_events.as_ref()?.page_fault_ns)
            .map(|ns| ns.max(0.0) as u64)
            .filter(|&ns| ns > 0),
    }
}

impl Composed {
    pub fn new(trace: Trace, paths: &[PathBuf], part: &Options, rules: Rules) -> Result<Composed, Error> {
        if let several @ 2.. = kernel_sources(paths, &trace) {
            return Err(Error::SeveralKernels(several));
        }
        let composer = Composer::with_rules(rules, about(trace.recordings()))?;
        let begin_ns = begin_ns(part.begin, &trace);
        Ok(Composed { trace, composer, begin_ns, last_ns: None, paths: paths.to_vec(), part: part.clone(), at_end: None, finished: false })
    }

    pub fn at_end(&mut self, observe: Box<dyn FnOnce(&Trace)>) {
        self.at_end = Some(observe);
    }

    pub fn next_interaction(&mut self) -> Result<Option<Interaction>, Error> {
        loop {
            if let Some(interaction) = self.composer.next_interaction() {
                return Ok(Some(interaction));
            }
            if !self.read(&mut compose)? {
                return Ok(None);
            }
        }
    }

    /// Reads one item, or ends the reading after the last one; both may yield interactions, which
    /// are then read ahead. Returns false if the reading has ended before.
    #[inline]
    pub fn read(&mut self, feed: &mut Feed<'_>) -> Result<bool, Error> {
        if self.finished {
            return Ok(false);
        }
        let composer = &mut self.composer;
        let read = self.trace.see_next(|item, catalogue| {
            feed(composer, catalogue, item);
            item.t_ns()
        })?;
        match read {
            Some(t_ns) => self.last_ns = Some(t_ns),
            None => self.finish()?,
        }
        Ok(true)
    }

    /// Reads the items after the last requested interaction.
    pub fn rest(&mut self, feed: &mut Feed<'_>) -> Result<(), Error> {
        self.composer.end_here();
        while !self.finished {
            match self.trace.next_with_catalogue()? {
                Some((item, catalogue)) => {
                    feed(&mut self.composer, catalogue, &item);
                    self.last_ns = Some(item.t_ns());
                }
                None => self.finish()?,
            }
        }
        Ok(())
    }

    /// Ends the reading. An error if the trace has events, but none in the requested part.
    fn finish(&mut self) -> Result<(), Error> {
        self.finished = true;
        self.composer.finish(self.trace.catalogue());
        if let Some(observe) = self.at_end.take() {
            observe(&self.trace);
        }
        let is_before = self.last_ns.is_some_and(|last_ns| last_ns < self.begin_ns);
        match is_before || matches!(self.trace.no_event(), Some(NoEvent::InPart { .. })) {
            true => Err(Error::NothingInPart { paths: self.paths.clone(), part: Box::new(self.part.clone()) }),
            false => Ok(()),
        }
    }
}
