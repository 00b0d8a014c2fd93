//! What the network looked like at the start: queueing disciplines by device and sockets by process, of every network namespace that a process
//! or `ip netns` holds. Other namespaces than the own need root; without it they are left out.

use super::Dump;
use serde_json::{json, Value};
use std::collections::{BTreeMap, HashMap};
use std::ffi::CStr;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

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
pub fn write(dump: &mut Dump<'_>, owners: &HashMap<u64, i32>) -> io::Result<()> {
    let namespaces = namespaces();
    let own = fs::metadata("/proc/thread-self/ns/net").map(|file| file.ino()).ok();
    // A thread that has entered a namespace does not come back, so it is one of its own.
    let lines = std::thread::scope(|scope| {
        let work = scope.spawn(|| {
            let mut lines = Vec::new();
            let others = namespaces.iter().filter(|(inode, _)| Some(**inode) != own);
            look(owners, &mut lines);
            for (_, path) in others {
                if enter(path) {
                    look(owners, &mut lines);
                }
            }
            lines
        });
        work.join().unwrap_or_default()
    });
    lines.into_iter().try_for_each(|line| dump.line(line))
}

/// Each namespace once, by its inode.
fn namespaces() -> BTreeMap<u64, PathBuf> {
    let mut found = BTreeMap::new();
    let of_processes = super::numbers("/proc").into_iter().map(|pid| PathBuf::from(format!("/proc/{pid}/ns/net")));
    let named = super::names("/run/netns").into_iter().map(|name| PathBuf::from("/run/netns").join(name));
    for path in of_processes.chain(named) {
        if found.len() >= MOST_NAMESPACES {
            break;
        }
        if let Ok(file) = fs::metadata(&path) {
            found.entry(file.ino()).or_insert(path);
        }
    }
    found
}

fn enter(path: &PathBuf) -> bool {
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

/// Asks the kernel (rtnetlink(7)).
fn disciplines() -> io::Result<Vec<Value>> {
    // SAFETY: no pointers; a failure is told by the result.
    let fd = unsafe { libc::socket(libc::AF_NETLINK, libc::SOCK_RAW | libc::SOCK_CLOEXEC, libc::NETLINK_ROUTE) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: just made, and nobody else's.
    let socket = unsafe { OwnedFd::from_raw_fd(fd) };
    let mut request = [0u8; HEADER + TCMSG];
    request[0..4].copy_from_slice(&((HEADER + TCMSG) as u32).to_ne_bytes());
    request[4..6].copy_from_slice(&RTM_GETQDISC.to_ne_bytes());
    request[6..8].copy_from_slice(&((libc::NLM_F_REQUEST | libc::NLM_F_DUMP) as u16).to_ne_bytes());
    // SAFETY: the buffer is as long as is said.
    if unsafe { libc::send(socket.as_raw_fd(), request.as_ptr().cast(), request.len(), 0) } < 0 {
        return Err(io::Error::last_os_error());
    }
    let mut found = Vec::new();
    let mut answer = vec![0u8; ANSWER];
    loop {
        // SAFETY: the buffer is as long as is said.
        let size = unsafe { libc::recv(socket.as_raw_fd(), answer.as_mut_ptr().cast(), answer.len(), 0) };
        let Ok(size) = usize::try_from(size) else { return Err(io::Error::last_os_error()) };
        if size == 0 || !parse(&answer[..size.min(ANSWER)], &mut found) || found.len() >= MOST_DISCIPLINES {
            return Ok(found);
        }
    }
}

/// False: that was all.
fn parse(mut messages: &[u8], found: &mut Vec<Value>) -> bool {
    while messages.len() >= HEADER {
        let length = word(messages, 0) as usize;
        let kind = half(messages, 4);
        if length < HEADER || length > messages.len() || matches!(kind, NLMSG_DONE | NLMSG_ERROR) {
            return false;
        }
        if kind == RTM_NEWQDISC && length >= HEADER + TCMSG {
            let body = &messages[HEADER..length];
            let (index, handle, parent) = (word(body, 4), word(body, 8), word(body, 12));
            if let (Some(name), Some(device)) = (name(&body[TCMSG..]), device(index)) {
                found.push(json!({ "kind": "qdisc", "dev": device, "name": name, "ifindex": index, "handle": handle, "parent": parent }));
            }
        }
        messages = messages.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    true
}

/// The attribute that names the discipline.
fn name(mut attributes: &[u8]) -> Option<String> {
    while attributes.len() >= 4 {
        let length = usize::from(half(attributes, 0));
        let value = attributes.get(4..length)?;
        if half(attributes, 2) == TCA_KIND {
            return Some(CStr::from_bytes_until_nul(value).ok()?.to_string_lossy().into_owned());
        }
        attributes = attributes.get(length.next_multiple_of(4)..)?;
    }
    None
}

fn half(bytes: &[u8], at: usize) -> u16 {
    u16::from_ne_bytes([bytes[at], bytes[at + 1]])
}

fn word(bytes: &[u8], at: usize) -> u32 {
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
        let mut found = Vec::new();
        assert!(parse(&message, &mut found));
        assert_eq!((&found[0]["dev"], &found[0]["name"]), (&json!("lo"), &json!("tbf")));
        for cut in 0..message.len() {
            parse(&message[..cut], &mut found);
        }
        for lie in [0u32, 3, 15, u32::MAX] {
            message[0..4].copy_from_slice(&lie.to_ne_bytes());
            assert!(!parse(&message, &mut Vec::new()));
        }
        message[0..4].copy_from_slice(&length.to_ne_bytes());
        for lie in [0u16, 1, 3, u16::MAX] {
            message[HEADER + TCMSG..HEADER + TCMSG + 2].copy_from_slice(&lie.to_ne_bytes());
            parse(&message, &mut found);
        }
    }
}
