//! The capture files of programs, one for each label.
//!
//! Packets that the disk refuses are dropped and counted; the rest of the recording continues.

use crate::output::account::Account;
use crate::output::pcap::Capture;
use crate::output::recording::Reserve;
use std::collections::HashMap;

/// Capture files, by label. A file is made with its first packet.
#[derive(Debug, Default)]
pub(crate) struct Captures {
    by_label: HashMap<String, Option<Capture>>,
}

impl Captures {
    /// The capture of a label; `None` in it until the first packet makes the file.
    pub fn slot(&mut self, label: &str) -> &mut Option<Capture> {
        self.by_label.entry(label.to_owned()).or_default()
    }

    /// Adds lost events, which may have been packets, to the capture of a label, if it has one.
    pub fn lose(&mut self, label: &str, events: u64) {
        if let Some(Some(capture)) = self.by_label.get_mut(label) {
            capture.lose(events);
        }
    }

    pub fn iter(&self) -> impl Iterator<Item = &Capture> {
        self.by_label.values().flatten()
    }

    /// Bytes of the files.
    pub fn bytes(&self) -> u64 {
        self.iter().map(Capture::length).sum()
    }

    /// Writes the captured packets that wait in memory.
    pub fn flush(&mut self, account: &mut Account) {
        for capture in self.by_label.values_mut().flatten() {
            let result = capture.flush().map_err(|error| error.to_string());
            account_for(capture, result, account);
        }
    }

    /// Completes the files. If the disk is full, the reserve gives room for the numbers of dropped
    /// packets.
    pub fn finish(self, now_ns: u64, mut reserve: Option<&mut Reserve>, account: &mut Account) {
        for mut capture in self.by_label.into_values().flatten() {
            let result = capture.finish(now_ns).map_err(|error| error.to_string());
            if result.is_err() && reserve.as_mut().is_some_and(|reserve| reserve.give()) {
                // Packets may be dropped, but their number must be written.
                let _ = capture.flush();
            }
            account_for(&mut capture, result, account);
            account.totals.packets += capture.packets();
        }
    }

    /// Completes the files of a snapshot. Returns the errors.
    pub fn finish_copy(self, now_ns: u64) -> Vec<String> {
        let captures = self.by_label.into_values().flatten();
        captures.filter_map(|mut capture| capture.finish(now_ns).err()).map(|error| error.to_string()).collect()
    }
}

/// Accounts for the result of writing captured packets.
pub(crate) fn account_for(capture: &mut Capture, result: Result<(), String>, account: &mut Account) {
    if let Err(error) = result {
        refused(capture.path().file_name().unwrap_or_default().to_string_lossy().as_ref(), &error, account);
    }
    let refused = capture.take_refused();
    account.totals.packets_refused += refused.packets;
    account.lose(refused.sole);
}

/// Notes that a capture file does not take packets.
pub(crate) fn refused(name: &str, error: &str, account: &mut Account) {
    account.note(format!("packets/{name}: captured packets could not be written and count as dropped: {error}"));
}
