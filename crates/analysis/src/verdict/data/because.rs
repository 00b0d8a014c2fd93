//! The reasons of a verdict, as data. [`crate::verdict::sentence`] turns each reason into a clause
//! of the sentence.

use crate::verdict::data::figures::{Agreed, Change, Found, Measured, RequiredShare, StateShare, WaitedFor};
use crate::verdict::data::{Locks, Named, RunnerUp, StateNamed};
use serde::Serialize;

/// One reason for the outcome of a verdict, with its figures.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Because {
    /// The state with the largest share of the path, which does not lead by enough. `whole` is the
    /// share of all states of its subject, if the subject has several states that together have
    /// most of the path.
    Largest { part: Measured, whole: Option<f64> },
    /// The path has no state at all.
    NothingHappens,
    /// The subject waits for something for which the trace has no event.
    WaitUnknown,
    /// Items in transit wait for a machine for which the trace has no event.
    TransitUnknown,
    /// The subject sleeps until a time that it set itself. `sets_pace` is true if no machine waits
    /// for the subject; `gain` is then the predicted gain if the sleep took half its time.
    OwnTimer { sets_pace: bool, gain: Option<f64> },
    /// The next state is not behind the first one by more than the statistical error.
    NotAhead { next: Measured },
    /// The share reaches none of the thresholds in `enough`.
    TooSmall { enough: Vec<RequiredShare> },
    /// No other machine waits for the subject.
    NobodyWaits,
    /// Halving the state's time would bring little: either another state is nearly as slow
    /// (`rival`), or another change brings more (`other`).
    LittleGain { change: String, gain: f64, rival: Option<RunnerUp>, other: Option<Change> },
    /// A CPU is idle while the subject waits for one, for this share of the path.
    CpuIdle { share: f64 },
    /// The trace has no probes.
    NoProbes,
    /// No two threads with queue probes pass items to each other.
    NoStages,
    /// Share of their time for which stages wait for each other.
    LittleWaiting { share: f64 },
    /// No stage causes most of the waiting. `most` is the stage that causes the largest part.
    NoSingleCause { most: Named, share: f64 },
    /// The stage for which others wait most works for only this share of its time.
    LittleWork { stage: Named, share: f64 },
    /// For this share of the stage's time, its state is unknown.
    LittleKnown { stage: Named, share: f64 },
    /// This stage is the slowest, although none of its states leads.
    SlowestStage { stage: Named },
    /// No work of the stage is visible.
    NoWork,
    /// This share of the stage's work is spread over very many names.
    ManyNames { share: f64 },
    /// This share of the stage's work lies outside of the states that its probes name.
    WorkNotNamed { share: f64 },
    /// No state of the stage leads. With `is_ahead` false, the first state is not ahead of the next
    /// one by more than the statistical error; with `is_ahead` true, it is ahead, but not by enough
    /// to dominate.
    NoStateLeads { first: StateShare, next: Option<StateShare>, is_ahead: bool },
    /// The stage waits most for a call that is neither made once per item nor slow by itself.
    FewCalls { call: String },
    /// The state is that of a callee: the caller, and the name of the call.
    CalledBy { caller: Named, call: String },
    /// A finding about the stage that is the cause.
    Finding(Found),
    /// A finding about one thread for which no other waits.
    ByItself(Found),
    /// Share of the probes themselves in the stage's time, which is left out of the other shares.
    /// Null in JSON if it was not measured.
    ProbeCost { share: Option<f64> },
    /// This number of threads do the same work; the shares are those of the busiest one.
    SameThreads { count: u64 },
    /// A stage next to this one waits for this share of its time.
    Waits { waiter: Named, share: f64, waits_for: WaitedFor, queue: String },
    /// Packets are lost at one place. `share` is their share of all packets.
    LostPackets { count: u64, share: f64, remedy: String },
    /// The place at which most of the lost packets were lost.
    LostAt { place: String, count: u64 },
    /// The sender holds back the end of a message although the receiver's window is open.
    Corked,
    /// The send buffer of this subject was full when it wanted to send.
    ShortSends { by: Named, count: u64 },
    /// Several recordings were judged, each by itself.
    Recordings { count: u64, agreeing: u64 },
    /// No more than half of the recordings name the same bottleneck.
    Disagreement { verdicts: Vec<Agreed> },
    /// A program starts processes again and again.
    Processes { by: Named, count: u64, mean_ns: u64 },
    /// The thread's affinity mask allows only some of the CPUs, while CPUs are idle.
    Affinity { allowed: u64, cpus: u64, idle: f64 },
    /// The subject waits until a time that it set itself.
    Sleeps { call: String, mean_ns: u64, count: u64, waited_for_by: Option<Named>, outstanding: Option<f64> },
    /// Waits for timers that are left out of the shares, because other machines work meanwhile or
    /// the CPUs are full. `gain` is the predicted gain if the largest of these sleeps took half its
    /// time, at most what the CPUs allow.
    IdleSleeps {
        sleepers: Vec<Named>,
        /// Share of the whole path.
        share: f64,
        gain: f64,
    },
    /// Threads or processes that wait for one another meanwhile.
    Convoy {
        pool: Named,
        waiters: f64,
        members: u64,
        /// True if each member is a process of its own.
        are_processes: bool,
        wait: String,
        holder: Option<Named>,
        /// `None` if the locks could not be identified.
        locks: Option<Locks>,
    },
    /// More requests are open than are processed at a time.
    Serialised {
        at: Named,
        open: f64,
        at_a_time: f64,
        callee: Option<Named>,
        /// Number of threads of `at` that work on requests. A single one is the reason itself;
        /// several may wait for a lock, or be too few.
        threads: u64,
    },
    /// Mean number of requests that are open in the server that the subject asks. The subject has
    /// the path, and most of these are requests of others.
    OpenRequests { at: Named, open: f64 },
    /// Mean number of requests that wait in a server until another of its threads wakes theirs, in
    /// the system call `call`. `is_passed_on` is true if threads that are woken so wake others in
    /// turn, as those that pass on a lock.
    HeldRequests { at: Named, waiting: f64, call: String, is_passed_on: bool },
    /// All processes of a server are occupied, each by one request, and further requests wait for
    /// one of them. `open` is the mean number of all these requests.
    Occupied { at: Named, processes: u64, open: f64 },
    /// The event loop of a server itself waits for each reply, so that it serves nobody meanwhile.
    BlocksItsLoop { at: Named },
    /// Changes that bring little each, and much together.
    OnlyTogether {
        changes: Vec<String>,
        /// Names of the states that the changes affect.
        states: Vec<String>,
        gains: Vec<f64>,
        gain: f64,
    },
    /// Another thread sleeps and looks again, until the subject stops: `rows` times, with `count`
    /// sleeps in all.
    PolledBy { by: Named, rows: u64, mean_ns: u64, count: u64 },
    /// The subject begins its next work at equal intervals, `count` times.
    Schedule { interval_ns: u64, count: u64 },
    /// Several sides sleep and poll.
    Polls { sides: Vec<Named>, mean_ns: u64, count: u64 },
    /// Requests, or attempts to connect, that no peer answered before a timeout.
    Unanswered { requests: u64, connects: u64, mean_ns: u64, count: u64 },
    /// In a part of the run, processes run one after another while CPUs are idle.
    SerialStep {
        step: Named,
        share: f64,
        idle: f64,
        /// The process with at least half of the step's time, among those that the step starts.
        most: Option<RunnerUp>,
    },
    /// A connection whose receiver has a small window.
    Window { port: u16, peer: u16, bytes: u64, count: u64, filled: f64 },
    /// Requests made one after the other. `per_request` is their number for each request that the
    /// asking process itself answers.
    RoundTrips {
        asker: Option<Named>,
        count: u64,
        mean_ns: u64,
        callee: Option<Named>,
        per_request: Option<f64>,
        /// The state of a process in which most of the time of the replies is spent.
        most: Option<RunnerUp>,
    },
    /// Waits for one of the kernel's timers, and the subjects between which they occur.
    KernelTimer { timer: String, mean_ns: u64, count: u64, between: Vec<Named> },
    /// Waits for input from outside of the host.
    Outside { mean_ns: u64, count: u64 },
    /// Waits for a disk in this system call.
    Disk { call: String, mean_ns: u64, count: u64 },
    /// The subject's time on the path, divided by groups of its threads with a common name, which
    /// is empty for threads with the name of the program.
    Threads { groups: Vec<(String, f64)> },
    /// The subject's time on the path, divided by states.
    Divided { parts: Vec<(StateNamed, f64)> },
    /// The subject works on one CPU while others are idle, although it has this number of threads.
    Alone { threads: u64, cpus: u64, idle: f64 },
    /// The subjects that occupied the CPUs.
    CpuUsers { waits: Named, users: Vec<(Named, f64)>, idle: f64 },
    /// The thread that waits for CPUs has a lower priority than the one that uses them most, by
    /// this number of nice levels. The two are named by their subjects.
    LowerPriority { waits: Named, user: Named, levels: u64 },
    /// More threads of the subject run or are ready to run than there are CPUs.
    MoreThreads {
        /// Mean number of threads that run or are ready.
        threads: f64,
        cpus: u64,
    },
    /// Page faults, with their share of the path.
    Faults { count: u64, share: f64 },
    /// A lock that threads pass from one to the next.
    Lock {
        count: u64,
        share: f64,
        /// `None` if the locks could not be identified.
        locks: Option<Locks>,
    },
    /// A process waits for a file lock (`flock`, `fcntl`) that another process holds meanwhile.
    FileLock {
        call: String,
        waiter: Named,
        /// Process that let the waiter continue, by a call or by its end.
        holder: Named,
        count: u64,
        mean_ns: u64,
    },
    /// Times at which a quota held threads back.
    Quota {
        count: u64,
        /// True if the quota is the thread's own reservation (`SCHED_DEADLINE`), false if it is the
        /// quota of a control group.
        is_reserved: bool,
    },
    /// Threads or processes that wake each other for each item: the time of their own work per
    /// hand-over (`work_ns`), and the cost in wake-ups and context switches (`cost_ns`).
    HandOvers { sides: Vec<Named>, count: u64, per_second: f64, work_ns: u64, cost_ns: u64 },
    /// Packets wait in the queue of a network device for this share of the time (`busy`).
    Link {
        device: String,
        discipline: Option<String>,
        bits_per_second: f64,
        busy: f64,
        mean_ns: u64,
        /// Thread that waits for the packets in flight.
        waits: Option<Named>,
    },
    /// A server accepts connections throughout the run, and spends the share `first` of its time on
    /// the first exchange of each connection (a handshake).
    Accepts { connections: u64, per_second: f64, exchanges: f64, first: f64, cpu_ns: u64, by: Option<Named> },
    /// A thread waits for a less important one, which does not run because a third thread has its
    /// CPU. The third thread is also less important than the first.
    Inversion { waiter: Named, holder: Named, instead: Named, count: u64, mean_ns: u64 },
    /// A thread frees memory itself because none is free: `count` times, for the share `share` of
    /// the path.
    Reclaims { count: u64, mean_ns: u64, share: f64 },
    /// The candidates with the largest shares, none of which leads.
    First { parts: Vec<RunnerUp> },
}
