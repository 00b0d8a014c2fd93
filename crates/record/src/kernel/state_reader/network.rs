//! Writes the state of the network at the start: queueing disciplines by device, and sockets by
//! process. All network namespaces that a process or `ip netns` keeps alive are included. To enter
//! a namespace other than our own needs root; without it they are left out.

use super::StateWriter;
use crate::kernel::namespaces;
use crate::kernel::netlink::{ask, attribute, text, word};
use serde_json::{json, Value};
use std::collections::HashMap;
use std::ffi::CStr;
use std::fs::File;
use std::io::{self, BufRead, BufReader};

/// Largest number of sockets and disciplines of one namespace; the rest is left out.
const MAX_SOCKETS: usize = 10_000;
/// Largest number of queueing disciplines of one namespace.
const MAX_DISCIPLINES: usize = 10_000;

pub const RTM_NEWQDISC: u16 = 36;
pub const RTM_GETQDISC: u16 = 38;
/// Size of `struct tcmsg` in bytes. The index of the device is at offset 4, the handle at 8, the
/// parent at 12.
pub const TCMSG: usize = 20;
pub const TCA_KIND: u16 = 1;

/// State of a listening socket (`TCP_LISTEN`).
const TCP_LISTEN: u8 = 10;

/// Writes sockets and disciplines of all namespaces. `owners` has the processes that have each
/// socket, by the socket's inode.
pub(super) fn write(dump: &mut StateWriter<'_>, owners: &HashMap<u64, Vec<i32>>) -> io::Result<()> {
    let mut lines = Vec::new();
    namespaces::in_each(&mut |_| look(owners, &mut lines));
    lines.into_iter().try_for_each(|line| dump.line(line))
}

/// Collects those of this thread's namespace.
fn look(owners: &HashMap<u64, Vec<i32>>, lines: &mut Vec<Value>) {
    let before = lines.len();
    lines.extend(disciplines());
    for (name, protocol) in
        [("udp", libc::IPPROTO_UDP), ("udp6", libc::IPPROTO_UDP), ("tcp", libc::IPPROTO_TCP), ("tcp6", libc::IPPROTO_TCP)]
    {
        let Ok(file) = File::open(format!("/proc/thread-self/net/{name}")) else { continue };
        for line in BufReader::new(file).lines().map_while(Result::ok).skip(1) {
            let Some((port, state, inode)) = socket(&line) else { continue };
            // All processes that were forked after `listen` take connections from the socket. A
            // connection belongs to one of them.
            let all = owners.get(&inode).map_or(&[][..], Vec::as_slice);
            let count = if state == TCP_LISTEN { all.len() } else { 1 };
            for pid in all.iter().take(count) {
                let line = json!({ "kind": "socket", "protocol": protocol, "port": port, "pid": pid, "inode": inode, "state": state });
                lines.push(line);
            }
            if lines.len() - before >= MAX_SOCKETS {
                return;
            }
        }
    }
}

/// Parses a line of /proc/net/udp into port, state and inode. The columns are `sl local_address
/// rem_address st queues timer retransmissions uid timeout inode`.
fn socket(line: &str) -> Option<(u16, u8, u64)> {
    let mut words = line.split_ascii_whitespace();
    let (_, port) = words.nth(1)?.rsplit_once(':')?;
    let state = u8::from_str_radix(words.nth(1)?, 16).ok()?;
    Some((u16::from_str_radix(port, 16).ok()?, state, words.nth(5)?.parse().ok()?))
}

/// Returns the queueing disciplines that the kernel lists. If it fails, those that it listed
/// before.
fn disciplines() -> Vec<Value> {
    let mut found = Vec::new();
    let _ = ask(RTM_GETQDISC, TCMSG, RTM_NEWQDISC, &mut |body| {
        found.extend(discipline(body));
        found.len() < MAX_DISCIPLINES
    });
    found
}

fn discipline(body: &[u8]) -> Option<Value> {
    let name = text(attribute(body.get(TCMSG..)?, TCA_KIND)?)?;
    let (index, handle, parent) = (word(body, 4), word(body, 8), word(body, 12));
    Some(json!({ "kind": "qdisc", "dev": device(index)?, "name": name, "ifindex": index, "handle": handle, "parent": parent }))
}

fn device(index: u32) -> Option<String> {
    let mut name = [0u8; libc::IF_NAMESIZE];
    // SAFETY: the buffer has the size that the function requires.
    let found = unsafe { libc::if_indextoname(index, name.as_mut_ptr().cast()) };
    (!found.is_null()).then(|| CStr::from_bytes_until_nul(&name).map(|name| name.to_string_lossy().into_owned()).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_proc_net_has_port_state_and_inode() {
        let line = "  57: 00000000:1451 00000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 77123 2 0000000000000000 0";
        assert_eq!(socket(line), Some((0x1451, 7, 77123)));
        for broken in ["", "  sl  local_address rem_address", "57: x y"] {
            assert_eq!(socket(broken), None);
        }
    }

    #[test]
    fn a_discipline_is_written_with_its_device_and_broken_ones_are_ignored() {
        let mut body = vec![0u8; TCMSG];
        // The loopback device has number 1 everywhere.
        body[4..8].copy_from_slice(&1u32.to_ne_bytes());
        body.extend([&8u16.to_ne_bytes()[..], &TCA_KIND.to_ne_bytes(), b"tbf\0"].concat());
        let found = discipline(&body).unwrap();
        assert_eq!((&found["dev"], &found["name"]), (&json!("lo"), &json!("tbf")));
        for cut in 0..body.len() {
            assert_eq!(discipline(&body[..cut]), None);
        }
    }
}
