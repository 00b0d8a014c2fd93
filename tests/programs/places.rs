//! The places of `places.c` in Rust.
//!
//! usage: places SECONDS

use std::hint::black_box;
use std::thread::sleep;
use std::time::{Duration, Instant};

#[inline(never)]
fn computes(time: Duration) {
    let mut values = vec![1u64; 10000];
    let begin = Instant::now();
    while begin.elapsed() < time {
        for value in black_box(&mut values) {
            *value = value.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        }
    }
}

#[inline(never)]
fn waits_long() {
    sleep(Duration::from_millis(6));
    black_box(());
}

#[inline(never)]
fn waits_short() {
    sleep(Duration::from_micros(150));
    black_box(());
}

fn main() {
    let seconds: f64 = std::env::args().nth(1).and_then(|text| text.parse().ok()).expect("usage: places SECONDS");
    let mut times = [Duration::ZERO; 3];
    let begin = Instant::now();
    while begin.elapsed().as_secs_f64() < seconds {
        let from = Instant::now();
        computes(Duration::from_millis(3));
        let computed = Instant::now();
        waits_long();
        let waited = Instant::now();
        for _ in 0..8 {
            waits_short();
        }
        times[0] += computed - from;
        times[1] += waited - computed;
        times[2] += waited.elapsed();
    }
    for (name, time) in ["computes", "waits_long", "waits_short"].iter().zip(times) {
        println!("{name} {}", time.as_nanos());
    }
}
