//! What is simulated: machines with programs, and what they share.

use crate::draw::Dist;

/// Index of a machine, a queue, a state name or a pool of CPUs in its [`System`].
pub type Id = u32;

#[derive(Clone, Debug, Default)]
pub struct System {
    pub seed: u64,
    pub machines: Vec<Machine>,
    pub queues: Vec<Queue>,
    pub pools: Vec<Pool>,
    pub states: Vec<String>,
    /// The simulation ends when its program does.
    pub end: Id,
    /// Sleeps take this part of their time.
    pub timer_factor: Option<f64>,
}

#[derive(Clone, Debug)]
pub struct Machine {
    pub host: String,
    pub name: String,
    pub class: String,
    /// The CPUs that it competes for; none: one of its own.
    pub pool: Option<Id>,
    /// It begins when another one forks it.
    pub forked: bool,
    pub program: Vec<Step>,
}

/// CPUs of a host; who is runnable gets one in turn, for a slice at most.
#[derive(Clone, Debug)]
pub struct Pool {
    pub cpus: u64,
    pub slice_ns: u64,
}

#[derive(Clone, Debug)]
pub struct Queue {
    pub name: String,
    pub capacity: Option<u64>,
    pub initial: u64,
    pub lifo: bool,
    pub bytes: bool,
    pub merge: bool,
    /// What a machine that waits in it says.
    pub why: &'static str,
    /// From the put until a token is there; a wire.
    pub latency: Option<Time>,
    /// From the get until its space is back at the putter; an acknowledgement.
    pub space_latency: Option<Time>,
}

impl Queue {
    /// One of calls: each has a queue of replies to each caller.
    pub fn is_call(&self) -> bool {
        self.name.starts_with("rpc:")
    }
}

/// A time that a change may scale.
#[derive(Clone, Copy, Debug)]
pub struct Time {
    pub dist: Dist,
    pub factor: f64,
}

impl Time {
    pub fn at(self, word: u64) -> u64 {
        let ns = self.dist.at(word);
        if self.factor == 1.0 {
            ns
        } else {
            (ns as f64 * self.factor).round() as u64
        }
    }
}

impl From<Dist> for Time {
    fn from(dist: Dist) -> Time {
        Time { dist, factor: 1.0 }
    }
}

#[derive(Clone, Debug)]
pub enum Step {
    /// On a CPU.
    Work {
        state: Id,
        time: Time,
    },
    /// On no CPU: a transfer, a disk.
    Device {
        state: Id,
        time: Time,
    },
    Put {
        queue: Id,
        n: u64,
    },
    Get {
        queue: Id,
        n: u64,
    },
    /// All that is there, at least one.
    Drain {
        queue: Id,
    },
    Peek {
        queue: Id,
        n: u64,
    },
    Reserve {
        queue: Id,
        n: u64,
    },
    /// A get by a machine that keeps its CPU busy while it waits.
    Poll {
        queue: Id,
        state: Id,
    },
    Sleep {
        time: Time,
    },
    /// Until the next multiple of the period, unless that is over already.
    Tick {
        period: u64,
    },
    /// A put into the queue of the callee, and a get from the queue of its replies to this machine.
    Call {
        queue: Id,
    },
    /// The next call; it is replied to by [`Step::Reply`].
    Serve {
        queue: Id,
    },
    Reply {
        queue: Id,
    },
    Fork {
        machine: Id,
    },
    Repeat {
        times: u64,
        steps: Vec<Step>,
    },
    Forever {
        steps: Vec<Step>,
    },
    /// All that is there, if there is anything, and the steps for each unit.
    Each {
        queue: Id,
        steps: Vec<Step>,
    },
    /// Only each n-th time.
    Every {
        n: u64,
        steps: Vec<Step>,
    },
}

/// Each step of a program, also those within others.
pub fn each_step(steps: &mut [Step], visit: &mut impl FnMut(&mut Step)) {
    for step in steps {
        visit(step);
        if let Step::Repeat { steps, .. } | Step::Forever { steps } | Step::Each { steps, .. } | Step::Every { steps, .. } = step {
            each_step(steps, visit);
        }
    }
}
