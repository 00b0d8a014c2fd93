//! Machine logs as a source of the verbs that read them.

use anyhow::{anyhow, bail, Context};
use longpole_analysis::lineage::{Answer, Lineage, Options};
use longpole_model::interaction::{Deed, Interaction};
use longpole_model::machine_log::{opens_like_one, Reader, Writer};
use longpole_trace::{Moment, Options as Part};
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};

/// Whether this is a file that opens like a machine log.
pub fn is_one(path: &Path) -> bool {
    let is_file = path.metadata().is_ok_and(|data| data.is_file());
    let Some(file) = is_file.then(|| File::open(path).ok()).flatten() else { return false };
    let mut begin = Vec::new();
    file.take(1 << 16).read_to_end(&mut begin).is_ok() && opens_like_one(&begin)
}

/// A verb that reads nothing else says so. A pipe can be read once only: what is in it shows when it is read.
pub fn needed(path: &Path, what: &str) -> anyhow::Result<()> {
    let data = path.metadata().with_context(|| format!("{} cannot be opened", path.display()))?;
    if is_one(path) || !data.is_file() && !data.is_dir() {
        return Ok(());
    }
    bail!(
        "{}: {what} of recordings come with the model of threads, interrupts and packets; for now they are told of machine logs only \
         (docs/formats/machine-log.md), and this is none",
        path.display()
    );
}

pub struct MachineLog {
    path: PathBuf,
    reader: Reader<Box<dyn BufRead>>,
    part: Part,
}

pub fn open(path: &Path, part: Part) -> anyhow::Result<MachineLog> {
    if let (Some(Moment::OfDay(_)), _) | (_, Some(Moment::OfDay(_))) = (part.begin, part.end) {
        bail!(crate::WrongUsage("a machine log has a clock of its own: --begin and --end are ns, or +1.5s from its begin".to_owned()));
    }
    let file = File::open(path).with_context(|| format!("{} cannot be opened", path.display()))?;
    let input: Box<dyn BufRead> = Box::new(BufReader::with_capacity(1 << 18, file));
    Ok(MachineLog { path: path.to_owned(), reader: Reader::new(input), part })
}

impl MachineLog {
    /// The critical path of all of it.
    pub fn lineage(mut self, options: Options) -> anyhow::Result<Answer> {
        let shown = self.path.display().to_string();
        let mut lineage = Lineage::new(options);
        let mut range = None;
        while let Some(interaction) = self.next(&shown)? {
            let Range { begin, end } = *range_of(&mut range, &self.part, &interaction);
            if let Some(end) = end.filter(|&end| interaction.t > end) {
                lineage.until(end);
                break;
            }
            if let Some(begin) = begin {
                lineage.begin_at(begin);
            }
            lineage.interaction(self.reader.vocabulary(), &interaction);
        }
        lineage.answer(self.reader.vocabulary()).map_err(|error| anyhow!("{shown}: {error}"))
    }

    /// Writes all of it anew.
    pub fn copy(mut self, out: impl Write) -> anyhow::Result<()> {
        let shown = self.path.display().to_string();
        let mut writer = Writer::new(out);
        let mut range = None;
        while let Some(interaction) = self.next(&shown)? {
            let Range { end, .. } = *range_of(&mut range, &self.part, &interaction);
            if end.is_some_and(|end| interaction.t > end) {
                break;
            }
            writer.write(self.reader.vocabulary(), &interaction)?;
        }
        Ok(writer.flush()?)
    }

    fn next(&mut self, shown: &str) -> anyhow::Result<Option<Interaction>> {
        self.reader.next_interaction().map_err(|error| anyhow!("{shown}: {error}"))
    }
}

/// What was asked for, on the log's own clock.
#[derive(Clone, Copy, Default)]
struct Range {
    begin: Option<u64>,
    end: Option<u64>,
}

/// The range, once the first time of the log is known; until then all of it.
fn range_of<'a>(range: &'a mut Option<Range>, part: &Part, interaction: &Interaction) -> &'a Range {
    const ALL: &Range = &Range { begin: None, end: None };
    if range.is_none() {
        // A queue is declared without a time.
        if matches!(interaction.deed, Deed::Declare { .. }) {
            return ALL;
        }
        let start = i64::try_from(interaction.t).unwrap_or(i64::MAX);
        let resolve = |moment: Moment| u64::try_from(moment.resolve(start)).unwrap_or(0);
        *range = Some(Range { begin: part.begin.map(resolve), end: part.end.map(resolve) });
    }
    range.as_ref().unwrap_or(ALL)
}
