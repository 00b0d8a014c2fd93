//! Decodes the events of a slice, and writes captured packets to the capture file of their label.

use crate::clock::{following, Clock};
use crate::control::policy::Packets;
use crate::output::account::Account;
use crate::output::captures::{self, Captures};
use crate::output::pcap::Capture;
use crate::output::recording::component;
use crate::ring::class::Classes;
use crate::ring::packet_event::captured;
use crate::ring::RingSlice;
use crate::runtime_dir::process::Process;
use longpole_abi::Kind;
use std::path::Path;

/// What decoding a slice needs: the meaning of its events, and where its packets go. That is the
/// recording or a snapshot of it.
#[derive(Debug)]
pub(crate) struct Walk<'a> {
    pub classes: &'a Classes,
    pub clock: &'a Clock,
    /// Folder in which capture files are made.
    pub folder: &'a Path,
    pub captures: &'a mut Captures,
    pub account: &'a mut Account,
}

impl Walk<'_> {
    /// Decodes each event and writes captured packets to their file. Returns the number of bytes
    /// that were decoded and the time of the last decoded event. `lost`: events lost before this
    /// slice. `sole`: the packets are recorded nowhere else.
    pub fn events(
        self,
        process: &Process,
        bytes: &[u8],
        slice: &RingSlice,
        packets: Option<&Packets>,
        lost: u64,
        sole: bool,
    ) -> (usize, u64) {
        let label = component(&process.label);
        let Walk { classes, clock, folder, captures, account } = self;
        let slot = captures.slot(&label);
        if let Some(capture) = slot {
            capture.lose(lost);
        }
        let mut lost = if slot.is_some() { 0 } else { lost };
        let mut at = 0;
        let mut time = slice.begin;
        let mut end = slice.begin;
        while at < bytes.len() {
            // Times are extended from one event to the next, exactly as readers of the trace do.
            let low = bytes[at..].first_chunk().map_or(0, |header| u64::from_ne_bytes(*header) >> 16);
            time = following(time, low);
            if let Some(size) = classes.plain_size(&bytes[at..]) {
                at += size;
                end = time;
                continue;
            }
            let Some(event) = classes.event(&bytes[at..]) else { break };
            let size = event.bytes.len();
            if let Some(packets) = packets.filter(|_| event.class.kind == Kind::Packet) {
                let Some(captured) = captured(&event) else { break };
                if packets.wants(&captured.interface) {
                    let time = clock.unix_ns(time).max(0) as u64;
                    let result = match slot {
                        Some(capture) => capture.packet(&captured, time, packets.snaplen, sole),
                        None => Capture::create(folder, &label).and_then(|new| {
                            let capture = slot.insert(new);
                            capture.lose(std::mem::take(&mut lost));
                            capture.packet(&captured, time, packets.snaplen, sole)
                        }),
                    };
                    if let Err(error) = result {
                        account.totals.packets_refused += 1;
                        account.lose(u64::from(sole));
                        lost = lost.saturating_add(1);
                        captures::refused(&format!("{label}.pcapng"), &error.to_string(), account);
                    }
                }
            }
            if let Some(capture) = slot.as_mut().filter(|capture| capture.is_full()) {
                let result = capture.flush().map_err(|error| error.to_string());
                captures::account_for(capture, result, account);
            }
            at += size;
            end = time;
        }
        if let Some(capture) = slot {
            capture.lose(lost);
        }
        (at, end)
    }
}
