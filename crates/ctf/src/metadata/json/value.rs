//! Access to the properties of JSON objects. Errors have the position of the property.

use super::syntax::{Json, Kind, Member};
use crate::error::{Span, SpanError};
use crate::types::Ranges;

pub(super) type Result<T> = std::result::Result<T, SpanError>;

pub(super) fn fail<T>(span: Span, message: impl Into<String>) -> Result<T> {
    Err(SpanError::new(span, message))
}

/// A JSON object, and the words for it in messages.
#[derive(Clone, Copy)]
pub(super) struct Object<'j> {
    pub span: Span,
    members: &'j [Member],
    what: &'j str,
}

impl<'j> Object<'j> {
    pub fn of(json: &'j Json, what: &'j str) -> Result<Object<'j>> {
        match &json.kind {
            Kind::Object(members) => Ok(Object { span: json.span, members, what }),
            _ => fail(json.span, format!("{what} is an object")),
        }
    }

    /// The same object with other words for it in messages.
    pub fn called(self, what: &'j str) -> Object<'j> {
        Object { what, ..self }
    }

    pub fn members(&self) -> &'j [Member] {
        self.members
    }

    pub fn get(&self, name: &str) -> Option<&'j Json> {
        self.members.iter().find(|m| m.name == name).map(|m| &m.value)
    }

    pub fn need(&self, name: &str) -> Result<&'j Json> {
        match self.get(name) {
            Some(value) => Ok(value),
            // Only the first character is marked; otherwise the whole of a large object would be
            // underlined.
            None => fail(Span { start: self.span.start, end: self.span.start + 1 }, format!("{} needs `{name}`", self.what)),
        }
    }

    /// Returns an error if the object has an extension, because an extension may change the meaning
    /// of everything else. User attributes are ignored.
    pub fn plain(&self) -> Result<()> {
        self.object("attributes")?;
        for Member { name: namespace, value } in self.object("extensions")?.map_or(&[][..], |object| object.members) {
            if let Some(Member { name, .. }) = Object::of(value, "extensions of a namespace")?.members.first() {
                let message = format!("the extension `{name}` of `{namespace}` is not known here, and without it nothing can be read");
                return fail(value.span, message);
            }
        }
        Ok(())
    }

    pub fn text(&self, name: &str) -> Result<Option<&'j str>> {
        self.get(name).map(|value| text(value, name)).transpose()
    }

    pub fn need_text(&self, name: &str) -> Result<&'j str> {
        text(self.need(name)?, name)
    }

    pub fn owned_text(&self, name: &str) -> Result<Option<String>> {
        Ok(self.text(name)?.map(str::to_owned))
    }

    pub fn number<T: TryFrom<i128>>(&self, name: &str) -> Result<Option<T>> {
        self.get(name).map(|value| number(value, name)).transpose()
    }

    pub fn need_number<T: TryFrom<i128>>(&self, name: &str) -> Result<T> {
        number(self.need(name)?, name)
    }

    pub fn object(&self, name: &'j str) -> Result<Option<Object<'j>>> {
        self.get(name).map(|value| Object::of(value, name)).transpose()
    }
}

pub(super) fn text<'j>(json: &'j Json, what: &str) -> Result<&'j str> {
    match &json.kind {
        Kind::Text(text) => Ok(text),
        _ => fail(json.span, format!("`{what}` is a text")),
    }
}

pub(super) fn number<T: TryFrom<i128>>(json: &Json, what: &str) -> Result<T> {
    match json.kind {
        Kind::Int(i) => T::try_from(i).or_else(|_| fail(json.span, format!("{i} is out of range for `{what}`"))),
        _ => fail(json.span, format!("`{what}` is an integer")),
    }
}

pub(super) fn list<'j>(json: &'j Json, what: &str) -> Result<&'j [Json]> {
    match &json.kind {
        Kind::List(items) => Ok(items),
        _ => fail(json.span, format!("`{what}` is an array")),
    }
}

/// Ranges: pairs of lowest and highest value.
pub(super) fn ranges(json: &Json, what: &str) -> Result<Ranges> {
    let items = list(json, what)?;
    if items.is_empty() {
        return fail(json.span, format!("`{what}` needs at least one range"));
    }
    items
        .iter()
        .map(|item| {
            let [low, high] = list(item, what)? else { return fail(item.span, "a range is an array of two integers") };
            let (low, high): (i128, i128) = (number(low, "range")?, number(high, "range")?);
            if low > high {
                return fail(item.span, "this range ends before it begins");
            }
            if low < i128::from(i64::MIN) || high > i128::from(u64::MAX) {
                return fail(item.span, "no integer of 64 bits lies at an end of this range");
            }
            Ok((low, high))
        })
        .collect()
}

/// Labels with their ranges.
pub(super) fn mappings(object: Object<'_>) -> Result<Vec<crate::types::Mapping>> {
    let mut mappings = Vec::new();
    for Member { name, value } in object.members() {
        let ranges = ranges(value, "ranges")?;
        mappings.extend(ranges.into_iter().map(|(low, high)| crate::types::Mapping { label: name.clone(), low, high }));
    }
    Ok(mappings)
}
