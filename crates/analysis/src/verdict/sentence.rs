//! The text of a verdict, generated from its data. No other module writes such text.
//!
//! The text has several sentences if more is known: the outcome with its reasons, the remedy, and
//! the caveats. [`machines`] writes the sentences of verdicts on states and stages; the clauses of
//! [`Because`] and [`Caveat`] are the same for all.

mod machines;

use super::because::Because;
use super::caveat::{Caveat, Contradictions};
use super::data::{Basis, Locks, Mechanism, Named, Outcome, StateKind, StateNamed, SubjectLevel, Verdict};
use crate::stats::text::{number, percent};
use crate::verdict::not_recorded;

/// Returns the whole text.
pub fn sentence(verdict: &Verdict) -> String {
    let mut sentences = match verdict.basis {
        _ if verdict.mechanism == Some(Mechanism::PacketLoss) => vec![machines::packet_loss(verdict)],
        Basis::Subjects => subjects(verdict),
        Basis::States | Basis::Stages | Basis::Probes => machines::sentences(verdict),
    };
    let less_certain: Vec<&Caveat> = verdict.caveats.iter().filter(|caveat| place(verdict, caveat) == Place::Last).collect();
    if !less_certain.is_empty() {
        sentences.push(format!("Less certain because {}", caveats(&less_certain)));
    }
    let contradictions = verdict.caveats.iter().filter(|caveat| matches!(caveat, Caveat::Contradictions(_)));
    let contradictions: String = contradictions.map(|caveat| format!("; {}", self::caveat(caveat))).collect();
    format!("{}{contradictions}.", sentences.join(". "))
}

/// The position of a caveat in the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// In the sentence of the outcome.
    Outcome,
    /// In a sentence after the others.
    Last,
    /// At the end of the text.
    End,
}

fn place(verdict: &Verdict, caveat: &Caveat) -> Place {
    let of_path = matches!(caveat, Caveat::LostEvents { .. } | Caveat::UnknownTime { .. } | Caveat::RunningUnknown | Caveat::Timer { .. });
    match caveat {
        Caveat::Contradictions(_) => Place::End,
        _ if verdict.mechanism == Some(Mechanism::PacketLoss) => Place::Last,
        // For an unknown outcome, the caveats are the reason.
        _ if verdict.basis == Basis::Subjects && verdict.outcome == Outcome::Unknown => Place::Outcome,
        _ if verdict.basis != Basis::Subjects && of_path => Place::Outcome,
        _ => Place::Last,
    }
}

/// Returns the caveats that belong into the sentence of the outcome.
fn of_outcome(verdict: &Verdict) -> Vec<&Caveat> {
    verdict.caveats.iter().filter(|caveat| place(verdict, caveat) == Place::Outcome).collect()
}

/// Returns the sentences of a verdict on processes, pools and threads.
fn subjects(verdict: &Verdict) -> Vec<String> {
    let mut first = outcome(verdict);
    if let Some(code) = &verdict.code {
        first.push_str(&format!(", most often in {} ({})", code.function, percent(code.share)));
    }
    for because in &verdict.because {
        let clause = clause(because);
        if !clause.is_empty() {
            first.push_str("; ");
            first.push_str(&clause);
        }
    }
    let remedy = verdict.mechanism.and_then(remedy).map(str::to_owned);
    [first].into_iter().chain(remedy).collect()
}

/// Returns the caveats as clauses, each with its remedy.
fn caveats(of: &[&Caveat]) -> String {
    let one = |caveat: &&Caveat| match remedy_of(caveat) {
        Some(remedy) => format!("{} ({remedy})", self::caveat(caveat)),
        None => self::caveat(caveat),
    };
    of.iter().map(one).collect::<Vec<_>>().join(", and ")
}

/// Returns a caveat as a clause.
pub fn caveat(of: &Caveat) -> String {
    match of {
        Caveat::LostEvents { count: 1, .. } => "1 event is lost".to_owned(),
        Caveat::LostEvents { count, .. } => format!("{} events are lost", number(*count)),
        Caveat::UnknownTime { share, .. } => format!("{} of the path is unknown", percent(*share)),
        Caveat::Contradictions(doubts) => contradictions(doubts),
        Caveat::RunningUnknown => "the trace does not show whether it runs or waits there".to_owned(),
        Caveat::Timer { machine, call } => {
            format!("{machine} has set a timer ({call}); if the timer ends the run, no change makes it shorter")
        }
        Caveat::Bystanders { share, example } => {
            let (who, share) = (name(example), percent(*share));
            format!("programs that the path does not depend on, such as {who}, used the CPUs for {share} of the time")
        }
        Caveat::SwitchedOff { kinds } => not_recorded::sentence(kinds).unwrap_or_default(),
    }
}

/// Returns the remedy of a caveat.
pub fn remedy_of(caveat: &Caveat) -> Option<String> {
    let remedy = match caveat {
        Caveat::LostEvents { remedy, .. } => remedy,
        Caveat::UnknownTime { contradictory: true, .. } => "`longpole path` lists the contradictions",
        Caveat::UnknownTime { contradictory: false, .. } => "`longpole path` lists the events that would show it",
        Caveat::RunningUnknown => "`longpole record --kernel sched`, as root, records it",
        Caveat::Bystanders { .. } => "record again on a quiet host",
        Caveat::SwitchedOff { .. } => "record less with `--kernel`, or to a faster disk",
        Caveat::Contradictions(_) | Caveat::Timer { .. } => return None,
    };
    Some(remedy.to_owned())
}

fn contradictions(of: &Contradictions) -> String {
    let counts = [
        (of.contradictions, "contradiction", "contradictions"),
        (of.negative_links, "link that ends before it begins", "links that end before they begin"),
        (of.ignored_wakeups, "wake-up of a thread that did not wait", "wake-ups of threads that did not wait"),
    ];
    let counts = counts.into_iter().filter(|(count, ..)| *count > 0);
    let counted = |(count, one, many)| format!("{} {}", number(count), if count == 1 { one } else { many });
    format!("{} in the trace: clocks, losses or misplaced probes", counts.map(counted).collect::<Vec<_>>().join(", "))
}

/// Returns a subject's name as users know it: name, port or process, and its place if another
/// subject has the same name.
pub fn name(of: &Named) -> String {
    let host = of.host.as_ref().map_or_else(String::new, |host| format!("{host}/"));
    // The title contains the program's name or a better one; the thread's name follows it.
    let (title, script) = match (&of.title, of.name.split_once('/')) {
        (Some(title), Some((_, thread))) => (format!("{title}/{thread}"), None),
        (Some(title), None) => (title.clone(), None),
        (None, _) => (of.name.clone(), of.script.as_ref()),
    };
    // Some interpreters name their threads after the script.
    let script = script.filter(|script| !of.name.contains(script.as_str()));
    let script = script.map_or_else(String::new, |script| format!(" {script}"));
    let place = match (&of.container, &of.unit) {
        (Some(container), _) if of.needs_place => format!(" of container {container}"),
        (None, Some(unit)) if of.needs_place => format!(" of {unit}"),
        _ => String::new(),
    };
    match (of.port, of.pid) {
        (Some(port), _) => format!("{host}{title}{script} (port {port}){place}"),
        (None, Some(pid)) if of.level == SubjectLevel::Process => format!("{host}{title}{script} (pid {pid}){place}"),
        _ => format!("{host}{title}{script}{place}"),
    }
}

fn outcome(verdict: &Verdict) -> String {
    let subject = verdict.subject.as_ref().map_or_else(|| "the system".to_owned(), name);
    let is_rest = verdict.because.iter().any(|because| matches!(because, Because::IdleSleeps { .. }));
    let path = if is_rest { "the rest of the critical path" } else { "the critical path" };
    let share = match (verdict.share, verdict.share_low, verdict.share_high) {
        (Some(share), Some(low), Some(high)) => format!("{} ± {} of {path}", percent(share), percent((high - low) / 2.0)),
        _ => "most of the critical path".to_owned(),
    };
    match verdict.outcome {
        Outcome::Bottleneck => {
            let who = match verdict.role {
                Some(role) => format!("{subject}, the {role},"),
                None => subject,
            };
            let waits = verdict.because.iter().find_map(|because| match because {
                Because::CpuUsers { waits, .. } if verdict.mechanism == Some(Mechanism::CpuContention) => Some(waits),
                _ => None,
            });
            let waits = waits.filter(|_| verdict.state.as_ref().is_some_and(|state| state.kind == StateKind::Runnable));
            match &verdict.state {
                _ if waits.is_some() && waits == verdict.subject.as_ref() => {
                    format!("{who} is the bottleneck: it computes on all CPUs, and waits for one for {share}")
                }
                _ if waits.is_some() => {
                    let waits = waits.map(name).unwrap_or_default();
                    format!("{who} is the bottleneck: the CPUs are full, and {waits} waits for those that it uses, for {share}")
                }
                Some(state) => format!("{who} is the bottleneck: it {} for {share}", does(state)),
                None if verdict.mechanism == Some(Mechanism::SerialStep) => {
                    format!("{who} is the bottleneck: a serial step of {} of the run", percent(verdict.share.unwrap_or(0.0)))
                }
                None if verdict.mechanism == Some(Mechanism::HandOverPerItem) => {
                    format!("{who} is the bottleneck: it hands over each item by itself, which takes {share}")
                }
                None if verdict.mechanism == Some(Mechanism::PriorityInversion) => {
                    let share = percent(verdict.share.unwrap_or(0.0));
                    format!("{who} is the bottleneck by a priority inversion: it waits for a CPU for {share} of the time while a more important thread waits for it")
                }
                None if verdict.mechanism == Some(Mechanism::ConnectionPerRequest) => {
                    format!("{who} is the bottleneck with {share}: a connection is opened for each request")
                }
                None if verdict.mechanism == Some(Mechanism::SlowLink) => {
                    format!("The link {who} is full and the bottleneck: the path waits for packets in transit for {share}")
                }
                None if verdict.mechanism == Some(Mechanism::LongLink) => {
                    format!("The queue of the link {who} is the bottleneck: the path waits for packets in transit for {share}")
                }
                None if verdict.mechanism == Some(Mechanism::WindowLimited) => {
                    format!("The receive window of {who} is the bottleneck: its sender repeatedly waits for room in it")
                }
                None if verdict.because.iter().any(|because| matches!(because, Because::RoundTrips { asker: None, .. })) => {
                    format!("{who} is the bottleneck: it waits for replies for {} of the time", percent(verdict.share.unwrap_or(0.0)))
                }
                None => format!("{who} is the bottleneck with {share}"),
            }
        }
        Outcome::Paced => match &verdict.state {
            Some(state) => format!("The system is paced by {subject}, which {} for {share}", does(state)),
            None => format!("The system is paced by {subject} for {share}"),
        },
        Outcome::Spread => "No single bottleneck: the critical path is spread".to_owned(),
        Outcome::Unknown => match of_outcome(verdict).as_slice() {
            [] => "The bottleneck cannot be determined".to_owned(),
            reasons => format!("The bottleneck cannot be determined: {}", caveats(reasons)),
        },
    }
}

/// Returns a state as a predicate of its subject.
pub fn does(state: &StateNamed) -> String {
    let name = &state.name;
    match state.kind {
        StateKind::Running => "runs its own code".to_owned(),
        StateKind::SystemCall => format!("is in the system call {name}"),
        StateKind::Declared => format!("is in {name}"),
        StateKind::Runnable => "waits for a CPU".to_owned(),
        StateKind::Sleep if matches!(name.as_str(), "asleep" | "timer") => "sleeps until a time that it set itself".to_owned(),
        StateKind::Sleep => format!("waits in {name} until a time that it set itself"),
        StateKind::KernelTimer => format!("waits for a timer of the kernel ({name})"),
        StateKind::GracePeriod => format!("waits in {name} until every CPU has scheduled (an RCU grace period)"),
        StateKind::Throttled => "is ready to run, but its CPU quota is used up".to_owned(),
        StateKind::Faults => "waits for page faults".to_owned(),
        StateKind::Disk if name == "disk" => "waits for the disk".to_owned(),
        StateKind::Disk => format!("waits for the disk in {name}"),
        StateKind::Interrupt => format!("handles interrupts ({name})"),
        StateKind::Transit => format!("waits for data in transit ({name})"),
        StateKind::Call => format!("waits for its calls of {name}, in transit there and back"),
        StateKind::Lost => "loses packets".to_owned(),
        StateKind::Unknown => "waits for an unknown cause".to_owned(),
    }
}

pub(super) fn short(state: &StateNamed) -> String {
    match state.kind {
        StateKind::Running => "own code".to_owned(),
        StateKind::SystemCall => state.name.clone(),
        StateKind::Runnable => "waiting for a CPU".to_owned(),
        StateKind::Sleep => format!("asleep ({})", state.name),
        StateKind::Disk => format!("waiting for the disk ({})", state.name),
        StateKind::Throttled => "held back by a quota".to_owned(),
        StateKind::Faults => "page faults".to_owned(),
        StateKind::Unknown => "unknown".to_owned(),
        _ => state.name.clone(),
    }
}

fn counted_locks(locks: &Locks) -> String {
    match locks.count {
        1 => "one lock".to_owned(),
        count => format!("{} locks", number(count)),
    }
}

fn listed(names: &[String]) -> String {
    match names {
        [] => String::new(),
        [one] => one.clone(),
        [before @ .., last] => format!("{} and {last}", before.join(", ")),
    }
}

fn time(ns: u64) -> String {
    match ns {
        0..1_000 => format!("{ns} ns"),
        1_000..1_000_000 => format!("{:.1} us", ns as f64 / 1e3),
        1_000_000..1_000_000_000 => format!("{:.1} ms", ns as f64 / 1e6),
        _ => format!("{:.2} s", ns as f64 / 1e9),
    }
}

fn bits(per_second: f64) -> String {
    match per_second {
        rate if rate < 1e6 => format!("{:.1} kbit/s", rate / 1e3),
        rate if rate < 1e9 => format!("{:.1} Mbit/s", rate / 1e6),
        rate => format!("{:.1} Gbit/s", rate / 1e9),
    }
}

pub(super) fn clause(because: &Because) -> String {
    match because {
        Because::Sleeps { call: _, mean_ns, count, waited_for_by, outstanding } => {
            let calls = outstanding.map_or_else(String::new, |open| format!(" ({open:.1} of its requests are open at a time)"));
            let whom = waited_for_by.as_ref().map_or_else(String::new, |by| format!(" while {} waits for it{calls}", name(by)));
            format!("{} each time, {} times{whom}", time(*mean_ns), number(*count))
        }
        Because::Convoy { pool, waiters, members, wait, holder, locks } => {
            let holder = holder.as_ref().map_or_else(String::new, |holder| format!(", which is held while {} does that", name(holder)));
            let what = match locks {
                Some(locks) => format!("on {} ({wait}) that one thread hands to the next", counted_locks(locks)),
                None => format!("for one another's lock ({wait})"),
            };
            format!("of {} threads of {}, {waiters:.1} wait at a time {what}{holder}", number(*members), name(pool))
        }
        Because::Serialised { at, open, at_a_time, callee, threads } => {
            let what = match callee {
                Some(callee) => format!("{at_a_time:.1} calls of {} are outstanding at a time", name(callee)),
                None => format!("{at_a_time:.1} are worked on at a time"),
            };
            let why = if *threads == 1 { "one thread serves all" } else { "a lock, or a pool that is too small" };
            format!("requests wait for one another in {}: {open:.1} are open and {what} ({why})", name(at))
        }
        Because::OnlyTogether { changes, states, gains, gain } => {
            let signed = |gain: &f64| format!("{}{}", if *gain < 0.0 { "" } else { "+" }, percent(*gain));
            let alone: Vec<String> = gains.iter().map(signed).collect();
            format!(
                "{} limit it only together: {} bring {} alone, and {} together",
                listed(states),
                listed(changes),
                listed(&alone),
                signed(gain)
            )
        }
        Because::Polls { sides, mean_ns, count } => {
            let sides: Vec<String> = sides.iter().map(name).collect();
            let which = if sides.len() == 1 { "threads of it sleep" } else { "each sleeps" };
            format!("{} poll: {which} {} each time before looking again, {} times", listed(&sides), time(*mean_ns), number(*count))
        }
        Because::PolledBy { by, rows, mean_ns, count } => {
            let (by, rows, mean, count) = (name(by), number(*rows), time(*mean_ns), number(*count));
            format!("{by} polls until it stops, {rows} times, and looks every {mean}, {count} times in all")
        }
        Because::Unanswered { requests, connects, mean_ns, count } => {
            let what = match (requests, connects) {
                (requests, 0) => format!("{} of its requests are not answered", number(*requests)),
                (0, connects) => format!("{} of its attempts to connect are not answered", number(*connects)),
                (requests, connects) => format!("{} requests and {} attempts to connect are not answered", number(*requests), number(*connects)),
            };
            format!("{what}, and it waits for a timeout, {} each time, {} times", time(*mean_ns), number(*count))
        }
        Because::SerialStep { step, share, idle, most } => {
            let most = most.as_ref().map_or_else(String::new, |most| {
                let (subject, share) = (name(&most.subject), percent(most.share));
                format!("; most of that is {subject}, which {} for {share} of the path", does(&most.state))
            });
            let (name, share, idle) = (name(step), percent(*share), percent(*idle));
            format!("{name} runs one process after another for {share} of the run, in which {idle} of the time of the CPUs is idle{most}")
        }
        Because::Window { port, peer, bytes, count, filled } => format!(
            "the connection from port {port} to port {peer} has a receive window of {} bytes on average, which its sender has full at {} of {} acknowledgements",
            number(*bytes),
            percent(*filled),
            number(*count)
        ),
        Because::RoundTrips { asker, count, mean_ns, callee, per_request } => {
            let asker = asker.as_ref().map_or_else(String::new, |asker| format!("{} sends ", name(asker)));
            let whom = callee.as_ref().map_or_else(String::new, |callee| format!(" of {}", name(callee)));
            let per = per_request.map_or_else(String::new, |per| format!(", {per:.1} for each request that it answers"));
            let whom = if asker.is_empty() { whom } else { String::new() };
            format!("{asker}{} requests{whom}, one after the other, {} each{per}", number(*count), time(*mean_ns))
        }
        Because::KernelTimer { timer, mean_ns, count, between } => {
            let between: Vec<String> = between.iter().map(name).collect();
            let between = if between.is_empty() { String::new() } else { format!(" between {}", listed(&between)) };
            format!("{timer}, {} each, {} times{between}", time(*mean_ns), number(*count))
        }
        Because::Disk { call, mean_ns, count } => format!("{} requests one after the other, {} each ({call})", number(*count), time(*mean_ns)),
        Because::Divided { parts } => {
            let parts: Vec<String> = parts.iter().map(|(state, share)| format!("{} {}", short(state), percent(*share))).collect();
            format!("its time: {}", listed(&parts))
        }
        Because::Alone { threads, cpus, idle } => {
            let idle = format!("while {} of the time of {} CPUs is idle", percent(*idle), number(*cpus));
            match threads {
                0 | 1 => format!("one thread does the work {idle}"),
                _ => format!("of its {} busy threads one runs at a time {idle}, as under one lock", number(*threads)),
            }
        }
        Because::CpuUsers { users, idle, .. } => {
            let users: Vec<String> = users.iter().map(|(user, share)| format!("{} {}", name(user), percent(*share))).collect();
            format!("the CPUs are used by {}, and idle for {}", listed(&users), percent(*idle))
        }
        Because::IdleSleeps { sleepers, share, gain } => {
            let sleepers: Vec<String> = sleepers.iter().map(name).collect();
            let wait = if sleepers.len() == 1 { "waits for its own timer" } else { "wait for their own timers" };
            let (sleepers, share, gain) = (listed(&sleepers), percent(*share), 100.0 * gain);
            format!("{share} of the path are left out, in which {sleepers} {wait}: halving that is predicted to gain only {gain:+.1} %")
        }
        Because::MoreThreads { threads, cpus } => {
            format!("on average {threads:.1} of its threads are ready to run, on {} CPUs", number(*cpus))
        }
        Because::Processes { by, count, mean_ns } => {
            format!("{} starts {} processes of it, which live for {} each", name(by), number(*count), time(*mean_ns))
        }
        Because::Affinity { allowed, cpus, idle } => {
            let idle = percent(*idle);
            format!("it may run on {} of {} CPUs, which are idle for {idle} of the time", number(*allowed), number(*cpus))
        }
        Because::Faults { count, share } => {
            format!("its {} page faults take at least {} of the path", number(*count), percent(*share))
        }
        Because::Lock { count, share, locks } => {
            let somebody = format!("and at least one thread waits for it for {} of the time", percent(*share));
            let handed = "that one thread hands to the next";
            match locks {
                Some(locks) if locks.count > 1 => {
                    format!("its threads wait on {} {handed}, {} times on the first, {somebody}", counted_locks(locks), number(*count))
                }
                Some(_) => format!("its threads wait {} times on one lock {handed}, {somebody}", number(*count)),
                None => format!("its threads wait {} times for a lock {handed}, {somebody}", number(*count)),
            }
        }
        Because::FileLock { call, waiter, holder, count, mean_ns } => {
            let (waiter, holder, mean) = (name(waiter), name(holder), time(*mean_ns));
            format!("meanwhile {waiter} waits for a file lock of {holder} ({call}), {} times, {mean} each", number(*count))
        }
        Because::Quota { count, is_reserved: true } => {
            format!("the runtime of its reservation (SCHED_DEADLINE) holds it back {} times", number(*count))
        }
        Because::Quota { count, is_reserved: false } => format!("a quota of its control group holds it back {} times", number(*count)),
        Because::HandOvers { sides, count: _, per_second, work_ns, cost_ns } => {
            let sides: Vec<String> = sides.iter().map(name).collect();
            let between = if sides.len() > 1 { format!(" between {}", listed(&sides)) } else { String::new() };
            let (work, cost) = (time(*work_ns), time(*cost_ns));
            let rate = number(per_second.round() as u64);
            format!("{rate} hand-overs per second{between}, each with {work} of own code and system calls, and {cost} of wake-ups and switches")
        }
        Because::Link { device, discipline, bits_per_second, busy, mean_ns, waits } => {
            let queue = discipline.as_ref().map_or_else(String::new, |discipline| format!(" ({discipline})"));
            let whom = waits.as_ref().map_or_else(String::new, |waits| format!(", and {} waits for them", name(waits)));
            let (rate, wait) = (bits(*bits_per_second), time(*mean_ns));
            let busy = percent(*busy);
            format!("{device} carries {rate}, and packets wait in its queue{queue} for {busy} of the time, {wait} each{whom}")
        }
        Because::Accepts { connections: _, per_second, exchanges, first, cpu_ns, by } => {
            let by = by.as_ref().map_or_else(String::new, |by| format!(" from {}", name(by)));
            let (rate, cpu, first) = (number(per_second.round() as u64), time(*cpu_ns), percent(*first));
            format!(
                "{rate} connections per second{by}, {cpu} of CPU each, with {exchanges:.1} exchanges, of which the first (the handshake) takes {first} of the time"
            )
        }
        Because::Inversion { waiter, holder, instead, count, mean_ns } => {
            let (waiter, holder, instead) = (name(waiter), name(holder), name(instead));
            let (mean, count) = (time(*mean_ns), number(*count));
            format!("{waiter} waits for {holder}, and {instead}, which is less important than {waiter}, has the CPU meanwhile, {mean} each time, {count} times")
        }
        Because::Reclaims { count, mean_ns, share } => {
            let (count, mean, share) = (number(*count), time(*mean_ns), percent(*share));
            format!("it waits for free memory: direct reclaim, {count} times, {mean} each, {share} of the path")
        }
        Because::First { parts } => {
            let one = |part: &super::data::RunnerUp| format!("{}: {} ({})", name(&part.subject), short(&part.state), percent(part.share));
            listed(&parts.iter().map(one).collect::<Vec<_>>())
        }
        Because::Largest { .. }
        | Because::NothingHappens
        | Because::WaitUnknown
        | Because::TransitUnknown
        | Because::OwnTimer { .. }
        | Because::NotAhead { .. }
        | Because::TooSmall { .. }
        | Because::NobodyWaits
        | Because::LittleGain { .. }
        | Because::CpuIdle { .. }
        | Because::NoProbes
        | Because::NoStages
        | Because::LittleWaiting { .. }
        | Because::NoSingleCause { .. }
        | Because::LittleWork { .. }
        | Because::LittleKnown { .. }
        | Because::SlowestStage { .. }
        | Because::NoWork
        | Because::ManyNames { .. }
        | Because::WorkNotNamed { .. }
        | Because::NoStateLeads { .. }
        | Because::FewCalls { .. }
        | Because::CalledBy { .. }
        | Because::Finding(_)
        | Because::ByItself(_)
        | Because::ProbeCost { .. }
        | Because::SameThreads { .. }
        | Because::Waits { .. }
        | Because::LostPackets { .. }
        | Because::Recordings { .. }
        | Because::Disagreement { .. } => machines::clause(because),
    }
}

fn remedy(mechanism: Mechanism) -> Option<&'static str> {
    Some(match mechanism {
        Mechanism::Serialisation => "Allow more at a time: hold the lock for a shorter time, enlarge the pool, or do not wait inside it",
        Mechanism::LockConvoy => "Do not wait while holding the lock: hold it for a shorter time, or split it",
        Mechanism::Polling => "Wake each side (futex, pipe, eventfd, inotify) instead of sleeping and looking again",
        Mechanism::PolledWork => "Make this work cheaper, or let it stop earlier; a wake-up instead of polling saves at most one sleep each time",
        Mechanism::DelayedAck => "Small writes wait for a delayed acknowledgement (Nagle): write a request at once, or set TCP_NODELAY",
        Mechanism::Retransmission => "Packets are lost and sent again: look at `longpole packets --losses`",
        Mechanism::WindowProbe => "The receiver's window is closed: enlarge its buffer (SO_RCVBUF, net.ipv4.tcp_rmem), or read sooner",
        Mechanism::WindowLimited => {
            "Enlarge the receive buffer (SO_RCVBUF, net.ipv4.tcp_rmem), or do not set it, so that the kernel adapts it"
        }
        Mechanism::Pacing => "The kernel paces the sender (SO_MAX_PACING_RATE, fq, BBR)",
        Mechanism::KernelTimer => return None,
        Mechanism::GracePeriod => "Call it less often, for more items at once, or use a call that does not wait (membarrier has expedited commands)",
        Mechanism::SyncPerItem => "Sync once for several items (group commit) instead of once for each",
        Mechanism::DiskReads => "Read ahead, read in larger pieces, or keep it in memory",
        Mechanism::PageFaults => {
            "Reuse memory instead of returning it to the kernel (a pool, mallopt M_TRIM_THRESHOLD, MADV_HUGEPAGE)"
        }
        Mechanism::CpuQuota => "Raise the quota of its control group (cpu.max, cpu.cfs_quota_us), or the runtime of its reservation (chrt --sched-runtime)",
        Mechanism::DiskQuota => "Raise the limit of its control group for the disk (io.max, blkio.throttle)",
        Mechanism::CpuContention => "Add CPUs, or reduce the work of the threads that use them",
        Mechanism::Affinity => "Let it run on more CPUs (taskset, sched_setaffinity, cpuset.cpus, IRQ affinity)",
        Mechanism::ProcessPerItem => "Start one process for many items, or keep a pool of processes",
        Mechanism::SingleThread => "Make this work cheaper, or spread it over several threads",
        Mechanism::OneAtATime => "Hold the lock for a shorter time, split it, or use processes where an interpreter has one lock for all threads",
        Mechanism::Timeout => {
            "Find out why there is no answer (address, port, firewall, a dead server), try another server at once, or shorten the timeout"
        }
        Mechanism::RoundTrips => "Ask for several things at once (a join, a batch, a pipeline), or cache the answers",
        Mechanism::SerialStep => "Run its parts at the same time, cache its results, or leave it out",
        Mechanism::SleepInHandler => "Shorten that wait, or allow more requests to wait at the same time",
        Mechanism::LoadGenerator => "The client cannot ask faster: the service behind it is not at its limit",
        Mechanism::PacketLoss => return None,
        Mechanism::PriorityInversion => {
            "Use a lock that passes on priority (PTHREAD_PRIO_INHERIT, FUTEX_LOCK_PI), or do not share it between threads of different priorities"
        }
        Mechanism::MemoryReclaim => "Give it more memory (memory.max, memory.limit_in_bytes), or let it use less",
        Mechanism::InterruptWork => {
            "Send fewer packets or requests (larger ones, batches), let the kernel do less for each (rules of packet filters, offloads), or spread its interrupts over CPUs"
        }
        Mechanism::ConnectionPerRequest => "Keep connections open (keep-alive, a pool of connections), or resume sessions (TLS session tickets)",
        Mechanism::SlowLink => "Raise the rate of the link or of its queueing discipline (`tc qdisc`), or send less (compress, cache)",
        Mechanism::LongLink => {
            "The queue was never empty: also send less at a time, or by another class of the discipline (`tc qdisc`); if the delay is the link's own, allow more in transit at a time (more requests at once, larger windows)"
        }
        Mechanism::HandOverPerItem => {
            "Hand over several items at once (batches, a buffer that is passed on when it is full), or process an item where it is made"
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(name: &str) -> Named {
        Named { pid: Some(7), ..Named::of_name(SubjectLevel::Process, name) }
    }

    #[test]
    fn a_title_replaces_the_program_and_its_script() {
        let title = Some("shop: cook".to_owned());
        let process = Named { title: title.clone(), script: Some("cook.py".to_owned()), ..named("python3") };
        assert_eq!(name(&process), "shop: cook (pid 7)");
        let thread = Named { level: SubjectLevel::Thread, title, ..named("python3/stove") };
        assert_eq!(name(&thread), "shop: cook/stove");
        assert_eq!(name(&Named { script: Some("cook.py".to_owned()), ..named("python3") }), "python3 cook.py (pid 7)");
    }

    #[test]
    fn the_place_is_shown_only_if_names_are_equal() {
        let unit = Named { unit: Some("a.service".to_owned()), port: Some(80), ..named("nginx") };
        assert_eq!(name(&unit), "nginx (port 80)");
        let unit = Named { needs_place: true, ..unit };
        assert_eq!(name(&unit), "nginx (port 80) of a.service");
        let container = Named { container: Some("4f2a9c0e1b7d".to_owned()), ..unit };
        assert_eq!(name(&container), "nginx (port 80) of container 4f2a9c0e1b7d");
        assert_eq!(name(&Named { needs_place: true, ..named("nginx") }), "nginx (pid 7)");
    }

    #[test]
    fn caveats_follow_the_remedy_and_contradictions_come_last() {
        let contradictions = Caveat::Contradictions(Contradictions { contradictions: 1, negative_links: 0, ignored_wakeups: 2 });
        let bystanders = Caveat::Bystanders { share: 0.5, example: named("make") };
        let verdict = Verdict {
            subject: Some(named("a")),
            mechanism: Some(Mechanism::Pacing),
            caveats: vec![contradictions.clone(), bystanders],
            ..Verdict::new(Outcome::Bottleneck, Basis::Subjects)
        };
        assert_eq!(
            sentence(&verdict),
            "a (pid 7) is the bottleneck with most of the critical path. The kernel paces the sender (SO_MAX_PACING_RATE, fq, BBR). \
             Less certain because programs that the path does not depend on, such as make (pid 7), used the CPUs for 50.0 % of the time \
             (record again on a quiet host); 1 contradiction, 2 wake-ups of threads that did not wait in the trace: clocks, losses or misplaced probes."
        );
        let unknown = Verdict { caveats: vec![contradictions], ..Verdict::new(Outcome::Unknown, Basis::Subjects) };
        assert!(sentence(&unknown).starts_with("The bottleneck cannot be determined; 1 contradiction,"), "{}", sentence(&unknown));
    }

    #[test]
    fn the_text_distinguishes_one_lock_from_several() {
        let clause_of = |count: Option<u64>| {
            let locks = count.map(|count| Locks { count, address: "0x7000".to_owned(), share: 0.9 });
            clause(&Because::Lock { count: 50, share: 0.5, locks })
        };
        assert!(clause_of(None).starts_with("its threads wait 50 times for a lock that"));
        assert!(clause_of(Some(1)).starts_with("its threads wait 50 times on one lock that"));
        assert!(clause_of(Some(3)).starts_with("its threads wait on 3 locks that one thread hands to the next, 50 times on the first,"));
    }
}
