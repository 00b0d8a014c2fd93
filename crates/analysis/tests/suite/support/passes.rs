//! One pass of the Linux model over a toy kernel's events.

use super::linux::Kernel;
pub use super::linux::{exit, fork, pass, ALL};
use longpole_analysis::scheduling::cpus::{CpuTimes, KernelThread};

pub fn threads(kernel: &Kernel, range: (i64, i64)) -> Vec<KernelThread> {
    let (linux, times) = pass::<CpuTimes>(kernel, range);
    times.threads(&linux)
}

pub fn thread(kernel: &Kernel, tid: i32) -> KernelThread {
    threads(kernel, ALL).into_iter().find(|thread| thread.tid == tid).unwrap()
}
