//! What the kernel writes into the ring: records of perf_event_open(2), as far as they are asked for.

use super::perf::TRAILER;

const MMAP2: u32 = 10;
const LOST: u32 = 2;
const COMM: u32 = 3;
const EXIT: u32 = 4;
const THROTTLE: u32 = 5;
const UNTHROTTLE: u32 = 6;
const FORK: u32 = 7;
const SAMPLE: u32 = 9;
/// Of `misc`: the name comes from an exec.
const COMM_EXEC: u16 = 1 << 13;
const CPU_MODE: u16 = 7;
const MODE_KERNEL: u16 = 1;
/// Chain entries from here on are no addresses: they say whose the following ones are.
const CONTEXTS: u64 = -4095i64 as u64;
const CONTEXT_KERNEL: u64 = -128i64 as u64;
const CONTEXT_USER: u64 = -512i64 as u64;

/// Times are those of the clock that was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    pub time: u64,
    pub pid: i32,
    pub tid: i32,
    pub what: What<'a>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What<'a> {
    Sample(Chain<'a>),
    Mapping { start: u64, length: u64, offset: u64, inode: u64, path: &'a [u8] },
    Comm { exec: bool, comm: &'a [u8] },
    Fork { parent_pid: i32, parent_tid: i32 },
    Exit,
    Lost(u64),
    Throttled(bool),
    Other,
}

/// The entries of a chain as the kernel wrote them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chain<'a> {
    entries: &'a [u8],
    ip: u64,
    in_kernel: bool,
}

impl Chain<'_> {
    /// Appends the addresses to `kernel` and `user`, innermost first. Those of a hypervisor's guest are left out.
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

/// None if the record is shorter than its kind needs.
pub fn parse(record: &[u8]) -> Option<Record<'_>> {
    let kind = half(record, 0)?;
    let misc = u16::from_ne_bytes([*record.get(4)?, *record.get(5)?]);
    let body = record.get(8..)?;
    if kind == SAMPLE {
        let count = usize::try_from(wide(body, 32)?).ok()?;
        let entries = body.get(40..40usize.checked_add(count.checked_mul(8)?)?)?;
        let chain = Chain { entries, ip: wide(body, 0)?, in_kernel: misc & CPU_MODE == MODE_KERNEL };
        return Some(Record { time: wide(body, 16)?, pid: half(body, 8)? as i32, tid: half(body, 12)? as i32, what: What::Sample(chain) });
    }
    let (body, trailer) = body.split_at_checked(body.len().checked_sub(TRAILER)?)?;
    let own = |at: usize| half(body, at).map(|id| id as i32);
    let (mut pid, mut tid) = (half(trailer, 0)? as i32, half(trailer, 4)? as i32);
    let what = match kind {
        MMAP2 => {
            (pid, tid) = (own(0)?, own(4)?);
            What::Mapping {
                start: wide(body, 8)?,
                length: wide(body, 16)?,
                offset: wide(body, 24)?,
                inode: wide(body, 40)?,
                path: text(body.get(64..)?),
            }
        }
        COMM => {
            (pid, tid) = (own(0)?, own(4)?);
            What::Comm { exec: misc & COMM_EXEC != 0, comm: text(body.get(8..)?) }
        }
        FORK => {
            (pid, tid) = (own(0)?, own(8)?);
            What::Fork { parent_pid: own(4)?, parent_tid: own(12)? }
        }
        EXIT => {
            (pid, tid) = (own(0)?, own(8)?);
            What::Exit
        }
        LOST => What::Lost(wide(body, 8)?),
        THROTTLE => What::Throttled(true),
        UNTHROTTLE => What::Throttled(false),
        _ => What::Other,
    };
    Some(Record { time: wide(trailer, 8)?, pid, tid, what })
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

/// Up to the first NUL; the kernel fills up to eight bytes.
fn text(bytes: &[u8]) -> &[u8] {
    bytes.split(|byte| *byte == 0).next().unwrap_or(&[])
}
