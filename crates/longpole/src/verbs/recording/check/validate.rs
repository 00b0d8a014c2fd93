//! `longpole check TRACE`: reads a trace completely and lists each diagnostic with its place.
//!
//! A stream is read up to its first damage only. Whatever could be read from the bytes behind it
//! would be a guess.

use super::Args;
use crate::input::machine_log;
use crate::input::offset;
use crate::input::unpacked::renamed;
use crate::render::answer;
use crate::render::table::{number, plain, plain_lines};
use crate::say;
use longpole_trace::Damage;
use longpole_trace::Diagnostic;
use longpole_trace::Error;
use longpole_trace::Item;
use longpole_trace::Options;
use longpole_trace::Trace;
use serde_json::{json, Value};
use std::io;
use std::process::ExitCode;

#[derive(Default)]
struct Counts {
    events: u64,
    lost: u64,
    /// Number of losses for which the number of events is unknown.
    gaps: u64,
}

impl Counts {
    fn read(&mut self, trace: &mut Trace) -> Result<(), Error> {
        while let Some(item) = trace.next_item()? {
            match item {
                Item::Event(_) => self.events += 1,
                Item::Loss(loss) => match loss.events {
                    Some(events) => self.lost = self.lost.saturating_add(events),
                    None => self.gaps += 1,
                },
            }
        }
        Ok(())
    }
}

pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    offset::check(&args.offsets, &args.traces)?;
    let options =
        Options { dump: args.raw.dump(), shifts: offset::shifts(&args.offsets), damage: Damage::EndsStream, ..Options::default() };
    let mut counts = Counts::default();
    let (mut diagnostics, mut damaged) = (Vec::new(), false);
    let failure;
    match crate::input::open_stored(&args.traces, options) {
        Ok(mut trace) => {
            failure = counts.read(&mut trace).err();
            diagnostics.extend_from_slice(trace.diagnostics());
            // Captures in a recording are represented by the programs' events, so their files were
            // not read yet.
            for capture in trace.captures() {
                let found = capture.check()?;
                diagnostics.extend(found.into_iter().filter(|found| !trace.diagnostics().contains(found)));
            }
            damaged = trace.is_damaged_strictly() || diagnostics.iter().any(Diagnostic::is_damage);
            // A line that can be shown is not necessarily a valid interaction.
            for path in args.traces.iter().filter(|path| !damaged && args.raw.dump().is_none() && machine_log::is_one(path)) {
                let trouble = machine_log::trouble(path)?;
                diagnostics.extend(trouble.map(|error| Diagnostic::UndecodableRecord { path: path.clone(), error }));
            }
            damaged |= diagnostics.iter().any(Diagnostic::is_damage);
        }
        // Metadata that cannot be parsed is damage of a trace; it does not mean that there is no
        // trace.
        Err(error) => match error.downcast::<Error>() {
            Ok(error @ Error::Metadata { .. }) => failure = Some(error),
            Ok(error) => return Err(error.into()),
            Err(error) => return Err(error),
        },
    }
    damaged |= failure.is_some();
    match args.json {
        true => answer::write_json_line(&mut io::stdout().lock(), &as_json(&counts, &diagnostics, failure.as_ref(), damaged))?,
        false => as_text(&counts, &diagnostics, failure.as_ref(), damaged)?,
    }
    Ok(if damaged { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn as_text(counts: &Counts, diagnostics: &[Diagnostic], failure: Option<&Error>, damaged: bool) -> anyhow::Result<()> {
    diagnostics.iter().try_for_each(|diagnostic| say(plain_lines(diagnostic.to_string())))?;
    if let Some(failure) = failure {
        // An error in metadata is shown on several lines.
        failure.to_string().lines().try_for_each(|line| say(plain(line.to_owned())))?;
    }
    let word = match (damaged, counts.gaps) {
        (true, _) => "damaged",
        (false, 0) => "sound",
        (false, _) => "sound, with gaps",
    };
    let more = if counts.gaps > 0 { format!(" and {} gaps of unknown size", number(counts.gaps)) } else { String::new() };
    let events = if counts.events == 1 { "event" } else { "events" };
    say(format_args!("{word}: {} {events}, {} lost{more}", number(counts.events), number(counts.lost)))?;
    Ok(())
}

fn as_json(counts: &Counts, diagnostics: &[Diagnostic], failure: Option<&Error>, damaged: bool) -> Value {
    let mut texts: Vec<String> = diagnostics.iter().map(|diagnostic| renamed(diagnostic.to_string())).collect();
    texts.extend(failure.map(|error| renamed(error.to_string())));
    let mut places: Vec<Value> = diagnostics.iter().map(place).collect();
    places.extend(failure.map(failed_at));
    json!({
        "damaged": damaged,
        "events": counts.events,
        "lost": counts.lost,
        "uncounted_losses": counts.gaps,
        "diagnostics": texts,
        "places": places,
    })
}

/// Returns the place of a diagnostic. Places have the same order as the texts.
fn place(diagnostic: &Diagnostic) -> Value {
    if let Diagnostic::CutMetadata { path, line, .. } = diagnostic {
        return json!({ "damage": true, "path": renamed(path.display().to_string()), "line": line });
    }
    let found = diagnostic.place();
    let at = found.and_then(|(_, at)| at);
    json!({
        "damage": diagnostic.is_damage() || diagnostic.is_cut(),
        "path": found.map(|(path, _)| renamed(path.display().to_string())),
        "packet": at.map(|at| at.packet),
        "packet_offset": at.map(|at| at.packet_offset),
        "bit": at.and_then(|at| at.bit),
        "event": at.and_then(|at| at.event),
    })
}

fn failed_at(error: &Error) -> Value {
    match error {
        Error::Metadata { path, source } => {
            let known = |place: usize| (source.line > 0).then_some(place);
            json!({
                "damage": true,
                "path": renamed(path.display().to_string()),
                "line": known(source.line),
                "column": known(source.column),
                "text": source.text,
            })
        }
        _ => json!({ "damage": true, "path": null }),
    }
}
