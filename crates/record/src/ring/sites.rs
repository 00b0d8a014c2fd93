//! The site table: the meaning of the class ids in the rings.
//!
//! A *site* is a place in a program where a probe writes events; the table maps its id to its kind,
//! name, fields and position in the source. Before a packet is written, the metadata must describe
//! all classes that it can use. A program publishes a site before its first event. Therefore a look
//! at the table that follows the read of a ring's head sees the sites of all events before that
//! head.

use crate::files::mapping::{Access, Mapping};
use crate::output::metadata;
use crate::ring::class::Classes;
use crate::runtime_dir::RuntimeDir;
use longpole_abi::{Site, Sites as Layout, FIRST_SITE_ID, MAGIC, SITE_ARENA_MAXIMUM, SITE_SLOTS, VERSION};
use std::io;
use std::mem::size_of;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::Ordering;

const HEADER: usize = size_of::<Layout>();
/// Limit in bytes of an entry: its fixed part and the longest texts.
const LARGEST_ENTRY: usize = 4096;

/// The mapped site table of a runtime directory.
#[derive(Debug)]
pub struct Sites {
    file: OwnedFd,
    inode: u64,
    /// This table replaced another one, whose classes are already known.
    pub is_second: bool,
    mapping: Mapping,
    /// Slots as they were last read.
    known: Vec<u32>,
    /// Number of bytes of the arena that belong to known slots.
    published: u64,
}

impl Sites {
    /// Opens the table; `None` if no program has made it yet.
    pub fn open(runtime: &RuntimeDir) -> io::Result<Option<Sites>> {
        let opened = match runtime.open_readable("sites") {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            other => other?,
        };
        if opened.size < HEADER as u64 {
            return Err(io::Error::other("the site table is cut off"));
        }
        let length = opened.size.min(HEADER as u64 + SITE_ARENA_MAXIMUM) as usize;
        let mapping = Mapping::new(opened.file.as_fd(), length, Access::Read)?;
        let sites = Sites { file: opened.file, inode: opened.inode, is_second: false, mapping, known: vec![0; SITE_SLOTS], published: 0 };
        match sites.layout() {
            Some(layout) if layout.magic.load(Ordering::Relaxed) == MAGIC && layout.version.load(Ordering::Relaxed) == VERSION => {
                Ok(Some(sites))
            }
            _ => Err(io::Error::other("the site table is of another version")),
        }
    }

    /// Returns whether the file of that name is a different one now. That happens if the file was
    /// removed and a program that started later made a new one.
    pub fn is_replaced(&self, runtime: &RuntimeDir) -> bool {
        runtime.open_readable("sites").is_ok_and(|opened| opened.inode != self.inode)
    }

    fn layout(&self) -> Option<&Layout> {
        self.mapping.get::<Layout>(0)
    }

    /// Adds new sites to `classes`, and their descriptions for stream class `stream` to `text`.
    /// Entries that cannot be understood are reported in `complaints`.
    pub fn update(&mut self, stream: u32, classes: &mut Classes, text: &mut String, complaints: &mut Vec<String>) {
        if self.mapping.poisoned() {
            // The contents are lost. Classes read before remain valid; events of other classes are
            // left out.
            classes.invalid = true;
            complaints.push("the site table was cut off".to_owned());
            return;
        }
        let Some(layout) = self.mapping.get::<Layout>(0) else { return };
        // If all allocated bytes belong to known slots, there are no new slots. (Offset 0 marks a
        // free slot, so the arena begins with 8 unused bytes.)
        if layout.arena_next.load(Ordering::Acquire) == self.published + 8 {
            return;
        }
        let mut new = Vec::new();
        for (id, (slot, known)) in layout.slots.iter().zip(&mut self.known).enumerate() {
            let slot = slot.load(Ordering::Relaxed);
            if slot != *known && *known == 0 {
                *known = slot;
                new.push((id as u16, slot));
            }
        }
        if new.is_empty() {
            return;
        }
        // The slots were read relaxed. The fence makes their entries visible, which were complete
        // before.
        std::sync::atomic::fence(Ordering::Acquire);
        self.grow();
        for (id, slot) in new {
            if id < FIRST_SITE_ID {
                complaints.push(format!("site table: the reserved id {id} is in use"));
                continue;
            }
            match self.decode(slot) {
                Ok((site, size)) => {
                    self.published += size;
                    match classes.get(id) {
                        // An entry of the replacing table that agrees with the table before.
                        Some(known) if self.is_second && known.is(&site) => {}
                        Some(_) if self.is_second => complaints
                            .push(format!("site table: {id} is another class in a second table; its events have the first one's name")),
                        _ => {
                            metadata::site(text, stream, id, &site);
                            classes.add(id, &site);
                        }
                    }
                }
                Err(why) => {
                    classes.invalid = true;
                    if classes.get(id).is_none() {
                        metadata::invalid(text, stream, id);
                    }
                    complaints.push(format!("site table: entry {id}: {why}"));
                }
            }
        }
    }

    fn decode(&self, slot: u32) -> Result<(Site, u64), String> {
        let offset = HEADER + slot as usize * 8;
        let length = self.mapping.len().saturating_sub(offset).min(LARGEST_ENTRY);
        let mut entry = vec![0; length];
        if !self.mapping.copy(offset, &mut entry) {
            return Err("it is not within the table".to_owned());
        }
        let site = Site::decode(&entry, 0).map_err(|error| error.to_string())?;
        let size = u32::from_ne_bytes([entry[0], entry[1], entry[2], entry[3]]);
        Ok((site, u64::from(size)))
    }

    /// Maps the bytes that were added to the file.
    fn grow(&mut self) {
        let Ok(found) = rustix::fs::fstat(&self.file) else { return };
        let length = (found.st_size as u64).min(HEADER as u64 + SITE_ARENA_MAXIMUM) as usize;
        if length > self.mapping.len() {
            if let Ok(mapping) = Mapping::new(self.file.as_fd(), length, Access::Read) {
                self.mapping = mapping;
            }
        }
    }
}
