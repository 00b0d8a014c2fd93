//! What the values of a field are called, also in its parts: gathered from the values, and written with the metadata.

use super::shape::{each, Shape};
use crate::value::Value;
use longpole_ctf::types::Mapping;
use std::collections::BTreeMap;

/// Of a field, or of a part of one.
#[derive(Clone, Debug, Default)]
pub struct Names {
    /// By value, and which of its labels it is.
    labels: BTreeMap<(i128, usize), String>,
    /// Of a bit map.
    pub flags: Vec<Mapping>,
    /// Of a structure's fields, or all elements of an array.
    parts: Vec<Names>,
}

impl Names {
    /// Keeps what a value of this shape is called. `room`: how many labels there may be.
    pub fn learn(&mut self, value: &Value<'_>, shape: &Shape, room: &mut usize) {
        match (shape, value) {
            (Shape::Labelled { .. }, Value::Enum { value: number, .. } | Value::Several { value: number, .. }) => {
                if *room > 0 && !self.labels.contains_key(&(*number, 0)) {
                    for (at, label) in value.labels().take(*room).enumerate() {
                        self.labels.insert((*number, at), label.to_owned());
                        *room -= 1;
                    }
                }
            }
            (Shape::Flags, Value::Flags { flags, .. }) => {
                if self.flags.is_empty() {
                    self.flags.clone_from(&flags.flags);
                }
            }
            (Shape::List(_, element), Value::Nested(nested)) if element.has_names() => {
                self.parts.resize(1, Names::default());
                let names = &mut self.parts[0];
                let Ok(()) = nested.each(|_, part| {
                    names.learn(&part, element, room);
                    Ok::<(), std::convert::Infallible>(())
                });
            }
            (Shape::Fields(fields), Value::Nested(nested)) if shape.has_names() => {
                self.parts.resize(fields.len(), Names::default());
                let mut parts = self.parts.iter_mut();
                each(nested, fields, |_, shape, part| {
                    if let Some(names) = parts.next() {
                        names.learn(&part, shape, room);
                    }
                });
            }
            _ => {}
        }
    }

    pub fn part(&self, at: usize) -> Option<&Names> {
        self.parts.get(at)
    }

    pub fn mappings(&self) -> Vec<Mapping> {
        let mapping = |((value, _), label): (&(i128, usize), &String)| Mapping { label: label.clone(), low: *value, high: *value };
        self.labels.iter().map(mapping).collect()
    }
}
