//! Functions of Go programs at which a stack ends, from the table of functions that each Go program
//! contains, also a stripped one (`.gopclntab`, since Go 1.18).
//!
//! Go's unwinding tables do not state where a stack ends, but its table of functions does, for Go's
//! own tracebacks: some functions are the first ones of a stack, and some change to another stack.
//! Source: `_func` in runtime/runtime2.go, `FuncFlag` in internal/abi/symtab.go.

/// First word of the table, and the position of the flags in the description of a function.
const VERSIONS: [(u32, usize); 2] = [(0xffff_fff0, 37), (0xffff_fff1, 41)];
/// Positions in the header: number of functions, address of the first one, offset of the list of
/// functions.
const COUNT: usize = 8;
const BASE: usize = 24;
const LIST: usize = 64;
const TOP_FRAME: u8 = 1;
const WRITES_SP: u8 = 2;
/// Maximum number of functions at which stacks end; Go has some fifty.
const MAX_ENDS: usize = 4096;

/// Property of a function at which a stack ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The function is the first one of its stack.
    First,
    /// The function changes to this stack, so its caller is on another one.
    Switch,
}

/// Functions at which stacks end, with the addresses at which they begin and end, sorted.
#[derive(Debug, Default)]
pub struct Ends(Vec<(u64, u64, End)>);

impl Ends {
    /// Reads the table. `text` are the addresses of the section with the code, and `entry` is where
    /// the program begins. The result is empty if the table is of an unknown version, or if it is
    /// not certain to which addresses it refers.
    pub fn read(table: &[u8], text: (u64, u64), entry: u64) -> Ends {
        Ends::parse(table, text, entry).unwrap_or_default()
    }

    fn parse(table: &[u8], text: (u64, u64), entry: u64) -> Option<Ends> {
        let (_, flags) = VERSIONS.into_iter().find(|(magic, _)| half(table, 0) == Some(*magic))?;
        let list = table.get(usize::try_from(word(table, LIST)?).ok()?..)?;
        let count = usize::try_from(word(table, COUNT)?).ok().filter(|count| *count < list.len() / 8)?;
        let base = match word(table, BASE)? {
            // Since Go 1.26, the header does not have the address. It is that of the section,
            // unless a linker of C has put other code before it; then the program begins there.
            0 => {
                let offset = u32::try_from(entry.checked_sub(text.0)?).ok()?;
                (0..count).any(|at| half(list, 8 * at) == Some(offset)).then_some(text.0)?
            }
            base => Some(base).filter(|base| (text.0..text.1).contains(base))?,
        };
        let mut ends = Vec::new();
        for at in 0..count {
            // The begin of the function, its description, and the begin of the next one.
            let [begin, description, end] = [half(list, 8 * at)?, half(list, 8 * at + 4)?, half(list, 8 * at + 8)?];
            let flags = *list.get(usize::try_from(description).ok()?.checked_add(flags)?)?;
            let kind = match flags {
                flags if flags & TOP_FRAME != 0 => End::First,
                flags if flags & WRITES_SP != 0 => End::Switch,
                _ => continue,
            };
            if ends.len() >= MAX_ENDS {
                return None;
            }
            ends.push((base.checked_add(begin.into())?, base.checked_add(end.into())?, kind));
        }
        ends.sort_unstable_by_key(|(begin, ..)| *begin);
        Some(Ends(ends))
    }

    /// Returns how a stack ends at an address.
    pub fn find(&self, address: u64) -> Option<End> {
        let after = self.0.partition_point(|(begin, ..)| *begin <= address);
        let (_, end, kind) = self.0.get(after.checked_sub(1)?)?;
        (address < *end).then_some(*kind)
    }
}

fn half(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn word(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A table of three functions at 0x1000, 0x1010 and 0x1020, with these flags.
    fn table(base: u64, flags: [u8; 3]) -> Vec<u8> {
        let mut bytes = 0xffff_fff1u32.to_le_bytes().to_vec();
        bytes.extend([0, 0, 1, 8]);
        bytes.extend([3, 0, base, 0, 0, 0, 0, 72].iter().flat_map(|word: &u64| word.to_le_bytes()));
        let descriptions = |at: u32| 28 + 44 * at;
        let list = [0, descriptions(0), 0x10, descriptions(1), 0x20, descriptions(2), 0x30];
        bytes.extend(list.iter().flat_map(|half| half.to_le_bytes()));
        for flag in flags {
            bytes.extend([0; 41]);
            bytes.extend([flag, 0, 0]);
        }
        bytes
    }

    #[test]
    fn the_table_states_at_which_functions_a_stack_ends() {
        let flags = [0, TOP_FRAME, WRITES_SP | 4];
        for (base, text, entry) in [(0x1000, 0xf00, 0xf00), (0, 0x1000, 0x1020)] {
            let ends = Ends::read(&table(base, flags), (text, 0x2000), entry);
            let found = [0xfff, 0x1000, 0x100f, 0x1010, 0x101f, 0x1020, 0x102f, 0x1030].map(|address| ends.find(address));
            let (first, switch) = (Some(End::First), Some(End::Switch));
            assert_eq!(found, [None, None, None, first, first, switch, switch, None]);
        }
        // The program begins in code that is not in the table, so the addresses are not certain.
        assert_eq!(Ends::read(&table(0, flags), (0x1000, 0x2000), 0x1008).find(0x1010), None);
        assert_eq!(Ends::read(&table(0x5000, flags), (0x1000, 0x2000), 0x1000).find(0x5010), None);
    }

    #[test]
    fn broken_tables_have_no_ends() {
        let bytes = table(0x1000, [TOP_FRAME; 3]);
        for length in 0..bytes.len() {
            let _ = Ends::read(&bytes[..length], (0x1000, 0x2000), 0x1000).find(0x1010);
            let mut broken = bytes.clone();
            broken[length] = 0xff;
            let _ = Ends::read(&broken, (0x1000, 0x2000), 0x1000).find(0x1010);
        }
        assert_eq!(Ends::read(&bytes[..100], (0x1000, 0x2000), 0x1000).find(0x1010), None);
    }
}
