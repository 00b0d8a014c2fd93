//! What the kernel's state machine reports to the packet paths.

use super::PacketPaths;
use crate::network::in_flight::Wakeup;
use crate::stats::growing::entry;
use longpole_model::linux::net::Hop;
use longpole_model::linux::watch::{Base, CpuId, Handling, Mode, Moment, Occupant, Start, Waker, Watch};

impl Watch for PacketPaths {
    fn moment(&mut self, moment: Moment) {
        if let Moment::SwitchedOff { packets: true, .. } = moment {
            // For packets the trace ends here.
            self.finish();
            self.forget();
        }
    }

    fn hopped(&mut self, hop: &Hop<'_>) {
        let counted = !self.is_over && self.since_ns.is_none_or(|since| hop.t_ns >= since);
        self.step(&Hop { covered: hop.covered && counted, ..*hop });
    }

    fn started(&mut self, start: &Start) {
        if let Some(wake) = start.wake.filter(|_| !start.preempted) {
            let wakeup = Wakeup { wake_ns: wake.t_ns, start_ns: start.t_ns, waker: wake.waker };
            entry(&mut self.threads, start.thread.0).wakeup = Some(wakeup);
        }
    }

    fn handled(&mut self, handling: &Handling) {
        // The context in which a packet was received has ended.
        let over = |by: Waker| matches!(by, Waker::Context { id, .. } if id == handling.context);
        let ended = entry(&mut self.cpus, handling.cpu.0).receiving.take_if(|(_, by)| over(*by));
        if let Some((packet, _)) = ended {
            self.not_delivered(packet);
        }
    }

    fn occupied(&mut self, _cpu: CpuId, by: Occupant, _base: Base, _mode: Mode, _begin_ns: i64, _end_ns: i64) {
        if by == Occupant::Lost {
            self.forget();
        }
    }
}
