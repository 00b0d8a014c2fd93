//! Writes a verb's answer, as text for people or as JSON for programs.

use crate::input::Input;
use crate::render::screen::{self, Wrap};
use longpole_trace::Trace;
use serde::Serialize;
use std::io::{self, BufWriter, Write};
use std::process::ExitCode;

/// The source of an answer.
pub trait Told {
    fn trace(&self) -> &Trace;

    /// Prints what qualifies all numbers: losses, and other reasons why they are uncertain.
    fn footer(&self, out: &mut dyn Write) -> io::Result<()>;

    /// Returns what the JSON answer has no field for, but the user should know.
    fn note(&self) -> Option<String> {
        None
    }
}

/// Writes JSON, or what `print` prints followed by the footer. Returns failure if the trace is
/// damaged: the answer then covers only the part that could be read.
pub fn write<T: Serialize>(
    input: &Input,
    from: impl Told,
    answer: &T,
    print: impl FnOnce(&mut Box<dyn Write>, &T) -> io::Result<()>,
) -> anyhow::Result<ExitCode> {
    tell(input.json, answer, |out| {
        print(out, answer)?;
        from.footer(out)
    })?;
    if let Some(note) = from.note().filter(|_| input.json) {
        eprintln!("longpole: note: {note}");
    }
    Ok(if from.trace().is_damaged() { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Writes JSON, or what `print` prints.
pub fn tell<T: Serialize>(json: bool, answer: &T, print: impl FnOnce(&mut Box<dyn Write>) -> io::Result<()>) -> anyhow::Result<()> {
    let stdout = BufWriter::new(io::stdout().lock());
    let mut out: Box<dyn Write> = match screen::columns().filter(|_| !json) {
        Some(columns) => Box::new(Wrap::new(stdout, columns)),
        None => Box::new(stdout),
    };
    if json {
        serde_json::to_writer_pretty(&mut out, answer)?;
        writeln!(out)?;
    } else {
        print(&mut out)?;
    }
    Ok(out.flush()?)
}
