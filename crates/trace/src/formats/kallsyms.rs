//! Names of the kernel's functions, from `symbols/kallsyms` of a recording. Each line of the file
//! has an address, a type, a name and an optional module, as in `/proc/kallsyms`.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

/// Maximum number of bytes that are read. A kernel has about 200,000 functions in 10 MB.
const MAX_BYTES: u64 = 256 << 20;

/// Functions by address.
#[derive(Clone, Debug, Default)]
pub struct Kallsyms {
    functions: BTreeMap<u64, String>,
}

impl Kallsyms {
    /// Reads from a recording the functions that contain `addresses`. Returns an empty table if the
    /// recording has no symbols, or only hidden ones (all addresses are 0).
    pub fn of_recording(recording: &Path, addresses: impl IntoIterator<Item = u64>) -> io::Result<Kallsyms> {
        match File::open(recording.join("symbols/kallsyms")) {
            Ok(file) => Kallsyms::read(file.take(MAX_BYTES), addresses),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Kallsyms::default()),
            Err(error) => Err(error),
        }
    }

    /// Reads the functions that contain `addresses`. Lines that do not describe a symbol are
    /// skipped.
    pub fn read(text: impl Read, addresses: impl IntoIterator<Item = u64>) -> io::Result<Kallsyms> {
        let mut wanted: Vec<u64> = addresses.into_iter().collect();
        wanted.sort_unstable();
        wanted.dedup();
        // For each wanted address, the last function that begins at or before it.
        let mut best: Vec<Option<(u64, String)>> = vec![None; wanted.len()];
        let mut lines = BufReader::new(text);
        let mut line = Vec::new();
        while {
            line.clear();
            lines.by_ref().take(4096).read_until(b'\n', &mut line)?
        } > 0
        {
            let Ok(line) = std::str::from_utf8(&line) else { continue };
            let mut words = line.split_ascii_whitespace();
            let (Some(address), Some(_), Some(name)) = (words.next(), words.next(), words.next()) else { continue };
            let Ok(address) = u64::from_str_radix(address, 16) else { continue };
            if address == 0 {
                continue;
            }
            for best in &mut best[wanted.partition_point(|wanted| *wanted < address)..] {
                // The function found for this address is nearer, and it is also nearer for all
                // higher addresses.
                match best {
                    Some((known, _)) if *known >= address => break,
                    _ => *best = Some((address, name.to_owned())),
                }
            }
        }
        Ok(Kallsyms { functions: best.into_iter().flatten().collect() })
    }

    pub fn is_empty(&self) -> bool {
        self.functions.is_empty()
    }

    /// Returns the function at the address, as `function+0x1a`.
    pub fn name(&self, address: u64) -> Option<String> {
        let (begin, name) = self.functions.range(..=address).next_back()?;
        let offset = address - begin;
        // No function is longer than 1 MiB, so the address lies in no function of the table.
        (offset < 1 << 20).then(|| if offset == 0 { name.clone() } else { format!("{name}+{offset:#x}") })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn address_belongs_to_the_last_function_before_it() {
        let text = "ffffffff81000100 T second\nbroken\nffffffff81000000 t first\nffffffff81000200 T third\t[module]\n0 T hidden\n";
        let addresses = [0xffff_ffff_8100_0000, 0xffff_ffff_8100_00ff, 0xffff_ffff_8100_0180, 0xffff_ffff_9000_0000, 7];
        let symbols = Kallsyms::read(text.as_bytes(), addresses).unwrap();
        let names: Vec<Option<String>> = addresses.iter().map(|address| symbols.name(*address)).collect();
        assert_eq!(names, [Some("first".to_owned()), Some("first+0xff".to_owned()), Some("second+0x80".to_owned()), None, None]);
    }
}
