//! Verdicts on waits: for a link, kernel timers, a receive window, a quota, input from outside, and
//! the disk. Sleeps are in `sleeps`.

use crate::findings::Scope;
use crate::verdict::data::because::Because;
use crate::verdict::data::{Mechanism, Named, Outcome, SubjectLevel, Verdict};
use crate::verdict::facts::exchanges::is_send;
use crate::verdict::parts::{Does, Part};
use crate::verdict::subjects::{Level, SubjectId};
use crate::verdict::Case;
use longpole_model::kinds::LinkKind;
use longpole_model::system_calls::CallFamily;

impl Case<'_> {
    /// Judges a link that always has packets to carry while the path waits for packets in flight.
    pub(in crate::verdict) fn by_link(&self) -> Option<Verdict> {
        let link = self.off_path.link.as_ref()?;
        let busy = link.busy_ns as f64 / self.traffic.length_ns().max(1) as f64;
        let is_in_flight = |part: &Part| match part.does {
            Does::KernelTimer(timer) => matches!(timer, LinkKind::RateLimit | LinkKind::Pacing),
            Does::Transit => part.is_on_wire(),
            _ => false,
        };
        let own: Vec<&Part> = self.parts.parts.iter().filter(|part| is_in_flight(part)).collect();
        let share = self.share(is_in_flight);
        if busy < self.limits.majority || share < self.limits.majority || link.packets < self.limits.min_occurrences {
            return None;
        }
        let waiting = own.iter().find(|part| self.is_program(part.subject));
        let waits = waiting.map(|part| self.name(part.subject, None));
        let mut verdict = self.verdict_on(Outcome::Bottleneck, own.first()?.subject, &own);
        let host = waits.as_ref().and_then(|waits| waits.host.clone());
        verdict.subject = Some(Named { host, ..Named::of_name(SubjectLevel::Device, &link.device) });
        (verdict.state, verdict.origin.row, verdict.role) = (None, None, None);
        verdict.mechanism = Some(if link.is_long(self.limits.majority) { Mechanism::LongLink } else { Mechanism::SlowLink });
        verdict.because.push(Because::Link {
            device: link.device.clone(),
            discipline: link.discipline.clone(),
            bits_per_second: link.rate(),
            busy: busy.min(1.0),
            mean_ns: link.mean_ns(),
            waits,
        });
        Some(verdict)
    }

    /// Judges waits for the kernel's timers.
    pub(in crate::verdict) fn by_kernel_timer(&self) -> Option<Verdict> {
        let is_meant = |part: &Part| matches!(part.does, Does::KernelTimer(_));
        let share = self.share(is_meant);
        if !self.is_most(share, is_meant) {
            return None;
        }
        let mut of_programs = self.parts.parts.iter().filter(|part| is_meant(part) && self.is_program(part.subject));
        let first = of_programs.next().or_else(|| self.parts.parts.iter().find(|part| is_meant(part)))?;
        let Does::KernelTimer(timer) = first.does else { return None };
        let (mechanism, outcome) = match timer {
            LinkKind::DelayedAck => (Mechanism::DelayedAck, Outcome::Bottleneck),
            LinkKind::Retransmission | LinkKind::Transmission => (Mechanism::Retransmission, Outcome::Bottleneck),
            // The same timer sends what a sender holds back although the window is open.
            LinkKind::WindowProbe if self.off_path.narrowest_window().is_none() => (Mechanism::Corked, Outcome::Bottleneck),
            LinkKind::WindowProbe => (Mechanism::WindowProbe, Outcome::Bottleneck),
            LinkKind::Pacing | LinkKind::RateLimit => (Mechanism::Pacing, Outcome::Paced),
            LinkKind::QuotaRefill => (Mechanism::CpuQuota, Outcome::Paced),
            LinkKind::IoQuota => (Mechanism::DiskQuota, Outcome::Paced),
            LinkKind::GracePeriod => (Mechanism::GracePeriod, Outcome::Bottleneck),
            _ => (Mechanism::KernelTimer, Outcome::Bottleneck),
        };
        let mut own: Vec<&Part> = self.parts.parts.iter().filter(|part| part.does == first.does).collect();
        // The first part names the verdict's subject.
        own.sort_by_key(|part| part.subject != first.subject);
        let mut verdict = self.verdict_on(outcome, first.subject, &own);
        let peer = self.asked_by(first.subject).filter(|&other| self.is_program(other));
        let mut between: Vec<Named> = vec![self.name(first.subject, None)];
        between.extend(peer.map(|by| self.name(by, None)));
        let is_of_connection = matches!(
            timer,
            LinkKind::DelayedAck | LinkKind::Transmission | LinkKind::Retransmission | LinkKind::WindowProbe | LinkKind::Keepalive
        );
        if !self.is_program(first.subject) && between.len() == 2 {
            // A kernel thread works for a program: that program is the one that waits.
            verdict.subject = between.pop();
            between.clear();
        }
        if !is_of_connection {
            between.truncate(1);
        }
        let (ns, count) = own.iter().fold((0, 0), |(ns, count), part| (ns + part.ns, count + part.count));
        let full = match timer {
            LinkKind::DelayedAck => self.full_send_buffer(&own, std::iter::once(first.subject).chain(peer)),
            _ => None,
        };
        let mechanism = if full.is_some() { Mechanism::SendBuffer } else { mechanism };
        verdict.mechanism = Some(mechanism);
        let timer = timer.text().unwrap_or(&first.state).to_owned();
        verdict.because.push(Because::KernelTimer { timer, mean_ns: ns / count.max(1), count, between });
        verdict.because.extend(full);
        if mechanism == Mechanism::Corked {
            verdict.because.push(Because::Corked);
        }
        verdict.role = None;
        Some(verdict)
    }

    /// Returns the side of a connection whose send buffer is full at most of these waits. `waits`
    /// are the waits of the first side.
    fn full_send_buffer(&self, waits: &[&Part], sides: impl Iterator<Item = SubjectId>) -> Option<Because> {
        let all: u64 = waits.iter().map(|part| part.count).sum();
        // A sending call that waits has a full buffer as well.
        let blocked: u64 = waits.iter().filter(|part| is_send(&part.state)).map(|part| part.count).sum();
        let sends = |(side, waited): (SubjectId, u64)| (side, self.subjects.get(side).activity.short_sends.max(waited));
        let (side, count) = sides.zip([blocked, 0]).map(sends).find(|&(_, count)| count as f64 >= self.limits.majority * all as f64)?;
        Some(Because::ShortSends { by: self.name(side, None), count })
    }

    /// Judges a connection whose sender always has the receiver's small window filled.
    pub(in crate::verdict) fn by_window(&self) -> Option<Verdict> {
        let ((port, peer), window) = self.off_path.narrowest_window()?;
        let length = self.answer.length_ns.max(1) as f64;
        let lasts = (window.last_ns - window.first_ns) as f64 >= self.limits.majority * length;
        let is_full = window.filled as f64 >= self.limits.majority * window.count as f64;
        if !lasts || !is_full || window.count < self.limits.min_repetitions {
            return None;
        }
        // The path must pass through this connection.
        let at = |port: u16| {
            let process = self.off_path.sockets.process_at(port)?;
            self.parts.wholes.iter().find(|whole| self.subjects.get(whole.subject).processes.contains(&process))
        };
        let receiver = at(peer)?;
        let ends = std::iter::once(receiver).chain(at(port));
        // A receiver that computes meanwhile is slow by itself; a full window then only shows that
        // it reads too late.
        let on_path: f64 = self.parts.of(receiver.subject).filter(|part| part.does == Does::Runs).map(|part| part.share).sum();
        let ran: u64 = self.owned(receiver.subject).map(|own| own.ran_own_code_ns).sum();
        let computes = on_path.max(ran as f64 / self.traffic.length_ns().max(1) as f64);
        // The same holds for one that sleeps, whatever its connection shows.
        if computes.max(self.share(|part| part.does == Does::Sleeps)) >= self.limits.min_share {
            return None;
        }
        let share: f64 = ends.map(|whole| whole.share).sum();
        let of_programs =
            self.parts.wholes.iter().filter(|whole| self.is_program(whole.subject)).map(|whole| whole.share).take(2).sum::<f64>();
        if share.max(of_programs) < self.limits.majority {
            return None;
        }
        let mut verdict = self.without_subject(Outcome::Bottleneck);
        verdict.subject = Some(self.name(receiver.subject, None));
        verdict.mechanism = Some(Mechanism::WindowLimited);
        verdict.set_share(of_programs, 0.0);
        verdict.evidence = receiver.evidence;
        let (bytes, filled) = (window.total_bytes / window.count, window.filled as f64 / window.count as f64);
        verdict.because.push(Because::Window { port, peer, bytes, count: window.count, filled });
        Some(verdict)
    }

    /// Judges a thread that is ready to run but may not, because its control group has used up its
    /// quota.
    pub(in crate::verdict) fn by_quota(&self) -> Option<Verdict> {
        let held = self.findings.iter().find(|finding| finding.of == Scope::Held);
        let is_held = |part: &Part| {
            part.does == Does::Throttled
                || part.does == Does::Runnable
                    && held.is_some_and(|held| part.row.class == held.subject && held.share >= self.limits.min_share)
        };
        let part = self.parts.parts.iter().find(|part| is_held(part))?;
        let share = self.share(is_held);
        // Threads of the subject that sleep meanwhile could not run either.
        let is_held_back = share >= self.limits.considerable_share && self.mean_throttled(part.subject) >= self.limits.majority;
        if !is_held_back && (share < self.limits.min_share || !self.is_most(share, is_held)) {
            return None;
        }
        let mut verdict = self.verdict_on(Outcome::Paced, part.subject, &[part]);
        verdict.mechanism = Some(Mechanism::CpuQuota);
        let is_reserved = self.subjects.is_reserved(part.subject);
        verdict.because.push(Because::Quota { count: held.map_or(part.count, |held| held.count), is_reserved });
        verdict.role = None;
        Some(verdict)
    }

    /// Judges waits for input that comes from outside of the host.
    pub(in crate::verdict) fn by_outside(&self) -> Option<Verdict> {
        let is_meant = |part: &Part| part.does == Does::Outside;
        if !self.is_most(self.share(is_meant), is_meant) {
            return None;
        }
        let first = self.parts.parts.iter().find(|part| is_meant(part) && self.is_program(part.subject))?;
        let own: Vec<&Part> = self.parts.of(first.subject).filter(|part| is_meant(part)).collect();
        let (ns, count) = own.iter().fold((0, 0), |(ns, count), part| (ns + part.ns, count + part.count));
        // The path stays with one idle thread of a pool, although requests wait for others of it.
        let ran: u64 = self.owned(first.subject).map(|own| own.ran_own_code_ns).sum();
        let is_busy = ran as f64 >= self.limits.majority * self.traffic.length_ns() as f64;
        if is_busy || self.waiting_requests(first.subject).is_some() {
            return None;
        }
        let mut verdict = self.verdict_on(Outcome::Paced, first.subject, &own);
        verdict.because.push(Because::Outside { mean_ns: ns / count.max(1), count });
        verdict.role = None;
        Some(verdict)
    }

    /// Returns the mean number of the subject's threads that a quota holds back at a time.
    fn mean_throttled(&self, subject: SubjectId) -> f64 {
        let throttled: u64 = self.owned(subject).map(|own| own.throttled_ns).sum();
        throttled as f64 / self.traffic.length_ns().max(1) as f64
    }

    /// Judges waits for disks.
    pub(in crate::verdict) fn by_disk(&self) -> Option<Verdict> {
        let is_meant = |part: &Part| part.does == Does::Disk;
        let share = self.share(is_meant);
        let mut waits: Vec<&Part> = self.parts.parts.iter().filter(|part| is_meant(part)).collect();
        if !self.is_most(share, is_meant) || waits.is_empty() {
            return None;
        }
        // A kernel thread waits on behalf of the thread that made the request.
        waits.sort_by_key(|part| (self.subjects.get(part.subject).level == Level::KernelThread, std::cmp::Reverse(part.ns)));
        let first = waits[0];
        let mut verdict = self.verdict_on(Outcome::Bottleneck, first.subject, &[first]);
        let error = waits.iter().map(|part| part.error).fold(0.0, f64::max);
        // The kernel's own work for the same call belongs to it.
        let share = share + self.share(|part| part.does == Does::SystemCall && part.state == first.state);
        verdict.set_share(share, error);
        let count = waits.iter().map(|part| part.count).sum::<u64>();
        let ns = waits.iter().map(|part| part.ns).sum::<u64>();
        let syncs = first.call == CallFamily::Sync;
        verdict.mechanism = Some(if syncs { Mechanism::SyncPerItem } else { Mechanism::DiskReads });
        verdict.because.push(Because::Disk { call: first.state.clone(), mean_ns: ns / count.max(1), count });
        // Pages that are read again and again were evicted to make room.
        if let Some(reclaims) = self.reclaims(first.subject, share) {
            verdict.mechanism = Some(Mechanism::MemoryReclaim);
            verdict.because.push(reclaims);
        }
        // A lock that is held during the requests makes the others wait.
        let convoy = self.convoy(count, |pool| pool == first.subject);
        verdict.because.extend(convoy.map(|convoy| self.waits_for_lock(convoy, Some(first.subject))));
        verdict.role = None;
        Some(verdict)
    }
}
