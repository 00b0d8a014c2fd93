//! From frame to frame, from the innermost function of a stack to the thread's first one.

use super::frame::{step, step_by_frame_pointer, Arch, Registers, Row, Rule, Snapshot, Step};

/// Maximum number of addresses of a stack.
const MAX_FRAMES: usize = 1024;
/// Number of equal addresses in both stacks from which on the kernel's stack continues another one.
const AGREEING: usize = 3;

/// Kind of the code at an address.
#[derive(Debug)]
pub enum Code<'a> {
    /// A function with a row in an unwinding table, and the section of its expressions.
    Row(&'a Row, &'a [u8]),
    /// Code of a module without unwinding tables, or of none.
    FramePointers,
    /// A function that has no caller.
    First,
    /// A function that changes to this stack, so its caller is on another one. The row holds before
    /// it has changed.
    Switch(Option<&'a Row>),
    /// Code that the tables of its module do not cover.
    Unknown,
    /// Code of a module whose tables cannot be read.
    Unreadable,
    /// Not in code of the process.
    Outside,
}

/// A process's code.
pub trait Space {
    fn code(&mut self, address: u64) -> Code<'_>;
}

/// Result of [`walk`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Walked {
    /// The stack ends with the thread's first function.
    Whole,
    Truncated,
}

/// Finds the addresses of a stack, innermost first; all except the first are return addresses.
/// `chain` is the stack as the kernel found it by frame pointers. It continues a stack that ends
/// early if both agree in their last common frames, because then the code has frame pointers. At a
/// module whose tables cannot be read, nothing better than `chain` is known, so it is kept.
pub fn walk(arch: Arch, snapshot: &Snapshot<'_>, chain: &[u64], space: &mut dyn Space, addresses: &mut Vec<u64>) -> Walked {
    addresses.clear();
    let mut registers = Registers::new(arch, snapshot);
    let mut ip = snapshot.ip;
    // Set if `ip` is the address of the instruction itself, not of a return.
    let mut exact = true;
    while addresses.len() < MAX_FRAMES {
        let code = space.code(if exact { ip } else { ip.wrapping_sub(1) });
        if matches!(code, Code::Outside) && !addresses.is_empty() {
            break;
        }
        addresses.push(ip);
        if matches!(code, Code::Unreadable) {
            keep_chain(chain, addresses);
            return Walked::Truncated;
        }
        let (result, interrupted) = match code {
            Code::Row(row, section) => (step(row, section, snapshot, ip, &mut registers, exact), row.is_signal),
            Code::FramePointers => (step_by_frame_pointer(snapshot, &mut registers), false),
            Code::First => (Step::First, false),
            Code::Switch(Some(row)) if exact => (step(row, &[], snapshot, ip, &mut registers, exact), row.is_signal),
            Code::Switch(None) if exact => (Step::Lost, false),
            Code::Switch(_) => return continue_behind_switch(arch, chain, space, addresses),
            Code::Unknown | Code::Unreadable | Code::Outside => (Step::Lost, false),
        };
        match result {
            Step::Caller(address) => (ip, exact) = (address, interrupted),
            Step::First => return Walked::Whole,
            Step::Lost => break,
        }
    }
    continue_by_chain(arch, chain, space, addresses)
}

/// Continues a stack by the kernel's `chain` from its last address on. If the chain does not have
/// that address, the longer one of both is kept.
fn keep_chain(chain: &[u64], addresses: &mut Vec<u64>) {
    match chain.iter().position(|address| addresses.last() == Some(address)) {
        Some(at) => addresses.extend_from_slice(&chain[at + 1..]),
        None if chain.len() > addresses.len() => {
            addresses.clear();
            addresses.extend_from_slice(chain);
        }
        None => {}
    }
    addresses.truncate(MAX_FRAMES);
}

/// Appends the rest of `chain` to a stack that ended early, as far as it is in code.
fn continue_by_chain(arch: Arch, chain: &[u64], space: &mut dyn Space, addresses: &mut Vec<u64>) -> Walked {
    let Some(from) = addresses.len().checked_sub(AGREEING) else { return Walked::Truncated };
    let last = &addresses[from..];
    let Some(at) = chain.windows(AGREEING).position(|window| window == last) else { return Walked::Truncated };
    append(arch, &chain[at + AGREEING..], space, addresses)
}

/// Continues a stack by the kernel's `chain` from its last address on, which is in a function that
/// changes from another stack to this one. The frame pointer leads to the other one, or is 0 if the
/// function is the first one of this stack.
fn continue_behind_switch(arch: Arch, chain: &[u64], space: &mut dyn Space, addresses: &mut Vec<u64>) -> Walked {
    match chain.iter().position(|address| addresses.last() == Some(address)) {
        Some(at) if at + 1 == chain.len() => Walked::Whole,
        Some(at) => append(arch, &chain[at + 1..], space, addresses),
        None => Walked::Truncated,
    }
}

/// Appends addresses of the kernel's chain as far as they are in code.
fn append(arch: Arch, chain: &[u64], space: &mut dyn Space, addresses: &mut Vec<u64>) -> Walked {
    let mut switches = false;
    for &address in chain {
        let code = space.code(address.wrapping_sub(1));
        if matches!(code, Code::Outside) || addresses.len() >= MAX_FRAMES {
            return Walked::Truncated;
        }
        addresses.push(address);
        switches = matches!(code, Code::Switch(_));
        if matches!(code, Code::First) || matches!(code, Code::Row(row, _) if row.is_first(arch)) {
            return Walked::Whole;
        }
    }
    if switches {
        Walked::Whole
    } else {
        Walked::Truncated
    }
}

impl Row {
    /// Returns true if the table states that the function has no caller.
    fn is_first(&self, arch: Arch) -> bool {
        let rule = self.registers.iter().find(|(number, _)| *number == arch.return_address);
        rule.is_none_or(|(_, rule)| *rule == Rule::Undefined)
    }
}
