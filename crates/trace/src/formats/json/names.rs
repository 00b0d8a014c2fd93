//! Interns what repeats in JSON events: classes (an event name with its field names) and subjects.
//!
//! JSON may contain any number of names, so both tables are limited. Beyond the limit an event
//! keeps its name as a field, and its subject is unnamed.

use super::object::Object;
use crate::event::{Class, ClassId, Subject, SubjectId};
use crate::shared::Shared;
use longpole_ctf::OwnedValue;
use std::collections::HashMap;

const MAX_CLASSES: usize = 1 << 16;
const MAX_SUBJECTS: usize = 1 << 20;

#[derive(Default)]
pub struct Classes {
    /// Classes by the names of the event and its fields.
    known: HashMap<Box<[u8]>, ClassId>,
    other: Option<ClassId>,
    key: Vec<u8>,
}

impl Classes {
    /// Returns the class of an event with these fields. If there are too many classes, replaces the
    /// fields by two: the name, and all fields in one.
    pub fn of(&mut self, name: &str, object: &mut Object, shared: &mut Shared) -> ClassId {
        self.key.clear();
        self.key.extend_from_slice(name.as_bytes());
        self.key.push(0);
        self.key.extend_from_slice(&object.names);
        if let Some(&class) = self.known.get(self.key.as_slice()) {
            return class;
        }
        if self.known.len() < MAX_CLASSES {
            let class = shared.class(Class { event_name: name.to_owned(), fields: object.names(), ..Class::default() });
            self.known.insert(self.key.as_slice().into(), class);
            return class;
        }
        let fields = object.names().into_iter().map(|name| name.as_str().into()).zip(object.values.drain(..)).collect();
        object.values.extend([OwnedValue::Str(name.as_bytes().to_vec()), OwnedValue::Fields(fields)]);
        *self.other.get_or_insert_with(|| {
            let fields = ["name", "fields"].map(str::to_owned).to_vec();
            shared.class(Class { event_name: "event".to_owned(), fields, ..Class::default() })
        })
    }
}

#[derive(Default)]
pub struct Subjects {
    known: HashMap<Box<str>, SubjectId>,
    nobody: Option<SubjectId>,
    key: String,
}

impl Subjects {
    /// Returns the subject with this key. `texts` are as written in the file.
    pub fn of(&mut self, texts: [&str; 2], shared: &mut Shared, make: impl FnOnce() -> Subject) -> SubjectId {
        self.key.clear();
        texts.iter().for_each(|text| {
            self.key.push_str(text);
            self.key.push('\0');
        });
        if let Some(&subject) = self.known.get(self.key.as_str()) {
            return subject;
        }
        if self.known.len() >= MAX_SUBJECTS {
            return *self.nobody.get_or_insert_with(|| shared.subject(Subject::default()));
        }
        let subject = shared.subject(make());
        self.known.insert(self.key.as_str().into(), subject);
        subject
    }
}
