//! The process's side of the runtime directory: the control file, whose first page is mapped over a page of .bss so that "is anything
//! recorded?" is one load, and the table by which the libraries of a process share their rings.
//!
//! The same as `include/longpole/process.h`, to the letter: page, library and thread pointer are the same COMDAT symbols, so that Rust
//! and C within one library are one library, and those of different libraries meet in the process's table. Nothing here runs on a hot
//! path, and nothing here may fail the program: where something cannot be had, the process is simply not recorded.

use crate::system::{self, c_bytes, Blocked, File, Text};
use crate::thread::{self, Ring};
use core::arch::{asm, global_asm};
use core::ffi::{c_uint, c_void};
use core::mem::{offset_of, size_of, MaybeUninit};
use core::ptr::{null_mut, NonNull};
use core::sync::atomic::{AtomicI32, AtomicPtr, AtomicU32, AtomicU64, AtomicU8, Ordering::*};
use longpole_abi::{Control, Orders, Session, Sites, CONTROL_SIZE, MAGIC, SITE_ARENA_MAXIMUM, SITE_ARENA_STEP, VERSION};

// One object of each per library, however many crates and languages it is made of: COMDAT sections, hidden, aligned to the largest page
// size of the architecture. Stable Rust has neither COMDAT data nor a thread-local variable of one load, so they are written in assembly.
// `.ifndef` is for link-time optimisation, which puts several files into one. The constructor stands beside them: whoever has the page
// has it, too.
macro_rules! objects {
    ($page:literal, $directive:literal) => {
        global_asm!(
            ".ifndef longpole_page",
            ".pushsection .bss.longpole_page,\"awG\",@nobits,longpole_page,comdat",
            ".weak longpole_page",
            ".hidden longpole_page",
            ".type longpole_page,@object",
            concat!(".size longpole_page,", $page),
            concat!(".balign ", $page),
            "longpole_page:",
            concat!(".zero ", $page),
            ".popsection",
            ".endif",
            ".ifndef longpole_library",
            ".pushsection .bss.longpole_library,\"awG\",@nobits,longpole_library,comdat",
            ".weak longpole_library",
            ".hidden longpole_library",
            ".type longpole_library,@object",
            ".size longpole_library,64",
            ".balign 64",
            "longpole_library:",
            ".zero 64",
            ".popsection",
            ".endif",
            ".ifndef longpole_thread",
            ".pushsection .tdata.longpole_thread,\"awTG\",@progbits,longpole_thread,comdat",
            ".weak longpole_thread",
            ".hidden longpole_thread",
            ".type longpole_thread,@tls_object",
            ".size longpole_thread,8",
            ".balign 8",
            "longpole_thread:",
            concat!($directive, " longpole_library+64"),
            ".popsection",
            ".endif",
            ".pushsection .init_array.00101,\"aw\",@init_array",
            ".balign 8",
            concat!($directive, " {construct}"),
            ".popsection",
            ".pushsection .fini_array.00101,\"aw\",@fini_array",
            ".balign 8",
            concat!($directive, " {destruct}"),
            ".popsection",
            construct = sym construct,
            destruct = sym destruct,
        );
    };
}
#[cfg(target_arch = "x86_64")]
objects!("4096", ".quad");
#[cfg(target_arch = "aarch64")]
objects!("65536", ".xword");

extern "C" {
    static longpole_page: Control;
    static longpole_library: Library;
}

/// A thread's ring as this process sees it, shared by the process's libraries.
#[repr(C)]
pub struct Entry {
    pub ring: AtomicPtr<longpole_abi::Ring>,
    /// 0: its thread has ended, another may take it.
    pub tid: AtomicI32,
    /// Libraries of that thread that use it, a bit each.
    pub users: AtomicU32,
}

pub const ENTRIES: usize = 65536;

/// Private memory of the process, wiped by fork: a child sees alive == 0, also one that a raw clone made.
#[repr(C)]
pub struct Process {
    pub alive: AtomicU32,
    pub lock: AtomicU32,
    pub entries: AtomicU32,
    /// Those that are connected, a bit each.
    pub libraries: AtomicU32,
    /// Counter at which a ring may be tried again after memory ran out.
    pub retry: AtomicU64,
    pub sites: AtomicPtr<Sites>,
    directory: [AtomicU8; 208],
    stem: [AtomicU8; 32],
    pub entry: [Entry; ENTRIES],
}

/// Per library.
#[repr(C)]
pub struct Library {
    process: AtomicPtr<Process>,
    /// 0 untouched, 1 being set up, 2 set up (also when that failed), 3 unloaded.
    state: AtomicU32,
    /// Of the destructor at thread exit, plus one.
    pub key: AtomicU32,
    atfork: u32,
    /// A thread is finding out that this is the child of a fork.
    forking: AtomicU32,
    /// Its bit among the libraries of the process.
    pub slot: AtomicU32,
    /// As whom it connected with a directory of that user's own; else `ANY_USER`.
    user: AtomicU32,
    spare: [u32; 6],
    /// Always 0: the gate of no ring, see `Ring::none`.
    closed: AtomicU64,
}

// As in C: libraries of both languages share these.
const _: () = assert!(size_of::<Library>() == 64 && offset_of!(Library, forking) == 20 && offset_of!(Library, user) == 28 && size_of::<Entry>() == 16);
const _: () = assert!(offset_of!(Process, directory) == 32 && offset_of!(Process, stem) == 240 && offset_of!(Process, entry) == 272);

/// The control file's page; of zeros where there is none.
pub fn page() -> &'static Control {
    // SAFETY: the page is as large as the structure, lives as long as the library, and is written by atomic stores.
    unsafe { &*(&raw const longpole_page) }
}

pub fn library() -> &'static Library {
    // SAFETY: as of the page.
    unsafe { &*(&raw const longpole_library) }
}

/// The enable word, in one load: by its name, as an external static would be looked up first.
#[inline(always)]
pub fn mask() -> u32 {
    let mask: u32;
    #[cfg(target_arch = "x86_64")]
    // SAFETY: reads a word of the page, which others change by atomic stores.
    unsafe {
        asm!("mov {0:e}, dword ptr [rip + {1}]", lateout(reg) mask, sym longpole_page, options(nostack, readonly, preserves_flags));
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: as above.
    unsafe {
        asm!("adrp {0:x}, {1}", "ldr {0:w}, [{0:x}, :lo12:{1}]", lateout(reg) mask, sym longpole_page,
             options(nostack, readonly, preserves_flags));
    }
    mask
}

impl Library {
    /// What this library may take back.
    pub fn own_slot(&self) -> u32 {
        self.slot.load(Relaxed) & !SLOT_OF_MANY
    }

    /// The table of this process; that of a parent is none.
    pub fn process(&self) -> Option<&'static Process> {
        // SAFETY: the table is never unmapped once it is known here; what fork left of it reads as zeros.
        unsafe { self.process.load(Relaxed).as_ref() }
    }
}

const ANY_USER: u32 = u32::MAX;

/// Whether this is another process than the one that connected: the child of a fork; or one that became another user's before it had a ring, which
/// has no way to the directory of the first one.
fn is_another(process: &Process) -> bool {
    let user = library().user.load(Relaxed);
    !process.is_alive() || (user != ANY_USER && page().rings.load(Relaxed) == 0 && user != system::geteuid() as u32)
}

/// The process's table. Who is another process by now connects anew.
pub fn own_process() -> Option<&'static Process> {
    if library().process().is_some_and(is_another) {
        begin_anew();
    }
    library().process()
}

/// Of the threads of a child, or of who became another user's, and of their handlers, one connects the process anew.
#[cold]
fn begin_anew() {
    let _signals = Blocked::new();
    let library = library();
    let mut turn = 0;
    while library.forking.swap(1, Acquire) != 0 && turn < thread::LOCK_TURNS {
        turn += 1;
        system::sleep_ns(50_000);
    }
    if library.process().is_some_and(is_another) {
        disconnect();
        library.process.store(connect(), Relaxed);
    }
    library.forking.store(0, Release);
}

impl Process {
    pub fn is_alive(&self) -> bool {
        self.alive.load(Relaxed) != 0
    }

    pub fn directory(&self) -> Text<208> {
        // SAFETY: the text ends with NUL, and is not changed once the table is known.
        Text::of(&[unsafe { c_bytes(self.directory.as_ptr().cast(), 207) }])
    }

    pub fn stem(&self) -> Text<32> {
        // SAFETY: as above.
        Text::of(&[unsafe { c_bytes(self.stem.as_ptr().cast(), 31) }])
    }
}

/// Stores bytes into shared memory.
pub fn store_bytes(to: &[AtomicU8], from: &[u8]) {
    for (to, from) in to.iter().zip(from) {
        to.store(*from, Relaxed);
    }
}

/// Opens a file of the runtime directory for writing. Its mode forbids that, except for the instant of opening.
pub fn open_writable<const N: usize>(directory: &File, name: &Text<N>) -> Result<File, isize> {
    for _ in 0..100 {
        let readable = File::open_read(directory, name)?;
        match readable.stat() {
            Some(stat) if stat.mode & 0o170_000 == 0o100_000 && stat.user == system::geteuid() as u32 => {}
            _ => return Err(-1),
        }
        system::fchmod(readable.0, 0o600);
        let writable = File::open_write(directory, name);
        system::fchmod(readable.0, 0o400);
        // Somebody else's instant of opening may have ended between our two calls.
        if !matches!(writable, Err(system::EACCES)) {
            return writable;
        }
    }
    Err(system::EACCES)
}

/// Makes a file that is complete before it has its name: `publish` gives it that. The temporary name tells threads apart; a leftover of
/// a killed process is removed by the recorder.
pub fn create(directory: &File, size: usize) -> Result<(File, Text<64>), isize> {
    let mut temporary = Text::of(&[b".new-"]);
    temporary.push_number(system::gettid() as u64, 10, 0);
    temporary.push(b"-");
    temporary.push_number(system::counter(), 16, 0);
    let file = File::make(directory, &temporary)?;
    // Memory is taken now: a later store must not find the file system full.
    let result = system::fallocate(file.0, 0, 0, size);
    if result < 0 {
        directory.unlink(&temporary);
        return Err(result);
    }
    Ok((file, temporary))
}

pub fn publish<const N: usize>(directory: &File, temporary: &Text<64>, name: &Text<N>) -> isize {
    let result = directory.link(temporary, name);
    directory.unlink(temporary);
    result
}

/// Opens a runtime directory that is ours alone; else -errno.
pub fn open_directory(path: &Text<208>) -> Result<File, isize> {
    let directory = File::directory(path)?;
    let ours = |stat: system::Stat| stat.user == system::geteuid() as u32 && stat.mode & 0o77 == 0;
    if directory.stat().is_some_and(ours) {
        Ok(directory)
    } else {
        Err(system::EACCES)
    }
}

/// A path that does not begin at the root is one from where the library began: the program may change its directory.
static FIRST: [AtomicU8; 208] = [const { AtomicU8::new(0) }; 208];

/// Where the runtime directory is, and whose number stands in its path. `None`: at a path that is too long.
fn directory_path() -> Option<(Text<208>, u32)> {
    let mut path = Text::<208>::new();
    let wanted = system::variable(c"LONGPOLE_RUNTIME_DIR").filter(|wanted| !wanted.is_empty());
    let Some(wanted) = wanted else {
        let user = system::geteuid() as u32;
        path.push(b"/dev/shm/longpole-");
        path.push_number(u64::from(user), 10, 0);
        return Some((path, user));
    };
    if wanted[0] != b'/' {
        if FIRST[0].load(Relaxed) != b'/' {
            let mut first = [0u8; 208];
            system::current_directory(&mut first);
            store_bytes(&FIRST, &first);
        }
        // SAFETY: the kernel's answer ends with NUL, as does what nobody wrote.
        path.push(unsafe { c_bytes(FIRST.as_ptr().cast(), 207) });
        path.push(b"/");
    }
    let whole = path.bytes().len() + wanted.len() < 208;
    path.push(wanted);
    (whole && path.bytes()[0] == b'/').then_some((path, ANY_USER))
}

/// Whether a name is that of the control file of a process of this execution that has ended, and never had a ring.
fn is_left(directory: &File, name: &Text<64>, tail: &[u8]) -> bool {
    let Some(digits) = name.bytes().strip_suffix(tail).filter(|digits| (1..=9).contains(&digits.len())) else { return false };
    if !digits.iter().all(u8::is_ascii_digit) {
        return false;
    }
    let pid = digits.iter().fold(0, |pid, digit| pid * 10 + usize::from(digit - b'0'));
    if pid == 0 || system::kill(pid, 0) != system::ESRCH {
        return false;
    }
    let mut rings = [0u8; 4];
    let read = File::open_read(directory, name).map(|file| system::read_at(&file, &mut rings, offset_of!(Control, rings)));
    read == Ok(4) && rings == [0; 4]
}

/// Children that end by exec, _exit or a signal leave their control files. While nobody records, one in so many of their siblings clears them away.
fn sweep(directory: &File, stem: &Text<32>) {
    if (system::getpid() as u32).wrapping_mul(0x9e37_79b1) >> 27 != 0 {
        return;
    }
    let tag = stem.bytes().iter().position(|byte| *byte == b'-').unwrap_or(0);
    let tail = Text::<32>::of(&[&stem.bytes()[tag..], b".control"]);
    system::names(directory, |name| {
        let name = Text::<64>::of(&[name]);
        if is_left(directory, &name, tail.bytes()) {
            directory.unlink(&name);
        }
    });
}

/// Maps the site table, making it if need be.
fn open_sites(directory: &File) -> *mut Sites {
    let whole = size_of::<Sites>() + SITE_ARENA_MAXIMUM as usize;
    let least = size_of::<Sites>() + SITE_ARENA_STEP as usize;
    let name: Text<16> = Text::of(&[b"sites"]);
    let mut file = open_writable(directory, &name);
    if matches!(file, Err(system::ENOENT)) {
        let Ok((made, temporary)) = create(directory, least) else { return null_mut() };
        let sites: *mut Sites = made.map(whole, false).cast();
        // SAFETY: the mapping is as large as the structure, and nobody else knows the file.
        if let Some(sites) = unsafe { sites.as_ref() } {
            sites.magic.store(MAGIC, Relaxed);
            sites.version.store(VERSION, Relaxed);
            sites.arena_next.store(8, Relaxed); // offset 0 means a free slot
            sites.arena_size.store(SITE_ARENA_STEP, Relaxed);
        }
        if publish(directory, &temporary, &name) == 0 || sites.is_null() {
            return sites;
        }
        // SAFETY: nobody else knows the mapping.
        unsafe { system::unmap(sites.cast(), whole) };
        file = open_writable(directory, &name);
    }
    let Ok(file) = file else { return null_mut() };
    if file.stat().is_none_or(|stat| stat.size < least as u64) {
        return null_mut();
    }
    let sites: *mut Sites = file.map(whole, false).cast();
    // SAFETY: the file is at least as large as the structure.
    match unsafe { sites.as_ref() } {
        Some(known) if known.magic.load(Relaxed) == MAGIC && known.version.load(Relaxed) == VERSION => sites,
        Some(_) => {
            // SAFETY: nobody else knows the mapping.
            unsafe { system::unmap(sites.cast(), whole) };
            null_mut()
        }
        None => null_mut(),
    }
}

/// What a recorder wants of processes that are born now. One that started this process by its command, beside a recorder of whoever comes, has a file of
/// its own for them.
pub fn read_orders(directory: &File) -> Option<Session> {
    let scope = page().scope.load(Relaxed);
    let mut name = Text::of(&[b"session-c"]);
    name.push_number(scope, 10, 0);
    let own = if scope != 0 { read_session(directory, &name) } else { None };
    own.or_else(|| read_session(directory, &Text::of(&[b"session"])))
}

/// `None`: no living recorder holds the lock on the file.
fn read_session(directory: &File, name: &Text<32>) -> Option<Session> {
    let file = File::open_read(directory, name).ok()?;
    let mut session = MaybeUninit::<Session>::zeroed();
    // SAFETY: as many bytes as the structure has; every pattern of bits is one.
    let session = unsafe {
        let bytes = core::slice::from_raw_parts_mut(session.as_mut_ptr().cast::<u8>(), size_of::<Session>());
        if system::read_at(&file, bytes, 0) != size_of::<Session>() as isize {
            return None;
        }
        session.assume_init()
    };
    let known = session.magic.load(Relaxed) == MAGIC && session.version.load(Relaxed) == VERSION;
    (known && system::is_locked(&file)).then_some(session)
}

/// Sets the subject's label: the component's path, `system -> part`.
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

/// Obeys the orders for processes that are born now, if nobody gave others meanwhile.
fn obey(own: &Orders, orders: &Orders) {
    let (mask, session) = (orders.mask.load(Relaxed), orders.session.load(Relaxed));
    // A recorder that already wrote its orders here has the newer word.
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
fn introduce(directory: &File, path: &Text<208>, stem: &Text<32>, temporary: &Text<64>, name: &Text<64>) -> Option<()> {
    let control = page();
    let table = NonNull::new(system::map_private(size_of::<Process>()))?;
    system::wipe_on_fork(table.as_ptr(), size_of::<Process>());
    // SAFETY: the mapping is as large as the structure, of zeros, and nobody else knows it.
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
    // A process that lives for a moment must say itself where it belongs: soon nobody can ask.
    if let Some(scope) = system::variable(c"LONGPOLE_SESSION") {
        let digits = scope.iter().take_while(|digit| digit.is_ascii_digit());
        let number = digits.fold(0u64, |number, digit| number.wrapping_mul(10).wrapping_add(u64::from(digit - b'0')));
        control.scope.store(number, Relaxed);
    }
    if let Some(label) = system::variable(c"LONGPOLE_LABEL") {
        store_bytes(&control.label[..control.label.len() - 1], label);
    }
    if process.sites.load(Relaxed).is_null() || publish(directory, temporary, name) < 0 {
        // SAFETY: nobody knows the table.
        unsafe { system::unmap(table.as_ptr(), size_of::<Process>()) };
        return None;
    }
    // The file has its name before the orders are read: a recorder that publishes new orders and then looks for control files misses
    // nobody.
    match read_orders(directory).filter(|session| session.orders.mask.load(Relaxed) != 0) {
        Some(session) => obey(&control.orders, &session.orders),
        None => sweep(directory, stem),
    }
    Some(())
}

/// The name of this execution's files without their ends.
fn own_stem() -> Text<32> {
    // The kernel gives every execution 16 random bytes. A hash tells executions apart and gives nothing of them away.
    // SAFETY: the kernel put the bytes on the stack of the main thread, where they stay.
    let random = unsafe {
        let random = system::getauxval(25 /* AT_RANDOM */) as *const u8;
        if random.is_null() {
            &[]
        } else {
            core::slice::from_raw_parts(random, 16)
        }
    };
    // Children in pid namespaces of their own have numbers of their own.
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

/// The bit of all libraries for which there is no other. It is not taken back: nobody knows who else has it.
const SLOT_OF_MANY: u32 = 1 << 31;

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

/// While this lock is held, no recorder takes the site table away. Recorders have it for moments; false: somebody kept it for about a second, and
/// the process goes on without being recorded.
fn lock_births(directory: &File) -> bool {
    (0..1000).any(|_| {
        let held = system::flock(directory.0, system::LOCK_SH | system::LOCK_NB) == -(system::EAGAIN as isize);
        if held {
            system::sleep_ns(1_000_000);
        }
        !held
    })
}

/// Connects this library with the process's control file, which the first library of a process makes. The process's table; null: it is not recorded.
fn connect() -> *mut Process {
    let Some((path, user)) = directory_path() else { return null_mut() };
    File::make_directory(&path);
    let Ok(directory) = open_directory(&path) else { return null_mut() };
    let stem = own_stem();
    let name = Text::<64>::of(&[stem.bytes(), b".control"]);
    if !lock_births(&directory) {
        return null_mut();
    }
    let mut connected = null_mut();
    // Two libraries of one child may come at once: who is second takes what the first one made.
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

/// Whether a control file's table is that of this process: every text in it is wiped by fork. The kernel says whether the address can be read at all.
fn is_table(address: u64, stem: &Text<32>) -> bool {
    let address = address as usize;
    let stem_at = address.wrapping_add(offset_of!(Process, stem));
    if address == 0 || address % 8 != 0 || !system::is_readable(address) || !system::is_readable(stem_at.wrapping_add(24)) {
        return false;
    }
    // SAFETY: the table can be read up to its stem's end.
    let (alive, found) = unsafe { ((*(address as *const AtomicU32)).load(Relaxed), c_bytes(stem_at as *const u8, 31)) };
    alive != 0 && found == stem.bytes()
}

enum Adopted {
    Table(&'static Process),
    /// There is a reason to try once more.
    No,
    Never,
}

/// Maps the control file over the page; what is no control file is taken off again.
fn adopt(directory: &File, file: File, path: &Text<208>, stem: &Text<32>, temporary: Option<&Text<64>>, name: &Text<64>) -> Adopted {
    let place = (&raw const longpole_page).cast::<u8>().cast_mut();
    // SAFETY: the page is ours alone, aligned, and as large.
    let mapped = unsafe { file.map_over(place, CONTROL_SIZE) };
    drop(file);
    if mapped.is_null() {
        return Adopted::Never;
    }
    let made = temporary.is_none_or(|temporary| {
        let introduced = introduce(directory, path, stem, temporary, name);
        if introduced.is_none() {
            directory.unlink(temporary);
        }
        introduced.is_some()
    });
    let control = page();
    let known = control.magic.load(Relaxed) == MAGIC && control.version.load(Relaxed) == VERSION;
    let process = control.process.load(Relaxed);
    if made && known && is_table(process, stem) {
        // SAFETY: it is our table, which is never unmapped.
        return Adopted::Table(unsafe { &*(process as *const Process) });
    }
    // SAFETY: as above.
    unsafe { system::map_private_over(place, CONTROL_SIZE) };
    if made && known {
        // A child that had this number before ended without a word.
        directory.unlink(name);
    }
    if !made || known {
        Adopted::No
    } else {
        Adopted::Never
    }
}

/// In the child of a fork: nothing of the parent's may be touched.
fn disconnect() -> bool {
    let ring = thread::current();
    // SAFETY: the page is ours alone, aligned, and as large.
    let done = unsafe { system::map_private_over((&raw const longpole_page).cast::<u8>().cast_mut(), CONTROL_SIZE) };
    thread::set(Ring::none());
    if ring != Ring::none() {
        thread::disown(ring);
    }
    done
}

/// The child is a process of its own. Where nobody records, it connects at its first probe, for which everything seems to be recorded until then: most
/// children end without one, by exec or _exit, and would leave a control file behind.
extern "C" fn forked() {
    let later = library().process().is_some() && page().orders.mask.load(Relaxed) == 0;
    let done = disconnect();
    if !later {
        library().process.store(connect(), Relaxed);
    } else if done {
        page().orders.mask.store(u32::MAX, Relaxed);
    }
}

/// Runs once per crate and source file of a library; the first one does the work.
extern "C" fn construct() {
    let library = library();
    if library.state.compare_exchange(0, 1, AcqRel, Relaxed).is_err() {
        return;
    }
    let mut key: c_uint = 0;
    // SAFETY: both functions live as long as the library; the destructor deletes the key before.
    unsafe {
        if system::pthread_key_create(&raw mut key, thread::exit) == 0 {
            library.key.store(key + 1, Relaxed);
        }
        system::pthread_atfork(None, None, Some(forked));
    }
    library.process.store(connect(), Relaxed);
    library.state.store(2, Release);
}

/// A library that is unloaded leaves no destructor behind, and uses no thread's ring any more. The last one takes the control file along, unless
/// there are rings: what is in them still belongs to the recorder.
extern "C" fn destruct() {
    let library = library();
    if library.state.compare_exchange(2, 3, AcqRel, Relaxed).is_err() {
        return;
    }
    let key = library.key.swap(0, Relaxed);
    if key != 0 {
        // SAFETY: the key is ours.
        unsafe { system::pthread_key_delete(key - 1) };
    }
    let Some(process) = library.process().filter(|process| process.is_alive()) else { return };
    thread::leave(process);
    if process.libraries.load(Acquire) != 0 || page().rings.load(Relaxed) != 0 {
        return;
    }
    if let Ok(directory) = open_directory(&process.directory()) {
        directory.unlink(&Text::<64>::of(&[process.stem().bytes(), b".control"]));
    }
}

/// Lets the C library call `thread::exit` with this value when the thread ends.
pub fn call_at_exit(value: *const c_void) {
    let key = library().key.load(Relaxed);
    if key != 0 {
        // SAFETY: the key is ours.
        unsafe { system::pthread_setspecific(key - 1, value) };
    }
}
