//! Opens what the arguments name as a source of interactions: a machine log, or any other trace.

use crate::input::{self, machine_log, Input};
use crate::render::diagnostics;
use crate::WrongUsage;
use anyhow::Context;
use longpole_analysis::pipeline::Interactions;
use longpole_model::rules::Rules;
use longpole_trace::Options;
use std::fs::File;
use std::path::{Path, PathBuf};

/// Opens all named traces as one.
pub fn open(input: &Input) -> anyhow::Result<Interactions> {
    of_all(&input.completed_paths()?, input.options(), input.rules()?)
}

/// Opens one trace.
pub fn of(path: &Path, part: Options, rules: Rules) -> anyhow::Result<Interactions> {
    of_all(&[path.to_owned()], part, rules)
}

/// Returns the interactions if exactly one trace was named and it is a machine log or a pipe.
pub fn of_named_log(input: &Input) -> anyhow::Result<Option<Interactions>> {
    match input.completed_paths()?.as_slice() {
        _ if input.options().dump.is_some() => Ok(None),
        [path] if machine_log::is_one(path) || machine_log::is_pipe(path) => of(path, input.options(), input.rules()?).map(Some),
        _ => Ok(None),
    }
}

fn of_all(paths: &[PathBuf], part: Options, rules: Rules) -> anyhow::Result<Interactions> {
    let is_log = |path: &&PathBuf| part.dump.is_none() && (machine_log::is_one(path) || machine_log::is_pipe(path));
    match (paths.iter().find(is_log), paths.len()) {
        (None, _) => of_trace(paths, part, rules),
        (Some(log), 1) => of_log(log, part),
        (Some(log), _) => Err(WrongUsage(format!("{} is a machine log, which is a trace of its own; name it alone", log.display())).into()),
    }
}

fn of_log(path: &Path, part: Options) -> anyhow::Result<Interactions> {
    let file = File::open(path).with_context(|| format!("{} cannot be opened", path.display()))?;
    Ok(Interactions::of_log(file, path, part)?)
}

fn of_trace(paths: &[PathBuf], part: Options, rules: Rules) -> anyhow::Result<Interactions> {
    let trace = input::open(paths, Options { begin: None, ..part.clone() })?;
    let mut interactions = Interactions::of_trace(trace, paths, part, rules)?;
    interactions.at_end(diagnostics::print);
    Ok(interactions)
}
