//! Event classes. A call site requests its class id once and caches it. Equal sites of all programs
//! of a user have equal ids, so that one description is valid for all streams of a recording.

use crate::process::connection::own_process;
use crate::process::Process;
use crate::process::runtime_directory;
use crate::sync::Shared;
use crate::system::Text;
use core::mem::size_of;
use core::ptr::copy_nonoverlapping;
use core::sync::atomic::{AtomicU32, Ordering::*};
use longpole_abi::{
    SiteEntry, Sites, FIELDS_MAXIMUM, FIRST_SITE_ID, NAME_MAXIMUM, SITE_ARENA_MAXIMUM, SITE_ARENA_STEP, SITE_ATTEMPTS, SITE_SLOTS,
};

/// A table of slots that several threads fill concurrently. The entry of a slot is complete before
/// it is published, and never changes.
pub trait Table {
    type Slot: Shared<u32>;

    fn slot(&self, id: u32) -> Option<&Self::Slot>;
    /// Makes the entry that is searched for; `None` if there is no memory.
    fn make(&self) -> Option<u32>;
    /// Called after an entry was published.
    fn published(&self);
    /// Returns `true` if this is the entry that is searched for.
    fn is(&self, entry: u32) -> bool;
}

/// Searches for an entry, beginning with the slot that its hash selects, and adds it if it is
/// missing. Returns `None` if there is no room.
///
/// No thread waits: if another thread wins the race for a slot, this one compares the winner's
/// entry and continues.
pub fn find(table: &impl Table, hash: u32) -> Option<u32> {
    let room = SITE_SLOTS as u32 - u32::from(FIRST_SITE_ID);
    let mut made = None;
    for probe in 0..SITE_ATTEMPTS {
        let id = u32::from(FIRST_SITE_ID) + hash.wrapping_add(probe) % room;
        let slot = table.slot(id)?;
        let mut entry = slot.load(Acquire);
        if entry == 0 {
            let own = match made {
                Some(own) => own,
                None => table.make()?,
            };
            made = Some(own);
            match slot.compare_exchange(0, own, AcqRel, Acquire) {
                Ok(_) => {
                    table.published();
                    return Some(id);
                }
                Err(other) => entry = other,
            }
        }
        if table.is(entry) {
            return Some(id);
        }
    }
    None
}

/// The properties that identify a site.
pub struct Key<'a> {
    pub kind: u32,
    pub line: u32,
    pub name: &'a [u8],
    pub fields: &'a [u8],
    pub file: &'a [u8],
    pub attributes: &'a [u8],
}

impl Key<'_> {
    fn texts(&self) -> [&[u8]; 4] {
        [self.name, self.fields, self.file, self.attributes]
    }

    fn hash(&self) -> u32 {
        let add = |hash: u32, bytes: &[u8]| bytes.iter().fold(hash, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193));
        let start = add(add(0x811c_9dc5, &self.kind.to_ne_bytes()), &self.line.to_ne_bytes());
        self.texts().into_iter().fold(start, add)
    }
}

/// The site table of the runtime directory, with the key to search for.
struct Asked<'a> {
    process: &'a Process,
    sites: *mut Sites,
    key: &'a Key<'a>,
    hash: u32,
}

impl Asked<'_> {
    fn sites(&self) -> &Sites {
        // SAFETY: the mapping is never removed, and the parts that others change are atomics.
        unsafe { &*self.sites }
    }

    /// The address of an arena offset.
    fn place(&self, offset: u64) -> *mut u8 {
        // SAFETY: the whole arena is mapped; callers check which part of it is backed by memory.
        unsafe { self.sites.add(1).cast::<u8>().add(offset as usize) }
    }

    /// Allocates bytes of the arena; returns their offset, or `None` if there is no memory.
    fn take(&self, size: u64) -> Option<u64> {
        let sites = self.sites();
        let offset = sites.arena_next.fetch_add(size, Relaxed);
        let mut backed = sites.arena_size.load(Acquire);
        while offset.checked_add(size)? > backed {
            if offset + size > SITE_ARENA_MAXIMUM {
                return None;
            }
            let directory = runtime_directory::open_directory(&self.process.directory()).ok()?;
            let file = runtime_directory::open_writable(&directory, &Text::<16>::of(&[b"sites"])).ok()?;
            if crate::system::fallocate(file.0, 0, 0, size_of::<Sites>() + (backed + SITE_ARENA_STEP) as usize) < 0 {
                return None;
            }
            // A thread that loses this race has extended the file as well, so the file is at least
            // as large as the winner states.
            backed = match sites.arena_size.compare_exchange(backed, backed + SITE_ARENA_STEP, AcqRel, Acquire) {
                Ok(before) => before + SITE_ARENA_STEP,
                Err(other) => other,
            };
        }
        Some(offset)
    }
}

impl Table for Asked<'_> {
    type Slot = AtomicU32;

    fn slot(&self, id: u32) -> Option<&AtomicU32> {
        self.sites().slots.get(id as usize)
    }

    fn make(&self) -> Option<u32> {
        let texts = self.key.texts();
        let size = (size_of::<SiteEntry>() + texts.iter().map(|text| text.len()).sum::<usize>()).next_multiple_of(8);
        let offset = self.take(size as u64)?;
        let entry = SiteEntry {
            size: size as u32,
            kind: self.key.kind as u16,
            name_size: self.key.name.len() as u16,
            fields_size: self.key.fields.len() as u16,
            file_size: self.key.file.len() as u16,
            attributes_size: self.key.attributes.len() as u16,
            reserved: 0,
            line: self.key.line,
            hash: self.hash,
        };
        // SAFETY: these bytes of the arena belong to this call and are backed by memory; offsets
        // are multiples of 8.
        unsafe {
            let place = self.place(offset);
            place.cast::<SiteEntry>().write_unaligned(entry);
            let mut at = place.add(size_of::<SiteEntry>());
            for text in texts {
                copy_nonoverlapping(text.as_ptr(), at, text.len());
                at = at.add(text.len());
            }
        }
        Some((offset / 8) as u32)
    }

    fn published(&self) {
        self.sites().used.fetch_add(1, Release);
    }

    fn is(&self, entry: u32) -> bool {
        let offset = u64::from(entry) * 8;
        // Any program may have overwritten the table, so only entries that are backed by memory are
        // compared.
        let backed = self.sites().arena_size.load(Acquire).min(SITE_ARENA_MAXIMUM);
        let texts = self.key.texts();
        let size = size_of::<SiteEntry>() + texts.iter().map(|text| text.len()).sum::<usize>();
        if offset + size as u64 > backed {
            return false;
        }
        // SAFETY: the bytes are mapped and backed by memory; any bit pattern is a valid entry.
        unsafe {
            let place = self.place(offset);
            let known = place.cast::<SiteEntry>().read_unaligned();
            let sizes = [known.name_size, known.fields_size, known.file_size, known.attributes_size];
            if known.hash != self.hash
                || u32::from(known.kind) != self.key.kind
                || known.line != self.key.line
                || sizes.iter().zip(&texts).any(|(size, text)| usize::from(*size) != text.len())
            {
                return false;
            }
            let mut at = place.add(size_of::<SiteEntry>());
            for text in texts {
                if core::slice::from_raw_parts(at, text.len()) != text {
                    return false;
                }
                at = at.add(text.len());
            }
        }
        true
    }
}

/// The class id of a site, or its kind (the overflow class) if there is no room for another class.
#[cold]
pub fn resolve(mut key: Key) -> u32 {
    let Some(process) = own_process() else { return key.kind };
    let sites = process.sites.load(Relaxed);
    if sites.is_null() || key.fields.len() > FIELDS_MAXIMUM || key.attributes.len() > NAME_MAXIMUM {
        return key.kind;
    }
    key.name = &key.name[..key.name.len().min(NAME_MAXIMUM)];
    // The end of a path is more useful than its start.
    key.file = &key.file[key.file.len().saturating_sub(NAME_MAXIMUM)..];
    let hash = key.hash();
    find(&Asked { process, sites, key: &key, hash }, hash).unwrap_or(key.kind)
}

/// The cached class id; resolves it on first use.
pub fn remember(memory: &AtomicU32, key: impl FnOnce() -> u32) -> u32 {
    let mut id = memory.load(Relaxed);
    if id == 0 {
        id = key();
        memory.store(id, Relaxed);
    }
    id
}
