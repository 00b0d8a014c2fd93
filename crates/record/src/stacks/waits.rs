//! Samples the stacks of waits and of wake-ups. With `--stacks-waiting HZ`, a thread that waits is
//! sampled up to HZ times per second of its waiting.
//!
//! Small BPF programs in the kernel measure each wait and choose which ones are sampled
//! ([`programs`]): one of length L with the probability min(1, L / period), where the period is
//! 1 / HZ. So each sampled wait represents max(L, period) of waiting time, and all waits longer
//! than the period are sampled. The stack is taken when the thread has the CPU again and is still
//! where it waited, so page faults and preemptions are sampled, too. With the wait, the stack of
//! the thread that ends it is sampled.
//!
//! The samples go into the ring of their CPU. If they are more than the limit of bytes per second
//! allows, the period is enlarged ([`limit`]).

mod assembler;
mod bpf;
mod btf;
pub mod limit;
mod programs;

pub use programs::SampleData;

use super::perf::Ring;
use crate::files::cpus;
use btf::Types;
use programs::{Maps, TaskFields};
use std::fs;
use std::io;
use std::os::fd::OwnedFd;

/// Number of addresses of the kernel at the begin of a sample that belong to the sampling itself:
/// the BPF program and its caller.
pub const OWN_ADDRESSES: usize = 2;

const BTF: &str = "/sys/kernel/btf/vmlinux";
const PID_MAX: &str = "/proc/sys/kernel/pid_max";
const POSSIBLE_CPUS: &str = "/sys/devices/system/cpu/possible";
/// Largest tid if the kernel does not report it: that of 64-bit kernels.
const DEFAULT_PID_MAX: u32 = 1 << 22;

/// Reason why no waits are sampled.
#[derive(Debug, thiserror::Error)]
pub enum WaitsError {
    #[error("this kernel has no BPF programs; run a kernel with CONFIG_BPF_SYSCALL and CONFIG_BPF_EVENTS")]
    NoBpf,
    #[error("BPF programs are not allowed here; run as root, outside of a container that forbids bpf(2)")]
    NotAllowed,
    #[error("this kernel has no tracepoint at the end of waits; run Linux 6.16 or newer")]
    NoTracepoint,
    #[error("this kernel does not describe its types ({BTF}); run a kernel with CONFIG_DEBUG_INFO_BTF")]
    NoTypes,
    #[error("the stacks of this host's programs cannot be copied")]
    NoCopies,
    #[error("cannot {0}: {1}")]
    Other(&'static str, io::Error),
}

impl WaitsError {
    fn new(what: &'static str) -> impl Fn(io::Error) -> WaitsError {
        move |error| match error.raw_os_error() {
            Some(libc::ENOSYS) => WaitsError::NoBpf,
            Some(libc::EPERM | libc::EACCES) => WaitsError::NotAllowed,
            _ => WaitsError::Other(what, error),
        }
    }
}

/// The programs that sample waits. They do not run yet.
#[derive(Debug)]
pub struct Waits {
    maps: Maps,
    switched: OwnedFd,
    woken: OwnedFd,
}

/// The programs while they run. Waits are sampled until this value is dropped.
#[derive(Debug)]
pub struct RunningWaits {
    maps: Maps,
    _attached: [OwnedFd; 2],
}

impl Waits {
    /// Loads the programs, and opens an event for their samples in each ring. The samples have at
    /// most `bytes` bytes of the stack.
    pub fn prepare(rings: &mut [(u32, Ring)], bytes: u32, period_ns: u32) -> Result<Waits, WaitsError> {
        let pid_max = fs::read_to_string(PID_MAX).ok().and_then(|text| text.trim().parse().ok()).unwrap_or(DEFAULT_PID_MAX);
        // A CPU may come online later.
        let possible = cpus::listed(POSSIBLE_CPUS).into_iter();
        let max_cpu = rings.iter().map(|(cpu, _)| *cpu).chain(possible).max().unwrap_or(0);
        let btf = fs::read(BTF).map_err(|_| WaitsError::NoTypes)?;
        let types = Types::parse(&btf).ok_or(WaitsError::NoTypes)?;
        let fields = task_fields(&types).ok_or(WaitsError::NoTypes)?;
        let (at_switch, at_wakeup) = (types.typedef(b"btf_trace_sched_exit_tp"), types.typedef(b"btf_trace_sched_waking"));
        let (at_switch, at_wakeup) = (at_switch.ok_or(WaitsError::NoTracepoint)?, at_wakeup.ok_or(WaitsError::NoTypes)?);
        let maps = Maps::new(pid_max, max_cpu, std::process::id() as i32).map_err(WaitsError::new("make a BPF map"))?;
        maps.set_period(period_ns).map_err(WaitsError::new("write a BPF map"))?;
        let load = |code: Vec<[u8; 8]>, name, at| bpf::load(&code, name, at).map_err(WaitsError::new("load a BPF program"));
        let switched = load(programs::switched(&maps), "longpole_switch", at_switch)?;
        let woken = load(programs::woken(&maps, fields), "longpole_waking", at_wakeup)?;
        for (cpu, ring) in rings {
            let event = ring.open_output(*cpu, bytes).map_err(WaitsError::new("open a perf event for BPF programs"))?;
            maps.set_event(*cpu, event).map_err(WaitsError::new("write a BPF map"))?;
        }
        Ok(Waits { maps, switched, woken })
    }

    /// Starts the sampling.
    pub fn start(self) -> Result<RunningWaits, WaitsError> {
        let attach = |program| bpf::attach(program).map_err(WaitsError::new("attach a BPF program"));
        let attached = [attach(&self.woken)?, attach(&self.switched)?];
        Ok(RunningWaits { maps: self.maps, _attached: attached })
    }
}

fn task_fields(types: &Types<'_>) -> Option<TaskFields> {
    let offset = |field| types.offset(b"task_struct", field)?.try_into().ok();
    Some(TaskFields { tid: offset(b"pid")?, process: offset(b"tgid")? })
}

impl RunningWaits {
    /// Changes the period for the waits that end from now on.
    pub fn set_period(&self, ns: u32) -> io::Result<()> {
        self.maps.set_period(ns)
    }
}
