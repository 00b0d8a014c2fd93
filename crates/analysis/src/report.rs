//! The report: verdict, findings, and the numbers they stand on, from one pass.

use crate::critical_path::participation::Participation;
use crate::critical_path::samples::CriticalFunction;
use crate::critical_path::{Answer, Profiled, Row};
use crate::findings::kernel_facts::{KernelFacts, OnPath};
use crate::findings::path_facts;
use crate::findings::{Facts, Finding, Rules};
use crate::latency::{Latencies, Latency, Together};
use crate::network::packet_loss::LossLine;
use crate::queues::{QueueAnswer, Queues};
use crate::scheduling::probed::{self, Activities, Cpu};
use crate::scheduling::thread_time::Account;
use crate::stages::left_out::LeftOut;
use crate::stages::session::{Observer, Scene, Session};
use crate::stages::steps::{Heard, KnownState, Steps};
use crate::stages::Stages;
use crate::verdict::anchor::RunOf;
use crate::verdict::caveat::Doubts;
use crate::verdict::data::{Basis, Verdict};
use crate::verdict::lost_events;
use crate::verdict::sensitivity::Sensitive;
use crate::verdict::stages::Judge;
use crate::wait_graph;
use crate::what_if::predicted;
use crate::what_if::Prediction;
use longpole_model::interaction::Vocabulary;
use longpole_model::linux::Linux;
use longpole_model::rules::RuleError;
use longpole_model::system::actors::ActorId;
use longpole_model::system::System;
use longpole_trace::event::{Catalogue, Item};
use serde::Serialize;

#[derive(Debug, Serialize)]
pub struct Report {
    pub verdict: Verdict,
    /// Time of each state on the critical path. None: there is no path.
    pub criticality: Option<Vec<Row>>,
    pub findings: Vec<Finding>,
    /// What changes would bring, the most first. None: there is no path.
    #[serde(serialize_with = "predicted::alone")]
    pub predictions: Option<Vec<Prediction>>,
    pub queues: Vec<QueueAnswer>,
    pub latency: Vec<Latency>,
    pub probe_cost_ns: Option<f64>,
    pub inputs: Inputs,
    /// What ends the run, and which part of it the path covers. None: there is no path.
    pub run: Option<RunOf>,
    /// Which state has the path at which time. None: there is no path.
    pub participation: Option<Participation>,
    /// Functions by sampled stacks, the most critical first. None: the trace holds no samples, or there is no path.
    pub functions: Option<Vec<CriticalFunction>>,
    /// How often the verdict's state (the path's first, where nothing stands out) has the most of the path where the range begins and ends elsewhere. None: it is
    /// not on the path.
    pub stability: Option<f64>,
    /// The constants on which the verdict depends. None: it was not asked.
    pub sensitivity: Option<Vec<Sensitive>>,
    /// What else is said of the path.
    #[serde(skip)]
    pub path: Option<PathFacts>,
    /// Packets that are lost at one place, so many that it is the verdict where nothing else is.
    #[serde(skip)]
    pub losses: Option<Finding>,
}

#[derive(Clone, Debug)]
pub struct PathFacts {
    pub end_machine: String,
    pub length_ns: u64,
    pub unknown_share: f64,
    pub profile: Vec<Profiled>,
    /// Why nothing is predicted.
    pub refused: Option<String>,
}

/// What the critical path of a trace says.
#[derive(Debug)]
pub struct Critical {
    pub answer: Answer,
    pub verdict: Verdict,
    pub run: RunOf,
    /// The verdict is clear enough to overrule that of the stages.
    pub decides: bool,
    pub predictions: Vec<Prediction>,
    pub participation: Participation,
    pub findings: Vec<Finding>,
    /// Chains of waits that were not followed to their ends.
    pub cut_waits: u64,
    pub sensitivity: Option<Vec<Sensitive>>,
}

/// What the kernel's events tell beside the path, and what of the path its threads have.
pub type Told<'a> = (&'a KernelFacts, &'a Linux, &'a OnPath);

impl Critical {
    /// What the path and the waits show beside the verdict.
    pub fn findings(participation: &Participation, waits: &wait_graph::Answer, kernel: Option<Told<'_>>, rules: &Rules) -> Vec<Finding> {
        let mut facts = path_facts::facts(participation, waits);
        facts.extend(kernel.iter().flat_map(|(told, linux, path)| told.facts(linux, path)));
        rules.judge(&facts)
    }
}

#[derive(Debug, Default, Serialize)]
pub struct Inputs {
    pub start_ns: Option<i64>,
    pub end_ns: Option<i64>,
    pub events: u64,
    pub lost: u64,
    /// Gaps whose number of events nobody knows.
    pub uncounted_losses: u64,
    /// Events under "(other names)": their thread and kind has more names than are told apart.
    pub other_names: u64,
    /// The kernel's events, on which the verdict does not stand, and how many of them are missing.
    pub kernel_events: u64,
    pub kernel_lost: u64,
    pub uncounted_kernel_losses: u64,
    /// Of the machines that the path leads through: what cannot be, links that end before they begin (clocks differ), causes that lie too far back.
    pub contradictions: u64,
    pub negative_links: u64,
    pub forgotten_causes: u64,
    /// Chains of waits that were not followed to their ends.
    pub cut_waits: u64,
    /// Functions that were too short to be recorded (`longpole/auto.h`), the longest first.
    pub left_out: Vec<LeftOut>,
    /// Something tells when threads run: the kernel's switches, or samples. Else what lies between two probes of a thread may be work or a wait.
    pub tells_running: bool,
}

/// All analyses of a pass together.
pub struct Pass {
    /// Who resolves the events; where somebody else does, it only has the vocabulary.
    system: System,
    pub session: Session,
    latencies: Latencies,
    queues: Queues,
    stages: Stages,
    activities: Activities,
    rules: Rules,
    lost: Vec<Facts>,
    /// What was passed over.
    pub context: KnownState,
    /// The largest ring that lost events, if the trace tells it.
    pub full_ring: Option<u64>,
    /// See [`Inputs::tells_running`].
    pub tells_running: bool,
}

impl Pass {
    pub fn new() -> Result<Pass, RuleError> {
        Pass::with_rules(longpole_model::rules::Rules::built_in()?)
    }

    /// Of events that somebody else resolves: it is given [`Steps`].
    pub fn of_steps() -> Result<Pass, RuleError> {
        let mut pass = Pass::with_rules(longpole_model::rules::Rules::default())?;
        pass.system.vocabulary = Vocabulary::default();
        Ok(pass)
    }

    /// `events`: what the events mean.
    pub fn with_rules(events: longpole_model::rules::Rules) -> Result<Pass, RuleError> {
        Ok(Pass {
            system: System::with_rules(events),
            session: Session::default(),
            latencies: Latencies::default(),
            queues: Queues::default(),
            stages: Stages::default(),
            activities: Activities::default(),
            rules: Rules::built_in()?,
            lost: Vec::new(),
            context: KnownState::default(),
            full_ring: None,
            tells_running: true,
        })
    }

    /// Lost packets, for the report; `packets` is how many there were in all.
    pub fn lost(&mut self, losses: &[LossLine], packets: u64) {
        self.lost = losses.iter().filter_map(|line| line.facts(packets)).collect();
    }

    /// Events of the kernel and samples of stacks are no steps of a program; they are passed over.
    #[inline]
    pub fn item(&mut self, catalogue: &Catalogue, item: &Item<'_>) {
        self.item_with(catalogue, item, None);
    }

    /// `account` is that of the event's thread.
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
                    &mut [&mut self.latencies, &mut self.queues, &mut self.stages, &mut self.activities];
                self.session.step(&self.system.vocabulary, step, observers);
            }
            Item::Loss(loss) => {
                let actor = self.system.actor_of_stream(loss.stream);
                let observers: &mut [&mut dyn Observer] =
                    &mut [&mut self.latencies, &mut self.queues, &mut self.stages, &mut self.activities];
                self.session.loss(&self.system.vocabulary, actor, loss, observers);
            }
        }
    }

    /// Goes through what somebody else has resolved.
    pub fn steps(&mut self, steps: &Steps) {
        let observers: &mut [&mut dyn Observer] = &mut [&mut self.latencies, &mut self.queues, &mut self.stages, &mut self.activities];
        let session = &mut self.session;
        steps.each(&mut self.system.vocabulary, |vocabulary, heard| match heard {
            Heard::Step(step) => session.step(vocabulary, *step, observers),
            Heard::Loss(actor, loss) => session.loss(vocabulary, actor, loss, observers),
        });
    }

    fn scene(&self) -> Scene<'_> {
        self.session.scene(&self.system.vocabulary)
    }

    pub fn queues(&self) -> Vec<QueueAnswer> {
        let end = self.session.range().map_or(0, |(_, end)| end);
        self.queues.answer(self.scene(), end, &|machine| self.session.lost_of.get(&machine).copied().unwrap_or(0))
    }

    pub fn latency(&self) -> Vec<Latency> {
        self.latencies.answer(self.scene())
    }

    /// As two recordings are compared: by name and class, then by name alone.
    pub fn latency_together(&self) -> [Vec<Together>; 2] {
        [true, false].map(|by_class| self.latencies.together(self.scene(), by_class))
    }

    /// What machines are called, and their classes.
    pub fn classes(&self) -> impl Iterator<Item = (String, String)> {
        self.scene().names().into_iter().zip(self.scene().classes())
    }

    pub fn cpu(&self, probe_cost_ns: Option<f64>) -> Cpu {
        probed::answer(&self.session, &self.system.vocabulary, &self.activities, probe_cost_ns.map(picoseconds))
    }

    pub fn inputs(&self) -> Inputs {
        Inputs {
            start_ns: self.session.range().map(|(begin, _)| begin),
            end_ns: self.session.range().map(|(_, end)| end),
            events: self.session.events,
            lost: self.session.lost,
            uncounted_losses: self.session.uncounted_losses,
            other_names: self.session.gathered(),
            kernel_events: self.context.kernel_events,
            kernel_lost: self.context.kernel_lost,
            uncounted_kernel_losses: self.context.uncounted_kernel_losses,
            left_out: self.context.left_out(),
            tells_running: self.tells_running,
            ..Inputs::default()
        }
    }

    /// Whether it has threads of which only their probes tell: where those have a number, a kernel could tell more.
    pub fn has_threads(&self) -> bool {
        let actors = self.system.vocabulary.actors.all().iter().zip(0..);
        actors.into_iter().any(|(actor, at)| actor.tid.is_some() && self.session.met.acts(ActorId(at)))
    }

    pub fn report(&self, probe_cost_ns: Option<f64>) -> Report {
        let judge = Judge {
            session: &self.session,
            vocabulary: &self.system.vocabulary,
            queues: &self.queues,
            stages: &self.stages,
            latencies: &self.latencies,
            probe_cost_ps: probe_cost_ns.map_or(0, picoseconds),
            again: &lost_events::remedy(self.full_ring),
            rules: &self.rules,
        };
        let (verdict, others) = judge.judge();
        let mut findings = self.rules.judge(&self.lost);
        findings.sort_by(|a, b| b.count.cmp(&a.count));
        let is_cause = |finding: &&Finding| finding.is_cause() && finding.share >= self.rules.verdict.min_finding;
        let losses = findings.iter().find(is_cause).cloned();
        findings.extend(others);
        Report {
            verdict: verdict.or_lost(losses.as_ref()),
            losses,
            criticality: None,
            findings,
            predictions: None,
            run: None,
            participation: None,
            functions: None,
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
    /// The verdict's state, or where nothing stands out, the path's first: of which [`Report::stability`] tells.
    pub fn foremost(&self) -> Option<(&str, &str)> {
        let first = || self.participation.as_ref()?.rows.first().map(|row| (row.machine.as_str(), row.state.as_str()));
        match &self.verdict.row {
            Some((machine, state)) => Some((machine, state)),
            None => first(),
        }
    }

    /// Of a trace that holds nothing but machines.
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
            stability: None,
            sensitivity: None,
            path: None,
            losses: None,
        };
        report.with(critical)
    }

    /// Where the trace tells of stages and the path does not decide, or names only a part of what their verdict explains, it stays theirs.
    pub fn with(mut self, critical: Critical) -> Report {
        let Critical { answer, verdict, run, decides, mut predictions, participation, findings, cut_waits, sensitivity } = critical;
        if decides && !self.verdict.explains(&verdict) || self.verdict.basis != Basis::Stages {
            self.verdict = verdict;
        }
        let doubts = Doubts::of(&answer);
        if doubts.weigh(answer.interactions) {
            self.verdict = self.verdict.if_known();
        }
        self.verdict = self.verdict.or_lost(self.losses.as_ref()).doubted(Some(doubts));
        self.findings.extend(findings);
        self.findings.sort_by_key(|finding| (!finding.is_foremost(), !finding.is_cause()));
        self.run = Some(run);
        self.sensitivity = sensitivity;
        self.participation = Some(participation);
        let of_foremost = |(machine, state)| self.participation.as_ref()?.stability(machine, state);
        self.stability = self.foremost().and_then(of_foremost);
        predictions.sort_by(|a, b| b.gain.unwrap_or(f64::MIN).total_cmp(&a.gain.unwrap_or(f64::MIN)));
        self.path = Some(PathFacts {
            end_machine: answer.end_machine,
            length_ns: answer.length_ns,
            unknown_share: answer.unknown_ns as f64 / answer.length_ns.max(1) as f64,
            profile: answer.profile,
            refused: predictions.iter().find_map(|prediction| prediction.refused.clone()),
        });
        self.inputs.contradictions = answer.contradictions;
        self.inputs.negative_links = answer.negative_links;
        self.inputs.forgotten_causes = answer.forgotten_causes;
        self.inputs.cut_waits = cut_waits;
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
