//! Runs all readers of foreign data with malformed inputs.
//!
//! Each target is a function of bytes. A worker process runs it with seeds (files from our own
//! generators, and from other tools where available), and then with mutated ones; if edges are
//! counted, an input that reaches new code is mutated further. No input may cause a panic, an
//! abort, more than 5 s of CPU time or more than 512 MiB of memory; some targets check more. All
//! random decisions depend on the seed only.

mod coverage;
mod memory;
mod mutate;
mod seeds;
mod targets;
mod watch;
mod worker;

use anyhow::{bail, Context};
use clap::{Parser, Subcommand};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use targets::{Target, ALL, DELIBERATE_FAILURES};

#[global_allocator]
static MEMORY: memory::Counting = memory::Counting;

/// Feed readers of foreign data with malformed inputs
#[derive(Parser)]
struct Arguments {
    #[command(subcommand)]
    command: What,
}

#[derive(Subcommand)]
enum What {
    /// Run targets; all if none is named
    Fuzz {
        targets: Vec<String>,
        /// Seconds for each target
        #[arg(long, default_value_t = 60.0)]
        seconds: f64,
        /// Seed; the same seed mutates the same inputs in the same way
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// Seconds of CPU time that one input may take
        #[arg(long, default_value_t = 5)]
        longest: u64,
        /// Directory for inputs that failed
        #[arg(long, default_value = "target/fuzz/findings")]
        findings: PathBuf,
    },
    /// Run a target with one input
    Run { target: String, input: PathBuf },
    /// List the targets
    List,
    /// Started by `fuzz` as its worker process
    #[command(hide = true)]
    Worker { target: String, seed: u64, millis: u64, desk: PathBuf },
}

fn main() -> anyhow::Result<ExitCode> {
    match Arguments::parse().command {
        What::Fuzz { targets, seconds, seed, longest, findings } => {
            let time = Duration::try_from_secs_f64(seconds).context("--seconds is not a time")?;
            let wanted = match targets.as_slice() {
                [] => ALL.iter().collect(),
                names => names.iter().map(|name| find(name)).collect::<anyhow::Result<Vec<_>>>()?,
            };
            fuzz(&wanted, (time, Duration::from_secs(longest)), seed, &findings)
        }
        What::Run { target, input } => worker::run_one(find(&target)?, &input).map(|()| ExitCode::SUCCESS),
        What::List => {
            ALL.iter().for_each(|target| println!("{:<12} {}", target.name, target.what));
            Ok(ExitCode::SUCCESS)
        }
        What::Worker { target, seed, millis, desk } => {
            worker::run(find(&target)?, seed, Duration::from_millis(millis), &desk).map(|()| ExitCode::SUCCESS)
        }
    }
}

fn find(name: &str) -> anyhow::Result<&'static Target> {
    match ALL.iter().chain(DELIBERATE_FAILURES).find(|target| target.name == name) {
        Some(target) => Ok(target),
        None => bail!("there is no target {name:?}; `list` shows those that there are"),
    }
}

/// Runs the targets, as many at the same time as there are CPUs.
fn fuzz(wanted: &[&Target], times: (Duration, Duration), seed: u64, findings: &std::path::Path) -> anyhow::Result<ExitCode> {
    let (next, found) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let jobs = std::thread::available_parallelism().map_or(1, usize::from);
    let work = || -> anyhow::Result<()> {
        while let Some(target) = wanted.get(next.fetch_add(1, Ordering::Relaxed)) {
            let watched = watch::watch(target, seed, times, findings)?;
            found.fetch_add(usize::from(watched.finding.is_some()), Ordering::Relaxed);
            print_outcome(target, seed, &watched);
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let all: Vec<_> = (0..jobs).map(|_| scope.spawn(work)).collect();
        all.into_iter().try_for_each(|job| job.join().unwrap_or_else(|_| bail!("a job failed")))
    })?;
    Ok(if found.into_inner() == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn print_outcome(target: &Target, seed: u64, watched: &watch::Watched) {
    let edges = if watched.edges > 0 { format!(", {} edges, {} kept", watched.edges, watched.kept) } else { String::new() };
    let (slowest, peak) = (watched.slowest, watched.peak.div_ceil(1 << 20));
    let mut text = format!("{:<12} {} inputs, slowest {slowest:.0?}, {peak} MiB at most{edges}", target.name, watched.runs);
    if let Some(finding) = &watched.finding {
        let what = finding.what.replace('\n', "\n    ");
        text += &format!("\n{}: input {} of seed {seed}: {what}\n    again: ", target.name, watched.runs);
        text += &format!("cargo run --release -p longpole-fuzz -- run {} {}", target.name, finding.input.display());
    }
    println!("{text}");
}
