//! Redirects the kernel's pages to another recording while the tracer keeps running. Each CPU's
//! sequence of events is cut where the redirection finds it, if need be within a page.

use super::cpu_loss::CpuLoss;
use super::pages::PageFiles;
use super::pause::since;
use super::KernelSource;
use crate::kernel::{reap, state_reader, KernelError};
use crate::output::folder::Folder;
use longpole_ftrace::CpuStats;
use serde_json::json;
use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write as _};
use std::path::Path;

impl KernelSource {
    /// Switches to a new recording (the next chunk). When this returns, the old recording's pages
    /// are complete; they are converted when someone reads that recording.
    pub fn rotate(&mut self, recording: &Path) -> Result<(), KernelError> {
        let path = recording.join(crate::kernel::RAW);
        fs::create_dir_all(&path).map_err(KernelError::io("make", &path))?;
        let raw = reap::own_raw(recording).map_err(KernelError::io("open", &path))?;
        let lock = reap::lock(recording);
        copy_formats(&self.raw, &raw).map_err(KernelError::io("write", &path))?;
        if let Some(old) = self.raw.path().parent().and_then(Path::parent) {
            let (from, to) = (old.join("symbols"), recording.join("symbols"));
            // The symbols are the same in both recordings and never modified, so a hard link
            // suffices.
            let _ = fs::create_dir(&to).and_then(|()| fs::hard_link(from.join("kallsyms"), to.join("kallsyms")));
        }
        let mut files: PageFiles = BTreeMap::new();
        for &cpu in &self.cpus {
            let name = format!("cpu{cpu}");
            files.insert(cpu, (raw.create(&name).map_err(KernelError::io("make", raw.join(&name)))?, raw.join(&name)));
        }
        let now = self.clock.map(|clock| clock.now());
        let mut last = self.description.clone();
        self.description["state_dump"] = json!({ "begin": now, "end": now });
        // Until the pages are shifted, it is not known how many events the old recording has.
        self.description["before"] = json!(reap::BEFORE_UNKNOWN);
        let old = std::mem::replace(&mut self.raw, raw);
        self.describe()?;
        if let Some(instance) = &self.instance {
            reap::announce(&instance.name(), recording);
        }
        let moved = self.shift(files).map_err(KernelError::io("write", old.path()))?;
        let of_chunk = |CpuLoss { cpu, stats }| {
            let stats = match self.overwrites {
                // Nothing was read yet: all pages are still in the kernel.
                true => CpuStats::default(),
                false => {
                    let before = self.reported_cpus.insert(cpu, stats).unwrap_or_default();
                    CpuStats { entries: 0, bytes: 0, ..since(stats, before) }
                }
            };
            CpuLoss { cpu, stats }.to_json()
        };
        last["cpus"] = moved.cpus.into_iter().map(of_chunk).collect();
        self.note_before();
        // The tracer's instance and its buffers now belong to the next recording.
        last["instance"] = serde_json::Value::Null;
        last["end"] = json!(self.clock.map(|clock| clock.now()));
        super::describe(&old, &last).map_err(KernelError::io("write", old.join(crate::kernel::DESCRIPTION)))?;
        self.reserve_in(recording);
        self.lock = lock;
        if let Some(clock) = self.clock {
            // Reading /proc takes longer than the recorder's main loop may be blocked, so a thread
            // does it.
            let raw = self.raw.path().to_owned();
            let _ = std::thread::Builder::new().name("longpole-state".to_owned()).spawn(move || {
                // The file gets its name only when it is complete, so a process that converts this
                // recording meanwhile never reads half of it.
                let written = |name: &str, write: &dyn Fn(fs::File) -> io::Result<()>| {
                    let hidden = raw.join(format!(".{name}"));
                    fs::File::create_new(&hidden).and_then(write)?;
                    fs::rename(&hidden, raw.join(name))
                };
                let foreign = crate::kernel::has_foreign_pids();
                written("state.jsonl", &|file| state_reader::write(file, foreign, &|| clock.now()))?;
                if foreign {
                    return Ok(());
                }
                written("names.jsonl", &crate::kernel::write_names)
            });
        }
        Ok(())
    }
}

fn copy_formats(from: &Folder, to: &Folder) -> io::Result<()> {
    const MAX_FILE_BYTES: u64 = 1 << 20;
    for name in ["header_page", "header_event"] {
        to.create(name)?.write_all(from.text(name, MAX_FILE_BYTES)?.as_bytes())?;
    }
    let (all, events) = (from.folder("events")?, to.make("events")?);
    for system in all.names()? {
        let (of, place) = (all.folder(&system)?, events.make(&system.to_string_lossy())?);
        for event in of.names()? {
            place.create(&event.to_string_lossy())?.write_all(of.text(&event, MAX_FILE_BYTES)?.as_bytes())?;
        }
    }
    Ok(())
}
