//! Random schemas of either version, and random values for them, generated from a tape of bytes. An
//! empty tape yields the simplest case, so that proptest can shrink failures.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use longpole_ctf::types::*;
use longpole_ctf::{Clock, OwnedValue, Span};

pub struct Tape<'t>(&'t [u8]);

impl Tape<'_> {
    pub fn byte(&mut self) -> u8 {
        let (first, rest) = self.0.split_first().unwrap_or((&0, &[]));
        self.0 = rest;
        *first
    }

    pub fn below(&mut self, n: u64) -> u64 {
        if n <= 256 {
            u64::from(self.byte()) % n.max(1)
        } else {
            self.word() % n
        }
    }

    pub fn word(&mut self) -> u64 {
        // Small numbers are more likely than others.
        match self.byte() % 4 {
            0 => u64::from(self.byte()),
            1 => u64::MAX - u64::from(self.byte()),
            _ => (0..8).fold(0, |word, _| word << 8 | u64::from(self.byte())),
        }
    }

    pub fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == n - 1
    }

    fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len() as u64) as usize]
    }
}

/// A field to which lengths or tags may refer.
#[derive(Clone)]
struct Anchor {
    names: Vec<String>,
    tag: bool,
}

/// A structure that is being generated; its anchors are relative to it.
struct Frame {
    anchors: Vec<Anchor>,
    /// `true` if only structures contain it.
    open: bool,
}

pub struct Case {
    pub schema: Schema,
    /// Class index, time and values of each event.
    pub events: Vec<(usize, u64, Vec<OwnedValue>)>,
    /// Fields of the packet contexts that have no role.
    pub context: Vec<(Arc<str>, OwnedValue)>,
}

pub fn case(version: Version, tape: &[u8]) -> Case {
    let mut maker = Maker {
        version,
        tape: Tape(tape),
        order: ByteOrder::Little,
        count: 0,
        frames: Vec::new(),
        scopes: Vec::new(),
        tags: HashMap::new(),
        env: HashMap::new(),
        wide: HashSet::new(),
    };
    maker.case()
}

struct Maker<'t> {
    version: Version,
    tape: Tape<'t>,
    order: ByteOrder,
    count: u32,
    frames: Vec<Frame>,
    scopes: Vec<(Scope, Vec<Anchor>)>,
    /// Values of each tag.
    tags: HashMap<String, Vec<(i128, i128)>>,
    /// Values of the lengths and tags, for the values that depend on them.
    env: HashMap<String, i128>,
    /// Names of the lengths of texts with wide code units.
    wide: HashSet<String>,
}

const MAX_FIELDS: u64 = 5;
const DEPTH: u32 = 4;

fn member(name: &str, ty: Type) -> Member {
    Member { name: name.to_owned(), ty }
}

/// Returns `true` if a field of this path was generated without a role.
fn made(path: &str) -> bool {
    let name = path.rsplit('.').next().unwrap_or(path);
    name.starts_with(['n', 't', 'f']) && name[1..].bytes().all(|b| b.is_ascii_digit())
}

impl Maker<'_> {
    fn v2(&self) -> bool {
        self.version == Version::V2
    }

    fn other(&self) -> ByteOrder {
        match self.order {
            ByteOrder::Little => ByteOrder::Big,
            ByteOrder::Big => ByteOrder::Little,
        }
    }

    fn name(&mut self, kind: &str) -> String {
        self.count += 1;
        format!("{kind}{}", self.count)
    }

    fn case(&mut self) -> Case {
        self.order = self.tape.pick(&[ByteOrder::Little, ByteOrder::Big]);
        let mut clock = Clock::new("c", self.tape.pick(&[1_000_000_000, 2_500_000_000, 1]));
        // In CTF 2 the offset in cycles must be less than a second.
        let most = if self.v2() { clock.frequency.min(10) } else { 10 };
        (clock.offset_s, clock.offset) = (self.tape.below(1000) as i64, self.tape.below(most) as i64);
        let header = self.packet_header();
        let context = self.packet_context();
        let (event_header, classes) = self.event_header();
        let common = self.tape.one_in(2).then(|| self.scope(Scope::StreamEventContext));
        let shared = self.scopes.len();
        let events = (0..classes).map(|id| {
            self.scopes.truncate(shared);
            let context = self.tape.one_in(3).then(|| self.scope(Scope::EventContext));
            let mut payload = self.structure(Scope::EventFields, 0, true);
            if event_header.is_none() {
                // An event without bits would be decoded again and again.
                let only = [member("only", Type::unsigned(8, 8, self.order))];
                payload = StructType::new(payload.min_align(), only.into_iter().chain(payload.fields().iter().cloned()).collect());
            }
            EventClass { id: id * 7 % 300, name: format!("e{id}"), context, payload: Some(Arc::new(payload)), ..EventClass::default() }
        });
        let events = events.collect();
        let stream = StreamClass {
            id: 3,
            clock: self.v2().then_some(0),
            packet_context: Some(context.clone()),
            event_header,
            event_context: common,
            events,
            ..StreamClass::default()
        };
        let byte_order = if self.v2() { ByteOrder::Little } else { self.order };
        let trace = TraceClass { uuid: Some([9; 16]), byte_order, packet_header: Some(header), ..TraceClass::default() };
        let schema = Schema { version: self.version, trace, clocks: vec![clock], streams: vec![stream] };

        let mut own = Vec::new();
        self.flat(&context, "", &mut own);
        let context = own.into_iter().filter(|(name, _)| made(name)).collect();
        let shared = self.env.clone();
        let stream = &schema.streams[0];
        let mut time = 0u64;
        let mut events = Vec::new();
        for _ in 0..self.tape.below(12) {
            let class = self.tape.below(stream.events.len() as u64) as usize;
            let step = self.tape.pick(&[1u64, 3, 1000, 1 << 26, 1 << 40, 1 << 50]);
            time = time.saturating_add(step + self.tape.below(3));
            if self.tape.one_in(8) {
                time = time.saturating_sub(700);
            }
            self.env = shared.clone();
            let mut values = Vec::new();
            let event = &stream.events[class];
            for ty in [&stream.event_context, &event.context, &event.payload].into_iter().flatten() {
                self.flat(ty, "", &mut values);
            }
            events.push((class, time, values.into_iter().map(|(_, value)| value).collect()));
        }
        Case { schema, events, context }
    }

    fn role(&mut self, name: &str, roles: Roles, size: u32) -> Member {
        let align = self.tape.pick(&[8, 1, 32, 8]);
        let aligned = |size: u32| if align < 8 { size } else { size.next_multiple_of(8).min(64) };
        let mut int = IntType { size: aligned(size), align, byte_order: self.order, base: 10, ..IntType::default() };
        if self.v2() {
            int.roles = roles;
            if self.tape.one_in(5) && !roles.has(Roles::MAGIC) {
                let int = VarIntType { signed: false, base: 10, mappings: Mappings::default(), roles };
                return member(name, Type::VarInt(Arc::new(int)));
            }
        } else if roles.has(Roles::TIME) || roles.has(Roles::END_TIME) {
            int.clock = Some(0);
        }
        member(name, Type::Int(int))
    }

    fn packet_header(&mut self) -> Arc<StructType> {
        let mut fields = Vec::new();
        if self.tape.one_in(2) {
            let roles = if self.v2() { Roles::MAGIC } else { Roles::NONE };
            fields.push(member(
                "magic",
                Type::Int(IntType { size: 32, align: 8, byte_order: self.order, base: 16, roles, ..IntType::default() }),
            ));
        }
        if self.tape.one_in(2) {
            let length = Length::Fixed(16);
            fields.push(member(
                "uuid",
                match self.version {
                    Version::V1_8 => Type::Array(Arc::new(ArrayType::new(Type::unsigned(8, 8, self.order), length, Span::default()))),
                    Version::V2 => {
                        let media_type = "application/octet-stream".to_owned();
                        Type::Blob(Arc::new(BlobType { length, media_type, roles: Roles::UUID, span: Span::default() }))
                    }
                },
            ));
        }
        fields.push(self.role("stream_id", Roles::STREAM_ID, 5));
        Arc::new(StructType::new(1, fields))
    }

    fn packet_context(&mut self) -> Arc<StructType> {
        let mut fields = vec![
            self.role("packet_size", Roles::PACKET_SIZE, 40),
            self.role("content_size", Roles::CONTENT_SIZE, 40),
            self.role("timestamp_begin", Roles::TIME, 64),
        ];
        for (name, roles, size) in
            [("timestamp_end", Roles::END_TIME, 64), ("events_discarded", Roles::DISCARDED, 17), ("packet_seq_num", Roles::SEQUENCE, 9)]
        {
            if self.tape.one_in(2) {
                fields.push(self.role(name, roles, size));
            }
        }
        self.frames.push(Frame { anchors: Vec::new(), open: true });
        for _ in 0..self.tape.below(4) {
            self.field(Scope::PacketContext, &mut fields, 2);
        }
        let anchors = self.frames.pop().unwrap().anchors;
        self.scopes.push((Scope::PacketContext, anchors));
        Arc::new(StructType::new(1, fields))
    }

    /// Also returns the number of event classes that the header can distinguish.
    fn event_header(&mut self) -> (Option<Arc<StructType>>, u64) {
        let (kind, order) = (self.tape.below(4), self.order);
        let int = |size, align| IntType { size, align, byte_order: order, base: 10, ..IntType::default() };
        let v2 = self.v2();
        let time = |size, align| {
            let int = int(size, align);
            Type::Int(match v2 {
                true => IntType { roles: Roles::TIME, ..int },
                false => IntType { clock: Some(0), ..int },
            })
        };
        let id = |size, align| IntType { roles: if v2 { Roles::EVENT_ID } else { Roles::NONE }, ..int(size, align) };
        match kind {
            0 => (None, 1),
            1 => {
                let fields = vec![self.role("id", Roles::EVENT_ID, 16), self.role("timestamp", Roles::TIME, 48)];
                (Some(Arc::new(StructType::new(self.tape.pick(&[1, 8, 64]), fields))), 3)
            }
            2 => (Some(Arc::new(StructType::new(1, vec![member("timestamp", time(27, 1))]))), 1),
            _ => {
                let (size, most, align) = self.tape.pick(&[(5, 30, 1), (16, 65534, 8)]);
                let mapping = |label: &str, low, high| Mapping { label: label.to_owned(), low, high };
                let mappings = vec![mapping("compact", 0, most), mapping("extended", most + 1, most + 1)];
                let tag = EnumType { int: id(size, align), mappings: mappings.into() };
                let small = StructType::new(1, vec![member("timestamp", time(if size == 5 { 27 } else { 32 }, align))]);
                let large = StructType::new(8, vec![member("id", Type::Int(id(32, 8))), member("timestamp", time(64, 8))]);
                let path = FieldPath { names: vec!["id".to_owned()], up: v2.then_some(0), ..FieldPath::default() };
                let options = vec![member("compact", Type::Struct(Arc::new(small))), member("extended", Type::Struct(Arc::new(large)))];
                let mut variant = VariantType::new(path, options);
                if v2 {
                    variant = variant.by_ranges(vec![vec![(0, most)], vec![(most + 1, most + 1)]]);
                }
                let fields = vec![member("id", Type::Enum(Arc::new(tag))), member("v", Type::Variant(Arc::new(variant)))];
                (Some(Arc::new(StructType::new(8, fields))), 9)
            }
        }
    }

    fn scope(&mut self, scope: Scope) -> Arc<StructType> {
        let ty = self.structure(scope, 1, true);
        Arc::new(ty)
    }

    /// Generates a structure. Its fields become anchors for later fields.
    fn structure(&mut self, scope: Scope, depth: u32, open: bool) -> StructType {
        self.frames.push(Frame { anchors: Vec::new(), open });
        let mut fields = Vec::new();
        for _ in 0..self.tape.below(MAX_FIELDS + 1) {
            self.field(scope, &mut fields, depth);
        }
        let min_align = self.tape.pick(&[1, 1, 8, 32]);
        let frame = self.frames.pop().unwrap();
        match self.frames.is_empty() {
            true => self.scopes.push((scope, frame.anchors)),
            false => self.frames.push(Frame { anchors: frame.anchors, open: false }),
        }
        StructType::new(min_align, fields)
    }

    /// Generates a structure that is the type within another one. Also returns its anchors, which
    /// are available to later fields only if the structure is a plain member.
    fn inner_structure(&mut self, scope: Scope, depth: u32, open: bool) -> (StructType, Vec<Anchor>) {
        let ty = self.structure(scope, depth, open);
        (ty, self.frames.pop().unwrap().anchors)
    }

    fn anchor(&mut self, name: &str, tag: bool) {
        self.frames.last_mut().unwrap().anchors.push(Anchor { names: vec![name.to_owned()], tag });
    }

    fn field(&mut self, scope: Scope, fields: &mut Vec<Member>, depth: u32) {
        if self.tape.one_in(6) {
            return self.length_field(fields);
        }
        if self.tape.one_in(8) {
            return self.tag_field(fields);
        }
        // A variant of structures that all have a field with the same name for a length.
        if self.tape.one_in(12) && depth < DEPTH {
            return self.alternatives(scope, fields);
        }
        let name = self.name("f");
        if self.tape.one_in(8) && depth < DEPTH {
            let open = self.frames.last().unwrap().open;
            let (ty, anchors) = self.inner_structure(scope, depth + 1, open);
            for anchor in anchors {
                let mut names = vec![name.clone()];
                names.extend(anchor.names);
                self.frames.last_mut().unwrap().anchors.push(Anchor { names, ..anchor });
            }
            fields.push(member(&name, Type::Struct(Arc::new(ty))));
            return;
        }
        let ty = self.ty(scope, depth, fields);
        fields.push(member(&name, ty));
    }

    fn length_field(&mut self, fields: &mut Vec<Member>) {
        let name = self.name("n");
        let ty = match self.tape.below(3) {
            0 if self.v2() => {
                Type::VarInt(Arc::new(VarIntType { signed: false, base: 10, mappings: Mappings::default(), roles: Roles::NONE }))
            }
            _ => Type::Int(IntType { signed: false, ..self.integer() }),
        };
        fields.push(member(&name, ty));
        self.anchor(&name, false);
    }

    fn tag_field(&mut self, fields: &mut Vec<Member>) {
        let name = self.name("t");
        let mut int = self.integer();
        int.size = int.size.max(4);
        if int.align >= 8 && int.byte_order != self.order {
            int.size = int.size.next_multiple_of(8).min(64);
        }
        // Labels with one range each, and a label `all` that overlaps all of them.
        let (low, mid) = if int.signed { (-5, -1) } else { (0, 2) };
        let ranges = vec![(low, mid - 1), (mid, 3), (5, 5)];
        let label = |index: usize, (low, high)| Mapping { label: format!("o{index}"), low, high };
        let mut mappings: Vec<Mapping> = ranges.iter().copied().enumerate().map(|(i, range)| label(i, range)).collect();
        mappings.push(Mapping { label: "all".to_owned(), low, high: 5 });
        self.tags.insert(name.clone(), ranges);
        let ty = match self.tape.below(3) {
            0 if self.v2() => Type::Int(int),
            1 if self.v2() => {
                Type::VarInt(Arc::new(VarIntType { signed: int.signed, base: 10, mappings: mappings.into(), roles: Roles::NONE }))
            }
            _ => Type::Enum(Arc::new(EnumType { int, mappings: mappings.into() })),
        };
        fields.push(member(&name, ty));
        self.anchor(&name, true);
    }

    /// `[v, n]` leads to one field of each option.
    fn alternatives(&mut self, scope: Scope, fields: &mut Vec<Member>) {
        let Some((tag, name)) = self.reference(scope, true) else { return };
        let ranges = self.tags[&name].clone();
        let (name, length) = (self.name("f"), self.name("n"));
        let options = (0..ranges.len()).map(|index| {
            let mut inner = vec![member(&length, Type::Int(IntType { signed: false, ..self.integer() }))];
            if index == 1 {
                inner.insert(0, member("x", Type::String(Encoding::Utf8)));
            }
            member(&format!("o{index}"), Type::Struct(Arc::new(StructType::new(1, inner))))
        });
        let options = options.collect();
        let mut variant = VariantType::new(tag, options);
        if self.v2() {
            variant = variant.by_ranges(ranges.into_iter().map(|r| vec![r]).collect());
        }
        fields.push(member(&name, Type::Variant(Arc::new(variant))));
        let anchor = Anchor { names: vec![name, length], tag: false };
        self.frames.last_mut().unwrap().anchors.push(anchor);
    }

    /// A path to a length or a tag, and the name of the field to which it leads.
    fn reference(&mut self, scope: Scope, tag: bool) -> Option<(FieldPath, String)> {
        let mut found = Vec::new();
        let v2 = self.v2();
        let last = self.frames.len() - 1;
        for (index, frame) in self.frames.iter().enumerate() {
            for anchor in frame.anchors.iter().filter(|a| a.tag == tag) {
                let (up, names) = (v2.then_some(last - index), anchor.names.clone());
                found.push(FieldPath { scope: None, up, names: names.clone(), ..FieldPath::default() });
                if index == 0 {
                    found.push(FieldPath { scope: Some(scope), up: v2.then_some(0), names, ..FieldPath::default() });
                }
            }
        }
        for (scope, anchors) in &self.scopes {
            for anchor in anchors.iter().filter(|a| a.tag == tag) {
                let path = |scope| FieldPath { scope, up: v2.then_some(0), names: anchor.names.clone(), ..FieldPath::default() };
                found.push(path(Some(*scope)));
                if !v2 {
                    found.push(path(None));
                }
            }
        }
        if found.is_empty() {
            return None;
        }
        let path = found.swap_remove(self.tape.below(found.len() as u64) as usize);
        let name = path.names.last().unwrap().clone();
        Some((path, name))
    }

    fn integer(&mut self) -> IntType {
        let mut size = self.tape.pick(&[8, 16, 32, 64, 0, 0]) as u32;
        if size == 0 {
            size = 1 + self.tape.below(64) as u32;
        }
        let align = self.tape.pick(&[1, 8, 1, 2, 4, 16, 32, 64]);
        let mut int = IntType { size, align, signed: self.tape.one_in(3), byte_order: self.order, base: 10, ..IntType::default() };
        int.base = self.tape.pick(&[10, 16, 8, 2]);
        int.reversed = self.v2() && self.tape.one_in(5);
        if self.tape.one_in(4) {
            // Whole bytes, so that the byte order does not change within a byte.
            (int.byte_order, int.align, int.size) = (self.other(), align.max(8), size.next_multiple_of(8));
        }
        int
    }

    fn encoding(&mut self) -> Encoding {
        use Encoding::*;
        match self.version {
            Version::V1_8 => self.tape.pick(&[Utf8, Ascii]),
            Version::V2 => self.tape.pick(&[Utf8, Utf16Be, Utf16Le, Utf32Be, Utf32Le]),
        }
    }

    fn length(&mut self, scope: Scope) -> Length {
        if self.tape.one_in(2) {
            if let Some((path, _)) = self.reference(scope, false) {
                return Length::Field(path);
            }
        }
        Length::Fixed(self.tape.below(5))
    }

    fn inner(&mut self, scope: Scope, depth: u32) -> Type {
        match depth < DEPTH && self.tape.one_in(2) {
            true => Type::Struct(Arc::new(self.inner_structure(scope, depth + 1, false).0)),
            false => self.ty(scope, depth + 1, &mut Vec::new()),
        }
    }

    /// Generates any type. Fields on which it depends are added to `fields` before it.
    fn ty(&mut self, scope: Scope, depth: u32, _: &mut Vec<Member>) -> Type {
        let span = Span::default();
        let kinds = if depth >= DEPTH { 4 } else { 12 };
        match self.tape.below(kinds) {
            0 => Type::Int(self.integer()),
            1 => {
                let int = self.integer();
                let label = |label: &str, low, high| Mapping { label: label.to_owned(), low, high };
                let mappings = if int.size == 1 { vec![label("zero", 0, 0)] } else { vec![label("one", 0, 1), label("two words", 1, 1)] };
                Type::Enum(Arc::new(EnumType { int, mappings: mappings.into() }))
            }
            2 => {
                let sizes: &[u32] = if self.v2() { &[64, 32, 16, 128] } else { &[64, 32, 16, 80, 128] };
                let (size, int) = (self.tape.pick(sizes), self.integer());
                Type::Float(FloatType { size, align: int.align, byte_order: int.byte_order, reversed: int.reversed })
            }
            3 => Type::String(self.encoding()),
            4 | 5 => {
                let length = self.length(scope);
                let element = self.inner(scope, depth);
                let array = ArrayType::new(element, length, span);
                let min_align = self.tape.pick(&[1, 8, 16]);
                Type::Array(Arc::new(if self.v2() { array.aligned(min_align) } else { array }))
            }
            6 => {
                let (mut length, encoding) = (self.length(scope), self.encoding());
                // A text must not contain a part of a code unit.
                if encoding.unit() > 1 {
                    match &mut length {
                        Length::Fixed(length) => *length &= !3,
                        Length::Field(path) => drop(self.wide.insert(path.names.last().unwrap().clone())),
                    }
                }
                match self.version {
                    Version::V2 => Type::Text(Arc::new(TextType { length, encoding, span })),
                    Version::V1_8 => {
                        let int = IntType { size: 8, align: 8, byte_order: self.order, base: 10, encoding, ..IntType::default() };
                        Type::Array(Arc::new(ArrayType::new(Type::Int(int), length, span)))
                    }
                }
            }
            7 | 8 => match self.reference(scope, true) {
                Some((path, name)) => self.variant(scope, depth, path, &name),
                None => Type::Int(self.integer()),
            },
            9 if self.v2() => match self.reference(scope, true) {
                Some((path, name)) => {
                    let ranges = self.tags[&name][..2].to_vec();
                    let inner = self.inner(scope, depth);
                    Type::Optional(Arc::new(OptionalType::new(path, Some(ranges), inner)))
                }
                None => Type::Bool(IntType { signed: false, ..self.integer() }),
            },
            10 if self.v2() => {
                let media_type = "image/png".to_owned();
                Type::Blob(Arc::new(BlobType { length: self.length(scope), media_type, roles: Roles::NONE, span }))
            }
            11 if self.v2() => match self.tape.below(4) {
                0 => Type::VarInt(Arc::new(VarIntType { signed: false, base: 16, mappings: Mappings::default(), roles: Roles::NONE })),
                1 => Type::VarInt(Arc::new(VarIntType { signed: true, base: 10, mappings: Mappings::default(), roles: Roles::NONE })),
                2 => Type::Bool(IntType { signed: false, ..self.integer() }),
                _ => {
                    let flags = vec![Mapping { label: "low".to_owned(), low: 0, high: 0 }];
                    Type::Bits(Arc::new(BitsType { int: IntType { signed: false, ..self.integer() }, flags }))
                }
            },
            _ => Type::Int(self.integer()),
        }
    }

    fn variant(&mut self, scope: Scope, depth: u32, path: FieldPath, name: &str) -> Type {
        let ranges = self.tags[name].clone();
        let options = (0..ranges.len()).map(|index| member(&format!("o{index}"), self.inner(scope, depth))).collect();
        let variant = VariantType::new(path, options);
        Type::Variant(Arc::new(match self.version {
            Version::V1_8 => variant,
            Version::V2 => variant.by_ranges(ranges.into_iter().map(|range| vec![range]).collect()),
        }))
    }

    /// The values of a structure and of nested structures, one after another.
    fn flat(&mut self, ty: &StructType, path: &str, out: &mut Vec<(Arc<str>, OwnedValue)>) {
        for Member { name, ty } in ty.fields() {
            match ty {
                Type::Struct(inner) if !inner.fields().is_empty() || inner.align() > 1 => self.flat(inner, &format!("{path}{name}."), out),
                _ => {
                    let value = self.value(name, ty);
                    out.push((Arc::from(format!("{path}{name}")), value));
                }
            }
        }
    }

    fn number(&mut self, name: &str, size: u32, signed: bool) -> OwnedValue {
        let mask = u64::MAX >> (64 - size);
        let raw = match name.as_bytes()[0] {
            b'n' if self.wide.contains(name) => self.tape.below(9) & mask & !3,
            b'n' => self.tape.below(6) & mask,
            b't' if self.tags.contains_key(name) => {
                let ranges = self.tags[name].clone();
                let (low, high) = self.tape.pick(&ranges);
                (low + i128::from(self.tape.below((high - low + 1) as u64))) as u64 & mask
            }
            _ => self.tape.word() & mask,
        };
        let unused = 64 - size;
        let value = ((raw << unused) as i64) >> unused;
        self.env.insert(name.to_owned(), if signed { i128::from(value) } else { i128::from(raw) });
        match signed {
            true => OwnedValue::I64(value),
            false => OwnedValue::U64(raw),
        }
    }

    fn len(&self, length: &Length) -> u64 {
        match length {
            Length::Fixed(length) => *length,
            Length::Field(path) => self.env[path.names.last().unwrap()] as u64,
        }
    }

    /// A text of at most `most` bytes.
    fn text(&mut self, encoding: Encoding, most: u64) -> OwnedValue {
        let mut text = String::new();
        let mut len = 0;
        for _ in 0..self.tape.below(4) {
            let c = self.tape.pick(&['a', 'z', 'é', '→', '🦀']);
            len += match encoding {
                Encoding::Utf16Be | Encoding::Utf16Le => c.len_utf16() * 2,
                Encoding::Utf32Be | Encoding::Utf32Le => 4,
                _ => c.len_utf8(),
            } as u64;
            if len > most {
                break;
            }
            text.push(c);
        }
        OwnedValue::Str(text.into_bytes())
    }

    fn value(&mut self, name: &str, ty: &Type) -> OwnedValue {
        match ty {
            Type::Int(int) => self.number(name, int.size, int.signed),
            Type::Enum(e) => self.number(name, e.int.size, e.int.signed),
            Type::Bits(bits) => self.number(name, bits.int.size, false),
            Type::VarInt(int) => self.number(name, 64, int.signed),
            Type::Bool(_) => OwnedValue::Bool(self.tape.one_in(2)),
            Type::Float(float) => {
                let word = self.tape.word();
                OwnedValue::F64(match float.size {
                    16 => (word % 2049) as f64 / 16.0,
                    32 => f64::from(f32::from_bits(word as u32)),
                    64 => f64::from_bits(word),
                    // Subnormal `f64` numbers are rounded when they are read back from wider
                    // formats.
                    _ => Some(f64::from_bits(word)).filter(|v| !v.is_subnormal()).unwrap_or(-0.0),
                })
            }
            Type::String(encoding) => self.text(*encoding, u64::MAX),
            Type::Text(text) => {
                let most = self.len(&text.length);
                self.text(text.encoding, most)
            }
            Type::Blob(blob) => OwnedValue::Bytes((0..self.len(&blob.length)).map(|_| self.tape.byte()).collect()),
            Type::Struct(s) => OwnedValue::Fields(s.fields().iter().map(|f| (Arc::from(&*f.name), self.value(&f.name, &f.ty))).collect()),
            Type::Array(array) => {
                let len = self.len(array.length());
                match array.element() {
                    Type::Int(int) if int.encoding != Encoding::None => self.text(int.encoding, len),
                    element => OwnedValue::List((0..len).map(|_| self.value("e", element)).collect()),
                }
            }
            Type::Variant(variant) => {
                let tag = self.env[variant.tag().names.last().unwrap()];
                let ranges = &self.tags[variant.tag().names.last().unwrap()];
                let index = ranges.iter().position(|(low, high)| *low <= tag && tag <= *high).unwrap();
                let option = &variant.options()[index];
                OwnedValue::Fields(vec![(Arc::from(&*option.name), self.value("e", &option.ty))])
            }
            Type::Optional(optional) => {
                let tag = self.env[optional.selector().names.last().unwrap()];
                let ranges = optional.ranges().unwrap();
                match ranges.iter().any(|(low, high)| *low <= tag && tag <= *high) {
                    true => self.value("e", optional.ty()),
                    false => OwnedValue::Nothing,
                }
            }
        }
    }
}
