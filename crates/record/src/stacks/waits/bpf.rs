//! Interface to bpf(2): maps, programs, and their attachment to raw tracepoints. Everything ends
//! with its descriptor.

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

const MAP_CREATE: libc::c_int = 0;
const MAP_UPDATE: libc::c_int = 2;
const PROGRAM_LOAD: libc::c_int = 5;
const RAW_TRACEPOINT_OPEN: libc::c_int = 17;
const PROGRAM_TRACING: u32 = 26;
const ATTACH_RAW_TRACEPOINT: u32 = 23;
/// The functions of the kernel that the programs call are for programs under the GPL only.
const LICENSE: &CStr = c"Dual MIT/GPL";

/// Kinds of maps.
#[derive(Clone, Copy, Debug)]
#[repr(u32)]
pub enum MapKind {
    Array = 2,
    PerfEvents = 4,
}

#[repr(C)]
struct MapAttributes {
    kind: u32,
    key_size: u32,
    value_size: u32,
    entries: u32,
    flags: u32,
}

#[repr(C)]
struct ElementAttributes {
    map: u32,
    reserved: u32,
    key: u64,
    value: u64,
    flags: u64,
}

#[repr(C)]
struct ProgramAttributes {
    kind: u32,
    instructions: u32,
    code: u64,
    license: u64,
    log_level: u32,
    log_size: u32,
    log: u64,
    kernel_version: u32,
    flags: u32,
    name: [u8; 16],
    /// Network device, description of types, functions and lines: not used.
    device: u32,
    attach_type: u32,
    unused: [u32; 9],
    /// What the program is attached to: the type of this number in the kernel's description.
    attach_type_id: u32,
}

#[repr(C)]
struct TracepointAttributes {
    name: u64,
    program: u32,
    reserved: u32,
}

/// Makes a map with 32-bit keys.
pub fn map(kind: MapKind, value_size: u32, entries: u32) -> io::Result<OwnedFd> {
    descriptor(MAP_CREATE, &MapAttributes { kind: kind as u32, key_size: 4, value_size, entries, flags: 0 })
}

/// Writes the value of a key. `value` must have the size of the map's values.
pub fn update<V>(map: &OwnedFd, key: u32, value: &V) -> io::Result<()> {
    let (key, value): (*const u32, *const V) = (&key, value);
    let attributes = ElementAttributes { map: number(map), reserved: 0, key: key as u64, value: value as u64, flags: 0 };
    bpf(MAP_UPDATE, &attributes).map(drop)
}

/// Loads a program for the tracepoint of this type. The kernel refuses it if it could harm the
/// kernel.
pub fn load(code: &[[u8; 8]], name: &str, tracepoint_type: u32) -> io::Result<OwnedFd> {
    let mut short = [0; 16];
    name.bytes().take(15).zip(&mut short).for_each(|(byte, to)| *to = byte);
    let attributes = ProgramAttributes {
        kind: PROGRAM_TRACING,
        instructions: code.len() as u32,
        code: code.as_ptr() as u64,
        license: LICENSE.as_ptr() as u64,
        log_level: 0,
        log_size: 0,
        log: 0,
        kernel_version: 0,
        flags: 0,
        name: short,
        device: 0,
        attach_type: ATTACH_RAW_TRACEPOINT,
        unused: [0; 9],
        attach_type_id: tracepoint_type,
    };
    descriptor(PROGRAM_LOAD, &attributes)
}

/// Lets a program run at its tracepoint, until the returned descriptor is closed.
pub fn attach(program: &OwnedFd) -> io::Result<OwnedFd> {
    let attributes = TracepointAttributes { name: 0, program: number(program), reserved: 0 };
    descriptor(RAW_TRACEPOINT_OPEN, &attributes)
}

fn number(descriptor: &OwnedFd) -> u32 {
    // Descriptors are never negative.
    descriptor.as_raw_fd() as u32
}

fn descriptor<A>(command: libc::c_int, attributes: &A) -> io::Result<OwnedFd> {
    let fd = bpf(command, attributes)?;
    // SAFETY: these commands return a new descriptor, which has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn bpf<A>(command: libc::c_int, attributes: &A) -> io::Result<i32> {
    let whole: *const A = attributes;
    // SAFETY: the kernel reads as many bytes as are passed as the size, and the memory that the
    // attributes of this module refer to lives during the call.
    let result = unsafe { libc::syscall(libc::SYS_bpf, command, whole, size_of::<A>()) };
    i32::try_from(result).ok().filter(|result| *result >= 0).ok_or_else(io::Error::last_os_error)
}
