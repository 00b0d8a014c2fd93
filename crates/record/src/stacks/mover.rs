//! The thread that moves the samples of all CPUs from the kernel's rings to the disk.
//!
//! Between two turns it looks at the processes that existed at the begin, for a limited time, so
//! that the rings do not fill up meanwhile.

use super::existing;
use super::metadata::{COMM, EXIT, FORK, MAPPING, PROCESS, WAITING_RATE};
use super::parse::{parse, Record, RecordContent};
use super::perf::Ring;
use super::samples::SampleWriter;
use super::stream::Stream;
use super::waits::limit::{WaitLimit, BYTES_PER_SECOND};
use super::waits::RunningWaits;
use super::Shared;
use crate::clock::Clock;
use rustix::event::{poll, PollFd, PollFlags};
use std::collections::{HashSet, VecDeque};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::Ordering;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Longest time that a sample waits in the ring.
const PERIOD: Duration = Duration::from_millis(100);
/// Longest time of one look at existing processes, so that the rings do not fill up meanwhile.
const LOOK: Duration = Duration::from_millis(20);
/// Largest number of processes that are remembered because they may generate code.
const MAX_JIT_PROCESSES: usize = 1 << 16;

/// One CPU.
pub(super) struct CpuStream {
    stream: Stream,
    ring: Ring,
    /// Number of lost records that are already in the stream's count.
    lost: u64,
    /// Time since which the kernel takes no samples because they took too much time. `None` while
    /// it takes them.
    throttled_since: Option<u64>,
    /// A new period of the sampling of waits in ns that is not in the stream yet, and the time
    /// since which it is used.
    new_period: Option<(u64, u32)>,
}

impl CpuStream {
    pub fn new(stream: Stream, ring: Ring) -> CpuStream {
        CpuStream { stream, ring, lost: 0, throttled_since: None, new_period: None }
    }

    /// Lets the kernel take samples.
    pub fn enable(&self) -> io::Result<()> {
        self.ring.enable()
    }
}

/// State of the thread that moves the samples.
pub(super) struct Mover {
    cpus: Vec<CpuStream>,
    /// Buffer for records, reused to avoid allocations.
    scratch: Vec<u8>,
    existing: Existing,
    records: Records,
    /// The programs that sample waits, and the limit of their samples.
    waits: Option<(RunningWaits, WaitLimit)>,
}

/// Processes that existed at the begin.
struct Existing {
    stream: Stream,
    start: u64,
    /// Processes that were not looked at yet.
    waiting: VecDeque<i32>,
}

/// Writes records of the kernel as events.
struct Records {
    /// Processes that generate code at run time, such as JIT compilers, and whose owner is already
    /// in the trace.
    jit_processes: HashSet<i32>,
    clock: Clock,
    hz: u32,
    payload: Vec<u8>,
    samples: SampleWriter,
    /// Bytes of the samples of waits since they were last added to the limit.
    wait_bytes: usize,
    shared: Arc<Shared>,
}

impl Mover {
    /// `begin` is the stream of the processes that exist now, and `start` the time of its events in
    /// clock ticks.
    pub fn new(
        mut cpus: Vec<CpuStream>,
        (begin, start): (Stream, u64),
        clock: Clock,
        hz: u32,
        waits: Option<(RunningWaits, WaitLimit)>,
        shared: Arc<Shared>,
    ) -> Mover {
        if let Some((_, limit)) = &waits {
            cpus.iter_mut().for_each(|cpu| cpu.new_period = Some((start, limit.requested())));
        }
        let (jit_processes, payload, samples) = (HashSet::new(), Vec::new(), SampleWriter::new());
        Mover {
            cpus,
            scratch: Vec::new(),
            existing: Existing { stream: begin, start, waiting: existing::processes() },
            records: Records { jit_processes, clock, hz, payload, samples, wait_bytes: 0, shared },
            waits,
        }
    }

    /// Moves the samples until the end of the recording.
    pub fn run(mut self, wake: &OwnedFd) {
        loop {
            let stop = self.records.shared.stop.load(Ordering::Acquire);
            if stop {
                self.stop_sampling();
            }
            // Samples have times of CLOCK_MONOTONIC_RAW, which runs evenly. A pair of clock
            // readings that is not older than one turn of this loop converts them exactly enough.
            let pair = self.records.clock.raw_pair();
            for cpu in &mut self.cpus {
                self.records.drain(cpu, &mut self.scratch, pair, stop);
            }
            self.limit_waits(pair);
            self.count_lost();
            self.existing.look(&mut self.records, stop);
            if stop {
                break;
            }
            let mut ready: Vec<PollFd<'_>> = vec![PollFd::from_borrowed_fd(wake.as_fd(), PollFlags::IN)];
            ready.extend(self.cpus.iter().map(|cpu| PollFd::from_borrowed_fd(cpu.ring.as_fd(), PollFlags::IN)));
            let longest = if self.existing.waiting.is_empty() { PERIOD } else { Duration::ZERO };
            let longest = rustix::time::Timespec { tv_sec: 0, tv_nsec: i64::from(longest.subsec_nanos()) };
            let _ = poll(&mut ready, Some(&longest));
        }
    }

    fn stop_sampling(&mut self) {
        if let Some((_, limit)) = self.waits.take().filter(|(_, limit)| limit.largest() > limit.requested()) {
            let ms = |ns: u32| f64::from(ns) / 1e6;
            self.records.shared.trouble(format!(
                "stacks of waits were more than {} MiB per second, so waits of less than {:.1} ms (instead of {:.1} ms) were sampled only in part; a lower --stacks-waiting avoids this",
                BYTES_PER_SECOND >> 20,
                ms(limit.largest()),
                ms(limit.requested()),
            ));
        }
        for cpu in &self.cpus {
            let _ = cpu.ring.disable();
        }
    }

    /// Changes the period of the sampling of waits if their samples need too many bytes. `now` is
    /// in clock ticks and in ns.
    fn limit_waits(&mut self, now: (u64, u64)) {
        let bytes = std::mem::take(&mut self.records.wait_bytes);
        let Some((waits, limit)) = &mut self.waits else { return };
        limit.add(bytes);
        let Some(period) = limit.look(now.1) else { return };
        if let Err(error) = waits.set_period(period) {
            self.records.shared.trouble(format!("the period of the stacks of waits could not be changed: {error}"));
        }
        let since = self.records.clock.now();
        self.cpus.iter_mut().for_each(|cpu| cpu.new_period = Some((since, period)));
    }

    /// Updates the number of losses, so that the recording's description is correct at any time.
    fn count_lost(&self) {
        let lost = self.cpus.iter().map(|cpu| cpu.stream.discarded()).sum();
        self.records.shared.lost.store(lost, Ordering::Relaxed);
    }
}

impl Records {
    fn drain(&mut self, cpu: &mut CpuStream, scratch: &mut Vec<u8>, pair: (u64, u64), last: bool) {
        let CpuStream { stream, ring, lost, throttled_since, new_period } = cpu;
        let mut result = Ok(());
        let kind = ring.kind();
        ring.drain(scratch, |bytes| {
            let Some(record) = parse(bytes, kind) else {
                self.shared.trouble("the kernel wrote a record of samples that is too short".to_owned());
                return;
            };
            let time = self.clock.of_raw(pair, record.time);
            if let Err(error) = write_period(stream, new_period, time) {
                result = Err(error);
            }
            let moved = match record.what {
                RecordContent::Lost(count) => {
                    *lost += count;
                    stream.loss(time, count)
                }
                RecordContent::Throttled(true) => {
                    throttled_since.get_or_insert(record.time);
                    Ok(())
                }
                RecordContent::Throttled(false) => {
                    let missed = self.missed(throttled_since.take(), record.time);
                    stream.loss(time, missed)
                }
                _ => self.record(stream, time, &record),
            };
            if moved.is_err() {
                result = moved;
            }
        });
        // All records until now are written, so the period's event has its true time.
        result = result.and(write_period(stream, new_period, pair.0));
        if last {
            // Losses after the last record that was stored.
            let rest = ring.lost().map_or(0, |all| all.saturating_sub(*lost));
            result = result.and(stream.loss(pair.0, rest));
            // The event was still throttled at the end, so the pause is counted until now.
            let missed = self.missed(throttled_since.take(), pair.1);
            result = result.and(stream.loss(pair.0, missed));
        }
        result = result.and(if last { stream.finish() } else { stream.flush() });
        if let Err(error) = result {
            self.shared.trouble(format!("cannot write the samples: {error}; they count as lost"));
        }
    }

    /// Counts the samples that were not taken while the event was throttled, from `since` to
    /// `until` in ns.
    fn missed(&self, since: Option<u64>, until: u64) -> u64 {
        let ns = since.map_or(0, |since| until.saturating_sub(since));
        let missed = (u128::from(ns) * u128::from(self.hz) / 1_000_000_000) as u64;
        self.shared.throttled.fetch_add(missed, Ordering::Relaxed);
        missed
    }

    fn record(&mut self, stream: &mut Stream, time: u64, record: &Record<'_>) -> io::Result<()> {
        self.payload.clear();
        self.payload.extend_from_slice(&record.pid.to_ne_bytes());
        self.payload.extend_from_slice(&record.tid.to_ne_bytes());
        let id = match record.what {
            RecordContent::Sample(sample) => {
                let written = self.samples.write((record.pid, record.tid), &sample, &mut self.payload);
                self.shared.samples.fetch_add(1, Ordering::Relaxed);
                if written.of_wait {
                    self.shared.waits.fetch_add(1, Ordering::Relaxed);
                    self.wait_bytes += self.payload.len();
                }
                written.event
            }
            RecordContent::Mapping { start, length, offset, inode, path } => {
                mapping(&mut self.payload, [start, length, offset, inode], path);
                if existing::may_be_generated(path) {
                    self.write_owner_of_jit_process(stream, time, record.pid)?;
                }
                MAPPING
            }
            RecordContent::Comm { exec, comm } => {
                self.payload.push(u8::from(exec));
                text(&mut self.payload, comm);
                COMM
            }
            RecordContent::Fork { parent_pid, parent_tid } => {
                self.payload.extend_from_slice(&parent_pid.to_ne_bytes());
                self.payload.extend_from_slice(&parent_tid.to_ne_bytes());
                FORK
            }
            RecordContent::Exit => {
                if record.pid == record.tid {
                    self.jit_processes.remove(&record.pid);
                }
                EXIT
            }
            _ => return Ok(()),
        };
        stream.event(time, id, &self.payload)
    }

    /// Writes the owner of a process that generates code. The list of functions that such a process
    /// provides is accepted only if it belongs to the same user.
    fn write_owner_of_jit_process(&mut self, stream: &mut Stream, time: u64, pid: i32) -> io::Result<()> {
        if self.jit_processes.len() >= MAX_JIT_PROCESSES || !self.jit_processes.insert(pid) {
            return Ok(());
        }
        let Some((uid, inner)) = existing::owner(pid) else { return Ok(()) };
        let mut payload = Vec::with_capacity(16);
        for id in [pid, pid, uid as i32, inner] {
            payload.extend_from_slice(&id.to_ne_bytes());
        }
        stream.event(time, PROCESS, &payload)
    }
}

impl Existing {
    /// Looks at the processes: all of them if `all` is set, otherwise for a
    /// limited time.
    fn look(&mut self, records: &mut Records, all: bool) {
        let begin = Instant::now();
        let mut payload = Vec::new();
        let looked = !self.waiting.is_empty();
        let mut result = Ok(());
        while all || begin.elapsed() < LOOK {
            let Some(pid) = self.waiting.pop_front() else { break };
            result = result.and(self.look_at(records, pid, &mut payload));
        }
        if all {
            result = result.and(self.stream.finish());
        } else if looked {
            result = result.and(self.stream.flush());
        }
        if let Err(error) = result {
            records.shared.trouble(format!("cannot write the processes at the begin of the sampling: {error}"));
        }
    }

    fn look_at(&mut self, records: &mut Records, pid: i32, payload: &mut Vec<u8>) -> io::Result<()> {
        let start = self.start;
        let whose = |payload: &mut Vec<u8>, tid: i32| {
            payload.clear();
            payload.extend_from_slice(&pid.to_ne_bytes());
            payload.extend_from_slice(&tid.to_ne_bytes());
        };
        for (tid, name) in existing::threads(pid) {
            whose(payload, tid);
            payload.push(0);
            text(payload, &name);
            self.stream.event(start, COMM, payload)?;
        }
        let mut generates_code = false;
        for found in existing::mappings(pid) {
            whose(payload, pid);
            mapping(payload, [found.start, found.length, found.offset, found.inode], &found.path);
            generates_code |= existing::may_be_generated(&found.path);
            self.stream.event(start, MAPPING, payload)?;
        }
        if generates_code {
            records.write_owner_of_jit_process(&mut self.stream, start, pid)?;
        }
        Ok(())
    }
}

impl Drop for Mover {
    fn drop(&mut self) {
        self.count_lost();
    }
}

/// Writes the new period of the sampling of waits if it is used at `time`.
fn write_period(stream: &mut Stream, new: &mut Option<(u64, u32)>, time: u64) -> io::Result<()> {
    let Some((since, period)) = new.take_if(|(since, _)| *since <= time) else { return Ok(()) };
    let mut payload = [0; 16];
    payload[8..].copy_from_slice(&u64::from(period).to_ne_bytes());
    stream.event(since, WAITING_RATE, &payload)
}

fn mapping(payload: &mut Vec<u8>, words: [u64; 4], path: &[u8]) {
    words.iter().for_each(|word| payload.extend_from_slice(&word.to_ne_bytes()));
    text(payload, path);
}

fn text(payload: &mut Vec<u8>, text: &[u8]) {
    payload.extend_from_slice(text);
    payload.push(0);
}
