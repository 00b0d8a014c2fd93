//! One pass of the Linux model over a toy kernel's events.
#![allow(dead_code)] // each test file uses some of it

use crate::linux_support::{Kernel, Val};
use longpole_analysis::scheduling::cpus::{CpuTimes, KernelThread};
use longpole_model::linux::watch::Watch;
use longpole_model::linux::Linux;
use longpole_trace::event::Item;

pub const ALL: (i64, i64) = (i64::MIN, i64::MAX);

pub fn pass<W: Watch + Default>(kernel: &Kernel, range: (i64, i64)) -> (Linux, W) {
    let mut linux = Linux::new(range.0, range.1).unwrap();
    let mut watch = W::default();
    kernel.replay(|catalogue, item| match item {
        Item::Event(event) => linux.event(catalogue, event, &mut watch),
        Item::Loss(loss) => linux.loss(catalogue, loss, &mut watch),
    });
    linux.finish(&mut watch);
    (linux, watch)
}

pub fn threads(kernel: &Kernel, range: (i64, i64)) -> Vec<KernelThread> {
    let (linux, times) = pass::<CpuTimes>(kernel, range);
    times.threads(&linux)
}

pub fn thread(kernel: &Kernel, tid: i32) -> KernelThread {
    threads(kernel, ALL).into_iter().find(|thread| thread.tid == tid).unwrap()
}

/// A thread of the process `process` is created.
pub fn fork(kernel: &mut Kernel, t_ns: i64, parent: i32, tid: i32, process: i32) {
    let ids = [("parent_tid", parent), ("child_tid", tid), ("child_pid", process)].map(|(name, id)| (name, Val::I(id.into())));
    kernel.event(t_ns, 0, "sched_process_fork", &ids);
}

/// A thread begins to exit.
pub fn exit(kernel: &mut Kernel, t_ns: i64, tid: i32) {
    kernel.event(t_ns, 0, "sched_process_exit", &[("tid", Val::I(tid.into()))]);
}
