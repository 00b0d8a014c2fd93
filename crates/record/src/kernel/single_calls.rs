//! The kernel's events of single system calls, such as `syscalls:sys_enter_read`. The default
//! records them; groups that the user names have the events of all calls (`raw_syscalls`).

/// The subsystem of these events.
pub const SYSTEM: &str = "syscalls";

/// An event for the begin or the end of one system call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SingleCall<'a> {
    pub begins: bool,
    /// Name of the call.
    pub name: &'a str,
}

impl<'a> SingleCall<'a> {
    /// `None` for other events.
    pub fn of(system: &str, event: &'a str) -> Option<SingleCall<'a>> {
        let event = Some(event).filter(|_| system == SYSTEM)?;
        match event.strip_prefix("sys_enter_") {
            Some(name) => Some(SingleCall { begins: true, name }),
            None => Some(SingleCall { begins: false, name: event.strip_prefix("sys_exit_")? }),
        }
    }

    /// The same for an event that is written as `subsystem:name`.
    pub fn parse(event: &'a str) -> Option<SingleCall<'a>> {
        event.split_once(':').and_then(|(system, name)| SingleCall::of(system, name))
    }

    /// Returns the event for the other end of the call.
    pub fn other_end(self) -> SingleCall<'a> {
        SingleCall { begins: !self.begins, ..self }
    }

    /// Returns the pattern of all events for the same end of calls.
    pub fn pattern(self) -> &'static str {
        match self.begins {
            true => "syscalls:sys_enter_*",
            false => "syscalls:sys_exit_*",
        }
    }

    /// Returns the name of its class in the converted trace.
    pub fn class_name(self) -> String {
        format!("syscall_{}_{}", if self.begins { "entry" } else { "exit" }, self.name)
    }
}

/// Returns the names of events with a pattern in place of the hundreds of single calls.
pub fn abridged<'a>(events: impl Iterator<Item = &'a str>) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for event in events {
        let name = SingleCall::parse(event).map_or(event, |call| call.pattern());
        if !names.iter().any(|known| known == name) {
            names.push(name.to_owned());
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn single_calls_are_abridged_to_one_pattern_for_each_end() {
        let events = ["sched:sched_switch", "syscalls:sys_enter_read", "syscalls:sys_exit_read", "syscalls:sys_enter_write"];
        assert_eq!(abridged(events.into_iter()), ["sched:sched_switch", "syscalls:sys_enter_*", "syscalls:sys_exit_*"]);
        assert_eq!(SingleCall::parse("raw_syscalls:sys_enter"), None);
        assert_eq!(SingleCall::parse("syscalls:sys_exit_read").map(SingleCall::class_name).as_deref(), Some("syscall_exit_read"));
    }
}
