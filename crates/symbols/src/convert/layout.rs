//! Layout of the events in `samples/`, from its metadata.

use crate::spaces::Change;
use longpole_ctf::types::{EventClass, Length, Type};
use longpole_ctf::{Clock, Metadata};

/// Bytes of an event before its fields: id, time, process and thread.
pub const HEADER: usize = 18;
/// Maximum number of fields whose bytes are kept; no class that is known here has more.
const MAX_FIELDS: usize = COPIED.len();

/// A field of an event; all are aligned to bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Field {
    /// An integer of this many bytes.
    Int(usize),
    /// As many integers of this size as the field before says.
    List(usize),
    Text,
}

/// Meaning of a class of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Copied,
    Mapping,
    Comm,
    Fork,
    Exit,
    Process,
    Other,
}

/// All classes of one recording.
#[derive(Debug)]
pub struct Layout {
    pub uuid: [u8; 16],
    /// Classes by their ids.
    classes: Vec<Option<(Kind, Vec<Field>)>>,
    /// Id of the class that replaces [`Kind::Copied`].
    pub stack: u16,
    clock: Clock,
}

/// An event with its fields.
#[derive(Clone, Debug)]
pub struct Parsed<'a> {
    pub kind: Kind,
    pub time: u64,
    pub pid: i32,
    pub tid: i32,
    /// All bytes of the event.
    pub bytes: &'a [u8],
    pub fields: Fields<'a>,
}

/// The bytes of the fields.
#[derive(Clone, Debug, Default)]
pub struct Fields<'a>([&'a [u8]; MAX_FIELDS]);

/// The begin of an event whose bytes may not all be there.
#[derive(Clone, Debug)]
pub enum Begun<'a> {
    /// An event with all its bytes.
    Whole(Parsed<'a>),
    /// A copied stack: the time and the length of the whole event.
    Copied { time: u64, length: usize },
    /// The bytes do not suffice.
    Short,
    /// No event of a known class.
    Unknown,
}

impl Layout {
    /// Returns `None` if the recording has no copies of stacks, or a layout that this version does
    /// not know.
    pub fn new(metadata: &[u8]) -> Option<Layout> {
        let metadata = Metadata::parse(metadata).ok()?;
        let schema = metadata.schema();
        if schema.trace.env_text("domain") != Some("longpole-samples") {
            return None;
        }
        let mut classes: Vec<Option<(Kind, Vec<Field>)>> = Vec::new();
        let mut stack = None;
        for class in schema.streams.iter().flat_map(|stream| &stream.events) {
            let fields = fields(class)?;
            let kind = kind(&class.name, &fields);
            let id = u16::try_from(class.id).ok()?;
            if class.name == "stack" && fields == STACK {
                stack = Some(id);
            }
            if classes.len() <= usize::from(id) {
                classes.resize(usize::from(id) + 1, None);
            }
            // The same id has the same meaning in all streams.
            let known = classes[usize::from(id)].get_or_insert_with(|| (kind, fields.clone()));
            if *known != (kind, fields) {
                return None;
            }
        }
        classes.iter().flatten().find(|(kind, _)| *kind == Kind::Copied)?;
        Some(Layout { uuid: schema.trace.uuid?, classes, stack: stack?, clock: schema.clocks.first()?.clone() })
    }

    /// Converts a time of an event to Unix time in ns.
    pub fn ns(&self, time: u64) -> i64 {
        self.clock.ns(time)
    }

    /// Parses the event at the begin of `bytes`. Returns `None` if there is no complete event of a
    /// known class.
    pub fn parse<'a>(&self, bytes: &'a [u8]) -> Option<Parsed<'a>> {
        match self.begin(bytes) {
            Begun::Whole(event) => Some(event),
            Begun::Copied { .. } | Begun::Short | Begun::Unknown => None,
        }
    }

    /// Parses the event at the begin of `bytes`, of which only the first bytes may be there.
    pub fn begin<'a>(&self, bytes: &'a [u8]) -> Begun<'a> {
        let half = |at: usize| Some(i32::from_ne_bytes(*bytes.get(at..)?.first_chunk()?));
        let (Some(id), Some(time)) = (bytes.first_chunk(), bytes.get(2..).and_then(|bytes| bytes.first_chunk())) else {
            return Begun::Short;
        };
        let (id, time) = (u16::from_ne_bytes(*id), u64::from_ne_bytes(*time));
        let Some(Some((kind, fields))) = self.classes.get(usize::from(id)) else { return Begun::Unknown };
        let (Some(pid), Some(tid), Some(mut rest)) = (half(10), half(14), bytes.get(HEADER..)) else { return Begun::Short };
        let mut found = Fields::default();
        let mut previous: &[u8] = &[];
        for (at, field) in fields.iter().enumerate() {
            let length = match *field {
                Field::Int(size) => Some(size),
                Field::List(size) => usize::try_from(number(previous)).ok().and_then(|count| count.checked_mul(size)),
                Field::Text => memchr(rest).map(|end| end + 1),
            };
            let Some((field, after)) = length.and_then(|length| rest.split_at_checked(length)) else {
                let is_stack = *kind == Kind::Copied && at + 1 == fields.len();
                let length = length.filter(|_| is_stack).and_then(|length| length.checked_add(bytes.len() - rest.len()));
                return length.map_or(Begun::Short, |length| Begun::Copied { time, length });
            };
            previous = field;
            if let Some(kept) = found.0.get_mut(at) {
                *kept = field;
            }
            rest = after;
        }
        let bytes = &bytes[..bytes.len() - rest.len()];
        Begun::Whole(Parsed { kind: *kind, time, pid, tid, bytes, fields: found })
    }
}

fn memchr(bytes: &[u8]) -> Option<usize> {
    bytes.iter().position(|byte| *byte == 0)
}

fn number(bytes: &[u8]) -> u64 {
    let mut word = [0; 8];
    let length = bytes.len().min(8);
    word[..length].copy_from_slice(&bytes[..length]);
    u64::from_le_bytes(word)
}

impl<'a> Fields<'a> {
    pub fn bytes(&self, at: usize) -> &'a [u8] {
        self.0.get(at).copied().unwrap_or_default()
    }

    pub fn number(&self, at: usize) -> u64 {
        number(self.bytes(at))
    }

    /// Returns a list of addresses.
    pub fn addresses(&self, at: usize) -> impl Iterator<Item = u64> + 'a {
        self.bytes(at).chunks_exact(8).map(number)
    }
}

impl<'a> Parsed<'a> {
    /// Returns the change of a process that the event reports.
    pub fn change(&self, name: &'a mut String) -> Option<Change<'a>> {
        let fields = &self.fields;
        let text = |at: usize| fields.bytes(at).strip_suffix(b"\0").unwrap_or_default();
        Some(match self.kind {
            Kind::Mapping => Change::Mapping {
                start: fields.number(0),
                length: fields.number(1),
                offset: fields.number(2),
                inode: fields.number(3),
                path: text(4),
            },
            Kind::Comm => {
                *name = String::from_utf8_lossy(text(1)).into_owned();
                Change::Comm { exec: fields.number(0) != 0, name }
            }
            Kind::Fork => Change::Fork { parent: fields.number(0) as u32 as i32 },
            Kind::Exit => Change::Exit,
            Kind::Process => Change::Process { uid: fields.number(0) as u32, inner: fields.number(1) as u32 as i32 },
            Kind::Copied | Kind::Other => return None,
        })
    }
}

const COPIED: [Field; 12] = [
    Field::Int(1),
    Field::Int(4),
    Field::Int(2),
    Field::List(8),
    Field::Int(2),
    Field::List(8),
    Field::Int(8),
    Field::Int(8),
    Field::Int(8),
    Field::Int(8),
    Field::Int(4),
    Field::List(1),
];
const STACK: [Field; 7] = [Field::Int(1), Field::Int(4), Field::Int(1), Field::Int(2), Field::List(8), Field::Int(2), Field::List(8)];

fn kind(name: &str, fields: &[Field]) -> Kind {
    let known: [(&str, &[Field], Kind); 6] = [
        ("copied", &COPIED, Kind::Copied),
        ("mapping", &[Field::Int(8), Field::Int(8), Field::Int(8), Field::Int(8), Field::Text], Kind::Mapping),
        ("comm", &[Field::Int(1), Field::Text], Kind::Comm),
        ("fork", &[Field::Int(4), Field::Int(4)], Kind::Fork),
        ("exit", &[], Kind::Exit),
        ("process", &[Field::Int(4), Field::Int(4)], Kind::Process),
    ];
    let found = known.iter().find(|(known, expected, _)| *known == name && *expected == fields);
    found.map_or(Kind::Other, |(_, _, kind)| *kind)
}

/// Returns the fields of a class, if all are aligned to bytes and each list follows its length.
fn fields(class: &EventClass) -> Option<Vec<Field>> {
    let Some(payload) = &class.payload else { return Some(Vec::new()) };
    let mut fields = Vec::new();
    let mut previous = "";
    for member in payload.fields() {
        let int = |ty: &Type| match ty {
            Type::Int(int) if int.size % 8 == 0 && int.align <= 8 => Some(int.size as usize / 8),
            _ => None,
        };
        fields.push(match &member.ty {
            Type::String(_) => Field::Text,
            Type::Array(array) => match array.length() {
                Length::Field(path) if path.names.last().map(String::as_str) == Some(previous) => Field::List(int(array.element())?),
                _ => return None,
            },
            ty => Field::Int(int(ty)?),
        });
        previous = &member.name;
    }
    Some(fields)
}
