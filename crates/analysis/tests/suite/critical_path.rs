//! The critical path of machine logs: each rule with an answer worked out by hand, and random
//! systems compared with a backward walk.

mod endings;
mod folded;
mod limits;

use crate::support::walk;
use crate::support::walk::{system, History, Kind, Line, Piece};
use longpole_analysis::critical_path::{Answer, CriticalPath, Mode, Options, Spill};
use longpole_analysis::machine_log::Reader;
use proptest::prelude::*;

fn with(options: Options, log: &str) -> Answer {
    let mut reader = Reader::new(log.as_bytes());
    let mut critical_path = CriticalPath::new(options);
    while let Some(interaction) = reader.next_interaction().unwrap() {
        critical_path.interaction(reader.vocabulary(), &interaction);
        let sizes = critical_path.sizes();
        assert!(sizes.nodes <= 2 * sizes.tips, "{sizes:?}");
    }
    critical_path.answer(reader.vocabulary()).unwrap()
}

fn options(mode: Mode, machine: Option<&str>) -> Options {
    Options { mode, machine: machine.map(str::to_owned), segments: true, ..Options::default() }
}

fn pieces(answer: &Answer) -> Vec<Piece> {
    let segments = answer.segments.as_ref().unwrap();
    segments.segments().map(|it| (it.start_ns, it.end_ns, it.machine.to_owned(), it.state.to_owned())).collect()
}

/// The path in the form `0-2 B::run, 2-6 link::wakeup`.
fn drawn(answer: &Answer) -> String {
    let text = pieces(answer).into_iter().map(|(start, end, machine, state)| format!("{start}-{end} {machine}::{state}"));
    text.collect::<Vec<_>>().join(", ")
}

/// Converts lines `t machine key=value …` to lines of a machine log. `-` as time or machine leaves
/// it out. Values that are neither numbers nor `true` or `null` are strings.
fn lines(text: &str) -> String {
    let value = |value: &str| match value {
        "true" | "null" => value.to_owned(),
        value if value.parse::<u64>().is_ok() => value.to_owned(),
        value => format!("\"{value}\""),
    };
    let line = |line: &str| {
        let mut words = line.split_whitespace();
        let (t, machine) = (words.next().unwrap(), words.next().unwrap());
        let mut members = Vec::new();
        if t != "-" {
            members.push(format!("\"t\":{t}"));
        }
        if let Some((host, name)) = machine.split_once('/') {
            members.push(format!("\"host\":\"{host}\",\"machine\":\"{name}\""));
        } else if machine != "-" {
            members.push(format!("\"machine\":\"{machine}\""));
        }
        members.extend(words.map(|word| {
            let (key, said) = word.split_once('=').unwrap();
            format!("\"{key}\":{}", value(said))
        }));
        format!("{{{}}}\n", members.join(","))
    };
    text.lines().filter(|text| !text.trim().is_empty()).map(line).collect()
}

fn global(text: &str) -> String {
    drawn(&with(options(Mode::Global, None), &lines(text)))
}

fn active(machine: &str, text: &str) -> String {
    drawn(&with(options(Mode::Active, Some(machine)), &lines(text)))
}

const WAKE: &str = "
    0 A state=run
    0 B state=run
    3 A blocked=wait
    6 A woken_by=B at=2
    6 A state=run
    9 - end=A";

#[test]
fn a_wake_up_leads_to_the_waker_and_its_link_is_clipped_by_the_block_in_active_form() {
    assert_eq!(global(WAKE), "0-2 B::run, 2-6 link::wakeup, 6-9 A::run");
    assert_eq!(active("A", WAKE), "0-3 A::run, 3-6 link::wakeup, 6-9 A::run");
}

#[test]
fn between_a_wake_up_and_running_a_machine_is_runnable() {
    let text = "0 A state=a\n0 B state=b\n1 A blocked=x\n4 A woken_by=B\n6 A state=a\n8 - end=A";
    assert_eq!(global(text), "0-4 B::b, 4-6 A::runnable, 6-8 A::a");
}

#[test]
fn time_before_a_machine_begins_is_unknown_and_the_path_has_the_whole_length() {
    assert_eq!(global("0 A state=a\n5 B state=b\n9 - end=B"), "0-5 B::UNKNOWN, 5-9 B::b");
    assert_eq!(global("0 A state=a\n5 B forked_by=A\n9 - end=B"), "0-5 A::a, 5-9 B::run");
    assert_eq!(global("0 A state=a\n5 B forked_by=A at=3 link=exec\n9 - end=B"), "0-3 A::a, 3-5 link::exec, 5-9 B::run");
}

#[test]
fn after_a_stop_the_state_is_unknown_until_the_next_start() {
    assert_eq!(global("0 A state=a\n4 A stop=true\n6 B state=b\n9 - end=A"), "0-4 A::a, 4-9 A::UNKNOWN");
    assert_eq!(global("0 A state=a\n4 A stop=true\n6 A state=c\n9 - end=A"), "0-6 A::UNKNOWN, 6-9 A::c");
    assert_eq!(active("A", "0 A state=a\n4 A stop=true\n6 A state=c\n9 - end=A"), "0-4 A::a, 4-6 A::UNKNOWN, 6-9 A::c");
}

#[test]
fn a_block_that_a_state_ends_or_that_never_ends_remains_and_counts_as_unknown() {
    let text = "0 A state=a\n2 A blocked=x\n5 A state=b\n7 A blocked=y\n9 - end=A";
    assert_eq!(global(text), "0-2 A::a, 2-5 A::blocked:x, 5-7 A::b, 7-9 A::blocked:y");
    let answer = with(options(Mode::Global, None), &lines(text));
    assert_eq!(answer.unknown_ns, 5);
    assert_eq!(active("A", text), global(text));
}

#[test]
fn an_unknown_waker_ends_the_global_path_and_leaves_the_block_unknown_in_active_form() {
    let text = "0 A state=a\n2 A blocked=x\n5 A woken_by=null\n5 A state=b\n9 - end=A";
    assert_eq!(global(text), "0-5 A::UNKNOWN, 5-9 A::b");
    assert_eq!(active("A", text), "0-2 A::a, 2-5 A::UNKNOWN, 5-9 A::b");
}

#[test]
fn a_cause_that_is_several_windows_earlier_is_found() {
    // The waker's path at 2 begins at a put at 1; by 8 only its symbol is remembered.
    let text = "0 A state=a\n0 B state=b\n0 C state=c\n0 C blocked=x\n1 A put=q\n2 C get=q\n3 C state=c\n4 C state=d\n5 C state=e\n6 C state=f\n7 B blocked=x\n8 B woken_by=C at=4\n8 B state=z\n9 - end=B";
    let whole = with(options(Mode::Global, None), &lines(text));
    assert_eq!(drawn(&whole), "0-1 A::a, 1-2 q::queued, 2-4 C::c, 4-8 link::wakeup, 8-9 B::z");
    for window in 1..16 {
        let parts = with(Options { window: Some(window), jobs: 1 + window % 3, ..options(Mode::Global, None) }, &lines(text));
        assert_eq!(parts, whole, "{window}");
    }
}

#[test]
fn a_wake_up_of_a_machine_that_is_not_blocked_is_counted_and_ignored() {
    let answer = with(options(Mode::Global, None), &lines("0 A state=a\n0 B state=b\n5 A woken_by=B\n9 - end=A"));
    assert_eq!((drawn(&answer).as_str(), answer.ignored_wakeups), ("0-9 A::a", 1));
}

#[test]
fn a_cause_in_the_future_counts_as_now_and_is_counted() {
    let answer =
        with(options(Mode::Global, None), &lines("0 A state=a\n0 B state=b\n2 A blocked=x\n5 A woken_by=B at=7\n5 A state=a\n9 - end=A"));
    assert_eq!((drawn(&answer).as_str(), answer.negative_links), ("0-5 B::b, 5-9 A::a", 1));
}

#[test]
fn a_timer_leads_back_to_the_machine_that_set_it() {
    let text = "0 A state=a\n2 A state=arm\n4 A blocked=sleep\n9 A woken_by=A at=3 link=timer\n9 A state=b\n10 - end=A";
    assert_eq!(global(text), "0-2 A::a, 2-3 A::arm, 3-9 link::timer, 9-10 A::b");
    assert_eq!(active("A", text), "0-2 A::a, 2-4 A::arm, 4-9 link::timer, 9-10 A::b");
}

#[test]
fn the_critical_path_at_a_moment_is_the_one_of_that_time_even_if_it_was_dropped_since() {
    // At 4, B was blocked; C wakes it only at 6.
    let text =
        "0 A state=a\n0 B state=b\n0 C state=c\n1 A blocked=x\n3 B blocked=y\n6 B woken_by=C\n7 B state=b\n8 A woken_by=B at=4\n9 - end=A";
    assert_eq!(global(text), "0-3 B::b, 3-4 B::blocked:y, 4-8 link::wakeup, 8-9 A::runnable");
}

#[test]
fn the_last_arriving_unit_is_the_cause() {
    let text = "0 A state=a\n0 B state=b\n0 C state=c\n1 C blocked=x\n2 A put=q\n5 B put=q\n6 C get=q n=2\n9 - end=C";
    assert_eq!(global(text), "0-5 B::b, 5-6 q::queued, 6-9 C::c");
    // One unit only: the first in, or the last in.
    let one = text.replace("n=2", "n=1");
    assert_eq!(global(&one), "0-2 A::a, 2-6 q::queued, 6-9 C::c");
    let lifo =
        "- - queue=q order=lifo\n0 A state=a\n0 B state=b\n0 C state=c\n1 C blocked=x\n2 A put=q\n5 B put=q n=3\n6 C get=q n=2\n9 - end=C";
    assert_eq!(global(lifo), "0-5 B::b, 5-6 q::queued, 6-9 C::c");
}

#[test]
fn the_rest_of_a_split_token_keeps_its_origin() {
    let text = "- - queue=q unit=bytes
        0 A state=a\n0 B state=b\n1 B blocked=x\n3 A put=q n=1500\n4 B get=q n=500\n5 A state=z\n6 B blocked=x\n7 B get=q n=1000\n9 - end=B";
    assert_eq!(global(text), "0-3 A::a, 3-7 q::queued, 7-9 B::b");
}

#[test]
fn a_put_before_the_block_began_is_still_its_cause() {
    let text = "0 A state=a\n0 B state=b\n1 A put=q\n4 B blocked=x\n6 B get=q\n9 - end=B";
    assert_eq!(global(text), "0-1 A::a, 1-6 q::queued, 6-9 B::b");
    assert_eq!(active("B", text), "0-4 B::b, 4-6 q::queued, 6-9 B::b");
}

#[test]
fn merged_signals_come_from_the_signal_that_made_the_queue_non_empty() {
    let text =
        "- - queue=s merge=true\n0 A state=a\n0 B state=b\n0 C state=c\n1 C blocked=x\n2 A put=s\n5 B put=s\n6 C get=s n=all\n9 - end=C";
    assert_eq!(global(text), "0-2 A::a, 2-6 s::queued, 6-9 C::c");
}

#[test]
fn a_get_of_one_flow_takes_only_its_tokens() {
    let text = "0 A state=a\n0 B state=b\n0 C state=c\n1 C blocked=x\n2 A put=q flow=f\n5 B put=q flow=g\n6 C get=q flow=f\n9 - end=C";
    assert_eq!(global(text), "0-2 A::a, 2-6 q::queued, 6-9 C::c");
}

#[test]
fn a_put_that_waited_for_space_comes_from_the_get_that_made_it() {
    let text =
        "- - queue=q capacity=1\n0 A state=a\n0 B state=b\n1 A put=q\n2 A blocked=full on=q for=space\n6 B get=q\n7 A put=q\n9 - end=A";
    assert_eq!(global(text), "0-6 B::b, 6-7 q::queued, 7-9 A::a");
}

#[test]
fn reserved_space_is_used_first() {
    let text = "- - queue=q capacity=2\n0 A state=a\n1 A reserve=q n=2\n2 A put=q n=2\n3 B get=q n=2\n4 B reserve=q\n5 A blocked=full\n6 A put=q\n9 - end=A";
    // B took one unit of space early and A the other one; both come from B's get at 3.
    assert_eq!(global(text), "0-3 B::UNKNOWN, 3-6 q::queued, 6-9 A::a");
    let answer = with(options(Mode::Global, None), &lines(text));
    assert_eq!(answer.contradictions, 0);
}

#[test]
fn initial_tokens_have_no_cause() {
    let text = "- - queue=lock capacity=1 initial=1\n0 A state=a\n2 A blocked=x\n4 A get=lock\n9 - end=A";
    assert_eq!(global(text), "0-2 A::a, 2-4 A::blocked:x, 4-9 A::a");
}

#[test]
fn an_impossible_line_is_counted_with_its_number_and_its_cause_is_unknown() {
    let text = "- - queue=q capacity=1\n0 A state=a\n2 A blocked=x\n4 A get=q\n5 A put=q n=2\n9 - end=A";
    let answer = with(options(Mode::Global, None), &lines(text));
    assert_eq!(drawn(&answer), "0-4 A::UNKNOWN, 4-9 A::a");
    let told: Vec<(u64, &str)> = answer.contradiction_list.iter().map(|it| (it.line, it.what.as_str())).collect();
    assert_eq!(told, [(4, "\"A\" gets 1 from \"q\", which does not hold them"), (5, "\"A\" puts 1 into \"q\" beyond its capacity")]);
}

#[test]
fn slack_is_the_time_for_which_the_latest_unit_has_been_there() {
    let text = "0 A state=a\n0 B state=b\n1 A put=q\n3 A put=q\n8 B get=q n=2\n9 - end=B";
    let answer = with(options(Mode::Global, None), &lines(text));
    assert_eq!((drawn(&answer).as_str(), answer.criticality[0].slack_ns), ("0-9 B::b", Some(5)));
}

#[test]
fn between_hosts_a_link_is_a_wire() {
    let text = "0 h1/A state=a\n0 h2/B state=b\n1 h2/B blocked=x\n2 h1/A put=net\n5 h2/B get=net\n9 h2/B state=b";
    assert_eq!(global(text), "0-2 A::a, 2-5 net::wire, 5-9 B::b");
}

#[test]
fn a_context_interrupts_the_machine_below_and_takes_the_critical_path_of_its_first_token() {
    let text = "0 A state=a\n0 D state=d\n1 A blocked=x\n2 D put=nic\n3 B state=b\n4 irq on_top_of=B\n5 irq get=nic\n6 A woken_by=irq\n7 irq pop=true\n8 A state=a\n9 - end=A";
    assert_eq!(global(text), "0-2 D::d, 2-5 nic::queued, 5-6 irq::run, 6-8 A::runnable, 8-9 A::a");
    assert_eq!(active("B", text), "0-3 B::UNKNOWN, 3-4 B::b, 4-7 B::interrupted, 7-9 B::b");
}

#[test]
fn a_context_without_a_cause_has_no_history() {
    let text = "0 A state=a\n1 A blocked=x\n4 irq on_top_of=null\n6 A woken_by=irq\n7 irq pop=true\n9 - end=A";
    assert_eq!(global(text), "0-4 irq::UNKNOWN, 4-6 irq::run, 6-9 A::runnable");
    let forked = text.replace("on_top_of=null", "on_top_of=null forked_by=A at=0");
    assert_eq!(global(&forked), "0-4 link::wakeup, 4-6 irq::run, 6-9 A::runnable");
    let woken = text.replace("6 A woken", "5 irq woken_by=A at=1\n6 A woken");
    assert_eq!(global(&woken), "0-1 A::a, 1-5 link::wakeup, 5-6 irq::run, 6-9 A::runnable");
}

#[test]
fn within_a_block_the_blocks_of_others_are_resolved_and_their_own_time_counts_again() {
    // wPerf's Figure 4: the user waits for the parser, which waits for the network from 20 on.
    let text = "0 U blocked=x\n0 P state=p\n0 N state=n\n20 P blocked=y\n100 N put=a\n100 P get=a\n100 P put=b\n100 U get=b\n100 - end=U";
    assert_eq!(active("U", text), "0-20 P::p, 20-100 N::n");
    assert_eq!(global(text), "0-100 N::n");
    let disk = "0 U blocked=x\n0 P state=p\n0 N state=n\n0 D state=d\n20 P blocked=y\n50 N blocked=z\n100 D put=c\n100 N get=c\n100 N put=a\n100 P get=a\n100 P put=b\n100 U get=b\n100 - end=U";
    assert_eq!(active("U", disk), "0-20 P::p, 20-50 N::n, 50-100 D::d");
}

#[test]
fn a_busy_machine_for_which_no_other_waits_is_not_on_the_path() {
    let text = "0 main state=start\n1 a forked_by=main\n1 a state=long\n1 b forked_by=main\n1 b state=hot\n1 main blocked=join\n60 b put=done\n100 a put=done\n100 a stop=true\n100 main get=done n=2\n100 main state=finish\n110 - end=main";
    let answer = with(options(Mode::Global, None), &lines(text));
    assert_eq!(drawn(&answer), "0-1 main::start, 1-100 a::long, 100-110 main::finish");
    let ranks: Vec<(&str, Option<u64>)> = answer.criticality.iter().map(|row| (row.state.as_str(), row.profile_rank)).collect();
    assert_eq!(ranks, [("long", Some(2)), ("finish", Some(3)), ("start", Some(4))]);
}

#[test]
fn the_state_run_is_no_code_that_two_programs_share() {
    let text = "0 A class=a state=run\n0 B class=b state=run\n0 C class=c state=parse\n9 B stop=true\n9 C stop=true\n10 - end=A";
    let answer = with(options(Mode::Global, None), &lines(text));
    let profile: Vec<(Option<&str>, &str)> = answer.profile.iter().map(|it| (it.class.as_deref(), it.state.as_str())).collect();
    assert_eq!(profile, [(Some("a"), "run"), (Some("c"), "parse"), (Some("b"), "run")]);
}

#[test]
fn equal_states_share_a_rank_and_links_have_none() {
    let text = "0 A state=a\n0 B state=b\n0 C state=c\n2 A put=q\n2 A stop=true\n2 B stop=true\n3 C blocked=x\n4 C get=q\n6 - end=C";
    let answer = with(options(Mode::Global, None), &lines(text));
    let mut ranks: Vec<(&str, Option<u64>)> = answer.criticality.iter().map(|row| (row.state.as_str(), row.profile_rank)).collect();
    ranks.sort_unstable();
    assert_eq!(ranks, [("a", Some(2)), ("c", Some(1)), ("queued", None)]);
}

#[test]
fn the_end_line_cuts_the_path_and_a_requested_machine_ends_there() {
    let text = "0 A state=a\n0 B state=b\n4 - end=A\n6 A state=z\n9 B state=y";
    assert_eq!(global(text), "0-4 A::a");
    assert_eq!(drawn(&with(options(Mode::Global, Some("B")), &lines(text))), "0-4 B::b");
    assert_eq!(active("A", text), "0-4 A::a");
}

#[test]
fn a_requested_machine_that_does_not_occur_is_an_error() {
    let mut reader = Reader::new(&b"{\"t\":0,\"machine\":\"A\"}"[..]);
    let mut critical_path = CriticalPath::new(options(Mode::Global, Some("Z")));
    while let Some(interaction) = reader.next_interaction().unwrap() {
        critical_path.interaction(reader.vocabulary(), &interaction);
    }
    assert_eq!(critical_path.answer(reader.vocabulary()).unwrap_err().to_string(), "there is no machine \"Z\" in it; the nearest: A");
}

/// The tree only grows with the number of machines and of items in flight, not with the length of
/// the trace.
#[test]
fn the_tree_and_the_log_stay_small() {
    let mut text = String::from("{\"queue\":\"q\",\"capacity\":4}\n");
    for n in 0u64..20_000 {
        let t = n * 10;
        text += &format!("{{\"t\":{t},\"machine\":\"A\",\"put\":\"q\"}}\n{{\"t\":{t},\"machine\":\"A\",\"blocked\":\"x\"}}\n");
        text += &format!("{{\"t\":{},\"machine\":\"B\",\"get\":\"q\"}}\n{{\"t\":{},\"machine\":\"B\",\"put\":\"ack\"}}\n", t + 3, t + 7);
        text += &format!("{{\"t\":{},\"machine\":\"A\",\"get\":\"ack\"}}\n", t + 9);
    }
    let mut reader = Reader::new(text.as_bytes());
    let mut critical_path = CriticalPath::new(Options { most_past: 64, ..Options::default() });
    while let Some(interaction) = reader.next_interaction().unwrap() {
        critical_path.interaction(reader.vocabulary(), &interaction);
        let sizes = critical_path.sizes();
        assert!(sizes.nodes <= 2 * sizes.tips && sizes.tips < 64, "{sizes:?}");
    }
}

#[test]
fn tokens_that_are_never_taken_need_bounded_memory() {
    let mut text = String::new();
    for n in 0u64..5_000 {
        text += &format!("{{\"t\":{n},\"machine\":\"A\",\"put\":\"q\"}}\n");
    }
    text += "{\"t\":5000,\"machine\":\"B\"}\n{\"t\":5001,\"machine\":\"B\",\"blocked\":\"x\"}\n";
    let old = format!("{text}{{\"t\":5005,\"machine\":\"B\",\"get\":\"q\"}}\n");
    let new = format!("{text}{{\"t\":5005,\"machine\":\"B\",\"get\":\"q\",\"n\":\"all\"}}\n");
    let few = || Options { most_tokens: 100, ..options(Mode::Global, None) };
    let answer = with(few(), &old);
    assert!(answer.forgotten_causes >= 4_900, "{}", answer.forgotten_causes);
    assert_eq!(drawn(&answer), "0-5005 B::UNKNOWN");
    assert_eq!(drawn(&with(few(), &new)), "0-4999 A::run, 4999-5005 q::queued");
}

#[test]
fn a_taking_is_nearly_critical_if_its_supply_came_within_a_twentieth_of_the_cycle() {
    // B takes at 100, 200 and 300 in state b; the items had been there for 40, 5 and 6 ns.
    let text = "0 A state=a\n0 B state=b\n60 A put=q\n100 B get=q\n195 A put=q\n200 B get=q\n294 A put=q\n300 B get=q\n310 - end=B";
    let answer = with(options(Mode::Global, None), &lines(text));
    let row = answer.criticality.iter().find(|row| row.machine == "B").unwrap();
    assert_eq!((row.slack_ns, row.near_critical_share), (Some(5), Some(0.5)));
    let none = with(options(Mode::Global, None), &lines("0 A state=a\n5 - end=A"));
    assert_eq!(none.criticality[0].near_critical_share, None);
}

/// A few lines repeated, so that the path is long.
fn long_log((kinds, some): &(Vec<Kind>, Vec<Line>)) -> String {
    let many: Vec<Line> = some.iter().cloned().cycle().take(4_000).collect();
    walk::log(kinds, &many)
}

#[test]
fn the_effect_that_ends_a_contexts_block_decides_its_critical_path_and_not_the_following_get() {
    let until = "0 A state=run\n0 B state=run\n0 T state=run\n1 A put=seen\n2 T blocked=recv\n3 B put=rx\n4 irq on_top_of=null\n5 irq blocked=look\n";
    let after = "7 irq get=rx\n8 irq put=done\n8 irq pop=true\n9 T get=done\n10 - end=T\n";
    for by in ["6 irq peek=seen", "6 irq get=seen", "6 irq woken_by=A at=1 link=queued"] {
        let answer = with(options(Mode::Global, None), &lines(&format!("{until}{by}\n{after}")));
        let link = if by.contains("woken") { "link" } else { "seen" };
        let wanted = format!("0-1 A::run, 1-6 {link}::queued, 6-8 irq::run, 8-9 done::queued, 9-10 T::run");
        let told = drawn(&answer).replace("6-8 irq::runnable", "6-8 irq::run");
        assert_eq!(told, wanted, "{by}");
    }
}

#[test]
fn an_end_line_of_an_unknown_machine_is_a_contradiction_that_names_the_nearest() {
    let log = lines("0 h1/A state=run\n0 h2/C state=run\n5 h1/A state=more\n9 - end=C\n");
    let answer = with(options(Mode::Global, None), &log);
    assert_eq!((answer.length_ns, answer.unknown_ns, answer.contradictions), (9, 9, 1));
    let told = &answer.contradiction_list[0];
    assert_eq!(told.line, 4);
    assert_eq!(told.what, "\"C\" has not acted before that time, so the path cannot end there; the nearest machine is \"h2/C\"");
    // For a requested machine, the line only gives the time.
    let asked = with(options(Mode::Global, Some("h2/C")), &log);
    assert_eq!((asked.length_ns, asked.unknown_ns, asked.contradictions), (9, 0, 0));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    #[test]
    fn a_path_in_a_file_is_the_same(system in system(), window in proptest::option::of(1usize..2_000)) {
        let log = long_log(&system);
        let whole = with(options(Mode::Global, None), &log);
        let spill = Some(Spill { make: tempfile::tempfile, from: 300 });
        let spilled = with(Options { spill, window, jobs: 2, ..options(Mode::Global, None) }, &log);
        prop_assert_eq!(spilled, whole);
        let machine = format!("m{}", system.1[0].1);
        let active = || options(Mode::Active, Some(&machine));
        prop_assert_eq!(with(Options { spill, ..active() }, &log), with(active(), &log));
    }
}

#[test]
fn a_long_path_in_a_file_needs_little_memory() {
    let mut text = String::from("0 A state=a\n0 B blocked=x\n0 C state=c\n");
    for round in 0..20_000u64 {
        let t = round * 10;
        text += &format!("{} A put=q\n{} A blocked=y\n{} B get=q\n{} B state=s{}\n", t + 2, t + 2, t + 3, t + 3, round % 3);
        // Now and then the earlier path of a machine is needed.
        text += &format!("{} B put=r\n{} B blocked=x\n{} A get=r\n{} A state=a\n", t + 7, t + 7, t + 7, t + 7);
        if round % 100 == 99 {
            text += &format!("{} C blocked=z\n{} C woken_by=A at={} link=late\n", t + 8, t + 9, t - 300);
        }
    }
    text += "300000 - end=A";
    let log = lines(&text);
    for (mode, machine) in [(Mode::Global, None), (Mode::Active, Some("A"))] {
        let whole = with(options(mode, machine), &log);
        let mut reader = Reader::new(log.as_bytes());
        let mut critical_path =
            CriticalPath::new(Options { spill: Some(Spill { make: tempfile::tempfile, from: 1_000 }), ..options(mode, machine) });
        let mut most = 0;
        while let Some(interaction) = reader.next_interaction().unwrap() {
            critical_path.interaction(reader.vocabulary(), &interaction);
            most = most.max(critical_path.sizes().segments);
        }
        let spilled = critical_path.answer(reader.vocabulary()).unwrap();
        assert!(
            pieces(&whole).len() > 60_000 && most < if mode == Mode::Global { 20_000 } else { 70_000 },
            "{} {most}",
            pieces(&whole).len()
        );
        assert_eq!(spilled, whole);
        // Without a file, the path stays in memory.
        let nowhere = Some(Spill { make: || Err(std::io::Error::other("no room")), from: 1_000 });
        assert_eq!(with(Options { spill: nowhere, ..options(mode, machine) }, &log), whole);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]

    #[test]
    fn the_pass_equals_a_backward_walk_over_the_whole_history((kinds, lines) in system()) {
        let log = walk::log(&kinds, &lines);
        let answer = with(options(Mode::Global, None), &log);
        let history = History::of(&kinds, &lines);
        if let Some((end, path)) = history.path(u64::from(lines[0].0)) {
            prop_assert_eq!(answer.end_ns, end);
            prop_assert_eq!(pieces(&answer), path, "{}", log);
            prop_assert_eq!(answer.contradictions, history.contradictions);
        }
    }

    #[test]
    fn profile_and_segments_agree_whatever_is_recorded((kinds, lines) in system()) {
        let log = walk::log(&kinds, &lines);
        let whole = with(options(Mode::Global, None), &log);
        let bare = with(Options { segments: false, ..options(Mode::Global, None) }, &log);
        prop_assert_eq!(&whole.criticality, &bare.criticality);
        let mut sums: Vec<(String, String, u64)> = Vec::new();
        for (start, end, machine, state) in pieces(&whole) {
            match sums.iter_mut().find(|sum| sum.0 == machine && sum.1 == state) {
                Some(sum) => sum.2 += end - start,
                None => sums.push((machine, state, end - start)),
            }
        }
        let mut rows: Vec<_> = whole.criticality.iter().map(|row| (row.machine.clone(), row.state.clone(), row.ns)).collect();
        sums.sort();
        rows.sort();
        prop_assert_eq!(sums, rows);
    }

    #[test]
    fn windows_and_threads_change_nothing((kinds, lines) in system(), with_segments in any::<bool>()) {
        let log = walk::log(&kinds, &lines);
        let options = Options { segments: with_segments, ..options(Mode::Global, None) };
        let whole = with(options.clone(), &log);
        for (window, jobs) in [(1, 1), (2, 2), (3, 1), (7, 4), (64, 2)] {
            let parts = with(Options { window: Some(window), jobs, ..options.clone() }, &log);
            prop_assert_eq!(&parts, &whole, "{} of {}: {}", window, jobs, log);
        }
    }

    #[test]
    fn the_active_path_is_whole_and_keeps_the_machines_own_time((kinds, lines) in system()) {
        let log = walk::log(&kinds, &lines);
        let machine = format!("m{}", lines[0].1);
        let answer = with(options(Mode::Active, Some(&machine)), &log);
        let sum: u64 = pieces(&answer).iter().map(|piece| piece.1 - piece.0).sum();
        prop_assert_eq!(sum, answer.length_ns);
    }
}
