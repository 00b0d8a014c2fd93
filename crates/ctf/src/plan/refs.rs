//! Resolution of references: which field holds the length of which array, and which field selects
//! the option of which variant.
//!
//! Every field that is referred to gets a *slot*: the executor saves the value of the field there
//! when it passes it, and reads the slot when it reaches the array or variant. For example, in
//! `struct { u8 n; u16 list[n]; }` the field `n` gets a slot, and `list` uses it. Slots of fields
//! that belong to the packet or to the stream are numbered first; the slots of each event class
//! follow, and all event classes reuse the same numbers.

use std::collections::HashMap;

use crate::error::{Span, SpanError};
use crate::types::*;

type Result<T> = std::result::Result<T, SpanError>;

/// Path to a type in its scope: the indices of fields and options on the way to it, and
/// [`ELEMENT`] for the element of an array.
pub(crate) type TypePath = Vec<u32>;

pub(crate) const ELEMENT: u32 = u32::MAX;

/// Mark in the number of a slot that belongs to an event's own scopes, until the number of shared
/// slots is known.
const LOCAL_SLOT: u32 = 1 << 31;

/// A range of tag values, from `low` to `high`, that selects an option of a variant.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Choice {
    pub low: i128,
    pub high: i128,
    pub option: u32,
}

#[derive(Clone, Debug)]
pub(crate) struct Choices {
    pub signed: bool,
    pub list: Vec<Choice>,
}

#[derive(Clone, Debug)]
pub(crate) enum Use {
    Length { slot: u32 },
    Tag { slot: u32, choices: Choices },
}

/// The slots of one structure at the root of a scope.
#[derive(Debug, Default)]
pub(crate) struct ScopeRefs {
    /// Fields to save, each with the slots to save it to.
    pub saves: HashMap<TypePath, Vec<u32>>,
    /// Arrays and variants that use slots.
    pub uses: HashMap<TypePath, Use>,
}

impl ScopeRefs {
    /// Replaces the numbers of local slots by their final ones, which follow the `shared` shared
    /// slots.
    pub(crate) fn number(&mut self, shared: u32) {
        let number = |slot: &mut u32| {
            if *slot & LOCAL_SLOT != 0 {
                *slot = (*slot & !LOCAL_SLOT) + shared;
            }
        };
        self.saves.values_mut().flatten().for_each(number);
        for usage in self.uses.values_mut() {
            match usage {
                Use::Length { slot } | Use::Tag { slot, .. } => number(slot),
            }
        }
    }
}

/// The scopes that are decoded for an event of a class, from the packet's header on.
pub(crate) struct Scopes<'s> {
    pub roots: Vec<(Scope, &'s StructType)>,
}

/// Numbers of slots that have been assigned.
#[derive(Default)]
pub(crate) struct Counters {
    pub shared: u32,
    pub local: u32,
}

/// A structure on the way from the root to the current type.
#[derive(Clone, Copy)]
pub(crate) struct Frame<'s> {
    pub ty: &'s StructType,
    /// Length of the place of this structure.
    pub depth: usize,
}

/// The position of a reference.
pub(crate) struct ReferenceSite<'s, 'p> {
    pub scope: Scope,
    /// The scopes that are decoded before this one.
    pub earlier: &'p [(Scope, &'s StructType)],
    /// The structures that contain the reference, outermost first.
    pub frames: &'p [Frame<'s>],
    pub place: &'p [u32],
}

/// The result of resolving a reference.
pub(crate) struct Target<'s> {
    /// Index of the frame in which the path starts; `None` if it leads to another scope.
    pub frame: Option<usize>,
    /// The fields found, all in one scope. There are several if the path leads through a variant.
    pub found: Vec<Found<'s>>,
}

/// Resolves all references in the structure at `roots[index]`, and stores the slots of each scope
/// in `refs`.
pub(crate) fn find<'s>(scopes: &Scopes<'s>, index: usize, refs: &mut HashMap<Scope, ScopeRefs>, counters: &mut Counters) -> Result<()> {
    let (scope, root) = scopes.roots[index];
    let mut finder = Finder { scope, earlier: &scopes.roots[..index], alone: false, frames: Vec::new(), place: Vec::new(), refs, counters };
    finder.structure(root)
}

/// Checks the references within a structure that no other type uses. References that lead out of it
/// cannot be checked.
pub(crate) fn check_alone(root: &StructType) -> Result<()> {
    let (refs, counters) = (&mut HashMap::new(), &mut Counters::default());
    let scope = Scope::EventFields;
    Finder { scope, earlier: &[], alone: true, frames: Vec::new(), place: Vec::new(), refs, counters }.structure(root)
}

struct Finder<'s, 'r> {
    scope: Scope,
    earlier: &'r [(Scope, &'s StructType)],
    /// True if a reference may lead to nothing.
    alone: bool,
    frames: Vec<Frame<'s>>,
    place: TypePath,
    refs: &'r mut HashMap<Scope, ScopeRefs>,
    counters: &'r mut Counters,
}

impl<'s> Finder<'s, '_> {
    fn structure(&mut self, ty: &'s StructType) -> Result<()> {
        self.frames.push(Frame { ty, depth: self.place.len() });
        for (index, field) in ty.fields().iter().enumerate() {
            self.within(index as u32, &field.ty)?;
        }
        self.frames.pop();
        Ok(())
    }

    fn ty(&mut self, ty: &'s Type) -> Result<()> {
        match ty {
            Type::Struct(s) => self.structure(s),
            Type::Array(array) => {
                self.length(array.length())?;
                self.within(ELEMENT, array.element())
            }
            Type::Text(text) => self.length(&text.length),
            Type::Blob(blob) => self.length(&blob.length),
            Type::Variant(variant) => {
                let path = variant.tag();
                let found = match variant.ranges() {
                    Some(_) => self.resolve(path, |ty| matches!(ty, Type::Int(_) | Type::Enum(_) | Type::VarInt(_)))?,
                    None => self.resolve(path, |ty| matches!(ty, Type::Enum(_)))?,
                };
                if let Some(found) = found {
                    let choices = match variant.ranges() {
                        Some(ranges) => {
                            let signed = selector(path, &found, "a variant's selector is an integer")?;
                            let list = ranges.iter().enumerate().flat_map(|(option, ranges)| choices(ranges, option as u32)).collect();
                            Choices { signed, list }
                        }
                        None => by_labels(path, &found, variant.options())?,
                    };
                    let slot = self.slot(&found);
                    self.note(Use::Tag { slot, choices });
                }
                for (index, option) in variant.options().iter().enumerate() {
                    self.within(index as u32, &option.ty)?;
                }
                Ok(())
            }
            Type::Optional(optional) => {
                let path = optional.selector();
                let Some(found) = self.resolve(path, |_| true)? else { return Ok(()) };
                let other = found.iter().find(|(.., ty)| !matches!(ty, Type::Bool(_)));
                let choices = match (optional.ranges(), other) {
                    // A boolean needs no ranges; if there are some, they are ignored.
                    (_, None) => Choices { signed: false, list: vec![Choice { low: 1, high: i128::MAX, option: 0 }] },
                    (Some(ranges), Some(_)) => {
                        let signed = selector(path, &found, "an optional's selector is an integer if it has ranges")?;
                        Choices { signed, list: choices(ranges, 0).collect() }
                    }
                    (None, Some((.., other))) => return wrong(path, "an optional's selector is a boolean if it has no ranges", other),
                };
                let slot = self.slot(&found);
                self.note(Use::Tag { slot, choices });
                self.within(0, optional.ty())
            }
            Type::Int(_) | Type::Float(_) | Type::Enum(_) | Type::Bool(_) | Type::Bits(_) | Type::VarInt(_) | Type::String(_) => Ok(()),
        }
    }

    fn within(&mut self, part: u32, ty: &'s Type) -> Result<()> {
        self.place.push(part);
        self.ty(ty)?;
        self.place.pop();
        Ok(())
    }

    fn length(&mut self, length: &'s Length) -> Result<()> {
        let Length::Field(path) = length else { return Ok(()) };
        let fits = |ty: &Type| match ty {
            Type::Int(int) => !int.signed,
            Type::Enum(e) => !e.int.signed,
            Type::VarInt(int) => !int.signed,
            _ => false,
        };
        let Some(found) = self.resolve(path, fits)? else { return Ok(()) };
        if let Some((.., other)) = found.iter().find(|(.., ty)| !fits(ty)) {
            let rule = "a length is an unsigned integer";
            return match other {
                Type::Int(_) | Type::Enum(_) | Type::VarInt(_) => {
                    Err(SpanError::new(path.span, format!("{rule}; `{}` is a signed one", path.names.join("."))))
                }
                other => wrong(path, rule, other),
            };
        }
        let slot = self.slot(&found);
        self.note(Use::Length { slot });
        Ok(())
    }

    fn note(&mut self, usage: Use) {
        self.refs.entry(self.scope).or_default().uses.insert(self.place.clone(), usage);
    }

    /// A slot to which all of these fields save. They are one field, or alternatives of which only
    /// one is decoded.
    fn slot(&mut self, found: &[Found<'s>]) -> u32 {
        let slots = |(scope, place, _): &Found<'s>| self.refs.get(scope).and_then(|refs| refs.saves.get(place));
        let mut common: Vec<u32> = found.first().and_then(slots).cloned().unwrap_or_default();
        for other in found.iter().skip(1) {
            common.retain(|slot| slots(other).is_some_and(|slots| slots.contains(slot)));
        }
        if let Some(&slot) = common.first() {
            return slot;
        }
        let (counter, mark) = match found.first().map(|(scope, ..)| scope) {
            Some(Scope::EventContext | Scope::EventFields) => (&mut self.counters.local, LOCAL_SLOT),
            _ => (&mut self.counters.shared, 0),
        };
        let slot = *counter | mark;
        *counter += 1;
        for (scope, place, _) in found {
            self.refs.entry(*scope).or_default().saves.entry(place.clone()).or_default().push(slot);
        }
        slot
    }

    fn resolve(&self, path: &FieldPath, fits: impl Fn(&Type) -> bool) -> Result<Option<Vec<Found<'s>>>> {
        let Finder { scope, earlier, frames, place, .. } = self;
        match (ReferenceSite { scope: *scope, earlier, frames, place }.resolve(path, fits)) {
            Ok(target) => Ok(Some(target.found)),
            Err(_) if self.alone => Ok(None),
            Err(error) => Err(error),
        }
    }
}

impl<'s> ReferenceSite<'s, '_> {
    /// The fields to which a path leads, all in one scope; there are several if it leads through a
    /// variant. For relative paths of CTF 1.8 the nearest field for which `fits` returns `true` is
    /// meant or, if there is none, the nearest field at all. So a name in a type that was declared
    /// in an outer scope is not hidden by an unrelated field near the place where the type is used.
    pub(crate) fn resolve(&self, path: &FieldPath, fits: impl Fn(&Type) -> bool) -> Result<Target<'s>> {
        let in_frame = |frame: usize| -> Vec<Found<'s>> {
            let Some(f) = self.frames.get(frame) else { return Vec::new() };
            let mut search = Search { here: self.place, exact: path.up.is_some(), found: Vec::new() };
            search.structure(f.ty, &path.names, &mut self.place[..f.depth].to_vec(), true);
            search.found.into_iter().map(|(place, ty)| (self.scope, place, ty)).collect()
        };
        let in_scope = |(scope, root): &(Scope, &'s StructType)| -> Vec<Found<'s>> {
            let mut search = Search { here: &[], exact: path.up.is_some(), found: Vec::new() };
            search.structure(root, &path.names, &mut Vec::new(), false);
            search.found.into_iter().map(|(place, ty)| (*scope, place, ty)).collect()
        };
        let (frame, found) = match (path.scope, path.up) {
            (Some(scope), _) if scope == self.scope => (Some(0), in_frame(0)),
            (Some(scope), _) => (None, self.earlier.iter().find(|(s, _)| *s == scope).map_or(Vec::new(), in_scope)),
            (None, Some(up)) => {
                let frame = up.checked_add(1).and_then(|up| self.frames.len().checked_sub(up));
                (frame, frame.map_or(Vec::new(), in_frame))
            }
            // The nearest structure outwards, then the scopes decoded before, the latest first.
            (None, None) => {
                let outwards = (0..self.frames.len()).rev().map(|frame| (Some(frame), in_frame(frame)));
                let before = self.earlier.iter().rev().map(|scope| (None, in_scope(scope)));
                let mut nearest = (None, Vec::new());
                let mut all = outwards.chain(before).filter(|(_, found)| !found.is_empty());
                let fitting = all.find(|found| {
                    let found_fits = found.1.iter().all(|(.., ty)| fits(ty));
                    if !found_fits && nearest.1.is_empty() {
                        nearest.clone_from(found);
                    }
                    found_fits
                });
                fitting.unwrap_or(nearest)
            }
        };
        if found.is_empty() {
            let scope = path.scope.map_or(String::new(), |s| format!("{}.", s.path()));
            let message = format!("no field `{scope}{}` is decoded before this one", path.names.join("."));
            return Err(SpanError::new(path.span, message));
        }
        Ok(Target { frame, found })
    }
}

/// A field and its place.
pub(crate) type Found<'s> = (Scope, TypePath, &'s Type);

/// Follows the names of a path down a type.
struct Search<'h, 's> {
    /// Place of the reference, if it is in the same scope: of the structures that contain it, only
    /// fields decoded before it are visible.
    here: &'h [u32],
    /// `true` for the rules of CTF 2: paths lead through optionals, and through an array to the
    /// element that contains the reference. Every path may lead through all options of a variant.
    exact: bool,
    found: Vec<(TypePath, &'s Type)>,
}

impl<'s> Search<'_, 's> {
    /// `around` is true if the reference is within the type at `place`.
    fn structure(&mut self, ty: &'s StructType, names: &[String], place: &mut TypePath, around: bool) {
        let Some((first, rest)) = names.split_first() else { return };
        let Some(index) = ty.fields().iter().position(|f| f.name == *first) else { return };
        let current = if around { self.here.get(place.len()).copied() } else { None };
        let index_here = index as u32;
        if current.is_some_and(|current| index_here > current) {
            return;
        }
        place.push(index_here);
        self.ty(&ty.fields()[index].ty, rest, place, current == Some(index_here));
        place.pop();
    }

    fn ty(&mut self, ty: &'s Type, names: &[String], place: &mut TypePath, around: bool) {
        let mut part = |search: &mut Self, index: u32, ty: &'s Type| {
            let here = if around { search.here.get(place.len()).copied() } else { None };
            // If the reference is within an option of a variant, no other option of it was decoded.
            if here.is_none_or(|here| here == index) {
                place.push(index);
                search.ty(ty, names, place, here.is_some());
                place.pop();
            }
        };
        match ty {
            Type::Variant(variant) if self.exact || !names.is_empty() => {
                for (index, option) in variant.options().iter().enumerate() {
                    part(self, index as u32, &option.ty);
                }
            }
            Type::Optional(optional) if self.exact => part(self, 0, optional.ty()),
            Type::Array(array) if self.exact && around && !names.is_empty() => part(self, ELEMENT, array.element()),
            Type::Struct(inner) if !names.is_empty() => self.structure(inner, names, place, around),
            _ if names.is_empty() && !around => self.found.push((place.clone(), ty)),
            _ => {}
        }
    }
}

fn choices(ranges: &Ranges, option: u32) -> impl Iterator<Item = Choice> + '_ {
    ranges.iter().map(move |&(low, high)| Choice { low, high, option })
}

/// Returns true if a selector is signed. Its alternatives must agree.
fn selector(path: &FieldPath, found: &[Found<'_>], rule: &str) -> Result<bool> {
    let mut signed = None;
    for (.., ty) in found {
        let this = match ty {
            Type::Int(int) => int.signed,
            Type::Enum(e) => e.int.signed,
            Type::VarInt(int) => int.signed,
            other => return wrong(path, rule, other),
        };
        if signed.replace(this).is_some_and(|other| other != this) {
            return Err(SpanError::new(path.span, "this leads to signed and to unsigned integers"));
        }
    }
    Ok(signed.unwrap_or(false))
}

/// The options that the labels of a tag select. Labels are matched with the names of options.
pub(crate) fn by_labels(path: &FieldPath, found: &[Found<'_>], options: &[Member]) -> Result<Choices> {
    let Some((.., Type::Enum(tag))) = found.first() else {
        let other = found.first().map_or("", |(.., ty)| ty.kind());
        return Err(SpanError::new(path.span, format!("a variant's tag is an enumeration; `{}` is of kind {other}", path.names.join("."))));
    };
    // If the path leads through a variant, there are several tags. Whichever one was decoded, it
    // must select by the same labels.
    let alike = |ty: &Type| matches!(ty, Type::Enum(e) if e.mappings == tag.mappings && e.int.signed == tag.int.signed);
    if !found.iter().all(|(.., ty)| alike(ty)) {
        return Err(SpanError::new(path.span, "the tags that this may lead to have different labels"));
    }
    let by_label: HashMap<&str, u32> = options.iter().enumerate().map(|(i, o)| (o.name.as_str(), i as u32)).collect();
    let list: Vec<Choice> = tag
        .mappings
        .iter()
        .filter_map(|m| by_label.get(m.label.as_str()).map(|&option| Choice { low: m.low, high: m.high, option }))
        .collect();
    if list.is_empty() {
        return Err(SpanError::new(path.span, "no label of this tag is the name of an option"));
    }
    Ok(Choices { signed: tag.int.signed, list })
}

fn wrong<T>(path: &FieldPath, rule: &str, found: &Type) -> Result<T> {
    let message = format!("{rule}; `{}` is of kind {}", path.names.join("."), found.kind());
    Err(SpanError { span: Span { ..path.span }, message })
}
