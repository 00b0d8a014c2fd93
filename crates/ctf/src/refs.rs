//! Which field decides the length of which array, and the option of which variant.
//!
//! Every such field gets a *slot*: the executor saves its value there when it passes, and finds it there when the array or
//! variant comes. Slots of fields that live as long as a packet or belong to the stream are numbered first, then those of
//! each event class anew.

use std::collections::HashMap;

use crate::error::{Span, SpanError};
use crate::types::*;

type Result<T> = std::result::Result<T, SpanError>;

/// Where a type stands in its scope: indices of fields and options, and [`ELEMENT`] for an array's element.
pub(crate) type Place = Vec<u32>;

pub(crate) const ELEMENT: u32 = u32::MAX;

/// Slots of an event's own scopes are marked until the number of shared ones is known.
const LOCAL: u32 = 1 << 31;

/// An option of a variant is chosen by tag values from `low` to `high`.
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
    /// Fields to save, each to one or more slots.
    pub saves: HashMap<Place, Vec<u32>>,
    /// Arrays and variants that need them.
    pub uses: HashMap<Place, Use>,
}

impl ScopeRefs {
    /// Gives local slots their final numbers.
    pub(crate) fn number(&mut self, shared: u32) {
        let number = |slot: &mut u32| {
            if *slot & LOCAL != 0 {
                *slot = (*slot & !LOCAL) + shared;
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

/// The scopes that an event of a class passes, from the packet's header on.
pub(crate) struct Scopes<'s> {
    pub roots: Vec<(Scope, &'s StructType)>,
}

/// Slots handed out so far.
#[derive(Default)]
pub(crate) struct Counters {
    pub shared: u32,
    pub local: u32,
}

/// A structure that is being walked.
#[derive(Clone, Copy)]
pub(crate) struct Frame<'s> {
    pub ty: &'s StructType,
    /// Length of the place up to this structure.
    pub depth: usize,
}

/// Where a reference stands.
pub(crate) struct Standpoint<'s, 'p> {
    pub scope: Scope,
    /// The scopes that are decoded before.
    pub earlier: &'p [(Scope, &'s StructType)],
    /// The structures around, outermost first.
    pub frames: &'p [Frame<'s>],
    pub place: &'p [u32],
}

/// What a reference leads to.
pub(crate) struct Target<'s> {
    /// Index of the frame that the path was found from; none if it is another scope.
    pub frame: Option<usize>,
    /// Several if it leads through a variant; all in one scope.
    pub found: Vec<Found<'s>>,
}

/// Finds all references of the structure at `roots[index]`. `refs` yields the slots of each scope.
pub(crate) fn find<'s>(scopes: &Scopes<'s>, index: usize, refs: &mut HashMap<Scope, ScopeRefs>, counters: &mut Counters) -> Result<()> {
    let (scope, root) = scopes.roots[index];
    let mut finder = Finder { scope, earlier: &scopes.roots[..index], alone: false, frames: Vec::new(), place: Vec::new(), refs, counters };
    finder.structure(root)
}

/// Checks the references within a structure that is nowhere used; what they lead to outside of it nobody knows.
pub(crate) fn check_alone(root: &StructType) -> Result<()> {
    let (refs, counters) = (&mut HashMap::new(), &mut Counters::default());
    let scope = Scope::EventFields;
    Finder { scope, earlier: &[], alone: true, frames: Vec::new(), place: Vec::new(), refs, counters }.structure(root)
}

struct Finder<'s, 'r> {
    scope: Scope,
    earlier: &'r [(Scope, &'s StructType)],
    /// Whether a reference may lead to nothing.
    alone: bool,
    frames: Vec<Frame<'s>>,
    place: Place,
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
                    // A boolean needs no ranges, and has no use for them.
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

    /// A slot that all of these save to. They are one field, or alternatives of which one is decoded at a time.
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
            Some(Scope::EventContext | Scope::EventFields) => (&mut self.counters.local, LOCAL),
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
        match (Standpoint { scope: *scope, earlier, frames, place }.resolve(path, fits)) {
            Ok(target) => Ok(Some(target.found)),
            Err(_) if self.alone => Ok(None),
            Err(error) => Err(error),
        }
    }
}

impl<'s> Standpoint<'s, '_> {
    /// The fields that a path leads to, all in one scope: several if it leads through a variant. Of CTF 1.8's relative paths the nearest
    /// field that fits is meant, and if none does the nearest at all. So a name within a type that was declared further out is not
    /// hidden by another field of where the type is used.
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

/// A field, and where it is.
pub(crate) type Found<'s> = (Scope, Place, &'s Type);

/// Follows names down a type.
struct Search<'h, 's> {
    /// Where the reference stands, if it stands in the same scope: of what it stands in, only what was decoded is visible.
    here: &'h [u32],
    /// By the rules of CTF 2: through optionals, and through an array to the element that the reference stands in. Through all options of
    /// variants goes every name that leads further.
    exact: bool,
    found: Vec<(Place, &'s Type)>,
}

impl<'s> Search<'_, 's> {
    /// `around`: the reference stands within what is at `place`.
    fn structure(&mut self, ty: &'s StructType, names: &[String], place: &mut Place, around: bool) {
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

    fn ty(&mut self, ty: &'s Type, names: &[String], place: &mut Place, around: bool) {
        let mut part = |search: &mut Self, index: u32, ty: &'s Type| {
            let here = if around { search.here.get(place.len()).copied() } else { None };
            // Of a variant that the reference stands in, no other option is there.
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

/// Whether a selector is signed: all of its alternatives are, or none is.
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

/// What a tag's labels select. Where one field has several alternatives, CTF 1.8 knows none of them.
pub(crate) fn by_labels(path: &FieldPath, found: &[Found<'_>], options: &[Member]) -> Result<Choices> {
    let Some((.., Type::Enum(tag))) = found.first() else {
        let other = found.first().map_or("", |(.., ty)| ty.kind());
        return Err(SpanError::new(path.span, format!("a variant's tag is an enumeration; `{}` is of kind {other}", path.names.join("."))));
    };
    // Through a variant several lead here: whichever was decoded must select by the same labels.
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
