//! What the network looked like at the start: queueing disciplines by device and sockets by process, of every network namespace that a process
//! or `ip netns` holds. Other namespaces than the own need root; without it they are left out.

use super::super::quiet::Quiet;
use super::Dump;
use serde_json::{json, Value};
use std::collections::{BTreeMap, HashMap};
use std::ffi::CStr;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

const MOST_NAMESPACES: usize = 256;
const MOST_SOCKETS: usize = 10_000;
const MOST_DISCIPLINES: usize = 10_000;
/// Answers of the kernel, one after the other, are no longer than this each.
const ANSWER: usize = 64 << 10;

const RTM_NEWQDISC: u16 = 36;
const RTM_GETQDISC: u16 = 38;
const NLMSG_DONE: u16 = 3;
const NLMSG_ERROR: u16 = 2;
/// Bytes of `struct nlmsghdr` and of `struct tcmsg`.
const HEADER: usize = 16;
const TCMSG: usize = 20;
const TCA_KIND: u16 = 1;

/// `owners`: processes by the inodes of their sockets.
pub(super) fn write(dump: &mut Dump<'_>, owners: &HashMap<u64, i32>) -> io::Result<()> {
    let mut lines = Vec::new();
    in_each_namespace(&mut |_, _| look(owners, &mut lines));
    lines.into_iter().try_for_each(|line| dump.line(line))
}

/// Does `work` in each network namespace that can be entered, the own one first. It gets the namespace's inode and, but for the own one, the file by
/// which it was found.
pub fn in_each_namespace(work: &mut (dyn FnMut(u64, Option<&Path>) + Send)) {
    let namespaces = namespaces();
    let own = fs::metadata("/proc/thread-self/ns/net").map(|file| file.ino()).unwrap_or_default();
    // A thread that has entered a namespace does not come back, so it is one of its own.
    std::thread::scope(|scope| {
        let quiet = Quiet::here();
        let inside = move || {
            if let Some(quiet) = quiet {
                quiet.join();
            }
            work(own, None);
            for (inode, path) in namespaces.iter().filter(|(inode, _)| **inode != own) {
                if enter(path) {
                    work(*inode, Some(path));
                }
            }
        };
        let _ = std::thread::Builder::new().spawn_scoped(scope, inside).map(|thread| thread.join());
    });
}

/// Each namespace once, by its inode: a file that leads to it, one with a name if there is one.
fn namespaces() -> BTreeMap<u64, PathBuf> {
    let mut found = BTreeMap::new();
    let of_processes = super::numbers("/proc").into_iter().map(|pid| PathBuf::from(format!("/proc/{pid}/ns/net")));
    let named = super::names("/run/netns").into_iter().map(|name| PathBuf::from("/run/netns").join(name));
    for path in named.chain(of_processes) {
        if found.len() >= MOST_NAMESPACES {
            break;
        }
        if let Ok(file) = fs::metadata(&path) {
            found.entry(file.ino()).or_insert(path);
        }
    }
    found
}

fn enter(path: &Path) -> bool {
    let Ok(file) = File::open(path) else { return false };
    // SAFETY: a descriptor that is open; a failure is told by the result.
    unsafe { libc::setns(file.as_raw_fd(), libc::CLONE_NEWNET) == 0 }
}

/// Of this thread's namespace.
fn look(owners: &HashMap<u64, i32>, lines: &mut Vec<Value>) {
    let before = lines.len();
    if let Ok(disciplines) = disciplines() {
        lines.extend(disciplines);
    }
    for (name, protocol) in
        [("udp", libc::IPPROTO_UDP), ("udp6", libc::IPPROTO_UDP), ("tcp", libc::IPPROTO_TCP), ("tcp6", libc::IPPROTO_TCP)]
    {
        let Ok(file) = File::open(format!("/proc/thread-self/net/{name}")) else { continue };
        for line in BufReader::new(file).lines().map_while(Result::ok).skip(1) {
            let Some((port, inode)) = socket(&line) else { continue };
            if let Some(pid) = owners.get(&inode) {
                lines.push(json!({ "kind": "socket", "protocol": protocol, "port": port, "pid": pid, "inode": inode }));
            }
            if lines.len() - before >= MOST_SOCKETS {
                return;
            }
        }
    }
}

/// Port and inode of a line of /proc/net/udp: `sl local_address rem_address st queues timer retransmissions uid timeout inode`.
fn socket(line: &str) -> Option<(u16, u64)> {
    let mut words = line.split_ascii_whitespace();
    let (_, port) = words.nth(1)?.rsplit_once(':')?;
    Some((u16::from_str_radix(port, 16).ok()?, words.nth(7)?.parse().ok()?))
}

/// Bytes of the kernel's answer, message by message; false: enough.
pub type Each<'a> = dyn FnMut(&[u8]) -> bool + 'a;

/// Asks the kernel for all that it has of a kind (rtnetlink(7)), in this thread's namespace. `each` gets what follows the header of each message of the
/// kind `answer`.
pub fn ask(request: u16, body: usize, answer: u16, each: &mut Each<'_>) -> io::Result<()> {
    // SAFETY: no pointers; a failure is told by the result.
    let fd = unsafe { libc::socket(libc::AF_NETLINK, libc::SOCK_RAW | libc::SOCK_CLOEXEC, libc::NETLINK_ROUTE) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: just made, and nobody else's.
    let socket = unsafe { OwnedFd::from_raw_fd(fd) };
    let mut message = vec![0u8; HEADER + body];
    let length = message.len() as u32;
    message[0..4].copy_from_slice(&length.to_ne_bytes());
    message[4..6].copy_from_slice(&request.to_ne_bytes());
    message[6..8].copy_from_slice(&((libc::NLM_F_REQUEST | libc::NLM_F_DUMP) as u16).to_ne_bytes());
    // SAFETY: the buffer is as long as is said.
    if unsafe { libc::send(socket.as_raw_fd(), message.as_ptr().cast(), message.len(), 0) } < 0 {
        return Err(io::Error::last_os_error());
    }
    let mut bytes = vec![0u8; ANSWER];
    loop {
        // SAFETY: the buffer is as long as is said.
        let size = unsafe { libc::recv(socket.as_raw_fd(), bytes.as_mut_ptr().cast(), bytes.len(), 0) };
        let Ok(size) = usize::try_from(size) else { return Err(io::Error::last_os_error()) };
        if size == 0 || !parse(&bytes[..size.min(ANSWER)], answer, each) {
            return Ok(());
        }
    }
}

/// False: that was all.
fn parse(mut messages: &[u8], answer: u16, each: &mut Each<'_>) -> bool {
    while messages.len() >= HEADER {
        let length = word(messages, 0) as usize;
        let kind = half(messages, 4);
        if length < HEADER || length > messages.len() || matches!(kind, NLMSG_DONE | NLMSG_ERROR) {
            return false;
        }
        if kind == answer && !each(&messages[HEADER..length]) {
            return false;
        }
        messages = messages.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    true
}

fn disciplines() -> io::Result<Vec<Value>> {
    let mut found = Vec::new();
    ask(RTM_GETQDISC, TCMSG, RTM_NEWQDISC, &mut |body| {
        found.extend(discipline(body));
        found.len() < MOST_DISCIPLINES
    })?;
    Ok(found)
}

fn discipline(body: &[u8]) -> Option<Value> {
    let name = text(attribute(body.get(TCMSG..)?, TCA_KIND)?)?;
    let (index, handle, parent) = (word(body, 4), word(body, 8), word(body, 12));
    Some(json!({ "kind": "qdisc", "dev": device(index)?, "name": name, "ifindex": index, "handle": handle, "parent": parent }))
}

/// The value of the first attribute of this kind.
pub fn attribute(mut attributes: &[u8], kind: u16) -> Option<&[u8]> {
    while attributes.len() >= 4 {
        let length = usize::from(half(attributes, 0));
        let value = attributes.get(4..length)?;
        if half(attributes, 2) == kind {
            return Some(value);
        }
        attributes = attributes.get(length.next_multiple_of(4)..)?;
    }
    None
}

pub fn text(value: &[u8]) -> Option<String> {
    Some(CStr::from_bytes_until_nul(value).ok()?.to_string_lossy().into_owned())
}

fn half(bytes: &[u8], at: usize) -> u16 {
    u16::from_ne_bytes([bytes[at], bytes[at + 1]])
}

pub fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_ne_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

fn device(index: u32) -> Option<String> {
    let mut name = [0u8; libc::IF_NAMESIZE];
    // SAFETY: the buffer has the size that the function asks for.
    let found = unsafe { libc::if_indextoname(index, name.as_mut_ptr().cast()) };
    (!found.is_null()).then(|| CStr::from_bytes_until_nul(&name).map(|name| name.to_string_lossy().into_owned()).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_proc_net_tells_port_and_inode() {
        let line = "  57: 00000000:1451 00000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 77123 2 0000000000000000 0";
        assert_eq!(socket(line), Some((0x1451, 77123)));
        for broken in ["", "  sl  local_address rem_address", "57: x y"] {
            assert_eq!(socket(broken), None);
        }
    }

    #[test]
    fn answers_that_are_cut_or_lie_about_their_length_end_the_search() {
        let mut message = vec![0u8; HEADER + TCMSG];
        message[4..6].copy_from_slice(&RTM_NEWQDISC.to_ne_bytes());
        // The loopback device is number 1 everywhere.
        message[HEADER + 4..HEADER + 8].copy_from_slice(&1u32.to_ne_bytes());
        message.extend_from_slice(&8u16.to_ne_bytes());
        message.extend_from_slice(&TCA_KIND.to_ne_bytes());
        message.extend_from_slice(b"tbf\0");
        let length = message.len() as u32;
        message[0..4].copy_from_slice(&length.to_ne_bytes());
        let read = |message: &[u8]| {
            let mut found = Vec::new();
            let more = parse(message, RTM_NEWQDISC, &mut |body| {
                found.extend(discipline(body));
                true
            });
            (more, found)
        };
        let (more, found) = read(&message);
        assert!(more);
        assert_eq!((&found[0]["dev"], &found[0]["name"]), (&json!("lo"), &json!("tbf")));
        for cut in 0..message.len() {
            read(&message[..cut]);
        }
        for lie in [0u32, 3, 15, u32::MAX] {
            message[0..4].copy_from_slice(&lie.to_ne_bytes());
            assert!(!read(&message).0);
        }
        message[0..4].copy_from_slice(&length.to_ne_bytes());
        for lie in [0u16, 1, 3, u16::MAX] {
            message[HEADER + TCMSG..HEADER + TCMSG + 2].copy_from_slice(&lie.to_ne_bytes());
            read(&message);
        }
    }
}
