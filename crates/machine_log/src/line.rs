//! A line with its typed content. Names borrow from the text that was read, unless they have
//! escapes.

use std::borrow::Cow;

/// Maximum number of bytes of a line, without its end. A longer line is refused, so that memory is
/// bounded.
pub const LONGEST_LINE: usize = 1 << 20;

/// Name of a host, machine, class, state, queue or link.
pub type Text<'a> = Cow<'a, str>;

/// One line of a machine log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line<'a> {
    /// Time in ns, at most 2⁶³ − 1, on one clock for all hosts. Only a declaration may lack it.
    pub t: Option<u64>,
    /// Host of all machines that the line names; `""` if the line names no host.
    pub host: Text<'a>,
    /// Content of the line.
    pub content: Content<'a>,
}

/// Content of a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content<'a> {
    /// Declaration of a queue (`queue`), which must precede its first use.
    Declaration(Declaration<'a>),
    /// Action or existence of a machine (`machine`).
    Machine(Machine<'a>),
    /// The machine whose end is the end of the critical path (`end`). The last such line of a log
    /// is used.
    End(Text<'a>),
}

/// A queue, lock, credit or similar, and its properties.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Declaration<'a> {
    /// Name of the queue, which is the same on all hosts.
    pub queue: Text<'a>,
    /// Maximum number of units in the queue, at least 1; `None` if unlimited.
    pub capacity: Option<u64>,
    /// Unit that a get takes first.
    pub order: Order,
    /// Meaning of a unit.
    pub unit: Unit,
    /// Units that are in the queue from the begin; they have no cause.
    pub initial: u64,
    /// If set, the cause of a get is the put that made the queue non-empty, instead of the put of
    /// the last unit that is taken.
    pub merge: bool,
}

impl<'a> Declaration<'a> {
    /// Returns a queue with the defaults: unlimited, first in first out, items, empty.
    pub fn new(queue: impl Into<Text<'a>>) -> Declaration<'a> {
        Declaration { queue: queue.into(), capacity: None, order: Order::Fifo, unit: Unit::Items, initial: 0, merge: false }
    }
}

/// Order in which units are taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// Oldest unit first (`"fifo"`).
    #[default]
    Fifo,
    /// Newest unit first (`"lifo"`).
    Lifo,
}

/// Meaning of a queue's unit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Unit {
    /// `"items"`.
    #[default]
    Items,
    /// `"bytes"`.
    Bytes,
}

/// Content of a line about a machine. A line without class, context, cause, action and state means
/// that the machine exists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machine<'a> {
    /// Name of the machine.
    pub machine: Text<'a>,
    /// Class of the machine; `None` for the class with the machine's name.
    pub class: Option<Text<'a>>,
    /// Machine on top of which this machine begins, which is then a context such as an interrupt;
    /// `Some(None)` for an idle CPU (`null`).
    pub on_top_of: Option<Option<Text<'a>>>,
    /// Cause of the machine's begin; `Some(None)` for an unknown cause (`null`).
    pub forked_by: Option<Option<Cause<'a>>>,
    /// Action of the machine.
    pub action: Option<Action<'a>>,
    /// State of the machine after the action.
    pub state: Option<Text<'a>>,
    /// Kind of the state, as named by the writer of the log (`x_kind`).
    pub kind: Option<Text<'a>>,
    /// Set if the machine is a kernel thread (`x_kernel`).
    pub is_kernel_thread: bool,
}

impl<'a> Machine<'a> {
    /// Returns a line content that only means that the machine exists.
    pub fn new(machine: impl Into<Text<'a>>) -> Machine<'a> {
        Machine {
            machine: machine.into(),
            class: None,
            on_top_of: None,
            forked_by: None,
            action: None,
            state: None,
            kind: None,
            is_kernel_thread: false,
        }
    }
}

/// Action of a machine; one per line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action<'a> {
    /// The machine waits.
    Blocked {
        /// Name of the wait.
        why: Text<'a>,
        /// Queue in which the machine waits.
        on: Option<Text<'a>>,
        /// Thing that the machine waits for in that queue.
        wants: Option<Wants>,
    },
    /// The machine puts a token into a queue.
    Put {
        /// The queue.
        queue: Text<'a>,
        /// Units of the token, from 1 to 2⁶³ − 1.
        n: u64,
        /// Flow of the token. A get that names a flow takes only tokens of that flow.
        flow: Option<Flow<'a>>,
        /// Name of the time from the put to the get.
        link: Option<Text<'a>>,
    },
    /// The machine takes units from a queue.
    Get {
        /// The queue.
        queue: Text<'a>,
        /// Number of units.
        amount: Amount,
        /// Flow to which the tokens must belong.
        flow: Option<Flow<'a>>,
    },
    /// The machine finds units in a queue and takes none.
    Peek {
        /// The queue.
        queue: Text<'a>,
        /// Number of units.
        amount: Amount,
        /// Flow to which the tokens must belong.
        flow: Option<Flow<'a>>,
    },
    /// The machine takes space in a queue in advance. Its next put into that queue uses this space
    /// first.
    Reserve {
        /// The queue.
        queue: Text<'a>,
        /// Units of space, from 1 to 2⁶³ − 1.
        n: u64,
    },
    /// The machine's block ends; `None` for an unknown cause (`null`).
    WokenBy(Option<Cause<'a>>),
    /// The machine is a context, and ends.
    Pop,
    /// The machine ends.
    Stop,
}

/// A machine that causes something, and the time of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cause<'a> {
    /// Name of the machine.
    pub machine: Text<'a>,
    /// Time of the cause in ns; `None` for the time of the line.
    pub at: Option<u64>,
    /// Name of the time from the cause to its effect.
    pub link: Option<Text<'a>>,
}

/// Thing that a blocked machine waits for in a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wants {
    /// Tokens to take (`"tokens"`).
    Tokens,
    /// Room to put one (`"space"`).
    Space,
}

/// Amount of a get or peek.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Amount {
    /// Number of units, from 1 to 2⁶³ − 1.
    Units(u64),
    /// All units in the queue (`"all"`).
    All,
}

/// A flow. The number `7` and the text `"7"` are different flows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Flow<'a> {
    /// A name.
    Text(Text<'a>),
    /// A number, from −2⁶³ to 2⁶⁴ − 1.
    Number(i128),
}

impl<'a> Line<'a> {
    /// Returns a line about a machine on the host `""`.
    pub fn of_machine(t: u64, machine: Machine<'a>) -> Line<'a> {
        Line { t: Some(t), host: Text::default(), content: Content::Machine(machine) }
    }

    /// Returns a line that changes a machine's state.
    pub fn state(t: u64, machine: impl Into<Text<'a>>, state: impl Into<Text<'a>>) -> Line<'a> {
        Line::of_machine(t, Machine { state: Some(state.into()), ..Machine::new(machine) })
    }

    /// Returns a line with an action of a machine.
    pub fn action(t: u64, machine: impl Into<Text<'a>>, action: Action<'a>) -> Line<'a> {
        Line::of_machine(t, Machine { action: Some(action), ..Machine::new(machine) })
    }

    /// Returns a declaration without a time.
    pub fn declaration(declaration: Declaration<'a>) -> Line<'a> {
        Line { t: None, host: Text::default(), content: Content::Declaration(declaration) }
    }

    /// Returns a line that names the machine, on the host `""`, whose end is the end of the
    /// critical path.
    pub fn end(t: u64, machine: impl Into<Text<'a>>) -> Line<'a> {
        Line { t: Some(t), host: Text::default(), content: Content::End(machine.into()) }
    }

    /// Returns the line with owned texts, so that it remains valid when the next line is read.
    pub fn into_owned(self) -> Line<'static> {
        let content = match self.content {
            Content::Declaration(declaration) => {
                let Declaration { queue, capacity, order, unit, initial, merge } = declaration;
                Content::Declaration(Declaration { queue: owned(queue), capacity, order, unit, initial, merge })
            }
            Content::Machine(machine) => Content::Machine(machine.into_owned()),
            Content::End(machine) => Content::End(owned(machine)),
        };
        Line { t: self.t, host: owned(self.host), content }
    }
}

fn owned(text: Text<'_>) -> Text<'static> {
    Cow::Owned(text.into_owned())
}

impl Machine<'_> {
    fn into_owned(self) -> Machine<'static> {
        Machine {
            machine: owned(self.machine),
            class: self.class.map(owned),
            on_top_of: self.on_top_of.map(|below| below.map(owned)),
            forked_by: self.forked_by.map(|cause| cause.map(Cause::into_owned)),
            action: self.action.map(Action::into_owned),
            state: self.state.map(owned),
            kind: self.kind.map(owned),
            is_kernel_thread: self.is_kernel_thread,
        }
    }
}

impl Action<'_> {
    fn into_owned(self) -> Action<'static> {
        let flow_owned = |flow: Option<Flow<'_>>| flow.map(Flow::into_owned);
        match self {
            Action::Blocked { why, on, wants } => Action::Blocked { why: owned(why), on: on.map(owned), wants },
            Action::Put { queue, n, flow, link } => Action::Put { queue: owned(queue), n, flow: flow_owned(flow), link: link.map(owned) },
            Action::Get { queue, amount, flow } => Action::Get { queue: owned(queue), amount, flow: flow_owned(flow) },
            Action::Peek { queue, amount, flow } => Action::Peek { queue: owned(queue), amount, flow: flow_owned(flow) },
            Action::Reserve { queue, n } => Action::Reserve { queue: owned(queue), n },
            Action::WokenBy(cause) => Action::WokenBy(cause.map(Cause::into_owned)),
            Action::Pop => Action::Pop,
            Action::Stop => Action::Stop,
        }
    }
}

impl Cause<'_> {
    fn into_owned(self) -> Cause<'static> {
        Cause { machine: owned(self.machine), at: self.at, link: self.link.map(owned) }
    }
}

impl Flow<'_> {
    fn into_owned(self) -> Flow<'static> {
        match self {
            Flow::Text(text) => Flow::Text(owned(text)),
            Flow::Number(number) => Flow::Number(number),
        }
    }
}
