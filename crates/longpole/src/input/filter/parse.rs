//! Parses the text of a filter into a tree. Users type filters by hand, so every error shows the
//! position at which the filter is wrong.

use longpole_trace::Moment;
use std::fmt;

#[derive(Clone, Debug, PartialEq)]
pub enum Node {
    Any(Vec<Node>),
    All(Vec<Node>),
    Not(Box<Node>),
    /// True if the value with this name exists.
    Is(usize),
    Compare(Operand, Comparison, Operand),
}

#[derive(Clone, Debug, PartialEq)]
pub enum Operand {
    /// Index into the list of names.
    Name(usize),
    Integer(i128),
    Real(f64),
    Text(Vec<u8>),
    Moment(Moment),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    Equal,
    Different,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    /// The text matches a pattern.
    Like,
    Unlike,
    /// The two numbers have a bit in common.
    Bits,
}

/// A description of what is wrong with a filter, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wrong {
    text: String,
    /// Position in characters, from 0.
    column: usize,
    what: String,
}

impl fmt::Display for Wrong {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let line: String = self.text.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).collect();
        write!(out, "{}\n  {line}\n  {:>width$}", self.what, "^", width = self.column + 1)
    }
}

impl std::error::Error for Wrong {}

/// Maximum nesting depth. The parser recurses, so a deeper filter could overflow the stack.
const MOST_NESTED: usize = 64;

/// Returns the tree and the names that occur in it.
pub fn parse(text: &str) -> Result<(Node, Vec<String>), Wrong> {
    let letters: Vec<char> = text.chars().collect();
    let tokens = Lexer { text, letters: &letters, at: 0 }.all()?;
    let mut parser = Parser { text, tokens, at: 0, names: Vec::new(), depth: 0 };
    let root = parser.any()?;
    match parser.peek() {
        Token::End => Ok((root, parser.names)),
        _ => Err(parser.expected("`and`, `or` or the end")),
    }
}

#[derive(Clone, Debug, PartialEq)]
enum Token {
    Name(String),
    Integer(i128),
    Real(f64),
    Text(String),
    Moment(Moment),
    Compare(Comparison),
    And,
    Or,
    Not,
    Open,
    Close,
    End,
}

struct Lexer<'a> {
    text: &'a str,
    letters: &'a [char],
    at: usize,
}

impl Lexer<'_> {
    fn wrong(&self, column: usize, what: impl Into<String>) -> Wrong {
        Wrong { text: self.text.to_owned(), column, what: what.into() }
    }

    fn all(mut self) -> Result<Vec<(usize, usize, Token)>, Wrong> {
        let mut tokens = Vec::new();
        loop {
            while self.letters.get(self.at).is_some_and(|letter| letter.is_whitespace()) {
                self.at += 1;
            }
            let begin = self.at;
            let token = self.one()?;
            let ended = token == Token::End;
            tokens.push((begin, self.at, token));
            if ended {
                return Ok(tokens);
            }
        }
    }

    fn one(&mut self) -> Result<Token, Wrong> {
        use Comparison::*;
        let letter = |at: usize| self.letters.get(at).copied().unwrap_or('\0');
        let Some(&first) = self.letters.get(self.at) else { return Ok(Token::End) };
        let (second, third) = (letter(self.at + 1), letter(self.at + 2));
        let (length, token) = match (first, second, third) {
            ('&', '&', _) => (2, Token::And),
            ('|', '|', _) => (2, Token::Or),
            ('=', '=', _) => (2, Token::Compare(Equal)),
            ('=', '~', _) => (2, Token::Compare(Like)),
            ('!', '=', _) => (2, Token::Compare(Different)),
            ('!', '~', _) => (2, Token::Compare(Unlike)),
            ('<', '=', _) => (2, Token::Compare(LessOrEqual)),
            ('>', '=', _) => (2, Token::Compare(GreaterOrEqual)),
            ('<', ..) => (1, Token::Compare(Less)),
            ('>', ..) => (1, Token::Compare(Greater)),
            ('~', ..) => (1, Token::Compare(Like)),
            ('&', ..) => (1, Token::Compare(Bits)),
            ('!', ..) => (1, Token::Not),
            ('(', ..) => (1, Token::Open),
            (')', ..) => (1, Token::Close),
            ('=', ..) => return Err(self.wrong(self.at, "one `=` compares nothing; write `==`")),
            ('|', ..) => return Err(self.wrong(self.at, "one `|` means nothing; write `||` or `or`")),
            ('"' | '\'', ..) => return self.quoted(first).map(Token::Text),
            ('`', ..) => return self.quoted(first).map(Token::Name),
            ('+', digit, _) if digit.is_ascii_digit() => return self.moment(),
            ('-', digit, _) | (digit, ..) if digit.is_ascii_digit() => return self.number(),
            (letter, ..) if begins_name(letter) => return self.name(),
            _ => return Err(self.wrong(self.at, format!("`{first}` means nothing here"))),
        };
        self.at += length;
        Ok(token)
    }

    fn quoted(&mut self, quote: char) -> Result<String, Wrong> {
        let begin = self.at;
        let mut text = String::new();
        self.at += 1;
        while let Some(&letter) = self.letters.get(self.at) {
            self.at += 1;
            match letter {
                letter if letter == quote => return Ok(text),
                '\\' => match self.letters.get(self.at) {
                    Some(&next) => {
                        self.at += 1;
                        match next {
                            'n' => text.push('\n'),
                            't' => text.push('\t'),
                            next if next == quote || next == '\\' => text.push(next),
                            // Keeps the backslash: in a pattern it means that the next character
                            // matches only itself.
                            next => text.extend(['\\', next]),
                        }
                    }
                    None => break,
                },
                letter => text.push(letter),
            }
        }
        Err(self.wrong(begin, format!("this {quote} has no second one")))
    }

    fn word(&mut self) -> String {
        let begin = self.at;
        let of_number = |letter: char| letter.is_alphanumeric() || letter == '.' || letter == '_';
        while self.letters.get(self.at).is_some_and(|&letter| of_number(letter) || (self.at == begin && "+-".contains(letter))) {
            self.at += 1;
        }
        self.letters[begin..self.at].iter().collect()
    }

    fn moment(&mut self) -> Result<Token, Wrong> {
        let begin = self.at;
        let word = self.word();
        Moment::parse(&word).map(Token::Moment).map_err(|what| self.wrong(begin, what))
    }

    fn number(&mut self) -> Result<Token, Wrong> {
        let begin = self.at;
        let word = self.word().replace('_', "");
        let (negative, digits) = match word.strip_prefix('-') {
            Some(digits) => (true, digits),
            None => (false, word.as_str()),
        };
        let radix = |prefix: &str, radix| digits.strip_prefix(prefix).map(|digits| i128::from_str_radix(digits, radix).ok());
        let parsed = radix("0x", 16).or_else(|| radix("0o", 8)).or_else(|| radix("0b", 2));
        let token = match parsed {
            Some(value) => value.map(|value| Token::Integer(if negative { -value } else { value })),
            None => decimal(digits, if negative { -1 } else { 1 }),
        };
        token.ok_or_else(|| {
            self.wrong(begin, format!("`{word}` is no number; write 5, -5, 0x1f, 1.5, or a time as 5us (ns, us, ms, s, m, h)"))
        })
    }

    fn name(&mut self) -> Result<Token, Wrong> {
        let begin = self.at;
        while let Some(&letter) = self.letters.get(self.at) {
            if begins_name(letter) || letter.is_ascii_digit() || letter == '.' {
                self.at += 1;
            } else if letter == '[' {
                let digits = self.letters[self.at + 1..].iter().take_while(|letter| letter.is_ascii_digit()).count();
                if digits == 0 || self.letters.get(self.at + 1 + digits) != Some(&']') {
                    return Err(self.wrong(self.at, "an element is written as [0]"));
                }
                self.at += digits + 2;
            } else {
                break;
            }
        }
        let name: String = self.letters[begin..self.at].iter().collect();
        Ok(match name.as_str() {
            "and" => Token::And,
            "or" => Token::Or,
            "not" => Token::Not,
            _ => Token::Name(name),
        })
    }
}

fn begins_name(letter: char) -> bool {
    letter.is_alphabetic() || matches!(letter, '_' | '$')
}

/// Parses a decimal number. A number with a unit of time is converted to ns.
fn decimal(text: &str, sign: i128) -> Option<Token> {
    let digits = text.find(|letter: char| letter.is_alphabetic() && !matches!(letter, 'e' | 'E')).unwrap_or(text.len());
    let unit: i128 = match &text[digits..] {
        "" => {
            return match text.parse::<i128>() {
                Ok(value) => Some(Token::Integer(sign * value)),
                Err(_) => text.parse::<f64>().ok().filter(|value| value.is_finite()).map(|value| Token::Real(sign as f64 * value)),
            };
        }
        "ns" => 1,
        "us" | "µs" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "m" | "min" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        _ => return None,
    };
    let (whole, fraction) = text[..digits].split_once('.').unwrap_or((&text[..digits], ""));
    if fraction.len() > 18 || !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let mut ns = whole.parse::<i128>().ok()?.checked_mul(unit)?;
    if !fraction.is_empty() {
        ns = ns.checked_add(fraction.parse::<i128>().ok()?.checked_mul(unit)? / 10i128.pow(fraction.len() as u32))?;
    }
    Some(Token::Integer(sign * ns))
}

struct Parser<'a> {
    text: &'a str,
    /// The tokens, with the columns at which they begin and end.
    tokens: Vec<(usize, usize, Token)>,
    at: usize,
    names: Vec<String>,
    depth: usize,
}

impl Parser<'_> {
    fn peek(&self) -> &Token {
        self.tokens.get(self.at).map_or(&Token::End, |(_, _, token)| token)
    }

    fn wrong(&self, what: String) -> Wrong {
        let column = self.tokens.get(self.at).or(self.tokens.last()).map_or(0, |(column, ..)| *column);
        Wrong { text: self.text.to_owned(), column, what }
    }

    fn expected(&self, what: &str) -> Wrong {
        let found = match self.tokens.get(self.at) {
            Some((begin, end, token)) if *token != Token::End => {
                format!("`{}`", self.text.chars().skip(*begin).take(end - begin).collect::<String>())
            }
            _ => "the end".to_owned(),
        };
        self.wrong(format!("expected {what}, found {found}"))
    }

    fn any(&mut self) -> Result<Node, Wrong> {
        let mut nodes = vec![self.all()?];
        while *self.peek() == Token::Or {
            self.at += 1;
            nodes.push(self.all()?);
        }
        Ok(if nodes.len() == 1 { nodes.remove(0) } else { Node::Any(nodes) })
    }

    fn all(&mut self) -> Result<Node, Wrong> {
        let mut nodes = vec![self.one()?];
        while *self.peek() == Token::And {
            self.at += 1;
            nodes.push(self.one()?);
        }
        Ok(if nodes.len() == 1 { nodes.remove(0) } else { Node::All(nodes) })
    }

    fn one(&mut self) -> Result<Node, Wrong> {
        if self.depth >= MOST_NESTED {
            return Err(self.wrong(format!("more than {MOST_NESTED} conditions are nested here")));
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

    fn comparison(&mut self) -> Result<Node, Wrong> {
        let (left_at, left) = (self.at, self.operand()?);
        let Token::Compare(how) = *self.peek() else {
            return match left {
                Operand::Name(name) => Ok(Node::Is(name)),
                _ => Err(self.expected("a comparison (== != < <= > >= ~ !~ &)")),
            };
        };
        self.at += 1;
        if matches!(how, Comparison::Like | Comparison::Unlike) && !matches!(self.peek(), Token::Text(_)) {
            return Err(self.expected("a \"pattern\""));
        }
        let (right_at, right) = (self.at, self.operand()?);
        let left = self.of_time(left, &right, left_at)?;
        let right = self.of_time(right, &left, right_at)?;
        for (operand, other, at) in [(&left, &right, left_at), (&right, &left, right_at)] {
            if matches!(operand, Operand::Moment(_)) && !self.is_time(other) {
                self.at = at;
                return Err(self.wrong("only `t` can be compared with a moment; a duration has no `+`".to_owned()));
            }
        }
        Ok(Node::Compare(left, how, right))
    }

    fn is_time(&self, operand: &Operand) -> bool {
        matches!(operand, Operand::Name(name) if self.names[*name] == "t")
    }

    /// Converts a text that is compared with `t` into a moment.
    fn of_time(&mut self, operand: Operand, other: &Operand, at: usize) -> Result<Operand, Wrong> {
        match &operand {
            Operand::Text(text) if self.is_time(other) => {
                let parsed = Moment::parse(&String::from_utf8_lossy(text));
                self.at = if parsed.is_err() { at } else { self.at };
                parsed.map(Operand::Moment).map_err(|what| self.wrong(what))
            }
            _ => Ok(operand),
        }
    }

    fn operand(&mut self) -> Result<Operand, Wrong> {
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
            Token::Text(text) => Operand::Text(text.into_bytes()),
            Token::Moment(moment) => Operand::Moment(moment),
            _ => return Err(self.expected("a name, a number or a \"text\"")),
        };
        self.at += 1;
        Ok(operand)
    }
}
