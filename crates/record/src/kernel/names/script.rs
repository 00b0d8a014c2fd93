//! Finds the script that an interpreter runs: `orders.py` of `python3 -u orders.py`.
//!
//! Not every argument that is a file is a script: `gzip orders.log` has none. A file counts as a
//! script if it is a text and the program is an interpreter. An interpreter is a program that some
//! script names after its `#!`: either this very file, or an installed command. For the second
//! case, the folders where programs are installed are searched, because commands written in shell,
//! Perl, Python or JavaScript are located next to their interpreters. The same program under
//! another name (`sh`, `dash`) is recognized by its inode. An archive with the manifest of a
//! program (a jar) also counts as a script, of the program that runs it.

use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::fs::{self, File, Metadata};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Longest name of a script in bytes; longer ones are ignored.
const LONGEST_NAME: usize = 64;
/// Bytes at the begin of a file that decide if it is a text and contain the interpreter after `#!`.
/// The kernel reads the same number of bytes.
const BEGIN: usize = 256;
/// Largest number of commands of a folder that are looked at.
const MAX_COMMANDS: usize = 4096;
/// Largest number of folders that are looked at.
const MAX_FOLDERS: usize = 16;
/// Folders of commands that are searched in addition to the folder of the program itself.
const FOLDERS: [&str; 3] = ["usr/local/bin", "usr/bin", "bin"];

/// Device and inode of a file.
type Id = (u64, u64);

fn id(file: &Metadata) -> Id {
    (file.dev(), file.ino())
}

/// Known interpreters: for each folder of commands, the programs that its commands name after `#!`.
#[derive(Debug, Default)]
pub struct Interpreters {
    of: HashMap<Id, HashSet<Id>>,
}

impl Interpreters {
    /// Returns the name of the script that a process runs, without its folders.
    pub fn script(&mut self, pid: i32, arguments: &[u8]) -> Option<String> {
        let path = in_process(pid, first_argument(arguments)?);
        let name = path.file_name()?.to_str().filter(|name| name.len() <= LONGEST_NAME)?.to_owned();
        let begin = begin(&path)?;
        self.is_run(pid, &begin).then_some(name)
    }

    /// True if the process runs a file with these first bytes as a script.
    fn is_run(&mut self, pid: i32, begin: &[u8]) -> bool {
        if is_program_archive(begin) {
            return true;
        }
        let Ok(program) = fs::metadata(format!("/proc/{pid}/exe")).map(|program| id(&program)) else { return false };
        if !is_text(begin) {
            return false;
        }
        let folders = folders(pid);
        let own = named(begin).and_then(|interpreter| found(pid, interpreter, &folders));
        own == Some(program) || folders.iter().any(|folder| self.of_folder(pid, folder, &folders).is_some_and(|of| of.contains(&program)))
    }

    /// Returns the programs that the commands of this folder name after `#!`.
    fn of_folder(&mut self, pid: i32, folder: &Path, folders: &[PathBuf]) -> Option<&HashSet<Id>> {
        let key = id(&fs::metadata(folder).ok()?);
        if !self.of.contains_key(&key) {
            if self.of.len() >= MAX_FOLDERS {
                return None;
            }
            let commands = fs::read_dir(folder).ok()?.filter_map(|entry| Some(entry.ok()?.path())).take(MAX_COMMANDS);
            let begins = commands.filter_map(|command| begin(&command));
            // Many commands name the same interpreter.
            let named: HashSet<Vec<u8>> = begins.filter_map(|begin| named(&begin).map(<[u8]>::to_vec)).collect();
            let found = named.iter().filter_map(|interpreter| found(pid, interpreter, folders)).collect();
            self.of.insert(key, found);
        }
        self.of.get(&key)
    }
}

/// Returns our path to a file that the process names by `path`.
fn in_process(pid: i32, path: &OsStr) -> PathBuf {
    let path = Path::new(path);
    match path.strip_prefix("/") {
        Ok(path) => Path::new(&format!("/proc/{pid}/root")).join(path),
        Err(_) => Path::new(&format!("/proc/{pid}/cwd")).join(path),
    }
}

/// Returns the folders of the process's program and of other commands.
fn folders(pid: i32) -> Vec<PathBuf> {
    let program = fs::read_link(format!("/proc/{pid}/exe")).ok();
    let own = program.as_deref().and_then(Path::parent).map(|folder| in_process(pid, folder.as_os_str()));
    let root = PathBuf::from(format!("/proc/{pid}/root"));
    own.into_iter().chain(FOLDERS.iter().map(|folder| root.join(folder))).collect()
}

/// Returns the first bytes of a regular file.
fn begin(path: &Path) -> Option<Vec<u8>> {
    // Opening a pipe or a device must not block the recorder.
    let file = File::options().read(true).custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY).open(path).ok()?;
    if !file.metadata().ok()?.is_file() {
        return None;
    }
    let mut begin = Vec::new();
    file.take(BEGIN as u64).read_to_end(&mut begin).ok()?;
    Some(begin)
}

/// True if there are no bytes that a text does not contain: control characters other than white
/// space.
fn is_text(begin: &[u8]) -> bool {
    !begin.is_empty() && begin.iter().all(|byte| *byte >= b' ' && *byte != 0x7f || matches!(byte, b'\t' | b'\n' | b'\r' | 0x0c))
}

/// True for a zip archive whose first entry is the manifest of a Java program.
fn is_program_archive(begin: &[u8]) -> bool {
    // The local header has 30 bytes; the name of the entry follows.
    begin.starts_with(b"PK\x03\x04") && begin.get(30..).is_some_and(|name| name.starts_with(b"META-INF/"))
}

/// Returns the interpreter that a script names after `#!`. For `env`, the program that `env`
/// starts.
fn named(begin: &[u8]) -> Option<&[u8]> {
    let line = begin.strip_prefix(b"#!")?.split(|&byte| byte == b'\n').next()?;
    let mut words = line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
    let first = words.next()?;
    if first != b"env" && !first.ends_with(b"/env") {
        return Some(first);
    }
    words.find(|word| !word.starts_with(b"-") && !word.contains(&b'='))
}

/// Returns the program that has this name or path.
fn found(pid: i32, interpreter: &[u8], folders: &[PathBuf]) -> Option<Id> {
    let interpreter = OsStr::from_bytes(interpreter);
    let file = match interpreter.as_bytes().contains(&b'/') {
        true => fs::metadata(in_process(pid, interpreter)).ok(),
        false => folders.iter().find_map(|folder| fs::metadata(folder.join(interpreter)).ok()),
    };
    file.map(|file| id(&file))
}

/// Returns the first argument that is no option. Each argument ends with a zero byte.
fn first_argument(arguments: &[u8]) -> Option<&OsStr> {
    let mut arguments = arguments.split(|&byte| byte == 0).skip(1);
    let first = arguments.find(|argument| !argument.starts_with(b"-"))?;
    (!first.is_empty()).then(|| OsStr::from_bytes(first))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_argument_that_is_no_option_is_the_script() {
        assert_eq!(first_argument(b"python3\0-u\0orders.py\0--port\x001\0"), Some(OsStr::new("orders.py")));
        assert_eq!(first_argument(b"sleep\0"), None);
        assert_eq!(first_argument(b""), None);
    }

    #[test]
    fn the_interpreter_is_the_word_after_the_number_sign_and_exclamation_mark() {
        assert_eq!(named(b"#!/bin/sh -e\necho"), Some(&b"/bin/sh"[..]));
        assert_eq!(named(b"#! /usr/bin/env -S A=b python3 -u\n"), Some(&b"python3"[..]));
        assert_eq!(named(b"#!/usr/bin/env"), None);
        assert_eq!(named(b"#!\n"), None);
        assert_eq!(named(b"echo"), None);
    }

    #[test]
    fn a_binary_is_no_text() {
        assert!(is_text("prix = \"5 €\"\n".as_bytes()));
        for binary in [&b"\x7fELF\x02\x01"[..], b"\x1f\x8b\x08", b"PK\x03\x04", b"a\0b", b""] {
            assert!(!is_text(binary), "{binary:?}");
        }
    }

    #[test]
    fn a_jar_is_a_program() {
        let mut archive = b"PK\x03\x04".to_vec();
        archive.resize(30, 0);
        assert!(is_program_archive(&[&archive[..], b"META-INF/MANIFEST.MF"].concat()));
        assert!(!is_program_archive(&[&archive[..], b"orders.txt"].concat()));
        assert!(!is_program_archive(b"PK"));
    }
}
