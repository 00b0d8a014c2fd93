//! Conversion of the lines of a machine log to interactions.

use super::replies::{self, Replies, Use};
use super::NUMBERED;
use longpole_machine_log::{self as log, Action, Content, Line, Next, Repeats};
use longpole_model::causes::is_named_as_recorder;
use longpole_model::interaction::ahead::Ahead;
use longpole_model::interaction::{Cause, Effect, Interaction, MachineId, QueueId, Vocabulary, Wants};
use longpole_model::kinds::{LinkKind, NameKind, StateKind};
use longpole_model::names::NameId;
use longpole_model::tokens::{Amount, Order, Shape, Unit};
use std::fmt::Write;
use std::io::Read;

/// Largest number of different names (machines, states, queues, flows) in one log. More are
/// refused, because each is kept until the end.
pub const MAX_NAMES: usize = 1 << 22;

/// The reason for which a machine log cannot be read further.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// The format is violated, or the file cannot be read.
    #[error(transparent)]
    Format(#[from] log::Error),
    /// The line is well-formed, but not allowed at its position.
    #[error("line {line}: {what}")]
    Line {
        /// Line number, from 1.
        line: u64,
        /// Description of the error.
        what: String,
    },
}

/// Reads a machine log from begin to end.
pub struct Reader<R> {
    lines: log::Reader<R>,
    repeats: Repeats<LineEffects>,
    known: Known,
    ahead: Ahead,
}

/// The effects of a line, for lines that repeat it.
struct LineEffects {
    count: u8,
    effects: [Effect; MAX_REPEATED],
}

/// Largest number of effects that are kept; lines with more are interpreted each time.
const MAX_REPEATED: usize = 2;

impl Default for LineEffects {
    fn default() -> LineEffects {
        LineEffects { count: 0, effects: [Effect::Now; MAX_REPEATED] }
    }
}

/// State of the reader after the lines that were read.
#[derive(Default)]
struct Known {
    vocabulary: Vocabulary,
    /// Time of the last line.
    t: u64,
    /// For each queue, whether it was used or declared.
    seen: Vec<bool>,
    replies: Replies,
    /// Memory for the name of a flow.
    flow: String,
}

impl<R: Read> Reader<R> {
    /// Returns a reader at the begin of the log.
    pub fn new(input: R) -> Reader<R> {
        Reader { lines: log::Reader::new(input), repeats: Repeats::default(), known: Known::default(), ahead: Ahead::default() }
    }

    /// Returns the names that were read.
    pub fn vocabulary(&self) -> &Vocabulary {
        &self.known.vocabulary
    }

    /// Returns the names for modification.
    pub fn vocabulary_mut(&mut self) -> &mut Vocabulary {
        &mut self.known.vocabulary
    }

    /// Returns the names and drops the reader.
    pub fn into_vocabulary(self) -> Vocabulary {
        self.known.vocabulary
    }

    /// Returns the next interaction; `None` at the end, and after an error.
    #[inline]
    pub fn next_interaction(&mut self) -> Result<Option<Interaction>, LogError> {
        loop {
            if let Some(interaction) = self.ahead.take_first() {
                return Ok(Some(interaction));
            }
            if !self.read_line()? {
                return Ok(None);
            }
        }
    }

    /// Returns the interactions that were read but not requested yet.
    pub fn ahead(&mut self) -> &mut Ahead {
        &mut self.ahead
    }

    /// Reads one line ahead. Returns `false` at the end.
    pub fn read_line(&mut self) -> Result<bool, LogError> {
        let interactions = &mut self.ahead.interactions;
        match self.lines.next_with(&mut self.repeats) {
            Ok(None) => return Ok(false),
            Ok(Some(Next::Repeat { number: line, t, value })) => {
                self.known.t = t;
                interactions.extend(value.effects[..value.count.into()].iter().map(|&effect| Interaction { t, line, effect }));
            }
            Ok(Some(Next::Line { number, line, slot })) => {
                let before = interactions.len();
                if let Err(what) = self.known.read(&line, number, interactions) {
                    self.ahead = Ahead::default();
                    return Err(LogError::Line { line: number, what });
                }
                let new = &interactions[before..];
                if new.len() <= MAX_REPEATED && has_lasting_meaning(&line) {
                    let mut kept = LineEffects { count: new.len() as u8, ..LineEffects::default() };
                    kept.effects.iter_mut().zip(new).for_each(|(effect, interaction)| *effect = interaction.effect);
                    slot.keep(kept);
                }
            }
            Err(error) => {
                self.ahead = Ahead::default();
                return Err(error.into());
            }
        }
        Ok(true)
    }
}

/// Returns whether the same text has the same meaning at another time. It does not for a
/// declaration, which occurs once, and for the queue of a reply, which belongs to one call for a
/// while.
fn has_lasting_meaning(line: &Line<'_>) -> bool {
    let Content::Machine(machine) = &line.content else { return matches!(line.content, Content::End(_)) };
    let queue = match &machine.action {
        Some(Action::Put { queue, .. } | Action::Get { queue, .. } | Action::Peek { queue, .. } | Action::Reserve { queue, .. }) => queue,
        Some(Action::Blocked { on: Some(queue), .. }) => queue,
        _ => return true,
    };
    !replies::is_one(queue)
}

impl Known {
    fn read(&mut self, line: &Line<'_>, number: u64, interactions: &mut Vec<Interaction>) -> Result<(), String> {
        if self.vocabulary.names.len() > MAX_NAMES {
            return Err(format!("more than {MAX_NAMES} different names"));
        }
        self.t = line.t.unwrap_or(self.t);
        let t = self.t;
        let mut give = |effect| interactions.push(Interaction { t, line: number, effect });
        let host = &*line.host;
        match &line.content {
            Content::Declaration(declaration) => {
                if line.t.is_some() {
                    give(Effect::Now);
                }
                give(self.declaration(declaration)?);
            }
            Content::End(machine) => give(Effect::End { machine: self.vocabulary.machine_of_text(host, machine) }),
            Content::Machine(machine) => self.machine(host, machine, give)?,
        }
        Ok(())
    }

    fn machine(&mut self, host: &str, line: &log::Machine<'_>, mut give: impl FnMut(Effect)) -> Result<(), String> {
        let machine = self.vocabulary.machine_of_text(host, &line.machine);
        self.vocabulary.mark_recorder(machine, is_named_as_recorder(&line.machine));
        if line.is_kernel_thread {
            self.vocabulary.mark_kernel_thread(machine);
        }
        if let Some(class) = &line.class {
            give(Effect::Class { machine, class: self.vocabulary.names.intern(class) });
        }
        let fork = line.forked_by.as_ref().map(|cause| self.cause(host, cause.as_ref()));
        match (&line.on_top_of, fork) {
            (Some(below), cause) => {
                let below = below.as_deref().map(|below| self.vocabulary.machine_of_text(host, below));
                give(Effect::Push { machine, below, cause });
            }
            (None, Some(Some(cause))) => give(Effect::Fork { machine, cause }),
            // A machine of unknown origin just begins.
            (None, Some(None)) => give(Effect::Here { machine }),
            (None, None) if line.action.is_none() && line.state.is_none() => give(Effect::Here { machine }),
            (None, None) => {}
        }
        if let Some(action) = &line.action {
            give(self.action(host, machine, action)?);
        }
        if let Some(state) = &line.state {
            // The kind is written only if the name does not determine it.
            let stated = line.kind.as_deref().and_then(StateKind::of_word).filter(|kind| kind.is_of_any_name());
            let kind = stated.unwrap_or_else(|| StateKind::of_text(state));
            give(Effect::State { machine, state: self.vocabulary.names.intern_as(state, NameKind::State(kind)) });
        }
        Ok(())
    }

    fn cause(&mut self, host: &str, cause: Option<&log::Cause<'_>>) -> Option<Cause> {
        let cause = cause?;
        let link = self.link(cause.link.as_deref());
        Some(Cause { by: self.vocabulary.machine_of_text(host, &cause.machine), at: cause.at, link })
    }

    fn link(&mut self, link: Option<&str>) -> Option<NameId> {
        let link = link?;
        Some(self.vocabulary.names.intern_as(link, NameKind::Link(LinkKind::of_text(link))))
    }

    fn action(&mut self, host: &str, machine: MachineId, action: &Action<'_>) -> Result<Effect, String> {
        Ok(match action {
            Action::Put { queue, n, flow, link } => {
                let flow = self.flow(flow.as_ref());
                let queue = self.used(queue, Use::Put(*n, flow))?;
                Effect::Put { machine, queue, n: *n, flow, link: self.link(link.as_deref()) }
            }
            Action::Get { queue, amount, flow } => {
                let (amount, flow) = (units(*amount), self.flow(flow.as_ref()));
                Effect::Get { machine, queue: self.used(queue, Use::Got(amount, flow))?, amount, flow }
            }
            Action::Peek { queue, amount, flow } => {
                let flow = self.flow(flow.as_ref());
                Effect::Peek { machine, queue: self.used(queue, Use::Named)?, amount: units(*amount), flow }
            }
            Action::Reserve { queue, n } => Effect::Reserve { machine, queue: self.used(queue, Use::Named)?, n: *n },
            Action::Blocked { why, on, wants } => {
                let why = self.vocabulary.names.intern_as(why, NameKind::State(StateKind::Waits));
                let on = on.as_deref().map(|queue| self.replies.queue(&mut self.vocabulary, queue, Use::Named)).transpose()?;
                let wants = wants.map(|wants| match wants {
                    log::Wants::Tokens => Wants::Tokens,
                    log::Wants::Space => Wants::Space,
                });
                Effect::Block { machine, why, on, wants }
            }
            Action::WokenBy(cause) => Effect::Wake { machine, cause: self.cause(host, cause.as_ref()) },
            Action::Pop => Effect::Pop { machine },
            Action::Stop => Effect::Stop { machine },
        })
    }

    fn flow(&mut self, flow: Option<&log::Flow<'_>>) -> Option<NameId> {
        let text = match flow? {
            log::Flow::Text(text) if !text.starts_with(NUMBERED) => &**text,
            flow => {
                self.flow.clear();
                self.flow.push_str(NUMBERED);
                match flow {
                    log::Flow::Text(text) => self.flow.push_str(text),
                    // Writing to a string cannot fail.
                    log::Flow::Number(number) => drop(write!(self.flow, "{number}")),
                }
                &self.flow
            }
        };
        Some(self.vocabulary.names.intern(text))
    }

    fn used(&mut self, name: &str, with: Use) -> Result<QueueId, String> {
        let queue = self.replies.queue(&mut self.vocabulary, name, with)?;
        mark(&mut self.seen, queue);
        Ok(queue)
    }

    fn declaration(&mut self, declaration: &log::Declaration<'_>) -> Result<Effect, String> {
        let queue = self.vocabulary.queue_of_text(&declaration.queue);
        if mark(&mut self.seen, queue) {
            return Err(format!(
                "queue \"{}\" was used or declared before; it is declared once, before its first use",
                self.vocabulary.queue_name(queue)
            ));
        }
        let order = match declaration.order {
            log::Order::Fifo => Order::Fifo,
            log::Order::Lifo => Order::Lifo,
        };
        let unit = match declaration.unit {
            log::Unit::Items => Unit::Items,
            log::Unit::Bytes => Unit::Bytes,
        };
        let shape = Shape { capacity: declaration.capacity, order, unit, initial: declaration.initial, merge: declaration.merge };
        Ok(Effect::Declare { queue, shape })
    }
}

fn units(amount: log::Amount) -> Amount {
    match amount {
        log::Amount::Units(n) => Amount::Units(n),
        log::Amount::All => Amount::All,
    }
}

/// Marks a queue. Returns whether it was marked before.
fn mark(seen: &mut Vec<bool>, queue: QueueId) -> bool {
    let at = queue.0 as usize;
    if at >= seen.len() {
        seen.resize(at + 1, false);
    }
    std::mem::replace(&mut seen[at], true)
}
