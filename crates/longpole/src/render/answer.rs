//! Gives a verb's answer, to people or to programs.

use crate::input::Input;
use longpole_trace::Trace;
use serde::Serialize;
use std::io::{self, BufWriter, StdoutLock, Write};
use std::process::ExitCode;

/// What an answer was made from.
pub trait Told {
    fn trace(&self) -> &Trace;

    /// What stands beside every number: losses, and what else makes them uncertain.
    fn footer(&self, out: &mut dyn Write) -> io::Result<()>;

    /// What a program's answer has no place for, and its user should know.
    fn note(&self) -> Option<String> {
        None
    }
}

/// As JSON, or as `print` shows it with the footer. A damaged trace was answered as far as it could be read, and that is a failure.
pub fn write<T: Serialize>(
    input: &Input,
    from: impl Told,
    answer: &T,
    print: impl FnOnce(&mut BufWriter<StdoutLock<'static>>, &T) -> io::Result<()>,
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

/// As JSON, or as `print` shows it.
pub fn tell<T: Serialize>(
    json: bool,
    answer: &T,
    print: impl FnOnce(&mut BufWriter<StdoutLock<'static>>) -> io::Result<()>,
) -> anyhow::Result<()> {
    let mut out = BufWriter::new(io::stdout().lock());
    if json {
        serde_json::to_writer_pretty(&mut out, answer)?;
        writeln!(out)?;
    } else {
        print(&mut out)?;
    }
    Ok(out.flush()?)
}
