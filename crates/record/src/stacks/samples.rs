//! Writes samples of the kernel as events.

use super::existing;
use super::metadata::{COPIED, SAMPLE};
use super::parse::{Sample, StackCopy};
use super::waits::{SampleData, OWN_ADDRESSES};
use std::collections::HashMap;

/// Cause of a sample in `copied`: a timer, while the thread ran.
const RUNNING: u8 = 0;
/// Bytes that are kept above the first function of a program, which some programs read to find
/// their arguments.
const ABOVE: u64 = 64;
/// Largest number of processes whose begin of the stack is remembered.
const MAX_PROCESSES: usize = 1 << 16;

/// Writes samples, and remembers where the stacks of processes begin.
#[derive(Debug, Default)]
pub(super) struct SampleWriter {
    kernel: Vec<u64>,
    user: Vec<u64>,
    /// Address at which the stack of a process's first thread begins; 0 if it is unknown. The
    /// environment, which may hold secrets, is above it.
    begins: HashMap<i32, u64>,
}

/// A sample that was written.
pub(super) struct Written {
    /// Id of the event.
    pub event: u16,
    /// True for the sample of a wait or a wake-up.
    pub of_wait: bool,
}

impl SampleWriter {
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
        if pid == tid && !stack.is_empty() {
            stack = self.without_environment(pid, sp, stack);
        }
        [ip, sp, fp, lr].iter().for_each(|register| payload.extend_from_slice(&register.to_ne_bytes()));
        payload.extend_from_slice(&(stack.len() as u32).to_ne_bytes());
        payload.extend_from_slice(stack);
        Written { event: COPIED, of_wait: wait.is_some() }
    }

    /// Forgets a process that ended or executes another program.
    pub fn forget(&mut self, pid: i32) {
        self.begins.remove(&pid);
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

    /// Returns the bytes of the stack below the arguments and the environment of the process.
    fn without_environment<'a>(&mut self, pid: i32, sp: u64, stack: &'a [u8]) -> &'a [u8] {
        if self.begins.len() >= MAX_PROCESSES {
            self.begins.clear();
        }
        let begin = *self.begins.entry(pid).or_insert_with(|| existing::begin_of_stack(pid).unwrap_or(0));
        let kept = begin.checked_sub(sp).and_then(|length| usize::try_from(length.saturating_add(ABOVE)).ok());
        // Another begin belongs to a program that the process executed meanwhile, or the thread
        // runs on a stack of its own.
        kept.and_then(|length| stack.get(..length)).unwrap_or(stack)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_environment_of_a_process_is_not_written() {
        let own = std::process::id() as i32;
        let begin = existing::begin_of_stack(own).unwrap();
        let stack: Vec<u8> = (0..2000).map(|at| at as u8).collect();
        let mut writer = SampleWriter::default();
        let mut kept = |sp: u64| writer.without_environment(own, sp, &stack).len();
        assert_eq!(kept(begin - 1000), 1000 + ABOVE as usize);
        // The begin is not in the copy, or the stack is another one.
        assert_eq!([kept(begin - 2000), kept(begin - 1_000_000), kept(begin + 8)], [2000; 3]);
        // The process is unknown.
        assert_eq!(writer.without_environment(i32::MAX, begin - 1000, &stack).len(), 2000);
    }
}
