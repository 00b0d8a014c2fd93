//! Plans: the meaning that the rules give to one event class. A plan is compiled once per class, at
//! its first event; following it costs a few loads.

use crate::names::{NameId, Names};
use crate::rules::value;
use crate::rules::{Action, Rules, Template};
use crate::step::MarkKind;
use longpole_predicate::{Datum, Predicate};
use longpole_trace::event::{Class, Value};

/// The compiled meaning of an event class: the rules that may apply, in order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Plan {
    pub alternatives: Vec<Alternative>,
    /// Rules whose pattern matches the class, each with the reason for which it may match none of
    /// the events.
    pub unmatched_rules: Vec<(usize, Unmatched)>,
}

/// Why a rule matches no event of a trace. Later variants are nearer to a match.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Unmatched {
    /// No event has the name.
    #[default]
    NoEvent,
    /// No event with this name has the field.
    LacksField(String),
    /// An earlier rule matches all of the events.
    Covered,
    /// The condition holds for no event, or an earlier rule matches those for which it holds.
    ConditionFalse,
}

/// A rule, compiled for an event class.
#[derive(Clone, Debug)]
pub(crate) struct Alternative {
    /// Index of the rule.
    pub rule: usize,
    when: Option<(Predicate, Vec<Option<usize>>)>,
    pub action: Action,
    pub name: NameSource,
    pub machine: NameSource,
    pub as_actor: Option<NameSource>,
    pub id: NumberSource,
    pub count: NumberSource,
    pub value: NumberSource,
    pub object: NumberSource,
    pub kind: KindSource,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum NameSource {
    Fixed(NameId),
    Field(usize),
    TextAndField(NameId, usize),
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum NumberSource {
    None,
    Fixed(u64),
    Field(usize),
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum KindSource {
    Fixed(MarkKind),
    Field(usize),
}

impl Plan {
    pub(crate) fn compile(rules: &Rules, class: &Class, names: &mut Names) -> Plan {
        let (mut alternatives, mut unmatched_rules, mut last) = (Vec::new(), Vec::new(), false);
        for (at, rule) in rules.rules.iter().enumerate() {
            let Some(captures) = rule.pattern.captures(&class.event_name) else { continue };
            let lacks = |field: &&str| field_of(class, field).is_none();
            if let Some(field) = rule.needed_fields().find(lacks) {
                // A rule that needs a field which this class lacks is meant for another class with
                // the same name.
                unmatched_rules.push((at, Unmatched::LacksField(field.to_owned())));
                continue;
            }
            if last {
                unmatched_rules.push((at, Unmatched::Covered));
                continue;
            }
            let mut name_source = |template: &Option<Template>| match template {
                None => Some(NameSource::Fixed(names.intern(""))),
                Some(Template::Text(text)) => Some(NameSource::Fixed(names.intern(text))),
                Some(Template::Capture(at)) => Some(NameSource::Fixed(names.intern(captures.get(*at)?))),
                Some(Template::Field(field)) => Some(NameSource::Field(field_of(class, field)?)),
                Some(Template::TextAndField(text, field)) => Some(NameSource::TextAndField(names.intern(text), field_of(class, field)?)),
            };
            let (Some(name), Some(machine)) = (name_source(&rule.name), name_source(&rule.machine)) else { continue };
            let as_actor = match &rule.as_actor {
                None => None,
                Some(_) => match name_source(&rule.as_actor) {
                    Some(as_actor) => Some(as_actor),
                    None => continue,
                },
            };
            let number = |template: &Option<Template>| match template {
                None => NumberSource::None,
                Some(Template::Text(text)) => text.parse().map_or(NumberSource::None, NumberSource::Fixed),
                Some(Template::Capture(at)) => {
                    captures.get(*at).and_then(|text| text.parse().ok()).map_or(NumberSource::None, NumberSource::Fixed)
                }
                Some(Template::Field(field)) => field_of(class, field).map_or(NumberSource::None, NumberSource::Field),
                Some(Template::TextAndField(..)) => NumberSource::None,
            };
            let when = rule.when.as_ref().map(|when| (when.clone(), when.names().iter().map(|name| field_of(class, &name.name)).collect()));
            last = when.is_none();
            let unmet = rule.when.iter().flat_map(|when| when.names()).find(|name| field_of(class, &name.name).is_none());
            unmatched_rules.push((at, unmet.map_or(Unmatched::ConditionFalse, |name| Unmatched::LacksField(name.name.clone()))));
            alternatives.push(Alternative {
                rule: at,
                as_actor,
                when,
                action: rule.action,
                name,
                machine,
                id: number(&rule.id),
                count: number(&rule.count),
                value: number(&rule.value),
                object: number(&rule.object),
                kind: kind_source(&rule.kind, class),
            });
        }
        Plan { alternatives, unmatched_rules }
    }

    /// The first alternative whose condition holds for these fields.
    #[inline]
    pub(crate) fn choose(&self, fields: &[Value<'_>]) -> Option<&Alternative> {
        self.alternatives.iter().find(|alternative| match &alternative.when {
            None => true,
            Some((when, places)) => when.holds(|at| places[at].and_then(|place| fields.get(place)).map_or(Datum::Unknown, value::datum)),
        })
    }
}

impl NumberSource {
    #[inline]
    pub(crate) fn read(self, fields: &[Value<'_>]) -> Option<u64> {
        match self {
            NumberSource::None => None,
            NumberSource::Fixed(value) => Some(value),
            NumberSource::Field(at) => fields.get(at).and_then(value::as_u64),
        }
    }

    pub(crate) fn read_f64(self, fields: &[Value<'_>]) -> Option<f64> {
        match self {
            NumberSource::None => None,
            NumberSource::Fixed(value) => Some(value as f64),
            NumberSource::Field(at) => fields.get(at).and_then(value::as_f64),
        }
    }
}

impl KindSource {
    pub(crate) fn read(self, fields: &[Value<'_>]) -> MarkKind {
        match self {
            KindSource::Fixed(kind) => kind,
            KindSource::Field(at) => fields.get(at).and_then(value::as_u64).map_or(MarkKind::Plain, kind_of_number),
        }
    }
}

fn kind_source(template: &Option<Template>, class: &Class) -> KindSource {
    match template {
        Some(Template::Field(field)) => field_of(class, field).map_or(KindSource::Fixed(MarkKind::Plain), KindSource::Field),
        Some(Template::Text(text)) => KindSource::Fixed(match text.as_str() {
            "object_new" => MarkKind::ObjectNew,
            "object_delete" => MarkKind::ObjectDelete,
            "object_state" => MarkKind::ObjectState,
            "exception" => MarkKind::Exception,
            "failure" => MarkKind::Failure,
            _ => MarkKind::Plain,
        }),
        Some(Template::Capture(_) | Template::TextAndField(..)) | None => KindSource::Fixed(MarkKind::Plain),
    }
}

/// The numbers are those from `LONGPOLE_PLAIN` on in `longpole.h`.
fn kind_of_number(number: u64) -> MarkKind {
    match number {
        1 => MarkKind::ObjectNew,
        2 => MarkKind::ObjectDelete,
        3 => MarkKind::ObjectState,
        4 => MarkKind::Exception,
        5 => MarkKind::Failure,
        _ => MarkKind::Plain,
    }
}

/// Finds a field of the class. TSDL names may begin with an underscore that is not part of the
/// name.
fn field_of(class: &Class, name: &str) -> Option<usize> {
    class
        .fields
        .iter()
        .position(|field| field == name)
        .or_else(|| class.fields.iter().position(|field| field.strip_prefix('_') == Some(name)))
}
