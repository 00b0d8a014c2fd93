//! Names of functions that were recorded as spans (`longpole/auto.h`).
//!
//! A program only knows the addresses of its functions, so their classes in `user/metadata` are
//! named after a place in a module's file. After the recording has ended, the file is read and the
//! classes are renamed: `span_begin:prog+0x1139` becomes `span_begin:parse`. The recorded program
//! chooses the paths, so the same precautions apply as for stacks: only regular files are read,
//! only if they are the recorded ones, and only in a sandbox.

use crate::complete::{is_of_here, MAX_FAILURES, SEARCH_TIMEOUT};
use crate::error::CompleteError;
use crate::open::regular;
use crate::resolve;
use crate::sandbox::{run_in_sandbox, Why, MAX_CPU};
use crate::table::{clean, write, Function, Line};
use longpole_trace::Recording;
use rustix::fs::{flock, fstat, open, openat, renameat, unlinkat, AtFlags, FlockOperation, Mode, OFlags};
use std::collections::{BTreeMap, HashMap};
use std::ffi::OsStr;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Read, Seek, Write};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, Instant};

/// Maximum number of bytes of metadata. Larger metadata is not processed here.
const MAX_BYTES: u64 = 256 << 20;
/// Begin of a source location in the metadata.
const SITE: &str = "\tmodel.emf.uri = \"longpole:site?file=";
const NAME: &str = "\tname = \"";
/// Attribute of a class that has no name yet. It is renamed to `offset` when the class was
/// processed.
const WAITING: &str = "&function=";
/// Time between two attempts to get the lock.
const PAUSE: Duration = Duration::from_millis(50);
const HIDDEN_METADATA: &str = ".metadata-named";

/// A file with functions: path, inode, and time of its last change in ns.
type Module = (Vec<u8>, u64, u64);

/// A class to be named: its lines in the metadata, and its function.
struct Class {
    name_line: usize,
    uri_line: usize,
    module: usize,
    offset: u64,
}

#[derive(Default)]
struct Found {
    classes: Vec<Class>,
    modules: Vec<Module>,
}

/// Returns true if the recording has ended and has functions without names, and this host is the
/// recorded one, where they can be looked up.
pub fn probes_are_pending(recording: &Path) -> bool {
    let Ok(Some(said)) = Recording::read(recording) else { return false };
    let lives = |pid: i32| Path::new(&format!("/proc/{pid}")).exists();
    if said.end_ns.is_none() && said.recorder_pid.is_none_or(lives) {
        return false;
    }
    folder(recording).and_then(|folder| read(&folder)).is_ok_and(|text| text.contains(WAITING)) && is_of_here(recording)
}

/// Names the functions. A function that is not found keeps its place as its name. Returns messages
/// for the user.
pub fn complete_probes(recording: &Path, stopped: &dyn Fn() -> bool) -> Result<Vec<String>, CompleteError> {
    let path = recording.join("user/metadata");
    let folder = folder(recording).map_err(CompleteError::io("open", &path))?;
    // Another reader may be naming the functions.
    let begun = Instant::now();
    while let Err(error) = flock(&folder, FlockOperation::NonBlockingLockExclusive) {
        if error != rustix::io::Errno::WOULDBLOCK || begun.elapsed() > SEARCH_TIMEOUT || stopped() {
            return Err(CompleteError::Busy { path });
        }
        std::thread::sleep(PAUSE);
    }
    let text = read(&folder).map_err(CompleteError::io("read", &path))?;
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let found = find(&lines);
    let (functions, notes) = look_up(&found, &folder, stopped).map_err(CompleteError::io("name functions of", &path))?;
    // If not all files were tried, the metadata stays unchanged, so that the next reader can try
    // again.
    if let Some(functions) = functions {
        replace(&folder, name(lines, &found, &functions).as_bytes()).map_err(CompleteError::io("write", &path))?;
    }
    Ok(notes)
}

/// Opens `user/` if it belongs to this user. Another owner could make its names lead to any file.
fn folder(recording: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let folder = open(recording.join("user"), flags, Mode::empty())?;
    if fstat(&folder)?.st_uid != rustix::process::geteuid().as_raw() {
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, "it belongs to another user"));
    }
    Ok(folder)
}

fn read(folder: &OwnedFd) -> io::Result<String> {
    let file =
        File::from(openat(folder, "metadata", OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC, Mode::empty())?);
    let found = file.metadata()?;
    if !found.is_file() || found.len() > MAX_BYTES {
        return Err(io::Error::other("it is not metadata of Longpole"));
    }
    let mut text = String::new();
    file.take(MAX_BYTES).read_to_string(&mut text)?;
    Ok(text)
}

fn replace(folder: &OwnedFd, text: &[u8]) -> io::Result<()> {
    let mut file = fresh(folder, HIDDEN_METADATA)?;
    let written =
        file.write_all(text).and_then(|()| file.sync_all()).and_then(|()| Ok(renameat(folder, HIDDEN_METADATA, folder, "metadata")?));
    if written.is_err() {
        let _ = unlinkat(folder, HIDDEN_METADATA, AtFlags::empty());
    }
    written
}

fn fresh(folder: &OwnedFd, name: &str) -> io::Result<File> {
    let _ = unlinkat(folder, name, AtFlags::empty());
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(File::from(openat(folder, name, flags, Mode::from_raw_mode(0o644))?))
}

/// Finds the classes without a name.
fn find(lines: &[&str]) -> Found {
    let mut found = Found::default();
    let mut known: HashMap<Module, usize> = HashMap::new();
    let mut name_line = None;
    for (at, line) in lines.iter().enumerate() {
        if line.starts_with(NAME) {
            name_line = Some(at);
        }
        let Some((module, offset)) = line.strip_prefix(SITE).and_then(site) else { continue };
        let Some(name_line) = name_line.take() else { continue };
        let next = found.modules.len();
        let number = *known.entry(module.clone()).or_insert(next);
        if number == next {
            found.modules.push(module);
        }
        found.classes.push(Class { name_line, uri_line: at, module: number, offset });
    }
    found
}

/// Parses `FILE&line=0&function=OFFSET&inode=INODE&changed=NS";`.
fn site(text: &str) -> Option<(Module, u64)> {
    let (file, rest) = text.split_once("&line=0&function=")?;
    let (offset, rest) = rest.split_once("&inode=")?;
    let (inode, rest) = rest.split_once("&changed=")?;
    let changed = rest.trim_end().strip_suffix("\";")?;
    Some(((decoded(file), inode.parse().ok()?, changed.parse().ok()?), u64::from_str_radix(offset, 16).ok()?))
}

/// Decodes percent-encoded text.
fn decoded(text: &str) -> Vec<u8> {
    let digit = |byte: Option<&u8>| byte.and_then(|&byte| (byte as char).to_digit(16));
    let bytes = text.as_bytes();
    let (mut out, mut at) = (Vec::new(), 0);
    while at < bytes.len() {
        match (bytes[at], digit(bytes.get(at + 1)), digit(bytes.get(at + 2))) {
            (b'%', Some(high), Some(low)) => {
                out.push((high << 4 | low) as u8);
                at += 3;
            }
            (byte, ..) => {
                out.push(byte);
                at += 1;
            }
        }
    }
    out
}

/// Functions by index of the module and offset in its file.
type Functions = HashMap<(usize, u64), Function>;

/// Looks up the functions file by file in a sandbox, so that a broken file costs only its own
/// names. The functions are `None` if not all files were tried.
fn look_up(found: &Found, folder: &OwnedFd, stopped: &dyn Fn() -> bool) -> io::Result<(Option<Functions>, Vec<String>)> {
    let mut offsets: BTreeMap<usize, Vec<u64>> = BTreeMap::new();
    for class in &found.classes {
        offsets.entry(class.module).or_default().push(class.offset);
    }
    offsets.values_mut().for_each(|all| {
        all.sort_unstable();
        all.dedup();
    });
    // The file is unlinked at once, so that nothing of it remains.
    let mut file = fresh(folder, HIDDEN_METADATA)?;
    unlinkat(folder, HIDDEN_METADATA, AtFlags::empty())?;
    let (mut from, mut failures, mut notes) = (0, 0, Vec::new());
    let end = Instant::now() + SEARCH_TIMEOUT;
    while from < found.modules.len() {
        let Err((at, why)) = run_in_sandbox(|at| look_into(found, &offsets, &file, from, at), MAX_CPU, end, stopped) else { break };
        let said = match &why {
            Why::Item(why) | Why::Limit(why) | Why::Failed(why) => format!("the process that reads the programs' files {why}"),
            Why::Stopped => "a signal ended the search".to_owned(),
        };
        notes.push(format!("some recorded functions have no name: {said}"));
        file.write_all(b"\n")?;
        failures += 1;
        match (why, at) {
            (Why::Item(_) | Why::Limit(_), Some(at)) if failures < MAX_FAILURES => from = at.saturating_add(1),
            (Why::Item(_) | Why::Limit(_), _) => break,
            _ => return Ok((None, notes)),
        }
    }
    file.rewind()?;
    let mut functions = Functions::new();
    for line in BufReader::new(file).split(b'\n') {
        let Ok(line) = serde_json::from_slice::<Line>(&line?) else { continue };
        match (line.module, line.offset, line.functions.into_iter().last(), line.trouble) {
            (Some(module), Some(offset), Some(function), _) => {
                functions.insert((module as usize, offset), function);
            }
            (Some(module), _, _, Some(trouble)) => {
                let path = found.modules.get(module as usize).map_or(String::new(), |module| clean(&String::from_utf8_lossy(&module.0)));
                notes.push(format!("functions of {path} are shown by their addresses: {trouble}"));
            }
            _ => {}
        }
    }
    Ok((Some(functions), notes))
}

fn look_into(found: &Found, offsets: &BTreeMap<usize, Vec<u64>>, file: &File, from: usize, at: &mut dyn FnMut(usize)) -> io::Result<()> {
    let mut out = BufWriter::new(file);
    for (number, offsets) in offsets.range(from..) {
        out.flush()?;
        at(*number);
        let of = |line: Line| Line { module: Some(*number as u32), ..line };
        let Some(opened) = found.modules.get(*number).and_then(module) else {
            let trouble = Some("the file is missing or was changed".to_owned());
            write(&mut out, &of(Line { trouble, ..Line::default() }))?;
            continue;
        };
        // The source location comes from debug information, and the name from the symbol if there
        // is one.
        let mut functions: BTreeMap<u64, Function> = BTreeMap::new();
        let mut resolved = resolve::functions(&opened, offsets, &mut || at(*number), |offset, found| {
            functions.extend(found.into_iter().last().map(|function| (offset, function)));
        });
        if resolved.is_ok() {
            resolved = resolve::symbols(&opened, offsets, &mut || at(*number), |offset, found| {
                if let Some(symbol) = found.into_iter().last() {
                    functions.entry(offset).or_default().name = symbol.name;
                }
            });
        }
        for (offset, function) in functions {
            write(&mut out, &of(Line { offset: Some(offset), functions: vec![function], ..Line::default() }))?;
        }
        if let Err(trouble) = resolved {
            write(&mut out, &of(Line { trouble: Some(trouble), ..Line::default() }))?;
        }
    }
    out.flush()
}

/// Opens the file that the program had.
fn module((path, inode, changed): &Module) -> Option<File> {
    if !path.starts_with(b"/") {
        return None;
    }
    let look = OFlags::PATH | OFlags::CLOEXEC;
    let path = open(OsStr::from_bytes(path), look, Mode::empty()).ok()?;
    regular(path, |found| {
        let mtime = i128::from(found.mtime()) * 1_000_000_000 + i128::from(found.mtime_nsec());
        found.ino() == *inode && mtime == i128::from(*changed)
    })
}

/// Returns the metadata with names instead of addresses.
fn name(lines: Vec<&str>, found: &Found, functions: &Functions) -> String {
    let mut changed: HashMap<usize, String> = HashMap::new();
    for class in &found.classes {
        let uri = lines[class.uri_line].replacen(WAITING, "&offset=", 1);
        let Some(function) = functions.get(&(class.module, class.offset)) else {
            changed.insert(class.uri_line, uri);
            continue;
        };
        let Some((kind, _)) = lines[class.name_line].strip_prefix(NAME).and_then(|name| name.split_once(':')) else { continue };
        changed.insert(class.name_line, format!("{NAME}{kind}:{}\";\n", literal(without_type(without_arguments(&function.name)))));
        let uri = match (&function.file, function.line, uri.split_once("&line=0")) {
            (Some(file), Some(line), Some((_, rest))) => format!("{SITE}{}&line={line}{rest}", encoded(file)),
            _ => uri,
        };
        changed.insert(class.uri_line, uri);
    }
    lines.iter().enumerate().map(|(at, line)| changed.get(&at).map_or(*line, String::as_str)).collect()
}

/// Removes the last parentheses of a C++ name and what follows them.
fn without_arguments(name: &str) -> &str {
    let Some(end) = name.rfind(')') else { return name };
    // A function's parameters are followed by `const`, `[clone ...]` and the like, at most.
    // Otherwise the parentheses are part of a name.
    if name[end + 1..].starts_with(['>', ':', '}']) {
        return name;
    }
    let mut open = 0;
    for (at, c) in name[..=end].char_indices().rev() {
        open += match c {
            ')' => 1,
            '(' => -1,
            _ => 0,
        };
        if open == 0 {
            let before = &name[..at];
            return if before.is_empty() || before.ends_with("operator") || before.ends_with("::") { name } else { before };
        }
    }
    name
}

/// Removes the return type, which precedes the name of a template's instance and no other name.
fn without_type(name: &str) -> &str {
    if !name.ends_with('>') {
        return name;
    }
    let (mut open, mut begin) = (0, 0);
    // After the word `operator`, brackets and spaces are part of the name.
    for (at, c) in name[..name.rfind("operator").unwrap_or(name.len())].char_indices() {
        match c {
            '<' | '(' | '{' | '[' => open += 1,
            '>' | ')' | '}' | ']' => open -= 1,
            ' ' if open == 0 => begin = at + 1,
            _ => {}
        }
    }
    &name[begin..]
}

/// Escapes a text for a string literal.
fn literal(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if matches!(c, '"' | '\\') {
            out.push('\\');
        }
        out.push(if c.is_control() { '\u{fffd}' } else { c });
    }
    out
}

/// Percent-encodes all characters except letters, digits and `-._~/`.
fn encoded(text: &str) -> String {
    let mut out = String::new();
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte) {
            out.push(byte as char);
        } else {
            // Writing into a String cannot fail.
            let _ = write!(out, "%{byte:02X}");
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_removed_from_a_name() {
        for (whole, name) in [
            ("parse", "parse"),
            ("a::parse(int, char const*)", "a::parse"),
            ("a::parse(void (*)(int)) const", "a::parse"),
            ("a::operator()(int)", "a::operator()"),
            ("f(int)::{lambda(int)#1}::operator()(int) const", "f(int)::{lambda(int)#1}::operator()"),
            ("(anonymous namespace)::f()", "(anonymous namespace)::f"),
            ("(anonymous namespace)", "(anonymous namespace)"),
            (")", ")"),
            ("", ""),
        ] {
            assert_eq!(without_arguments(whole), name, "{whole}");
        }
    }

    #[test]
    fn return_type_is_removed_from_a_name() {
        for (whole, name) in [
            ("int twice<int>(int)", "twice<int>"),
            ("std::vector<int, std::allocator<int> > const& a::get<unsigned long>(int)", "a::get<unsigned long>"),
            ("void run<main::{lambda(int, int)#1}>(main::{lambda(int, int)#1})", "run<main::{lambda(int, int)#1}>"),
            ("int (anonymous namespace)::f<int>(int)", "(anonymous namespace)::f<int>"),
            ("std::ostream& std::operator<< <char>(std::ostream&, char)", "std::operator<< <char>"),
            ("a::operator std::vector<int>() const", "a::operator std::vector<int>"),
            ("a::C<unsigned long>::method(int)", "a::C<unsigned long>::method"),
            ("a::operator int()", "a::operator int"),
        ] {
            assert_eq!(without_type(without_arguments(whole)), name, "{whole}");
        }
    }

    #[test]
    fn only_classes_without_a_name_are_changed() {
        let text = "event {\n\tname = \"span_begin:prog+0x1139\";\n\tid = 77;\n\tmodel.emf.uri = \
                    \"longpole:site?file=/a%20b/prog&line=0&function=1139&inode=5&changed=7\";\n};\n\
                    event {\n\tname = \"span_begin:own\";\n\tmodel.emf.uri = \"longpole:site?file=a.c&line=4\";\n};\n";
        let lines: Vec<&str> = text.split_inclusive('\n').collect();
        let found = find(&lines);
        assert_eq!(found.modules, [(b"/a b/prog".to_vec(), 5, 7)]);
        let mut functions = Functions::new();
        let unnamed = name(lines.clone(), &found, &functions);
        assert_eq!(unnamed, text.replace("function=", "offset="));
        functions.insert((0, 0x1139), Function::named("say \"hello\"(int)"));
        let named = name(lines, &found, &functions);
        assert_eq!(named, unnamed.replace("prog+0x1139", "say \\\"hello\\\""));
    }
}
