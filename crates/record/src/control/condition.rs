//! Conditions for which a snapshot can wait: `span("request") > 5ms`, `full("queue") > 10ms`,
//! `counter("depth") > 100`, `rate("item") < 100`, `lost`, and several of them with `||`.
//!
//! They are written in the language of all conditions ([`longpole_predicate`]).

use longpole_predicate::{Comparison, Node, Operand, Predicate, PredicateError};
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// A condition for which a snapshot can wait: it is true when one of its parts is.
#[derive(Clone, Debug, PartialEq)]
pub struct Condition(pub(super) Vec<Part>);

/// One part of a condition. The texts are patterns of names.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Part {
    /// A span takes longer than this.
    Span(String, Duration),
    /// A queue is full for longer than this.
    Full(String, Duration),
    /// A counter is above or below a bound.
    Counter(String, Order, f64),
    /// The number of events of this name per second is above or below a bound.
    Rate(String, Order, f64),
    /// Events are lost.
    Lost,
}

/// Direction of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    Above,
    Below,
}

impl Order {
    pub(super) fn holds(self, value: f64, bound: f64) -> bool {
        match self {
            Order::Above => value > bound,
            Order::Below => value < bound,
        }
    }
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, part) in self.0.iter().enumerate() {
            f.write_str(if at > 0 { " || " } else { "" })?;
            part.fmt(f)?;
        }
        Ok(())
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = |order: &Order| if *order == Order::Above { '>' } else { '<' };
        let named = |function: &str, name: &String| longpole_predicate::Name { name: function.to_owned(), argument: Some(name.clone()) };
        match self {
            Part::Span(name, time) => write!(f, "{} > {}ns", named("span", name), time.as_nanos()),
            Part::Full(name, time) => write!(f, "{} > {}ns", named("full", name), time.as_nanos()),
            Part::Counter(name, order, bound) => write!(f, "{} {} {bound}", named("counter", name), sign(order)),
            Part::Rate(name, order, bound) => write!(f, "{} {} {bound}", named("rate", name), sign(order)),
            Part::Lost => f.write_str("lost"),
        }
    }
}

/// What a snapshot can wait for, in messages.
const KNOWN_CONDITIONS: &str =
    "`span(\"NAME\") > 5ms`, `full(\"QUEUE\") > 10ms`, `counter(\"NAME\") > 100`, `rate(\"NAME\") < 100`, `lost`, or several with `||`";

impl FromStr for Condition {
    type Err = String;

    fn from_str(text: &str) -> Result<Condition, String> {
        let predicate = Predicate::parse(text).map_err(|error| describe(&error))?;
        let nodes = match predicate.root() {
            Node::Any(nodes) => nodes.as_slice(),
            node => std::slice::from_ref(node),
        };
        let parts = nodes.iter().map(|node| part(&predicate, node)).collect::<Result<_, _>>();
        parts.map(Condition).map_err(|error| describe(&error))
    }
}

fn describe(error: &PredicateError) -> String {
    format!("{error:#}\na snapshot can wait for {KNOWN_CONDITIONS}")
}

fn part(predicate: &Predicate, node: &Node) -> Result<Part, PredicateError> {
    let (at, comparison) = match node {
        Node::Exists(at) => (*at, None),
        Node::Compare { left: Operand::Name(at), how, right, columns } => (*at, Some((*how, right, *columns))),
        _ => return Err(predicate.error_at(0, "a snapshot cannot wait for this")),
    };
    let name = &predicate.names()[at];
    let column = comparison.map_or(0, |(.., columns)| columns[0]);
    let Some((how, bound, [_, bound_column])) = comparison else {
        return match (name.name.as_str(), &name.argument) {
            ("lost", None) => Ok(Part::Lost),
            _ => Err(predicate.error_at(column, format!("`{name}` is compared with nothing"))),
        };
    };
    let order = match how {
        Comparison::Greater => Order::Above,
        Comparison::Less => Order::Below,
        _ => return Err(predicate.error_at(column, "compare with > or <")),
    };
    let pattern = match &name.argument {
        Some(pattern) if !pattern.is_empty() => pattern.clone(),
        _ => return Err(predicate.error_at(column, format!("`{}` of what? Write {}(\"NAME\")", name.name, name.name))),
    };
    let time = || match (order, bound) {
        (Order::Below, _) => Err(predicate.error_at(column, "a snapshot can wait only for a longer time; write >")),
        (Order::Above, Operand::Duration(ns)) => u64::try_from(*ns)
            .map(Duration::from_nanos)
            .map_err(|_| predicate.error_at(bound_column, "this time is negative, or longer than 584 years")),
        (Order::Above, _) => Err(predicate.error_at(bound_column, "this is not a time; write, for example, 5ms or 1.5s")),
    };
    let number = || match bound {
        Operand::Integer(value) => Ok(*value as f64),
        Operand::Real(value) => Ok(*value),
        _ => Err(predicate.error_at(bound_column, "this is not a number")),
    };
    match name.name.as_str() {
        "span" => Ok(Part::Span(pattern, time()?)),
        "full" => Ok(Part::Full(pattern, time()?)),
        "counter" => Ok(Part::Counter(pattern, order, number()?)),
        "rate" => Ok(Part::Rate(pattern, order, number()?)),
        _ => Err(predicate.error_at(column, format!("there is no `{}` to wait for", name.name))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_invalid_condition_is_refused_with_its_reason_and_place() {
        for (text, reason, column) in [
            ("", "expected a name", 0),
            ("span", "compared with nothing", 0),
            ("span('x')", "compared with nothing", 0),
            ("span('x') > 'soon'", "is not a time", 12),
            ("span('x') > 5", "is not a time", 12),
            ("span('x') > 5parsec", "is not a number", 12),
            ("span('x') < 5ms", "longer time", 0),
            ("span > 5ms", "span(\"NAME\")", 0),
            ("span('') > 5ms", "span(\"NAME\")", 0),
            ("lost || full('x') >= 5ms", "> or <", 8),
            ("counter('x') > 'many'", "not a number", 15),
            ("counter('x') > 5ms", "not a number", 15),
            ("spam('x') > 1", "no `spam`", 0),
            ("lost && lost", "cannot wait", 0),
            ("span request > 5ms", "`and`, `or` or the end", 5),
        ] {
            let error = text.parse::<Condition>().unwrap_err();
            assert!(error.contains(reason), "{text}: {error}");
            assert_eq!(error.lines().nth(2).unwrap().chars().count(), column + 3, "{text}: {error}");
            assert!(error.lines().nth(3).unwrap().starts_with("a snapshot can wait for `span("), "{error}");
        }
    }

    #[test]
    fn a_condition_means_the_same_after_it_was_printed() {
        for (text, parts) in [
            ("span('a > b') > 5ms", vec![Part::Span("a > b".into(), Duration::from_millis(5))]),
            ("full(\"in \\\"x\\\"\") > 1s", vec![Part::Full("in \"x\"".into(), Duration::from_secs(1))]),
            ("rate('x') < 1e3 or lost", vec![Part::Rate("x".into(), Order::Below, 1000.0), Part::Lost]),
            ("counter('x*') > -4", vec![Part::Counter("x*".into(), Order::Above, -4.0)]),
        ] {
            let condition: Condition = text.parse().unwrap();
            assert_eq!(condition, Condition(parts));
            assert_eq!(condition.to_string().parse(), Ok(condition));
        }
    }
}
