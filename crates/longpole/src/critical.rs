//! The critical path of a trace with its verdict and what changes would bring: what `report` says beyond the stages.

use crate::interactions;
use anyhow::Context;
use longpole_analysis::findings::Rules;
use longpole_analysis::lineage;
use longpole_analysis::report::Critical;
use longpole_analysis::standout;
use longpole_analysis::what_if::{self, propose};
use longpole_trace::Options;
use std::path::Path;

/// Reads the trace once for the path, and twice for the predictions: what decides, then what changing it brings.
pub fn read(path: &Path, part: Options, lost: u64) -> anyhow::Result<Critical> {
    let rules = Rules::built_in().context("a built-in rule file is wrong")?;
    let options = lineage::Options { segments: true, ..lineage::Options::default() };
    let answer = interactions::of(path, part)?.lineage(options)?;
    let Some(segments) = &answer.segments else { anyhow::bail!("internal error: a path without segments") };
    let standings = standout::standings(&answer, segments);
    let plain = interactions::of(path, part)?.what_if(what_if::Options::default())?;
    let mut tried = propose::first(&plain);
    let fix = standings.first().map(standout::Standing::fix);
    tried.extend(fix.clone().filter(|fix| !tried.contains(fix)));
    let predict = |scenarios| interactions::of(path, part)?.what_if(what_if::Options { scenarios, ..what_if::Options::default() });
    let predictions = match predict(tried) {
        Ok(predicted) => predicted.predictions,
        // A link of no queue, say, has no name that could be typed.
        Err(_) => predict(propose::first(&plain))?.predictions,
    };
    let brings = fix.and_then(|fix| predictions.iter().find(|prediction| prediction.change == fix.text));
    let verdict = standout::judge(&answer, segments, &standings, brings, lost, &rules.path);
    Ok(Critical { answer, verdict, predictions })
}
