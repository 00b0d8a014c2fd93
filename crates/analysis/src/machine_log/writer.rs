//! Conversion of interactions to lines of a machine log.

use super::NUMBERED;
use longpole_machine_log::{self as log, Action, Content, Declaration, Line, Machine};
use longpole_model::interaction::{Cause, Effect, Interaction, MachineId, QueueId, Vocabulary, Wants};
use longpole_model::kinds::StateKind;
use longpole_model::names::NameId;
use longpole_model::tokens::{Amount, Order, Unit};
use std::borrow::Cow;
use std::io::{self, Write};

/// Writes what a [`super::Reader`] reads, one line per interaction. [`Effect::Now`] becomes the
/// time of a following declaration.
pub struct Writer<W> {
    lines: log::Writer<W>,
    /// Class for the line of the machine's next interaction.
    class: Option<(MachineId, NameId)>,
    /// True if a following declaration has a time.
    now: bool,
    /// For each machine, whether a line has marked it as a kernel thread.
    of_kernel: Vec<bool>,
}

impl<W: Write> Writer<W> {
    /// Returns a writer of an empty log.
    pub fn new(out: W) -> Writer<W> {
        Writer { lines: log::Writer::new(out), class: None, now: false, of_kernel: Vec::new() }
    }

    /// Writes an interaction whose names are in the vocabulary.
    pub fn write(&mut self, vocabulary: &Vocabulary, interaction: &Interaction) -> io::Result<()> {
        let now = match interaction.effect {
            Effect::Class { machine, class } => {
                self.class = Some((machine, class));
                return Ok(());
            }
            effect => std::mem::replace(&mut self.now, effect == Effect::Now),
        };
        let names = Names { vocabulary, class: self.class };
        let Some(mut line) = names.line(interaction) else { return Ok(()) };
        self.class = None;
        match &mut line.content {
            Content::Declaration(_) if !now => line.t = None,
            Content::Machine(machine) => machine.is_kernel_thread = self.is_news_of_kernel(vocabulary, interaction.effect),
            _ => {}
        }
        self.lines.write(&line)
    }

    /// Returns whether this line has to mark the machine as a kernel thread: the line of its first
    /// state does.
    fn is_news_of_kernel(&mut self, vocabulary: &Vocabulary, effect: Effect) -> bool {
        let Effect::State { machine, .. } = effect else { return false };
        if !vocabulary.is_kernel_thread(machine) {
            return false;
        }
        let at = machine.0 as usize;
        if self.of_kernel.len() <= at {
            self.of_kernel.resize(at + 1, false);
        }
        !std::mem::replace(&mut self.of_kernel[at], true)
    }

    /// Flushes the output.
    pub fn flush(&mut self) -> io::Result<()> {
        self.lines.flush()
    }
}

/// The vocabulary, and the class of the line's machine.
struct Names<'a> {
    vocabulary: &'a Vocabulary,
    class: Option<(MachineId, NameId)>,
}

impl<'a> Names<'a> {
    /// Returns the line for an interaction; `None` if it becomes a part of a later line.
    fn line(&self, interaction: &Interaction) -> Option<Line<'a>> {
        let of = |machine, action| self.machine(machine, |line| line.action = Some(action));
        let (host, content) = match interaction.effect {
            Effect::Declare { queue, shape } => {
                let declaration = Declaration {
                    queue: self.vocabulary.queue_name(queue).into(),
                    capacity: shape.capacity,
                    order: match shape.order {
                        Order::Fifo => log::Order::Fifo,
                        Order::Lifo => log::Order::Lifo,
                    },
                    unit: match shape.unit {
                        Unit::Items => log::Unit::Items,
                        Unit::Bytes => log::Unit::Bytes,
                    },
                    initial: shape.initial,
                    merge: shape.merge,
                };
                (Cow::Borrowed(""), Content::Declaration(declaration))
            }
            Effect::End { machine } => (self.vocabulary.host(machine).into(), Content::End(self.vocabulary.machine_name(machine).into())),
            Effect::Class { .. } | Effect::Now => return None,
            Effect::Here { machine } | Effect::Remember { machine } => self.machine(machine, |_| {}),
            Effect::Fork { machine, cause } => self.machine(machine, |line| line.forked_by = Some(Some(self.cause(cause)))),
            Effect::State { machine, state } => self.machine(machine, |line| {
                let (text, kind) = (self.name(state), self.vocabulary.names.state_kind(state));
                line.kind = (kind != StateKind::of_text(&text)).then(|| kind.word().into());
                line.state = Some(text);
            }),
            Effect::Block { machine, why, on, wants } => {
                let wants = wants.map(|wants| match wants {
                    Wants::Tokens => log::Wants::Tokens,
                    Wants::Space => log::Wants::Space,
                });
                of(machine, Action::Blocked { why: self.name(why), on: on.map(|queue| self.queue(queue)), wants })
            }
            Effect::Put { machine, queue, n, flow, link } => {
                let (flow, link) = (flow.map(|flow| self.flow(flow)), link.map(|link| self.name(link)));
                of(machine, Action::Put { queue: self.queue(queue), n, flow, link })
            }
            Effect::Get { machine, queue, amount, flow } => {
                let flow = flow.map(|flow| self.flow(flow));
                of(machine, Action::Get { queue: self.queue(queue), amount: units(amount), flow })
            }
            Effect::Peek { machine, queue, amount, flow } => {
                let flow = flow.map(|flow| self.flow(flow));
                of(machine, Action::Peek { queue: self.queue(queue), amount: units(amount), flow })
            }
            Effect::Reserve { machine, queue, n } => of(machine, Action::Reserve { queue: self.queue(queue), n }),
            Effect::Wake { machine, cause } => of(machine, Action::WokenBy(cause.map(|cause| self.cause(cause)))),
            Effect::Push { machine, below, cause } => self.machine(machine, |line| {
                line.on_top_of = Some(below.map(|below| self.vocabulary.machine_name(below).into()));
                line.forked_by = cause.map(|cause| cause.map(|cause| self.cause(cause)));
            }),
            Effect::Pop { machine } => of(machine, Action::Pop),
            Effect::Stop { machine } => of(machine, Action::Stop),
        };
        Some(Line { t: Some(interaction.t), host, content })
    }

    /// Returns the host and the line of a machine, which `fill` completes.
    fn machine(&self, machine: MachineId, fill: impl FnOnce(&mut Machine<'a>)) -> (log::Text<'a>, Content<'a>) {
        let mut line = Machine::new(self.vocabulary.machine_name(machine));
        line.class = self.class.filter(|&(of, _)| of == machine).map(|(_, class)| self.name(class));
        fill(&mut line);
        (self.vocabulary.host(machine).into(), Content::Machine(line))
    }

    fn name(&self, name: NameId) -> log::Text<'a> {
        self.vocabulary.names.text(name).into()
    }

    fn queue(&self, queue: QueueId) -> log::Text<'a> {
        self.vocabulary.queue_name(queue).into()
    }

    fn cause(&self, cause: Cause) -> log::Cause<'a> {
        log::Cause { machine: self.vocabulary.machine_name(cause.by).into(), at: cause.at, link: cause.link.map(|link| self.name(link)) }
    }

    fn flow(&self, flow: NameId) -> log::Flow<'a> {
        let text = self.vocabulary.names.text(flow);
        match text.strip_prefix(NUMBERED) {
            Some(rest) if rest.starts_with(NUMBERED) => log::Flow::Text(rest.into()),
            Some(digits) => digits.parse().map_or(log::Flow::Text(digits.into()), log::Flow::Number),
            None => log::Flow::Text(text.into()),
        }
    }
}

fn units(amount: Amount) -> log::Amount {
    match amount {
        Amount::Units(n) => log::Amount::Units(n),
        Amount::All => log::Amount::All,
    }
}
