//! The two BPF programs that decide in the kernel which waits are sampled.
//!
//! - At `sched_exit_tp`, a thread has just got the CPU, and is still in the function of the kernel
//!   in which it waited. The program notes the time for the thread that had this CPU before, whose
//!   wait begins. The time since the thread's own note is the length of the wait that has just
//!   ended ([`switched`]).
//! - At `sched_waking`, the current thread wakes a thread that was noted ([`woken`]).
//!
//! Both sample a wait of length L with the probability min(1, L / period): if L is larger than a
//! number in 0..period that looks random but depends only on the thread and the time of the note.
//! So the wake-up is sampled only if the wait that it ends is sampled, too.
//!
//! A sample is taken by the perf event of the CPU, whose samples have the stacks of the current
//! thread. The program only adds the cause and the woken thread ([`SampleData`]).
//!
//! The programs run at each switch and wake-up of the host, so they call few functions of the
//! kernel and look nothing up in maps: each map has one value, whose address is in the program.

use super::assembler::{Assembler, Condition, Helper, Operation, Register, Width, R0, R1, R10, R2, R3, R4, R5, R6, R7, R8, R9};
use super::bpf::{self, MapKind};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

/// Cause of a sample: the current thread's wait has ended.
pub const WAITED: u32 = 1;
/// Cause of a sample: the current thread wakes another one.
pub const WOKE: u32 = 2;

/// What a program adds to a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SampleData {
    pub cause: u32,
    /// The thread that is woken, or 0.
    pub other_tid: i32,
}

impl SampleData {
    /// `None` if no program took the sample.
    pub fn parse(data: &[u8]) -> Option<SampleData> {
        let (cause, rest) = data.split_first_chunk()?;
        let data = SampleData { cause: u32::from_ne_bytes(*cause), other_tid: i32::from_ne_bytes(*rest.first_chunk()?) };
        matches!(data.cause, WAITED | WOKE).then_some(data)
    }
}

/// Size of a note in bytes, as a power of two: the time in ns at which the thread left the CPU, or
/// 0 if it has it; the thread; padding.
const NOTE: u32 = 4;
const BEGIN: i16 = 0;
const TID: i16 = 8;
/// Largest number of notes. A thread has the note at its tid modulo their number, and two threads
/// with the same note lose samples.
const MAX_NOTES: u32 = 1 << 17;
/// Size in bytes of what is kept of a CPU, as a power of two: the tid of its thread. It fills
/// one cache line, so that no two CPUs write to the same cache line.
const CPU: u32 = 6;
/// Flag of the kernel: the entry of the current CPU.
const CURRENT_CPU: u64 = 0xffff_ffff;
/// Factor whose products have evenly distributed upper bits: 2^64 divided by the golden ratio.
const SCATTER: u64 = 0x9e37_79b9_7f4a_7c15;
/// Place of the data on a program's stack.
const DATA: i16 = -8;

/// What the programs share, and constants in them.
#[derive(Debug)]
pub struct Maps {
    notes: Table,
    /// The thread that each CPU runs.
    cpus: Table,
    /// The period in ns.
    period: OwnedFd,
    /// The perf event of each CPU.
    events: OwnedFd,
    /// Process whose threads are not sampled.
    excluded: i32,
}

/// A map with one value, which is an array. So the programs have its address and need no look-up.
#[derive(Debug)]
struct Table {
    map: OwnedFd,
    /// Number of elements, a power of two.
    count: u32,
    /// Size in bytes of an element, as a power of two.
    size: u32,
}

impl Table {
    /// Makes a table with at least `count` elements.
    fn new(count: u32, size: u32) -> io::Result<Table> {
        let count = count.max(2).next_power_of_two();
        Ok(Table { map: bpf::map(MapKind::Array, count << size, 1)?, count, size })
    }

    /// Sets a register to the address of the element at `index` modulo the number of elements.
    /// `index` is overwritten.
    fn element(&self, program: &mut Assembler, to: Register, index: Register) {
        program.calculate(Operation::And, index, (self.count - 1) as i32);
        program.calculate(Operation::ShiftLeft, index, self.size as i32);
        program.map_value(to, self.map.as_raw_fd());
        program.calculate(Operation::Add, to, index);
    }
}

impl Maps {
    /// Makes the maps for threads up to `max_tid` and CPUs up to `max_cpu`.
    pub fn new(max_tid: u32, max_cpu: u32, excluded: i32) -> io::Result<Maps> {
        Ok(Maps {
            notes: Table::new(max_tid.min(MAX_NOTES), NOTE)?,
            cpus: Table::new(max_cpu + 1, CPU)?,
            period: bpf::map(MapKind::Array, 8, 1)?,
            events: bpf::map(MapKind::PerfEvents, 4, max_cpu + 1)?,
            excluded,
        })
    }

    pub fn set_period(&self, ns: u32) -> io::Result<()> {
        bpf::update(&self.period, 0, &u64::from(ns))
    }

    /// Lets the samples of a CPU be taken by this perf event.
    pub fn set_event(&self, cpu: u32, event: &impl AsRawFd) -> io::Result<()> {
        bpf::update(&self.events, cpu, &event.as_raw_fd())
    }
}

/// Positions in bytes of fields of the kernel's structure of a thread.
#[derive(Clone, Copy, Debug)]
pub struct TaskFields {
    pub tid: i16,
    pub process: i16,
}

/// Argument of `sched_exit_tp`: true if the thread was off the CPU meanwhile.
pub fn switched(maps: &Maps) -> Vec<[u8; 8]> {
    let mut program = Assembler::default();
    program.copy(R6, R1);
    program.load(Width::Eight, R1, (R1, 0));
    program.end_if(R1, Condition::Equal, 0);
    program.call(Helper::CurrentPidTgid);
    program.copy(R8, R0);
    program.copy_low(R7, R0);
    program.call(Helper::CurrentCpu);
    maps.cpus.element(&mut program, R9, R0);
    program.call(Helper::Time);
    // The thread that had the CPU until now.
    program.load(Width::Four, R1, (R9, 0));
    program.store(Width::Four, (R9, 0), R7);
    // Thread 0 is an idle CPU.
    program.unless(R1, Condition::Equal, 0, |program| {
        program.copy(R2, R1);
        maps.notes.element(program, R3, R2);
        program.store(Width::Four, (R3, TID), R1);
        program.store(Width::Eight, (R3, BEGIN), R0);
    });
    // The thread that has it now.
    program.end_if(R7, Condition::Equal, 0);
    program.copy(R1, R0);
    begin_of_wait(&mut program, maps);
    // A thread may be woken while it has the CPU, which ends no wait.
    program.store(Width::Eight, (R3, BEGIN), 0);
    end_unless_sampled(&mut program, maps);
    program.calculate(Operation::ShiftRight, R8, 32);
    program.end_if(R8, Condition::Equal, maps.excluded);
    program.store(Width::Four, (R10, DATA + 4), 0);
    take_sample(&mut program, maps, WAITED);
    program.finish()
}

/// Argument of `sched_waking`: the task that is woken.
pub fn woken(maps: &Maps, fields: TaskFields) -> Vec<[u8; 8]> {
    let mut program = Assembler::default();
    program.copy(R6, R1);
    program.load(Width::Eight, R8, (R6, 0));
    program.load(Width::Four, R7, (R8, fields.tid));
    begin_of_wait(&mut program, maps);
    program.call(Helper::Time);
    program.copy(R1, R0);
    end_unless_sampled(&mut program, maps);
    program.load(Width::Four, R8, (R8, fields.process));
    program.end_if(R8, Condition::Equal, maps.excluded);
    program.call(Helper::CurrentPidTgid);
    program.calculate(Operation::ShiftRight, R0, 32);
    program.end_if(R0, Condition::Equal, maps.excluded);
    program.store(Width::Four, (R10, DATA + 4), R7);
    take_sample(&mut program, maps, WOKE);
    program.finish()
}

/// Sets R3 to the note of thread R7, and R9 to the begin of its wait. Ends the program if the
/// thread has no note.
fn begin_of_wait(program: &mut Assembler, maps: &Maps) {
    program.copy(R2, R7);
    maps.notes.element(program, R3, R2);
    program.load(Width::Four, R2, (R3, TID));
    program.end_if(R2, Condition::NotEqual, R7);
    program.load(Width::Eight, R9, (R3, BEGIN));
    program.end_if(R9, Condition::Equal, 0);
}

/// Ends the program if the wait of thread R7 from R9 to R1 is not sampled.
fn end_unless_sampled(program: &mut Assembler, maps: &Maps) {
    // A clock of another CPU may be slightly behind.
    program.end_if(R1, Condition::NotAbove, R9);
    program.calculate(Operation::Subtract, R1, R9);
    // R2: 32 bits that look random.
    program.copy(R2, R7);
    program.calculate(Operation::ShiftLeft, R2, 40);
    program.calculate(Operation::Xor, R2, R9);
    program.set_64(R3, SCATTER);
    program.calculate(Operation::Multiply, R2, R3);
    program.copy(R4, R2);
    program.calculate(Operation::ShiftRight, R4, 32);
    program.calculate(Operation::Xor, R2, R4);
    program.calculate(Operation::Multiply, R2, R3);
    program.calculate(Operation::ShiftRight, R2, 32);
    // R2: a number in 0..period. The product fits, because the period has 32 bits.
    program.map_value(R3, maps.period.as_raw_fd());
    program.load(Width::Eight, R3, (R3, 0));
    program.calculate(Operation::Multiply, R2, R3);
    program.calculate(Operation::ShiftRight, R2, 32);
    program.end_if(R1, Condition::NotAbove, R2);
}

/// Takes the sample. The woken thread is already in the data, and R6 has the program's arguments.
fn take_sample(program: &mut Assembler, maps: &Maps, cause: u32) {
    program.store(Width::Four, (R10, DATA), cause as i32);
    program.copy(R1, R6);
    program.map(R2, maps.events.as_raw_fd());
    program.set_64(R3, CURRENT_CPU);
    stack_address(program, R4, DATA);
    program.set(R5, size_of::<SampleData>() as i32);
    program.call(Helper::PerfEventOutput);
}

fn stack_address(program: &mut Assembler, to: Register, offset: i16) {
    program.copy(to, R10);
    program.calculate(Operation::Add, to, i32::from(offset));
}
