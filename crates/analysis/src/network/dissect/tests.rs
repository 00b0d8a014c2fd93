use super::*;

fn bytes(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
    digits.chunks(2).map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
}

fn value<'a>(found: &'a Dissection, layer: &str, field: &str) -> &'a str {
    let layer = found.layers.iter().find(|it| it.name == layer).unwrap();
    &layer.fields.iter().find(|it| it.name == field).unwrap().value
}

/// A SYN ACK from port 80 with the usual options, behind a VLAN tag.
const SYN_ACK: &str = "0200000000020200000000018100006408004500003c000040004006b8b90a0000010a000002\
    0050c3501122334455667788a012fe8814300000020405b40402080a0102030405060708010303070000";

#[test]
fn a_tcp_segment_has_its_layers_flags_and_options() {
    let found = dissect(1, &bytes(SYN_ACK));
    let names: Vec<_> = found.layers.iter().map(|layer| layer.name).collect();
    assert_eq!(names, ["Ethernet", "VLAN", "IPv4", "TCP", "padding"]);
    assert_eq!(found.summary, "TCP SYN ACK");
    assert_eq!(found.ends, Some(("10.0.0.1:80".to_owned(), "10.0.0.2:50000".to_owned())));
    assert_eq!(value(&found, "Ethernet", "source"), "02:00:00:00:00:01");
    assert_eq!(value(&found, "VLAN", "id"), "100");
    assert_eq!(value(&found, "IPv4", "flags"), "don't fragment");
    assert_eq!(value(&found, "TCP", "sequence"), 0x1122_3344.to_string());
    assert_eq!(value(&found, "TCP", "maximum segment size"), "1460");
    assert_eq!(value(&found, "TCP", "timestamps"), "16909060, 84281096");
    assert_eq!(value(&found, "TCP", "window scale"), "7");
    let port = &found.layers[3].fields[1];
    assert_eq!((port.name, port.begin, port.end), ("destination port", 40, 42));
}

#[test]
fn datagrams_of_ipv6_have_their_data_and_no_padding() {
    let packet = "60012345000c1140 00000000000000000000000000000001 20010db8000000000000000000000002 \
        1f90c350000cabcd 01020304 ffff";
    for link_type in [101, 229] {
        let found = dissect(link_type, &bytes(packet));
        assert_eq!(found.ends, Some(("[::1]:8080".to_owned(), "[2001:db8::2]:50000".to_owned())));
        let last: Vec<_> = found.layers[1..].iter().map(|layer| (layer.name, layer.begin, layer.end)).collect();
        assert_eq!(last, [("UDP", 40, 48), ("data", 48, 52), ("padding", 52, 54)]);
        assert_eq!(value(&found, "IPv6", "flow label"), "0x12345");
    }
}

#[test]
fn arp_icmp_and_fragments_have_summaries_of_their_own() {
    let arp = "ffffffffffff020000000001 0806 0001080006040001 020000000001 0a000001 000000000000 0a000002 0000";
    let found = dissect(1, &bytes(arp));
    assert_eq!((found.summary.as_str(), value(&found, "ARP", "target address")), ("ARP request", "10.0.0.2"));
    assert_eq!(found.layers.last().map(|layer| layer.name), Some("padding"));
    let echo = "02000000 4500001c00000000400100000a0000010a000002 0800f7fd00020003";
    let found = dissect(0, &bytes(echo));
    assert_eq!((found.summary.as_str(), value(&found, "ICMP", "sequence")), ("ICMP echo request", "3"));
    let fragment = "4500001c000000b9401100000a0000010a000002 0102030405060708";
    assert_eq!(dissect(228, &bytes(fragment)).summary, "IPv4 fragment");
}

#[test]
fn layers_cover_any_bytes_in_order_and_without_a_panic() {
    let mut random = fastrand::Rng::with_seed(3);
    let whole = bytes(SYN_ACK);
    for round in 0..20_000 {
        let mut packet = whole[..random.usize(0..=whole.len())].to_vec();
        if round % 3 == 0 {
            packet = (0..random.usize(0..80)).map(|_| random.u8(..)).collect();
        }
        for _ in 0..random.usize(0..4) {
            if let Some(at) = (!packet.is_empty()).then(|| random.usize(0..packet.len())) {
                packet[at] = random.u8(..);
            }
        }
        let link_type = [0, 1, 12, 101, 108, 113, 228, 229, 276, 9999][random.usize(0..10)];
        let found = dissect(link_type, &packet);
        let mut at = 0;
        for layer in &found.layers {
            assert_eq!(layer.begin, at, "{found:?}");
            assert!(layer.end > layer.begin && layer.end <= packet.len(), "{found:?}");
            assert!(layer.fields.iter().all(|field| layer.begin <= field.begin && field.end <= layer.end), "{found:?}");
            at = layer.end;
        }
        assert!(at == packet.len(), "{found:?} {packet:?}");
    }
}
