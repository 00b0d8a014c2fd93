//! Clauses on work and CPUs, and on the states that share a subject's time.

use super::super::data::RunnerUp;
use super::{listed, name, predicate, short, time};
use crate::stats::text::{number, percent};
use crate::verdict::data::because::Because;

/// Returns a reason about work and CPUs as a clause.
pub(super) fn clause(because: &Because) -> String {
    match because {
        Because::SerialStep { step, share, idle, most } => {
            let most = most.as_ref().map_or_else(String::new, |most| {
                let (subject, share) = (name(&most.subject), percent(most.share));
                format!("; most of that is {subject}, which {} for {share} of the path", predicate(&most.state))
            });
            let (name, share, idle) = (name(step), percent(*share), percent(*idle));
            format!("{name} runs one process after another for {share} of the run, in which {idle} of the time of the CPUs is idle{most}")
        }
        Because::Threads { groups } => {
            let one = |(group, share): &(String, f64)| {
                let group = if group.is_empty() { "others" } else { group.as_str() };
                format!("{group} {}", percent(*share))
            };
            format!("its threads: {}", listed(&groups.iter().map(one).collect::<Vec<_>>()))
        }
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
        Because::LowerPriority { waits, user, levels } => {
            let levels = if *levels == 1 { "one level".to_owned() } else { format!("{} levels", number(*levels)) };
            format!("{} has a lower priority than {}, by {levels} of nice", name(waits), name(user))
        }
        Because::MoreThreads { threads, cpus } => {
            format!("on average {threads:.1} of its threads are ready to run, on {} CPUs", number(*cpus))
        }
        Because::Processes { by, count, mean_ns } => {
            format!("{} starts {} processes, which live for {} each", name(by), number(*count), time(*mean_ns))
        }
        Because::Affinity { allowed, cpus, idle } => {
            let idle = percent(*idle);
            format!("it may run on {} of {} CPUs, which are idle for {idle} of the time", number(*allowed), number(*cpus))
        }
        Because::First { parts } => {
            let one = |part: &RunnerUp| format!("{}: {} ({})", name(&part.subject), short(&part.state), percent(part.share));
            listed(&parts.iter().map(one).collect::<Vec<_>>())
        }
        // The other reasons are those of other files.
        _ => String::new(),
    }
}
