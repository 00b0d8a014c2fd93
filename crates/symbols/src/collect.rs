//! Collects the places of a recording's samples in one pass over `samples/`.

use crate::spaces::{ModuleId, Place, Spaces};
use crate::stacks::lookup_addresses;
use longpole_trace::Error;
use longpole_trace::Item;
use longpole_trace::Options;
use longpole_trace::Trace;
use std::collections::{BTreeMap, HashMap};
use std::path::Path;

/// Maximum number of different places that are looked up. Later ones keep their module and offset.
const MAX_PLACES: usize = 1 << 20;

/// Places of all samples of a recording.
#[derive(Debug, Default)]
pub struct Places {
    pub spaces: Spaces,
    /// Offsets in each module, with the number of samples at each.
    pub files: HashMap<ModuleId, BTreeMap<u64, u64>>,
    /// Addresses in code that processes generated themselves, by process id, with the number of
    /// samples at each.
    pub made: HashMap<i32, BTreeMap<u64, u64>>,
    /// User id, and process id in the process's own namespace, of the processes in `made`.
    pub owners: HashMap<i32, (u32, i32)>,
    /// Logs of generated code, of the processes in `made`.
    pub code_logs: HashMap<i32, ModuleId>,
    /// Number of different places in `files` and `made`.
    pub count: usize,
    /// Number of addresses beyond [`MAX_PLACES`].
    pub left_out: u64,
    /// Time of the last sample.
    pub end_ns: i64,
}

/// Collects the places of the samples of a recording.
pub fn collect(recording: &Path) -> Result<Places, Error> {
    let mut trace = Trace::open(&[recording.join("samples")], Options::default())?;
    let mut found = Places { end_ns: i64::MIN, ..Places::default() };
    let mut addresses = Vec::new();
    while let Some((item, catalogue)) = trace.next_with_catalogue()? {
        let Item::Event(event) = item else { continue };
        let Some(sample) = found.spaces.follow(catalogue, &event) else { continue };
        let pid = sample.pid;
        found.end_ns = sample.t_ns;
        addresses.clear();
        addresses.extend(lookup_addresses(sample.user));
        for &address in &addresses {
            found.take(pid, address);
        }
    }
    Ok(found)
}

impl Places {
    fn take(&mut self, pid: i32, address: u64) {
        let (of, key) = match self.spaces.place(pid, address) {
            Place::File(module, offset) => (self.files.entry(module).or_default(), offset),
            Place::Made(pid, address) => {
                let process = self.spaces.process(pid);
                if let Some(owner) = process.and_then(|process| process.owner) {
                    self.owners.insert(pid, owner);
                }
                if let Some(log) = process.and_then(|process| process.code_log) {
                    self.code_logs.insert(pid, log);
                }
                (self.made.entry(pid).or_default(), address)
            }
            Place::Kernel(_) | Place::Unknown(_) => return,
        };
        if let Some(count) = of.get_mut(&key) {
            *count += 1;
        } else if self.count < MAX_PLACES {
            self.count += 1;
            of.insert(key, 1);
        } else {
            self.left_out += 1;
        }
    }
}
