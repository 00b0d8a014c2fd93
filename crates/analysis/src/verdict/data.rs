//! A verdict as data: what the first line of a report says. [`crate::verdict::sentence`] makes the line of it.

use crate::findings::{Evidence, Finding};
use crate::verdict::because::Because;
use crate::verdict::caveat::{Caveat, Doubts};
use crate::verdict::sentence;
use crate::verdict::subjects::SubjectId;
use serde::{Serialize, Serializer};

/// What a verdict is decided by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Basis {
    /// The critical path by processes, pools and threads.
    Subjects,
    /// The critical path by states of machines, where no process is known.
    States,
    /// The queues between stages: which of them are full, and which are empty.
    Stages,
    /// Probes of which no two threads hand items to each other.
    Probes,
}

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
    /// The script that it runs, if it is an interpreter.
    pub script: Option<String>,
    /// What its process is for, as far as the title that the process gave itself tells it.
    pub title: Option<String>,
    /// The systemd service.
    pub unit: Option<String>,
    /// Id or name.
    pub container: Option<String>,
    /// Nothing else tells it from another subject.
    #[serde(skip)]
    pub needs_place: bool,
    pub pid: Option<i32>,
    pub tid: Option<i32>,
    /// The port on which it is asked.
    pub port: Option<u16>,
}

impl Named {
    /// Something of which no process is known.
    pub fn of_name(level: SubjectLevel, name: &str) -> Named {
        Named {
            level,
            host: None,
            name: name.to_owned(),
            script: None,
            title: None,
            unit: None,
            container: None,
            needs_place: false,
            pid: None,
            tid: None,
            port: None,
        }
    }
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

/// The locks for which threads wait, told apart by the addresses of their futexes.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Locks {
    /// Those that have most of the waiting.
    pub count: u64,
    /// Of the first of them, in hexadecimal digits.
    pub address: String,
    /// Its part of the time in which threads wait for locks.
    pub share: f64,
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
    /// Threads or processes wake each other for each small item.
    HandOverPerItem,
    /// Packets wait in the queue of a device, because its link carries no more.
    SlowLink,
    /// Every packet takes long on its way, and few are on the way.
    LongLink,
    /// The kernel's work in interrupts and softirqs.
    InterruptWork,
    /// A connection is made for each request, and what a server does at its begin takes most of its
    /// time.
    ConnectionPerRequest,
    /// A thread waits for a less important one, which waits for a CPU that a third one has.
    PriorityInversion,
    /// Threads free memory themselves, since there is none.
    MemoryReclaim,
}

/// Written as JSON with `text`, its sentence.
#[derive(Clone, Debug, Serialize)]
#[serde(remote = "Self")]
pub struct Verdict {
    pub outcome: Outcome,
    pub subject: Option<Named>,
    pub state: Option<StateNamed>,
    pub waits_for: Option<WaitsFor>,
    pub mechanism: Option<Mechanism>,
    pub because: Vec<Because>,
    pub code: Option<Code>,
    pub share: Option<f64>,
    /// Ends of the interval of two standard errors. None: the share or its error is not known.
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
    /// What in the trace does not fit together. None: there is no path, which would show it.
    pub doubts: Option<Doubts>,
    /// The subject as the judge knows it.
    #[serde(skip)]
    pub subject_id: Option<SubjectId>,
    #[serde(skip)]
    pub basis: Basis,
    /// Class and state as rows and changes name them.
    #[serde(skip)]
    pub row: Option<(String, String)>,
    /// Gaps whose number of events nobody knows.
    #[serde(skip)]
    pub uncounted_losses: u64,
}

impl Serialize for Verdict {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Said<'a> {
            #[serde(flatten, serialize_with = "Verdict::serialize")]
            verdict: &'a Verdict,
            text: String,
        }
        Said { verdict: self, text: self.text() }.serialize(serializer)
    }
}

impl Verdict {
    /// A verdict of which nothing but this is known yet.
    pub fn new(outcome: Outcome, basis: Basis) -> Verdict {
        Verdict {
            outcome,
            subject: None,
            state: None,
            waits_for: None,
            mechanism: None,
            because: Vec::new(),
            code: None,
            share: None,
            share_low: None,
            share_high: None,
            runner_up: None,
            gain: None,
            role: None,
            caveats: Vec::new(),
            unknown_share: None,
            lost: 0,
            evidence: Evidence::default(),
            doubts: None,
            basis,
            subject_id: None,
            row: None,
            uncounted_losses: 0,
        }
    }

    /// The same about a machine, or a class of machines, of which no process is known.
    pub fn about(self, machine: &str, state: Option<StateNamed>) -> Verdict {
        let row = state.as_ref().map(|state| (machine.to_owned(), state.name.clone()));
        Verdict { subject: Some(Named::of_name(SubjectLevel::Thread, machine)), state, row, ..self }
    }

    /// The same with a share and its error of two standard errors, as far as they are known.
    pub fn with_share(self, share: Option<f64>, error: Option<f64>) -> Verdict {
        let (low, high) = share.zip(error).map(|(share, error)| ((share - error).max(0.0), (share + error).min(1.0))).unzip();
        Verdict { share, share_low: low, share_high: high, ..self }
    }

    /// The sentence.
    pub fn text(&self) -> String {
        sentence::sentence(self)
    }

    /// Two standard errors of the share. An end of the interval that was cut off at 0 or 1 tells
    /// less than the other one.
    pub(in crate::verdict) fn error(&self) -> Option<f64> {
        let (share, low, high) = (self.share?, self.share_low?, self.share_high?);
        Some((share - low).max(high - share))
    }

    /// Whether a finding is the cause: why several states take long, instead of one state.
    fn names_a_finding(&self) -> bool {
        self.because.iter().any(|because| matches!(because, Because::Finding(_)))
    }

    /// Whether it is the cause of what the other one names: both speak of one machine, and it has more of that one's work than the
    /// other's state has of the path.
    pub fn explains(&self, of_path: &Verdict) -> bool {
        let low = self.share_low.or(self.share);
        let high = of_path.share_high.or(of_path.share);
        let has_more = low.zip(high).is_some_and(|(own, other)| own > other);
        let machine = |verdict: &Verdict| verdict.row.as_ref().map(|row| row.0.clone());
        self.names_a_finding() && self.state.is_some() && machine(self) == machine(of_path) && has_more
    }

    /// The part of the path of which the shares are shares: without idle sleeps.
    pub fn rest(&self) -> f64 {
        let left_out = self.because.iter().find_map(|because| match because {
            Because::IdleSleeps { share, .. } => Some(*share),
            _ => None,
        });
        // Never nothing: there was something to judge.
        (1.0 - left_out.unwrap_or(0.0)).max(f64::EPSILON)
    }

    /// Whether something runs, so that samples of running code can tell where.
    pub fn mechanism_has_code(&self) -> bool {
        let runs = |state: &StateNamed| matches!(state.kind, StateKind::Running | StateKind::SystemCall);
        let waits = [
            Mechanism::WindowLimited,
            Mechanism::RoundTrips,
            Mechanism::SerialStep,
            Mechanism::CpuQuota,
            Mechanism::HandOverPerItem,
            Mechanism::SlowLink,
            Mechanism::LongLink,
        ];
        let runs = self.state.as_ref().is_none_or(runs);
        self.outcome == Outcome::Bottleneck && runs && !self.mechanism.is_some_and(|mechanism| waits.contains(&mechanism))
    }

    /// That nothing leads is said only where what happens is known.
    pub fn if_known(mut self) -> Verdict {
        if self.outcome == Outcome::Spread {
            self.outcome = Outcome::Unknown;
        }
        self
    }

    /// Where nothing else is the bottleneck, the place at which most packets are lost is.
    pub fn or_lost(self, losses: Option<&Finding>) -> Verdict {
        let Some(finding) = losses.filter(|_| self.outcome != Outcome::Bottleneck) else { return self };
        let Finding { subject, count, share, remedy, .. } = finding;
        let lost = Because::LostPackets { count: *count, share: *share, remedy: remedy.clone() };
        let state = StateNamed { kind: StateKind::Lost, name: "lost".to_owned() };
        Verdict {
            outcome: Outcome::Bottleneck,
            subject: Some(Named::of_name(SubjectLevel::Queue, subject)),
            mechanism: Some(Mechanism::PacketLoss),
            because: vec![lost],
            evidence: finding.evidence,
            ..self.about(subject, Some(state)).with_share(Some(*share), finding.error)
        }
    }

    /// Adds a caveat for what does not fit together.
    pub fn doubted(mut self, doubts: Option<Doubts>) -> Verdict {
        self.doubts = doubts;
        self.caveats.extend(doubts.filter(|doubts| !doubts.is_none()).map(Caveat::Contradictions));
        self
    }
}
