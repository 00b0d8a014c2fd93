//! The critical path of a trace with its verdict and what changes would bring: what `report` says beyond the stages.

use crate::following::{self, Follower};
use crate::interactions::{self, Interactions};
use crate::keepers;
use crate::kept::{Keeper, Kept};
use anyhow::{anyhow, bail, Context};
use longpole_analysis::findings::{Rules, Scope};
use longpole_analysis::keepers::Turns;
use longpole_analysis::kernel_facts::{KernelFacts, OnPath};
use longpole_analysis::lineage::{self, Answer, Lineage, Path};
use longpole_analysis::participation::Participation;
use longpole_analysis::report::Critical;
use longpole_analysis::standout::{self, Beside};
use longpole_analysis::verdict::{again, Verdict};
use longpole_analysis::waits::Waits;
use longpole_analysis::what_if::guess::{self, Asked};
use longpole_analysis::what_if::{self, propose, FullQueue, Prediction, Scenario};
use longpole_model::causes::Composer;
use longpole_model::linux::Linux;
use longpole_trace::{Catalogue, Item, Trace};

/// Tokens in flight may take less than where nothing but predictions is asked for: the path remembers them, too.
const MOST_BYTES: usize = 64 << 20;

fn worlds(scenarios: Vec<Scenario>) -> what_if::Options {
    what_if::Options { scenarios, most_bytes: MOST_BYTES, ..what_if::Options::default() }
}

/// What the first pass leaves: who was told of all interactions.
pub struct Passed {
    lineage: Lineage,
    waits: Waits,
    keeper: Keeper,
}

impl Passed {
    /// Goes through them once, for the path and the waits at the same time; they are kept for what changes bring. Each item of the trace goes through
    /// `feed`.
    pub fn of(interactions: &mut Interactions, feed: impl FnMut(Option<&mut Composer>, &Catalogue, &Item<'_>)) -> anyhow::Result<Passed> {
        let options = lineage::Options { segments: true, spill: Some(interactions::SPILL), ..lineage::Options::default() };
        let mut passed = Passed { lineage: Lineage::new(options), waits: Waits::default(), keeper: Keeper::default() };
        let Passed { lineage, waits, keeper } = &mut passed;
        following::follow_fed(interactions, feed, [&mut [lineage as &mut dyn Follower][..], &mut [waits, keeper]])?;
        Ok(passed)
    }
}

/// The path, what decides, and what changing that brings. `lost`: events that are missing in the trace. `tells_running`: it tells when threads run.
/// `kernel`: what the kernel's events tell beside that. `turns`: who had the CPUs.
pub fn read(
    interactions: &Interactions,
    passed: Passed,
    (lost, tells_running): (u64, bool),
    kernel: Option<(&KernelFacts, &Linux)>,
    turns: &Turns,
) -> anyhow::Result<Critical> {
    let rules = Rules::built_in().context("a built-in rule file is wrong")?;
    let kept = passed.keeper.kept(interactions.vocabulary());
    let mut answer = interactions.path(passed.lineage)?;
    let Some(segments) = answer.segments.take() else { bail!("internal error: a path without segments") };
    let full = passed.waits.full(interactions.vocabulary());
    let waits = passed.waits.answer(interactions.vocabulary()).ok_or_else(|| anyhow!("no machine does anything in it"))?;
    let participation = Participation::new(&answer, &segments);
    let on_path = kernel.map(|_| OnPath::new(&segments, (answer.start_ns, answer.length_ns), &interactions.seats()));
    let told = kernel.zip(on_path.as_ref()).map(|((facts, linux), on_path)| (facts, linux, on_path));
    let findings = Critical::findings(&participation, &waits, told, &rules);
    let in_vain = findings.iter().filter(|finding| matches!(finding.of, Scope::Held | Scope::Idle));
    let idle: Vec<_> = in_vain.map(|finding| (finding.subject.clone(), finding.share)).collect();
    let (verdict, predictions) = verdict(interactions, &kept, (&answer, &segments), (&idle, &full), (lost, tells_running), &rules)?;
    let decides = standout::decides(&verdict, &rules.path);
    answer.segments = Some(segments);
    keepers::tell(interactions, turns, &mut answer)?;
    Ok(Critical { verdict, decides, predictions, participation, findings, answer, cut_waits: waits.cut })
}

/// What decides, and what changes would bring. `idle`: who waits beside an idle CPU; `full`: queues in which somebody waited for room.
fn verdict(
    interactions: &Interactions,
    kept: &Kept,
    (answer, segments): (&Answer, &Path),
    (idle, full): (&[(String, f64)], &[FullQueue]),
    (lost, tells_running): (u64, bool),
    rules: &Rules,
) -> anyhow::Result<(Verdict, Vec<Prediction>)> {
    let is_recorder = interactions.knows_recorder();
    let mut standings = standout::standings(answer, segments);
    standings.retain(|standing| !is_recorder(standing.owner()));
    let fix = standings.first().map(standout::Standing::fix);
    // What the recorder does is nothing to be changed.
    let replay = |options: what_if::Options| -> anyhow::Result<what_if::Answer> {
        let mut told = interactions.what_if_again(kept, options)?;
        told.shares.retain(|share| !is_recorder(&share.machine));
        Ok(told)
    };
    // Where a machine calls less often, more is told apart than in a replay without changes.
    let guessed = match fix.as_ref().filter(|fix| !fix.batches()) {
        Some(fix) => {
            let mut guessed = guess::scenarios(answer, segments, full);
            guessed.extend(Some(fix).filter(|fix| !guessed.contains(fix)).cloned());
            let guesses = |scenarios: Vec<Scenario>| replay(what_if::Options { guessed: true, ..worlds(scenarios) });
            let mut asked = Asked::new(guesses(guessed)?, Some(fix));
            let missed = asked.missed();
            if !missed.is_empty() {
                asked.learn(guesses(missed)?.predictions);
            }
            asked.predictions()
        }
        None => None,
    };
    let predictions = match guessed {
        Some(predictions) => predictions,
        None => predictions(replay, fix.as_ref())?,
    };
    let brings = fix.and_then(|fix| predictions.iter().find(|prediction| prediction.change == fix.text));
    let beside = Beside {
        is_recorder: &is_recorder,
        idle,
        predictions: &predictions,
        again: &again(interactions.trace().and_then(Trace::full_ring)),
        tells_running,
    };
    let verdict = standout::judge(answer, segments, &standings, brings, lost, &beside, &rules.path);
    Ok((verdict, predictions))
}

/// Of what a replay without changes proposes, and of the fix.
fn predictions(
    replay: impl Fn(what_if::Options) -> anyhow::Result<what_if::Answer>,
    fix: Option<&Scenario>,
) -> anyhow::Result<Vec<Prediction>> {
    let first = propose::first(&replay(worlds(Vec::new()))?);
    let mut tried = first.clone();
    tried.extend(fix.filter(|fix| !tried.contains(fix)).cloned());
    match replay(worlds(tried)) {
        Ok(predicted) => Ok(predicted.predictions),
        // A link of no queue, say, has no name that could be typed.
        Err(_) => Ok(replay(worlds(first))?.predictions),
    }
}
