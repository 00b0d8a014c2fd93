//! The interactions of any kind of trace: the common source of all analyses that ask which machine
//! affects which.
//!
//! A machine log contains interactions; for any other trace they are composed from its events. In
//! both cases they are read one by one, or block by block, in the order of time.

use super::composed::{about, Composed};
use super::error::names;
use super::{Error, Feed};
use crate::critical_path::NoAnswer;
use crate::machine_log::Reader;
use longpole_model::causes::{is_named_as_recorder, Composer, Counters, RunsOn};
use longpole_model::interaction::ahead::Ahead;
use longpole_model::interaction::block::Block;
use longpole_model::interaction::{Effect, Interaction, Vocabulary};
use longpole_model::linux::watch::Watch;
use longpole_model::linux::Linux;
use longpole_model::rules::Rules;
use longpole_trace::{Moment, Options, Trace};
use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::path::{Path, PathBuf};

/// The interactions of a trace or of a machine log, in the order of time.
pub struct Interactions {
    paths: Vec<PathBuf>,
    /// The paths in one line, for errors.
    shown: String,
    source: Source,
    part: Options,
    range: Option<Range>,
    /// True if the last requested interaction was read.
    over: bool,
    /// True if interactions after the end of the part were found.
    cut: bool,
    /// Cost in ns of one probe event for the recorded program; 0 if it is unknown.
    probe_ns: f64,
}

enum Source {
    Log(Reader<File>),
    Trace(Box<Composed>),
}

/// The requested part, in ns on the trace's own clock. `None` means that there is no limit.
#[derive(Clone, Copy, Debug, Default)]
pub struct Range {
    pub begin: Option<u64>,
    /// The end itself belongs to the part.
    pub end: Option<u64>,
}

impl Interactions {
    /// Returns the interactions of a machine log from its begin on. `name` is the log's path.
    ///
    /// # Errors
    ///
    /// [`Error::TimeOfDay`] if the part is limited by a time of day.
    pub fn of_log(log: File, name: &Path, part: Options) -> Result<Interactions, Error> {
        if let (Some(Moment::OfDay(_)), _) | (_, Some(Moment::OfDay(_))) = (part.begin, part.end) {
            return Err(Error::TimeOfDay);
        }
        Ok(Interactions::new(&[name.to_owned()], Source::Log(Reader::new(log)), part))
    }

    /// Returns the interactions of a trace. `paths` are those from which it was opened; several
    /// traces may be opened as one.
    ///
    /// The trace must be opened from its begin on even if `part` begins later, because earlier
    /// events determine the states at the begin of the part.
    ///
    /// # Errors
    ///
    /// [`Error::SeveralKernels`] if more than one of the paths has kernel events.
    pub fn of_trace(trace: Trace, paths: &[PathBuf], part: Options, rules: Rules) -> Result<Interactions, Error> {
        let probe_ns = trace.probe_cost_ns().unwrap_or(0.0);
        let composed = Composed::new(trace, paths, &part, rules)?;
        Ok(Interactions { probe_ns, ..Interactions::new(paths, Source::Trace(Box::new(composed)), part) })
    }

    /// Sets a function that is called once, after the last item of the trace was read; for example
    /// to report the trace's diagnostics, which are complete then. It is not called for a machine
    /// log.
    pub fn at_end(&mut self, observe: impl FnOnce(&Trace) + 'static) {
        if let Source::Trace(composed) = &mut self.source {
            composed.at_end(Box::new(observe));
        }
    }

    fn new(paths: &[PathBuf], source: Source, part: Options) -> Interactions {
        Interactions { paths: paths.to_vec(), shown: names(paths), source, part, range: None, over: false, cut: false, probe_ns: 0.0 }
    }

    /// Returns the next interaction up to the end of the part. Interactions before the begin of the
    /// part are returned, too: they determine what machines do later.
    pub fn next_interaction(&mut self) -> Result<Option<Interaction>, Error> {
        if self.over {
            return Ok(None);
        }
        let next = match &mut self.source {
            Source::Log(reader) => reader.next_interaction().map_err(|source| Error::Log { name: self.shown.clone(), source })?,
            Source::Trace(composed) => composed.next_interaction()?,
        };
        let Some(interaction) = next else {
            self.over = true;
            return Ok(None);
        };
        Ok(self.admits(&interaction)?.then_some(interaction))
    }

    /// Returns true if the interaction is not after the end of the part. Once an interaction is
    /// after it, all later ones are.
    #[inline]
    fn admits(&mut self, interaction: &Interaction) -> Result<bool, Error> {
        self.resolve_range(interaction)?;
        self.over = self.range().end.is_some_and(|end| interaction.t > end);
        self.cut |= self.over;
        Ok(!self.over)
    }

    /// Names as of the last interaction that was read.
    pub fn vocabulary(&self) -> &Vocabulary {
        match &self.source {
            Source::Log(reader) => reader.vocabulary(),
            Source::Trace(composed) => composed.composer.vocabulary(),
        }
    }

    /// Fills an empty block with the next interactions until it is full. Passes each item of the
    /// trace to `feed` on the way. Returns false if there are no more interactions.
    pub fn fill(&mut self, block: &mut Block, feed: &mut Feed<'_>) -> Result<bool, Error> {
        // The source writes directly into the block's vector, so that nothing is copied.
        block.exchange(self.source.ahead());
        let filled = self.read_ahead(block, feed);
        block.exchange(self.source.ahead());
        filled
    }

    fn read_ahead(&mut self, block: &mut Block, feed: &mut Feed<'_>) -> Result<bool, Error> {
        while !self.over {
            let before = self.source.ahead().interactions.len();
            self.over = !match &mut self.source {
                Source::Log(reader) => reader.read_line().map_err(|source| Error::Log { name: self.shown.clone(), source })?,
                Source::Trace(composed) => composed.read(feed)?,
            };
            self.drop_after_end(before)?;
            let count = self.source.ahead().interactions.len();
            if count > before {
                block.note_renames(self.source.vocabulary_mut(), before);
            }
            if count >= Block::MAX_INTERACTIONS {
                break;
            }
        }
        Ok(!self.over)
    }

    /// Removes interactions after the end of the part from those read ahead, starting at index
    /// `from`.
    #[inline]
    fn drop_after_end(&mut self, from: usize) -> Result<(), Error> {
        if self.range.is_some_and(|range| range.end.is_none()) {
            return Ok(());
        }
        for at in from..self.source.ahead().interactions.len() {
            let interaction = self.source.ahead().interactions[at];
            if !self.admits(&interaction)? {
                self.source.ahead().interactions.truncate(at);
                break;
            }
        }
        Ok(())
    }

    /// Makes the vocabulary record renames of queues, which blocks need.
    pub fn note_renames(&mut self) {
        self.source.vocabulary_mut().note_renames();
    }

    /// Reads the rest of the trace, after the last requested interaction.
    pub fn rest(&mut self, feed: &mut Feed<'_>) -> Result<(), Error> {
        if let Source::Trace(composed) = &mut self.source {
            composed.rest(feed)?;
        }
        Ok(())
    }

    /// Reports to `watch` what is known only after the last item.
    pub fn finish_linux<W: Watch>(&mut self, watch: &mut W) {
        if let Source::Trace(composed) = &mut self.source {
            composed.composer.finish_linux(watch);
        }
    }

    /// Counters that interactions cannot express; complete after the last interaction. `None` for a
    /// machine log.
    pub fn counters(&self) -> Option<&Counters> {
        match &self.source {
            Source::Log(_) => None,
            Source::Trace(composed) => Some(composed.composer.counters()),
        }
    }

    /// Returns where the machines with each name run. Samples of stacks identify machines by it.
    pub fn runs_on(&self) -> HashMap<&str, Vec<RunsOn>> {
        let mut runs_on: HashMap<&str, Vec<RunsOn>> = HashMap::new();
        if let Source::Trace(composed) = &self.source {
            for &(machine, place) in composed.composer.runs_on() {
                runs_on.entry(composed.composer.vocabulary().machine_name(machine)).or_default().push(place);
            }
        }
        runs_on
    }

    /// Returns the names of the machines that belong to the recorder. `None` for a machine log,
    /// which does not tell.
    pub fn recorders(&self) -> Option<HashSet<&str>> {
        self.composer().map(|composer| composer.recorders().collect())
    }

    /// Returns a predicate that is true for the recorder's machines. A machine log does not
    /// identify them, so there they are recognized by their names.
    pub fn knows_recorder(&self) -> impl Fn(&str) -> bool + '_ {
        let recorders = self.recorders();
        move |machine| match &recorders {
            Some(known) => known.contains(machine),
            None => is_named_as_recorder(machine),
        }
    }

    /// The composer of the interactions; `None` for a machine log.
    pub fn composer(&self) -> Option<&Composer> {
        match &self.source {
            Source::Log(_) => None,
            Source::Trace(composed) => Some(&composed.composer),
        }
    }

    /// Returns true if a command was recorded, whose end is the end of the path. A machine log
    /// counts as one with a command.
    pub fn has_command(&self) -> bool {
        self.trace().is_none_or(|trace| about(trace.recordings()).command.is_some())
    }

    /// The trace that the interactions are composed from; `None` for a machine log.
    pub fn trace(&self) -> Option<&Trace> {
        match &self.source {
            Source::Log(_) => None,
            Source::Trace(composed) => Some(&composed.trace),
        }
    }

    /// Returns the trace and the kernel's model, for a caller that has no more questions about
    /// machines.
    pub fn into_parts(self) -> Option<(Trace, Linux)> {
        match self.source {
            Source::Log(_) => None,
            Source::Trace(composed) => Some((composed.trace, composed.composer.into_linux())),
        }
    }

    /// Returns the requested part. Relative times are resolved at the first interaction; before
    /// that, the range has no limits.
    pub fn range(&self) -> Range {
        self.range.unwrap_or_default()
    }

    /// Returns the end of the part if interactions after it exist: the analysis extends to that
    /// time, beyond the last interaction.
    pub fn until(&self) -> Option<u64> {
        self.range().end.filter(|_| self.cut)
    }

    #[inline]
    fn resolve_range(&mut self, interaction: &Interaction) -> Result<(), Error> {
        // Declarations of queues have no time.
        if self.range.is_none() && !matches!(interaction.effect, Effect::Declare { .. }) {
            let start = i64::try_from(interaction.t).unwrap_or(i64::MAX);
            let resolve = |moment: Moment| u64::try_from(moment.resolve(start)).unwrap_or(0);
            let range = Range { begin: self.part.begin.map(resolve), end: self.part.end.map(resolve) };
            if range.begin.zip(range.end).is_some_and(|(begin, end)| end < begin) {
                return Err(Error::EndsBeforeBegin);
            }
            self.range = Some(range);
        }
        Ok(())
    }

    /// Returns true if only a part was requested. If no interaction was found, that is the reason.
    pub fn is_part(&self) -> bool {
        let Range { begin, end } = self.range();
        begin.is_some() || end.is_some()
    }

    /// Returns the error for a trace, or a part of one, without interactions.
    pub fn empty(&self) -> Error {
        match self.is_part() {
            true => self.nothing_in_part(),
            false => Error::NoPath { name: self.shown.clone(), source: NoAnswer::Empty },
        }
    }

    pub(super) fn nothing_in_part(&self) -> Error {
        Error::NothingInPart { paths: self.paths.clone(), part: Box::new(self.part.clone()) }
    }

    /// The paths of the trace.
    pub fn paths(&self) -> &[PathBuf] {
        &self.paths
    }

    /// The requested part, as it was given.
    pub fn part(&self) -> &Options {
        &self.part
    }

    /// The paths of the trace in one line.
    pub(super) fn name(&self) -> &str {
        &self.shown
    }

    pub(super) fn probe_ns(&self) -> f64 {
        self.probe_ns
    }
}

impl Source {
    /// Interactions that were read and not yet returned.
    #[inline]
    fn ahead(&mut self) -> &mut Ahead {
        match self {
            Source::Log(reader) => reader.ahead(),
            Source::Trace(composed) => composed.composer.ahead(),
        }
    }

    fn vocabulary_mut(&mut self) -> &mut Vocabulary {
        match self {
            Source::Log(reader) => reader.vocabulary_mut(),
            Source::Trace(composed) => composed.composer.vocabulary_mut(),
        }
    }
}
