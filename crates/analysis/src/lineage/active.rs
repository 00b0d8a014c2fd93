//! The active path of one machine: its own time as it is, each of its blocks replaced by what its lineage says of that time.
//!
//! The lineage that a machine has after a block is the global walk from the block's cause; what of it lies within the block explains the
//! block. The time before the machine's first line, and between two lives, is explained alike by what gave it life.

use super::segments::Record;
use longpole_model::interaction::MachineId;

#[derive(Clone, Debug)]
pub struct Active {
    machine: MachineId,
    /// The path so far, without gaps.
    pub path: Vec<Record>,
    /// Since when it is blocked or does not exist.
    since: Option<u64>,
    /// What it was in the meantime, in case that no cause is found.
    meanwhile: Vec<Record>,
    marked: Option<Vec<Record>>,
}

impl Active {
    pub fn new(machine: MachineId) -> Active {
        Active { machine, path: Vec::new(), since: None, meanwhile: Vec::new(), marked: None }
    }

    pub fn begin(&mut self, t: u64) {
        self.since = Some(t);
    }

    /// The machine was in one state for this time.
    pub fn own(&mut self, machine: MachineId, record: Record) {
        if machine == self.machine {
            let to = if self.since.is_some() { &mut self.meanwhile } else { &mut self.path };
            append(to, record);
        }
    }

    pub fn blocked(&mut self, machine: MachineId, now: u64) {
        if machine == self.machine {
            self.since.get_or_insert(now);
        }
    }

    /// The block ended without a cause: it stays.
    pub fn ended(&mut self, machine: MachineId) {
        if machine == self.machine {
            self.keep();
        }
    }

    fn keep(&mut self) {
        self.since = None;
        for record in std::mem::take(&mut self.meanwhile) {
            append(&mut self.path, record);
        }
    }

    /// The block ended with a cause of which nothing is known.
    pub fn unexplained(&mut self, machine: MachineId, now: u64, unknown: u32) {
        if machine == self.machine {
            self.explained(machine, now, [Record { start: 0, end: now, key: unknown, parent: 0 }].into_iter());
        }
    }

    /// The block ended, and this is the lineage back from here.
    pub fn explained(&mut self, machine: MachineId, now: u64, back: impl Iterator<Item = Record>) {
        if machine != self.machine {
            return;
        }
        let Some(since) = self.since.take() else { return };
        self.meanwhile.clear();
        let within = back.take_while(|record| record.end > since);
        let mut records: Vec<Record> = within.map(|record| Record { start: record.start.max(since), ..record }).collect();
        records.retain(|record| record.end <= now && record.start < record.end);
        for record in records.into_iter().rev() {
            append(&mut self.path, record);
        }
    }

    /// The machine begins, and this is its lineage. Between two lives it is unknown what it was.
    pub fn appeared(&mut self, machine: MachineId, now: u64, _unknown: u32, back: impl Iterator<Item = Record>) {
        self.explained(machine, now, back);
    }

    pub fn vanished(&mut self, machine: MachineId, now: u64) {
        if machine == self.machine {
            self.keep();
            self.since = Some(now);
        }
    }

    /// The end is here, as long as no later one comes.
    pub fn mark(&mut self) {
        let mut path = self.path.clone();
        self.meanwhile.iter().for_each(|record| append(&mut path, *record));
        self.marked = Some(path);
    }

    pub fn into_path(self) -> Vec<Record> {
        self.marked.unwrap_or(self.path)
    }
}

fn append(path: &mut Vec<Record>, record: Record) {
    match path.last_mut() {
        Some(last) if last.key == record.key && last.end == record.start => last.end = record.end,
        _ => path.push(record),
    }
}
