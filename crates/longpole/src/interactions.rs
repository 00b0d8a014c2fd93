//! The interactions of any kind of trace: the common source of all verbs that ask which machine
//! affects which (`path`, `model`, …).
//!
//! A machine log contains interactions; for any other trace they are composed from its events. In
//! both cases they are read one by one, or block by block, in the order of time.

use crate::following::{self, Follower};
use crate::input::empty_range;
use crate::input::machine_log;
use crate::input::{self, Input};
use crate::passes::kernel;
use crate::render::table::plain_lines;
use crate::spool::{Spool, SpoolWriter};
use crate::WrongUsage;
use anyhow::{anyhow, bail, Context};
use longpole_analysis::critical_path::{self, Answer, CriticalPath, Options, Spill};
use longpole_analysis::machine_log::{Reader, Writer};
use longpole_analysis::what_if::{self, WhatIf};
use longpole_model::causes::{is_named_as_recorder, About, Composer, RunsOn, Told};
use longpole_model::interaction::ahead::Ahead;
use longpole_model::interaction::block::Block;
use longpole_model::interaction::{Effect, Interaction, Vocabulary};
use longpole_model::linux::watch::Watch;
use longpole_model::linux::Linux;
use longpole_model::rules::Rules;
use longpole_trace::Catalogue;
use longpole_trace::Item;
use longpole_trace::Moment;
use longpole_trace::Options as Part;
use longpole_trace::Recording;
use longpole_trace::Trace;
use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Number of interactions in a window if several threads compute the path.
pub const WINDOW: usize = 1 << 16;

/// The file for a long path. The file has no name, so nothing of it remains, even if this process
/// is killed.
pub const SPILL: Spill = Spill { make: tempfile::tempfile, from: 1 << 16 };

pub struct Interactions {
    paths: Vec<PathBuf>,
    shown: String,
    source: Source,
    part: Part,
    range: Option<Range>,
    over: bool,
    /// True if interactions after `--end` were found.
    cut: bool,
    /// Cost in ns of one probe event for the recorded program; 0 if it is unknown.
    probe_ns: f64,
}

enum Source {
    Log(Reader<File>),
    Trace(Box<Composed>),
}

/// A trace whose interactions are composed from its events.
struct Composed {
    trace: Trace,
    composer: Composer,
    /// Begin of the requested part, and the time of the last item that was read.
    begin_ns: i64,
    last_ns: Option<i64>,
    /// The error for a part without events is made from these.
    paths: Vec<PathBuf>,
    part: Part,
    finished: bool,
}

/// The requested part, in ns on the trace's own clock. `None` means that there is no limit.
#[derive(Clone, Copy, Debug, Default)]
pub struct Range {
    pub begin: Option<u64>,
    pub end: Option<u64>,
}

/// Passes an item of the trace to the composer, and to analyses that read items directly.
pub type Feed<'a> = dyn FnMut(&mut Composer, &Catalogue, &Item<'_>) + 'a;

/// A [`Feed`] that passes items to the composer only.
pub fn alone(composer: &mut Composer, catalogue: &Catalogue, item: &Item<'_>) {
    composer.item(catalogue, item);
}

/// Opens all named traces as one.
pub fn open(input: &Input) -> anyhow::Result<Interactions> {
    of_all(&input.paths()?, input.options(), input.rules()?)
}

/// Opens one trace.
pub fn of(path: &Path, part: Part, rules: Rules) -> anyhow::Result<Interactions> {
    of_all(&[path.to_owned()], part, rules)
}

fn of_all(paths: &[PathBuf], part: Part, rules: Rules) -> anyhow::Result<Interactions> {
    let is_log = |path: &&PathBuf| part.dump.is_none() && (machine_log::is_one(path) || machine_log::is_pipe(path));
    match (paths.iter().find(is_log), paths.len()) {
        (None, _) => Interactions::of_trace(paths, part, rules),
        (Some(log), 1) => Interactions::of_log(log, part),
        (Some(log), _) => Err(WrongUsage(format!("{} is a machine log, which is a trace of its own; name it alone", log.display())).into()),
    }
}

fn about(trace: &Trace) -> About {
    let told = |of: fn(&Recording) -> Option<i32>| trace.recordings().iter().find_map(of);
    About {
        command: told(|recording| recording.command_pid),
        recorder: told(|recording| recording.recorder_pid).filter(|_| numbers_are_the_kernels(trace.recordings())),
        page_fault_ns: trace
            .recordings()
            .iter()
            .find_map(|recording| recording.kernel_events.as_ref()?.page_fault_ns)
            .map(|ns| ns.max(0.0) as u64)
            .filter(|&ns| ns > 0),
    }
}

/// Returns true if the recording's process ids are the ones in the kernel's events. In a pid
/// namespace of its own, the recorder sees other ids.
pub fn numbers_are_the_kernels(recordings: &[Recording]) -> bool {
    !recordings.iter().any(|recording| recording.kernel_events.as_ref().is_some_and(|kernel| kernel.foreign_pids))
}

impl Interactions {
    fn of_log(path: &Path, part: Part) -> anyhow::Result<Interactions> {
        if let (Some(Moment::OfDay(_)), _) | (_, Some(Moment::OfDay(_))) = (part.begin, part.end) {
            bail!(WrongUsage("a machine log has a clock of its own: --begin and --end are ns, or +1.5s from its begin".to_owned()));
        }
        let file = File::open(path).with_context(|| format!("{} cannot be opened", path.display()))?;
        Ok(Interactions::new(&[path.to_owned()], Source::Log(Reader::new(file)), part))
    }

    /// Reads the trace from its begin on even if only a later part is requested, because earlier
    /// events determine the states at the begin of that part.
    fn of_trace(paths: &[PathBuf], part: Part, rules: Rules) -> anyhow::Result<Interactions> {
        let trace = input::open(paths, Part { begin: None, ..part.clone() })?;
        if let several @ 2.. = kernel::sources(paths, &trace) {
            bail!("the kernel's events of {several} recordings cannot be told as one, since their threads and times are not the same; ask each by itself");
        }
        let about = about(&trace);
        let composer = Composer::with_rules(rules, about).context("a built-in rule file is wrong")?;
        let probe_ns = trace.probe_cost_ns().unwrap_or(0.0);
        let begin_ns = kernel::begin_of(part.begin, &trace);
        let composed = Composed { trace, composer, begin_ns, last_ns: None, paths: paths.to_vec(), part: part.clone(), finished: false };
        Ok(Interactions { probe_ns, ..Interactions::new(paths, Source::Trace(Box::new(composed)), part) })
    }

    fn new(paths: &[PathBuf], source: Source, part: Part) -> Interactions {
        let shown = paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(" ");
        Interactions { paths: paths.to_vec(), shown, source, part, range: None, over: false, cut: false, probe_ns: 0.0 }
    }

    /// Returns the next interaction up to `--end`. Interactions before `--begin` are returned, too:
    /// they determine what machines do later.
    pub fn next(&mut self) -> anyhow::Result<Option<Interaction>> {
        if self.over {
            return Ok(None);
        }
        let next = match &mut self.source {
            Source::Log(reader) => reader.next_interaction().map_err(|error| anyhow!("{}: {error}", self.shown))?,
            Source::Trace(composed) => composed.next()?,
        };
        let Some(interaction) = next else {
            self.over = true;
            return Ok(None);
        };
        Ok(self.admits(&interaction)?.then_some(interaction))
    }

    /// Returns true if the interaction is not after `--end`. Once an interaction is after `--end`,
    /// all later ones are.
    #[inline]
    fn admits(&mut self, interaction: &Interaction) -> anyhow::Result<bool> {
        self.resolve_range(interaction)?;
        self.over = self.range().end.is_some_and(|end| interaction.t > end);
        self.cut |= self.over;
        Ok(!self.over)
    }

    pub fn vocabulary(&self) -> &Vocabulary {
        match &self.source {
            Source::Log(reader) => reader.vocabulary(),
            Source::Trace(composed) => composed.composer.vocabulary(),
        }
    }

    /// Fills an empty block with the next interactions until it is full. Passes each item of the
    /// trace to `feed` on the way. Returns false if there are no more interactions.
    pub fn fill(&mut self, block: &mut Block, feed: &mut Feed<'_>) -> anyhow::Result<bool> {
        // The source writes directly into the block's vector, so that nothing is copied.
        block.exchange(self.source.ahead());
        let filled = self.read_ahead(block, feed);
        block.exchange(self.source.ahead());
        filled
    }

    fn read_ahead(&mut self, block: &mut Block, feed: &mut Feed<'_>) -> anyhow::Result<bool> {
        while !self.over {
            let before = self.source.ahead().interactions.len();
            self.over = !match &mut self.source {
                Source::Log(reader) => reader.read_line().map_err(|error| anyhow!("{}: {error}", self.shown))?,
                Source::Trace(composed) => composed.read(feed)?,
            };
            self.drop_after_end(before)?;
            let count = self.source.ahead().interactions.len();
            if count > before {
                block.note_renames(self.source.vocabulary_mut(), before);
            }
            if count >= Block::MOST {
                break;
            }
        }
        Ok(!self.over)
    }

    /// Removes interactions after `--end` from those read ahead, starting at index `from`.
    #[inline]
    fn drop_after_end(&mut self, from: usize) -> anyhow::Result<()> {
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
    pub fn rest(&mut self, feed: &mut Feed<'_>) -> anyhow::Result<()> {
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
    pub fn told(&self) -> Option<&Told> {
        match &self.source {
            Source::Log(_) => None,
            Source::Trace(composed) => Some(composed.composer.told()),
        }
    }

    /// Returns where the machines with each name run. Samples of stacks identify machines by it.
    pub fn seats(&self) -> HashMap<&str, Vec<RunsOn>> {
        let mut seats: HashMap<&str, Vec<RunsOn>> = HashMap::new();
        if let Source::Trace(composed) = &self.source {
            for &(machine, seat) in composed.composer.seats() {
                seats.entry(composed.composer.vocabulary().machine_name(machine)).or_default().push(seat);
            }
        }
        seats
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
        self.trace().is_none_or(|trace| about(trace).command.is_some())
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

    /// Returns `--end` if interactions after it exist: the analysis extends to that time, beyond
    /// the last interaction.
    pub fn until(&self) -> Option<u64> {
        self.range().end.filter(|_| self.cut)
    }

    #[inline]
    fn resolve_range(&mut self, interaction: &Interaction) -> anyhow::Result<()> {
        // Declarations of queues have no time.
        if self.range.is_none() && !matches!(interaction.effect, Effect::Declare { .. }) {
            let start = i64::try_from(interaction.t).unwrap_or(i64::MAX);
            let resolve = |moment: Moment| u64::try_from(moment.resolve(start)).unwrap_or(0);
            let range = Range { begin: self.part.begin.map(resolve), end: self.part.end.map(resolve) };
            if range.begin.zip(range.end).is_some_and(|(begin, end)| end < begin) {
                return Err(input::ends_before_it_begins());
            }
            self.range = Some(range);
        }
        Ok(())
    }

    /// Returns true if only a part was requested. If no interaction was found, that is the reason.
    pub fn misses(&self) -> bool {
        let Range { begin, end } = self.range();
        begin.is_some() || end.is_some()
    }

    /// Returns the critical path.
    pub fn critical_path(&mut self, options: Options) -> anyhow::Result<Answer> {
        self.critical_path_with(options, &mut ())
    }

    /// Returns the critical path; `watch` observes the kernel's model meanwhile.
    pub fn critical_path_with<W: Watch>(&mut self, options: Options, watch: &mut W) -> anyhow::Result<Answer> {
        let mut critical_path = CriticalPath::new(options);
        let feed = |composer: &mut Composer, catalogue: &Catalogue, item: &Item<'_>| composer.item_with(catalogue, item, watch);
        following::follow_fed(self, feed, [&mut [&mut critical_path as &mut dyn Follower][..]])?;
        self.finish_linux(watch);
        self.path(critical_path)
    }

    /// Returns the critical path from an analysis that has seen all interactions.
    pub fn path(&self, critical_path: CriticalPath) -> anyhow::Result<Answer> {
        let mut answer = critical_path.answer(self.vocabulary()).map_err(|error| match error {
            critical_path::NoAnswer::Empty if self.misses() => self.empty(),
            critical_path::NoAnswer::NothingInRange => self.empty(),
            error => self.refused(error),
        })?;
        answer.lost = self.told().map_or(0, |told| told.lost);
        Ok(answer)
    }

    fn worlds(&self, options: what_if::Options) -> WhatIf {
        let cpus = self.composer().map_or(0, |composer| composer.linux().cpus.len() as u32);
        WhatIf::new(what_if::Options { probe_ns: self.probe_ns, cpus, ..options })
    }

    /// Returns the predicted effects of changes.
    pub fn what_if(mut self, options: what_if::Options) -> anyhow::Result<what_if::Answer> {
        let mut worlds = self.worlds(options);
        following::follow(&mut self, |_, _| {}, &mut [&mut worlds])?;
        self.predictions(worlds)
    }

    /// Returns the predicted effects of changes, and a spool of the interactions for further
    /// predictions.
    pub fn what_if_and_spool(&mut self, options: what_if::Options) -> anyhow::Result<(what_if::Answer, Spool)> {
        let (mut worlds, mut keeper) = (self.worlds(options), SpoolWriter::default());
        following::follow(self, |_, _| {}, &mut [&mut worlds, &mut keeper])?;
        Ok((self.predictions(worlds)?, keeper.kept(self.vocabulary())))
    }

    /// Returns the predicted effects of changes, from spooled interactions. Runs in this thread,
    /// because reading the spool is faster than passing interactions to another thread.
    pub fn what_if_from_spool(&self, kept: &Spool, options: what_if::Options) -> anyhow::Result<what_if::Answer> {
        let options = what_if::Options { machine: kept.machine().map(str::to_owned).or(options.machine.clone()), ..options };
        let (mut worlds, (begin, end)) = (self.worlds(options), kept.range());
        if let Some(begin) = begin {
            worlds.begin_at(begin);
        }
        kept.each(|vocabulary, interaction| worlds.interaction(vocabulary, interaction))
            .with_context(|| format!("what {} said cannot be read again", self.shown))?;
        if let Some(end) = end {
            worlds.until(end);
        }
        self.predictions(worlds)
    }

    /// Returns the critical path of spooled interactions.
    pub fn path_from_spool(&self, kept: &Spool, options: Options) -> anyhow::Result<Answer> {
        let options = Options { machine: kept.machine().map(str::to_owned), ..options };
        let (mut critical_path, (begin, end)) = (CriticalPath::new(options), kept.range());
        if let Some(begin) = begin {
            critical_path.begin_at(begin);
        }
        kept.each(|vocabulary, interaction| critical_path.interaction(vocabulary, interaction))
            .with_context(|| format!("what {} said cannot be read again", self.shown))?;
        if let Some(end) = end {
            critical_path.until(end);
        }
        self.path(critical_path)
    }

    /// Returns the predicted effects of changes, from an analysis that has seen all interactions.
    pub fn predictions(&self, worlds: WhatIf) -> anyhow::Result<what_if::Answer> {
        let mut answer = worlds.answer(self.vocabulary()).map_err(|error| match error {
            what_if::NoAnswer::Empty if self.misses() => self.empty(),
            what_if::NoAnswer::NothingInRange => self.empty(),
            error => self.refused(error),
        })?;
        answer.lost = self.told().map_or(0, |told| told.lost);
        Ok(answer)
    }

    fn refused(&self, why: impl std::fmt::Display) -> anyhow::Error {
        anyhow!("{}: {why}", self.shown)
    }

    /// Returns the error for a trace, or a part of one, without interactions.
    pub fn empty(&self) -> anyhow::Error {
        match self.misses() {
            true => empty_range::refused(&self.paths, &self.part),
            false => self.refused(critical_path::NoAnswer::Empty),
        }
    }

    /// Writes the interactions as a machine log.
    pub fn write(mut self, out: impl Write) -> anyhow::Result<()> {
        let mut writer = Writer::new(out);
        while let Some(interaction) = self.next()? {
            writer.write(self.vocabulary(), &interaction)?;
        }
        Ok(writer.flush()?)
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

impl Composed {
    fn next(&mut self) -> anyhow::Result<Option<Interaction>> {
        loop {
            if let Some(interaction) = self.composer.next_interaction() {
                return Ok(Some(interaction));
            }
            if !self.read(&mut alone)? {
                return Ok(None);
            }
        }
    }

    /// Reads one item; the resulting interactions are read ahead. Returns false after the last
    /// item.
    #[inline]
    fn read(&mut self, feed: &mut Feed<'_>) -> anyhow::Result<bool> {
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

    fn rest(&mut self, feed: &mut Feed<'_>) -> anyhow::Result<()> {
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
    fn finish(&mut self) -> anyhow::Result<()> {
        self.finished = true;
        self.composer.finish(self.trace.catalogue());
        crate::verbs::convert::tell_no_event(&self.trace);
        for diagnostic in self.trace.diagnostics() {
            eprintln!("longpole: {}", plain_lines(diagnostic.to_string()));
        }
        match self.last_ns {
            Some(last_ns) if last_ns < self.begin_ns => Err(empty_range::refused(&self.paths, &self.part)),
            _ => empty_range::check(&self.trace, &self.paths, &self.part),
        }
    }
}
