//! Identifiers of traces and experiments, made from what they are, so that the same trace has the
//! same identifier each time it is opened, and after a restart of the server.

/// Returns a UUID (version 8) of the texts: their 128-bit FNV-1a hash.
pub(crate) fn of<'a>(texts: impl IntoIterator<Item = &'a [u8]>) -> String {
    const PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;
    let mut hash: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
    for text in texts {
        // The length separates the texts.
        for &byte in text.iter().chain(&text.len().to_le_bytes()) {
            hash = (hash ^ u128::from(byte)).wrapping_mul(PRIME);
        }
    }
    let hash = hash & !(0xf << 76) & !(0b11 << 62) | 0x8 << 76 | 0b10 << 62;
    let digits = format!("{hash:032x}");
    [&digits[..8], &digits[8..12], &digits[12..16], &digits[16..20], &digits[20..]].join("-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_identifier_depends_on_each_text_and_on_nothing_else() {
        let one = of([b"a".as_slice(), b"b"]);
        assert_eq!(one, of([b"a".as_slice(), b"b"]));
        assert!(![of([b"ab".as_slice()]), of([b"b".as_slice(), b"a"]), of([b"a".as_slice()])].contains(&one));
        let parts: Vec<usize> = one.split('-').map(str::len).collect();
        assert_eq!((parts.as_slice(), &one[14..15]), ([8, 4, 4, 4, 12].as_slice(), "8"));
        assert!("89ab".contains(&one[19..20]));
    }
}
