//! Loops with probes in Rust for `bench/probes/subject.c`. `rust.c` returns their table.

use std::ffi::c_char;

/// A loop; the layout is that of `struct loop` in `subject.h`.
#[repr(C)]
pub struct Loop {
    name: *const c_char,
    run: extern "C" fn(u64),
    events: u32,
    slow: u32,
    bytes: u32,
}

// SAFETY: the pointers are those of string literals.
unsafe impl Sync for Loop {}

/// Defines loops whose body the compiler cannot optimise across turns.
macro_rules! loops {
    ($($name:ident($i:ident) $body:block)*) => { $(
        #[inline(never)]
        extern "C" fn $name(turns: u64) {
            for $i in 0..turns {
                $body
                // SAFETY: the assembly has no instruction.
                unsafe { std::arch::asm!("/* {0} */", in(reg) $i, options(nostack, preserves_flags)) };
            }
        }
    )* };
}

/// Defines `bench_loops` of `rust.c`: the loops that record and, for `off`, those that record
/// nothing.
macro_rules! tables {
    ([$($on:expr),* $(,)?], [$($off:expr),* $(,)?]) => {
        /// # Safety
        ///
        /// `count` points to writable memory.
        #[no_mangle]
        pub unsafe extern "C" fn bench_loops(off: i32, count: *mut u32) -> *const crate::Loop {
            static ON: &[crate::Loop] = &[$($on),*];
            static OFF: &[crate::Loop] = &[$($off),*];
            let loops = if off == 0 { ON } else { OFF };
            // SAFETY: the caller's promise.
            unsafe { count.write(loops.len() as u32) };
            loops.as_ptr()
        }
    };
}

macro_rules! row {
    ($name:literal, $run:ident, $events:literal, $slow:literal, $bytes:literal) => {
        crate::Loop { name: concat!($name, "\0").as_ptr().cast(), run: $run, events: $events, slow: $slow, bytes: $bytes }
    };
}

#[cfg(any(feature = "layer-ours", feature = "layer-chrome", feature = "layer-perfetto"))]
mod layers;
#[cfg(feature = "ours")]
mod ours;
#[cfg(feature = "perfetto")]
use perfetto_sdk_sys as _;
#[cfg(feature = "tracy")]
use tracy_client_sys as _;
