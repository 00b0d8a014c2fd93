//! The names that readers show for fields, which differ from those of the metadata.

use super::{Member, Type};
use std::borrow::Cow;
use std::collections::HashSet;

/// The name to show for a field. LTTng and babeltrace put one underscore before names so that they
/// cannot clash with keywords, and readers remove it.
pub fn display_name(name: &str) -> &str {
    name.strip_prefix('_').unwrap_or(name)
}

/// The names to show for all fields of a structure, or all options of a variant, of CTF 1.8. An
/// underscore stays if its removal would produce the name of another member: `len` and `_len` keep
/// their names.
pub(crate) fn display_names(members: &[Member]) -> Vec<&str> {
    let names = || members.iter().map(|member| member.name.as_str());
    let all: HashSet<&str> = names().filter(|name| name.starts_with('_')).collect();
    let mut kept = HashSet::new();
    for plain in names().filter(|name| !all.is_empty() && !name.starts_with('_')) {
        let mut longer = format!("_{plain}");
        while let Some(name) = all.get(longer.as_str()) {
            kept.insert(*name);
            longer.insert(0, '_');
        }
    }
    names().map(|name| if kept.contains(name) { name } else { display_name(name) }).collect()
}

/// Maximum number of dots in a name at which a structure of the name before the dot is searched
/// for.
const MAX_DOTS: usize = 64;

/// The names to show for all fields of a CTF 2 structure. Fields of nested structures are flattened
/// to `outer.inner`. If a structure has a field `a.b` and also a structure `a`, which may have a
/// field `b`, then the dots of `a.b` are written as `\.`.
pub(crate) fn undotted_names(fields: &[Member]) -> Vec<Cow<'_, str>> {
    let structures: HashSet<&str> = fields.iter().filter(|f| matches!(f.ty, Type::Struct(_))).map(|f| f.name.as_str()).collect();
    let is_ambiguous = |name: &str| name.match_indices('.').take(MAX_DOTS).any(|(dot, _)| structures.contains(&name[..dot]));
    let names = fields.iter().map(|field| field.name.as_str());
    let shown = names.map(|name| match !structures.is_empty() && is_ambiguous(name) {
        true => Cow::Owned(name.replace('.', "\\.")),
        false => Cow::Borrowed(name),
    });
    shown.collect()
}
