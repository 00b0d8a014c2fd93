//! Several test programs in one. Each numbers its events, so that every event missing from a
//! recording must have been counted as lost.
//!
//!     subject threads THREADS EVENTS      prints the number of events that met an enabled probe
//!     subject handlers SIGNALS            a thread that probes all the time, and signal handlers
//!                                         with probes; prints both counts
//!     subject churn THREADS PROCESSES EVENTS
//!     subject clones COUNT EVENTS         children of a raw clone, which no library notices;
//!                                         another thread records meanwhile; prints all counts
//!     subject endless FILE                runs until killed; FILE has the newest event's number
//!     subject quiet EVENTS                a loop between two writes, "begin" and "end", to stdout
//!     subject sites                       names made at run time, more than there are classes
use longpole_probe as longpole;
use longpole_probe::Name;
use std::ffi::{c_char, c_int, c_void};
use std::io::Write;
use std::sync::atomic::{AtomicU64, Ordering::*};

extern "C" {
    fn fork() -> c_int;
    fn _exit(status: c_int) -> !;
    fn syscall(number: std::ffi::c_long, ...) -> std::ffi::c_long;
    fn vfork() -> c_int;
    fn waitpid(pid: c_int, status: *mut c_int, options: c_int) -> c_int;
    fn execv(path: *const c_char, arguments: *const *const c_char) -> c_int;
    fn signal(number: c_int, handler: extern "C" fn(c_int)) -> *mut c_void;
    fn setitimer(which: c_int, new: *const [i64; 4], old: *mut [i64; 4]) -> c_int;
    fn mmap(place: *mut c_void, size: usize, protection: c_int, flags: c_int, file: c_int, offset: i64) -> *mut AtomicU64;
}

fn number(events: u64) -> u64 {
    let mut met = 0;
    for _ in 0..events {
        // An argument is evaluated only if the probe is enabled.
        longpole::mark!("numbered", {
            met += 1;
            met - 1
        });
    }
    met
}

fn threads(threads: u64, events: u64) {
    let all: Vec<_> = (0..threads).map(|_| std::thread::spawn(move || number(events))).collect();
    let met: u64 = all.into_iter().map(|thread| thread.join().expect("a thread")).sum();
    println!("{met}");
}

static DELIVERED: AtomicU64 = AtomicU64::new(0);

extern "C" fn handler(_: c_int) {
    let delivered = DELIVERED.load(Relaxed);
    longpole::mark!("handler", delivered);
    // Too long for the side area: the text is lost if it interrupts a probe, and must be counted.
    if delivered.is_multiple_of(10) {
        longpole::log!("a text that does not fit into an entry of the side area, however one turns it");
    }
    DELIVERED.store(delivered + 1, Relaxed);
}

fn handlers(wanted: u64) {
    let (every, never) = ([0, 100, 0, 100], [0i64; 4]);
    let mut main = 0u64;
    // SAFETY: the handler calls only async-signal-safe code; the structures have the layout of
    // struct itimerval.
    unsafe {
        signal(14, handler);
        setitimer(0, &raw const every, std::ptr::null_mut());
        while DELIVERED.load(Relaxed) < wanted {
            longpole::mark!("main", main);
            main += 1;
            // Slows the loop down, so that the recorder can read all events.
            (0..300).for_each(|nth| assert!(std::hint::black_box(nth) >= 0));
        }
        setitimer(0, &raw const never, std::ptr::null_mut());
    }
    println!("{main} {}", DELIVERED.load(Relaxed));
}

fn churn(threads: u64, processes: u64, events: u64) {
    for _ in 0..threads {
        std::thread::spawn(move || number(events)).join().expect("a thread");
    }
    for nth in 0..processes {
        // SAFETY: the child only does what is allowed after fork.
        unsafe {
            let child = fork();
            if child == 0 {
                number(events);
                if nth % 2 == 0 {
                    _exit(0);
                }
                let count = std::ffi::CString::new(events.to_string()).unwrap_or_default();
                let arguments = [c"subject".as_ptr(), c"image".as_ptr(), count.as_ptr(), std::ptr::null()];
                execv(c"/proc/self/exe".as_ptr(), arguments.as_ptr());
                _exit(1);
            }
            waitpid(child, std::ptr::null_mut(), 0);
        }
    }
}

#[inline(never)]
fn child_number(series: u64, events: u64) {
    for nth in 0..events {
        longpole::mark!("child", series << 32 | nth);
    }
}

fn clones(count: u64, events: u64) {
    static ENDED: AtomicU64 = AtomicU64::new(0);
    let other = std::thread::spawn(|| {
        let mut met = 0u64;
        while ENDED.load(Acquire) == 0 {
            met += number(50);
            std::thread::sleep(std::time::Duration::from_micros(20));
        }
        met
    });
    let clone = if cfg!(target_arch = "x86_64") { 56 } else { 220 };
    // The first hit of a call site takes another path, which the children must not take.
    child_number(count, 1);
    for nth in 0..count {
        // SAFETY: the child only does what is allowed after fork. Every other child shares the
        // memory of its parent, which waits.
        unsafe {
            let child = if nth % 2 == 0 { syscall(clone, 17u64, 0u64, 0u64, 0u64, 0u64) as c_int } else { vfork() };
            if child == 0 {
                child_number(nth, events);
                _exit(0);
            }
            child_number(count + 1 + nth, events);
            waitpid(child, std::ptr::null_mut(), 0);
        }
    }
    ENDED.store(1, Release);
    println!("{} {}", 2 * count * events + 1, other.join().expect("a thread"));
}

fn endless(path: &str) {
    use std::os::fd::AsRawFd;
    let file = std::fs::File::options().read(true).write(true).create(true).truncate(true).open(path).expect("a file");
    file.set_len(4096).expect("room");
    // SAFETY: the mapping is shared, zero-initialised, and never unmapped.
    let newest = unsafe { &*mmap(std::ptr::null_mut(), 4096, 3, 1, file.as_raw_fd(), 0) };
    for number in 0u64.. {
        longpole::mark!("numbered", number);
        newest.store(number + 1, Release);
        if number % 500 == 0 {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
    }
}

fn quiet(events: u64) {
    number(1);
    longpole::span!("outer");
    let say = |text: &[u8]| std::io::stdout().write_all(text).and_then(|()| std::io::stdout().flush());
    let _ = say(b"begin\n");
    let met = number(events);
    for i in 0..events {
        longpole::span!("inner", i);
        longpole::counter!("value", 0.5);
    }
    let _ = say(if met != 0 { b"end on\n" } else { b"end off\n" });
}

fn sites() {
    for nth in 0..70_000u64 {
        let name = Name::new(&format!("name {nth}"));
        longpole::rpc_call!(name, nth);
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let text = |nth: usize| arguments.get(nth).map_or("", String::as_str);
    let count = |nth: usize| text(nth).parse().unwrap_or(0u64);
    match text(1) {
        "threads" => threads(count(2), count(3)),
        "handlers" => handlers(count(2)),
        "churn" => churn(count(2), count(3), count(4)),
        "clones" => clones(count(2), count(3)),
        "endless" => endless(text(2)),
        "quiet" => quiet(count(2)),
        "sites" => sites(),
        "image" => {
            number(count(2));
        }
        other => panic!("no such program: {other}"),
    }
}
