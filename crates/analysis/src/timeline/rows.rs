//! The rows of a timeline, and how they are grouped: hosts with processes with threads, CPUs,
//! interrupts.

use super::state_names::StateId;
use super::store::{RowId, Store};
use longpole_model::interaction::{MachineId, Vocabulary};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeSet, HashMap, HashSet};

/// What a row shows. Groups have no states of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RowKind {
    /// The critical path.
    Path,
    /// Groups.
    Host,
    Process,
    Cpus,
    Interrupts,
    Machines,
    /// The recorder's processes.
    Recorder,
    Queues,
    Counters,
    Packets,
    /// Rows with states.
    Thread,
    Cpu,
    Interrupt,
    Machine,
    /// Rows with values.
    Queue,
    Counter,
    /// Rows with packets: of the kernel's events, and of a capture.
    Flow,
    Captured,
}

/// Facts about the values of a row.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ValueFacts {
    pub min: f64,
    pub max: f64,
    /// `None` if it is not known.
    pub unit: Option<String>,
    /// Largest value that is possible; `None` if it is not known.
    pub capacity: Option<u64>,
}

impl RowKind {
    /// Returns true if rows of this kind contain others whose states are shown together.
    pub fn sums_states(self) -> bool {
        use RowKind::{Cpus, Host, Interrupts, Machines, Process, Recorder};
        matches!(self, Host | Process | Cpus | Interrupts | Machines | Recorder)
    }

    /// Returns true if rows of this kind have states of something that can be busy.
    fn has_states(self) -> bool {
        use RowKind::{Cpu, Interrupt, Machine, Thread};
        matches!(self, Thread | Cpu | Interrupt | Machine)
    }
}

/// A row for a reader.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    pub id: RowId,
    pub parent: Option<RowId>,
    pub kind: RowKind,
    pub name: String,
    /// Facts that distinguish rows of one name: ids, the script, the title.
    pub detail: String,
    /// Id of a thread, number of a CPU.
    pub tid: Option<i32>,
    pub cpu: Option<u32>,
    /// CPUs on which a thread ran, and those that its affinity mask allowed at the begin, such as
    /// `0-3,8`. `None` if the trace does not tell.
    pub used_cpus: Option<String>,
    pub allowed_cpus: Option<String>,
    pub states: u64,
    /// Time in which it executes code, and time on the critical path, in ns.
    pub busy_ns: u64,
    pub path_ns: u64,
    /// `None` for a row with states.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub values: Option<ValueFacts>,
}

/// What is known about the thread behind a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ThreadFacts {
    pub pid: i32,
    pub tid: i32,
    pub program: String,
    /// Script or title of the process, if it has one.
    pub role: Option<String>,
    pub name: String,
    pub is_kernel: bool,
    pub is_recorder: bool,
}

/// What distinguishes groups: host, kind, process, name. A process that executes another program is
/// another group.
type GroupKey = (String, RowKind, i32, String);

#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Rows {
    /// The rows by their ids in the store.
    rows: HashMap<RowId, Row>,
    /// Row of each machine, while the trace is read.
    #[serde(skip)]
    machines: HashMap<MachineId, RowId>,
    /// Rows of the groups, while the trace is read.
    #[serde(skip)]
    groups: HashMap<GroupKey, RowId>,
    /// Row with the time on the critical path of each row that is on it.
    on_path: HashMap<RowId, RowId>,
    /// Row with the numbers of the packets of each row of packets.
    numbers: HashMap<RowId, RowId>,
    /// Row of each state of the critical path; none for links.
    path_states: HashMap<StateId, RowId>,
    /// Thread of each state of the CPUs; none for interrupts and the like.
    cpu_threads: HashMap<StateId, i32>,
}

impl Rows {
    /// Returns the row of a machine; added if necessary.
    pub fn of_machine(&mut self, store: &mut Store, vocabulary: &Vocabulary, machine: MachineId, is_context: bool) -> RowId {
        if let Some(&row) = self.machines.get(&machine) {
            return row;
        }
        let kind = if is_context { RowKind::Interrupt } else { RowKind::Machine };
        let row = self.add(store, kind, vocabulary.machine_name(machine), vocabulary.host(machine));
        self.machines.insert(machine, row);
        row
    }

    pub fn row_of(&self, machine: MachineId) -> Option<RowId> {
        self.machines.get(&machine).copied()
    }

    /// Adds a row. `detail` may be empty.
    pub fn add(&mut self, store: &mut Store, kind: RowKind, name: &str, detail: &str) -> RowId {
        let id = store.add_row();
        self.insert(id, kind, (name, detail), None);
        id
    }

    /// Adds a row with values, which is shown when it has a parent.
    pub fn add_values(&mut self, store: &mut Store, kind: RowKind, texts: (&str, &str)) -> RowId {
        let id = store.add_value_row();
        self.insert(id, kind, texts, None);
        id
    }

    /// Adds a row of packets to a group. Returns it, and the row for the numbers of the packets.
    pub fn add_packets(&mut self, store: &mut Store, kind: RowKind, texts: (&str, &str), group: RowId) -> (RowId, RowId) {
        let id = store.add_row();
        self.insert(id, kind, texts, Some(group));
        let numbers = store.add_value_row();
        self.numbers.insert(id, numbers);
        (id, numbers)
    }

    /// Returns the row with the numbers of the packets of a row.
    pub fn numbers(&self, row: RowId) -> Option<RowId> {
        self.numbers.get(&row).copied()
    }

    pub fn iter(&self) -> impl Iterator<Item = &Row> {
        self.rows.values()
    }

    pub fn kind(&self, row: RowId) -> Option<RowKind> {
        self.rows.get(&row).map(|row| row.kind)
    }

    fn insert(&mut self, id: RowId, kind: RowKind, (name, detail): (&str, &str), parent: Option<RowId>) {
        let (name, detail) = (name.to_owned(), detail.to_owned());
        let row = Row {
            id,
            parent,
            kind,
            name,
            detail,
            tid: None,
            cpu: None,
            used_cpus: None,
            allowed_cpus: None,
            states: 0,
            busy_ns: 0,
            path_ns: 0,
            values: None,
        };
        self.rows.insert(id, row);
    }

    /// Returns the group of this kind, below its host if the trace has several; added if necessary.
    pub fn titled_group(&mut self, store: &mut Store, kind: RowKind, title: &str, host: &str) -> RowId {
        let host = self.rows.values().find(|row| row.kind == RowKind::Host && row.name == host).map(|row| row.id);
        let known = self.rows.values().find(|row| row.kind == kind && row.parent == host && row.name == title);
        known.map(|row| row.id).unwrap_or_else(|| {
            let group = self.add(store, kind, title, "");
            if let Some(row) = self.rows.get_mut(&group) {
                row.parent = host;
            }
            group
        })
    }

    pub fn get_mut(&mut self, id: RowId) -> Option<&mut Row> {
        self.rows.get_mut(&id)
    }

    pub fn machine_rows(&self) -> impl Iterator<Item = (MachineId, RowId)> + '_ {
        self.machines.iter().map(|(&machine, &row)| (machine, row))
    }

    /// Returns the rows with states of each of these groups, at any depth.
    pub fn in_groups(&self, store: &Store, groups: &[RowId]) -> HashMap<RowId, Vec<RowId>> {
        let is_group = |id: &RowId| self.rows.get(id).is_some_and(|row| row.kind.sums_states());
        let mut within: HashMap<RowId, Vec<RowId>> = groups.iter().filter(|id| is_group(id)).map(|&id| (id, Vec::new())).collect();
        if within.is_empty() {
            return within;
        }
        // Rows with values have no time in which they are busy.
        for row in self.rows.values().filter(|row| store.states(row.id) > 0 && row.kind.has_states()) {
            let mut above = row.parent;
            while let Some(group) = above {
                if let Some(rows) = within.get_mut(&group) {
                    rows.push(row.id);
                }
                above = self.rows.get(&group).and_then(|row| row.parent);
            }
        }
        within
    }

    pub fn on_path(&self, row: RowId) -> Option<RowId> {
        self.on_path.get(&row).copied()
    }

    pub fn of_path_state(&self, state: StateId) -> Option<RowId> {
        self.path_states.get(&state).copied()
    }

    /// Returns the number of rows in the store: those that are shown, and those with the time on
    /// the critical path or with the numbers of packets.
    pub fn stored_count(&self) -> usize {
        self.rows.len() + self.on_path.len() + self.numbers.len()
    }

    /// Returns true if all rows are among the first `count` of the store, and each is in groups
    /// that exist and do not contain themselves.
    pub fn is_sound(&self, count: usize) -> bool {
        let above = |row: &Row| row.parent.map(|parent| self.rows.get(&parent));
        // A thread is in a process, which is in a host.
        let is_grouped = |row: &Row| match above(row) {
            None => true,
            Some(None) => false,
            Some(Some(group)) => above(group).is_none_or(|host| host.is_some_and(|host| host.parent.is_none())),
        };
        let is_stored = |id: &RowId| (id.0 as usize) < count;
        self.rows.iter().all(|(id, row)| *id == row.id && is_stored(id) && is_grouped(row))
            && self.on_path.values().chain(self.numbers.values()).chain(self.path_states.values()).all(is_stored)
    }

    /// Returns the row for the time that `row` is on the critical path; added if necessary.
    pub fn add_on_path(&mut self, store: &mut Store, row: RowId) -> RowId {
        *self.on_path.entry(row).or_insert_with(|| store.add_row())
    }

    pub fn set_path_state(&mut self, state: StateId, row: RowId) {
        self.path_states.insert(state, row);
    }

    pub fn set_thread_of_cpu_state(&mut self, state: StateId, tid: i32) {
        self.cpu_threads.insert(state, tid);
    }

    pub fn thread_of_cpu_state(&self, state: StateId) -> Option<i32> {
        self.cpu_threads.get(&state).copied()
    }

    /// Sets the CPUs of the rows of threads, by the ids of the threads.
    pub fn set_cpus(&mut self, used: &HashMap<i32, BTreeSet<u32>>, allowed: impl Fn(i32) -> Option<Vec<u32>>) {
        for row in self.rows.values_mut() {
            let Some(tid) = row.tid else { continue };
            row.used_cpus = used.get(&tid).map(|cpus| ranges(cpus.iter().copied()));
            row.allowed_cpus = allowed(tid).map(|cpus| ranges(cpus.into_iter()));
        }
    }

    /// Returns the row of a group; added if necessary.
    fn group_row(&mut self, store: &mut Store, key: GroupKey) -> RowId {
        if let Some(&row) = self.groups.get(&key) {
            return row;
        }
        let row = self.add(store, key.1, &key.3, "");
        self.groups.insert(key, row);
        row
    }

    /// Groups the rows, as far as they are known. `threads` are the facts about the threads behind
    /// machines.
    pub fn group(&mut self, store: &mut Store, vocabulary: &Vocabulary, threads: &HashMap<MachineId, ThreadFacts>) {
        let mut machines: Vec<(MachineId, RowId)> = self.machine_rows().collect();
        machines.sort_unstable();
        let several_hosts = {
            let first = machines.first().map(|&(machine, _)| vocabulary.host(machine));
            machines.iter().any(|&(machine, _)| Some(vocabulary.host(machine)) != first)
        };
        let mut seen: HashSet<RowId> = HashSet::new();
        for (machine, id) in machines {
            let host = vocabulary.host(machine).to_owned();
            let parent = several_hosts.then(|| self.group_row(store, (String::new(), RowKind::Host, 0, host.clone())));
            let facts = threads.get(&machine);
            let kind = self.rows.get(&id).map_or(RowKind::Machine, |row| row.kind);
            let (group_kind, group_of, name, detail) = match (kind, facts) {
                (RowKind::Interrupt, _) => (RowKind::Interrupts, 0, "interrupts".to_owned(), String::new()),
                (_, Some(facts)) if facts.is_kernel => (RowKind::Process, 0, "kernel threads".to_owned(), String::new()),
                (_, Some(facts)) if facts.is_recorder => (RowKind::Recorder, 0, "the recorder".to_owned(), String::new()),
                (_, Some(facts)) => {
                    let role = facts.role.as_ref().map_or_else(String::new, |role| format!("{role}, "));
                    (RowKind::Process, facts.pid, facts.program.clone(), format!("{role}pid {}", facts.pid))
                }
                (_, None) => (RowKind::Machines, 0, "programs".to_owned(), String::new()),
            };
            let group = self.group_row(store, (host, group_kind, group_of, name));
            if let Some(row) = self.rows.get_mut(&group).filter(|_| seen.insert(group)) {
                (row.parent, row.detail) = (parent, detail);
            }
            if let Some(row) = self.rows.get_mut(&id) {
                row.parent = Some(group);
                if let Some(facts) = facts {
                    (row.kind, row.name, row.detail) = (RowKind::Thread, facts.name.clone(), format!("tid {}", facts.tid));
                    row.tid = Some(facts.tid);
                }
            }
        }
    }

    /// Returns all rows, heads before their rows: by kind, then by time on the path, then by name.
    pub fn all(&self, store: &Store) -> Vec<Row> {
        // A row changes its group when more is known about it, so a group may have lost its rows.
        let parents: HashSet<RowId> = self.rows.values().filter_map(|row| row.parent).collect();
        let left: HashSet<RowId> = self.groups.values().filter(|&row| !parents.contains(row)).copied().collect();
        // While a recording is followed, a row is shown from the next grouping on, and a row of
        // values when it has all of them.
        let is_new = |row: &Row| match row.kind {
            RowKind::Machine | RowKind::Interrupt => !self.groups.is_empty() && row.parent.is_none(),
            RowKind::Queue | RowKind::Counter => row.parent.is_none(),
            _ => false,
        };
        let mut rows: Vec<Row> = self.rows.values().filter(|row| !left.contains(&row.id) && !is_new(row)).cloned().collect();
        rows.iter_mut().for_each(|row| row.states = store.states(row.id));
        let mut sums: HashMap<RowId, (u64, u64)> = HashMap::new();
        for row in &rows {
            let mut above = row.parent;
            while let Some(parent) = above {
                let sum = sums.entry(parent).or_default();
                (sum.0, sum.1) = (sum.0 + row.busy_ns, sum.1 + row.path_ns);
                above = self.rows.get(&parent).and_then(|row| row.parent);
            }
        }
        for row in &mut rows {
            if let Some(&(busy, path)) = sums.get(&row.id) {
                (row.busy_ns, row.path_ns) = (row.busy_ns + busy, row.path_ns + path);
            }
        }
        rows.sort_by(|a, b| {
            let order = |row: &Row| (row.kind, std::cmp::Reverse(row.path_ns), std::cmp::Reverse(row.busy_ns));
            order(a).cmp(&order(b)).then_with(|| a.name.cmp(&b.name)).then(a.id.cmp(&b.id))
        });
        rows
    }
}

/// Returns ascending numbers as ranges, such as `0-3,8`.
fn ranges(numbers: impl Iterator<Item = u32>) -> String {
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    for number in numbers {
        match ranges.last_mut().filter(|(_, last)| last.checked_add(1) == Some(number)) {
            Some((_, last)) => *last = number,
            None => ranges.push((number, number)),
        }
    }
    let range = |&(first, last): &(u32, u32)| if first == last { first.to_string() } else { format!("{first}-{last}") };
    ranges.iter().map(range).collect::<Vec<_>>().join(",")
}
