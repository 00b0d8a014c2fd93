//! Feeds everything that reads what others wrote with inputs that nobody meant.
//!
//! Each target is a function of bytes. A worker process runs it with seeds (files of our own generators, and of other tools where they are at hand),
//! then with damaged ones; where the compiler counted edges, an input that comes somewhere new is damaged further. No input may panic, abort,
//! compute for more than 5 s or take more than 512 MiB; some targets demand more. All that is random comes from the seed.

mod coverage;
mod memory;
mod mutate;
mod random;
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
use targets::{Target, ALL, CAUGHT};

#[global_allocator]
static MEMORY: memory::Counting = memory::Counting;

/// Feeds readers of foreign bytes with inputs that nobody meant
#[derive(Parser)]
struct Arguments {
    #[command(subcommand)]
    command: What,
}

#[derive(Subcommand)]
enum What {
    /// Runs targets, all where none is named
    Fuzz {
        targets: Vec<String>,
        /// For each target
        #[arg(long, default_value_t = 60.0)]
        seconds: f64,
        /// The same seed damages the same inputs in the same way
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// Seconds on the CPU that one input may take
        #[arg(long, default_value_t = 5)]
        longest: u64,
        /// Where inputs that did harm are put
        #[arg(long, default_value = "target/fuzz/findings")]
        findings: PathBuf,
    },
    /// Runs a target with one input
    Run { target: String, input: PathBuf },
    /// Lists the targets
    List,
    /// What `fuzz` starts
    #[command(hide = true)]
    Worker { target: String, seed: u64, millis: u64, desk: PathBuf },
}

fn main() -> anyhow::Result<ExitCode> {
    match Arguments::parse().command {
        What::Fuzz { targets, seconds, seed, longest, findings } => {
            let time = Duration::try_from_secs_f64(seconds).context("--seconds is no time")?;
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
    match ALL.iter().chain(CAUGHT).find(|target| target.name == name) {
        Some(target) => Ok(target),
        None => bail!("there is no target {name:?}; `list` shows those that there are"),
    }
}

/// As many targets at the same time as there are CPUs.
fn fuzz(wanted: &[&Target], times: (Duration, Duration), seed: u64, findings: &std::path::Path) -> anyhow::Result<ExitCode> {
    let (next, found) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let jobs = std::thread::available_parallelism().map_or(1, usize::from);
    let work = || -> anyhow::Result<()> {
        while let Some(target) = wanted.get(next.fetch_add(1, Ordering::Relaxed)) {
            let watched = watch::watch(target, seed, times, findings)?;
            found.fetch_add(usize::from(watched.finding.is_some()), Ordering::Relaxed);
            tell(target, seed, &watched);
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let all: Vec<_> = (0..jobs).map(|_| scope.spawn(work)).collect();
        all.into_iter().try_for_each(|job| job.join().unwrap_or_else(|_| bail!("a job failed")))
    })?;
    Ok(if found.into_inner() == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn tell(target: &Target, seed: u64, watched: &watch::Watched) {
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
