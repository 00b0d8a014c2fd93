//! Parses the records that the kernel writes into the ring: those of perf_event_open(2) that
//! [`perf`](super::perf) asks for.

use super::perf::{SampleKind, REGISTERS, TRAILER};

const MMAP2: u32 = 10;
const LOST: u32 = 2;
const COMM: u32 = 3;
const EXIT: u32 = 4;
const THROTTLE: u32 = 5;
const UNTHROTTLE: u32 = 6;
const FORK: u32 = 7;
const SAMPLE: u32 = 9;
/// Kinds of registers in a sample: none because the thread runs no program, and those of a 64-bit
/// program.
const REGISTERS_NONE: u64 = 0;
const REGISTERS_64: u64 = 2;
/// Bit of `misc`: the name comes from an exec.
const COMM_EXEC: u16 = 1 << 13;
const CPU_MODE: u16 = 7;
const MODE_KERNEL: u16 = 1;
/// Chain entries from this value on are no addresses. They mark the following addresses as those of
/// the kernel, a program or a guest.
const CONTEXTS: u64 = -4095i64 as u64;
const CONTEXT_KERNEL: u64 = -128i64 as u64;
const CONTEXT_USER: u64 = -512i64 as u64;

/// A record of the kernel. Its time is on the clock that the event was opened with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    pub time: u64,
    pub pid: i32,
    pub tid: i32,
    pub what: RecordContent<'a>,
}

/// Content of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordContent<'a> {
    Sample(Sample<'a>),
    Mapping {
        start: u64,
        length: u64,
        offset: u64,
        inode: u64,
        path: &'a [u8],
    },
    Comm {
        exec: bool,
        comm: &'a [u8],
    },
    Fork {
        parent_pid: i32,
        parent_tid: i32,
    },
    Exit,
    /// Number of records that were lost.
    Lost(u64),
    /// True if the kernel stops taking samples, false if it takes them again.
    Throttled(bool),
    Other,
}

/// A sample of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample<'a> {
    pub chain: Chain<'a>,
    /// Data of the BPF program that took the sample; only zeros if a timer took it.
    pub data: &'a [u8],
    /// `None` if samples of this ring hold no copies, or if the thread runs no 64-bit program, as
    /// those of the kernel.
    pub copy: Option<StackCopy<'a>>,
}

/// Registers of the program, and bytes of its stack from `sp` upwards.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StackCopy<'a> {
    pub ip: u64,
    pub sp: u64,
    pub fp: u64,
    /// 0 on processors without such a register.
    pub lr: u64,
    pub stack: &'a [u8],
}

/// The entries of a call chain, unchanged from the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chain<'a> {
    entries: &'a [u8],
    ip: u64,
    in_kernel: bool,
}

impl Chain<'_> {
    /// Appends the addresses of the kernel to `kernel` and those of the program to `user`,
    /// innermost first. Addresses in a guest of a hypervisor are left out. Without any address in
    /// the chain, the sampled instruction's is used.
    pub fn split(&self, kernel: &mut Vec<u64>, user: &mut Vec<u64>) {
        let mut to = None;
        let mut found = false;
        for entry in self.entries.chunks_exact(8).map(word) {
            match entry {
                CONTEXT_KERNEL => to = Some(&mut *kernel),
                CONTEXT_USER => to = Some(&mut *user),
                entry if entry >= CONTEXTS => to = None,
                address => {
                    if let Some(to) = &mut to {
                        found = true;
                        to.push(address);
                    }
                }
            }
        }
        if !found && self.ip != 0 {
            if self.in_kernel { kernel } else { user }.push(self.ip);
        }
    }
}

/// Parses a record of a ring whose samples are of the given kind. `None` if it is shorter than its
/// kind requires.
pub fn parse(record: &[u8], samples: SampleKind) -> Option<Record<'_>> {
    let kind = half(record, 0)?;
    let misc = u16::from_ne_bytes([*record.get(4)?, *record.get(5)?]);
    let body = record.get(8..)?;
    if kind == SAMPLE {
        return sample(body, misc & CPU_MODE == MODE_KERNEL, samples);
    }
    let (body, trailer) = body.split_at_checked(body.len().checked_sub(TRAILER)?)?;
    let own = |at: usize| half(body, at).map(|id| id as i32);
    let (mut pid, mut tid) = (half(trailer, 0)? as i32, half(trailer, 4)? as i32);
    let what = match kind {
        MMAP2 => {
            (pid, tid) = (own(0)?, own(4)?);
            RecordContent::Mapping {
                start: wide(body, 8)?,
                length: wide(body, 16)?,
                offset: wide(body, 24)?,
                inode: wide(body, 40)?,
                path: text(body.get(64..)?),
            }
        }
        COMM => {
            (pid, tid) = (own(0)?, own(4)?);
            RecordContent::Comm { exec: misc & COMM_EXEC != 0, comm: text(body.get(8..)?) }
        }
        FORK => {
            (pid, tid) = (own(0)?, own(8)?);
            RecordContent::Fork { parent_pid: own(4)?, parent_tid: own(12)? }
        }
        EXIT => {
            (pid, tid) = (own(0)?, own(8)?);
            RecordContent::Exit
        }
        LOST => RecordContent::Lost(wide(body, 8)?),
        THROTTLE => RecordContent::Throttled(true),
        UNTHROTTLE => RecordContent::Throttled(false),
        _ => RecordContent::Other,
    };
    Some(Record { time: wide(trailer, 8)?, pid, tid, what })
}

/// Parses a sample, whose parts are in the order of perf_event_open(2).
fn sample(body: &[u8], in_kernel: bool, kind: SampleKind) -> Option<Record<'_>> {
    let count = usize::try_from(wide(body, 32)?).ok()?;
    let (entries, rest) = body.get(40..)?.split_at_checked(count.checked_mul(8)?)?;
    let chain = Chain { entries, ip: wide(body, 0)?, in_kernel };
    let (data, copy) = match kind {
        SampleKind::Addresses => (&[][..], None),
        SampleKind::Copy { .. } => {
            let length = usize::try_from(half(rest, 0)?).ok()?;
            let (data, rest) = rest.get(4..)?.split_at_checked(length)?;
            (data, stack_copy(rest)?)
        }
    };
    let what = RecordContent::Sample(Sample { chain, data, copy });
    Some(Record { time: wide(body, 16)?, pid: half(body, 8)? as i32, tid: half(body, 12)? as i32, what })
}

/// Parses the registers and the copy of the stack. The outer `Option` is `None` if they are too
/// short.
fn stack_copy(bytes: &[u8]) -> Option<Option<StackCopy<'_>>> {
    let interface = wide(bytes, 0)?;
    if interface == REGISTERS_NONE {
        return Some(None);
    }
    let count = REGISTERS.mask.count_ones() as usize;
    let register = |at: usize| wide(bytes, 8 + 8 * at);
    let rest = bytes.get(8 + 8 * count..)?;
    // The number of bytes that were reserved, those bytes, and how many of them were copied.
    let reserved = usize::try_from(wide(rest, 0)?).ok()?;
    let stack = match reserved {
        0 => &[][..],
        reserved => {
            let (stack, copied) = rest.get(8..)?.split_at_checked(reserved)?;
            stack.get(..usize::try_from(wide(copied, 0)?).ok()?)?
        }
    };
    let lr = REGISTERS.lr.map_or(Some(0), register)?;
    let copy = StackCopy { ip: register(REGISTERS.ip)?, sp: register(REGISTERS.sp)?, fp: register(REGISTERS.fp)?, lr, stack };
    Some((interface == REGISTERS_64).then_some(copy))
}

fn half(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn wide(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn word(bytes: &[u8]) -> u64 {
    wide(bytes, 0).unwrap_or(0)
}

/// Returns the text up to the first NUL; the kernel pads texts to a multiple of eight bytes.
fn text(bytes: &[u8]) -> &[u8] {
    bytes.split(|byte| *byte == 0).next().unwrap_or(&[])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Makes a record with its header. The trailer has pid 70, tid 71, time 900, CPU 2.
    fn record(kind: u32, misc: u16, body: &[u8], trailer: bool) -> Vec<u8> {
        let mut bytes = kind.to_ne_bytes().to_vec();
        bytes.extend(misc.to_ne_bytes());
        bytes.extend(((8 + body.len() + if trailer { TRAILER } else { 0 }) as u16).to_ne_bytes());
        bytes.extend(body);
        if trailer {
            bytes.extend([70u32, 71].iter().flat_map(|id| id.to_ne_bytes()));
            bytes.extend(900u64.to_ne_bytes());
            bytes.extend([2u32, 0].iter().flat_map(|id| id.to_ne_bytes()));
        }
        bytes
    }

    fn words(of: &[u64]) -> Vec<u8> {
        of.iter().flat_map(|word| word.to_ne_bytes()).collect()
    }

    /// Returns the word that consists of two 32-bit numbers.
    fn pair(first: i32, second: i32) -> u64 {
        let bytes: Vec<u8> = [first, second].iter().flat_map(|id| id.to_ne_bytes()).collect();
        u64::from_ne_bytes(bytes.try_into().unwrap())
    }

    #[test]
    fn a_chain_is_split_into_addresses_of_the_kernel_and_of_the_program() {
        let split = |misc: u16, chain: &[u64]| {
            let mut body = words(&[0x1234, pair(7, 8), 900, pair(1, 0), chain.len() as u64]);
            body.extend(words(chain));
            let bytes = record(SAMPLE, misc, &body, false);
            let found = parse(&bytes, SampleKind::Addresses).unwrap();
            assert_eq!((found.time, found.pid, found.tid), (900, 7, 8));
            let RecordContent::Sample(Sample { chain, data: [], copy: None }) = found.what else { panic!("{found:?}") };
            let (mut kernel, mut user) = (Vec::new(), Vec::new());
            chain.split(&mut kernel, &mut user);
            // A truncated record is rejected at each length.
            (0..bytes.len()).for_each(|length| assert_eq!(parse(&bytes[..length], SampleKind::Addresses), None));
            (kernel, user)
        };
        let guest = -2048i64 as u64;
        assert_eq!(split(1, &[CONTEXT_KERNEL, 5, 6, CONTEXT_USER, 7]), (vec![5, 6], vec![7]));
        assert_eq!(split(2, &[CONTEXT_USER, 7, 8]), (vec![], vec![7, 8]));
        assert_eq!(split(2, &[guest, 1, CONTEXT_USER, 7]), (vec![], vec![7]));
        // Without a chain, at least the sampled instruction is known.
        assert_eq!(split(1, &[]), (vec![0x1234], vec![]));
        assert_eq!(split(2, &[CONTEXT_USER]), (vec![], vec![0x1234]));
    }

    #[test]
    fn a_copied_stack_has_registers_data_and_only_the_bytes_that_were_copied() {
        const COPY: SampleKind = SampleKind::Copy { bytes: 24 };
        let sample = |interface: u64, reserved: u64| {
            // The length of the data is a 32-bit number before it.
            let mut body = [words(&[0x1234, pair(7, 8), 900, pair(1, 0), 2, CONTEXT_USER, 0x77]), words(&[pair(4, 9)])].concat();
            body.extend(words(&[interface]));
            if interface != REGISTERS_NONE {
                body.extend((0..u64::from(REGISTERS.mask.count_ones())).flat_map(|at| (0x50 + at).to_ne_bytes()));
            }
            body.extend(words(&[reserved]));
            if reserved > 0 {
                body.extend(words(&[1, 2, 3, 16]));
            }
            record(SAMPLE, 2, &body, false)
        };
        let bytes = sample(REGISTERS_64, 24);
        let Some(RecordContent::Sample(found)) = parse(&bytes, COPY).map(|record| record.what) else { panic!() };
        assert_eq!(found.data, 9i32.to_ne_bytes());
        let lr = REGISTERS.lr.map_or(0, |at| 0x50 + at as u64);
        let [fp, sp, ip] = [REGISTERS.fp, REGISTERS.sp, REGISTERS.ip].map(|at| 0x50 + at as u64);
        assert_eq!(found.copy, Some(StackCopy { ip, sp, fp, lr, stack: &words(&[1, 2]) }));
        (0..bytes.len()).for_each(|length| assert_eq!(parse(&bytes[..length], COPY), None));
        // A thread of the kernel, a 32-bit program, and a thread whose stack cannot be copied.
        for (interface, reserved, copied) in [(REGISTERS_NONE, 0, false), (1, 24, false), (REGISTERS_64, 0, true)] {
            let bytes = sample(interface, reserved);
            let Some(RecordContent::Sample(found)) = parse(&bytes, COPY).map(|record| record.what) else { panic!() };
            assert_eq!(found.copy.is_some(), copied, "{interface}");
            assert!(found.copy.is_none_or(|copy| copy.stack.is_empty()));
        }
    }

    #[test]
    fn records_about_processes_mappings_and_losses_are_parsed() {
        let body = [words(&[pair(5, 6), 0x1000, 0x2000, 0x3000, pair(8, 1), 99, 0, pair(5, 2)]), b"/bin/a\0\0".to_vec()].concat();
        let bytes = record(MMAP2, 2, &body, true);
        let mapping = RecordContent::Mapping { start: 0x1000, length: 0x2000, offset: 0x3000, inode: 99, path: b"/bin/a" };
        assert_eq!(parse(&bytes, SampleKind::Addresses), Some(Record { time: 900, pid: 5, tid: 6, what: mapping }));
        for length in 0..bytes.len() {
            let _ = parse(&bytes[..length], SampleKind::Addresses);
        }
        let parsed = |kind, misc, body: &[u64], expected: (i32, i32, RecordContent<'_>)| {
            let bytes = record(kind, misc, &words(body), true);
            let found = parse(&bytes, SampleKind::Addresses).map(|found| (found.pid, found.tid, found.what));
            assert_eq!(found, Some(expected));
        };
        let name = u64::from_ne_bytes(*b"name\0xx\0");
        parsed(COMM, COMM_EXEC, &[pair(5, 6), name], (5, 6, RecordContent::Comm { exec: true, comm: b"name" }));
        parsed(COMM, 0, &[pair(5, 6), name], (5, 6, RecordContent::Comm { exec: false, comm: b"name" }));
        parsed(FORK, 0, &[pair(5, 1), pair(6, 2), 0], (5, 6, RecordContent::Fork { parent_pid: 1, parent_tid: 2 }));
        parsed(EXIT, 0, &[pair(5, 1), pair(6, 2), 0], (5, 6, RecordContent::Exit));
        parsed(LOST, 0, &[3, 17], (70, 71, RecordContent::Lost(17)));
        parsed(THROTTLE, 0, &[1, 2, 3], (70, 71, RecordContent::Throttled(true)));
        parsed(99, 0, &[], (70, 71, RecordContent::Other));
        assert_eq!(parse(&record(LOST, 0, &words(&[3]), true), SampleKind::Addresses), None);
    }
}
