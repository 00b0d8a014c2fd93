//! One line, typed. Names borrow from the text that was read, where it has no escapes.

use std::borrow::Cow;

/// A name: of a host, machine, class, state, queue or link.
pub type Text<'a> = Cow<'a, str>;

/// One line of a machine log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line<'a> {
    /// Time in ns, at most 2⁶³ − 1, on one clock for all hosts. Only a declaration may have none.
    pub t: Option<u64>,
    /// Host of all machines that the line names; `""` if the line names no host.
    pub host: Text<'a>,
    /// What the line says.
    pub content: Content<'a>,
}

/// What a line says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content<'a> {
    /// A queue is declared (`queue`), before its first use.
    Declaration(Declaration<'a>),
    /// A machine does something, or exists (`machine`).
    Machine(Machine<'a>),
    /// The machine whose end counts (`end`); the last such line of a log is used.
    End(Text<'a>),
}

/// A queue, lock, credit, … and its properties.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Declaration<'a> {
    /// Name of the queue, which is the same on all hosts.
    pub queue: Text<'a>,
    /// Most units that it holds, at least 1; `None`: unlimited.
    pub capacity: Option<u64>,
    /// Which unit a get takes.
    pub order: Order,
    /// What a unit is.
    pub unit: Unit,
    /// Units that are in it from the begin; they have no cause.
    pub initial: u64,
    /// The cause of a get is the put that made the queue non-empty, not the last of the units
    /// taken.
    pub merge: bool,
}

impl<'a> Declaration<'a> {
    /// A queue with the defaults: unlimited, first in first out, of items, empty.
    pub fn new(queue: impl Into<Text<'a>>) -> Declaration<'a> {
        Declaration { queue: queue.into(), capacity: None, order: Order::Fifo, unit: Unit::Items, initial: 0, merge: false }
    }
}

/// Which unit a get takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// The oldest (`"fifo"`).
    #[default]
    Fifo,
    /// The newest (`"lifo"`).
    Lifo,
}

/// What a unit of a queue is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Unit {
    /// `"items"`.
    #[default]
    Items,
    /// `"bytes"`.
    Bytes,
}

/// What a machine does. A line without class, context, cause, action and state says that the
/// machine exists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machine<'a> {
    /// Its name.
    pub machine: Text<'a>,
    /// Class of machines that it belongs to; `None`: the class that has the machine's name.
    pub class: Option<Text<'a>>,
    /// The machine is a context (an interrupt) that begins on top of this machine; `Some(None)`: on
    /// an idle CPU (`null`).
    pub on_top_of: Option<Option<Text<'a>>>,
    /// The machine begins because of this cause; `Some(None)`: the cause is not known (`null`).
    pub forked_by: Option<Option<Cause<'a>>>,
    /// What it does.
    pub action: Option<Action<'a>>,
    /// Its state from now on, after the action.
    pub state: Option<Text<'a>>,
    /// Kind of the state, in the writer's own words (`x_kind`).
    pub kind: Option<Text<'a>>,
    /// The machine is a thread of a kernel (`x_kernel`).
    pub is_kernel_thread: bool,
}

impl<'a> Machine<'a> {
    /// The machine exists.
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

/// What a machine does; one per line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action<'a> {
    /// It waits.
    Blocked {
        /// Name of the wait.
        why: Text<'a>,
        /// The queue in which it waits.
        on: Option<Text<'a>>,
        /// What it waits for there.
        wants: Option<Wants>,
    },
    /// It puts a token into a queue.
    Put {
        /// The queue.
        queue: Text<'a>,
        /// Units of the token, from 1 to 2⁶³ − 1.
        n: u64,
        /// Gets that name a flow take only tokens of that flow.
        flow: Option<Flow<'a>>,
        /// Name of the time from the put to the get.
        link: Option<Text<'a>>,
    },
    /// It takes units from a queue.
    Get {
        /// The queue.
        queue: Text<'a>,
        /// How many.
        amount: Amount,
        /// Only tokens of this flow.
        flow: Option<Flow<'a>>,
    },
    /// It finds units in a queue and takes none.
    Peek {
        /// The queue.
        queue: Text<'a>,
        /// How many.
        amount: Amount,
        /// Only tokens of this flow.
        flow: Option<Flow<'a>>,
    },
    /// It takes space of a queue early; its next put into it uses that first.
    Reserve {
        /// The queue.
        queue: Text<'a>,
        /// Units of space, from 1 to 2⁶³ − 1.
        n: u64,
    },
    /// Its block ends; `None`: the cause is not known (`null`).
    WokenBy(Option<Cause<'a>>),
    /// It is a context that ends.
    Pop,
    /// It ends.
    Stop,
}

/// The machine that causes something, and when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cause<'a> {
    /// Name of the machine.
    pub machine: Text<'a>,
    /// Time of the cause in ns; `None`: that of the line.
    pub at: Option<u64>,
    /// Name of the time from the cause to its effect.
    pub link: Option<Text<'a>>,
}

/// What a blocked machine waits for in a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wants {
    /// Tokens to take (`"tokens"`).
    Tokens,
    /// Room to put one (`"space"`).
    Space,
}

/// How much a get or peek asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Amount {
    /// So many units, from 1 to 2⁶³ − 1.
    Units(u64),
    /// Everything that is there (`"all"`).
    All,
}

/// A flow; `7` and `"7"` are two.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Flow<'a> {
    /// A name.
    Text(Text<'a>),
    /// A number, from −2⁶³ to 2⁶⁴ − 1.
    Number(i128),
}

impl<'a> Line<'a> {
    /// A line of a machine on the host `""`.
    pub fn of_machine(t: u64, machine: Machine<'a>) -> Line<'a> {
        Line { t: Some(t), host: Text::default(), content: Content::Machine(machine) }
    }

    /// The machine's state from now on.
    pub fn state(t: u64, machine: impl Into<Text<'a>>, state: impl Into<Text<'a>>) -> Line<'a> {
        Line::of_machine(t, Machine { state: Some(state.into()), ..Machine::new(machine) })
    }

    /// What the machine does.
    pub fn action(t: u64, machine: impl Into<Text<'a>>, action: Action<'a>) -> Line<'a> {
        Line::of_machine(t, Machine { action: Some(action), ..Machine::new(machine) })
    }

    /// A declaration without a time.
    pub fn declaration(declaration: Declaration<'a>) -> Line<'a> {
        Line { t: None, host: Text::default(), content: Content::Declaration(declaration) }
    }

    /// The machine, on the host `""`, whose end counts.
    pub fn end(t: u64, machine: impl Into<Text<'a>>) -> Line<'a> {
        Line { t: Some(t), host: Text::default(), content: Content::End(machine.into()) }
    }

    /// The line with texts of its own, so that it can be kept when the next one is read.
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
