//! One step of unwinding: the registers of a function's caller.

use super::expression::evaluate;

/// Number of DWARF register numbers that are followed: general registers of both architectures.
pub const REGISTERS: usize = 33;

/// DWARF numbers of the registers with a special meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arch {
    /// `e_machine` of its programs.
    pub machine: u16,
    /// Column of the return address.
    pub return_address: u16,
    sp: u16,
    fp: u16,
    /// Set if a call stores the return address in a register instead of on the stack.
    has_link: bool,
    /// Bits of a return address that are part of the address; the others can be a signature.
    pub address_mask: u64,
}

impl Arch {
    pub const X86_64: Arch = Arch { machine: 62, return_address: 16, sp: 7, fp: 6, has_link: false, address_mask: u64::MAX };
    pub const ARM64: Arch = Arch { machine: 183, return_address: 30, sp: 31, fp: 29, has_link: true, address_mask: (1 << 48) - 1 };
    pub const HERE: Arch = if cfg!(target_arch = "aarch64") { Arch::ARM64 } else { Arch::X86_64 };
}

/// A thread's registers and stack at one moment.
#[derive(Clone, Copy, Debug)]
pub struct Snapshot<'a> {
    pub ip: u64,
    pub sp: u64,
    pub fp: u64,
    pub lr: u64,
    /// Bytes of the stack from `sp` on.
    pub stack: &'a [u8],
}

impl Snapshot<'_> {
    /// Returns whether an address is above the copied bytes.
    fn ends_before(&self, address: u64) -> bool {
        address.saturating_sub(self.sp) >= self.stack.len().saturating_sub(7) as u64
    }

    /// Returns a word of the stack, if it was copied.
    pub fn read(&self, address: u64) -> Option<u64> {
        let at = usize::try_from(address.checked_sub(self.sp)?).ok()?;
        let bytes = self.stack.get(at..at.checked_add(8)?)?;
        Some(u64::from_le_bytes(*bytes.first_chunk()?))
    }
}

/// Registers of a frame, by DWARF number.
#[derive(Clone, Debug)]
pub struct Registers {
    values: [u64; REGISTERS],
    /// Bit of each register whose value is known.
    known: u64,
    pub arch: Arch,
    /// Set if the frame was found by a frame pointer.
    by_frame_pointer: bool,
}

impl Registers {
    pub fn new(arch: Arch, of: &Snapshot<'_>) -> Registers {
        let mut registers = Registers { values: [0; REGISTERS], known: 0, arch, by_frame_pointer: false };
        registers.set(arch.sp, Some(of.sp));
        registers.set(arch.fp, Some(of.fp));
        registers.set(arch.return_address, Some(if arch.has_link { of.lr } else { of.ip }));
        registers
    }

    pub fn get(&self, number: u16) -> Option<u64> {
        let value = self.values.get(usize::from(number))?;
        (self.known >> number & 1 != 0).then_some(*value)
    }

    pub fn is_by_frame_pointer(&self) -> bool {
        self.by_frame_pointer
    }

    pub fn sp(&self) -> Option<u64> {
        self.get(self.arch.sp)
    }

    pub fn fp(&self) -> Option<u64> {
        self.get(self.arch.fp)
    }

    fn set(&mut self, number: u16, value: Option<u64>) {
        let Some(register) = self.values.get_mut(usize::from(number)) else { return };
        *register = value.unwrap_or(0);
        self.known = self.known & !(1 << number) | u64::from(value.is_some()) << number;
    }
}

/// Location of a caller's register, relative to the canonical frame address (CFA). An expression is
/// a range of the section.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    Undefined,
    Same,
    Offset(i64),
    ValOffset(i64),
    Register(u16),
    Expression(u32, u32),
    ValExpression(u32, u32),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cfa {
    Register(u16, i64),
    Expression(u32, u32),
}

/// A row of an unwinding table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    pub cfa: Cfa,
    pub registers: Box<[(u16, Rule)]>,
    /// Set if the caller was interrupted by a signal, so that its address is not that of a return.
    pub is_signal: bool,
    /// Set if expressions are in `.debug_frame` instead of `.eh_frame`.
    pub in_debug_frame: bool,
}

impl Row {
    pub fn has_expressions(&self) -> bool {
        let is_expression = |(_, rule): &(u16, Rule)| matches!(rule, Rule::Expression(..) | Rule::ValExpression(..));
        matches!(self.cfa, Cfa::Expression(..)) || self.registers.iter().any(is_expression)
    }

    /// Returns true if a caller's register depends on registers other than those of the CFA.
    fn needs_registers(&self) -> bool {
        let needs = |(_, rule): &(u16, Rule)| !matches!(rule, Rule::Undefined | Rule::Same | Rule::Offset(_) | Rule::ValOffset(_));
        self.registers.iter().any(needs)
    }
}

/// Result of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The caller's address.
    Caller(u64),
    /// The function is the thread's first one.
    First,
    /// The caller cannot be determined, because the copied bytes end before its address.
    Beyond,
    /// The caller cannot be determined.
    Lost,
}

/// Replaces the registers by those of the caller. `section` contains the row's expressions. Without
/// a caller, the registers are of no use any more.
pub fn step(row: &Row, section: &[u8], snapshot: &Snapshot<'_>, ip: u64, registers: &mut Registers, is_innermost: bool) -> Step {
    let arch = registers.arch;
    let ip_column = if arch.has_link { u16::MAX } else { arch.return_address };
    let read = |of: &Registers, number: u16| if number == ip_column { Some(ip) } else { of.get(number) };
    let compute = |of: &Registers, range: (u32, u32), initial| {
        let expression = section.get(range.0 as usize..)?.get(..range.1 as usize)?;
        evaluate(expression, initial, |number| read(of, number), |address| snapshot.read(address))
    };
    let cfa = match row.cfa {
        Cfa::Register(number, offset) => read(registers, number).map(|value| value.wrapping_add_signed(offset)),
        Cfa::Expression(offset, length) => compute(registers, (offset, length), None),
    };
    let (Some(cfa), Some(sp)) = (cfa, registers.sp()) else { return Step::Lost };
    // A leaf function may have no frame where calls use a register.
    let advances = cfa > sp || cfa == sp && is_innermost && arch.has_link || row.is_signal;
    // Most rows read only memory, so their registers can be replaced one by one.
    let callee = row.needs_registers().then(|| registers.clone());
    let of_callee = |rule: Rule| {
        let callee = callee.as_ref()?;
        match rule {
            Rule::Register(other) => read(callee, other),
            Rule::Expression(offset, length) => compute(callee, (offset, length), Some(cfa)).and_then(|address| snapshot.read(address)),
            Rule::ValExpression(offset, length) => compute(callee, (offset, length), Some(cfa)),
            Rule::Undefined | Rule::Same | Rule::Offset(_) | Rule::ValOffset(_) => None,
        }
    };
    registers.set(arch.sp, Some(cfa));
    // A register without a rule in its table has the rule `Undefined`.
    let mut return_address = Rule::Undefined;
    for &(number, rule) in &row.registers {
        if number == arch.return_address {
            return_address = rule;
        }
        let value = match rule {
            Rule::Undefined | Rule::Same => continue,
            // The end of a function has restored the register, and its table may not mention that.
            Rule::Offset(offset) if cfa.wrapping_add_signed(offset) < sp && number != arch.return_address => continue,
            Rule::Offset(offset) => snapshot.read(cfa.wrapping_add_signed(offset)),
            Rule::ValOffset(offset) => Some(cfa.wrapping_add_signed(offset)),
            Rule::Register(_) | Rule::Expression(..) | Rule::ValExpression(..) => of_callee(rule),
        };
        registers.set(number, value);
    }
    registers.by_frame_pointer = false;
    match return_address {
        // Tables of a leaf function may omit the register that has the return address.
        Rule::Undefined | Rule::Same if arch.has_link && is_innermost => {}
        Rule::Undefined => return Step::First,
        Rule::Same => return Step::Lost,
        Rule::Offset(offset) if advances && snapshot.ends_before(cfa.wrapping_add_signed(offset)) => return Step::Beyond,
        _ => {}
    }
    finish(advances, registers)
}

/// Replaces the registers by those of the caller, for code with frame pointers: the frame pointer
/// leads to that of the caller, and the return address is next to it.
pub fn step_by_frame_pointer(snapshot: &Snapshot<'_>, registers: &mut Registers) -> Step {
    let (Some(fp), Some(sp)) = (registers.fp(), registers.sp()) else { return Step::Lost };
    // The frame pointer is 0 in the first function. Elsewhere it is certain to be a frame pointer
    // only if the frame before was found by one.
    if fp == 0 && registers.by_frame_pointer {
        return Step::First;
    }
    if fp < sp || fp % 8 != 0 {
        return Step::Lost;
    }
    let arch = registers.arch;
    if registers.by_frame_pointer && snapshot.ends_before(fp.wrapping_add(8)) {
        return Step::Beyond;
    }
    let (Some(next), Some(address)) = (snapshot.read(fp), snapshot.read(fp.wrapping_add(8))) else { return Step::Lost };
    registers.known = 0;
    registers.set(arch.sp, Some(fp.wrapping_add(16)));
    registers.set(arch.fp, Some(next));
    registers.set(arch.return_address, Some(address));
    registers.by_frame_pointer = true;
    finish(true, registers)
}

/// Number of words that [`step_by_slot`] tries. Stubs that other code calls have small frames.
pub fn slots(arch: Arch) -> usize {
    // Elsewhere a stub has to save the return address with the frame pointer.
    if arch.has_link {
        0
    } else {
        4
    }
}

/// Replaces the registers by those of the caller, for code without frame pointers that changes no
/// other register. The return address is in the word number `slot` of those that can hold one: the
/// ABI of x86-64 aligns the stack to 16 bytes at each call.
pub fn step_by_slot(snapshot: &Snapshot<'_>, registers: &mut Registers, slot: usize) -> Step {
    let Some(sp) = registers.sp().filter(|_| slot < slots(registers.arch)) else { return Step::Lost };
    let at = (sp.wrapping_add(7) & !15).wrapping_add(8 + 16 * slot as u64);
    let arch = registers.arch;
    let Some(address) = snapshot.read(at).filter(|&address| address != 0) else { return Step::Lost };
    registers.by_frame_pointer = false;
    registers.set(arch.sp, Some(at.wrapping_add(8)));
    registers.set(arch.return_address, Some(address));
    finish(true, registers)
}

/// Returns the caller, whose address is in the register of return addresses.
fn finish(advances: bool, registers: &mut Registers) -> Step {
    let arch = registers.arch;
    match registers.get(arch.return_address).map(|address| address & arch.address_mask) {
        Some(0) => Step::First,
        Some(address) if advances => {
            registers.set(arch.return_address, Some(address));
            Step::Caller(address)
        }
        _ => Step::Lost,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(cfa: Cfa, registers: &[(u16, Rule)]) -> Row {
        Row { cfa, registers: registers.into(), is_signal: false, in_debug_frame: false }
    }

    fn words(words: &[u64]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    #[test]
    fn a_leaf_of_arm64_returns_to_its_link_register_and_others_to_the_stack() {
        // The upper bits of a return address can be a signature.
        let stack = words(&[0x1020, 0xabcd_0000_0000_4440, 0, 0, 0, 0x5550]);
        let snapshot = Snapshot { ip: 0x3330, sp: 0x1000, fp: 0x1020, lr: 0xabcd_0000_0000_4444, stack: &stack };
        let mut registers = Registers::new(Arch::ARM64, &snapshot);
        let leaf = row(Cfa::Register(31, 0), &[]);
        assert_eq!(step(&leaf, &[], &snapshot, 0x3330, &mut registers, true), Step::Caller(0x4444));
        let framed = row(Cfa::Register(31, 16), &[(29, Rule::Offset(-16)), (30, Rule::Offset(-8))]);
        assert_eq!(step(&framed, &[], &snapshot, 0x4444, &mut registers, false), Step::Caller(0x4440));
        assert_eq!((registers.sp(), registers.fp()), (Some(0x1010), Some(0x1020)));
        // A function without a rule for its return address is the first one.
        assert_eq!(step(&leaf, &[], &snapshot, 0x4440, &mut registers.clone(), false), Step::First);
        assert_eq!(step_by_frame_pointer(&snapshot, &mut registers), Step::Caller(0x5550));
        assert_eq!(step_by_frame_pointer(&snapshot, &mut registers), Step::First);
    }

    #[test]
    fn a_return_address_in_a_word_of_the_stack_is_aligned_as_at_a_call() {
        let stack = words(&[1, 0x4440, 2, 0x5550, 3, 0x6660]);
        for sp in [0x1000, 0x1008] {
            let snapshot = Snapshot { ip: 0x3330, sp, fp: 7, lr: 0, stack: &stack[(sp - 0x1000) as usize..] };
            let mut registers = Registers::new(Arch::X86_64, &snapshot);
            assert_eq!(step_by_slot(&snapshot, &mut registers, 0), Step::Caller(0x4440));
            assert_eq!((registers.sp(), registers.fp()), (Some(0x1010), Some(7)));
            assert_eq!(step_by_slot(&snapshot, &mut registers, 1), Step::Caller(0x6660));
            assert_eq!(step_by_slot(&snapshot, &mut registers, 0), Step::Lost);
            assert_eq!(step_by_slot(&snapshot, &mut registers, 4), Step::Lost);
        }
        let of_arm64 = Snapshot { ip: 0x3330, sp: 0x1000, fp: 7, lr: 0, stack: &stack };
        assert_eq!(step_by_slot(&of_arm64, &mut Registers::new(Arch::ARM64, &of_arm64), 0), Step::Lost);
    }

    #[test]
    fn a_frame_pointer_of_zero_ends_only_a_chain_of_frame_pointers() {
        let stack = words(&[0, 0x4440]);
        let snapshot = Snapshot { ip: 0x3330, sp: 0x1000, fp: 0, lr: 0, stack: &stack };
        let mut registers = Registers::new(Arch::X86_64, &snapshot);
        assert_eq!(step_by_frame_pointer(&snapshot, &mut registers.clone()), Step::Lost);
        let leaf = row(Cfa::Register(7, 16), &[(16, Rule::Offset(-8))]);
        assert_eq!(step(&leaf, &[], &snapshot, 0x3330, &mut registers, true), Step::Caller(0x4440));
        assert_eq!(step_by_frame_pointer(&snapshot, &mut registers), Step::Lost);
        let mut registers = Registers::new(Arch::X86_64, &Snapshot { fp: 0x1000, ..snapshot });
        assert_eq!(step_by_frame_pointer(&snapshot, &mut registers), Step::Caller(0x4440));
        assert_eq!(step_by_frame_pointer(&snapshot, &mut registers), Step::First);
    }

    #[test]
    fn a_stack_that_does_not_advance_or_was_not_copied_has_no_caller() {
        let stack = words(&[0x1000, 0x4440]);
        let snapshot = Snapshot { ip: 0x3330, sp: 0x1000, fp: 0x1001, lr: 0, stack: &stack };
        let registers = Registers::new(Arch::X86_64, &snapshot);
        let result = |cfa: Cfa, rule: Rule| step(&row(cfa, &[(16, rule)]), &[], &snapshot, 0x3330, &mut registers.clone(), false);
        assert_eq!(result(Cfa::Register(7, 16), Rule::Offset(-8)), Step::Caller(0x4440));
        assert_eq!(result(Cfa::Register(7, 0), Rule::Offset(8)), Step::Lost);
        assert_eq!(result(Cfa::Register(7, 24), Rule::Offset(-8)), Step::Beyond);
        // The register is not known.
        assert_eq!(result(Cfa::Register(3, 16), Rule::Offset(-8)), Step::Lost);
        assert_eq!(result(Cfa::Expression(9, 9), Rule::Offset(-8)), Step::Lost);
        assert_eq!(result(Cfa::Register(7, 16), Rule::Undefined), Step::First);
        assert_eq!(step_by_frame_pointer(&snapshot, &mut registers.clone()), Step::Lost);
    }
}
