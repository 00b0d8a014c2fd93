//! Longpole's probes for Rust: what a program's threads do, for `longpole record`.
//!
//! In `Cargo.toml`, so that the macros are called as the documentation calls them:
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
//! A probe writes the same events into the same shared memory as those of C and C++ do; `docs/probes.md` has the vocabulary,
//! `docs/formats/user-trace.md` says what each one records. While nothing is recorded a probe is one load and one branch; while it is, the
//! time-stamp read and a few stores: no call, no lock, no system call, no allocation. Probes work in signal handlers. There is no thread, no
//! socket and no daemon; the crate needs neither `std` nor an allocator, but the C library of Linux. With the feature `disable`, and on
//! systems other than Linux on x86-64 and arm64, every probe is nothing.
//!
//! A *name* is a string literal (best: resolved once per call site), a handle ([`Name`], [`Queue`]: made at run time, or used at several
//! places), or any other `&str` or `String`, which travels with each event.

#![no_std]

#[cfg(feature = "std")]
extern crate std;

mod as_name;
mod plain;
mod word;

pub use as_name::{AsName, Ref};
pub use plain::{Direction, MarkKind, Order, Unit};
pub use word::{Object, Word};

/// Modules of which there is nothing where probes are nothing.
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
    mod macros;
    mod name;
    mod process;
    mod ring;
    mod site;
    mod sync;
    mod system;
    mod thread;
    mod value;

    #[cfg(feature = "std")]
    mod points;
    #[cfg(feature = "std")]
    mod say;
    #[cfg(feature = "tracing")]
    pub mod tracing;
    #[cfg(feature = "std")]
    mod tsc;

    pub use name::{Name, Queue};
    #[cfg(feature = "std")]
    pub use points::PointResult;
    pub use value::{Enumeration, Field, Value};

    /// How threads and processes hand something over, for a model checker.
    #[doc(hidden)]
    pub mod __model {
        pub use crate::site::{find, Table};
        pub use crate::sync::{has_room, make_visible, Shared};
    }

    /// For the macros alone.
    #[doc(hidden)]
    pub mod __private {
        pub use crate::event::{counter, counter_named, event, flow, label, link, log, log_formatted, logs, packet, Named};
        pub use crate::name::*;
        #[cfg(feature = "std")]
        pub use crate::points::{print as point_print, reset as point_reset, result as point_result, start as point_start, stop as point_stop};
        #[cfg(feature = "std")]
        pub use crate::tsc::{Here as TscHere, Scope as TscScope, Site as TscSite};
        pub use longpole_abi::kind::Category;
    }
}
