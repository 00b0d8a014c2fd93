//! The schema of the export in CTF 2. It is later converted to the requested version.

use super::names::Names;
use super::packets::{PacketKind, PacketKinds};
use super::shape::{Length as ArrayLength, Shape};
use longpole_ctf::types::*;
use longpole_ctf::{Clock, EnvValue, Origin, Span};
use std::collections::HashSet;
use std::sync::Arc;

const ORDER: ByteOrder = ByteOrder::Little;

/// Form of packets: the values that their context contains.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Form {
    pub cpu: bool,
    pub names: bool,
    pub pid: bool,
    pub tid: bool,
    /// Kind of the further values: a number in [`PacketKinds`](super::packets::PacketKinds).
    pub kind: usize,
}

/// Name and display of a field.
#[derive(Clone, Debug, Default)]
pub struct Field {
    pub name: String,
    pub base: u8,
    pub names: Names,
}

fn member(name: &str, ty: Type) -> Member {
    Member { name: name.to_owned(), ty }
}

fn integer(size: u32, roles: Roles) -> Type {
    let clock = (roles.has(Roles::TIME) || roles.has(Roles::END_TIME)).then_some(0);
    Type::Int(IntType { size, align: 8, byte_order: ORDER, base: 10, roles, clock, ..IntType::default() })
}

fn structure(members: Vec<Member>) -> Option<Arc<StructType>> {
    Some(Arc::new(StructType::new(8, members)))
}

/// Makes the schema of a trace with streams of these forms. Its clock counts ns from `base_s`, in
/// seconds of Unix time.
pub fn schema(environment: Vec<(String, EnvValue)>, base_s: i64, forms: Vec<(Form, Vec<EventClass>)>, kinds: &PacketKinds) -> Schema {
    let header = vec![member("magic", integer(32, Roles::MAGIC)), member("stream_id", integer(32, Roles::STREAM_ID))];
    let clock = Clock {
        origin: Origin::UnixEpoch,
        description: "ns".to_owned(),
        offset_s: base_s,
        absolute: true,
        ..Clock::new("monotonic", 1_000_000_000)
    };
    Schema {
        version: Version::V2,
        trace: TraceClass { packet_header: structure(header), env: environment, ..TraceClass::default() },
        clocks: vec![clock],
        streams: forms.into_iter().map(|(form, events)| form.stream(events, kinds.get(form.kind))).collect(),
    }
}

impl Form {
    pub fn id(self) -> u64 {
        u64::from(self.cpu) + 2 * u64::from(self.names) + 4 * u64::from(self.pid) + 8 * u64::from(self.tid) + 16 * self.kind as u64
    }

    /// Returns the number of context fields before the further values.
    pub fn fields(self) -> usize {
        6 + usize::from(self.cpu) + 2 * usize::from(self.names) + usize::from(self.pid) + usize::from(self.tid)
    }

    fn stream(self, events: Vec<EventClass>, kind: Option<&PacketKind>) -> StreamClass {
        let mut context = vec![
            member("timestamp_begin", integer(64, Roles::TIME)),
            member("timestamp_end", integer(64, Roles::END_TIME)),
            member("content_size", integer(64, Roles::CONTENT_SIZE)),
            member("packet_size", integer(64, Roles::PACKET_SIZE)),
            member("packet_seq_num", integer(64, Roles::SEQUENCE)),
            member("events_discarded", integer(64, Roles::DISCARDED)),
        ];
        if self.cpu {
            context.push(member("cpu_id", integer(32, Roles::NONE)));
        }
        if self.names {
            context.extend(["label", "thread"].map(|name| member(name, Type::String(Encoding::Utf8))));
        }
        let ids = [("pid", self.pid), ("tid", self.tid)].into_iter().filter(|(_, there)| *there);
        context.extend(ids.map(|(name, _)| member(name, Type::signed(32, 8, ORDER))));
        if let Some(PacketKind { fields, shapes, .. }) = kind {
            let taken = context.iter().map(|member| member.name.clone()).collect();
            context.extend(scope(Scope::PacketContext, taken, fields, shapes).fields().iter().cloned());
        }
        StreamClass {
            id: self.id(),
            clock: Some(0),
            packet_context: structure(context),
            event_header: structure(vec![member("id", integer(32, Roles::EVENT_ID)), member("timestamp", integer(64, Roles::TIME))]),
            events,
            ..StreamClass::default()
        }
    }
}

/// Encodes pairs of key and value as a URI: `longpole:site?file=a%20b&line=3`.
pub fn address(attributes: &[(String, String)]) -> String {
    let coded = |text: &str| {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~/:".contains(&byte);
        text.bytes()
            .fold(String::new(), |out, byte| if plain(byte) { out + &char::from(byte).to_string() } else { out + &format!("%{byte:02X}") })
    };
    let pairs: Vec<String> = attributes.iter().map(|(key, value)| format!("{}={}", coded(key), coded(value))).collect();
    format!("longpole:site?{}", pairs.join("&"))
}

/// Makes the structure of a scope's fields. Names in `taken` are not used. Fields of nested
/// structures come in a flat list with dotted names and are nested again.
pub fn scope(scope: Scope, taken: HashSet<String>, fields: &[Field], shapes: &[Shape]) -> StructType {
    let mut root = Open { taken, ..Open::default() };
    let mut before = Vec::new();
    for (field, shape) in fields.iter().zip(shapes) {
        let mut outer: Vec<&str> = field.name.split('.').collect();
        if outer.iter().any(|part| part.is_empty()) {
            outer = vec![&field.name];
        }
        let inner = outer.pop().unwrap_or_default();
        let (mut level, mut path) = (&mut root, Vec::new());
        for part in outer {
            level = level.enter(part, &mut path);
        }
        let name = level.free(inner);
        let length = match shape {
            Shape::Bytes(ArrayLength::Own) | Shape::List(ArrayLength::Own, _) => {
                let length = level.free(&format!("{name}_length"));
                level.push(&length, integer(32, Roles::NONE));
                Length::Field(FieldPath { up: Some(0), names: vec![length], ..FieldPath::default() })
            }
            Shape::Bytes(ArrayLength::Before) | Shape::List(ArrayLength::Before, _) => {
                Length::Field(FieldPath { scope: Some(scope), names: before, ..FieldPath::default() })
            }
            Shape::Bytes(ArrayLength::Fixed(length)) | Shape::List(ArrayLength::Fixed(length), _) => Length::Fixed(*length),
            _ => Length::Fixed(0),
        };
        level.push(&name, ty(shape, length, field.base, Some(&field.names)));
        path.push(name);
        before = path;
    }
    root.structure()
}

/// A structure that is being built.
#[derive(Default)]
struct Open {
    members: Vec<Inside>,
    taken: HashSet<String>,
}

/// A field or a nested structure.
struct Inside {
    name: String,
    /// Original name of a nested structure. It may differ from `name`, which is unique.
    of: Option<String>,
    ty: Type,
    inside: Open,
}

impl Open {
    fn push(&mut self, name: &str, ty: Type) {
        self.members.push(Inside { name: name.to_owned(), of: None, ty, inside: Open::default() });
    }

    /// Returns the nested structure of this name if it is the last member, else a new one.
    fn enter(&mut self, of: &str, path: &mut Vec<String>) -> &mut Open {
        if self.members.last().and_then(|last| last.of.as_deref()) != Some(of) {
            let name = self.free(of);
            self.push(&name, ty(&Shape::Nothing, Length::Fixed(0), 10, None));
        }
        let last = self.members.len() - 1;
        let structure = &mut self.members[last];
        structure.of = Some(of.to_owned());
        path.push(structure.name.clone());
        &mut structure.inside
    }

    /// Returns a name that no other member has.
    fn free(&mut self, name: &str) -> String {
        let mut name = name.to_owned();
        while !self.taken.insert(name.clone()) {
            name.push('_');
        }
        name
    }

    fn structure(self) -> StructType {
        let member = |Inside { name, of, ty, inside }| match of {
            None => Member { name, ty },
            Some(_) => Member { name, ty: Type::Struct(Arc::new(inside.structure())) },
        };
        StructType::new(1, self.members.into_iter().map(member).collect())
    }
}

/// Returns the type of values of this shape. `names` holds the labels of the values.
fn ty(shape: &Shape, length: Length, base: u8, names: Option<&Names>) -> Type {
    let int = |signed| IntType { size: 64, align: 8, signed, byte_order: ORDER, base, ..IntType::default() };
    let span = Span::default();
    match shape {
        Shape::Unsigned => Type::Int(int(false)),
        Shape::Signed => Type::Int(int(true)),
        Shape::Labelled { signed } => match names.map(Names::mappings).filter(|mappings| !mappings.is_empty()) {
            Some(mappings) => Type::Enum(Arc::new(EnumType { int: int(*signed), mappings: mappings.into() })),
            None => Type::Int(int(*signed)),
        },
        Shape::Flags => {
            Type::Bits(Arc::new(BitsType { int: int(false), flags: names.map(|names| names.flags.clone()).unwrap_or_default() }))
        }
        Shape::Real => Type::Float(FloatType { size: 64, align: 8, byte_order: ORDER, reversed: false }),
        Shape::Bool => Type::Bool(IntType { size: 8, align: 8, byte_order: ORDER, base: 10, ..IntType::default() }),
        Shape::Text => Type::String(Encoding::Utf8),
        Shape::Nothing => Type::Struct(Arc::new(StructType::new(1, Vec::new()))),
        Shape::Bytes(_) => Type::Blob(Arc::new(BlobType { length, media_type: String::new(), roles: Roles::NONE, span })),
        Shape::List(_, element) => {
            Type::Array(Arc::new(ArrayType::new(inner(element, base, names.and_then(|names| names.part(0))), length, span)))
        }
        Shape::Fields(fields) => {
            let mut open = Open::default();
            for (at, (name, shape)) in fields.iter().enumerate() {
                let name = open.free(name);
                open.push(&name, inner(shape, base, names.and_then(|names| names.part(at))));
            }
            Type::Struct(Arc::new(open.structure()))
        }
    }
}

/// Returns the type of a part of a field. The length of such a part is always fixed.
fn inner(shape: &Shape, base: u8, names: Option<&Names>) -> Type {
    let length = match shape {
        Shape::Bytes(ArrayLength::Fixed(length)) | Shape::List(ArrayLength::Fixed(length), _) => *length,
        _ => 0,
    };
    ty(shape, Length::Fixed(length), base, names)
}
