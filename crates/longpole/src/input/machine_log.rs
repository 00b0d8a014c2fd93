//! Recognizes machine logs, and reads one for the verbs that accept it.

use crate::input::Input;
use crate::interactions::{self, Interactions};
use crate::render::answer;
use crate::render::table::counted;
use longpole_analysis::machine_log::{is_machine_log, Reader};
use longpole_model::interaction::{Effect, Interaction, Vocabulary};
use serde::Serialize;
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;
use std::process::ExitCode;

/// Returns true if the path is a file that begins like a machine log.
pub fn is_one(path: &Path) -> bool {
    let is_file = path.metadata().is_ok_and(|data| data.is_file());
    let Some(file) = is_file.then(|| File::open(path).ok()).flatten() else { return false };
    let mut begin = Vec::new();
    file.take(1 << 16).read_to_end(&mut begin).is_ok() && is_machine_log(&begin)
}

/// Returns the first error in the log, for example a line that is not an interaction.
pub fn trouble(path: &Path) -> anyhow::Result<Option<String>> {
    let mut reader = Reader::new(File::open(path)?);
    loop {
        match reader.next_interaction() {
            Ok(Some(_)) => {}
            Ok(None) => return Ok(None),
            Err(error) => return Ok(Some(error.to_string())),
        }
    }
}

/// Returns true if the path is a pipe. A pipe can be read only once, so its format is found only
/// when it is read.
pub fn is_pipe(path: &Path) -> bool {
    path.metadata().is_ok_and(|data| !data.is_file() && !data.is_dir())
}

/// Returns the interactions if exactly one trace was named and it is a machine log or a pipe.
pub fn named(input: &Input) -> anyhow::Result<Option<Interactions>> {
    match input.paths()?.as_slice() {
        _ if input.options().dump.is_some() => Ok(None),
        [path] if is_one(path) || is_pipe(path) => interactions::of(path, input.options(), input.rules()?).map(Some),
        _ => Ok(None),
    }
}

/// Passes all interactions to `to`, together with the begin of the requested part. Returns the
/// number of interactions in that part. An error if there are none.
pub fn each(log: &mut Interactions, mut to: impl FnMut(&Vocabulary, &Interaction, u64)) -> anyhow::Result<u64> {
    let mut count = 0;
    while let Some(interaction) = log.next()? {
        let begin = log.range().begin.unwrap_or(0);
        // Declarations of queues have no time.
        count += u64::from(interaction.t >= begin && !matches!(interaction.effect, Effect::Declare { .. }));
        to(log.vocabulary(), &interaction, begin);
    }
    match count {
        0 => Err(log.empty()),
        count => Ok(count),
    }
}

/// Writes an answer that was computed from `interactions` interactions.
pub fn write<T: Serialize>(
    input: &Input,
    interactions: u64,
    answer: &T,
    print: impl FnOnce(&mut Box<dyn Write>) -> io::Result<()>,
) -> anyhow::Result<ExitCode> {
    answer::tell(input.json, answer, |out| {
        print(out)?;
        writeln!(out, "\n{}", counted(interactions, "interaction"))
    })?;
    Ok(ExitCode::SUCCESS)
}
