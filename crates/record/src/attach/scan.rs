//! Finds the processes that have come, and stops all of them at the end of the recording.

use super::rings::{rings_of, Rings};
use super::Visit;
use crate::error::Error;
use crate::ring::sites::Sites;
use crate::runtime_dir::{classify, Entry};
use crate::subjects::ring_source::RingSource;
use crate::subjects::Subject;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Limit of new processes per turn. Each needs descriptors and memory of the recorder until its
/// rings are empty. After thousands of short processes, only this many are handled at a time.
const PROCESSES_A_TURN: usize = 256;

impl Visit<'_> {
    /// Takes up processes that appeared since the last call, at most [`PROCESSES_A_TURN`]; the next
    /// turn takes the others.
    pub fn scan(&mut self) -> Result<(), Error> {
        self.scan_for(PROCESSES_A_TURN)
    }

    pub(super) fn scan_for(&mut self, most: usize) -> Result<(), Error> {
        let entries = self.directory.common.entries()?;
        if entries.iter().any(|(_, entry)| matches!(entry, Entry::Control { stem, .. } if self.directory.is_new(stem))) {
            self.look_at_sites();
        }
        let rings = rings_of(&entries);
        let (mut foreign, mut taken) = (0, 0);
        // A tmpfs lists the newest file first. Reading backwards keeps old processes from waiting
        // for newer ones.
        for (name, entry) in entries.iter().rev() {
            match entry {
                Entry::Control { stem, pid } if self.directory.is_new(stem) => {
                    if taken == most {
                        self.intake.list_again = true;
                        continue;
                    }
                    self.admit(name, stem, *pid, &rings, false);
                    // Entries that are no process of this recorder appear again in the next turn,
                    // and must not use up the limit.
                    taken += usize::from(self.directory.processes.contains_key(stem));
                }
                Entry::Foreign => foreign += 1,
                _ => {}
            }
        }
        if foreign > 0 {
            self.recording.note(format!("{foreign} files in the runtime directory are not part of its layout and were ignored"));
        }
        Ok(())
    }

    /// Takes up the processes whose control files the watch has reported. Listing the whole
    /// directory for each new process would take longer and longer, and would wait for the
    /// directory's lock, which starting processes hold while they wait for a CPU.
    pub fn take_up_reported(&mut self) {
        let reported = &mut self.directory.arrivals.reported;
        if reported.is_empty() {
            return;
        }
        let names: Vec<String> = reported.drain(..reported.len().min(PROCESSES_A_TURN)).collect();
        self.look_at_sites();
        for name in names {
            match classify(&name) {
                Entry::Control { stem, pid } if self.directory.is_new(&stem) => {
                    // The control file holds the number of rings, so none need be listed.
                    self.admit(&name, &stem, pid, &Rings::new(), false);
                }
                _ => {}
            }
        }
    }

    /// Uses the current site table, because new processes use it.
    fn look_at_sites(&mut self) {
        if self.directory.common.sites.as_ref().is_some_and(|sites| sites.is_replaced(&self.directory.common.runtime)) {
            self.learn_sites();
            self.recording.note(
                "the site table was replaced while programs used it; events of sites that were used first after that are left out"
                    .to_owned(),
            );
            // Older programs add sites that they reach from now on to a table that can no longer be
            // read.
            self.directory.common.classes.invalid = true;
            self.directory.common.sites = Sites::open(&self.directory.common.runtime).ok().flatten();
            if let Some(sites) = &mut self.directory.common.sites {
                sites.is_second = true;
            }
        }
    }

    /// Withdraws all orders and waits until no probe is writing any more.
    pub fn withdraw_all_orders(&mut self) {
        self.directory.common.held.withdraw_orders();
        // A process that is starting has read the old orders, but then its control file exists
        // before this lock is granted.
        let settled = self.directory.common.runtime.with_no_process_starting(|| ()).is_some();
        if !settled || self.scan_for(usize::MAX).is_err() {
            self.recording.note("a process that started at the end may not know that the recording has ended".to_owned());
        }
        for subject in self.directory.processes.values_mut().filter(|subject| subject.claimed) {
            subject.order.mask = 0;
            subject.order.apply(&subject.process.control().orders);
        }
        self.directory.mark_dead();
        barrier();
        let deadline = Instant::now() + Duration::from_millis(50);
        let busy = |subject: &Subject| {
            let at_work = |source: &RingSource| source.ring.layout().busy.load(Ordering::Acquire) != 0;
            !subject.ended && subject.rings.iter().any(at_work)
        };
        while self.directory.processes.values().any(busy) && Instant::now() < deadline {
            std::thread::sleep(Duration::from_micros(200));
        }
        // Takes up rings that were made until now.
        self.visit();
    }
}

/// Makes all stores visible that other CPUs have not published yet.
fn barrier() {
    const GLOBAL: libc::c_int = 1;
    // SAFETY: takes no memory. If the system call is missing, the bounded wait that follows
    // replaces it.
    unsafe { libc::syscall(libc::SYS_membarrier, GLOBAL, 0, 0) };
}
