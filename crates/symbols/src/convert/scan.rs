//! Reads the events of a stream without the bytes of copied stacks, which are nearly all of it.

use super::layout::{Begun, Kind, Layout, Parsed};
use super::stream::Reader;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// Bytes that are read at the begin of a copied stack: usually all of it before the stack's bytes.
const HEAD: usize = 1 << 10;
/// Bytes that are read where events follow each other. A longer event needs a larger window.
const WINDOW: usize = 4 << 10;
const FACTOR: usize = 8;

/// Calls `each` with every event except copied stacks, and `copied` with the time of each copied
/// stack. A packet ends at an event that cannot be read.
pub fn scan(file: &File, layout: &Layout, each: &mut dyn FnMut(&Parsed<'_>), copied: &mut dyn FnMut(u64)) -> io::Result<()> {
    let mut reader = Reader::new(file, &layout.uuid)?;
    let mut window = Window { file, at: 0, bytes: Vec::new() };
    while let Some((_, content)) = reader.packet()? {
        let mut at = content.start;
        let mut size = HEAD;
        while at < content.end {
            let (bytes, is_at_its_begin) = window.from(at, content.end, size)?;
            let length = match layout.begin(bytes) {
                Begun::Whole(event) if event.kind == Kind::Copied => {
                    copied(event.time);
                    event.bytes.len()
                }
                Begun::Whole(event) => {
                    each(&event);
                    event.bytes.len()
                }
                Begun::Copied { time, length } if length as u64 <= content.end - at => {
                    copied(time);
                    size = HEAD;
                    length
                }
                Begun::Short if (bytes.len() as u64) < content.end - at => {
                    size = if is_at_its_begin { bytes.len().saturating_mul(FACTOR) } else { WINDOW };
                    window.bytes.clear();
                    continue;
                }
                Begun::Copied { .. } | Begun::Short | Begun::Unknown => break,
            };
            at += length as u64;
        }
    }
    Ok(())
}

/// A part of the file.
struct Window<'a> {
    file: &'a File,
    at: u64,
    bytes: Vec<u8>,
}

impl Window<'_> {
    /// Returns the bytes from a position up to the end of the window, and whether the window begins
    /// there. If the window does not contain the position, at most `size` bytes up to `end` are
    /// read.
    fn from(&mut self, at: u64, end: u64, size: usize) -> io::Result<(&[u8], bool)> {
        let within = at.checked_sub(self.at).and_then(|within| usize::try_from(within).ok()).filter(|within| *within < self.bytes.len());
        if let Some(within) = within {
            return Ok((&self.bytes[within..], within == 0));
        }
        self.at = at;
        self.bytes.resize(size.min(usize::try_from(end - at).unwrap_or(size)), 0);
        self.file.read_exact_at(&mut self.bytes, at)?;
        Ok((&self.bytes, true))
    }
}

#[cfg(test)]
mod tests {
    use super::super::layout::HEADER;
    use super::super::stream::{Packet, Writer};
    use super::*;

    /// Ids of the events of the fixture: the exit of a thread, its name, and a copied stack.
    const EXIT: u16 = 4;
    const COMM: u16 = 2;
    const COPIED: u16 = 6;

    fn event(id: u16, time: u64, fields: &[u8]) -> Vec<u8> {
        [&id.to_ne_bytes()[..], &time.to_ne_bytes(), &[0; HEADER - 10], fields].concat()
    }

    fn copied(time: u64, addresses: u16, stack: u32) -> Vec<u8> {
        let length = 5 + 2 + 2 + 8 * usize::from(addresses) + 32;
        let mut fields = vec![0; length];
        fields[7..9].copy_from_slice(&addresses.to_ne_bytes());
        fields.extend(stack.to_ne_bytes());
        fields.resize(fields.len() + stack as usize, 0xee);
        event(COPIED, time, &fields)
    }

    #[test]
    fn all_events_are_found_whatever_their_lengths_are() {
        let layout = Layout::new(include_bytes!("../../tests/fixtures/metadata")).unwrap();
        let file = tempfile::tempfile().unwrap();
        let mut writer = Writer::new(&file, &layout.uuid);
        writer.packet(&Packet::default(), false, 0).unwrap();
        let (mut stacks, mut others) = (Vec::new(), Vec::new());
        for time in 0..400u64 {
            let sizes = [0, 1, 40, 900, 1000, 4000, 16 << 10, 60 << 10];
            let (addresses, stack) = ((time * 7 % 400) as u16, sizes[time as usize % sizes.len()]);
            writer.event(time, &copied(time, addresses, stack)).unwrap();
            stacks.push(time);
            for _ in 0..time % 3 {
                let name = vec![b'x'; (time * 31 % 9000) as usize];
                writer.event(time, &event(COMM, time, &[&[0], &name[..], &[0]].concat())).unwrap();
                writer.event(time, &event(EXIT, time, &[])).unwrap();
                others.extend([(Kind::Comm, time), (Kind::Exit, time)]);
            }
        }
        writer.finish(&Packet::default(), 0).unwrap();
        let (mut found_stacks, mut found) = (Vec::new(), Vec::new());
        scan(&file, &layout, &mut |event| found.push((event.kind, event.time)), &mut |time| found_stacks.push(time)).unwrap();
        assert_eq!((found_stacks, found), (stacks, others));
    }
}
