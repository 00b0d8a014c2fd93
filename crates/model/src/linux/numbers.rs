//! Whose numbers of threads a thread knows.
//!
//! The kernel's events number threads as the first pid namespace does. What a call names is a number of its caller's namespace: in a container the
//! same number is another thread. Who is there at the begin is told by the dump; who is born in a new namespace, by the calls that lead there, where these
//! say so (`clone3` does not).

use super::{Entered, Linux};
use crate::linux::watch::ThreadId;
use crate::names::{NameId, Names};

const CLONE_NEWPID: i64 = 0x2000_0000;

#[derive(Clone, Copy, Debug, Default)]
pub struct Numbers {
    /// Not known to be those of the first namespace.
    pub elsewhere: bool,
    /// The same of its children to come.
    pub of_children: bool,
}

/// Calls after which children have other numbers.
#[derive(Debug)]
pub(super) struct Ways {
    clone: NameId,
    unshare: NameId,
    setns: NameId,
}

impl Ways {
    pub fn new(names: &mut Names) -> Ways {
        Ways { clone: names.intern("clone"), unshare: names.intern("unshare"), setns: names.intern("setns") }
    }
}

impl Linux {
    /// Of a thread that this one is about to make.
    pub(super) fn numbers_of_child(&self, maker: ThreadId) -> Numbers {
        let maker = &self.threads[maker.0 as usize];
        let into_new = |call: Entered| call.name == self.ways.clone && call.arguments.third.is_some_and(|flags| flags & CLONE_NEWPID != 0);
        let elsewhere = maker.numbers.elsewhere || maker.numbers.of_children || maker.call.is_some_and(into_new);
        Numbers { elsewhere, ..maker.numbers }
    }

    /// A call of the thread has succeeded.
    pub(super) fn may_leave_numbers(&mut self, thread: ThreadId, call: &Entered) {
        let flags = call.arguments.third;
        let leads_elsewhere = match call.name {
            name if name == self.ways.unshare => flags.is_some_and(|flags| flags & CLONE_NEWPID != 0),
            // 0: a namespace of any kind.
            name if name == self.ways.setns => flags.is_none_or(|kind| kind == 0 || kind & CLONE_NEWPID != 0),
            _ => false,
        };
        self.threads[thread.0 as usize].numbers.of_children |= leads_elsewhere;
    }
}
