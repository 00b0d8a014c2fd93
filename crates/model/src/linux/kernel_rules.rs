//! What the kernel's events mean, by name and field: rules (`rules/linux.toml`) compiled once per event class, and an event as a [`Fact`].
//!
//! Here nothing is remembered from one event to the next; the state machine that facts move is [`crate::linux`].

use crate::linux::watch::TimerKind;
use crate::linux::{Answer, Arguments};
use crate::names::{NameId, Names};
use crate::rules::{parse, Pattern, Place, RuleError, Template};
use longpole_trace::event::{Catalogue, Class, Event, Value};
use serde::Deserialize;
use std::convert::Infallible;
use toml::Spanned;

/// What one kernel event tells. Texts borrow from the event.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Fact<'a> {
    Switch {
        tid: i32,
        name: &'a [u8],
        state: i64,
        to: i32,
        to_name: &'a [u8],
        /// Of both, the smaller the more important.
        priority: Option<i64>,
        to_priority: Option<i64>,
    },
    /// Somebody begins to wake the thread; `cpu` is where it was last.
    Waking {
        tid: i32,
        name: &'a [u8],
        cpu: Option<u32>,
    },
    /// The thread is in the queue of `cpu` now.
    Woken {
        tid: i32,
        name: &'a [u8],
        cpu: Option<u32>,
        new: bool,
    },
    Migrate {
        tid: i32,
        cpu: u32,
    },
    Fork {
        parent: Option<i32>,
        tid: i32,
        process: Option<i32>,
        name: &'a [u8],
    },
    /// By the thread that runs, if the event does not name it.
    Exec {
        tid: Option<i32>,
        /// The number of the thread before: one that is not the leader takes the leader's.
        before: Option<i32>,
        file: &'a [u8],
    },
    Exit {
        tid: i32,
    },
    /// It runs on this CPU, although no switch told so.
    Running {
        tid: i32,
    },
    /// Where the thread may run since it was told anew.
    Allowed(Answer<'a>),
    /// Where it may run when the recording ends; of the thread 0: which CPUs there are then.
    AllowedAtEnd(Answer<'a>),
    /// These classes of events are not recorded any more; of system calls, all but those that are
    /// named.
    SwitchedOff {
        what: &'a [u8],
        classes: &'a [u8],
        calls: &'a [u8],
        /// So long before this is told.
        ago_ns: i64,
    },
    /// Of the dump of the system's state when the recording began.
    Process {
        tid: i32,
        process: Option<i32>,
        parent: Option<i32>,
        name: &'a [u8],
        status: Option<i64>,
        cpu: Option<u32>,
        kernel: bool,
        /// A list as `0-3,5`.
        allowed: &'a [u8],
        /// Of its pid namespace; 0 is the first one.
        level: Option<i64>,
        /// The system call in which it waited, and the first of what that is about.
        call: Option<(&'a [u8], Option<i64>)>,
    },
    /// Of the dump: an open file.
    File {
        process: i32,
        fd: i64,
        path: &'a [u8],
        flags: Option<i64>,
    },
    /// The interpreter of this process runs this script.
    Script {
        process: i32,
        name: &'a [u8],
    },
    /// The process calls itself so.
    Title {
        process: i32,
        name: &'a [u8],
    },
    /// The control group of the process.
    Cgroup {
        process: i32,
        path: &'a [u8],
    },
    IrqName {
        number: i64,
        name: &'a [u8],
        allowed: &'a [u8],
    },
    Raise {
        number: i64,
    },
    Enter(Key, &'a [u8]),
    Leave(Key),
    SyscallEnter {
        name: NameId,
        arguments: Arguments,
    },
    /// A signal was sent to a thread, or to the process whose thread it is.
    Signal {
        tid: i32,
        signal: i64,
    },
    SyscallLeave {
        name: NameId,
        result: Option<i64>,
    },
    /// A page was missing.
    Fault {
        name: NameId,
    },
    /// The thread asked a block device for something.
    Disk,
    /// The device gets the request, or is done with it.
    Issue {
        device: i64,
        sector: i64,
    },
    Complete {
        device: i64,
        sector: i64,
    },
    /// A worker of the kernel shall do something, by its address, or begins with it.
    WorkQueued {
        work: u64,
    },
    WorkBegins {
        work: u64,
    },
    /// A timer, by its address, is to go off; `at` in ns of its own clock, where it has one.
    TimerStart {
        timer: u64,
        at: Option<i64>,
    },
    TimerCancel {
        timer: u64,
    },
    TimerEnter {
        timer: u64,
        function: Option<u64>,
        now: Option<i64>,
    },
    TimerLeave {
        timer: u64,
    },
    /// Of the dump: where a function of the kernel lies.
    Function {
        address: u64,
        name: &'a [u8],
    },
    /// TCP sends a segment again.
    Retransmit,
    /// The thread frees memory itself, since there is none; or it goes on.
    Reclaim {
        begins: bool,
    },
}

/// An interrupt context.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Key {
    Irq(i64),
    Softirq(i64),
    /// Of the processor's own controller.
    Vector(NameId),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
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
    Issue,
    Complete,
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

impl Action {
    const ALL: [(&'static str, Action); 43] = [
        ("switch", Action::Switch),
        ("waking", Action::Waking),
        ("woken", Action::Woken),
        ("woken_new", Action::WokenNew),
        ("migrate", Action::Migrate),
        ("fork", Action::Fork),
        ("exec", Action::Exec),
        ("exit", Action::Exit),
        ("running", Action::Running),
        ("allowed", Action::Allowed),
        ("allowed_end", Action::AllowedAtEnd),
        ("switched_off", Action::SwitchedOff),
        ("process", Action::Process),
        ("script", Action::Script),
        ("title", Action::Title),
        ("cgroup", Action::Cgroup),
        ("irq_name", Action::IrqName),
        ("irq_enter", Action::IrqEnter),
        ("irq_leave", Action::IrqLeave),
        ("softirq_raise", Action::SoftirqRaise),
        ("softirq_enter", Action::SoftirqEnter),
        ("softirq_leave", Action::SoftirqLeave),
        ("vector_enter", Action::VectorEnter),
        ("vector_leave", Action::VectorLeave),
        ("syscall_enter", Action::SyscallEnter),
        ("syscall_leave", Action::SyscallLeave),
        ("file", Action::File),
        ("fault", Action::Fault),
        ("disk", Action::Disk),
        ("issue", Action::Issue),
        ("complete", Action::Complete),
        ("work_queued", Action::WorkQueued),
        ("work_begins", Action::WorkBegins),
        ("timer_start", Action::TimerStart),
        ("timer_cancel", Action::TimerCancel),
        ("timer_enter", Action::TimerEnter),
        ("timer_leave", Action::TimerLeave),
        ("signal", Action::Signal),
        ("function", Action::Function),
        ("retransmit", Action::Retransmit),
        ("reclaim_begins", Action::ReclaimBegins),
        ("reclaim_ends", Action::ReclaimEnds),
        ("ignore", Action::Ignore),
    ];
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    rule: Vec<Entry>,
    #[serde(default)]
    timer: Vec<TimerEntry>,
}

/// What the timers of a function of the kernel are for.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TimerEntry {
    function: String,
    #[serde(rename = "for")]
    kind: Spanned<String>,
}

/// The values that a rule may take from an event: as they stand in a file, as templates, and as places in an event.
macro_rules! roles {
    ($($role:ident),*) => {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Entry {
            event: Spanned<String>,
            #[serde(rename = "do")]
            action: Spanned<String>,
            /// Only of classes that have this field: events of one name that two tracers mean differently.
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

roles!(tid, name, state, to, to_name, parent, process, cpu, number, result, about, second, third, allowed, call, before);

#[derive(Debug)]
struct Rule {
    pattern: Pattern,
    action: Action,
    with: Option<String>,
    roles: Roles<Option<Template>>,
}

#[derive(Debug)]
pub struct LinuxRules {
    rules: Vec<Rule>,
    timers: Vec<(String, TimerKind)>,
}

impl LinuxRules {
    pub fn built_in() -> Result<LinuxRules, RuleError> {
        LinuxRules::read("linux.toml", include_str!("../../rules/linux.toml"))
    }

    pub fn read(file: &str, text: &str) -> Result<LinuxRules, RuleError> {
        let place = Place { file, text };
        let parsed: File = parse(file, text)?;
        let mut rules = Vec::new();
        for entry in parsed.rule {
            let action = place.action(&Action::ALL, &entry.action)?;
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

    /// What the timers of this function are for.
    pub(crate) fn timer(&self, function: &[u8]) -> TimerKind {
        let known = self.timers.iter().find(|(name, _)| name.as_bytes() == function);
        known.map_or(TimerKind::Kernel, |(_, kind)| *kind)
    }

    /// Whether the trace has a class for threads that no switch tells of, so that where there is no such event every switch was told.
    pub(crate) fn tells_unseen(&self, catalogue: &Catalogue) -> bool {
        let running = |class: &Class| {
            self.rules.iter().any(|rule| rule.action == Action::Running && rule.pattern.captures(&class.event_name).is_some())
        };
        catalogue.classes.iter().any(running)
    }

    /// Of the groups `irq` and `softirq`, those whose contexts a class of these begins.
    pub(crate) fn tells_contexts(&self, classes: &[Class]) -> [bool; 2] {
        [Action::IrqEnter, Action::SoftirqEnter].map(|wanted| {
            let begins =
                |class: &Class| self.rules.iter().any(|rule| rule.action == wanted && rule.pattern.captures(&class.event_name).is_some());
            classes.iter().any(begins)
        })
    }

    /// None: no rule knows the class.
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
                        fields.split('|').find_map(|field| field_of(class, field)).map_or(Source::None, Source::Field)
                    }
                    // The kernel's rules, which are built in, have none.
                    Some(Template::TextAndField(..)) => Source::None,
                })
            };
            let Ok(roles) = rule.roles.each(source);
            return (rule.action != Action::Ignore).then_some(KernelPlan { action: rule.action, roles });
        }
        None
    }
}

#[derive(Clone, Copy, Debug, Default)]
enum Source {
    #[default]
    None,
    Text(NameId),
    Field(u32),
}

impl Source {
    #[inline]
    fn number(self, fields: &[Value<'_>]) -> Option<i64> {
        match self {
            Source::Field(at) => fields.get(at as usize).and_then(Value::as_i64),
            Source::None | Source::Text(_) => None,
        }
    }

    /// Addresses of the kernel have their highest bit set.
    #[inline]
    fn address(self, fields: &[Value<'_>]) -> Option<u64> {
        match self {
            Source::Field(at) => match fields.get(at as usize) {
                Some(Value::U64(address)) => Some(*address),
                Some(Value::I64(address)) => Some(*address as u64),
                _ => None,
            },
            Source::None | Source::Text(_) => None,
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
                // An array of characters whose metadata does not say that it is text.
                Some(Value::Bytes(bytes)) => bytes.split(|&byte| byte == 0).next().unwrap_or_default(),
                _ => &[],
            },
            Source::None | Source::Text(_) => &[],
        }
    }

    #[inline]
    fn name(self) -> Option<NameId> {
        match self {
            Source::Text(name) => Some(name),
            Source::None | Source::Field(_) => None,
        }
    }
}

/// What the events of a class are about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Subject {
    /// System calls of this name.
    Calls(Option<NameId>),
    Works,
    Other,
}

/// What a class means.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KernelPlan {
    action: Action,
    roles: Roles<Source>,
}

impl KernelPlan {
    /// None if the event lacks what its meaning needs.
    #[inline]
    pub(crate) fn fact<'a>(&self, event: &Event<'a>) -> Option<Fact<'a>> {
        let fields = event.fields;
        let roles = &self.roles;
        let tid = || roles.tid.id(fields);
        let number = || roles.number.number(fields);
        Some(match self.action {
            Action::Switch => Fact::Switch {
                tid: tid()?,
                name: roles.name.bytes(fields),
                state: roles.state.number(fields).unwrap_or(0),
                to: roles.to.id(fields)?,
                to_name: roles.to_name.bytes(fields),
                priority: number(),
                to_priority: roles.second.number(fields),
            },
            Action::Waking => Fact::Waking { tid: tid()?, name: roles.name.bytes(fields), cpu: roles.cpu.cpu(fields) },
            Action::Woken | Action::WokenNew => Fact::Woken {
                tid: tid()?,
                name: roles.name.bytes(fields),
                cpu: roles.cpu.cpu(fields),
                new: self.action == Action::WokenNew,
            },
            Action::Migrate => Fact::Migrate { tid: tid()?, cpu: roles.cpu.cpu(fields)? },
            Action::Fork => Fact::Fork {
                parent: roles.parent.id(fields),
                tid: tid()?,
                process: roles.process.id(fields),
                name: roles.name.bytes(fields),
            },
            Action::Exec => Fact::Exec { tid: tid(), before: roles.before.id(fields), file: roles.name.bytes(fields) },
            Action::Exit => Fact::Exit { tid: tid()? },
            Action::Running => Fact::Running { tid: tid()? },
            Action::Allowed | Action::AllowedAtEnd => {
                let answer = Answer {
                    tid: tid()?,
                    list: roles.allowed.bytes(fields),
                    waited_ns: roles.second.number(fields).unwrap_or(0),
                    by: roles.parent.id(fields),
                    about: roles.about.id(fields),
                    numbers: roles.number.number(fields),
                };
                match self.action {
                    Action::Allowed => Fact::Allowed(answer),
                    _ => Fact::AllowedAtEnd(answer),
                }
            }
            Action::SwitchedOff => Fact::SwitchedOff {
                what: roles.name.bytes(fields),
                classes: roles.allowed.bytes(fields),
                calls: roles.call.bytes(fields),
                ago_ns: roles.second.number(fields).unwrap_or(0),
            },
            Action::Process => Fact::Process {
                tid: tid()?,
                process: roles.process.id(fields),
                parent: roles.parent.id(fields),
                name: roles.name.bytes(fields),
                status: roles.state.number(fields),
                cpu: roles.cpu.cpu(fields),
                // `enum lttng_thread_type`.
                kernel: number() == Some(1),
                allowed: roles.allowed.bytes(fields),
                level: roles.second.number(fields),
                call: Some(roles.call.bytes(fields)).filter(|name| !name.is_empty()).map(|name| (name, roles.about.number(fields))),
            },
            Action::File => Fact::File {
                process: roles.process.id(fields)?,
                fd: roles.about.number(fields)?,
                path: roles.name.bytes(fields),
                flags: roles.second.number(fields),
            },
            Action::Script => Fact::Script { process: roles.process.id(fields)?, name: roles.name.bytes(fields) },
            Action::Title => Fact::Title { process: roles.process.id(fields)?, name: roles.name.bytes(fields) },
            Action::Cgroup => Fact::Cgroup { process: roles.process.id(fields)?, path: roles.name.bytes(fields) },
            Action::IrqName => Fact::IrqName { number: number()?, name: roles.name.bytes(fields), allowed: roles.allowed.bytes(fields) },
            Action::IrqEnter => Fact::Enter(Key::Irq(number()?), roles.name.bytes(fields)),
            Action::IrqLeave => Fact::Leave(Key::Irq(number()?)),
            Action::SoftirqRaise => Fact::Raise { number: number()? },
            Action::SoftirqEnter => Fact::Enter(Key::Softirq(number()?), &[]),
            Action::SoftirqLeave => Fact::Leave(Key::Softirq(number()?)),
            Action::VectorEnter => Fact::Enter(Key::Vector(roles.name.name()?), &[]),
            Action::VectorLeave => Fact::Leave(Key::Vector(roles.name.name()?)),
            Action::SyscallEnter => Fact::SyscallEnter {
                name: roles.name.name()?,
                arguments: Arguments {
                    about: roles.about.number(fields),
                    second: roles.second.number(fields),
                    third: roles.third.number(fields),
                },
            },
            Action::SyscallLeave => Fact::SyscallLeave { name: roles.name.name()?, result: roles.result.number(fields) },
            Action::Fault => Fact::Fault { name: roles.name.name()? },
            Action::Disk => Fact::Disk,
            Action::Issue => Fact::Issue { device: number()?, sector: roles.about.number(fields)? },
            Action::Complete => Fact::Complete { device: number()?, sector: roles.about.number(fields)? },
            Action::WorkQueued => Fact::WorkQueued { work: roles.about.address(fields)? },
            Action::WorkBegins => Fact::WorkBegins { work: roles.about.address(fields)? },
            Action::TimerStart => Fact::TimerStart { timer: roles.about.address(fields)?, at: roles.second.number(fields) },
            Action::TimerCancel => Fact::TimerCancel { timer: roles.about.address(fields)? },
            Action::TimerEnter => Fact::TimerEnter {
                timer: roles.about.address(fields)?,
                function: roles.call.address(fields),
                now: roles.second.number(fields),
            },
            Action::TimerLeave => Fact::TimerLeave { timer: roles.about.address(fields)? },
            Action::Function => Fact::Function { address: roles.about.address(fields)?, name: roles.name.bytes(fields) },
            Action::Retransmit => Fact::Retransmit,
            Action::ReclaimBegins => Fact::Reclaim { begins: true },
            Action::ReclaimEnds => Fact::Reclaim { begins: false },
            Action::Signal => Fact::Signal { tid: tid()?, signal: number()? },
            Action::Ignore => return None,
        })
    }

    /// What its events tell of, as far as something is remembered from one to another.
    pub(crate) fn subject(&self) -> Subject {
        match self.action {
            Action::SyscallEnter | Action::SyscallLeave => Subject::Calls(self.roles.name.name()),
            Action::WorkQueued | Action::WorkBegins => Subject::Works,
            _ => Subject::Other,
        }
    }

    /// Whether it tells who has a CPU.
    pub(crate) fn is_switch(&self) -> bool {
        self.action == Action::Switch
    }
}

/// TSDL names may begin with an underscore that is no part of them.
fn field_of(class: &Class, name: &str) -> Option<u32> {
    let plain = |field: &String| field == name || field.strip_prefix('_') == Some(name);
    class.fields.iter().position(plain)?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_built_in_kernel_rules_are_right() {
        assert!(LinuxRules::built_in().unwrap().rules.len() > 20);
    }

    #[test]
    fn a_wrong_kernel_rule_is_refused_with_its_line() {
        let error = LinuxRules::read("mine.toml", "[[rule]]\nevent = \"a\"\ndo = \"jump\"\n").unwrap_err();
        assert_eq!((error.file.as_str(), error.line), ("mine.toml", 3));
        assert!(error.message.contains("expected one of switch"), "{error}");
        let error = LinuxRules::read("mine.toml", "[[rule]]\nevent = \"a\"\ndo = \"exit\"\ntid = \"$1\"\n").unwrap_err();
        assert_eq!(error.line, 4);
    }

    #[test]
    fn fields_of_either_tracer_are_found() {
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
