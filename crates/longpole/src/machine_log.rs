//! Machine logs as a source of the verbs that read them.

use anyhow::{anyhow, bail, Context};
use longpole_analysis::lineage::{Answer, Lineage, Options};
use longpole_model::machine_log::{opens_like_one, Reader, Writer};
use longpole_trace::{Moment, Options as Part};
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};

/// Whether this is a machine log, by what opens it. What is no file at all is for others to say.
pub fn is_one(path: &Path) -> anyhow::Result<bool> {
    if !path.metadata().is_ok_and(|data| !data.is_dir()) {
        return Ok(false);
    }
    let Ok(mut file) = File::open(path) else { return Ok(false) };
    // A pipe can be read once only, and nothing else that is read is one.
    if !path.metadata()?.is_file() {
        return Ok(true);
    }
    let mut begin = vec![0; 1 << 16];
    let mut length = 0;
    loop {
        let read = file.read(&mut begin[length..])?;
        length += read;
        if read == 0 || length == begin.len() {
            break;
        }
    }
    Ok(opens_like_one(&begin[..length]))
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
    pub fn lineage(mut self, mut options: Options) -> anyhow::Result<Answer> {
        let shown = self.path.display().to_string();
        let mut lineage = None;
        let mut end = None;
        while let Some(interaction) = self.reader.next_interaction().map_err(|error| anyhow!("{shown}: {error}"))? {
            let lineage = lineage.get_or_insert_with(|| {
                let resolve = |moment: Moment| u64::try_from(moment.resolve(interaction.t as i64)).unwrap_or(0);
                options.begin = self.part.begin.map(resolve);
                end = self.part.end.map(resolve);
                Lineage::new(options.clone())
            });
            if end.is_some_and(|end| interaction.t > end) {
                lineage.until(end.unwrap_or(0));
                break;
            }
            lineage.interaction(self.reader.vocabulary(), &interaction);
        }
        let lineage = lineage.ok_or_else(|| anyhow!("{shown}: no machine does anything in it"))?;
        lineage.answer(self.reader.vocabulary()).map_err(|error| anyhow!("{shown}: {error}"))
    }

    /// Writes all of it anew.
    pub fn copy(mut self, out: impl Write) -> anyhow::Result<()> {
        let shown = self.path.display().to_string();
        let mut writer = Writer::new(out);
        let mut end = None;
        while let Some(interaction) = self.reader.next_interaction().map_err(|error| anyhow!("{shown}: {error}"))? {
            let resolve = |moment: Moment| u64::try_from(moment.resolve(interaction.t as i64)).unwrap_or(0);
            let end = end.get_or_insert_with(|| self.part.end.map(resolve));
            if end.is_some_and(|end| interaction.t > end) {
                break;
            }
            writer.write(self.reader.vocabulary(), &interaction)?;
        }
        Ok(writer.flush()?)
    }
}
