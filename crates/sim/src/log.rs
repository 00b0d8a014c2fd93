//! Writes a simulation as a machine log (docs/formats/machine-log.md) while it runs.
//!
//! All text except times and sizes is assembled once before the first event, because up to a
//! billion lines are written.

use crate::sink::{Effect, Sink, Wait};
use crate::system::{Id, System};
use std::io::{self, Write};

/// A sink that writes a machine log.
pub struct Log<W> {
    out: W,
    buffer: Vec<u8>,
    error: Option<io::Error>,
    machines: Vec<Machine>,
    queues: Vec<Queue>,
    states: Vec<String>,
}

struct Machine {
    /// Text like `,"host":"a","machine":"m"`.
    whose: String,
    /// Text like `,"class":"c"`; empty if the class has the machine's name.
    class: String,
    name: String,
    host: String,
}

struct Queue {
    put: String,
    get: String,
    peek: String,
    reserve: String,
    tokens: String,
    space: String,
    poll: String,
    link: &'static str,
    /// Texts for the put of the reply, its get, and the wait for it, by caller.
    replies: Vec<[String; 3]>,
}

fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

const FULL: usize = 1 << 16;

impl<W: Write> Log<W> {
    pub fn new(out: W) -> Log<W> {
        Log { out, buffer: Vec::with_capacity(FULL + 4096), error: None, machines: Vec::new(), queues: Vec::new(), states: Vec::new() }
    }

    /// Writes what is left in the buffer and returns the output, or the first error of all writes.
    pub fn finish(mut self) -> io::Result<W> {
        self.write_out();
        match self.error {
            Some(error) => Err(error),
            None => self.out.flush().map(|()| self.out),
        }
    }

    fn write_out(&mut self) {
        if self.error.is_none() {
            self.error = self.out.write_all(&self.buffer).err();
        }
        self.buffer.clear();
    }

    fn number(&mut self, mut n: u64) {
        let mut digits = [0; 20];
        let mut at = digits.len();
        loop {
            at -= 1;
            digits[at] = b'0' + (n % 10) as u8;
            n /= 10;
            if n == 0 {
                break;
            }
        }
        self.buffer.extend_from_slice(&digits[at..]);
    }

    fn amount(&mut self, n: u64) {
        if n != 1 {
            self.buffer.extend_from_slice(b",\"n\":");
            self.number(n);
        }
    }
}

macro_rules! push {
    ($log:expr, $text:expr) => {
        $log.buffer.extend_from_slice($text.as_bytes())
    };
}

impl<W: Write> Sink for Log<W> {
    fn begin(&mut self, system: &System) {
        let host = |host: &str| if host.is_empty() { String::new() } else { format!(",\"host\":{}", quoted(host)) };
        self.machines = system
            .machines
            .iter()
            .map(|machine| Machine {
                whose: format!("{},\"machine\":{}", host(&machine.host), quoted(&machine.name)),
                class: if machine.class == machine.name { String::new() } else { format!(",\"class\":{}", quoted(&machine.class)) },
                name: quoted(&machine.name),
                host: host(&machine.host),
            })
            .collect();
        self.states = system.states.iter().map(|state| format!(",\"state\":{}", quoted(state))).collect();
        for queue in &system.queues {
            let name = quoted(&queue.name);
            let wait = |why: &str, wants: &str| format!(",\"blocked\":{},\"on\":{name},\"for\":\"{wants}\"", quoted(why));
            let replies = system.machines.iter().filter(|_| queue.is_call()).map(|machine| {
                let reply = quoted(&format!("{}:reply:{}", queue.name, machine.name));
                [
                    format!(",\"put\":{reply}"),
                    format!(",\"get\":{reply}"),
                    format!(",\"blocked\":{},\"on\":{reply},\"for\":\"tokens\"", quoted(&queue.name.replacen(':', " ", 1))),
                ]
            });
            self.queues.push(Queue {
                put: format!(",\"put\":{name}"),
                get: format!(",\"get\":{name}"),
                peek: format!(",\"peek\":{name}"),
                reserve: format!(",\"reserve\":{name}"),
                tokens: wait(queue.why, "tokens"),
                space: wait("full", "space"),
                poll: wait("poll", "tokens"),
                link: if queue.latency.is_some() { ",\"link\":\"wire\"" } else { "" },
                replies: replies.collect(),
            });
            let mut line = format!("{{\"queue\":{name}");
            if let Some(capacity) = queue.capacity {
                line += &format!(",\"capacity\":{capacity}");
            }
            if queue.lifo {
                line += ",\"order\":\"lifo\"";
            }
            if queue.bytes {
                line += ",\"unit\":\"bytes\"";
            }
            if queue.initial > 0 {
                line += &format!(",\"initial\":{}", queue.initial);
            }
            if queue.merge {
                line += ",\"merge\":true";
            }
            if !line.ends_with(&name) {
                push!(self, line);
                push!(self, "}\n");
            }
        }
    }

    fn effect(&mut self, t: u64, machine: Id, effect: Effect) {
        push!(self, "{\"t\":");
        self.number(t);
        let of = machine as usize;
        if effect == Effect::End {
            push!(self, self.machines[of].host);
            push!(self, ",\"end\":");
            push!(self, self.machines[of].name);
            push!(self, "}\n");
            return;
        }
        push!(self, self.machines[of].whose);
        match effect {
            Effect::End => {}
            Effect::Here => push!(self, self.machines[of].class),
            Effect::State(state) => push!(self, self.states[state as usize]),
            Effect::Runnable => push!(self, ",\"state\":\"runnable\""),
            Effect::Blocked(wait) => match wait {
                Wait::Tokens(queue) => push!(self, self.queues[queue as usize].tokens),
                Wait::Space(queue) => push!(self, self.queues[queue as usize].space),
                Wait::Poll(queue) => push!(self, self.queues[queue as usize].poll),
                Wait::Reply(queue) => push!(self, self.queues[queue as usize].replies[of][2]),
                Wait::Sleep => push!(self, ",\"blocked\":\"sleep\""),
            },
            Effect::Put(queue, n) => {
                push!(self, self.queues[queue as usize].put);
                self.amount(n);
                push!(self, self.queues[queue as usize].link);
            }
            Effect::Get(queue, n) => {
                push!(self, self.queues[queue as usize].get);
                self.amount(n);
            }
            Effect::Peek(queue, n) => {
                push!(self, self.queues[queue as usize].peek);
                self.amount(n);
            }
            Effect::Reserve(queue, n) => {
                push!(self, self.queues[queue as usize].reserve);
                self.amount(n);
            }
            Effect::Reply(queue, caller) => push!(self, self.queues[queue as usize].replies[caller as usize][0]),
            Effect::Replied(queue) => push!(self, self.queues[queue as usize].replies[of][1]),
            Effect::Timer(at) => {
                push!(self, ",\"woken_by\":");
                push!(self, self.machines[of].name);
                push!(self, ",\"at\":");
                self.number(at);
                push!(self, ",\"link\":\"timer\"");
            }
            Effect::Fork(by) => {
                push!(self, self.machines[of].class);
                push!(self, ",\"forked_by\":");
                push!(self, self.machines[by as usize].name);
            }
            Effect::Stop => push!(self, ",\"stop\":true"),
        }
        push!(self, "}\n");
        if self.buffer.len() >= FULL {
            self.write_out();
        }
    }

    fn is_over(&self) -> bool {
        self.error.is_some()
    }
}
