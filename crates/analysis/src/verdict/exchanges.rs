//! Requests and their replies, as seen in the system calls of processes on sockets.
//!
//! On one connection a client sends and then receives, and a server receives and then sends. The
//! time from the first byte that a process sends to the first byte that it receives is therefore a
//! *response time* if the process is the client. The time from the first byte received to the first
//! byte sent is a *service time* if the process is the server.
//!
//! The role follows from `accept` or `connect`. Where neither was seen, a process that listens is
//! the server if all TCP connections that it had when the recording began are on its listening
//! ports. Otherwise the longer of the two kinds of gaps decides: a client without pauses waits for
//! its replies, and a server works on requests.
//!
//! The sums give the number of requests that are answered at the load generator (the progress of a
//! run), the time of each, and the mean number that are open in a server at a time. A server in
//! which sixteen requests are open while they are answered one after the other is a
//! *serialisation*. Where threads of one process pass work to each other in user space, only these
//! sums show it.
//!
//! Example: a proxy with 8 clients and one connection to a backend has 8 open requests in `served`
//! and one in `asked`.

use crate::network::links::{Link, Links};
use crate::stats::histogram::Histogram;
use crate::verdict::file_locks::{FileLock, FileLocks};
use crate::verdict::inversions::{Inversion, Inversions};
use longpole_model::linux::net::{Hop, Step};
use longpole_model::linux::watch::{Base, Call, CpuId, Mode, Moment, Occupant, ThreadId, Wait, Wake, Waker, Watch, Why};
use longpole_model::linux::{FileKind, Linux};
use longpole_model::names::NameId;
use std::collections::{BTreeMap, HashMap};

/// Largest number of connections at one time; calls on further connections are ignored.
const MAX_CONNECTIONS: usize = 1 << 16;
/// `TCP_LISTEN` of include/net/tcp_states.h.
const LISTENING: i64 = 10;
/// `IPPROTO_TCP`.
const TCP: i64 = 6;
/// Result of `connect` that means "continues in the background"; `TIMED_OUT` means that no peer
/// answered.
const IN_PROGRESS: i64 = -115;
const TIMED_OUT: i64 = -110;
/// A request that is sent again on the same connection after at least this time was not answered.
const SENT_AGAIN_NS: i64 = 10_000_000;

/// Effect of a system call on a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Act {
    Send,
    Receive,
    Accept,
    Connect,
    Close,
    Other,
}

fn act(call: &str) -> Act {
    match call {
        "write" | "writev" | "sendto" | "sendmsg" | "sendmmsg" | "sendfile" | "splice" => Act::Send,
        "read" | "readv" | "recvfrom" | "recvmsg" | "recvmmsg" => Act::Receive,
        "accept" | "accept4" => Act::Accept,
        "connect" => Act::Connect,
        "close" => Act::Close,
        _ => Act::Other,
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    Client,
    Server,
}

/// A socket of a process from its begin to its end.
#[derive(Clone, Debug, Default)]
struct Connection {
    role: Option<Role>,
    /// Direction of the current transfer, and the time of its first byte.
    since: Option<(Last, i64)>,
    from_send: Gaps,
    from_receive: Gaps,
    /// First of the times from a received byte to a sent one.
    first_ns: Option<u64>,
    /// `connect` continues in the background, and nothing has been transferred since.
    is_connecting: bool,
    /// Number of requests that were sent again after `SENT_AGAIN_NS` without a reply.
    again: u64,
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
    /// Times from request to reply, where the process is the server.
    pub served: Gaps,
    pub accepted: Accepted,
    /// Number of connections on which anything was exchanged.
    pub connections: u64,
    /// Number of requests after which nothing was received until the connection ended, or until
    /// another request was sent much later.
    pub unanswered: u64,
    /// Number of attempts to connect that led to no transfer.
    pub unconnected: u64,
}

/// Collects the exchanges of all processes during the pass.
#[derive(Debug, Default)]
pub struct Exchanges {
    heard: Vec<Call>,
    acts: Vec<Option<Act>>,
    open: HashMap<(i32, i64), Connection>,
    socket_activities: HashMap<i32, SocketActivity>,
    /// Ports on which a process listens, with the number of times that each was seen.
    ports: HashMap<i32, BTreeMap<u16, u64>>,
    /// Local ports of the TCP connections that a process had when the recording began.
    connected: HashMap<i32, Vec<u16>>,
    /// Number of sockets of unknown role on which a process sent or received.
    of_unknown_role: HashMap<i32, u64>,
    listens: Vec<(ThreadId, u16)>,
    /// Connections whose receiver has a small window, by the ports of sender and receiver.
    windows: HashMap<(u16, u16), Window>,
    links: Links,
    inversions: Inversions,
    file_locks: FileLocks,
    /// Threads that freed memory themselves, with the time that it took, until their ids are looked
    /// up.
    reclaimed: Vec<(ThreadId, u64)>,
    reclaims: HashMap<i32, Reclaims>,
    /// Forks since the last event, as pairs of child and parent. A server's children answer on its
    /// port.
    forks: Vec<(ThreadId, ThreadId)>,
    parents: HashMap<i32, i32>,
}

/// A connection whose receiver's window was small at some acknowledgement. Only such
/// acknowledgements are recorded.
#[derive(Clone, Copy, Debug, Default)]
pub struct Window {
    /// Number of acknowledgements; `filled` counts those at which the sender had filled at least
    /// half of the window.
    pub count: u64,
    pub filled: u64,
    pub total_bytes: u64,
    pub first_ns: i64,
    pub last_ns: i64,
}

/// Time that a thread spent on freeing memory because none was free.
#[derive(Clone, Copy, Debug, Default)]
pub struct Reclaims {
    pub count: u64,
    pub ns: u64,
}

impl Watch for Exchanges {
    fn reclaimed(&mut self, thread: ThreadId, begin_ns: i64, end_ns: i64) {
        self.reclaimed.push((thread, (end_ns - begin_ns).max(0) as u64));
    }

    #[inline]
    fn occupied(&mut self, cpu: CpuId, by: Occupant, base: Base, mode: Mode, begin_ns: i64, end_ns: i64) {
        self.inversions.occupied(cpu, by, base, mode, begin_ns, end_ns);
    }

    fn waited(&mut self, wait: &Wait) {
        self.inversions.waited(wait);
    }

    fn blocked(&mut self, thread: ThreadId, why: Why, begin_ns: i64, end_ns: i64) {
        self.inversions.blocked(thread, why, begin_ns, end_ns);
    }

    fn woken(&mut self, thread: ThreadId, wake: &Wake) {
        self.inversions.woken(thread, wake);
    }

    #[inline]
    fn moment(&mut self, moment: Moment) {
        if let Moment::Forked { thread, parent: Some(parent) } = moment {
            self.forks.push((thread, parent));
        }
    }

    #[inline]
    fn returned(&mut self, call: &Call) {
        if !matches!(self.acts.get(call.name.0 as usize), Some(Some(Act::Other))) {
            self.heard.push(*call);
        }
    }

    #[inline]
    fn hopped(&mut self, hop: &Hop<'_>) {
        self.links.hopped(hop);
        match hop.step {
            Step::State { port, state: Some(LISTENING), .. } => {
                if let Waker::Thread(thread) = hop.by {
                    self.listens.push((thread, port));
                }
            }
            Step::Window { port, peer, in_flight, window } => {
                let of = self.windows.entry((port, peer)).or_default();
                of.count += 1;
                of.filled += u64::from(2 * u64::from(in_flight) >= u64::from(window));
                of.total_bytes += u64::from(window);
                of.first_ns = if of.count == 1 { hop.t_ns } else { of.first_ns };
                of.last_ns = hop.t_ns;
            }
            // A client's port is not a port on which the process receives requests.
            Step::Socket { protocol: TCP, port, tid, state: Some(state) } if state != LISTENING => {
                self.connected.entry(tid).or_default().push(port);
            }
            Step::Socket { port, tid, .. } => *self.ports.entry(tid).or_default().entry(port).or_default() += 1,
            _ => {}
        }
    }
}

impl Exchanges {
    /// Processes what was collected during an event, with the state of the model after that event.
    /// Must be called after each event.
    #[inline]
    pub fn after(&mut self, linux: &Linux) {
        self.inversions.after(linux, &mut self.file_locks);
        while let Some((thread, ns)) = self.reclaimed.pop() {
            let of = self.reclaims.entry(linux.threads[thread.0 as usize].tid).or_default();
            of.count += 1;
            of.ns += ns;
        }
        while let Some(call) = self.heard.pop() {
            self.call(linux, &call);
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

    fn act(&mut self, linux: &Linux, name: NameId) -> Act {
        let at = name.0 as usize;
        if self.acts.len() <= at {
            self.acts.resize(at + 1, None);
        }
        *self.acts[at].get_or_insert_with(|| act(linux.names.text(name)))
    }

    fn call(&mut self, linux: &Linux, call: &Call) {
        let act = self.act(linux, call.name);
        let (Some(thread), Some(result), true) = (call.thread, call.result, act != Act::Other) else { return };
        let thread = &linux.threads[thread.0 as usize];
        let process = thread.process.unwrap_or(thread.tid);
        let Some(about) = call.arguments.about else { return };
        match act {
            Act::Accept if result >= 0 => self.begins((process, result), Role::Server),
            Act::Connect if result == 0 || result == IN_PROGRESS => {
                self.begins((process, about), Role::Client);
                if let Some(connection) = self.open.get_mut(&(process, about)) {
                    connection.is_connecting = result == IN_PROGRESS;
                }
            }
            Act::Connect if result == TIMED_OUT => self.socket_activities.entry(process).or_default().unconnected += 1,
            Act::Close => self.ends((process, about)),
            Act::Send | Act::Receive if result > 0 && linux.file_kind(process, about) == Some(FileKind::Socket) => {
                let known = self.open.len() < MAX_CONNECTIONS || self.open.contains_key(&(process, about));
                if known {
                    let begin = call.begin_ns.unwrap_or(call.end_ns);
                    self.transfers((process, about), act, begin, call.end_ns);
                }
            }
            _ => {}
        }
    }

    fn begins(&mut self, of: (i32, i64), role: Role) {
        self.ends(of);
        if self.open.len() < MAX_CONNECTIONS {
            self.open.insert(of, Connection { role: Some(role), ..Connection::default() });
        }
    }

    fn transfers(&mut self, of: (i32, i64), act: Act, begin_ns: i64, end_ns: i64) {
        if !self.open.contains_key(&of) {
            *self.of_unknown_role.entry(of.0).or_default() += 1;
        }
        let connection = self.open.entry(of).or_default();
        connection.is_connecting = false;
        match (act, connection.since) {
            // Sent bytes leave the sender when the call begins.
            (Act::Send, Some((Last::Received, since))) => {
                connection.first_ns.get_or_insert(begin_ns.saturating_sub(since).max(0) as u64);
                connection.from_receive.record(since, begin_ns);
                connection.since = Some((Last::Sent, begin_ns));
            }
            (Act::Receive, Some((Last::Sent, since))) => {
                connection.from_send.record(since, end_ns);
                connection.since = Some((Last::Received, end_ns));
            }
            (Act::Send, None) => connection.since = Some((Last::Sent, begin_ns)),
            (_, None) => connection.since = Some((Last::Received, end_ns)),
            (Act::Send, Some((Last::Sent, since))) if begin_ns - since > SENT_AGAIN_NS && connection.from_send.count == 0 => {
                connection.again += 1;
                connection.since = Some((Last::Sent, begin_ns));
            }
            _ => {}
        }
    }

    fn ends(&mut self, of: (i32, i64)) {
        if let Some(mut connection) = self.open.remove(&of) {
            connection.role = connection.role.or_else(|| self.role_of_older(of.0));
            add(self.socket_activities.entry(of.0).or_default(), &connection);
        }
    }

    /// Returns the role of a process on its connections that are older than the recording, if it
    /// is the same on all of them.
    ///
    /// The ports of the connections show it if these are all sockets of unknown role: a server's
    /// connections are on the port on which it listens, a client's on a port on which nobody
    /// listens. A socket inherited from a listening process was accepted by that process.
    fn role_of_older(&self, process: i32) -> Option<Role> {
        if self.parents.get(&process).is_some_and(|parent| self.ports.contains_key(parent)) {
            return Some(Role::Server);
        }
        let connected = self.connected.get(&process)?;
        let sockets = self.of_unknown_role.get(&process).copied().unwrap_or(0);
        if sockets > connected.len() as u64 {
            return None;
        }
        let listens = |port: &u16| self.ports.get(&process).is_some_and(|own| own.contains_key(port));
        let is_listened_on = |port: &u16| self.ports.values().any(|ports| ports.contains_key(port));
        match connected {
            ports if ports.iter().all(listens) => Some(Role::Server),
            ports if !ports.iter().any(is_listened_on) => Some(Role::Client),
            _ => None,
        }
    }

    /// Returns the activity of each process by its id, with the port on which it receives requests.
    pub fn finish(mut self) -> SocketActivities {
        let mut open: Vec<_> = self.open.keys().copied().collect();
        open.sort_unstable();
        open.into_iter().for_each(|of| self.ends(of));
        let port = |ports: BTreeMap<u16, u64>| ports.into_iter().max_by_key(|&(port, count)| (count, std::cmp::Reverse(port)));
        let ports = self.ports.into_iter().filter_map(|(process, ports)| Some((process, port(ports)?.0))).collect();
        SocketActivities {
            processes: self.socket_activities,
            ports,
            windows: self.windows,
            link: self.links.busiest(),
            inversions: self.inversions.finish(),
            file_locks: self.file_locks.finish(),
            reclaims: self.reclaims,
        }
    }
}

fn add(activity: &mut SocketActivity, connection: &Connection) {
    let Connection { role, from_send, from_receive, since, .. } = connection;
    activity.unconnected += u64::from(connection.is_connecting);
    let is_waiting = matches!(since, Some((Last::Sent, _))) && from_send.count == 0 && from_receive.count == 0;
    // Data that a server sends is not a request.
    if *role != Some(Role::Server) {
        activity.unanswered += connection.again + u64::from(is_waiting);
    }
    if from_send.count + from_receive.count == 0 {
        return;
    }
    activity.connections += 1;
    let is_client = match role {
        Some(role) => *role == Role::Client,
        None => from_send.total_ns > from_receive.total_ns,
    };
    if let (Some(Role::Server), Some(first_ns)) = (role, connection.first_ns) {
        let (exchanges, total_ns) = (from_receive.count, from_receive.total_ns);
        activity.accepted.add(&Accepted { connections: 1, exchanges, total_ns, first_ns });
    }
    match is_client {
        true => activity.asked.add(from_send),
        false => activity.served.add(from_receive),
    }
}

/// The exchanges of all processes.
#[derive(Debug, Default)]
pub struct SocketActivities {
    processes: HashMap<i32, SocketActivity>,
    ports: HashMap<i32, u16>,
    windows: HashMap<(u16, u16), Window>,
    /// Link for which packets waited for the longest time.
    pub link: Option<Link>,
    /// Priority inversions, the one with the most inverted time first.
    pub inversions: Vec<Inversion>,
    /// File locks, the one with the longest waits first.
    pub file_locks: Vec<FileLock>,
    /// Memory reclaims by thread id.
    pub reclaims: HashMap<i32, Reclaims>,
}

impl SocketActivities {
    /// Returns the connection whose sender most often had the receiver's small window filled, by
    /// the ports of sender and receiver.
    pub fn narrowest(&self) -> Option<((u16, u16), Window)> {
        let all = self.windows.iter().map(|(&ports, &window)| (ports, window));
        all.max_by_key(|&(ports, window)| (window.filled, std::cmp::Reverse(ports)))
    }

    /// Returns the activity of a process.
    pub fn of(&self, process: i32) -> Option<&SocketActivity> {
        self.processes.get(&process)
    }

    /// Returns the port on which the process receives requests.
    pub fn port(&self, process: i32) -> Option<u16> {
        self.ports.get(&process).copied()
    }

    /// Returns the process that receives requests on this port.
    pub fn process_at(&self, port: u16) -> Option<i32> {
        self.ports.iter().filter(|&(_, &known)| known == port).map(|(&process, _)| process).min()
    }

    /// Returns the sum over several processes.
    pub fn together(&self, processes: impl IntoIterator<Item = i32>) -> SocketActivity {
        let mut out = SocketActivity::default();
        for activity in processes.into_iter().filter_map(|process| self.of(process)) {
            out.asked.add(&activity.asked);
            out.served.add(&activity.served);
            out.accepted.add(&activity.accepted);
            out.connections += activity.connections;
            out.unanswered += activity.unanswered;
            out.unconnected += activity.unconnected;
        }
        out
    }
}
