//! The pid namespace whose numbers a thread uses for other threads.
//!
//! The kernel's events number threads as in the initial pid namespace. A number that a thread
//! passes to a system call is one of the caller's namespace: in a container the same number is
//! another thread. For threads that existed at the begin, the dump contains the namespace. For
//! threads born in a new namespace it is derived from the calls that create one, if their arguments
//! are in the events (those of `clone3` are not).

use crate::linux::state::OpenCall;
use crate::linux::watch::ThreadId;
use crate::linux::Linux;
use crate::names::{NameId, Names};

const CLONE_NEWPID: i64 = 0x2000_0000;

/// The pid namespace whose numbers a thread passes to its system calls.
#[derive(Clone, Copy, Debug, Default)]
pub struct PidNamespace {
    /// True if it is not known to be the initial namespace, whose numbers the events use.
    pub is_foreign: bool,
    /// True if children that the thread creates from now on may be in another namespace.
    pub children_foreign: bool,
}

/// Calls after which children may be in another pid namespace.
#[derive(Debug)]
pub(in crate::linux) struct NamespaceCalls {
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
    /// The namespace of the thread that `maker` is about to create.
    pub(in crate::linux) fn pid_namespace_of_child(&self, maker: ThreadId) -> PidNamespace {
        let maker = &self.threads[maker.0 as usize];
        let into_new = |call: OpenCall| {
            call.name == self.call_names.namespace_calls.clone && call.arguments.third.is_some_and(|flags| flags & CLONE_NEWPID != 0)
        };
        let is_foreign = maker.pid_namespace.is_foreign || maker.pid_namespace.children_foreign || maker.call.is_some_and(into_new);
        PidNamespace { is_foreign, ..maker.pid_namespace }
    }

    /// Processes a successful call of the thread, after which its children may be in another
    /// namespace.
    pub(in crate::linux) fn note_namespace_call(&mut self, thread: ThreadId, call: &OpenCall) {
        let flags = call.arguments.third;
        let changes_namespace = match call.name {
            name if name == self.call_names.namespace_calls.unshare => flags.is_some_and(|flags| flags & CLONE_NEWPID != 0),
            // 0 means a namespace of any kind.
            name if name == self.call_names.namespace_calls.setns => flags.is_none_or(|kind| kind == 0 || kind & CLONE_NEWPID != 0),
            _ => false,
        };
        self.threads[thread.0 as usize].pid_namespace.children_foreign |= changes_namespace;
    }
}
