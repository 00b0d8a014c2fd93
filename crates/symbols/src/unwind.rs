//! Unwinding: the return addresses of a stack, from registers and a copy of the stack's bytes.
//!
//! Programs state in their files where each function keeps its caller's registers (`.eh_frame`,
//! `.debug_frame`). Code without such information, e.g. code that was generated at run time, is
//! unwound by its frame pointers. A caller is accepted only if it is in code of the process, so an
//! incomplete stack ends early and is marked as truncated.
//!
//! * `cfi` finds the row of the table for an address.
//! * `go` finds the functions at which stacks of Go programs end.
//! * `frame` computes the caller's registers by a row.
//! * `expression` evaluates the few expressions that rows contain.
//! * `walk` goes from frame to frame.
//!
//! Files, registers and stacks may be hostile: nothing here panics, and every loop is bounded.

mod cfi;
mod expression;
mod frame;
mod go;
mod walk;

use std::fs::File;
use std::rc::Rc;

pub(crate) use cfi::Module;
pub(crate) use frame::{Arch, Row, Snapshot};
pub(crate) use go::End;
pub(crate) use walk::{walk, Code, Space, Walked};

/// A process that consists of one module, at the addresses that its file states.
struct Alone {
    module: Module,
    row: Option<Rc<Row>>,
}

impl Space for Alone {
    fn code(&mut self, address: u64) -> Code<'_> {
        self.row = self.module.row(address);
        match (self.module.end(address), &self.row) {
            (Some(End::First), _) => Code::First,
            (Some(End::Switch), row) => Code::Switch(row.as_deref()),
            (None, Some(row)) => Code::Row(row, self.module.section(row)),
            (None, None) if self.module.is_start(address) => Code::First,
            (None, None) => Code::FramePointers,
        }
    }
}

/// Unwinds a stack in a program of one module, which is loaded at the addresses that its file
/// states. `registers` are the instruction, stack and frame pointer and the link register; `stack`
/// are the bytes from the stack pointer on. Returns the addresses, innermost first, and whether the
/// first function was reached; `None` if the file is no program of this architecture.
pub fn unwind_alone(module: &File, [ip, sp, fp, lr]: [u64; 4], stack: &[u8]) -> Option<(Vec<u64>, bool)> {
    let mut space = Alone { module: Module::read(module, Arch::HERE)?, row: None };
    let mut addresses = Vec::new();
    let walked = walk(Arch::HERE, &Snapshot { ip, sp, fp, lr, stack }, &[], &mut space, &mut addresses);
    Some((addresses, walked == Walked::Whole))
}
