//! The critical path of a trace with its verdict and the predicted effects of changes. `report`
//! prints them in addition to the stages, which it finds from queue probes.
//!
//! It needs two passes. The first reads the trace once for all analyses ([`Passed::of`]) and spools
//! the interactions. The second ([`read`]) chooses the anchor, that is, the thread whose path
//! counts, and replays the spool with each change that may be worth it.

use crate::following::{self, Follower};
use crate::input::progress::ProgressTimes;
use crate::input::subject::SubjectArgs;
use crate::interactions::{self, Interactions};
use crate::render::cpu_holders;
use crate::spool::{Spool, SpoolWriter};
use anyhow::{anyhow, bail, Context};
use longpole_analysis::critical_path::cpu_holders::OccupancyLog;
use longpole_analysis::critical_path::participation::Participation;
use longpole_analysis::critical_path::{self, Answer, CriticalPath, Path};
use longpole_analysis::findings::kernel_facts::{KernelFacts, OnPath};
use longpole_analysis::findings::{Rules, Scope};
use longpole_analysis::report::Critical;
use longpole_analysis::verdict::anchor::{Anchor, Choice, Run, RunOf};
use longpole_analysis::verdict::data::{Basis, Outcome, Verdict};
use longpole_analysis::verdict::exchanges::{Exchanges, SocketActivities};
use longpole_analysis::verdict::limits::Limits;
use longpole_analysis::verdict::lost_events;
use longpole_analysis::verdict::machine_states::{self, Candidate, Surroundings};
use longpole_analysis::verdict::not_recorded::not_recorded;
use longpole_analysis::verdict::pairs::{Pairs, Together};
use longpole_analysis::verdict::parts::Parts;
use longpole_analysis::verdict::places::Place;
use longpole_analysis::verdict::sensitivity::{sensitivity, variations};
use longpole_analysis::verdict::stations::Stations;
use longpole_analysis::verdict::subjects::{self, Subjects, Thread};
use longpole_analysis::verdict::titles::Titled;
use longpole_analysis::verdict::traffic::Traffic;
use longpole_analysis::verdict::{self, Case, Cpus};
use longpole_analysis::wait_graph::Waits;
use longpole_analysis::what_if::likely_scenarios::{self as guess, Asked};
use longpole_analysis::what_if::{self, propose, FullQueue, Prediction, Scenario};
use longpole_model::causes::{Behind, Composer};
use longpole_model::interaction::Effect;
use longpole_model::linux::Linux;
use longpole_trace::Catalogue;
use longpole_trace::Item;
use longpole_trace::Trace;
use std::collections::HashMap;
use std::thread;

/// Memory for tokens in flight, in bytes. This is less than in a run that only predicts, because
/// the path needs memory at the same time.
const MOST_BYTES: usize = 64 << 20;

fn worlds(scenarios: Vec<Scenario>) -> what_if::Options {
    what_if::Options { scenarios, most_bytes: MOST_BYTES, ..what_if::Options::default() }
}

/// The analyses after the first pass: each of them has seen all interactions.
pub struct Passed {
    critical_path: CriticalPath,
    waits: Waits,
    keeper: SpoolWriter,
    traffic: Traffic,
}

impl Passed {
    /// Reads the interactions once, for the path and the waits at the same time, and spools them
    /// for the replays with changes. Passes each item of the trace to `feed`.
    pub fn of(interactions: &mut Interactions, feed: impl FnMut(&mut Composer, &Catalogue, &Item<'_>)) -> anyhow::Result<Passed> {
        let options = critical_path::Options { segments: true, spill: Some(interactions::SPILL), ..critical_path::Options::default() };
        let mut passed = Passed {
            critical_path: CriticalPath::new(options),
            waits: Waits::default(),
            keeper: SpoolWriter::default(),
            traffic: Traffic::default(),
        };
        let Passed { critical_path, waits, keeper, traffic } = &mut passed;
        following::follow_fed(interactions, feed, [&mut [critical_path as &mut dyn Follower][..], &mut [waits, keeper, traffic]])?;
        Ok(passed)
    }
}

/// Facts for [`read`] that interactions do not contain.
pub struct Told<'a> {
    /// Number of events that are missing in the trace.
    pub lost: u64,
    /// True if the trace shows when threads run.
    pub tells_running: bool,
    /// Facts from the kernel's events; `None` if the trace has none.
    pub kernel: Option<(&'a KernelFacts, &'a Linux)>,
    pub exchanges: Exchanges,
    /// The events that the user named as progress.
    pub progressed: Option<ProgressTimes>,
    /// The CPU holders over time.
    pub turns: &'a OccupancyLog,
    /// True if the path to the end of the command, or of the range, is requested, whatever ends it:
    /// the user named a range or a machine.
    pub as_asked: bool,
    /// True if the answer must list the constants that the verdict depends on.
    pub vary: bool,
    pub whom: &'a SubjectArgs,
}

/// Computes the path, the verdict, and the predictions.
pub fn read(interactions: &Interactions, passed: Passed, told: Told<'_>) -> anyhow::Result<Critical> {
    let rules = Rules::built_in().context("a built-in rule file is wrong")?;
    let limits = Limits::built_in().context("a built-in rule file is wrong")?;
    let Told { lost, tells_running, kernel, exchanges, progressed, turns, as_asked, vary, whom } = told;
    let Passed { critical_path, waits, keeper, traffic } = passed;
    let mut kept = keeper.kept(interactions.vocabulary());
    let mut answer = interactions.path(critical_path)?;
    let conducts = exchanges.finish();
    let mut subjects = subjects(interactions, &conducts, &traffic, &limits);
    let asked = whom.machines(&subjects, &conducts, interactions.vocabulary())?;
    let path = (answer.start_ns, answer.end_ns);
    let choice = Choice { path, asked: asked.as_ref(), ..choice(interactions, &traffic, &subjects, &limits) };
    let anchor = anchor(interactions, &choice, progressed, (as_asked, whom))?;
    // If the user named progress events or a range, no constant influences the choice of the
    // thread.
    let is_chosen = whom.progress.is_none() && (!as_asked || choice.asked.is_some());
    let leads_to = |anchor: Option<&Anchor>| anchor.map(|anchor| (anchor.run, anchor.machine));
    let is_same_path = |limits: &Limits| {
        let other = || Choice { limits, ..choice.clone() }.anchor();
        !is_chosen || leads_to(other().as_ref()) == leads_to(anchor.as_ref())
    };
    let variations = vary.then(|| variations(&limits, is_same_path));
    if let Some(found) = &anchor {
        answer = anchored(interactions, &mut kept, found)?;
    }
    let Some(segments) = answer.segments.take() else { bail!("internal error: a path without segments") };
    let full = waits.full(interactions.vocabulary());
    let waits = waits.answer(interactions.vocabulary()).ok_or_else(|| anyhow!("no machine does anything in it"))?;
    // Each of these reads the path once. `Parts` is made in a thread of its own, at the same time
    // as the others.
    let seats = interactions.seats();
    let (parts, candidates, participation, on_path) = thread::scope(|scope| {
        let parts = scope.spawn(|| Parts::new(&answer, &segments, &mut subjects, limits.considerable));
        let candidates = machine_states::candidates(&answer, &segments);
        let participation = Participation::new(&answer, &segments);
        let on_path = kernel.map(|_| OnPath::new(&segments, (answer.start_ns, answer.length_ns), &seats));
        (parts.join(), candidates, participation, on_path)
    });
    let parts = parts.map_err(|_| anyhow!("internal error: an analysis of the path panicked"))?;
    let told = kernel.zip(on_path.as_ref()).map(|((facts, linux), on_path)| (facts, linux, on_path));
    let findings = Critical::findings(&participation, &waits, told, &rules);
    let in_vain = findings.iter().filter(|finding| matches!(finding.of, Scope::Held | Scope::Idle));
    let idle: Vec<_> = in_vain.map(|finding| (finding.subject.clone(), finding.share)).collect();
    let of_subjects = verdict::scenarios(&parts, &subjects);
    let told = (&idle[..], &full[..], &of_subjects[..]);
    let (states, mut predictions, unchanged, together) =
        verdict(interactions, &kept, (&answer, &segments, candidates), told, (lost, tells_running), (&rules, &limits))?;
    parts.widen(&mut predictions);
    let decides = machine_states::decides(&states, &rules.path);
    let cpus = kernel.map_or_else(Cpus::default, |(facts, _)| {
        let (count, idle) = facts.cpus();
        Cpus { count, idle }
    });
    let between = verdict::between(&traffic, &subjects, interactions.vocabulary());
    let mut case = Case {
        answer: &answer,
        parts: &parts,
        subjects: &subjects,
        traffic: &traffic,
        vocabulary: interactions.vocabulary(),
        findings: &findings,
        predictions: &[],
        together: together.as_ref(),
        states: &states,
        anchor: anchor.as_ref(),
        between: &between,
        conducts: &conducts,
        contention: &kernel.map_or_else(Vec::new, |(facts, _)| facts.contention()),
        cpus,
        lost,
        not_recorded: kernel.map_or_else(Vec::new, |(_, linux)| not_recorded(linux)),
        again: &lost_events::remedy(interactions.trace().and_then(Trace::full_ring)),
        limits: &limits,
    };
    let of_stations = case.stations().widest(&unchanged);
    let all = [&predictions[..], &of_stations[..]].concat();
    case.predictions = &all;
    let of_pair = together.iter().map(|together| together.both.clone());
    let verdict = case.judge();
    let sensitivity = variations.map(|variations| sensitivity(&case, &verdict, variations));
    let is_named = |prediction: &Prediction| verdict.gain.as_ref().is_some_and(|gain| gain.change == prediction.change);
    predictions.extend(of_stations.into_iter().chain(of_pair).filter(is_named));
    answer.segments = Some(segments);
    cpu_holders::tell(interactions, turns, &mut answer)?;
    let progress = anchor.as_ref().map(|anchor| anchor.progress(interactions.vocabulary()));
    let kind = anchor.as_ref().map_or(Run::FixedWork, |anchor| anchor.run);
    let run = RunOf { kind, progress, start_ns: answer.start_ns, end_ns: answer.end_ns };
    Ok(Critical { verdict, run, decides, predictions, participation, findings, answer, cut_waits: waits.cut, sensitivity })
}

/// Returns the facts from which the anchor is chosen, for the whole trace.
fn choice<'a>(interactions: &'a Interactions, traffic: &'a Traffic, subjects: &'a Subjects, limits: &'a Limits) -> Choice<'a> {
    let (vocabulary, has_command) = (interactions.vocabulary(), interactions.has_command());
    Choice { traffic, subjects, vocabulary, limits, has_command, path: traffic.range(), asked: None }
}

/// Returns the anchor of the path. `None` means that the path to the end of the command, or of the
/// requested part, is the right one. An error if the thread that the user named receives nothing.
fn anchor(
    interactions: &Interactions,
    choice: &Choice<'_>,
    progressed: Option<ProgressTimes>,
    (as_asked, whom): (bool, &SubjectArgs),
) -> anyhow::Result<Option<Anchor>> {
    let anchor = match (progressed, interactions.composer()) {
        (Some(progressed), Some(composer)) => {
            let event = progressed.text().to_owned();
            choice.anchor_at(&event, &progressed.finish(composer)?)
        }
        (Some(_), None) => bail!("--progress names events of a trace, and a machine log has none"),
        (None, _) => choice.anchor().filter(|_| !as_asked || choice.asked.is_some()),
    };
    if whom.is_given() && anchor.is_none() {
        bail!("nothing happens to {} in this part of the trace", whom.said());
    }
    Ok(anchor)
}

/// Returns the subjects that a verdict can name.
fn subjects(interactions: &Interactions, conducts: &SocketActivities, traffic: &Traffic, limits: &Limits) -> Subjects {
    let mut threads = threads(interactions);
    subjects::add_titles(&mut threads, &titled(interactions), limits.least_alike);
    subjects::leave_items(&mut threads, traffic, interactions.vocabulary(), limits.considerable);
    let stages = subjects::stages(traffic, &threads, interactions.vocabulary(), limits.least_replies);
    Subjects::new(threads, conducts, &stages)
}

/// Returns, by process id, the titles that each process gave itself.
fn titled(interactions: &Interactions) -> HashMap<i32, Titled> {
    let Some(composer) = interactions.composer() else { return HashMap::new() };
    let of_programs = composer.behind().iter().filter(|behind| !behind.is_kernel);
    let titled = |behind: &Behind| {
        let process = composer.linux().processes.get(behind.process);
        let (parent, titles) = process.map_or((None, Vec::new()), |process| (process.parent, process.titles.clone()));
        // A process may be listed several times; collecting into a map keeps the last program,
        // which is the one that it executed last.
        (behind.process, Titled { program: behind.program.clone(), parent, titles })
    };
    of_programs.map(titled).collect()
}

/// Returns the threads behind machines, by the machines' names.
fn threads(interactions: &Interactions) -> HashMap<String, Thread> {
    let Some(composer) = interactions.composer() else { return HashMap::new() };
    let vocabulary = composer.vocabulary();
    // The script belongs to the program that the process executed last; before that it was another
    // program.
    let last: HashMap<i32, &str> = composer.behind().iter().map(|behind| (behind.process, behind.program.as_str())).collect();
    let script = |behind: &Behind| {
        let process = composer.linux().processes.get(behind.process)?;
        process.script.clone().filter(|_| last.get(&behind.process) == Some(&behind.program.as_str()))
    };
    let thread = |behind: &Behind| {
        let thread = Thread {
            pid: behind.process,
            tid: behind.tid,
            program: behind.program.clone(),
            script: script(behind),
            title: None,
            place: composer.linux().processes.cgroup(behind.process).map(Place::of).unwrap_or_default(),
            name: behind.name.clone(),
            is_kernel: behind.is_kernel,
            is_recorder: vocabulary.is_recorder(behind.machine),
            is_of_command: behind.is_of_command,
            allowed: composer.linux().cpus_of(behind.tid),
            is_reserved: composer.linux().is_reserved(behind.tid),
        };
        (vocabulary.machine_name(behind.machine).to_owned(), thread)
    };
    composer.behind().iter().map(thread).collect()
}

/// Spools the interactions up to the end of the path that `report` shows, or up to the replies of
/// the subject that the user named. Also returns that path by subject, and the stations: places
/// where work waits for other work.
pub fn of(interactions: &mut Interactions, whom: &SubjectArgs) -> anyhow::Result<(Spool, Option<Parts>, Stations)> {
    let limits = Limits::built_in().context("a built-in rule file is wrong")?;
    let (mut keeper, mut traffic, mut exchanges) = (SpoolWriter::default(), Traffic::default(), Exchanges::default());
    let mut progressed = whom.progress.as_ref().map(ProgressTimes::new);
    let feed = |composer: &mut Composer, catalogue: &Catalogue, item: &Item<'_>| {
        composer.item_with(catalogue, item, &mut exchanges);
        exchanges.after(composer.linux());
        if let Some(progressed) = &mut progressed {
            progressed.item(composer, catalogue, item);
        }
    };
    following::follow_fed(interactions, feed, [&mut [&mut keeper as &mut dyn Follower, &mut traffic][..]])?;
    let mut kept = keeper.kept(interactions.vocabulary());
    let conducts = exchanges.finish();
    let mut subjects = subjects(interactions, &conducts, &traffic, &limits);
    let asked = whom.machines(&subjects, &conducts, interactions.vocabulary())?;
    let choice = Choice { asked: asked.as_ref(), ..choice(interactions, &traffic, &subjects, &limits) };
    let options = critical_path::Options { segments: true, spill: Some(interactions::SPILL), ..critical_path::Options::default() };
    let mut answer = match anchor(interactions, &choice, progressed, (false, whom))? {
        Some(anchor) => anchored(interactions, &mut kept, &anchor)?,
        None => interactions.path_from_spool(&kept, options)?,
    };
    let Some(segments) = answer.segments.take() else { return Ok((kept, None, Stations::default())) };
    let parts = Parts::new(&answer, &segments, &mut subjects, limits.considerable);
    let between = verdict::between(&traffic, &subjects, interactions.vocabulary());
    let case = Case {
        answer: &answer,
        parts: &parts,
        subjects: &subjects,
        traffic: &traffic,
        vocabulary: interactions.vocabulary(),
        findings: &[],
        predictions: &[],
        together: None,
        states: &Verdict::new(Outcome::Unknown, Basis::States),
        anchor: None,
        between: &between,
        conducts: &conducts,
        contention: &[],
        cpus: Cpus::default(),
        lost: 0,
        not_recorded: Vec::new(),
        again: "",
        limits: &limits,
    };
    let stations = case.stations();
    Ok((kept, Some(parts), stations))
}

/// Computes the path of the anchor, and narrows the spool to the part that leads to its end.
fn anchored(interactions: &Interactions, kept: &mut Spool, anchor: &Anchor) -> anyhow::Result<Answer> {
    let end = match &anchor.event {
        Some(_) => anchor.end_ns,
        None => last_reply(kept, anchor)?.filter(|&last| last > anchor.begin_ns).unwrap_or(anchor.end_ns),
    };
    let name = interactions.vocabulary().machine_name(anchor.machine).to_owned();
    kept.narrow(name, anchor.begin_ns, end);
    // No other analysis runs at this time, so a second thread computes the times of the path,
    // window by window.
    let (window, spill) = (Some(interactions::WINDOW), Some(interactions::SPILL));
    interactions
        .path_from_spool(kept, critical_path::Options { segments: true, spill, window, jobs: 2, ..critical_path::Options::default() })
}

/// Returns the last time at which another machine woke the anchor's thread.
fn last_reply(kept: &Spool, anchor: &Anchor) -> anyhow::Result<Option<u64>> {
    let mut last = None;
    kept.each(|_, interaction| {
        if let (Effect::Wake { machine, cause: Some(cause) }, true) = (interaction.effect, interaction.t <= anchor.end_ns) {
            if machine == anchor.machine && cause.by != machine {
                last = Some(interaction.t);
            }
        }
    })
    .context("what the trace said cannot be read again")?;
    Ok(last)
}

/// Returns the verdict on states, the predictions, the replay without changes, and the best pair of
/// changes. `idle` lists machines that waited while a CPU was idle, with their shares; `full` lists
/// queues in which a machine waited for room.
fn verdict(
    interactions: &Interactions,
    kept: &Spool,
    (answer, segments, mut candidates): (&Answer, &Path, Vec<Candidate>),
    (idle, full, of_subjects): (&[(String, f64)], &[FullQueue], &[Scenario]),
    (lost, tells_running): (u64, bool),
    (rules, limits): (&Rules, &Limits),
) -> anyhow::Result<(Verdict, Vec<Prediction>, what_if::Answer, Option<Together>)> {
    let is_recorder = interactions.knows_recorder();
    candidates.retain(|candidate| !is_recorder(candidate.owner()));
    let fix = candidates.first().map(Candidate::fix);
    // Changes of the recorder's own work are not proposed.
    let replay = |options: what_if::Options| -> anyhow::Result<what_if::Answer> {
        let mut told = interactions.what_if_from_spool(kept, options)?;
        told.shares.retain(|share| !is_recorder(&share.machine));
        Ok(told)
    };
    let mut also = Vec::new();
    // If a change makes a machine call less often, the replay distinguishes more states than a
    // replay without changes; such a fix is not guessed, but predicted in a replay of its own.
    let (mut unchanged, mut together) = (None, None);
    let guessed = match fix.as_ref().filter(|fix| !fix.batches()) {
        Some(fix) => {
            let mut guessed = guess::scenarios(answer, segments, full);
            guessed.extend(Some(fix).filter(|fix| !guessed.contains(fix)).cloned());
            let pairs = Pairs::of(&guessed, of_subjects);
            guessed.extend(of_subjects.iter().cloned());
            guessed.extend(pairs.scenarios());
            let guesses = |scenarios: Vec<Scenario>| replay(what_if::Options { guessed: true, ..worlds(scenarios) });
            let answered = guesses(guessed)?;
            let is_of_subject = |prediction: &&Prediction| of_subjects.iter().any(|scenario| scenario.text == prediction.change);
            also.extend(answered.predictions.iter().filter(is_of_subject).cloned());
            unchanged = Some(answered.clone());
            together = pairs.best(&answered.predictions, limits);
            let mut asked = Asked::new(answered, Some(fix));
            let missed = asked.missed();
            if !missed.is_empty() {
                asked.learn(guesses(missed)?.predictions);
            }
            asked.predictions()
        }
        None => None,
    };
    let (mut predictions, unchanged) = match (guessed, unchanged) {
        (Some(predictions), Some(unchanged)) => (predictions, unchanged),
        _ => predictions(replay, fix.as_ref())?,
    };
    also.retain(|prediction| predictions.iter().all(|known| known.change != prediction.change));
    predictions.extend(also);
    let brings = fix.and_then(|fix| predictions.iter().find(|prediction| prediction.change == fix.text));
    let context = Surroundings {
        is_recorder: &is_recorder,
        idle,
        predictions: &predictions,
        again: &lost_events::remedy(interactions.trace().and_then(Trace::full_ring)),
        tells_running,
    };
    let verdict = machine_states::judge(answer, segments, &candidates, brings, lost, &context, &rules.path);
    Ok((verdict, predictions, unchanged, together))
}

/// Predicts the changes that a replay without changes proposes, and the fix. Also returns that
/// replay's answer.
fn predictions(
    replay: impl Fn(what_if::Options) -> anyhow::Result<what_if::Answer>,
    fix: Option<&Scenario>,
) -> anyhow::Result<(Vec<Prediction>, what_if::Answer)> {
    let unchanged = replay(worlds(Vec::new()))?;
    let first = propose::first(&unchanged);
    let mut tried = first.clone();
    tried.extend(fix.filter(|fix| !tried.contains(fix)).cloned());
    // Some fixes cannot be replayed: a link without a queue, for example, has no name that can be
    // typed.
    let predicted = replay(worlds(tried)).or_else(|_| replay(worlds(first)))?;
    Ok((predicted.predictions, unchanged))
}
