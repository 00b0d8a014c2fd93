//! `print --filter`: selects events by name, time, place, contexts and fields.
//!
//! The language is that of the kernel's event filters (`prev_pid == 0 && prev_comm ~ "x*"`, as in
//! `record --event`), extended for whole traces: `name`, `t`, `cpu`, `stream`, the subject (host,
//! label, thread, pid, tid), units of time, and parts of nested values. docs/verbs/print.md
//! describes it completely.
//!
//! A filter is parsed once. For each class of events, its names are resolved once, and each part
//! whose result is the same for all events of the class is evaluated once. For most classes, no
//! event needs to be evaluated.
//!
//! A comparison with a missing value, or of a text with a number, is false. This includes `!=`, so
//! that an absent value never matches by accident.

pub mod glob;
mod parse;

use crate::render::table::plain;
use longpole_trace::Catalogue;
use longpole_trace::Class;
use longpole_trace::Event;
use longpole_trace::Moment;
use longpole_trace::Value;
use parse::{Comparison, Node, Operand};
use std::borrow::Cow;
use std::cmp::Ordering;

/// A parsed filter.
#[derive(Clone, Debug)]
pub struct Filter {
    root: Node,
    names: Vec<String>,
}

impl Filter {
    pub fn parse(text: &str) -> Result<Filter, parse::Wrong> {
        let (root, names) = parse::parse(text)?;
        Ok(Filter { root, names })
    }
}

/// A list of name patterns, separated by commas.
#[derive(Clone, Debug)]
pub struct Patterns(Vec<Vec<u8>>);

impl Patterns {
    pub fn parse(text: &str) -> Result<Patterns, String> {
        let patterns: Vec<Vec<u8>> = text.split(',').map(|name| name.trim().as_bytes().to_vec()).collect();
        match patterns.iter().any(Vec::is_empty) {
            true => Err("write names separated by commas; * ? and [a-z] stand for others".to_owned()),
            false => Ok(Patterns(patterns)),
        }
    }

    pub fn hold(&self, name: &str) -> bool {
        self.0.iter().any(|pattern| glob::matches(pattern, name.as_bytes()))
    }

    /// Returns true if the field, or a structure around it, matches a pattern (see
    /// [`Patterns::hold`]).
    pub fn hold_part(&self, name: &str) -> bool {
        self.hold(name) || name.match_indices('.').any(|(dot, _)| self.hold(&name[..dot]))
    }
}

/// Selects the events that match the filter and the names.
pub struct Sieve {
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

impl Sieve {
    pub fn new(filter: Option<Filter>, names: Option<Patterns>) -> Sieve {
        let found = vec![false; filter.as_ref().map_or(0, |filter| filter.names.len())];
        let matched = vec![false; names.as_ref().map_or(0, |names| names.0.len())];
        Sieve { filter, names, start_ns: None, classes: Vec::new(), found, matched }
    }

    /// Returns true if every event passes, because there is neither a filter nor a list of names.
    pub fn passes_all(&self) -> bool {
        self.filter.is_none() && self.names.is_none()
    }

    pub fn begins_at(&mut self, start_ns: i64) {
        self.start_ns = Some(start_ns);
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
            for (pattern, matched) in self.names.iter().flat_map(|names| &names.0).zip(&mut self.matched) {
                *matched = *matched || glob::matches(pattern, class.event_name.as_bytes());
            }
            let named = self.names.as_ref().is_none_or(|names| names.hold(&class.event_name));
            let bound = match (&self.filter, named) {
                (_, false) => Bound::Constant(false),
                (None, true) => Bound::Constant(true),
                (Some(filter), true) => {
                    let sources: Vec<Source> = filter.names.iter().map(|name| Source::find(name, class)).collect();
                    for (found, source) in self.found.iter_mut().zip(&sources) {
                        *found |= !matches!(source, Source::Nothing);
                    }
                    Binder { class, sources: &sources, start_ns }.bind(&filter.root)
                }
            };
            self.classes.push(bound);
        }
    }

    /// Returns notes about names and patterns that no class of events has.
    pub fn notes(&self) -> Vec<String> {
        let names = self.filter.iter().flat_map(|filter| &filter.names).zip(&self.found).filter(|(_, found)| !**found);
        let patterns = self.names.iter().flat_map(|names| &names.0).zip(&self.matched).filter(|(_, matched)| !**matched);
        let unknown = names.map(|(name, _)| format!("no event of this trace has `{name}`, of which the filter speaks"));
        let unmatched = patterns.map(|(pattern, _)| format!("no event of this trace is called `{}`", String::from_utf8_lossy(pattern)));
        unknown.chain(unmatched).map(plain).collect()
    }
}

/// The place of a name's value in the events of a class.
#[derive(Clone, Debug)]
enum Source {
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

impl Source {
    fn find(name: &str, class: &Class) -> Source {
        let field = |name: &str| among(&class.fields, name).map(|(at, steps)| Source::Field(at, steps));
        let context = |name: &str| among(&class.context, name).map(|(at, steps)| Source::Context(at, steps));
        let packet = |name: &str| among(&class.packet, name).map(|(at, steps)| Source::Packet(at, steps));
        match name {
            "name" => return Source::Name,
            "t" => return Source::Time,
            "cpu" => return Source::Cpu,
            "stream" => return Source::Stream,
            _ => {}
        }
        let rest = |prefixes: [&str; 2]| prefixes.iter().find_map(|prefix| name.strip_prefix(prefix));
        if let Some(found) = field(name).or_else(|| context(name)).or_else(|| packet(name)) {
            return found;
        }
        if let Some(rest) = rest(["field.", "fields."]) {
            return field(rest).unwrap_or(Source::Nothing);
        }
        if let Some(rest) = rest(["context.", "$ctx."]) {
            return context(rest).or_else(|| Source::who(rest)).unwrap_or(Source::Nothing);
        }
        if let Some(rest) = name.strip_prefix("packet.") {
            return packet(rest).unwrap_or(Source::Nothing);
        }
        Source::who(name).unwrap_or(Source::Nothing)
    }

    fn who(name: &str) -> Option<Source> {
        Some(match name {
            "host" => Source::Host,
            // `cpu_id` and `t_ns` are the names that the text and JSON output use.
            "cpu_id" => Source::Cpu,
            "t_ns" => Source::Time,
            "label" => Source::Label,
            "thread" => Source::Thread,
            "pid" => Source::Pid,
            "tid" => Source::Tid,
            _ => return None,
        })
    }

    fn value<'a>(&self, event: &Event<'a>, catalogue: &'a Catalogue) -> Datum<'a> {
        let subject = || &catalogue.subjects[event.subject.0 as usize];
        let text = |text: &'a str| if text.is_empty() { Datum::Nothing } else { Datum::Text(text.as_bytes().into()) };
        let number = |number: Option<i32>| number.map_or(Datum::Nothing, |number| Datum::Integer(i128::from(number)));
        match self {
            Source::Nothing => Datum::Nothing,
            Source::Name => Datum::Text(catalogue.classes[event.class.0 as usize].event_name.as_bytes().into()),
            Source::Time => Datum::Integer(i128::from(event.t_ns)),
            Source::Cpu => event.cpu.map_or(Datum::Nothing, |cpu| Datum::Integer(i128::from(cpu))),
            Source::Stream => Datum::Text(catalogue.streams[event.stream.0 as usize].name.as_bytes().into()),
            Source::Host => text(&subject().host),
            Source::Label => text(&subject().label),
            Source::Thread => text(&subject().thread),
            Source::Pid => number(subject().pid),
            Source::Tid => number(subject().tid),
            Source::Field(at, steps) => event.fields.get(*at).map_or(Datum::Nothing, |value| part(*value, steps)),
            Source::Context(at, steps) => event.context.get(*at).map_or(Datum::Nothing, |value| part(*value, steps)),
            Source::Packet(at, steps) => event.packet.get(*at).map_or(Datum::Nothing, |value| part(value, steps)),
        }
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

fn part<'a>(value: Value<'a>, steps: &[Step]) -> Datum<'a> {
    let Some((step, rest)) = steps.split_first() else { return Datum::of(value) };
    match (value, step) {
        (Value::Bytes(bytes), Step::Element(at)) if rest.is_empty() => {
            bytes.get(*at).map_or(Datum::Nothing, |byte| Datum::Integer(i128::from(*byte)))
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
            found.err().map_or(Datum::Nothing, |inner| part(inner, rest))
        }
        _ => Datum::Nothing,
    }
}

#[derive(Clone, Debug, PartialEq)]
enum Datum<'a> {
    Nothing,
    Integer(i128),
    Real(f64),
    Text(Cow<'a, [u8]>),
    /// The value of an enumeration; it can be compared as number and as text.
    Labelled(i128, &'a [u8]),
    /// The value of an enumeration that has several labels.
    Several(Vec<Datum<'a>>),
    /// A value that exists and cannot be compared.
    Other,
}

impl<'a> Datum<'a> {
    fn of(value: Value<'a>) -> Datum<'a> {
        match value {
            Value::U64(value) => Datum::Integer(i128::from(value)),
            Value::I64(value) => Datum::Integer(i128::from(value)),
            Value::F64(value) => Datum::Real(value),
            Value::Str(text) => Datum::Text(text.into()),
            Value::Wide(text) => Datum::Text(text.decode().into_bytes().into()),
            Value::Bool(value) => Datum::Integer(i128::from(value)),
            Value::Nothing => Datum::Nothing,
            Value::Enum { value, label } => Datum::Labelled(value, label.as_bytes()),
            Value::Several { value: number, .. } => {
                Datum::Several(value.labels().map(|label| Datum::Labelled(number, label.as_bytes())).collect())
            }
            _ => Datum::Other,
        }
    }

    fn of_operand(operand: &'a Operand, start_ns: i64) -> Datum<'a> {
        match operand {
            Operand::Name(_) => Datum::Nothing,
            Operand::Integer(value) => Datum::Integer(*value),
            Operand::Real(value) => Datum::Real(*value),
            Operand::Text(text) => Datum::Text(text.into()),
            Operand::Moment(moment) => Datum::Integer(i128::from(Moment::resolve(*moment, start_ns))),
        }
    }

    fn text(&self) -> Option<&[u8]> {
        match self {
            Datum::Text(text) => Some(text),
            Datum::Labelled(_, text) => Some(text),
            _ => None,
        }
    }

    fn integer(&self) -> Option<i128> {
        match self {
            Datum::Integer(value) | Datum::Labelled(value, _) => Some(*value),
            _ => None,
        }
    }

    fn order(&self, other: &Datum<'_>) -> Option<Ordering> {
        if let (Some(left), Some(right)) = (self.integer(), other.integer()) {
            // Two values of enumerations are equal if their labels are equal.
            return match (self, other) {
                (Datum::Labelled(_, left), Datum::Labelled(_, right)) => Some(left.cmp(right)),
                _ => Some(left.cmp(&right)),
            };
        }
        if let (Some(left), Some(right)) = (self.text(), other.text()) {
            return Some(left.cmp(right));
        }
        let real = |datum: &Datum<'_>| match datum {
            Datum::Real(value) => Some(*value),
            datum => datum.integer().map(|value| value as f64),
        };
        real(self)?.partial_cmp(&real(other)?)
    }
}

fn compare(left: &Datum<'_>, how: Comparison, right: &Datum<'_>) -> bool {
    // With several labels, `==` is true if one of them matches, and `!=` if none of them does.
    let of_labels = |labels: &[Datum<'_>], holds: &dyn Fn(&Datum<'_>) -> bool| match how {
        Comparison::Different | Comparison::Unlike => labels.iter().all(holds),
        _ => labels.iter().any(holds),
    };
    match (left, right) {
        (Datum::Several(labels), right) => return of_labels(labels, &|left| compare(left, how, right)),
        (left, Datum::Several(labels)) => return of_labels(labels, &|right| compare(left, how, right)),
        _ => {}
    }
    let order = || left.order(right);
    let like = || left.text().zip(right.text()).map(|(text, pattern)| glob::matches(pattern, text));
    match how {
        Comparison::Equal => order() == Some(Ordering::Equal),
        Comparison::Different => order().is_some_and(Ordering::is_ne),
        Comparison::Less => order().is_some_and(Ordering::is_lt),
        Comparison::LessOrEqual => order().is_some_and(Ordering::is_le),
        Comparison::Greater => order().is_some_and(Ordering::is_gt),
        Comparison::GreaterOrEqual => order().is_some_and(Ordering::is_ge),
        Comparison::Like => like() == Some(true),
        Comparison::Unlike => like() == Some(false),
        Comparison::Bits => left.integer().zip(right.integer()).is_some_and(|(left, right)| left & right != 0),
    }
}

/// A filter resolved for one class of events.
#[derive(Clone, Debug)]
enum Bound {
    Constant(bool),
    Any(Vec<Bound>),
    All(Vec<Bound>),
    Not(Box<Bound>),
    Is(Source),
    Compare(Side, Comparison, Side),
}

#[derive(Clone, Debug)]
enum Side {
    Source(Source),
    Operand(Operand, i64),
}

impl Side {
    #[inline]
    fn value<'a>(&'a self, event: &Event<'a>, catalogue: &'a Catalogue) -> Datum<'a> {
        match self {
            Side::Source(source) => source.value(event, catalogue),
            Side::Operand(operand, start_ns) => Datum::of_operand(operand, *start_ns),
        }
    }
}

impl Bound {
    #[inline]
    fn holds(&self, event: &Event<'_>, catalogue: &Catalogue) -> bool {
        match self {
            Bound::Constant(holds) => *holds,
            bound => bound.looks(event, catalogue),
        }
    }

    fn looks(&self, event: &Event<'_>, catalogue: &Catalogue) -> bool {
        match self {
            Bound::Constant(holds) => *holds,
            Bound::Any(bounds) => bounds.iter().any(|bound| bound.looks(event, catalogue)),
            Bound::All(bounds) => bounds.iter().all(|bound| bound.looks(event, catalogue)),
            Bound::Not(bound) => !bound.looks(event, catalogue),
            Bound::Is(source) => source.value(event, catalogue) != Datum::Nothing,
            Bound::Compare(left, how, right) => compare(&left.value(event, catalogue), *how, &right.value(event, catalogue)),
        }
    }
}

struct Binder<'a> {
    class: &'a Class,
    sources: &'a [Source],
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
            Node::Is(name) => match &self.sources[*name] {
                Source::Nothing => Bound::Constant(false),
                Source::Name | Source::Time | Source::Stream => Bound::Constant(true),
                source => Bound::Is(source.clone()),
            },
            Node::Compare(left, how, right) => match (self.constant(left), self.constant(right)) {
                (Some(left), Some(right)) => Bound::Constant(compare(&left, *how, &right)),
                (Some(Datum::Nothing), _) | (_, Some(Datum::Nothing)) => Bound::Constant(false),
                _ => Bound::Compare(self.side(left), *how, self.side(right)),
            },
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
    fn constant<'a>(&'a self, operand: &'a Operand) -> Option<Datum<'a>> {
        match operand {
            Operand::Name(name) => match &self.sources[*name] {
                Source::Nothing => Some(Datum::Nothing),
                Source::Name => Some(Datum::Text(self.class.event_name.as_bytes().into())),
                _ => None,
            },
            operand => Some(Datum::of_operand(operand, self.start_ns)),
        }
    }

    fn side(&self, operand: &Operand) -> Side {
        match operand {
            Operand::Name(name) => Side::Source(self.sources[*name].clone()),
            operand => Side::Operand(operand.clone(), self.start_ns),
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
        let mut sieve = Sieve::new(Some(Filter::parse(filter).unwrap_or_else(|wrong| panic!("{wrong}"))), None);
        sieve.begins_at(500_000_000);
        sieve.passes(&event, &catalogue)
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
        let drawn = |filter: &str| Filter::parse(filter).unwrap_err().to_string();
        assert_eq!(drawn("cpu == ) && x"), "expected a name, a number or a \"text\", found `)`\n  cpu == ) && x\n         ^");
        for (filter, what, column) in [
            ("cpu = 1", "write `==`", 4),
            ("cpu == 1 | x", "write `||`", 9),
            ("cpu == \"1", "no second one", 7),
            ("cpu ~ 5", "a \"pattern\"", 6),
            ("cpu == +5s", "only `t`", 7),
            ("t > \"soon\"", "is no time", 4),
            ("cpu == 5x", "is no number", 7),
            ("(cpu == 5", "`)`, `and` or `or`", 9),
            ("5", "a comparison", 1),
            ("cpu == 1 cpu", "`and`, `or` or the end", 9),
            ("", "a name, a number", 0),
            ("a[x] == 1", "written as [0]", 1),
            ("ä == 1 § 2", "means nothing here", 7),
        ] {
            let drawn = drawn(filter);
            assert!(drawn.contains(what), "{drawn}");
            assert_eq!(drawn.lines().last().unwrap().chars().count(), column + 3, "{drawn}");
        }
        assert!(Filter::parse(&"(".repeat(100_000)).is_err());
        assert!(Filter::parse(&"!".repeat(100_000)).is_err());
    }

    #[test]
    fn a_filter_that_a_class_decides_by_its_name_is_a_constant() {
        let class = Class { event_name: "a".to_owned(), fields: vec!["x".to_owned()], ..Class::default() };
        let catalogue = Catalogue { classes: vec![class], ..Catalogue::default() };
        let mut sieve = Sieve::new(Some(Filter::parse("name == 'b' && x == 1 || y == 2").unwrap()), None);
        sieve.learn(&catalogue);
        assert!(matches!(sieve.classes[0], Bound::Constant(false)), "{:?}", sieve.classes[0]);
        assert_eq!(sieve.notes(), ["no event of this trace has `y`, of which the filter speaks"]);
    }
}
