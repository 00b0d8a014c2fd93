//! The replay as the translation sees it: it obeys orders at once, or in a thread of its own.
//!
//! The translation needs a result of the replay only in rare cases, so the two can run at the same
//! time. For a long trace, the replay moves to another thread, which obeys the orders in batches.
//! Where the translation needs a result, the replay comes back ([`Replayer::here`]), and stays for
//! a while. The orders are obeyed in the same sequence in both cases, so the answer does not depend
//! on the threads.
//!
//! The translation assigns the numbers of slots. The replay returns the numbers of the slots that
//! nothing holds any more, which are then reused.

use super::cpus::Host;
use super::orders::Order;
use super::state::Replay;
use crate::what_if::operation::{LeftCpu, Operation};
use crate::what_if::worlds::time_vector::{Layout, Row};
use longpole_model::interaction::{MachineId, QueueId};
use std::panic::resume_unwind;
use std::sync::mpsc::{channel, sync_channel, Receiver, SyncSender};
use std::thread::{Builder, JoinHandle};

/// Number of interactions after which the replay moves to the other thread. Starting a thread takes
/// as long as replaying some hundred interactions.
const STAYS_FOR: u32 = 1 << 14;

/// Number of orders in a batch. A wake-up of the other thread takes as long as a few dozen orders.
const BATCH: usize = 1 << 10;

/// Largest number of batches that wait for the other thread.
const BATCHES_AHEAD: usize = 3;

/// The replay, or the way to it.
#[derive(Debug)]
pub struct Replayer {
    pub layout: Layout,
    /// `None` while the replay is in the other thread.
    here: Option<Box<Replay>>,
    /// Number of interactions since the replay was needed here.
    unneeded: u32,
    thread: Option<ReplayThread>,
    /// Orders that were not sent yet.
    orders: Vec<Order>,
    /// Operations were ordered since the end of the last interaction.
    has_run: bool,
    slots: SlotNumbers,
}

/// Numbers of slots that are not in use, and the first number that was never used.
#[derive(Debug, Default)]
struct SlotNumbers {
    free: Vec<u32>,
    next: u32,
}

/// The thread to which the replay moves.
#[derive(Debug)]
struct ReplayThread {
    work: SyncSender<Batch>,
    done: Receiver<Done>,
    thread: JoinHandle<()>,
}

/// Orders for the thread.
struct Batch {
    orders: Vec<Order>,
    /// The replay, if it moves to the thread.
    replay: Option<Box<Replay>>,
    /// The replay is to come back.
    comes_back: bool,
}

/// What the thread returns for each batch.
struct Done {
    /// The memory of the batch.
    orders: Vec<Order>,
    free_slots: Vec<u32>,
    replay: Option<Box<Replay>>,
}

impl Replayer {
    pub fn new(replay: Replay) -> Replayer {
        Replayer {
            layout: replay.layout,
            here: Some(Box::new(replay)),
            unneeded: 0,
            thread: None,
            orders: Vec::new(),
            has_run: false,
            slots: SlotNumbers::default(),
        }
    }

    /// Returns the replay, at the position of the last order.
    pub fn here(&mut self) -> &mut Replay {
        self.unneeded = 0;
        let replay = self.take();
        self.here.insert(replay)
    }

    /// Returns the replay; must be the last call.
    pub fn take(&mut self) -> Box<Replay> {
        match self.here.take() {
            Some(replay) => replay,
            None => self.fetch(),
        }
    }

    pub fn run(&mut self, machine: MachineId, t: u64, operation: Operation) {
        self.has_run = true;
        match &mut self.here {
            Some(replay) => replay.run(machine, t, &operation),
            None => self.enqueue(Order::Run { machine, t, operation }),
        }
    }

    /// Returns the number of a new slot. The next operation that fills it makes it, held once.
    pub fn make_slot(&mut self) -> u32 {
        self.slots.take(self.here.as_deref_mut())
    }

    pub fn hold_slot(&mut self, slot: u32) {
        self.order(Order::HoldSlot(slot));
    }

    pub fn release_slot(&mut self, slot: u32) {
        self.order(Order::ReleaseSlot(slot));
    }

    /// Holds the slots of a CPU that was left.
    pub fn hold_cpu(&mut self, left: LeftCpu) {
        self.order(Order::HoldCpu(left.slots()));
    }

    pub fn release_cpu(&mut self, left: LeftCpu) {
        self.order(Order::ReleaseCpu(left.slots()));
    }

    pub fn make_machines(&mut self, machines: usize) {
        self.order(Order::MakeMachines(machines));
    }

    pub fn add_factors(&mut self, row: Row) {
        self.order(Order::AddFactors(row));
    }

    /// Ends an interaction. `tip` is the machine whose path counts, as far as is known.
    pub fn end_interaction(&mut self, tip: Option<MachineId>) {
        if std::mem::take(&mut self.has_run) {
            self.order(Order::EndInteraction { tip });
        }
        if self.here.is_some() {
            self.unneeded += 1;
            if self.unneeded >= STAYS_FOR {
                self.move_away();
            }
        }
    }

    /// A CPU of the host is in use from now on, after its new owner has waited for this time; or it
    /// is in use no longer.
    pub fn use_cpu(&mut self, host: Host, now: u64, awaited: Option<u64>) {
        self.order(Order::UseCpu { host, now, awaited });
    }

    /// The capacity of a bounded queue in which the order of requests for room is known; `None` if
    /// it is not.
    pub fn set_ordered_room(&mut self, queue: QueueId, capacity: Option<u64>) {
        self.order(Order::SetOrderedRoom { queue, capacity });
    }

    #[inline]
    fn order(&mut self, mut order: Order) {
        match &mut self.here {
            Some(replay) => replay.obey(&mut order),
            None => self.enqueue(order),
        }
    }

    #[inline]
    fn enqueue(&mut self, order: Order) {
        self.orders.push(order);
        if self.orders.len() >= BATCH {
            self.send(None, false);
        }
    }

    /// Moves the replay to the other thread. If that cannot be started, the replay stays.
    fn move_away(&mut self) {
        self.unneeded = 0;
        if self.thread.is_none() {
            self.thread = ReplayThread::start();
        }
        if self.thread.is_some() {
            let replay = self.here.take();
            self.send(replay, false);
        }
    }

    /// Sends the orders up to now.
    fn send(&mut self, replay: Option<Box<Replay>>, comes_back: bool) {
        let Some(thread) = &self.thread else { return };
        let mut empty = Vec::new();
        while let Ok(done) = thread.done.try_recv() {
            self.slots.free.extend(done.free_slots);
            empty = done.orders;
        }
        empty.reserve(BATCH);
        let orders = std::mem::replace(&mut self.orders, empty);
        // Sending fails only if the thread has panicked, which `fetch` reports.
        drop(thread.work.send(Batch { orders, replay, comes_back }));
    }

    /// Waits until the other thread has obeyed all orders, and takes the replay back.
    fn fetch(&mut self) -> Box<Replay> {
        self.send(None, true);
        while let Some(done) = self.thread.as_ref().and_then(|thread| thread.done.recv().ok()) {
            self.slots.free.extend(done.free_slots);
            if let Some(replay) = done.replay {
                return replay;
            }
        }
        // The replay is elsewhere only while there is a thread, which ends by itself only if it
        // panics.
        match self.thread.take().map(|thread| thread.thread.join()) {
            Some(Err(panic)) => resume_unwind(panic),
            Some(Ok(())) | None => unreachable!("the thread returns the replay"),
        }
    }
}

impl SlotNumbers {
    fn take(&mut self, replay: Option<&mut Replay>) -> u32 {
        if let (true, Some(replay)) = (self.free.is_empty(), replay) {
            std::mem::swap(&mut self.free, &mut replay.slots.free);
        }
        self.free.pop().unwrap_or_else(|| {
            self.next += 1;
            self.next - 1
        })
    }
}

impl ReplayThread {
    fn start() -> Option<ReplayThread> {
        let (work, batches) = sync_channel::<Batch>(BATCHES_AHEAD);
        let (give, done) = channel();
        let run = move || {
            let mut here: Option<Box<Replay>> = None;
            for mut batch in batches {
                here = batch.replay.or(here);
                let Some(replay) = &mut here else { continue };
                batch.orders.iter_mut().for_each(|order| replay.obey(order));
                batch.orders.clear();
                let free_slots = std::mem::take(&mut replay.slots.free);
                let replay = if batch.comes_back { here.take() } else { None };
                if give.send(Done { orders: batch.orders, free_slots, replay }).is_err() {
                    return;
                }
            }
        };
        let thread = Builder::new().name("replay".to_owned()).spawn(run).ok()?;
        Some(ReplayThread { work, done, thread })
    }
}
