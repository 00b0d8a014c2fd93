//! Finds the debug information of a module in a file of its own, as packages with debug information
//! install it, or as debuginfod's client has downloaded it. Nothing is downloaded.
//!
//! The build id of the module leads to the file. The module's author chooses the build id, so the
//! file must have the same one, and must belong to root or to this user.

use crate::elf::Elf;
use crate::open::{self, regular};
use std::env;
use std::fmt::Write;
use std::fs::{File, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

/// Folder of packages with debug information.
const PACKAGES: &str = "/usr/lib/debug/.build-id";

/// Returns the file with the debug information of a module, and the headers of the module itself.
pub fn find(module: &File) -> Option<(File, Elf)> {
    let elf = Elf::read(module, 0)?;
    let id = elf.build_id(module)?;
    let own = rustix::process::geteuid().as_raw();
    let trusted = |found: &Metadata| found.uid() == 0 || found.uid() == own;
    let is_of_module = |file: &File| Elf::read(file, 0).and_then(|debug| debug.build_id(file)).is_some_and(|found| found == id);
    let opened = |path: PathBuf| open::path(&path).and_then(|path| regular(path, trusted)).filter(is_of_module);
    let file = paths(&id).into_iter().find_map(opened)?;
    Some((file, elf))
}

fn paths(id: &[u8]) -> Vec<PathBuf> {
    let mut text = String::new();
    for byte in id {
        let _ = write!(text, "{byte:02x}");
    }
    let folder = |name: &str, below: &str| env::var_os(name).filter(|path| !path.is_empty()).map(|path| PathBuf::from(path).join(below));
    let cache = folder("DEBUGINFOD_CACHE_PATH", "")
        .or_else(|| folder("XDG_CACHE_HOME", "debuginfod_client"))
        .or_else(|| folder("HOME", ".cache/debuginfod_client"));
    let package = text.split_at_checked(2).map(|(first, rest)| PathBuf::from(PACKAGES).join(first).join(format!("{rest}.debug")));
    package.into_iter().chain(cache.map(|cache| cache.join(&text).join("debuginfo"))).collect()
}
