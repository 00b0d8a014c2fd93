//! The byte order of a kernel, for its events and for the headers of its pages.

/// Order of the bytes of an integer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ByteOrder {
    /// The least significant byte first.
    Little,
    /// The most significant byte first.
    Big,
}

impl ByteOrder {
    /// The byte order of the host on which this program runs.
    pub const NATIVE: ByteOrder = if cfg!(target_endian = "big") { ByteOrder::Big } else { ByteOrder::Little };

    /// Decodes an integer of 1, 2, 4 or 8 bytes; `None` for other sizes.
    #[inline]
    pub fn unsigned(self, bytes: &[u8]) -> Option<u64> {
        let little = self == ByteOrder::Little;
        Some(match *bytes {
            [a] => a.into(),
            [a, b] => if little { u16::from_le_bytes([a, b]) } else { u16::from_be_bytes([a, b]) }.into(),
            [a, b, c, d] => if little { u32::from_le_bytes([a, b, c, d]) } else { u32::from_be_bytes([a, b, c, d]) }.into(),
            [a, b, c, d, e, f, g, h] => {
                let all = [a, b, c, d, e, f, g, h];
                if little {
                    u64::from_le_bytes(all)
                } else {
                    u64::from_be_bytes(all)
                }
            }
            _ => return None,
        })
    }
}
