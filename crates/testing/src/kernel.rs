//! Kernel events that are written by hand, in the form in which a reader yields them. The tests of
//! the analyses use them, too.

use longpole_model::causes::Composer;
use longpole_model::interaction::{Interaction, Vocabulary};
use longpole_model::linux::watch::Watch;
use longpole_model::linux::Linux;
use longpole_trace::event::{Catalogue, Class, ClassId, Event, Item, Loss, Stream, StreamId, StreamKind, Subject, SubjectId, Value};
use std::collections::HashMap;

/// The range of a whole trace.
pub const ALL: (i64, i64) = (i64::MIN, i64::MAX);

/// The state of a thread that waits and can be interrupted, in a switch.
pub const BLOCKED: i64 = 1;
/// The state of a thread that has ended.
pub const DEAD: i64 = 0x20;

#[derive(Clone, Debug)]
pub enum Val {
    I(i64),
    S(String),
    /// A number with a name.
    E(i64, &'static str),
}

/// Passes each interaction that a composer makes of a kernel's events to `each`.
pub fn each_interaction(kernel: &Kernel, composer: &mut Composer, mut each: impl FnMut(&Vocabulary, &Interaction)) {
    let mut drain = |composer: &mut Composer| {
        while let Some(interaction) = composer.next_interaction() {
            each(composer.vocabulary(), &interaction);
        }
    };
    kernel.replay(|catalogue, item| {
        composer.item(catalogue, item);
        drain(composer);
    });
    composer.finish(&kernel.catalogue);
    drain(composer);
}

pub fn text(text: &str) -> Val {
    Val::S(text.to_owned())
}

/// Kernel events that are written by hand.
#[derive(Default)]
pub struct Kernel {
    pub catalogue: Catalogue,
    classes: HashMap<String, ClassId>,
    /// Events as time, CPU, class and fields.
    pub events: Vec<(i64, u32, ClassId, Vec<Val>)>,
    pub losses: Vec<Loss>,
    cpus: u32,
}

impl Kernel {
    pub fn new(cpus: u32) -> Kernel {
        let mut kernel = Kernel { cpus, ..Kernel::default() };
        kernel.catalogue.subjects.push(Subject::default());
        for cpu in 0..cpus {
            kernel.catalogue.streams.push(Stream { name: format!("kernel/cpu{cpu}"), kind: StreamKind::Kernel });
        }
        // All interrupts and softirqs count as recorded, even if there are none.
        kernel.class("irq_handler_entry", &["irq", "name"]);
        kernel.class("irq_softirq_entry", &["vec"]);
        kernel
    }

    fn class(&mut self, name: &str, fields: &[&str]) -> ClassId {
        let classes = &mut self.catalogue.classes;
        *self.classes.entry(name.to_owned()).or_insert_with(|| {
            let fields = fields.iter().map(|&field| field.to_owned()).collect();
            classes.push(Class { event_name: name.to_owned(), fields, ..Class::default() });
            ClassId(classes.len() as u32 - 1)
        })
    }

    pub fn event(&mut self, t_ns: i64, cpu: u32, name: &str, fields: &[(&str, Val)]) {
        let names: Vec<&str> = fields.iter().map(|(field, _)| *field).collect();
        let class = self.class(name, &names);
        self.events.push((t_ns, cpu, class, fields.iter().map(|(_, value)| value.clone()).collect()));
    }

    /// Adds a thread with probes, and returns the stream of its events.
    pub fn thread(&mut self, label: &str, thread: &str, pid: i32, tid: i32) -> u32 {
        let (label, thread) = (label.to_owned(), thread.to_owned());
        self.catalogue.streams.push(Stream { name: format!("user/{tid}"), kind: StreamKind::User });
        self.catalogue.subjects.push(Subject { host: "here".to_owned(), label, thread, pid: Some(pid), tid: Some(tid) });
        self.catalogue.streams.len() as u32 - 1
    }

    pub fn probe(&mut self, t_ns: i64, stream: u32, name: &str) {
        self.event(t_ns, stream, name, &[]);
    }

    pub fn counted(&mut self, t_ns: i64, stream: u32, name: &str, count: i64) {
        self.event(t_ns, stream, name, &[("count", Val::I(count))]);
    }

    pub fn switch(&mut self, t_ns: i64, cpu: u32, from: i32, state: i64, to: i32) {
        let fields = [
            ("prev_comm", text(&comm(from))),
            ("prev_tid", Val::I(i64::from(from))),
            ("prev_prio", Val::I(20)),
            ("prev_state", Val::I(state)),
            ("next_comm", text(&comm(to))),
            ("next_tid", Val::I(i64::from(to))),
            ("next_prio", Val::I(20)),
        ];
        self.event(t_ns, cpu, "sched_switch", &fields);
    }

    pub fn waking(&mut self, t_ns: i64, cpu: u32, tid: i32, target: u32) {
        self.woken("sched_waking", t_ns, cpu, tid, target);
    }

    pub fn wakeup(&mut self, t_ns: i64, cpu: u32, tid: i32, target: u32) {
        self.woken("sched_wakeup", t_ns, cpu, tid, target);
    }

    fn woken(&mut self, name: &str, t_ns: i64, cpu: u32, tid: i32, target: u32) {
        let fields =
            [("comm", text(&comm(tid))), ("tid", Val::I(i64::from(tid))), ("prio", Val::I(20)), ("target_cpu", Val::I(i64::from(target)))];
        self.event(t_ns, cpu, name, &fields);
    }

    pub fn migrate(&mut self, t_ns: i64, cpu: u32, tid: i32, from: u32, to: u32) {
        let fields = [
            ("comm", text(&comm(tid))),
            ("tid", Val::I(i64::from(tid))),
            ("prio", Val::I(20)),
            ("orig_cpu", Val::I(i64::from(from))),
            ("dest_cpu", Val::I(i64::from(to))),
        ];
        self.event(t_ns, cpu, "sched_migrate_task", &fields);
    }

    pub fn irq(&mut self, t_ns: i64, cpu: u32, irq: i64, enter: bool) {
        match enter {
            true => self.event(t_ns, cpu, "irq_handler_entry", &[("irq", Val::I(irq)), ("name", text("dev"))]),
            false => self.event(t_ns, cpu, "irq_handler_exit", &[("irq", Val::I(irq)), ("ret", Val::I(1))]),
        }
    }

    pub fn softirq(&mut self, t_ns: i64, cpu: u32, vec: i64, what: &str) {
        self.event(t_ns, cpu, &format!("irq_softirq_{what}"), &[("vec", Val::I(vec))]);
    }

    pub fn syscall(&mut self, t_ns: i64, cpu: u32, name: &str, result: Option<i64>) {
        match result {
            None => self.event(t_ns, cpu, &format!("syscall_entry_{name}"), &[("fd", Val::I(3))]),
            Some(result) => self.event(t_ns, cpu, &format!("syscall_exit_{name}"), &[("ret", Val::I(result))]),
        }
    }

    pub fn dump(&mut self, t_ns: i64, tid: i32, status: i64, cpu: u32) {
        let fields = [
            ("tid", Val::I(i64::from(tid))),
            ("pid", Val::I(i64::from(tid / 10 * 10))),
            ("name", text(&comm(tid))),
            ("status", Val::I(status)),
            ("cpu", Val::I(i64::from(cpu))),
        ];
        self.event(t_ns, 0, "lttng_statedump_process_state", &fields);
    }

    pub fn replay(&self, mut each: impl FnMut(&Catalogue, &Item<'_>)) {
        let mut losses = self.losses.clone();
        losses.sort_by_key(|loss| loss.end_ns);
        let mut ahead = losses.clone();
        let mut losses = losses.iter().peekable();
        let mut catalogue = self.catalogue.clone();
        let mut events: Vec<_> = self.events.iter().collect();
        events.sort_by_key(|(t_ns, ..)| *t_ns);
        for (t_ns, cpu, class, fields) in events {
            while let Some(loss) = losses.next_if(|loss| loss.end_ns <= *t_ns) {
                catalogue.losses_ahead = ahead.extract_if(.., |ahead| ahead.begin_ns <= loss.end_ns).collect();
                each(&catalogue, &Item::Loss(*loss));
            }
            // Like the reader, which decodes the next item of a stream before it continues.
            catalogue.losses_ahead = ahead.extract_if(.., |ahead| ahead.begin_ns <= *t_ns).collect();
            let values: Vec<Value<'_>> = fields
                .iter()
                .map(|value| match value {
                    Val::I(value) => Value::I64(*value),
                    Val::S(text) => Value::Str(text.as_bytes()),
                    Val::E(value, label) => Value::Enum { value: i128::from(*value), label },
                })
                .collect();
            let of_kernel = self.catalogue.streams[*cpu as usize].kind == StreamKind::Kernel;
            let event = Event {
                t_ns: *t_ns,
                stream: StreamId(*cpu),
                subject: SubjectId(if of_kernel { 0 } else { 1 + cpu - self.cpus }),
                class: *class,
                cpu: of_kernel.then_some(*cpu),
                fields: &values,
                context: &[],
                packet: Default::default(),
            };
            each(&catalogue, &Item::Event(event));
        }
    }

    /// Removes the events of a CPU within a time, as a full buffer does.
    pub fn lose(&mut self, cpu: u32, begin_ns: i64, end_ns: i64) {
        let before = self.events.len();
        self.events.retain(|(t, of, ..)| !(*of == cpu && *t > begin_ns && *t < end_ns));
        let events = Some((before - self.events.len()) as u64);
        self.losses.push(Loss { stream: StreamId(cpu), begin_ns, end_ns, events });
    }
}

/// Runs the Linux model over the events of a kernel. The times within `range` are accounted.
pub fn pass<W: Watch + Default>(kernel: &Kernel, range: (i64, i64)) -> (Linux, W) {
    let mut linux = Linux::new(range.0, range.1).unwrap();
    let mut watch = W::default();
    kernel.replay(|catalogue, item| match item {
        Item::Event(event) => linux.event(catalogue, event, &mut watch),
        Item::Loss(loss) => linux.loss(catalogue, loss, &mut watch),
    });
    linux.finish(&mut watch);
    (linux, watch)
}

/// A thread of the process `process` is created.
pub fn fork(kernel: &mut Kernel, t_ns: i64, parent: i32, tid: i32, process: i32) {
    let ids = [("parent_tid", parent), ("child_tid", tid), ("child_pid", process)].map(|(name, id)| (name, Val::I(id.into())));
    kernel.event(t_ns, 0, "sched_process_fork", &ids);
}

/// A thread begins to exit.
pub fn exit(kernel: &mut Kernel, t_ns: i64, tid: i32) {
    kernel.event(t_ns, 0, "sched_process_exit", &[("tid", Val::I(tid.into()))]);
}

/// A kernel thread that ends grace periods.
pub const RCU: i32 = 9;

pub fn comm(tid: i32) -> String {
    if tid == RCU {
        return "rcu_exp".to_owned();
    }
    if tid == 0 {
        "swapper/0".to_owned()
    } else {
        format!("t{tid}")
    }
}

/// CPU 0 runs `t11`, CPU 1 is idle.
pub fn two_cpus() -> Kernel {
    let mut kernel = Kernel::new(2);
    kernel.switch(100, 1, 0, 0, 0);
    kernel.switch(100, 0, 0, 0, 11);
    kernel
}

/// Probes without kernel events.
pub fn probes() -> (Kernel, u32, u32) {
    let mut kernel = Kernel::new(0);
    let one = kernel.thread("one", "", 11, 11);
    let two = kernel.thread("two", "", 12, 12);
    kernel.probe(100, one, "span_begin:make");
    (kernel, one, two)
}
