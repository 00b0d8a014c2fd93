//! The time between any two events: `--from EVENT[:pred] --to EVENT[:pred] [--by FIELD]`.
//!
//! Each `from` waits for the next `to` with the same value of the `by` field; without the field,
//! for the next `to`. A `from` that comes while another one waits replaces it: the answer is the
//! time since the latest cause.

use crate::latency::parts::Parts;
use crate::latency::{Kind, Latency};
use crate::stats::histogram::since;
use crate::stats::histogram::Histogram;
use crate::stats::nearest::nearest;
use longpole_model::rules::value;
use longpole_predicate::{Datum, Node, Predicate, PredicateError};
use longpole_trace::event::{Catalogue, Class, ClassId, Event};
use std::collections::{HashMap, VecDeque};

const MAX_WAITING: usize = 1 << 16;

/// Largest number of suggestions for a name that does not occur.
const MAX_SUGGESTED: usize = 3;

/// A name that does not occur in the input. It is reported as an error, because an empty answer
/// would mean that the pair never occurred.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnknownName {
    #[error("no event `{name}` occurs in what was read; {}", suggestions(.nearest))]
    Event { name: String, nearest: Vec<String> },
    #[error("the event `{event}` has no field `{name}`; {}", possible(.fields))]
    Field { event: String, name: String, fields: Vec<String> },
}

fn quoted(names: &[String]) -> String {
    names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

fn suggestions(names: &[String]) -> String {
    match names {
        [] => "the trace has no event".to_owned(),
        names => format!("the nearest to it: {} (`longpole info` lists all)", quoted(names)),
    }
}

fn possible(names: &[String]) -> String {
    match names {
        [] => "it has none".to_owned(),
        names => format!("it has: {}", quoted(names)),
    }
}

/// One side of a pair.
#[derive(Clone, Debug)]
pub struct Point {
    event: String,
    when: Option<Predicate>,
}

/// Error in the text of a point.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PointError {
    #[error("expected the name of an event, found nothing")]
    Empty,
    /// Text and column are those of the whole argument.
    #[error("{0}")]
    Predicate(PredicateError),
}

impl Point {
    /// Parses an event's name with an optional condition. Names of events contain colons themselves
    /// (`span_begin:parse`), so the condition begins behind the first colon that is followed by a
    /// valid condition. Without one, the whole text is the name, unless it contains an operator
    /// of conditions; then it is an error.
    pub fn parse(text: &str) -> Result<Point, PointError> {
        if text.is_empty() {
            return Err(PointError::Empty);
        }
        let mut wrong = None;
        for (at, _) in text.match_indices(':') {
            let condition = &text[at + 1..];
            match Predicate::parse(condition).and_then(Predicate::with_plain_names) {
                // A part of the event's name: `parse` of `span_begin:parse`.
                Ok(when) if matches!(when.root(), Node::Exists(_)) => {}
                Ok(when) if at > 0 => return Ok(Point { event: text[..at].to_owned(), when: Some(when) }),
                Ok(_) => return Err(PointError::Empty),
                Err(mut error) => {
                    error.column += text[..at + 1].chars().count();
                    error.text = text.to_owned();
                    wrong = Some(error);
                }
            }
        }
        match wrong {
            Some(error) if text.contains(['=', '<', '>', '&', '|', '~']) => Err(PointError::Predicate(error)),
            _ => Ok(Point { event: text.to_owned(), when: None }),
        }
    }

    pub fn event(&self) -> &str {
        &self.event
    }
}

/// The measurement; it sees each event in the order of time.
#[derive(Debug)]
pub struct Pairs {
    name: String,
    from: Side,
    to: Side,
    by: Option<String>,
    by_of: Vec<Option<Option<usize>>>,
    waiting: HashMap<Key, i64>,
    order: VecDeque<(Key, i64)>,
    times: Histogram,
    per_key: HashMap<Key, Histogram>,
    pub unmatched_from: u64,
    pub unmatched_to: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Key {
    All,
    Number(i128),
    Text(String),
}

#[derive(Debug)]
struct Side {
    point: Point,
    /// For each class: whether it is this event, and the indices of the condition's fields.
    classes: Vec<Option<Option<Vec<Option<usize>>>>>,
}

impl Side {
    fn matches(&mut self, catalogue: &Catalogue, event: &Event<'_>) -> bool {
        let at = event.class.0 as usize;
        if self.classes.len() <= at {
            self.classes.resize(at + 1, None);
        }
        let point = &self.point;
        let known = self.classes[at].get_or_insert_with(|| {
            let class = catalogue.classes.get(at)?;
            (class.event_name == point.event)
                .then(|| point.when.iter().flat_map(|when| when.names()).map(|name| field(catalogue, event.class, &name.name)).collect())
        });
        let Some(places) = known else { return false };
        point
            .when
            .as_ref()
            .is_none_or(|when| when.holds(|at| places[at].and_then(|place| event.fields.get(place)).map_or(Datum::Unknown, value::datum)))
    }
}

impl Side {
    /// Returns the classes that occurred: those of this event or, with `all`, any.
    fn occurred<'a>(&'a self, catalogue: &'a Catalogue, all: bool) -> impl Iterator<Item = &'a Class> + 'a {
        let seen = self.classes.iter().zip(&catalogue.classes);
        seen.filter(move |(known, _)| known.as_ref().is_some_and(|known| all || known.is_some())).map(|(_, class)| class)
    }

    /// Returns an error if the event, or a field that is requested, did not occur.
    fn check(&self, catalogue: &Catalogue, by: Option<&str>) -> Result<(), UnknownName> {
        let name = &self.point.event;
        if self.occurred(catalogue, false).next().is_none() {
            let all = self.occurred(catalogue, true).map(|class| class.event_name.as_str());
            let nearest = nearest(name, all, MAX_SUGGESTED).into_iter().map(str::to_owned).collect();
            return Err(UnknownName::Event { name: name.clone(), nearest });
        }
        for wanted in self.point.when.iter().flat_map(|when| when.names()).map(|name| name.name.as_str()).chain(by) {
            let mut fields: Vec<String> = self.occurred(catalogue, false).flat_map(|class| class.fields.clone()).collect();
            if !fields.iter().any(|field| field == wanted) {
                fields.sort_unstable();
                fields.dedup();
                return Err(UnknownName::Field { event: name.clone(), name: wanted.to_owned(), fields });
            }
        }
        Ok(())
    }
}

impl Pairs {
    /// Returns an error if a requested name did not occur. Called after the last event.
    pub fn check(&self, catalogue: &Catalogue) -> Result<(), UnknownName> {
        self.from.check(catalogue, self.by.as_deref())?;
        self.to.check(catalogue, self.by.as_deref())
    }

    pub fn new(from: Point, to: Point, by: Option<String>) -> Pairs {
        Pairs {
            name: format!("{} -> {}", from.event, to.event),
            from: Side { point: from, classes: Vec::new() },
            to: Side { point: to, classes: Vec::new() },
            by,
            by_of: Vec::new(),
            waiting: HashMap::new(),
            order: VecDeque::new(),
            times: Histogram::default(),
            per_key: HashMap::new(),
            unmatched_from: 0,
            unmatched_to: 0,
        }
    }

    /// Processes the next event; events must be in the order of time.
    pub fn event(&mut self, catalogue: &Catalogue, event: &Event<'_>) {
        // One event may end a pair and begin the next one.
        if self.to.matches(catalogue, event) {
            if let Some(key) = self.key(catalogue, event) {
                match self.waiting.remove(&key) {
                    Some(begin) => {
                        let time = since(begin, event.t_ns);
                        self.times.record(time);
                        if key != Key::All && (self.per_key.len() < MAX_WAITING || self.per_key.contains_key(&key)) {
                            self.per_key.entry(key).or_default().record(time);
                        }
                    }
                    None => self.unmatched_to += 1,
                }
            }
        }
        if self.from.matches(catalogue, event) {
            if let Some(key) = self.key(catalogue, event) {
                if self.waiting.insert(key.clone(), event.t_ns).is_some() {
                    self.unmatched_from += 1;
                }
                self.order.push_back((key, event.t_ns));
                while let Some((oldest, begin)) = self.order.front() {
                    let current = self.waiting.get(oldest) == Some(begin);
                    if current && self.order.len() <= MAX_WAITING {
                        break;
                    }
                    if current {
                        self.waiting.remove(oldest);
                        self.unmatched_from += 1;
                    }
                    self.order.pop_front();
                }
            }
        }
    }

    fn key(&mut self, catalogue: &Catalogue, event: &Event<'_>) -> Option<Key> {
        let Some(by) = &self.by else { return Some(Key::All) };
        let at = event.class.0 as usize;
        if self.by_of.len() <= at {
            self.by_of.resize(at + 1, None);
        }
        let place = (*self.by_of[at].get_or_insert_with(|| field(catalogue, event.class, by)))?;
        match value::datum(event.fields.get(place)?) {
            Datum::Integer(value) | Datum::Labelled(value, _) => Some(Key::Number(value)),
            Datum::Text(text) => Some(Key::Text(String::from_utf8_lossy(text).into_owned())),
            Datum::Real(_) | Datum::Unknown | Datum::Other => None,
        }
    }

    /// Returns the row over all pairs; then, with `by`, one row for each value.
    pub fn answer(&self) -> Vec<Latency> {
        let line = |name: String, times: &Histogram| Latency {
            kind: Kind::Custom,
            name,
            machine: None,
            peer: None,
            times: times.times(),
            parts: Parts::default(),
        };
        let mut out = vec![line(self.name.clone(), &self.times)];
        let mut keys: Vec<(&Key, &Histogram)> = self.per_key.iter().collect();
        keys.sort_unstable_by(|a, b| a.0.cmp(b.0));
        // With one sample for each value, the field is an id and not a name.
        if keys.iter().any(|(_, times)| times.count() > 1) {
            let by = self.by.as_deref().unwrap_or_default();
            out.extend(keys.into_iter().map(|(key, times)| match key {
                Key::Number(value) => line(format!("{} [{by}={value}]", self.name), times),
                Key::Text(text) => line(format!("{} [{by}={text}]", self.name), times),
                Key::All => line(self.name.clone(), times),
            }));
        }
        out
    }
}

fn field(catalogue: &Catalogue, class: ClassId, name: &str) -> Option<usize> {
    catalogue.classes.get(class.0 as usize)?.fields.iter().position(|field| field == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_point_is_an_event_with_an_optional_condition() {
        let point = Point::parse("span_begin:parse").unwrap();
        assert_eq!((point.event(), point.when.is_some()), ("span_begin:parse", false));
        let point = Point::parse("event:packet:len>100 && name==\"x\"").unwrap();
        assert_eq!((point.event(), point.when.is_some()), ("event:packet", true));
        let point = Point::parse("lttng_ust_tracef:event").unwrap();
        assert_eq!(point.event(), "lttng_ust_tracef:event");
        let point = Point::parse("mark:a::b").unwrap();
        assert_eq!(point.event(), "mark:a::b");
    }

    #[test]
    fn a_wrong_condition_is_reported_with_its_column_in_the_whole_argument() {
        let PointError::Predicate(error) = Point::parse("event:x:len >").unwrap_err() else { panic!() };
        assert_eq!(error.to_string(), "column 14: expected a name, a number or a \"text\", found the end");
        assert_eq!(Point::parse("").unwrap_err(), PointError::Empty);
    }
}
