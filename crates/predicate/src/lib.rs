//! Conditions over named values: `len > 100 && name ~ "eth*"`.
//!
//! One language serves `--filter`, the `when` of rules and findings, `latency --from
//! EVENT:CONDITION`, `diff --fail-if` and `snapshot --when`. It is that of the kernel's event
//! filters, extended. docs/reference/conditions.md describes it for users. It must never grow into
//! a query language: anything that needs more is a task for SQL.
//!
//! A condition is parsed once into a tree of [`Node`]s and the [`Name`]s that occur in it. The
//! language does not know what a name means: its user gives each name a value ([`Datum`]) when the
//! condition is evaluated, or translates the tree into a form of its own beforehand. A name with an
//! argument, like `share("worker::parse")`, is a name like any other.
//!
//! A comparison with a value that does not exist is false, `!=` included, so that absence never
//! matches by accident. The same holds for a text that is compared with a number.
//!
//! ```
//! use longpole_predicate::{Datum, Predicate};
//!
//! let long = Predicate::parse("len > 100 && name ~ 'eth*'")?;
//! let holds = long.holds(|at| match long.names()[at].name.as_str() {
//!     "len" => Datum::Integer(1500),
//!     "name" => Datum::Text(b"eth0"),
//!     _ => Datum::Unknown,
//! });
//! assert!(holds);
//! # Ok::<(), longpole_predicate::PredicateError>(())
//! ```
#![warn(missing_docs)]

mod error;
pub mod glob;
mod lexer;
mod parser;
mod value;

pub use error::PredicateError;
pub use value::Datum;

use std::fmt;

/// A parsed condition.
#[derive(Clone, Debug, PartialEq)]
pub struct Predicate {
    text: String,
    root: Node,
    names: Vec<Name>,
}

/// A name that occurs in a condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Name {
    /// The name itself: `share` of `share("worker::parse")`.
    pub name: String,
    /// The text in parentheses after the name, if there is one.
    pub argument: Option<String>,
}

impl fmt::Display for Name {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.argument {
            None => out.write_str(&self.name),
            Some(argument) => write!(out, "{}(\"{}\")", self.name, argument.replace('\\', "\\\\").replace('"', "\\\"")),
        }
    }
}

/// A node of a condition's tree.
#[derive(Clone, Debug, PartialEq)]
pub enum Node {
    /// True if one of these is true: `a || b`.
    Any(Vec<Node>),
    /// True if all of these are true: `a && b`.
    All(Vec<Node>),
    /// True if this is false: `!a`.
    Not(Box<Node>),
    /// True if the value of this name exists: `a` alone. The index counts [`Predicate::names`].
    Exists(usize),
    /// A comparison of two operands.
    Compare {
        /// The operand before the sign.
        left: Operand,
        /// The sign.
        how: Comparison,
        /// The operand after the sign.
        right: Operand,
        /// Columns in which the two operands begin, in characters from 0; see
        /// [`Predicate::error_at`].
        columns: [usize; 2],
    },
}

/// One side of a comparison.
#[derive(Clone, Debug, PartialEq)]
pub enum Operand {
    /// The value of a name; the index counts [`Predicate::names`].
    Name(usize),
    /// A whole number.
    Integer(i128),
    /// A number with a point or an exponent.
    Real(f64),
    /// A number with a unit of time, in ns.
    Duration(i128),
    /// A text in quotes.
    Text(String),
    /// A moment after the begin of a trace, as it is written: `+1.5s`. Only conditions about events
    /// of a trace ([`Predicate::parse_about_events`]) contain it.
    Moment(String),
}

/// The sign of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    /// `==`
    Equal,
    /// `!=`
    Different,
    /// `<`
    Less,
    /// `<=`
    LessOrEqual,
    /// `>`
    Greater,
    /// `>=`
    GreaterOrEqual,
    /// `~` or `=~`: the text matches the pattern, see [`glob::matches`].
    Like,
    /// `!~`: the text does not match the pattern.
    Unlike,
    /// `&`: the two numbers have a bit in common.
    Bits,
}

impl Predicate {
    /// Parses a condition.
    ///
    /// # Errors
    ///
    /// The column of the first error, with what was expected there.
    pub fn parse(text: &str) -> Result<Predicate, PredicateError> {
        let predicate = Predicate::parse_about_events(text)?;
        match first_moment(&predicate.root) {
            None => Ok(predicate),
            Some(column) => {
                Err(predicate.error_at(column, "a time of the trace (`+5s`) cannot be used here; write a duration without `+`"))
            }
        }
    }

    /// Parses a condition about events of a trace, in which a time may be compared with a moment:
    /// `t > +1.5s`. The caller checks that each [`Operand::Moment`] is compared with a time.
    ///
    /// # Errors
    ///
    /// The same errors as those of [`Predicate::parse`].
    pub fn parse_about_events(text: &str) -> Result<Predicate, PredicateError> {
        let (root, names) = parser::parse(text)?;
        Ok(Predicate { text: text.to_owned(), root, names })
    }

    /// Returns the condition if no name in it has an argument, for users whose names are plain
    /// ones.
    ///
    /// # Errors
    ///
    /// The first name with an argument.
    pub fn with_plain_names(self) -> Result<Predicate, PredicateError> {
        match self.names.iter().find(|name| name.argument.is_some()) {
            Some(name) => Err(self.error_at(0, format!("there is no {name} here; write names without parentheses"))),
            None => Ok(self),
        }
    }

    /// The names that occur, each once. [`Predicate::holds`] looks them up by their position in
    /// this slice.
    pub fn names(&self) -> &[Name] {
        &self.names
    }

    /// The tree of the condition, for a user that binds it to values of its own.
    pub fn root(&self) -> &Node {
        &self.root
    }

    /// Returns an error that marks a column of this condition.
    pub fn error_at(&self, column: usize, what: impl Into<String>) -> PredicateError {
        PredicateError { text: self.text.clone(), column, what: what.into() }
    }

    /// Evaluates the condition. `lookup` returns the value of the name at a position of
    /// [`Predicate::names`].
    pub fn holds<'a>(&'a self, lookup: impl Fn(usize) -> Datum<'a>) -> bool {
        holds(&self.root, &lookup)
    }
}

fn holds<'a>(node: &'a Node, lookup: &impl Fn(usize) -> Datum<'a>) -> bool {
    match node {
        Node::Any(nodes) => nodes.iter().any(|node| holds(node, lookup)),
        Node::All(nodes) => nodes.iter().all(|node| holds(node, lookup)),
        Node::Not(node) => !holds(node, lookup),
        Node::Exists(name) => lookup(*name) != Datum::Unknown,
        Node::Compare { left, how, right, .. } => {
            let value = |operand: &'a Operand| match operand {
                Operand::Name(at) => lookup(*at),
                operand => operand.datum(),
            };
            value(left).compare(*how, &value(right))
        }
    }
}

impl Operand {
    /// The value of an operand that is written in the condition; [`Datum::Unknown`] for names and
    /// moments.
    pub fn datum(&self) -> Datum<'_> {
        match self {
            Operand::Name(_) | Operand::Moment(_) => Datum::Unknown,
            Operand::Integer(value) | Operand::Duration(value) => Datum::Integer(*value),
            Operand::Real(value) => Datum::Real(*value),
            Operand::Text(text) => Datum::Text(text.as_bytes()),
        }
    }
}

fn first_moment(node: &Node) -> Option<usize> {
    match node {
        Node::Any(nodes) | Node::All(nodes) => nodes.iter().find_map(first_moment),
        Node::Not(node) => first_moment(node),
        Node::Exists(_) => None,
        Node::Compare { left, right, columns, .. } => {
            [left, right].into_iter().zip(columns).find(|(operand, _)| matches!(operand, Operand::Moment(_))).map(|(_, column)| *column)
        }
    }
}
