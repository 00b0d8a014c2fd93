//! A builder of scenarios: parts with roles, to which a seed assigns names.
//!
//! Expectations are written with roles (`$slow::$slow.work`), so that they are independent of the
//! names.

use crate::draw::{Dist, Pick};
use crate::names::Names;
use crate::system::{Id, Machine, Pool, Queue, Step, System, Time};
use std::collections::BTreeMap;

/// A system under construction.
pub struct Sketch {
    pub pick: Pick,
    pub system: System,
    pub items: u64,
    /// Names, by role.
    pub roles: BTreeMap<String, String>,
    names: Names,
}

impl Sketch {
    pub fn new(scenario: &str, seed: u64, items: u64) -> Sketch {
        let mut pick = Pick::new(seed, scenario);
        let names = Names::new(&mut pick);
        let system = System { seed: pick.number(), ..System::default() };
        Sketch { pick, system, items, roles: BTreeMap::new(), names }
    }

    fn role(&mut self, role: &str, name: &str) {
        self.roles.insert(role.to_owned(), name.to_owned());
    }

    pub fn host(&mut self, role: &str) -> String {
        let name = self.names.hosts.deal();
        self.role(role, &name);
        name
    }

    pub fn state(&mut self, role: &str) -> Id {
        let name = self.names.states.deal();
        self.role(role, &name);
        self.system.states.push(name);
        self.system.states.len() as Id - 1
    }

    pub fn machine(&mut self, role: &str, program: Vec<Step>) -> Id {
        let name = self.names.machines.deal();
        self.role(role, &name);
        self.place(Machine { host: String::new(), class: name.clone(), name, pool: None, forked: false, program })
    }

    /// Adds several machines of one class, numbered.
    pub fn members(&mut self, role: &str, count: u64, mut program: impl FnMut(u64) -> Vec<Step>) -> Vec<Id> {
        let class = self.names.machines.deal();
        self.role(role, &class);
        let members = (0..count).map(|at| Machine {
            host: String::new(),
            class: class.clone(),
            name: format!("{class}/{}", at + 1),
            pool: None,
            forked: false,
            program: program(at),
        });
        let members: Vec<Machine> = members.collect();
        members.into_iter().map(|member| self.place(member)).collect()
    }

    fn place(&mut self, machine: Machine) -> Id {
        self.system.machines.push(machine);
        self.system.machines.len() as Id - 1
    }

    pub fn at(&mut self, host: &str, machines: &[Id]) {
        machines.iter().for_each(|&at| self.system.machines[at as usize].host = host.to_owned());
    }

    /// Makes these machines compete for the CPUs of a new pool.
    pub fn share_cpus(&mut self, cpus: u64, slice_ns: u64, machines: &[Id]) {
        self.system.pools.push(Pool { cpus, slice_ns });
        let pool = self.system.pools.len() as Id - 1;
        machines.iter().for_each(|&at| self.system.machines[at as usize].pool = Some(pool));
    }

    fn add_queue(&mut self, role: &str, name: String, why: &'static str) -> &mut Queue {
        self.role(role, &name);
        self.system.queues.push(Queue {
            name,
            capacity: None,
            initial: 0,
            lifo: false,
            bytes: false,
            merge: false,
            why,
            latency: None,
            space_latency: None,
        });
        let last = self.system.queues.len() - 1;
        &mut self.system.queues[last]
    }

    pub fn queue(&mut self, role: &str, capacity: Option<u64>) -> Id {
        let name = self.names.queues.deal();
        self.add_queue(role, name, "empty").capacity = capacity;
        self.system.queues.len() as Id - 1
    }

    /// Adds a queue to another host. If `space_latency` is given, space is only free again when the
    /// acknowledgement has arrived.
    pub fn wire(&mut self, role: &str, capacity: Option<u64>, latency: Dist, space_latency: Option<Dist>) -> Id {
        let queue = self.queue(role, capacity);
        let made = &mut self.system.queues[queue as usize];
        made.latency = Some(latency.into());
        made.space_latency = space_latency.map(Time::from);
        queue
    }

    pub fn signal(&mut self, role: &str) -> Id {
        let name = format!("signal:{}", self.names.queues.deal());
        self.add_queue(role, name, "signal").merge = true;
        self.system.queues.len() as Id - 1
    }

    pub fn lock(&mut self, role: &str) -> Id {
        let name = format!("lock:{}", self.names.queues.deal());
        let queue = self.add_queue(role, name, "lock");
        (queue.capacity, queue.initial) = (Some(1), 1);
        self.system.queues.len() as Id - 1
    }

    pub fn call(&mut self, role: &str) -> Id {
        let name = format!("rpc:{}", self.names.queues.deal());
        self.add_queue(role, name, "call");
        self.system.queues.len() as Id - 1
    }

    /// Adds threads that compute all the time and for which no machine waits, so they are busy
    /// without being a bottleneck. The first of them computes for what the system puts into the
    /// returned queue.
    pub fn decoy(&mut self, mean: u64, threads: u64) -> Id {
        let tap = self.queue("decoy.tap", None);
        let (hot, cool) = (self.state("decoy.hot"), self.state("decoy.cool"));
        let burst = Dist::around(mean * self.pick.int(4, 7), 0.3);
        let rest = Dist::around(mean / 5, 0.5);
        self.members("decoy", threads, |at| {
            let first = if at == 0 { vec![Step::Drain { queue: tap }] } else { vec![work(cool, rest)] };
            let steps = first.into_iter().chain([work(hot, burst)]).collect();
            vec![Step::Forever { steps }]
        });
        tap
    }
}

pub fn work(state: Id, time: Dist) -> Step {
    Step::Work { state, time: time.into() }
}

pub fn device(state: Id, time: Dist) -> Step {
    Step::Device { state, time: time.into() }
}

pub fn put(queue: Id) -> Step {
    Step::Put { queue, n: 1 }
}

pub fn get(queue: Id) -> Step {
    Step::Get { queue, n: 1 }
}

pub fn repeat(times: u64, steps: Vec<Step>) -> Step {
    Step::Repeat { times, steps }
}

pub fn forever(steps: Vec<Step>) -> Step {
    Step::Forever { steps }
}
