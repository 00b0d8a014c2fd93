//! The keys and values of one line, the rules about which keys may be combined, and the conversion
//! to a [`Line`].

use crate::error::{Fault, LineErrorKind};
use crate::line::{Action, Amount, Cause, Content, Declaration, Flow, Line, Machine, Order, Text, Unit, Wants};

/// Keys of the format. Other keys must begin with `x_`, or the line is refused.
pub const KEYS: [&str; 28] = [
    "t",
    "host",
    "machine",
    "class",
    "state",
    "blocked",
    "on",
    "for",
    "put",
    "get",
    "peek",
    "reserve",
    "n",
    "flow",
    "woken_by",
    "forked_by",
    "at",
    "link",
    "on_top_of",
    "pop",
    "stop",
    "end",
    "queue",
    "capacity",
    "order",
    "unit",
    "initial",
    "merge",
];

/// Key that marks a machine as a kernel thread.
pub const KERNEL_THREAD: &str = "x_kernel";
/// Key with the kind of the line's state.
pub const KIND: &str = "x_kind";

#[derive(Debug, Default, PartialEq)]
pub struct Fields<'a> {
    pub t: Option<u64>,
    pub host: Option<Text<'a>>,
    pub machine: Option<Text<'a>>,
    pub class: Option<Text<'a>>,
    pub state: Option<Text<'a>>,
    pub blocked: Option<Text<'a>>,
    pub on: Option<Text<'a>>,
    pub wants: Option<Text<'a>>,
    pub put: Option<Text<'a>>,
    pub get: Option<Text<'a>>,
    pub peek: Option<Text<'a>>,
    pub reserve: Option<Text<'a>>,
    pub n: Option<Amount>,
    pub flow: Option<Flow<'a>>,
    /// Name of a machine; `Some(None)` for `null`, also in the next two fields.
    pub woken_by: Option<Option<Text<'a>>>,
    pub forked_by: Option<Option<Text<'a>>>,
    pub on_top_of: Option<Option<Text<'a>>>,
    pub at: Option<u64>,
    pub link: Option<Text<'a>>,
    pub pop: bool,
    pub stop: bool,
    pub end: Option<Text<'a>>,
    pub queue: Option<Text<'a>>,
    pub capacity: Option<u64>,
    pub order: Option<Text<'a>>,
    pub unit: Option<Text<'a>>,
    pub initial: Option<u64>,
    pub merge: bool,
    pub is_kernel_thread: bool,
    pub kind: Option<Text<'a>>,
    /// Keys of the line, as bits by index in [`KEYS`].
    pub keys: u32,
}

/// Returns the bit of a key in [`Fields::keys`].
pub const fn bit(name: &str) -> u32 {
    let mut at = 0;
    while at < KEYS.len() {
        if same(KEYS[at].as_bytes(), name.as_bytes()) {
            return 1 << at;
        }
        at += 1;
    }
    0
}

const fn same(a: &[u8], b: &[u8]) -> bool {
    if a.len() != b.len() {
        return false;
    }
    let mut at = 0;
    while at < a.len() {
        if a[at] != b[at] {
            return false;
        }
        at += 1;
    }
    true
}

/// Keys of which a line may have only one.
const ACTIONS: u32 = bit("blocked") | bit("put") | bit("get") | bit("peek") | bit("reserve") | bit("woken_by") | bit("pop") | bit("stop");

/// Keys that qualify others: the bit of the key, the bits of the others, and both as text.
const DETAILS: [(u32, u32, &str, &str); 6] = [
    (bit("n"), bit("put") | bit("get") | bit("peek") | bit("reserve"), "n", "put, get, peek or reserve"),
    (bit("flow"), bit("put") | bit("get") | bit("peek"), "flow", "put, get or peek"),
    (bit("link"), bit("put") | bit("woken_by") | bit("forked_by"), "link", "put, woken_by or forked_by"),
    (bit("at"), bit("woken_by") | bit("forked_by"), "at", "woken_by or forked_by"),
    (bit("on"), bit("blocked"), "on", "blocked"),
    (bit("for"), bit("blocked"), "for", "blocked"),
];

impl<'a> Fields<'a> {
    fn has(&self, keys: u32) -> bool {
        self.keys & keys != 0
    }

    /// Converts the fields to a line and moves their texts into it.
    #[inline]
    pub fn line(&mut self) -> Result<Line<'a>, Fault> {
        if self.queue.is_some() {
            let allowed = const { bit("queue") | bit("capacity") | bit("order") | bit("unit") | bit("initial") | bit("merge") };
            self.only(allowed, "`queue`")?;
            return self.declaration();
        }
        let t = Some(self.t.ok_or(LineErrorKind::NoTime)?);
        if self.end.is_some() {
            self.only(const { bit("end") }, "`end`")?;
            let machine = self.end.take().unwrap_or_default();
            return Ok(Line { t, host: self.host.take().unwrap_or_default(), content: Content::End(machine) });
        }
        if self.machine.is_none() {
            return Err(LineErrorKind::NoSubject.into());
        }
        self.check()?;
        let action = self.action()?;
        let forked_by = self.forked_by.take().map(|by| by.map(|machine| Cause { machine, at: self.at, link: self.link.take() }));
        let machine = Machine {
            machine: self.machine.take().unwrap_or_default(),
            class: self.class.take(),
            on_top_of: self.on_top_of.take(),
            forked_by,
            action,
            state: self.state.take(),
            kind: self.kind.take(),
            is_kernel_thread: self.is_kernel_thread,
        };
        Ok(Line { t, host: self.host.take().unwrap_or_default(), content: Content::Machine(machine) })
    }

    /// Refuses all keys except `allowed`, time and host.
    fn only(&self, allowed: u32, with: &'static str) -> Result<(), LineErrorKind> {
        match self.keys & !(allowed | const { bit("t") | bit("host") }) {
            0 => Ok(()),
            more => Err(LineErrorKind::Conflict(named(more), with)),
        }
    }

    /// Checks a line of a machine: it may have one action, and only the keys that belong to it.
    fn check(&self) -> Result<(), LineErrorKind> {
        let queue_keys = const { bit("capacity") | bit("order") | bit("unit") | bit("initial") | bit("merge") | bit("end") };
        if self.has(queue_keys) {
            return Err(LineErrorKind::Conflict(named(self.keys & queue_keys), "`machine`"));
        }
        let actions = self.keys & ACTIONS;
        if actions.count_ones() > 1 {
            let first = 1 << actions.trailing_zeros();
            return Err(LineErrorKind::TwoActions(named(first), named(actions & !first)));
        }
        if self.has(const { bit("pop") | bit("stop") }) && self.has(const { bit("on_top_of") | bit("forked_by") }) {
            return Err(LineErrorKind::Conflict(named(actions), "`on_top_of` or `forked_by`"));
        }
        if self.has(const { bit("state") }) && self.has(const { bit("blocked") | bit("pop") | bit("stop") }) {
            return Err(LineErrorKind::Conflict("state", shown(actions)));
        }
        if self.has(const { bit("at") | bit("link") })
            && self.has(const { bit("forked_by") })
            && self.has(const { bit("woken_by") | bit("put") })
        {
            return Err(LineErrorKind::TwoCauses);
        }
        for (key, owners, name, written) in DETAILS {
            if self.has(key) && !self.has(owners) {
                return Err(LineErrorKind::Alone(name, written));
            }
        }
        Ok(())
    }

    fn declaration(&mut self) -> Result<Line<'a>, Fault> {
        let order = match self.order.as_deref() {
            None | Some("fifo") => Order::Fifo,
            Some("lifo") => Order::Lifo,
            Some(word) => return Err(no_word("order", word, "a queue is \"fifo\" or \"lifo\"").into()),
        };
        let unit = match self.unit.as_deref() {
            None | Some("items") => Unit::Items,
            Some("bytes") => Unit::Bytes,
            Some(word) => return Err(no_word("unit", word, "a queue holds \"items\" or \"bytes\"").into()),
        };
        let queue = self.queue.take().unwrap_or_default();
        let declaration =
            Declaration { queue, capacity: self.capacity, order, unit, initial: self.initial.unwrap_or(0), merge: self.merge };
        declaration.check()?;
        Ok(Line { t: self.t, host: self.host.take().unwrap_or_default(), content: Content::Declaration(declaration) })
    }

    #[inline]
    fn action(&mut self) -> Result<Option<Action<'a>>, LineErrorKind> {
        if !self.has(ACTIONS) {
            return Ok(None);
        }
        let (amount, flow) = (self.n.unwrap_or(Amount::Units(1)), self.flow.take());
        let units = || match amount {
            Amount::Units(n) => Ok(n),
            Amount::All => Err(LineErrorKind::AllUnits),
        };
        Ok(Some(if let Some(queue) = self.put.take() {
            Action::Put { queue, n: units()?, flow, link: self.link.take() }
        } else if let Some(queue) = self.get.take() {
            Action::Get { queue, amount, flow }
        } else if let Some(queue) = self.peek.take() {
            Action::Peek { queue, amount, flow }
        } else if let Some(queue) = self.reserve.take() {
            Action::Reserve { queue, n: units()? }
        } else if let Some(why) = self.blocked.take() {
            let wants = match self.wants.as_deref() {
                None => None,
                Some("tokens") => Some(Wants::Tokens),
                Some("space") => Some(Wants::Space),
                Some(word) => return Err(no_word("for", word, "a block is for \"tokens\" or \"space\"")),
            };
            Action::Blocked { why, on: self.on.take(), wants }
        } else if let Some(by) = self.woken_by.take() {
            Action::WokenBy(by.map(|machine| Cause { machine, at: self.at, link: self.link.take() }))
        } else if self.pop {
            Action::Pop
        } else {
            Action::Stop
        }))
    }
}

impl Declaration<'_> {
    /// Checks that a queue can have these properties.
    pub(crate) fn check(&self) -> Result<(), LineErrorKind> {
        match self.capacity {
            Some(0) => Err(LineErrorKind::NoCapacity),
            Some(capacity) if self.initial > capacity => Err(LineErrorKind::BeyondCapacity { initial: self.initial, capacity }),
            _ => Ok(()),
        }
    }
}

#[cold]
fn no_word(key: &'static str, word: &str, expected: &'static str) -> LineErrorKind {
    LineErrorKind::Word { key, word: word.to_owned(), expected }
}

/// Returns the first of these keys.
fn named(keys: u32) -> &'static str {
    KEYS.get(keys.trailing_zeros() as usize).copied().unwrap_or("")
}

/// Returns the action in backquotes.
fn shown(action: u32) -> &'static str {
    match named(action) {
        "blocked" => "`blocked`",
        "pop" => "`pop`",
        _ => "`stop`",
    }
}
