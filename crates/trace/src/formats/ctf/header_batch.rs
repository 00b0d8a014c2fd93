//! Reading events without their fields, many at once.

use super::{ClassPlan, CtfSource};
use crate::diagnostic::PacketPosition;
use crate::error::Error;
use crate::event::ClassId;
use crate::index::packet_chains::Share;
use crate::shared::Shared;
use longpole_ctf::{Headers, Step};

impl ClassPlan {
    #[inline]
    pub fn id(&self) -> ClassId {
        self.id
    }
}

impl CtfSource {
    /// Returns the plans of a stream class, by index of the event class.
    pub fn classes(&self, stream: usize) -> &[ClassPlan] {
        self.plan.classes.get(stream).map_or(&[], Vec::as_slice)
    }

    /// Returns true if no other source reads this file.
    pub fn is_whole_stream(&self) -> bool {
        matches!(self.share, Share::All)
    }

    /// Like [`CtfSource::advance`], but decodes as many events as possible into `headers`, and
    /// returns the latest of their times. If `headers` is empty afterwards, there is one item, as
    /// after [`CtfSource::advance`]. Subjects are not looked up.
    pub fn advance_headers(&mut self, headers: &mut Headers, shared: &mut Shared) -> Result<Option<i64>, Error> {
        headers.clear();
        self.loss = None;
        if self.is_partial {
            self.continue_after_damage(shared);
        }
        loop {
            if let Some(loss) = self.loss {
                return Ok(Some(loss.end_ns));
            }
            match self.decoder.advance_headers(headers) {
                Ok(Some(Step::Event)) => return Ok(Some(self.checked(headers, shared))),
                step => {
                    headers.clear();
                    if let Some(found) = self.between_events(step, shared) {
                        return Ok(found);
                    }
                }
            }
        }
    }

    /// Checks the times of events as [`CtfSource::advance`] does, and returns the latest one.
    fn checked(&mut self, headers: &Headers, shared: &mut Shared) -> i64 {
        let ns = |index: usize| headers.ns(index).unwrap_or(self.last_ns);
        let (first_ns, last_ns) = (ns(0), ns(headers.len().saturating_sub(1)));
        let is_outside = |ns: i64| self.packet_checks.is_outside(ns);
        if headers.is_ordered() && self.last_ns <= first_ns && !is_outside(first_ns) && !is_outside(last_ns) {
            self.last_ns = last_ns;
            return last_ns;
        }
        self.checked_one_by_one(headers, shared)
    }

    #[cold]
    fn checked_one_by_one(&mut self, headers: &Headers, shared: &mut Shared) -> i64 {
        let mut latest_ns = i64::MIN;
        for index in 0..headers.len() {
            let ns = headers.ns(index).unwrap_or(self.last_ns);
            if self.packet_checks.is_outside(ns) {
                let place = PacketPosition::of_event(&self.decoder).before(headers.len() - 1 - index);
                self.outside(ns, place, shared);
            }
            self.counts.backwards += u64::from(ns < self.last_ns);
            self.last_ns = ns;
            latest_ns = latest_ns.max(ns);
        }
        latest_ns
    }
}
