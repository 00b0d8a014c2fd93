//! Turns a request into a list of this kernel's events: which of the requested events exist, with
//! what filter each is recorded, and on which clock.

use super::groups::{Context, EventRequest, Group, ALWAYS_RECORDED};
use super::light;
use super::single_calls::{self, SingleCall};
use crate::clock::ClockSource;
use crate::text::distance;
use longpole_ftrace::{EventName, TraceFs, TraceFsError};
use longpole_predicate::glob;
use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;

/// Request for events of the kernel.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Request {
    pub groups: Vec<Group>,
    /// True to record only those events of each group that the critical path and the verdict need.
    pub light: bool,
    pub events: Vec<EventRequest>,
    pub context: Vec<Context>,
    /// Size of each CPU's buffer in bytes. `None` for the default.
    pub buffer: Option<u64>,
    /// True for a flight recorder: pages stay in the kernel, and the oldest are overwritten, until
    /// a snapshot is requested.
    pub overwrite: bool,
    /// True to give up no kind of event if there are more events than can be stored. Events that do
    /// not fit are lost then.
    pub keep_all: bool,
}

/// Reason why the kernel is not recorded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KernelError {
    #[error(transparent)]
    TraceFs(#[from] TraceFsError),
    #[error("cannot {what} {}: {source}", path.display())]
    Io { what: &'static str, path: PathBuf, source: io::Error },
    /// The user requested this event by name, so the user must correct the request.
    #[error("--event {request}: {source}")]
    Event { request: String, source: TraceFsError },
    /// The user requested an event that this kernel does not have.
    #[error("--event {pattern}: this kernel has no such event; {}", remedy(near))]
    NoEvent { pattern: String, near: Option<EventName> },
}

fn remedy(near: &Option<EventName>) -> String {
    match near {
        Some(near) => format!("did you mean {near}?"),
        None => "the file available_events of tracefs lists those that it has".to_owned(),
    }
}

/// Largest number of mistyped letters for which an event is suggested.
const MISTYPED: usize = 3;

/// The event whose name is nearest to a mistyped one.
fn nearest(pattern: &str, events: &[EventName]) -> Option<EventName> {
    let distances = events.iter().map(|event| (distance(pattern, &event.to_string()), event));
    distances.min().filter(|(letters, _)| *letters <= MISTYPED).map(|(_, event)| event.clone())
}

impl KernelError {
    pub(crate) fn io(what: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> KernelError {
        let path = path.into();
        move |source| KernelError::Io { what, path, source }
    }

    /// True if the user must change the request. Otherwise all other sources can be recorded
    /// without the kernel.
    pub(crate) fn is_wrong_request(&self) -> bool {
        matches!(self, KernelError::Event { .. } | KernelError::NoEvent { .. })
    }
}

/// An event of this kernel that is to be recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    pub event: EventName,
    /// Filter in the kernel's language. `None` to record all events of this kind.
    pub filter: Option<String>,
    /// The user's request for this event. `None` if only a group contains it.
    pub asked: Option<EventRequest>,
}

/// The events to be recorded, and how.
#[derive(Debug)]
pub struct Plan {
    pub tracefs: TraceFs,
    pub request: Request,
    pub wanted: Vec<Wanted>,
    /// True if system calls are recorded by the kernel's events of single calls.
    pub single_calls: bool,
    /// Patterns that match no event of this kernel.
    pub missing: Vec<String>,
    /// The tracer's clock, and the recording's clock that counts the same.
    pub clock: (&'static str, ClockSource),
}

/// Filters of one event. A request for all events of this kind outweighs those with a filter.
#[derive(Default)]
struct Filters {
    all: bool,
    some: Vec<String>,
    asked: Option<EventRequest>,
}

impl Plan {
    /// Chooses the events and the clock on this host.
    pub fn make(request: &Request, preferred: ClockSource) -> Result<Plan, KernelError> {
        let tracefs = super::available()?;
        let clock = clock(&tracefs.read("trace_clock")?, preferred)?;
        let events = tracefs.events()?;
        let Chosen { wanted, single_calls, missing } = choose(request, &events);
        // A recording without an event that the user named would be useless to the user, so it
        // does not begin. Groups contain events that only some kernels have.
        if let Some(EventRequest { pattern, .. }) = request.events.iter().find(|event| missing.contains(&event.pattern)) {
            return Err(KernelError::NoEvent { pattern: pattern.clone(), near: nearest(pattern, &events) });
        }
        Ok(Plan { tracefs, request: request.clone(), wanted, single_calls, missing, clock })
    }
}

/// The requested events among those of this kernel; see [`Plan`].
pub(super) struct Chosen {
    pub wanted: Vec<Wanted>,
    pub single_calls: bool,
    pub missing: Vec<String>,
}

/// True if the light form of the group for system calls can be recorded: this kernel has events of
/// single calls, and the user requests none of the events of system calls, so that both kinds are
/// never recorded at the same time.
fn single_calls(request: &Request, events: &[EventName]) -> bool {
    let about_calls = |event: &&EventName| matches!(event.system.as_str(), single_calls::SYSTEM | "raw_syscalls");
    let requested = request.events.iter().any(|one| events.iter().filter(about_calls).any(|event| fits(&one.pattern, event)));
    let group = request.light && request.groups.contains(&Group::Syscall);
    group && !requested && !request.groups.contains(&Group::Futex) && events.iter().any(|event| event.system == single_calls::SYSTEM)
}

/// Chooses the requested events among those of this kernel.
pub(super) fn choose(request: &Request, events: &[EventName]) -> Chosen {
    let mut chosen: BTreeMap<EventName, Filters> = BTreeMap::new();
    let mut missing = Vec::new();
    let single_calls = single_calls(request, events);
    let mut take = |pattern: &str, except: &[&str], filter: Option<&str>, asked: Option<&EventRequest>| {
        let mut found = false;
        let is_left_out = |event: &EventName| SingleCall::of(&event.system, &event.name).is_some_and(|call| except.contains(&call.name));
        for event in events.iter().filter(|event| fits(pattern, event) && !is_left_out(event)) {
            found = true;
            let filters = chosen.entry(event.clone()).or_default();
            // The user's request for an event takes precedence over that of a group.
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
        // The set of interrupts depends on the processor, so interrupts of other processors are not
        // reported as missing.
        let expected = asked.is_some() || !pattern.starts_with("irq_vectors:");
        if !found && expected && !missing.iter().any(|known| known == pattern) {
            missing.push(pattern.to_owned());
        }
    };
    for event in &request.events {
        take(&event.pattern, &[], event.filter.as_deref(), Some(event));
    }
    for pattern in ALWAYS_RECORDED {
        take(pattern, &[], None, None);
    }
    for group in &request.groups {
        let parts = if request.light { light::parts_with(*group, single_calls) } else { group.parts() };
        for part in &parts {
            for pattern in part.patterns {
                take(pattern, part.except, part.filter.as_deref(), None);
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
    Chosen { wanted: wanted.collect(), single_calls, missing }
}

/// True if the pattern matches the event. `all` excludes events that cannot be enabled, and those
/// of single system calls, which raw_syscalls contains already.
fn fits(pattern: &str, event: &EventName) -> bool {
    match pattern.split_once(':') {
        Some((system, name)) => glob::matches(system, &event.system) && glob::matches(name, &event.name),
        None => pattern == "all" && !matches!(event.system.as_str(), "ftrace" | "syscalls"),
    }
}

/// Chooses the CPU's counter if both the programs and the kernel can read it, otherwise the
/// monotonic clock that all can read.
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
            ("syscalls", "sys_enter_epoll_ctl"),
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
    fn events_that_this_kernel_lacks_are_named_and_left_out() {
        let Chosen { wanted, missing, .. } = choose(&request(&[Group::Sched], &["foo:b*r"]), &events());
        let names: Vec<String> = wanted.iter().map(|wanted| wanted.event.to_string()).collect();
        assert_eq!(names, ["sched:sched_process_exec", "sched:sched_switch", "sched:sched_waking"]);
        assert!(missing.contains(&"sched:sched_wakeup".to_owned()) && missing.contains(&"foo:b*r".to_owned()), "{missing:?}");
    }

    #[test]
    fn a_group_with_all_events_of_a_kind_outweighs_one_with_a_filter() {
        let Chosen { wanted, .. } = choose(&request(&[Group::Futex], &[]), &events());
        assert!(filters(&wanted).iter().any(|(name, filter)| name == "raw_syscalls:sys_enter" && filter.is_some_and(|f| f.contains("||"))));
        let Chosen { wanted, .. } = choose(&request(&[Group::Futex, Group::Syscall], &[]), &events());
        assert!(filters(&wanted).contains(&("raw_syscalls:sys_enter".to_owned(), None)));
    }

    #[test]
    fn the_default_records_single_calls_unless_the_user_requests_events_of_calls() {
        let groups = request(&[Group::Syscall], &[]);
        let calls = |request: &Request| -> Vec<String> {
            let names = choose(request, &events()).wanted.into_iter().map(|wanted| wanted.event.to_string());
            names.filter(|name| name.contains("syscalls:")).collect()
        };
        assert_eq!(calls(&Request { light: true, ..groups.clone() }), ["syscalls:sys_enter_read"]);
        assert_eq!(calls(&groups), ["raw_syscalls:sys_enter"]);
        let both = request(&[Group::Syscall], &["syscalls:*_read"]);
        assert_eq!(calls(&Request { light: true, ..both }), ["raw_syscalls:sys_enter", "syscalls:sys_enter_read"]);
    }

    #[test]
    fn a_users_filter_also_applies_to_an_event_of_a_group() {
        let Chosen { wanted, .. } = choose(&request(&[Group::Sched], &["sched:sched_switch:prev_pid == 1"]), &events());
        assert!(filters(&wanted).contains(&("sched:sched_switch".to_owned(), Some("prev_pid == 1"))), "{wanted:?}");
        assert!(filters(&wanted).contains(&("sched:sched_waking".to_owned(), None)), "{wanted:?}");
    }

    #[test]
    fn several_filters_of_one_event_are_alternatives() {
        let Chosen { wanted, .. } =
            choose(&request(&[], &["sched:sched_switch:prev_pid == 1", "sched:sched_sw*:next_pid == 1"]), &events());
        let expected = ("sched:sched_switch".to_owned(), Some("(prev_pid == 1) || (next_pid == 1)"));
        assert!(filters(&wanted).contains(&expected), "{wanted:?}");
    }

    #[test]
    fn all_excludes_only_the_events_of_single_system_calls() {
        let Chosen { wanted, .. } = choose(&request(&[], &["all"]), &events());
        assert_eq!(wanted.len(), 5);
        let Chosen { wanted, .. } = choose(&request(&[], &["syscalls:*"]), &events());
        assert!(wanted.iter().any(|wanted| wanted.event.system == "syscalls"));
    }

    #[test]
    fn if_the_kernel_cannot_read_the_counter_all_sources_use_the_other_clock() {
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
