//! Turns the tokens of a condition into a tree. Users write conditions by hand, so every error has
//! the column at which the condition is wrong.

use crate::lexer::{tokens, Placed, Token};
use crate::{Comparison, Name, Node, Operand, PredicateError};

/// Maximum nesting depth. The parser recurses, so a deeper condition could overflow the stack.
const MAX_DEPTH: usize = 64;

/// Returns the tree and the names that occur in it.
pub fn parse(text: &str) -> Result<(Node, Vec<Name>), PredicateError> {
    let mut parser = Parser { text, tokens: tokens(text)?, at: 0, names: Vec::new(), depth: 0 };
    let root = parser.any()?;
    match parser.peek() {
        Token::End => Ok((root, parser.names)),
        _ => Err(parser.expected("`and`, `or` or the end")),
    }
}

struct Parser<'a> {
    text: &'a str,
    tokens: Vec<Placed>,
    at: usize,
    names: Vec<Name>,
    depth: usize,
}

impl Parser<'_> {
    fn peek(&self) -> &Token {
        self.tokens.get(self.at).map_or(&Token::End, |(_, _, token)| token)
    }

    fn column(&self) -> usize {
        self.tokens.get(self.at).or(self.tokens.last()).map_or(0, |(column, ..)| *column)
    }

    fn error(&self, what: String) -> PredicateError {
        PredicateError { text: self.text.to_owned(), column: self.column(), what }
    }

    fn expected(&self, what: &str) -> PredicateError {
        let found = match self.tokens.get(self.at) {
            Some((begin, end, token)) if *token != Token::End => {
                format!("`{}`", self.text.chars().skip(*begin).take(end - begin).collect::<String>())
            }
            _ => "the end".to_owned(),
        };
        self.error(format!("expected {what}, found {found}"))
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
            return Err(self.error(format!("more than {MAX_DEPTH} conditions are nested here")));
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
                    return Err(self.expected("`)`, `and` or `or`"));
                }
                self.at += 1;
                node
            }
            _ => self.comparison()?,
        };
        self.depth -= 1;
        Ok(node)
    }

    fn comparison(&mut self) -> Result<Node, PredicateError> {
        let (left_column, left) = (self.column(), self.operand()?);
        let Token::Compare(how) = *self.peek() else {
            return match left {
                Operand::Name(name) => Ok(Node::Exists(name)),
                _ => Err(self.expected("a comparison (== != < <= > >= ~ !~ &)")),
            };
        };
        self.at += 1;
        if matches!(how, Comparison::Like | Comparison::Unlike) && !matches!(self.peek(), Token::Text(_)) {
            return Err(self.expected("a \"pattern\""));
        }
        let (right_column, right) = (self.column(), self.operand()?);
        Ok(Node::Compare { left, how, right, columns: [left_column, right_column] })
    }

    fn operand(&mut self) -> Result<Operand, PredicateError> {
        let operand = match self.peek().clone() {
            Token::Name(name) => {
                let known = self.names.iter().position(|known| *known == name);
                Operand::Name(known.unwrap_or_else(|| {
                    self.names.push(name);
                    self.names.len() - 1
                }))
            }
            Token::Integer(value) => Operand::Integer(value),
            Token::Real(value) => Operand::Real(value),
            Token::Duration(ns) => Operand::Duration(ns),
            Token::Text(text) => Operand::Text(text),
            Token::Moment(moment) => Operand::Moment(moment),
            _ => return Err(self.expected("a name, a number or a \"text\"")),
        };
        self.at += 1;
        Ok(operand)
    }
}
