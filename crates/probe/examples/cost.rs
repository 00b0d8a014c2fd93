//! What a probe of Rust costs beside one of C and beside the least that any tracer does, in turns, on one thread; and what is said by `tracing`
//! and recorded by the layer.
//!
//!     cost ROUNDS TURNS [LIBRARY]
//!
//! LIBRARY is `cost.c` of this folder, compiled with `-O2 -shared -fPIC -I include`: its loops take part. The program records itself: it
//! writes its own orders into the control file, which is not what a program should do, and takes everything out of its ring between two
//! batches. Prints medians in ns of CPU time a turn.
use longpole_abi::{Control, Ring};
use longpole_probe as longpole;
use std::ffi::{c_char, c_int, c_void, CString};
use std::sync::atomic::Ordering::{Relaxed, Release};
use tracing_subscriber::prelude::*;

static QUEUE: longpole::Queue = longpole::Queue::new("cost queue", 1024);

extern "C" {
    fn dlopen(path: *const c_char, flags: c_int) -> *mut c_void;
    fn mmap(place: *mut c_void, size: usize, protection: c_int, flags: c_int, file: c_int, offset: i64) -> *mut u64;
    fn clock_gettime(clock: c_int, time: *mut [i64; 2]) -> c_int;
    fn dlsym(library: *mut c_void, name: *const c_char) -> *mut c_void;
}

/// CPU time of the thread in ns.
fn now() -> i64 {
    let mut time = [0; 2];
    // SAFETY: the structure is that of struct timespec.
    unsafe { clock_gettime(3, &raw mut time) };
    time[0] * 1_000_000_000 + time[1]
}

type Loop = extern "C" fn(u64);

/// Loops of a body that the compiler cannot take apart.
macro_rules! loops {
    ($($name:ident($i:ident) $body:block)*) => { $(
        #[inline(never)]
        extern "C" fn $name(turns: u64) {
            for $i in 0..turns {
                $body
                // SAFETY: no instruction.
                unsafe { std::arch::asm!("/* {0} */", in(reg) $i, options(nostack, preserves_flags)) };
            }
        }
    )* };
}

loops! {
    empty(i) {}
    mark(i) { longpole::mark!("mark", i); }
    span_edge(i) { longpole::begin!("edge"); }
    span(i) { longpole::span!("span"); }
    queue_put(i) { longpole::queue_put!(QUEUE, i); }
    traced_span(i) { let _entered = tracing::info_span!("traced").entered(); }
    traced_event(i) { tracing::info!(number = i, "traced"); }
}

#[cfg(target_arch = "x86_64")]
fn counter() -> u64 {
    // SAFETY: every x86-64 has the instruction.
    unsafe { std::arch::x86_64::_rdtsc() }
}
#[cfg(target_arch = "aarch64")]
fn counter() -> u64 {
    let value: u64;
    // SAFETY: Linux lets programs read the counter.
    unsafe { std::arch::asm!("mrs {}, cntvct_el0", out(reg) value) };
    value
}

/// The least that a tracer does for an event: the time, and 32 bytes stored.
#[inline(never)]
fn least(turns: u64, words: *mut u64, count: usize) {
    let mask = count - 1;
    let mut at = 0;
    for i in 0..turns {
        // SAFETY: so many words are there, a power of two, and a multiple of 4.
        unsafe {
            let place = words.add(at & mask);
            place.write(counter());
            place.add(1).write(i);
            place.add(2).write(i);
            place.add(3).write(i);
            std::arch::asm!("/* {0} */", in(reg) i, options(nostack, preserves_flags));
        }
        at += 4;
    }
}

fn control() -> &'static Control {
    let map = std::fs::read_to_string("/proc/self/maps").expect("/proc");
    let line = map.lines().find(|line| line.ends_with(".control")).expect("the probes found their runtime directory");
    let address = usize::from_str_radix(line.split('-').next().unwrap_or(""), 16).expect("an address");
    // SAFETY: the mapping is that of a control file, and stays.
    unsafe { &*(address as *const Control) }
}

fn ring() -> Option<&'static Ring> {
    let map = std::fs::read_to_string("/proc/self/maps").ok()?;
    let line = map.lines().find(|line| line.ends_with(".ring"))?;
    let address = usize::from_str_radix(line.split('-').next()?, 16).ok()?;
    // SAFETY: the mapping is that of a ring, and stays.
    Some(unsafe { &*(address as *const Ring) })
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let number = |nth: usize, otherwise: u64| arguments.get(nth).and_then(|text| text.parse().ok()).unwrap_or(otherwise);
    let (rounds, turns) = (number(1, 101) as usize, number(2, 20_000));
    let mut loops: Vec<(String, Loop)> = vec![
        ("empty".into(), empty),
        ("mark".into(), mark),
        ("span edge".into(), span_edge),
        ("span".into(), span),
        ("queue put".into(), queue_put),
        ("span of tracing".into(), traced_span),
        ("event of tracing".into(), traced_event),
    ];
    if let Some(path) = arguments.get(3) {
        let path = CString::new(path.as_str()).expect("a path");
        // SAFETY: the library's functions are those of cost.c.
        unsafe {
            let library = dlopen(path.as_ptr(), 2);
            assert!(!library.is_null(), "{path:?} cannot be loaded");
            for (name, symbol) in
                [("mark in C", c"mark"), ("span edge in C", c"span_edge"), ("span in C", c"span"), ("queue put in C", c"queue_put")]
            {
                loops.push((name.into(), std::mem::transmute::<*mut c_void, Loop>(dlsym(library, symbol.as_ptr()))));
            }
        }
    }
    tracing_subscriber::registry().with(longpole::tracing::layer()).init();
    let orders = &control().orders;
    orders.ring_size.store(4 << 20, Relaxed);
    orders.session.store(1, Relaxed);
    // Memory as a ring's: shared, and there.
    let size = 4 << 20;
    // SAFETY: the kernel chooses the place.
    let words = unsafe { mmap(std::ptr::null_mut(), size, 3, 0x8021, -1, 0) };
    assert!(words as isize != -1, "no memory");
    for state in ["on", "off"] {
        orders.mask.store(if state == "on" { 0x7ff } else { 0 }, Release);
        mark(1);
        let drain = || ring().map(|ring| ring.tail.store(ring.head.load(Relaxed), Release));
        let ring = ring();
        let mut times = vec![Vec::new(); loops.len() + 1];
        for round in 0..rounds {
            for nth in 0..times.len() {
                let nth = (nth + round) % times.len();
                if let Some(ring) = ring {
                    ring.tail.store(ring.head.load(Relaxed), Release);
                }
                let begin = now();
                match loops.get(nth) {
                    Some((_, body)) => body(turns),
                    None => least(turns, words, size / 8),
                }
                times[nth].push((now() - begin) as f64 / turns as f64);
            }
        }
        drain();
        let names = loops.iter().map(|(name, _)| name.as_str()).chain(["counter and 32 bytes"]);
        for (name, times) in names.zip(&mut times) {
            times.sort_by(f64::total_cmp);
            println!("{state:4} {name:22} {:6.2} ns (least {:.2})", times[times.len() / 2], times[0]);
        }
    }
}
