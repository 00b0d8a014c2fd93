//! Blocks of pcapng files in either byte order.

/// A whole block with this `body` (a multiple of 4 bytes) in either byte order.
pub fn block(big: bool, block_type: u32, body: &[u8]) -> Vec<u8> {
    let word = |value: u32| {
        if big {
            value.to_be_bytes()
        } else {
            value.to_le_bytes()
        }
    };
    let length = word(body.len() as u32 + 12);
    [&word(block_type)[..], &length, body, &length].concat()
}

pub fn words(big: bool, values: &[u32]) -> Vec<u8> {
    values.iter().flat_map(|value| if big { value.to_be_bytes() } else { value.to_le_bytes() }).collect()
}

/// A section header without options.
pub fn section(big: bool) -> Vec<u8> {
    // The version consists of two half words: 1, 0.
    let version = if big { 0x0001_0000 } else { 0x0000_0001 };
    block(big, 0x0a0d_0d0a, &words(big, &[0x1a2b_3c4d, version, u32::MAX, u32::MAX]))
}

/// An Ethernet interface without options.
pub fn interface(big: bool, snaplen: u32) -> Vec<u8> {
    let link = if big { 0x0001_0000 } else { 0x0000_0001 };
    block(big, 1, &words(big, &[link, snaplen]))
}

/// An option with its padding.
pub fn option(big: bool, code: u16, value: &[u8]) -> Vec<u8> {
    let half = |value: u16| if big { value.to_be_bytes() } else { value.to_le_bytes() };
    let padding = vec![0; value.len().next_multiple_of(4) - value.len()];
    [&half(code)[..], &half(value.len() as u16), value, &padding].concat()
}

/// A section with a block of every kind.
pub fn everything(big: bool) -> Vec<u8> {
    let link = if big { 0x0001_0000 } else { 1 };
    let long = |value: u64| if big { value.to_be_bytes() } else { value.to_le_bytes() };
    let id = if big { 0x0000_0007 } else { 0x0007_0000 };
    let mut entry = b"__REALTIME_TIMESTAMP=1700000000000005\nMESSAGE\n\x03\0\0\0\0\0\0\0a\nb\n".to_vec();
    entry.resize(entry.len().next_multiple_of(4), 0);
    [
        section(big),
        block(big, 1, &[words(big, &[link, 40]), option(big, 2, b"eth0"), option(big, 9, &[9]), option(big, 14, &long(5))].concat()),
        block(big, 4, &[option(big, 1, b"\x7f\0\0\x01home\0"), option(big, 0, b""), option(big, 1, b"names")].concat()),
        block(big, 10, &[words(big, &[0x544c_534b, 3]), b"KEY\0".to_vec()].concat()),
        block(
            big,
            6,
            &[words(big, &[0, 1, 2, 3, 60]), vec![1, 2, 3, 0], option(big, 1, b"hello"), option(big, 2, &words(big, &[5]))].concat(),
        ),
        block(big, 3, &[words(big, &[3]), vec![1, 2, 3, 0]].concat()),
        block(big, 2, &[words(big, &[id, 1, 2, 3, 60]), vec![1, 2, 3, 0]].concat()),
        block(big, 9, &entry),
        block(big, 5, &[words(big, &[0, 1, 2]), option(big, 5, &long(3)), option(big, 7, &long(4))].concat()),
        block(big, 0xbad, &[words(big, &[9]), vec![1; 8]].concat()),
        block(big, 0x4000_0bad, &words(big, &[9])),
        block(big, 77, &[1, 2, 3, 4]),
    ]
    .concat()
}
