//! `symbols/functions.jsonl`: the functions at the places of samples, as one JSON object per line
//! (docs/formats/samples.md).

use crate::spaces::Module;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::Path;

/// Path of the table in a recording.
pub const FILE: &str = "symbols/functions.jsonl";
/// Version of the format.
pub const VERSION: u32 = 1;

/// Maximum number of bytes that are read; Longpole writes no larger file.
const MAX_BYTES: u64 = 1 << 30;
const LONGEST_LINE: u64 = 1 << 20;
/// Maximum number of bytes of a name. Instances of templates can have longer ones, which are cut.
const LONGEST_NAME: usize = 1024;

/// A function with a source location in it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Function {
    pub name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
    /// Set for a function that an interpreter executes: the frames of the interpreter between two
    /// of them belong to the outer one.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub interpreted: bool,
    /// Set for code that a runtime generated for itself, such as its interpreter.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub runtime: bool,
}

impl Function {
    /// Makes a function with a name that is cut to the longest length and contains no control
    /// characters, which could disturb a terminal.
    pub fn named(name: &str) -> Function {
        Function { name: clean(name), ..Function::default() }
    }
}

/// Cuts a text to [`LONGEST_NAME`] bytes and replaces its control characters.
pub fn clean(text: &str) -> String {
    let mut end = text.len().min(LONGEST_NAME);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text[..end].chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}

/// A line of the table. The keys that it has determine its meaning.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Line {
    /// Version of the format; in the first line only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<u32>,
    /// Number of a module. A line with a path assigns the number to that path.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub module: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inode: Option<u64>,
    /// Reason why a module has no functions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trouble: Option<String>,
    /// Offset in the module's file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub offset: Option<u64>,
    /// Process id and address, for code that the process generated itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pid: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address: Option<u64>,
    /// Functions at the place, innermost first; the outer ones contain inlined functions.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub functions: Vec<Function>,
    /// Number of places that were looked up, and number of addresses beyond the limit; in the last
    /// line only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lookup_addresses: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub left_out: Option<u64>,
}

/// Writes a line.
pub fn write(out: &mut impl Write, line: &Line) -> io::Result<()> {
    serde_json::to_writer(&mut *out, line)?;
    out.write_all(b"\n")
}

/// The functions at the places of a recording's samples.
#[derive(Debug, Default)]
pub struct Table {
    files: HashMap<(String, u64), HashMap<u64, Vec<Function>>>,
    made: HashMap<(i32, u64), Vec<Function>>,
}

impl Table {
    /// Loads the functions of a recording. The result is empty if it has none. Unknown lines are
    /// skipped.
    pub fn load(recording: &Path) -> Table {
        match File::open(recording.join(FILE)) {
            Ok(file) => Table::read(BufReader::with_capacity(256 << 10, file.take(MAX_BYTES))),
            Err(_) => Table::default(),
        }
    }

    fn read(mut lines: impl BufRead) -> Table {
        let mut table = Table::default();
        let mut modules: HashMap<u32, (String, u64)> = HashMap::new();
        let mut line = Vec::new();
        loop {
            line.clear();
            match lines.by_ref().take(LONGEST_LINE).read_until(b'\n', &mut line) {
                Ok(0) | Err(_) => return table,
                Ok(_) => {}
            }
            let Ok(said) = serde_json::from_slice::<Line>(&line) else { continue };
            match (said.module, said.path, said.offset, said.pid, said.address) {
                (Some(module), Some(path), None, ..) => {
                    modules.insert(module, (path, said.inode.unwrap_or(0)));
                }
                (Some(module), None, Some(offset), ..) => {
                    if let Some(module) = modules.get(&module) {
                        table.files.entry(module.clone()).or_default().insert(offset, said.functions);
                    }
                }
                (None, None, None, Some(pid), Some(address)) => {
                    table.made.insert((pid, address), said.functions);
                }
                _ => {}
            }
        }
    }

    /// Returns all functions.
    pub fn functions(&self) -> impl Iterator<Item = &Function> {
        self.files.values().flat_map(HashMap::values).chain(self.made.values()).flatten()
    }

    /// Returns the functions at an offset, innermost first; empty if none is known.
    pub fn file(&self, module: &Module, offset: u64) -> &[Function] {
        let functions = self.files.get(&(String::from_utf8_lossy(&module.path).into_owned(), module.inode));
        functions.and_then(|functions| functions.get(&offset)).map_or(&[], Vec::as_slice)
    }

    /// Returns the functions at an address of code that a process generated itself; empty if none
    /// is known.
    pub fn made(&self, pid: i32, address: u64) -> &[Function] {
        self.made.get(&(pid, address)).map_or(&[], Vec::as_slice)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn written_functions_are_read_back_and_invalid_lines_are_skipped() {
        let mut out = Vec::new();
        let function = Function { file: Some("a.c".to_owned()), line: Some(7), ..Function::named("f\x1b") };
        write(&mut out, &Line { version: Some(VERSION), ..Line::default() }).unwrap();
        write(&mut out, &Line { module: Some(3), path: Some("/a".to_owned()), inode: Some(9), ..Line::default() }).unwrap();
        write(&mut out, &Line { module: Some(3), offset: Some(16), functions: vec![function.clone()], ..Line::default() }).unwrap();
        out.extend_from_slice(b"{nonsense\n[]\n{\"module\":8,\"offset\":1}\n");
        write(&mut out, &Line { pid: Some(5), address: Some(4096), functions: vec![Function::named("jit")], ..Line::default() }).unwrap();
        let table = Table::read(out.as_slice());
        assert_eq!(function.name, "f\u{fffd}");
        let module = Module { path: b"/a".to_vec(), inode: 9 };
        assert_eq!(table.file(&module, 16), [function]);
        assert!(table.file(&module, 17).is_empty() && table.file(&Module { inode: 8, ..module }, 16).is_empty());
        assert_eq!(table.made(5, 4096)[0].name, "jit");
    }
}
