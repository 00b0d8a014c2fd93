//! Finds the debug information of a module in a file of its own, as packages with debug information
//! install it, or as debuginfod's client has downloaded it. Nothing is downloaded.
//!
//! Two ways lead to the file:
//!
//! * The build id of the module. The file must have the same one.
//! * The name of the file and its checksum in the module (`.gnu_debuglink`). The file must be in a
//!   folder that belongs to the module's own, without symbolic links on the way, and must have the
//!   checksum.
//!
//! The module's author chooses both, so the file must belong to root or to this user.

use crate::elf::Elf;
use crate::open::{self, regular};
use std::env;
use std::ffi::OsStr;
use std::fmt::Write;
use std::fs::{self, File, Metadata};
use std::io::Read;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Folder of packages with debug information.
const PACKAGES: &str = "/usr/lib/debug";
/// Maximum number of bytes of a file whose checksum is computed.
const MAX_BYTES: u64 = 4 << 30;
/// Bytes of a file that are read at a time for its checksum.
const CHUNK: usize = 1 << 20;

/// Folders with debug information.
#[derive(Debug)]
struct Folders {
    packages: PathBuf,
    /// The cache of debuginfod's client.
    cache: Option<PathBuf>,
}

/// Returns the file with the debug information of a module, and the headers of the module itself.
/// `progress` is called now and then, as a sign of progress.
pub fn find(module: &File, progress: &mut dyn FnMut()) -> Option<(File, Elf)> {
    let elf = Elf::read(module, 0)?;
    let file = Folders::of_this_user().find(module, &elf, progress)?;
    Some((file, elf))
}

impl Folders {
    fn of_this_user() -> Folders {
        let folder =
            |name: &str, below: &str| env::var_os(name).filter(|path| !path.is_empty()).map(|path| PathBuf::from(path).join(below));
        let cache = folder("DEBUGINFOD_CACHE_PATH", "")
            .or_else(|| folder("XDG_CACHE_HOME", "debuginfod_client"))
            .or_else(|| folder("HOME", ".cache/debuginfod_client"));
        Folders { packages: PathBuf::from(PACKAGES), cache }
    }

    fn find(&self, module: &File, elf: &Elf, progress: &mut dyn FnMut()) -> Option<File> {
        let by_id = || {
            let id = elf.build_id(module)?;
            let is_of_module = |file: &File| Elf::read(file, 0).and_then(|debug| debug.build_id(file)).is_some_and(|found| found == id);
            self.of_build_id(&id).iter().filter_map(|path| trusted(open::path(path)?)).find(is_of_module)
        };
        by_id().or_else(|| {
            let (name, checksum) = link(&elf.data(module, b".gnu_debuglink")?.bytes)?;
            let paths = self.of_link(&fs::read_link(format!("/proc/self/fd/{}", module.as_raw_fd())).ok()?, &name);
            let is_of_module = |file: &File| checksum_of(file, progress) == Some(checksum);
            paths.iter().filter_map(|path| trusted(open::without_links(path)?)).find(is_of_module)
        })
    }

    fn of_build_id(&self, id: &[u8]) -> Vec<PathBuf> {
        let mut text = String::new();
        for byte in id {
            let _ = write!(text, "{byte:02x}");
        }
        let of_packages = self.packages.join(".build-id");
        let package = text.split_at_checked(2).map(|(first, rest)| of_packages.join(first).join(format!("{rest}.debug")));
        package.into_iter().chain(self.cache.iter().map(|cache| cache.join(&text).join("debuginfo"))).collect()
    }

    /// Returns where gdb looks for the file.
    fn of_link(&self, module: &Path, name: &Path) -> Vec<PathBuf> {
        let Some(folder) = module.parent() else { return Vec::new() };
        let below = folder.strip_prefix("/").unwrap_or(folder);
        let paths = [folder.join(name), folder.join(".debug").join(name), self.packages.join(below).join(name)];
        paths.into_iter().filter(|path| path != module).collect()
    }
}

/// Opens a regular file for reading that belongs to root or to this user.
fn trusted(path: OwnedFd) -> Option<File> {
    let own = rustix::process::geteuid().as_raw();
    regular(path, |found: &Metadata| found.uid() == 0 || found.uid() == own)
}

/// Returns the name and the checksum in a `.gnu_debuglink`: a text, padded to a multiple of four
/// bytes, and the CRC-32 of the file.
fn link(section: &[u8]) -> Option<(PathBuf, u32)> {
    let length = section.iter().position(|byte| *byte == 0)?;
    let checksum = section.get((length + 1).next_multiple_of(4)..)?.first_chunk()?;
    let name = &section[..length];
    // A name with folders could lead anywhere.
    let is_name = !name.contains(&b'/') && !matches!(name, b"" | b"." | b"..");
    is_name.then(|| (PathBuf::from(OsStr::from_bytes(name)), u32::from_le_bytes(*checksum)))
}

fn checksum_of(mut file: &File, progress: &mut dyn FnMut()) -> Option<u32> {
    if file.metadata().ok()?.len() > MAX_BYTES {
        return None;
    }
    let mut hasher = crc32fast::Hasher::new();
    let mut chunk = vec![0; CHUNK];
    loop {
        progress();
        match file.read(&mut chunk).ok()? {
            0 => return Some(hasher.finalize()),
            length => hasher.update(&chunk[..length]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resolve;
    use std::collections::BTreeSet;
    use std::process::{Command, Stdio};

    fn is_missing(tool: &str) -> bool {
        let missing = Command::new(tool).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_err();
        if missing {
            println!("skipped: {tool} is missing");
        }
        missing
    }

    fn run(tool: &str, arguments: &[&OsStr]) {
        let run = Command::new(tool).args(arguments).output().unwrap();
        assert!(run.status.success(), "{tool}: {}", String::from_utf8_lossy(&run.stderr));
    }

    /// A stripped module `a.so` with a link to its debug information in `a.debug`.
    struct Built {
        folder: tempfile::TempDir,
        module: PathBuf,
        debug: PathBuf,
    }

    fn build(flags: &[&str]) -> Built {
        let folder = tempfile::tempdir().unwrap();
        let [source, module, debug] = ["a.c", "a.so", "a.debug"].map(|name| folder.path().join(name));
        // Only debug information has the name of a function that other files cannot call.
        let code = "static __attribute__((noinline)) int hidden(int x) { return x * 7; }\nint seen(int x) { return hidden(x) + 1; }\n";
        fs::write(&source, code).unwrap();
        let arguments = ["-O1", "-g", "-shared", "-nostdlib", "-fPIC", "-o"].iter().chain(flags);
        let mut arguments: Vec<&OsStr> = arguments.map(|argument| OsStr::new(*argument)).collect();
        arguments.splice(6..6, [module.as_os_str(), source.as_os_str()]);
        run("cc", &arguments);
        run("objcopy", &["--only-keep-debug".as_ref(), module.as_os_str(), debug.as_os_str()]);
        run("objcopy", &["--strip-all".as_ref(), module.as_os_str()]);
        let mut link = OsStr::new("--add-gnu-debuglink=").to_owned();
        link.push(&debug);
        run("objcopy", &[&link, module.as_os_str()]);
        Built { folder, module, debug }
    }

    impl Built {
        fn find(&self) -> Option<File> {
            let module = File::open(&self.module).unwrap();
            let folders = Folders { packages: self.folder.path().join("packages"), cache: Some(self.folder.path().join("cache")) };
            folders.find(&module, &Elf::read(&module, 0).unwrap(), &mut || {})
        }

        /// Moves the debug information to a path below the folder, and returns whether it is found.
        fn is_found_at(&mut self, path: &str) -> bool {
            let to = self.folder.path().join(path);
            fs::create_dir_all(to.parent().unwrap()).unwrap();
            fs::rename(&self.debug, &to).unwrap();
            self.debug = to;
            let own = fs::metadata(&self.debug).unwrap().ino();
            self.find().is_some_and(|found| found.metadata().unwrap().ino() == own)
        }

        /// Path of the module's folder below another one.
        fn below(&self, folder: &str) -> String {
            format!("{folder}{}", self.folder.path().canonicalize().unwrap().display())
        }
    }

    #[test]
    fn debug_information_is_found_by_the_build_id_in_packages_and_in_the_cache() {
        if is_missing("objcopy") {
            return;
        }
        let mut built = build(&["-Wl,--build-id=0x0123456789abcdef"]);
        assert!(built.is_found_at("packages/.build-id/01/23456789abcdef.debug"));
        assert!(built.is_found_at("cache/0123456789abcdef/debuginfo"));
        assert!(!built.is_found_at("cache/0123456789abcdee/debuginfo"));
        // A file of another build is refused.
        let other = build(&["-Wl,--build-id=0x0123456789abcd00"]);
        let path = built.folder.path().join("cache/0123456789abcdef/debuginfo");
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::copy(&other.debug, &path).unwrap();
        assert!(built.find().is_none());
    }

    #[test]
    fn debug_information_is_found_by_its_name_and_refused_with_another_checksum() {
        if is_missing("objcopy") {
            return;
        }
        let mut built = build(&["-Wl,--build-id=none"]);
        assert!(built.find().is_some());
        let module = File::open(&built.module).unwrap();
        let debug = built.find().unwrap();
        let (mut names, offsets) = (BTreeSet::new(), (0..module.metadata().unwrap().len()).collect::<Vec<u64>>());
        resolve::functions_of(&module, Some((debug, Elf::read(&module, 0).unwrap())), &offsets, &mut || {}, |_, found| {
            names.extend(found.into_iter().map(|function| function.name));
        })
        .unwrap();
        assert!(names.contains("hidden"), "{names:?}");
        assert!(built.is_found_at(".debug/a.debug"));
        let packages = format!("{}/a.debug", built.below("packages"));
        assert!(built.is_found_at(&packages));
        assert!(!built.is_found_at("elsewhere/a.debug"));
        std::os::unix::fs::symlink(&built.debug, built.folder.path().join("a.debug")).unwrap();
        assert!(built.find().is_none());
        assert!(built.is_found_at("a.debug"));
        let mut bytes = fs::read(&built.debug).unwrap();
        *bytes.last_mut().unwrap() ^= 1;
        fs::write(&built.debug, bytes).unwrap();
        assert!(built.find().is_none());
    }

    #[test]
    fn a_link_has_a_name_without_folders_and_a_checksum() {
        assert_eq!(link(b"a.debug\0\x78\x56\x34\x12"), Some((PathBuf::from("a.debug"), 0x1234_5678)));
        assert_eq!(link(b"ab\0\0\x01\0\0\0").map(|(_, checksum)| checksum), Some(1));
        let invalid: [&[u8]; 8] = [
            b"",
            b"a",
            b"a\0\0\0\x01",
            b"\0\0\0\0\x01\0\0\0",
            b"..\0\0\x01\0\0\0",
            b".\0\0\0\x01\0\0\0",
            b"/a\0\0\x01\0\0\0",
            b"a/\0\0\x01\0\0\0",
        ];
        for section in invalid {
            assert_eq!(link(section), None, "{section:?}");
        }
    }
}
