//! The log of generated code that a program writes for profilers, `jit-PID.dump`: each function
//! with the source lines of its instructions, if the program knows them.
//!
//! The format is described in the kernel's tools/perf/Documentation/jitdump-specification.txt.
//! Everything in the log may be wrong or end early; what is read until then counts.

use super::name;
use crate::table::{clean, Function};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::io::{self, Read};
use std::rc::Rc;

/// First bytes of a log, in the byte order of its host.
const MAGIC: u32 = 0x4a69_5444;
const RECORD_HEADER_BYTES: u32 = 16;
/// Types of records.
const LOAD: u32 = 0;
const MOVE: u32 = 1;
const DEBUG_INFO: u32 = 2;
/// Maximum number of bytes of a name and of the lines of one function, and number of functions.
const LONGEST_NAME: usize = 4096;
const MAX_LINES_BYTES: u64 = 16 << 20;
const MAX_FUNCTIONS: usize = 1 << 20;
/// Records may end with unused bytes up to a multiple of this.
const ALIGNMENT: usize = 8;
/// Name of a file that is that of the entry before.
const SAME_FILE: &[u8] = b"\xff";
/// perf copies the code of each function behind the header of an ELF file. Some runtimes, such as
/// Node, add the size of this header to the addresses of all lines.
const ELF_HEADER_BYTES: u64 = 64;

/// A generated function.
struct Code {
    name: String,
    bytes: u64,
    lines: Vec<Line>,
}

/// A source line of the instructions from `offset` on, in bytes from the function's begin, until
/// the next line. Without a file, it is in the function's own one.
struct Line {
    offset: u64,
    file: Option<Rc<str>>,
    line: u32,
}

/// Returns the functions at those `addresses` that the log contains. A later function overrides
/// earlier ones at its addresses, because code is replaced.
pub fn read(log: impl Read, addresses: &BTreeMap<u64, u64>) -> BTreeMap<u64, Function> {
    let mut reader = Reader {
        addresses,
        pending: Vec::new(),
        codes: HashMap::new(),
        script_lines: HashMap::new(),
        found: BTreeMap::new(),
        first_line: None,
    };
    // An error is the end of what can be read.
    let _ = reader.records(log);
    let shift = if reader.first_line.is_some_and(|first| first >= ELF_HEADER_BYTES) { ELF_HEADER_BYTES } else { 0 };
    reader.found.iter().map(|(&address, (code, offset))| (address, code.function(offset.saturating_add(shift)))).collect()
}

impl Code {
    /// Returns the function with the source line at an offset.
    fn function(&self, offset: u64) -> Function {
        let function = name::function(&self.name);
        let before = self.lines.partition_point(|line| line.offset <= offset);
        match before.checked_sub(1).map(|at| &self.lines[at]) {
            Some(line) => {
                let file = line.file.as_deref().map(clean).or(function.file);
                Function { file, line: Some(line.line), ..function }
            }
            None => function,
        }
    }
}

struct Reader<'a> {
    addresses: &'a BTreeMap<u64, u64>,
    /// Record of the lines of the function whose record follows.
    pending: Vec<u8>,
    /// Functions by the numbers that the log gives them.
    codes: HashMap<u64, Rc<Code>>,
    /// Lines of the functions of scripts, by their names without the compiler.
    script_lines: HashMap<String, HashSet<u32>>,
    /// The function at each of `addresses`, and the offset in it.
    found: BTreeMap<u64, (Rc<Code>, u64)>,
    /// Smallest offset of any line in its function.
    first_line: Option<u64>,
}

impl Reader<'_> {
    fn records(&mut self, mut log: impl Read) -> io::Result<()> {
        let (magic, _version, header_bytes) = (u32_of(&mut log)?, u32_of(&mut log)?, u32_of(&mut log)?);
        if magic != MAGIC {
            return Ok(());
        }
        skip(&mut log, u64::from(header_bytes.saturating_sub(12)))?;
        loop {
            let (kind, bytes, _time) = (u32_of(&mut log)?, u32_of(&mut log)?, u64_of(&mut log)?);
            let Some(length) = bytes.checked_sub(RECORD_HEADER_BYTES) else { return Ok(()) };
            let mut body = log.by_ref().take(length.into());
            // A record that ends within itself is skipped, like those of other types.
            let _ = match kind {
                LOAD => self.load(&mut body),
                MOVE => self.moved(&mut body),
                DEBUG_INFO => self.debug_info(&mut body),
                _ => Ok(()),
            };
            let rest = body.limit();
            skip(&mut log, rest)?;
        }
    }

    fn load(&mut self, body: &mut impl Read) -> io::Result<()> {
        let pending = std::mem::take(&mut self.pending);
        let (_pid, _tid, _loaded_at) = (u32_of(body)?, u32_of(body)?, u64_of(body)?);
        let (start, bytes, number) = (u64_of(body)?, u64_of(body)?, u64_of(body)?);
        let name = String::from_utf8_lossy(&text_of(body)?).into_owned();
        let mut lines = lines(&pending, start, &name).unwrap_or_default();
        if name::script(&name).is_some() {
            self.retain_lines_of_script(&name, &mut lines);
        }
        lines.retain(|line| line.offset < bytes.saturating_add(ELF_HEADER_BYTES));
        lines.sort_by_key(|line| line.offset);
        if let Some(first) = lines.first() {
            self.first_line = Some(self.first_line.map_or(first.offset, |least| least.min(first.offset)));
        }
        let code = Rc::new(Code { name, bytes, lines });
        self.place(start, &code);
        if self.codes.len() < MAX_FUNCTIONS {
            self.codes.insert(number, code);
        }
        Ok(())
    }

    /// Removes the lines of a function of Node that are not its own. Its first compiler inlines
    /// nothing, so these are the lines of the function, but at positions in its byte code. Where
    /// the second one inlines a function of another file, it states the line there as one of this
    /// file.
    fn retain_lines_of_script(&mut self, name: &str, lines: &mut Vec<Line>) {
        let key = name::without_compiler(name);
        if name::is_baseline(name) {
            if self.script_lines.len() < MAX_FUNCTIONS {
                self.script_lines.insert(key.to_owned(), lines.iter().map(|line| line.line).collect());
            }
            lines.clear();
        } else {
            let own = self.script_lines.get(key);
            lines.retain(|line| own.is_some_and(|own| own.contains(&line.line)));
        }
    }

    fn moved(&mut self, body: &mut impl Read) -> io::Result<()> {
        let (_pid, _tid, _loaded_at, _old) = (u32_of(body)?, u32_of(body)?, u64_of(body)?, u64_of(body)?);
        let (start, _bytes, number) = (u64_of(body)?, u64_of(body)?, u64_of(body)?);
        if let Some(code) = self.codes.get(&number).map(Rc::clone) {
            self.place(start, &code);
        }
        Ok(())
    }

    /// Enters a function that begins at `start` at the wanted addresses in it.
    fn place(&mut self, start: u64, code: &Rc<Code>) {
        let Some(last) = code.bytes.checked_sub(1).map(|length| start.saturating_add(length)) else { return };
        for (&address, _) in self.addresses.range(start..=last) {
            self.found.insert(address, (Rc::clone(code), address - start));
        }
    }

    fn debug_info(&mut self, body: &mut impl Read) -> io::Result<()> {
        self.pending.clear();
        body.take(MAX_LINES_BYTES).read_to_end(&mut self.pending)?;
        Ok(())
    }
}

/// Returns the lines in the record of a function that begins at `start`; `None` if they are those
/// of another function, or the record is broken.
fn lines(mut record: &[u8], start: u64, name: &str) -> Option<Vec<Line>> {
    let (of, count) = (u64_of(&mut record).ok()?, u64_of(&mut record).ok()?);
    let lines = lines_with_files(record, count).or_else(|| {
        let (_, file, _) = name::script(name)?;
        lines_of_length(record, count, file.len())
    });
    let mut lines = lines.filter(|_| of == start)?;
    lines.retain_mut(|line| {
        let offset = line.offset.checked_sub(start);
        line.offset = offset.unwrap_or(0);
        offset.is_some()
    });
    Some(lines)
}

/// Reads entries with the names of their files, and addresses as offsets. `None` if they end before
/// or behind the record.
fn lines_with_files(mut entries: &[u8], count: u64) -> Option<Vec<Line>> {
    let (mut lines, mut file) = (Vec::new(), None::<Rc<str>>);
    for _ in 0..count {
        let (offset, line, _column) = (u64_of(&mut entries).ok()?, u32_of(&mut entries).ok()?, u32_of(&mut entries).ok()?);
        let name = text_of(&mut entries).ok()?;
        if name != SAME_FILE {
            let name = String::from_utf8(name).ok().filter(|name| !name.is_empty() && !name.contains(char::is_control))?;
            file = Some(Rc::from(name.strip_prefix("file://").unwrap_or(&name)));
        }
        lines.push(Line { offset, file: Some(Rc::clone(file.as_ref()?)), line });
    }
    (entries.len() < ALIGNMENT).then_some(lines)
}

/// Reads entries whose files all have names of `length` bytes, which may be any. Node 20 writes a
/// name after it has released its memory, so that the bytes are others, but their number is right.
fn lines_of_length(entries: &[u8], count: u64, length: usize) -> Option<Vec<Line>> {
    let bytes = 16 + length + 1;
    let all = usize::try_from(count).ok().and_then(|count| count.checked_mul(bytes)).filter(|&all| all > 0)?;
    if entries.len().checked_sub(all)? >= ALIGNMENT {
        return None;
    }
    let line = |mut entry: &[u8]| Some(Line { offset: u64_of(&mut entry).ok()?, line: u32_of(&mut entry).ok()?, file: None });
    entries[..all].chunks_exact(bytes).map(line).collect()
}

fn u32_of(from: &mut impl Read) -> io::Result<u32> {
    let mut bytes = [0; 4];
    from.read_exact(&mut bytes)?;
    Ok(u32::from_ne_bytes(bytes))
}

fn u64_of(from: &mut impl Read) -> io::Result<u64> {
    let mut bytes = [0; 8];
    from.read_exact(&mut bytes)?;
    Ok(u64::from_ne_bytes(bytes))
}

/// Reads a text that ends with a zero byte. A longer one than [`LONGEST_NAME`] is an error.
fn text_of(from: &mut impl Read) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    let mut byte = [0];
    loop {
        from.read_exact(&mut byte)?;
        match byte[0] {
            0 => return Ok(text),
            _ if text.len() >= LONGEST_NAME => return Err(io::ErrorKind::InvalidData.into()),
            byte => text.push(byte),
        }
    }
}

fn skip(from: &mut impl Read, bytes: u64) -> io::Result<()> {
    let skipped = io::copy(&mut from.take(bytes), &mut io::sink())?;
    if skipped < bytes {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(kind: u32, body: &[u8]) -> Vec<u8> {
        let header = [kind.to_ne_bytes(), (RECORD_HEADER_BYTES + body.len() as u32).to_ne_bytes()].concat();
        [&header, &0u64.to_ne_bytes()[..], body].concat()
    }

    fn words(words: &[u64]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_ne_bytes()).collect()
    }

    /// A function of 0x100 bytes.
    fn load(start: u64, number: u64, name: &str) -> Vec<u8> {
        record(LOAD, &[&words(&[0, start, start, 0x100, number]), name.as_bytes(), &[0; 0x101]].concat())
    }

    fn debug_info(start: u64, lines: &[(u64, u64, &[u8])]) -> Vec<u8> {
        let mut body = words(&[start, lines.len() as u64]);
        for (offset, line, file) in lines {
            body.extend([&words(&[start + offset, *line]), *file, &[0]].concat());
        }
        record(DEBUG_INFO, &body)
    }

    fn log(records: &[Vec<u8>]) -> Vec<u8> {
        let header = [MAGIC, 1, 40, 62, 0, 7].iter().flat_map(|word| word.to_ne_bytes());
        header.chain([0; 16]).chain(records.concat()).collect()
    }

    /// Functions at these addresses, as `name file:line`.
    fn shown(log: &[u8], addresses: &[u64]) -> Vec<String> {
        let addresses = addresses.iter().map(|&address| (address, 1)).collect();
        let line = |function: &Function| match (&function.file, function.line) {
            (Some(file), Some(line)) => format!("{} {file}:{line}", function.name),
            _ => function.name.clone(),
        };
        read(log, &addresses).iter().map(|(address, function)| format!("{address:#x} {}", line(function))).collect()
    }

    #[test]
    fn instructions_have_the_lines_of_their_function() {
        let lines =
            debug_info(0x1000, &[(0x40, 9, b"/srv/b.lang"), (0, 7, b"/srv/a.lang"), (0x20, 8, SAME_FILE), (0x200, 99, b"/srv/a.lang")]);
        // Lines in another order are sorted.
        let log = log(&[lines, load(0x1000, 1, "work"), load(0x2000, 2, "plain")]);
        let expected = ["0x1000 work /srv/a.lang:7", "0x1025 work /srv/a.lang:8", "0x10ff work /srv/b.lang:9", "0x2000 plain"];
        assert_eq!(shown(&log, &[0xfff, 0x1000, 0x1025, 0x10ff, 0x1100, 0x2000]), expected);
    }

    #[test]
    fn lines_behind_the_header_of_an_elf_file_are_moved_back() {
        let lines = debug_info(0x1000, &[(0x40, 1, b"/a"), (0x50, 2, SAME_FILE), (0x120, 3, SAME_FILE)]);
        let shifted = [lines, load(0x1000, 1, "work")];
        assert_eq!(shown(&log(&shifted), &[0x1000, 0x1010, 0x10e0]), ["0x1000 work /a:1", "0x1010 work /a:2", "0x10e0 work /a:3"]);
        let other = [debug_info(0x5000, &[(0, 1, b"/b")]), load(0x5000, 3, "other")];
        let both = [&shifted[..], &other[..]].concat();
        assert_eq!(shown(&log(&both), &[0x1050]), ["0x1050 work /a:2"]);
    }

    #[test]
    fn optimized_functions_of_scripts_have_only_their_own_lines() {
        let lines = |start| debug_info(start, &[(0, 3, b"/a.js"), (4, 5, SAME_FILE), (0x10, 99, SAME_FILE), (0x20, 5, SAME_FILE)]);
        let own = debug_info(0x1000, &[(0, 3, b"/a.js"), (2, 4, SAME_FILE), (4, 5, SAME_FILE)]);
        let first = [own, load(0x1000, 1, "JS:^work /a.js:3:5")];
        let second = [lines(0x2000), load(0x2000, 2, "JS:*work /a.js:3:5"), lines(0x3000), load(0x3000, 3, "JS:*other /a.js:9:5")];
        let log = log(&[&first[..], &second[..]].concat());
        let found = shown(&log, &[0x1004, 0x2000, 0x2015, 0x3004]);
        // The first compiler knows no positions of instructions; line 99 is one of another file.
        assert_eq!(found, ["0x1004 work /a.js:3", "0x2000 work /a.js:3", "0x2015 work /a.js:5", "0x3004 other /a.js:9"]);
    }

    #[test]
    fn lines_whose_files_have_overwritten_names_are_in_the_functions_own_file() {
        let overwritten: &[u8] = b"\x8c\x02\0\0.js";
        let lines = |start| debug_info(start, &[(0, 4, overwritten), (0x10, 5, overwritten)]);
        let name = |sign: char| format!("JS:{sign}work /a/b.js:3:5");
        let known = [lines(0x900), load(0x900, 1, &name('^')), lines(0x1000), load(0x1000, 2, &name('*'))];
        let other = [lines(0x5000), load(0x5000, 3, "JS:*other /srv/longer.js:9:1"), lines(0x6000), load(0x6000, 4, "plain")];
        let found = shown(&log(&[&known[..], &other[..]].concat()), &[0x1000, 0x1010, 0x5000, 0x6000]);
        assert_eq!(found, ["0x1000 work /a/b.js:4", "0x1010 work /a/b.js:5", "0x5000 other /srv/longer.js:9", "0x6000 plain"]);
    }

    #[test]
    fn code_that_is_moved_or_replaced_has_its_last_name() {
        let moved = record(MOVE, &words(&[0, 0x4000, 0x1000, 0x4000, 0x100, 1]));
        let log = log(&[load(0x1000, 1, "first"), moved, load(0x1000, 2, "second"), record(9, &[0; 5])]);
        assert_eq!(shown(&log, &[0x1000, 0x4005]), ["0x1000 second", "0x4005 first"]);
    }

    #[test]
    fn broken_records_are_skipped_and_the_end_may_be_missing() {
        let mut endless = load(0x2000, 2, "endless");
        endless.truncate(80);
        let size = endless.len() as u32;
        endless[4..8].copy_from_slice(&size.to_ne_bytes());
        let whole = log(&[endless, record(DEBUG_INFO, &words(&[0x1000, u64::MAX])), load(0x1000, 1, "work")]);
        assert_eq!(shown(&whole, &[0x1000, 0x2000]), ["0x1000 work", "0x2000 endless"]);
        for end in 0..whole.len() {
            shown(&whole[..end], &[0x1000]);
        }
        assert!(shown(b"not a log of code at all, but long enough", &[0x1000]).is_empty());
        let short = log(&[record(LOAD, &[]), [LOAD.to_ne_bytes(), 3u32.to_ne_bytes(), [0; 4], [0; 4]].concat(), load(0x1000, 1, "work")]);
        assert!(shown(&short, &[0x1000]).is_empty());
    }
}
