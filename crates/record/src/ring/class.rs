//! The event classes of a recording, with enough of each to find the end of an event.
//!
//! Events are decoded only where that is unavoidable: in rings that hold captured packets, and if
//! the site table holds entries that cannot be understood.

use std::borrow::Cow;

use longpole_abi::{fields, Field, FieldType, Kind, Site};

/// An event class: the kind, name and fields of the events of a site.
#[derive(Clone, Debug)]
pub struct Class {
    pub kind: Kind,
    pub name: String,
    pub fields: Vec<Field>,
    /// Capacity of a queue, if its site declares one.
    pub capacity: Option<u64>,
    /// Size in bytes of its events, if all have the same size.
    fixed: Option<usize>,
}

/// The event classes of one runtime directory, by id.
#[derive(Clone, Debug)]
pub struct Classes {
    /// Classes, by id.
    by_id: Vec<Option<Box<Class>>>,
    /// Size in bytes of the events of each class that has a fixed size and is not a packet; 0 for
    /// all other classes. Decoding looks here first.
    plain: Vec<u16>,
    /// True if some id has an entry that cannot be understood.
    pub invalid: bool,
    /// True if some site captures packets.
    pub packets: bool,
}

/// One event in a ring.
#[derive(Debug)]
pub struct Event<'a> {
    pub class: &'a Class,
    /// Header and payload.
    pub bytes: &'a [u8],
}

impl Event<'_> {
    /// The event's name: that of its class, or, for an overflow class, the name stored in the
    /// event.
    pub fn name(&self) -> Cow<'_, str> {
        if !self.class.name.is_empty() {
            return Cow::Borrowed(&self.class.name);
        }
        let mut at = 8;
        for field in &self.class.fields {
            match field.kind {
                FieldType::Text => {
                    let text = self.bytes.get(at..).unwrap_or(&[]);
                    let end = text.iter().position(|byte| *byte == 0).unwrap_or(text.len());
                    if field.name == "name" {
                        return String::from_utf8_lossy(&text[..end]);
                    }
                    at += (end + 1).next_multiple_of(8);
                }
                FieldType::U32 => at += 4,
                FieldType::Bytes => break,
                _ => at += 8,
            }
        }
        Cow::Borrowed("")
    }
}

impl Class {
    /// Returns whether the events of `site` have this class.
    pub fn is(&self, site: &Site) -> bool {
        (self.kind, &self.name, &self.fields) == (site.kind, &site.name, &site.fields)
    }
}

impl Classes {
    /// The overflow classes only.
    pub fn new() -> Classes {
        let mut classes = Classes { by_id: Vec::new(), plain: vec![0; longpole_abi::SITE_SLOTS], invalid: false, packets: false };
        classes.by_id.resize_with(longpole_abi::SITE_SLOTS, || None);
        for kind in Kind::ALL {
            let fields = fields::parse(kind.overflow_fields()).unwrap_or_default();
            classes.insert(*kind as u16, *kind, String::new(), fields);
        }
        classes
    }

    pub fn get(&self, id: u16) -> Option<&Class> {
        self.by_id[usize::from(id)].as_deref()
    }

    /// Adds the class of a site.
    pub fn add(&mut self, id: u16, site: &Site) {
        self.packets |= site.kind == Kind::Packet;
        self.insert(id, site.kind, site.name.clone(), site.fields.clone());
        let capacity = site.attributes.split('&').find_map(|attribute| attribute.strip_prefix("capacity=")?.parse().ok());
        if let Some(class) = &mut self.by_id[usize::from(id)] {
            class.capacity = capacity;
        }
    }

    fn insert(&mut self, id: u16, kind: Kind, name: String, fields: Vec<Field>) {
        let mut fixed = Some(8);
        for field in &fields {
            fixed = match field.kind {
                FieldType::Text | FieldType::Bytes | FieldType::Array(_) => None,
                FieldType::U32 => fixed.map(|size| size + 4),
                _ => fixed.map(|size| size + 8),
            };
        }
        let plain = fixed.filter(|_| kind != Kind::Packet).and_then(|size| u16::try_from(size).ok());
        self.plain[usize::from(id)] = plain.unwrap_or(0);
        self.by_id[usize::from(id)] = Some(Box::new(Class { kind, name, fields, capacity: None, fixed }));
    }

    /// The event at the begin of `bytes`; `None` if its class is unknown or it does not end within
    /// `bytes`.
    pub fn event<'a>(&'a self, bytes: &'a [u8]) -> Option<Event<'a>> {
        let header = u64::from_ne_bytes(bytes.get(..8)?.try_into().ok()?);
        let class = self.by_id[usize::from(header as u16)].as_deref()?;
        let size = match class.fixed {
            Some(size) if size <= bytes.len() => size,
            Some(_) => return None,
            None => fields::event_size(&class.fields, bytes)?,
        };
        Some(Event { class, bytes: &bytes[..size] })
    }

    /// Size in bytes of the event at the begin of `bytes`, if its class has a fixed size, is not a
    /// packet, and the event ends within `bytes`.
    pub fn plain_size(&self, bytes: &[u8]) -> Option<usize> {
        let id = u16::from_ne_bytes(bytes.get(..2)?.try_into().ok()?);
        let size = usize::from(self.plain[usize::from(id)]);
        (size != 0 && size <= bytes.len()).then_some(size)
    }

    /// Number of events in `bytes`. `Err` holds a lower bound: the class of one event is unknown,
    /// so its end cannot be found.
    pub fn count(&self, bytes: &[u8]) -> Result<u64, u64> {
        let mut at = 0;
        let mut count = 0;
        while at < bytes.len() {
            count += 1;
            at += self.event(&bytes[at..]).ok_or(count)?.bytes.len();
        }
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_after_one_of_an_unknown_class_cannot_be_counted() {
        let mut classes = Classes::new();
        let site =
            Site { kind: Kind::SpanBegin, name: "a".into(), fields: Vec::new(), file: String::new(), line: 0, attributes: String::new() };
        classes.add(100, &site);
        let bytes = |ids: &[u64]| ids.iter().flat_map(|id| id.to_ne_bytes()).collect::<Vec<u8>>();
        assert_eq!(classes.count(&bytes(&[100, 100, 100])), Ok(3));
        assert_eq!(classes.count(&bytes(&[100, 100, 101, 100])), Err(3));
        assert_eq!(classes.count(&[]), Ok(0));
    }
}
