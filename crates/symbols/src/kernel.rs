//! The kernel's functions, from `symbols/kallsyms` of a recording.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

/// Maximum number of bytes that are read; no kernel's file is larger.
const MAX_BYTES: u64 = 256 << 20;
/// Longest distance in bytes from a function's begin. No function is longer, so an address beyond
/// it is unknown.
const MAX_FUNCTION_BYTES: u64 = 1 << 20;
/// Module of functions without a named module.
const CORE: &str = "[kernel]";

/// Table of the kernel's functions.
#[derive(Debug, Default)]
pub struct Kernel {
    /// Address, and begin and end of the name in `text`, sorted by address.
    functions: Vec<(u64, u32, u32)>,
    text: String,
}

impl Kernel {
    /// Loads the functions of a recording. The result is empty if the recording has none.
    pub fn load(recording: &Path) -> Kernel {
        match File::open(recording.join("symbols/kallsyms")) {
            Ok(file) => Kernel::read(BufReader::with_capacity(256 << 10, file.take(MAX_BYTES))),
            Err(_) => Kernel::default(),
        }
    }

    fn read(mut lines: impl BufRead) -> Kernel {
        let mut kernel = Kernel::default();
        let mut line = String::new();
        // Format of a line: `address type name\t[module]`.
        while matches!(lines.read_line(&mut line), Ok(read) if read > 0) {
            let mut words = line.splitn(3, ' ');
            if let (Some(address), Some(_), Some(name)) = (words.next(), words.next(), words.next()) {
                if let (Ok(address), Ok(begin)) = (u64::from_str_radix(address, 16), u32::try_from(kernel.text.len())) {
                    kernel.text.push_str(name.trim_end());
                    kernel.functions.push((address, begin, kernel.text.len() as u32));
                }
            }
            line.clear();
        }
        kernel.functions.sort();
        kernel
    }

    /// Returns the function and module at an address.
    pub fn find(&self, address: u64) -> Option<(&str, &str)> {
        let after = self.functions.partition_point(|(begin, _, _)| *begin <= address);
        let (begin, from, to) = *self.functions.get(after.checked_sub(1)?)?;
        if address - begin > MAX_FUNCTION_BYTES {
            return None;
        }
        let text = self.text.get(from as usize..to as usize)?;
        Some(text.split_once('\t').unwrap_or((text, CORE)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn address_belongs_to_the_function_that_begins_before_it() {
        let text = "ffffffff81000200 T second\nffffffff81000100 t first\nnonsense\nffffffffc0000000 t of_module\t[some_module]\n";
        let kernel = Kernel::read(text.as_bytes());
        assert_eq!(kernel.find(0xffff_ffff_8100_01ff), Some(("first", CORE)));
        assert_eq!(kernel.find(0xffff_ffff_8100_0200), Some(("second", CORE)));
        assert_eq!(kernel.find(0xffff_ffff_c000_0010), Some(("of_module", "[some_module]")));
        assert_eq!(kernel.find(0xffff_ffff_8100_00ff), None);
        assert_eq!(kernel.find(0xffff_ffff_9000_0000), None);
    }
}
