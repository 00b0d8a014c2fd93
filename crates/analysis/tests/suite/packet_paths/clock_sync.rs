//! Clocks with a known truth are synchronised by messages with random delays.

use longpole_analysis::network::clock_sync::{estimate, Failure, Message, Way};
use proptest::prelude::*;

const BEGIN: i64 = 1_700_000_000_000_000_000;

/// Returns the other clock's time at a true time.
fn other(true_ns: i64, offset_ns: i64, drift: f64) -> i64 {
    true_ns - offset_ns - ((true_ns - BEGIN) as f64 * drift).round() as i64
}

/// Returns a message that was sent at a true time and took some time.
fn message(way: Way, sent_ns: i64, delay_ns: i64, (offset_ns, drift): (i64, f64)) -> Message {
    let (reference, there) = match way {
        Way::There => (sent_ns, sent_ns + delay_ns),
        Way::Back => (sent_ns + delay_ns, sent_ns),
    };
    Message { way, reference_ns: reference, other_ns: other(there, offset_ns, drift) }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn the_truth_is_within_the_reported_error(
        offset_ns in -3_600_000_000_000i64..3_600_000_000_000,
        drift in -5e-4f64..5e-4,
        sent in prop::collection::vec((0i64..60_000_000_000, 0i64..3_000_000, any::<bool>()), 2..200),
        margin in 0i64..10_000_000_000,
    ) {
        let messages: Vec<Message> = sent
            .iter()
            .map(|&(at, delay, there)| message(if there { Way::There } else { Way::Back }, BEGIN + at, delay, (offset_ns, drift)))
            .collect();
        let ways = [Way::There, Way::Back].map(|way| messages.iter().any(|message| message.way == way));
        let range = (other(BEGIN - margin, offset_ns, drift), other(BEGIN + 60_000_000_000 + margin, offset_ns, drift));
        match estimate(&messages, Some(range)) {
            Ok(found) => {
                prop_assert_eq!(ways, [true, true]);
                for at in [BEGIN - margin, BEGIN, BEGIN + 30_000_000_000, BEGIN + 60_000_000_000 + margin] {
                    let corrected = found.shift.apply(other(at, offset_ns, drift));
                    prop_assert!(corrected.abs_diff(at) <= found.error_ns + 2, "{} > {}", corrected.abs_diff(at), found.error_ns);
                }
            }
            Err(Failure::OneWay { .. }) => prop_assert!(ways != [true, true]),
            Err(failure) => prop_assert!(false, "{failure}"),
        }
    }
}

#[test]
fn many_messages_leave_an_error_of_about_the_fastest_ones() {
    let clock = (1_234_567_890, 2e-5);
    // Every tenth message takes 20 µs, all others up to 2 ms.
    let messages: Vec<Message> = (0..10_000i64)
        .map(|n| {
            let delay = if n % 10 < 2 { 20_000 } else { 20_000 + n * 7919 % 2_000_000 };
            message(if n % 2 == 0 { Way::There } else { Way::Back }, BEGIN + n * 1_000_000, delay, clock)
        })
        .collect();
    let found = estimate(&messages, None).unwrap();
    assert!((20_000..25_000).contains(&found.error_ns), "{found:?}");
    assert!((found.shift.drift - 2e-5).abs() < 1e-8, "{found:?}");
    assert!(found.drifts.0 <= 2e-5 && 2e-5 <= found.drifts.1, "{found:?}");
}

#[test]
fn messages_in_one_direction_yield_a_bound_and_no_offset() {
    let messages: Vec<Message> = (0..50).map(|n| message(Way::There, BEGIN + n * 1_000_000, 5_000 + n * 17, (1_000_000, 0.0))).collect();
    // The other clock is 1 ms behind; the fastest packet took 5 µs.
    assert_eq!(estimate(&messages, None), Err(Failure::OneWay { way: Way::There, bound_ns: 995_000 }));
    let messages: Vec<Message> = (0..50).map(|n| message(Way::Back, BEGIN + n * 1_000_000, 5_000 + n * 17, (1_000_000, 0.0))).collect();
    assert_eq!(estimate(&messages, None), Err(Failure::OneWay { way: Way::Back, bound_ns: 1_005_000 }));
    assert_eq!(estimate(&[], None), Err(Failure::Nothing));
}

#[test]
fn a_clock_that_was_set_meanwhile_fits_no_line() {
    let messages: Vec<Message> = (0..100)
        .map(|n| {
            let offset = if n < 50 { 0 } else { 80_000_000 };
            message(if n % 2 == 0 { Way::There } else { Way::Back }, BEGIN + n * 1_000_000, 10_000, (offset, 0.0))
        })
        .collect();
    match estimate(&messages, None) {
        Err(Failure::Contradiction { by_ns }) => assert!(by_ns > 10_000_000, "{by_ns}"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn times_in_microseconds_still_fit() {
    let round = |message: Message| Message {
        reference_ns: message.reference_ns / 1_000 * 1_000,
        other_ns: message.other_ns / 1_000 * 1_000,
        ..message
    };
    let messages: Vec<Message> = (0..1_000)
        .map(|n| round(message(if n % 2 == 0 { Way::There } else { Way::Back }, BEGIN + n * 1_234_567, 100 + n % 7 * 50, (77_777, 1e-6))))
        .collect();
    let found = estimate(&messages, None).unwrap();
    for at in [BEGIN, BEGIN + 1_000_000_000] {
        let corrected = found.shift.apply(other(at, 77_777, 1e-6));
        assert!(corrected.abs_diff(at) <= found.error_ns + 1_000, "{found:?} {corrected}");
    }
}
