//! Looks up the functions in a module's file, by its symbols and debug information (with blazesym).

use crate::debug_file;
use crate::elf::Elf as ElfHeaders;
use crate::table::{clean, Function};
use blazesym::symbolize::source::{Elf, Source};
use blazesym::symbolize::{CodeInfo, Input, Sym, Symbolized, Symbolizer};
use std::borrow::Cow;
use std::collections::HashSet;
use std::fs::File;
use std::io::Write;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;

/// Offsets that are looked up at a time.
const BATCH: usize = 4096;

/// Maximum number of bytes of the names of a file's sections.
const MAX_NAMES: u64 = 1 << 20;
/// Parts of the names of sections that refer to other files. blazesym would open those files,
/// wherever and whatever they are.
const LINKS: [&[u8]; 3] = [b"debuglink", b"debugaltlink", b"debug_sup"];

/// Calls `found` with the functions at each offset in the file, innermost first. Offsets without a
/// function are omitted. The third argument is called before each batch of offsets, as a sign of
/// progress. An error concerns the whole file.
///
/// Debug information of the module in a file of its own is used if it is installed on this host
/// ([`crate::debug_file`]). blazesym opens no further files: for a module that refers to others by
/// name, it reads only the symbols.
pub fn functions(file: &File, offsets: &[u64], progress: &mut dyn FnMut(), found: impl FnMut(u64, Vec<Function>)) -> Result<(), String> {
    let debug = debug_file::find(file, progress);
    functions_of(file, debug, offsets, progress, found)
}

/// Like [`functions`], with the file of the debug information and the headers of the module.
pub fn functions_of(
    file: &File,
    debug: Option<(File, ElfHeaders)>,
    offsets: &[u64],
    progress: &mut dyn FnMut(),
    mut found: impl FnMut(u64, Vec<Function>),
) -> Result<(), String> {
    let mut left = offsets.to_vec();
    if let Some((debug, elf)) = debug {
        let placed: Vec<(u64, u64)> = offsets.iter().filter_map(|&offset| Some((offset, elf.address(offset)?))).collect();
        let addresses: Vec<u64> = placed.iter().map(|(_, address)| *address).collect();
        let mut named = HashSet::new();
        let has_lines = has_no_links(&debug).unwrap_or(false);
        // If this file is broken, the module itself still has its symbols.
        let _ = look_up(&debug, has_lines, Positions::Addresses(&addresses), progress, |at, functions| {
            let (offset, _) = placed[at];
            named.insert(offset);
            found(offset, functions);
        });
        left.retain(|offset| !named.contains(offset));
    }
    look_up(file, has_no_links(file).unwrap_or(false), Positions::Offsets(&left), progress, |at, functions| found(left[at], functions))
}

/// Like [`functions`], but uses only symbols. Debug information omits the namespace of functions
/// that only one source file can see; symbols contain it.
pub fn symbols(file: &File, offsets: &[u64], progress: &mut dyn FnMut(), mut found: impl FnMut(u64, Vec<Function>)) -> Result<(), String> {
    look_up(file, false, Positions::Offsets(offsets), progress, |at, functions| found(offsets[at], functions))
}

/// Positions in a module.
#[derive(Clone, Copy)]
enum Positions<'a> {
    /// Offsets in the file.
    Offsets(&'a [u64]),
    /// Addresses that the file states.
    Addresses(&'a [u64]),
}

/// Calls `found` with the index of each position that has functions.
fn look_up(
    file: &File,
    debug: bool,
    positions: Positions<'_>,
    progress: &mut dyn FnMut(),
    mut found: impl FnMut(usize, Vec<Function>),
) -> Result<(), String> {
    // This path leads to the file that was checked, even if its name leads elsewhere by now.
    let mut elf = Elf::new(format!("/proc/self/fd/{}", file.as_raw_fd()));
    elf.debug_syms = debug;
    let source = Source::Elf(elf);
    let symbolizer = Symbolizer::builder().enable_auto_reload(false).enable_demangling(false).build();
    let (Positions::Offsets(all) | Positions::Addresses(all)) = positions;
    for (batch, some) in all.chunks(BATCH).enumerate() {
        progress();
        let input = match positions {
            Positions::Offsets(_) => Input::FileOffset(some),
            Positions::Addresses(_) => Input::VirtOffset(some),
        };
        let named = symbolizer.symbolize(&source, input).map_err(|error| clean(&error.to_string()))?;
        for (at, named) in named.into_iter().enumerate() {
            if let Symbolized::Sym(symbol) = named {
                found(batch * BATCH + at, frames(&symbol));
            }
        }
    }
    Ok(())
}

/// Returns true if none of the file's sections refers to another file, or `None` if this cannot be
/// determined. All names of sections are in one section.
fn has_no_links(file: &File) -> Option<bool> {
    let mut header = [0; 64];
    file.read_exact_at(&mut header, 0).ok()?;
    let wide = |bytes: &[u8], at: usize| Some(u64::from_ne_bytes(*bytes.get(at..)?.first_chunk()?));
    let half = |bytes: &[u8], at: usize| Some(u32::from_ne_bytes(*bytes.get(at..)?.first_chunk()?));
    let short = |bytes: &[u8], at: usize| Some(u16::from_ne_bytes(*bytes.get(at..)?.first_chunk()?));
    // ELFCLASS32 or ELFCLASS64, in this host's byte order.
    let is_wide = header.get(4) == Some(&2);
    let (sections, size, names) = match is_wide {
        true => (wide(&header, 40)?, 64, short(&header, 62)?),
        false => (half(&header, 32)?.into(), 40, short(&header, 50)?),
    };
    if sections == 0 {
        return Some(true);
    }
    // From SHN_LORESERVE on, the number is stored elsewhere.
    if names == 0 || names >= 0xff00 {
        return None;
    }
    let mut section = [0; 64];
    let section = &mut section[..size];
    file.read_exact_at(section, sections.checked_add(u64::from(names) * size as u64)?).ok()?;
    let (offset, length) = match is_wide {
        true => (wide(section, 24)?, wide(section, 32)?),
        false => (half(section, 16)?.into(), half(section, 20)?.into()),
    };
    if length > MAX_NAMES {
        return None;
    }
    let mut text = vec![0; length as usize];
    file.read_exact_at(&mut text, offset).ok()?;
    Some(!LINKS.iter().any(|link| text.windows(link.len()).any(|found| found == *link)))
}

/// Returns the name as in the source. Only mangled names begin with `_R` or `_Z`. A demangler
/// accepts any name as the encoding of a type, so without this check a C function `f` would be
/// named `float`.
fn demangled(name: &str) -> Cow<'_, str> {
    if !name.starts_with("_R") && !name.starts_with("_Z") {
        return Cow::Borrowed(name);
    }
    if let Ok(of_rust) = rustc_demangle::try_demangle(name) {
        return Cow::Owned(format!("{of_rust:#}"));
    }
    let of_cpp = cpp_demangle::Symbol::new(name).ok().and_then(|symbol| symbol.demangle().ok());
    of_cpp.map_or(Cow::Borrowed(name), Cow::Owned)
}

/// Converts the result to frames, innermost first. blazesym returns the outermost function first.
/// The source location of an outer function is that of its call to the next inner one.
fn frames(symbol: &Sym<'_>) -> Vec<Function> {
    let place = |name: &str, info: Option<&CodeInfo<'_>>| Function {
        file: info.map(|info| clean(&info.to_path().to_string_lossy())),
        line: info.and_then(|info| info.line),
        ..Function::named(&demangled(name))
    };
    let outer = place(&symbol.name, symbol.code_info.as_deref());
    let inner = symbol.inlined.iter().map(|inlined| place(&inlined.name, inlined.code_info.as_ref()));
    let mut all: Vec<Function> = std::iter::once(outer).chain(inner).collect();
    all.reverse();
    all
}

/// Returns the vDSO, the code that the kernel maps into every process, as a file. It is read from
/// this process, because all processes have the same.
pub fn vdso() -> Option<File> {
    let maps = std::fs::read_to_string("/proc/self/maps").ok()?;
    let (range, _) = maps.lines().find(|line| line.ends_with("[vdso]"))?.split_once(' ')?;
    let (start, end) = range.split_once('-')?;
    let (start, end) = (usize::from_str_radix(start, 16).ok()?, usize::from_str_radix(end, 16).ok()?);
    // SAFETY: the kernel maps these pages readable for the lifetime of the process and never
    // changes them.
    let bytes = unsafe { std::slice::from_raw_parts(start as *const u8, end.checked_sub(start)?) };
    let mut file = File::from(rustix::fs::memfd_create("vdso", rustix::fs::MemfdFlags::CLOEXEC).ok()?);
    file.write_all(bytes).ok()?;
    Some(file)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use std::process::Command;

    #[test]
    fn c_names_are_unchanged_and_mangled_names_are_demangled() {
        for name in ["f", "d", "i", "w", "v", "main", "_start", "__libc_start_main", "_ZZZ"] {
            assert_eq!(demangled(name), name);
        }
        assert_eq!(demangled("_ZN3foo3barEi"), "foo::bar(int)");
        assert_eq!(demangled("_ZN4core3fmt5write17h0123456789abcdefE"), "core::fmt::write");
        assert_eq!(demangled("_RNvC6_123foo3bar"), "123foo::bar");
    }

    #[test]
    fn one_letter_functions_of_a_module_keep_their_names() {
        let dir = tempfile::tempdir().unwrap();
        let (source, module) = (dir.path().join("a.c"), dir.path().join("a.so"));
        let code = ["f", "d", "i", "w"].map(|name| format!("int {name}(int x) {{ return x + {}; }}\n", name.len()));
        std::fs::write(&source, code.concat()).unwrap();
        for debug in ["-g0", "-g"] {
            let built = Command::new("cc").args(["-O1", "-shared", "-nostdlib", "-fPIC", debug, "-o"]).arg(&module).arg(&source).status();
            assert!(built.unwrap().success());
            let file = File::open(&module).unwrap();
            let offsets: Vec<u64> = (0..file.metadata().unwrap().len()).collect();
            let mut names = BTreeSet::new();
            functions(&file, &offsets, &mut || {}, |_, found| names.extend(found.into_iter().map(|function| function.name))).unwrap();
            // The linker adds names with underscores.
            names.retain(|name| !name.starts_with('_'));
            assert_eq!(names, BTreeSet::from(["f", "d", "i", "w"].map(str::to_owned)), "{debug}");
        }
    }
}
