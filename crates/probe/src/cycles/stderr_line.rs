//! Lines that a program prints without a recorder: the label of the program, numbers in a readable
//! form, and one write per text. The Rust counterpart of `include/longpole/stderr_line.h`.

use crate::process::page;
use crate::system::{self, c_bytes, Text};
use core::sync::atomic::Ordering::*;
use longpole_abi::MAGIC;

/// Appends the label of the program: the one that was set, else that of the environment, else the
/// name of the executable.
pub fn label<const N: usize>(line: &mut Text<N>) {
    let control = page();
    if control.magic.load(Relaxed) == MAGIC && control.label[0].load(Relaxed) != 0 {
        // SAFETY: the label ends with NUL, because its last byte is never written.
        return line.push(unsafe { c_bytes(control.label.as_ptr().cast(), 255) });
    }
    if let Some(label) = system::variable(c"LONGPOLE_LABEL").filter(|label| !label.is_empty()) {
        return line.push(label);
    }
    let mut path = [0u8; 255];
    system::link_target(c"/proc/self/exe", &mut path);
    let end = path.iter().position(|byte| *byte == 0).unwrap_or(path.len());
    line.push(path[..end].rsplit(|byte| *byte == b'/').next().unwrap_or_default());
}

/// Appends a number of cycles. A number above 100 of a unit (K, M, G) is shown in that unit,
/// truncated.
pub fn cycles<const N: usize>(line: &mut Text<N>, cycles: u64) {
    let units: [(u64, &[u8]); 3] = [(1_000_000_000, b"G"), (1_000_000, b"M"), (1_000, b"K")];
    match units.iter().find(|(one, _)| cycles > 100 * one) {
        Some((one, unit)) => {
            line.push_number(cycles / one, 10, 0);
            line.push(unit);
        }
        None => line.push_number(cycles, 10, 0),
    }
}

/// Appends a number with one decimal, which is the useful precision of cycles.
pub fn decimal<const N: usize>(line: &mut Text<N>, value: f64) {
    let tenths = if value > 0.0 { (value * 10.0 + 0.5) as u64 } else { 0 };
    line.push_number(tenths / 10, 10, 0);
    line.push(b".");
    line.push_number(tenths % 10, 10, 0);
}

/// Appends a word, right-aligned to a width of `width` characters.
pub fn right<const N: usize>(line: &mut Text<N>, word: &Text<32>, width: usize) {
    for _ in word.bytes().len()..width {
        line.push(b" ");
    }
    line.push(word.bytes());
}

/// Writes to stderr in one system call, so that the lines of several threads are not mixed.
pub fn write(text: &[u8]) {
    system::write(2, text);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cycles_above_a_hundred_units_are_truncated_to_that_unit() {
        for (number, text) in [(0, "0"), (100_000, "100000"), (100_001, "100K"), (6_396_999, "6396K"), (100_000_001, "100M"), (u64::MAX, "18446744073G")] {
            let mut line = Text::<32>::new();
            cycles(&mut line, number);
            assert_eq!(core::str::from_utf8(line.bytes()), Ok(text));
        }
    }
}
