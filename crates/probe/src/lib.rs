//! Longpole's probes for Rust: they record what the threads of a program do, for `longpole record`.
//!
//! Add this to `Cargo.toml`, so that the macros are called as in the documentation:
//!
//! ```toml
//! [dependencies]
//! longpole = { package = "longpole-probe", version = "0.1" }
//! ```
//!
//! ```
//! use longpole_probe as longpole;
//!
//! fn find(key: u64) -> u64 {
//!     longpole::span!("find", key);
//!     longpole::counter!("open keys", 3);
//!     key
//! }
//! # find(5);
//! ```
//!
//! The probes write the same events into the same shared memory as the probes for C and C++.
//! `docs/guides/probes.md` lists all probes; `docs/formats/user-trace.md` describes the event that
//! each one records.
//!
//! While nothing is recorded, a probe costs one load and one branch. While its events are recorded,
//! it costs a read of the time-stamp counter and a few stores: no function call, lock, system call
//! or allocation. Probes work in signal handlers. There is no thread, no socket and no daemon. The
//! crate needs neither `std` nor an allocator, but the C library of Linux. With the feature
//! `disable`, and on systems other than Linux on x86-64 and arm64, every probe compiles to nothing.
//!
//! A *name* is one of the following. A string literal is the best choice, because it is resolved
//! once per call site. A handle ([`Name`], [`Queue`]) is made at run time or used in several
//! places. Any other `&str` or `String` is copied into each event.

#![no_std]

#[cfg(feature = "std")]
extern crate std;

mod as_name;
mod plain;
mod word;

pub use as_name::{AsName, Ref};
pub use plain::{Direction, MarkKind, Order, Unit};
pub use word::{Object, Word};

/// Declares modules that are absent where probes compile to nothing.
macro_rules! recording {
    ($($item:item)*) => {
        $(#[cfg(all(not(feature = "disable"), target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))] $item)*
    };
}

#[cfg(not(all(not(feature = "disable"), target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64"))))]
mod disabled;
#[cfg(all(
    feature = "tracing",
    not(all(not(feature = "disable"), target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))
))]
pub use disabled::tracing;
#[cfg(not(all(not(feature = "disable"), target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64"))))]
pub use disabled::{Enumeration, Field, Name, PointResult, Queue, Value};

recording! {
    mod event;
    mod handle;
    mod macros;
    mod name;
    mod process;
    mod ring;
    mod site;
    mod sync;
    mod system;
    mod value;

    #[cfg(feature = "std")]
    mod cycles;
    #[cfg(feature = "tracing")]
    pub mod tracing;

    pub use handle::{Name, Queue};
    #[cfg(feature = "std")]
    pub use cycles::points::PointResult;
    pub use value::{Enumeration, Field, Value};

    /// Internals for a model checker: the steps by which threads and processes hand over data.
    #[doc(hidden)]
    pub mod __model {
        pub use crate::site::{find, Table};
        pub use crate::sync::{has_room, make_visible, Shared};
    }

    /// Internals for the macros of this crate only.
    #[doc(hidden)]
    pub mod __private {
        pub use crate::event::{counter, counter_named, event, flow, label, link, log, log_formatted, logs, packet, Named};
        pub use crate::name::*;
        #[cfg(feature = "std")]
        pub use crate::cycles::points::{print as point_print, reset as point_reset, result as point_result, start as point_start, stop as point_stop};
        #[cfg(feature = "std")]
        pub use crate::cycles::tsc::{Here as TscHere, Scope as TscScope, Site as TscSite};
        pub use longpole_abi::kind::Category;
    }
}
