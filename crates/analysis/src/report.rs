//! The report: the verdict, the findings, and the numbers on which both are based, from one pass
//! over the trace.

pub mod profile;
pub mod value_rows;
use crate::counters::Counters;
use crate::critical_path::participation::Participation;
use crate::critical_path::samples::{Code, CriticalFunction, EndedWait};
use crate::critical_path::{Answer, Profiled, Row};
use crate::findings::kernel_facts::{ClassesOnPath, KernelFacts};
use crate::findings::path_facts;
use crate::findings::stage_evidence::StageEvidence;
use crate::findings::{Facts, Finding, Rules};
use crate::latency::{Latencies, Latency, LatencyCases, LatencySum};
use crate::network::packet_loss::LossLine;
use crate::queues::{QueueAnswer, QueueSeries, Queues};
use crate::scheduling::probed::{self, Activities, Cpu};
use crate::scheduling::stack_gaps::StackGaps;
use crate::scheduling::thread_time::Account;
use crate::stages::left_out::LeftOut;
use crate::stages::step_block::{ItemCounts, StepOrLoss, Steps};
use crate::stages::Stages;
use crate::step_pass::{Observer, Scene, StepPass};
use crate::timeline::{RowId, Timeline};
use crate::verdict::anchor::RunOf;
use crate::verdict::code;
use crate::verdict::data::caveat::Contradictions;
use crate::verdict::data::{Basis, Verdict};
use crate::verdict::limits::Limits;
use crate::verdict::lost_events;
use crate::verdict::sensitivity::Sensitive;
use crate::wait_graph;
use crate::what_if::predicted;
use crate::what_if::Prediction;
use longpole_model::actors::ActorId;
use longpole_model::interaction::{QueueId, Vocabulary};
use longpole_model::linux::Linux;
use longpole_model::rules::RuleError;
use longpole_model::system::System;
use longpole_trace::event::{Catalogue, Item};
use serde::Serialize;
use std::collections::HashMap;
use std::io;

/// The report on a trace, as it is serialised to JSON.
#[derive(Debug, Serialize)]
pub struct Report {
    pub verdict: Verdict,
    /// Time of each state on the critical path. `None` if there is no path.
    pub criticality: Option<Vec<Row>>,
    pub findings: Vec<Finding>,
    /// Predicted gains of changes, the largest first. `None` if there is no path.
    #[serde(serialize_with = "predicted::alone")]
    pub predictions: Option<Vec<Prediction>>,
    pub queues: Vec<QueueAnswer>,
    pub latency: Vec<Latency>,
    pub probe_cost_ns: Option<f64>,
    pub inputs: Inputs,
    /// Event that ends the run, and the part of the run that the path covers. `None` if there is no
    /// path.
    pub run: Option<RunOf>,
    /// The state with most of the path in each window of time. `None` if there is no path.
    pub participation: Option<Participation>,
    /// Functions from sampled stacks, the most critical first. `None` if the trace holds no
    /// samples, or if there is no path.
    pub functions: Option<Vec<CriticalFunction>>,
    /// Both ends of sampled waits that other threads ended, those with the most time first. `None`
    /// if `functions` is.
    pub ended_waits: Option<Vec<EndedWait>>,
    /// What the sampled stacks on the path lack. `None` if `functions` is.
    pub stack_gaps: Option<StackGaps>,
    /// Part of the trials, each with other ends of the range, in which the verdict's state (without
    /// one, the path's first state) still has the most of the path. `None` if it is not on the
    /// path.
    pub stability: Option<f64>,
    /// Constants on which the verdict depends. `None` if sensitivity was not requested.
    pub sensitivity: Option<Vec<Sensitive>>,
    /// Further facts about the path.
    #[serde(skip)]
    pub path: Option<PathSummary>,
    /// Packet losses at one place, if they are numerous enough to be the verdict where nothing else
    /// is.
    #[serde(skip)]
    pub losses: Option<Finding>,
}

/// Facts about the critical path that the text of the report uses.
#[derive(Clone, Debug)]
pub struct PathSummary {
    pub end_machine: String,
    pub length_ns: u64,
    pub unknown_share: f64,
    pub profile: Vec<Profiled>,
    /// Reason for which nothing could be predicted.
    pub refused: Option<String>,
}

/// The result of the critical path analysis of a trace.
#[derive(Debug)]
pub struct Critical {
    pub answer: Answer,
    pub verdict: Verdict,
    pub run: RunOf,
    /// True if the path's verdict is clear enough to replace the verdict of the stages.
    pub decides: bool,
    pub predictions: Vec<Prediction>,
    pub participation: Participation,
    pub findings: Vec<Finding>,
    /// Which machine waits for which.
    pub waits: wait_graph::Answer,
    pub sensitivity: Option<Vec<Sensitive>>,
}

/// Facts from the kernel's events outside of the path, the model that names their threads, and the
/// share of each thread on the path.
pub type KernelOnPath<'a> = (&'a KernelFacts, &'a Linux, &'a ClassesOnPath);

impl Critical {
    /// Names the functions of the verdict. `codes` and `ended_waits` are those that the stack
    /// samples show on the path.
    ///
    /// # Errors
    ///
    /// That of [`Limits::built_in`].
    pub fn add_functions(&mut self, codes: &[Code], ended_waits: &[EndedWait]) -> Result<(), RuleError> {
        let limits = Limits::built_in()?;
        code::add(&mut self.verdict, codes, self.answer.length_ns, &limits);
        code::add_places(&mut self.verdict, ended_waits, &limits);
        Ok(())
    }

    /// Returns the findings from the path, the waits and the kernel's events.
    pub fn findings(
        participation: &Participation,
        waits: &wait_graph::Answer,
        kernel: Option<KernelOnPath<'_>>,
        rules: &Rules,
    ) -> Vec<Finding> {
        let mut facts = path_facts::facts(participation, waits);
        facts.extend(kernel.iter().flat_map(|(kernel_facts, linux, path)| kernel_facts.facts(linux, path)));
        rules.findings(&facts)
    }
}

/// Counts of the events in a trace, and of what is missing from it.
#[derive(Debug, Default, Serialize)]
pub struct Inputs {
    pub start_ns: Option<i64>,
    pub end_ns: Option<i64>,
    pub events: u64,
    pub lost: u64,
    /// Number of gaps for which the number of lost events is unknown.
    pub uncounted_losses: u64,
    /// Number of events under "(other names)": their thread and kind has more names than are
    /// distinguished.
    pub other_names: u64,
    /// Number of kernel events, which `events` does not include. The next two fields count those
    /// that are missing.
    pub kernel_events: u64,
    pub kernel_lost: u64,
    pub uncounted_kernel_losses: u64,
    /// Contradictions on the machines of the path. `negative_links` counts links that end before
    /// they begin (the clocks differ); `forgotten_causes` counts causes that lie too far back.
    pub contradictions: u64,
    pub negative_links: u64,
    pub forgotten_causes: u64,
    /// Number of chains of waits that were not followed to their ends.
    pub cut_waits: u64,
    /// Functions that were too short to be recorded (`longpole/auto.h`), the longest first.
    pub left_out: Vec<LeftOut>,
    /// True if kernel switches or samples show when threads run. Otherwise the time between two
    /// probes of a thread may be work or a wait.
    pub tells_running: bool,
}

/// The analyses of steps of probes, which run together: latencies, queues, stages, activities.
pub struct ProbePass {
    /// Resolves events to steps. If another component resolves them, only its vocabulary is used.
    system: System,
    pub step_pass: StepPass,
    latencies: Latencies,
    queues: Queues,
    stages: Stages,
    activities: Activities,
    counters: Counters,
    rules: Rules,
    packet_losses: Vec<Facts>,
    /// Items that are not steps of the program, such as kernel events: their counts and context.
    pub context: ItemCounts,
    /// Size in bytes of the largest ring that lost events, if the trace records it.
    pub full_ring: Option<u64>,
    /// See [`Inputs::tells_running`].
    pub tells_running: bool,
}

impl ProbePass {
    /// Returns a pass with the built-in event rules.
    pub fn new() -> Result<ProbePass, RuleError> {
        ProbePass::with_rules(longpole_model::rules::Rules::built_in()?)
    }

    /// Returns a pass for events that another component resolves and passes to
    /// [`ProbePass::steps`].
    pub fn of_steps() -> Result<ProbePass, RuleError> {
        let mut pass = ProbePass::with_rules(longpole_model::rules::Rules::default())?;
        pass.system.vocabulary = Vocabulary::default();
        Ok(pass)
    }

    /// Returns a pass with these event rules.
    pub fn with_rules(events: longpole_model::rules::Rules) -> Result<ProbePass, RuleError> {
        Ok(ProbePass {
            system: System::with_rules(events),
            step_pass: StepPass::default(),
            latencies: Latencies::default(),
            queues: Queues::default(),
            stages: Stages::default(),
            activities: Activities::default(),
            counters: Counters::default(),
            rules: Rules::built_in()?,
            packet_losses: Vec::new(),
            context: ItemCounts::default(),
            full_ring: None,
            tells_running: true,
        })
    }

    /// Adds lost packets to the report. `packets` is the number of all packets.
    pub fn set_packet_losses(&mut self, losses: &[LossLine], packets: u64) {
        self.packet_losses = losses.iter().filter_map(|line| line.facts(packets)).collect();
    }

    /// Processes one item. Events of the kernel and stack samples are not steps of a program and
    /// are skipped.
    #[inline]
    pub fn item(&mut self, catalogue: &Catalogue, item: &Item<'_>) {
        self.item_with(catalogue, item, None);
    }

    /// Processes one item; `account` is that of the event's thread.
    #[inline]
    pub fn item_with(&mut self, catalogue: &Catalogue, item: &Item<'_>, account: Option<Account>) {
        if !self.context.item(catalogue, item) {
            return;
        }
        self.latencies.account = account;
        match item {
            Item::Event(event) => {
                let step = self.system.step(catalogue, event);
                let observers: &mut [&mut dyn Observer] =
                    &mut [&mut self.latencies, &mut self.queues, &mut self.stages, &mut self.activities, &mut self.counters];
                self.step_pass.step(&self.system.vocabulary, step, observers);
            }
            Item::Loss(loss) => {
                let actor = self.system.actor_of_stream(loss.stream);
                let observers: &mut [&mut dyn Observer] =
                    &mut [&mut self.latencies, &mut self.queues, &mut self.stages, &mut self.activities, &mut self.counters];
                self.step_pass.loss(&self.system.vocabulary, actor, loss, observers);
            }
        }
    }

    /// Processes events that another component has resolved.
    pub fn steps(&mut self, steps: &Steps) {
        let observers: &mut [&mut dyn Observer] =
            &mut [&mut self.latencies, &mut self.queues, &mut self.stages, &mut self.activities, &mut self.counters];
        let step_pass = &mut self.step_pass;
        steps.each(&mut self.system.vocabulary, |vocabulary, heard| match heard {
            StepOrLoss::Step(step) => step_pass.step(vocabulary, *step, observers),
            StepOrLoss::Loss(actor, loss) => step_pass.loss(vocabulary, actor, loss, observers),
        });
    }

    fn scene(&self) -> Scene<'_> {
        self.step_pass.scene(&self.system.vocabulary)
    }

    /// Returns the statistics of each queue.
    pub fn queues(&self) -> Vec<QueueAnswer> {
        self.queue_series().into_iter().map(|it| it.queue).collect()
    }

    /// Returns the same statistics with the depths over time.
    pub fn queue_series(&self) -> Vec<QueueSeries> {
        let end = self.step_pass.range().map_or(0, |(_, end)| end);
        self.queues.answer(self.scene(), end, &|machine| self.step_pass.lost_of.get(&machine).copied().unwrap_or(0))
    }

    /// Returns the latencies of spans, calls, signals and activities.
    pub fn latency(&self) -> Vec<Latency> {
        self.latencies.answer(self.scene())
    }

    /// Keeps what pictures over time need: single cases of latencies, depths of queues, and values
    /// of counters.
    pub fn keep_for_pictures(&mut self) {
        self.latencies.keep_cases();
        self.queues.keep_series();
        self.counters.keep_values();
    }

    /// Adds rows with the values of queues and counters over time to a timeline, if they were kept.
    /// Returns the row of each queue.
    ///
    /// # Errors
    ///
    /// If the file of the values cannot be read.
    pub fn add_value_rows(&self, timeline: &Timeline) -> io::Result<HashMap<QueueId, RowId>> {
        value_rows::add(timeline, self.scene(), &self.queues, &self.counters)
    }

    /// Returns the same latencies with single cases.
    pub fn latency_cases(&self) -> Vec<LatencyCases> {
        self.latencies.with_cases(self.scene())
    }

    /// Returns latencies as the comparison of two recordings needs them: by name and class, then by
    /// name alone.
    pub fn latency_together(&self) -> [Vec<LatencySum>; 2] {
        [true, false].map(|by_class| self.latencies.together(self.scene(), by_class))
    }

    /// Returns the names of machines with their classes.
    pub fn classes(&self) -> impl Iterator<Item = (String, String)> {
        self.scene().names().into_iter().zip(self.scene().classes())
    }

    /// Returns the times of threads by their probes. `probe_cost_ns` is the cost of one probe, if
    /// measured.
    pub fn cpu(&self, probe_cost_ns: Option<f64>) -> Cpu {
        probed::answer(&self.step_pass, &self.system.vocabulary, &self.activities, probe_cost_ns.map(picoseconds))
    }

    /// Returns the counts of events and losses.
    pub fn inputs(&self) -> Inputs {
        Inputs {
            start_ns: self.step_pass.range().map(|(begin, _)| begin),
            end_ns: self.step_pass.range().map(|(_, end)| end),
            events: self.step_pass.events,
            lost: self.step_pass.lost,
            uncounted_losses: self.step_pass.uncounted_losses,
            other_names: self.step_pass.gathered(),
            kernel_events: self.context.kernel_events,
            kernel_lost: self.context.kernel_lost,
            uncounted_kernel_losses: self.context.uncounted_kernel_losses,
            left_out: self.context.left_out(),
            tells_running: self.tells_running,
            ..Inputs::default()
        }
    }

    /// Returns whether there are threads with a thread id for which only probes were recorded. A
    /// kernel trace could show more about those.
    pub fn has_threads(&self) -> bool {
        let actors = self.system.vocabulary.actors.all().iter().zip(0..);
        actors.into_iter().any(|(actor, at)| actor.tid.is_some() && self.step_pass.met.acts(ActorId(at)))
    }

    /// Returns the report by queues and probes. [`Report::with_path`] adds the critical path.
    pub fn report(&self, probe_cost_ns: Option<f64>) -> Report {
        let evidence = StageEvidence {
            step_pass: &self.step_pass,
            vocabulary: &self.system.vocabulary,
            queues: &self.queues,
            stages: &self.stages,
            latencies: &self.latencies,
            probe_cost_ps: probe_cost_ns.map_or(0, picoseconds),
            again: &lost_events::remedy(self.full_ring),
            rules: &self.rules,
        };
        let (verdict, others) = evidence.verdict_and_findings();
        let mut findings = self.rules.findings(&self.packet_losses);
        findings.sort_by_key(|finding| std::cmp::Reverse(finding.count));
        let is_cause = |finding: &&Finding| finding.is_cause() && finding.share >= self.rules.stages.min_finding;
        let losses = findings.iter().find(is_cause).cloned();
        findings.extend(others);
        Report {
            verdict: verdict.or_packet_loss(losses.as_ref()),
            losses,
            criticality: None,
            findings,
            predictions: None,
            run: None,
            participation: None,
            functions: None,
            ended_waits: None,
            stack_gaps: None,
            stability: None,
            sensitivity: None,
            path: None,
            queues: self.queues(),
            latency: self.latency(),
            probe_cost_ns,
            inputs: self.inputs(),
        }
    }
}

impl Report {
    /// Returns the verdict's state, or the path's first state if none leads. It is the state to
    /// which [`Report::stability`] refers.
    pub fn foremost(&self) -> Option<(&str, &str)> {
        let first = || self.participation.as_ref()?.rows.first().map(|row| (row.machine.as_str(), row.state.as_str()));
        match &self.verdict.origin.row {
            Some(row) => Some((&row.class, &row.state)),
            None => first(),
        }
    }

    /// Returns the report on a trace that holds only machines, such as a machine log.
    pub fn of_machines(critical: Critical) -> Report {
        let answer = &critical.answer;
        let inputs = Inputs {
            start_ns: Some(answer.start_ns as i64),
            end_ns: Some(answer.end_ns as i64),
            events: answer.interactions,
            tells_running: true,
            ..Inputs::default()
        };
        let report = Report {
            verdict: critical.verdict.clone(),
            criticality: None,
            findings: Vec::new(),
            predictions: None,
            queues: Vec::new(),
            latency: Vec::new(),
            probe_cost_ns: None,
            inputs,
            run: None,
            participation: None,
            functions: None,
            ended_waits: None,
            stack_gaps: None,
            stability: None,
            sensitivity: None,
            path: None,
            losses: None,
        };
        report.with_path(critical)
    }

    /// Adds the result of the critical path. The path's verdict replaces the current one, unless
    /// the current one is the verdict of the stages and either the path does not decide, or the
    /// path names only a part of what the stages' verdict explains.
    pub fn with_path(mut self, critical: Critical) -> Report {
        let Critical { answer, verdict, run, decides, mut predictions, participation, findings, waits, sensitivity } = critical;
        if decides && !self.verdict.explains(&verdict) || self.verdict.basis != Basis::Stages {
            self.verdict = verdict;
        }
        let contradictions = Contradictions::of(&answer);
        if contradictions.are_too_many(answer.interactions) {
            self.verdict = self.verdict.spread_as_unknown();
        }
        let verdict = self.verdict.or_packet_loss(self.losses.as_ref()).with_losses(&self.findings);
        self.verdict = verdict.with_contradictions(Some(contradictions));
        self.findings.extend(findings);
        self.findings.sort_by_key(|finding| (!finding.precedes_verdict(), !finding.is_cause()));
        self.run = Some(run);
        self.sensitivity = sensitivity;
        self.participation = Some(participation);
        let of_foremost = |(machine, state)| self.participation.as_ref()?.stability(machine, state);
        self.stability = self.foremost().and_then(of_foremost);
        predictions.sort_by(|a, b| b.gain.unwrap_or(f64::MIN).total_cmp(&a.gain.unwrap_or(f64::MIN)));
        self.path = Some(PathSummary {
            end_machine: answer.end_machine,
            length_ns: answer.length_ns,
            unknown_share: answer.unknown_ns as f64 / answer.length_ns.max(1) as f64,
            profile: answer.profile,
            refused: predictions.iter().find_map(|prediction| prediction.refused.clone()),
        });
        self.inputs.contradictions = answer.contradictions;
        self.inputs.negative_links = answer.negative_links;
        self.inputs.forgotten_causes = answer.forgotten_causes;
        self.inputs.cut_waits = waits.cut;
        self.criticality = Some(answer.criticality);
        self.predictions = Some(predictions);
        self
    }
}

fn picoseconds(ns: f64) -> u64 {
    if ns.is_finite() && ns > 0.0 {
        (ns * 1000.0) as u64
    } else {
        0
    }
}
