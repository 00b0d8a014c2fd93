//! The arguments that all reading verbs share: which trace, which part of it, for whom the answer is.

use anyhow::{bail, Context};
use longpole_trace::{Moment, Options, Trace};
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

#[derive(clap::Args)]
pub struct Input {
    /// Recordings or foreign traces (CTF, pcapng, pcap); none: the newest recording under the root ($LONGPOLE_ROOT or ./traces)
    #[arg(value_name = "TRACE")]
    pub traces: Vec<PathBuf>,

    /// Leave out what is before TIME: +1.5s (from the trace's begin), 23:04:05.5, 2025-11-20T23:04:05Z, or Unix time in ns
    #[arg(long, value_name = "TIME", value_parser = Moment::parse)]
    pub begin: Option<Moment>,

    /// Leave out what is after TIME
    #[arg(long, value_name = "TIME", value_parser = Moment::parse)]
    pub end: Option<Moment>,

    /// Answer in JSON, for programs
    #[arg(long)]
    pub json: bool,
}

impl Input {
    /// The traces that were named, or else the newest recording.
    pub fn paths(&self) -> anyhow::Result<Vec<PathBuf>> {
        match self.traces.as_slice() {
            [] => Ok(vec![newest_recording(&root())?]),
            named => Ok(named.to_vec()),
        }
    }

    pub fn options(&self) -> Options {
        Options { begin: self.begin, end: self.end, ..Options::default() }
    }

    /// Opens all traces as one.
    pub fn open(&self) -> anyhow::Result<Trace> {
        Ok(Trace::open(&self.paths()?, self.options())?)
    }
}

/// Where recordings are made and looked for.
pub fn root() -> PathBuf {
    env::var_os("LONGPOLE_ROOT").filter(|root| !root.is_empty()).map_or_else(|| PathBuf::from("traces"), PathBuf::from)
}

fn newest_recording(root: &Path) -> anyhow::Result<PathBuf> {
    let entries = match fs::read_dir(root) {
        Ok(entries) => entries,
        Err(error) => {
            return Err(error).with_context(|| format!("no trace was named, and there is no root {} to look in", root.display()))
        }
    };
    let mut newest: Option<(i64, PathBuf)> = None;
    for entry in entries {
        let path = entry?.path();
        if !longpole_trace::is_recording(&path) {
            continue;
        }
        let begin = begin_of(&path);
        if newest.as_ref().is_none_or(|(latest, other)| (begin, &path) > (*latest, other)) {
            newest = Some((begin, path));
        }
    }
    match newest {
        Some((_, path)) => Ok(path),
        None => bail!("no trace was named, and there is no recording in {}", root.display()),
    }
}

/// When a recording began; what does not say it itself is as old as its directory.
fn begin_of(path: &Path) -> i64 {
    let said = longpole_trace::Recording::read(path).ok().flatten().and_then(|recording| recording.start_ns);
    said.or_else(|| {
        let age = fs::metadata(path).ok()?.modified().ok()?.duration_since(UNIX_EPOCH).ok()?;
        i64::try_from(age.as_nanos()).ok()
    })
    .unwrap_or(0)
}
