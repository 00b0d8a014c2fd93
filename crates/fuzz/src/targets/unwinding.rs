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
    seeds: |_| Ok(vec![vdso()?, program()]),
    words: &[
        ".eh_frame",
        ".eh_frame_hdr",
        ".debug_frame",
        ".gopclntab",
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
fn vdso() -> anyhow::Result<Vec<u8>> {
    let maps = fs::read_to_string("/proc/self/maps")?;
    let range = maps.lines().find(|line| line.ends_with("[vdso]")).and_then(|line| line.split_once(' ')).context("there is no vDSO")?.0;
    let (start, end) = range.split_once('-').context("the range has no end")?;
    let (start, end) = (u64::from_str_radix(start, 16)?, u64::from_str_radix(end, 16)?);
    let mut bytes = vec![0; (end - start) as usize];
    File::open("/proc/self/mem")?.read_exact_at(&mut bytes, start)?;
    let code = u64::from_ne_bytes(bytes[24..32].try_into()?).max(0x800);
    bytes.extend(stack(code));
    Ok(bytes)
}

/// A stack of addresses from `code` on, and the registers.
fn stack(code: u64) -> impl Iterator<Item = u8> {
    let words = (0..STACK as u64 / 8).map(move |word| if word % 2 == 0 { code + 16 * word } else { 0x7000 + 8 * word });
    words.chain([code + 0x40, 0x7000, 0x7040, code]).flat_map(u64::to_ne_bytes)
}

/// Address of the code of [`program`], and the size of its code and of each of its functions.
const CODE: u64 = 0x1000;
const CODE_BYTES: u64 = 0x600;
const FUNCTION_BYTES: u64 = 0x40;

/// A small program file with all kinds of tables, none of which has an index, and a stack in it:
/// two thirds of its functions have a row, and those of Go are the first one of a stack, or change
/// the stack, or neither.
fn program() -> Vec<u8> {
    let names = b"\0.text\0.eh_frame\0.debug_frame\0.gopclntab\0.shstrtab\0";
    let name = |wanted: &[u8]| names.windows(wanted.len()).position(|found| found == wanted).unwrap_or(0) as u32;
    let machine: u16 = if cfg!(target_arch = "aarch64") { 183 } else { 62 };
    let functions = CODE_BYTES / FUNCTION_BYTES;
    let of_third = |third: u64| (0..functions).filter(move |at| at % 3 == third).map(|at| CODE + FUNCTION_BYTES * at);
    let contents: [(&[u8], u64, Vec<u8>); 5] = [
        (b".text", CODE, vec![0x90; CODE_BYTES as usize]),
        (b".eh_frame", 0x3000, frames(true, of_third(0))),
        (b".debug_frame", 0, frames(false, of_third(1))),
        (b".gopclntab", 0x5000, functions_of_go(functions)),
        (b".shstrtab", 0, names.to_vec()),
    ];
    let mut sections = vec![0; 64];
    let mut data: Vec<u8> = Vec::new();
    for (section, address, bytes) in &contents {
        let (offset, length) = ((64 + 56 + data.len()) as u64, bytes.len() as u64);
        sections.extend([name(section), 1].iter().flat_map(|half| half.to_le_bytes()));
        sections.extend([2, *address, offset, length, 0, 1, 0].iter().flat_map(|word: &u64| word.to_le_bytes()));
        data.extend(bytes);
    }
    let mut file = b"\x7fELF\x02\x01\x01".to_vec();
    file.resize(16, 0);
    file.extend([2, machine, 1, 0].iter().flat_map(|short| short.to_le_bytes()));
    file.extend([CODE, 64, (64 + 56 + data.len()) as u64].iter().flat_map(|word| word.to_le_bytes()));
    file.extend([0, 0, 64, 56, 1, 64, contents.len() as u16 + 1, contents.len() as u16].iter().flat_map(|short: &u16| short.to_le_bytes()));
    // The code is loaded from where it is in the file.
    file.extend([1u32, 5].iter().flat_map(|half| half.to_le_bytes()));
    file.extend([64 + 56, CODE, CODE, CODE_BYTES, CODE_BYTES, 1].iter().flat_map(|word: &u64| word.to_le_bytes()));
    file.extend(data);
    file.extend(sections);
    file.extend(stack(CODE));
    file
}

/// A section of unwinding tables with a row for each of these functions: the return address is on
/// the stack.
fn frames(is_eh: bool, functions: impl Iterator<Item = u64>) -> Vec<u8> {
    let entry = |content: &[u8]| [&(content.len() as u32).to_le_bytes(), content].concat();
    let rules = [0x0c, 7, 8, 0x90, 1];
    let (common, augmentation): (Vec<u8>, &[u8]) = match is_eh {
        true => ([&[0, 0, 0, 0, 1][..], b"zR\0", &[1, 0x78, 16, 1, 0], &rules].concat(), &[0]),
        false => ([&[0xff, 0xff, 0xff, 0xff, 3, 0, 1, 0x78, 16][..], &rules].concat(), &[]),
    };
    let mut bytes = entry(&common);
    for first in functions {
        let common = if is_eh { bytes.len() as u32 + 4 } else { 0 };
        let range: Vec<u8> = [first, FUNCTION_BYTES].iter().flat_map(|word| word.to_le_bytes()).collect();
        // The row has another frame address from the eighth byte on.
        bytes.extend(entry(&[&common.to_le_bytes()[..], &range, augmentation, &[0x48, 0x0e, 16]].concat()));
    }
    bytes
}

/// Go's table of functions.
fn functions_of_go(count: u64) -> Vec<u8> {
    let mut bytes = [0xf1, 0xff, 0xff, 0xff, 0, 0, 1, 8].to_vec();
    bytes.extend([count, 0, CODE, 0, 0, 0, 0, 72].iter().flat_map(|word: &u64| word.to_le_bytes()));
    let list = 4 + 8 * count as u32;
    for at in 0..count as u32 {
        bytes.extend([at * FUNCTION_BYTES as u32, list + 44 * at].iter().flat_map(|half| half.to_le_bytes()));
    }
    bytes.extend((CODE_BYTES as u32).to_le_bytes());
    for at in 0..count {
        bytes.extend([0; 41]);
        bytes.extend([(at % 8 / 5) as u8 * (at % 3) as u8, 0, 0]);
    }
    bytes
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_own_program_is_unwound_by_all_of_its_tables() {
        let folder = tempfile::tempdir().unwrap();
        let program = program();
        let path = folder.path().join("module");
        fs::write(&path, &program[..program.len() - REGISTERS - STACK]).unwrap();
        let file = File::open(&path).unwrap();
        let code = |function: u64| CODE + FUNCTION_BYTES * function + 4;
        let unwound = |functions: [u64; 3]| {
            let stack: Vec<u8> = functions[1..].iter().flat_map(|function| code(*function).to_le_bytes()).collect();
            longpole_symbols::unwind_alone(&file, [code(functions[0]), 0x7000, 0, 0], &stack).unwrap()
        };
        if cfg!(target_arch = "x86_64") {
            // Rows of both sections, and functions without flags.
            assert_eq!(unwound([3, 4, 0]), ([code(3), code(4), code(0)].to_vec(), false));
            // The seventh function is the first one of a stack.
            assert_eq!(unwound([3, 7, 0]), ([code(3), code(7)].to_vec(), true));
        }
    }
}
