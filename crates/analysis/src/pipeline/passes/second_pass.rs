//! The second of the two passes: the path that counts, its verdict, and predictions. It reads the
//! spooled interactions and the segments of the path, never the trace.

use crate::critical_path::participation::Participation;
use crate::critical_path::{Answer, Path};
use crate::findings::kernel_facts::ClassesOnPath;
use crate::findings::{Finding, Rules, Scope};
use crate::pipeline::parties::{self, Parties};
use crate::pipeline::path_end::{path_range, path_to};
use crate::pipeline::replays::{Replayed, Replays};
use crate::pipeline::{cpu_holders, Error, FirstPass, Interactions, Request, TraceFacts};
use crate::report::Critical;
use crate::verdict;
use crate::verdict::anchor::{Anchor, Choice, Run, RunOf};
use crate::verdict::data::Verdict;
use crate::verdict::limits::Limits;
use crate::verdict::lost_events;
use crate::verdict::not_recorded::not_recorded;
use crate::verdict::parts::Parts;
use crate::verdict::questions::machine_states::{self, Candidate};
use crate::verdict::sensitivity::{sensitivity, variations, Sensitive, Variation};
use crate::verdict::{Case, Cpus, Missing};
use crate::wait_graph::{self, Waits};
use crate::what_if::{FullQueue, Prediction};
use longpole_trace::Trace;
use std::thread;

impl FirstPass {
    /// Computes the path, the verdict, and the predictions. `interactions` are those that the first
    /// pass has read.
    pub fn second_pass(self, interactions: &Interactions, mut facts: TraceFacts<'_>, mut request: Request<'_>) -> Result<Critical, Error> {
        let rules = Rules::built_in()?;
        let mut spool = self.writer.finish(interactions.vocabulary());
        let off_path = std::mem::take(&mut facts.off_path);
        let mut parties = Parties::new(interactions, self.traffic, off_path, request.selection)?;
        let (anchor, variations) = chosen(interactions, &parties, &mut request)?;
        let mut answer = match (self.critical_path, &anchor) {
            (Some(to_end), None) => interactions.path(to_end)?,
            (_, anchor) => path_to(interactions, &mut spool, anchor.as_ref())?,
        };
        let segments = answer.segments.take().ok_or(Error::NoSegments)?;
        let path = PathEvidence::new(interactions, (&answer, &segments), &mut parties, &facts)?;
        let waits = Waited::new(interactions, self.waits)?;
        let kernel = facts.kernel.zip(path.on_path.as_ref()).map(|((facts, linux), on_path)| (facts, linux, on_path));
        let findings = Critical::findings(&path.participation, &waits.answer, kernel, &rules);
        let replays = Replays {
            interactions,
            spool: &spool,
            answer: &answer,
            segments: &segments,
            idle: &idle(&findings),
            full: &waits.full,
            of_subjects: &verdict::scenarios(&path.parts, &parties.subjects),
            lost: facts.lost,
            tells_running: facts.tells_running,
            rules: &rules,
            limits: &parties.limits,
        };
        let mut replayed = replays.run(path.candidates)?;
        path.parts.widen(&mut replayed.predictions);
        let inputs = VerdictInputs {
            interactions,
            parties: &parties,
            answer: &answer,
            parts: &path.parts,
            findings: &findings,
            anchor: anchor.as_ref(),
            facts: &facts,
        };
        let (verdict, sensitivity) = inputs.verdict(&mut replayed, variations);
        answer.segments = Some(segments);
        cpu_holders::add(interactions, facts.occupancy, &mut answer)?;
        let progress = anchor.as_ref().map(|anchor| anchor.progress(interactions.vocabulary()));
        let kind = anchor.as_ref().map_or(Run::FixedWork, |anchor| anchor.run);
        Ok(Critical {
            verdict,
            run: RunOf { kind, progress, start_ns: answer.start_ns, end_ns: answer.end_ns },
            decides: machine_states::decides(&replayed.by_states, &rules.path),
            predictions: replayed.predictions,
            participation: path.participation,
            findings,
            answer,
            waits: waits.answer,
            sensitivity,
        })
    }
}

/// Returns the anchor of the path, and how it depends on each constant, if the request asks for it.
fn chosen(
    interactions: &Interactions,
    parties: &Parties,
    request: &mut Request<'_>,
) -> Result<(Option<Anchor>, Option<Vec<Variation>>), Error> {
    let choice = parties.choice(interactions, path_range(interactions, &parties.traffic));
    // If the user named progress events or a part, no constant influences the choice of the thread.
    let is_chosen = request.progress.is_none() && (!request.keep_end || choice.selected.is_some());
    let anchor = parties::anchor(interactions, &choice, request.progress.take(), (request.keep_end, request.selection))?;
    let leads_to = |anchor: Option<&Anchor>| anchor.map(|anchor| (anchor.run, anchor.machine));
    let is_same_path = |limits: &Limits| {
        let other = || Choice { limits, ..choice.clone() }.anchor();
        !is_chosen || leads_to(other().as_ref()) == leads_to(anchor.as_ref())
    };
    let variations = request.sensitivity.then(|| variations(&parties.limits, is_same_path));
    Ok((anchor, variations))
}

/// Returns the threads that wait in vain, such as for a CPU although one is idle, with their
/// shares.
fn idle(findings: &[Finding]) -> Vec<(String, f64)> {
    let in_vain = findings.iter().filter(|finding| matches!(finding.of, Scope::Held | Scope::Idle));
    in_vain.map(|finding| (finding.subject.clone(), finding.share)).collect()
}

/// What the segments of the path show. Each field needs one reading of them.
struct PathEvidence {
    parts: Parts,
    candidates: Vec<Candidate>,
    participation: Participation,
    /// The kernel's events on the path; `None` if the trace has none.
    on_path: Option<ClassesOnPath>,
}

impl PathEvidence {
    /// The parts are made in a thread of their own, at the same time as the others.
    fn new(
        interactions: &Interactions,
        (answer, segments): (&Answer, &Path),
        parties: &mut Parties,
        facts: &TraceFacts<'_>,
    ) -> Result<PathEvidence, Error> {
        let runs_on = interactions.runs_on();
        let Parties { subjects, limits, .. } = parties;
        let considerable = limits.considerable_share;
        thread::scope(|scope| {
            let parts = scope.spawn(|| Parts::new(answer, segments, subjects, considerable));
            let candidates = machine_states::candidates(answer, segments);
            let participation = Participation::new(answer, segments);
            let on_path = facts.kernel.map(|_| ClassesOnPath::new(segments, (answer.start_ns, answer.length_ns), &runs_on));
            let parts = parts.join().map_err(|_| Error::Panicked)?;
            Ok(PathEvidence { parts, candidates, participation, on_path })
        })
    }
}

/// Which machine waits for which, and the queues in which machines wait for room.
struct Waited {
    answer: wait_graph::Answer,
    full: Vec<FullQueue>,
}

impl Waited {
    fn new(interactions: &Interactions, waits: Waits) -> Result<Waited, Error> {
        let full = waits.full(interactions.vocabulary());
        let answer = waits.answer(interactions.vocabulary()).ok_or_else(|| interactions.empty())?;
        Ok(Waited { answer, full })
    }
}

/// The path, with everything that the verdict is based on except for the replays.
struct VerdictInputs<'a> {
    interactions: &'a Interactions,
    parties: &'a Parties,
    answer: &'a Answer,
    parts: &'a Parts,
    findings: &'a [Finding],
    anchor: Option<&'a Anchor>,
    facts: &'a TraceFacts<'a>,
}

impl VerdictInputs<'_> {
    /// Returns the verdict, and its dependence on each of the varied constants. Adds the prediction
    /// that the verdict names to those of the replays.
    fn verdict(&self, replayed: &mut Replayed, variations: Option<Vec<Variation>>) -> (Verdict, Option<Vec<Sensitive>>) {
        let (kernel, vocabulary) = (self.facts.kernel, self.interactions.vocabulary());
        let wakeups_between = verdict::wakeups_between(&self.parties.traffic, &self.parties.subjects, vocabulary);
        let mut case = Case {
            findings: self.findings,
            together: replayed.together.as_ref(),
            anchor: self.anchor,
            contention: &kernel.map_or_else(Vec::new, |(facts, _)| facts.contention()),
            cpus: kernel.map_or_else(Cpus::default, |(facts, _)| {
                let (count, idle) = facts.cpus();
                Cpus { count, idle }
            }),
            missing: Missing {
                lost: self.facts.lost,
                kinds: &kernel.map_or_else(Vec::new, |(_, linux)| not_recorded(linux)),
                remedy: &lost_events::remedy(self.interactions.trace().and_then(Trace::full_ring)),
            },
            ..self.parties.case(self.interactions, (self.answer, self.parts), &wakeups_between, &replayed.by_states)
        };
        let of_stations = case.stations().widest(&replayed.unchanged);
        let all = [&replayed.predictions[..], &of_stations[..]].concat();
        case.predictions = &all;
        let verdict = case.verdict();
        let sensitivity = variations.map(|variations| sensitivity(&case, &verdict, variations));
        let of_pair = replayed.together.iter().map(|together| together.both.clone());
        let is_named = |prediction: &Prediction| verdict.gain.as_ref().is_some_and(|gain| gain.change == prediction.change);
        let named: Vec<Prediction> = of_stations.into_iter().chain(of_pair).filter(is_named).collect();
        replayed.predictions.extend(named);
        (verdict, sensitivity)
    }
}
