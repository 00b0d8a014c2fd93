//! The pid namespace whose numbers a thread uses for other threads.
//!
//! The kernel's events number threads as in the initial pid namespace. A number that a thread
//! passes to a system call is one of the caller's namespace: in a container the same number is
//! another thread. For threads that existed at the begin, the dump contains the namespace. For
//! threads born in a new namespace it is derived from the calls that create one, if their arguments
//! are in the events (those of `clone3` are not).

use super::state::Entered;
use super::Linux;
use crate::linux::watch::ThreadId;
use crate::names::{NameId, Names};

const CLONE_NEWPID: i64 = 0x2000_0000;

/// The pid namespace of the numbers that a thread uses.
#[derive(Clone, Copy, Debug, Default)]
pub struct Numbers {
    /// True if the numbers are not known to be those of the initial namespace.
    pub elsewhere: bool,
    /// The same for its future children.
    pub children_foreign: bool,
}

/// Calls after which children use other numbers.
#[derive(Debug)]
pub(super) struct NamespaceCalls {
    clone: NameId,
    unshare: NameId,
    setns: NameId,
}

impl NamespaceCalls {
    pub fn new(names: &mut Names) -> NamespaceCalls {
        NamespaceCalls { clone: names.intern("clone"), unshare: names.intern("unshare"), setns: names.intern("setns") }
    }
}

impl Linux {
    /// The numbers that a thread uses which `maker` is about to create.
    pub(super) fn numbers_of_child(&self, maker: ThreadId) -> Numbers {
        let maker = &self.threads[maker.0 as usize];
        let into_new = |call: Entered| call.name == self.ways.clone && call.arguments.third.is_some_and(|flags| flags & CLONE_NEWPID != 0);
        let elsewhere = maker.numbers.elsewhere || maker.numbers.children_foreign || maker.call.is_some_and(into_new);
        Numbers { elsewhere, ..maker.numbers }
    }

    /// Processes a successful call of the thread: its children may use other numbers from now on.
    pub(super) fn may_leave_numbers(&mut self, thread: ThreadId, call: &Entered) {
        let flags = call.arguments.third;
        let leads_elsewhere = match call.name {
            name if name == self.ways.unshare => flags.is_some_and(|flags| flags & CLONE_NEWPID != 0),
            // 0 means a namespace of any kind.
            name if name == self.ways.setns => flags.is_none_or(|kind| kind == 0 || kind & CLONE_NEWPID != 0),
            _ => false,
        };
        self.threads[thread.0 as usize].numbers.children_foreign |= leads_elsewhere;
    }
}
