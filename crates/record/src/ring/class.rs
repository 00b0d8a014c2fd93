//! The event classes of a recording: enough of each to find where its events end.
//!
//! Events are walked only where that cannot be avoided: in rings that hold captured packets, and where the site table holds entries
//! that cannot be understood.

use std::borrow::Cow;

use longpole_abi::{fields, Field, FieldType, Kind, Site};

#[derive(Clone, Debug)]
pub struct Class {
    pub kind: Kind,
    pub name: String,
    pub fields: Vec<Field>,
    /// Of a queue, where its site says it.
    pub capacity: Option<u64>,
    /// Bytes of its events, if all are equally long.
    fixed: Option<usize>,
}

#[derive(Clone, Debug)]
pub struct Classes {
    by_id: Vec<Option<Box<Class>>>,
    /// Bytes of the events of a class that are equally long and no packets; 0 for all others. Walking looks here first.
    plain: Vec<u16>,
    /// Some id has an entry that cannot be understood.
    pub invalid: bool,
    /// Some site captures packets.
    pub packets: bool,
}

/// An event as it is met.
#[derive(Debug)]
pub struct Event<'a> {
    pub class: &'a Class,
    /// Header and payload.
    pub bytes: &'a [u8],
}

impl Event<'_> {
    /// Its name: that of its class, or, of an overflow class, the one that travels with it.
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
    /// Whether the site's events are of this class.
    pub fn is(&self, site: &Site) -> bool {
        (self.kind, &self.name, &self.fields) == (site.kind, &site.name, &site.fields)
    }
}

impl Classes {
    /// The overflow classes alone.
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

    /// The event at the begin of `bytes`; `None` if it has no class or does not end within them.
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

    /// Size of the event at the begin of `bytes` if it is of the plain kind and ends within them.
    pub fn plain_size(&self, bytes: &[u8]) -> Option<usize> {
        let id = u16::from_ne_bytes(bytes.get(..2)?.try_into().ok()?);
        let size = usize::from(self.plain[usize::from(id)]);
        (size != 0 && size <= bytes.len()).then_some(size)
    }

    /// How many events `bytes` hold; `Err`: at least so many, for one of them has no known form, and where it ends nobody knows.
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
    fn events_behind_one_of_no_known_form_cannot_be_counted() {
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
