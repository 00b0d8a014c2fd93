//! A verdict as data: what the first line of a report says. [`super::sentence`] makes the line of it.

use crate::findings::{Evidence, Finding};
use crate::text::{number, percent};
use crate::verdict::{Doubts, Reason};
use serde::Serialize;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// One subject limits the system.
    Bottleneck,
    /// The system waits for a time that it set itself, input, a quota or a rate limit.
    Paced,
    /// No subject leads at any level.
    Spread,
    /// Too little is known.
    Unknown,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum SubjectLevel {
    Host,
    Process,
    Pool,
    Thread,
    Cpu,
    Device,
    Queue,
    Lock,
    Connection,
    Interrupt,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Named {
    pub level: SubjectLevel,
    pub host: Option<String>,
    pub name: String,
    /// The script that it runs, if it is an interpreter: the file that it got as its first
    /// argument.
    pub script: Option<String>,
    pub pid: Option<i32>,
    pub tid: Option<i32>,
    /// The port on which it is asked.
    pub port: Option<u16>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum StateKind {
    Running,
    SystemCall,
    Declared,
    Runnable,
    Sleep,
    KernelTimer,
    Throttled,
    Faults,
    Disk,
    Interrupt,
    Transit,
    Call,
    Lost,
    Unknown,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct StateNamed {
    pub kind: StateKind,
    pub name: String,
}

/// What a wait waits for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct WaitsFor {
    pub kind: &'static str,
    pub name: String,
    pub other: Option<Named>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Code {
    pub function: String,
    pub file: Option<String>,
    pub line: Option<u32>,
    pub share: f64,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RunnerUp {
    pub subject: Named,
    pub state: StateNamed,
    pub share: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum GainOf {
    End,
    Rate,
}

/// Times from request to reply at whoever makes the progress, and what they would be after the change: as many requests are open then as
/// before, so each takes so much less time as more of them are answered (Little's law).
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ProgressLatency {
    pub p50_ns: u64,
    pub p99_ns: u64,
    pub predicted_p50_ns: u64,
    pub predicted_p99_ns: u64,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Gain {
    pub change: String,
    pub of: GainOf,
    pub progress: Option<String>,
    pub latency: Option<ProgressLatency>,
    pub gain: f64,
    pub low: f64,
    pub high: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CaveatKind {
    LostEvents,
    UnknownTime,
    Contradictions,
    RunningNotTold,
    Timer,
    SteadyPart,
    /// Programs that have nothing to do with the path use the CPUs.
    Bystanders,
    /// More events came than could be stored, and some kinds were not recorded any more.
    SwitchedOff,
}

/// What makes the verdict less certain.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Caveat {
    pub kind: CaveatKind,
    pub share: Option<f64>,
    pub count: Option<u64>,
    pub text: String,
    pub remedy: Option<String>,
}

/// How the bottleneck works, where more is known than who and in which state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Mechanism {
    /// Requests wait for one another.
    Serialisation,
    /// A lock goes from one to the next.
    LockConvoy,
    /// Both sides sleep and look again.
    Polling,
    /// A sender that waits for an acknowledgement which the receiver delays.
    DelayedAck,
    Retransmission,
    WindowProbe,
    /// A sender that waits for room in its receiver's window.
    WindowLimited,
    Pacing,
    KernelTimer,
    /// Waits for the disk once per item.
    SyncPerItem,
    DiskReads,
    PageFaults,
    CpuQuota,
    /// A control group's limit for its disks holds requests back.
    DiskQuota,
    /// More threads want to run than there are CPUs.
    CpuContention,
    /// Threads that may run on some CPUs only wait for those while others are idle.
    Affinity,
    /// A process is started for each item, and starting and ending it costs a considerable part.
    ProcessPerItem,
    /// One thread does all the work while CPUs are idle.
    SingleThread,
    /// Several threads work, one at a time, while CPUs are idle.
    OneAtATime,
    SleepInHandler,
    /// Nobody answers, and a timeout passes each time.
    Timeout,
    /// Many requests, one after the other.
    RoundTrips,
    /// A part of the run that uses one CPU.
    SerialStep,
    LoadGenerator,
    PacketLoss,
}

/// What the outcome rests on, with its figures.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Because {
    /// Another one starts these processes, again and again.
    Processes {
        by: Named,
        count: u64,
        mean_ns: u64,
    },
    /// Its affinity mask allows some of the CPUs only, and CPUs are idle.
    Affinity {
        allowed: u64,
        cpus: u64,
        idle: f64,
    },
    /// It waits until a time that it set itself.
    Sleeps {
        call: String,
        mean_ns: u64,
        count: u64,
        waited_for_by: Option<Named>,
        outstanding: Option<f64>,
    },
    /// Threads or processes that wait for one another meanwhile.
    Convoy {
        pool: Named,
        waiters: f64,
        members: u64,
        wait: String,
        holder: Option<Named>,
    },
    /// More requests are open than are worked on at a time.
    Serialised {
        at: Named,
        open: f64,
        at_a_time: f64,
        callee: Option<Named>,
    },
    /// Several sides sleep and look again.
    Polls {
        sides: Vec<Named>,
        mean_ns: u64,
        count: u64,
    },
    /// Requests, or attempts to connect, that nobody answered before a timeout.
    Unanswered {
        requests: u64,
        connects: u64,
        mean_ns: u64,
        count: u64,
    },
    /// One process after another while CPUs are idle, in a part of the run.
    SerialStep {
        step: Named,
        share: f64,
        idle: f64,
    },
    /// A connection whose receiver has little room.
    Window {
        port: u16,
        peer: u16,
        bytes: u64,
        count: u64,
        filled: f64,
    },
    /// Requests one after the other; so many for each request that it answers itself.
    RoundTrips {
        asker: Option<Named>,
        count: u64,
        mean_ns: u64,
        callee: Option<Named>,
        per_request: Option<f64>,
    },
    KernelTimer {
        timer: String,
        mean_ns: u64,
        count: u64,
        between: Vec<Named>,
    },
    Disk {
        call: String,
        mean_ns: u64,
        count: u64,
    },
    /// How its time on the path is divided.
    Divided {
        parts: Vec<(StateNamed, f64)>,
    },
    /// It works on one CPU while others are idle, with so many threads.
    Alone {
        threads: u64,
        cpus: u64,
        idle: f64,
    },
    /// Who had the CPUs.
    CpuUsers {
        waits: Named,
        users: Vec<(Named, f64)>,
        idle: f64,
    },
    Faults {
        count: u64,
        share: f64,
    },
    /// A lock that threads hand from one to the next.
    Lock {
        count: u64,
        share: f64,
    },
    Quota {
        count: u64,
    },
    /// The first ones, none of which leads.
    First {
        parts: Vec<RunnerUp>,
    },
}

#[derive(Clone, Debug, Serialize)]
pub struct Verdict {
    pub outcome: Outcome,
    pub subject: Option<Named>,
    pub state: Option<StateNamed>,
    pub waits_for: Option<WaitsFor>,
    pub mechanism: Option<Mechanism>,
    pub because: Vec<Because>,
    pub code: Option<Code>,
    pub share: Option<f64>,
    pub share_low: Option<f64>,
    pub share_high: Option<f64>,
    /// Of `spread`: the first three. Else the next one.
    pub runner_up: Option<RunnerUp>,
    pub gain: Option<Gain>,
    pub role: Option<&'static str>,
    pub caveats: Vec<Caveat>,
    pub unknown_share: Option<f64>,
    pub lost: u64,
    pub evidence: Evidence,
    pub text: String,
    /// What in the trace does not fit together. None: there is no path, which would show it.
    pub doubts: Option<Doubts>,
    /// Class and state as rows and changes name them.
    #[serde(skip)]
    pub row: Option<(String, String)>,
    /// The trace tells of stages, whatever is said of them.
    #[serde(skip)]
    pub of_stages: bool,
    /// Not one state, but why several take long.
    #[serde(skip)]
    pub of_cause: bool,
}

impl Verdict {
    /// Whether it is the cause of what the other one names: both speak of one machine, and it has more of that one's work than the
    /// other's state has of the path.
    pub fn explains(&self, of_path: &Verdict) -> bool {
        let has_more = self.share_low.zip(of_path.share_high).is_some_and(|(own, other)| own > other);
        let machine = |verdict: &Verdict| verdict.row.as_ref().map(|row| row.0.clone());
        self.of_cause && self.state.is_some() && machine(self) == machine(of_path) && has_more
    }

    /// Whether something runs, so that samples of running code can tell where.
    pub fn mechanism_has_code(&self) -> bool {
        let runs = |state: &StateNamed| matches!(state.kind, StateKind::Running | StateKind::SystemCall);
        let waits = [Mechanism::WindowLimited, Mechanism::RoundTrips, Mechanism::SerialStep, Mechanism::CpuQuota];
        let runs = self.state.as_ref().is_none_or(runs);
        self.outcome == Outcome::Bottleneck && runs && !self.mechanism.is_some_and(|mechanism| waits.contains(&mechanism))
    }

    /// That nothing leads is said only where what happens is known.
    pub fn if_known(mut self) -> Verdict {
        if self.outcome == Outcome::Spread {
            self.outcome = Outcome::Unknown;
            // The stages' and the states' reasons are known as text only.
            self.text = match self.text.strip_prefix(Reason::NothingStandsOut.begin()) {
                Some(why) => format!("{}{why}", Reason::CannotBeTold.begin()),
                None => super::sentence::sentence(&self),
            };
        }
        self
    }

    /// Where nothing else is the bottleneck, the place at which most packets are lost is.
    pub fn or_lost(self, losses: Option<&Finding>) -> Verdict {
        let Some(finding) = losses.filter(|_| !matches!(self.outcome, Outcome::Bottleneck)) else { return self };
        let error = finding.error.unwrap_or(0.0);
        let named =
            Named { level: SubjectLevel::Queue, host: None, name: finding.subject.clone(), script: None, pid: None, tid: None, port: None };
        let text = format!(
            "{} is the bottleneck: {} of all packets are lost there, {} events lost; {}.",
            finding.subject,
            percent(finding.share),
            number(self.lost),
            finding.remedy
        );
        Verdict {
            outcome: Outcome::Bottleneck,
            subject: Some(named),
            state: Some(StateNamed { kind: StateKind::Lost, name: "lost".to_owned() }),
            mechanism: Some(Mechanism::PacketLoss),
            because: Vec::new(),
            share: Some(finding.share),
            share_low: Some((finding.share - error).max(0.0)),
            share_high: Some((finding.share + error).min(1.0)),
            evidence: finding.evidence,
            row: Some((finding.subject.clone(), "lost".to_owned())),
            text,
            ..self
        }
    }

    /// Adds a caveat for what does not fit together.
    pub fn doubted(mut self, doubts: Option<Doubts>) -> Verdict {
        self.doubts = doubts;
        if let Some(text) = doubts.and_then(|doubts| doubts.said()) {
            let count = doubts.map(|doubts| doubts.contradictions + doubts.negative_links);
            self.text = format!("{}; {text}.", self.text.strip_suffix('.').unwrap_or(&self.text));
            self.caveats.push(Caveat { kind: CaveatKind::Contradictions, share: None, count, text, remedy: None });
        }
        self
    }
}
