//! The list that a program writes for profilers, `/tmp/perf-PID.map`, with lines `start size name`.

use super::name::function;
use crate::table::Function;
use std::collections::BTreeMap;
use std::io::{BufRead, Read};

const LONGEST_LINE: u64 = 4096;

/// Parses the list. A later line overrides earlier ones, because code is replaced.
pub fn read(mut lines: impl BufRead, addresses: &BTreeMap<u64, u64>) -> BTreeMap<u64, Function> {
    let mut found: BTreeMap<u64, Function> = BTreeMap::new();
    let mut line = Vec::new();
    let mut is_of_java = false;
    loop {
        line.clear();
        match lines.by_ref().take(LONGEST_LINE).read_until(b'\n', &mut line) {
            Ok(0) | Err(_) => break,
            Ok(_) => {}
        }
        let text = String::from_utf8_lossy(&line);
        let mut words = text.trim_end().splitn(3, ' ');
        let mut number = || u64::from_str_radix(words.next()?.trim_start_matches("0x"), 16).ok();
        let (Some(start), Some(size)) = (number(), number()) else { continue };
        let Some(name) = words.next().filter(|name| !name.is_empty()) else { continue };
        is_of_java |= name == JAVA_INTERPRETER;
        if size > 0 {
            for (&address, _) in addresses.range(start..=start.saturating_add(size - 1)) {
                found.insert(address, function(name));
            }
        }
    }
    // Java lists its own code by other names than those of functions.
    for function in found.values_mut().filter(|_| is_of_java) {
        function.runtime |= !function.name.contains('(') || !function.name.contains('.');
    }
    found
}

/// Name of the interpreter in the lists of Java.
const JAVA_INTERPRETER: &str = "Interpreter";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_of_a_runtime_itself_is_no_function_of_a_program() {
        let wanted = BTreeMap::from([(0x10, 1), (0x20, 1), (0x30, 1)]);
        let of_runtime = |text: &str| -> Vec<bool> { read(text.as_bytes(), &wanted).values().map(|function| function.runtime).collect() };
        assert_eq!(of_runtime("10 8 int A.f(long)\n20 8 vtable stub\n30 8 Interpreter\n"), [false, true, true]);
        assert_eq!(of_runtime("10 8 compiled\n20 8 BytecodeHandler:Add\n30 8 JS:*f /a.js:1:2\n"), [false, true, false]);
    }

    #[test]
    fn latest_line_names_an_address_and_invalid_lines_are_skipped() {
        let wanted = BTreeMap::from([(0x100, 1), (0x10f, 1), (0x110, 1), (u64::MAX, 1)]);
        let text = "100 10 first one\nnonsense\n10f 1\n10f 0 none\n-1 5 minus\n0x10f 2 second\nffffffffffffffff ffffffffffffffff end\n";
        let found = read(text.as_bytes(), &wanted);
        let names: Vec<(u64, &str)> = found.iter().map(|(at, function)| (*at, function.name.as_str())).collect();
        assert_eq!(names, [(0x100, "first one"), (0x10f, "second"), (0x110, "second"), (u64::MAX, "end")]);
    }
}
