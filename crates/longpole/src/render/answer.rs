//! Writes a verb's answer, as text for people or as JSON for programs.
//!
//! An answer that is an object begins with `"schema_version"`, so that a program can refuse an
//! answer whose form it does not know. An answer that is a list has no place for it. The member is
//! written here and nowhere else; no verb calls `serde_json::to_writer` itself.

use crate::render::terminal::output;
use longpole_trace::Trace;
use serde::Serialize;
use serde_json::ser::{CompactFormatter, Formatter, PrettyFormatter};
use std::io::{self, Write};
use std::process::ExitCode;

/// What the arguments of a verb request of its answer's form.
pub trait Asked {
    /// Returns true for JSON instead of text.
    fn json(&self) -> bool;
    /// Returns true if the user named a begin.
    fn has_begin(&self) -> bool;
    /// Returns true if the user named an end.
    fn has_end(&self) -> bool;
}

/// The source of an answer.
pub trait Source {
    fn trace(&self) -> &Trace;

    /// Prints what qualifies all numbers: losses, and other reasons why they are uncertain.
    fn footer(&self, asked: &dyn Asked, out: &mut dyn Write) -> io::Result<()>;

    /// Returns what the JSON answer has no field for, but the user should know.
    fn note(&self) -> Option<String> {
        None
    }
}

/// Writes JSON, or what `print` prints followed by the footer. Returns failure if the trace is
/// damaged: the answer then covers only the part that could be read.
pub fn write<T: Serialize>(
    asked: &impl Asked,
    from: impl Source,
    answer: &T,
    print: impl FnOnce(&mut Box<dyn Write>, &T) -> io::Result<()>,
) -> anyhow::Result<ExitCode> {
    json_or_text(asked.json(), answer, |out| {
        print(out, answer)?;
        from.footer(asked, out)
    })?;
    if let Some(note) = from.note().filter(|_| asked.json()) {
        eprintln!("longpole: note: {note}");
    }
    Ok(if from.trace().is_damaged() { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Writes JSON, or what `print` prints.
pub fn json_or_text<T: Serialize>(json: bool, answer: &T, print: impl FnOnce(&mut Box<dyn Write>) -> io::Result<()>) -> anyhow::Result<()> {
    let mut out = if json { output::raw() } else { output::text() };
    if json {
        write_json(&mut out, answer)?;
    } else {
        print(&mut out)?;
    }
    Ok(out.flush()?)
}

/// Version of the forms in docs/json. It is incremented if a member is removed, renamed, or changes
/// its meaning; a program that ignores unknown members can read all answers of one version.
const SCHEMA_VERSION: u32 = 1;

/// Writes the answer as indented JSON and ends the line.
pub fn write_json<T: Serialize + ?Sized>(out: &mut impl Write, answer: &T) -> io::Result<()> {
    answer.serialize(&mut serde_json::Serializer::with_formatter(&mut *out, Versioned::new(PrettyFormatter::new())))?;
    writeln!(out)
}

/// Writes the answer as one line of JSON.
pub fn write_json_line<T: Serialize + ?Sized>(out: &mut impl Write, answer: &T) -> io::Result<()> {
    answer.serialize(&mut serde_json::Serializer::with_formatter(&mut *out, Versioned::new(CompactFormatter)))?;
    writeln!(out)
}

/// Formats as `form` does, and begins the outermost object with the version. The answer is not
/// collected for that, because a path may have millions of segments.
struct Versioned<F> {
    form: F,
    at: At,
}

/// Position in the answer.
#[derive(PartialEq)]
enum At {
    Begin,
    /// Behind the version, before the outermost object's own first member.
    First,
    Inside,
}

impl<F: Formatter> Versioned<F> {
    fn new(form: F) -> Self {
        Versioned { form, at: At::Begin }
    }
}

impl<F: Formatter> Formatter for Versioned<F> {
    fn begin_object<W: Write + ?Sized>(&mut self, out: &mut W) -> io::Result<()> {
        self.form.begin_object(out)?;
        if self.at == At::Begin {
            self.at = At::First;
            self.form.begin_object_key(out, true)?;
            out.write_all(b"\"schema_version\"")?;
            self.form.end_object_key(out)?;
            self.form.begin_object_value(out)?;
            self.form.write_u32(out, SCHEMA_VERSION)?;
            self.form.end_object_value(out)?;
        }
        Ok(())
    }

    fn begin_object_key<W: Write + ?Sized>(&mut self, out: &mut W, first: bool) -> io::Result<()> {
        let follows_version = std::mem::replace(&mut self.at, At::Inside) == At::First;
        self.form.begin_object_key(out, first && !follows_version)
    }

    fn end_object_key<W: Write + ?Sized>(&mut self, out: &mut W) -> io::Result<()> {
        self.form.end_object_key(out)
    }

    fn begin_object_value<W: Write + ?Sized>(&mut self, out: &mut W) -> io::Result<()> {
        self.form.begin_object_value(out)
    }

    fn end_object_value<W: Write + ?Sized>(&mut self, out: &mut W) -> io::Result<()> {
        self.form.end_object_value(out)
    }

    fn end_object<W: Write + ?Sized>(&mut self, out: &mut W) -> io::Result<()> {
        self.form.end_object(out)
    }

    fn begin_array<W: Write + ?Sized>(&mut self, out: &mut W) -> io::Result<()> {
        if self.at == At::Begin {
            self.at = At::Inside;
        }
        self.form.begin_array(out)
    }

    fn begin_array_value<W: Write + ?Sized>(&mut self, out: &mut W, first: bool) -> io::Result<()> {
        self.form.begin_array_value(out, first)
    }

    fn end_array_value<W: Write + ?Sized>(&mut self, out: &mut W) -> io::Result<()> {
        self.form.end_array_value(out)
    }

    fn end_array<W: Write + ?Sized>(&mut self, out: &mut W) -> io::Result<()> {
        self.form.end_array(out)
    }
}
