//! Conditions over named values: `len > 100 && name == "x"`.
//!
//! One small language serves the `when` of rules, the conditions of findings and `--from
//! EVENT:pred` on the command line. It has comparisons (`== != < <= > >=`) of names, numbers and
//! texts, `!`, `&&`, `||` and parentheses. It must never grow into a query language: anything that
//! needs more is a task for SQL.
//!
//! A name may include a text in parentheses, like `share("x")`: it is a name like any other, and
//! its user defines its meaning. A comparison with a value that does not exist is false, `!=`
//! included, so that absence never matches by accident.

use std::fmt;

/// The value of a name at the time of evaluation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Datum<'a> {
    Unknown,
    Integer(i128),
    Real(f64),
    Text(&'a str),
    /// The value of an enumeration: compares as number and as text.
    Labelled(i128, &'a str),
}

/// A parsed condition.
#[derive(Clone, Debug, PartialEq)]
pub struct Predicate {
    root: Node,
    names: Vec<String>,
}

#[derive(Clone, Debug, PartialEq)]
enum Node {
    Any(Vec<Node>),
    All(Vec<Node>),
    Not(Box<Node>),
    Compare(Operand, Comparison, Operand),
}

#[derive(Clone, Debug, PartialEq)]
enum Operand {
    Name(usize),
    Integer(i128),
    Real(f64),
    Text(String),
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Comparison {
    Equal,
    Different,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

/// Where and why a condition was rejected; the column counts characters from 1.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("column {column}: expected {expected}, found {found}")]
pub struct PredicateError {
    pub column: usize,
    pub expected: String,
    pub found: String,
}

/// Maximum nesting. Deeper conditions are rejected because the parser recurses.
const MAX_DEPTH: usize = 64;

impl Predicate {
    /// Parses a condition.
    ///
    /// # Errors
    ///
    /// The column of the first error, with what was expected there.
    pub fn parse(text: &str) -> Result<Predicate, PredicateError> {
        let mut parser = Parser { tokens: tokens(text)?, at: 0, names: Vec::new(), depth: 0 };
        let root = parser.any()?;
        match parser.peek() {
            Token::End => Ok(Predicate { root, names: parser.names }),
            _ => Err(parser.refuse("`&&`, `||` or the end")),
        }
    }

    /// The names that occur, each once. [`Predicate::holds`] looks them up by their position in
    /// this slice.
    pub fn names(&self) -> &[String] {
        &self.names
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
        Node::Compare(left, how, right) => compare(resolve(left, lookup), *how, resolve(right, lookup)),
    }
}

fn resolve<'a>(operand: &'a Operand, lookup: &impl Fn(usize) -> Datum<'a>) -> Datum<'a> {
    match operand {
        Operand::Name(at) => lookup(*at),
        Operand::Integer(value) => Datum::Integer(*value),
        Operand::Real(value) => Datum::Real(*value),
        Operand::Text(text) => Datum::Text(text),
    }
}

fn compare(left: Datum<'_>, how: Comparison, right: Datum<'_>) -> bool {
    use std::cmp::Ordering;
    let order = match (text_of(left), text_of(right)) {
        (Some(left), Some(right)) => Some(left.cmp(right)),
        _ => match (number_of(left), number_of(right)) {
            (Some(Number::Integer(left)), Some(Number::Integer(right))) => Some(left.cmp(&right)),
            (Some(left), Some(right)) => left.real().partial_cmp(&right.real()),
            _ => None,
        },
    };
    let Some(order) = order else { return false };
    match how {
        Comparison::Equal => order == Ordering::Equal,
        Comparison::Different => order != Ordering::Equal,
        Comparison::Less => order == Ordering::Less,
        Comparison::LessOrEqual => order != Ordering::Greater,
        Comparison::Greater => order == Ordering::Greater,
        Comparison::GreaterOrEqual => order != Ordering::Less,
    }
}

#[derive(Clone, Copy)]
enum Number {
    Integer(i128),
    Real(f64),
}

impl Number {
    fn real(self) -> f64 {
        match self {
            Number::Integer(value) => value as f64,
            Number::Real(value) => value,
        }
    }
}

fn number_of(datum: Datum<'_>) -> Option<Number> {
    match datum {
        Datum::Integer(value) | Datum::Labelled(value, _) => Some(Number::Integer(value)),
        Datum::Real(value) => Some(Number::Real(value)),
        Datum::Text(_) | Datum::Unknown => None,
    }
}

fn text_of(datum: Datum<'_>) -> Option<&str> {
    match datum {
        Datum::Text(text) | Datum::Labelled(_, text) => Some(text),
        Datum::Integer(_) | Datum::Real(_) | Datum::Unknown => None,
    }
}

#[derive(Clone, Debug, PartialEq)]
enum Token {
    Name(String),
    Integer(i128),
    Real(f64),
    Text(String),
    Compare(Comparison),
    And,
    Or,
    Not,
    Open,
    Close,
    End,
}

impl fmt::Display for Token {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Token::Name(name) => write!(out, "`{name}`"),
            Token::Integer(value) => write!(out, "`{value}`"),
            Token::Real(value) => write!(out, "`{value}`"),
            Token::Text(text) => write!(out, "\"{text}\""),
            Token::Compare(_) => out.write_str("a comparison"),
            Token::And => out.write_str("`&&`"),
            Token::Or => out.write_str("`||`"),
            Token::Not => out.write_str("`!`"),
            Token::Open => out.write_str("`(`"),
            Token::Close => out.write_str("`)`"),
            Token::End => out.write_str("the end"),
        }
    }
}

struct Parser {
    tokens: Vec<(usize, Token)>,
    at: usize,
    names: Vec<String>,
    depth: usize,
}

impl Parser {
    fn peek(&self) -> &Token {
        self.tokens.get(self.at).map_or(&Token::End, |(_, token)| token)
    }

    fn take(&mut self) -> Token {
        let token = self.peek().clone();
        self.at += 1;
        token
    }

    fn refuse(&self, expected: &str) -> PredicateError {
        let column = self.tokens.get(self.at).or(self.tokens.last()).map_or(1, |(column, _)| *column);
        PredicateError { column, expected: expected.to_owned(), found: self.peek().to_string() }
    }

    fn any(&mut self) -> Result<Node, PredicateError> {
        let mut nodes = vec![self.all()?];
        while *self.peek() == Token::Or {
            self.at += 1;
            nodes.push(self.all()?);
        }
        Ok(if nodes.len() == 1 { nodes.remove(0) } else { Node::Any(nodes) })
    }

    fn all(&mut self) -> Result<Node, PredicateError> {
        let mut nodes = vec![self.one()?];
        while *self.peek() == Token::And {
            self.at += 1;
            nodes.push(self.one()?);
        }
        Ok(if nodes.len() == 1 { nodes.remove(0) } else { Node::All(nodes) })
    }

    fn one(&mut self) -> Result<Node, PredicateError> {
        if self.depth >= MAX_DEPTH {
            return Err(self.refuse("at most 64 nested conditions"));
        }
        self.depth += 1;
        let node = match self.peek() {
            Token::Not => {
                self.at += 1;
                Node::Not(Box::new(self.one()?))
            }
            Token::Open => {
                self.at += 1;
                let node = self.any()?;
                if *self.peek() != Token::Close {
                    return Err(self.refuse("`)`"));
                }
                self.at += 1;
                node
            }
            _ => {
                let left = self.operand()?;
                let Token::Compare(how) = *self.peek() else {
                    return Err(self.refuse("one of == != < <= > >="));
                };
                self.at += 1;
                Node::Compare(left, how, self.operand()?)
            }
        };
        self.depth -= 1;
        Ok(node)
    }

    fn operand(&mut self) -> Result<Operand, PredicateError> {
        match self.peek() {
            Token::Name(_) | Token::Integer(_) | Token::Real(_) | Token::Text(_) => {}
            _ => return Err(self.refuse("a name, a number or a \"text\"")),
        }
        Ok(match self.take() {
            Token::Name(name) => {
                let at = self.names.iter().position(|known| *known == name).unwrap_or_else(|| {
                    self.names.push(name);
                    self.names.len() - 1
                });
                Operand::Name(at)
            }
            Token::Integer(value) => Operand::Integer(value),
            Token::Real(value) => Operand::Real(value),
            Token::Text(text) => Operand::Text(text),
            _ => Operand::Integer(0),
        })
    }
}

fn tokens(text: &str) -> Result<Vec<(usize, Token)>, PredicateError> {
    let chars: Vec<char> = text.chars().collect();
    let mut out = Vec::new();
    let mut at = 0;
    while at < chars.len() {
        let column = at + 1;
        let (token, length) = match (chars[at], chars.get(at + 1)) {
            (space, _) if space.is_whitespace() => {
                at += 1;
                continue;
            }
            ('&', Some('&')) => (Token::And, 2),
            ('|', Some('|')) => (Token::Or, 2),
            ('=', Some('=')) => (Token::Compare(Comparison::Equal), 2),
            ('!', Some('=')) => (Token::Compare(Comparison::Different), 2),
            ('<', Some('=')) => (Token::Compare(Comparison::LessOrEqual), 2),
            ('>', Some('=')) => (Token::Compare(Comparison::GreaterOrEqual), 2),
            ('<', _) => (Token::Compare(Comparison::Less), 1),
            ('>', _) => (Token::Compare(Comparison::Greater), 1),
            ('!', _) => (Token::Not, 1),
            ('(', _) => (Token::Open, 1),
            (')', _) => (Token::Close, 1),
            ('"', _) => quoted(&chars, at)?,
            (digit, next) if digit.is_ascii_digit() || (digit == '-' && next.is_some_and(char::is_ascii_digit)) => number(&chars, at)?,
            (letter, _) if is_name(letter) => {
                let length = chars[at..].iter().take_while(|&&letter| is_name(letter)).count();
                let length = length + carried(&chars, at + length)?;
                (Token::Name(chars[at..at + length].iter().collect()), length)
            }
            (other, _) => {
                return Err(PredicateError {
                    column,
                    expected: "a name, a number, a \"text\", a comparison, `&&`, `||`, `!` or a parenthesis".to_owned(),
                    found: format!("`{other}`"),
                })
            }
        };
        out.push((column, token));
        at += length;
    }
    out.push((chars.len() + 1, Token::End));
    Ok(out)
}

/// Length of a text in parentheses that belongs to a name, like `("worker::parse")`.
fn carried(chars: &[char], at: usize) -> Result<usize, PredicateError> {
    if chars.get(at..at + 2) != Some(&['(', '"']) {
        return Ok(0);
    }
    let (_, length) = quoted(chars, at + 1)?;
    match chars.get(at + 1 + length) {
        Some(')') => Ok(length + 2),
        found => Err(PredicateError {
            column: at + 2 + length,
            expected: "`)`".to_owned(),
            found: found.map_or_else(|| "the end".to_owned(), |letter| format!("`{letter}`")),
        }),
    }
}

fn is_name(letter: char) -> bool {
    letter.is_alphanumeric() || matches!(letter, '_' | '.' | '$')
}

fn quoted(chars: &[char], begin: usize) -> Result<(Token, usize), PredicateError> {
    let mut text = String::new();
    let mut at = begin + 1;
    while let Some(&letter) = chars.get(at) {
        match letter {
            '"' => return Ok((Token::Text(text), at + 1 - begin)),
            '\\' if chars.get(at + 1).is_some() => {
                text.push(chars[at + 1]);
                at += 2;
            }
            _ => {
                text.push(letter);
                at += 1;
            }
        }
    }
    Err(PredicateError { column: begin + 1, expected: "a closing `\"`".to_owned(), found: "the end".to_owned() })
}

fn number(chars: &[char], begin: usize) -> Result<(Token, usize), PredicateError> {
    let length = 1 + chars[begin + 1..].iter().take_while(|letter| letter.is_ascii_alphanumeric() || **letter == '.').count();
    let text: String = chars[begin..begin + length].iter().collect();
    let token = if let Some(hex) = text.strip_prefix("0x") {
        i128::from_str_radix(hex, 16).ok().map(Token::Integer)
    } else if let Ok(value) = text.parse() {
        Some(Token::Integer(value))
    } else {
        text.parse().ok().map(Token::Real)
    };
    match token {
        Some(token) => Ok((token, length)),
        None => Err(PredicateError { column: begin + 1, expected: "a number".to_owned(), found: format!("`{text}`") }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(text: &str, values: &[(&str, Datum<'_>)]) -> bool {
        let predicate = Predicate::parse(text).unwrap();
        let found: Vec<Datum<'_>> = predicate
            .names()
            .iter()
            .map(|name| values.iter().find(|(known, _)| known == name).map_or(Datum::Unknown, |(_, datum)| *datum))
            .collect();
        predicate.holds(|at| found[at])
    }

    #[test]
    fn and_binds_more_tightly_than_or() {
        let values = [("a", Datum::Integer(1)), ("b", Datum::Integer(2))];
        assert!(ask("a == 1 || a == 2 && b == 3", &values));
        assert!(!ask("(a == 1 || a == 2) && b == 3", &values));
    }

    #[test]
    fn numbers_and_texts_compare_within_their_kind_only() {
        let values = [("len", Datum::Integer(150)), ("name", Datum::Text("x"))];
        assert!(ask("len>100 && name==\"x\"", &values));
        assert!(ask("len > 99.5", &values));
        assert!(!ask("name > 5", &values));
        assert!(ask("len == 0x96", &values));
        assert!(ask("len != -1", &values));
    }

    #[test]
    fn a_comparison_with_a_missing_value_is_false() {
        assert!(!ask("gone == 1", &[]));
        assert!(!ask("gone != 1", &[]));
        assert!(ask("!(gone == 1)", &[]));
    }

    #[test]
    fn the_error_of_a_wrong_condition_has_its_column() {
        let error = Predicate::parse("len > > 4").unwrap_err();
        assert_eq!(error.column, 7);
        assert_eq!(Predicate::parse("len = 4").unwrap_err().column, 5);
        assert_eq!(Predicate::parse("(len == 4").unwrap_err().expected, "`)`");
        assert_eq!(Predicate::parse("name == \"x").unwrap_err().column, 9);
        assert!(Predicate::parse("").is_err());
        assert!(Predicate::parse(&"(".repeat(100_000)).is_err());
    }
}
