//! What each actor does at each moment, and for how long: steps in, time per state out.
//!
//! A thread is in the state of its innermost open span. While it waits for the return of a call, it
//! is in the state of that call; while it serves a call, in that of the service. If nothing is
//! open, it is in the state that it declared last, or "run". Waiting for a signal, for tokens, for
//! space or for a call to serve is idleness, with one exception: a wait that began when the signal
//! had already been sent is not idleness but the cost of returning to the loop ("re-entry").
//!
//! Each nanosecond between a thread's first and last step is charged to exactly one cell. An
//! interval is charged when it ends, because only its end shows what a wait was for. Each charge
//! also counts one probe: half of the probe at either end lies within the interval.
//!
//! `stages` and `cpu` read these times. What the critical path sees of the same probes is decided
//! by `causes::probes`; a new [`Op`] must be handled in both.

use crate::actors::ActorId;
use crate::hash::IdMap;
use crate::ids::QueueId;
use crate::names::NameId;
use crate::step::{Op, Step};
use crate::system::signals::{Delivery, Signals};

/// A state to which an actor's time is charged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum State {
    /// Nothing is open and nothing is waited for.
    Run,
    Span(NameId),
    Declared(NameId),
    /// From a call to its return.
    Call(NameId),
    Service(NameId),
    /// Back in the signal loop although a signal is pending.
    Reentry,
    /// Waiting for a signal; the sender, if the receive shows it.
    WaitSignal(Option<ActorId>),
    WaitEmpty(QueueId),
    WaitFull(QueueId),
    /// Waiting for a call to serve.
    WaitCall,
    /// Events are missing, so the state is unknown.
    Lost,
}

impl State {
    /// True if the actor waits for work instead of doing it.
    pub fn is_idle(self) -> bool {
        matches!(self, State::WaitSignal(_) | State::WaitEmpty(_) | State::WaitFull(_) | State::WaitCall)
    }
}

/// An actor in a state: the unit to which time is charged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Cell {
    pub actor: ActorId,
    pub state: State,
}

/// Time charged to a cell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Total {
    pub ns: u64,
    /// Number of probes whose cost lies in `ns`: one per stay.
    pub probes: u64,
    /// The part of `ns` in extraordinarily long stays, whose number is `longs`; see
    /// `Total::is_long`.
    pub long_ns: u64,
    pub longs: u64,
}

/// Minimum length in ns of an extraordinary stay: the time slices of schedulers are longer.
const LONG_NS: u64 = 200_000;
/// Minimum length in ns of a gap that is searched when a loss is reported afterwards.
const GAP_NS: u64 = 50_000;
/// Time in ns that stays are remembered: a packet that reports a loss covers less than this.
const STAY_REMEMBERED_NS: i64 = 2_000_000_000;
/// Minimum ratio of an extraordinary stay to the usual stay.
const LONG_FACTOR: u64 = 32;
/// An interval that is shorter than the time since, divided by this, is probably not the gap of a
/// loss.
const GAP_DIVISOR: i64 = 8;
/// Minimum number of usual stays from which a stay can be extraordinary.
const USUAL_FROM: u64 = 16;

impl Total {
    /// Adds a stay.
    #[inline]
    pub fn add(&mut self, spent_ns: u64) {
        if self.is_long(spent_ns) {
            self.long_ns += spent_ns;
            self.longs += 1;
        }
        self.ns += spent_ns;
        self.probes += u64::from(spent_ns > 0);
    }

    /// True if a stay is so much longer than the usual stay in this state that the thread was
    /// probably not running. Probes do not see the scheduler.
    fn is_long(&self, spent_ns: u64) -> bool {
        let usual = self.probes - self.longs;
        spent_ns >= LONG_NS
            && usual >= USUAL_FROM
            && u128::from(spent_ns) * u128::from(usual) >= u128::from(self.ns - self.long_ns) * u128::from(LONG_FACTOR)
    }
}

/// The effect of a step on its actor.
#[derive(Clone, Copy, Debug)]
pub struct Outcome {
    /// Time in ns since the actor's previous step.
    pub spent_ns: u64,
    /// The state to which that time was charged.
    pub state: State,
    /// The delivery, for a receive whose submit was seen.
    pub delivery: Option<Delivery>,
    /// True for a submit that only its sender receives.
    pub self_sent: bool,
}

/// The states of all actors and their times.
#[derive(Debug, Default)]
pub struct Activity {
    threads: Vec<ActorTime>,
    cells: Vec<Cell>,
    totals: Vec<Total>,
    ids: IdMap<Cell, u32>,
    pub signals: Signals,
    declared: IdMap<u32, Declared>,
    declared_totals: IdMap<(u32, u32), u64>,
}

/// What an actor does now, and since when.
#[derive(Debug, Default)]
struct ActorTime {
    /// True after its first step.
    begun: bool,
    first_ns: i64,
    last_ns: i64,
    stack: Vec<Frame>,
    /// Number of open spans beyond [`MAX_NESTING`].
    too_deep: usize,
    /// The declared state, which lasts while nothing is open.
    base: Option<Frame>,
    wait: Option<Waiting>,
    waits_explicitly: bool,
    /// True if its last step was the reply to a call.
    replied: bool,
    /// True after a loss until the thread waits: an unseen span may be open.
    unsure_since_loss: bool,
    /// The longest of the last stays; one of them may be the gap of a loss that is reported later.
    stays: [Stay; 8],
    /// Cells of recent states, indexed by the low bits of the state's id.
    recent: [Option<(State, u32)>; 16],
}

/// An open span, call, service or declared state.
#[derive(Clone, Copy, Debug)]
struct Frame {
    state: State,
    cell: u32,
    begin_ns: i64,
}

/// A stay that may turn out to be a gap.
#[derive(Clone, Copy, Debug, Default)]
struct Stay {
    begin_ns: i64,
    end_ns: i64,
    cell: u32,
    was_long: bool,
}

#[derive(Clone, Copy, Debug)]
struct Waiting {
    reason: State,
    since_ns: i64,
}

#[derive(Clone, Copy, Debug)]
struct Declared {
    state: NameId,
    since_ns: i64,
}

/// Limit of open spans, because a malicious trace may open spans endlessly.
const MAX_NESTING: usize = 1024;

impl Activity {
    /// Processes the next step in the order of time: charges the time since the actor's previous
    /// step.
    pub fn step(&mut self, step: &Step) -> Outcome {
        let at = step.actor.0 as usize;
        if self.threads.len() <= at {
            self.threads.resize_with(at + 1, ActorTime::default);
        }
        if !self.threads[at].begun {
            let thread = &mut self.threads[at];
            (thread.begun, thread.first_ns, thread.last_ns) = (true, step.t_ns, step.t_ns);
        }
        let delivery = match step.op {
            Op::Receive { context, count } => self.signals.receive(context, step.actor, step.t_ns, count),
            _ => None,
        };
        let self_sent = match step.op {
            Op::Submit { context, count } => self.signals.submit(context, step.actor, step.t_ns, count),
            _ => false,
        };
        let (state, cell) = self.state_until(step, delivery);
        let thread = &mut self.threads[at];
        // A step back in time within a thread counts as no time.
        let spent_ns = step.t_ns.saturating_sub(thread.last_ns).max(0) as u64;
        thread.last_ns = thread.last_ns.max(step.t_ns);
        let longs = self.totals[cell as usize].longs;
        self.totals[cell as usize].add(spent_ns);
        if spent_ns >= GAP_NS {
            let was_long = self.totals[cell as usize].longs > longs;
            let thread = &mut self.threads[at];
            let stay = Stay { begin_ns: step.t_ns - spent_ns as i64, end_ns: step.t_ns, cell, was_long };
            let worth = |known: &Stay| match known.end_ns < step.t_ns.saturating_sub(STAY_REMEMBERED_NS) {
                true => 0,
                false => known.end_ns - known.begin_ns,
            };
            if let Some(least) = thread.stays.iter_mut().min_by_key(|known| worth(known)) {
                if worth(least) < stay.end_ns - stay.begin_ns {
                    *least = stay;
                }
            }
        }
        self.apply(step);
        Outcome { spent_ns, state, delivery, self_sent }
    }

    /// Processes a loss: events of this actor are missing between the two moments, so open spans
    /// may have ended.
    pub fn loss(&mut self, actor: ActorId, begin_ns: i64, end_ns: i64) {
        let at = actor.0 as usize;
        if self.threads.get(at).is_some_and(|thread| thread.begun) && !self.move_gap_to_lost(actor, begin_ns, end_ns) {
            self.charge_loss(actor, begin_ns, end_ns);
        }
    }

    /// Charges the gap of a loss that was reported late to "lost". A trace reports a loss at the
    /// end of the packet that follows it, so that packet's events may have been seen by now. Then
    /// the longest interval without steps in between is taken for the gap. Waits that began after
    /// it continue. Returns false if no interval is long enough.
    fn move_gap_to_lost(&mut self, actor: ActorId, begin_ns: i64, end_ns: i64) -> bool {
        let lost = self.cell(actor, State::Lost);
        let thread = &mut self.threads[actor.0 as usize];
        let inside = |stay: &&mut Stay| stay.begin_ns >= begin_ns && stay.end_ns <= end_ns && stay.end_ns > stay.begin_ns;
        let longest = thread.stays.iter_mut().filter(inside).max_by_key(|stay| stay.end_ns - stay.begin_ns);
        let Some(gap) = longest.map(std::mem::take) else { return false };
        if gap.end_ns - gap.begin_ns < (end_ns - gap.end_ns).max(thread.last_ns - gap.end_ns) / GAP_DIVISOR {
            return false;
        }
        let ns = (gap.end_ns - gap.begin_ns) as u64;
        let total = &mut self.totals[gap.cell as usize];
        total.ns = total.ns.saturating_sub(ns);
        total.probes = total.probes.saturating_sub(1);
        if gap.was_long {
            total.long_ns = total.long_ns.saturating_sub(ns);
            total.longs = total.longs.saturating_sub(1);
        }
        self.totals[lost as usize].ns += ns;
        thread.stack.retain(|frame| frame.begin_ns >= gap.end_ns);
        thread.too_deep = 0;
        thread.unsure_since_loss |= thread.wait.is_none();
        true
    }

    /// Charges the time up to the loss to the current state, and that of the loss to "lost".
    fn charge_loss(&mut self, actor: ActorId, begin_ns: i64, end_ns: i64) {
        let at = actor.0 as usize;
        let (_, current) = self.current(at);
        let lost = self.cell(actor, State::Lost);
        let thread = &mut self.threads[at];
        let begin = begin_ns.max(thread.last_ns);
        self.totals[current as usize].ns += (begin.min(end_ns) - thread.last_ns).max(0) as u64;
        self.totals[lost as usize].ns += end_ns.saturating_sub(begin).max(0) as u64;
        thread.last_ns = thread.last_ns.max(end_ns);
        thread.stack.clear();
        thread.too_deep = 0;
        thread.wait = None;
        thread.replied = false;
        thread.unsure_since_loss = true;
    }

    pub fn cells(&self) -> &[Cell] {
        &self.cells
    }

    /// The times of the cells, in the order of [`Activity::cells`].
    pub fn totals(&self) -> &[Total] {
        &self.totals
    }

    /// Times in ns of the first and last step of an actor.
    pub fn lifetime(&self, actor: ActorId) -> Option<(i64, i64)> {
        self.threads.get(actor.0 as usize).filter(|thread| thread.begun).map(|thread| (thread.first_ns, thread.last_ns))
    }

    pub fn waits_explicitly(&self, actor: ActorId) -> bool {
        self.threads.get(actor.0 as usize).is_some_and(|thread| thread.waits_explicitly)
    }

    /// Time of the machines that `state` probes declare: (machine, state, ns). Open states count up
    /// to `end_ns`.
    pub fn declared(&self, end_ns: i64) -> Vec<(NameId, NameId, u64)> {
        let mut totals = self.declared_totals.clone();
        for (&machine, open) in &self.declared {
            *totals.entry((machine, open.state.0)).or_default() += end_ns.saturating_sub(open.since_ns).max(0) as u64;
        }
        let mut out: Vec<_> = totals.into_iter().map(|((machine, state), ns)| (NameId(machine), NameId(state), ns)).collect();
        out.sort_unstable();
        out
    }

    /// The state that lasted until this step. Only the step itself shows what a wait was for.
    fn state_until(&mut self, step: &Step, delivery: Option<Delivery>) -> (State, u32) {
        let at = step.actor.0 as usize;
        let thread = &self.threads[at];
        let idle = match (thread.wait, step.op) {
            (Some(wait), Op::Receive { .. }) => Some(match (delivery, wait.reason) {
                (Some(delivery), _) if delivery.submitted_ns <= wait.since_ns => State::Reentry,
                (Some(delivery), State::WaitSignal(_)) => State::WaitSignal(Some(delivery.sender)),
                _ => wait.reason,
            }),
            (Some(wait), _) => Some(wait.reason),
            (None, Op::Dispatch { .. }) if thread.replied && thread.stack.is_empty() => Some(State::WaitCall),
            (None, Op::Receive { .. }) if !thread.waits_explicitly && thread.stack.is_empty() => match delivery {
                Some(delivery) if delivery.submitted_ns <= thread.last_ns => None,
                delivery => Some(State::WaitSignal(delivery.map(|delivery| delivery.sender))),
            },
            (None, _) => None,
        };
        match idle {
            Some(state) => (state, self.cell(step.actor, state)),
            None => self.current(at),
        }
    }

    fn current(&mut self, at: usize) -> (State, u32) {
        let thread = &self.threads[at];
        let actor = ActorId(at as u32);
        if let Some(wait) = thread.wait {
            return (wait.reason, self.cell(actor, wait.reason));
        }
        match thread.stack.last().or(thread.base.as_ref().filter(|_| !thread.unsure_since_loss)) {
            Some(frame) => (frame.state, frame.cell),
            None if thread.unsure_since_loss => (State::Lost, self.cell(actor, State::Lost)),
            None => (State::Run, self.cell(actor, State::Run)),
        }
    }

    fn apply(&mut self, step: &Step) {
        let at = step.actor.0 as usize;
        let wait = match step.op {
            Op::Wait => Some(State::WaitSignal(None)),
            Op::WaitEmpty { queue } => Some(State::WaitEmpty(queue)),
            Op::WaitFull { queue } => Some(State::WaitFull(queue)),
            _ => None,
        };
        let thread = &mut self.threads[at];
        thread.wait = match (thread.wait, wait) {
            (_, None) => None,
            // Waiting for a signal because a queue is empty or full is a wait for the queue.
            (Some(known), Some(State::WaitSignal(_))) => Some(known),
            (Some(known), Some(reason)) => Some(Waiting { reason, ..known }),
            (None, Some(reason)) => Some(Waiting { reason, since_ns: step.t_ns }),
        };
        thread.waits_explicitly |= wait.is_some();
        thread.unsure_since_loss &= wait.is_none() && !matches!(step.op, Op::Receive { .. } | Op::State { .. });
        thread.replied = matches!(step.op, Op::Reply { .. });
        match step.op {
            Op::Begin { name } => self.push(at, State::Span(name)),
            Op::Call { name, .. } => self.push(at, State::Call(name)),
            Op::Dispatch { name, .. } => self.push(at, State::Service(name)),
            Op::End { name } => self.pop(at, State::Span(name)),
            Op::Returned { name, .. } => self.pop(at, State::Call(name)),
            Op::Reply { name, .. } => self.pop(at, State::Service(name)),
            Op::State { machine, state } => self.declare(step, machine, state),
            _ => {}
        }
    }

    fn push(&mut self, at: usize, state: State) {
        if self.threads[at].stack.len() >= MAX_NESTING {
            self.threads[at].too_deep += 1;
            return;
        }
        let cell = self.cell(ActorId(at as u32), state);
        let begin_ns = self.threads[at].last_ns;
        self.threads[at].stack.push(Frame { state, cell, begin_ns });
    }

    /// Ends the innermost open frame with this state, and all frames that were opened within it. An
    /// end without a begin is ignored.
    fn pop(&mut self, at: usize, state: State) {
        let thread = &mut self.threads[at];
        if thread.too_deep > 0 {
            thread.too_deep -= 1;
            return;
        }
        if let Some(place) = thread.stack.iter().rposition(|frame| frame.state == state) {
            thread.stack.truncate(place);
        }
    }

    fn declare(&mut self, step: &Step, machine: NameId, state: NameId) {
        let new = Declared { state, since_ns: step.t_ns };
        if let Some(old) = self.declared.insert(machine.0, new) {
            *self.declared_totals.entry((machine.0, old.state.0)).or_default() += step.t_ns.saturating_sub(old.since_ns).max(0) as u64;
        }
        let declared = State::Declared(state);
        let cell = self.cell(step.actor, declared);
        self.threads[step.actor.0 as usize].base = Some(Frame { state: declared, cell, begin_ns: step.t_ns });
    }

    #[inline]
    fn cell(&mut self, actor: ActorId, state: State) -> u32 {
        let slot = match state {
            State::Span(name) | State::Declared(name) | State::Call(name) | State::Service(name) => name.0 as usize % 16,
            State::WaitEmpty(queue) | State::WaitFull(queue) => queue.0 as usize % 16,
            State::WaitSignal(sender) => sender.map_or(14, |sender| sender.0 as usize % 16),
            State::Run | State::Reentry | State::WaitCall | State::Lost => 15,
        };
        let recent = &mut self.threads[actor.0 as usize].recent[slot];
        if let Some((known, cell)) = *recent {
            if known == state {
                return cell;
            }
        }
        let cell = *self.ids.entry(Cell { actor, state }).or_insert_with(|| {
            self.cells.push(Cell { actor, state });
            self.totals.push(Total::default());
            (self.cells.len() - 1) as u32
        });
        *recent = Some((state, cell));
        cell
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const M: ActorId = ActorId(0);
    const N: ActorId = ActorId(1);
    const A: NameId = NameId(1);
    const B: NameId = NameId(2);

    fn run(steps: &[(i64, ActorId, Op)]) -> Activity {
        let mut activity = Activity::default();
        for &(t_ns, actor, op) in steps {
            activity.step(&Step { t_ns, actor, op });
        }
        activity
    }

    fn time(activity: &Activity, actor: ActorId, state: State) -> u64 {
        activity
            .cells()
            .iter()
            .zip(activity.totals())
            .filter(|(cell, _)| cell.actor == actor && cell.state == state)
            .map(|(_, total)| total.ns)
            .sum()
    }

    #[test]
    fn the_innermost_span_is_the_state() {
        let activity = run(&[
            (0, M, Op::Begin { name: A }),
            (10, M, Op::Begin { name: B }),
            (15, M, Op::End { name: B }),
            (20, M, Op::End { name: A }),
            (26, M, Op::Other),
        ]);
        assert_eq!(time(&activity, M, State::Span(A)), 15);
        assert_eq!(time(&activity, M, State::Span(B)), 5);
        assert_eq!(time(&activity, M, State::Run), 6);
    }

    #[test]
    fn waiting_for_a_signal_because_a_queue_is_full_is_waiting_for_the_queue() {
        let queue = QueueId(3);
        let activity = run(&[
            (0, M, Op::WaitFull { queue }),
            (2, M, Op::Wait),
            (50, M, Op::Receive { context: A, count: 1 }),
            (60, M, Op::Put { queue, count: 1 }),
        ]);
        assert_eq!(time(&activity, M, State::WaitFull(queue)), 50);
        assert_eq!(time(&activity, M, State::Run), 10);
    }

    #[test]
    fn a_wait_with_a_pending_signal_is_reentry_and_one_without_is_idleness() {
        let activity = run(&[
            (0, M, Op::Submit { context: A, count: 1 }),
            (2, M, Op::Wait),
            (5, M, Op::Receive { context: A, count: 1 }),
            (6, M, Op::Wait),
            (20, N, Op::Submit { context: B, count: 1 }),
            (26, M, Op::Receive { context: B, count: 1 }),
        ]);
        assert_eq!(time(&activity, M, State::Reentry), 3);
        assert_eq!(time(&activity, M, State::WaitSignal(Some(N))), 20);
    }

    #[test]
    fn a_server_is_idle_between_a_reply_and_the_next_call() {
        let activity = run(&[
            (0, M, Op::Dispatch { name: A, id: Some(1) }),
            (4, M, Op::Reply { name: A, id: Some(1) }),
            (10, M, Op::Dispatch { name: A, id: Some(2) }),
            (15, M, Op::Reply { name: A, id: Some(2) }),
        ]);
        assert_eq!(time(&activity, M, State::Service(A)), 9);
        assert_eq!(time(&activity, M, State::WaitCall), 6);
    }

    #[test]
    fn a_loss_is_unknown_time_and_closes_open_spans() {
        let mut activity = run(&[(0, M, Op::Begin { name: A })]);
        activity.loss(M, 10, 30);
        activity.step(&Step { t_ns: 34, actor: M, op: Op::End { name: A } });
        assert_eq!(time(&activity, M, State::Span(A)), 10);
        activity.step(&Step { t_ns: 35, actor: M, op: Op::Wait });
        activity.step(&Step { t_ns: 40, actor: M, op: Op::Other });
        activity.step(&Step { t_ns: 47, actor: M, op: Op::Other });
        assert_eq!(time(&activity, M, State::Lost), 20 + 5, "what is open is unknown until it waits");
        assert_eq!(time(&activity, M, State::Run), 7);
    }

    #[test]
    fn a_loss_reported_late_takes_the_longest_interval_without_steps() {
        let mut activity = run(&[
            (0, M, Op::Begin { name: A }),
            (1_000, M, Op::Begin { name: B }),
            (9_001_000, M, Op::End { name: A }),
            (9_002_000, M, Op::Begin { name: B }),
            (9_003_000, M, Op::Other),
        ]);
        activity.loss(M, 1_000, 9_003_000);
        assert_eq!(time(&activity, M, State::Lost), 9_000_000);
        assert_eq!(time(&activity, M, State::Span(B)), 1_000);
        assert_eq!(activity.threads[0].stack.len(), 1, "what was opened after the gap stays open");
        let sum: u64 = activity.totals().iter().map(|total| total.ns).sum();
        assert_eq!(sum, 9_003_000);
    }

    /// Of two long stays, only the longer one can be the gap, also if the other is newer.
    #[test]
    fn a_loss_reported_late_takes_the_longest_of_several_long_intervals() {
        let steps = [0, 10_000_000, 11_000_000, 11_100_000].map(|t| (t, M, Op::Other));
        let mut activity = run(&steps);
        activity.loss(M, 0, 11_100_000);
        assert_eq!(time(&activity, M, State::Lost), 10_000_000);
        assert_eq!(time(&activity, M, State::Run), 1_100_000);
    }

    #[test]
    fn an_interval_of_long_ago_makes_way_for_a_newer_shorter_one() {
        const MS: i64 = 1_000_000;
        // One stay more than are remembered, a stay of 3 s, and a short one.
        let long = (0..=9).map(|at| at * 10 * MS);
        let times = long.chain([3_090 * MS, 3_091 * MS]);
        let mut activity = run(&times.map(|t| (t, M, Op::Other)).collect::<Vec<_>>());
        activity.loss(M, 3_090 * MS, 3_091 * MS);
        assert_eq!(time(&activity, M, State::Lost), MS as u64);
    }

    #[test]
    fn a_receive_ends_a_wait_only_if_nothing_is_open_and_no_probe_shows_waits() {
        let submit = Op::Submit { context: B, count: 1 };
        let receive = Op::Receive { context: B, count: 1 };
        let (span, run_alone) = ((10, M, Op::Begin { name: A }), (10, M, Op::Other));
        for (before, state) in [(span, State::Span(A)), (run_alone, State::WaitSignal(Some(N)))] {
            let activity = run(&[before, (20, N, submit), (30, M, receive)]);
            assert_eq!(time(&activity, M, state), 20, "{state:?}");
        }
        // The thread waits only where its probes show it.
        let activity = run(&[(0, M, Op::Wait), run_alone, (20, N, submit), (30, M, receive)]);
        assert_eq!((time(&activity, M, State::Run), time(&activity, M, State::WaitSignal(Some(N)))), (20, 0));
        // The signal was there before, so the thread was at work.
        let activity = run(&[(5, N, submit), run_alone, (30, M, receive)]);
        assert_eq!(time(&activity, M, State::Run), 20);
    }

    #[test]
    fn a_server_is_not_idle_between_calls_within_a_span() {
        let (dispatch, reply) = (Op::Dispatch { name: A, id: Some(1) }, Op::Reply { name: A, id: Some(1) });
        let activity = run(&[(0, M, Op::Begin { name: B }), (5, M, dispatch), (7, M, reply), (15, M, dispatch)]);
        assert_eq!((time(&activity, M, State::Span(B)), time(&activity, M, State::WaitCall)), (13, 0));
    }

    #[test]
    fn declared_machines_are_charged_their_own_time() {
        let activity = run(&[(0, M, Op::State { machine: A, state: B }), (7, M, Op::State { machine: A, state: A })]);
        assert_eq!(activity.declared(10), [(A, A, 3), (A, B, 7)]);
        assert_eq!(time(&activity, M, State::Declared(B)), 7);
    }

    #[test]
    fn a_stay_far_longer_than_usual_is_counted_separately() {
        let mut activity = Activity::default();
        let mut t = 0;
        for spent in std::iter::repeat_n(1_000, 20).chain([3_000_000, 1_000, 40_000]) {
            activity.step(&Step { t_ns: t, actor: M, op: Op::Begin { name: A } });
            t += spent;
            activity.step(&Step { t_ns: t, actor: M, op: Op::End { name: A } });
        }
        let cell = activity.cells().iter().position(|cell| cell.state == State::Span(A)).unwrap();
        let total = activity.totals()[cell];
        assert_eq!((total.ns, total.long_ns, total.longs), (3_061_000, 3_000_000, 1));
    }

    #[test]
    fn endless_nesting_is_bounded_and_ends_with_the_last_span() {
        let mut activity = Activity::default();
        for t in 0..5000 {
            activity.step(&Step { t_ns: t, actor: M, op: Op::Begin { name: A } });
        }
        for t in 5000..10_000 {
            activity.step(&Step { t_ns: t, actor: M, op: Op::End { name: A } });
        }
        activity.step(&Step { t_ns: 10_007, actor: M, op: Op::Other });
        assert_eq!(time(&activity, M, State::Run), 8);
        assert!(activity.threads[0].stack.capacity() <= 2 * MAX_NESTING);
    }
}
