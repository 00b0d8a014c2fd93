//! Losses of kernel events. What happened during a loss is unknown, for its CPU and for the threads
//! on that CPU, and is never interpolated.
//!
//! Usually a loss is reported before the events that follow it. Some tracers report it at the end
//! of the packet that follows, after that packet's events were seen. Then the longest interval
//! without events within the reported interval is taken for the gap.

use crate::linux::watch::{Base, CpuId, Mode, Moment, Occupant, ThreadState, Watch};
use crate::linux::{Linux, Unclaimed};
use longpole_trace::event::{Catalogue, Loss, StreamId, StreamKind};

/// An interval without events on a CPU, which may turn out to be a gap.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Silence {
    pub by: Occupant,
    pub base: Base,
    pub mode: Mode,
    pub begin_ns: i64,
    pub end_ns: i64,
}

impl Silence {
    fn length(&self) -> i64 {
        self.end_ns.saturating_sub(self.begin_ns)
    }
}

/// The longest of the last intervals without events on a CPU.
#[derive(Clone, Debug, Default)]
pub(crate) struct Silences([Option<Silence>; 8]);

/// Minimum length in ns of a remembered interval.
const SHORTEST_NS: i64 = 50_000;
/// Time in ns that intervals are remembered: a packet that reports a loss covers less than this.
const REMEMBERED_NS: i64 = 2_000_000_000;

impl Silences {
    #[inline]
    pub fn note(&mut self, piece: Silence) {
        if piece.length() >= SHORTEST_NS {
            self.remember(piece);
        }
    }

    fn remember(&mut self, piece: Silence) {
        let worth = |known: &Option<Silence>| match known {
            Some(known) if known.end_ns >= piece.begin_ns.saturating_sub(REMEMBERED_NS) => known.length(),
            _ => 0,
        };
        if let Some(least) = self.0.iter_mut().min_by_key(|known| worth(known)) {
            if worth(least) < piece.length() {
                *least = Some(piece);
            }
        }
    }

    /// Removes and returns the longest interval within the given bounds, if it is longer than
    /// `least_ns`.
    fn take(&mut self, begin_ns: i64, end_ns: i64, least_ns: i64) -> Option<Silence> {
        let inside = |known: &&mut Option<Silence>| {
            known.is_some_and(|known| known.begin_ns >= begin_ns && known.end_ns <= end_ns && known.length() > least_ns)
        };
        let longest = self.0.iter_mut().filter(inside).max_by_key(|known| known.map_or(0, |known| known.length()));
        longest.and_then(Option::take)
    }
}

impl Linux {
    /// Processes a loss. Losses on streams that are not of the kernel are ignored.
    pub fn loss<W: Watch + ?Sized>(&mut self, catalogue: &Catalogue, loss: &Loss, watch: &mut W) {
        let kind = catalogue.streams.get(loss.stream.0 as usize).map(|stream| stream.kind);
        if kind != Some(StreamKind::Kernel) {
            return;
        }
        if loss.end_ns >= self.requested.0 && loss.begin_ns <= self.requested.1 {
            match loss.events {
                Some(events) => self.counts.lost = self.counts.lost.saturating_add(events),
                None => self.counts.uncounted_losses += 1,
            }
        }
        match self.cpu_of_stream(loss.stream) {
            Some(cpu) => {
                self.last_ns = self.last_ns.max(loss.end_ns);
                self.lose(cpu, *loss, watch);
            }
            // The CPU becomes known with the stream's first event.
            None => {
                let known = self.early_losses.entry(loss.stream.0).or_insert(*loss);
                known.begin_ns = known.begin_ns.min(loss.begin_ns);
                known.end_ns = known.end_ns.max(loss.end_ns);
            }
        }
    }

    pub(crate) fn cpu_of_stream(&self, stream: StreamId) -> Option<CpuId> {
        self.ids.cpu_of_stream.get(stream.0 as usize).copied().flatten()
    }

    pub(crate) fn lose<W: Watch + ?Sized>(&mut self, id: CpuId, loss: Loss, watch: &mut W) {
        let requested = loss.end_ns >= self.requested.0 && loss.begin_ns <= self.requested.1;
        let place = &mut self.cpus[id.0 as usize];
        if requested {
            place.lost = place.lost.saturating_add(loss.events.unwrap_or(1));
        }
        let since = place.since_ns;
        if loss.begin_ns < since {
            let ahead = loss.end_ns.saturating_sub(since).max(0);
            if let Some(gap) = place.silences.take(loss.begin_ns, loss.end_ns, ahead) {
                if let Some((begin, end)) = self.clip(gap.begin_ns, gap.end_ns) {
                    watch.retracted(id, gap.by, gap.base, gap.mode, begin, end);
                }
                return;
            }
            if loss.end_ns <= since {
                return;
            }
        }
        let begin_ns = loss.begin_ns.max(since);
        self.report_cpu_until(id, begin_ns, watch);
        self.timers.lost(id);
        let place = &mut self.cpus[id.0 as usize];
        place.since_ns = loss.end_ns.max(begin_ns);
        place.unclaimed = Unclaimed::since(place.since_ns);
        (place.base, place.fresh, place.inferred_busy, place.ready_ns) = (Base::Unknown, true, false, None);
        place.open.clear();
        place.raised = Default::default();
        if let Some((begin, end)) = self.clip(begin_ns, loss.end_ns) {
            watch.occupied(id, Occupant::Lost, Base::Unknown, Mode::Unknown, begin, end);
        }
        // Only living threads are visited, because a trace may have many short-lived threads and
        // many losses.
        let mut living = std::mem::take(&mut self.living);
        living.retain(|thread| self.threads[thread.0 as usize].state != ThreadState::Dead);
        for &thread in &living {
            if self.threads[thread.0 as usize].cpu != Some(id) {
                continue;
            }
            self.close(thread, begin_ns, watch);
            watch.moment(Moment::Lost { thread, begin_ns });
            let thread = &mut self.threads[thread.0 as usize];
            (thread.state, thread.since_ns, thread.began_ns) = (ThreadState::Unknown, loss.end_ns.max(begin_ns), None);
            (thread.wake, thread.early_wake, thread.call, thread.mode) = (None, None, None, Mode::Unknown);
        }
        self.living = living;
    }
}
