//! From frame to frame, from the innermost function of a stack to the thread's first one.

use super::frame::{slots, step, step_by_frame_pointer, step_by_slot, Arch, Registers, Row, Rule, Snapshot, Step};

/// Maximum number of addresses of a stack.
const MAX_FRAMES: usize = 1024;
/// Number of equal addresses in both stacks from which on the kernel's stack continues another one.
const AGREEING: usize = 3;
/// Number of frames with tables after which a caller that is not certain counts as confirmed, if
/// the copied bytes end there.
const CONFIRMING: usize = 3;
/// Maximum number of frames of all attempts for one stack.
const MAX_STEPS: usize = 2 * MAX_FRAMES;

/// Kind of the code at an address.
#[derive(Debug)]
pub enum Code<'a> {
    /// A function with a row in an unwinding table, and the section of its expressions.
    Row(&'a Row, &'a [u8]),
    /// Code of a module without unwinding tables.
    FramePointers,
    /// Code that the process generated. It may have frame pointers.
    Made,
    /// A function that has no caller.
    First,
    /// A function that changes to this stack, so its caller is on another one. The row is valid up
    /// to the change.
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

/// How the caller of code without tables is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Guess {
    FramePointer,
    /// The return address is in one of the first words of the stack that can hold one.
    Slot(usize),
}

impl Guess {
    fn next(self, arch: Arch) -> Option<Guess> {
        let slot = match self {
            Guess::FramePointer => 0,
            Guess::Slot(at) => at + 1,
        };
        (slot < slots(arch)).then_some(Guess::Slot(slot))
    }
}

/// A position in a stack.
#[derive(Clone, Debug)]
struct Position {
    registers: Registers,
    ip: u64,
    /// Set if `ip` is the address of the instruction itself, not of a return.
    exact: bool,
    /// Number of addresses before this one.
    depth: usize,
    /// Number of frames with tables, or found by several frame pointers in a row, since the first
    /// one whose caller was not certain.
    confirmed: usize,
    /// Set after a caller that was not certain.
    guessed: bool,
}

/// Reason for which an attempt found no further caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    First,
    /// At a function that changed to this stack from another one.
    Switch,
    /// At the end of the copied bytes.
    Copy,
    Lost,
    Unreadable,
}

/// Finds the addresses of a stack, innermost first; all except the first are return addresses.
/// `chain` is the stack as the kernel found it by frame pointers. It continues a stack that ends
/// early if both agree in their last common frames, because then the code has frame pointers. At a
/// module whose tables cannot be read, nothing better than `chain` is known, so it is kept.
///
/// Generated code has no tables, and its frames may have a frame pointer or not. A caller of such
/// code is only a hypothesis. It is accepted if the stack then leads to the thread's first
/// function, or through several functions with tables to the end of the copied bytes. Otherwise the
/// next hypothesis is tried.
pub fn walk(arch: Arch, snapshot: &Snapshot<'_>, chain: &[u64], space: &mut dyn Space, addresses: &mut Vec<u64>) -> Walked {
    addresses.clear();
    let mut attempts = Attempts { arch, snapshot, space, open: Vec::new(), steps: 0 };
    let registers = Registers::new(arch, snapshot);
    let mut position = Position { registers, ip: snapshot.ip, exact: true, depth: 0, confirmed: 0, guessed: false };
    let mut first: Option<(Vec<u64>, End)> = None;
    loop {
        let end = attempts.follow(&mut position, addresses);
        let is_confirmed = match end {
            End::First | End::Switch => true,
            End::Copy => position.confirmed >= CONFIRMING,
            End::Lost | End::Unreadable => false,
        };
        if is_confirmed || first.is_none() && attempts.open.is_empty() {
            return finish(arch, chain, attempts.space, addresses, end);
        }
        first.get_or_insert_with(|| (addresses.clone(), end));
        match attempts.next(addresses) {
            Some(next) => position = next,
            None => break,
        }
    }
    // No attempt leads to the thread's first function. The first one has the fewest assumptions.
    let (best, end) = first.unwrap_or((Vec::new(), End::Lost));
    *addresses = best;
    finish(arch, chain, attempts.space, addresses, end)
}

fn finish(arch: Arch, chain: &[u64], space: &mut dyn Space, addresses: &mut Vec<u64>, end: End) -> Walked {
    match end {
        End::First => Walked::Whole,
        End::Unreadable => {
            keep_chain(chain, addresses);
            Walked::Truncated
        }
        End::Switch => continue_behind_switch(arch, chain, space, addresses),
        End::Copy | End::Lost => continue_by_chain(arch, chain, space, addresses),
    }
}

/// The attempts to find the callers of one stack.
struct Attempts<'a, 'b> {
    arch: Arch,
    snapshot: &'a Snapshot<'b>,
    space: &'a mut dyn Space,
    /// Positions whose next hypothesis was not tried yet, the newest last.
    open: Vec<(Position, Guess)>,
    steps: usize,
}

impl Attempts<'_, '_> {
    /// Follows the stack from a position on, and appends its addresses.
    fn follow(&mut self, at: &mut Position, addresses: &mut Vec<u64>) -> End {
        while addresses.len() < MAX_FRAMES {
            self.steps += 1;
            let code = self.space.code(if at.exact { at.ip } else { at.ip.wrapping_sub(1) });
            if matches!(code, Code::Outside) && !addresses.is_empty() {
                return End::Lost;
            }
            at.depth = addresses.len();
            addresses.push(at.ip);
            let (result, interrupted) = match code {
                Code::Row(row, section) => {
                    at.confirmed += usize::from(at.guessed);
                    (step(row, section, self.snapshot, at.ip, &mut at.registers, at.exact), row.is_signal)
                }
                Code::FramePointers => (step_by_frame_pointer(self.snapshot, &mut at.registers), false),
                // The first hypothesis about other code of a module is that it has no caller.
                Code::Made => (self.guess(at, Guess::FramePointer), false),
                Code::Unknown => {
                    self.open.push((at.clone(), Guess::FramePointer));
                    return End::Lost;
                }
                Code::First => (Step::First, false),
                Code::Switch(Some(row)) if at.exact => (step(row, &[], self.snapshot, at.ip, &mut at.registers, at.exact), row.is_signal),
                Code::Switch(None) if at.exact => (Step::Lost, false),
                Code::Switch(_) => return End::Switch,
                Code::Unreadable => return End::Unreadable,
                Code::Outside => return End::Lost,
            };
            match result {
                Step::Caller(address) => (at.ip, at.exact) = (address, interrupted),
                Step::First => return End::First,
                Step::Beyond => return End::Copy,
                Step::Lost => return End::Lost,
            }
        }
        End::Lost
    }

    /// Takes a hypothesis about the caller of the code at a position, and keeps the next one for
    /// later.
    fn guess(&mut self, at: &mut Position, guess: Guess) -> Step {
        if let Some(next) = guess.next(self.arch) {
            self.open.push((at.clone(), next));
        }
        // A second frame pointer in a row confirms the first one.
        at.confirmed += usize::from(at.guessed && guess == Guess::FramePointer && at.registers.is_by_frame_pointer());
        at.guessed = true;
        match guess {
            Guess::FramePointer => step_by_frame_pointer(self.snapshot, &mut at.registers),
            Guess::Slot(slot) => step_by_slot(self.snapshot, &mut at.registers, slot),
        }
    }

    /// Returns the position of the next attempt, and cuts the addresses to those before it.
    fn next(&mut self, addresses: &mut Vec<u64>) -> Option<Position> {
        while self.steps < MAX_STEPS {
            let (mut at, guess) = self.open.pop()?;
            addresses.truncate(at.depth + 1);
            if let Step::Caller(address) = self.guess(&mut at, guess) {
                (at.ip, at.exact) = (address, false);
                return Some(at);
            }
        }
        None
    }
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

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;
    use crate::unwind::frame::Cfa;

    /// Code by ranges of 0x1000: with a frame of 16 bytes, the thread's first function, generated,
    /// and without a table.
    struct Ranges {
        framed: Row,
        first: Row,
    }

    const FRAMED: u64 = 0x1000;
    const FIRST: u64 = 0x2000;
    const MADE: u64 = 0x3000;
    const UNKNOWN: u64 = 0x4000;

    impl Space for Ranges {
        fn code(&mut self, address: u64) -> Code<'_> {
            match address & !0xfff {
                FRAMED => Code::Row(&self.framed, &[]),
                FIRST => Code::Row(&self.first, &[]),
                MADE => Code::Made,
                UNKNOWN => Code::Unknown,
                _ => Code::Outside,
            }
        }
    }

    /// Walks the stack of a thread in `ip`, whose stack begins at 0x10000.
    fn walked(ip: u64, fp: u64, words: &[u64]) -> (Vec<u64>, Walked) {
        let stack: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let mut addresses = Vec::new();
        let snapshot = Snapshot { ip, sp: 0x10000, fp, lr: 0, stack: &stack };
        let row = |rule| Row { cfa: Cfa::Register(7, 16), registers: [(16, rule)].into(), is_signal: false, in_debug_frame: false };
        let mut ranges = Ranges { framed: row(Rule::Offset(-8)), first: row(Rule::Undefined) };
        let walked = walk(Arch::X86_64, &snapshot, &[], &mut ranges, &mut addresses);
        (addresses, walked)
    }

    #[test]
    fn generated_code_with_and_without_frame_pointers_has_callers() {
        // A stub without a frame pointer, whose caller has a table. The register for the frame
        // pointer leads to a word that is in code, but not to the first function.
        let stub = [9, MADE + 5, 8, FRAMED + 5, 7, FIRST + 5, 0, FRAMED + 9, 0];
        let all = vec![FRAMED, MADE + 5, FRAMED + 5, FIRST + 5];
        assert_eq!(walked(FRAMED, 3, &stub), (all.clone(), Walked::Whole));
        assert_eq!(walked(FRAMED, 0x10030, &stub), (all, Walked::Whole));
        // With a frame pointer, the nearest words need not be return addresses.
        let framed = [9, MADE + 5, 8, FRAMED + 7, 0, FIRST + 5];
        assert_eq!(walked(FRAMED, 0x10020, &framed), (vec![FRAMED, MADE + 5, FIRST + 5], Walked::Whole));
    }

    #[test]
    fn a_caller_that_leads_nowhere_is_not_accepted() {
        // Its caller is in code, but that one's is not.
        let (addresses, result) = walked(UNKNOWN, 3, &[9, FRAMED + 5, 8, 0x9990, 0, 0]);
        assert_eq!((addresses, result), (vec![UNKNOWN], Walked::Truncated));
        let (addresses, result) = walked(UNKNOWN, 3, &[9, FRAMED + 5, 8, FIRST + 5]);
        assert_eq!((addresses, result), (vec![UNKNOWN, FRAMED + 5, FIRST + 5], Walked::Whole));
        // At the end of the copied bytes, three functions with tables are enough.
        let begin = [9, FRAMED + 1, 8, FRAMED + 2, 7, FRAMED + 3];
        assert_eq!(walked(UNKNOWN, 3, &begin[..4]).0, [UNKNOWN]);
        assert_eq!(walked(UNKNOWN, 3, &begin), (vec![UNKNOWN, FRAMED + 1, FRAMED + 2, FRAMED + 3], Walked::Truncated));
    }

    #[test]
    fn attempts_for_one_stack_are_limited() {
        // Each word leads to generated code, so that the number of attempts would be exponential.
        let (addresses, result) = walked(MADE, 0, &[MADE + 5; 4096]);
        assert!(addresses.len() <= MAX_FRAMES && result == Walked::Truncated);
    }
}
