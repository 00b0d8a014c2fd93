//! Tokens to syntax tree, by recursive descent. The depth of nesting is bounded, so that no text can exhaust the stack.

use super::lexer::{Token, Tokens};
use super::syntax::*;
use crate::error::{Span, SpanError};

type Result<T> = std::result::Result<T, SpanError>;

/// More than any tool writes, little enough for a thread's stack.
const MAX_DEPTH: usize = 100;

/// Words of C that may follow one another in a type's name.
const C_WORDS: [&str; 13] =
    ["void", "char", "short", "int", "long", "float", "double", "signed", "unsigned", "_Bool", "_Complex", "_Imaginary", "const"];

const BLOCKS: [&str; 6] = ["trace", "env", "clock", "stream", "event", "callsite"];

pub(crate) fn parse(tokens: &Tokens, end: usize) -> Result<Vec<Item>> {
    let mut parser = Parser { tokens, at: 0, depth: 0, end };
    let mut items = Vec::new();
    while parser.at < tokens.len() {
        if !parser.eat(";") {
            items.push(parser.top_item()?);
        }
    }
    Ok(items)
}

struct Parser<'t> {
    tokens: &'t Tokens,
    at: usize,
    depth: usize,
    end: usize,
}

impl Parser<'_> {
    fn span(&self) -> Span {
        self.tokens.get(self.at).map_or(Span { start: self.end, end: self.end }, |t| t.1)
    }

    fn from(&self, start: Span) -> Span {
        let end = self.at.checked_sub(1).and_then(|i| self.tokens.get(i)).map_or(start.end, |t| t.1.end);
        Span { start: start.start, end }
    }

    fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.at).map(|t| &t.0)
    }

    fn peek_word(&self) -> Option<&str> {
        match self.peek() {
            Some(Token::Word(w)) => Some(w),
            _ => None,
        }
    }

    fn is_mark(&self, ahead: usize, mark: &str) -> bool {
        matches!(self.tokens.get(self.at + ahead), Some((Token::Mark(m), _)) if *m == mark)
    }

    fn eat(&mut self, mark: &str) -> bool {
        let found = self.is_mark(0, mark);
        self.at += usize::from(found);
        found
    }

    fn wrong<T>(&self, wanted: &str) -> Result<T> {
        let found = self.peek().map_or("the end of the metadata".to_owned(), Token::describe);
        Err(SpanError::new(self.span(), format!("expected {wanted}, found {found}")))
    }

    fn expect(&mut self, mark: &str) -> Result<()> {
        if self.eat(mark) {
            Ok(())
        } else {
            self.wrong(&format!("`{mark}`"))
        }
    }

    fn word(&mut self, what: &str) -> Result<String> {
        match self.peek() {
            Some(Token::Word(w)) => {
                let word = w.clone();
                self.at += 1;
                Ok(word)
            }
            _ => self.wrong(what),
        }
    }

    fn nested<T>(&mut self, parse: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        if self.depth == MAX_DEPTH {
            return Err(SpanError::new(self.span(), format!("more than {MAX_DEPTH} levels of nesting")));
        }
        self.depth += 1;
        let result = parse(self);
        self.depth -= 1;
        result
    }

    fn top_item(&mut self) -> Result<Item> {
        let start = self.span();
        if self.peek_word().is_some_and(|w| BLOCKS.contains(&w)) && self.is_mark(1, "{") {
            let keyword = self.word("a block")?;
            let items = self.block(Parser::block_item)?;
            self.expect(";")?;
            return Ok(Item { span: self.from(start), kind: ItemKind::Block { keyword, items } });
        }
        if let Some(item) = self.alias()? {
            return Ok(item);
        }
        if !self.is_named_type() {
            return self.wrong("a block (trace, env, clock, stream, event) or a type declaration");
        }
        self.named_type()
    }

    fn is_named_type(&self) -> bool {
        matches!(self.peek_word(), Some("struct" | "variant" | "enum")) && !self.is_mark(1, "=") && !self.is_mark(1, ".")
    }

    /// `struct name { … };`
    fn named_type(&mut self) -> Result<Item> {
        let start = self.span();
        let ty = self.type_expr()?;
        self.expect(";")?;
        Ok(Item { span: self.from(start), kind: ItemKind::Declare(ty) })
    }

    /// `{ item… }`
    fn block(&mut self, item: impl Fn(&mut Self) -> Result<Item>) -> Result<Vec<Item>> {
        self.expect("{")?;
        let mut items = Vec::new();
        while !self.eat("}") {
            if !self.eat(";") {
                items.push(self.nested(&item)?);
            }
        }
        Ok(items)
    }

    /// `typealias` or `typedef`.
    fn alias(&mut self) -> Result<Option<Item>> {
        let start = self.span();
        match self.peek_word() {
            Some("typealias") => {
                self.at += 1;
                let ty = self.type_expr()?;
                let declarators = self.abstract_declarators()?;
                self.expect(":=")?;
                let mut name = vec![self.word("the alias's name")?];
                while let Some(word) = self.peek_word() {
                    name.push(word.to_owned());
                    self.at += 1;
                }
                while self.eat("*") {
                    name.push("*".to_owned());
                }
                self.expect(";")?;
                let kind = ItemKind::Alias { ty, declarators, names: vec![name.join(" ")] };
                Ok(Some(Item { span: self.from(start), kind }))
            }
            Some("typedef") => {
                self.at += 1;
                let ty = self.type_expr()?;
                let declarators = self.declarators()?;
                self.expect(";")?;
                let names = declarators.iter().map(|d| d.name.clone()).collect();
                Ok(Some(Item { span: self.from(start), kind: ItemKind::Alias { ty, declarators, names } }))
            }
            _ => Ok(None),
        }
    }

    /// In a trace, clock, stream or event block: an assignment or a declaration.
    fn block_item(&mut self) -> Result<Item> {
        let start = self.span();
        if let Some(item) = self.alias()? {
            return Ok(item);
        }
        if self.is_named_type() {
            return self.named_type();
        }
        let left = self.path("a name")?.join(".");
        if self.eat("=") {
            let value_start = self.span();
            let value = self.value()?;
            let value_span = self.from(value_start);
            self.expect(";")?;
            return Ok(Item { span: self.from(start), kind: ItemKind::Assign { left, value, value_span } });
        }
        if !self.eat(":=") {
            return self.wrong("`=` or `:=`");
        }
        let ty = self.type_expr()?;
        self.expect(";")?;
        Ok(Item { span: self.from(start), kind: ItemKind::AssignType { left, ty } })
    }

    /// In an `integer { … }` and the like: assignments.
    fn attributes(&mut self) -> Result<Vec<Item>> {
        self.block(Parser::block_item)
    }

    fn member(&mut self) -> Result<Item> {
        let start = self.span();
        if let Some(item) = self.alias()? {
            return Ok(item);
        }
        let ty = self.type_expr()?;
        if self.eat(";") {
            return Ok(Item { span: self.from(start), kind: ItemKind::Declare(ty) });
        }
        let declarators = self.declarators()?;
        self.expect(";")?;
        Ok(Item { span: self.from(start), kind: ItemKind::Member { ty, declarators } })
    }

    fn path(&mut self, what: &str) -> Result<Vec<String>> {
        let mut path = vec![self.word(what)?];
        while self.eat(".") || self.eat("->") {
            path.push(self.word("a name")?);
        }
        Ok(path)
    }

    fn value(&mut self) -> Result<Value> {
        match self.peek() {
            Some(Token::Word(_)) => Ok(Value::Path(self.path("a value")?)),
            Some(Token::Text(text)) => {
                let mut text = text.clone();
                self.at += 1;
                // As in C, literals side by side are one.
                while let Some(Token::Text(more)) = self.peek() {
                    text.push_str(more);
                    self.at += 1;
                }
                Ok(Value::Text(text))
            }
            _ => Ok(Value::Int(self.int("a value")?)),
        }
    }

    fn int(&mut self, what: &str) -> Result<i128> {
        let mut negative = false;
        loop {
            if self.eat("-") {
                negative = !negative;
            } else if !self.eat("+") {
                break;
            }
        }
        match self.peek() {
            Some(Token::Int(v)) => {
                let value = i128::from(*v);
                self.at += 1;
                Ok(if negative { -value } else { value })
            }
            _ => self.wrong(what),
        }
    }

    fn type_expr(&mut self) -> Result<TypeExpr> {
        self.nested(Parser::type_expr_inner)
    }

    fn type_expr_inner(&mut self) -> Result<TypeExpr> {
        let start = self.span();
        while self.peek_word() == Some("const") {
            self.at += 1;
        }
        let word = self.word("a type")?;
        let kind = match word.as_str() {
            "integer" => TypeKind::Integer(self.attributes()?),
            "floating_point" => TypeKind::Float(self.attributes()?),
            "string" => TypeKind::String(if self.is_mark(0, "{") { self.attributes()? } else { Vec::new() }),
            "struct" => {
                let name = self.optional_name();
                let body = self.optional_body()?;
                let mut align = None;
                if self.peek_word() == Some("align") && self.is_mark(1, "(") {
                    self.at += 2;
                    let span = self.span();
                    align = Some((self.int("the alignment in bits")?, span));
                    self.expect(")")?;
                }
                if name.is_none() && body.is_none() {
                    return self.wrong("a name or `{`");
                }
                TypeKind::Struct { name, body, align }
            }
            "variant" => {
                let name = self.optional_name();
                let tag_start = self.span();
                let mut tag = None;
                if self.eat("<") {
                    let path = self.path("the tag's name")?;
                    self.expect(">")?;
                    tag = Some((path, self.from(tag_start)));
                }
                let body = self.optional_body()?;
                if name.is_none() && body.is_none() {
                    return self.wrong("a name or `{`");
                }
                TypeKind::Variant { name, tag, body }
            }
            "enum" => {
                let name = self.optional_name();
                let base = if self.eat(":") { Some(Box::new(self.type_expr()?)) } else { None };
                let body = if self.is_mark(0, "{") { Some(self.enumerators()?) } else { None };
                if name.is_none() && body.is_none() {
                    return self.wrong("a name or `{`");
                }
                TypeKind::Enum { name, base, body }
            }
            c if C_WORDS.contains(&c) => {
                let mut name = word;
                while let Some(next) = self.peek_word().filter(|w| C_WORDS.contains(w)) {
                    if next != "const" {
                        name = format!("{name} {next}");
                    }
                    self.at += 1;
                }
                TypeKind::Named(name)
            }
            _ => TypeKind::Named(word),
        };
        let mut ty = TypeExpr { span: self.from(start), kind };
        // A pointer type is a type of its own, whose name ends in a star.
        while self.eat("*") {
            match &mut ty.kind {
                TypeKind::Named(name) => name.push_str(" *"),
                _ => return Err(SpanError::new(ty.span, "a pointer to this is not in the language")),
            }
            ty.span = self.from(start);
        }
        Ok(ty)
    }

    fn optional_name(&mut self) -> Option<String> {
        let name = self.peek_word()?.to_owned();
        self.at += 1;
        Some(name)
    }

    fn optional_body(&mut self) -> Result<Option<Vec<Item>>> {
        if !self.is_mark(0, "{") {
            return Ok(None);
        }
        self.block(Parser::member).map(Some)
    }

    fn enumerators(&mut self) -> Result<Vec<Enumerator>> {
        self.expect("{")?;
        let mut list = Vec::new();
        while !self.eat("}") {
            let span = self.span();
            let label = match self.peek() {
                Some(Token::Text(text)) => {
                    let text = text.clone();
                    self.at += 1;
                    text
                }
                _ => self.word("a label")?,
            };
            let mut range = None;
            if self.eat("=") {
                let low = self.int("a value")?;
                let high = if self.eat("...") { self.int("the last value")? } else { low };
                range = Some((low, high));
            }
            list.push(Enumerator { label, span, range });
            if !self.eat(",") && !self.is_mark(0, "}") {
                return self.wrong("`,` or `}`");
            }
        }
        Ok(list)
    }

    fn declarators(&mut self) -> Result<Vec<Declarator>> {
        let mut list = Vec::new();
        loop {
            let span = self.span();
            let name = self.word("a field's name")?;
            let lengths = self.lengths()?;
            list.push(Declarator { name, span, lengths });
            if !self.eat(",") {
                return Ok(list);
            }
        }
    }

    /// Brackets without a name, as in `typealias integer { … }[4] := four;`
    fn abstract_declarators(&mut self) -> Result<Vec<Declarator>> {
        let span = self.span();
        let lengths = self.lengths()?;
        Ok(if lengths.is_empty() { Vec::new() } else { vec![Declarator { name: String::new(), span, lengths }] })
    }

    fn lengths(&mut self) -> Result<Vec<(Bound, Span)>> {
        let mut lengths = Vec::new();
        while self.eat("[") {
            if lengths.len() == MAX_DEPTH {
                return self.wrong("fewer dimensions");
            }
            let start = self.span();
            let bound = match self.peek() {
                Some(Token::Word(_)) => Bound::Field(self.path("a length")?),
                _ => {
                    let value = self.int("a length")?;
                    match u64::try_from(value) {
                        Ok(value) => Bound::Fixed(value),
                        Err(_) => return Err(SpanError::new(self.from(start), "an array's length cannot be negative")),
                    }
                }
            };
            lengths.push((bound, self.from(start)));
            self.expect("]")?;
        }
        Ok(lengths)
    }
}
