//! Remedies: what to do about each mechanism.

use super::super::data::{Mechanism, Outcome, SubjectState, Verdict};

/// Returns the remedy for a verdict without a mechanism: for a subject that computes.
pub(super) fn of_state(verdict: &Verdict) -> Option<String> {
    let state = verdict.state.as_ref().filter(|_| verdict.outcome == Outcome::Bottleneck)?;
    (state.kind == SubjectState::Running).then(|| "Make this work cheaper, or do less of it".to_owned())
}

/// Returns the remedy for a mechanism, as a sentence without a full stop. `None` if the mechanism
/// is too general for one, or if the reasons of the verdict contain it.
pub(super) fn remedy(mechanism: Mechanism) -> Option<&'static str> {
    Some(match mechanism {
        Mechanism::Serialisation => "Allow more at a time: hold the lock for a shorter time, enlarge the pool, or do not wait inside it",
        Mechanism::LockConvoy => "Do not wait while holding the lock: hold it for a shorter time, or split it",
        Mechanism::Polling => "Wake each side (futex, pipe, eventfd, inotify) instead of sleeping and looking again",
        Mechanism::PolledWork => "Make this work cheaper, or let it stop earlier; a wake-up instead of polling saves at most one sleep each time",
        Mechanism::DelayedAck => "Small writes wait for a delayed acknowledgement (Nagle): write a request at once, or set TCP_NODELAY",
        Mechanism::SendBuffer => {
            "Enlarge the send buffer (SO_SNDBUF, net.ipv4.tcp_wmem), or do not set it, so that the kernel adapts it"
        }
        Mechanism::Retransmission => "Packets are lost and sent again: look at `longpole packets --losses`",
        Mechanism::WindowProbe => "The receiver's window is closed: enlarge its buffer (SO_RCVBUF, net.ipv4.tcp_rmem), or read sooner",
        Mechanism::Corked => "Let the sender release the end of each message (TCP_CORK off, tcp_nopush off, no MSG_MORE), or set TCP_NODELAY",
        Mechanism::WindowLimited => {
            "Enlarge the receive buffer (SO_RCVBUF, net.ipv4.tcp_rmem), or do not set it, so that the kernel adapts it"
        }
        Mechanism::Pacing => "The kernel paces the sender (SO_MAX_PACING_RATE, fq, BBR)",
        Mechanism::KernelTimer => return None,
        Mechanism::GracePeriod => "Call it less often, for more items at once, or use a call that does not wait (membarrier has expedited commands)",
        Mechanism::SyncPerItem => "Sync once for several items (group commit) instead of once for each",
        Mechanism::DiskReads => "Read ahead, read in larger pieces, or keep it in memory",
        Mechanism::PageFaults => {
            "Reuse memory instead of returning it to the kernel (a pool, mallopt M_TRIM_THRESHOLD, MADV_HUGEPAGE)"
        }
        Mechanism::CpuQuota => "Raise the quota of its control group (cpu.max, cpu.cfs_quota_us), or the runtime of its reservation (chrt --sched-runtime)",
        Mechanism::DiskQuota => "Raise the limit of its control group for the disk (io.max, blkio.throttle)",
        Mechanism::CpuContention => "Add CPUs, or reduce the work of the threads that use them",
        Mechanism::Affinity => "Let it run on more CPUs (taskset, sched_setaffinity, cpuset.cpus, IRQ affinity)",
        Mechanism::ProcessPerItem => "Start one process for many items, or keep a pool of processes",
        Mechanism::SingleThread => "Make this work cheaper, or spread it over several threads",
        Mechanism::OneAtATime => "Hold the lock for a shorter time, split it, or use processes where an interpreter has one lock for all threads",
        Mechanism::Timeout => {
            "Find out why there is no answer (address, port, firewall, a dead server), try another server at once, or shorten the timeout"
        }
        Mechanism::RoundTrips => "Ask for several things at once (a join, a batch, a pipeline), or cache the answers",
        Mechanism::SerialStep => "Run its parts at the same time, cache its results, or leave it out",
        Mechanism::SleepInHandler => "Shorten that wait, or allow more requests to wait at the same time",
        Mechanism::LoadGenerator => "The client cannot ask faster: the service behind it is not at its limit",
        Mechanism::PacketLoss => return None,
        Mechanism::PriorityInversion => {
            "Use a lock that passes on priority (PTHREAD_PRIO_INHERIT, FUTEX_LOCK_PI), or do not share it between threads of different priorities"
        }
        Mechanism::MemoryReclaim => "Give it more memory (memory.max, memory.limit_in_bytes), or let it use less",
        Mechanism::InterruptWork => {
            "Send fewer packets or requests (larger ones, batches), let the kernel do less for each (rules of packet filters, offloads), or spread its interrupts over CPUs"
        }
        Mechanism::ConnectionPerRequest => "Keep connections open (keep-alive, a pool of connections), or resume sessions (TLS session tickets)",
        Mechanism::SlowLink => "Raise the rate of the link or of its queueing discipline (`tc qdisc`), or send less (compress, cache)",
        Mechanism::LongLink => {
            "The queue was never empty: also send less at a time, or by another class of the discipline (`tc qdisc`); if the delay is the link's own, allow more in transit at a time (more requests at once, larger windows)"
        }
        Mechanism::HandOverPerItem => {
            "Hand over several items at once (batches, a buffer that is passed on when it is full), or process an item where it is made"
        }
    })
}
