//! The interactions of whatever a trace is: the one source of all verbs that ask who moves whom (`path`, `model`, …).
//!
//! A machine log holds them; of any other trace they are composed from its events. Either way they come one by one, in the order of time.

use crate::input::Input;
use crate::{machine_log, WrongUsage};
use anyhow::{anyhow, bail, Context};
use longpole_analysis::lineage::{Answer, Lineage, Options};
use longpole_model::interaction::{Deed, Interaction, Vocabulary};
use longpole_model::machine_log::{Reader, Writer};
use longpole_trace::{Moment, Options as Part};
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;

pub struct Interactions {
    shown: String,
    reader: Reader<Box<dyn BufRead>>,
    part: Part,
    range: Option<Range>,
    over: bool,
    /// There is more after `--end`.
    cut: bool,
}

/// What was asked for, on the trace's own clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct Range {
    pub begin: Option<u64>,
    pub end: Option<u64>,
}

/// Of the one trace that was named. `what` is told of it, for who names several.
pub fn open(input: &Input, what: &str) -> anyhow::Result<Interactions> {
    let paths = input.paths()?;
    let [path] = paths.as_slice() else {
        return Err(WrongUsage(format!("{what} of one trace; name one")).into());
    };
    of(path, what, input.options())
}

/// Of this trace.
pub fn of(path: &Path, what: &str, part: Part) -> anyhow::Result<Interactions> {
    machine_log::needed(path, what)?;
    Interactions::of_log(path, part)
}

impl Interactions {
    fn of_log(path: &Path, part: Part) -> anyhow::Result<Interactions> {
        if let (Some(Moment::OfDay(_)), _) | (_, Some(Moment::OfDay(_))) = (part.begin, part.end) {
            bail!(WrongUsage("a machine log has a clock of its own: --begin and --end are ns, or +1.5s from its begin".to_owned()));
        }
        let file = File::open(path).with_context(|| format!("{} cannot be opened", path.display()))?;
        let input: Box<dyn BufRead> = Box::new(BufReader::with_capacity(1 << 18, file));
        Ok(Interactions { shown: path.display().to_string(), reader: Reader::new(input), part, range: None, over: false, cut: false })
    }

    /// The next one up to `--end`. Those before `--begin` come, too: they decide what machines do later.
    pub fn next(&mut self) -> anyhow::Result<Option<Interaction>> {
        if self.over {
            return Ok(None);
        }
        let next = self.reader.next_interaction().map_err(|error| anyhow!("{}: {error}", self.shown))?;
        let Some(interaction) = next else {
            self.over = true;
            return Ok(None);
        };
        self.over = self.range_at(&interaction).end.is_some_and(|end| interaction.t > end);
        self.cut = self.over;
        Ok((!self.over).then_some(interaction))
    }

    pub fn vocabulary(&self) -> &Vocabulary {
        self.reader.vocabulary()
    }

    /// What was asked for, once the first time is known; until then all of it.
    pub fn range(&self) -> Range {
        self.range.unwrap_or_default()
    }

    /// Where `--end` cut it, after the last interaction: so far time went on.
    pub fn until(&self) -> Option<u64> {
        self.range().end.filter(|_| self.cut)
    }

    fn range_at(&mut self, interaction: &Interaction) -> Range {
        // A queue is declared without a time.
        if self.range.is_none() && !matches!(interaction.deed, Deed::Declare { .. }) {
            let start = i64::try_from(interaction.t).unwrap_or(i64::MAX);
            let resolve = |moment: Moment| u64::try_from(moment.resolve(start)).unwrap_or(0);
            self.range = Some(Range { begin: self.part.begin.map(resolve), end: self.part.end.map(resolve) });
        }
        self.range()
    }

    /// The critical path.
    pub fn lineage(mut self, options: Options) -> anyhow::Result<Answer> {
        let mut lineage = Lineage::new(options);
        while let Some(interaction) = self.next()? {
            if let Some(begin) = self.range().begin {
                lineage.begin_at(begin);
            }
            lineage.interaction(self.vocabulary(), &interaction);
        }
        if let Some(end) = self.until() {
            lineage.until(end);
        }
        lineage.answer(self.vocabulary()).map_err(|error| anyhow!("{}: {error}", self.shown))
    }

    /// As a machine log.
    pub fn write(mut self, out: impl Write) -> anyhow::Result<()> {
        let mut writer = Writer::new(out);
        while let Some(interaction) = self.next()? {
            writer.write(self.vocabulary(), &interaction)?;
        }
        Ok(writer.flush()?)
    }
}
