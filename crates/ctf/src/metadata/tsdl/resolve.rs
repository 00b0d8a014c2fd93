//! Converts the syntax tree to a schema: resolves names of types, checks attributes, and fills in
//! the defaults of CTF 1.8.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::attribute::{alignment, assignments, base, encoding, fail, field_path, number, range, text, truth, unique, uuid, word, Result};
use super::syntax::*;
use crate::clock::Clock;
use crate::error::Span;
use crate::plan::refs::check_alone;
use crate::types::type_limits::bounded;
use crate::types::*;

/// Names declared in one `{ … }`. Tags of structures, variants and enumerations have name spaces of
/// their own, as in C.
#[derive(Default)]
struct Names {
    aliases: HashMap<String, Type>,
    structs: HashMap<String, Arc<StructType>>,
    variants: HashMap<String, Vec<Member>>,
    enums: HashMap<String, Arc<EnumType>>,
}

struct Resolver {
    names: Vec<Names>,
    /// Named types of the whole file whose length refers to a field that must be found where the
    /// type is used: name, position, path.
    loose: Vec<(String, Span, String)>,
    /// Names of all types that are used.
    used: HashSet<String>,
    /// Named structures of the whole file.
    structs: Vec<(String, Arc<StructType>)>,
    /// Names of all structures that are used.
    used_structs: HashSet<String>,
    byte_order: ByteOrder,
    clocks: Vec<Clock>,
    env: Vec<(String, EnvValue)>,
}

pub(crate) fn schema(items: &[Item]) -> Result<Schema> {
    // The native byte order, the clocks and the environment may be declared after the types that
    // need them.
    let byte_order = native_byte_order(items)?;
    let mut resolver = Resolver {
        names: vec![Names::default()],
        loose: Vec::new(),
        used: HashSet::new(),
        structs: Vec::new(),
        used_structs: HashSet::new(),
        byte_order,
        clocks: Vec::new(),
        env: Vec::new(),
    };
    for item in items {
        if let ItemKind::Block { keyword, items } = &item.kind {
            if keyword == "clock" {
                let clock = clock(items, item.span)?;
                if resolver.clocks.iter().any(|known| known.name == clock.name) {
                    return fail(item.span, format!("a second clock with the name `{}`", clock.name));
                }
                resolver.clocks.push(clock);
            }
            if keyword == "env" {
                env(items, &mut resolver.env)?;
            }
        }
    }
    let mut trace = TraceClass { byte_order, env: resolver.env.clone(), ..TraceClass::default() };
    let mut streams: Vec<(StreamClass, Span)> = Vec::new();
    let mut events: Vec<(Option<u64>, EventClass, Span)> = Vec::new();
    for item in items {
        let ItemKind::Block { keyword, items } = &item.kind else {
            resolver.declare(item)?;
            continue;
        };
        match keyword.as_str() {
            "trace" => resolver.trace(items, &mut trace, item.span)?,
            "stream" => {
                let stream = resolver.stream(items)?;
                if streams.iter().any(|(s, _)| s.id == stream.id) {
                    return fail(item.span, format!("a second stream with the id {}", stream.id));
                }
                streams.push((stream, item.span));
            }
            "event" => {
                let (stream, event) = resolver.event(items, item.span)?;
                events.push((stream, event, item.span));
            }
            _ => {}
        }
    }
    if let Some((_, span, path)) = resolver.loose.iter().find(|(name, ..)| !resolver.used.contains(name)) {
        return fail(*span, format!("this type refers to `{path}`, which does not exist in its scope (and the type is not used)"));
    }
    for (_, unused) in resolver.structs.iter().filter(|(name, _)| !resolver.used_structs.contains(name)) {
        check_alone(unused)?;
    }
    if streams.is_empty() && events.iter().all(|(stream, ..)| stream.unwrap_or(0) == 0) {
        streams.push((StreamClass::default(), Span::default()));
    }
    attach(events, &mut streams)?;
    let streams = streams.into_iter().map(|(s, _)| s).collect();
    Ok(Schema { version: Version::V1_8, trace, clocks: resolver.clocks, streams })
}

/// Adds each event to its stream.
fn attach(events: Vec<(Option<u64>, EventClass, Span)>, streams: &mut [(StreamClass, Span)]) -> Result<()> {
    let index: HashMap<u64, usize> = streams.iter().enumerate().map(|(i, (s, _))| (s.id, i)).collect();
    let mut taken: HashSet<(usize, u64)> = HashSet::new();
    for (stream_id, event, span) in events {
        let found = match stream_id {
            Some(id) => index.get(&id).copied(),
            None if streams.len() == 1 => Some(0),
            None => return fail(span, format!("event `{}` needs a `stream_id`, since there are several streams", event.name)),
        };
        let Some(stream) = found else {
            let id = stream_id.unwrap_or(0);
            return fail(span, format!("event `{}` belongs to stream {id}, which is not declared", event.name));
        };
        if !taken.insert((stream, event.id)) {
            return fail(span, format!("a second event with the id {} in its stream", event.id));
        }
        streams[stream].0.events.push(event);
    }
    Ok(())
}

fn native_byte_order(items: &[Item]) -> Result<ByteOrder> {
    let mut found = None;
    let mut trace = None;
    for item in items {
        let ItemKind::Block { keyword, items } = &item.kind else { continue };
        if keyword != "trace" {
            continue;
        }
        if trace.replace(item.span).is_some() {
            return fail(item.span, "a second trace block");
        }
        for item in items {
            if let ItemKind::Assign { left, value, value_span } = &item.kind {
                if left == "byte_order" {
                    found = Some(match word(value) {
                        Some("le") => ByteOrder::Little,
                        Some("be" | "network") => ByteOrder::Big,
                        _ => return fail(*value_span, "the trace's byte order is `le` or `be`"),
                    });
                }
            }
        }
    }
    match (found, trace) {
        (Some(order), _) => Ok(order),
        (None, Some(span)) => fail(span, "the trace block has no `byte_order`"),
        (None, None) => fail(Span::default(), "there is no trace block"),
    }
}

fn env(items: &[Item], env: &mut Vec<(String, EnvValue)>) -> Result<()> {
    for (name, value, span) in assignments(items) {
        let value = match value {
            Value::Int(i) => EnvValue::integer(*i),
            other => EnvValue::Text(text(other, span)?),
        };
        env.push((name.to_owned(), value));
    }
    Ok(())
}

fn clock(items: &[Item], span: Span) -> Result<Clock> {
    unique(items)?;
    let mut clock = Clock::new("", 1_000_000_000);
    for (name, value, span) in assignments(items) {
        match name {
            "name" => clock.name = text(value, span)?,
            "uuid" => clock.uuid = Some(uuid(value, span)?),
            "description" => clock.description = text(value, span)?,
            "freq" => {
                clock.frequency = number(value, span, "a frequency")?;
                if clock.frequency == 0 {
                    return fail(span, "a clock's frequency cannot be 0");
                }
            }
            "precision" => clock.precision = number(value, span, "a precision")?,
            "offset_s" => clock.offset_s = number(value, span, "an offset in seconds")?,
            // Some writers store negative offsets as their two's complement.
            "offset" => {
                clock.offset = match value {
                    Value::Int(i) if *i > i128::from(i64::MAX) && *i <= i128::from(u64::MAX) => *i as u64 as i64,
                    _ => number(value, span, "an offset in cycles")?,
                }
            }
            "absolute" => clock.absolute = truth(value, span)?,
            _ => {}
        }
    }
    if clock.name.is_empty() {
        return fail(span, "a clock needs a name");
    }
    Ok(clock)
}

impl Resolver {
    fn scope(&mut self) -> &mut Names {
        if self.names.is_empty() {
            self.names.push(Names::default());
        }
        let last = self.names.len() - 1;
        &mut self.names[last]
    }

    fn find<T: Clone>(&self, get: impl Fn(&Names) -> Option<&T>) -> Option<T> {
        self.names.iter().rev().find_map(get).cloned()
    }

    fn scoped<T>(&mut self, resolve: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        self.names.push(Names::default());
        let result = resolve(self);
        self.names.pop();
        result
    }

    /// Adds the names that a declaration defines.
    fn declare(&mut self, item: &Item) -> Result<()> {
        match &item.kind {
            ItemKind::Alias { ty, declarators, names } => {
                let base = self.ty(ty)?;
                for (index, name) in names.iter().enumerate() {
                    let ty = match declarators.get(index) {
                        Some(declarator) => self.arrays(base.clone(), declarator)?,
                        None => base.clone(),
                    };
                    if let (1, Some((Bound::Field(path), span))) =
                        (self.names.len(), declarators.get(index).and_then(|d| d.lengths.first()))
                    {
                        if path.first().is_some_and(|word| word != "env") && field_path(path, *span).scope.is_none() {
                            self.loose.push((name.clone(), *span, path.join(".")));
                        }
                    }
                    if self.scope().aliases.insert(name.clone(), ty).is_some() {
                        return fail(item.span, format!("a second type with the name `{name}`"));
                    }
                }
                Ok(())
            }
            // A variant without a tag only names its options.
            ItemKind::Declare(TypeExpr { kind: TypeKind::Variant { name: Some(name), tag: None, body: Some(body) }, .. }) => {
                let options = self.options(body, item.span)?;
                self.name_variant(name, &options, item.span)
            }
            ItemKind::Declare(ty) => {
                let declared = self.ty(ty)?;
                if let (1, Type::Struct(structure), TypeKind::Struct { name: Some(name), body: Some(_), .. }) =
                    (self.names.len(), declared, &ty.kind)
                {
                    self.structs.push((name.clone(), structure));
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn trace(&mut self, items: &[Item], trace: &mut TraceClass, span: Span) -> Result<()> {
        unique(items)?;
        self.names.push(Names::default());
        let (mut major, mut minor) = (None, None);
        for item in items {
            match &item.kind {
                ItemKind::Assign { left, value, value_span } => match left.as_str() {
                    "major" => major = Some((number::<u64>(value, *value_span, "a version")?, *value_span)),
                    "minor" => minor = Some((number::<u64>(value, *value_span, "a version")?, *value_span)),
                    "uuid" => trace.uuid = Some(uuid(value, *value_span)?),
                    _ => {}
                },
                ItemKind::AssignType { left, ty, .. } if left == "packet.header" => {
                    trace.packet_header = Some(self.structure(ty)?);
                }
                _ => self.declare(item)?,
            }
        }
        self.names.pop();
        for (what, found, wanted) in [("major", major, 1), ("minor", minor, 8)] {
            match found {
                None => return fail(span, format!("the trace block has no `{what}`")),
                Some((version, _)) if version == wanted => {}
                Some((_, span)) => return fail(span, "only version 1.8 of the format has this syntax"),
            }
        }
        Ok(())
    }

    fn stream(&mut self, items: &[Item]) -> Result<StreamClass> {
        unique(items)?;
        self.scoped(|this| {
            let mut stream = StreamClass::default();
            for item in items {
                match &item.kind {
                    ItemKind::Assign { left, value, value_span } if left == "id" => {
                        stream.id = number(value, *value_span, "a stream's id")?;
                    }
                    ItemKind::AssignType { left, ty, .. } => match left.as_str() {
                        "packet.context" => stream.packet_context = Some(this.structure(ty)?),
                        "event.header" => stream.event_header = Some(this.structure(ty)?),
                        "event.context" => stream.event_context = Some(this.structure(ty)?),
                        _ => {}
                    },
                    _ => this.declare(item)?,
                }
            }
            Ok(stream)
        })
    }

    fn event(&mut self, items: &[Item], span: Span) -> Result<(Option<u64>, EventClass)> {
        unique(items)?;
        self.scoped(|this| {
            let mut name = None;
            let mut stream = None;
            let mut event = EventClass::default();
            for item in items {
                match &item.kind {
                    ItemKind::Assign { left, value, value_span } => match left.as_str() {
                        "id" => event.id = number(value, *value_span, "an event's id")?,
                        "stream_id" => stream = Some(number(value, *value_span, "a stream's id")?),
                        "name" => name = Some(text(value, *value_span)?),
                        "loglevel" => event.loglevel = Some(number(value, *value_span, "a log level")?),
                        "model.emf.uri" => event.model_emf_uri = Some(text(value, *value_span)?),
                        _ => {}
                    },
                    ItemKind::AssignType { left, ty, .. } => match left.as_str() {
                        "context" => event.context = Some(this.structure(ty)?),
                        "fields" => event.payload = Some(this.structure(ty)?),
                        _ => {}
                    },
                    _ => this.declare(item)?,
                }
            }
            match name {
                Some(name) => event.name = name,
                None => return fail(span, "an event needs a name"),
            }
            Ok((stream, event))
        })
    }

    fn structure(&mut self, ty: &TypeExpr) -> Result<Arc<StructType>> {
        match self.ty(ty)? {
            Type::Struct(s) => Ok(s),
            other => fail(ty.span, format!("expected a structure, found a type of kind {}", other.kind())),
        }
    }

    /// The type, if it is within the bounds: types that contain each other by name could otherwise
    /// grow exponentially.
    fn ty(&mut self, expr: &TypeExpr) -> Result<Type> {
        let ty = self.unbounded(expr)?;
        bounded(&ty, expr.span)?;
        Ok(ty)
    }

    fn unbounded(&mut self, expr: &TypeExpr) -> Result<Type> {
        match &expr.kind {
            TypeKind::Named(name) => match self.find(|n| n.aliases.get(name)) {
                Some(ty) => {
                    self.used.insert(name.clone());
                    Ok(ty)
                }
                None => fail(expr.span, format!("unknown type `{name}`")),
            },
            TypeKind::Integer(attributes) => self.integer(attributes, expr.span),
            TypeKind::Float(attributes) => self.float(attributes, expr.span).map(Type::Float),
            TypeKind::String(attributes) => {
                unique(attributes)?;
                let mut kind = Encoding::Utf8;
                for (name, value, span) in assignments(attributes) {
                    if name == "encoding" {
                        kind = encoding(value, span)?;
                    }
                }
                Ok(Type::String(kind))
            }
            TypeKind::Struct { name, body, align } => self.struct_type(expr.span, name, body, align).map(Type::Struct),
            TypeKind::Variant { name, tag, body } => {
                let options = match (body, name) {
                    (Some(body), _) => {
                        let options = self.options(body, expr.span)?;
                        if let Some(name) = name {
                            self.name_variant(name, &options, expr.span)?;
                        }
                        options
                    }
                    (None, Some(name)) => match self.find(|n| n.variants.get(name)) {
                        Some(options) => options,
                        None => return fail(expr.span, format!("unknown variant `{name}`")),
                    },
                    (None, None) => return fail(expr.span, "a variant needs a name or options"),
                };
                let Some((tag, span)) = tag else {
                    return fail(expr.span, "a variant needs a tag where it is used");
                };
                Ok(Type::Variant(Arc::new(VariantType::new(field_path(tag, *span), options))))
            }
            TypeKind::Enum { name, base, body } => self.enum_type(expr.span, name, base, body).map(Type::Enum),
        }
    }

    fn options(&mut self, body: &[Item], span: Span) -> Result<Vec<Member>> {
        let options = self.scoped(|r| r.members(body))?;
        if options.is_empty() {
            return fail(span, "a variant has no option");
        }
        Ok(options)
    }

    fn name_variant(&mut self, name: &str, options: &[Member], span: Span) -> Result<()> {
        match self.scope().variants.insert(name.to_owned(), options.to_vec()) {
            None => Ok(()),
            Some(_) => fail(span, format!("a second variant with the name `{name}`")),
        }
    }

    fn struct_type(
        &mut self,
        span: Span,
        name: &Option<String>,
        body: &Option<Vec<Item>>,
        align: &Option<(i128, Span)>,
    ) -> Result<Arc<StructType>> {
        let min_align = match align {
            Some((value, span)) => alignment(*value, *span)?,
            None => 1,
        };
        match (body, name) {
            (Some(body), _) => {
                let fields = self.scoped(|r| r.members(body))?;
                let ty = Arc::new(StructType::new(min_align, fields));
                if let Some(name) = name {
                    if self.scope().structs.insert(name.clone(), ty.clone()).is_some() {
                        return fail(span, format!("a second structure with the name `{name}`"));
                    }
                }
                Ok(ty)
            }
            (None, Some(name)) => match self.structure_called(name) {
                Some(ty) if min_align <= ty.min_align() => Ok(ty),
                Some(ty) => Ok(Arc::new(StructType::new(min_align, ty.fields().to_vec()))),
                None => fail(span, format!("unknown structure `{name}`")),
            },
            (None, None) => fail(span, "a structure needs a name or fields"),
        }
    }

    fn structure_called(&mut self, name: &str) -> Option<Arc<StructType>> {
        self.used_structs.insert(name.to_owned());
        self.find(|n| n.structs.get(name))
    }

    fn enum_type(
        &mut self,
        span: Span,
        name: &Option<String>,
        base: &Option<Box<TypeExpr>>,
        body: &Option<Vec<Enumerator>>,
    ) -> Result<Arc<EnumType>> {
        let Some(body) = body else {
            let name = name.as_deref().unwrap_or("");
            return match self.find(|n| n.enums.get(name)) {
                Some(ty) => Ok(ty),
                None => fail(span, format!("unknown enumeration `{name}`")),
            };
        };
        let base = match base {
            Some(base) => self.ty(base)?,
            None => match self.find(|n| n.aliases.get("int")) {
                Some(ty) => ty,
                None => return fail(span, "an enumeration without a type needs a type `int`"),
            },
        };
        let int = match base {
            Type::Int(int) => int,
            other => return fail(span, format!("an enumeration is an integer of 1 to 64 bits, not of kind {}", other.kind())),
        };
        let (least, most) = range(&int);
        let mut next = 0i128;
        let mut mappings = Vec::with_capacity(body.len());
        for Enumerator { label, span, range } in body {
            let (low, high) = range.unwrap_or((next, next));
            if low > high {
                return fail(*span, format!("the range of `{label}` ends before it begins"));
            }
            if low < least || high > most {
                let sign = if int.signed { "a signed" } else { "an unsigned" };
                return fail(*span, format!("`{label}` is out of range: {sign} integer of {} bits is {least} to {most}", int.size));
            }
            next = high + 1;
            mappings.push(Mapping { label: label.clone(), low, high });
        }
        let ty = Arc::new(EnumType { int, mappings: mappings.into() });
        if let Some(name) = name {
            if self.scope().enums.insert(name.clone(), ty.clone()).is_some() {
                return fail(span, format!("a second enumeration with the name `{name}`"));
            }
        }
        Ok(ty)
    }

    fn members(&mut self, items: &[Item]) -> Result<Vec<Member>> {
        let mut members: Vec<Member> = Vec::new();
        let mut taken = HashSet::new();
        for item in items {
            let ItemKind::Member { ty, declarators } = &item.kind else {
                self.declare(item)?;
                continue;
            };
            let base = self.ty(ty)?;
            for declarator in declarators {
                if !taken.insert(declarator.name.as_str()) {
                    return fail(declarator.span, format!("a second field with the name `{}`", declarator.name));
                }
                let ty = self.arrays(base.clone(), declarator)?;
                members.push(Member { name: declarator.name.clone(), ty });
            }
        }
        Ok(members)
    }

    /// The array types of a declarator. `x[2][n]` is an array of two sequences of n elements.
    fn arrays(&self, base: Type, declarator: &Declarator) -> Result<Type> {
        let mut ty = base;
        for (bound, span) in declarator.lengths.iter().rev() {
            let length = match bound {
                Bound::Fixed(length) => Length::Fixed(*length),
                Bound::Field(path) if path.first().is_some_and(|word| word == "env") => Length::Fixed(self.env_length(path, *span)?),
                Bound::Field(path) => Length::Field(field_path(path, *span)),
            };
            ty = Type::Array(Arc::new(ArrayType::new(ty, length, *span)));
            bounded(&ty, *span)?;
        }
        Ok(ty)
    }

    /// The length in `x[env.NAME]`, from the environment.
    fn env_length(&self, path: &[String], span: Span) -> Result<u64> {
        let [_, name] = path else { return fail(span, "expected `env.NAME`") };
        match self.env.iter().find(|(known, _)| known == name) {
            Some((_, EnvValue::Int(length))) => {
                u64::try_from(*length).or_else(|_| fail(span, format!("an array's length cannot be negative; `env.{name}` is {length}")))
            }
            Some(_) => fail(span, format!("a length is an integer; `env.{name}` is a text")),
            None => fail(span, format!("the environment has no `{name}`")),
        }
    }

    fn order(&self, value: &Value, span: Span) -> Result<ByteOrder> {
        match word(value) {
            Some("le") => Ok(ByteOrder::Little),
            Some("be" | "network") => Ok(ByteOrder::Big),
            Some("native") => Ok(self.byte_order),
            _ => fail(span, "a byte order is `le`, `be`, `network` or `native`"),
        }
    }

    fn integer(&self, attributes: &[Item], span: Span) -> Result<Type> {
        unique(attributes)?;
        let mut size = None;
        let mut align = None;
        let mut int = IntType { align: 1, byte_order: self.byte_order, base: 10, ..IntType::default() };
        for (name, value, span) in assignments(attributes) {
            match name {
                "size" => size = Some((number(value, span, "an integer's size")?, span)),
                "align" => align = Some(alignment(number(value, span, "an alignment")?, span)?),
                "signed" => int.signed = truth(value, span)?,
                "byte_order" => int.byte_order = self.order(value, span)?,
                "base" => int.base = base(value, span)?,
                "encoding" => int.encoding = encoding(value, span)?,
                "map" => int.clock = self.clock_of(value, span)?,
                _ => {}
            }
        }
        let Some((size, size_span)) = size else { return fail(span, "an integer needs a `size`") };
        int.size = size;
        int.align = align.unwrap_or(if size % 8 == 0 { 8 } else { 1 });
        match size {
            1..=64 => Ok(Type::Int(int)),
            _ if int.clock.is_some() => fail(size_span, "the value of a clock has 1 to 64 bits"),
            _ => Ok(in_parts(int, size_span)),
        }
    }

    fn clock_of(&self, value: &Value, span: Span) -> Result<Option<usize>> {
        let Value::Path(path) = value else { return fail(span, "expected `clock.NAME.value`") };
        match path.as_slice() {
            [clock, name, value] if clock == "clock" && value == "value" => match self.clocks.iter().position(|c| c.name == *name) {
                Some(index) => Ok(Some(index)),
                None => fail(span, format!("unknown clock `{name}`")),
            },
            _ => fail(span, "expected `clock.NAME.value`"),
        }
    }

    fn float(&self, attributes: &[Item], span: Span) -> Result<FloatType> {
        unique(attributes)?;
        let (mut exponent, mut mantissa, mut align) = (0u32, 0u32, None);
        let mut byte_order = self.byte_order;
        for (name, value, span) in assignments(attributes) {
            match name {
                "exp_dig" => exponent = number(value, span, "a number of digits")?,
                "mant_dig" => mantissa = number(value, span, "a number of digits")?,
                "align" => align = Some(alignment(number(value, span, "an alignment")?, span)?),
                "byte_order" => byte_order = self.order(value, span)?,
                _ => {}
            }
        }
        let size = match (exponent, mantissa) {
            (5, 11) => 16,
            (8, 24) => 32,
            (11, 53) => 64,
            (15, 64) => 80,
            (15, 113) => 128,
            _ => {
                return fail(
                    span,
                    "a floating point number has exp_dig and mant_dig of 5 and 11, 8 and 24, 11 and 53, 15 and 64, or 15 and 113",
                )
            }
        };
        Ok(FloatType { size, align: align.unwrap_or(8), byte_order, reversed: false })
    }
}

/// The type of an integer with 0 bits or more than 64 bits, which no CPU has: an array of the
/// fewest words of one size that make up the integer, in the order of the stream.
fn in_parts(int: IntType, span: Span) -> Type {
    let part = (1..=64).rev().find(|part| int.size.is_multiple_of(*part)).unwrap_or(1);
    let base = if int.base == 10 { 16 } else { int.base };
    let element = IntType { size: part, align: 1, base, byte_order: int.byte_order, ..IntType::default() };
    let parts = ArrayType::new(Type::Int(element), Length::Fixed(u64::from(int.size / part)), span);
    Type::Array(Arc::new(parts.aligned(int.align)))
}
