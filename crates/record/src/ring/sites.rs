//! The site table: what the class ids in the rings mean.
//!
//! Before a packet is written, the metadata must have all classes that it can use. An event's site is published before the event,
//! so a look at the table after the ring's head was read sees them all.

use crate::output::metadata;
use crate::ring::class::Classes;
use crate::runtime_dir::mapping::{Access, Mapping};
use crate::runtime_dir::Runtime;
use longpole_abi::{Site, Sites as Layout, FIRST_SITE_ID, MAGIC, SITE_ARENA_MAXIMUM, SITE_SLOTS, VERSION};
use std::io;
use std::mem::size_of;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::Ordering;

const HEADER: usize = size_of::<Layout>();
/// Fixed part and longest texts.
const LARGEST_ENTRY: usize = 4096;

#[derive(Debug)]
pub struct Sites {
    file: OwnedFd,
    inode: u64,
    /// It took the place of one whose classes are known.
    pub is_second: bool,
    mapping: Mapping,
    /// Slots as they were read.
    known: Vec<u32>,
    /// Bytes of the arena that belong to known slots.
    published: u64,
}

impl Sites {
    /// None: no program has made the table yet.
    pub fn open(runtime: &Runtime) -> io::Result<Option<Sites>> {
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

    /// Whether the file of that name is another one now: somebody removed this one, and a program that came later made its own.
    pub fn is_replaced(&self, runtime: &Runtime) -> bool {
        runtime.open_readable("sites").is_ok_and(|opened| opened.inode != self.inode)
    }

    fn layout(&self) -> Option<&Layout> {
        self.mapping.get::<Layout>(0)
    }

    /// Takes what is new into `classes`, and its description, as of this stream class, into `text`. Says what could not be understood.
    pub fn update(&mut self, stream: u32, classes: &mut Classes, text: &mut String, complaints: &mut Vec<String>) {
        if self.mapping.poisoned() {
            // What is in it nobody knows any more: what was learnt stays, and events of other classes are left out.
            classes.invalid = true;
            complaints.push("the site table was cut off".to_owned());
            return;
        }
        let Some(layout) = self.mapping.get::<Layout>(0) else { return };
        // All bytes that were given out belong to known slots: there can be no other one. (Offset 0 means a free slot, so the
        // arena begins with 8 unused bytes.)
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
        // The slots were read relaxed; their entries were complete before.
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
                        // Of a table that took the place of another one.
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
            return Err("it does not lie within the table".to_owned());
        }
        let site = Site::decode(&entry, 0).map_err(|error| error.to_string())?;
        let size = u32::from_ne_bytes([entry[0], entry[1], entry[2], entry[3]]);
        Ok((site, u64::from(size)))
    }

    /// Maps what the file has grown by.
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
