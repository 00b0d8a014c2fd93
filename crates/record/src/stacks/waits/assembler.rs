//! An assembler for small BPF programs: straight code with jumps to its end and over a few
//! instructions.
//!
//! All numbers are from `linux/bpf.h`, which is a stable interface of the kernel. The kernel checks
//! a program when it is loaded, so a wrong program is refused and harms nothing.

/// A register. R1 to R5 are arguments and are lost in calls, R0 is the result, R6 to R9 are kept,
/// R10 is the end of the program's stack of 512 bytes.
#[derive(Clone, Copy, Debug)]
pub struct Register(u8);

pub const R0: Register = Register(0);
pub const R1: Register = Register(1);
pub const R2: Register = Register(2);
pub const R3: Register = Register(3);
pub const R4: Register = Register(4);
pub const R5: Register = Register(5);
pub const R6: Register = Register(6);
pub const R7: Register = Register(7);
pub const R8: Register = Register(8);
pub const R9: Register = Register(9);
pub const R10: Register = Register(10);

/// Functions of the kernel that a program may call.
#[derive(Clone, Copy, Debug)]
#[repr(i32)]
pub enum Helper {
    Time = 5,
    CurrentCpu = 8,
    CurrentPidTgid = 14,
    PerfEventOutput = 25,
}

/// Operations on 64-bit numbers.
#[derive(Clone, Copy, Debug)]
#[repr(u8)]
pub enum Operation {
    Add = 0x00,
    Subtract = 0x10,
    Multiply = 0x20,
    And = 0x50,
    ShiftLeft = 0x60,
    ShiftRight = 0x70,
    Xor = 0xa0,
}

/// Conditions of a jump to the end; comparisons are unsigned.
#[derive(Clone, Copy, Debug)]
#[repr(u8)]
pub enum Condition {
    Equal = 0x10,
    NotEqual = 0x50,
    NotAbove = 0xb0,
}

/// Second operand of an operation.
#[derive(Clone, Copy, Debug)]
pub enum Operand {
    Register(Register),
    /// The sign is extended to 64 bits.
    Number(i32),
}

impl From<Register> for Operand {
    fn from(register: Register) -> Operand {
        Operand::Register(register)
    }
}

impl From<i32> for Operand {
    fn from(number: i32) -> Operand {
        Operand::Number(number)
    }
}

/// Size of an access to memory.
#[derive(Clone, Copy, Debug)]
#[repr(u8)]
pub enum Width {
    Four = 0x00,
    Eight = 0x18,
}

const NONE: Register = Register(0);
const LOAD_NUMBER_64: u8 = 0x18;
const LOAD: u8 = 0x61;
const STORE_NUMBER: u8 = 0x62;
const STORE: u8 = 0x63;
const JUMP: u8 = 0x05;
const CALL: u8 = 0x85;
const EXIT: u8 = 0x95;
const OPERATION_64: u8 = 0x07;
const MOVE: u8 = 0xb0;
const OPERATION_32: u8 = 0x04;
/// Bit of an instruction whose second operand is a register.
const FROM_REGISTER: u8 = 0x08;
/// Kinds of 64-bit numbers: the map with this descriptor, and the address of its only value.
const MAP: Register = Register(1);
const MAP_VALUE: Register = Register(2);

/// A program of which more instructions are appended.
#[derive(Debug, Default)]
pub struct Assembler {
    code: Vec<[u8; 8]>,
    /// Positions of the jumps to the end.
    jumps: Vec<usize>,
}

impl Assembler {
    pub fn copy(&mut self, to: Register, from: Register) {
        self.instruction(OPERATION_64 | MOVE | FROM_REGISTER, (to, from), 0, 0);
    }

    /// Copies the low 32 bits and clears the high ones.
    pub fn copy_low(&mut self, to: Register, from: Register) {
        self.instruction(OPERATION_32 | MOVE | FROM_REGISTER, (to, from), 0, 0);
    }

    pub fn set(&mut self, to: Register, number: i32) {
        self.instruction(OPERATION_64 | MOVE, (to, NONE), 0, number);
    }

    pub fn set_64(&mut self, to: Register, number: u64) {
        self.number_64((to, NONE), number as u32, (number >> 32) as u32);
    }

    /// Sets a register to the map with this descriptor.
    pub fn map(&mut self, to: Register, descriptor: i32) {
        self.number_64((to, MAP), descriptor as u32, 0);
    }

    /// Sets a register to the address of the first value of an array.
    pub fn map_value(&mut self, to: Register, descriptor: i32) {
        self.number_64((to, MAP_VALUE), descriptor as u32, 0);
    }

    pub fn calculate(&mut self, operation: Operation, to: Register, operand: impl Into<Operand>) {
        let code = OPERATION_64 | operation as u8;
        match operand.into() {
            Operand::Register(from) => self.instruction(code | FROM_REGISTER, (to, from), 0, 0),
            Operand::Number(number) => self.instruction(code, (to, NONE), 0, number),
        }
    }

    pub fn load(&mut self, width: Width, to: Register, (base, offset): (Register, i16)) {
        self.instruction(LOAD | width as u8, (to, base), offset, 0);
    }

    pub fn store(&mut self, width: Width, (base, offset): (Register, i16), value: impl Into<Operand>) {
        match value.into() {
            Operand::Register(from) => self.instruction(STORE | width as u8, (base, from), offset, 0),
            Operand::Number(number) => self.instruction(STORE_NUMBER | width as u8, (base, NONE), offset, number),
        }
    }

    pub fn call(&mut self, helper: Helper) {
        self.instruction(CALL, (NONE, NONE), 0, helper as i32);
    }

    /// Ends the program if the condition is true.
    pub fn end_if(&mut self, left: Register, condition: Condition, right: impl Into<Operand>) {
        self.jumps.push(self.code.len());
        let code = JUMP | condition as u8;
        match right.into() {
            Operand::Register(right) => self.instruction(code | FROM_REGISTER, (left, right), 0, 0),
            Operand::Number(number) => self.instruction(code, (left, NONE), 0, number),
        }
    }

    /// Adds instructions that are skipped if the condition is true.
    pub fn unless(&mut self, left: Register, condition: Condition, right: i32, then: impl FnOnce(&mut Assembler)) {
        let at = self.code.len();
        self.instruction(JUMP | condition as u8, (left, NONE), 0, right);
        then(self);
        // A jump counts from the instruction after it.
        let distance = (self.code.len() - at - 1) as i16;
        self.code[at][2..4].copy_from_slice(&distance.to_ne_bytes());
    }

    /// Returns the instructions, which end with the result 0.
    pub fn finish(mut self) -> Vec<[u8; 8]> {
        let end = self.code.len();
        self.set(R0, 0);
        self.instruction(EXIT, (NONE, NONE), 0, 0);
        for at in self.jumps {
            // A jump counts from the instruction after it. These programs are far shorter than
            // the 32,767 instructions that a jump may skip.
            let distance = (end - at - 1) as i16;
            self.code[at][2..4].copy_from_slice(&distance.to_ne_bytes());
        }
        self.code
    }

    fn number_64(&mut self, registers: (Register, Register), low: u32, high: u32) {
        self.instruction(LOAD_NUMBER_64, registers, 0, low as i32);
        self.instruction(0, (NONE, NONE), 0, high as i32);
    }

    fn instruction(&mut self, code: u8, (to, from): (Register, Register), offset: i16, number: i32) {
        let registers = if cfg!(target_endian = "little") { to.0 | from.0 << 4 } else { to.0 << 4 | from.0 };
        let mut bytes = [code, registers, 0, 0, 0, 0, 0, 0];
        bytes[2..4].copy_from_slice(&offset.to_ne_bytes());
        bytes[4..8].copy_from_slice(&number.to_ne_bytes());
        self.code.push(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_endian = "little")]
    fn instructions_have_the_kernels_encoding_and_jumps_lead_to_the_end() {
        let mut program = Assembler::default();
        program.load(Width::Eight, R1, (R6, 8));
        program.end_if(R1, Condition::Equal, 0);
        program.set_64(R2, 0x1_0000_0002);
        program.calculate(Operation::Subtract, R1, R2);
        program.store(Width::Four, (R10, -4), 7);
        program.end_if(R1, Condition::NotAbove, R2);
        program.call(Helper::Time);
        let expected = [
            [0x79, 0x61, 8, 0, 0, 0, 0, 0],
            [0x15, 0x01, 6, 0, 0, 0, 0, 0],
            [0x18, 0x02, 0, 0, 2, 0, 0, 0],
            [0, 0, 0, 0, 1, 0, 0, 0],
            [0x1f, 0x21, 0, 0, 0, 0, 0, 0],
            [0x62, 0x0a, 0xfc, 0xff, 7, 0, 0, 0],
            [0xbd, 0x21, 1, 0, 0, 0, 0, 0],
            [0x85, 0, 0, 0, 5, 0, 0, 0],
            [0xb7, 0, 0, 0, 0, 0, 0, 0],
            [0x95, 0, 0, 0, 0, 0, 0, 0],
        ];
        assert_eq!(program.finish(), expected);
    }
}
