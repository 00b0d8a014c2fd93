//! The sentences of verdicts on states and on stages, and of verdicts on several recordings.
//!
//! If there is a bottleneck, they begin like the sentences of processes. Otherwise they name the
//! closest candidate and the reason for which it is not enough. In either case, figures follow that
//! show how much is known.

use super::super::data::{Basis, Named, Outcome, SubjectState, Verdict};
use super::{caveat, name, of_outcome, remedy_of};
use crate::stats::text::{number, percent};
use crate::verdict::data::because::Because;
use crate::verdict::data::caveat::Caveat;
use crate::verdict::data::figures::{Agreed, Found, Measured, RequiredShare, StateShare, WaitedFor};

/// Returns the sentence of the outcome and the sentences that follow it.
pub(super) fn sentences(verdict: &Verdict) -> Vec<String> {
    let outcome = if verdict.outcome == Outcome::Bottleneck { bottleneck(verdict) } else { nothing(verdict) };
    let together = verdict.because.iter().filter(|because| matches!(because, Because::OnlyTogether { .. }));
    let together: String = together.map(|because| format!("; {}", super::clause(because))).collect();
    let threads = verdict.because.iter().filter(|because| matches!(because, Because::SameThreads { .. })).map(clause);
    let waits: Vec<String> = verdict.because.iter().filter(|because| matches!(because, Because::Waits { .. })).map(clause).collect();
    let waits = (!waits.is_empty()).then(|| waits.join("; "));
    let by_itself = verdict.because.iter().filter(|because| matches!(because, Because::ByItself(_))).map(clause);
    [format!("{outcome}{together}")].into_iter().chain(threads).chain(waits).chain(by_itself).collect()
}

/// Returns the sentence on the place at which most packets are lost.
pub(super) fn packet_loss(verdict: &Verdict) -> String {
    let place = verdict.subject.as_ref().map_or_else(String::new, name);
    let lost = verdict.because.iter().find_map(|because| match because {
        Because::LostPackets { share, remedy, .. } => Some((percent(*share), remedy)),
        _ => None,
    });
    let events = number(verdict.lost);
    match lost {
        Some((share, remedy)) => {
            format!("{place} is the bottleneck: {share} of all packets are lost there, {events} events lost; {remedy}")
        }
        None => format!("{place} is the bottleneck: packets are lost there, {events} events lost"),
    }
}

fn bottleneck(verdict: &Verdict) -> String {
    let who = verdict.subject.as_ref().map_or_else(|| "?".to_owned(), name);
    let share = || {
        let or_unknown = |share: Option<f64>| share.map_or_else(|| "?".to_owned(), percent);
        format!("{} ± {}", or_unknown(verdict.share), or_unknown(verdict.error()))
    };
    let whole = match (verdict.basis, caller(verdict)) {
        (Basis::States, _) => "the critical path".to_owned(),
        (_, Some((caller, _))) => format!("the work of {}", name(caller)),
        _ => "its work".to_owned(),
    };
    let end = format!("{}{}", figures(verdict), advice(verdict));
    if let Some(recordings) = recordings(verdict) {
        let state = verdict.state.as_ref().map_or("what it does between its states", |state| &state.name);
        return format!("{who} is the bottleneck {recordings}: {state} takes {} of {whole}{end}", share());
    }
    if let Some(found) = finding(verdict) {
        return format!("{who} is the bottleneck: {}{end}; {}", found.what, found.remedy);
    }
    let called = caller(verdict).map_or_else(String::new, |(caller, call)| format!(" (called by {} as {call})", name(caller)));
    let state = verdict.state.as_ref().map_or("?", |state| &state.name);
    let idle = verdict.because.iter().any(|because| matches!(because, Because::CpuIdle { .. }));
    let share = format!("{} of {whole}", share());
    let what = match verdict.state.as_ref().map(|state| state.kind) {
        Some(SubjectState::Runnable) if idle => format!("{who} waits for a CPU, although one is idle, for {share}"),
        Some(SubjectState::Runnable) => format!("{who} waits for a CPU for {share}"),
        Some(SubjectState::Call) => format!("{who} is the bottleneck: its calls of {state} are in transit for {share}"),
        Some(SubjectState::Transit) => format!("{who} is the bottleneck: the transit through it ({state}) takes {share}"),
        _ => format!("{who} is the bottleneck: {state}{called} takes {share}"),
    };
    format!("{what}{end}")
}

/// Returns the sentence on the absence of a bottleneck, with the reason.
fn nothing(verdict: &Verdict) -> String {
    let begin = match verdict.outcome {
        Outcome::Unknown => "The bottleneck cannot be determined",
        _ => "Nothing stands out",
    };
    let (figures, advice) = (figures(verdict), advice(verdict));
    if let Some(recordings) = recordings(verdict) {
        return format!("{begin} {recordings}{figures}{advice}");
    }
    let is_reason = |because: &&Because| !matches!(because, Because::OnlyTogether { .. } | Because::ByItself(_));
    let reasons: Vec<String> = verdict.because.iter().filter(is_reason).map(clause).collect();
    let reasons = reasons.join(", but ");
    // If too little is known, lost events are the reason, so the advice comes before the figures.
    match verdict.because.iter().any(|because| matches!(because, Because::LittleKnown { .. })) {
        true => format!("{begin}: {reasons}{advice}{figures}"),
        false => format!("{begin}: {reasons}{figures}{advice}"),
    }
}

/// Returns the figures that show how much is known.
fn figures(verdict: &Verdict) -> String {
    let unknown = verdict.unknown_share.map_or_else(|| "?".to_owned(), percent);
    let lost = number(verdict.lost);
    let of_several = verdict.because.iter().any(|because| matches!(because, Because::Recordings { .. } | Because::Disagreement { .. }));
    let lost = match verdict.uncounted_losses {
        0 => format!("{lost} events lost"),
        more => format!("{lost} events lost and {} losses of unknown size", number(more)),
    };
    match verdict.basis {
        _ if of_several => format!(", {unknown} unknown, {lost}"),
        Basis::States => format!(", {unknown} of the path unknown, {lost}"),
        _ if verdict.outcome == Outcome::Bottleneck => {
            let cost = verdict.because.iter().filter(|because| matches!(because, Because::ProbeCost { .. }));
            let cost: String = cost.map(|because| format!(", {}", clause(because))).collect();
            format!(", {unknown} of its time unknown, {lost}{cost}")
        }
        _ => format!(", {lost}"),
    }
}

/// Returns the remedies for missing facts, and the other caveats.
fn advice(verdict: &Verdict) -> String {
    let one = |caveat: &Caveat| match (caveat, remedy_of(caveat)) {
        // The figures already show the number of missing events.
        (Caveat::LostEvents { .. } | Caveat::UnknownTime { .. }, Some(remedy)) => format!("; {remedy}"),
        (_, Some(remedy)) => format!("; {} ({remedy})", self::caveat(caveat)),
        (_, None) => format!("; {}", self::caveat(caveat)),
    };
    of_outcome(verdict).into_iter().map(one).collect()
}

/// Returns the caller of the machine that the verdict names, and the name of the call.
fn caller(verdict: &Verdict) -> Option<(&Named, &str)> {
    verdict.because.iter().find_map(|because| match because {
        Because::CalledBy { caller, call } => Some((caller, call.as_str())),
        _ => None,
    })
}

fn finding(verdict: &Verdict) -> Option<&Found> {
    verdict.because.iter().find_map(|because| match because {
        Because::Finding(found) => Some(found),
        _ => None,
    })
}

fn recordings(verdict: &Verdict) -> Option<String> {
    verdict.because.iter().find(|because| matches!(because, Because::Recordings { .. })).map(clause)
}

fn state_of(part: &Measured) -> String {
    format!("{}::{}", name(&part.subject), part.state.name)
}

fn measured(share: f64, error: f64) -> String {
    format!("{} ± {}", percent(share), percent(error))
}

/// Returns a reason about a state, a stage or several recordings as a clause.
pub(super) fn clause(because: &Because) -> String {
    match because {
        Because::Largest { part, whole } => {
            let share = measured(part.share, part.error);
            match whole {
                Some(whole) => {
                    let (who, state, whole) = (name(&part.subject), &part.state.name, percent(*whole));
                    format!("{who} has {whole} of the critical path, and {state} is the largest part ({share})")
                }
                None => format!("{} has the most, {share} of the critical path", state_of(part)),
            }
        }
        Because::NothingHappens => "nothing happens".to_owned(),
        Because::WaitUnknown => "what it waits for is not in the trace".to_owned(),
        Because::TransitUnknown => "the transit takes so long because of a wait that the trace does not show".to_owned(),
        Because::OwnTimer { sets_pace, gain } => {
            let pace = if *sets_pace { ", as a thread does that sets the pace" } else { "" };
            let gain = gain.map_or_else(String::new, |gain| {
                format!("; if that is not intended, the predicted gain of halving it is {}", percent(gain))
            });
            format!("it sleeps until a time that it set itself{pace}{gain}")
        }
        Because::NotAhead { next } => {
            format!("{} is not smaller beyond the noise ({})", state_of(next), measured(next.share, next.error))
        }
        Because::TooSmall { enough } => {
            let one = |of: &RequiredShare| match of.lead > 1.0 {
                true => format!("{} times the next (and {})", of.lead, percent(of.share)),
                false => percent(of.share),
            };
            format!("that does not exceed {} beyond the noise", enough.iter().map(one).collect::<Vec<_>>().join(" or "))
        }
        Because::NobodyWaits => "no machine waits for another".to_owned(),
        Because::LittleGain { change, gain, rival, other } => {
            let rival = rival.as_ref().map(|rival| format!(", since {}::{} is nearly as slow", name(&rival.subject), rival.state.name));
            let other = other.as_ref().map(|other| format!(", and that of {} is {}", other.change, percent(other.gain)));
            let (rival, other) = (rival.unwrap_or_default(), other.unwrap_or_default());
            format!("the predicted gain of {change} is {} only{rival}{other}", percent(*gain))
        }
        Because::CpuIdle { share } => format!("a CPU is idle meanwhile for {}", percent(*share)),
        Because::Recordings { count, agreeing } if count == agreeing => format!("in all {} recordings", number(*count)),
        Because::Recordings { count, agreeing } => format!("in {} of {} recordings", number(*agreeing), number(*count)),
        Because::Disagreement { verdicts } => {
            let what = |of: &Agreed| match (&of.subject, &of.state) {
                (Some(subject), Some(state)) => format!("{}::{}", name(subject), state.name),
                (Some(subject), None) => name(subject),
                (None, _) => "nothing".to_owned(),
            };
            let one = |of: &Agreed| format!("{} in {}", what(of), number(of.runs));
            format!("the recordings do not agree ({})", verdicts.iter().map(one).collect::<Vec<_>>().join(", "))
        }
        _ => stage_clause(because),
    }
}

/// Returns a reason about stages as a clause.
fn stage_clause(because: &Because) -> String {
    match because {
        Because::NoProbes => "there are no probes in it".to_owned(),
        Because::NoStages => "no two threads with queue probes hand items to each other".to_owned(),
        Because::LittleWaiting { share } => format!("the stages wait for each other for only {} of their time", percent(*share)),
        Because::NoSingleCause { most, share } => {
            format!("the waiting has no single cause ({} accounts for {} of it, the most)", name(most), percent(*share))
        }
        Because::LittleWork { stage, share } => {
            format!("{} is waited for most, but works for only {} of its time", name(stage), percent(*share))
        }
        Because::LittleKnown { stage, share } => {
            format!("{} is waited for most, but {} of its time is unknown", name(stage), percent(*share))
        }
        Because::SlowestStage { stage } => format!("{} is the slowest stage", name(stage)),
        Because::NoWork => "it shows no work".to_owned(),
        Because::ManyNames { share } => format!("{} of its work is spread over very many names", percent(*share)),
        Because::WorkNotNamed { share } => format!("{} of its work is outside of the states of its probes", percent(*share)),
        Because::NoStateLeads { first, next, is_ahead } => {
            let takes = |of: &StateShare| format!("{} takes {}", of.state.name, measured(of.share, of.error));
            let best = [Some(first), next.as_ref()].into_iter().flatten().map(takes).collect::<Vec<_>>().join(", ");
            match is_ahead {
                true => format!("no state dominates it ({best})"),
                false => format!("no state leads beyond the noise ({best})"),
            }
        }
        Because::FewCalls { call } => {
            format!("what it waits for most, {call}, is neither called once per item nor slow by itself")
        }
        Because::CalledBy { caller, call } => format!("{} calls it as {call}", name(caller)),
        Because::Finding(found) => format!("{}; {}", found.what, found.remedy),
        Because::ByItself(found) => format!("By itself, {}: {}", found.what, found.remedy),
        Because::ProbeCost { share: None } => "probe cost not measured".to_owned(),
        Because::ProbeCost { share: Some(share) } => format!("{} probe cost left out", percent(*share)),
        Because::SameThreads { count } => format!("{count} threads do the same; the shares are those of the busiest"),
        Because::Waits { waiter, share, waits_for, queue } => {
            let what = match waits_for {
                WaitedFor::Space => "space in",
                WaitedFor::Items => "items from",
                WaitedFor::Backlog => "the remaining items of",
            };
            format!("{} waits {} of its time for {what} {queue}", name(waiter), percent(*share))
        }
        Because::LostPackets { share, remedy, .. } => format!("{} of all packets are lost there; {remedy}", percent(*share)),
        // The other reasons apply to processes only.
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::data::{StateNamed, SubjectLevel};
    use super::*;

    fn named(name: &str) -> Named {
        Named::of_name(SubjectLevel::Thread, name)
    }

    fn state(kind: SubjectState, name: &str) -> StateNamed {
        StateNamed { kind, name: name.to_owned() }
    }

    fn bottleneck(basis: Basis, because: Vec<Because>) -> Verdict {
        let verdict = Verdict { because, unknown_share: Some(0.01), lost: 5, ..Verdict::new(Outcome::Bottleneck, basis) };
        verdict.about("server", Some(state(SubjectState::Declared, "parse"))).with_share(Some(0.6), Some(0.02))
    }

    #[test]
    fn two_changes_that_help_only_together_follow_the_caveats_of_a_state() {
        let together = Because::OnlyTogether {
            changes: vec!["a::x x0.5".to_owned(), "b::y x0.5".to_owned()],
            states: vec!["a::x".to_owned(), "b::y".to_owned()],
            gains: vec![0.01, -0.02],
            gain: 0.5,
        };
        let caveats = vec![Caveat::RunningUnknown];
        assert_eq!(
            Verdict { caveats, ..bottleneck(Basis::States, vec![together]) }.text(),
            "server is the bottleneck: parse takes 60.0 % ± 2.0 % of the critical path, 1.0 % of the path unknown, 5 events lost; \
             the trace does not show whether it runs or waits there (`longpole record --kernel sched`, as root, records it); \
             a::x and b::y limit it only together: a::x x0.5 and b::y x0.5 bring +1.0 % and -2.0 % alone, and +50.0 % together."
        );
    }

    #[test]
    fn facts_about_a_stage_follow_its_figures() {
        let waits = |waiter: &str, waits_for| Because::Waits { waiter: named(waiter), share: 0.5, waits_for, queue: "q".to_owned() };
        let because = vec![
            Because::CalledBy { caller: named("router"), call: "look up".to_owned() },
            Because::ProbeCost { share: Some(0.03) },
            Because::SameThreads { count: 4 },
            waits("source", WaitedFor::Space),
            waits("sink", WaitedFor::Items),
        ];
        assert_eq!(
            bottleneck(Basis::Stages, because).text(),
            "server is the bottleneck: parse (called by router as look up) takes 60.0 % ± 2.0 % of the work of router, \
             1.0 % of its time unknown, 5 events lost, 3.0 % probe cost left out. \
             4 threads do the same; the shares are those of the busiest. \
             source waits 50.0 % of its time for space in q; sink waits 50.0 % of its time for items from q."
        );
    }

    #[test]
    fn without_a_bottleneck_the_text_names_the_closest_candidate() {
        let part = Measured { subject: named("a"), state: state(SubjectState::Declared, "work"), share: 0.3, error: 0.01 };
        let next = Measured { subject: named("b"), ..part.clone() };
        let because = vec![Because::Largest { part, whole: None }, Because::NotAhead { next }];
        let verdict = Verdict { because, unknown_share: Some(0.0), ..Verdict::new(Outcome::Spread, Basis::States) };
        let why = "a::work has the most, 30.0 % ± 1.0 % of the critical path, but b::work is not smaller beyond the noise (30.0 % ± 1.0 %)";
        let end = "0.0 % of the path unknown, 0 events lost";
        assert_eq!(verdict.text(), format!("Nothing stands out: {why}, {end}."));
        assert_eq!(verdict.spread_as_unknown().text(), format!("The bottleneck cannot be determined: {why}, {end}."));
    }

    #[test]
    fn lost_packets_are_the_bottleneck_where_nothing_else_is() {
        let because = vec![Because::LostPackets { count: 90, share: 0.2, remedy: "read sooner".to_owned() }];
        let mechanism = Some(super::super::Mechanism::PacketLoss);
        let verdict = Verdict { mechanism, ..bottleneck(Basis::Stages, because) };
        assert_eq!(verdict.text(), "server is the bottleneck: 20.0 % of all packets are lost there, 5 events lost; read sooner.");
    }

    #[test]
    fn recordings_that_disagree_are_listed() {
        let agreed = |name: Option<&str>, runs| Agreed { subject: name.map(named), state: None, runs };
        let because = vec![Because::Disagreement { verdicts: vec![agreed(Some("a"), 2), agreed(None, 1)] }];
        let verdict = Verdict { because, ..Verdict::new(Outcome::Spread, Basis::States) };
        assert_eq!(verdict.text(), "Nothing stands out: the recordings do not agree (a in 2, nothing in 1), ? unknown, 0 events lost.");
    }
}
