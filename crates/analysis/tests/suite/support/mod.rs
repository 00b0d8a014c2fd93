//! A toy system with a known bottleneck: source, router and sink joined by two queues, a server
//! that the router may call, and signals between all of them. It runs as a discrete-event
//! simulation and produces the items that a reader would yield. All names are random words.

pub mod composed;
pub mod linux;
pub mod passes;
pub mod walk;

use longpole_analysis::report::{ProbePass, Report};
use longpole_trace::event::{Catalogue, Class, ClassId, Event, Item, Loss, Stream, StreamId, StreamKind, Subject, SubjectId, Value};
use std::collections::{HashMap, VecDeque};

/// Random numbers and names.
#[derive(Clone)]
pub struct Random(fastrand::Rng);

impl Random {
    pub fn new(seed: u64) -> Random {
        Random(fastrand::Rng::with_seed(seed))
    }

    pub fn below(&mut self, limit: u64) -> u64 {
        self.0.u64(..limit)
    }

    /// Returns a number from half of `mean` to one and a half times `mean`.
    fn about(&mut self, mean: i64) -> i64 {
        mean / 2 + self.below(mean.max(1) as u64) as i64
    }

    fn word(&mut self) -> String {
        let length = 4 + self.below(6);
        (0..length).map(|_| self.0.lowercase()).collect()
    }
}

/// Events in the order of their creation; they are sorted by time when they are replayed.
#[derive(Default)]
pub struct Trace {
    pub catalogue: Catalogue,
    classes: HashMap<String, ClassId>,
    pub events: Vec<(i64, u32, ClassId, Vec<u64>)>,
    pub losses: Vec<Loss>,
}

impl Trace {
    pub fn thread(&mut self, label: &str) -> u32 {
        let at = self.catalogue.subjects.len() as u32;
        self.catalogue.subjects.push(Subject {
            label: label.to_owned(),
            thread: "ep".to_owned(),
            pid: Some(at as i32 + 100),
            tid: Some(at as i32 + 100),
            ..Subject::default()
        });
        self.catalogue.streams.push(Stream { name: format!("user/{label}-{at}"), kind: StreamKind::User });
        at
    }

    pub fn event(&mut self, t_ns: i64, thread: u32, name: &str, fields: &[(&str, u64)]) {
        let classes = &mut self.catalogue.classes;
        let class = *self.classes.entry(name.to_owned()).or_insert_with(|| {
            let attributes = match name.split_once(':') {
                Some((kind, _)) if kind.starts_with("queue_") => vec![("capacity".to_owned(), CAPACITY.to_string())],
                _ => Vec::new(),
            };
            classes.push(Class {
                event_name: name.to_owned(),
                fields: fields.iter().map(|(field, _)| (*field).to_owned()).collect(),
                attributes,
                ..Class::default()
            });
            ClassId(classes.len() as u32 - 1)
        });
        self.events.push((t_ns, thread, class, fields.iter().map(|(_, value)| *value).collect()));
    }

    /// Removes the events of a thread within a time, as a full ring does.
    pub fn lose(&mut self, thread: u32, begin_ns: i64, end_ns: i64) {
        let before = self.events.len();
        self.events.retain(|(t, of, ..)| !(*of == thread && *t > begin_ns && *t < end_ns));
        let events = Some((before - self.events.len()) as u64);
        self.losses.push(Loss { stream: StreamId(thread), begin_ns, end_ns, events });
    }

    pub fn replay(&mut self, mut each: impl FnMut(&Catalogue, &Item<'_>)) {
        self.events.sort_by_key(|(t, ..)| *t);
        self.losses.sort_by_key(|loss| loss.end_ns);
        let mut losses = self.losses.iter().peekable();
        for (t_ns, thread, class, fields) in &self.events {
            while let Some(loss) = losses.next_if(|loss| loss.end_ns <= *t_ns) {
                each(&self.catalogue, &Item::Loss(*loss));
            }
            let values: Vec<Value<'_>> = fields.iter().map(|&value| Value::U64(value)).collect();
            let event = Event {
                t_ns: *t_ns,
                stream: StreamId(*thread),
                subject: SubjectId(*thread),
                class: *class,
                cpu: None,
                fields: &values,
                context: &[],
                packet: Default::default(),
            };
            each(&self.catalogue, &Item::Event(event));
        }
    }

    pub fn pass(&mut self) -> ProbePass {
        let mut pass = ProbePass::new().unwrap();
        self.replay(|catalogue, item| pass.item(catalogue, item));
        pass
    }

    pub fn report(&mut self, probe_cost_ns: f64) -> Report {
        self.pass().report(Some(probe_cost_ns))
    }
}

pub const CAPACITY: usize = 255;

/// Costs in nanoseconds, and the faults of the router.
#[derive(Clone)]
pub struct Costs {
    pub generate: i64,
    pub parse: i64,
    pub lookup: i64,
    pub copy: i64,
    pub consume: i64,
    pub call_per_item: bool,
    pub batch: usize,
    pub eager: bool,
    pub submit: i64,
    pub reentry: i64,
    /// Mean time between interruptions, in which a thread does not run for a while, in nanoseconds.
    pub interruptions: Option<i64>,
}

impl Default for Costs {
    fn default() -> Costs {
        Costs {
            generate: 120,
            parse: 120,
            lookup: 140,
            copy: 160,
            consume: 120,
            call_per_item: false,
            batch: 150,
            eager: false,
            submit: 600,
            reentry: 1_500,
            interruptions: None,
        }
    }
}

#[derive(Clone)]
pub struct Names {
    pub source: String,
    pub router: String,
    pub sink: String,
    pub server: String,
    pub first: String,
    pub second: String,
    pub parse: String,
    pub lookup: String,
    pub copy: String,
    pub call: String,
}

impl Names {
    pub fn random(random: &mut Random) -> Names {
        let mut word = || random.word();
        Names {
            source: word(),
            router: word(),
            sink: word(),
            server: word(),
            first: word(),
            second: word(),
            parse: word(),
            lookup: word(),
            copy: word(),
            call: word(),
        }
    }
}

pub struct Pipeline {
    pub trace: Trace,
    pub names: Names,
    pub router: u32,
}

struct Agent {
    thread: u32,
    t: i64,
    /// True if the agent waits for its signal.
    asleep: bool,
    signalled: bool,
    /// Items that enter or leave a queue at the next step, so that no other agent sees them early.
    in_hand: usize,
    next_interruption: i64,
}

/// Runs the system for `length_ns`.
pub fn pipeline(seed: u64, costs: &Costs, length_ns: i64) -> Pipeline {
    let mut random = Random::new(seed);
    let names = Names::random(&mut random);
    let mut trace = Trace::default();
    let order = random.below(6);
    let mut threads = [0; 3];
    // Processes start in random order.
    for at in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]][order as usize] {
        threads[at] = trace.thread([&names.source, &names.router, &names.sink][at]);
    }
    let server = trace.thread(&names.server);
    let agent = |thread, t| Agent { thread, t, asleep: false, signalled: false, in_hand: 0, next_interruption: t + 1_000_000 };
    let begin = 1_700_000_000_000_000_000;
    let mut agents = [agent(threads[0], begin), agent(threads[1], begin + 10), agent(threads[2], begin + 20)];
    let (mut first, mut second) = (VecDeque::new(), 0usize);
    let (mut calls, mut handled) = (0u64, 0);
    let wake = format!("signal_wait:{}", random.word());
    let context: Vec<String> = (0..3).map(|_| random.word()).collect();
    let generate = random.word();
    let consume = random.word();
    while let Some(at) = (0..3).filter(|&at| !agents[at].asleep).min_by_key(|&at| agents[at].t) {
        if agents[at].t > begin + length_ns {
            break;
        }
        let thread = agents[at].thread;
        let mut t = agents[at].t;
        if let Some(period) = costs.interruptions.filter(|_| t > agents[at].next_interruption) {
            t += random.about(3_000_000);
            agents[at].next_interruption = t + random.about(period);
        }
        let mut submits: Vec<usize> = Vec::new();
        match at {
            0 if agents[0].in_hand > 0 => {
                let burst = std::mem::take(&mut agents[0].in_hand);
                trace.event(t, thread, &format!("queue_put:{}", names.first), &[("count", burst as u64)]);
                t += 10;
                first.extend(std::iter::repeat_n((), burst));
                if agents[1].asleep {
                    submits.push(1);
                }
            }
            2 if agents[2].in_hand > 0 => {
                let burst = std::mem::take(&mut agents[2].in_hand);
                trace.event(t, thread, &format!("queue_get:{}", names.second), &[("count", burst as u64)]);
                t += 10;
                second -= burst;
                if agents[1].asleep {
                    submits.push(1);
                }
            }
            0 => {
                let space = CAPACITY - first.len();
                if space == 0 {
                    trace.event(t, thread, &format!("queue_wait_full:{}", names.first), &[]);
                    trace.event(t + 5, thread, &wake, &[]);
                    agents[0].asleep = !std::mem::take(&mut agents[0].signalled);
                    t += 300;
                } else {
                    let burst = space.min(32);
                    trace.event(t, thread, &format!("span_begin:{generate}"), &[]);
                    t += random.about(costs.generate * burst as i64);
                    trace.event(t, thread, &format!("span_end:{generate}"), &[]);
                    agents[0].in_hand = burst;
                }
            }
            1 => {
                if agents[1].in_hand > 0 {
                    trace.event(t, thread, &format!("queue_put:{}", names.second), &[("count", 1)]);
                    t += 10;
                    (agents[1].in_hand, second) = (0, second + 1);
                    if costs.eager {
                        for other in [0, 2] {
                            trace.event(t, thread, &format!("signal_submit:{}", context[other]), &[("count", 1)]);
                            t += random.about(costs.submit);
                            agents[other].signalled = true;
                        }
                    }
                } else if handled < costs.batch && !first.is_empty() && second < CAPACITY {
                    first.pop_front();
                    trace.event(t, thread, &format!("queue_get:{}", names.first), &[("count", 1)]);
                    t += 10;
                    for (name, cost) in [(&names.parse, costs.parse), (&names.lookup, costs.lookup)] {
                        trace.event(t, thread, &format!("span_begin:{name}"), &[]);
                        t += random.about(cost);
                        trace.event(t, thread, &format!("span_end:{name}"), &[]);
                        t += 5;
                    }
                    if costs.call_per_item {
                        calls += 1;
                        let id = [("id", calls)];
                        trace.event(t, thread, &format!("rpc_call:{}", names.call), &id);
                        let dispatch = t + random.about(3_000);
                        let reply = dispatch + 300;
                        trace.event(dispatch, server, &format!("rpc_dispatch:{}", names.call), &id);
                        trace.event(reply, server, &format!("rpc_reply:{}", names.call), &id);
                        t = reply + random.about(3_000);
                        trace.event(t, thread, &format!("rpc_returned:{}", names.call), &id);
                        t += 5;
                    }
                    trace.event(t, thread, &format!("span_begin:{}", names.copy), &[]);
                    t += random.about(costs.copy);
                    trace.event(t, thread, &format!("span_end:{}", names.copy), &[]);
                    agents[1].in_hand = 1;
                    handled += 1;
                } else if handled == 0 {
                    let (kind, queue) =
                        if first.is_empty() { ("queue_wait_empty", &names.first) } else { ("queue_wait_full", &names.second) };
                    trace.event(t, thread, &format!("{kind}:{queue}"), &[]);
                    trace.event(t + 5, thread, &wake, &[]);
                    agents[1].asleep = !std::mem::take(&mut agents[1].signalled);
                    t += 300;
                } else {
                    submits.extend([0, 2].into_iter().filter(|&other| agents[other].asleep && !costs.eager));
                    if handled == costs.batch && !first.is_empty() {
                        trace.event(t, thread, &format!("signal_submit:{}", context[1]), &[("count", 1)]);
                        t += random.about(costs.reentry) / 2;
                        trace.event(t, thread, &wake, &[]);
                        t += random.about(costs.reentry) / 2;
                        trace.event(t, thread, &format!("signal_receive:{}", context[1]), &[("count", 1)]);
                        t += 10;
                    }
                    handled = 0;
                }
            }
            _ => {
                if second == 0 {
                    trace.event(t, thread, &format!("queue_wait_empty:{}", names.second), &[]);
                    trace.event(t + 5, thread, &wake, &[]);
                    agents[2].asleep = !std::mem::take(&mut agents[2].signalled);
                    t += 300;
                } else {
                    let burst = second.min(32);
                    trace.event(t, thread, &format!("span_begin:{consume}"), &[]);
                    t += random.about(costs.consume * burst as i64);
                    trace.event(t, thread, &format!("span_end:{consume}"), &[]);
                    agents[2].in_hand = burst;
                }
            }
        }
        for other in submits {
            trace.event(t, thread, &format!("signal_submit:{}", context[other]), &[("count", 1)]);
            t += random.about(costs.submit);
            agents[other].signalled = true;
        }
        agents[at].t = t;
        for (other, sleeper) in agents.iter_mut().enumerate() {
            if sleeper.asleep && sleeper.signalled {
                (sleeper.asleep, sleeper.signalled) = (false, false);
                sleeper.t = sleeper.t.max(t) + 2_000;
                let (thread, now) = (sleeper.thread, sleeper.t);
                trace.event(now, thread, &format!("signal_receive:{}", context[other]), &[("count", 1)]);
                sleeper.t += 10;
            }
        }
    }
    Pipeline { trace, names, router: threads[1] }
}
