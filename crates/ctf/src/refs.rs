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
    /// Fields to save.
    pub saves: HashMap<Place, u32>,
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
        self.saves.values_mut().for_each(number);
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

struct Frame<'s> {
    ty: &'s StructType,
    /// Fields before this one are decoded, this one is being decoded.
    current: usize,
    /// Length of the place up to this structure.
    depth: usize,
}

/// Finds all references of the structure at `roots[index]`. `refs` yields the slots of each scope.
pub(crate) fn find<'s>(scopes: &Scopes<'s>, index: usize, refs: &mut HashMap<Scope, ScopeRefs>, counters: &mut Counters) -> Result<()> {
    let (scope, root) = scopes.roots[index];
    let mut finder = Finder { scope, earlier: &scopes.roots[..index], frames: Vec::new(), place: Vec::new(), refs, counters };
    finder.structure(root)
}

struct Finder<'s, 'r> {
    scope: Scope,
    earlier: &'r [(Scope, &'s StructType)],
    frames: Vec<Frame<'s>>,
    place: Place,
    refs: &'r mut HashMap<Scope, ScopeRefs>,
    counters: &'r mut Counters,
}

impl<'s> Finder<'s, '_> {
    fn structure(&mut self, ty: &'s StructType) -> Result<()> {
        self.frames.push(Frame { ty, current: 0, depth: self.place.len() });
        for (index, field) in ty.fields().iter().enumerate() {
            if let Some(frame) = self.frames.last_mut() {
                frame.current = index;
            }
            self.place.push(index as u32);
            self.ty(&field.ty)?;
            self.place.pop();
        }
        self.frames.pop();
        Ok(())
    }

    fn ty(&mut self, ty: &'s Type) -> Result<()> {
        match ty {
            Type::Struct(s) => self.structure(s),
            Type::Array(array) => {
                if let Length::Field(path) = array.length() {
                    let (scope, place, target) = self.resolve(path)?;
                    match target {
                        Type::Int(IntType { signed: false, .. }) => {}
                        Type::Enum(e) if !e.int.signed => {}
                        _ => return wrong(path, "an array's length is an unsigned integer", target),
                    }
                    let slot = self.slot(scope, place);
                    self.note(Use::Length { slot });
                }
                self.place.push(ELEMENT);
                self.ty(array.element())?;
                self.place.pop();
                Ok(())
            }
            Type::Variant(variant) => {
                let path = variant.tag();
                let (scope, place, target) = self.resolve(path)?;
                let Type::Enum(tag) = target else {
                    return wrong(path, "a variant's tag is an enumeration", target);
                };
                let by_label: HashMap<&str, u32> = variant.options().iter().enumerate().map(|(i, o)| (o.name.as_str(), i as u32)).collect();
                let list = tag
                    .mappings
                    .iter()
                    .filter_map(|m| by_label.get(m.label.as_str()).map(|&option| Choice { low: m.low, high: m.high, option }))
                    .collect();
                let choices = Choices { signed: tag.int.signed, list };
                let slot = self.slot(scope, place);
                self.note(Use::Tag { slot, choices });
                for (index, option) in variant.options().iter().enumerate() {
                    self.place.push(index as u32);
                    self.ty(&option.ty)?;
                    self.place.pop();
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn note(&mut self, usage: Use) {
        self.refs.entry(self.scope).or_default().uses.insert(self.place.clone(), usage);
    }

    fn slot(&mut self, scope: Scope, place: Place) -> u32 {
        let counters = &mut *self.counters;
        *self.refs.entry(scope).or_default().saves.entry(place).or_insert_with(|| {
            let (counter, mark) = match scope {
                Scope::EventContext | Scope::EventFields => (&mut counters.local, LOCAL),
                _ => (&mut counters.shared, 0),
            };
            *counter += 1;
            (*counter - 1) | mark
        })
    }

    fn resolve(&self, path: &FieldPath) -> Result<(Scope, Place, &'s Type)> {
        let found = match path.scope {
            Some(scope) if scope == self.scope => self.in_frame(0, &path.names),
            Some(scope) => self
                .earlier
                .iter()
                .find(|(s, _)| *s == scope)
                .and_then(|(s, root)| descend(root, &path.names, Vec::new()).map(|(place, ty)| (*s, place, ty))),
            // Relative: the nearest structure outwards, then the scopes decoded before, the latest first.
            None => (0..self.frames.len()).rev().find_map(|f| self.in_frame(f, &path.names)).or_else(|| {
                self.earlier
                    .iter()
                    .rev()
                    .find_map(|(scope, root)| descend(root, &path.names, Vec::new()).map(|(place, ty)| (*scope, place, ty)))
            }),
        };
        found.ok_or_else(|| {
            let scope = path.scope.map_or(String::new(), |s| format!("{}.", s.path()));
            let message = format!("no field `{scope}{}` is decoded before this one", path.names.join("."));
            SpanError::new(path.span, message)
        })
    }

    /// Looks for `names` in a structure that is being decoded.
    fn in_frame(&self, frame: usize, names: &[String]) -> Option<(Scope, Place, &'s Type)> {
        let f = self.frames.get(frame)?;
        let (first, rest) = names.split_first()?;
        let index = position(f.ty, first)?;
        let mut place = self.place[..f.depth].to_vec();
        if index < f.current {
            place.push(index as u32);
            let ty = &f.ty.fields()[index].ty;
            if rest.is_empty() {
                return Some((self.scope, place, ty));
            }
            let Type::Struct(inner) = ty else { return None };
            return descend(inner, rest, place).map(|(place, ty)| (self.scope, place, ty));
        }
        // The field in which the reference itself stands: only what was decoded of it is visible.
        let inner = self.frames.get(frame + 1)?;
        (index == f.current && inner.depth == f.depth + 1 && !rest.is_empty()).then(|| self.in_frame(frame + 1, rest))?
    }
}

fn position(ty: &StructType, name: &str) -> Option<usize> {
    ty.fields().iter().position(|f| f.name == name)
}

fn descend<'s>(ty: &'s StructType, names: &[String], mut place: Place) -> Option<(Place, &'s Type)> {
    let (first, rest) = names.split_first()?;
    let index = position(ty, first)?;
    place.push(index as u32);
    let field = &ty.fields()[index].ty;
    if rest.is_empty() {
        return Some((place, field));
    }
    match field {
        Type::Struct(inner) => descend(inner, rest, place),
        _ => None,
    }
}

fn wrong<T>(path: &FieldPath, rule: &str, found: &Type) -> Result<T> {
    let message = format!("{rule}; `{}` is of kind {}", path.names.join("."), found.kind());
    Err(SpanError { span: Span { ..path.span }, message })
}
