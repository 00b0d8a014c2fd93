//! Clauses on threads and processes that wait for one another: at locks, for requests and replies,
//! and for items that are handed over.

use super::super::data::Locks;
use super::{listed, name, time};
use crate::stats::text::{number, percent};
use crate::verdict::data::because::Because;

/// Returns how many requests are open where they wait for one another, in a sentence that has named
/// the place, how many are processed, and why.
pub(super) fn open_requests(because: &Because) -> String {
    match because {
        Because::Serialised { open, .. } => format!("{open:.1} requests are open there and {}", processed(because)),
        _ => String::new(),
    }
}

fn processed(because: &Because) -> String {
    let Because::Serialised { at_a_time, callee, threads, .. } = because else { return String::new() };
    let what = match callee {
        Some(callee) => format!("{at_a_time:.1} calls of {} are outstanding at a time", name(callee)),
        None => format!("{at_a_time:.1} are worked on at a time"),
    };
    let why = if *threads == 1 { "one thread serves all" } else { "a lock, or a pool that is too small" };
    format!("{what} ({why})")
}

/// Returns how often and how long a file lock is waited for, in a sentence that has named who
/// waits.
pub(super) fn waits_for_file_lock(because: &Because) -> String {
    let Because::FileLock { call, count, mean_ns, .. } = because else { return String::new() };
    format!("it waits for the lock ({call}) {} times, {} each", number(*count), time(*mean_ns))
}

/// Returns a reason about a wait for other threads as a clause.
pub(super) fn clause(because: &Because) -> String {
    match because {
        Because::Convoy { pool, waiters, members, are_processes, wait, holder, locks } => {
            let (one, several) = if *are_processes { ("process", "processes") } else { ("thread", "threads") };
            let holder = holder.as_ref().map_or_else(String::new, |holder| format!(", which is held while {} does that", name(holder)));
            let what = match locks {
                Some(locks) => format!("on {} ({wait}) that one {one} hands to the next", counted_locks(locks)),
                None => format!("for one another's lock ({wait})"),
            };
            format!("of {} {several} of {}, {waiters:.1} wait at a time {what}{holder}", number(*members), name(pool))
        }
        Because::Serialised { at, open, .. } => {
            format!("requests wait for one another in {}: {open:.1} are open and {}", name(at), processed(because))
        }
        Because::Occupied { at, processes, open } => {
            format!("{open:.1} requests are open to the {} processes of {}, all of which are occupied", number(*processes), name(at))
        }
        Because::HeldRequests { at, waiting, call, is_passed_on } => {
            let what = if *is_passed_on { "as for a lock" } else { "as for a lock, or for an item of a queue" };
            format!("{waiting:.1} requests at a time wait in {} for another of its threads ({call}), {what}", name(at))
        }
        Because::BlocksItsLoop { at } => {
            format!("{} waits for each reply in a call that blocks its event loop, and serves nobody meanwhile", name(at))
        }
        Because::Unanswered { requests, connects, mean_ns, count } => {
            let what = match (requests, connects) {
                (requests, 0) => format!("{} of its requests are not answered", number(*requests)),
                (0, connects) => format!("{} of its attempts to connect are not answered", number(*connects)),
                (requests, connects) => {
                    format!("{} requests and {} attempts to connect are not answered", number(*requests), number(*connects))
                }
            };
            format!("{what}, and it waits for a timeout, {} each time, {} times", time(*mean_ns), number(*count))
        }
        Because::RoundTrips { asker, count, mean_ns, callee, per_request, .. } => {
            let per = per_request.map_or_else(String::new, |per| format!(", {per:.1} for each request that it answers"));
            let (count, mean) = (number(*count), time(*mean_ns));
            match (asker, callee) {
                (Some(asker), Some(callee)) => {
                    format!("{} sends {count} requests to {}, one after the other, {mean} each{per}", name(asker), name(callee))
                }
                // The clause before this one names who asks, and who is asked.
                _ => format!("{count} requests, one after the other, {mean} each{per}"),
            }
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
        Because::HandOvers { sides, count: _, per_second, work_ns, cost_ns } => {
            let sides: Vec<String> = sides.iter().map(name).collect();
            let between = if sides.len() > 1 { format!(" between {}", listed(&sides)) } else { String::new() };
            let (work, cost) = (time(*work_ns), time(*cost_ns));
            let rate = number(per_second.round() as u64);
            format!(
                "{rate} hand-overs per second{between}, each with {work} of own code and system calls, and {cost} of wake-ups and switches"
            )
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
        // The other reasons are those of other files.
        _ => String::new(),
    }
}

fn counted_locks(locks: &Locks) -> String {
    match locks.count {
        1 => "one lock".to_owned(),
        count => format!("{} locks", number(count)),
    }
}
