//! Requests and their replies, as seen in the system calls of processes on sockets.
//!
//! On one connection a client sends and then receives, and a server receives and then sends. The
//! time from the first byte that a process sends to the first byte that it receives is therefore a
//! *response time* if the process is the client. The time from the first byte received to the first
//! byte sent is a *service time* if the process is the server.
//!
//! The side follows from `accept` or `connect`. On a TCP connection that is older than the
//! recording, a process is the server if its port is one on which a process listens, else the
//! client. Where the port is not known, the ports of all such connections of the process decide, if
//! they agree, or else the longer of the two kinds of gaps: a client without pauses waits for its
//! replies, and a server works on requests.
//!
//! The sums give the number of requests that are answered at the load generator (the progress of a
//! run), the time of each, and the mean number that are open in a server at a time. A server in
//! which sixteen requests are open while they are answered one after the other is a
//! *serialisation*. Where threads of one process pass work to each other in user space, only these
//! sums show it.
//!
//! Example: a proxy with 8 clients and one connection to a backend has 8 open requests in `served`
//! and one in `asked`.

use crate::stats::histogram::Histogram;
use crate::verdict::facts::held_requests::HeldRequests;
use longpole_model::hash::IdMap;
use longpole_model::linux::net::{Hop, PacketStep};
use longpole_model::linux::watch::{BlockCause, BlockReason, FinishedCall, Moment, ThreadId, Waker, Watch};
use longpole_model::linux::{FileKind, Linux};
use longpole_model::names::NameId;
use longpole_model::system_calls::CallFamily;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

/// Largest number of connections at one time; calls on further connections are ignored.
const MAX_CONNECTIONS: usize = 1 << 16;
/// Largest number of pairs of holder and system call for which requests wait; further ones are not
/// counted.
const MAX_HOLDERS: usize = 1 << 10;
/// `TCP_LISTEN` of include/net/tcp_states.h.
const LISTENING: i64 = 10;
/// `IPPROTO_TCP`.
const TCP: i64 = 6;
/// Result of `connect` that continues in the background (`-EINPROGRESS`).
const IN_PROGRESS: i64 = -115;
/// Result of `connect` if no peer answered (`-ETIMEDOUT`).
const TIMED_OUT: i64 = -110;
/// Result of a call that would have to wait (`-EAGAIN`).
const WOULD_WAIT: i64 = -11;
/// A request that is sent again on the same connection after at least this time was not answered.
const SENT_AGAIN_NS: i64 = 10_000_000;

/// Effect of a system call on a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CallEffect {
    Send,
    Receive,
    Accept,
    Connect,
    Close,
    /// Waits for events on several connections.
    WaitForEvents,
    Other,
}

fn effect(call: &str) -> CallEffect {
    match call {
        "write" | "writev" | "sendto" | "sendmsg" | "sendmmsg" | "sendfile64" | "splice" => CallEffect::Send,
        "read" | "readv" | "recvfrom" | "recvmsg" | "recvmmsg" => CallEffect::Receive,
        "accept" | "accept4" => CallEffect::Accept,
        "connect" => CallEffect::Connect,
        "close" => CallEffect::Close,
        call if CallFamily::of(call) == CallFamily::WaitForEvents => CallEffect::WaitForEvents,
        _ => CallEffect::Other,
    }
}

/// Returns whether a system call sends or receives data, or waits until that is possible.
pub fn is_transfer(call: &str) -> bool {
    matches!(effect(call), CallEffect::Send | CallEffect::Receive | CallEffect::WaitForEvents)
}

/// Returns whether a system call sends data.
pub fn is_send(call: &str) -> bool {
    effect(call) == CallEffect::Send
}

/// The side of a connection on which a process is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Client,
    Server,
}

/// A socket of a process from its begin to its end.
#[derive(Clone, Debug, Default)]
struct Connection {
    side: Option<Side>,
    /// Accepted during the recording.
    is_accepted: bool,
    /// Inode of the socket, if it is older than the recording.
    inode: Option<u32>,
    /// Direction of the current transfer, and the time of its first byte.
    since: Option<(Last, i64)>,
    /// Times from a sent byte to a received one.
    from_send: Gaps,
    /// Times from a received byte to a sent one.
    from_receive: Gaps,
    /// Part of `from_send` in which the thread of an event loop waited in the call that received
    /// the byte.
    in_receive_ns: u64,
    /// First of the times from a received byte to a sent one.
    first_ns: Option<u64>,
    /// `connect` continues in the background, and nothing has been transferred since.
    is_connecting: bool,
    /// Number of requests that were sent again after `SENT_AGAIN_NS` without a reply.
    sent_again: u64,
    /// Thread that sent last, with the number of its event waits until then.
    sender: Option<(i32, u64)>,
    /// A receiving call has returned without a byte since the last byte was sent.
    received_nothing: bool,
    /// Time for which its requests waited for other threads, by the process of these threads and
    /// the system call.
    held: BTreeMap<(i32, NameId), u64>,
}

/// The direction of the last transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Last {
    Sent,
    Received,
}

/// Times between the first byte in one direction and the first byte in the other.
#[derive(Clone, Debug, Default)]
pub struct Gaps {
    pub count: u64,
    pub total_ns: u64,
    pub times: Histogram,
    /// Time at which the first gap ended; `last_ns` is the end of the last one.
    pub first_ns: Option<i64>,
    pub last_ns: i64,
}

impl Gaps {
    fn record(&mut self, begin_ns: i64, end_ns: i64) {
        let ns = end_ns.saturating_sub(begin_ns).max(0) as u64;
        self.count += 1;
        self.total_ns += ns;
        self.times.record(ns);
        self.first_ns.get_or_insert(end_ns);
        self.last_ns = self.last_ns.max(end_ns);
    }

    fn add(&mut self, other: &Gaps) {
        if other.count == 0 {
            return;
        }
        self.count += other.count;
        self.total_ns += other.total_ns;
        self.times.add(&other.times);
        self.first_ns = match (self.first_ns, other.first_ns) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        };
        self.last_ns = self.last_ns.max(other.last_ns);
    }

    fn length_ns(&self) -> u64 {
        self.first_ns.map_or(0, |first| self.last_ns.saturating_sub(first).max(0) as u64)
    }

    /// Returns the mean number of requests that are open at a time.
    pub fn open(&self) -> f64 {
        self.total_ns as f64 / self.length_ns().max(1) as f64
    }

    /// Returns the number of gaps that end per second.
    pub fn rate(&self) -> f64 {
        self.count.saturating_sub(1) as f64 * 1e9 / self.length_ns().max(1) as f64
    }
}

/// Connections that a server accepted during the recording.
#[derive(Clone, Copy, Debug, Default)]
pub struct Accepted {
    pub connections: u64,
    /// Number of times from a received byte to a sent one, over all these connections.
    pub exchanges: u64,
    pub total_ns: u64,
    /// Sum of the first such time of each connection.
    pub first_ns: u64,
}

impl Accepted {
    fn add(&mut self, other: &Accepted) {
        self.connections += other.connections;
        self.exchanges += other.exchanges;
        self.total_ns += other.total_ns;
        self.first_ns += other.first_ns;
    }
}

/// The activity of a process on its sockets.
#[derive(Clone, Debug, Default)]
pub struct SocketActivity {
    /// Times from request to reply, where the process is the client.
    pub asked: Gaps,
    /// Part of `asked` in which the thread of an event loop waited in the call that received the
    /// reply.
    pub in_receive_ns: u64,
    /// Times from request to reply, where the process is the server.
    pub served: Gaps,
    pub accepted: Accepted,
    /// Number of calls that wait for events on several connections, as an event loop makes them.
    pub event_waits: u64,
    /// Number of connections on which anything was exchanged.
    pub connections: u64,
    /// Number of requests after which nothing was received until the connection ended, or until
    /// another request was sent much later.
    pub unanswered: u64,
    /// Number of attempts to connect that led to no transfer.
    pub unconnected: u64,
    /// Number of sending calls that took less than they were given, because the send buffer was
    /// full.
    pub short_sends: u64,
    /// Time for which requests waited inside the process until other threads woke theirs, by the
    /// process of these threads and the system call, in ns.
    pub held: BTreeMap<(i32, NameId), u64>,
}

/// Collects the exchanges of all processes during the pass.
#[derive(Debug, Default)]
pub struct Exchanges {
    /// System calls that the current event has ended and that may be about sockets.
    returned: Vec<FinishedCall>,
    /// Effect of each system call, by name id.
    effects: Vec<Option<CallEffect>>,
    /// Open connections by process id and file descriptor.
    open: IdMap<(i32, i64), Connection>,
    processes: IdMap<i32, SocketActivity>,
    /// For each thread that waits for events on several connections, its process and the number of
    /// these calls.
    event_waits: IdMap<i32, (i32, u64)>,
    /// Ports on which a process listens, with the number of times that each was seen.
    ports: HashMap<i32, BTreeMap<u16, u64>>,
    /// TCP ports on which any process listens.
    tcp_ports: HashSet<u16>,
    /// Local ports of the TCP connections that a process had when the recording began.
    connected: HashMap<i32, Vec<u16>>,
    /// Local ports of these connections, by the inode of the socket.
    older_ports: HashMap<u32, u16>,
    /// Number of sockets of unknown side on which a process sent or received.
    of_unknown_side: HashMap<i32, u64>,
    /// Threads that began to listen on a port during the current event.
    listens: Vec<(ThreadId, u16)>,
    /// Forks since the last event, as pairs of child and parent. A server's children answer on its
    /// port.
    forks: Vec<(ThreadId, ThreadId)>,
    /// Parent of each process.
    parents: HashMap<i32, i32>,
    held_requests: HeldRequests,
    /// Names of the system calls in which requests were held.
    held_in: HashMap<NameId, String>,
}

impl Watch for Exchanges {
    #[inline]
    fn moment(&mut self, moment: Moment) {
        if let Moment::Forked { thread, parent: Some(parent) } = moment {
            self.forks.push((thread, parent));
        }
    }

    #[inline]
    fn returned(&mut self, call: &FinishedCall) {
        if !matches!(self.effects.get(call.name.0 as usize), Some(Some(CallEffect::Other))) {
            self.returned.push(*call);
        }
    }

    #[inline]
    fn hopped(&mut self, hop: &Hop<'_>) {
        match hop.step {
            PacketStep::State { port, state: Some(LISTENING), .. } => {
                self.tcp_ports.insert(port);
                if let Waker::Thread(thread) = hop.by {
                    self.listens.push((thread, port));
                }
            }
            // A client's port is not a port on which the process receives requests.
            PacketStep::Socket { protocol: TCP, port, tid, state: Some(state), inode } if state != LISTENING => {
                self.connected.entry(tid).or_default().push(port);
                if self.older_ports.len() < MAX_CONNECTIONS {
                    self.older_ports.extend(inode.map(|inode| (inode, port)));
                }
            }
            PacketStep::Socket { protocol, port, tid, .. } => {
                if protocol == TCP {
                    self.tcp_ports.insert(port);
                }
                *self.ports.entry(tid).or_default().entry(port).or_default() += 1;
            }
            _ => {}
        }
    }
}

impl Exchanges {
    /// Processes what was collected during an event, with the state of the model after that event.
    /// Must be called after each event.
    #[inline]
    pub fn after(&mut self, linux: &Linux) {
        while let Some(call) = self.returned.pop() {
            self.process_call(linux, &call);
        }
        while let Some((thread, parent)) = self.forks.pop() {
            let process = |id: ThreadId| linux.threads.get(id.0 as usize).map(|thread| thread.process.unwrap_or(thread.tid));
            if let (Some(child), Some(parent)) = (process(thread), process(parent)) {
                if child != parent {
                    self.parents.insert(child, parent);
                }
            }
        }
        while let Some((thread, port)) = self.listens.pop() {
            let thread = &linux.threads[thread.0 as usize];
            // A listening port outweighs any number of other ports of the process.
            *self.ports.entry(thread.process.unwrap_or(thread.tid)).or_default().entry(port).or_default() += 1 << 32;
        }
    }

    /// Counts a wait of a thread for the reason `why`, which the thread `by` ended.
    pub fn waited(&mut self, linux: &Linux, (thread, by): (ThreadId, ThreadId), why: BlockReason, ns: u64) {
        let known = |id: ThreadId| linux.threads.get(id.0 as usize).map(|thread| (thread.tid, thread.process.unwrap_or(thread.tid)));
        // Data on a socket comes from a client, or is a reply.
        let BlockCause::Call(call, file) = why.cause else { return };
        if let (Some((thread, _)), Some(by), true) = (known(thread), known(by), file != Some(FileKind::Socket)) {
            if self.held_requests.waited(thread, by, call, ns) {
                self.held_in.entry(call).or_insert_with(|| linux.names.text(call).to_owned());
            }
        }
    }

    fn effect_of(&mut self, linux: &Linux, name: NameId) -> CallEffect {
        let at = name.0 as usize;
        if self.effects.len() <= at {
            self.effects.resize(at + 1, None);
        }
        *self.effects[at].get_or_insert_with(|| effect(linux.names.text(name)))
    }

    /// Processes a system call that has returned.
    fn process_call(&mut self, linux: &Linux, call: &FinishedCall) {
        let effect = self.effect_of(linux, call.name);
        let (Some(thread), Some(result), true) = (call.thread, call.result, effect != CallEffect::Other) else { return };
        let thread = &linux.threads[thread.0 as usize];
        let process = thread.process.unwrap_or(thread.tid);
        if effect == CallEffect::WaitForEvents {
            self.event_waits.entry(thread.tid).or_insert((process, 0)).1 += 1;
            return;
        }
        let Some(about) = call.arguments.about else { return };
        match effect {
            CallEffect::Accept if result >= 0 => self.open_connection((process, result), Side::Server),
            CallEffect::Connect if result == 0 || result == IN_PROGRESS => {
                self.open_connection((process, about), Side::Client);
                if let Some(connection) = self.open.get_mut(&(process, about)) {
                    connection.is_connecting = result == IN_PROGRESS;
                }
            }
            CallEffect::Connect if result == TIMED_OUT => self.processes.entry(process).or_default().unconnected += 1,
            CallEffect::Close => self.close_connection((process, about)),
            CallEffect::Send if result == WOULD_WAIT && linux.file_kind(process, about) == Some(FileKind::Socket) => {
                self.processes.entry(process).or_default().short_sends += 1;
            }
            CallEffect::Send | CallEffect::Receive if result > 0 && linux.file_kind(process, about) == Some(FileKind::Socket) => {
                if effect == CallEffect::Send && call.arguments.length.is_some_and(|given| result < given) {
                    self.processes.entry(process).or_default().short_sends += 1;
                }
                let known = self.open.len() < MAX_CONNECTIONS || self.open.contains_key(&(process, about));
                if known {
                    let begin = call.begin_ns.unwrap_or(call.end_ns);
                    self.transfer(linux, (process, about), (effect, thread.tid), begin, call.end_ns);
                }
            }
            CallEffect::Receive if result <= 0 => {
                if let Some(connection) = self.open.get_mut(&(process, about)) {
                    connection.received_nothing = true;
                }
            }
            _ => {}
        }
    }

    fn open_connection(&mut self, of: (i32, i64), side: Side) {
        self.close_connection(of);
        if self.open.len() < MAX_CONNECTIONS {
            self.open.insert(of, Connection { side: Some(side), is_accepted: side == Side::Server, ..Connection::default() });
        }
    }

    /// Processes a call of the thread `tid` that has transferred data.
    fn transfer(&mut self, linux: &Linux, of: (i32, i64), (effect, tid): (CallEffect, i32), begin_ns: i64, end_ns: i64) {
        let event_waits = self.event_waits.get(&tid).map(|&(_, count)| count);
        let connection = self.open.entry(of).or_insert_with(|| {
            *self.of_unknown_side.entry(of.0).or_default() += 1;
            Connection { inode: linux.older_socket(of.0, of.1), ..Connection::default() }
        });
        connection.is_connecting = false;
        let had = connection.since.map(|(last, _)| last);
        match (effect, connection.since) {
            // Sent bytes leave the sender when the call begins.
            (CallEffect::Send, Some((Last::Received, since))) => {
                connection.first_ns.get_or_insert(begin_ns.saturating_sub(since).max(0) as u64);
                connection.from_receive.record(since, begin_ns);
                connection.since = Some((Last::Sent, begin_ns));
            }
            (CallEffect::Receive, Some((Last::Sent, since))) => {
                connection.from_send.record(since, end_ns);
                if event_waits.is_some() {
                    connection.in_receive_ns += end_ns.saturating_sub(begin_ns.max(since)).max(0) as u64;
                }
                connection.since = Some((Last::Received, end_ns));
            }
            (CallEffect::Send, None) => connection.since = Some((Last::Sent, begin_ns)),
            (_, None) => connection.since = Some((Last::Received, end_ns)),
            (CallEffect::Send, Some((Last::Sent, since))) if begin_ns - since > SENT_AGAIN_NS && connection.from_send.count == 0 => {
                // A thread that has not waited for a reply still sends the same request.
                let has_waited = connection.sender != Some((tid, event_waits.unwrap_or(0))) || connection.received_nothing;
                connection.sent_again += u64::from(has_waited);
                connection.since = Some((Last::Sent, begin_ns));
            }
            _ => {}
        }
        if effect == CallEffect::Send {
            (connection.sender, connection.received_nothing) = (Some((tid, event_waits.unwrap_or(0))), false);
        }
        match effect {
            CallEffect::Send if had == Some(Last::Received) => {
                for wait in self.held_requests.replied(tid, of) {
                    add_held(&mut connection.held, (wait.holder, wait.call), wait.ns);
                }
            }
            CallEffect::Receive if had != Some(Last::Received) && connection.side != Some(Side::Client) => {
                self.held_requests.received(tid, of, |other| self.open.contains_key(&other));
            }
            _ => {}
        }
    }

    fn close_connection(&mut self, of: (i32, i64)) {
        if let Some(mut connection) = self.open.remove(&of) {
            connection.side = connection.side.or_else(|| self.side_of_older(of.0, connection.inode));
            add(self.processes.entry(of.0).or_default(), &connection);
        }
    }

    /// Returns the side of a process on a connection that is older than the recording.
    ///
    /// The local port shows it: a server's connections are on a port on which it listens, a
    /// client's on a port on which nobody listens. If the connection's own port is not known, the
    /// ports of all older connections of the process decide, provided that these are all its
    /// sockets of unknown side and that they agree. A listening process has accepted the sockets
    /// that its children inherit.
    fn side_of_older(&self, process: i32, inode: Option<u32>) -> Option<Side> {
        let is_listened_on = |port: &u16| self.tcp_ports.contains(port);
        if let Some(port) = inode.and_then(|inode| self.older_ports.get(&inode)) {
            return Some(if is_listened_on(port) { Side::Server } else { Side::Client });
        }
        if self.parents.get(&process).is_some_and(|parent| self.ports.contains_key(parent)) {
            return Some(Side::Server);
        }
        let connected = self.connected.get(&process)?;
        let sockets = self.of_unknown_side.get(&process).copied().unwrap_or(0);
        if sockets > connected.len() as u64 {
            return None;
        }
        match connected {
            ports if ports.iter().all(is_listened_on) => Some(Side::Server),
            ports if !ports.iter().any(is_listened_on) => Some(Side::Client),
            _ => None,
        }
    }

    /// Returns the port on which each process serves that does not listen itself: the process of a
    /// database that answers one client has closed the listening socket. It is the port of its
    /// older connections, if another process listens there, or that of the process that forked it.
    fn served_ports(&self) -> HashMap<i32, u16> {
        let listened_on: BTreeSet<u16> = self.ports.values().flat_map(|ports| ports.keys().copied()).collect();
        let of_connections = self.connected.iter().filter_map(|(&process, ports)| {
            let port = ports.iter().find(|port| listened_on.contains(port))?;
            Some((process, *port))
        });
        let serves = |process: &i32| self.processes.get(process).is_some_and(|activity| activity.served.count > 0);
        let of_forks = self.parents.iter().filter(|(child, _)| serves(child)).filter_map(|(&child, parent)| {
            let port = main_port(self.ports.get(parent)?)?;
            Some((child, port))
        });
        of_forks.chain(of_connections).filter(|(process, _)| !self.ports.contains_key(process)).collect()
    }

    /// Returns the activity of each process by its id, with the port on which it receives requests;
    /// and the parent of each process that began meanwhile.
    pub fn finish(mut self) -> (SocketActivities, HashMap<i32, i32>) {
        let mut open: Vec<_> = self.open.keys().copied().collect();
        open.sort_unstable();
        open.into_iter().for_each(|of| self.close_connection(of));
        for (process, count) in self.event_waits.values() {
            if let Some(activity) = self.processes.get_mut(process) {
                activity.event_waits += count;
            }
        }
        let served_ports = self.served_ports();
        let ports = self.ports.iter().filter_map(|(&process, ports)| Some((process, main_port(ports)?))).collect();
        (SocketActivities { processes: self.processes, ports, served_ports, held_in: self.held_in }, self.parents)
    }
}

/// Returns the port that was seen most often, the lowest of several.
fn main_port(ports: &BTreeMap<u16, u64>) -> Option<u16> {
    ports.iter().max_by_key(|&(port, count)| (count, std::cmp::Reverse(port))).map(|(&port, _)| port)
}

/// Adds a time for which requests were held, by holder and system call.
fn add_held(held: &mut BTreeMap<(i32, NameId), u64>, of: (i32, NameId), ns: u64) {
    if held.len() < MAX_HOLDERS || held.contains_key(&of) {
        *held.entry(of).or_default() += ns;
    }
}

/// Adds a connection to the activity of its process.
fn add(activity: &mut SocketActivity, connection: &Connection) {
    let Connection { side, from_send, from_receive, since, .. } = connection;
    activity.unconnected += u64::from(connection.is_connecting);
    let is_waiting = matches!(since, Some((Last::Sent, _))) && from_send.count == 0 && from_receive.count == 0;
    // Data that a server sends is not a request.
    if *side != Some(Side::Server) {
        activity.unanswered += connection.sent_again + u64::from(is_waiting);
    }
    if from_send.count + from_receive.count == 0 {
        return;
    }
    activity.connections += 1;
    let is_client = match side {
        Some(side) => *side == Side::Client,
        None => from_send.total_ns > from_receive.total_ns,
    };
    if let (true, Some(first_ns)) = (connection.is_accepted, connection.first_ns) {
        let (exchanges, total_ns) = (from_receive.count, from_receive.total_ns);
        activity.accepted.add(&Accepted { connections: 1, exchanges, total_ns, first_ns });
    }
    match is_client {
        true => {
            activity.asked.add(from_send);
            activity.in_receive_ns += connection.in_receive_ns;
        }
        false => {
            activity.served.add(from_receive);
            connection.held.iter().for_each(|(of, ns)| add_held(&mut activity.held, *of, *ns));
        }
    }
}

/// The exchanges of all processes.
#[derive(Debug, Default)]
pub struct SocketActivities {
    processes: IdMap<i32, SocketActivity>,
    /// Port on which a process listens.
    ports: HashMap<i32, u16>,
    /// Port on which another process listens for it.
    served_ports: HashMap<i32, u16>,
    held_in: HashMap<NameId, String>,
}

impl SocketActivities {
    /// Returns the activity of a process.
    pub fn of(&self, process: i32) -> Option<&SocketActivity> {
        self.processes.get(&process)
    }

    /// Returns the name of a system call in which requests were held.
    pub fn held_in(&self, call: NameId) -> &str {
        self.held_in.get(&call).map_or("", String::as_str)
    }

    /// Returns the port on which the process receives requests.
    pub fn port(&self, process: i32) -> Option<u16> {
        self.ports.get(&process).or_else(|| self.served_ports.get(&process)).copied()
    }

    /// Returns the process that receives requests on this port.
    pub fn process_at(&self, port: u16) -> Option<i32> {
        self.ports.iter().filter(|&(_, &known)| known == port).map(|(&process, _)| process).min()
    }

    /// Returns the sum over several processes.
    pub fn sum(&self, processes: impl IntoIterator<Item = i32>) -> SocketActivity {
        let mut out = SocketActivity::default();
        for activity in processes.into_iter().filter_map(|process| self.of(process)) {
            out.asked.add(&activity.asked);
            out.in_receive_ns += activity.in_receive_ns;
            out.event_waits += activity.event_waits;
            out.served.add(&activity.served);
            out.accepted.add(&activity.accepted);
            out.connections += activity.connections;
            out.unanswered += activity.unanswered;
            out.unconnected += activity.unconnected;
            out.short_sends += activity.short_sends;
            activity.held.iter().for_each(|(of, ns)| *out.held.entry(*of).or_default() += ns);
        }
        out
    }
}
