//! Keywords of CTF 1.8 that are also names of fields. Our parser distinguishes them by their
//! position; other readers refuse them. A writer that appends event classes one by one must escape
//! them itself, because whether a name can be escaped depends on all classes.

use crate::types::{Member, Schema, StructType, Type};
use std::collections::BTreeSet;

const WORDS: [&str; 25] = [
    "align",
    "callsite",
    "char",
    "clock",
    "const",
    "double",
    "enum",
    "env",
    "event",
    "float",
    "floating_point",
    "int",
    "integer",
    "long",
    "short",
    "signed",
    "stream",
    "string",
    "struct",
    "trace",
    "typealias",
    "typedef",
    "unsigned",
    "variant",
    "void",
];

/// Returns true for a keyword of CTF 1.8 that can be a field's name.
pub fn is_keyword(name: &str) -> bool {
    WORDS.contains(&name)
}

/// The keywords that can be written with the underscore that readers remove.
#[derive(Default)]
pub struct Keywords(BTreeSet<&'static str>);

impl Keywords {
    pub fn of(schema: &Schema) -> Keywords {
        let mut found = Found::default();
        let scope = |ty: &Option<std::sync::Arc<StructType>>, found: &mut Found| {
            if let Some(ty) = ty {
                found.members(ty.fields(), false);
            }
        };
        scope(&schema.trace.packet_header, &mut found);
        for stream in &schema.streams {
            [&stream.packet_context, &stream.event_header, &stream.event_context].into_iter().for_each(|ty| scope(ty, &mut found));
            for event in &stream.events {
                [&event.context, &event.payload].into_iter().for_each(|ty| scope(ty, &mut found));
            }
        }
        Keywords(found.names.difference(&found.kept).copied().collect())
    }

    /// The identifier for a field of this name; also for names in paths.
    pub fn name(&self, name: &str) -> String {
        match self.0.contains(name) {
            true => format!("_{name}"),
            false => name.to_owned(),
        }
    }
}

#[derive(Default)]
struct Found {
    names: BTreeSet<&'static str>,
    /// Keywords to which no underscore can be added: the result would be the name of another field,
    /// or the name is an option's, which must equal a label.
    kept: BTreeSet<&'static str>,
}

impl Found {
    fn members(&mut self, members: &[Member], options: bool) {
        for member in members {
            if let Some(word) = WORDS.into_iter().find(|word| *word == member.name) {
                let taken = members.iter().any(|other| other.name.strip_prefix('_') == Some(word));
                if options || taken {
                    self.kept.insert(word);
                }
                self.names.insert(word);
            }
            self.look(&member.ty);
        }
    }

    fn look(&mut self, ty: &Type) {
        match ty {
            Type::Struct(structure) => self.members(structure.fields(), false),
            Type::Variant(variant) => self.members(variant.options(), true),
            Type::Array(array) => self.look(array.element()),
            _ => {}
        }
    }
}
