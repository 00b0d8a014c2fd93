//! Uses the cycle counters that need no recorder, like `tests/programs/tsc.c` and
//! `tests/programs/points.c` for C. Prints its own measurements to stdout for comparison.
use longpole_probe as longpole;

fn now() -> u64 {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every x86-64 CPU has this instruction.
    unsafe {
        core::arch::x86_64::_rdtsc()
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: Linux allows programs to read the counter.
    unsafe {
        let value: u64;
        core::arch::asm!("mrs {}, cntvct_el0", out(reg) value);
        value
    }
}

fn spin(cycles: u64) {
    let begin = now();
    while now() - begin < cycles {}
}

fn calls(cycles: u64) {
    longpole::log_tsc!(3);
    spin(cycles);
}

fn fibonacci(n: u32) -> u32 {
    longpole::log_tsc!(21891, "fib");
    if n < 2 {
        n
    } else {
        fibonacci(n - 1) + fibonacci(n - 2)
    }
}

fn shared() {
    longpole::log_tsc!(10000);
}

fn threads() {
    // `std::thread::scope` does not wait for the destructors of its threads, so it is not used
    // here.
    let threads = [(); 4].map(|()| std::thread::spawn(|| (0..25000).for_each(|_| shared())));
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}

fn traced() {
    longpole::trace_tsc!(2);
    // A second one in the same scope.
    longpole::trace_tsc!(1000);
}

fn traced_name() {
    longpole::trace_tsc!(2, "a name");
}

fn names() {
    let name = "x".repeat(1000);
    for _ in 0..2 {
        longpole::log_tsc!(1, &name);
    }
    longpole::log_tsc!(0, "");
}

fn points() {
    for i in 0..2000 {
        // Nested and interleaved.
        longpole::trace_point_start!(0);
        longpole::trace_point_start!(1);
        spin(2000);
        longpole::trace_point_start!(2);
        longpole::trace_point_stop!(1);
        spin(if i % 2 == 1 { 1000 } else { 5000 });
        longpole::trace_point_stop!(2);
        longpole::trace_point_stop!(0);
        // Only the second of two code paths is measured.
        longpole::trace_point_start!(3);
        if i % 4 == 3 {
            longpole::trace_point_stop!(3);
        }
        longpole::trace_point_stop!(4);
    }
    // The earlier start is discarded.
    longpole::trace_point_start!(7);
    spin(1_000_000);
    longpole::trace_point_start!(7);
    longpole::trace_point_stop!(7);
    longpole::trace_point_stop!(7);
    longpole::trace_point_start!(1_000_064);
    longpole::trace_point_stop!(1_000_064);
    for _ in 0..2 {
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    for _ in 0..1000 {
                        longpole::trace_point_start!(5);
                        longpole::trace_point_stop!(5);
                    }
                    longpole::trace_point_start!(6);
                });
            }
        });
    }
    for number in 0..64 {
        if let Some(it) = longpole::trace_point_result!(number) {
            let (minimum, maximum) = (it.minimum, it.maximum);
            println!(
                "{number} {} {minimum} {maximum} {:.3} {:.3} {:.3} {:.1} {:.1}",
                it.samples, it.mean, it.sigma, it.sigma_percent, it.cost, it.cost_around
            );
        }
    }
}

fn main() {
    let begin = now();
    match std::env::args().nth(1).as_deref() {
        Some("calls") => (0..10).for_each(|i| calls(if i == 8 { 30_000_000 } else { 20_000 })),
        Some("recursion") => {
            fibonacci(20);
        }
        Some("threads") => {
            threads();
            // The threads have added their sums when they ended.
            (0..10000).for_each(|_| shared());
        }
        Some("trace") => {
            for _ in 0..4 {
                traced();
                traced_name();
            }
        }
        Some("points") => {
            points();
            return longpole::trace_point_reset!();
        }
        Some("rest") => return points(),
        Some("unasked") => {
            longpole::trace_point_start!(4);
            return longpole::trace_point_stop!(4);
        }
        _ => names(),
    }
    println!("{}", now() - begin);
}
