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
/// Usual limit of the size of a stack. Further below its parent's begin, a process that has ended
/// may have executed another program whose record comes later.
const MAX_STACK: u64 = 8 << 20;
/// Largest number of processes whose begin of the stack is remembered.
const MAX_PROCESSES: usize = 1 << 16;

/// Writes samples, and remembers where the stacks of processes begin.
#[derive(Debug, Default)]
pub(super) struct SampleWriter {
    kernel: Vec<u64>,
    user: Vec<u64>,
    /// Where the stacks of the first threads of processes begin. The environment, which may hold
    /// secrets, is above that.
    begins: HashMap<i32, Begin>,
}

/// Address at which a stack begins.
#[derive(Clone, Copy, Debug)]
enum Begin {
    Known(u64),
    /// That of the parent, which the process keeps until it executes another program.
    Inherited(u64),
    /// The process had ended before the recorder looked.
    Unknown,
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

    /// Looks where the stack of a process begins, which executes another program from now on. Later
    /// it may have ended.
    pub fn executed(&mut self, pid: i32) {
        self.look(pid, Begin::Unknown);
    }

    /// A new process continues on a copy of its parent's stack.
    pub fn forked(&mut self, parent: i32, pid: i32) {
        if let Some(&(Begin::Known(begin) | Begin::Inherited(begin))) = self.begins.get(&parent) {
            self.remember(pid, Begin::Inherited(begin));
        }
    }

    /// Forgets a process that ended.
    pub fn forget(&mut self, pid: i32) {
        self.begins.remove(&pid);
    }

    /// Looks where the stack of a process begins.
    fn look(&mut self, pid: i32, otherwise: Begin) -> Begin {
        let begin = existing::begin_of_stack(pid).map_or(otherwise, Begin::Known);
        self.remember(pid, begin)
    }

    fn remember(&mut self, pid: i32, begin: Begin) -> Begin {
        if self.begins.len() >= MAX_PROCESSES {
            self.begins.clear();
        }
        self.begins.insert(pid, begin);
        begin
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

    /// Returns the bytes of the stack below the arguments and the environment of the process; none
    /// if it is not known where those are.
    fn without_environment<'a>(&mut self, pid: i32, sp: u64, stack: &'a [u8]) -> &'a [u8] {
        let begin = match self.begins.get(&pid).copied() {
            Some(begin @ (Begin::Known(_) | Begin::Unknown)) => begin,
            Some(inherited) => self.look(pid, inherited),
            None => self.look(pid, Begin::Unknown),
        };
        let (address, farthest) = match begin {
            Begin::Known(address) => (address, u64::MAX),
            Begin::Inherited(address) => (address, MAX_STACK),
            Begin::Unknown => return &[],
        };
        // A begin below the copy belongs to a program that the process executed meanwhile: the
        // kernel puts the stack above everything else that a program has mapped.
        let Some(length) = address.checked_sub(sp).filter(|length| *length <= farthest) else { return &[] };
        // If the begin is not in the copy, the environment is not in it, either.
        usize::try_from(length.saturating_add(ABOVE)).ok().and_then(|length| stack.get(..length)).unwrap_or(stack)
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
        // The begin is not in the copy.
        assert_eq!([kept(begin - 2000), kept(begin - 1_000_000)], [2000; 2]);
        // The begin is that of another program.
        assert_eq!(kept(begin + 8), 0);
        // The process has ended, or was created by a known one.
        let mut kept = |pid: i32| writer.without_environment(pid, begin - 1000, &stack).len();
        assert_eq!(kept(i32::MAX), 0);
        writer.forked(own, i32::MAX - 1);
        writer.forked(i32::MAX, i32::MAX - 2);
        let mut kept = |pid: i32| writer.without_environment(pid, begin - 1000, &stack).len();
        assert_eq!([kept(i32::MAX - 1), kept(i32::MAX - 2)], [1000 + ABOVE as usize, 0]);
        assert_eq!(writer.without_environment(i32::MAX - 1, begin - 2 * MAX_STACK, &stack).len(), 0);
        writer.executed(i32::MAX - 1);
        assert_eq!(writer.without_environment(i32::MAX - 1, begin - 1000, &stack).len(), 0);
    }
}
