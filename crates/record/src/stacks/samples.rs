//! Writes samples of the kernel as events.

use super::metadata::{COPIED, SAMPLE};
use super::parse::{Sample, StackCopy};
use super::waits::{SampleData, OWN_ADDRESSES};

/// Cause of a sample in `copied`: a timer, while the thread ran.
const RUNNING: u8 = 0;
/// Size of a word on the stack in bytes.
const WORD: usize = 8;
/// Keys of the auxiliary vector (getauxval(3)) that the kernel writes one after another for every
/// program (`create_elf_tables` in fs/binfmt_elf.c).
const AT_PHDR: u64 = 3;
const AT_PAGESZ: u64 = 6;
const AT_CLKTCK: u64 = 17;

/// Writes samples.
#[derive(Debug)]
pub(super) struct SampleWriter {
    kernel: Vec<u64>,
    user: Vec<u64>,
    marker: Marker,
}

/// Words of the auxiliary vector that are the same in all programs, with their values: the size of
/// a page, and the clock ticks per second.
#[derive(Clone, Copy, Debug)]
struct Marker([u64; 5]);

impl Marker {
    fn of_this_host() -> Marker {
        // SAFETY: `sysconf` takes and returns a number; no memory is passed.
        let value = |name| unsafe { libc::sysconf(name) } as u64;
        Marker([AT_PAGESZ, value(libc::_SC_PAGESIZE), AT_CLKTCK, value(libc::_SC_CLK_TCK), AT_PHDR])
    }

    /// Returns the bytes of a stack below the auxiliary vector, or all if it is not among them. The
    /// environment and the arguments, which may hold secrets, are above it.
    fn without_environment<'a>(&self, sp: u64, stack: &'a [u8]) -> &'a [u8] {
        let skipped = (sp.wrapping_neg() % WORD as u64) as usize;
        let Some(words) = stack.get(skipped..) else { return stack };
        let word = |at: usize| words.get(WORD * at..).and_then(|rest| rest.first_chunk()).map(|bytes| u64::from_ne_bytes(*bytes));
        let is_marker = |at: usize| (0..).zip(self.0).all(|(next, expected)| word(at + next) == Some(expected));
        let found = (0..words.len() / WORD).find(|at| word(*at) == Some(AT_PAGESZ) && is_marker(*at));
        found.map_or(stack, |at| &stack[..skipped + WORD * at])
    }
}

/// A sample that was written.
pub(super) struct Written {
    /// Id of the event.
    pub event: u16,
    /// True for the sample of a wait or a wake-up.
    pub of_wait: bool,
}

impl SampleWriter {
    pub fn new() -> SampleWriter {
        SampleWriter { kernel: Vec::new(), user: Vec::new(), marker: Marker::of_this_host() }
    }

    /// Appends the fields of a sample of a thread to the payload.
    pub fn write(&mut self, (pid, tid): (i32, i32), sample: &Sample<'_>, payload: &mut Vec<u8>) -> Written {
        let wait = SampleData::parse(sample.data);
        if sample.copy.is_none() && wait.is_none() {
            self.addresses(sample, 0, payload);
            return Written { event: SAMPLE, of_wait: false };
        }
        payload.push(wait.map_or(RUNNING, |wait| wait.cause as u8));
        payload.extend_from_slice(&wait.map_or(0, |wait| wait.other_tid).to_ne_bytes());
        self.addresses(sample, if wait.is_some() { OWN_ADDRESSES } else { 0 }, payload);
        let StackCopy { ip, sp, fp, lr, mut stack } = sample.copy.unwrap_or_default();
        // Stacks of other threads have no environment.
        if pid == tid {
            stack = self.marker.without_environment(sp, stack);
        }
        [ip, sp, fp, lr].iter().for_each(|register| payload.extend_from_slice(&register.to_ne_bytes()));
        payload.extend_from_slice(&(stack.len() as u32).to_ne_bytes());
        payload.extend_from_slice(stack);
        Written { event: COPIED, of_wait: wait.is_some() }
    }

    /// Appends the addresses, without the first ones of the kernel.
    fn addresses(&mut self, sample: &Sample<'_>, skipped: usize, payload: &mut Vec<u8>) {
        let (kernel, user) = (&mut self.kernel, &mut self.user);
        kernel.clear();
        user.clear();
        sample.chain.split(kernel, user);
        kernel.drain(..skipped.min(kernel.len()));
        for addresses in [kernel, user] {
            addresses.truncate(usize::from(u16::MAX));
            payload.extend_from_slice(&(addresses.len() as u16).to_ne_bytes());
            addresses.iter().for_each(|address| payload.extend_from_slice(&address.to_ne_bytes()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, File};
    use std::os::unix::fs::FileExt;

    /// Returns the words of a stack as bytes.
    fn bytes(words: &[u64]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_ne_bytes()).collect()
    }

    #[test]
    fn the_environment_of_this_process_is_not_written() {
        // The upper end of the stack of a first thread has its arguments and its environment.
        let maps = fs::read_to_string("/proc/self/maps").unwrap();
        let range = maps.lines().find(|line| line.ends_with("[stack]")).unwrap().split_once(' ').unwrap().0;
        let (start, end) = range.split_once('-').unwrap();
        let (start, end) = (u64::from_str_radix(start, 16).unwrap(), u64::from_str_radix(end, 16).unwrap());
        let mut stack = vec![0; (end - start) as usize];
        File::open("/proc/self/mem").unwrap().read_exact_at(&mut stack, start).unwrap();
        let environment = fs::read("/proc/self/environ").unwrap();
        let first = environment.split(|byte| *byte == 0).next().unwrap();
        assert!(first.len() > 4 && stack.windows(first.len()).any(|bytes| bytes == first));
        let marker = Marker::of_this_host();
        for skipped in [0, 1, 7, 8, 13] {
            let kept = marker.without_environment(start + skipped, &stack[skipped as usize..]);
            assert!(kept.len() > 1000 && !kept.windows(first.len()).any(|bytes| bytes == first));
            // The first function of the program takes its arguments from the last bytes.
            assert!(stack.len() - skipped as usize - kept.len() < environment.len() + (64 << 10));
        }
    }

    #[test]
    fn a_stack_without_the_whole_marker_is_kept() {
        let marker = Marker([AT_PAGESZ, 4096, AT_CLKTCK, 100, AT_PHDR]);
        let with = bytes(&[1, AT_PAGESZ, 4096, 2, AT_PAGESZ, 4096, AT_CLKTCK, 100, AT_PHDR, 0x5550]);
        let length = |stack: &[u8]| marker.without_environment(0x1000, stack).len();
        assert_eq!(length(&with), 4 * WORD);
        for other in [&with[..9 * WORD - 1], &with[..5 * WORD], &with[..3], &[], &bytes(&[AT_PAGESZ, 4096, AT_CLKTCK, 1000, AT_PHDR])] {
            assert_eq!(length(other), other.len());
        }
    }
}
