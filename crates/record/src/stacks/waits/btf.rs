//! Finds types and fields in the running kernel's own description of its types (BTF,
//! `linux/btf.h`).

const MAGIC: u16 = 0xeb9f;
const KIND_STRUCT: u32 = 4;
const KIND_TYPEDEF: u32 = 8;
/// Size in bytes of the first part of a type: name, kind and number of members, size.
const TYPE: usize = 12;
const MEMBER: usize = 12;

/// A description of types.
#[derive(Clone, Copy, Debug)]
pub struct Types<'a> {
    types: &'a [u8],
    names: &'a [u8],
}

/// A type with a certain name and kind.
struct Found<'a> {
    /// Number of the type; the first one has 1.
    id: u32,
    info: u32,
    /// What follows the first part.
    rest: &'a [u8],
}

impl<'a> Types<'a> {
    /// `None` if these bytes are no description in this machine's byte order.
    pub fn parse(btf: &'a [u8]) -> Option<Types<'a>> {
        if u16::from_ne_bytes(*btf.first_chunk()?) != MAGIC {
            return None;
        }
        let header = word(btf, 4)? as usize;
        let section = |at: usize| {
            let start = header.checked_add(word(btf, at)? as usize)?;
            btf.get(start..start.checked_add(word(btf, at + 4)? as usize)?)
        };
        Some(Types { types: section(8)?, names: section(16)? })
    }

    /// Returns the offset in bytes of a field of a structure. `None` if there is no such field, or
    /// the description is damaged.
    pub fn offset(&self, structure: &[u8], field: &[u8]) -> Option<u32> {
        let Found { info, rest, .. } = self.find(KIND_STRUCT, structure)?;
        let is_field = |member: &&[u8]| word(member, 0).is_some_and(|name| self.has_name(name, field));
        let position = word(rest.chunks_exact(MEMBER).take(members(info)).find(is_field)?, 8)?;
        // With this bit, the upper byte is the number of bits of the field.
        let bits = if info >> 31 == 1 { position & 0xff_ffff } else { position };
        Some(bits / 8)
    }

    /// Returns the number of the type that a `typedef` defines.
    pub fn typedef(&self, name: &[u8]) -> Option<u32> {
        Some(self.find(KIND_TYPEDEF, name)?.id)
    }

    fn find(&self, kind: u32, name: &[u8]) -> Option<Found<'a>> {
        let (mut types, mut id) = (self.types, 1);
        loop {
            let info = word(types, 4)?;
            let rest = types.get(TYPE..)?;
            if kind_of(info) == kind && self.has_name(word(types, 0)?, name) {
                return Some(Found { id, info, rest });
            }
            types = rest.get(rest_of_type(info)..)?;
            id += 1;
        }
    }

    fn has_name(&self, at: u32, expected: &[u8]) -> bool {
        let text = self.names.get(at as usize..).and_then(|text| text.strip_prefix(expected));
        text.is_some_and(|rest| rest.first() == Some(&0))
    }
}

fn kind_of(info: u32) -> u32 {
    info >> 24 & 31
}

fn members(info: u32) -> usize {
    (info & 0xffff) as usize
}

/// Size in bytes of what follows the first part of a type, by the kinds of `linux/btf.h`.
fn rest_of_type(info: u32) -> usize {
    match kind_of(info) {
        // Integers, variables, tags of declarations.
        1 | 14 | 17 => 4,
        // Arrays.
        3 => 12,
        // Structures, unions, sections, enumerations of 64 bits.
        4 | 5 | 15 | 19 => 12 * members(info),
        // Enumerations of 32 bits, parameters of functions.
        6 | 13 => 8 * members(info),
        _ => 0,
    }
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A description with an integer, a structure `other`, a structure `task` with the fields `x`
    /// at bit 32 and `pid` at bit 128, and a typedef `pid`.
    fn description() -> Vec<u8> {
        let texts = b"\0int\0task\0x\0pid\0other\0";
        let (int, task, x, pid, other) = (1u32, 5u32, 10u32, 12u32, 16u32);
        let types: Vec<u32> = [
            vec![int, 1 << 24, 4, 32],
            vec![other, 4 << 24 | 1, 8, pid, 1, 64],
            vec![task, 4 << 24 | 2, 24, x, 1, 32, pid, 1, 128],
            vec![pid, 8 << 24, 1],
        ]
        .concat();
        let length = 4 * types.len() as u32;
        let mut bytes = MAGIC.to_ne_bytes().to_vec();
        bytes.extend([1, 0]);
        for word in [24, 0, length, length, texts.len() as u32].iter().chain(&types) {
            bytes.extend(word.to_ne_bytes());
        }
        bytes.extend(texts);
        bytes
    }

    #[test]
    fn fields_and_types_are_found_by_their_names() {
        let btf = description();
        let types = Types::parse(&btf).unwrap();
        assert_eq!(types.offset(b"task", b"pid"), Some(16));
        assert_eq!(types.offset(b"task", b"x"), Some(4));
        assert_eq!(types.offset(b"other", b"pid"), Some(8));
        assert_eq!(types.offset(b"task", b"pi"), None);
        assert_eq!(types.offset(b"tas", b"pid"), None);
        assert_eq!(types.typedef(b"pid"), Some(4));
        assert_eq!(types.typedef(b"task"), None);
        for length in 0..btf.len() {
            if let Some(types) = Types::parse(&btf[..length]) {
                let _ = (types.offset(b"task", b"pid"), types.typedef(b"x"));
            }
        }
    }
}
