//! Connects a process with the runtime directory: makes or finds the control file of the process
//! and maps it over the page. The child of a fork is connected as a process of its own.
//!
//! Nothing here is on a hot path. If a resource is not available, the process is not recorded.

use crate::process::{library, longpole_page, page, Process, SLOT_OF_MANY};
use crate::process::runtime_directory::{
    create, directory_path, open_directory, open_sites, open_writable, publish, read_session, store_bytes, sweep, ANY_USER,
};
use crate::system::{self, c_bytes, Blocked, File, Text};
use crate::process::thread_ring::{self, Ring};
use core::mem::{offset_of, size_of};
use core::ptr::{null_mut, NonNull};
use core::sync::atomic::{AtomicU32, Ordering::*};
use longpole_abi::{Orders, Session, CONTROL_SIZE, MAGIC, VERSION};

/// Number of turns of 50 µs for which a thread waits until another one has connected the process.
const TURNS: u32 = 1000;

/// Returns `true` if the current process is not the one that connected: it is the child of a fork,
/// or it changed its user id before it had a ring, so that it can no longer access the directory of
/// the first user.
fn is_new_process(process: &Process) -> bool {
    let user = library().user.load(Relaxed);
    !process.is_alive() || (user != ANY_USER && page().rings.load(Relaxed) == 0 && user != system::geteuid() as u32)
}

/// The process's table. If the process is a new one, it connects first.
pub fn own_process() -> Option<&'static Process> {
    if library().process().is_some_and(is_new_process) {
        connect_new_process();
    }
    library().process()
}

/// Connects a new process. Of all threads and handlers that notice it at the same time, one
/// connects the process.
#[cold]
fn connect_new_process() {
    let _signals = Blocked::new();
    let library = library();
    let mut turn = 0;
    while library.forking.swap(1, Acquire) != 0 && turn < TURNS {
        turn += 1;
        system::sleep_ns(50_000);
    }
    if library.process().is_some_and(is_new_process) {
        disconnect();
        library.process.store(connect(), Relaxed);
    }
    library.forking.store(0, Release);
}

/// The orders for processes that start now. If a recorder started this process by its command while
/// another recorder records all processes, the orders of the former are in a file of its own.
pub fn read_orders(directory: &File) -> Option<Session> {
    let scope = page().scope.load(Relaxed);
    let mut name = Text::of(&[b"session-c"]);
    name.push_number(scope, 10, 0);
    let own = if scope != 0 { read_session(directory, &name) } else { None };
    own.or_else(|| read_session(directory, &Text::of(&[b"session"])))
}

/// Sets the label of the process: the path of the component, `system -> part`.
pub fn set_label(text: &[u8]) {
    let control = page();
    if own_process().is_none() || control.magic.load(Relaxed) != MAGIC {
        return;
    }
    control.label_version.fetch_add(1, AcqRel);
    let label = &control.label[..control.label.len() - 1];
    let end = text.iter().take(label.len()).position(|byte| *byte == 0).unwrap_or(text.len().min(label.len()));
    for (nth, to) in label.iter().enumerate() {
        to.store(if nth < end { text[nth] } else { 0 }, Relaxed);
    }
    control.label_version.fetch_add(1, AcqRel);
}

/// Applies the orders for processes that start now, unless a recorder gave other orders in the
/// meantime.
fn apply_orders(own: &Orders, orders: &Orders) {
    let (mask, session) = (orders.mask.load(Relaxed), orders.session.load(Relaxed));
    // A recorder that has already written its orders here has precedence.
    if mask == 0 || own.session.load(Acquire) != 0 {
        return;
    }
    own.mode.store(orders.mode.load(Relaxed), Relaxed);
    own.ring_size.store(orders.ring_size.load(Relaxed), Relaxed);
    own.snaplen.store(orders.snaplen.load(Relaxed), Relaxed);
    own.clock.store(orders.clock.load(Relaxed), Relaxed);
    own.block_limit.store(orders.block_limit.load(Relaxed), Relaxed);
    if own.session.compare_exchange(0, session, AcqRel, Acquire).is_ok() {
        own.mask.store(mask, Release);
    }
}

/// Fills a new control file, which is mapped over the page, and gives it its name.
fn publish_control_file(directory: &File, path: &Text<208>, stem: &Text<32>, temporary: &Text<64>, name: &Text<64>) -> Option<()> {
    let control = page();
    let table = NonNull::new(system::map_private(size_of::<Process>()))?;
    system::wipe_on_fork(table.as_ptr(), size_of::<Process>());
    // SAFETY: the mapping is as large as the structure, zero-initialised, and known only here.
    let process = unsafe { table.cast::<Process>().as_ref() };
    process.alive.store(1, Relaxed);
    store_bytes(&process.directory, path.bytes());
    store_bytes(&process.stem, stem.bytes());
    process.sites.store(open_sites(directory), Relaxed);
    control.magic.store(MAGIC, Relaxed);
    control.version.store(VERSION, Relaxed);
    control.pid.store(system::getpid() as i32, Relaxed);
    control.birth.store(system::counter(), Relaxed);
    control.process.store(table.as_ptr() as u64, Relaxed);
    let mut executable = [0u8; 255];
    system::link_target(c"/proc/self/exe", &mut executable);
    store_bytes(&control.executable, &executable);
    // A short-lived process must state itself to which recording it belongs, because it may end
    // before the recorder can find out.
    if let Some(scope) = system::variable(c"LONGPOLE_SESSION") {
        let digits = scope.iter().take_while(|digit| digit.is_ascii_digit());
        let number = digits.fold(0u64, |number, digit| number.wrapping_mul(10).wrapping_add(u64::from(digit - b'0')));
        control.scope.store(number, Relaxed);
    }
    if let Some(label) = system::variable(c"LONGPOLE_LABEL") {
        store_bytes(&control.label[..control.label.len() - 1], label);
    }
    if process.sites.load(Relaxed).is_null() || publish(directory, temporary, name) < 0 {
        // SAFETY: the table was not published.
        unsafe { system::unmap(table.as_ptr(), size_of::<Process>()) };
        return None;
    }
    // The file has its name before the orders are read. So a recorder that publishes new orders and
    // then looks for control files misses no process.
    match read_orders(directory).filter(|session| session.orders.mask.load(Relaxed) != 0) {
        Some(session) => apply_orders(&control.orders, &session.orders),
        None => sweep(directory, stem),
    }
    Some(())
}

/// The common start of the names of this execution's files: `PID-TAG`.
fn own_stem() -> Text<32> {
    // The kernel gives every execution 16 random bytes. Their hash distinguishes executions and
    // does not reveal the bytes.
    // SAFETY: the kernel stored the bytes on the stack of the main thread, where they stay.
    let random = unsafe {
        let random = system::getauxval(25 /* AT_RANDOM */) as *const u8;
        if random.is_null() {
            &[]
        } else {
            core::slice::from_raw_parts(random, 16)
        }
    };
    // Processes in different pid namespaces may have the same number.
    let mut space = [0u8; 32];
    let size = system::link_target(c"/proc/self/ns/pid", &mut space);
    let bytes = random.iter().chain(&space[..size]);
    let mut hash = bytes.fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3));
    hash = (hash ^ (hash >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mut stem = Text::new();
    stem.push_number(system::getpid() as u64, 10, 0);
    stem.push(b"-");
    stem.push_number(hash >> 32, 16, 8);
    stem
}

fn take_slot(process: &Process) -> u32 {
    let mut taken = process.libraries.load(Relaxed);
    loop {
        let slot = !taken & taken.wrapping_add(1);
        if slot == 0 {
            return SLOT_OF_MANY;
        }
        match process.libraries.compare_exchange(taken, taken | slot, AcqRel, Relaxed) {
            Ok(_) => return slot,
            Err(now) => taken = now,
        }
    }
}

/// Takes the lock that keeps a recorder from replacing the site table. Recorders hold it only for
/// moments. Returns `false` if it could not be had for about a second; then the process runs
/// without being recorded.
fn lock_births(directory: &File) -> bool {
    (0..1000).any(|_| {
        let held = system::flock(directory.0, system::LOCK_SH | system::LOCK_NB) == -(system::EAGAIN as isize);
        if held {
            system::sleep_ns(1_000_000);
        }
        !held
    })
}

/// Connects this library with the process's control file, which the first library of a process
/// makes. Returns the process's table, or null if the process is not recorded.
pub fn connect() -> *mut Process {
    let Some((path, user)) = directory_path() else { return null_mut() };
    File::make_directory(&path);
    let Ok(directory) = open_directory(&path) else { return null_mut() };
    let stem = own_stem();
    let name = Text::<64>::of(&[stem.bytes(), b".control"]);
    if !lock_births(&directory) {
        return null_mut();
    }
    let mut connected = null_mut();
    // Two libraries of one child may connect at the same time: the second one uses the file of the
    // first.
    for _ in 0..2 {
        let (file, temporary) = match open_writable(&directory, &name) {
            Err(system::ENOENT) => match create(&directory, CONTROL_SIZE) {
                Ok((file, temporary)) => (file, Some(temporary)),
                Err(_) => break,
            },
            Err(_) => break,
            Ok(file) => (file, None),
        };
        match adopt(&directory, file, &path, &stem, temporary.as_ref(), &name) {
            Adopted::No => {}
            Adopted::Never => break,
            Adopted::Table(process) => {
                library().user.store(user, Relaxed);
                library().slot.store(take_slot(process), Relaxed);
                connected = (&raw const *process).cast_mut();
                break;
            }
        }
    }
    system::flock(directory.0, system::LOCK_UN);
    connected
}

/// Returns `true` if the table of a control file belongs to this process: a fork wipes every text
/// in it. The kernel checks first that the address can be read at all.
fn is_table(address: u64, stem: &Text<32>) -> bool {
    let address = address as usize;
    let stem_at = address.wrapping_add(offset_of!(Process, stem));
    if address == 0 || !address.is_multiple_of(8) || !system::is_readable(address) || !system::is_readable(stem_at.wrapping_add(24)) {
        return false;
    }
    // SAFETY: the kernel reported that the table is readable up to the end of its stem.
    let (alive, found) = unsafe { ((*(address as *const AtomicU32)).load(Relaxed), c_bytes(stem_at as *const u8, 31)) };
    alive != 0 && found == stem.bytes()
}

enum Adopted {
    Table(&'static Process),
    /// The caller should try once more.
    No,
    Never,
}

/// Maps the control file over the page; unmaps it again if it is not a valid control file.
fn adopt(directory: &File, file: File, path: &Text<208>, stem: &Text<32>, temporary: Option<&Text<64>>, name: &Text<64>) -> Adopted {
    let place = (&raw const longpole_page).cast::<u8>().cast_mut();
    // SAFETY: the page belongs to this library only, is aligned, and has this size.
    let mapped = unsafe { file.map_over(place, CONTROL_SIZE) };
    drop(file);
    if mapped.is_null() {
        return Adopted::Never;
    }
    let made = temporary.is_none_or(|temporary| {
        let published = publish_control_file(directory, path, stem, temporary, name);
        if published.is_none() {
            directory.unlink(temporary);
        }
        published.is_some()
    });
    let control = page();
    let known = control.magic.load(Relaxed) == MAGIC && control.version.load(Relaxed) == VERSION;
    let process = control.process.load(Relaxed);
    if made && known && is_table(process, stem) {
        // SAFETY: it is the table of this process, which is never unmapped.
        return Adopted::Table(unsafe { &*(process as *const Process) });
    }
    // SAFETY: as above.
    unsafe { system::map_private_over(place, CONTROL_SIZE) };
    if made && known {
        // The file was left by an earlier process with the same number that ended without removing
        // it.
        directory.unlink(name);
    }
    if !made || known {
        Adopted::No
    } else {
        Adopted::Never
    }
}

/// Detaches the child of a fork from everything that belongs to its parent.
fn disconnect() -> bool {
    let ring = thread_ring::current();
    // SAFETY: the page belongs to this library only, is aligned, and has this size.
    let done = unsafe { system::map_private_over((&raw const longpole_page).cast::<u8>().cast_mut(), CONTROL_SIZE) };
    thread_ring::set(Ring::none());
    if ring != Ring::none() {
        thread_ring::disown(ring);
    }
    done
}

/// Runs in the child of a fork, which is recorded as a process of its own. If nothing is recorded,
/// the child connects only at its first probe; to get there, all categories are enabled until then.
/// Most children end by exec or _exit without any probe, and would otherwise leave a control file
/// behind.
pub extern "C" fn forked() {
    let later = library().process().is_some() && page().orders.mask.load(Relaxed) == 0;
    let done = disconnect();
    if !later {
        library().process.store(connect(), Relaxed);
    } else if done {
        page().orders.mask.store(u32::MAX, Relaxed);
    }
}

