//! A loss that a packet's context reports, until the source yields it. The counter in the context
//! does not tell when the loss ended.

use crate::event::Loss;

#[derive(Default)]
pub(super) struct PendingLoss {
    /// Set if Longpole's probes wrote the stream. What one of their packets reports as lost was
    /// lost before all events of that packet.
    own: bool,
    loss: Option<Loss>,
    /// Set if the current packet reported the loss.
    is_of_packet: bool,
}

impl PendingLoss {
    pub fn new(own: bool) -> PendingLoss {
        PendingLoss { own, ..PendingLoss::default() }
    }

    /// Returns true if Longpole's probes wrote the stream.
    pub fn is_own(&self) -> bool {
        self.own
    }

    pub fn is_some(&self) -> bool {
        self.loss.is_some()
    }

    pub fn begins_by(&self, end_ns: i64) -> bool {
        self.loss.is_some_and(|loss| loss.begin_ns <= end_ns)
    }

    /// Adds what the next packet reports. `last_ns` is the time of the last event, if there is one.
    pub fn add(&mut self, mut loss: Loss, last_ns: Option<i64>) {
        if self.own {
            // A recorder of an older version stored the gap in the packet before, so the loss
            // begins no later than the last event.
            if let Some(last_ns) = last_ns {
                loss.begin_ns = loss.begin_ns.min(last_ns);
            }
            if let Some(known) = self.loss {
                loss.begin_ns = loss.begin_ns.min(known.begin_ns);
                loss.events = loss.events.zip(known.events).map(|(new, known)| new.saturating_add(known));
            }
        }
        (self.loss, self.is_of_packet) = (Some(loss), true);
    }

    /// Ends the loss at the first event of a packet of Longpole's recorder, which begins at
    /// `begin_ns`.
    ///
    /// To be called only for packets with events: one without events reports what was lost at the
    /// very end, or what a ring lost before its thread changed to a larger ring. Such a loss lasts
    /// until the thread's next event.
    pub fn end_at(&mut self, begin_ns: i64, same_thread: bool) -> Option<Loss> {
        let mut loss = self.loss.take()?;
        if same_thread || self.is_of_packet {
            loss.end_ns = begin_ns.max(loss.begin_ns);
        }
        Some(loss)
    }

    /// Ends the packet. Returns true if the loss does not last longer.
    pub fn end_packet(&mut self) -> bool {
        self.is_of_packet = false;
        !self.own || self.loss.is_some_and(|loss| loss.end_ns > loss.begin_ns)
    }

    /// Takes the loss. `last_ns` is the time of the last event.
    pub fn take(&mut self, last_ns: i64) -> Option<Loss> {
        let mut loss = self.loss.take()?;
        // A packet's end precedes its last event only in an inconsistent trace.
        loss.end_ns = loss.end_ns.max(last_ns);
        Some(loss)
    }

    pub fn clear(&mut self) {
        self.loss = None;
    }
}
