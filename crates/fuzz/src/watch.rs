//! Watches a worker: an input that ends it, blocks it or takes too much memory is a finding.

use crate::targets::Target;
use crate::worker::{SharedFile, Word};
use anyhow::Context;
use std::fs::File;
use std::io::Read;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Time that one input may take in total, waiting included.
const MAX_INPUT_TIME: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(50);

/// The result of running a target.
#[derive(Debug)]
pub struct Watched {
    pub runs: u64,
    pub slowest: Duration,
    pub peak: u64,
    pub edges: u64,
    pub kept: u64,
    pub finding: Option<Finding>,
}

/// An input that failed.
#[derive(Debug)]
pub struct Finding {
    pub input: PathBuf,
    pub what: String,
}

/// Runs a target for `time`. No input may use more CPU time than `longest`.
pub fn watch(target: &Target, seed: u64, (time, longest): (Duration, Duration), findings: &Path) -> anyhow::Result<Watched> {
    let folder = tempfile::tempdir_in(crate::worker::scratch())?;
    let (desk, stderr) = (folder.path().join("desk"), folder.path().join("stderr"));
    let mut worker = Command::new(std::env::current_exe().context("cannot find this program")?)
        .args(["worker", target.name, &seed.to_string(), &time.as_millis().to_string()])
        .arg(&desk)
        .env("TMPDIR", folder.path())
        .env_remove("RUST_BACKTRACE")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(File::create(&stderr)?)
        .spawn()
        .context("cannot start a worker")?;
    let what = until_its_end(&mut worker, &desk, longest)?;
    let desk = SharedFile::open(&desk)?;
    let finding = match what {
        None => None,
        Some(what) if desk.word(Word::Runs) == 0 => anyhow::bail!("{}: no input was begun: {what}\n{}", target.name, text(&stderr)),
        Some(what) => Some(keep(target, desk.input(), &format!("{what}\n{}", text(&stderr)), findings)?),
    };
    Ok(Watched {
        runs: desk.word(Word::Runs),
        slowest: Duration::from_micros(desk.word(Word::SlowestMicros)),
        peak: desk.word(Word::PeakBytes),
        edges: desk.word(Word::Edges),
        kept: desk.word(Word::Corpus),
        finding,
    })
}

/// Waits for the end of the worker. Returns what was wrong, or `None` if it succeeded.
fn until_its_end(worker: &mut Child, desk: &Path, longest: Duration) -> anyhow::Result<Option<String>> {
    let mut runs = 0;
    let (mut since, mut cpu) = (Instant::now(), Duration::ZERO);
    loop {
        if let Some(status) = worker.try_wait()? {
            return Ok(match (status.success(), status.signal()) {
                (true, _) => None,
                (_, Some(signal)) => Some(format!("it was ended by signal {signal}")),
                _ => Some(format!("it ended with {status}")),
            });
        }
        let now = SharedFile::open(desk).map_or(0, |desk| desk.word(Word::Runs));
        let spent = cpu_time(worker.id());
        if now != runs {
            (runs, since, cpu) = (now, Instant::now(), spent);
        }
        let held = match spent.saturating_sub(cpu) {
            computed if computed > longest => Some(format!("it computed for {computed:.1?} and had not ended")),
            _ if since.elapsed() > MAX_INPUT_TIME => Some(format!("it had not ended after {:.0?}", since.elapsed())),
            _ => None,
        };
        if held.is_some() {
            worker.kill()?;
            worker.wait()?;
            return Ok(held);
        }
        sleep(PAUSE);
    }
}

/// CPU time that the process has used until now.
fn cpu_time(pid: u32) -> Duration {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let fields = stat.rsplit(')').next().unwrap_or("").split_whitespace();
    let ticks: u64 = fields.skip(11).take(2).filter_map(|ticks| ticks.parse::<u64>().ok()).sum();
    // The kernel reports times to programs in ticks of 10 ms, independent of its own tick length.
    Duration::from_millis(ticks * 10)
}

/// Stores the input and the description of the failure in the directory of findings.
fn keep(target: &Target, input: &[u8], what: &str, findings: &Path) -> anyhow::Result<Finding> {
    std::fs::create_dir_all(findings).with_context(|| format!("cannot make {}", findings.display()))?;
    let hash = input.iter().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3));
    let path = findings.join(format!("{}-{:08x}", target.name, hash as u32));
    std::fs::write(&path, input).with_context(|| format!("cannot write {}", path.display()))?;
    Ok(Finding { input: path, what: what.trim_end().to_owned() })
}

/// The begin of the worker's output.
fn text(path: &Path) -> String {
    let mut bytes = Vec::new();
    let _ = File::open(path).and_then(|file| file.take(4096).read_to_end(&mut bytes));
    String::from_utf8_lossy(&bytes).into_owned()
}
