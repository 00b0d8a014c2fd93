//! A program that exercises the runtime directory, like `tests/programs/directory.c`, which
//! documents the usage.
use longpole_probe as longpole;
use std::ffi::{c_int, c_uint};
use std::io::Read;
use std::sync::atomic::{AtomicU64, Ordering::*};
use std::time::Duration;

extern "C" {
    fn fork() -> c_int;
    fn _exit(status: c_int) -> !;
    fn waitpid(pid: c_int, status: *mut c_int, options: c_int) -> c_int;
    fn setgroups(count: usize, groups: *const c_uint) -> c_int;
    fn setgid(group: c_uint) -> c_int;
    fn setuid(user: c_uint) -> c_int;
}

static MET: AtomicU64 = AtomicU64::new(0);

fn marks(count: u64, pause_us: u64) {
    for _ in 0..count {
        longpole::mark!("numbered", MET.fetch_add(1, Relaxed));
        if pause_us != 0 {
            std::thread::sleep(Duration::from_micros(pause_us));
        }
    }
}

fn threads(number: u64, count: u64) {
    for _ in 0..number {
        std::thread::spawn(move || marks(count, 0)).join().unwrap();
    }
}

fn become_another_user() {
    // SAFETY: the calls have no preconditions.
    unsafe { assert!(setgroups(0, std::ptr::null()) == 0 && setgid(4321) == 0 && setuid(4321) == 0) };
}

fn forks(count: u64, probe: bool) {
    for _ in 0..count {
        // SAFETY: there is only one thread; the child records an event and ends.
        unsafe {
            let child = fork();
            if child == 0 {
                marks(u64::from(probe), 0);
                _exit(0);
            }
            waitpid(child, std::ptr::null_mut(), 0);
        }
    }
}

fn later(count: u64) {
    // SAFETY: there is only one thread.
    unsafe {
        if fork() != 0 {
            _exit(0);
        }
    }
    while MET.load(Relaxed) < count {
        marks(1, 1000);
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |nth: usize| arguments[nth].parse::<u64>().expect("a number");
    match arguments[0].as_str() {
        "forks" => forks(number(1), arguments[2] == "probe"),
        "later" => later(number(1)),
        "churn" => {
            while MET.load(Relaxed) == 0 {
                marks(1, 1000);
            }
            std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
            threads(number(1), number(2));
        }
        "moved" => {
            std::env::set_current_dir("/").unwrap();
            marks(number(1), 0);
        }
        "user" => {
            become_another_user();
            marks(number(1), 500);
        }
        "late" => {
            marks(number(1), 0);
            become_another_user();
            threads(1, number(1));
        }
        "kept" => {
            marks(1, 0);
            become_another_user();
            for _ in 0..number(1) {
                marks(20_000, 0);
                std::thread::sleep(Duration::from_millis(20));
            }
        }
        _ => marks(number(1), 0),
    }
    println!("{}", MET.load(Relaxed));
}
