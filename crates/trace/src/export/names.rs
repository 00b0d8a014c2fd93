//! Labels of the values of a field and of its parts. They are collected from the values and written
//! with the metadata.

use super::shape::{each, Shape};
use crate::value::Value;
use longpole_ctf::types::Mapping;
use std::collections::BTreeMap;

/// Labels of a field, or of a part of one.
#[derive(Clone, Debug, Default)]
pub struct Names {
    /// Labels by value and index, because a value may have several.
    labels: BTreeMap<(i128, usize), String>,
    /// Names of the bits of a bit map.
    pub flags: Vec<Mapping>,
    /// Labels of the fields of a structure, or of the elements of an array.
    parts: Vec<Names>,
}

impl Names {
    /// Stores the labels of a value of this shape. `room` is the number of labels that may still be
    /// added.
    pub fn learn(&mut self, value: &Value<'_>, shape: &Shape, room: &mut usize) {
        match (shape, value) {
            (Shape::Labelled { .. }, Value::Enum { value: number, .. } | Value::Several { value: number, .. })
                if *room > 0 && !self.labels.contains_key(&(*number, 0)) =>
            {
                for (at, label) in value.labels().take(*room).enumerate() {
                    self.labels.insert((*number, at), label.to_owned());
                    *room -= 1;
                }
            }
            (Shape::Flags, Value::Flags { flags, .. }) if self.flags.is_empty() => self.flags.clone_from(&flags.flags),
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
