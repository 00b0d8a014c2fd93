//! Which files are machine logs, and how verbs go through one.

use crate::input::Input;
use crate::interactions::{self, Interactions};
use crate::render::answer;
use crate::render::table::counted;
use longpole_analysis::machine_log::{is_machine_log, Reader};
use longpole_model::interaction::{Effect, Interaction, Vocabulary};
use serde::Serialize;
use std::fs::File;
use std::io::{self, BufWriter, Read, StdoutLock, Write};
use std::path::Path;
use std::process::ExitCode;

/// Whether this is a file that opens like a machine log.
pub fn is_one(path: &Path) -> bool {
    let is_file = path.metadata().is_ok_and(|data| data.is_file());
    let Some(file) = is_file.then(|| File::open(path).ok()).flatten() else { return false };
    let mut begin = Vec::new();
    file.take(1 << 16).read_to_end(&mut begin).is_ok() && is_machine_log(&begin)
}

/// What is wrong with it, where something is: a line that means nothing.
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

/// A pipe can be read once only: what is in it shows when it is read.
pub fn is_pipe(path: &Path) -> bool {
    path.metadata().is_ok_and(|data| !data.is_file() && !data.is_dir())
}

/// What it says, if that is what was named, and nothing else.
pub fn named(input: &Input) -> anyhow::Result<Option<Interactions>> {
    match input.paths()?.as_slice() {
        _ if input.options().dump.is_some() => Ok(None),
        [path] if is_one(path) || is_pipe(path) => interactions::of(path, input.options(), input.rules()?).map(Some),
        _ => Ok(None),
    }
}

/// All of it, to who asks; with where the part begins that was asked for. Returns how much of it lies in that part.
pub fn each(log: &mut Interactions, mut to: impl FnMut(&Vocabulary, &Interaction, u64)) -> anyhow::Result<u64> {
    let mut count = 0;
    while let Some(interaction) = log.next()? {
        let begin = log.range().begin.unwrap_or(0);
        // A queue is declared without a time.
        count += u64::from(interaction.t >= begin && !matches!(interaction.effect, Effect::Declare { .. }));
        to(log.vocabulary(), &interaction, begin);
    }
    match count {
        0 => Err(log.empty()),
        count => Ok(count),
    }
}

/// An answer from so many interactions.
pub fn write<T: Serialize>(
    input: &Input,
    interactions: u64,
    answer: &T,
    print: impl FnOnce(&mut BufWriter<StdoutLock<'static>>) -> io::Result<()>,
) -> anyhow::Result<ExitCode> {
    answer::tell(input.json, answer, |out| {
        print(out)?;
        writeln!(out, "\n{}", counted(interactions, "interaction"))
    })?;
    Ok(ExitCode::SUCCESS)
}
