//! Event classes of the export. For each event class of the trace there is one class per
//! combination of shapes that its events have.
//!
//! The events of a tracer's class have the same shape, or nearly. In JSON, however, each event may
//! have other members, and a class for each would lead to metadata of unlimited size, which no
//! reader accepts. Therefore the number of classes is limited. Beyond the limit, the fields of an
//! event are exported as one JSON text.

use super::schema::{address, scope, Field, Form};
use super::shape::{shapes, Shape, Signature};
use crate::event::{Catalogue, ClassId, Event};
use crate::value::Value;
use longpole_ctf::types::{EventClass, Scope, Type};
use longpole_ctf::write::{EventLayout, Layout};
use longpole_ctf::MetadataError;
use std::collections::{HashMap, HashSet};
use std::rc::Rc;
use std::sync::Arc;

/// Number of exported classes per class of the trace above which arrays of different lengths share
/// a class.
const MAX_CLASSES_PER_CLASS: u32 = 8;
/// Maximum number of exported classes of one name.
const MAX_SHAPES: u32 = 1 << 10;
/// Maximum number of exported classes of a trace, as many as a recording may have.
const MAX_CLASSES: usize = 1 << 16;
/// Maximum number of fields of all classes. Readers accept twice as many.
const MAX_FIELDS: u64 = 1 << 19;
/// Maximum number of labels of a class that are exported.
const MAX_LABELS: usize = 1 << 16;

pub struct Class {
    name: String,
    attributes: Vec<(String, String)>,
    pub signature: Rc<Signature>,
    context: Vec<Field>,
    fields: Vec<Field>,
    pub layout: EventLayout,
    /// Set if all values are written in the form in which they were read.
    pub plain: bool,
    /// Set if some values may have labels.
    labelled: bool,
    /// Number of labels that may still be added.
    room: usize,
}

/// State of a class of the trace.
#[derive(Clone, Copy, Default)]
struct ClassState {
    /// The exported class of the last event.
    class: Option<u32>,
    /// Number of exported classes.
    shapes: u32,
}

pub struct Classes {
    pub all: Vec<Class>,
    known: HashMap<Rc<Signature>, u32>,
    recent: Vec<ClassState>,
    /// Number of exported classes, by name.
    names: HashMap<String, u32>,
    /// Classes whose events are one text, by name, form, and whether there is a context.
    others: HashMap<(Option<String>, Form, bool), u32>,
    fields: u64,
    /// Signature of the current event.
    signature: Signature,
}

impl Classes {
    pub fn new() -> Classes {
        let form = Form::default();
        Classes {
            all: Vec::new(),
            known: HashMap::new(),
            recent: Vec::new(),
            names: HashMap::new(),
            others: HashMap::new(),
            fields: 0,
            signature: Signature { class: ClassId(0), form, context: Vec::new(), fields: Vec::new() },
        }
    }

    /// Returns the class for events of this shape, or `None` if there are too many classes already.
    pub fn of(&mut self, form: Form, event: &Event<'_>, catalogue: &Catalogue, layout: &Layout) -> Option<usize> {
        let at = event.class.0 as usize;
        if self.recent.len() <= at {
            self.recent.resize(at + 1, ClassState::default());
        }
        let recent = self.recent[at];
        let last = recent.class.and_then(|class| self.all.get(class as usize)).map(|class| class.signature.clone());
        let like = last.as_deref().map_or((&[][..], &[][..]), |last| (&last.context, &last.fields));
        (self.signature.class, self.signature.form) = (event.class, form);
        let many = recent.shapes >= MAX_CLASSES_PER_CLASS;
        shapes(event.context, like.0, many, &mut self.signature.context).ok()?;
        shapes(event.fields, like.1, many, &mut self.signature.fields).ok()?;
        if last.is_some_and(|last| *last == self.signature) {
            return recent.class.map(|class| class as usize);
        }
        let found = match self.known.get(&self.signature) {
            Some(found) => *found,
            None => self.make(event, catalogue, layout)?,
        };
        self.recent[at].class = Some(found);
        Some(found as usize)
    }

    fn make(&mut self, event: &Event<'_>, catalogue: &Catalogue, layout: &Layout) -> Option<u32> {
        let described = &catalogue.classes[event.class.0 as usize];
        let of_name = self.names.get(&described.event_name).copied().unwrap_or(0);
        if of_name >= MAX_SHAPES || self.all.len() >= MAX_CLASSES || self.fields >= MAX_FIELDS {
            return None;
        }
        let signature = Rc::new(self.signature.clone());
        let context = fields(&described.context, &described.context_bases, event.context);
        let fields = fields(&described.fields, &described.bases, event.fields);
        let class = self.push(&described.event_name, &described.attributes, signature.clone(), context, fields, layout).ok()?;
        self.known.insert(signature, class);
        self.names.insert(described.event_name.clone(), of_name + 1);
        self.recent[event.class.0 as usize].shapes += 1;
        Some(class)
    }

    /// Returns the class for events whose fields and context are texts, and whether the event's
    /// name is its first field.
    pub fn other(&mut self, form: Form, event: &Event<'_>, catalogue: &Catalogue, layout: &Layout) -> Result<(usize, bool), MetadataError> {
        let name = &catalogue.classes[event.class.0 as usize].event_name;
        let has_context = !event.context.is_empty();
        let key = |own: bool| (own.then(|| name.clone()), form, has_context);
        // There may also be too many names; events of further names share one class.
        let own = self.others.contains_key(&key(true)) || self.all.len() < MAX_CLASSES;
        let key = key(own);
        let class = match self.others.get(&key) {
            Some(class) => *class,
            None => {
                let named =
                    |names: &[&str]| names.iter().map(|name| Field { name: (*name).to_owned(), ..Field::default() }).collect::<Vec<_>>();
                let context = named(if has_context { &["context"] } else { &[] });
                let fields = named(if own { &["fields"] } else { &["name", "fields"] });
                let texts = |fields: &[Field]| vec![Shape::Text; fields.len()];
                let signature = Signature { class: event.class, form, context: texts(&context), fields: texts(&fields) };
                let called = if own { name } else { "event" };
                let class = self.push(called, &[], Rc::new(signature), context, fields, layout)?;
                self.others.insert(key, class);
                class
            }
        };
        Ok((class as usize, !own))
    }

    fn push(
        &mut self,
        name: &str,
        attributes: &[(String, String)],
        signature: Rc<Signature>,
        context: Vec<Field>,
        fields: Vec<Field>,
        layout: &Layout,
    ) -> Result<u32, MetadataError> {
        // `MAX_CLASSES` is far below the range of `u32`.
        let id = self.all.len() as u32;
        let described = describe(u64::from(id), name, attributes, &signature, &context, &fields);
        let prepared = layout.event(&described)?;
        let weight = |ty: &Option<Arc<_>>| ty.as_ref().map_or(0, |ty| u64::from(Type::Struct(Arc::clone(ty)).weight()));
        self.fields += weight(&described.context) + weight(&described.payload);
        let all = || signature.context.iter().chain(&signature.fields);
        self.all.push(Class {
            name: name.to_owned(),
            attributes: attributes.to_vec(),
            plain: all().all(Shape::is_plain),
            labelled: all().any(Shape::has_names),
            room: MAX_LABELS,
            layout: prepared,
            signature: signature.clone(),
            context,
            fields,
        });
        Ok(id)
    }
}

impl Class {
    /// Stores the labels of the event's values. They are written with the metadata.
    pub fn learn(&mut self, event: &Event<'_>) {
        if !self.labelled {
            return;
        }
        let fields = self.context.iter_mut().chain(&mut self.fields);
        let shapes = self.signature.context.iter().chain(&self.signature.fields);
        let values = event.context.iter().chain(event.fields);
        for ((field, shape), value) in fields.zip(shapes).zip(values) {
            field.names.learn(value, shape, &mut self.room);
        }
    }

    pub fn description(&self, id: u64) -> EventClass {
        describe(id, &self.name, &self.attributes, &self.signature, &self.context, &self.fields)
    }
}

fn describe(
    id: u64,
    name: &str,
    attributes: &[(String, String)],
    signature: &Signature,
    context: &[Field],
    fields: &[Field],
) -> EventClass {
    EventClass {
        id,
        name: name.to_owned(),
        model_emf_uri: (!attributes.is_empty()).then(|| address(attributes)),
        context: (!context.is_empty()).then(|| Arc::new(scope(Scope::EventContext, HashSet::new(), context, &signature.context))),
        payload: Some(Arc::new(scope(Scope::EventFields, HashSet::new(), fields, &signature.fields))),
        ..EventClass::default()
    }
}

fn fields(names: &[String], bases: &[u8], values: &[Value<'_>]) -> Vec<Field> {
    let field = |at: usize| Field {
        name: names.get(at).cloned().unwrap_or_else(|| at.to_string()),
        base: bases.get(at).copied().unwrap_or(10),
        ..Field::default()
    };
    (0..values.len()).map(field).collect()
}

impl Default for Classes {
    fn default() -> Classes {
        Classes::new()
    }
}
