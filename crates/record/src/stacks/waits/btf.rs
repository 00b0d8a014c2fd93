//! Finds the position of a field in a structure of the running kernel, from the kernel's own
//! description of its types (BTF, `linux/btf.h`).

const MAGIC: u16 = 0xeb9f;
const KIND_STRUCT: u32 = 4;
/// Size in bytes of the first part of a type: name, kind and number of members, size.
const TYPE: usize = 12;
const MEMBER: usize = 12;

/// Returns the offset in bytes of a field of a structure. `None` if the description has no such
/// field or is damaged.
pub fn offset(btf: &[u8], structure: &[u8], field: &[u8]) -> Option<u32> {
    if u16::from_ne_bytes(*btf.first_chunk()?) != MAGIC {
        return None;
    }
    let header = word(btf, 4)? as usize;
    let section = |at: usize| {
        let start = header.checked_add(word(btf, at)? as usize)?;
        btf.get(start..start.checked_add(word(btf, at + 4)? as usize)?)
    };
    let (mut types, texts) = (section(8)?, section(16)?);
    let is = |name: u32, expected: &[u8]| {
        texts.get(name as usize..).is_some_and(|text| text.strip_prefix(expected).is_some_and(|rest| rest.first() == Some(&0)))
    };
    while !types.is_empty() {
        let (name, info) = (word(types, 0)?, word(types, 4)?);
        let rest = types.get(TYPE..)?;
        let (kind, members) = (info >> 24 & 31, (info & 0xffff) as usize);
        if kind == KIND_STRUCT && is(name, structure) {
            let found = rest.chunks_exact(MEMBER).take(members).find(|member| word(member, 0).is_some_and(|name| is(name, field)))?;
            let position = word(found, 8)?;
            // With this bit, the upper byte is the number of bits of the field.
            let bits = if info >> 31 == 1 { position & 0xff_ffff } else { position };
            return Some(bits / 8);
        }
        types = rest.get(rest_of_type(kind, members)..)?;
    }
    None
}

/// Size in bytes of what follows the first part of a type, by the kinds of `linux/btf.h`.
fn rest_of_type(kind: u32, members: usize) -> usize {
    match kind {
        // Integers, variables, tags of declarations.
        1 | 14 | 17 => 4,
        // Arrays.
        3 => 12,
        // Structures, unions, sections, enumerations of 64 bits.
        4 | 5 | 15 | 19 => 12 * members,
        // Enumerations of 32 bits, parameters of functions.
        6 | 13 => 8 * members,
        _ => 0,
    }
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A description with an integer, a structure `task` with the fields `x` at bit 32 and `pid` at
    /// bit 128, and a structure `other`.
    fn description() -> Vec<u8> {
        let texts = b"\0int\0task\0x\0pid\0other\0";
        let (int, task, x, pid, other) = (1u32, 5u32, 10u32, 12u32, 16u32);
        let types: Vec<u32> =
            [vec![int, 1 << 24, 4, 32], vec![other, 4 << 24 | 1, 8, pid, 1, 64], vec![task, 4 << 24 | 2, 24, x, 1, 32, pid, 1, 128]]
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
    fn the_offset_of_a_field_is_that_of_its_own_structure() {
        let btf = description();
        assert_eq!(offset(&btf, b"task", b"pid"), Some(16));
        assert_eq!(offset(&btf, b"task", b"x"), Some(4));
        assert_eq!(offset(&btf, b"other", b"pid"), Some(8));
        assert_eq!(offset(&btf, b"task", b"pi"), None);
        assert_eq!(offset(&btf, b"tas", b"pid"), None);
        for length in 0..btf.len() {
            let _ = offset(&btf[..length], b"task", b"pid");
        }
    }
}
