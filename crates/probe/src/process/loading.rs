//! What runs when the library is loaded and unloaded, and the objects that exist once per library.

use crate::process::connection::{connect, forked};
use crate::process::{library, page};
use crate::process::runtime_directory::open_directory;
use crate::system::{self, Text};
use crate::process::thread;
use core::arch::global_asm;
use core::ffi::c_uint;
use core::sync::atomic::Ordering::*;

// Each of these objects exists once per library, however many crates and languages it is made of:
// they are in COMDAT sections, hidden, and aligned to the largest page size of the architecture.
// Stable Rust has neither COMDAT data nor thread-local variables that take a single load, so they
// are written in assembly. `.ifndef` is needed for link-time optimisation, which merges several
// files into one. The constructor is in the same assembly block, so that the linker cannot keep the
// page and drop the constructor.
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

/// Runs once per crate and source file of a library; only the first call has an effect.
extern "C" fn construct() {
    let library = library();
    if library.state.compare_exchange(0, 1, AcqRel, Relaxed).is_err() {
        return;
    }
    let mut key: c_uint = 0;
    // SAFETY: both functions live as long as the library, and `destruct` deletes the key before the
    // library is unloaded.
    unsafe {
        if system::pthread_key_create(&raw mut key, thread::exit) == 0 {
            library.key.store(key + 1, Relaxed);
        }
        system::pthread_atfork(None, None, Some(forked));
    }
    library.process.store(connect(), Relaxed);
    library.state.store(2, Release);
}

/// Runs when the library is unloaded: removes the destructor for threads and stops using the rings
/// of threads. The last library removes the control file, unless there are rings, whose content
/// still belongs to the recorder.
extern "C" fn destruct() {
    let library = library();
    if library.state.compare_exchange(2, 3, AcqRel, Relaxed).is_err() {
        return;
    }
    let key = library.key.swap(0, Relaxed);
    if key != 0 {
        // SAFETY: the key belongs to this library.
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

