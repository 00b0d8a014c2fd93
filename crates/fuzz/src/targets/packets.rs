//! Packets, whose headers the viewer shows.

use super::Target;
use longpole_analysis::network::dissect::dissect;

/// Link types that are known, and one that is not.
const LINK_TYPES: [u16; 8] = [0, 1, 101, 108, 113, 228, 229, 276];

/// A TCP segment with options behind a VLAN tag, a datagram of IPv6 with an extension header, ARP.
const SEGMENT: &[u8] = b"\x02\0\0\0\0\x02\x02\0\0\0\0\x01\x81\0\0\x64\x08\0\x45\0\0\x3c\0\0\x40\0\x40\x06\xb8\xb9\
    \x0a\0\0\x01\x0a\0\0\x02\0\x50\xc3\x50\x11\x22\x33\x44\x55\x66\x77\x88\xa0\x12\xfe\x88\x14\x30\0\0\
    \x02\x04\x05\xb4\x04\x02\x08\x0a\x01\x02\x03\x04\x05\x06\x07\x08\x01\x03\x03\x07";
const DATAGRAM: &[u8] = b"\x60\0\0\0\0\x14\0\x40\x20\x01\x0d\xb8\0\0\0\0\0\0\0\0\0\0\0\x01\
    \x20\x01\x0d\xb8\0\0\0\0\0\0\0\0\0\0\0\x02\x11\0\0\0\0\0\0\0\x1f\x90\xc3\x50\0\x0c\xab\xcd\x01\x02\x03\x04";
const ARP: &[u8] = b"\xff\xff\xff\xff\xff\xff\x02\0\0\0\0\x01\x08\x06\0\x01\x08\0\x06\x04\0\x01\
    \x02\0\0\0\0\x01\x0a\0\0\x01\0\0\0\0\0\0\x0a\0\0\x02";

pub const HEADERS: Target = Target {
    name: "headers",
    what: "headers of packets",
    // The first byte chooses the type of the link.
    seeds: |_| Ok([(1, SEGMENT), (2, DATAGRAM), (1, ARP)].map(|(link, packet)| [&[link], packet].concat()).to_vec()),
    words: &["\x08\x06", "\x45\0", "\x60\0", "\x06", "\x11", "\x3a", "\x2c"],
    run: |input, _| {
        let Some((link, packet)) = input.split_first() else { return };
        let link_type = LINK_TYPES.get(usize::from(*link)).copied().unwrap_or(9999);
        let found = dissect(link_type, packet);
        let ends = found.layers.iter().fold(0, |at, layer| {
            assert_eq!(at, layer.begin, "layers follow each other");
            layer.end
        });
        assert_eq!(ends, packet.len(), "layers cover the packet");
    },
};
