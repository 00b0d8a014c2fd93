//! The sentence of a verdict, made from its data. Nothing else writes one.

use super::verdict::{Because, Caveat, Mechanism, Named, Outcome, StateKind, StateNamed, SubjectLevel, Verdict};
use crate::text::{number, percent};

/// The whole text: outcome, reasons, remedy, caveats.
pub fn sentence(verdict: &Verdict) -> String {
    let mut out = outcome(verdict);
    if let Some(code) = &verdict.code {
        out.push_str(&format!(", most often in {} ({})", code.function, percent(code.share)));
    }
    for because in &verdict.because {
        let clause = clause(because);
        if !clause.is_empty() {
            out.push_str("; ");
            out.push_str(&clause);
        }
    }
    out.push('.');
    if let Some(remedy) = verdict.mechanism.and_then(remedy) {
        out.push_str(&format!(" {remedy}."));
    }
    // Of an unknown outcome, they are the reason.
    if !verdict.caveats.is_empty() && verdict.outcome != Outcome::Unknown {
        out.push_str(&format!(" Less certain because {}.", caveats(verdict)));
    }
    out
}

/// What makes the verdict less certain, each with what helps.
fn caveats(verdict: &Verdict) -> String {
    let one = |caveat: &Caveat| match &caveat.remedy {
        Some(remedy) => format!("{} ({remedy})", caveat.text),
        None => caveat.text.clone(),
    };
    verdict.caveats.iter().map(one).collect::<Vec<_>>().join(", and ")
}

/// A subject as users know it: name, port, process.
pub fn name(of: &Named) -> String {
    let host = of.host.as_ref().map_or_else(String::new, |host| format!("{host}/"));
    // Some interpreters call their threads by the script.
    let script = of.script.as_ref().filter(|script| !of.name.contains(script.as_str()));
    let script = script.map_or_else(String::new, |script| format!(" {script}"));
    match (of.port, of.pid) {
        (Some(port), _) => format!("{host}{}{script} (port {port})", of.name),
        (None, Some(pid)) if of.level == SubjectLevel::Process => format!("{host}{}{script} (pid {pid})", of.name),
        _ => format!("{host}{}{script}", of.name),
    }
}

fn outcome(verdict: &Verdict) -> String {
    let subject = verdict.subject.as_ref().map_or_else(|| "the system".to_owned(), name);
    let share = match (verdict.share, verdict.share_low, verdict.share_high) {
        (Some(share), Some(low), Some(high)) => format!("{} ± {} of the critical path", percent(share), percent((high - low) / 2.0)),
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
            match &verdict.state {
                _ if waits.is_some_and(|waits| Some(waits) != verdict.subject.as_ref()) => {
                    let waits = waits.map(name).unwrap_or_default();
                    format!("{who} is the bottleneck: {waits} waits for the CPUs that it uses, for {share}")
                }
                Some(state) => format!("{who} is the bottleneck: it {} for {share}", does(state)),
                None if verdict.mechanism == Some(Mechanism::SerialStep) => {
                    format!("{who} is the bottleneck: a serial step of {} of the run", percent(verdict.share.unwrap_or(0.0)))
                }
                None if verdict.mechanism == Some(Mechanism::WindowLimited) => {
                    format!("The receive window of {who} is the bottleneck: its sender waits for room in it again and again")
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
        Outcome::Unknown if verdict.caveats.is_empty() => "The bottleneck cannot be determined".to_owned(),
        Outcome::Unknown => format!("The bottleneck cannot be determined: {}", caveats(verdict)),
    }
}

/// A state as a predicate of its subject.
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
        StateKind::Throttled => "is ready to run and may not: its CPU quota is used up".to_owned(),
        StateKind::Faults => "waits for pages that the kernel brings (page faults)".to_owned(),
        StateKind::Disk if name == "disk" => "waits for the disk".to_owned(),
        StateKind::Disk => format!("waits for the disk in {name}"),
        StateKind::Interrupt => format!("handles interrupts ({name})"),
        StateKind::Transit => format!("waits for what is in transit ({name})"),
        StateKind::Call => format!("waits for its calls of {name}, in transit there and back"),
        StateKind::Lost => "loses packets".to_owned(),
        StateKind::Unknown => "waits for what no event identifies".to_owned(),
    }
}

fn short(state: &StateNamed) -> String {
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

fn clause(because: &Because) -> String {
    match because {
        Because::Sleeps { call: _, mean_ns, count, waited_for_by, outstanding } => {
            let calls = outstanding.map_or_else(String::new, |open| format!(" ({open:.1} of its requests are open at a time)"));
            let whom = waited_for_by.as_ref().map_or_else(String::new, |by| format!(" while {} waits for it{calls}", name(by)));
            format!("{} each time, {} times{whom}", time(*mean_ns), number(*count))
        }
        Because::Convoy { pool, waiters, members, wait, holder } => {
            let holder = holder.as_ref().map_or_else(String::new, |holder| format!(", which is held while {} does that", name(holder)));
            format!("of {} threads of {}, {waiters:.1} wait at a time for one another's lock ({wait}){holder}", number(*members), name(pool))
        }
        Because::Serialised { at, open, at_a_time, callee } => {
            let what = match callee {
                Some(callee) => format!("{at_a_time:.1} calls of {} are outstanding at a time", name(callee)),
                None => format!("{at_a_time:.1} are worked on at a time"),
            };
            format!("requests wait for one another in {}: {open:.1} are open and {what} (a lock, a pool, or one loop)", name(at))
        }
        Because::Polls { sides, mean_ns, count } => {
            let sides: Vec<String> = sides.iter().map(name).collect();
            let which = if sides.len() == 1 { "threads of it sleep" } else { "each sleeps" };
            format!("{} poll: {which} {} at a time and looks again, {} times", listed(&sides), time(*mean_ns), number(*count))
        }
        Because::Unanswered { requests, connects, mean_ns, count } => {
            let what = match (requests, connects) {
                (requests, 0) => format!("{} of its requests are not answered", number(*requests)),
                (0, connects) => format!("{} of its attempts to connect are not answered", number(*connects)),
                (requests, connects) => format!("{} requests and {} attempts to connect are not answered", number(*requests), number(*connects)),
            };
            format!("{what}, and it waits for a timeout, {} each time, {} times", time(*mean_ns), number(*count))
        }
        Because::SerialStep { step, share, idle } => format!(
            "{} runs one process after another for {} of the run, in which {} of the time of the CPUs is idle",
            name(step),
            percent(*share),
            percent(*idle)
        ),
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
            format!("{timer}, {} at a time, {} times{between}", time(*mean_ns), number(*count))
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
        Because::Lock { count, share } => {
            format!("its threads wait {} times for a lock that one hands to the next, and somebody waits for it for {} of the time", number(*count), percent(*share))
        }
        Because::Quota { count } => format!("a quota of its control group holds it back {} times", number(*count)),
        Because::First { parts } => {
            let one = |part: &super::verdict::RunnerUp| format!("{}: {} ({})", name(&part.subject), short(&part.state), percent(part.share));
            listed(&parts.iter().map(one).collect::<Vec<_>>())
        }
    }
}

fn remedy(mechanism: Mechanism) -> Option<&'static str> {
    Some(match mechanism {
        Mechanism::Serialisation => "Let more of them run at a time: hold the lock for less, enlarge the pool, or do not wait inside it",
        Mechanism::LockConvoy => "Do not wait inside the lock: hold it for less, or split it",
        Mechanism::Polling => "Let each side be woken (futex, pipe, eventfd, inotify) instead of sleeping and looking again",
        Mechanism::DelayedAck => "Small writes wait for a delayed acknowledgement (Nagle): write a request at once, or set TCP_NODELAY",
        Mechanism::Retransmission => "Packets are lost and sent again: look at `longpole packets --losses`",
        Mechanism::WindowProbe => "The receiver's window is closed: enlarge its buffer (SO_RCVBUF, net.ipv4.tcp_rmem), or read sooner",
        Mechanism::WindowLimited => {
            "Enlarge the receive buffer (SO_RCVBUF, net.ipv4.tcp_rmem), or do not set it, so that the kernel adapts it"
        }
        Mechanism::Pacing => "The kernel paces the sender (SO_MAX_PACING_RATE, fq, BBR)",
        Mechanism::KernelTimer => return None,
        Mechanism::SyncPerItem => "Sync once for several items (group commit) instead of once for each",
        Mechanism::DiskReads => "Read ahead, read in larger pieces, or keep it in memory",
        Mechanism::PageFaults => {
            "Use memory again instead of giving it back to the kernel (a pool, mallopt M_TRIM_THRESHOLD, MADV_HUGEPAGE)"
        }
        Mechanism::CpuQuota => "Raise the quota of its control group (cpu.max, cpu.cfs_quota_us)",
        Mechanism::DiskQuota => "Raise the limit of its control group for the disk (io.max, blkio.throttle)",
        Mechanism::CpuContention => "More CPUs, or less work by those that use them",
        Mechanism::Affinity => "Let it run on more CPUs (taskset, sched_setaffinity, cpuset.cpus, IRQ affinity)",
        Mechanism::ProcessPerItem => "Start one process for many items, or keep a pool of them that stays",
        Mechanism::SingleThread => "Make this work cheaper, or spread it over several threads",
        Mechanism::OneAtATime => "Hold the lock for less, split it, or use processes where an interpreter has one lock for all threads",
        Mechanism::Timeout => {
            "Find out why nobody answers (address, port, firewall, a dead server), try another one at once, or shorten the timeout"
        }
        Mechanism::RoundTrips => "Ask for several things at once (a join, a batch, a pipeline), or keep what was asked for",
        Mechanism::SerialStep => "Run its parts at the same time, cache its results, or leave it out",
        Mechanism::SleepInHandler => "Shorten that wait, or let more requests wait at the same time",
        Mechanism::LoadGenerator => "The client cannot ask faster: the service behind it is not at its limit",
        Mechanism::PacketLoss => return None,
    })
}
