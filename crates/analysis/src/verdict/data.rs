//! The verdict as data: everything that the first line of a report states.
//! [`crate::verdict::sentence`] turns it into that line, and JSON output serialises it directly.

pub mod because;
pub mod caveat;
pub mod figures;
pub mod waits_for;
use crate::findings::{Finding, Scope};
use crate::stats::evidence::Evidence;
use crate::verdict::data::because::Because;
use crate::verdict::data::caveat::{Caveat, Contradictions};
use crate::verdict::data::waits_for::WaitsFor;
use crate::verdict::sentence;
use crate::verdict::subjects::SubjectId;
use crate::what_if::Scenario;
use serde::{Serialize, Serializer};

/// The kind of data on which a verdict is based.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Basis {
    /// The critical path, added up by processes, pools and threads.
    Subjects,
    /// The critical path, added up by states of machines: no process is known, or a state that a
    /// program declared decides.
    States,
    /// The queues between stages: which of them are full, and which are empty.
    Stages,
    /// Probes only, and no two threads with probes pass items to each other.
    Probes,
}

/// The result of a verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// One subject limits the system.
    Bottleneck,
    /// The system waits for a time that it set itself, for a quota or for a rate limit.
    Paced,
    /// No subject leads at any level.
    Spread,
    /// Too little is known.
    Unknown,
}

/// The kind of thing that a verdict names.
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

/// A thing that a verdict names, with the data that identifies it for users.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Named {
    pub level: SubjectLevel,
    pub host: Option<String>,
    pub name: String,
    /// Script that the process runs, if the process is an interpreter.
    pub script: Option<String>,
    /// Purpose of the process, derived from the title that the process set for itself.
    pub title: Option<String>,
    /// Name of the systemd service.
    pub unit: Option<String>,
    /// Id or name of the container.
    pub container: Option<String>,
    /// Set if only unit and container distinguish this subject from another one.
    #[serde(skip)]
    pub needs_place: bool,
    pub pid: Option<i32>,
    pub tid: Option<i32>,
    /// Port on which the subject receives requests.
    pub port: Option<u16>,
}

impl Named {
    /// Returns the program, without the thread that follows it in the name of a thread.
    pub fn program(&self) -> &str {
        self.name.split('/').next().unwrap_or(&self.name)
    }

    /// A subject for which only a level and a name are known, and no process.
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

/// The kind of a subject's state, for JSON and for the sentence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SubjectState {
    /// Executes its own code.
    Running,
    /// Is in a system call.
    SystemCall,
    /// Is in a state that a probe or a log declared.
    Declared,
    /// Waits for a CPU.
    Runnable,
    /// Waits until a time that it set itself.
    Sleep,
    /// Waits until one of the kernel's timers expires.
    KernelTimer,
    /// Waits for a grace period of the kernel (RCU).
    GracePeriod,
    /// Is held back by a CPU quota.
    Throttled,
    /// Waits for pages.
    Faults,
    /// Waits for a disk.
    Disk,
    /// Waits for a device whose work is caused outside of the trace.
    Outside,
    /// Works in an interrupt or softirq, or is interrupted by one.
    Interrupt,
    /// Waits for an effect in transit.
    Transit,
    /// Waits for a call or reply in transit.
    Call,
    /// Loses packets.
    Lost,
    /// Waits for something unknown.
    Unknown,
}

/// A state by kind and name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct StateNamed {
    pub kind: SubjectState,
    pub name: String,
}

impl StateNamed {
    /// Returns the name if it distinguishes states of this kind. The states of the other kinds are
    /// the same to a reader, whatever their names are.
    pub fn distinguishing_name(&self) -> Option<&str> {
        match self.kind {
            SubjectState::Running | SubjectState::Runnable | SubjectState::Throttled | SubjectState::Faults | SubjectState::Unknown => None,
            _ => Some(&self.name),
        }
    }
}

/// A class of machines (or a link) and a state of it, as criticality rows and changes name them.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ClassState {
    pub class: String,
    pub state: String,
}

impl ClassState {
    pub fn new(class: &str, state: &str) -> ClassState {
        ClassState { class: class.to_owned(), state: state.to_owned() }
    }

    /// Returns the change in which this state takes half of its time.
    pub fn halved(&self) -> Scenario {
        Scenario::scale(&self.class, &self.state, 0.5)
    }
}

/// The locks for which threads wait. Locks are identified by the addresses of their futexes.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Locks {
    /// Number of locks that have most of the waiting time.
    pub count: u64,
    /// Address of the lock with the most waiting time, in hexadecimal digits.
    pub address: String,
    /// Share of that lock in the time for which threads wait for locks.
    pub share: f64,
}

/// The function of the program's own code in which most of the verdict's state is spent, running or
/// waiting, with its share of the path's rest ([`Verdict::rest`]).
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Code {
    pub function: String,
    /// Source file and line with most of the function's time; `None` without debug information.
    pub file: Option<String>,
    pub line: Option<u32>,
    /// Function that called it for most of this time.
    pub caller: Option<String>,
    /// The outermost and the innermost function that it called for most of this time, directly or
    /// through others; only one if they are the same.
    pub callees: Vec<String>,
    pub share: f64,
    /// Bounds of the share with 95 % confidence, by the number of samples.
    pub share_low: f64,
    pub share_high: f64,
}

/// The functions in which threads wait for another thread, and in which that one ends the waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WaitPlaces {
    pub waits_in: String,
    pub ended_in: String,
}

/// Another candidate, with its share of the path.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RunnerUp {
    pub subject: Named,
    pub state: StateNamed,
    pub share: f64,
}

/// The quantity that a change improves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum GainOf {
    /// The end of the run comes earlier.
    End,
    /// The rate of progress grows.
    Rate,
}

/// Times from request to reply at the subject that makes the progress of the run, and the times
/// predicted after the change.
///
/// The prediction keeps the number of open requests constant. By Little's law (open requests = rate
/// × time), each request then takes less time by the same factor by which the rate of replies
/// grows.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ProgressLatency {
    pub p50_ns: u64,
    pub p99_ns: u64,
    pub predicted_p50_ns: u64,
    pub predicted_p99_ns: u64,
}

/// The predicted gain of a change, with the ends of its interval. A gain of 0.5 means 1.5 times as
/// fast.
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

/// The way in which the bottleneck limits the system, where more is known than its subject and
/// state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Mechanism {
    /// Requests wait for one another.
    Serialisation,
    /// A lock passes from one thread to the next.
    LockConvoy,
    /// Both sides sleep and poll.
    Polling,
    /// Another thread polls until the subject stops to work.
    PolledWork,
    /// A sender waits for an acknowledgement that the receiver delays.
    DelayedAck,
    /// A sender waits for space in its send buffer, until the receiver acknowledges what is in it.
    SendBuffer,
    /// A sender waits until it sends a lost segment again.
    Retransmission,
    /// A sender waits until it asks for the size of a closed window.
    WindowProbe,
    /// The kernel sends the end of a message late, because the sender asked it to wait for more.
    Corked,
    /// A sender waits for room in the window of its receiver.
    WindowLimited,
    /// TCP's pacing or a queueing discipline holds packets back.
    Pacing,
    /// The subject waits for another timer of the kernel.
    KernelTimer,
    /// The subject waits for grace periods of the kernel (RCU).
    GracePeriod,
    /// Each item waits for the disk once.
    SyncPerItem,
    /// The subject waits for reads from a disk.
    DiskReads,
    /// The subject waits for pages that are not mapped yet.
    PageFaults,
    /// A CPU quota is used up.
    CpuQuota,
    /// A control group's limit for its disks holds requests back.
    DiskQuota,
    /// More threads are ready to run than there are CPUs.
    CpuContention,
    /// Threads whose affinity mask allows only some CPUs wait for those while others are idle.
    Affinity,
    /// A process is started for each item, and starting and ending it costs a considerable share.
    ProcessPerItem,
    /// One thread does all the work while CPUs are idle.
    SingleThread,
    /// Several threads work, but only one at a time, while CPUs are idle.
    OneAtATime,
    /// A server sleeps while it handles a request.
    SleepInHandler,
    /// No peer answers, and each attempt lasts until a timeout.
    Timeout,
    /// Many requests are made one after the other.
    RoundTrips,
    /// A part of the run that uses one CPU only.
    SerialStep,
    /// The load generator itself limits the rate.
    LoadGenerator,
    /// Packets are lost.
    PacketLoss,
    /// Threads or processes wake each other for each small item.
    HandOverPerItem,
    /// Packets wait in the queue of a network device because its link carries no more.
    SlowLink,
    /// Each packet takes a long time to arrive, and few packets are in flight at a time.
    LongLink,
    /// The kernel works in interrupts and softirqs.
    InterruptWork,
    /// A connection is made for each request, and a server spends most of its time on what it does
    /// when a connection begins.
    ConnectionPerRequest,
    /// A thread waits for a less important one, which waits for a CPU that a third thread occupies.
    PriorityInversion,
    /// Threads free memory themselves (direct reclaim) because no memory is free.
    MemoryReclaim,
}

/// The role of a subject in a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum RunRole {
    /// The client that makes the requests for which the others work.
    #[serde(rename = "load generator")]
    LoadGenerator,
}

impl RunRole {
    /// Returns the role as a noun.
    pub fn text(self) -> &'static str {
        match self {
            RunRole::LoadGenerator => "load generator",
        }
    }
}

/// The subjects and states of the path to which a verdict refers.
#[derive(Clone, Debug, Default)]
pub struct Origin {
    /// The subject of the verdict.
    pub subject: Option<SubjectId>,
    /// The subject in which work waits for other work, if that is another one.
    pub station: Option<SubjectId>,
    /// The state of the verdict.
    pub row: Option<ClassState>,
}

/// A verdict. In JSON it has three more fields: `heading` and `text` with its words, and
/// `waits_for`.
#[derive(Clone, Debug, Serialize)]
#[serde(remote = "Self")]
pub struct Verdict {
    pub outcome: Outcome,
    pub subject: Option<Named>,
    pub state: Option<StateNamed>,
    pub mechanism: Option<Mechanism>,
    pub because: Vec<Because>,
    pub code: Option<Code>,
    pub share: Option<f64>,
    /// Lower end of the interval of two standard errors around `share`. `None` if the share or its
    /// error is unknown.
    pub share_low: Option<f64>,
    pub share_high: Option<f64>,
    /// The next candidate; with the outcome `Spread`, the first one. [`Because::First`] lists more
    /// of them.
    pub runner_up: Option<RunnerUp>,
    pub gain: Option<Gain>,
    /// Role of the subject in the run, if the sentence names it.
    pub role: Option<RunRole>,
    pub caveats: Vec<Caveat>,
    pub unknown_share: Option<f64>,
    pub lost: u64,
    pub evidence: Evidence,
    /// Counts of contradictory events in the trace. `None` without a critical path, since only the
    /// path search finds contradictions.
    #[serde(rename = "doubts")]
    pub contradictions: Option<Contradictions>,
    /// Both ends of the waits for what the subject holds or does; part of `waits_for` in JSON.
    #[serde(skip)]
    pub wait_places: Option<WaitPlaces>,
    #[serde(skip)]
    pub origin: Origin,
    #[serde(skip)]
    pub basis: Basis,
    /// Number of gaps for which the number of lost events is unknown.
    #[serde(skip)]
    pub uncounted_losses: u64,
}

impl Serialize for Verdict {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct WithText<'a> {
            #[serde(flatten, serialize_with = "Verdict::serialize")]
            verdict: &'a Verdict,
            waits_for: Option<WaitsFor>,
            heading: String,
            text: String,
        }
        let (waits_for, heading, text) = (WaitsFor::of(self), sentence::heading(self), self.text());
        WithText { verdict: self, waits_for, heading, text }.serialize(serializer)
    }
}

impl Verdict {
    /// An otherwise empty verdict with this outcome and basis.
    pub fn new(outcome: Outcome, basis: Basis) -> Verdict {
        Verdict {
            outcome,
            subject: None,
            state: None,
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
            contradictions: None,
            basis,
            wait_places: None,
            origin: Origin::default(),
            uncounted_losses: 0,
        }
    }

    /// Returns this verdict with a machine, or a class of machines, as its subject, for which no
    /// process is known.
    pub fn about(self, machine: &str, state: Option<StateNamed>) -> Verdict {
        let row = state.as_ref().map(|state| ClassState::new(machine, &state.name));
        Verdict { subject: Some(Named::of_name(SubjectLevel::Thread, machine)), state, origin: Origin { row, ..self.origin }, ..self }
    }

    /// Returns this verdict with a share and its error (two standard errors), if these are known.
    pub fn with_share(self, share: Option<f64>, error: Option<f64>) -> Verdict {
        let (low, high) = share.zip(error).map(|(share, error)| ((share - error).max(0.0), (share + error).min(1.0))).unzip();
        Verdict { share, share_low: low, share_high: high, ..self }
    }

    /// Sets the share, and the ends of its interval.
    pub(in crate::verdict) fn set_share(&mut self, share: f64, error: f64) {
        self.share = Some(share);
        (self.share_low, self.share_high) = (Some((share - error).max(0.0)), Some((share + error).min(1.0)));
    }

    /// Sets a share that has no statistical error.
    pub(in crate::verdict) fn set_exact_share(&mut self, share: f64) {
        (self.share, self.share_low, self.share_high) = (Some(share), Some(share), Some(share));
    }

    /// Returns the sentence that states this verdict.
    pub fn text(&self) -> String {
        sentence::sentence(self)
    }

    /// Returns two standard errors of the share. The larger distance to an end of the interval is
    /// used, because an end may have been cut off at 0 or 1.
    pub(in crate::verdict) fn error(&self) -> Option<f64> {
        let (share, low, high) = (self.share?, self.share_low?, self.share_high?);
        Some((share - low).max(high - share))
    }

    /// Returns whether a finding is among the reasons, which explains several states at once
    /// instead of one state.
    fn names_a_finding(&self) -> bool {
        self.because.iter().any(|because| matches!(because, Because::Finding(_)))
    }

    /// Returns whether this verdict gives the cause of the state that `of_path` names. That is so
    /// if a finding is among its reasons, both are about the same machine, and its share of that
    /// machine's work is certainly larger than the share of the other's state on the path.
    pub fn explains(&self, of_path: &Verdict) -> bool {
        let low = self.share_low.or(self.share);
        let high = of_path.share_high.or(of_path.share);
        let has_more = low.zip(high).is_some_and(|(own, other)| own > other);
        fn machine(verdict: &Verdict) -> Option<&str> {
            verdict.origin.row.as_ref().map(|row| row.class.as_str())
        }
        self.names_a_finding() && self.state.is_some() && machine(self) == machine(of_path) && has_more
    }

    /// Returns the share of the path to which the other shares refer: the path without idle sleeps.
    pub fn rest(&self) -> f64 {
        let left_out = self.because.iter().find_map(|because| match because {
            Because::IdleSleeps { share, .. } => Some(*share),
            _ => None,
        });
        // The rest is never zero: a verdict exists, so some part of the path was judged.
        (1.0 - left_out.unwrap_or(0.0)).max(f64::EPSILON)
    }

    /// Returns whether sampled stacks can show the code of the verdict: its subject runs, or waits
    /// by itself. A wait for a CPU says nothing about the code.
    pub fn has_code(&self) -> bool {
        let is_of_code = |state: &StateNamed| match state.kind {
            SubjectState::Running | SubjectState::SystemCall | SubjectState::Declared | SubjectState::Sleep => true,
            SubjectState::KernelTimer | SubjectState::GracePeriod | SubjectState::Disk => true,
            SubjectState::Transit | SubjectState::Outside | SubjectState::Unknown => true,
            SubjectState::Runnable | SubjectState::Throttled | SubjectState::Faults => false,
            SubjectState::Interrupt | SubjectState::Call | SubjectState::Lost => false,
        };
        // In these, the samples on the path are not those of the subject's work.
        let of_others = [
            Mechanism::PolledWork,
            Mechanism::WindowLimited,
            Mechanism::RoundTrips,
            Mechanism::SerialStep,
            Mechanism::CpuQuota,
            Mechanism::HandOverPerItem,
            Mechanism::SlowLink,
            Mechanism::LongLink,
        ];
        let has_subject = matches!(self.outcome, Outcome::Bottleneck | Outcome::Paced);
        let is_own = !self.mechanism.is_some_and(|mechanism| of_others.contains(&mechanism));
        has_subject && is_own && self.state.as_ref().is_none_or(is_of_code)
    }

    /// Turns the outcome `Spread` into `Unknown`. "No subject leads" is stated only if the trace
    /// shows what happens.
    pub fn spread_as_unknown(mut self) -> Verdict {
        if self.outcome == Outcome::Spread {
            self.outcome = Outcome::Unknown;
        }
        self
    }

    /// Adds the place at which most packets are lost, if the path waits until they are sent again.
    pub fn with_losses(mut self, findings: &[Finding]) -> Verdict {
        let losses = findings.iter().filter(|finding| finding.of == Scope::Loss && finding.is_cause());
        let most = losses.max_by_key(|finding| finding.count).filter(|_| self.mechanism == Some(Mechanism::Retransmission));
        self.because.extend(most.map(|most| Because::LostAt { place: most.subject.clone(), count: most.count }));
        self
    }

    /// Returns a verdict on the place at which most packets are lost, unless this verdict already
    /// names a bottleneck.
    pub fn or_packet_loss(self, losses: Option<&Finding>) -> Verdict {
        let Some(finding) = losses.filter(|_| self.outcome != Outcome::Bottleneck) else { return self };
        let Finding { subject, count, share, remedy, .. } = finding;
        let lost = Because::LostPackets { count: *count, share: *share, remedy: remedy.clone() };
        let state = StateNamed { kind: SubjectState::Lost, name: "lost".to_owned() };
        Verdict {
            outcome: Outcome::Bottleneck,
            subject: Some(Named::of_name(SubjectLevel::Queue, subject)),
            mechanism: Some(Mechanism::PacketLoss),
            because: vec![lost],
            evidence: finding.evidence,
            ..self.about(subject, Some(state)).with_share(Some(*share), finding.error)
        }
    }

    /// Stores the counts of contradictory events, and adds a caveat if they are not zero.
    pub fn with_contradictions(mut self, contradictions: Option<Contradictions>) -> Verdict {
        self.contradictions = contradictions;
        self.caveats.extend(contradictions.filter(|contradictions| !contradictions.is_none()).map(Caveat::Contradictions));
        self
    }
}
