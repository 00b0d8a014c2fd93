//! What programs write about the code that they generate.

use super::Target;
use std::collections::BTreeMap;
use std::path::Path;

/// Begins of functions in the seeds, and the size of each.
const STARTS: [u64; 3] = [0x1000, 0x1100, 0x4000];
const BYTES: u64 = 0x100;

pub const GENERATED: Target = Target {
    name: "generated",
    what: "a list or a log of generated functions",
    seeds: |_| Ok(vec![list(), log()]),
    words: &["py::f:/a.py", "JS:*f /a.js:1:2", "JS:^", "Interpreter", "file://", "\u{fffd}\0", "DTiJ"],
    run,
};

fn list() -> Vec<u8> {
    STARTS.iter().map(|start| format!("{start:x} {BYTES:x} JS:~f file:///a.js:3:1\n")).collect::<String>().into_bytes()
}

/// A log with the lines of a function, the function, and the same function at another address.
fn log() -> Vec<u8> {
    let words = |words: &[u64]| -> Vec<u8> { words.iter().flat_map(|word| word.to_ne_bytes()).collect() };
    let record = |kind: u32, body: Vec<u8>| [&kind.to_ne_bytes()[..], &(16 + body.len() as u32).to_ne_bytes(), &[0; 8], &body].concat();
    let file = |name: &[u8]| [name, &[0]].concat();
    let lines = [words(&[STARTS[0], 2, STARTS[0], 7]), file(b"/a.js"), words(&[STARTS[0] + 0x50, 8]), file(b"\xff")].concat();
    let load = [words(&[0, STARTS[0], STARTS[0], BYTES, 1]), file(b"work"), vec![0x90; BYTES as usize]].concat();
    let header = [0x4a69_5444u32, 1, 40, 62, 0, 7].iter().flat_map(|word| word.to_ne_bytes()).chain([0; 16]).collect();
    let moved = words(&[0, STARTS[2], STARTS[0], STARTS[2], BYTES, 1]);
    [header, record(2, lines), record(0, load), record(1, moved), record(4, vec![0; 24])].concat()
}

fn run(input: &[u8], _folder: &Path) {
    let addresses: BTreeMap<u64, u64> =
        STARTS.iter().flat_map(|start| [(*start, 1), (start + BYTES / 2, 1)]).chain([(u64::MAX, 1)]).collect();
    let functions = longpole_symbols::generated_functions(input, &addresses);
    assert!(functions.keys().all(|address| addresses.contains_key(address)));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_name_their_functions() {
        let lines = |seed: &[u8]| -> Vec<Option<u32>> {
            let wanted = STARTS.iter().map(|start| (start + 0x60, 1)).collect();
            longpole_symbols::generated_functions(seed, &wanted).values().map(|function| function.line).collect()
        };
        assert_eq!(lines(&list()), [Some(3); 3]);
        assert_eq!(lines(&log()), [Some(8); 2]);
    }
}
