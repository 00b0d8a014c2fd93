//! `log_tsc!` and `trace_tsc!`: the cost of a scope in cycles of the time-stamp counter, printed to
//! stderr without a recorder, or written into the recording. The Rust counterpart of
//! `include/longpole/tsc.h`.
//!
//! Each thread has its own sums, so nothing is locked and no thread waits. A thread adds its sums
//! to those of the program when it prints (after `n` calls of its own) and when it ends. In
//! recursion every call is counted, and the time of the outermost call. The module needs `std`, for
//! thread-local storage.

use crate::event::{log, logs};
use crate::cycles::stderr_line;
use crate::system::{counter, Text};
use core::cell::Cell;
use core::marker::PhantomData;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicU64, Ordering::*};
use std::thread::LocalKey;

/// The sums of a scope over all threads.
pub struct Site {
    sum: AtomicU64,
    calls: AtomicU64,
}

impl Site {
    #[allow(clippy::new_without_default)]
    pub const fn new() -> Site {
        Site { sum: AtomicU64::new(0), calls: AtomicU64::new(0) }
    }
}

/// The sums of a scope in one thread that were not added to the program's sums yet.
pub struct Here {
    begin: Cell<u64>,
    sum: Cell<u64>,
    last: Cell<u64>,
    calls: Cell<u64>,
    depth: Cell<u64>,
    site: Cell<Option<&'static Site>>,
}

impl Here {
    #[allow(clippy::new_without_default)]
    pub const fn new() -> Here {
        Here { begin: Cell::new(0), sum: Cell::new(0), last: Cell::new(0), calls: Cell::new(0), depth: Cell::new(0), site: Cell::new(None) }
    }

    /// Adds the thread's sums to those of the program; returns the program's sum of cycles and
    /// number of calls.
    fn fold(&self, site: &Site) -> (u64, u64) {
        let (sum, calls) = (self.sum.take(), self.calls.take());
        (site.sum.fetch_add(sum, Relaxed).wrapping_add(sum), site.calls.fetch_add(calls, Relaxed).wrapping_add(calls))
    }
}

impl Drop for Here {
    fn drop(&mut self) {
        if let Some(site) = self.site.take() {
            self.fold(site);
        }
    }
}

/// Measures from its construction to the end of the scope.
pub struct Scope<'a> {
    /// `None` if the thread-local storage is already destroyed.
    here: Option<NonNull<Here>>,
    name: &'a str,
    every: u64,
    traced: bool,
    /// Makes the type neither `Send` nor `Sync`: a scope must end in the thread in which it began.
    thread: PhantomData<*const ()>,
}

impl<'a> Scope<'a> {
    #[inline(always)]
    pub fn new(key: &'static LocalKey<Here>, site: &'static Site, name: &'a str, every: u64, traced: bool) -> Scope<'a> {
        let here = key.try_with(|here| NonNull::from(here)).ok();
        if let Some(here) = here {
            // SAFETY: the storage lives as long as the thread, and the scope is on the stack of
            // that thread.
            let here = unsafe { here.as_ref() };
            here.site.set(Some(site));
            here.depth.set(here.depth.get() + 1);
            // The counter is read last at the start of a scope and first at its end, so that the
            // probe itself is not measured.
            if here.depth.get() == 1 {
                here.begin.set(counter());
            }
        }
        Scope { here, name, every, traced, thread: PhantomData }
    }

    #[cold]
    #[inline(never)]
    fn print(&self, here: &Here) {
        let Some(site) = here.site.get() else { return };
        let (sum, calls) = here.fold(site);
        let mut line = Text::<768>::of(&[b"["]);
        stderr_line::label(&mut line);
        line.push(b"] TSC ");
        let room = 640usize.saturating_sub(line.bytes().len());
        let name = self.name.as_bytes();
        line.push(&name[..name.len().min(room)]);
        line.push(b": ");
        stderr_line::cycles(&mut line, sum);
        line.push(b" (");
        line.push_number(calls, 10, 0);
        line.push(b" calls, last ");
        stderr_line::cycles(&mut line, here.last.get());
        line.push(b")");
        if !self.traced {
            line.push(b"\n");
            stderr_line::write(line.bytes());
        } else if logs() {
            log(&std::string::String::from_utf8_lossy(line.bytes()));
        }
    }
}

impl Drop for Scope<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        let now = counter();
        let Some(here) = self.here else { return };
        // SAFETY: see `new`.
        let here = unsafe { here.as_ref() };
        here.calls.set(here.calls.get() + 1);
        here.depth.set(here.depth.get() - 1);
        if here.depth.get() == 0 {
            here.last.set(now.wrapping_sub(here.begin.get()));
            here.sum.set(here.sum.get().wrapping_add(here.last.get()));
            if here.calls.get() >= self.every {
                self.print(here);
            }
        }
    }
}

#[doc(hidden)]
#[macro_export]
macro_rules! __tsc {
    ($traced:literal, $n:expr, $name:expr) => {
        let _longpole_tsc = {
            static __LONGPOLE_SITE: $crate::__private::TscSite = $crate::__private::TscSite::new();
            ::std::thread_local! {
                static __LONGPOLE_HERE: $crate::__private::TscHere = const { $crate::__private::TscHere::new() };
            }
            $crate::__private::TscScope::new(&__LONGPOLE_HERE, &__LONGPOLE_SITE, $name, $n as u64, $traced)
        };
    };
    ($traced:literal, $n:expr) => {
        $crate::__tsc!($traced, $n, {
            fn __longpole_here() -> &'static str {
                $crate::__private::path_of(__longpole_here)
            }
            $crate::__private::function_name(__longpole_here())
        });
    };
}

/// `log_tsc!(n [, name]);` measures the cost of the enclosing scope from this line to its end, in
/// cycles. Every `n` calls it prints a line to stderr, with or without a recorder: `[label] TSC
/// apply_config: 6396K (1 calls, last 6396K)`. The default for `name` is the name of the function.
#[macro_export]
macro_rules! log_tsc {
    ($n:expr $(, $name:expr)? $(,)?) => { $crate::__tsc!(false, $n $(, $name)?); };
}

/// Like [`log_tsc!`], but the line is written into the recording, as a text.
#[macro_export]
macro_rules! trace_tsc {
    ($n:expr $(, $name:expr)? $(,)?) => { $crate::__tsc!(true, $n $(, $name)?); };
}
