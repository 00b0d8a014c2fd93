//! The text of a verdict, generated from its data. Texts of findings come from `findings.toml`,
//! those about missing events from `not_recorded` and `lost_events`.
//!
//! The text has several sentences if more is known: the outcome with its reasons, the remedy, and
//! the caveats. [`machines`] writes the sentences of verdicts on states and stages; the clauses of
//! [`Because`] and [`Caveat`] are the same for all. [`waits`], [`requests`] and [`cpus`] write the
//! clauses of reasons about processes, and [`remedies`] the remedies.

mod cpus;
mod machines;
mod remedies;
mod requests;
mod waits;

use super::data::{Basis, Code, Mechanism, Named, Outcome, StateNamed, SubjectLevel, SubjectState, Verdict, WaitPlaces};
use crate::stats::text::{number, percent};
use crate::verdict::data::because::Because;
use crate::verdict::data::caveat::{Caveat, Contradictions};
use crate::verdict::not_recorded;

/// Returns the whole text.
pub fn sentence(verdict: &Verdict) -> String {
    let mut sentences = match verdict.basis {
        _ if verdict.mechanism == Some(Mechanism::PacketLoss) => vec![machines::packet_loss(verdict)],
        Basis::Subjects => subjects(verdict),
        Basis::States | Basis::Stages | Basis::Probes => machines::sentences(verdict),
    };
    let less_certain: Vec<&Caveat> = verdict.caveats.iter().filter(|caveat| position(verdict, caveat) == Position::Last).collect();
    if !less_certain.is_empty() {
        sentences.push(format!("Less certain because {}", caveats(&less_certain)));
    }
    let contradictions = verdict.caveats.iter().filter(|caveat| matches!(caveat, Caveat::Contradictions(_)));
    let contradictions: String = contradictions.map(|caveat| format!("; {}", self::caveat(caveat))).collect();
    format!("{}{contradictions}.", sentences.join(". "))
}

/// Returns the verdict in a few words, without figures.
pub fn heading(verdict: &Verdict) -> String {
    let subject = verdict.subject.as_ref().map_or_else(|| "the system".to_owned(), name);
    let with_state = match &verdict.state {
        Some(state) => format!("{subject} – {}", state.name),
        None => subject.clone(),
    };
    let asked = verdict.because.iter().find_map(|because| match because {
        Because::RoundTrips { asker: None, callee, .. } => callee.as_ref().map(name),
        _ => None,
    });
    match (verdict.outcome, waits_meanwhile(verdict), asked) {
        (Outcome::Bottleneck, Some(waits), _) => format!("Bottleneck: {waits} while {subject} sleeps"),
        (Outcome::Bottleneck, None, Some(asked)) => format!("Bottleneck: {subject} waits for replies of {asked}"),
        // The state may be that of another program, which waits for a CPU.
        (Outcome::Bottleneck, ..) if verdict.mechanism == Some(Mechanism::CpuContention) => {
            format!("Bottleneck: the CPUs, which {subject} uses most")
        }
        (Outcome::Bottleneck, ..) => format!("Bottleneck: {with_state}"),
        (Outcome::Paced, ..) => format!("The system is paced by {with_state}"),
        (Outcome::Spread, ..) => "No single bottleneck".to_owned(),
        (Outcome::Unknown, ..) => "The bottleneck cannot be determined".to_owned(),
    }
}

/// The position of a caveat in the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Position {
    /// In the sentence of the outcome.
    Outcome,
    /// In a sentence after the others.
    Last,
    /// At the end of the text.
    End,
}

fn position(verdict: &Verdict, caveat: &Caveat) -> Position {
    let of_path = matches!(caveat, Caveat::LostEvents { .. } | Caveat::UnknownTime { .. } | Caveat::RunningUnknown | Caveat::Timer { .. });
    match caveat {
        Caveat::Contradictions(_) => Position::End,
        _ if verdict.mechanism == Some(Mechanism::PacketLoss) => Position::Last,
        // For an unknown outcome, the caveats are the reason.
        _ if verdict.basis == Basis::Subjects && verdict.outcome == Outcome::Unknown => Position::Outcome,
        _ if verdict.basis != Basis::Subjects && of_path => Position::Outcome,
        _ => Position::Last,
    }
}

/// Returns the caveats that belong in the sentence of the outcome.
fn of_outcome(verdict: &Verdict) -> Vec<&Caveat> {
    verdict.caveats.iter().filter(|caveat| position(verdict, caveat) == Position::Outcome).collect()
}

/// Returns the sentences of a verdict on processes, pools and threads.
fn subjects(verdict: &Verdict) -> Vec<String> {
    let mut first = outcome(verdict);
    for because in &verdict.because {
        if let Because::OpenRequests { at, open } = because {
            first.push_str(&format!(", while {open:.1} requests are open in {}", name(at)));
        }
    }
    if let Some(code) = &verdict.code {
        first.push_str(&format!(", {}", self::code(code)));
    }
    for because in &verdict.because {
        let clause = match because {
            Because::Serialised { callee: Some(_), .. } if sleeps(verdict) => requests::open_requests(because),
            Because::FileLock { .. } if sleeps(verdict) => requests::waits_for_file_lock(because),
            // The first clause says who waits.
            Because::Sleeps { mean_ns, count, .. } if waits_for_one_reply(verdict).is_some() => waits::each_time(*mean_ns, *count),
            because => clause(because),
        };
        if !clause.is_empty() {
            first.push_str("; ");
            first.push_str(&clause);
        }
    }
    if let Some(WaitPlaces { waits_in, ended_in }) = &verdict.wait_places {
        let are_processes = verdict.because.iter().any(|because| matches!(because, Because::Convoy { are_processes: true, .. }));
        let members = if are_processes { "processes" } else { "threads" };
        first.push_str(&format!("; {members} wait in {waits_in} until {ended_in} wakes them"));
    }
    let remedy = match verdict.mechanism {
        Some(mechanism) => remedies::remedy(mechanism).map(str::to_owned),
        None => remedies::of_state(verdict),
    };
    [first].into_iter().chain(remedy).collect()
}

/// Returns the code of a verdict as a clause.
fn code(of: &Code) -> String {
    let file = of.file.as_deref().map(|file| file.rsplit('/').next().unwrap_or(file));
    let place = match (file, of.line) {
        (Some(file), Some(line)) => format!(" ({file}:{line})"),
        _ => String::new(),
    };
    let caller = of.caller.as_ref().map_or_else(String::new, |caller| format!(", called from {caller}"));
    let callees = match &of.callees[..] {
        [] => String::new(),
        callees => format!(", there mostly in {}", callees.join(" → ")),
    };
    let (share, error) = (percent(of.share), percent((of.share - of.share_low).max(of.share_high - of.share)));
    format!("most often in {}{place}{caller}{callees} ({share} ± {error})", of.function)
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
        Caveat::Contradictions(counts) => contradictions(counts),
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

/// Returns what else waits, in another server, while the subject sleeps: more of it at a time would
/// help as much as shorter sleeps.
fn waits_meanwhile(verdict: &Verdict) -> Option<String> {
    verdict.because.iter().filter(|_| sleeps(verdict)).find_map(|because| match because {
        Because::Serialised { at, callee: Some(_), .. } => Some(format!("requests wait for one another in {}", name(at))),
        Because::Occupied { at, processes, .. } => {
            Some(format!("requests wait for one of the {} processes of {}", number(*processes), name(at)))
        }
        Because::HeldRequests { at, .. } if verdict.mechanism == Some(Mechanism::LockConvoy) => {
            Some(format!("requests wait for one another in {}, as for a lock,", name(at)))
        }
        Because::Convoy { pool, are_processes, holder: Some(_), .. } => {
            let members = if *are_processes { "processes" } else { "threads" };
            Some(format!("{members} of {} wait for one another at a lock", name(pool)))
        }
        Because::FileLock { waiter, holder, .. } if waiter == holder => {
            Some(format!("processes of {} wait for one another's file lock", name(waiter)))
        }
        Because::FileLock { waiter, holder, .. } => Some(format!("{} waits for a file lock of {}", name(waiter), name(holder))),
        _ => None,
    })
}

/// Returns the server whose event loop waits while the subject sleeps.
fn blocked_loop(verdict: &Verdict) -> Option<&Named> {
    verdict.because.iter().find_map(|because| match because {
        Because::BlocksItsLoop { at } if sleeps(verdict) => Some(at),
        _ => None,
    })
}

/// Returns the client that waits while the subject sleeps, with one open request at a time: more of
/// them would help as much as shorter sleeps.
fn waits_for_one_reply(verdict: &Verdict) -> Option<&Named> {
    if waits_meanwhile(verdict).is_some() || blocked_loop(verdict).is_some() {
        return None;
    }
    verdict.because.iter().find_map(|because| match because {
        Because::Sleeps { waited_for_by: Some(by), outstanding: Some(open), .. } if sleeps(verdict) && is_one(*open) => Some(by),
        _ => None,
    })
}

/// Returns whether a mean number of requests is one, as it is displayed.
fn is_one(open: f64) -> bool {
    (open - 1.0).abs() < 0.05
}

fn sleeps(verdict: &Verdict) -> bool {
    verdict.outcome == Outcome::Bottleneck && verdict.state.as_ref().is_some_and(|state| state.kind == SubjectState::Sleep)
}

/// Returns the clause of the outcome.
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
                Some(role) => format!("{subject}, the {},", role.text()),
                None => subject,
            };
            let waits = verdict.because.iter().find_map(|because| match because {
                Because::CpuUsers { waits, .. } if verdict.mechanism == Some(Mechanism::CpuContention) => Some(waits),
                _ => None,
            });
            let waits = waits.filter(|_| verdict.state.as_ref().is_some_and(|state| state.kind == SubjectState::Runnable));
            match &verdict.state {
                _ if waits.is_some() && waits == verdict.subject.as_ref() => {
                    format!("{who} is the bottleneck: it computes on all CPUs, and waits for one for {share}")
                }
                _ if waits.is_some() => {
                    let waits = waits.map(name).unwrap_or_default();
                    format!("{who} is the bottleneck: the CPUs are full, and {waits} waits for those that it uses, for {share}")
                }
                Some(state) => {
                    let of_loop = || blocked_loop(verdict).map(|server| format!("the event loop of {} waits for it", name(server)));
                    let of_client = || waits_for_one_reply(verdict).map(|by| format!("{} waits for one reply at a time", name(by)));
                    let predicate = predicate_with_ends(verdict, state);
                    match (waits_meanwhile(verdict), of_loop().or_else(of_client)) {
                        (Some(waits), _) => format!("The bottleneck is that {waits} while {who} {predicate} for {share}"),
                        (None, Some(waits)) => format!("{who} is the bottleneck: it {predicate}, while {waits}, for {share}"),
                        (None, None) => format!("{who} is the bottleneck: it {predicate} for {share}"),
                    }
                }
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
                None if verdict.mechanism == Some(Mechanism::InterruptWork) => {
                    format!("{who} is the bottleneck with {share}: interrupts and softirqs take most of the time in which it has a CPU")
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
                None => match verdict.because.iter().find(|because| matches!(because, Because::RoundTrips { asker: None, .. })) {
                    Some(Because::RoundTrips { most, callee, .. }) => {
                        let share = percent(verdict.share.unwrap_or(0.0));
                        let most = most.as_ref().map_or_else(String::new, |most| {
                            let whose = (name(&most.subject), predicate(&most.state), percent(most.share));
                            format!(", mostly while {} {} ({} of the critical path)", whose.0, whose.1, whose.2)
                        });
                        let of = callee.as_ref().map_or_else(String::new, |callee| format!(" of {}", name(callee)));
                        format!("{who} is the bottleneck: it waits for replies{of} for {share} of the time{most}")
                    }
                    _ => format!("{who} is the bottleneck with {share}"),
                },
            }
        }
        Outcome::Paced => match &verdict.state {
            Some(state) => format!("The system is paced by {subject}, which {} for {share}", predicate_with_ends(verdict, state)),
            None => format!("The system is paced by {subject} for {share}"),
        },
        Outcome::Spread => "No single bottleneck: the critical path is spread".to_owned(),
        Outcome::Unknown => match of_outcome(verdict).as_slice() {
            [] => "The bottleneck cannot be determined".to_owned(),
            reasons => format!("The bottleneck cannot be determined: {}", caveats(reasons)),
        },
    }
}

/// Returns the state of a verdict as a predicate of its subject, with the subjects at the other end
/// if the kernel's timer is one of their connection.
fn predicate_with_ends(verdict: &Verdict, state: &StateNamed) -> String {
    let others = verdict.because.iter().find_map(|because| match because {
        Because::KernelTimer { between, .. } => between.split_first().map(|(_, others)| others),
        _ => None,
    });
    match others.filter(|others| !others.is_empty()) {
        Some(others) => format!("{} between it and {}", predicate(state), listed(&others.iter().map(name).collect::<Vec<_>>())),
        None => predicate(state),
    }
}

/// Returns a state as a predicate of its subject.
pub fn predicate(state: &StateNamed) -> String {
    let name = &state.name;
    match state.kind {
        SubjectState::Running => "runs its own code".to_owned(),
        SubjectState::SystemCall => format!("is in the system call {name}"),
        SubjectState::Declared => format!("is in {name}"),
        SubjectState::Runnable => "waits for a CPU".to_owned(),
        SubjectState::Sleep if matches!(name.as_str(), "asleep" | "timer") => "sleeps until a time that it set itself".to_owned(),
        SubjectState::Sleep => format!("waits in {name} until a time that it set itself"),
        SubjectState::KernelTimer => format!("waits for a timer of the kernel ({name})"),
        SubjectState::GracePeriod => format!("waits in {name} until every CPU has scheduled (an RCU grace period)"),
        SubjectState::Throttled => "is ready to run, but its CPU quota is used up".to_owned(),
        SubjectState::Faults => "waits for page faults".to_owned(),
        SubjectState::Disk if name == "disk" => "waits for the disk".to_owned(),
        SubjectState::Disk => format!("waits for the disk in {name}"),
        SubjectState::Outside => format!("waits for the device {name}, behind which nothing is recorded,"),
        SubjectState::Interrupt => format!("handles interrupts ({name})"),
        SubjectState::Transit => format!("waits for data in transit ({name})"),
        SubjectState::Call => format!("waits for its calls of {name}, in transit there and back"),
        SubjectState::Lost => "loses packets".to_owned(),
        SubjectState::Unknown => "waits for an unknown cause".to_owned(),
    }
}

/// Returns a state in as few words as possible. Kinds without a distinguishing name have one text
/// each.
fn short(state: &StateNamed) -> String {
    match state.kind {
        SubjectState::Running => "own code".to_owned(),
        SubjectState::Runnable => "waiting for a CPU".to_owned(),
        SubjectState::Sleep => format!("asleep ({})", state.name),
        SubjectState::Disk => format!("waiting for the disk ({})", state.name),
        SubjectState::Throttled => "held back by a quota".to_owned(),
        SubjectState::Outside => format!("waiting for {}", state.name),
        SubjectState::Faults => "page faults".to_owned(),
        SubjectState::Unknown => "unknown".to_owned(),
        _ => state.name.clone(),
    }
}

/// Returns names as a list: "a, b and c".
fn listed(names: &[String]) -> String {
    match names {
        [] => String::new(),
        [one] => one.clone(),
        [before @ .., last] => format!("{} and {last}", before.join(", ")),
    }
}

/// Returns a time with its unit.
fn time(ns: u64) -> String {
    match ns {
        0..1_000 => format!("{ns} ns"),
        1_000..1_000_000 => format!("{:.1} us", ns as f64 / 1e3),
        1_000_000..1_000_000_000 => format!("{:.1} ms", ns as f64 / 1e6),
        _ => format!("{:.2} s", ns as f64 / 1e9),
    }
}

/// Returns a data rate with its unit.
fn bits(per_second: f64) -> String {
    match per_second {
        rate if rate < 1e6 => format!("{:.1} kbit/s", rate / 1e3),
        rate if rate < 1e9 => format!("{:.1} Mbit/s", rate / 1e6),
        rate => format!("{:.1} Gbit/s", rate / 1e9),
    }
}

/// Returns a reason as a clause.
fn clause(because: &Because) -> String {
    match because {
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
        Because::Sleeps { .. }
        | Because::Schedule { .. }
        | Because::Polls { .. }
        | Because::PolledBy { .. }
        | Because::Window { .. }
        | Because::KernelTimer { .. }
        | Because::LostAt { .. }
        | Because::Outside { .. }
        | Because::Corked
        | Because::ShortSends { .. }
        | Because::Disk { .. }
        | Because::IdleSleeps { .. }
        | Because::Faults { .. }
        | Because::Quota { .. }
        | Because::Link { .. }
        | Because::Reclaims { .. } => waits::clause(because),
        Because::Convoy { .. }
        | Because::Serialised { .. }
        | Because::Occupied { .. }
        | Because::HeldRequests { .. }
        | Because::BlocksItsLoop { .. }
        | Because::Unanswered { .. }
        | Because::RoundTrips { .. }
        | Because::Lock { .. }
        | Because::FileLock { .. }
        | Because::HandOvers { .. }
        | Because::Accepts { .. }
        | Because::Inversion { .. } => requests::clause(because),
        Because::SerialStep { .. }
        | Because::Threads { .. }
        | Because::Divided { .. }
        | Because::Alone { .. }
        | Because::CpuUsers { .. }
        | Because::LowerPriority { .. }
        | Because::MoreThreads { .. }
        | Because::Processes { .. }
        | Because::Affinity { .. }
        | Because::First { .. } => cpus::clause(because),
        // The first clause has them.
        Because::OpenRequests { .. } => String::new(),
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

#[cfg(test)]
mod tests {
    use super::super::data::Locks;
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
    fn a_timer_of_a_connection_is_named_with_both_ends_in_the_first_clause() {
        let between = vec![named("board"), named("flights")];
        let timer = Because::KernelTimer { timer: "retransmission timer".to_owned(), mean_ns: 690_000_000, count: 5, between };
        let lost = Because::LostAt { place: "listen queue full".to_owned(), count: 13 };
        let verdict = Verdict {
            subject: Some(named("board")),
            state: Some(StateNamed { kind: SubjectState::KernelTimer, name: "retransmission timer".to_owned() }),
            because: vec![timer, lost],
            ..Verdict::new(Outcome::Bottleneck, Basis::Subjects)
        };
        assert_eq!(
            sentence(&verdict),
            "board (pid 7) is the bottleneck: it waits for a timer of the kernel (retransmission timer) between it and flights (pid 7) \
             for most of the critical path; 690.0 ms each time, 5 times; 13 packets are lost: listen queue full."
        );
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

    fn convoy(are_processes: bool) -> Because {
        let (pool, holder) = (named("front"), Some(named("slow")));
        Because::Convoy { pool, waiters: 3.0, members: 4, are_processes, wait: "futex".to_owned(), holder, locks: None }
    }

    #[test]
    fn headings_name_the_subject_as_the_sentence_does() {
        let verdict = |outcome, mechanism, because: Vec<Because>| Verdict {
            subject: Some(named("front")),
            mechanism,
            because,
            ..Verdict::new(outcome, Basis::Subjects)
        };
        let asks = Because::RoundTrips { asker: None, count: 9, mean_ns: 9, callee: Some(named("names")), per_request: None, most: None };
        let asking = verdict(Outcome::Bottleneck, Some(Mechanism::RoundTrips), vec![asks]);
        assert_eq!(heading(&asking), "Bottleneck: front (pid 7) waits for replies of names (pid 7)");
        assert!(
            sentence(&asking).starts_with("front (pid 7) is the bottleneck: it waits for replies of names (pid 7) for "),
            "{}",
            sentence(&asking)
        );
        let full = verdict(Outcome::Bottleneck, Some(Mechanism::CpuContention), Vec::new());
        assert_eq!(heading(&full), "Bottleneck: the CPUs, which front (pid 7) uses most");
        let paced = verdict(Outcome::Paced, None, vec![Because::OpenRequests { at: named("server"), open: 3.25 }]);
        assert_eq!(heading(&paced), "The system is paced by front (pid 7)");
        assert!(sentence(&paced).contains(", while 3.2 requests are open in server (pid 7)"), "{}", sentence(&paced));
        assert_eq!(heading(&Verdict::new(Outcome::Spread, Basis::Subjects)), "No single bottleneck");
        assert_eq!(heading(&Verdict::new(Outcome::Unknown, Basis::Subjects)), "The bottleneck cannot be determined");
    }

    #[test]
    fn members_of_a_convoy_are_threads_or_processes() {
        assert!(clause(&convoy(false)).starts_with("of 4 threads of front (pid 7), 3.0 wait at a time"));
        assert!(clause(&convoy(true)).starts_with("of 4 processes of front (pid 7), 3.0 wait at a time"));
    }

    #[test]
    fn requests_that_wait_for_others_and_a_client_with_one_request_are_in_the_first_clause() {
        let sleeps = |open| Because::Sleeps {
            call: "poll".to_owned(),
            mean_ns: 2_000_000,
            count: 7,
            waited_for_by: Some(named("client")),
            outstanding: Some(open),
        };
        let verdict = |mechanism, because| Verdict {
            subject: Some(named("slow")),
            state: Some(StateNamed { kind: SubjectState::Sleep, name: "poll".to_owned() }),
            mechanism,
            because,
            ..Verdict::new(Outcome::Bottleneck, Basis::Subjects)
        };
        let slow = "slow (pid 7) is the bottleneck: it waits in poll until a time that it set itself";
        let one = sentence(&verdict(Some(Mechanism::SleepInHandler), vec![sleeps(1.02)]));
        assert!(one.starts_with(&format!("{slow}, while client (pid 7) waits for one reply at a time, for ")), "{one}");
        assert!(one.contains("; 2.0 ms each time, 7 times. "), "{one}");
        let several = sentence(&verdict(Some(Mechanism::SleepInHandler), vec![sleeps(3.0)]));
        assert!(several.starts_with(&format!("{slow} for ")), "{several}");
        assert!(several.contains("7 times while client (pid 7) waits for it (3.0 of its requests are open at a time)"), "{several}");
        let held = || Because::HeldRequests { at: named("store"), waiting: 2.5, call: "futex".to_owned(), is_passed_on: true };
        let locked = verdict(Some(Mechanism::LockConvoy), vec![sleeps(1.0), held()]);
        assert_eq!(
            heading(&locked),
            "Bottleneck: requests wait for one another in store (pid 7), as for a lock, while slow (pid 7) sleeps"
        );
        let text = sentence(&locked);
        assert!(
            text.starts_with(
                "The bottleneck is that requests wait for one another in store (pid 7), as for a lock, while slow (pid 7) waits"
            ),
            "{text}"
        );
        assert!(
            text.contains("; 2.5 requests at a time wait in store (pid 7) for another of its threads (futex), as for a lock"),
            "{text}"
        );
    }

    #[test]
    fn what_waits_in_another_server_during_a_sleep_is_in_the_heading_and_in_the_first_clause() {
        let verdict = |because: Because| Verdict {
            subject: Some(named("slow")),
            state: Some(StateNamed { kind: SubjectState::Sleep, name: "poll".to_owned() }),
            because: vec![because],
            ..Verdict::new(Outcome::Bottleneck, Basis::Subjects)
        };
        let first_clause = |because: Because| sentence(&verdict(because)).split(';').next().unwrap().to_owned();
        let serialised = |callee| Because::Serialised { at: named("front"), open: 8.0, at_a_time: 1.0, callee, threads: 4 };
        let sleeps = "waits in poll until a time that it set itself";
        assert_eq!(
            first_clause(serialised(Some(named("slow")))),
            format!("The bottleneck is that requests wait for one another in front (pid 7) while slow (pid 7) {sleeps} for most of the critical path")
        );
        assert_eq!(first_clause(serialised(None)), format!("slow (pid 7) is the bottleneck: it {sleeps} for most of the critical path"));
        let headings = [serialised(Some(named("slow"))), serialised(None), convoy(true)].map(|because| heading(&verdict(because)));
        assert_eq!(
            headings,
            [
                "Bottleneck: requests wait for one another in front (pid 7) while slow (pid 7) sleeps",
                "Bottleneck: slow (pid 7) – poll",
                "Bottleneck: processes of front (pid 7) wait for one another at a lock while slow (pid 7) sleeps"
            ]
        );
        let file_lock = |holder: &str| Because::FileLock {
            call: "flock".to_owned(),
            waiter: named("job"),
            holder: named(holder),
            count: 7,
            mean_ns: 2_000_000,
        };
        assert_eq!(
            heading(&verdict(file_lock("job"))),
            "Bottleneck: processes of job (pid 7) wait for one another's file lock while slow (pid 7) sleeps"
        );
        let text = sentence(&verdict(file_lock("backup")));
        assert!(
            text.starts_with("The bottleneck is that job (pid 7) waits for a file lock of backup (pid 7) while slow (pid 7) "),
            "{text}"
        );
        assert!(text.contains("; it waits for the lock (flock) 7 times, 2.0 ms each"), "{text}");
        assert_eq!(
            first_clause(Because::BlocksItsLoop { at: named("front") }),
            format!("slow (pid 7) is the bottleneck: it {sleeps}, while the event loop of front (pid 7) waits for it, for most of the critical path")
        );
    }
}
