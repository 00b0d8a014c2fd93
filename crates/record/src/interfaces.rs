//! Captures the packets of network interfaces through AF_PACKET sockets, into
//! `packets/interfaces.pcapng`.
//!
//! Each device has a ring that the kernel fills ([`ring`]). One thread empties all rings ten times
//! per second, and earlier when a part of a ring is full ([`drain`]). Nothing is sent, captured
//! packets are still delivered as usual, and the mode of a device changes only on request. Times
//! are converted to the recording's clock ([`realtime`]).
//!
//! Capturing needs root or CAP_NET_RAW. Without them, all other sources are recorded, and what is
//! missing is reported with its remedy.

mod device;
mod drain;
mod realtime;
mod ring;

pub use device::{Namespace, Pattern};

use crate::clock::Clock;
use crate::files::FileError;
use crate::output::pcap::{Capture, CaptureError};
use crate::text::units::{self, DEFAULT_SNAPLEN};
use device::Link;
use drain::{CapturedDevice, Drain};
use longpole_pcapng::Interface;
use ring::Ring;
use rustix::event::{eventfd, EventfdFlags};
use serde::{Deserialize, Serialize};
use serde_json::{json, Value};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

/// Size of each device's ring in bytes, unless the user chose one.
const BUFFER: u64 = 4 << 20;
/// Largest size of all rings together in bytes. The kernel can use this memory for nothing else
/// meanwhile.
const MAX_BYTES: u64 = 256 << 20;
/// Smallest size of a ring in bytes. A smaller one loses packets of any fast device.
const MIN_BUFFER: u64 = 1 << 20;
/// Name of the file without its extension, in the form of a label.
const LABEL: &str = "interfaces";

/// Request to capture packets: `packets` of the configuration, overridden by the command line.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct Request {
    /// Devices to capture. Empty to capture nothing.
    #[serde(deserialize_with = "patterns", serialize_with = "names")]
    pub interfaces: Vec<Pattern>,
    /// Largest number of bytes that are recorded of a packet.
    #[serde(deserialize_with = "units::snaplen")]
    pub snaplen: u32,
    /// Size of each device's ring in bytes. `None` for the default.
    #[serde(deserialize_with = "units::optional_size")]
    pub buffer: Option<u64>,
    /// True to receive also packets that are addressed to others. This changes the mode of the
    /// device while the recording runs.
    pub promiscuous: bool,
}

impl Default for Request {
    fn default() -> Request {
        Request { interfaces: Vec::new(), snaplen: DEFAULT_SNAPLEN, buffer: None, promiscuous: false }
    }
}

fn patterns<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Vec<Pattern>, D::Error> {
    let texts = Vec::<String>::deserialize(deserializer)?;
    texts.iter().map(|text| text.parse().map_err(serde::de::Error::custom)).collect()
}

fn names<S: serde::Serializer>(patterns: &[Pattern], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(patterns.iter().map(ToString::to_string))
}

/// Reason why packets cannot be captured.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InterfaceError {
    #[error("there is no network device {request}; there are {known}")]
    Unknown { request: String, known: String },
    #[error(
        "capturing needs root or the capability CAP_NET_RAW; run longpole as root, or as root once: setcap cap_net_raw+ep \"$(command -v longpole)\""
    )]
    NoPermission,
    #[error(
        "{devices} devices are too many for {} MiB of rings of {} MiB each; name fewer of them with --packets", MAX_BYTES >> 20, MIN_BUFFER >> 20
    )]
    TooMany { devices: usize },
    #[error("cannot {what} {of}: {source}")]
    Io { what: &'static str, of: String, source: io::Error },
    #[error("cannot start a thread: {0}")]
    Thread(io::Error),
}

impl InterfaceError {
    fn io(what: &'static str, of: impl Display, source: io::Error) -> InterfaceError {
        InterfaceError::Io { what, of: of.to_string(), source }
    }

    /// True if the user must correct the request. Nothing should be recorded then, not even from
    /// other sources.
    pub fn is_wrong_request(&self) -> bool {
        matches!(self, InterfaceError::Unknown { .. } | InterfaceError::TooMany { .. })
    }
}

/// Packets of one device.
#[derive(Clone, Debug, Default)]
pub struct Count {
    pub name: String,
    /// Number of packets that the socket saw, including dropped ones.
    pub received: u64,
    /// Number of packets that the kernel dropped because the ring was full.
    pub dropped: u64,
    /// True if the device was removed during the recording.
    pub vanished: bool,
}

/// Data shared with the thread that empties the rings.
#[derive(Debug, Default)]
struct Shared {
    stop: AtomicBool,
    totals: Mutex<Totals>,
}

/// Results of that thread until now.
#[derive(Debug, Default)]
struct Totals {
    interfaces: Vec<Count>,
    /// Number of packets in the file.
    packets: u64,
    /// Number of packets that could not be written to the disk.
    refused: u64,
    diagnostics: BTreeMap<String, u64>,
}

impl Shared {
    fn totals(&self) -> std::sync::MutexGuard<'_, Totals> {
        self.totals.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn diagnostic(&self, text: String) {
        *self.totals().diagnostics.entry(text).or_insert(0) += 1;
    }
}

/// Result of a capture.
#[derive(Debug, Default)]
pub struct Captured {
    pub interfaces: Vec<Count>,
    pub packets: u64,
    pub refused: u64,
    pub diagnostics: Vec<String>,
    description: Value,
}

impl Captured {
    /// Number of packets that are not in the file.
    pub fn lost(&self) -> u64 {
        self.interfaces.iter().fold(self.refused, |sum, count| sum.saturating_add(count.dropped))
    }

    /// Returns the part of the recording's description about packets.
    pub fn to_json(&self) -> Value {
        self.description.clone()
    }
}

/// A device before the recording begins.
#[derive(Debug)]
struct Ready {
    name: String,
    device: u32,
    link: Link,
    ring: Ring,
}

/// Network interfaces as a source of packets.
#[derive(Debug)]
pub struct InterfaceSource {
    request: Request,
    ready: Vec<Ready>,
    ring_bytes: usize,
    thread: Option<JoinHandle<()>>,
    wake: Arc<OwnedFd>,
    shared: Arc<Shared>,
}

impl InterfaceSource {
    /// Finds the devices and makes their rings. Nothing is received yet.
    pub fn prepare(request: &Request) -> Result<InterfaceSource, InterfaceError> {
        let mut names = BTreeSet::new();
        for pattern in &request.interfaces {
            let found = pattern.namespace.enter(|| device::matching(pattern))?;
            names.extend(found.iter().map(|device| pattern.namespace.full(&device.name)));
        }
        let wanted = request.buffer.unwrap_or(BUFFER);
        let buffer = share(wanted, names.len()).ok_or(InterfaceError::TooMany { devices: names.len() })?;
        let shared = Arc::<Shared>::default();
        if buffer < wanted {
            let (devices, most) = (names.len(), MAX_BYTES >> 20);
            shared.diagnostic(format!(
                "the rings of {devices} devices have {buffer} bytes each instead of {wanted}: together no more than {most} MiB"
            ));
        }
        let mut ready: Vec<Ready> = Vec::new();
        for pattern in &request.interfaces {
            let found = pattern.namespace.enter(|| open(pattern, buffer))?;
            for new in found {
                if ready.iter().all(|known| known.name != new.name) {
                    ready.push(new);
                }
            }
        }
        let wake = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)
            .map_err(|error| InterfaceError::io("make", "an eventfd", error.into()))?;
        let ring_bytes = ready.first().map_or(0, |ready| ready.ring.bytes());
        Ok(InterfaceSource { request: request.clone(), ready, ring_bytes, thread: None, wake: Arc::new(wake), shared })
    }

    /// Starts the capture. When this function returns, all packets are captured.
    pub fn begin(&mut self, recording: &Path, clock: Clock) -> Result<(), InterfaceError> {
        let written = |error: CaptureError| InterfaceError::io("write", "packets/interfaces.pcapng", io::Error::other(error.to_string()));
        let now = clock.unix_ns(clock.now()).max(0) as u64;
        let mut capture = Capture::create(recording, LABEL).map_err(written)?;
        let mut devices = Vec::new();
        for Ready { name, device, link, ring } in self.ready.drain(..) {
            let interface = Interface { name: &name, description: "", snaplen: self.request.snaplen, link_type: link.kind };
            let index = capture.interface(&interface, now).map_err(written)?;
            ring.begin(device, self.request.snaplen, self.request.promiscuous)
                .map_err(|error| InterfaceError::io("receive packets of", &name, error))?;
            self.shared.totals().interfaces.push(Count { name: name.clone(), ..Count::default() });
            devices.push(CapturedDevice::new(name, index, link, ring));
        }
        capture.flush().map_err(|error| written(FileError::io("write", capture.path())(error).into()))?;
        let drain = Drain::new(devices, capture, clock, Arc::clone(&self.wake), Arc::clone(&self.shared));
        let thread = std::thread::Builder::new().name("longpole-packets".to_owned()).spawn(move || drain.run());
        self.thread = Some(thread.map_err(InterfaceError::Thread)?);
        Ok(())
    }

    /// Returns the part of the recording's description about packets.
    pub fn describe(&self) -> Value {
        let totals = self.shared.totals();
        let interfaces: Vec<Value> = totals
            .interfaces
            .iter()
            .map(|count| json!({ "name": count.name, "received": count.received, "dropped": count.dropped, "vanished": count.vanished }))
            .collect();
        json!({
            "file": format!("packets/{LABEL}.pcapng"),
            "packets": totals.packets,
            "refused": totals.refused,
            "snaplen": self.request.snaplen,
            "ring_bytes": self.ring_bytes,
            "promiscuous": self.request.promiscuous,
            "interfaces": interfaces,
        })
    }

    /// Ends the capture. Afterwards all packets are on the disk and the file is complete.
    pub fn stop(mut self) -> Captured {
        self.end();
        let mut totals = self.shared.totals();
        let diagnostics = std::mem::take(&mut totals.diagnostics).into_iter().map(|(text, count)| match count {
            1 => text,
            count => format!("{text} ({count} times)"),
        });
        let mut captured = Captured {
            interfaces: totals.interfaces.clone(),
            packets: totals.packets,
            refused: totals.refused,
            diagnostics: diagnostics.collect(),
            description: Value::Null,
        };
        drop(totals);
        captured.description = self.describe();
        captured
    }

    fn end(&mut self) {
        self.shared.stop.store(true, Ordering::Release);
        let _ = rustix::io::write(&*self.wake, &1u64.to_ne_bytes());
        if self.thread.take().is_some_and(|thread| thread.join().is_err()) {
            self.shared.diagnostic("the thread that takes the packets of interfaces ended early".to_owned());
        }
    }
}

impl Drop for InterfaceSource {
    fn drop(&mut self) {
        self.end();
    }
}

/// Returns the size of each ring in bytes. `None` if the devices are too many for rings of
/// [`MIN_BUFFER`] bytes.
fn share(wanted: u64, devices: usize) -> Option<u64> {
    let each = MAX_BYTES / (devices as u64).max(1);
    match wanted <= each {
        true => Some(wanted),
        // The kernel allocates powers of two.
        false => Some(1 << each.checked_ilog2()?).filter(|each| *each >= MIN_BUFFER),
    }
}

/// Opens the devices of a pattern, in the network namespace of this thread.
fn open(pattern: &Pattern, buffer: u64) -> Result<Vec<Ready>, InterfaceError> {
    let mut all = Vec::new();
    for device in device::matching(pattern)? {
        let name = pattern.namespace.full(&device.name);
        let failed = |what| {
            let name = name.clone();
            move |error: io::Error| match error.kind() {
                io::ErrorKind::PermissionDenied => InterfaceError::NoPermission,
                _ => InterfaceError::io(what, name, error),
            }
        };
        let mut socket = Ring::socket(false).map_err(failed("open a packet socket for"))?;
        let link = device::link(device::hardware(&socket, &device.name).map_err(failed("ask for the type of"))?);
        if link.cooked {
            socket = Ring::socket(true).map_err(failed("open a packet socket for"))?;
        }
        let ring = Ring::new(socket, buffer, drain::RETIRE).map_err(failed("make the ring of"))?;
        all.push(Ready { name, device: device.index, link, ring });
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rings_of_many_devices_share_the_memory_limit() {
        assert_eq!(share(4 << 20, 64), Some(4 << 20));
        assert_eq!(share(4 << 20, 65), Some(2 << 20));
        assert_eq!(share(4 << 20, 256), Some(1 << 20));
        assert_eq!(share(4 << 20, 257), None);
        assert_eq!(share(64 << 20, 3), Some(64 << 20));
        assert_eq!(share(1 << 30, 1), Some(256 << 20));
    }
}
