//! The threads of a trace as machines: what is known about each, and the table that finds them by
//! their ids in the model of the kernel and in that of probes.

use super::ending::Relation;
use super::waits::{QueueEffect, Wait};
use crate::actors::ActorId;
use crate::hash::IdMap;
use crate::interaction::MachineId;
use crate::linux::watch::ThreadId;
use crate::names::NameId;
use std::collections::HashMap;
use std::ops::{Index, IndexMut};

/// The state of a thread according to the kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum KernelState {
    /// The trace has no kernel events of this thread.
    #[default]
    Silent,
    Runs,
    Ready,
    Preempted,
    /// The thread could run, but its control group has used up its share of CPU time.
    Throttled,
    Blocked,
    /// The thread sleeps until a time that it has set itself.
    Asleep,
    /// Events are missing.
    Unsure,
}

/// A thread as a machine, and what is known about it.
#[derive(Debug, Default)]
pub(super) struct ThreadMachine {
    /// The thread's machine while the thread lives.
    pub machine: Option<MachineId>,
    /// The thread in the kernel's model, and as the subject of probes.
    pub linux: Option<ThreadId>,
    pub actor: Option<ActorId>,
    /// The kernel's name of the thread, as used in the name of its machine.
    pub comm: Comm,
    /// Number of times that it continued as another machine because it had another name.
    pub renames: u8,
    /// True if it belongs to the recorder.
    pub recorder: bool,
    pub forked_by_recorder: bool,
    /// Relation to the recorded command, known from its birth.
    pub relation: Relation,
    pub kernel: KernelState,
    /// True if the thread is blocked according to the emitted interactions.
    pub blocked: bool,
    /// Time at which the last block began.
    pub blocked_since: u64,
    /// Time at which the last block ended.
    pub block_ended: u64,
    /// The state that was emitted last.
    pub state: Option<NameId>,
    /// True if events were lost while it was blocked.
    pub lost_while_blocked: bool,
    /// True if the thread waits in a state that a signal can end, as it does for input.
    pub interruptible: bool,
    /// What the thread waits for according to its probes.
    pub wait: Option<Wait>,
    pub probes: ProbeState,
    /// The machine that ended its last block, and when, if the thread has done nothing for others
    /// since then.
    pub woken_by: Option<(MachineId, u64)>,
    /// The last thread that woke it, and when. Only recorded for threads that end RCU grace
    /// periods, which several threads wake to request one.
    pub asked_by: Option<(u32, u64)>,
}

impl ThreadMachine {
    /// Notes that the thread blocks, if it is not blocked already.
    pub fn begin_block(&mut self, now: u64) {
        if !self.blocked {
            (self.blocked, self.blocked_since, self.lost_while_blocked) = (true, now, false);
            self.interruptible = false;
        }
    }

    /// Notes that an interaction with a queue has ended the block. That interaction is the cause,
    /// so what was noted of the last wake-up stays.
    pub fn end_block_by_queue(&mut self) {
        self.blocked = false;
    }
}

/// What probes have shown about a thread.
#[derive(Debug, Default)]
pub(super) struct ProbeState {
    /// True if a loss of its probes' events has begun: the span that it was in may end at any time.
    pub silent: bool,
    /// Open spans and services.
    pub frames: Vec<NameId>,
    /// Number of open spans and services beyond the limit of `frames`.
    pub too_deep: usize,
    /// The state that the program declared last.
    pub declared: Option<NameId>,
    /// The last effects on queues.
    pub effects: [Option<QueueEffect>; 4],
    /// Calls that the thread serves, with their slots.
    pub serving: Vec<(NameId, u32)>,
    /// True if the thread has taken a call or a signal.
    pub is_server: bool,
    /// True if the thread has probes for its waits.
    pub waits_explicitly: bool,
}

/// The kernel's name of a thread, and what the name of a kernel thread means.
#[derive(Debug, Default)]
pub(super) struct Comm {
    text: Vec<u8>,
    rcu: Option<RcuThread>,
}

/// What a thread of the kernel's RCU does. The kernel shows it by the thread's name only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RcuThread {
    /// Lets grace periods pass for all threads.
    GracePeriods,
    /// Lets an expedited grace period pass for the thread that asked for it.
    Expedited,
}

impl Comm {
    pub fn text(&self) -> &[u8] {
        &self.text
    }

    /// What the thread does for RCU if it is a kernel thread.
    pub fn rcu(&self) -> Option<RcuThread> {
        self.rcu
    }

    pub fn set(&mut self, text: &[u8]) {
        self.text.clear();
        self.text.extend_from_slice(text);
        self.rcu = match text {
            _ if text.starts_with(b"rcu_exp") => Some(RcuThread::Expedited),
            _ if text.starts_with(b"rcu") => Some(RcuThread::GracePeriods),
            _ => None,
        };
    }
}

/// All threads, by an index that this table assigns.
///
/// An interrupt context to which a user's rule gives a state has an entry, too: that state is
/// stored as for a thread.
#[derive(Debug, Default)]
pub(super) struct ThreadTable {
    all: Vec<ThreadMachine>,
    of_linux: Vec<Option<u32>>,
    of_actor: Vec<Option<u32>>,
    /// Contexts that a user's rules have named.
    of_context: IdMap<MachineId, u32>,
    /// Threads that only probes have shown, by thread id.
    probed: HashMap<i32, u32>,
}

impl Index<u32> for ThreadTable {
    type Output = ThreadMachine;

    #[inline]
    fn index(&self, at: u32) -> &ThreadMachine {
        &self.all[at as usize]
    }
}

impl IndexMut<u32> for ThreadTable {
    #[inline]
    fn index_mut(&mut self, at: u32) -> &mut ThreadMachine {
        &mut self.all[at as usize]
    }
}

impl ThreadTable {
    pub fn push(&mut self, thread: ThreadMachine) -> u32 {
        self.all.push(thread);
        self.all.len() as u32 - 1
    }

    #[inline]
    pub fn of_linux(&self, id: ThreadId) -> Option<u32> {
        self.of_linux.get(id.0 as usize).copied().flatten()
    }

    pub fn set_linux(&mut self, id: ThreadId, at: u32) {
        set(&mut self.of_linux, id.0, at);
        self[at].linux = Some(id);
    }

    #[inline]
    pub fn of_actor(&self, id: ActorId) -> Option<u32> {
        self.of_actor.get(id.0 as usize).copied().flatten()
    }

    pub fn set_actor(&mut self, id: ActorId, at: u32) {
        set(&mut self.of_actor, id.0, at);
        self[at].actor = Some(id);
    }

    #[inline]
    pub fn of_context(&self, machine: MachineId) -> Option<u32> {
        if self.of_context.is_empty() {
            return None;
        }
        self.of_context.get(&machine).copied()
    }

    pub fn set_context(&mut self, machine: MachineId, at: u32) {
        self.of_context.insert(machine, at);
    }

    /// Notes that only probes have shown the thread with this id.
    pub fn set_probed(&mut self, tid: i32, at: u32) {
        self.probed.insert(tid, at);
    }

    /// The living thread with this id that only probes have shown until now.
    pub fn take_probed(&mut self, tid: i32) -> Option<u32> {
        self.probed.remove(&tid).filter(|&at| self[at].machine.is_some())
    }
}

fn set(table: &mut Vec<Option<u32>>, id: u32, at: u32) {
    if table.len() <= id as usize {
        table.resize(id as usize + 1, None);
    }
    table[id as usize] = Some(at);
}
