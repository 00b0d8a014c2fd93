//! Clauses on waits: for timers, disks, memory, quotas, links and windows.

use super::{bits, listed, name, time};
use crate::stats::text::{number, percent};
use crate::verdict::data::because::Because;

/// Returns how long sleeps last, and their number.
pub(super) fn each_time(mean_ns: u64, count: u64) -> String {
    format!("{} each time, {} times", time(mean_ns), number(count))
}

/// Returns a reason about a wait as a clause.
pub(super) fn clause(because: &Because) -> String {
    match because {
        Because::Sleeps { call: _, mean_ns, count, waited_for_by, outstanding } => {
            let calls = outstanding.map_or_else(String::new, |open| format!(" ({open:.1} of its requests are open at a time)"));
            let whom = waited_for_by.as_ref().map_or_else(String::new, |by| format!(" while {} waits for it{calls}", name(by)));
            format!("{}{whom}", each_time(*mean_ns, *count))
        }
        Because::Schedule { interval_ns, count } => {
            format!("it begins its next work every {} by its own clock, {} times", time(*interval_ns), number(*count))
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
        Because::Window { port, peer, bytes, count, filled } => format!(
            "the connection from port {port} to port {peer} has a receive window of {} bytes on average, which its sender has full at {} of {} acknowledgements",
            number(*bytes),
            percent(*filled),
            number(*count)
        ),
        Because::KernelTimer { mean_ns, count, .. } | Because::Outside { mean_ns, count } => each_time(*mean_ns, *count),
        Because::LostAt { place, count } => format!("{} packets are lost: {place}", number(*count)),
        Because::Corked => {
            "no small receive window was seen, so the sender holds back the end of a message until more follows (TCP_CORK, MSG_MORE)".to_owned()
        }
        Because::ShortSends { by, count } => {
            format!("the send buffer of {} is full, {} times: it waits until what is in it is acknowledged", name(by), number(*count))
        }
        Because::Disk { call, mean_ns, count } => format!("{} requests one after the other, {} each ({call})", number(*count), time(*mean_ns)),
        Because::IdleSleeps { sleepers, share, gain } => {
            let sleepers: Vec<String> = sleepers.iter().map(name).collect();
            let wait = if sleepers.len() == 1 { "waits for its own timer" } else { "wait for their own timers" };
            let (sleepers, share, gain) = (listed(&sleepers), percent(*share), 100.0 * gain);
            format!("{share} of the path are left out, in which {sleepers} {wait}: halving that is predicted to gain only {gain:+.1} %")
        }
        Because::Faults { count, share } => {
            format!("its {} page faults take at least {} of the path", number(*count), percent(*share))
        }
        Because::Quota { count, is_reserved: true } => {
            format!("the runtime of its reservation (SCHED_DEADLINE) holds it back {} times", number(*count))
        }
        Because::Quota { count, is_reserved: false } => format!("a quota of its control group holds it back {} times", number(*count)),
        Because::Link { device, discipline, bits_per_second, busy, mean_ns, waits } => {
            let queue = discipline.as_ref().map_or_else(String::new, |discipline| format!(" ({discipline})"));
            let whom = waits.as_ref().map_or_else(String::new, |waits| format!(", and {} waits for them", name(waits)));
            let (rate, wait) = (bits(*bits_per_second), time(*mean_ns));
            let busy = percent(*busy);
            format!("{device} carries {rate}, and packets wait in its queue{queue} for {busy} of the time, {wait} each{whom}")
        }
        Because::Reclaims { count, mean_ns, share } => {
            let (count, mean, share) = (number(*count), time(*mean_ns), percent(*share));
            format!("it waits for free memory: direct reclaim, {count} times, {mean} each, {share} of the path")
        }
        // The other reasons are those of other files.
        _ => String::new(),
    }
}
