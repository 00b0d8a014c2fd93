//! Network devices: which there are, and what their frames begin with.
//!
//! Devices belong to a network namespace, and a thread sees those of its own. So whatever concerns another namespace is done by a thread
//! that enters it and ends there.

use super::InterfaceError;
use crate::control::glob;
use longpole_pcapng::LinkType;
use std::ffi::CStr;
use std::fmt;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::str::FromStr;

/// Longest name that a device can have.
const LONGEST_NAME: usize = libc::IFNAMSIZ - 1;
const ARPHRD_RAWIP: u16 = 519;

/// Devices as the user names them: `eth0`, `eth*`, `pid:1234/eth0`, `blue/eth0`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern {
    pub namespace: Namespace,
    pub device: String,
}

/// Whose devices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Namespace {
    /// The recorder's.
    Own,
    /// That of a process.
    Process(i32),
    /// One with a name, as `ip netns` gives them.
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
            device if device.len() > LONGEST_NAME => Err(format!("{device:?} is no device: names have {LONGEST_NAME} characters at most")),
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

    /// The name of one of its devices that no other has.
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
            // SAFETY: a valid descriptor; only this thread goes there, and it ends with its work.
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

/// All of them.
pub fn list() -> io::Result<Vec<Device>> {
    // SAFETY: no preconditions; what it returns is freed below.
    let first = unsafe { libc::if_nameindex() };
    if first.is_null() {
        return Err(io::Error::last_os_error());
    }
    let mut all = Vec::new();
    let mut at = first;
    loop {
        // SAFETY: the list ends with an entry without a name, and `at` has not gone beyond that.
        let entry = unsafe { &*at };
        if entry.if_index == 0 || entry.if_name.is_null() {
            break;
        }
        // SAFETY: names are texts that end with 0.
        let name = unsafe { CStr::from_ptr(entry.if_name) }.to_string_lossy().into_owned();
        all.push(Device { name, index: entry.if_index });
        // SAFETY: this was not the last entry.
        at = unsafe { at.add(1) };
    }
    // SAFETY: the list that was returned above.
    unsafe { libc::if_freenameindex(first) };
    Ok(all)
}

/// Those that a pattern means. None is an error that names those that there are.
pub fn matching(pattern: &Pattern) -> Result<Vec<Device>, InterfaceError> {
    let all = list().map_err(|error| InterfaceError::io("list", "the network devices", error))?;
    let found: Vec<Device> = all.iter().filter(|device| glob::matches(&pattern.device, &device.name)).cloned().collect();
    if found.is_empty() {
        let known: Vec<String> = all.iter().map(|device| pattern.namespace.full(&device.name)).collect();
        return Err(InterfaceError::Unknown { request: pattern.to_string(), known: known.join(", ") });
    }
    Ok(found)
}

/// What a device's frames begin with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    pub kind: LinkType,
    /// The device's own header is none that a reader would know: the kernel takes it away and Linux's "cooked" one is put in front.
    pub cooked: bool,
}

/// By the device's ARPHRD type, as libpcap has it.
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

/// Of a device in the namespace of this socket.
pub fn hardware(socket: &impl AsRawFd, name: &str) -> io::Result<u16> {
    // SAFETY: all bits zero is a valid ifreq.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (place, byte) in request.ifr_name.iter_mut().zip(name.bytes().take(LONGEST_NAME)) {
        *place = byte as libc::c_char;
    }
    // SAFETY: a valid descriptor; the kernel reads and writes the request alone.
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
    fn a_device_is_named_alone_or_behind_its_namespace() {
        let pattern = |text: &str| text.parse::<Pattern>();
        assert_eq!(pattern("eth*").unwrap().namespace, Namespace::Own);
        assert_eq!(pattern("pid:17/lo").unwrap(), Pattern { namespace: Namespace::Process(17), device: "lo".into() });
        assert_eq!(pattern("blue/lo").unwrap().to_string(), "blue/lo");
        for wrong in ["", "/lo", "pid:0/lo", "pid:x/lo", "../lo", "a/b/lo", "blue/", "a-name-that-is-too-long"] {
            assert!(pattern(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn an_unknown_device_is_answered_with_those_that_exist() {
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
