//! `longpole convert`: writes a trace in another format.
//!
//! If a path has only CTF traces, is converted to CTF, and nothing is filtered, its packets are
//! rewritten to the same relative paths. Otherwise all events are read as one sorted trace and
//! written again.

use crate::input::empty_range;
use crate::input::filter::{EventSelector, Filter, Patterns};
use crate::input::unpacked::{self, renamed};
use crate::input::{self, Input};
use crate::render::diagnostics;
use crate::render::events::Printer;
use crate::render::table::{number, plain, plain_lines};
use crate::say;
use crate::WrongUsage;
use anyhow::bail;
use longpole_trace::rewrite;
use longpole_trace::CtfWriter;
use longpole_trace::Diagnostic;
use longpole_trace::EnvValue;
use longpole_trace::ExportCounts;
use longpole_trace::Item;
use longpole_trace::NoEvent;
use longpole_trace::Rewritten;
use longpole_trace::Trace;
use longpole_trace::Version;
use std::fs::OpenOptions;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Write a trace in another format.
#[derive(clap::Args)]
#[command(mut_arg("all", crate::input::all_without_effect))]
#[command(after_help = "\
Examples:
  longpole convert --to ctf -o out capture.pcapng            what babeltrace2 and Trace Compass open
  longpole convert --to ctf2 -o out --begin +1s --end +2s DIR
  longpole convert --to json --names 'sched_*' DIR | jq .fields")]
pub struct Args {
    #[command(flatten)]
    input: Input,

    /// The format
    #[arg(long, value_name = "FORMAT")]
    to: Form,

    /// CTF: a new or empty directory. JSON: a new file [default: stdout]
    #[arg(short, long, value_name = "PATH")]
    output: Option<PathBuf>,

    /// Only events with these names, separated by commas; * ? and [a-z] are wildcards
    #[arg(long, value_name = "LIST", value_parser = Patterns::parse)]
    names: Option<Patterns>,

    /// Only events that match this filter, as for `print --filter`
    #[arg(long, value_name = "EXPR", value_parser = Filter::parse)]
    filter: Option<Filter>,
}

#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// CTF 1.8
    Ctf,
    /// CTF 2
    Ctf2,
    /// One line of JSON for each event and loss, as for `print --json`
    Json,
}

impl Form {
    fn version(self) -> Version {
        match self {
            Form::Ctf2 => Version::Two,
            Form::Ctf | Form::Json => Version::One,
        }
    }
}

pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let mut selector = EventSelector::new(args.filter, args.names);
    let output = match (args.to, args.output) {
        (Form::Json, output) => output,
        (_, Some(output)) => Some(output),
        (_, None) => return Err(WrongUsage("a CTF trace is a folder; name it with -o DIR".to_owned()).into()),
    };
    let paths = args.input.completed_paths()?;
    let options = args.input.options();
    if let Some(output) = &output {
        check_output_outside_inputs(output, &paths)?;
    }
    if let ([path], Some(output), true) = (&paths[..], &output, args.to != Form::Json && selector.passes_all() && options.is_all()) {
        match rewrite(path, output, args.to.version())? {
            Rewritten::Done(written, diagnostics) => {
                say(summary(output, &written))?;
                if (written.events, written.lost, written.uncounted) == (0, 0, 0) {
                    eprintln!("longpole: note: {}", NoEvent::Anywhere);
                }
                let packed = unpacked::diagnostics(path);
                let damaged = !diagnostics.is_empty() || packed.iter().any(Diagnostic::is_damage);
                packed
                    .iter()
                    .chain(&diagnostics)
                    .for_each(|diagnostic| eprintln!("longpole: {}", plain_lines(renamed(diagnostic.to_string()))));
                return Ok(if damaged { ExitCode::FAILURE } else { ExitCode::SUCCESS });
            }
            Rewritten::Disordered(stream) => eprintln!(
                "longpole: {}: its events are not in order of time, which other readers require; they are sorted and written again",
                plain(renamed(stream.display().to_string()))
            ),
            Rewritten::Other => {}
        }
    }
    empty_range::check_before(&paths, &options)?;
    let mut trace = input::open_whole(&paths, options)?;
    match (args.to, output) {
        (Form::Json, Some(output)) => {
            let file = OpenOptions::new().write(true).create_new(true).open(&output);
            let file = file.map_err(|error| anyhow::anyhow!("cannot write {}: {error}", output.display()))?;
            let unwritable = |error: io::Error| anyhow::anyhow!("cannot write {}: {error}", output.display());
            lines(&mut trace, BufWriter::new(file), &mut selector, unwritable)?;
        }
        (Form::Json, None) => lines(&mut trace, io::stdout().lock(), &mut selector, anyhow::Error::from)?,
        (form, output) => {
            let output = output.unwrap_or_default();
            let written = write(&mut trace, &output, form, &mut selector)?;
            say(summary(&output, &written))?;
        }
    }
    selector.notes().iter().for_each(|note| eprintln!("longpole: note: {note}"));
    diagnostics::print(&trace);
    Ok(if trace.is_damaged() { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Returns an error if the output is within an input; it would become a part of what is read.
pub fn check_output_outside_inputs(output: &Path, inputs: &[PathBuf]) -> anyhow::Result<()> {
    let above = std::path::absolute(output)?.ancestors().find_map(|above| above.canonicalize().ok());
    for input in inputs.iter().filter(|input| input.is_dir()) {
        if above.as_ref().zip(input.canonicalize().ok()).is_some_and(|(above, input)| above.starts_with(input)) {
            bail!("{} is inside {} and would become a part of it; name another folder", output.display(), input.display());
        }
    }
    Ok(())
}

fn lines(
    trace: &mut Trace,
    sink: impl Write,
    selector: &mut EventSelector,
    unwritable: impl Fn(io::Error) -> anyhow::Error,
) -> anyhow::Result<()> {
    selector.begins_at(trace.start_ns().unwrap_or(0));
    let mut printer = Printer::new(sink);
    while let Some((item, catalogue)) = trace.next_with_catalogue()? {
        match &item {
            Item::Event(event) if selector.passes(event, catalogue) => printer.event_json(event, catalogue),
            Item::Event(_) => {}
            Item::Loss(loss) => printer.loss_json(loss, catalogue),
        }
        printer.flush_if_full().map_err(&unwritable)?;
    }
    printer.flush().map_err(&unwritable)
}

/// Writes the whole trace as CTF.
pub fn write(trace: &mut Trace, directory: &Path, form: Form, selector: &mut EventSelector) -> anyhow::Result<ExportCounts> {
    let version = form.version();
    let start_ns = trace.start_ns().unwrap_or(0);
    selector.begins_at(start_ns);
    let mut environment = vec![("converted_from".to_owned(), EnvValue::Text(trace.producers().join(", ")))];
    if let Some(cost_ns) = trace.probe_cost_ns() {
        environment.push(("probe_cost_ps".to_owned(), EnvValue::Int((cost_ns * 1000.0) as i64)));
    }
    let mut writer = CtfWriter::create(directory, version, start_ns, environment)?;
    while let Some((item, catalogue)) = trace.next_with_catalogue()? {
        match &item {
            Item::Event(event) if !selector.passes(event, catalogue) => {}
            item => writer.item(item, catalogue)?,
        }
    }
    Ok(writer.finish()?)
}

pub fn summary(output: &Path, written: &ExportCounts) -> String {
    let mut text = format!("{}: {} events, {} lost", plain(output.display().to_string()), number(written.events), number(written.lost));
    if written.uncounted > 0 {
        text.push_str(&format!(" and {} gaps of unknown size", number(written.uncounted)));
    }
    if written.late > 0 {
        text.push_str(&format!(
            "; {} events are written after later ones, because the trace is too far from the order of time to be sorted",
            number(written.late)
        ));
    }
    if written.untold > 0 {
        text.push_str(&format!("; {} losses of streams without events cannot be represented in CTF", number(written.untold)));
    }
    if written.moved > 0 {
        text.push_str(&format!("; {} events before the begin of time have that time", number(written.moved)));
    }
    text
}
