//! The critical path of a trace with its verdict and what changes would bring: what `report` says beyond the stages.

use crate::{interactions, machine_log};
use anyhow::{anyhow, bail, Context};
use longpole_analysis::findings::Rules;
use longpole_analysis::lineage;
use longpole_analysis::participation::Participation;
use longpole_analysis::report::Critical;
use longpole_analysis::standout;
use longpole_analysis::what_if::{self, propose};
use longpole_trace::Options;
use std::path::Path;
use std::thread;

/// Reads the trace for the path, for what decides, and for what changing that brings; the first two at the same time. What is wrong with the trace is said by
/// who calls.
pub fn read(path: &Path, part: Options, events: &longpole_model::rules::Rules, lost: u64) -> anyhow::Result<Critical> {
    if machine_log::is_pipe(path) {
        bail!("{} can be read once only, and a report reads its trace several times: store it in a file", path.display());
    }
    let rules = Rules::built_in().context("a built-in rule file is wrong")?;
    let read = || Ok::<_, anyhow::Error>(interactions::of(path, part, events.clone())?.quietly());
    let options = lineage::Options { segments: true, spill: Some(interactions::SPILL), ..lineage::Options::default() };
    let (answer, plain) = thread::scope(|scope| {
        let plain = scope.spawn(|| read()?.what_if(what_if::Options::default()));
        let answer = read().and_then(|mut interactions| interactions.lineage_and_waits(options));
        (answer, plain.join())
    });
    let ((answer, waits), plain) = (answer?, plain.map_err(|_| anyhow!("internal error: the replay of the trace panicked"))??);
    let Some(segments) = &answer.segments else { bail!("internal error: a path without segments") };
    let standings = standout::standings(&answer, segments);
    let mut tried = propose::first(&plain);
    let fix = standings.first().map(standout::Standing::fix);
    tried.extend(fix.clone().filter(|fix| !tried.contains(fix)));
    let predict = |scenarios| read()?.what_if(what_if::Options { scenarios, ..what_if::Options::default() });
    let predictions = match predict(tried) {
        Ok(predicted) => predicted.predictions,
        // A link of no queue, say, has no name that could be typed.
        Err(_) => predict(propose::first(&plain))?.predictions,
    };
    let brings = fix.and_then(|fix| predictions.iter().find(|prediction| prediction.change == fix.text));
    let verdict = standout::judge(&answer, segments, &standings, brings, lost, &rules.path);
    let decides = standout::decides(&verdict, &rules.path);
    let participation = Participation::new(&answer, segments);
    let findings = Critical::findings(&participation, &waits, &rules);
    Ok(Critical { verdict, decides, predictions, participation, findings, answer })
}
