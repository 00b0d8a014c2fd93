//! From wishes to the events of this kernel: which are there, which of them with what filter, and on which clock.

use super::groups::{Context, EventRequest, Group, ALWAYS};
use super::light;
use crate::clock::Source as ClockSource;
use crate::control::glob;
use longpole_ftrace::{EventName, TraceFs, TraceFsError};
use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;

/// What is wanted of the kernel.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Request {
    pub groups: Vec<Group>,
    /// Of each group what the critical path needs, not all of it.
    pub light: bool,
    pub events: Vec<EventRequest>,
    pub context: Vec<Context>,
    /// Bytes of each CPU's buffer.
    pub buffer: Option<u64>,
    /// The pages stay in the kernel, the oldest go, until somebody asks for them.
    pub overwrite: bool,
    /// Where more events come than can be stored, lose what does not fit and give up no kind of
    /// event.
    pub keep_all: bool,
}

/// Why the kernel is not recorded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KernelError {
    #[error(transparent)]
    TraceFs(#[from] TraceFsError),
    #[error("cannot {what} {}: {source}", path.display())]
    Io { what: &'static str, path: PathBuf, source: io::Error },
    /// The user asked for it by name, so this is for the user to mend.
    #[error("--event {request}: {source}")]
    Event { request: String, source: TraceFsError },
}

impl KernelError {
    pub(crate) fn io(what: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> KernelError {
        let path = path.into();
        move |source| KernelError::Io { what, path, source }
    }

    /// Whether another command would be better, or the rest can be recorded without the kernel.
    pub(crate) fn is_wrong_request(&self) -> bool {
        matches!(self, KernelError::Event { .. })
    }
}

/// An event that this kernel has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    pub event: EventName,
    pub filter: Option<String>,
    /// None if only a group wants it.
    pub asked: Option<EventRequest>,
}

#[derive(Debug)]
pub struct Plan {
    pub tracefs: TraceFs,
    pub request: Request,
    pub wanted: Vec<Wanted>,
    /// Patterns that fit no event of this kernel.
    pub missing: Vec<String>,
    /// The tracer's clock, and the recording's that counts the same.
    pub clock: (&'static str, ClockSource),
}

/// Filters of one event: one that wants all of it outweighs those that choose.
#[derive(Default)]
struct Filters {
    all: bool,
    some: Vec<String>,
    asked: Option<EventRequest>,
}

impl Plan {
    pub fn make(request: &Request, preferred: ClockSource) -> Result<Plan, KernelError> {
        let tracefs = super::available()?;
        let clock = clock(&tracefs.read("trace_clock")?, preferred)?;
        let events = tracefs.events()?;
        let (wanted, missing) = choose(request, &events);
        Ok(Plan { tracefs, request: request.clone(), wanted, missing, clock })
    }
}

pub(super) fn choose(request: &Request, events: &[EventName]) -> (Vec<Wanted>, Vec<String>) {
    let mut chosen: BTreeMap<EventName, Filters> = BTreeMap::new();
    let mut missing = Vec::new();
    let mut take = |pattern: &str, filter: Option<&str>, asked: Option<&EventRequest>| {
        let mut found = false;
        for event in events.iter().filter(|event| fits(pattern, event)) {
            found = true;
            let filters = chosen.entry(event.clone()).or_default();
            // What the user says of an event goes before what a group wants of it.
            if asked.is_none() && filters.asked.is_some() {
                continue;
            }
            match filter {
                None => filters.all = true,
                Some(filter) => filters.some.push(filter.to_owned()),
            }
            if asked.is_some() {
                filters.asked = asked.cloned();
            }
        }
        // Which interrupts a processor has is its maker's choice; nobody misses those of another.
        let expected = asked.is_some() || !pattern.starts_with("irq_vectors:");
        if !found && expected && !missing.iter().any(|known| known == pattern) {
            missing.push(pattern.to_owned());
        }
    };
    for event in &request.events {
        take(&event.pattern, event.filter.as_deref(), Some(event));
    }
    for pattern in ALWAYS {
        take(pattern, None, None);
    }
    for group in &request.groups {
        let parts = if request.light { light::parts(*group) } else { group.parts() };
        for part in &parts {
            for pattern in part.patterns {
                take(pattern, part.filter.as_deref(), None);
            }
        }
    }
    let wanted = chosen.into_iter().map(|(event, filters)| {
        let filter = match filters.some.as_slice() {
            [] => None,
            _ if filters.all => None,
            [one] => Some(one.clone()),
            several => Some(several.iter().map(|filter| format!("({filter})")).collect::<Vec<_>>().join(" || ")),
        };
        Wanted { event, filter, asked: filters.asked }
    });
    (wanted.collect(), missing)
}

/// `all` leaves out what cannot be enabled, and the events of single system calls, which raw_syscalls tells already.
fn fits(pattern: &str, event: &EventName) -> bool {
    match pattern.split_once(':') {
        Some((system, name)) => glob::matches(system, &event.system) && glob::matches(name, &event.name),
        None => pattern == "all" && !matches!(event.system.as_str(), "ftrace" | "syscalls"),
    }
}

/// The counter where both the programs and the kernel can read it; else the clock that is the same for all.
pub(super) fn clock(has: &str, preferred: ClockSource) -> Result<(&'static str, ClockSource), KernelError> {
    let has_clock = |name: &str| has.split_whitespace().any(|word| word.trim_matches(['[', ']']) == name);
    if preferred == ClockSource::Counter && cfg!(target_arch = "x86_64") && has_clock("x86-tsc") {
        Ok(("x86-tsc", ClockSource::Counter))
    } else if has_clock("mono_raw") {
        Ok(("mono_raw", ClockSource::MonoRaw))
    } else {
        Err(TraceFsError::NoClock { wanted: "x86-tsc mono_raw".to_owned(), has: has.trim().to_owned() }.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn events() -> Vec<EventName> {
        let names = [
            ("lock", "contention_begin"),
            ("raw_syscalls", "sys_enter"),
            ("sched", "sched_process_exec"),
            ("sched", "sched_switch"),
            ("sched", "sched_waking"),
            ("syscalls", "sys_enter_read"),
        ];
        names.map(|(system, name)| EventName::new(system, name)).to_vec()
    }

    fn request(groups: &[Group], events: &[&str]) -> Request {
        let events = events.iter().map(|event| event.parse().unwrap()).collect();
        Request { groups: groups.to_vec(), events, ..Request::default() }
    }

    fn filters(wanted: &[Wanted]) -> Vec<(String, Option<&str>)> {
        wanted.iter().map(|wanted| (wanted.event.to_string(), wanted.filter.as_deref())).collect()
    }

    #[test]
    fn what_this_kernel_has_not_is_named_and_left_out() {
        let (wanted, missing) = choose(&request(&[Group::Sched], &["foo:b*r"]), &events());
        let names: Vec<String> = wanted.iter().map(|wanted| wanted.event.to_string()).collect();
        assert_eq!(names, ["sched:sched_process_exec", "sched:sched_switch", "sched:sched_waking"]);
        assert!(missing.contains(&"sched:sched_wakeup".to_owned()) && missing.contains(&"foo:b*r".to_owned()), "{missing:?}");
    }

    #[test]
    fn a_group_that_wants_all_of_an_event_outweighs_one_that_filters() {
        let (wanted, _) = choose(&request(&[Group::Futex], &[]), &events());
        assert!(filters(&wanted).iter().any(|(name, filter)| name == "raw_syscalls:sys_enter" && filter.is_some_and(|f| f.contains("||"))));
        let (wanted, _) = choose(&request(&[Group::Futex, Group::Syscall], &[]), &events());
        assert!(filters(&wanted).contains(&("raw_syscalls:sys_enter".to_owned(), None)));
    }

    #[test]
    fn the_default_chooses_among_the_calls_and_a_group_that_is_asked_for_does_not() {
        let groups = request(&[Group::Syscall], &[]);
        let (wanted, _) = choose(&Request { light: true, ..groups.clone() }, &events());
        assert!(filters(&wanted).iter().any(|(name, filter)| name == "raw_syscalls:sys_enter" && filter.is_some_and(|f| f.contains("!="))));
        let (wanted, _) = choose(&groups, &events());
        assert!(filters(&wanted).contains(&("raw_syscalls:sys_enter".to_owned(), None)));
    }

    #[test]
    fn a_filter_of_the_user_holds_for_an_event_of_a_group_too() {
        let (wanted, _) = choose(&request(&[Group::Sched], &["sched:sched_switch:prev_pid == 1"]), &events());
        assert!(filters(&wanted).contains(&("sched:sched_switch".to_owned(), Some("prev_pid == 1"))), "{wanted:?}");
        assert!(filters(&wanted).contains(&("sched:sched_waking".to_owned(), None)), "{wanted:?}");
    }

    #[test]
    fn filters_of_one_event_are_alternatives() {
        let (wanted, _) = choose(&request(&[], &["sched:sched_switch:prev_pid == 1", "sched:sched_sw*:next_pid == 1"]), &events());
        let expected = ("sched:sched_switch".to_owned(), Some("(prev_pid == 1) || (next_pid == 1)"));
        assert!(filters(&wanted).contains(&expected), "{wanted:?}");
    }

    #[test]
    fn all_are_all_but_the_single_system_calls() {
        let (wanted, _) = choose(&request(&[], &["all"]), &events());
        assert_eq!(wanted.len(), 5);
        let (wanted, _) = choose(&request(&[], &["syscalls:*"]), &events());
        assert!(wanted.iter().any(|wanted| wanted.event.system == "syscalls"));
    }

    #[test]
    fn where_the_kernel_cannot_read_the_counter_all_sources_take_the_other_clock() {
        let both = "[local] global mono_raw x86-tsc";
        let chosen = |has, preferred| clock(has, preferred).unwrap();
        if cfg!(target_arch = "x86_64") {
            assert_eq!(chosen(both, ClockSource::Counter), ("x86-tsc", ClockSource::Counter));
        }
        assert_eq!(chosen(both, ClockSource::MonoRaw), ("mono_raw", ClockSource::MonoRaw));
        assert_eq!(chosen("[local] mono_raw", ClockSource::Counter), ("mono_raw", ClockSource::MonoRaw));
        assert!(clock("[local]", ClockSource::Counter).unwrap_err().to_string().contains("[local]"));
    }
}
