//! Requests and their replies, as the calls of processes on sockets show them.
//!
//! On one connection a client sends and then receives, a server receives and then sends. So the time from the first byte that a
//! process sends to the first one that it receives is a *response* if the process is the client, and the time from the first byte
//! received to the first one sent is a *service* if it is the server. Where neither `accept` nor `connect` was seen, a process that
//! listens is the server if all TCP connections that it had when the recording began are of its
//! listening ports. Else the longer of the two kinds of gaps decides: a client that works without pause waits for its replies, a server that is asked works on them.
//!
//! The sums say how many requests are answered at the load generator (the progress of a run), how long each takes, and how many
//! are open in a server at a time. A server in which sixteen requests are open while one after the other is answered is a
//! *serialisation*; nothing but these sums shows it where threads of one process hand work to each other in user space.
//!
//! Example: a proxy with 8 clients and one connection to a backend has `served` 8 open requests and `asked` one.

use crate::network::links::{Link, Links};
use crate::stats::histogram::Histogram;
use crate::verdict::file_locks::{FileLock, FileLocks};
use crate::verdict::inversions::{Inversion, Inversions};
use longpole_model::linux::net::{Hop, Step};
use longpole_model::linux::watch::{Base, Call, CpuId, Mode, Moment, Occupant, ThreadId, Wait, Wake, Waker, Watch, Why};
use longpole_model::linux::{FileKind, Linux};
use longpole_model::names::NameId;
use std::collections::{BTreeMap, HashMap};

/// Most connections at one time; calls on further ones are not counted.
const MOST_CONNECTIONS: usize = 1 << 16;
/// `TCP_LISTEN` of include/net/tcp_states.h.
const LISTENING: i64 = 10;
/// `IPPROTO_TCP`.
const TCP: i64 = 6;
/// What `connect` returns where it goes on without its caller, and where nobody answered.
const IN_PROGRESS: i64 = -115;
const TIMED_OUT: i64 = -110;
/// A request that is sent again on the same connection after so long was not answered.
const SENT_AGAIN_NS: i64 = 10_000_000;

/// What a call does to a connection.
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

#[derive(Clone, Debug, Default)]
struct Connection {
    role: Option<Role>,
    /// Begin of what goes on: the first byte of this direction since the other one's last.
    since: Option<(Last, i64)>,
    from_send: Gaps,
    from_receive: Gaps,
    /// The first of the times from what was received to what was sent.
    first_ns: Option<u64>,
    /// `connect` went on without its caller, and nothing was transferred since.
    is_connecting: bool,
    /// Requests that were sent again after a while without a reply.
    again: u64,
}

/// The direction of what was transferred last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Last {
    Sent,
    Received,
}

/// Times between the first byte of one direction and the first one of the other.
#[derive(Clone, Debug, Default)]
pub struct Gaps {
    pub count: u64,
    pub total_ns: u64,
    pub times: Histogram,
    /// Times of the first and the last end.
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

    /// How many are open at a time, on average.
    pub fn open(&self) -> f64 {
        self.total_ns as f64 / self.length_ns().max(1) as f64
    }

    /// Ends per second.
    pub fn rate(&self) -> f64 {
        self.count.saturating_sub(1) as f64 * 1e9 / self.length_ns().max(1) as f64
    }
}

/// Connections that a server accepted while it was recorded.
#[derive(Clone, Copy, Debug, Default)]
pub struct Accepted {
    pub connections: u64,
    /// Times from what was received to what was sent, of all these connections.
    pub exchanges: u64,
    pub total_ns: u64,
    /// The first one of each.
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

/// What a process does on its sockets.
#[derive(Clone, Debug, Default)]
pub struct Conduct {
    /// Times from request to reply, where the process is the client.
    pub asked: Gaps,
    /// Times from request to reply, where the process is the server.
    pub served: Gaps,
    pub accepted: Accepted,
    /// Connections on which anything was exchanged.
    pub connections: u64,
    /// Requests after which nothing was received until the connection ended, or another request was sent much later.
    pub unanswered: u64,
    /// Attempts to connect that did not lead to a transfer.
    pub unconnected: u64,
}

#[derive(Debug, Default)]
pub struct Exchanges {
    heard: Vec<Call>,
    acts: Vec<Option<Act>>,
    open: HashMap<(i32, i64), Connection>,
    conducts: HashMap<i32, Conduct>,
    /// Ports on which a process listens, with how often each was seen.
    ports: HashMap<i32, BTreeMap<u16, u64>>,
    /// Local ports of the TCP connections that a process had when the recording began.
    connected: HashMap<i32, Vec<u16>>,
    /// Sockets of unknown role on which a process sent or received.
    of_unknown_role: HashMap<i32, u64>,
    listens: Vec<(ThreadId, u16)>,
    /// Connections whose receiver has little room, by the ports of sender and receiver.
    windows: HashMap<(u16, u16), Window>,
    links: Links,
    inversions: Inversions,
    file_locks: FileLocks,
    /// Threads that freed memory themselves, with the time of that, until their ids are looked up.
    reclaimed: Vec<(ThreadId, u64)>,
    reclaims: HashMap<i32, Reclaims>,
    /// Processes that were forked, with their parents: a server's children answer on its port.
    forks: Vec<(ThreadId, ThreadId)>,
    parents: HashMap<i32, i32>,
}

/// A connection whose receiver's window was small at some acknowledgement: only those are recorded.
#[derive(Clone, Copy, Debug, Default)]
pub struct Window {
    /// Acknowledgements, and those at which the sender had filled at least half of the window.
    pub count: u64,
    pub filled: u64,
    pub total_bytes: u64,
    pub first_ns: i64,
    pub last_ns: i64,
}

/// What a thread spent in freeing memory, since there was none.
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
            // The port of a connection that the process made is nothing on which it could be asked.
            Step::Socket { protocol: TCP, port, tid, state: Some(state) } if state != LISTENING => {
                self.connected.entry(tid).or_default().push(port);
            }
            Step::Socket { port, tid, .. } => *self.ports.entry(tid).or_default().entry(port).or_default() += 1,
            _ => {}
        }
    }
}

impl Exchanges {
    /// To be called after each event: what was heard is understood with the model as it is now.
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
            // A port that a process listens on counts more than any number of others that it has.
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
            Act::Connect if result == TIMED_OUT => self.conducts.entry(process).or_default().unconnected += 1,
            Act::Close => self.ends((process, about)),
            Act::Send | Act::Receive if result > 0 && linux.file_kind(process, about) == Some(FileKind::Socket) => {
                let known = self.open.len() < MOST_CONNECTIONS || self.open.contains_key(&(process, about));
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
        if self.open.len() < MOST_CONNECTIONS {
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
            // What is sent leaves the sender when the call begins.
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
            // What it inherits from a process that listens was accepted there.
            let inherits = self.parents.get(&of.0).is_some_and(|parent| self.ports.contains_key(parent));
            if connection.role.is_none() && (inherits || self.only_accepts(of.0)) {
                connection.role = Some(Role::Server);
            }
            add(self.conducts.entry(of.0).or_default(), &connection);
        }
    }

    /// Whether a process listens, and all its sockets of unknown role were accepted by it: as many
    /// TCP connections as those had a port on which it listens when the recording began.
    fn only_accepts(&self, process: i32) -> bool {
        let (Some(connected), Some(own)) = (self.connected.get(&process), self.ports.get(&process)) else { return false };
        let sockets = self.of_unknown_role.get(&process).copied().unwrap_or(0);
        sockets <= connected.len() as u64 && connected.iter().all(|port| own.contains_key(port))
    }

    /// What each process did, by its id, with the port on which it is asked.
    pub fn finish(mut self) -> Conducts {
        let mut open: Vec<_> = self.open.keys().copied().collect();
        open.sort_unstable();
        open.into_iter().for_each(|of| self.ends(of));
        let port = |ports: BTreeMap<u16, u64>| ports.into_iter().max_by_key(|&(port, count)| (count, std::cmp::Reverse(port)));
        let ports = self.ports.into_iter().filter_map(|(process, ports)| Some((process, port(ports)?.0))).collect();
        Conducts {
            processes: self.conducts,
            ports,
            windows: self.windows,
            link: self.links.busiest(),
            inversions: self.inversions.finish(),
            file_locks: self.file_locks.finish(),
            reclaims: self.reclaims,
        }
    }
}

fn add(conduct: &mut Conduct, connection: &Connection) {
    let Connection { role, from_send, from_receive, since, .. } = connection;
    conduct.unconnected += u64::from(connection.is_connecting);
    let is_waiting = matches!(since, Some((Last::Sent, _))) && from_send.count == 0 && from_receive.count == 0;
    // What a server sends is no request.
    if *role != Some(Role::Server) {
        conduct.unanswered += connection.again + u64::from(is_waiting);
    }
    if from_send.count + from_receive.count == 0 {
        return;
    }
    conduct.connections += 1;
    let is_client = match role {
        Some(role) => *role == Role::Client,
        None => from_send.total_ns > from_receive.total_ns,
    };
    if let (Some(Role::Server), Some(first_ns)) = (role, connection.first_ns) {
        let (exchanges, total_ns) = (from_receive.count, from_receive.total_ns);
        conduct.accepted.add(&Accepted { connections: 1, exchanges, total_ns, first_ns });
    }
    match is_client {
        true => conduct.asked.add(from_send),
        false => conduct.served.add(from_receive),
    }
}

/// The exchanges of all processes.
#[derive(Debug, Default)]
pub struct Conducts {
    processes: HashMap<i32, Conduct>,
    ports: HashMap<i32, u16>,
    windows: HashMap<(u16, u16), Window>,
    /// The link for which packets waited for the longest time.
    pub link: Option<Link>,
    /// Those with most inverted time first.
    pub inversions: Vec<Inversion>,
    /// Those with the longest waits first.
    pub file_locks: Vec<FileLock>,
    /// By thread id.
    pub reclaims: HashMap<i32, Reclaims>,
}

impl Conducts {
    /// The connection whose sender most often had its receiver's small window full: ports of sender and receiver.
    pub fn narrowest(&self) -> Option<((u16, u16), Window)> {
        let all = self.windows.iter().map(|(&ports, &window)| (ports, window));
        all.max_by_key(|&(ports, window)| (window.filled, std::cmp::Reverse(ports)))
    }

    pub fn of(&self, process: i32) -> Option<&Conduct> {
        self.processes.get(&process)
    }

    /// The port on which the process is asked.
    pub fn port(&self, process: i32) -> Option<u16> {
        self.ports.get(&process).copied()
    }

    /// The process that is asked on this port.
    pub fn process_at(&self, port: u16) -> Option<i32> {
        self.ports.iter().filter(|&(_, &known)| known == port).map(|(&process, _)| process).min()
    }

    /// Of several processes together.
    pub fn together(&self, processes: impl IntoIterator<Item = i32>) -> Conduct {
        let mut out = Conduct::default();
        for conduct in processes.into_iter().filter_map(|process| self.of(process)) {
            out.asked.add(&conduct.asked);
            out.served.add(&conduct.served);
            out.accepted.add(&conduct.accepted);
            out.connections += conduct.connections;
            out.unanswered += conduct.unanswered;
            out.unconnected += conduct.unconnected;
        }
        out
    }
}
