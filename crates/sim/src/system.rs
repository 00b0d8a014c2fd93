//! The simulated system: machines with programs, and what they share.

use crate::draw::Dist;

/// Index of a machine, a queue, a state name or a pool of CPUs in its [`System`].
pub type Id = u32;

/// A system to simulate.
#[derive(Clone, Debug, Default)]
pub struct System {
    pub seed: u64,
    pub machines: Vec<Machine>,
    pub queues: Vec<Queue>,
    pub pools: Vec<Pool>,
    pub states: Vec<String>,
    /// The machine whose end is the end of the simulation.
    pub end: Id,
    /// Factor of the duration of all sleeps; `None` means 1.
    pub timer_factor: Option<f64>,
}

#[derive(Clone, Debug)]
pub struct Machine {
    pub host: String,
    pub name: String,
    pub class: String,
    /// The CPUs for which it competes; `None` means a CPU of its own.
    pub pool: Option<Id>,
    /// True if the machine begins when another one forks it.
    pub forked: bool,
    pub program: Vec<Step>,
}

/// CPUs of a host. Runnable machines get one in turn, for at most one slice.
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
    /// Reason of the block of a machine that waits for tokens.
    pub why: &'static str,
    /// Time between a put and the arrival of the token. A queue with this time is a wire.
    pub latency: Option<Time>,
    /// Time between a get and the return of the space to the putter, for example by an
    /// acknowledgement.
    pub space_latency: Option<Time>,
}

impl Queue {
    /// True for a queue of calls, which has a queue of replies per caller.
    pub fn is_call(&self) -> bool {
        self.name.starts_with("rpc:")
    }
}

/// A duration that a change may scale.
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

/// A step of a machine's program.
#[derive(Clone, Debug)]
pub enum Step {
    /// Works on a CPU.
    Work {
        state: Id,
        time: Time,
    },
    /// Works without a CPU: a transfer, a disk.
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
    /// Takes all units, at least one.
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
    /// Gets one unit, and keeps the CPU busy while it waits.
    Poll {
        queue: Id,
        state: Id,
    },
    Sleep {
        time: Time,
    },
    /// Sleeps until the next multiple of the period, unless that time is over already.
    Tick {
        period: u64,
    },
    /// Puts into the queue of the callee, and gets from the queue of its replies to this machine.
    Call {
        queue: Id,
    },
    /// Takes the next call, to which [`Step::Reply`] replies.
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
    /// Takes all units, if there are any, and executes the steps once per unit.
    Each {
        queue: Id,
        steps: Vec<Step>,
    },
    /// Executes the steps only each `n`-th time.
    Every {
        n: u64,
        steps: Vec<Step>,
    },
}

/// Visits each step of a program, including steps within others.
pub fn each_step(steps: &mut [Step], visit: &mut impl FnMut(&mut Step)) {
    for step in steps {
        visit(step);
        if let Step::Repeat { steps, .. } | Step::Forever { steps } | Step::Each { steps, .. } | Step::Every { steps, .. } = step {
            each_step(steps, visit);
        }
    }
}
