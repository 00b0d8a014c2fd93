//! Interactions as lines of a machine log.

use super::line::{KIND, NUMBERED, OF_KERNEL};
use super::quoted;
use crate::interaction::{Cause, Deed, Interaction, MachineId, QueueId, Vocabulary, Wants};
use crate::kinds::StateKind;
use crate::names::NameId;
use crate::tokens::{Amount, Order, Shape, Unit};
use std::fmt::Write as _;
use std::io::{self, Write};

/// Writes what a [`super::Reader`] reads; a line for each interaction. [`Deed::Now`] becomes the time of a declaration that follows.
pub struct Writer<W> {
    out: W,
    line: String,
    /// It goes into the line of the machine's next deed.
    class: Option<(MachineId, NameId)>,
    /// So does this into a declaration.
    now: bool,
    /// Of each machine: it was said that it is a thread of the kernel.
    of_kernel: Vec<bool>,
}

impl<W: Write> Writer<W> {
    pub fn new(out: W) -> Writer<W> {
        Writer { out, line: String::new(), class: None, now: false, of_kernel: Vec::new() }
    }

    pub fn write(&mut self, vocabulary: &Vocabulary, interaction: &Interaction) -> io::Result<()> {
        if let Deed::Class { machine, class } = interaction.deed {
            self.class = Some((machine, class));
            return Ok(());
        }
        let now = std::mem::replace(&mut self.now, interaction.deed == Deed::Now);
        if self.now {
            return Ok(());
        }
        self.line.clear();
        let mut line = Text { line: &mut self.line, vocabulary, class: self.class.take() };
        match interaction.deed {
            Deed::Declare { queue, shape } => line.declaration(queue, shape, now.then_some(interaction.t)),
            _ => line.interaction(interaction),
        }
        if let Deed::State { machine, .. } = interaction.deed {
            self.kernel(vocabulary, machine);
        }
        self.line.push('\n');
        self.out.write_all(self.line.as_bytes())
    }

    /// Says so in the line of its first state.
    fn kernel(&mut self, vocabulary: &Vocabulary, machine: MachineId) {
        let at = machine.0 as usize;
        if !vocabulary.is_of_kernel(machine) || self.of_kernel.get(at).copied().unwrap_or(false) {
            return;
        }
        if self.of_kernel.len() <= at {
            self.of_kernel.resize(at + 1, false);
        }
        self.of_kernel[at] = true;
        self.line.pop();
        // Writing to a string cannot fail.
        let _ = write!(self.line, ",\"{OF_KERNEL}\":true}}");
    }

    pub fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

struct Text<'a> {
    line: &'a mut String,
    vocabulary: &'a Vocabulary,
    class: Option<(MachineId, NameId)>,
}

impl Text<'_> {
    fn interaction(&mut self, interaction: &Interaction) {
        self.push(format_args!("{{\"t\":{}", interaction.t));
        match interaction.deed {
            Deed::Declare { .. } | Deed::Class { .. } | Deed::Now => {}
            Deed::End { machine } => {
                self.host(machine);
                self.text("end", self.vocabulary.machine_name(machine));
            }
            Deed::Here { machine } => self.machine(machine),
            Deed::Fork { machine, cause } => {
                self.machine(machine);
                self.cause("forked_by", cause);
            }
            Deed::State { machine, state } => {
                self.machine(machine);
                self.name("state", Some(state));
                let (names, kind) = (&self.vocabulary.names, self.vocabulary.names.state_kind(state));
                if kind != StateKind::of_text(names.text(state)) {
                    self.text(KIND, kind.word());
                }
            }
            Deed::Block { machine, why, on, wants } => {
                self.machine(machine);
                self.name("blocked", Some(why));
                if let Some(queue) = on {
                    self.queue("on", queue);
                }
                match wants {
                    Some(Wants::Tokens) => self.text("for", "tokens"),
                    Some(Wants::Space) => self.text("for", "space"),
                    None => {}
                }
            }
            Deed::Put { machine, queue, n, flow, link } => {
                self.machine(machine);
                self.queue("put", queue);
                self.amount(Amount::Units(n));
                self.flow(flow);
                self.name("link", link);
            }
            Deed::Get { machine, queue, amount, flow } => {
                self.machine(machine);
                self.queue("get", queue);
                self.amount(amount);
                self.flow(flow);
            }
            Deed::Peek { machine, queue, amount, flow } => {
                self.machine(machine);
                self.queue("peek", queue);
                self.amount(amount);
                self.flow(flow);
            }
            Deed::Reserve { machine, queue, n } => {
                self.machine(machine);
                self.queue("reserve", queue);
                self.amount(Amount::Units(n));
            }
            Deed::Wake { machine, cause } => {
                self.machine(machine);
                match cause {
                    Some(cause) => self.cause("woken_by", cause),
                    None => self.push(format_args!(",\"woken_by\":null")),
                }
            }
            Deed::Push { machine, below, cause } => {
                self.machine(machine);
                match below {
                    Some(below) => self.text("on_top_of", self.vocabulary.machine_name(below)),
                    None => self.push(format_args!(",\"on_top_of\":null")),
                }
                match cause {
                    Some(Some(cause)) => self.cause("forked_by", cause),
                    Some(None) => self.push(format_args!(",\"forked_by\":null")),
                    None => {}
                }
            }
            Deed::Pop { machine } => {
                self.machine(machine);
                self.push(format_args!(",\"pop\":true"));
            }
            Deed::Stop { machine } => {
                self.machine(machine);
                self.push(format_args!(",\"stop\":true"));
            }
        }
        self.line.push('}');
    }

    fn declaration(&mut self, queue: QueueId, shape: Shape, t: Option<u64>) {
        self.line.push('{');
        self.queue("queue", queue);
        // The first member has no comma before it.
        self.line.remove(1);
        if let Some(t) = t {
            self.push(format_args!(",\"t\":{t}"));
        }
        if let Some(capacity) = shape.capacity {
            self.push(format_args!(",\"capacity\":{capacity}"));
        }
        if shape.order == Order::Lifo {
            self.text("order", "lifo");
        }
        if shape.unit == Unit::Bytes {
            self.text("unit", "bytes");
        }
        if shape.initial > 0 {
            self.push(format_args!(",\"initial\":{}", shape.initial));
        }
        if shape.merge {
            self.push(format_args!(",\"merge\":true"));
        }
        self.line.push('}');
    }

    fn push(&mut self, text: std::fmt::Arguments<'_>) {
        // Writing to a string cannot fail.
        let _ = self.line.write_fmt(text);
    }

    fn text(&mut self, key: &str, text: &str) {
        self.push(format_args!(",\"{key}\":{}", serde_json::Value::from(text)));
    }

    fn name(&mut self, key: &str, name: Option<NameId>) {
        if let Some(name) = name {
            self.push(format_args!(",\"{key}\":{}", quoted(self.vocabulary, name)));
        }
    }

    fn flow(&mut self, flow: Option<NameId>) {
        let Some(name) = flow else { return };
        match self.vocabulary.names.text(name).strip_prefix(NUMBERED) {
            Some(text) if text.starts_with(NUMBERED) => self.text("flow", text),
            Some(digits) => self.push(format_args!(",\"flow\":{digits}")),
            None => self.name("flow", flow),
        }
    }

    fn queue(&mut self, key: &str, queue: QueueId) {
        self.text(key, self.vocabulary.queue_name(queue));
    }

    fn amount(&mut self, amount: Amount) {
        match amount {
            Amount::Units(1) => {}
            Amount::Units(n) => self.push(format_args!(",\"n\":{n}")),
            Amount::All => self.text("n", "all"),
        }
    }

    fn host(&mut self, machine: MachineId) {
        let host = self.vocabulary.host(machine);
        if !host.is_empty() {
            self.text("host", host);
        }
    }

    fn machine(&mut self, machine: MachineId) {
        self.host(machine);
        self.text("machine", self.vocabulary.machine_name(machine));
        if let Some((_, class)) = self.class.take().filter(|class| class.0 == machine) {
            self.name("class", Some(class));
        }
    }

    fn cause(&mut self, key: &str, cause: Cause) {
        self.text(key, self.vocabulary.machine_name(cause.by));
        if let Some(at) = cause.at {
            self.push(format_args!(",\"at\":{at}"));
        }
        self.name("link", cause.link);
    }
}
