//! How fast packets of 100 bytes are written and read again: into and from memory, and through a
//! buffered file.
//!
//! `cargo run --release -p longpole-pcapng --example pcap_rate [FILE]`

use std::fs::File;
use std::io::{BufWriter, Write};
use std::time::Instant;

use longpole_pcapng::{Block, Direction, Interface, Packet, Reader, Section, Writer};

const PACKETS: u64 = 2_000_000;

fn write<W: Write>(out: W) -> Result<W, Box<dyn std::error::Error>> {
    let mut writer = Writer::new(out, &Section::default())?;
    let id = writer.add_interface(&Interface::ethernet("rate", 100))?;
    let frame = [0x5a; 100];
    for number in 0..PACKETS {
        let time_ns = 1_700_000_000_000_000_000 + number;
        let direction = Direction::Inbound;
        writer.packet(&Packet { direction, original_len: 1514, ..Packet::new(id, time_ns, &frame) })?;
    }
    writer.flush()?;
    Ok(writer.into_inner())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let say = |what: &str, begin: Instant| {
        let ns = begin.elapsed().as_nanos() as f64 / PACKETS as f64;
        println!("{what:24} {ns:6.1} ns a packet, {:6.2} M/s", 1e3 / ns);
    };
    // Touched beforehand, so that page faults are not counted as writing.
    let mut room = vec![1u8; PACKETS as usize * 160];
    room.clear();
    let begin = Instant::now();
    let bytes = write(room)?;
    say("written to memory", begin);

    let begin = Instant::now();
    let mut reader = Reader::new(&bytes[..]);
    let (mut packets, mut sum) = (0, 0i128);
    while let Some(block) = reader.next_block()? {
        if let Block::Packet(packet) = block {
            packets += 1;
            sum += packet.time_ns().unwrap_or(0) & 1;
        }
    }
    say("read from memory", begin);
    assert_eq!((packets, sum), (PACKETS, i128::from(PACKETS / 2)));

    if let Some(path) = std::env::args_os().nth(1) {
        let begin = Instant::now();
        write(BufWriter::with_capacity(1 << 20, File::create(path)?))?;
        say("written to the file", begin);
    }
    Ok(())
}
