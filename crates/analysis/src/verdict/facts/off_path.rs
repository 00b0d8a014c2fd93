//! Facts from kernel events that the critical path does not show: what processes exchange on
//! sockets, receive windows, full links, priority inversions, file locks, and the freeing of
//! memory.
//!
//! They are collected in the pass that reads the trace anyway. Example: the path of a client waits
//! in `recvfrom`; only its exchanges show that the server has sixteen open requests meanwhile.

use crate::network::links::{Link, Links};
use crate::verdict::facts::exchanges::{Exchanges, SocketActivities};
use crate::verdict::facts::file_locks::{FileLock, FileLocks};
use crate::verdict::facts::inversions::{Inversion, Inversions};
use longpole_model::linux::net::{Hop, PacketStep};
use longpole_model::linux::watch::{Base, BlockReason, CpuId, CpuWait, FinishedCall, Mode, Moment, Occupant, ThreadId, Wake, Watch};
use longpole_model::linux::Linux;
use std::collections::HashMap;

/// Collects the facts during the pass.
#[derive(Debug, Default)]
pub struct OffPathCollector {
    exchanges: Exchanges,
    /// Connections whose receiver has a small window, by the ports of sender and receiver.
    windows: HashMap<(u16, u16), Window>,
    links: Links,
    inversions: Inversions,
    file_locks: FileLocks,
    /// Threads that freed memory themselves during the current event, with the time that it took in
    /// ns.
    reclaimed: Vec<(ThreadId, u64)>,
    /// Memory reclaims by thread id.
    reclaims: HashMap<i32, Reclaims>,
}

/// A connection whose receiver's window was small at some acknowledgement. Only such
/// acknowledgements are recorded.
#[derive(Clone, Copy, Debug, Default)]
pub struct Window {
    /// Number of acknowledgements.
    pub count: u64,
    /// Number of acknowledgements at which the sender had filled at least half of the window.
    pub filled: u64,
    /// Sum of the sizes of the window.
    pub total_bytes: u64,
    pub first_ns: i64,
    pub last_ns: i64,
}

/// Time that a thread spent on freeing memory because none was free.
#[derive(Clone, Copy, Debug, Default)]
pub struct Reclaims {
    pub count: u64,
    pub ns: u64,
}

impl Watch for OffPathCollector {
    fn reclaimed(&mut self, thread: ThreadId, begin_ns: i64, end_ns: i64) {
        self.reclaimed.push((thread, (end_ns - begin_ns).max(0) as u64));
    }

    #[inline]
    fn occupied(&mut self, cpu: CpuId, by: Occupant, base: Base, mode: Mode, begin_ns: i64, end_ns: i64) {
        self.inversions.occupied(cpu, by, base, mode, begin_ns, end_ns);
    }

    fn waited(&mut self, wait: &CpuWait) {
        self.inversions.waited(wait);
    }

    fn blocked(&mut self, thread: ThreadId, why: BlockReason, begin_ns: i64, end_ns: i64) {
        self.inversions.blocked(thread, why, begin_ns, end_ns);
    }

    fn woken(&mut self, thread: ThreadId, wake: &Wake) {
        self.inversions.woken(thread, wake);
    }

    #[inline]
    fn moment(&mut self, moment: Moment) {
        self.exchanges.moment(moment);
    }

    #[inline]
    fn returned(&mut self, call: &FinishedCall) {
        self.exchanges.returned(call);
    }

    #[inline]
    fn hopped(&mut self, hop: &Hop<'_>) {
        self.links.hopped(hop);
        self.exchanges.hopped(hop);
        if let PacketStep::Window { port, peer, in_flight, window } = hop.step {
            let of = self.windows.entry((port, peer)).or_default();
            of.count += 1;
            of.filled += u64::from(2 * u64::from(in_flight) >= u64::from(window));
            of.total_bytes += u64::from(window);
            of.first_ns = if of.count == 1 { hop.t_ns } else { of.first_ns };
            of.last_ns = hop.t_ns;
        }
    }
}

impl OffPathCollector {
    /// Processes what was collected during an event, with the state of the model after that event.
    /// Must be called after each event.
    #[inline]
    pub fn after(&mut self, linux: &Linux) {
        self.inversions.after(linux, &mut self.file_locks, &mut self.exchanges);
        while let Some((thread, ns)) = self.reclaimed.pop() {
            let of = self.reclaims.entry(linux.threads[thread.0 as usize].tid).or_default();
            of.count += 1;
            of.ns += ns;
        }
        self.exchanges.after(linux);
    }

    /// Returns the facts of the whole trace.
    pub fn finish(self) -> OffPathFacts {
        let (sockets, parents) = self.exchanges.finish();
        OffPathFacts {
            sockets,
            parents,
            windows: self.windows,
            link: self.links.busiest(),
            inversions: self.inversions.finish(),
            file_locks: self.file_locks.finish(),
            reclaims: self.reclaims,
        }
    }
}

/// The facts of a trace.
#[derive(Debug, Default)]
pub struct OffPathFacts {
    pub sockets: SocketActivities,
    /// Parent of each process that began during the recording.
    pub parents: HashMap<i32, i32>,
    windows: HashMap<(u16, u16), Window>,
    /// Link for which packets waited for the longest time.
    pub link: Option<Link>,
    /// Priority inversions, the one with the most inverted time first.
    pub inversions: Vec<Inversion>,
    /// File locks, the one with the longest waits first.
    pub file_locks: Vec<FileLock>,
    /// Memory reclaims by thread id.
    pub reclaims: HashMap<i32, Reclaims>,
}

impl OffPathFacts {
    /// Returns the connection whose sender most often had the receiver's small window filled, by
    /// the ports of sender and receiver.
    pub fn narrowest_window(&self) -> Option<((u16, u16), Window)> {
        let all = self.windows.iter().map(|(&ports, &window)| (ports, window));
        all.max_by_key(|&(ports, window)| (window.filled, std::cmp::Reverse(ports)))
    }
}
