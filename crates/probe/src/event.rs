//! Probes whose events vary in size: packets, user-defined events, texts.

use crate::as_name::Ref;
use crate::name::{cut, on, probe, probe_named, Class, Site, EVENT, PACKET};
use crate::plain::Direction;
use crate::process::page;
use crate::ring::{emit, emit_parts, Part, EVENT_MAXIMUM};
use crate::system::Text;
use crate::value::{Field, Type, Value};
use core::fmt::{self, Write};
use core::mem::MaybeUninit;
use core::ptr::copy_nonoverlapping;
use core::sync::atomic::Ordering::*;
use longpole_abi::kind::Category;
use longpole_abi::{Kind, FIELDS_MAXIMUM, FIRST_SITE_ID, NAME_MAXIMUM};

const FIRST: u32 = FIRST_SITE_ID as u32;
/// Maximum number of fields of an event.
pub const FIELDS: usize = 32;

/// The name of a probe: that of a call site, or one that was passed.
#[derive(Clone, Copy)]
pub enum Named<'a> {
    Site(&'a Site),
    Ref(Ref<'a>),
}

impl Named<'_> {
    fn known(&self, class: &Class) -> u32 {
        match self {
            Named::Site(site) => site.known(),
            Named::Ref(name) => name.known(class),
        }
    }

    /// Resolves the class id, and returns the name. Below 64 there is no class, and the name must
    /// be part of the event.
    fn resolve(&self, class: &Class, fields: &[u8]) -> (u32, Text<{ NAME_MAXIMUM + 1 }>) {
        match self {
            Named::Site(site) => site.resolve(class.kind, fields),
            Named::Ref(name) => (name.resolve(class, fields), Text::of(&[name.bytes()])),
        }
    }
}

/// Records a captured frame, cut at the recorder's snaplen.
#[cold]
#[inline(never)]
pub fn packet(named: Named, direction: Direction, bytes: &[u8]) {
    let most = EVENT_MAXIMUM - 512;
    let snaplen = page().orders.snaplen.load(Relaxed) as usize;
    let captured = bytes.len().min(if snaplen == 0 { most } else { snaplen.min(most) });
    let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
    let words = Part::Word(direction as u64 | u64::from(length) << 32);
    let frame = Part::Bytes(&bytes[..captured]);
    let known = named.known(&PACKET);
    if known >= FIRST {
        return emit_parts(known, &[words, frame], true);
    }
    let (id, name) = named.resolve(&PACKET, PACKET.fields.as_bytes());
    if id >= FIRST {
        emit_parts(id, &[words, frame], true);
    } else {
        emit_parts(id, &[words, frame, cut(name.bytes())], true);
    }
}

/// The description of an event's fields. Names are made identifiers and unique, because the event
/// could not be read otherwise.
pub fn describe<'a>(fields: impl Iterator<Item = (Type, &'a str)> + Clone) -> Text<{ FIELDS_MAXIMUM + 2 }> {
    let mut text = Text::new();
    for (nth, (kind, name)) in fields.clone().enumerate() {
        if nth != 0 {
            text.push(b",");
        }
        kind.describe(&mut text);
        text.push(b":");
        let name = name.strip_prefix("r#").unwrap_or(name);
        let begin = text.bytes().len();
        text.push(name.as_bytes());
        for (at, byte) in text.bytes_mut()[begin..].iter_mut().enumerate() {
            if !(byte.is_ascii_alphabetic() || *byte == b'_' || (at != 0 && byte.is_ascii_digit())) {
                *byte = b'_';
            }
        }
        // The name with its number may be the name of another field.
        for _ in 0..=nth {
            if text.bytes().len() != begin && !has_twin(&text, begin) {
                break;
            }
            text.push(b"_");
            text.push_number(nth as u64, 10, 0);
        }
    }
    text
}

/// Returns `true` if the name that begins at `begin` also occurs before it.
fn has_twin<const N: usize>(text: &Text<N>, begin: usize) -> bool {
    let (before, name) = text.bytes().split_at(begin);
    // No type contains a comma or a colon.
    before.split(|byte| *byte == b',').any(|field| field.split(|byte| *byte == b':').nth(1) == Some(name))
}

/// Cuts texts and byte arrays so that the event does not exceed [`EVENT_MAXIMUM`].
pub fn fit(parts: &mut [Part]) {
    let mut room = EVENT_MAXIMUM - 8 - 16 * parts.len();
    for part in parts {
        let width = if let Part::Array(_, width) = part { *width } else { 1 };
        let (Part::Text(bytes) | Part::Bytes(bytes) | Part::Array(bytes, _)) = part else { continue };
        let most = room - room % width;
        *bytes = &bytes[..bytes.len().min(most)];
        room -= bytes.len();
    }
}

/// Records a user-defined event.
#[cold]
#[inline(never)]
pub fn event(named: Named, fields: &[(&'static str, &dyn Field)]) {
    let fields = &fields[..fields.len().min(FIELDS)];
    let mut parts = [Part::Word(0); FIELDS];
    let mut id = named.known(&EVENT);
    if id < FIRST {
        let text = describe(fields.iter().map(|(name, value)| (value.typed().0, *name)));
        let whole = text.bytes().len() <= FIELDS_MAXIMUM;
        let name;
        // A truncated description would describe another event, so it is replaced by one that is
        // certainly too long, for which there is no class.
        let longest = [b'?'; FIELDS_MAXIMUM + 1];
        (id, name) = named.resolve(&EVENT, if whole { text.bytes() } else { &longest });
        if id < FIRST {
            // Without a class there is no description of the fields, so only the name of the event
            // is recorded.
            return emit_parts(EVENT.kind, &[cut(name.bytes())], false);
        }
    }
    for (part, (_, value)) in parts.iter_mut().zip(fields) {
        *part = match value.typed().1 {
            Part::Text(text) => Part::text(text),
            part => part,
        };
    }
    let parts = &mut parts[..fields.len()];
    fit(parts);
    emit_parts(id, parts, false);
}

/// Records a text on the timeline.
#[cold]
#[inline(never)]
pub fn log(text: &str) {
    let text = text.as_bytes();
    emit_parts(Kind::Log as u32, &[Part::text(&text[..text.len().min(EVENT_MAXIMUM - 64)])], false);
}

/// A text of bounded size, for formatting without allocating memory.
pub struct Buffer {
    text: [MaybeUninit<u8>; EVENT_MAXIMUM - 64],
    length: usize,
}

impl Buffer {
    pub const fn new() -> Buffer {
        Buffer { text: [MaybeUninit::uninit(); EVENT_MAXIMUM - 64], length: 0 }
    }

    pub fn bytes(&self) -> &[u8] {
        // SAFETY: `length` bytes were written.
        unsafe { core::slice::from_raw_parts(self.text.as_ptr().cast(), self.length) }
    }

    /// Appends as much as fits; returns `false` if something was dropped.
    pub fn push(&mut self, bytes: &[u8]) -> bool {
        let size = bytes.len().min(self.text.len() - self.length);
        // SAFETY: `size` bytes are available behind those that were written.
        unsafe { copy_nonoverlapping(bytes.as_ptr(), self.text.as_mut_ptr().add(self.length).cast(), size) };
        self.length += size;
        size == bytes.len()
    }
}

impl Write for Buffer {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        if self.push(text.as_bytes()) {
            Ok(())
        } else {
            Err(fmt::Error)
        }
    }
}

/// Records a text that is formatted only now, because it is recorded.
#[cold]
#[inline(never)]
pub fn log_formatted(arguments: fmt::Arguments) {
    if let Some(text) = arguments.as_str() {
        return log(text);
    }
    let mut buffer = Buffer::new();
    // A text that is too long is cut.
    let _ = buffer.write_fmt(arguments);
    emit_parts(Kind::Log as u32, &[Part::text(buffer.bytes())], false);
}

/// Records the value of a gauge. Its class depends on the type of the value.
#[inline(always)]
pub fn counter<V: Value>(site: &Site, value: V) {
    probe(site, &V::CLASS, [value.word()]);
}

/// Like `counter`, with a handle or a text as its name.
#[inline(always)]
pub fn counter_named<V: Value>(name: Ref, value: V) {
    probe_named(name, &V::CLASS, [value.word()]);
}

/// Records a hand-over that is not a queue.
#[inline(always)]
pub fn link(from: u64, to: u64) {
    emit(Kind::Link as u32, [from, to]);
}

/// Assigns what this thread does from here on to a flow.
#[inline(always)]
pub fn flow(id: u64) {
    emit(Kind::Flow as u32, [id]);
}

/// Sets the label of the process.
pub fn label(text: &str) {
    crate::process::connection::set_label(text.as_bytes());
}

/// Returns `true` if texts are recorded.
#[inline(always)]
pub fn logs() -> bool {
    on(Category::Log)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn field_names_become_distinct_identifiers() {
        let fields = [(b'i', "a"), (b'u', "r#type"), (b's', "a.b"), (b'd', "a"), (b'x', ""), (b'i', "1st")];
        let fields = fields.map(|(letter, name)| (Type::Plain(letter), name));
        assert_eq!(describe(fields.into_iter()).bytes(), b"i:a,u:type,s:a_b,d:a_3,x:_4,i:_st");
        let fields = ["a_2", "a", "a", "a b", "a_b"].map(|name| (Type::Plain(b'i'), name));
        assert_eq!(describe(fields.into_iter()).bytes(), b"i:a_2,i:a,i:a_2_2,i:a_b,i:a_b_4");
        let fields = [(Type::Array("u2[]"), "a"), (Type::Labels("a=1;b c=-2"), "a"), (Type::Labels("a="), "b")];
        assert_eq!(describe(fields.into_iter()).bytes(), b"u2[]:a,e[a=1;b c=-2]:a_1,i:b");
    }

    #[test]
    fn an_event_never_exceeds_the_maximum_size() {
        let long = [b'x'; 5000];
        let mut parts = [Part::Text(&long), Part::Word(1), Part::Bytes(&long), Part::Text(&long)];
        fit(&mut parts);
        let sizes: usize = parts.iter().map(|part| if let Part::Text(b) | Part::Bytes(b) = part { b.len() + 16 } else { 8 }).sum();
        assert!(sizes + 8 <= EVENT_MAXIMUM);
    }
}
