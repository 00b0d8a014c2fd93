//! `longpole rules check`: checks rules, and shows their effect on a trace.

use crate::in_one_line;
use crate::input::interactions;
use crate::input::memory_dump::Raw;
use crate::input::rules;
use crate::input::Input;
use crate::render::answer;
use crate::render::table::{number, plain};
use longpole_analysis::critical_path::{CriticalPath, Options};
use longpole_model::rules::Rules;
use longpole_model::system::Unmatched;
use serde::Serialize;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

/// Check rules that define what events mean, alone or against a trace
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    what: RulesCommand,
}

#[derive(clap::Subcommand)]
enum RulesCommand {
    Check(Check),
}

/// Check rule files; with a trace, also list rules that never matched, and contradictions
#[derive(clap::Args)]
#[command(after_help = "\
Exits with 1 if a rule is wrong.

Examples:
  longpole rules check                          the rules in ~/.config/longpole/rules
  longpole rules check mine.toml                one file
  longpole rules check mine.toml traces/NEWEST  and what its rules do to a trace")]
pub struct Check {
    /// Rule files (*.toml), and a trace to check them against
    #[arg(value_name = "FILE|TRACE")]
    named: Vec<PathBuf>,

    /// Damage of the trace is an error, and so is what deviates from its format without loss
    #[arg(long)]
    strict: bool,

    /// Answer in JSON, for programs
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    raw: Raw,
}

#[derive(Serialize)]
struct Answer {
    files: Vec<File>,
    /// The effect on the trace; `None` if no trace was named, or if a rule is wrong.
    trace: Option<OfTrace>,
}

#[derive(Serialize)]
struct File {
    file: String,
    rules: usize,
    /// File, line, and what was expected there.
    error: Option<String>,
}

#[derive(Serialize)]
struct OfTrace {
    matched: Vec<Matched>,
    contradictions: u64,
    contradiction_list: Vec<String>,
    size_mismatches: u64,
    from_before: u64,
    kernel_contradictions: u64,
}

#[derive(Serialize)]
struct Matched {
    file: String,
    line: usize,
    event: String,
    events: u64,
    /// Reason why the rule matched no event; `None` if it did match.
    never: Option<String>,
}

pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let RulesCommand::Check(args) = args.what;
    let is_rules = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "toml") && !path.is_dir();
    let (named, traces): (Vec<PathBuf>, Vec<PathBuf>) = args.named.iter().cloned().partition(is_rules);
    let mut files = Vec::new();
    for file in rules::files(&named)? {
        let mut alone = Rules::default();
        let error = rules::add(&mut alone, &file).err().map(|error| in_one_line(&error));
        files.push(File { file: file.display().to_string(), rules: alone.len(), error });
    }
    let wrong = files.iter().any(|file| file.error.is_some());
    let trace = if wrong || traces.is_empty() { None } else { Some(held_against(traces, named, args.strict, args.raw)?) };
    let answer = Answer { files, trace };
    answer::json_or_text(args.json, &answer, |out| print(out, &answer))?;
    Ok(if wrong { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn held_against(traces: Vec<PathBuf>, rules: Vec<PathBuf>, strict: bool, raw: Raw) -> anyhow::Result<OfTrace> {
    let input = Input { traces, begin: None, end: None, all: true, json: false, rules, offsets: Vec::new(), strict, raw };
    let mut interactions = interactions::open(&input)?;
    let answer = {
        let mut critical_path = CriticalPath::new(Options::default());
        while let Some(interaction) = interactions.next_interaction()? {
            critical_path.interaction(interactions.vocabulary(), &interaction);
        }
        // A trace without interactions has no contradictions.
        critical_path.answer(interactions.vocabulary()).ok()
    };
    let counters = interactions.counters().cloned().unwrap_or_default();
    let composer = interactions.composer();
    let matched = composer.into_iter().flat_map(|composer| composer.system().user_rules());
    Ok(OfTrace {
        matched: matched
            .map(|(rule, events, never)| {
                let never = never.map(|why| never_matched(&rule.event, why));
                Matched { file: rule.file, line: rule.line, event: rule.event, events, never }
            })
            .collect(),
        contradictions: answer.as_ref().map_or(0, |answer| answer.contradictions),
        contradiction_list: answer
            .into_iter()
            .flat_map(|answer| answer.contradiction_list)
            .map(|contradiction| format!("event {}: {}", contradiction.line, contradiction.what))
            .collect(),
        size_mismatches: counters.size_mismatches,
        from_before: counters.from_before,
        kernel_contradictions: composer.map_or(0, |composer| composer.linux().counts.contradictions),
    })
}

fn never_matched(event: &str, why: &Unmatched) -> String {
    match why {
        Unmatched::NoEvent => format!("no event \"{event}\" is in the trace"),
        Unmatched::LacksField(field) => format!("no event \"{event}\" of the trace has the field \"{field}\""),
        Unmatched::Covered => format!("earlier rules match every event \"{event}\" of the trace"),
        Unmatched::ConditionFalse => {
            format!("its condition is false for each event \"{event}\" of the trace that earlier rules do not match")
        }
    }
}

fn print(out: &mut impl Write, answer: &Answer) -> io::Result<()> {
    if answer.files.is_empty() {
        let folder = rules::folder().map_or_else(|| "~/.config/longpole/rules".to_owned(), |folder| folder.display().to_string());
        writeln!(out, "no rules: none were named, and there are none in {folder}")?;
    }
    for file in &answer.files {
        match &file.error {
            Some(error) => writeln!(out, "wrong  {}", plain(error.clone()))?,
            None => writeln!(out, "right  {}: {} rules", file.file, number(file.rules as u64))?,
        }
    }
    let Some(trace) = &answer.trace else { return Ok(()) };
    for Matched { file, line, event, events, never } in &trace.matched {
        match never {
            Some(why) => writeln!(out, "never  {file}:{line}: {}", plain(why.clone()))?,
            None => writeln!(out, "{} events  {file}:{line}: {event}", number(*events))?,
        }
    }
    for (count, what) in [
        (trace.contradictions, "contradictions:"),
        (trace.size_mismatches, "times a queue held another number of items than its program reported"),
        (trace.from_before, "items were taken that had been put before the trace began, or where events are missing"),
        (trace.kernel_contradictions, "events of the kernel do not follow from what came before them"),
    ] {
        if count > 0 {
            writeln!(out, "{} {what}", number(count))?;
        }
        if what == "contradictions:" {
            trace.contradiction_list.iter().try_for_each(|line| writeln!(out, "  {}", plain(line.clone())))?;
        }
    }
    Ok(())
}
