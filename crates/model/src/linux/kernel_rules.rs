//! The meaning of kernel events, by their names and fields.
//!
//! The rules (`rules/linux.toml`) are compiled once per event class into a `KernelPlan`, which
//! turns each event into a [`Meaning`]. This module remembers nothing from one event to the next;
//! [`crate::linux`] is the state machine that the meanings move.

use crate::linux::meaning::{Key, Meaning};
use crate::linux::watch::{RequestStep, TimerKind};
use crate::linux::{Answer, Arguments, CallerNamespace};
use crate::names::{NameId, Names};
use crate::rules::{parse, Pattern, RuleError, RuleText, Template};
use longpole_trace::event::{Catalogue, Class, Event, Value};
use serde::Deserialize;
use std::convert::Infallible;
use toml::Spanned;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum KernelAction {
    Switch,
    Waking,
    Woken,
    WokenNew,
    Migrate,
    Fork,
    Exec,
    Exit,
    Running,
    Allowed,
    AllowedAtEnd,
    SwitchedOff,
    Process,
    BlockDevice,
    Script,
    Title,
    Cgroup,
    IrqName,
    IrqEnter,
    IrqLeave,
    SoftirqRaise,
    SoftirqEnter,
    SoftirqLeave,
    VectorEnter,
    VectorLeave,
    SyscallEnter,
    SyscallLeave,
    File,
    Fault,
    Disk,
    DiskRequest(RequestStep),
    WorkQueued,
    WorkBegins,
    TimerStart,
    TimerCancel,
    TimerEnter,
    TimerLeave,
    Signal,
    Function,
    Retransmit,
    ReclaimBegins,
    ReclaimEnds,
    Ignore,
}

impl KernelAction {
    const ALL: [(&'static str, KernelAction); 48] = [
        ("switch", KernelAction::Switch),
        ("waking", KernelAction::Waking),
        ("woken", KernelAction::Woken),
        ("woken_new", KernelAction::WokenNew),
        ("migrate", KernelAction::Migrate),
        ("fork", KernelAction::Fork),
        ("exec", KernelAction::Exec),
        ("exit", KernelAction::Exit),
        ("running", KernelAction::Running),
        ("allowed", KernelAction::Allowed),
        ("allowed_end", KernelAction::AllowedAtEnd),
        ("switched_off", KernelAction::SwitchedOff),
        ("process", KernelAction::Process),
        ("block_device", KernelAction::BlockDevice),
        ("script", KernelAction::Script),
        ("title", KernelAction::Title),
        ("cgroup", KernelAction::Cgroup),
        ("irq_name", KernelAction::IrqName),
        ("irq_enter", KernelAction::IrqEnter),
        ("irq_leave", KernelAction::IrqLeave),
        ("softirq_raise", KernelAction::SoftirqRaise),
        ("softirq_enter", KernelAction::SoftirqEnter),
        ("softirq_leave", KernelAction::SoftirqLeave),
        ("vector_enter", KernelAction::VectorEnter),
        ("vector_leave", KernelAction::VectorLeave),
        ("syscall_enter", KernelAction::SyscallEnter),
        ("syscall_leave", KernelAction::SyscallLeave),
        ("file", KernelAction::File),
        ("fault", KernelAction::Fault),
        ("disk", KernelAction::Disk),
        ("allocate", KernelAction::DiskRequest(RequestStep::Allocate)),
        ("insert", KernelAction::DiskRequest(RequestStep::Insert)),
        ("issue", KernelAction::DiskRequest(RequestStep::Issue)),
        ("merge", KernelAction::DiskRequest(RequestStep::Merge)),
        ("requeue", KernelAction::DiskRequest(RequestStep::Requeue)),
        ("complete", KernelAction::DiskRequest(RequestStep::Complete)),
        ("work_queued", KernelAction::WorkQueued),
        ("work_begins", KernelAction::WorkBegins),
        ("timer_start", KernelAction::TimerStart),
        ("timer_cancel", KernelAction::TimerCancel),
        ("timer_enter", KernelAction::TimerEnter),
        ("timer_leave", KernelAction::TimerLeave),
        ("signal", KernelAction::Signal),
        ("function", KernelAction::Function),
        ("retransmit", KernelAction::Retransmit),
        ("reclaim_begins", KernelAction::ReclaimBegins),
        ("reclaim_ends", KernelAction::ReclaimEnds),
        ("ignore", KernelAction::Ignore),
    ];
}

/// Flags of an event that an interrupt of a device or a timer caused, or one that cannot be masked:
/// `TRACE_FLAG_HARDIRQ` and `TRACE_FLAG_NMI` (Linux, include/linux/trace_events.h).
///
/// A softirq is not meant. It may run on behalf of the thread, for example one that sends a packet.
const IN_INTERRUPT: i64 = 0x08 | 0x40;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    rule: Vec<Entry>,
    #[serde(default)]
    timer: Vec<TimerEntry>,
}

/// What the timers with a given kernel function are for.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TimerEntry {
    function: String,
    #[serde(rename = "for")]
    kind: Spanned<String>,
}

/// The values that a rule may take from an event. The macro defines them in two forms: as text in a
/// rules file (`Entry`), and in a generic struct (`Roles`) that contains templates in a rule and
/// positions of fields in a plan.
macro_rules! roles {
    ($($role:ident),*) => {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Entry {
            event: Spanned<String>,
            #[serde(rename = "do")]
            action: Spanned<String>,
            /// A field that the class must have for the rule to apply. Needed for events with one
            /// name that two tracers use with different meanings.
            with: Option<String>,
            $($role: Option<Spanned<String>>,)*
        }

        #[derive(Clone, Copy, Debug, Default)]
        struct Roles<T> {
            $($role: T,)*
        }

        impl Entry {
            fn roles(&self) -> Roles<Option<&Spanned<String>>> {
                Roles { $($role: self.$role.as_ref(),)* }
            }
        }

        impl<T> Roles<T> {
            fn each<U, E>(&self, mut change: impl FnMut(&T) -> Result<U, E>) -> Result<Roles<U>, E> {
                Ok(Roles { $($role: change(&self.$role)?,)* })
            }
        }
    };
}

// The commonest first; the last three are the arguments of system calls that the model knows.
roles!(
    tid,
    name,
    state,
    to,
    to_name,
    priority,
    to_priority,
    parent,
    process,
    before,
    cpu,
    allowed,
    number,
    signal,
    result,
    call,
    timer,
    at,
    now,
    function,
    work,
    device,
    sector,
    fd,
    flags,
    address,
    waited_ns,
    own_numbers,
    events,
    calls,
    ago_ns,
    type_of_thread,
    namespace_level,
    about,
    second,
    third,
    length
);

#[derive(Debug)]
struct Rule {
    pattern: Pattern,
    action: KernelAction,
    with: Option<String>,
    roles: Roles<Option<Template>>,
}

/// The rules about kernel events, and the purposes of timers.
#[derive(Debug)]
pub struct LinuxRules {
    rules: Vec<Rule>,
    timers: Vec<(String, TimerKind)>,
}

impl LinuxRules {
    pub fn built_in() -> Result<LinuxRules, RuleError> {
        LinuxRules::read("linux.toml", include_str!("../../rules/linux.toml"))
    }

    /// Parses a rules file.
    ///
    /// # Errors
    ///
    /// The first wrong rule, with its line.
    pub fn read(file: &str, text: &str) -> Result<LinuxRules, RuleError> {
        let place = RuleText { file, text };
        let parsed: File = parse(file, text)?;
        let mut rules = Vec::new();
        for entry in parsed.rule {
            let action = place.action(&KernelAction::ALL, &entry.action)?;
            let pattern = Pattern::new(entry.event.get_ref());
            let roles = entry.roles().each(|text| place.template(*text, pattern.stars()))?;
            rules.push(Rule { pattern, action, with: entry.with, roles });
        }
        let mut timers = Vec::new();
        for entry in parsed.timer {
            timers.push((entry.function, place.action(&TimerKind::RULES, &entry.kind)?));
        }
        Ok(LinuxRules { rules, timers })
    }

    /// The purpose of the timers with this function.
    pub(crate) fn timer(&self, function: &[u8]) -> TimerKind {
        let known = self.timers.iter().find(|(name, _)| name.as_bytes() == function);
        known.map_or(TimerKind::Kernel, |(_, kind)| *kind)
    }

    /// True if the trace has an event class for threads that run without a recorded switch. Then,
    /// where there is no such event, every switch was recorded.
    pub(crate) fn has_running_events(&self, catalogue: &Catalogue) -> bool {
        let running = |class: &Class| {
            self.rules.iter().any(|rule| rule.action == KernelAction::Running && rule.pattern.captures(&class.event_name).is_some())
        };
        catalogue.classes.iter().any(running)
    }

    /// Two flags: the classes include one that begins contexts of the group `irq`, and one that
    /// begins contexts of the group `softirq`.
    pub(crate) fn has_context_events(&self, classes: &[Class]) -> [bool; 2] {
        [KernelAction::IrqEnter, KernelAction::SoftirqEnter].map(|wanted| {
            let begins =
                |class: &Class| self.rules.iter().any(|rule| rule.action == wanted && rule.pattern.captures(&class.event_name).is_some());
            classes.iter().any(begins)
        })
    }

    /// Compiles the plan of an event class; `None` if no rule matches it, or the rule ignores it.
    pub(crate) fn compile(&self, class: &Class, names: &mut Names) -> Option<KernelPlan> {
        for rule in &self.rules {
            let Some(captures) = rule.pattern.captures(&class.event_name) else { continue };
            if rule.with.as_ref().is_some_and(|field| field_of(class, field).is_none()) {
                continue;
            }
            let source = |template: &Option<Template>| {
                Ok::<Source, Infallible>(match template {
                    None => Source::None,
                    Some(Template::Text(text)) => Source::Text(names.intern(text)),
                    Some(Template::Capture(at)) => captures.get(*at).map_or(Source::None, |text| Source::Text(names.intern(text))),
                    Some(Template::Field(fields)) => {
                        let field = fields.split('|').find_map(|name| field_of(class, name)).map(Source::Field);
                        let context = || fields.split('|').find_map(|name| context_of(class, name)).map(Source::Context);
                        field.or_else(context).unwrap_or_default()
                    }
                    // Only user rules use this form; the kernel's rules are built in and have none.
                    Some(Template::TextAndField(..)) => Source::None,
                })
            };
            let Ok(roles) = rule.roles.each(source);
            return (rule.action != KernelAction::Ignore).then_some(KernelPlan { action: rule.action, roles });
        }
        None
    }
}

/// The source of a value: a fixed text, or a field of the event.
#[derive(Clone, Copy, Debug, Default)]
enum Source {
    #[default]
    None,
    Text(NameId),
    Field(u32),
    /// A value that the tracer adds to every event.
    Context(u32),
}

impl Source {
    #[inline]
    fn number(self, fields: &[Value<'_>]) -> Option<i64> {
        match self {
            Source::Field(at) => fields.get(at as usize).and_then(Value::as_i64),
            Source::None | Source::Text(_) | Source::Context(_) => None,
        }
    }

    /// Kernel addresses have their highest bit set, so they appear as negative numbers in an `i64`.
    #[inline]
    fn address(self, fields: &[Value<'_>]) -> Option<u64> {
        match self {
            Source::Field(at) => match fields.get(at as usize) {
                Some(Value::U64(address)) => Some(*address),
                Some(Value::I64(address)) => Some(*address as u64),
                _ => None,
            },
            Source::None | Source::Text(_) | Source::Context(_) => None,
        }
    }

    #[inline]
    fn id(self, fields: &[Value<'_>]) -> Option<i32> {
        self.number(fields).and_then(|number| i32::try_from(number).ok())
    }

    #[inline]
    fn cpu(self, fields: &[Value<'_>]) -> Option<u32> {
        self.number(fields).and_then(|number| u32::try_from(number).ok())
    }

    #[inline]
    fn bytes<'a>(self, fields: &'a [Value<'a>]) -> &'a [u8] {
        match self {
            Source::Field(at) => match fields.get(at as usize) {
                Some(Value::Str(text)) => text,
                // An array of characters that the metadata does not declare as text.
                Some(Value::Bytes(bytes)) => bytes.split(|&byte| byte == 0).next().unwrap_or_default(),
                _ => &[],
            },
            Source::None | Source::Text(_) | Source::Context(_) => &[],
        }
    }

    #[inline]
    fn name(self) -> Option<NameId> {
        match self {
            Source::Text(name) => Some(name),
            Source::None | Source::Field(_) | Source::Context(_) => None,
        }
    }
}

/// What the events of a class are about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ClassTopic {
    /// System calls, with the name of the call.
    Calls(Option<NameId>),
    Works,
    Other,
}

/// The compiled meaning of an event class.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KernelPlan {
    action: KernelAction,
    roles: Roles<Source>,
}

impl KernelPlan {
    /// The meaning of an event; `None` if the event lacks a required field.
    #[inline]
    pub(crate) fn meaning<'a>(&self, event: &Event<'a>) -> Option<Meaning<'a>> {
        let fields = event.fields;
        let roles = &self.roles;
        let tid = || roles.tid.id(fields);
        let number = || roles.number.number(fields);
        let in_interrupt = || match roles.flags {
            Source::Context(at) => event.context.get(at as usize).and_then(Value::as_i64),
            flags => flags.number(fields),
        };
        let in_interrupt = || in_interrupt().is_some_and(|flags| flags & IN_INTERRUPT != 0);
        Some(match self.action {
            KernelAction::Switch => Meaning::Switch {
                tid: tid()?,
                name: roles.name.bytes(fields),
                state: roles.state.number(fields).unwrap_or(0),
                to: roles.to.id(fields)?,
                to_name: roles.to_name.bytes(fields),
                priority: roles.priority.number(fields),
                to_priority: roles.to_priority.number(fields),
            },
            KernelAction::Waking => {
                Meaning::Waking { tid: tid()?, name: roles.name.bytes(fields), cpu: roles.cpu.cpu(fields), in_interrupt: in_interrupt() }
            }
            KernelAction::Woken | KernelAction::WokenNew => Meaning::Woken {
                tid: tid()?,
                name: roles.name.bytes(fields),
                cpu: roles.cpu.cpu(fields),
                new: self.action == KernelAction::WokenNew,
                in_interrupt: in_interrupt(),
            },
            KernelAction::Migrate => Meaning::Migrate { tid: tid()?, cpu: roles.cpu.cpu(fields)? },
            KernelAction::Fork => Meaning::Fork {
                parent: roles.parent.id(fields),
                tid: tid()?,
                process: roles.process.id(fields),
                name: roles.name.bytes(fields),
            },
            KernelAction::Exec => Meaning::Exec { tid: tid(), before: roles.before.id(fields), file: roles.name.bytes(fields) },
            KernelAction::Exit => Meaning::Exit { tid: tid()? },
            KernelAction::Running => Meaning::Running { tid: tid()? },
            KernelAction::IrqEnter => Meaning::Enter(Key::Irq(number()?), roles.name.bytes(fields)),
            KernelAction::IrqLeave => Meaning::Leave(Key::Irq(number()?)),
            KernelAction::SoftirqRaise => Meaning::Raise { number: number()? },
            KernelAction::SoftirqEnter => Meaning::Enter(Key::Softirq(number()?), &[]),
            KernelAction::SoftirqLeave => Meaning::Leave(Key::Softirq(number()?)),
            KernelAction::VectorEnter => Meaning::Enter(Key::Vector(roles.name.name()?), &[]),
            KernelAction::VectorLeave => Meaning::Leave(Key::Vector(roles.name.name()?)),
            KernelAction::SyscallEnter => Meaning::SyscallEnter {
                name: roles.name.name()?,
                arguments: Arguments {
                    about: roles.about.number(fields),
                    second: roles.second.number(fields),
                    third: roles.third.number(fields),
                    length: roles.length.number(fields),
                },
            },
            KernelAction::SyscallLeave => Meaning::SyscallLeave { name: roles.name.name()?, result: roles.result.number(fields) },
            KernelAction::Fault => Meaning::Fault { name: roles.name.name()? },
            KernelAction::Disk => Meaning::Disk,
            KernelAction::DiskRequest(step) => {
                // The sector of a flush is -1, in a field without a sign.
                let sector = roles.sector.address(fields)? as i64;
                Meaning::DiskRequest { step, device: roles.device.number(fields)?, sector }
            }
            KernelAction::WorkQueued => Meaning::WorkQueued { work: roles.work.address(fields)? },
            KernelAction::WorkBegins => Meaning::WorkBegins { work: roles.work.address(fields)? },
            KernelAction::TimerStart => Meaning::TimerStart { timer: roles.timer.address(fields)?, at: roles.at.number(fields) },
            KernelAction::TimerCancel => Meaning::TimerCancel { timer: roles.timer.address(fields)? },
            KernelAction::TimerEnter => Meaning::TimerEnter {
                timer: roles.timer.address(fields)?,
                function: roles.function.address(fields),
                now: roles.now.number(fields),
            },
            KernelAction::TimerLeave => Meaning::TimerLeave { timer: roles.timer.address(fields)? },
            KernelAction::Retransmit => Meaning::Retransmit,
            KernelAction::ReclaimBegins => Meaning::Reclaim { begins: true },
            KernelAction::ReclaimEnds => Meaning::Reclaim { begins: false },
            KernelAction::Signal => Meaning::Signal { tid: tid()?, signal: roles.signal.number(fields)? },
            KernelAction::Allowed
            | KernelAction::AllowedAtEnd
            | KernelAction::SwitchedOff
            | KernelAction::Process
            | KernelAction::File
            | KernelAction::BlockDevice
            | KernelAction::Script
            | KernelAction::Title
            | KernelAction::Cgroup
            | KernelAction::IrqName
            | KernelAction::Function => return self.recorder_meaning(event),
            KernelAction::Ignore => return None,
        })
    }

    /// The meaning of an event that the recorder has written itself: what it asked the kernel, and
    /// the dump of the system's state. Such events are rare.
    fn recorder_meaning<'a>(&self, event: &Event<'a>) -> Option<Meaning<'a>> {
        let fields = event.fields;
        let roles = &self.roles;
        let tid = || roles.tid.id(fields);
        let number = || roles.number.number(fields);
        Some(match self.action {
            KernelAction::Allowed | KernelAction::AllowedAtEnd => {
                let answer = Answer {
                    tid: tid()?,
                    list: roles.allowed.bytes(fields),
                    waited_ns: roles.waited_ns.number(fields).unwrap_or(0),
                    by: roles.parent.id(fields),
                    about: roles.about.id(fields),
                    caller: CallerNamespace::of_number(roles.own_numbers.number(fields)),
                };
                match self.action {
                    KernelAction::Allowed => Meaning::Allowed(answer),
                    _ => Meaning::AllowedAtEnd(answer),
                }
            }
            KernelAction::SwitchedOff => Meaning::SwitchedOff {
                what: roles.name.bytes(fields),
                classes: roles.events.bytes(fields),
                calls: roles.calls.bytes(fields),
                ago_ns: roles.ago_ns.number(fields).unwrap_or(0),
            },
            KernelAction::Process => Meaning::Process {
                tid: tid()?,
                process: roles.process.id(fields),
                parent: roles.parent.id(fields),
                name: roles.name.bytes(fields),
                status: roles.state.number(fields),
                cpu: roles.cpu.cpu(fields),
                // 1 is a kernel thread in LTTng's `enum lttng_thread_type`.
                kernel: roles.type_of_thread.number(fields) == Some(1),
                allowed: roles.allowed.bytes(fields),
                level: roles.namespace_level.number(fields),
                call: Some(roles.call.bytes(fields)).filter(|name| !name.is_empty()).map(|name| (name, roles.about.number(fields))),
            },
            KernelAction::File => Meaning::File {
                process: roles.process.id(fields)?,
                fd: roles.fd.number(fields)?,
                path: roles.name.bytes(fields),
                flags: roles.flags.number(fields),
            },
            KernelAction::BlockDevice => Meaning::BlockDevice { device: roles.device.number(fields)?, name: roles.name.bytes(fields) },
            KernelAction::Script => Meaning::Script { process: roles.process.id(fields)?, name: roles.name.bytes(fields) },
            KernelAction::Title => Meaning::Title { process: roles.process.id(fields)?, name: roles.name.bytes(fields) },
            KernelAction::Cgroup => Meaning::Cgroup { process: roles.process.id(fields)?, path: roles.name.bytes(fields) },
            KernelAction::IrqName => {
                Meaning::IrqName { number: number()?, name: roles.name.bytes(fields), allowed: roles.allowed.bytes(fields) }
            }
            KernelAction::Function => Meaning::Function { address: roles.address.address(fields)?, name: roles.name.bytes(fields) },
            _ => return None,
        })
    }

    /// The subject of the plan's events, for events that leave state behind for later ones.
    pub(crate) fn subject(&self) -> ClassTopic {
        match self.action {
            KernelAction::SyscallEnter | KernelAction::SyscallLeave => ClassTopic::Calls(self.roles.name.name()),
            KernelAction::WorkQueued | KernelAction::WorkBegins => ClassTopic::Works,
            _ => ClassTopic::Other,
        }
    }

    /// True if the events are switches, which say which thread has a CPU.
    pub(crate) fn is_switch(&self) -> bool {
        self.action == KernelAction::Switch
    }
}

/// Finds a field of the class. TSDL names may begin with an underscore that is not part of the
/// name.
fn field_of(class: &Class, name: &str) -> Option<u32> {
    let plain = |field: &String| field == name || field.strip_prefix('_') == Some(name);
    class.fields.iter().position(plain)?.try_into().ok()
}

fn context_of(class: &Class, name: &str) -> Option<u32> {
    class.context.iter().position(|field| field == name)?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_built_in_kernel_rules_can_be_read() {
        assert!(LinuxRules::built_in().unwrap().rules.len() > 20);
    }

    #[test]
    fn a_wrong_kernel_rule_is_rejected_with_its_line_number() {
        let error = LinuxRules::read("mine.toml", "[[rule]]\nevent = \"a\"\ndo = \"jump\"\n").unwrap_err();
        assert_eq!((error.file.as_str(), error.line), ("mine.toml", 3));
        assert!(error.message.contains("expected one of switch"), "{error}");
        let error = LinuxRules::read("mine.toml", "[[rule]]\nevent = \"a\"\ndo = \"exit\"\ntid = \"$1\"\n").unwrap_err();
        assert_eq!(error.line, 4);
    }

    #[test]
    fn fields_are_found_under_the_names_of_both_tracers() {
        let rules = LinuxRules::built_in().unwrap();
        for fields in [
            ["prev_comm", "prev_tid", "prev_state", "next_comm", "next_tid"],
            ["prev_comm", "prev_pid", "prev_state", "next_comm", "next_pid"],
        ] {
            let class = Class {
                event_name: "sched_switch".to_owned(),
                fields: fields.iter().map(|field| (*field).to_owned()).collect(),
                ..Class::default()
            };
            let plan = rules.compile(&class, &mut Names::default()).unwrap();
            assert!(matches!((plan.roles.tid, plan.roles.to), (Source::Field(1), Source::Field(4))));
        }
    }
}
