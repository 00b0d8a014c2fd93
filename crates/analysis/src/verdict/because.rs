//! The reasons of a verdict, as data: each becomes a clause of the sentence ([`super::sentence`]).

use super::data::{Locks, Named, RunnerUp, StateNamed};
use super::figures::{Agreed, Change, Enough, Found, Measured, StateShare, WaitedFor};
use serde::Serialize;

/// What the outcome rests on, with its figures.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Because {
    /// The state with the most of the path, which does not stand out. `whole`: share of all states
    /// of its subject, if these are several and have most of the path.
    Largest {
        part: Measured,
        whole: Option<f64>,
    },
    NothingHappens,
    /// It waits for something that no event tells.
    WaitNotTold,
    /// What is in transit waits for a machine that no event tells.
    TransitNotTold,
    /// It sleeps until a time that it set itself. `sets_pace`: nobody waits for it; `gain`: what
    /// half of the sleep would bring then.
    OwnTimer {
        sets_pace: bool,
        gain: Option<f64>,
    },
    /// The next state is not behind the first one beyond the noise.
    NotAhead {
        next: Measured,
    },
    /// The share is none of those that would be enough.
    TooSmall {
        enough: Vec<Enough>,
    },
    NobodyWaits,
    /// Half of the state would bring little, since another state is nearly as slow (`rival`), or
    /// less than another change (`other`).
    LittleGain {
        change: String,
        gain: f64,
        rival: Option<RunnerUp>,
        other: Option<Change>,
    },
    /// A CPU is idle while it waits for one, for this share of the path.
    CpuIdle {
        share: f64,
    },
    NoProbes,
    /// No two threads with queue probes hand items to each other.
    NoStages,
    /// The share of their time for which stages wait for each other.
    LittleWaiting {
        share: f64,
    },
    /// Nobody causes most of the waiting; the stage that causes the most of it.
    NoSingleCause {
        most: Named,
        share: f64,
    },
    /// The stage for which others wait most works for this share of its time only.
    LittleWork {
        stage: Named,
        share: f64,
    },
    /// Of this share of its time nothing is known.
    LittleKnown {
        stage: Named,
        share: f64,
    },
    SlowestStage {
        stage: Named,
    },
    /// The stage shows no work.
    NoWork,
    /// This share of its work is spread over very many names.
    ManyNames {
        share: f64,
    },
    /// This share of its work lies outside of its probes' states.
    WorkNotNamed {
        share: f64,
    },
    /// No state of the stage is ahead of the next one beyond the noise, or none is so far ahead
    /// that it dominates (`is_ahead`).
    NoStateLeads {
        first: StateShare,
        next: Option<StateShare>,
        is_ahead: bool,
    },
    /// The stage waits most for a call that is neither made once per item nor slow by itself.
    FewCalls {
        call: String,
    },
    /// The state is that of a callee: who calls it, and as what.
    CalledBy {
        caller: Named,
        call: String,
    },
    /// A finding about the stage that is the cause.
    Finding(Found),
    /// A finding about one thread that nobody waits for.
    ByItself(Found),
    /// The probes' own share of the stage's time, which is left out. Null: it was not measured.
    ProbeCost {
        share: Option<f64>,
    },
    /// So many threads do the same; the shares are those of the busiest.
    SameThreads {
        count: u64,
    },
    /// A neighbour of the stage waits for this share of its time.
    Waits {
        waiter: Named,
        share: f64,
        waits_for: WaitedFor,
        queue: String,
    },
    /// Packets are lost at one place: their share of all packets.
    LostPackets {
        count: u64,
        share: f64,
        remedy: String,
    },
    /// Several recordings were judged, each for itself.
    Recordings {
        count: u64,
        agreeing: u64,
    },
    /// No more than half of the recordings name the same.
    Disagreement {
        verdicts: Vec<Agreed>,
    },
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
    /// Waits for timers that are left out of the shares: others work meanwhile, or the CPUs are
    /// full. `gain` is that of half of the largest, and no more than the CPUs allow.
    IdleSleeps {
        sleepers: Vec<Named>,
        /// Of the whole path.
        share: f64,
        gain: f64,
    },
    /// Threads or processes that wait for one another meanwhile.
    Convoy {
        pool: Named,
        waiters: f64,
        members: u64,
        wait: String,
        holder: Option<Named>,
        /// None: it is not known which.
        locks: Option<Locks>,
    },
    /// More requests are open than are worked on at a time.
    Serialised {
        at: Named,
        open: f64,
        at_a_time: f64,
        callee: Option<Named>,
    },
    /// Changes that bring little each and much together.
    OnlyTogether {
        changes: Vec<String>,
        /// The names of what they change.
        states: Vec<String>,
        gains: Vec<f64>,
        gain: f64,
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
        /// What has at least half of it, of those that the step starts.
        most: Option<RunnerUp>,
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
    /// More threads of the subject run or are ready to run than there are CPUs.
    MoreThreads {
        /// Mean number.
        threads: f64,
        cpus: u64,
    },
    Faults {
        count: u64,
        share: f64,
    },
    /// A lock that threads hand from one to the next.
    Lock {
        count: u64,
        share: f64,
        /// None: it is not known which.
        locks: Option<Locks>,
    },
    /// A process waits for a file lock (`flock`, `fcntl`) that another one holds meanwhile.
    FileLock {
        call: String,
        waiter: Named,
        /// The process whose call, or end, let the waiter go on.
        holder: Named,
        count: u64,
        mean_ns: u64,
    },
    Quota {
        count: u64,
        /// It is that of its own reservation (`SCHED_DEADLINE`), not of a control group.
        is_reserved: bool,
    },
    /// Threads or processes that wake each other for each item: for how much work of their own, and
    /// at which cost in wake-ups and switches.
    HandOvers {
        sides: Vec<Named>,
        count: u64,
        per_second: f64,
        work_ns: u64,
        cost_ns: u64,
    },
    /// Packets wait in the queue of a network device for this share of the time.
    Link {
        device: String,
        discipline: Option<String>,
        bits_per_second: f64,
        busy: f64,
        mean_ns: u64,
        /// The thread that waits for what is on the way.
        waits: Option<Named>,
    },
    /// A server accepts connections all the time, and has this share of its time for the first
    /// exchange on each (a handshake).
    Accepts {
        connections: u64,
        per_second: f64,
        exchanges: f64,
        first: f64,
        cpu_ns: u64,
        by: Option<Named>,
    },
    /// An important thread waits for one that is less important, and that does not run because a
    /// third one does, which is less important than the first, too.
    Inversion {
        waiter: Named,
        holder: Named,
        instead: Named,
        count: u64,
        mean_ns: u64,
    },
    /// A thread frees memory itself, since there is none: so many times, for this share of the
    /// path.
    Reclaims {
        count: u64,
        mean_ns: u64,
        share: f64,
    },
    /// The first ones, none of which leads.
    First {
        parts: Vec<RunnerUp>,
    },
}
