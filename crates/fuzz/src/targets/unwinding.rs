//! Unwinding: programs with any tables, and threads with any registers and stack.

use super::Target;
use anyhow::Context;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Number of bytes at the end of the input for the registers, and before them for the stack.
const REGISTERS: usize = 4 * 8;
const STACK: usize = 512;
/// Maximum number of addresses that a stack may have.
const MAX_FRAMES: usize = 1024;

pub const UNWINDING: Target = Target {
    name: "unwinding",
    what: "tables in a program, registers and a stack",
    seeds: |_| seed().map(|seed| vec![seed]),
    words: &[
        ".eh_frame",
        ".eh_frame_hdr",
        ".debug_frame",
        "zR\0",
        "zPLR\0",
        "zRS\0",
        "\x0c\x07\x08",
        "\x0f\x03\x77\x08\x06",
        "\x10\x06\x02\x76\0",
    ],
    run,
};

/// The kernel's code in this process, which is a whole program file with tables, and a stack of
/// addresses in it.
fn seed() -> anyhow::Result<Vec<u8>> {
    let maps = fs::read_to_string("/proc/self/maps")?;
    let range = maps.lines().find(|line| line.ends_with("[vdso]")).and_then(|line| line.split_once(' ')).context("there is no vDSO")?.0;
    let (start, end) = range.split_once('-').context("the range has no end")?;
    let (start, end) = (u64::from_str_radix(start, 16)?, u64::from_str_radix(end, 16)?);
    let mut bytes = vec![0; (end - start) as usize];
    File::open("/proc/self/mem")?.read_exact_at(&mut bytes, start)?;
    let code = u64::from_ne_bytes(bytes[24..32].try_into()?).max(0x800);
    bytes.extend((0..STACK as u64 / 8).flat_map(|word| (if word % 2 == 0 { code + 16 * word } else { 0x7000 + 8 * word }).to_ne_bytes()));
    bytes.extend([code + 0x40, 0x7000, 0x7040, code].iter().flat_map(|word| word.to_ne_bytes()));
    Ok(bytes)
}

fn run(input: &[u8], folder: &Path) {
    let (module, rest) = input.split_at(input.len().saturating_sub(REGISTERS + STACK));
    let (stack, last) = rest.split_at(rest.len().saturating_sub(REGISTERS));
    let word = |at: usize| last.get(8 * at..8 * at + 8).and_then(|bytes| bytes.try_into().ok()).map_or(0, u64::from_ne_bytes);
    let path = folder.join("module");
    let Ok(()) = fs::write(&path, module) else { return };
    let Ok(file) = File::open(&path) else { return };
    if let Some((addresses, _)) = longpole_symbols::unwind_alone(&file, [word(0), word(1), word(2), word(3)], stack) {
        assert!((1..=MAX_FRAMES).contains(&addresses.len()));
    }
}
