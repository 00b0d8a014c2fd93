//! Queues, calls and timers: what machines wait for, and what ends a wait.

use super::{Engine, Event};
use crate::draw::{mix, word};
use crate::queue::{Token, Want};
use crate::sink::{Effect, Sink, Wait};
use crate::system::Id;

impl<S: Sink> Engine<'_, S> {
    /// Puts a token, or reserves its space. Returns false if there is no room: then the machine
    /// waits and continues after this step.
    pub(super) fn put(&mut self, machine: Id, queue: Id, token: Token, reserve: bool) -> bool {
        let running = self.queue(queue);
        if running.putters.is_empty() && running.can_put(machine, token.n, reserve) {
            self.puts(machine, queue, token, reserve);
            self.serve_waiting(queue);
            return true;
        }
        running.putters.push_back((machine, token, reserve));
        self.block(machine, Wait::Space(queue));
        false
    }

    fn puts(&mut self, machine: Id, queue: Id, token: Token, reserve: bool) {
        self.queue(queue).take_space(machine, token.n, reserve);
        if reserve {
            self.emit(machine, Effect::Reserve(queue, token.n));
            return;
        }
        self.emit(machine, Effect::Put(queue, token.n));
        let running = self.queue(queue);
        let count = running.puts;
        running.puts += token.n;
        let Some(latency) = self.system.queues[queue as usize].latency else {
            return self.add(queue, token);
        };
        let arrives = self.now + latency.at(word(self.stream_of(queue), count));
        let running = self.queue(queue);
        // A wire preserves the order of tokens.
        let arrives = arrives.max(running.arriving.back().map_or(0, |last| last.0));
        running.arriving.push_back((arrives, token));
        self.later(arrives - self.now, Event::Arrival(queue));
    }

    pub(super) fn add(&mut self, queue: Id, token: Token) {
        let running = self.queue(queue);
        running.units += token.n;
        if running.is_call {
            running.callers.push_back(token.caller);
        }
    }

    pub(super) fn get(&mut self, machine: Id, queue: Id, want: Want, wait: Wait) -> bool {
        let running = self.queue(queue);
        if running.getters.is_empty() && running.can_get(want) {
            self.gets(machine, queue, want);
            self.serve_waiting(queue);
            return true;
        }
        running.getters.push_back((machine, want));
        self.block(machine, wait);
        false
    }

    fn gets(&mut self, machine: Id, queue: Id, want: Want) {
        let n = self.queue(queue).get(want);
        if matches!(want, Want::Look(_)) {
            return self.emit(machine, Effect::Peek(queue, n));
        }
        self.emit(machine, Effect::Get(queue, n));
        let latency = self.system.queues[queue as usize].space_latency;
        let running = self.queue(queue);
        let count = running.gets;
        running.gets += n;
        if running.is_call {
            let caller = running.callers.pop_front();
            self.runner(machine).callers.extend(caller);
        }
        let now = self.now;
        let stream = mix(self.stream_of(queue));
        let running = self.queue(queue);
        match (&mut running.space, latency) {
            (None, _) => {}
            (Some(space), None) => *space += n,
            (Some(_), Some(latency)) => {
                let back = (now + latency.at(word(stream, count))).max(running.returning.back().map_or(0, |last| last.0));
                running.returning.push_back((back, n));
                self.later(back - now, Event::SpaceBack(queue));
            }
        }
    }

    /// Serves the machines that wait for tokens or space of this queue, as far as possible.
    pub(super) fn serve_waiting(&mut self, queue: Id) {
        loop {
            let running = self.queue(queue);
            if let Some(&(machine, want)) = running.getters.front().filter(|getter| running.can_get(getter.1)) {
                running.getters.pop_front();
                self.spun(machine);
                self.gets(machine, queue, want);
                self.continue_after_wait(machine);
                continue;
            }
            let running = self.queue(queue);
            let can = running.putters.front().filter(|putter| running.can_put(putter.0, putter.1.n, putter.2));
            let Some(&(machine, token, reserve)) = can else { return };
            running.putters.pop_front();
            self.puts(machine, queue, token, reserve);
            self.continue_after_wait(machine);
        }
    }

    /// Continues after the step at which the machine waited.
    fn continue_after_wait(&mut self, machine: Id) {
        self.runner(machine).pc += 1;
        self.wake(machine);
    }

    fn block(&mut self, machine: Id, wait: Wait) {
        self.emit(machine, Effect::Blocked(wait));
        self.leave_cpu(machine);
    }

    /// Adds the time that the machine has spent polling until now to its profile.
    pub(super) fn spun(&mut self, machine: Id) {
        let now = self.now;
        if let Some((since, state)) = self.runner(machine).spins.take() {
            self.profile[machine as usize][state as usize] += now - since;
        }
    }

    /// State of the reply to a machine: 0 no reply, 1 a reply is present, 2 the caller waits for
    /// it.
    fn reply_of(&mut self, queue: Id, caller: Id) -> &mut u64 {
        let replies = &mut self.replies[queue as usize];
        if replies.len() <= caller as usize {
            replies.resize(caller as usize + 1, 0);
        }
        &mut replies[caller as usize]
    }

    pub(super) fn returned(&mut self, machine: Id, queue: Id) -> bool {
        if *self.reply_of(queue, machine) == 1 {
            *self.reply_of(queue, machine) = 0;
            self.emit(machine, Effect::Replied(queue));
            return true;
        }
        *self.reply_of(queue, machine) = 2;
        self.block(machine, Wait::Reply(queue));
        false
    }

    pub(super) fn reply(&mut self, machine: Id, queue: Id) -> bool {
        // A reply without a caller is a mistake in the program and has no effect.
        let Some(caller) = self.runner(machine).callers.pop() else { return true };
        self.emit(machine, Effect::Reply(queue, caller));
        if std::mem::replace(self.reply_of(queue, caller), 1) == 2 {
            *self.reply_of(queue, caller) = 0;
            self.emit(caller, Effect::Replied(queue));
            self.continue_after_wait(caller);
        }
        true
    }

    pub(super) fn sleep(&mut self, machine: Id, ns: u64) -> bool {
        let ns = match self.system.timer_factor {
            Some(factor) => (ns as f64 * factor).round() as u64,
            None => ns,
        };
        if ns == 0 {
            return true;
        }
        self.block(machine, Wait::Sleep);
        let now = self.now;
        self.runner(machine).pc += 1;
        self.later(ns, Event::Timer(machine, now));
        false
    }

    fn stream_of(&self, queue: Id) -> u64 {
        mix(mix(self.system.seed ^ 0x71e0e) ^ u64::from(queue))
    }
}
