//! Programs compiled to flat code, because the loop that runs a billion times must not follow a
//! tree.

use crate::system::{Id, Step, Time};

/// An instruction of a compiled program. `slot` is a counter; `back` and `skip` are positions in
/// the code.
#[derive(Clone, Copy, Debug)]
pub enum Instr {
    Work {
        state: Id,
        time: Time,
        on_cpu: bool,
    },
    Put {
        queue: Id,
        n: u64,
    },
    Get {
        queue: Id,
        n: u64,
    },
    Drain {
        queue: Id,
    },
    Peek {
        queue: Id,
        n: u64,
    },
    Reserve {
        queue: Id,
        n: u64,
    },
    Poll {
        queue: Id,
        state: Id,
    },
    Sleep {
        time: Time,
    },
    Tick {
        period: u64,
    },
    Call {
        queue: Id,
    },
    Returned {
        queue: Id,
    },
    Serve {
        queue: Id,
    },
    Reply {
        queue: Id,
    },
    Fork {
        machine: Id,
    },
    /// Takes all units of the queue and sets the counter to their number, or skips the steps if
    /// there are none.
    Each {
        queue: Id,
        slot: usize,
        skip: usize,
    },
    Down {
        slot: usize,
        back: usize,
    },
    Next {
        slot: usize,
        times: u64,
        back: usize,
    },
    Jump {
        back: usize,
    },
    Every {
        slot: usize,
        n: u64,
        skip: usize,
    },
}

/// Compiles steps to code. Returns the code and the number of counters that it needs.
pub fn compile(steps: &[Step]) -> (Vec<Instr>, usize) {
    let (mut code, mut slots) = (Vec::new(), 0);
    add(steps, &mut code, &mut slots);
    (code, slots)
}

fn add(steps: &[Step], code: &mut Vec<Instr>, slots: &mut usize) {
    for step in steps {
        match *step {
            Step::Work { state, time } => code.push(Instr::Work { state, time, on_cpu: true }),
            Step::Device { state, time } => code.push(Instr::Work { state, time, on_cpu: false }),
            Step::Put { queue, n } => code.push(Instr::Put { queue, n }),
            Step::Get { queue, n } => code.push(Instr::Get { queue, n }),
            Step::Drain { queue } => code.push(Instr::Drain { queue }),
            Step::Peek { queue, n } => code.push(Instr::Peek { queue, n }),
            Step::Reserve { queue, n } => code.push(Instr::Reserve { queue, n }),
            Step::Poll { queue, state } => code.push(Instr::Poll { queue, state }),
            Step::Sleep { time } => code.push(Instr::Sleep { time }),
            Step::Tick { period } => code.push(Instr::Tick { period }),
            Step::Call { queue } => code.extend([Instr::Call { queue }, Instr::Returned { queue }]),
            Step::Serve { queue } => code.push(Instr::Serve { queue }),
            Step::Reply { queue } => code.push(Instr::Reply { queue }),
            Step::Fork { machine } => code.push(Instr::Fork { machine }),
            Step::Repeat { times: 0, .. } => {}
            Step::Repeat { times, ref steps } => {
                let (slot, back) = (*slots, code.len());
                *slots += 1;
                add(steps, code, slots);
                code.push(Instr::Next { slot, times, back });
            }
            Step::Forever { ref steps } => {
                let back = code.len();
                add(steps, code, slots);
                code.push(Instr::Jump { back });
            }
            Step::Each { queue, ref steps } => {
                let (slot, at) = (*slots, code.len());
                *slots += 1;
                code.push(Instr::Each { queue, slot, skip: 0 });
                add(steps, code, slots);
                code.push(Instr::Down { slot, back: at + 1 });
                code[at] = Instr::Each { queue, slot, skip: code.len() };
            }
            Step::Every { n, ref steps } => {
                let (slot, at) = (*slots, code.len());
                *slots += 1;
                code.push(Instr::Every { slot, n, skip: 0 });
                add(steps, code, slots);
                code[at] = Instr::Every { slot, n, skip: code.len() };
            }
        }
    }
}
