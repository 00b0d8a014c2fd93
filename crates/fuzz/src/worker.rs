//! Runs inputs, one after the other, in a process that may be killed by them.
//!
//! The current input is written into a memory-mapped file before it is run, so that the parent
//! process has the input that killed the worker.

use crate::coverage::Coverage;
use crate::memory;
use crate::mutate::{mutate, MAX_INPUT_BYTES};
use crate::targets::Target;
use fastrand::Rng;
use memmap2::MmapMut;
use std::fs::File;
use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

/// Words in the head of the file.
#[derive(Clone, Copy, Debug)]
pub enum Word {
    /// Number of inputs that were begun.
    Runs,
    Length,
    /// Longest time of one input, in microseconds.
    SlowestMicros,
    PeakBytes,
    Edges,
    Corpus,
}

const HEAD: usize = 64;

/// Maximum number of recorded inputs; further ones replace an older one.
const MAX_KEPT: usize = 5000;

/// The file that the worker and its parent share.
pub struct SharedFile(MmapMut);

impl SharedFile {
    pub fn open(path: &Path) -> io::Result<SharedFile> {
        let file = File::options().read(true).write(true).create(true).truncate(false).open(path)?;
        file.set_len((HEAD + MAX_INPUT_BYTES) as u64)?;
        // SAFETY: Only the two processes of this program have the file, and neither makes it
        // shorter. What one reads while the other writes is used only after the writer has ended.
        Ok(SharedFile(unsafe { MmapMut::map_mut(&file)? }))
    }

    pub fn word(&self, word: Word) -> u64 {
        let at = word as usize * 8;
        self.0[at..at + 8].try_into().map_or(0, u64::from_ne_bytes)
    }

    fn set(&mut self, word: Word, value: u64) {
        let at = word as usize * 8;
        self.0[at..at + 8].copy_from_slice(&value.to_ne_bytes());
    }

    /// The input that was begun last.
    pub fn input(&self) -> &[u8] {
        let length = (self.word(Word::Length) as usize).min(MAX_INPUT_BYTES);
        &self.0[HEAD..HEAD + length]
    }

    fn begin(&mut self, input: &[u8]) {
        let length = input.len().min(MAX_INPUT_BYTES);
        self.0[HEAD..HEAD + length].copy_from_slice(&input[..length]);
        self.set(Word::Length, length as u64);
        let runs = self.word(Word::Runs) + 1;
        self.set(Word::Runs, runs);
    }
}

/// Makes every panic abort the process, even one that would be caught.
fn panics_are_fatal() {
    let report_panic = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        report_panic(panic);
        std::process::abort();
    }));
}

/// Runs all seeds, and then mutated ones until the time is over.
pub fn run(target: &Target, seed: u64, time: Duration, desk: &Path) -> anyhow::Result<()> {
    panics_are_fatal();
    let mut desk = SharedFile::open(desk)?;
    let folder = tempfile::tempdir_in(scratch())?;
    let mut kept: Vec<Vec<u8>> = (target.seeds)(folder.path())?;
    for seed in &mut kept {
        seed.truncate(MAX_INPUT_BYTES);
    }
    kept.push(Vec::new());
    memory::bound();
    let mut random = Rng::with_seed(seed);
    let mut coverage = Coverage::default();
    let begin = Instant::now();
    let seeds = kept.len();
    for number in 0.. {
        if number >= seeds && begin.elapsed() >= time {
            break;
        }
        let input = match kept.get(number).filter(|_| number < seeds) {
            Some(seed) => seed.clone(),
            None => mutate(&mut random, &kept, target.words),
        };
        desk.begin(&input);
        coverage.clear();
        memory::take_peak();
        let began = Instant::now();
        (target.run)(&input, folder.path());
        let slowest = desk.word(Word::SlowestMicros).max(began.elapsed().as_micros() as u64);
        let peak = desk.word(Word::PeakBytes).max(memory::take_peak() as u64);
        desk.set(Word::SlowestMicros, slowest);
        desk.set(Word::PeakBytes, peak);
        if coverage.has_grown() && number >= seeds {
            match kept.len() {
                0..MAX_KEPT => kept.push(input),
                length => kept[random.usize(..length)] = input,
            }
        }
        desk.set(Word::Edges, coverage.edges as u64);
        desk.set(Word::Corpus, (kept.len() - seeds) as u64);
    }
    Ok(())
}

/// Runs one input; if the input kills this process, that is the result.
pub fn run_one(target: &Target, input: &Path) -> anyhow::Result<()> {
    panics_are_fatal();
    let input = std::fs::read(input)?;
    let folder = tempfile::tempdir_in(scratch())?;
    memory::bound();
    (target.run)(&input, folder.path());
    println!("{} bytes: nothing happened; {} KiB of memory at most", input.len(), memory::take_peak() >> 10);
    Ok(())
}

/// A directory for temporary files. It is in memory if possible, because inputs that are files are
/// written about a thousand times per second.
pub fn scratch() -> std::path::PathBuf {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() {
        memory.to_owned()
    } else {
        std::env::temp_dir()
    }
}
