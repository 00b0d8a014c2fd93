//! Splits the text of a condition into tokens.

use crate::{Comparison, Name, PredicateError};

#[derive(Clone, Debug, PartialEq)]
pub enum Token {
    Name(Name),
    Integer(i128),
    Real(f64),
    Duration(i128),
    Text(String),
    Moment(String),
    Compare(Comparison),
    And,
    Or,
    Not,
    Open,
    Close,
    End,
}

/// A token with the columns at which it begins and ends, in characters.
pub type Placed = (usize, usize, Token);

/// Returns the tokens of the text; the last one is [`Token::End`].
pub fn tokens(text: &str) -> Result<Vec<Placed>, PredicateError> {
    let letters: Vec<char> = text.chars().collect();
    let mut lexer = Lexer { text, letters: &letters, at: 0 };
    let mut tokens = Vec::new();
    loop {
        while letters.get(lexer.at).is_some_and(|letter| letter.is_whitespace()) {
            lexer.at += 1;
        }
        let begin = lexer.at;
        let token = lexer.next()?;
        let ended = token == Token::End;
        tokens.push((begin, lexer.at, token));
        if ended {
            return Ok(tokens);
        }
    }
}

struct Lexer<'a> {
    text: &'a str,
    letters: &'a [char],
    at: usize,
}

impl Lexer<'_> {
    fn error(&self, column: usize, what: impl Into<String>) -> PredicateError {
        PredicateError { text: self.text.to_owned(), column, what: what.into() }
    }

    fn next(&mut self) -> Result<Token, PredicateError> {
        use Comparison::*;
        let letter = |at: usize| self.letters.get(at).copied().unwrap_or('\0');
        let Some(&first) = self.letters.get(self.at) else { return Ok(Token::End) };
        let (length, token) = match (first, letter(self.at + 1)) {
            ('&', '&') => (2, Token::And),
            ('|', '|') => (2, Token::Or),
            ('=', '=') => (2, Token::Compare(Equal)),
            ('=', '~') => (2, Token::Compare(Like)),
            ('!', '=') => (2, Token::Compare(Different)),
            ('!', '~') => (2, Token::Compare(Unlike)),
            ('<', '=') => (2, Token::Compare(LessOrEqual)),
            ('>', '=') => (2, Token::Compare(GreaterOrEqual)),
            ('<', _) => (1, Token::Compare(Less)),
            ('>', _) => (1, Token::Compare(Greater)),
            ('~', _) => (1, Token::Compare(Like)),
            ('&', _) => (1, Token::Compare(Bits)),
            ('!', _) => (1, Token::Not),
            ('(', _) => (1, Token::Open),
            (')', _) => (1, Token::Close),
            ('=', _) => return Err(self.error(self.at, "write `==` to compare")),
            ('|', _) => return Err(self.error(self.at, "write `||` or `or`")),
            ('"' | '\'', _) => return self.quoted().map(Token::Text),
            ('`', _) => {
                let name = self.quoted()?;
                return self.with_argument(name);
            }
            ('+', digit) if digit.is_ascii_digit() => return Ok(Token::Moment(self.word())),
            ('-', digit) | (digit, _) if digit.is_ascii_digit() => return self.number(),
            (letter, _) if begins_name(letter) => return self.name(),
            _ => return Err(self.error(self.at, format!("`{first}` means nothing here"))),
        };
        self.at += length;
        Ok(token)
    }

    /// Reads a text between two equal quotes, of which the first one is at the current position.
    fn quoted(&mut self) -> Result<String, PredicateError> {
        let begin = self.at;
        let quote = self.letters[begin];
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
        Err(self.error(begin, format!("this {quote} has no second one")))
    }

    fn word(&mut self) -> String {
        let begin = self.at;
        let of_number = |letter: char| letter.is_alphanumeric() || letter == '.' || letter == '_';
        while self.letters.get(self.at).is_some_and(|&letter| of_number(letter) || (self.at == begin && "+-".contains(letter))) {
            self.at += 1;
        }
        self.letters[begin..self.at].iter().collect()
    }

    fn number(&mut self) -> Result<Token, PredicateError> {
        let begin = self.at;
        let word = self.word().replace('_', "");
        let (sign, digits) = match word.strip_prefix('-') {
            Some(digits) => (-1, digits),
            None => (1, word.as_str()),
        };
        let radix = |prefix: &str, radix| digits.strip_prefix(prefix).map(|digits| i128::from_str_radix(digits, radix).ok());
        let token = match radix("0x", 16).or_else(|| radix("0o", 8)).or_else(|| radix("0b", 2)) {
            Some(value) => value.map(|value| Token::Integer(sign * value)),
            None => decimal(digits, sign),
        };
        token.ok_or_else(|| {
            self.error(begin, format!("`{word}` is not a number; write 5, -5, 0x1f, 1.5, or a time as 5us (ns, us, ms, s, m, h)"))
        })
    }

    fn name(&mut self) -> Result<Token, PredicateError> {
        let begin = self.at;
        while let Some(&letter) = self.letters.get(self.at) {
            if begins_name(letter) || letter.is_ascii_digit() || letter == '.' {
                self.at += 1;
            } else if letter == '[' {
                let digits = self.letters[self.at + 1..].iter().take_while(|letter| letter.is_ascii_digit()).count();
                if digits == 0 || self.letters.get(self.at + 1 + digits) != Some(&']') {
                    return Err(self.error(self.at, "an element is written as [0]"));
                }
                self.at += digits + 2;
            } else {
                break;
            }
        }
        let name: String = self.letters[begin..self.at].iter().collect();
        match name.as_str() {
            "and" => Ok(Token::And),
            "or" => Ok(Token::Or),
            "not" => Ok(Token::Not),
            _ => self.with_argument(name),
        }
    }

    /// Adds the text in parentheses that directly follows a name: `("worker::parse")`.
    fn with_argument(&mut self, name: String) -> Result<Token, PredicateError> {
        if self.letters.get(self.at) != Some(&'(') || !matches!(self.letters.get(self.at + 1), Some('"' | '\'')) {
            return Ok(Token::Name(Name { name, argument: None }));
        }
        self.at += 1;
        let argument = self.quoted()?;
        match self.letters.get(self.at) {
            Some(')') => {
                self.at += 1;
                Ok(Token::Name(Name { name, argument: Some(argument) }))
            }
            found => {
                let found = found.map_or_else(|| "the end".to_owned(), |letter| format!("`{letter}`"));
                Err(self.error(self.at, format!("expected `)`, found {found}")))
            }
        }
    }
}

fn begins_name(letter: char) -> bool {
    letter.is_alphabetic() || matches!(letter, '_' | '$')
}

/// Parses a decimal number, with a unit of time as a duration in ns.
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
    Some(Token::Duration(sign * ns))
}
