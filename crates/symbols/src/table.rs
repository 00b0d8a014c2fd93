//! `symbols/functions.jsonl`: what the places of samples mean, a JSON object a line (docs/formats/samples.md).

use crate::spaces::Module;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::Path;

pub const FILE: &str = "symbols/functions.jsonl";
pub const VERSION: u32 = 1;

/// A larger file was written by nobody of us.
const MOST_BYTES: u64 = 1 << 30;
const LONGEST_LINE: u64 = 1 << 20;
/// Bytes of a name; templates can have longer ones.
const LONGEST_NAME: usize = 1024;

/// A function, and the line in it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Function {
    pub name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
}

impl Function {
    /// The name is cut, and cannot spoil a terminal.
    pub fn named(name: &str) -> Function {
        Function { name: clean(name), ..Function::default() }
    }
}

pub fn clean(text: &str) -> String {
    let mut end = text.len().min(LONGEST_NAME);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text[..end].chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Line {
    /// First line only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<u32>,
    /// Number of a module; with a path, what the number stands for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub module: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inode: Option<u64>,
    /// Why a module has no functions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trouble: Option<String>,
    /// In the module's file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub offset: Option<u64>,
    /// In code that this process made itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pid: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address: Option<u64>,
    /// Innermost first: functions that the compiler put into one another.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub functions: Vec<Function>,
    /// Last line only: places that were looked up, and those beyond what is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub looked_up: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub left_out: Option<u64>,
}

pub fn write(out: &mut impl Write, line: &Line) -> io::Result<()> {
    serde_json::to_writer(&mut *out, line)?;
    out.write_all(b"\n")
}

#[derive(Debug, Default)]
pub struct Table {
    files: HashMap<(String, u64), HashMap<u64, Vec<Function>>>,
    made: HashMap<(i32, u64), Vec<Function>>,
}

impl Table {
    /// Of a recording; empty if it has none. Lines that say nothing known are passed over.
    pub fn load(recording: &Path) -> Table {
        match File::open(recording.join(FILE)) {
            Ok(file) => Table::read(BufReader::with_capacity(256 << 10, file.take(MOST_BYTES))),
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

    /// Innermost first; empty where nobody knows.
    pub fn file(&self, module: &Module, offset: u64) -> &[Function] {
        let functions = self.files.get(&(String::from_utf8_lossy(&module.path).into_owned(), module.inode));
        functions.and_then(|functions| functions.get(&offset)).map_or(&[], Vec::as_slice)
    }

    pub fn made(&self, pid: i32, address: u64) -> &[Function] {
        self.made.get(&(pid, address)).map_or(&[], Vec::as_slice)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_found_again_and_nonsense_is_passed_over() {
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
