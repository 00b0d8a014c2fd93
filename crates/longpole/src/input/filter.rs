//! `print --filter`: selects events by name, time, place, contexts and fields.
//!
//! The language is that of all conditions ([`longpole_predicate`]); its names here are `name`, `t`,
//! `cpu`, `stream`, the subject (host, label, thread, pid, tid), fields, contexts, and parts of
//! nested values. docs/reference/verbs/print.md describes them.
//!
//! A filter is parsed once. For each class of events, its names are resolved once, and each part
//! whose result is the same for all events of the class is evaluated once. For most classes, no
//! event needs to be evaluated.

pub use crate::patterns::Patterns;

use crate::render::table::plain;
use longpole_predicate::glob;
use longpole_predicate::Comparison;
use longpole_predicate::Datum;
use longpole_predicate::Name;
use longpole_predicate::Node;
use longpole_predicate::Operand;
use longpole_predicate::Predicate;
use longpole_predicate::PredicateError;
use longpole_trace::Catalogue;
use longpole_trace::Class;
use longpole_trace::Event;
use longpole_trace::Moment;
use longpole_trace::Value;

/// A parsed filter, in which moments are compared only with the time of an event.
#[derive(Clone, Debug)]
pub struct Filter(Predicate);

impl Filter {
    /// Parses a filter. The error is a message that marks the place below the filter.
    pub fn parse(text: &str) -> Result<Filter, String> {
        Filter::checked(text).map_err(|error| format!("{error:#}"))
    }

    fn checked(text: &str) -> Result<Filter, PredicateError> {
        let predicate = Predicate::parse_about_events(text)?.with_plain_names()?;
        check_moments(&predicate, predicate.root())?;
        Ok(Filter(predicate))
    }

    fn names(&self) -> &[Name] {
        self.0.names()
    }
}

/// Returns an error if a moment is malformed, or is compared with something else than the time.
fn check_moments(predicate: &Predicate, node: &Node) -> Result<(), PredicateError> {
    match node {
        Node::Any(nodes) | Node::All(nodes) => nodes.iter().try_for_each(|node| check_moments(predicate, node)),
        Node::Not(node) => check_moments(predicate, node),
        Node::Exists(_) => Ok(()),
        Node::Compare { left, right, columns, .. } => {
            for (operand, other, column) in [(left, right, columns[0]), (right, left, columns[1])] {
                if is_time(predicate.names(), other) {
                    moment(operand).transpose().map_err(|what| predicate.error_at(column, what))?;
                } else if matches!(operand, Operand::Moment(_)) {
                    return Err(
                        predicate.error_at(column, "only `t` can be compared with a time of the trace (`+5s`); a duration has no `+`")
                    );
                }
            }
            Ok(())
        }
    }
}

fn is_time(names: &[Name], operand: &Operand) -> bool {
    matches!(operand, Operand::Name(at) if names[*at].name == "t")
}

/// The moment that an operand means where it is compared with the time of an event; `None` if it is
/// a number or a name.
fn moment(operand: &Operand) -> Option<Result<Moment, String>> {
    match operand {
        Operand::Moment(text) | Operand::Text(text) => Some(Moment::parse(text)),
        _ => None,
    }
}

/// Selects the events that match the filter and the names.
pub struct EventSelector {
    filter: Option<Filter>,
    names: Option<Patterns>,
    /// Begin of the trace in ns, for relative times; the time of the first event if it is not set.
    start_ns: Option<i64>,
    /// Filters resolved for each class, indexed by class.
    classes: Vec<Bound>,
    /// True for each name of the filter that at least one class has.
    found: Vec<bool>,
    /// True for each pattern that matches the name of at least one class.
    matched: Vec<bool>,
}

impl EventSelector {
    pub fn new(filter: Option<Filter>, names: Option<Patterns>) -> EventSelector {
        let found = vec![false; filter.as_ref().map_or(0, |filter| filter.names().len())];
        let matched = vec![false; names.as_ref().map_or(0, |names| names.len())];
        EventSelector { filter, names, start_ns: None, classes: Vec::new(), found, matched }
    }

    /// Returns true if every event passes, because there is neither a filter nor a list of names.
    pub fn passes_all(&self) -> bool {
        self.filter.is_none() && self.names.is_none()
    }

    pub fn begins_at(&mut self, start_ns: i64) {
        self.start_ns = Some(start_ns);
    }

    /// Resolves the filter again for the classes of another catalogue, in a trace that begins then.
    pub fn begins_anew(&mut self, start_ns: i64) {
        self.classes.clear();
        self.begins_at(start_ns);
    }

    #[inline]
    pub fn passes(&mut self, event: &Event<'_>, catalogue: &Catalogue) -> bool {
        let class = event.class.0 as usize;
        if class >= self.classes.len() {
            self.start_ns.get_or_insert(event.t_ns);
            self.learn(catalogue);
        }
        self.classes[class].holds(event, catalogue)
    }

    #[cold]
    fn learn(&mut self, catalogue: &Catalogue) {
        let start_ns = self.start_ns.unwrap_or(0);
        for class in &catalogue.classes[self.classes.len()..] {
            for (pattern, matched) in self.names.iter().flat_map(Patterns::iter).zip(&mut self.matched) {
                *matched = *matched || glob::matches(pattern, class.event_name.as_bytes());
            }
            let named = self.names.as_ref().is_none_or(|names| names.hold(&class.event_name));
            let bound = match (&self.filter, named) {
                (_, false) => Bound::Constant(false),
                (None, true) => Bound::Constant(true),
                (Some(filter), true) => {
                    let sources: Vec<ValueSource> = filter.names().iter().map(|name| ValueSource::find(&name.name, class)).collect();
                    for (found, source) in self.found.iter_mut().zip(&sources) {
                        *found |= !matches!(source, ValueSource::Nothing);
                    }
                    Binder { class, names: filter.names(), sources: &sources, start_ns }.bind(filter.0.root())
                }
            };
            self.classes.push(bound);
        }
    }

    /// Returns notes about names and patterns that no class of events has.
    pub fn notes(&self) -> Vec<String> {
        let names = self.filter.iter().flat_map(Filter::names).zip(&self.found).filter(|(_, found)| !**found);
        let patterns = self.names.iter().flat_map(Patterns::iter).zip(&self.matched).filter(|(_, matched)| !**matched);
        let unknown = names.map(|(name, _)| format!("the filter uses `{name}`, which no event of this trace has"));
        let unmatched = patterns.map(|(pattern, _)| format!("no event of this trace is called `{}`", String::from_utf8_lossy(pattern)));
        unknown.chain(unmatched).map(plain).collect()
    }
}

/// The place of a name's value in the events of a class.
#[derive(Clone, Debug)]
enum ValueSource {
    Nothing,
    Name,
    Time,
    Cpu,
    Stream,
    Host,
    Label,
    Thread,
    Pid,
    Tid,
    Field(usize, Vec<Step>),
    Context(usize, Vec<Step>),
    Packet(usize, Vec<Step>),
}

/// One step into a nested value.
#[derive(Clone, Debug)]
enum Step {
    Member(String),
    Element(usize),
}

impl ValueSource {
    fn find(name: &str, class: &Class) -> ValueSource {
        let field = |name: &str| among(&class.fields, name).map(|(at, steps)| ValueSource::Field(at, steps));
        let context = |name: &str| among(&class.context, name).map(|(at, steps)| ValueSource::Context(at, steps));
        let packet = |name: &str| among(&class.packet, name).map(|(at, steps)| ValueSource::Packet(at, steps));
        match name {
            "name" => return ValueSource::Name,
            "t" => return ValueSource::Time,
            "cpu" => return ValueSource::Cpu,
            "stream" => return ValueSource::Stream,
            _ => {}
        }
        let rest = |prefixes: [&str; 2]| prefixes.iter().find_map(|prefix| name.strip_prefix(prefix));
        if let Some(found) = field(name).or_else(|| context(name)).or_else(|| packet(name)) {
            return found;
        }
        if let Some(rest) = rest(["field.", "fields."]) {
            return field(rest).unwrap_or(ValueSource::Nothing);
        }
        if let Some(rest) = rest(["context.", "$ctx."]) {
            return context(rest).or_else(|| ValueSource::who(rest)).unwrap_or(ValueSource::Nothing);
        }
        if let Some(rest) = name.strip_prefix("packet.") {
            return packet(rest).unwrap_or(ValueSource::Nothing);
        }
        ValueSource::who(name).unwrap_or(ValueSource::Nothing)
    }

    fn who(name: &str) -> Option<ValueSource> {
        Some(match name {
            "host" => ValueSource::Host,
            // `cpu_id` and `t_ns` are the names that the text and JSON output use.
            "cpu_id" => ValueSource::Cpu,
            "t_ns" => ValueSource::Time,
            "label" => ValueSource::Label,
            "thread" => ValueSource::Thread,
            "pid" => ValueSource::Pid,
            "tid" => ValueSource::Tid,
            _ => return None,
        })
    }

    fn value<'a>(&self, event: &Event<'a>, catalogue: &'a Catalogue) -> NamedValue<'a> {
        let subject = || &catalogue.subjects[event.subject.0 as usize];
        let text = |text: &'a str| if text.is_empty() { Datum::Unknown } else { Datum::Text(text.as_bytes()) };
        let number = |number: Option<i128>| number.map_or(Datum::Unknown, Datum::Integer);
        NamedValue::One(match self {
            ValueSource::Nothing => Datum::Unknown,
            ValueSource::Name => Datum::Text(catalogue.classes[event.class.0 as usize].event_name.as_bytes()),
            ValueSource::Time => Datum::Integer(i128::from(event.t_ns)),
            ValueSource::Cpu => number(event.cpu.map(i128::from)),
            ValueSource::Stream => Datum::Text(catalogue.streams[event.stream.0 as usize].name.as_bytes()),
            ValueSource::Host => text(&subject().host),
            ValueSource::Label => text(&subject().label),
            ValueSource::Thread => text(&subject().thread),
            ValueSource::Pid => number(subject().pid.map(i128::from)),
            ValueSource::Tid => number(subject().tid.map(i128::from)),
            ValueSource::Field(at, steps) => return event.fields.get(*at).map_or(NamedValue::NONE, |value| part(*value, steps)),
            ValueSource::Context(at, steps) => return event.context.get(*at).map_or(NamedValue::NONE, |value| part(*value, steps)),
            ValueSource::Packet(at, steps) => return event.packet.get(*at).map_or(NamedValue::NONE, |value| part(value, steps)),
        })
    }
}

/// Returns the index of the field with this name, or of the nested field that contains it together
/// with the steps into it.
fn among(fields: &[String], name: &str) -> Option<(usize, Vec<Step>)> {
    if let Some(at) = fields.iter().position(|field| field == name) {
        return Some((at, Vec::new()));
    }
    let begins = |field: &String| name.strip_prefix(field.as_str()).is_some_and(|rest| rest.starts_with(['.', '[']));
    let (at, field) = fields.iter().enumerate().filter(|(_, field)| begins(field)).max_by_key(|(_, field)| field.len())?;
    let mut steps = Vec::new();
    let mut rest = &name[field.len()..];
    while !rest.is_empty() {
        if let Some(after) = rest.strip_prefix('[') {
            let (index, after) = after.split_once(']')?;
            steps.push(Step::Element(index.parse().ok()?));
            rest = after;
        } else {
            let after = rest.strip_prefix('.')?;
            let end = after.find(['.', '[']).unwrap_or(after.len());
            steps.push(Step::Member(after[..end].to_owned()));
            rest = &after[end..];
        }
    }
    Some((at, steps))
}

fn part<'a>(value: Value<'a>, steps: &[Step]) -> NamedValue<'a> {
    let Some((step, rest)) = steps.split_first() else { return NamedValue::of(value) };
    match (value, step) {
        (Value::Bytes(bytes), Step::Element(at)) if rest.is_empty() => {
            bytes.get(*at).map_or(NamedValue::NONE, |byte| NamedValue::One(Datum::Integer(i128::from(*byte))))
        }
        (Value::Nested(nested), step) => {
            let mut index = 0;
            // `each` stops at an error, so the found value is returned as one.
            let found = nested.each(|name, inner| {
                let here = match step {
                    Step::Member(member) => name == Some(member),
                    Step::Element(at) => index == *at,
                };
                index += 1;
                if here {
                    Err(inner)
                } else {
                    Ok(())
                }
            });
            found.err().map_or(NamedValue::NONE, |inner| part(inner, rest))
        }
        _ => NamedValue::NONE,
    }
}

/// The value of a name in one event.
#[derive(Clone, Debug, PartialEq)]
enum NamedValue<'a> {
    One(Datum<'a>),
    /// A text that had to be converted to UTF-8.
    Decoded(String),
    /// The value of an enumeration that has several labels.
    Several(Vec<Datum<'a>>),
}

impl<'a> NamedValue<'a> {
    const NONE: NamedValue<'static> = NamedValue::One(Datum::Unknown);

    fn of(value: Value<'a>) -> NamedValue<'a> {
        NamedValue::One(match value {
            Value::U64(value) => Datum::Integer(i128::from(value)),
            Value::I64(value) => Datum::Integer(i128::from(value)),
            Value::F64(value) => Datum::Real(value),
            Value::Str(text) => Datum::Text(text),
            Value::Wide(text) => return NamedValue::Decoded(text.decode()),
            Value::Bool(value) => Datum::Integer(i128::from(value)),
            Value::Nothing => Datum::Unknown,
            Value::Enum { value, label } => Datum::Labelled(value, label.as_bytes()),
            Value::Several { value: number, .. } => {
                return NamedValue::Several(value.labels().map(|label| Datum::Labelled(number, label.as_bytes())).collect());
            }
            _ => Datum::Other,
        })
    }

    fn of_operand(operand: &'a Operand) -> NamedValue<'a> {
        NamedValue::One(operand.datum())
    }

    /// With several labels, `==` is true if one of them matches, and `!=` if none of them does.
    fn compare(&self, how: Comparison, other: &NamedValue<'_>) -> bool {
        let one = |datum: &Datum<'_>| match other {
            NamedValue::One(other) => datum.compare(how, other),
            NamedValue::Decoded(text) => datum.compare(how, &Datum::Text(text.as_bytes())),
            NamedValue::Several(labels) => of_labels(labels, how, |label| datum.compare(how, label)),
        };
        match self {
            NamedValue::One(datum) => one(datum),
            NamedValue::Decoded(text) => one(&Datum::Text(text.as_bytes())),
            NamedValue::Several(labels) => of_labels(labels, how, one),
        }
    }
}

fn of_labels(labels: &[Datum<'_>], how: Comparison, holds: impl Fn(&Datum<'_>) -> bool) -> bool {
    match how {
        Comparison::Different | Comparison::Unlike => labels.iter().all(holds),
        _ => labels.iter().any(holds),
    }
}

/// A filter resolved for one class of events.
#[derive(Clone, Debug)]
enum Bound {
    Constant(bool),
    Any(Vec<Bound>),
    All(Vec<Bound>),
    Not(Box<Bound>),
    Exists(ValueSource),
    Compare(Side, Comparison, Side),
}

#[derive(Clone, Debug)]
enum Side {
    Source(ValueSource),
    Operand(Operand),
}

impl Side {
    #[inline]
    fn value<'a>(&'a self, event: &Event<'a>, catalogue: &'a Catalogue) -> NamedValue<'a> {
        match self {
            Side::Source(source) => source.value(event, catalogue),
            Side::Operand(operand) => NamedValue::of_operand(operand),
        }
    }
}

impl Bound {
    #[inline]
    fn holds(&self, event: &Event<'_>, catalogue: &Catalogue) -> bool {
        match self {
            Bound::Constant(holds) => *holds,
            bound => bound.evaluate(event, catalogue),
        }
    }

    fn evaluate(&self, event: &Event<'_>, catalogue: &Catalogue) -> bool {
        match self {
            Bound::Constant(holds) => *holds,
            Bound::Any(bounds) => bounds.iter().any(|bound| bound.evaluate(event, catalogue)),
            Bound::All(bounds) => bounds.iter().all(|bound| bound.evaluate(event, catalogue)),
            Bound::Not(bound) => !bound.evaluate(event, catalogue),
            Bound::Exists(source) => source.value(event, catalogue) != NamedValue::NONE,
            Bound::Compare(left, how, right) => left.value(event, catalogue).compare(*how, &right.value(event, catalogue)),
        }
    }
}

struct Binder<'a> {
    class: &'a Class,
    names: &'a [Name],
    sources: &'a [ValueSource],
    start_ns: i64,
}

impl Binder<'_> {
    fn bind(&self, node: &Node) -> Bound {
        match node {
            Node::Not(node) => match self.bind(node) {
                Bound::Constant(holds) => Bound::Constant(!holds),
                bound => Bound::Not(Box::new(bound)),
            },
            Node::Any(nodes) => self.several(nodes, true),
            Node::All(nodes) => self.several(nodes, false),
            Node::Exists(name) => match &self.sources[*name] {
                ValueSource::Nothing => Bound::Constant(false),
                ValueSource::Name | ValueSource::Time | ValueSource::Stream => Bound::Constant(true),
                source => Bound::Exists(source.clone()),
            },
            Node::Compare { left, how, right, .. } => {
                let (left, right) = (self.at_a_time(left, right), self.at_a_time(right, left));
                match (self.constant(&left), self.constant(&right)) {
                    (Some(left), Some(right)) => Bound::Constant(left.compare(*how, &right)),
                    (Some(NamedValue::NONE), _) | (_, Some(NamedValue::NONE)) => Bound::Constant(false),
                    _ => Bound::Compare(self.side(&left), *how, self.side(&right)),
                }
            }
        }
    }

    /// The operand; if the other one is the time of an event, as time of this trace.
    fn at_a_time(&self, operand: &Operand, other: &Operand) -> Operand {
        match is_time(self.names, other).then(|| moment(operand)).flatten() {
            Some(Ok(moment)) => Operand::Integer(i128::from(Moment::resolve(moment, self.start_ns))),
            _ => operand.clone(),
        }
    }

    /// Resolves the operands of `or` or `and`. `decides` is the value of one operand that
    /// determines the result: true for `or`, false for `and`.
    fn several(&self, nodes: &[Node], decides: bool) -> Bound {
        let mut open = Vec::new();
        for node in nodes {
            match self.bind(node) {
                Bound::Constant(holds) if holds == decides => return Bound::Constant(decides),
                Bound::Constant(_) => {}
                bound => open.push(bound),
            }
        }
        match (open.len(), decides) {
            (0, _) => Bound::Constant(!decides),
            (1, _) => open.remove(0),
            (_, true) => Bound::Any(open),
            (_, false) => Bound::All(open),
        }
    }

    /// Returns the operand's value if it is the same for all events of the class.
    fn constant<'b>(&'b self, operand: &'b Operand) -> Option<NamedValue<'b>> {
        match operand {
            Operand::Name(name) => match &self.sources[*name] {
                ValueSource::Nothing => Some(NamedValue::NONE),
                ValueSource::Name => Some(NamedValue::One(Datum::Text(self.class.event_name.as_bytes()))),
                _ => None,
            },
            operand => Some(NamedValue::of_operand(operand)),
        }
    }

    fn side(&self, operand: &Operand) -> Side {
        match operand {
            Operand::Name(name) => Side::Source(self.sources[*name].clone()),
            operand => Side::Operand(operand.clone()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use longpole_trace::ClassId;
    use longpole_trace::Stream;
    use longpole_trace::StreamId;
    use longpole_trace::StreamKind;
    use longpole_trace::Subject;
    use longpole_trace::SubjectId;

    fn asked(filter: &str) -> bool {
        let class = Class {
            event_name: "sched_switch".to_owned(),
            fields: ["prev_comm", "prev_prio", "state", "ratio", "name", "at.x", "bytes"].map(str::to_owned).to_vec(),
            context: ["vpid"].map(str::to_owned).to_vec(),
            ..Class::default()
        };
        let subject = Subject { label: "router".to_owned(), tid: Some(7), ..Subject::default() };
        let stream = Stream { name: "kernel/cpu0".to_owned(), kind: StreamKind::Kernel };
        let catalogue = Catalogue { classes: vec![class], streams: vec![stream], subjects: vec![subject], ..Catalogue::default() };
        let fields = [
            Value::Str(b"kworker/0:1"),
            Value::I64(-5),
            Value::Enum { value: 2, label: "blocked" },
            Value::F64(0.5),
            Value::Str(b"inner"),
            Value::U64(1_500),
            Value::Bytes(&[7, 8]),
        ];
        let (stream, subject, class) = (StreamId(0), SubjectId(0), ClassId(0));
        let event = Event {
            t_ns: 2_000_000_000,
            stream,
            subject,
            class,
            cpu: Some(3),
            fields: &fields,
            context: &[Value::U64(42)],
            packet: Default::default(),
        };
        let mut selector = EventSelector::new(Some(Filter::parse(filter).unwrap_or_else(|error| panic!("{error}"))), None);
        selector.begins_at(500_000_000);
        selector.passes(&event, &catalogue)
    }

    #[test]
    fn every_form_of_condition_is_evaluated() {
        for filter in [
            "name == \"sched_switch\"",
            "name ~ 'sched_*' and not name =~ \"*wakeup\"",
            "prev_comm ~ \"kworker*\" && prev_prio < 0",
            "prev_comm !~ 'x*'",
            "state == \"blocked\" && state == 2 && state & 2",
            "ratio <= 0.5 and ratio > 0",
            "field.name == 'inner'",
            "at.x == 1.5us && at.x == 1500",
            "bytes[1] == 8 && bytes",
            "context.vpid == 42 && $ctx.vpid == 0x2a && vpid == 42",
            "cpu == 3 && stream ~ 'kernel/*'",
            "label == 'router' && tid == 7",
            "t >= +1.5s && t < +1.500000001s && t == \"1970-01-01T00:00:02Z\"",
            "(cpu == 1 || cpu == 3) && !(cpu == 1)",
            "not gone",
            "5 > cpu",
            "`prev_prio` == -5",
        ] {
            assert!(asked(filter), "{filter}");
        }
        for filter in [
            "gone == 1",
            "gone != 1",
            "gone",
            "prev_comm > 5",
            "cpu == 'x'",
            "name == 'inner'",
            "bytes[2] == 0",
            "bytes == 7",
            "cpu == 1 || cpu == 3 && name == 'x'",
            "state & 4",
            "thread",
        ] {
            assert!(!asked(filter), "{filter}");
        }
    }

    #[test]
    fn the_error_of_a_filter_marks_the_position() {
        let drawn = |filter: &str| Filter::parse(filter).unwrap_err();
        for (filter, what, column) in [
            ("cpu == +5s", "only `t`", 7),
            ("t > \"soon\"", "is not a time", 4),
            ("t > +5parsec", "is not a time", 4),
            ("cpu == 5x", "is not a number", 7),
            ("share('x') > 1", "without parentheses", 0),
        ] {
            let drawn = drawn(filter);
            assert!(drawn.contains(what), "{drawn}");
            assert_eq!(drawn.lines().last().unwrap().chars().count(), column + 3, "{drawn}");
        }
    }

    #[test]
    fn a_filter_that_a_class_decides_by_its_name_is_a_constant() {
        let class = Class { event_name: "a".to_owned(), fields: vec!["x".to_owned()], ..Class::default() };
        let catalogue = Catalogue { classes: vec![class], ..Catalogue::default() };
        let mut selector = EventSelector::new(Some(Filter::parse("name == 'b' && x == 1 || y == 2").unwrap()), None);
        selector.learn(&catalogue);
        assert!(matches!(selector.classes[0], Bound::Constant(false)), "{:?}", selector.classes[0]);
        assert_eq!(selector.notes(), ["the filter uses `y`, which no event of this trace has"]);
    }
}
