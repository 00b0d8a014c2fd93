//! Recognizes machine logs, and reads one for the verbs that accept it.

use crate::input::Input;
use crate::render::answer;
use crate::render::table::counted;
use longpole_analysis::machine_log::{is_machine_log, Reader};
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

/// Writes an answer that was computed from `interactions` interactions.
pub fn write<T: Serialize>(
    input: &Input,
    interactions: u64,
    answer: &T,
    print: impl FnOnce(&mut Box<dyn Write>) -> io::Result<()>,
) -> anyhow::Result<ExitCode> {
    answer::json_or_text(input.json, answer, |out| {
        print(out)?;
        writeln!(out, "\n{}", counted(interactions, "interaction"))
    })?;
    Ok(ExitCode::SUCCESS)
}
