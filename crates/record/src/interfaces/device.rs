//! Finds network devices and the type of their link headers.
//!
//! A device belongs to a network namespace, and a thread sees only the devices of its own
//! namespace. So all work in another namespace is done by a thread that enters it and ends
//! afterwards.

use super::InterfaceError;
use longpole_pcapng::LinkType;
use longpole_predicate::glob;
use std::ffi::CStr;
use std::fmt;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::str::FromStr;

/// Longest name that a device can have, in bytes.
const LONGEST_NAME: usize = libc::IFNAMSIZ - 1;
const ARPHRD_RAWIP: u16 = 519;

/// Devices in the form that users write: `eth0`, `eth*`, `pid:1234/eth0`, `blue/eth0`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern {
    pub namespace: Namespace,
    pub device: String,
}

/// The network namespace of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Namespace {
    /// The recorder's own namespace.
    Own,
    /// The namespace of a process.
    Process(i32),
    /// A namespace with a name, in the form of `ip netns`.
    Named(String),
}

impl FromStr for Pattern {
    type Err = String;

    fn from_str(text: &str) -> Result<Pattern, String> {
        let (namespace, device) = match text.rsplit_once('/') {
            None => (Namespace::Own, text),
            Some((namespace, device)) => (Namespace::parse(namespace).ok_or_else(|| unclear(text))?, device),
        };
        match device {
            "" => Err(unclear(text)),
            device if device.len() > LONGEST_NAME => {
                Err(format!("{device:?} is not a device: names have at most {LONGEST_NAME} characters"))
            }
            device => Ok(Pattern { namespace, device: device.to_owned() }),
        }
    }
}

fn unclear(text: &str) -> String {
    format!("{text:?} names no device; write, for example, eth0, eth*, pid:1234/eth0 (of that process's network namespace) or blue/eth0 (of the namespace with that name)")
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.namespace.full(&self.device))
    }
}

impl Namespace {
    fn parse(text: &str) -> Option<Namespace> {
        match text.strip_prefix("pid:") {
            Some(pid) => pid.parse().ok().filter(|pid| *pid > 0).map(Namespace::Process),
            None if text.is_empty() || text.contains('/') || text == "." || text == ".." => None,
            None => Some(Namespace::Named(text.to_owned())),
        }
    }

    /// Returns a name of a device that is unique over all namespaces.
    pub fn full(&self, device: &str) -> String {
        match self {
            Namespace::Own => device.to_owned(),
            Namespace::Process(pid) => format!("pid:{pid}/{device}"),
            Namespace::Named(name) => format!("{name}/{device}"),
        }
    }

    fn path(&self) -> Option<PathBuf> {
        match self {
            Namespace::Own => None,
            Namespace::Process(pid) => Some(PathBuf::from(format!("/proc/{pid}/ns/net"))),
            Namespace::Named(name) => Some(PathBuf::from("/run/netns").join(name)),
        }
    }

    /// Does `work` in this namespace.
    pub fn enter<T: Send>(&self, work: impl FnOnce() -> Result<T, InterfaceError> + Send) -> Result<T, InterfaceError> {
        let Some(path) = self.path() else { return work() };
        let inside = || {
            let file = File::open(&path).map_err(|error| InterfaceError::io("open the network namespace", path.display(), error))?;
            // SAFETY: the descriptor is valid. Only this thread changes its namespace, and it ends
            // after the work.
            match unsafe { libc::setns(file.as_raw_fd(), libc::CLONE_NEWNET) } {
                0 => work(),
                _ => Err(InterfaceError::io("enter the network namespace", path.display(), io::Error::last_os_error())),
            }
        };
        std::thread::scope(|scope| match std::thread::Builder::new().spawn_scoped(scope, inside) {
            Ok(thread) => thread.join().unwrap_or_else(|_| Err(InterfaceError::Thread(io::ErrorKind::Other.into()))),
            Err(error) => Err(InterfaceError::Thread(error)),
        })
    }
}

/// A device of the namespace that this thread is in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Device {
    pub name: String,
    pub index: u32,
}

/// Returns all devices of this thread's namespace.
pub fn list() -> io::Result<Vec<Device>> {
    // SAFETY: there are no preconditions; the list is freed below.
    let first = unsafe { libc::if_nameindex() };
    if first.is_null() {
        return Err(io::Error::last_os_error());
    }
    let mut all = Vec::new();
    let mut at = first;
    loop {
        // SAFETY: the list ends with an entry without a name, and `at` has not passed that entry.
        let entry = unsafe { &*at };
        if entry.if_index == 0 || entry.if_name.is_null() {
            break;
        }
        // SAFETY: names are NUL-terminated.
        let name = unsafe { CStr::from_ptr(entry.if_name) }.to_string_lossy().into_owned();
        all.push(Device { name, index: entry.if_index });
        // SAFETY: this was not the last entry.
        at = unsafe { at.add(1) };
    }
    // SAFETY: this is the list that was returned above, and no reference to it exists any more.
    unsafe { libc::if_freenameindex(first) };
    Ok(all)
}

/// Returns the devices that match a pattern. If there are none, the error lists all existing
/// devices.
pub fn matching(pattern: &Pattern) -> Result<Vec<Device>, InterfaceError> {
    let all = list().map_err(|error| InterfaceError::io("list", "the network devices", error))?;
    let found: Vec<Device> = all.iter().filter(|device| glob::matches(&pattern.device, &device.name)).cloned().collect();
    if found.is_empty() {
        let known: Vec<String> = all.iter().map(|device| pattern.namespace.full(&device.name)).collect();
        return Err(InterfaceError::Unknown { request: pattern.to_string(), known: known.join(", ") });
    }
    Ok(found)
}

/// Link header of a device's frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    pub kind: LinkType,
    /// True if no reader would know the device's own header. The kernel then removes it, and
    /// Linux's "cooked" header is put in its place.
    pub cooked: bool,
}

/// Returns the link header for a device's ARPHRD type, the same as libpcap's.
pub fn link(hardware: u16) -> Link {
    let plain = |number| Link { kind: LinkType(number), cooked: false };
    match hardware {
        libc::ARPHRD_ETHER | libc::ARPHRD_LOOPBACK => plain(LinkType::ETHERNET.0),
        libc::ARPHRD_NONE
        | ARPHRD_RAWIP
        | libc::ARPHRD_TUNNEL
        | libc::ARPHRD_TUNNEL6
        | libc::ARPHRD_SIT
        | libc::ARPHRD_SLIP
        | libc::ARPHRD_CSLIP => plain(LinkType::RAW.0),
        libc::ARPHRD_IEEE80211 => plain(105),
        libc::ARPHRD_IEEE80211_RADIOTAP => plain(127),
        libc::ARPHRD_CAN => plain(227),
        _ => Link { kind: LinkType(113), cooked: true },
    }
}

/// Returns the ARPHRD type of a device in the network namespace of this socket.
pub fn hardware(socket: &impl AsRawFd, name: &str) -> io::Result<u16> {
    // SAFETY: an `ifreq` of zeros is valid.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (place, byte) in request.ifr_name.iter_mut().zip(name.bytes().take(LONGEST_NAME)) {
        *place = byte as libc::c_char;
    }
    // SAFETY: the descriptor is valid, and the kernel accesses only the request.
    match unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCGIFHWADDR, &mut request) } {
        // SAFETY: after this call the union holds an address.
        0 => Ok(unsafe { request.ifr_ifru.ifru_hwaddr.sa_family }),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_is_named_alone_or_after_its_namespace() {
        let pattern = |text: &str| text.parse::<Pattern>();
        assert_eq!(pattern("eth*").unwrap().namespace, Namespace::Own);
        assert_eq!(pattern("pid:17/lo").unwrap(), Pattern { namespace: Namespace::Process(17), device: "lo".into() });
        assert_eq!(pattern("blue/lo").unwrap().to_string(), "blue/lo");
        for wrong in ["", "/lo", "pid:0/lo", "pid:x/lo", "../lo", "a/b/lo", "blue/", "a-name-that-is-too-long"] {
            assert!(pattern(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_error_for_an_unknown_device_lists_the_existing_ones() {
        let error = matching(&"no-such-device".parse().unwrap()).unwrap_err().to_string();
        assert!(error.contains("no-such-device") && error.contains("lo"), "{error}");
        assert!(matching(&"l*".parse().unwrap()).unwrap().iter().any(|device| device.name == "lo"));
    }

    #[test]
    fn frames_of_unknown_devices_get_the_cooked_header() {
        assert_eq!(link(libc::ARPHRD_ETHER), Link { kind: LinkType::ETHERNET, cooked: false });
        assert_eq!(link(libc::ARPHRD_NONE), Link { kind: LinkType::RAW, cooked: false });
        assert!(link(libc::ARPHRD_PPP).cooked && link(12345).cooked);
    }
}
