//! Fills a timeline: with the interactions while the trace is read, and afterwards with what is
//! known only then.

use super::machine_states::{Ended, MachineStates};
use super::rows::{RowKind, ThreadFacts};
use super::state_names::{StateClass, StateId, StateNames};
use super::store::{RowId, StateInterval};
use super::{Content, Timeline};
use crate::critical_path::cpu_holders::Replayed;
use crate::critical_path::{Answer, Segment};
use crate::stats::text::place;
use longpole_model::interaction::block::Block;
use longpole_model::interaction::{Interaction, MachineId, Vocabulary};
use longpole_model::kinds::{LinkKind, SegmentKind};
use longpole_model::linux::watch::{Base, CpuId, Occupant};
use longpole_model::linux::{Linux, Thread};
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

/// Writes the states of machines to a timeline while it follows the interactions.
#[derive(Debug)]
pub struct TimelineWriter {
    timeline: Arc<Timeline>,
    states: MachineStates,
    /// Begin of the requested part, in ns.
    begin: u64,
    has_begun: bool,
    last: u64,
    /// States that the current interaction ends; kept to reuse the memory.
    ended: Vec<Ended>,
}

impl TimelineWriter {
    pub fn new(timeline: Arc<Timeline>) -> TimelineWriter {
        TimelineWriter { timeline, states: MachineStates::default(), begin: 0, has_begun: false, last: 0, ended: Vec::new() }
    }

    /// Sets the begin of the requested part; what lies before it is not shown.
    pub fn begin_at(&mut self, t: u64) {
        self.begin = t;
    }

    pub fn until(&mut self, t: u64) {
        self.last = self.last.max(t);
    }

    pub fn interaction(&mut self, vocabulary: &Vocabulary, interaction: &Interaction) {
        let timeline = self.timeline.clone();
        let mut content = timeline.write();
        self.follow(&mut content, vocabulary, interaction);
        content.version += 1;
    }

    /// Receives a block of interactions, for which the timeline is locked once.
    pub fn block(&mut self, vocabulary: &mut Vocabulary, block: &Block) {
        let timeline = self.timeline.clone();
        let mut content = timeline.write();
        block.each(vocabulary, |vocabulary, interaction| self.follow(&mut content, vocabulary, interaction));
        content.version += 1;
    }

    fn follow(&mut self, content: &mut Content, vocabulary: &Vocabulary, interaction: &Interaction) {
        let TimelineWriter { states, begin, has_begun, last, ended, .. } = self;
        if !std::mem::replace(has_begun, true) {
            (content.begin, content.end) = (interaction.t.max(*begin), interaction.t.max(*begin));
        }
        *last = (*last).max(interaction.t);
        content.end = content.end.max(*last);
        let Content { store, names, rows, begin: origin, .. } = content;
        states.interaction(vocabulary, names, interaction, |state| ended.push(state));
        for Ended { machine, interval } in ended.drain(..) {
            let row = rows.of_machine(store, vocabulary, machine, states.is_context(machine));
            store.push(row, since(*origin, interval));
        }
    }

    /// Ends the open states, and groups the rows by processes. `threads` are the facts about the
    /// threads behind machines.
    pub fn finish(mut self, vocabulary: &Vocabulary, threads: &HashMap<MachineId, ThreadFacts>) {
        self.show(vocabulary, threads);
        let mut content = self.timeline.write();
        content.add_busy_times();
        content.version += 1;
    }

    /// Adds the open states up to now, and groups the rows by processes. Interactions may follow:
    /// they continue an open state, so the timeline will be the same as without this call. Rows are
    /// sorted by their busy times, so these are not added: rows would change their places.
    pub fn show(&mut self, vocabulary: &Vocabulary, threads: &HashMap<MachineId, ThreadFacts>) {
        let timeline = self.timeline.clone();
        let mut content = timeline.write();
        let content = &mut *content;
        content.end = content.end.max(self.last);
        let Content { store, names, rows, begin: origin, .. } = content;
        let states = &mut self.states;
        let mut ended = Vec::new();
        states.open_states(vocabulary, names, self.last, |state| ended.push(state));
        for Ended { machine, interval } in ended {
            let row = rows.of_machine(store, vocabulary, machine, states.is_context(machine));
            store.push(row, since(*origin, interval));
        }
        rows.group(store, vocabulary, threads);
        content.version += 1;
    }
}

/// Returns the interval with times since the origin; what lies before it is cut off.
fn since(origin: u64, interval: StateInterval) -> StateInterval {
    StateInterval { begin: interval.begin.saturating_sub(origin), end: interval.end.saturating_sub(origin), ..interval }
}

impl Content {
    /// Sums up the time in which each row executes code. A time that cannot be read again counts
    /// as 0, as the states themselves are missing then.
    fn add_busy_times(&mut self) {
        let Content { store, names, rows, .. } = self;
        for id in (0..store.row_count() as u32).map(RowId) {
            let sums = store.sums(id, 0, u64::MAX).unwrap_or_default();
            if let Some(row) = rows.get_mut(id) {
                row.busy_ns = sums.iter().filter(|sum| names.class(sum.state).is_busy()).map(|sum| sum.ns).sum();
            }
        }
    }
}

/// The rows of the CPUs: which thread or interrupt had each of them.
#[derive(Debug, Default)]
pub struct CpuRows {
    group: Option<RowId>,
    cpus: HashMap<CpuId, CpuRow>,
    states: HashMap<Occupant, StateId>,
    /// CPUs on which each thread ran.
    used: HashMap<i32, BTreeSet<u32>>,
}

/// Fills the rows of the CPUs.
#[derive(Debug)]
pub struct CpuRowsWriter<'a> {
    rows: &'a mut CpuRows,
    timeline: &'a Timeline,
    linux: &'a Linux,
}

/// The row of a CPU, and its last intervals, from the first one on whose thread is not known yet.
#[derive(Debug)]
struct CpuRow {
    row: RowId,
    pending: Vec<(Occupant, u64, u64)>,
}

/// Number of intervals after which a thread that is not known stays unknown.
const MAX_PENDING: usize = 256;

impl CpuRows {
    /// Returns what fills the rows. The timeline is always the same one.
    pub fn filled<'a>(&'a mut self, timeline: &'a Timeline, linux: &'a Linux) -> CpuRowsWriter<'a> {
        CpuRowsWriter { rows: self, timeline, linux }
    }
}

impl CpuRowsWriter<'_> {
    /// Completes the rows after the last interval.
    pub fn finish(mut self) {
        let cpus: Vec<CpuId> = self.rows.cpus.keys().copied().collect();
        cpus.into_iter().for_each(|cpu| self.write(cpu, Occupant::Unclaimed));
        let mut content = self.timeline.write();
        content.add_busy_times();
        let masks: HashMap<i32, &Thread> = self.linux.threads.iter().map(|thread| (thread.tid, thread)).collect();
        content.rows.set_cpus(&self.rows.used, |tid| masks.get(&tid)?.mask.at_begin().map(|cpus| cpus.to_vec()));
        content.version += 1;
    }

    /// Returns the row of a CPU; added if necessary.
    fn cpu(&mut self, cpu: CpuId) -> &mut CpuRow {
        let CpuRowsWriter { timeline, linux, rows: CpuRows { group, cpus, .. } } = self;
        cpus.entry(cpu).or_insert_with(|| {
            let mut content = timeline.write();
            let Content { store, rows, .. } = &mut *content;
            let group = *group.get_or_insert_with(|| rows.add(store, RowKind::Cpus, "CPUs", ""));
            let number = linux.cpus.get(cpu.0 as usize).map_or(cpu.0, |cpu| cpu.number);
            let row = rows.add(store, RowKind::Cpu, &format!("CPU {number}"), "");
            if let Some(row) = rows.get_mut(row) {
                row.parent = Some(group);
                row.cpu = Some(number);
            }
            CpuRow { row, pending: Vec::new() }
        })
    }

    /// Writes the pending intervals of a CPU. Those whose thread was not known belong to
    /// `unclaimed`.
    fn write(&mut self, cpu: CpuId, unclaimed: Occupant) {
        let CpuRow { row, pending } = self.cpu(cpu);
        let (row, intervals) = (*row, std::mem::take(pending));
        let mut content = self.timeline.write();
        for (by, from, to) in intervals {
            let by = if by == Occupant::Unclaimed { unclaimed } else { by };
            let Content { store, names, rows, begin, end, .. } = &mut *content;
            let state = *self.rows.states.entry(by).or_insert_with(|| {
                let state = named_occupant(self.linux, names, by);
                if let Some(tid) = tid_of(self.linux, by) {
                    rows.set_thread_of_cpu_state(state, tid);
                }
                state
            });
            store.push(row, since(*begin, StateInterval { begin: from, end: to.min(*end), state }));
            if let (Some(tid), Some(cpu)) = (rows.thread_of_cpu_state(state), rows.get_mut(row).and_then(|row| row.cpu)) {
                self.rows.used.entry(tid).or_default().insert(cpu);
            }
        }
    }
}

fn tid_of(linux: &Linux, by: Occupant) -> Option<i32> {
    match by {
        Occupant::Thread(thread) => linux.threads.get(thread.0 as usize).map(|thread| thread.tid),
        _ => None,
    }
}

fn named_occupant(linux: &Linux, names: &mut StateNames, by: Occupant) -> StateId {
    match by {
        Occupant::Idle => names.intern("idle", StateClass::Asleep),
        Occupant::Thread(thread) => {
            let thread = linux.threads.get(thread.0 as usize);
            let name = thread.map_or_else(String::new, |thread| format!("{} {}", String::from_utf8_lossy(&thread.name), thread.tid));
            names.intern(&name, StateClass::Running)
        }
        Occupant::Context(context) => {
            let name = linux.contexts.get(context.0 as usize).map_or("interrupt", |context| context.name.as_str());
            names.intern(name, StateClass::Interrupt)
        }
        Occupant::Unclaimed => names.intern("a thread that is not known", StateClass::Unknown),
        Occupant::Lost => names.intern("lost events", StateClass::Lost),
    }
}

impl Replayed for CpuRowsWriter<'_> {
    /// The intervals of each CPU arrive in the order of time.
    fn occupied(&mut self, cpu: CpuId, by: Occupant, begin_ns: i64, end_ns: i64) {
        let pending = &mut self.cpu(cpu).pending;
        let may_be_claimed = by == Occupant::Unclaimed || matches!(by, Occupant::Context(_)) && !pending.is_empty();
        pending.push((by, begin_ns.max(0) as u64, end_ns.max(0) as u64));
        if !may_be_claimed || pending.len() > MAX_PENDING {
            self.write(cpu, Occupant::Unclaimed);
        }
    }

    fn claimed(&mut self, cpu: CpuId, base: Base) {
        let by = match base {
            Base::Idle => Occupant::Idle,
            Base::Thread(thread) => Occupant::Thread(thread),
            Base::Unknown => Occupant::Unclaimed,
        };
        self.write(cpu, by);
    }
}

/// Adds the critical path: a row of its own, and for each row the time that it is on the path.
pub fn add_path(timeline: &Timeline, vocabulary: &Vocabulary, answer: &Answer) {
    let Some(segments) = &answer.segments else { return };
    let mut content = timeline.write();
    let Content { store, names, rows, path, version, begin: origin, .. } = &mut *content;
    let by_name: HashMap<(&str, &str), RowId> =
        rows.machine_rows().map(|(machine, row)| ((vocabulary.host(machine), vocabulary.machine_name(machine)), row)).collect();
    let lane = rows.add(store, RowKind::Path, "critical path", "");
    let on_path = names.intern("on the critical path", StateClass::Running);
    let mut times: HashMap<RowId, u64> = HashMap::new();
    for Segment { start_ns, end_ns, host, machine, state, kind, .. } in segments.segments() {
        let class = match kind {
            SegmentKind::State(kind) => StateClass::of(kind),
            SegmentKind::Link(kind) => class_of_link(kind),
        };
        let name = names.intern(&format!("{}::{state}", place(host, machine)), class);
        let interval = since(*origin, StateInterval { begin: start_ns, end: end_ns, state: name });
        store.push(lane, interval);
        let Some(&row) = by_name.get(&(host, machine)).filter(|_| !kind.is_link()) else { continue };
        rows.set_path_state(name, row);
        let path_row = rows.add_on_path(store, row);
        store.push(path_row, StateInterval { state: on_path, ..interval });
        *times.entry(row).or_default() += interval.end - interval.begin;
    }
    for (id, ns) in times {
        if let Some(row) = rows.get_mut(id) {
            row.path_ns = ns;
        }
    }
    *path = Some(lane);
    *version += 1;
}

/// Time of a link passes without anyone running: until a timer expires, until a woken thread runs,
/// or until something arrives.
fn class_of_link(kind: LinkKind) -> StateClass {
    match kind {
        LinkKind::Timer => StateClass::Asleep,
        LinkKind::Wakeup => StateClass::Runnable,
        LinkKind::Unknown => StateClass::Unknown,
        _ => StateClass::Blocked,
    }
}
