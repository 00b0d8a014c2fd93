//! Functions of a module's file, by its symbols and its debug information (blazesym).

use crate::table::{clean, Function};
use blazesym::symbolize::source::{Elf, Source};
use blazesym::symbolize::{CodeInfo, Input, Sym, Symbolized, Symbolizer};
use std::fs::File;
use std::io::Write;
use std::os::fd::AsRawFd;

/// Offsets that are looked up at a time.
const BATCH: usize = 4096;

/// Calls `found` for each of the offsets in the file that lies in a function, innermost first. The error is of the whole file.
pub fn functions(file: &File, offsets: &[u64], mut found: impl FnMut(u64, Vec<Function>)) -> Result<(), String> {
    // By this path it is the file that was checked, whatever its name leads to now.
    let mut elf = Elf::new(format!("/proc/self/fd/{}", file.as_raw_fd()));
    elf.debug_syms = true;
    let source = Source::Elf(elf);
    let symbolizer = Symbolizer::builder().enable_auto_reload(false).build();
    for batch in offsets.chunks(BATCH) {
        let named = symbolizer.symbolize(&source, Input::FileOffset(batch)).map_err(|error| clean(&error.to_string()))?;
        for (&offset, symbol) in batch.iter().zip(named) {
            if let Symbolized::Sym(symbol) = symbol {
                found(offset, frames(&symbol));
            }
        }
    }
    Ok(())
}

/// The library names the outermost first; its place in the source is that of the innermost's call, a step outwards each.
fn frames(symbol: &Sym<'_>) -> Vec<Function> {
    let place = |name: &str, info: Option<&CodeInfo<'_>>| Function {
        file: info.map(|info| clean(&info.to_path().to_string_lossy())),
        line: info.and_then(|info| info.line),
        ..Function::named(name)
    };
    let outer = place(&symbol.name, symbol.code_info.as_deref());
    let inner = symbol.inlined.iter().map(|inlined| place(&inlined.name, inlined.code_info.as_ref()));
    let mut all: Vec<Function> = std::iter::once(outer).chain(inner).collect();
    all.reverse();
    all
}

/// The code that the kernel puts into every process: this process has the same.
pub fn vdso() -> Option<File> {
    let maps = std::fs::read_to_string("/proc/self/maps").ok()?;
    let (range, _) = maps.lines().find(|line| line.ends_with("[vdso]"))?.split_once(' ')?;
    let (start, end) = range.split_once('-')?;
    let (start, end) = (usize::from_str_radix(start, 16).ok()?, usize::from_str_radix(end, 16).ok()?);
    // SAFETY: the kernel maps these pages for as long as the process lives, readable, and never changes them.
    let bytes = unsafe { std::slice::from_raw_parts(start as *const u8, end.checked_sub(start)?) };
    let mut file = File::from(rustix::fs::memfd_create("vdso", rustix::fs::MemfdFlags::CLOEXEC).ok()?);
    file.write_all(bytes).ok()?;
    Some(file)
}
