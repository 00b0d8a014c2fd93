//! The parts of an ELF file that are read here and not by a library: loaded segments, sections by
//! name, and the build id.

use std::fs::File;
use std::os::unix::fs::FileExt;

/// Maximum number of sections and of segments.
const MAX_ENTRIES: u64 = 1 << 14;
/// Maximum number of bytes of the names of sections.
const MAX_NAMES: u64 = 1 << 20;
/// Maximum number of bytes of one section, also after decompression.
const MAX_SECTION: u64 = 256 << 20;
const SHF_COMPRESSED: u64 = 1 << 11;
const SHT_NOBITS: u32 = 8;
const PT_LOAD: u32 = 1;
const ZLIB: u32 = 1;
const NT_GNU_BUILD_ID: u32 = 3;
/// Maximum number of bytes of a build id.
const MAX_BUILD_ID: usize = 64;

/// A part of the file that is loaded at `address` of the module's own address space.
#[derive(Clone, Copy, Debug)]
struct Segment {
    offset: u64,
    address: u64,
    size: u64,
}

/// A section's position in the file and in the module's address space.
#[derive(Clone, Copy, Debug)]
struct Section {
    name: u32,
    flags: u64,
    address: u64,
    offset: u64,
    size: u64,
}

/// A section's bytes, and its address in the module's address space.
#[derive(Clone, Debug, Default)]
pub struct Data {
    pub address: u64,
    pub bytes: Vec<u8>,
}

/// The headers of an ELF file.
#[derive(Debug)]
pub struct Elf {
    /// Address at which a program begins; 0 for none.
    pub entry: u64,
    segments: Vec<Segment>,
    sections: Vec<Section>,
    names: Vec<u8>,
}

fn word(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..at + 8).and_then(|bytes| bytes.first_chunk()).map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

fn half(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).and_then(|bytes| bytes.first_chunk()).map_or(0, |bytes| u32::from_le_bytes(*bytes))
}

fn short(bytes: &[u8], at: usize) -> u16 {
    bytes.get(at..at + 2).and_then(|bytes| bytes.first_chunk()).map_or(0, |bytes| u16::from_le_bytes(*bytes))
}

impl Elf {
    /// Reads the headers. Returns `None` if the file is no 64-bit little-endian ELF file for
    /// `machine` (`e_machine`); 0 accepts any machine.
    pub fn read(file: &File, machine: u16) -> Option<Elf> {
        let header = bytes(file, 0, 64, 64)?;
        if !header.starts_with(b"\x7fELF\x02\x01") || machine != 0 && short(&header, 18) != machine {
            return None;
        }
        let table = |at: u64, size: u16, count: u16, least: u16| {
            let bytes = bytes(file, at, u64::from(size) * u64::from(count), MAX_ENTRIES * 64)?;
            (size >= least).then_some((bytes, usize::from(size)))
        };
        let (programs, size) = table(word(&header, 32), short(&header, 54), short(&header, 56), 56)?;
        let loaded = programs.chunks_exact(size).filter(|entry| half(entry, 0) == PT_LOAD);
        let segments = loaded.map(|entry| Segment { offset: word(entry, 8), address: word(entry, 16), size: word(entry, 32) }).collect();
        let entry = word(&header, 24);
        let Some((headers, size)) = table(word(&header, 40), short(&header, 58), short(&header, 60), 64) else {
            return Some(Elf { entry, segments, sections: Vec::new(), names: Vec::new() });
        };
        let of = |entry: &[u8]| Section {
            name: half(entry, 0),
            flags: word(entry, 8),
            address: word(entry, 16),
            offset: word(entry, 24),
            size: if half(entry, 4) == SHT_NOBITS { 0 } else { word(entry, 32) },
        };
        let sections: Vec<Section> = headers.chunks_exact(size).map(of).collect();
        let names = sections.get(usize::from(short(&header, 62))).and_then(|names| bytes(file, names.offset, names.size, MAX_NAMES));
        Some(Elf { entry, segments, sections, names: names.unwrap_or_default() })
    }

    /// Returns the address in the module's address space of an offset in its file.
    pub fn address(&self, offset: u64) -> Option<u64> {
        self.segments.iter().find_map(|segment| {
            let within = offset.checked_sub(segment.offset).filter(|within| *within < segment.size)?;
            segment.address.checked_add(within)
        })
    }

    /// Returns the address of a section.
    pub fn section_address(&self, name: &[u8]) -> Option<u64> {
        self.section(name).map(|section| section.address)
    }

    /// Returns the addresses of a section.
    pub fn section_range(&self, name: &[u8]) -> Option<(u64, u64)> {
        let section = self.section(name)?;
        Some((section.address, section.address.checked_add(section.size)?))
    }

    /// Returns a section, uncompressed. Returns `None` if the file has no such section, or an empty
    /// or a broken one.
    pub fn data(&self, file: &File, name: &[u8]) -> Option<Data> {
        let section = self.section(name)?;
        let bytes = bytes(file, section.offset, section.size, MAX_SECTION)?;
        let address = section.address;
        if section.flags & SHF_COMPRESSED == 0 {
            return (!bytes.is_empty()).then_some(Data { address, bytes });
        }
        let (kind, size) = (half(&bytes, 0), word(&bytes, 8));
        if kind != ZLIB || size > MAX_SECTION {
            return None;
        }
        let bytes = miniz_oxide::inflate::decompress_to_vec_zlib_with_limit(bytes.get(24..)?, size as usize).ok()?;
        Some(Data { address, bytes })
    }

    /// Returns the build id, which a module and the file with its debug information have in common.
    pub fn build_id(&self, file: &File) -> Option<Vec<u8>> {
        let note = self.data(file, b".note.gnu.build-id")?.bytes;
        let (name, length, kind) = (half(&note, 0), half(&note, 4) as usize, half(&note, 8));
        let id = note.get(16..16 + length.min(MAX_BUILD_ID))?;
        (name == 4 && kind == NT_GNU_BUILD_ID && note.get(12..16) == Some(&b"GNU\0"[..]) && length <= MAX_BUILD_ID).then(|| id.to_vec())
    }

    fn section(&self, name: &[u8]) -> Option<&Section> {
        self.sections.iter().find(|section| {
            let found = self.names.get(section.name as usize..).and_then(|rest| rest.strip_prefix(name));
            found.is_some_and(|rest| rest.first() == Some(&0))
        })
    }
}

/// Reads a part of the file, which has at most `most` bytes.
fn bytes(file: &File, offset: u64, size: u64, most: u64) -> Option<Vec<u8>> {
    let length = file.metadata().ok()?.len();
    if size > most || offset.checked_add(size)? > length {
        return None;
    }
    let mut bytes = vec![0; size as usize];
    file.read_exact_at(&mut bytes, offset).ok()?;
    Some(bytes)
}
