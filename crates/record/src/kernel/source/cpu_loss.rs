//! The kernel's own counters of the events of each CPU: how many are in the pages, and how many are
//! in none.

use crate::kernel::counters::Grown;
use longpole_ftrace::CpuStats;
use serde_json::{json, Value};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// Reads an open `stats` file of a CPU.
pub(in crate::kernel) fn stats(file: &File) -> io::Result<CpuStats> {
    let mut bytes = [0; 512];
    let size = file.read_at(&mut bytes, 0)?;
    let stats = CpuStats::parse(&String::from_utf8_lossy(&bytes[..size]));
    stats.map_err(|line| io::Error::new(io::ErrorKind::InvalidData, line))
}

/// The kernel's counters of one CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuLoss {
    pub cpu: u32,
    pub stats: CpuStats,
}

impl CpuLoss {
    /// Returns the counters in the form of `source.json`.
    pub(in crate::kernel) fn to_json(self) -> Value {
        let CpuStats { entries, overrun, commit_overrun, dropped, read, .. } = self.stats;
        json!({ "cpu": self.cpu, "entries": entries, "overrun": overrun, "commit_overrun": commit_overrun, "dropped": dropped, "read": read })
    }

    /// Reads what [`CpuLoss::to_json`] wrote. A counter that is missing there is 0.
    pub(in crate::kernel) fn from_json(json: &Value) -> Option<CpuLoss> {
        let count = |key: &str| json[key].as_u64().unwrap_or(0);
        let stats = CpuStats {
            entries: count("entries"),
            overrun: count("overrun"),
            commit_overrun: count("commit_overrun"),
            dropped: count("dropped"),
            bytes: 0,
            read: count("read"),
        };
        Some(CpuLoss { cpu: u32::try_from(json["cpu"].as_u64()?).ok()?, stats })
    }
}

/// Result of a finished recording of the kernel.
#[derive(Debug, Default)]
pub struct Drained {
    pub cpus: Vec<CpuLoss>,
    /// Bytes of pages that were moved.
    pub bytes: u64,
    /// Growth of the kernel's own packet counters during the recording.
    pub grown: Option<Grown>,
    pub diagnostics: Vec<String>,
}

impl Drained {
    /// Number of events in the pages.
    pub fn events(&self) -> u64 {
        self.cpus.iter().map(|cpu| cpu.stats.read).sum()
    }

    /// Number of events that are in no page.
    pub fn lost(&self) -> u64 {
        self.cpus.iter().map(|cpu| cpu.stats.lost().saturating_add(cpu.stats.entries)).sum()
    }

    /// Returns the counters of all CPUs in the form of `source.json`.
    pub fn cpus_json(&self) -> Value {
        self.cpus.iter().map(|cpu| cpu.to_json()).collect()
    }
}
