//! Unwinding tables of a module: the row for an address, from `.eh_frame` or `.debug_frame`.

use super::frame::{Arch, Cfa, Row, Rule, REGISTERS};
use super::go::{End, Ends};
use crate::elf::{Data, Elf};
use gimli::{BaseAddresses, CieOrFde, DebugFrame, EhFrame, EhFrameHdr, EndianSlice, LittleEndian, UnwindSection, Vendor};
use gimli::{CfaRule, FrameDescriptionEntry, RegisterRule, UnwindContext, UnwindExpression};
use std::collections::HashMap;
use std::fs::File;
use std::rc::Rc;

type Slice<'a> = EndianSlice<'a, LittleEndian>;

/// Maximum number of rows that are remembered per module.
const MAX_ROWS: usize = 1 << 16;
/// Maximum number of functions in an index.
const MAX_FUNCTIONS: usize = 1 << 22;
/// Maximum number of bytes of the instructions for one function, because all of them may be
/// executed for each address.
const MAX_INSTRUCTIONS: usize = 256 << 10;

/// Names of the section with Go's table of functions; the second is that of programs that can be
/// loaded at any address.
const GO_TABLES: [&[u8]; 2] = [b".gopclntab", b".data.rel.ro.gopclntab"];
/// Maximum number of bytes of the code at which a program begins. It prepares the registers and
/// calls a function of C.
const MAX_START: u64 = 256;

/// First addresses of functions and the positions of their entries, sorted, for a section that has
/// no index of its own.
type Index = Vec<(u64, usize)>;

/// Unwinding tables of a module.
#[derive(Debug)]
pub struct Module {
    elf: Elf,
    arch: Arch,
    bases: BaseAddresses,
    eh_frame: Data,
    /// Index of `eh_frame`; empty if `index` takes its place.
    eh_frame_hdr: Vec<u8>,
    index: Index,
    debug_frame: Data,
    debug_index: Index,
    /// Set if code that the tables do not cover has frame pointers.
    has_frame_pointers: bool,
    ends: Ends,
    rows: HashMap<u64, Option<Rc<Row>>>,
    context: UnwindContext<usize>,
}

impl Module {
    /// Reads the tables of a file. Returns `None` if it is no program of this architecture.
    pub fn read(file: &File, arch: Arch) -> Option<Module> {
        let elf = Elf::read(file, arch.machine)?;
        let data = |name: &[u8]| elf.data(file, name).unwrap_or_default();
        let (eh_frame, header, debug_frame) = (data(b".eh_frame"), data(b".eh_frame_hdr"), data(b".debug_frame"));
        let mut bases = BaseAddresses::default().set_eh_frame(eh_frame.address).set_eh_frame_hdr(header.address);
        if let Some(text) = elf.section_address(b".text") {
            bases = bases.set_text(text);
        }
        if let Some(got) = elf.section_address(b".got") {
            bases = bases.set_got(got);
        }
        let usable = EhFrameHdr::new(&header.bytes, LittleEndian).parse(&bases, 8).is_ok_and(|header| header.table().is_some());
        let index = if usable { Index::new() } else { index(&eh_section(&eh_frame.bytes, arch), &bases) };
        let debug_index = index_of_debug(&debug_frame.bytes, &bases, arch);
        let eh_frame_hdr = if usable { header.bytes } else { Vec::new() };
        let (rows, context) = (HashMap::new(), UnwindContext::new());
        let go = GO_TABLES.into_iter().find_map(|name| elf.data(file, name));
        // Go keeps frame pointers, also in a program whose only tables are those of code in C.
        let has_frame_pointers = eh_frame.bytes.is_empty() && debug_frame.bytes.is_empty() || go.is_some();
        let text = elf.section_range(b".text");
        let ends = go.zip(text).map_or_else(Ends::default, |(go, text)| Ends::read(&go.bytes, text, elf.entry));
        Some(Module { elf, arch, bases, eh_frame, eh_frame_hdr, index, debug_frame, debug_index, has_frame_pointers, ends, rows, context })
    }

    /// Returns the address in the module's address space of an offset in its file.
    pub fn address(&self, offset: u64) -> Option<u64> {
        self.elf.address(offset)
    }

    /// Returns true if code that the tables do not cover has frame pointers.
    pub fn has_frame_pointers(&self) -> bool {
        self.has_frame_pointers
    }

    /// Returns how a stack ends in the function at an address, if the program states that elsewhere
    /// than in the unwinding tables.
    pub fn end(&self, address: u64) -> Option<End> {
        self.ends.find(address)
    }

    /// Returns true if an address that has no row is in the code at which the program begins. That
    /// code has no caller, and often no row.
    pub fn is_start(&mut self, address: u64) -> bool {
        // The begin has no row, either, and no table covers what is between.
        let start = self.elf.entry;
        start != 0
            && (start..start.saturating_add(MAX_START)).contains(&address)
            && (start..address).all(|before| self.row(before).is_none())
    }

    /// Returns the number of bytes of memory that the tables occupy.
    pub fn size(&self) -> usize {
        let indexed = (self.index.capacity() + self.debug_index.capacity()) * size_of::<(u64, usize)>();
        self.eh_frame.bytes.capacity() + self.eh_frame_hdr.capacity() + self.debug_frame.bytes.capacity() + indexed
    }

    /// Returns the row for an address in the module's address space.
    pub fn row(&mut self, address: u64) -> Option<Rc<Row>> {
        if let Some(row) = self.rows.get(&address) {
            return row.clone();
        }
        let row = self.find(address).map(Rc::new);
        if self.rows.len() >= MAX_ROWS {
            self.rows.clear();
        }
        self.rows.insert(address, row.clone());
        row
    }

    /// Returns the section with the expressions of a row.
    pub fn section(&self, row: &Row) -> &[u8] {
        if row.in_debug_frame {
            &self.debug_frame.bytes
        } else {
            &self.eh_frame.bytes
        }
    }

    fn find(&mut self, address: u64) -> Option<Row> {
        let (bases, context) = (&self.bases, &mut self.context);
        let section = eh_section(&self.eh_frame.bytes, self.arch);
        let offset = if self.eh_frame_hdr.is_empty() {
            before(&self.index, address)
        } else {
            let header = EhFrameHdr::new(&self.eh_frame_hdr, LittleEndian).parse(bases, 8).ok();
            header.and_then(|header| {
                let found = header.table()?.lookup(address, bases).ok()?.direct().ok()?;
                // gimli's own conversion overflows if the function is before the section.
                usize::try_from(found.checked_sub(header.eh_frame_ptr().direct().ok()?)?).ok()
            })
        };
        if let Some(row) = offset.and_then(|offset| row(&section, offset, address, bases, context)) {
            return Some(row);
        }
        let section = debug_section(&self.debug_frame.bytes, self.arch);
        let offset = before(&self.debug_index, address)?;
        row(&section, offset, address, bases, context).map(|row| Row { in_debug_frame: true, ..row })
    }
}

fn vendor(arch: Arch) -> Vendor {
    if arch == Arch::ARM64 {
        Vendor::AArch64
    } else {
        Vendor::Default
    }
}

fn eh_section(bytes: &[u8], arch: Arch) -> EhFrame<Slice<'_>> {
    let mut section = EhFrame::new(bytes, LittleEndian);
    section.set_address_size(8);
    section.set_vendor(vendor(arch));
    section
}

fn debug_section(bytes: &[u8], arch: Arch) -> DebugFrame<Slice<'_>> {
    let mut section = DebugFrame::new(bytes, LittleEndian);
    section.set_address_size(8);
    section.set_vendor(vendor(arch));
    section
}

fn index_of_debug(bytes: &[u8], bases: &BaseAddresses, arch: Arch) -> Index {
    index(&debug_section(bytes, arch), bases)
}

/// Makes an index of all functions of a section, up to the first invalid entry.
fn index<'a, S: UnwindSection<Slice<'a>>>(section: &S, bases: &BaseAddresses) -> Index {
    let mut index = Index::new();
    let mut entries = section.entries(bases);
    while let Ok(Some(entry)) = entries.next() {
        let CieOrFde::Fde(partial) = entry else { continue };
        if let Ok(function) = partial.parse(S::cie_from_offset) {
            index.push((function.initial_address(), function.offset()));
        }
        if index.len() >= MAX_FUNCTIONS {
            break;
        }
    }
    index.sort_unstable();
    index
}

fn before(index: &[(u64, usize)], address: u64) -> Option<usize> {
    let after = index.partition_point(|(first, _)| *first <= address);
    index.get(after.checked_sub(1)?).map(|(_, offset)| *offset)
}

fn row<'a, S: UnwindSection<Slice<'a>>>(
    section: &S,
    offset: usize,
    address: u64,
    bases: &BaseAddresses,
    context: &mut UnwindContext<usize>,
) -> Option<Row> {
    let function: FrameDescriptionEntry<Slice<'a>> = section.fde_from_offset(bases, S::Offset::from(offset), S::cie_from_offset).ok()?;
    if !function.contains(address) || function.entry_len() > MAX_INSTRUCTIONS || function.cie().entry_len() > MAX_INSTRUCTIONS {
        return None;
    }
    let is_signal = function.is_signal_trampoline();
    let found = function.unwind_info_for_address(section, bases, context, address).ok()?;
    let range =
        |expression: &UnwindExpression<usize>| Some((u32::try_from(expression.offset).ok()?, u32::try_from(expression.length).ok()?));
    let cfa = match found.cfa() {
        CfaRule::RegisterAndOffset { register, offset } => Cfa::Register(register.0, *offset),
        CfaRule::Expression(expression) => {
            let (offset, length) = range(expression)?;
            Cfa::Expression(offset, length)
        }
    };
    let mut registers = Vec::new();
    for (register, rule) in found.registers().filter(|(register, _)| usize::from(register.0) < REGISTERS) {
        let rule = match rule {
            RegisterRule::SameValue => Rule::Same,
            RegisterRule::Offset(offset) => Rule::Offset(*offset),
            RegisterRule::ValOffset(offset) => Rule::ValOffset(*offset),
            RegisterRule::Register(register) => Rule::Register(register.0),
            RegisterRule::Expression(expression) => {
                let (offset, length) = range(expression)?;
                Rule::Expression(offset, length)
            }
            RegisterRule::ValExpression(expression) => {
                let (offset, length) = range(expression)?;
                Rule::ValExpression(offset, length)
            }
            _ => Rule::Undefined,
        };
        registers.push((register.0, rule));
    }
    Some(Row { cfa, registers: registers.into(), is_signal, in_debug_frame: false })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resolve;
    use std::os::unix::fs::FileExt;

    #[test]
    fn an_index_that_leads_before_its_section_has_no_rows() {
        let file = resolve::vdso().unwrap();
        let header = Elf::read(&file, 0).unwrap().data(&file, b".eh_frame_hdr").unwrap();
        let mut bytes = vec![0; file.metadata().unwrap().len() as usize];
        file.read_exact_at(&mut bytes, 0).unwrap();
        let begin = bytes.windows(header.bytes.len()).position(|found| found == header.bytes).unwrap();
        // Each entry has the first address of a function and the position of its row, relative to
        // the index.
        let functions: Vec<usize> = (begin + 12..begin + header.bytes.len()).step_by(8).collect();
        let offset = |bytes: &[u8], at: usize| i64::from(i32::from_le_bytes(*bytes[at..].first_chunk().unwrap()));
        let addresses: Vec<u64> = functions.iter().map(|at| header.address.wrapping_add_signed(offset(&bytes, *at))).collect();
        let rows = |file: &File| {
            let mut module = Module::read(file, Arch::HERE).unwrap();
            addresses.iter().filter(|address| module.row(**address).is_some()).count()
        };
        assert!(addresses.len() > 2 && rows(&file) == addresses.len());
        for at in functions {
            bytes[at + 4..at + 8].copy_from_slice(&(header.address as i32).wrapping_neg().to_le_bytes());
        }
        let broken = tempfile::tempfile().unwrap();
        broken.write_all_at(&bytes, 0).unwrap();
        assert_eq!(rows(&broken), 0);
    }
}
