//! Parses `events/SYSTEM/NAME/format`, which describes the fields of a record.
//!
//! The kernel states offset, size and sign of each field. The C type is kept as text, because only
//! the type distinguishes an array of characters from an array of numbers; nothing else is derived
//! from it. The print formula is kept as text and not evaluated.
//!
//! A format is parsed once; after that, reading a field takes one addition and one bounds check.

use std::collections::HashMap;

use crate::byte_order::ByteOrder;
use crate::error::{FieldError, FormatError, FormatErrorKind};

/// One event class of the kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventFormat {
    /// Name of the subsystem.
    pub system: String,
    /// Name of the event within it.
    pub name: String,
    /// Value of `common_type` in its records.
    pub id: u16,
    /// Fields named `common_*`, which all events of a kernel share, in the order of their offsets.
    pub common: Vec<Field>,
    /// Other fields, in the order of the text.
    pub fields: Vec<Field>,
    /// The text after `print fmt:`.
    pub print_fmt: String,
}

/// A value with its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Label {
    /// The value.
    pub value: i64,
    /// Name of the value.
    pub name: String,
}

/// Place and type of a field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// Name of the field.
    pub name: String,
    /// The C type, without the array's brackets: `unsigned long`, `char`, `struct folio *`.
    pub type_text: String,
    /// Offset in the record, in bytes.
    pub offset: u32,
    /// Size of the whole field in bytes; 0 for an array that extends to the end of the record.
    pub size: u32,
    /// `true` if the integer, or each element, is signed.
    pub signed: bool,
    /// Arrangement of the bytes.
    pub shape: Shape,
}

/// Arrangement of the bytes of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// One value, `size` bytes long.
    Scalar,
    /// `TYPE name[n]`: the elements are in place. `elements` is 0 if the length is not a number
    /// (`name[]`, or the name of a constant).
    Array {
        /// Number of elements.
        elements: u32,
    },
    /// `__data_loc TYPE[] name`: the field holds the offset of the data in the record (low 16 bits)
    /// and its length (high 16 bits).
    Dynamic,
    /// `__rel_loc TYPE[] name`: like `Dynamic`, but the offset counts from the end of the field.
    Relative,
}

impl EventFormat {
    /// Parses a format file. `system` is the name of the directory, because the text does not state
    /// the subsystem.
    pub fn parse(system: &str, text: &str) -> Result<EventFormat, FormatError> {
        let mut format = EventFormat {
            system: system.to_owned(),
            name: String::new(),
            id: 0,
            common: Vec::new(),
            fields: Vec::new(),
            print_fmt: String::new(),
        };
        let (mut has_name, mut has_id, mut last) = (false, false, 1);
        let mut lines = text.lines().enumerate();
        while let Some((index, line)) = lines.next() {
            last = index + 1;
            let line = line.trim();
            if let Some(name) = line.strip_prefix("name:") {
                format.name = name.trim().to_owned();
                has_name = true;
            } else if let Some(id) = line.strip_prefix("ID:") {
                let id = id.trim();
                format.id = id.parse().map_err(|_| FormatError { line: last, kind: FormatErrorKind::Number(cut(id)) })?;
                has_id = true;
            } else if line.starts_with("field:") || line.starts_with("field ") {
                let field = Field::parse(line).map_err(|kind| FormatError { line: last, kind })?;
                if field.name.starts_with("common_") {
                    format.common.push(field);
                } else {
                    format.fields.push(field);
                }
            } else if let Some(print) = line.strip_prefix("print fmt:") {
                format.print_fmt = print.trim().to_owned();
                for (_, more) in lines.by_ref() {
                    format.print_fmt.push('\n');
                    format.print_fmt.push_str(more);
                }
                break;
            }
        }
        let missing = |what| FormatError { line: last, kind: FormatErrorKind::Missing(what) };
        if !has_name {
            return Err(missing("name:"));
        }
        if !has_id {
            return Err(missing("ID:"));
        }
        Ok(format)
    }

    /// A field by its name, including common fields.
    pub fn field(&self, name: &str) -> Option<&Field> {
        self.fields.iter().chain(&self.common).find(|f| f.name == name)
    }

    /// The names that the kernel prints for the values of a field, from
    /// `__print_symbolic(REC->reason, { 2, "NOT_SPECIFIED" }, …)`. Empty if the kernel prints the
    /// field differently, or if a value is not a plain number.
    pub fn labels(&self, field: &str) -> Vec<Label> {
        let list = |call: &'_ str| -> Option<usize> {
            let rest = call.trim_start().strip_prefix("REC->")?.strip_prefix(field)?.trim_start();
            rest.strip_prefix(',').map(str::len)
        };
        let calls = self.print_fmt.split("__print_symbolic(").skip(1);
        let found = calls.filter_map(|call| list(call).map(|length| &call[call.len() - length..])).next();
        found.and_then(labels).unwrap_or_default()
    }
}

/// Parses the pairs of a list up to its closing bracket.
fn labels(mut rest: &str) -> Option<Vec<Label>> {
    let mut out: Vec<Label> = Vec::new();
    loop {
        let (value, after) = rest.trim_start().strip_prefix('{')?.split_once(',')?;
        let (name, after) = after.trim_start().strip_prefix('"')?.split_once('"')?;
        let value = value.trim().trim_start_matches('(').trim_end_matches(')').trim_end_matches(['U', 'L', 'u', 'l']);
        let value = match value.strip_prefix("0x") {
            Some(digits) => i64::from_str_radix(digits, 16).ok()?,
            None => value.parse().ok()?,
        };
        if name.is_empty() || name.contains(|letter: char| letter == '\\' || (letter != ' ' && !letter.is_ascii_graphic())) {
            return None;
        }
        if out.iter().all(|known| known.name != name) {
            out.push(Label { value, name: name.to_owned() });
        }
        rest = after.trim_start().strip_prefix('}')?.trim_start();
        match rest.strip_prefix(',') {
            Some(more) => rest = more,
            None => return rest.starts_with(')').then_some(out),
        }
    }
}

impl Field {
    /// Parses `field:TYPE NAME; offset:N; size:N; signed:N;`. Older kernels state no sign; then the
    /// field is unsigned.
    pub(crate) fn parse(line: &str) -> Result<Field, FormatErrorKind> {
        let wrong = || FormatErrorKind::Field(cut(line));
        let mut parts = line.split(';').map(str::trim);
        let declaration = parts.next().and_then(|p| p.split_once(':')).ok_or_else(wrong)?.1.trim();
        let (mut offset, mut size, mut signed) = (None, None, false);
        for part in parts.filter(|p| !p.is_empty()) {
            let (key, value) = part.split_once(':').ok_or_else(wrong)?;
            let value = value.trim();
            let number = || value.parse::<u32>().map_err(|_| FormatErrorKind::Number(cut(value)));
            match key.trim() {
                "offset" => offset = Some(number()?),
                "size" => size = Some(number()?),
                "signed" => signed = number()? != 0,
                _ => {}
            }
        }
        let (Some(offset), Some(size)) = (offset, size) else {
            return Err(wrong());
        };
        let (declaration, location) = match declaration.split_once(char::is_whitespace) {
            Some(("__data_loc", rest)) => (rest.trim(), Some(Shape::Dynamic)),
            Some(("__rel_loc", rest)) => (rest.trim(), Some(Shape::Relative)),
            _ => (declaration, None),
        };
        // In `TYPE[] NAME`, `TYPE NAME[3]` and `TYPE NAME` the name is the last word, and brackets
        // belong to the shape.
        let (words, brackets) = match declaration.strip_suffix(']').and_then(|d| d.rsplit_once('[')) {
            Some((words, inside)) => (words.trim_end(), Some(inside.trim())),
            None => (declaration, None),
        };
        let begin = words
            .rfind(|c: char| c.is_whitespace() || c == '*' || c == ']')
            .map_or(0, |i| i + words[i..].chars().next().map_or(1, char::len_utf8));
        let (type_text, name) = (words[..begin].trim(), &words[begin..]);
        if name.is_empty() {
            return Err(wrong());
        }
        let shape = match (location, brackets) {
            (Some(shape), _) => shape,
            (None, Some(inside)) => Shape::Array { elements: inside.parse().unwrap_or(0) },
            // A field without a size extends to the end of the record. Older kernels do not write
            // it as an array.
            (None, None) if type_text.ends_with(']') || size == 0 => Shape::Array { elements: 0 },
            (None, None) => Shape::Scalar,
        };
        let type_text = match shape {
            Shape::Scalar => type_text,
            _ => type_text.split_once('[').map_or(type_text, |(t, _)| t.trim_end()),
        };
        Ok(Field { name: name.to_owned(), type_text: type_text.to_owned(), offset, size, signed, shape })
    }

    /// The bytes of the field in place; for a dynamic field its location word.
    pub fn raw<'a>(&self, record: &'a [u8]) -> Result<&'a [u8], FieldError> {
        let start = self.offset as usize;
        let end = match (self.shape, self.size) {
            (Shape::Array { .. }, 0) => record.len(),
            _ => start.saturating_add(self.size as usize),
        };
        record.get(start..end).ok_or(FieldError::BeyondRecord { end: end.max(start) as u64, have: record.len() })
    }

    /// The content: the data of a dynamic field, else the bytes in place.
    pub fn bytes<'a>(&self, record: &'a [u8], order: ByteOrder) -> Result<&'a [u8], FieldError> {
        let base = match self.shape {
            Shape::Scalar | Shape::Array { .. } => return self.raw(record),
            Shape::Dynamic => 0,
            Shape::Relative => u64::from(self.offset) + u64::from(self.size),
        };
        let word = order.unsigned(self.raw(record)?).ok_or(FieldError::IntegerSize { size: self.size })?;
        let start = base + (word & 0xffff);
        let end = start + (word >> 16 & 0xffff);
        record.get(start as usize..end as usize).ok_or(FieldError::BeyondRecord { end, have: record.len() })
    }

    /// An integer of 1, 2, 4 or 8 bytes, with the sign that the format states.
    #[inline]
    pub fn int(&self, record: &[u8], order: ByteOrder) -> Result<i128, FieldError> {
        let bytes = self.raw(record)?;
        self.number(bytes, order)
    }

    /// An integer as `u64`; a negative one in two's complement.
    #[inline]
    pub fn u64(&self, record: &[u8], order: ByteOrder) -> Result<u64, FieldError> {
        Ok(self.int(record, order)? as u64)
    }

    /// An integer as `i64`; one of 2⁶³ or more becomes negative.
    #[inline]
    pub fn i64(&self, record: &[u8], order: ByteOrder) -> Result<i64, FieldError> {
        Ok(self.int(record, order)? as i64)
    }

    /// The elements of an array of integers, each of `element` bytes; see [`Field::element_size`].
    pub fn ints<'a>(&'a self, record: &'a [u8], order: ByteOrder, element: u32) -> Result<impl Iterator<Item = i128> + 'a, FieldError> {
        if !matches!(element, 1 | 2 | 4 | 8) {
            return Err(FieldError::IntegerSize { size: element });
        }
        let bytes = self.bytes(record, order)?;
        // Each chunk has one of the sizes that were checked above.
        Ok(bytes.chunks_exact(element as usize).map(move |b| self.number(b, order).unwrap_or(0)))
    }

    /// Size of an element in bytes: from size and number of elements for an array in place,
    /// otherwise from the name of the type. `None` if the type is unknown. `long` is the size of
    /// the kernel's `long`.
    pub fn element_size(&self, long: u32) -> Option<u32> {
        match self.shape {
            Shape::Scalar => Some(self.size),
            Shape::Array { elements } if elements > 0 => Some(self.size / elements),
            _ => Some(match self.type_text.trim_start_matches("const ").trim() {
                "char" | "signed char" | "unsigned char" | "u8" | "s8" | "__u8" | "__s8" | "uint8_t" | "bool" => 1,
                "short" | "unsigned short" | "u16" | "s16" | "__u16" | "__s16" | "uint16_t" => 2,
                "int" | "unsigned" | "unsigned int" | "u32" | "s32" | "__u32" | "__s32" | "uint32_t" | "pid_t" => 4,
                "u64" | "s64" | "__u64" | "__s64" | "uint64_t" | "long long" | "unsigned long long" => 8,
                "long" | "unsigned long" | "size_t" => long,
                text if text.ends_with('*') => long,
                _ => return None,
            }),
        }
    }

    /// Returns `true` for arrays of characters, in place or dynamic: texts that end at the first
    /// zero byte.
    pub fn is_text(&self) -> bool {
        self.shape != Shape::Scalar && matches!(self.type_text.trim_start_matches("const ").trim(), "char")
    }

    /// The text of an array of characters, up to the first zero byte. It is not necessarily UTF-8.
    pub fn text<'a>(&self, record: &'a [u8], order: ByteOrder) -> Result<&'a [u8], FieldError> {
        if self.shape == Shape::Scalar {
            return Err(FieldError::NotAnArray);
        }
        let bytes = self.bytes(record, order)?;
        Ok(&bytes[..bytes.iter().position(|&b| b == 0).unwrap_or(bytes.len())])
    }

    #[inline]
    fn number(&self, bytes: &[u8], order: ByteOrder) -> Result<i128, FieldError> {
        let value = order.unsigned(bytes).ok_or(FieldError::IntegerSize { size: self.size })?;
        if self.signed {
            let unused = 64 - 8 * bytes.len() as u32;
            Ok(i128::from((value << unused) as i64 >> unused))
        } else {
            Ok(i128::from(value))
        }
    }
}

/// The bit fields in the first word of an event, from `events/header_event`. Only the layout that
/// all known kernels use can be decoded; another one is rejected instead of being read wrongly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeaderEvent {
    /// Number of bits of the type or length.
    pub type_len_bits: u32,
    /// Number of bits of the time since the previous event.
    pub time_delta_bits: u32,
    /// Type number of padding.
    pub padding: u32,
    /// Type number of a time extension.
    pub time_extend: u32,
    /// Type number of an absolute time.
    pub time_stamp: u32,
    /// Greatest type number that is a length.
    pub data_max: u32,
}

impl Default for HeaderEvent {
    fn default() -> HeaderEvent {
        HeaderEvent { type_len_bits: 5, time_delta_bits: 27, padding: 29, time_extend: 30, time_stamp: 31, data_max: 28 }
    }
}

impl HeaderEvent {
    /// Parses the text of `events/header_event`.
    pub fn parse(text: &str) -> Result<HeaderEvent, FormatError> {
        let known = HeaderEvent::default();
        let mut found = known;
        for (index, line) in text.lines().enumerate() {
            let mut words = line.split(|c: char| c.is_whitespace() || c == ':' || c == '=').filter(|w| !w.is_empty());
            let (Some(first), Some(number)) = (words.next(), words.clone().find_map(|w| w.parse::<u32>().ok())) else {
                continue;
            };
            let (value, expected) = match first {
                "type_len" => (&mut found.type_len_bits, known.type_len_bits),
                "time_delta" => (&mut found.time_delta_bits, known.time_delta_bits),
                "padding" => (&mut found.padding, known.padding),
                "time_extend" => (&mut found.time_extend, known.time_extend),
                // Kernels before 4.17 reserved the number without using it.
                "time_stamp" => (&mut found.time_stamp, known.time_stamp),
                "data" => (&mut found.data_max, known.data_max),
                _ => continue,
            };
            *value = number;
            if number != expected {
                let what = match first {
                    "type_len" => "type_len bits",
                    "time_delta" => "time_delta bits",
                    "padding" => "padding type",
                    "time_extend" => "time_extend type",
                    "time_stamp" => "time_stamp type",
                    _ => "largest data type",
                };
                return Err(FormatError { line: index + 1, kind: FormatErrorKind::Header { what, value: number.into() } });
            }
        }
        Ok(found)
    }
}

/// Event formats by id and by name.
#[derive(Clone, Debug, Default)]
pub struct Formats {
    list: Vec<EventFormat>,
    by_id: HashMap<u16, usize>,
}

impl Formats {
    /// Adds a format; replaces one with the same id.
    pub fn add(&mut self, format: EventFormat) {
        match self.by_id.get(&format.id) {
            Some(&at) => self.list[at] = format,
            None => {
                self.by_id.insert(format.id, self.list.len());
                self.list.push(format);
            }
        }
    }

    /// The format with this id.
    #[inline]
    pub fn by_id(&self, id: u16) -> Option<&EventFormat> {
        Some(&self.list[*self.by_id.get(&id)?])
    }

    /// The format of an event.
    pub fn by_name(&self, system: &str, name: &str) -> Option<&EventFormat> {
        self.list.iter().find(|f| f.system == system && f.name == name)
    }

    /// All formats.
    pub fn iter(&self) -> impl Iterator<Item = &EventFormat> {
        self.list.iter()
    }

    /// Number of formats.
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// Returns `true` if there are no formats.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }
}

fn cut(text: &str) -> String {
    text.chars().take(120).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_of_a_field_are_the_names_that_the_kernel_prints() {
        let text = "name: drop\nID: 7\nformat:\n\tfield:int kind;\toffset:8;\tsize:4;\tsigned:1;\n\n\
            print fmt: \"%s %s %s\", __print_symbolic(REC->kind2, { 1, \"no\" }), \
            __print_symbolic(REC->kind, { (-1), \"less\" }, { 0x10, \"B C\" }), __print_symbolic(REC->other, { 1 << 2, \"x\" })";
        let format = EventFormat::parse("skb", text).unwrap();
        let labels: Vec<(i64, String)> = format.labels("kind").into_iter().map(|label| (label.value, label.name)).collect();
        assert_eq!(labels, [(-1, "less".to_owned()), (16, "B C".to_owned())]);
        assert!(format.labels("other").is_empty() && format.labels("kin").is_empty());
        for cut in text.len() - 120..text.len() {
            EventFormat::parse("skb", &text[..cut]).unwrap().labels("kind");
        }
    }
}
