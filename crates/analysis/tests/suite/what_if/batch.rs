//! Predictions for calls and signals that serve several items at once.

use crate::worlds::{ns, predicted};
use std::fmt::Write;

/// If calls take their time in transit, fewer calls save that time.
#[test]
fn calls_in_batches_save_their_time_in_transit() {
    let mut text = String::from("{\"t\":0,\"machine\":\"s\",\"blocked\":\"call\"}\n{\"t\":0,\"machine\":\"c\",\"state\":\"ask\"}\n");
    for item in 0..8u64 {
        let t = 20 * item;
        text += &format!(
            "{{\"t\":{t},\"machine\":\"c\",\"put\":\"out\",\"state\":\"ask\"}}\n{{\"t\":{t},\"machine\":\"c\",\"put\":\"rpc:f\"}}\n{{\"t\":{t},\"machine\":\"c\",\"blocked\":\"rpc\"}}
{{\"t\":{},\"machine\":\"s\",\"get\":\"rpc:f\",\"state\":\"serve\"}}\n{{\"t\":{},\"machine\":\"s\",\"put\":\"rpc:f:reply:1\"}}\n{{\"t\":{},\"machine\":\"s\",\"blocked\":\"call\"}}
{{\"t\":{},\"machine\":\"c\",\"get\":\"rpc:f:reply:1\",\"state\":\"work\"}}\n",
            t + 6,
            t + 9,
            t + 9,
            t + 13
        );
    }
    text += "{\"t\":160,\"end\":\"c\"}\n";
    assert_eq!((ns(&text, "batch c 2"), ns(&text, "batch c 4")), (160 - 8 * 13 / 2, 160 - 8 * 13 * 3 / 4));
    // Of 20 ns, 13 are the call's. In batches of 4 these are 3.25 ns, and the 7 ns of work lead.
    let next = predicted(&text, "batch c 4").next.unwrap();
    assert_eq!((next.machine.as_str(), next.state.as_str()), ("c", "work"));
}

/// The kernel's work for a call, and the callee's work before it takes the call and after it has
/// replied, belong to the call.
#[test]
fn fewer_calls_save_all_the_kernels_work_for_them() {
    let mut text = String::from("{\"t\":0,\"machine\":\"s\",\"blocked\":\"poll\"}\n{\"t\":0,\"machine\":\"c\",\"state\":\"work\"}\n");
    for item in 0..8u64 {
        let mut say = |after: u64, machine: &str, what: &str| {
            let _ = writeln!(text, "{{\"t\":{},\"machine\":\"{machine}\",{what}}}", 40 * item + after);
        };
        say(0, "c", "\"put\":\"out\",\"state\":\"ask\"");
        say(0, "c", "\"put\":\"rpc:f\",\"state\":\"rpc\"");
        say(1, "s", "\"woken_by\":\"c\"");
        say(2, "c", "\"blocked\":\"rpc\"");
        say(3, "s", "\"state\":\"receive\"");
        say(6, "s", "\"get\":\"rpc:f\",\"state\":\"serve\"");
        say(9, "s", "\"put\":\"rpc:f:reply:1\",\"state\":\"send\"");
        say(11, "c", "\"woken_by\":\"s\"");
        say(14, "s", "\"blocked\":\"poll\"");
        say(15, "c", "\"state\":\"return\"");
        say(18, "c", "\"get\":\"rpc:f:reply:1\",\"state\":\"work\"");
    }
    text += "{\"t\":320,\"end\":\"c\"}\n";
    assert_eq!((ns(&text, "batch c 2"), ns(&text, "batch c 4")), (320 - 8 * 18 / 2, 320 - 8 * 18 * 3 / 4));
}

/// A machine that signals itself also pays for the return to its first item, from the second time
/// on, when the receiver of the signal is known.
#[test]
fn a_larger_batch_saves_the_return_to_the_loop() {
    let mut text = String::from("{\"queue\":\"signal:go\",\"merge\":true}\n{\"t\":0,\"machine\":\"s\",\"put\":\"in\",\"n\":16}\n");
    for round in 0..8u64 {
        let mut say = |after: u64, what: &str| {
            let _ = writeln!(text, "{{\"t\":{},\"machine\":\"r\",{what}}}", 40 * round + after);
        };
        say(0, "\"get\":\"in\",\"n\":2,\"state\":\"work\"");
        say(20, "\"state\":\"again\"");
        say(22, "\"put\":\"signal:go\",\"state\":\"wait\"");
        say(36, "\"get\":\"signal:go\",\"n\":\"all\",\"state\":\"work\"");
    }
    text += "{\"t\":320,\"end\":\"r\"}\n";
    let (first, later) = (4, 2 + 14 + 4);
    assert_eq!(ns(&text, "batch r 4"), 320 - (first + 7 * later) / 2);
    assert_eq!(ns(&text, "batch r 8"), 320 - (first + 7 * later) * 3 / 4);
    // Other work before the signal is taken does not belong to the return.
    let busy = text.replace("\"state\":\"wait\"}", "\"state\":\"wait\"}\n{\"t\":PUT,\"machine\":\"r\",\"put\":\"out\"}");
    let busy =
        busy.split("PUT").enumerate().map(|(at, part)| if at == 0 { part.to_owned() } else { format!("{}{part}", 40 * (at - 1) + 22) });
    assert_eq!(ns(&busy.collect::<String>(), "batch r 4"), 320 - (4 + 7 * (2 + 4)) / 2);
}

/// A system call that waits, such as fsync: all of it is paid once for several items, and its
/// requests to the disk are not items.
#[test]
fn a_waiting_state_counts_as_a_call_when_it_is_named() {
    let mut text = String::from("{\"t\":0,\"machine\":\"s\",\"state\":\"work\"}\n");
    for item in 0..8u64 {
        let mut say = |after: u64, machine: &str, what: &str| {
            let _ = writeln!(text, "{{\"t\":{},\"machine\":\"{machine}\",{what}}}", 40 * item + after);
        };
        say(10, "s", "\"put\":\"done\",\"state\":\"fsync\"");
        say(12, "s", "\"put\":\"disk\",\"n\":5");
        say(12, "s", "\"blocked\":\"io\"");
        say(32, "s", &format!("\"woken_by\":\"s\",\"at\":{},\"link\":\"disk\"", 40 * item + 12));
        say(35, "s", "\"state\":\"fsync\"");
        say(40, "s", "\"state\":\"work\"");
    }
    text += "{\"t\":320,\"end\":\"s\"}\n";
    assert_eq!((ns(&text, "batch s::fsync 2"), ns(&text, "batch s::fsync 8")), (320 - 8 * 30 / 2, 320 - 8 * 30 * 7 / 8));
}
