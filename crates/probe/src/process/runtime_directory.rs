//! The runtime directory: where it is, and how files in it are made, opened and removed. Processes
//! and recorders of the user meet there.

use crate::system::{self, c_bytes, File, Text};
use core::mem::{offset_of, size_of, MaybeUninit};
use core::ptr::null_mut;
use core::sync::atomic::{AtomicU8, Ordering::*};
use longpole_abi::{Control, Session, Sites, MAGIC, SITE_ARENA_MAXIMUM, SITE_ARENA_STEP, VERSION};

/// Stores bytes into shared memory.
pub fn store_bytes(to: &[AtomicU8], from: &[u8]) {
    for (to, from) in to.iter().zip(from) {
        to.store(*from, Relaxed);
    }
}

/// Opens a file of the runtime directory for writing. Its mode forbids writing, except for the
/// moment of opening.
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
        // Another process may have removed the permission between our two calls.
        if !matches!(writable, Err(system::EACCES)) {
            return writable;
        }
    }
    Err(system::EACCES)
}

/// Makes a file that is complete before it gets its name from [`publish`]. Its temporary name is
/// unique per thread; the recorder removes what a killed process left behind.
pub fn create(directory: &File, size: usize) -> Result<(File, Text<64>), isize> {
    let mut temporary = Text::of(&[b".new-"]);
    temporary.push_number(system::gettid() as u64, 10, 0);
    temporary.push(b"-");
    temporary.push_number(system::counter(), 16, 0);
    let file = File::make(directory, &temporary)?;
    // Allocates the memory now, so that a later store cannot find the file system full.
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

/// Opens a runtime directory that only this user can access; otherwise returns -errno.
pub fn open_directory(path: &Text<208>) -> Result<File, isize> {
    let directory = File::directory(path)?;
    let ours = |stat: system::Stat| stat.user == system::geteuid() as u32 && stat.mode & 0o77 == 0;
    if directory.stat().is_some_and(ours) {
        Ok(directory)
    } else {
        Err(system::EACCES)
    }
}

/// The current directory at the start of the library. Relative paths refer to it, because the
/// program may change its directory later.
static FIRST: [AtomicU8; 208] = [const { AtomicU8::new(0) }; 208];

/// User id of a path that belongs to no certain user.
pub const ANY_USER: u32 = u32::MAX;

/// The path of the runtime directory, and the user id that it contains, or [`ANY_USER`]. `None` if
/// the path is too long.
pub fn directory_path() -> Option<(Text<208>, u32)> {
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
        // SAFETY: the kernel's result ends with NUL, and so does the zero-initialised array.
        path.push(unsafe { c_bytes(FIRST.as_ptr().cast(), 207) });
        path.push(b"/");
    }
    let whole = path.bytes().len() + wanted.len() < 208;
    path.push(wanted);
    (whole && path.bytes()[0] == b'/').then_some((path, ANY_USER))
}

/// Returns `true` if `name` is the control file of a process of this execution that has ended and
/// never had a ring.
fn is_stale_control_file(directory: &File, name: &Text<64>, tail: &[u8]) -> bool {
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

/// Removes the control files of children that ended by exec, _exit or a signal. One in 32 processes
/// does it, while nothing is recorded.
pub fn sweep(directory: &File, stem: &Text<32>) {
    if (system::getpid() as u32).wrapping_mul(0x9e37_79b1) >> 27 != 0 {
        return;
    }
    let tag = stem.bytes().iter().position(|byte| *byte == b'-').unwrap_or(0);
    let tail = Text::<32>::of(&[&stem.bytes()[tag..], b".control"]);
    system::names(directory, |name| {
        let name = Text::<64>::of(&[name]);
        if is_stale_control_file(directory, &name, tail.bytes()) {
            directory.unlink(&name);
        }
    });
}

/// Maps the site table, and creates it if necessary.
pub fn open_sites(directory: &File) -> *mut Sites {
    let whole = size_of::<Sites>() + SITE_ARENA_MAXIMUM as usize;
    let least = size_of::<Sites>() + SITE_ARENA_STEP as usize;
    let name: Text<16> = Text::of(&[b"sites"]);
    let mut file = open_writable(directory, &name);
    if matches!(file, Err(system::ENOENT)) {
        let Ok((made, temporary)) = create(directory, least) else { return null_mut() };
        let sites: *mut Sites = made.map(whole, false).cast();
        // SAFETY: the mapping is as large as the structure, and no other code has access to the
        // file yet.
        if let Some(sites) = unsafe { sites.as_ref() } {
            sites.magic.store(MAGIC, Relaxed);
            sites.version.store(VERSION, Relaxed);
            sites.arena_next.store(8, Relaxed); // offset 0 marks a free slot
            sites.arena_size.store(SITE_ARENA_STEP, Relaxed);
        }
        if publish(directory, &temporary, &name) == 0 || sites.is_null() {
            return sites;
        }
        // SAFETY: no other code uses the mapping.
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
            // SAFETY: no other code uses the mapping.
            unsafe { system::unmap(sites.cast(), whole) };
            null_mut()
        }
        None => null_mut(),
    }
}

/// The orders in a session file; `None` if no living recorder holds the lock on the file.
pub fn read_session(directory: &File, name: &Text<32>) -> Option<Session> {
    let file = File::open_read(directory, name).ok()?;
    let mut session = MaybeUninit::<Session>::zeroed();
    // SAFETY: the slice has the size of the structure, and every bit pattern is a valid value of
    // it.
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
