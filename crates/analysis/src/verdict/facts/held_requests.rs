//! Requests that wait inside a server for another of its threads, as for a lock of the server's
//! data.
//!
//! A thread that has received a request and not answered it serves that request. If it is blocked
//! meanwhile until another thread wakes it, that wait is part of its request, unless the other
//! thread works for it: it serves no request of its own, and was woken for this one before. The
//! waits are counted when the same thread sends the reply. Threads that serve several open
//! connections are left out: their waits belong to no single request.
//!
//! Example: a session of a database waits in `futex` for a row lock, until the session of a
//! transaction commits.

use longpole_model::hash::IdMap;
use longpole_model::names::NameId;

/// Largest number of threads; requests to further threads are not followed.
const MAX_THREADS: usize = 1 << 16;
/// Largest number of pairs of holder and call in one request, and of threads that it wakes; further
/// ones are not counted.
const MAX_WAITS: usize = 64;

/// Waits for threads of one process, in one system call.
#[derive(Clone, Copy, Debug)]
pub(in crate::verdict) struct Wait {
    /// Process id of the thread that ended the wait.
    pub holder: i32,
    pub call: NameId,
    pub ns: u64,
}

/// A thread that receives requests.
#[derive(Debug)]
struct Serving {
    /// Connection of the last request: process id and file descriptor.
    of: (i32, i64),
    is_answered: bool,
    /// True if the thread has served several connections that were open at the same time.
    serves_several: bool,
    waits: Vec<Wait>,
    /// Threads that it has woken since the request arrived.
    asked: Vec<i32>,
}

/// The threads that receive requests, by thread id.
#[derive(Debug, Default)]
pub(in crate::verdict) struct HeldRequests {
    threads: IdMap<i32, Serving>,
}

impl HeldRequests {
    /// A thread has received a request. `is_open` tells whether a connection is still open.
    pub fn received(&mut self, tid: i32, of: (i32, i64), is_open: impl Fn((i32, i64)) -> bool) {
        if self.threads.len() >= MAX_THREADS && !self.threads.contains_key(&tid) {
            // Most of them have ended.
            self.threads.retain(|_, serving| !serving.is_answered);
            if self.threads.len() >= MAX_THREADS {
                return;
            }
        }
        let new = || Serving { of, is_answered: false, serves_several: false, waits: Vec::new(), asked: Vec::new() };
        let serving = self.threads.entry(tid).or_insert_with(new);
        serving.serves_several |= serving.of != of && is_open(serving.of);
        (serving.of, serving.is_answered) = (of, false);
        serving.waits.clear();
        serving.asked.clear();
    }

    /// A thread has been blocked in a system call for `ns`, until the thread `by` of the process
    /// `holder` woke it. Returns whether that is part of a request.
    pub fn waited(&mut self, tid: i32, (by, holder): (i32, i32), call: NameId, ns: u64) -> bool {
        if let Some(waker) = self.threads.get_mut(&by).filter(|waker| !waker.is_answered && waker.asked.len() < MAX_WAITS) {
            waker.asked.push(tid);
        }
        // A thread that serves a request itself works for that one: it has only passed on a lock.
        let serves = self.threads.get(&by).is_some_and(|waker| !waker.is_answered);
        let serving = self.threads.get_mut(&tid).filter(|serving| !serving.is_answered && !serving.serves_several);
        let Some(serving) = serving.filter(|serving| tid != by && (serves || !serving.asked.contains(&by))) else { return false };
        let known = serving.waits.iter().position(|wait| (wait.holder, wait.call) == (holder, call));
        match known {
            Some(at) => serving.waits[at].ns += ns,
            None if serving.waits.len() < MAX_WAITS => serving.waits.push(Wait { holder, call, ns }),
            None => return false,
        }
        true
    }

    /// A thread has sent a reply. Returns the waits within its request.
    pub fn replied(&mut self, tid: i32, of: (i32, i64)) -> &[Wait] {
        match self.threads.get_mut(&tid) {
            Some(serving) if serving.of == of && !serving.is_answered => {
                serving.is_answered = true;
                &serving.waits
            }
            _ => &[],
        }
    }
}
