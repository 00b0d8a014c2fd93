//! Verdicts on requests: how many are open, how many a subject processes at a time, and whether a
//! client sends one after the other.

use crate::verdict::data::because::Because;
use crate::verdict::data::{Mechanism, Outcome, RunnerUp, Verdict};
use crate::verdict::facts::exchanges::{self, SocketActivity};
use crate::verdict::parts::{Does, Part};
use crate::verdict::subjects::{FromTo, Role, SubjectId};
use crate::verdict::Case;
use longpole_model::names::NameId;
use longpole_model::system_calls::CallFamily;
use std::cmp::Reverse;
use std::collections::{BTreeMap, HashSet, VecDeque};

impl Case<'_> {
    /// Returns a reason if the client of this subject sends many requests, one after the other, and
    /// spends most of its time waiting for the replies. The mechanism is missing if fewer requests
    /// would not help.
    pub(in crate::verdict) fn chatty(&self, subject: SubjectId) -> Option<(Because, Option<Mechanism>)> {
        let length = self.traffic.length_ns().max(1) as f64;
        let askers = self.wakeups_between.iter().filter(|(pair, _)| pair.to == subject);
        let asker = askers.max_by_key(|&(pair, &count)| (count, Reverse(pair.from))).map(|(pair, _)| pair.from)?;
        let SocketActivity { asked, served, .. } = &self.subjects.get(asker).activity;
        let one_at_a_time = asked.open() <= 1.0 + self.limits.considerable_share;
        let waits = asked.total_ns as f64 >= self.limits.majority * length;
        if asker == subject || asked.count < self.limits.min_repetitions || !one_at_a_time || !waits {
            return None;
        }
        let per_request = (served.count >= self.limits.min_occurrences).then(|| asked.count as f64 / served.count as f64);
        let (count, mean_ns) = (asked.count, asked.total_ns / asked.count);
        let because = Because::RoundTrips {
            asker: Some(self.name(asker, None)),
            count,
            mean_ns,
            callee: Some(self.name(subject, None)),
            per_request,
            most: None,
        };
        Some((because, (!self.replies_are_work(asker, subject)).then_some(Mechanism::RoundTrips)))
    }

    /// Returns a reason if this server sends several requests to another one, one after the other,
    /// for each request that it answers, and waits for a considerable part of the time for the
    /// replies (N + 1 queries).
    pub(in crate::verdict) fn asks_often(&self, server: SubjectId) -> Option<(Because, Option<Mechanism>)> {
        let SocketActivity { asked, served, .. } = &self.subjects.get(server).activity;
        let serves = |of: &SubjectId| self.subjects.get(*of).activity.served.count as f64 >= self.limits.majority * asked.count as f64;
        let callee = self.mostly_asks_of(server, serves)?;
        let per_request = asked.count as f64 / served.count.max(1) as f64;
        let is_often = served.count >= self.limits.min_occurrences && per_request >= self.limits.max_similar_ratio;
        let one_at_a_time = asked.open() <= served.open() * (1.0 + self.limits.considerable_share);
        let waits = asked.total_ns as f64 >= self.limits.considerable_share * served.total_ns as f64;
        if callee == server || asked.count < self.limits.min_repetitions || !is_often || !one_at_a_time || !waits {
            return None;
        }
        let because = Because::RoundTrips {
            asker: Some(self.name(server, None)),
            count: asked.count,
            mean_ns: asked.total_ns / asked.count,
            callee: Some(self.name(callee, None)),
            per_request: Some(per_request),
            most: None,
        };
        Some((because, (!self.replies_are_work(server, callee)).then_some(Mechanism::RoundTrips)))
    }

    /// Judges a server to which a connection is made for each request, and which does most of its
    /// work in the first exchange of each connection (a handshake).
    pub(in crate::verdict) fn by_connections(&self) -> Option<Verdict> {
        let first = self.parts.wholes.iter().filter(|whole| self.is_program(whole.subject));
        // A client may have as much work for a handshake as its server.
        let whole = first.take(2).find(|whole| self.is_handshaking(whole.subject))?;
        let accepted = &self.subjects.get(whole.subject).activity.accepted;
        if whole.share < self.limits.min_share {
            return None;
        }
        let own: Vec<_> = self.parts.of(whole.subject).filter(|part| part.does != Does::Transit).collect();
        // A server that sleeps or waits for a disk during a handshake is slow because of that.
        let busy: u64 = own.iter().filter(|part| part.does.is_work() || part.does == Does::Runnable).map(|part| part.ns).sum();
        if (busy as f64) < self.limits.majority * whole.ns as f64 {
            return None;
        }
        let mut verdict = self.verdict_on(Outcome::Bottleneck, whole.subject, &[]);
        verdict.subject = Some(self.name(whole.subject, None));
        verdict.set_share(whole.share, whole.error);
        verdict.evidence = whole.evidence;
        verdict.mechanism = Some(Mechanism::ConnectionPerRequest);
        let length = self.traffic.length_ns().max(1) as f64;
        let ran: u64 = self.owned(whole.subject).map(|own| own.ran_ns).sum();
        let askers = self.wakeups_between.iter().filter(|(pair, _)| pair.to == whole.subject && pair.from != whole.subject);
        let askers = askers.filter(|(pair, _)| self.subjects.get(pair.from).activity.asked.count >= self.limits.min_occurrences);
        let by = askers.max_by_key(|&(pair, &count)| (count, Reverse(pair.from))).map(|(pair, _)| self.name(pair.from, None));
        verdict.because.push(Because::Accepts {
            connections: accepted.connections,
            per_second: accepted.connections as f64 * 1e9 / length,
            exchanges: accepted.exchanges as f64 / accepted.connections as f64,
            first: accepted.first_ns as f64 / accepted.total_ns.max(1) as f64,
            cpu_ns: ran / accepted.connections,
            by,
        });
        Some(verdict)
    }

    /// Returns whether connections arrive throughout the run and end soon, have further exchanges
    /// after the first, and the first exchange still takes most of the server's time.
    fn is_handshaking(&self, subject: SubjectId) -> bool {
        let accepted = &self.subjects.get(subject).activity.accepted;
        let follows = accepted.exchanges as f64 >= (1.0 + self.limits.majority) * accepted.connections as f64;
        // On a connection that stays open, the first request may be a large one; fewer connections
        // would not save it.
        let ends_soon = accepted.exchanges < self.limits.min_occurrences * accepted.connections;
        let is_most = accepted.first_ns as f64 >= self.limits.majority * accepted.total_ns as f64;
        accepted.connections >= self.limits.min_occurrences && ends_soon && follows && is_most
    }

    /// Judges a client that sends request after request, one at a time, and spends most of its time
    /// waiting for replies.
    pub(in crate::verdict) fn by_round_trips(&self) -> Option<Verdict> {
        let wholes = self.parts.wholes.iter().filter(|whole| self.is_program(whole.subject));
        let length = self.traffic.length_ns().max(1) as f64;
        let mut asking = wholes.filter_map(|whole| {
            let activity = &self.subjects.get(whole.subject).activity;
            let asked = &activity.asked;
            let share = asked.total_ns as f64 / length;
            let one_at_a_time = asked.open() <= 1.0 + self.limits.considerable_share;
            let is_chatty = asked.count >= self.limits.min_repetitions && one_at_a_time && share >= self.limits.majority;
            let callee = self.mostly_asks(whole.subject);
            let is_work = callee.is_some_and(|callee| self.replies_are_work(whole.subject, callee));
            (is_chatty && !is_work && !self.waits_for_others(whole.subject, callee)).then_some((whole.subject, share, callee))
        });
        let (subject, share, callee) = asking.next()?;
        let activity = &self.subjects.get(subject).activity;
        let (asked, served) = (&activity.asked, &activity.served);
        let mut verdict = self.without_subject(Outcome::Bottleneck);
        verdict.subject = Some(self.name(subject, None));
        verdict.set_exact_share(share);
        verdict.mechanism = Some(Mechanism::RoundTrips);
        let per_request = (served.count >= self.limits.min_occurrences).then(|| asked.count as f64 / served.count as f64);
        verdict.because.push(Because::RoundTrips {
            asker: None,
            count: asked.count,
            mean_ns: asked.total_ns / asked.count,
            callee: callee.map(|callee| self.name(callee, None)),
            per_request,
            most: self.most_of_replies(subject, share),
        });
        verdict.because.extend(callee.and_then(|callee| self.short_processes(callee)));
        Some(verdict)
    }

    /// Returns whether nearly all of the path outside of a client is work of its server, other than
    /// to receive requests and to send replies. As much work in fewer requests would take as long.
    fn replies_are_work(&self, client: SubjectId, server: SubjectId) -> bool {
        let transfers = |part: &Part| part.does == Does::SystemCall && exchanges::is_transfer(&part.state);
        let replies = self.share(|part| part.subject != client);
        let work = self.share(|part| part.subject == server && part.does.is_work() && !transfers(part));
        replies - work < self.limits.considerable_share * replies
    }

    /// Returns the state in which the path is for most of the time of the replies to a client,
    /// which is `share` of the run.
    fn most_of_replies(&self, client: SubjectId, share: f64) -> Option<RunnerUp> {
        let of_others = self.parts.parts.iter().filter(|part| part.does != Does::Transit && part.subject != client);
        let most = of_others.filter(|part| self.is_program(part.subject)).max_by(|a, b| a.share.total_cmp(&b.share))?;
        (most.share >= self.limits.majority * share).then(|| self.runner_up(most))
    }

    /// Returns a reason if requests of others are open in the server that a client wakes most
    /// often: those of consumers in a broker, or those that wait in a server for a worker, or for a
    /// lock. The path must pass between the two on its way to another client.
    pub(in crate::verdict) fn open_requests_of_others(&self, client: SubjectId) -> Option<Because> {
        let is_server = |subject: SubjectId| self.subjects.get(subject).role == Role::Server;
        if self.is_end(client) || is_server(client) || self.role(client).is_some() {
            return None;
        }
        let entries = &self.parts.crossings.entries;
        let passes = |from, to| entries.contains_key(&FromTo { from, to });
        let is_asked = |&server: &SubjectId| is_server(server) && (passes(client, server) || passes(server, client));
        let server = self.mostly_asks(client).filter(is_asked)?;
        let open = self.open(server);
        let of_others = open - self.subjects.get(client).activity.asked.open();
        (of_others >= 1.0 + self.limits.min_waiting).then(|| Because::OpenRequests { at: self.name(server, None), open })
    }

    /// Returns a reason if most of the time of the requests to a server on the path is spent in
    /// waits for other threads of the same program.
    pub(in crate::verdict) fn held_requests(&self) -> Option<Because> {
        let held = self.parts.wholes.iter().filter_map(|whole| {
            let server = self.subjects.get(whole.subject);
            let SocketActivity { served, held, .. } = &server.activity;
            if held.is_empty() {
                return None;
            }
            let own: HashSet<i32> = self
                .subjects
                .iter()
                .filter(|(other, _)| self.is_same_program(whole.subject, *other))
                .flat_map(|(_, other)| other.processes.iter().copied())
                .collect();
            let mut calls: BTreeMap<NameId, u64> = BTreeMap::new();
            held.iter()
                .filter(|((process, _), _)| own.contains(process))
                .for_each(|((_, call), ns)| *calls.entry(*call).or_default() += ns);
            let ns: u64 = calls.values().sum();
            let waiting = served.open() * ns as f64 / served.total_ns.max(1) as f64;
            let is_most = ns as f64 >= self.limits.majority * served.total_ns as f64;
            let call = calls.into_iter().max_by_key(|&(call, ns)| (ns, Reverse(call)))?.0;
            (is_most && waiting >= self.limits.min_waiting && served.count >= self.limits.min_occurrences).then_some((
                waiting,
                whole.subject,
                call,
            ))
        });
        let (waiting, at, call) = held.max_by(|a, b| a.0.total_cmp(&b.0))?;
        let call = self.off_path.sockets.held_in(call).to_owned();
        Some(Because::HeldRequests { at: self.name(at, None), waiting, call, is_passed_on: self.passes_on(at) })
    }

    /// Returns a reason if all processes of a server on the path are occupied by requests, while
    /// more requests of its clients are open: these wait until a process accepts them.
    pub(in crate::verdict) fn occupied(&self) -> Option<Because> {
        let found = self.parts.wholes.iter().filter_map(|whole| {
            let server = self.subjects.get(whole.subject);
            let (served, processes) = (&server.activity.served, server.processes.len() as u64);
            let open = self.open(whole.subject);
            // A process that serves several requests at a time accepts the next one at once.
            let (at_a_time, share) = (served.open() / processes as f64, self.limits.considerable_share);
            let are_all = (1.0 - share..=1.0 + share).contains(&at_a_time) && self.workers(whole.subject) <= processes;
            let is_full = processes > 1 && are_all && open >= served.open() + self.limits.min_waiting;
            (is_full && served.count >= self.limits.min_occurrences).then_some((open, processes, whole.subject))
        });
        let (open, processes, at) = found.max_by(|a, b| a.0.total_cmp(&b.0))?;
        Some(Because::Occupied { at: self.name(at, None), processes, open })
    }

    /// Returns the subject that a client wakes most often.
    fn mostly_asks(&self, client: SubjectId) -> Option<SubjectId> {
        self.mostly_asks_of(client, |_| true)
    }

    /// Returns the same among some subjects.
    fn mostly_asks_of(&self, client: SubjectId, is_meant: impl Fn(&SubjectId) -> bool) -> Option<SubjectId> {
        let callees = self.wakeups_between.iter().filter(|(pair, _)| pair.from == client && is_meant(&pair.to));
        callees.max_by_key(|&(pair, &count)| (count, Reverse(pair.to))).map(|(pair, _)| pair.to)
    }

    /// Returns whether most of the path is neither in these two subjects nor in transit between
    /// them. The replies then wait for another subject, such as the reply to a request for the next
    /// item of an empty queue.
    fn waits_for_others(&self, client: SubjectId, callee: Option<SubjectId>) -> bool {
        let is_other = |subject: SubjectId| self.is_program(subject) && subject != client && Some(subject) != callee;
        self.share(|part| part.does != Does::Transit && is_other(part.subject)) >= self.limits.majority
    }

    /// Returns a reason if requests wait for one another in this subject, or in one that calls it,
    /// with the subject in which they wait. That is so if more requests are open than calls of it
    /// are outstanding, or than the path's stays in it allow.
    pub(in crate::verdict) fn serialisation(&self, subject: SubjectId) -> Option<(SubjectId, Because)> {
        let serialised = |at: SubjectId, (open, at_a_time): (f64, f64), callee: Option<SubjectId>| {
            let (threads, callee) = (self.workers(at), callee.map(|callee| self.name(callee, None)));
            (at, Because::Serialised { at: self.name(at, None), open, at_a_time, callee, threads })
        };
        for (at, callee) in self.callers(subject) {
            let (open, at_a_time) = (self.open(at), self.subjects.get(at).activity.asked.open());
            if self.is_limit(open, at_a_time) && self.sees_calls(at_a_time, callee) {
                return Some(serialised(at, (open, at_a_time), Some(callee)));
            }
        }
        Some(serialised(subject, self.waiting_requests(subject)?, None))
    }

    /// Returns whether the calls of a subject explain its time on the path: while the path is
    /// there, at least one call is outstanding. A call that begins without a request, as by a
    /// server that talks first, is not seen.
    pub(in crate::verdict) fn sees_calls(&self, outstanding: f64, callee: SubjectId) -> bool {
        let share: f64 = self.parts.wholes.iter().filter(|whole| whole.subject == callee).map(|whole| whole.share).sum();
        outstanding >= self.limits.majority * share
    }

    /// Returns the servers from which the path comes to this one, the nearest first, each with the
    /// one that it calls: those that call this one, those that call these, and so on. Each of them
    /// asks others for at least half of the requests that it answers. The path also comes from a
    /// server that has answered; a caller has most of its callee's requests open.
    fn callers(&self, subject: SubjectId) -> Vec<(SubjectId, SubjectId)> {
        let asks = |from: SubjectId| {
            let SocketActivity { served, asked, .. } = &self.subjects.get(from).activity;
            served.count.min(asked.count) >= self.limits.min_occurrences && 2 * asked.count >= served.count
        };
        let mut found: Vec<(SubjectId, SubjectId)> = Vec::new();
        let mut callees = VecDeque::from([subject]);
        while let Some(callee) = callees.pop_front() {
            let is_new = |from: SubjectId| from != subject && found.iter().all(|(known, _)| *known != from);
            let served = &self.subjects.get(callee).activity.served;
            let has_most = |from: SubjectId| {
                let asked = &self.subjects.get(from).activity.asked;
                2 * asked.count >= served.count && asked.open() >= self.limits.majority * served.open()
            };
            let entries = self.parts.entries_into(callee).filter(|_| self.is_called(callee));
            let mut callers: Vec<SubjectId> =
                entries.map(|(from, _)| from).filter(|&from| asks(from) && is_new(from) && (callee == subject || has_most(from))).collect();
            callers.sort_unstable();
            found.extend(callers.iter().map(|&from| (from, callee)));
            callees.extend(callers);
        }
        found
    }

    /// Returns whether the path can come to a subject because it is called. Nobody calls a client:
    /// to it, the path comes from the server that has answered.
    pub(in crate::verdict) fn is_called(&self, subject: SubjectId) -> bool {
        self.subjects.get(subject).role != Role::Client
    }

    /// Returns a reason if a subject is a server with one event loop that itself waits for replies.
    pub(in crate::verdict) fn blocks_its_loop(&self, server: SubjectId) -> Option<Because> {
        let SocketActivity { asked, in_receive_ns, served, event_waits, .. } = &self.subjects.get(server).activity;
        let is_server = served.count >= self.limits.min_occurrences && asked.count >= self.limits.min_occurrences;
        // A thread that serves one connection at a time waits for its next request in a receiving
        // call, too.
        let is_loop = 2 * event_waits > served.count && self.workers(server) == 1;
        let is_blocked = *in_receive_ns as f64 >= self.limits.majority * asked.total_ns as f64;
        (is_server && is_loop && is_blocked).then(|| Because::BlocksItsLoop { at: self.name(server, None) })
    }

    /// Returns the mean number of open requests to a subject, and the mean number that it processes
    /// at a time, if clearly more are open.
    pub(in crate::verdict) fn waiting_requests(&self, subject: SubjectId) -> Option<(f64, f64)> {
        let (open, at_a_time) = (self.open(subject), self.at_a_time(subject)?);
        // If as many threads want a CPU as may run at a time, the CPUs are the limit.
        let cpus = self.subjects.allowed(subject).map_or(self.cpus.count, |allowed| allowed.min(self.cpus.count));
        let is_of_cpus = self.computes(subject) && cpus > 0 && at_a_time >= cpus as f64;
        (self.is_limit(open, at_a_time) && !is_of_cpus).then_some((open, at_a_time))
    }

    /// Returns whether clearly more requests are open than are processed at a time.
    fn is_limit(&self, open: f64, at_a_time: f64) -> bool {
        open - at_a_time >= self.limits.min_waiting && at_a_time <= self.limits.majority * open
    }

    /// Returns the mean number of open requests to a subject: those that it has read, or those that
    /// its clients have sent, whichever is larger.
    pub(in crate::verdict) fn open(&self, subject: SubjectId) -> f64 {
        let served = &self.subjects.get(subject).activity.served;
        // A server that never waits for a request is not woken by its clients, but wakes them.
        let others = self.wakeups_between.iter().filter(|(_, &count)| count >= self.limits.min_occurrences);
        let askers = others.filter_map(|(pair, _)| match (pair.from == subject, pair.to == subject) {
            (false, true) => Some(pair.from),
            (true, false) => Some(pair.to),
            _ => None,
        });
        let askers = askers.map(|asker| &self.subjects.get(asker).activity.asked);
        let askers = askers.filter(|asked| 2 * asked.count >= served.count && asked.count <= 2 * served.count);
        askers.map(|asked| asked.open()).fold(served.open(), f64::max)
    }

    /// Returns the number of threads of a subject that run for a considerable time, compared with
    /// the one that runs longest.
    fn workers(&self, subject: SubjectId) -> u64 {
        let ran: Vec<u64> = self.owned(subject).map(|own| own.ran_ns).collect();
        let most = ran.iter().max().copied().unwrap_or(0);
        ran.iter().filter(|&&ns| ns as f64 >= self.limits.considerable_share * most as f64).count() as u64
    }

    /// Returns whether the subject's sleeps on the path are clearly more alike than those until the
    /// timers of requests that come at random: of such, the standard deviation equals the mean.
    fn sleeps_regularly(&self, subject: SubjectId) -> bool {
        let (mut count, mut sum, mut squares) = (0, 0, 0.0);
        for part in self.parts.of(subject).filter(|part| part.does == Does::Sleeps) {
            (count, sum, squares) = (count + part.count, sum + part.ns, squares + part.squares);
        }
        let mean = sum as f64 / count.max(1) as f64;
        let variance = squares / count.max(1) as f64 - mean * mean;
        count >= self.limits.min_occurrences && self.limits.min_lead * variance.max(0.0).sqrt() <= mean
    }

    /// Returns whether a subject works for most of its time on the path, or is ready to.
    fn computes(&self, subject: SubjectId) -> bool {
        let is_work = |part: &&Part| part.does.is_work() || part.does == Does::Runnable;
        let works: u64 = self.parts.of(subject).filter(is_work).map(|part| part.ns).sum();
        self.parts.whole(subject).is_some_and(|whole| 2 * works > whole.ns)
    }

    /// Returns the mean number of requests that a subject processes at a time; `None` if the path
    /// does not show it.
    pub(in crate::verdict) fn at_a_time(&self, subject: SubjectId) -> Option<f64> {
        let served = &self.subjects.get(subject).activity.served;
        let whole = self.parts.whole(subject).filter(|whole| whole.visits > 0)?;
        if served.count < self.limits.min_occurrences {
            return None;
        }
        if self.computes(subject) {
            // A request whose thread waits for a CPU is processed as well.
            return Some(self.wanted_cpus(subject).max(1.0));
        }
        // A thread that waits for events may work on many requests at once; the path shows only
        // when it wakes up. Its timers then end at any time. If its sleeps last equally long, the
        // next one begins when the one before has ended.
        let waits = self.parts.of(subject).filter(|part| !part.does.is_work() && part.does != Does::Runnable);
        let waits_for_events = waits.max_by_key(|part| part.ns).is_some_and(|part| part.call == CallFamily::WaitForEvents);
        if waits_for_events && (self.workers(subject) as f64) < served.open() && !self.sleeps_regularly(subject) {
            return None;
        }
        // The subject waits: the path enters and leaves it several times during the time of one
        // request, because it follows one of the open requests at a time.
        let mean = served.total_ns as f64 / served.count as f64;
        // If it never leaves, the next request begins where it passes from one thread to another.
        let never_leaves = (whole.visits as f64) < self.limits.considerable_share * served.count as f64;
        let handed_over = self.parts.crossings.handed_over.get(&subject).filter(|_| never_leaves);
        let stays = whole.ns as f64 / (whole.visits + handed_over.copied().unwrap_or(0)) as f64;
        Some((served.open() * stays / mean.max(1.0)).max(1.0))
    }
}
