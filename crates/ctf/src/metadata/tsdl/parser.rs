//! Tokens to syntax tree, by recursive descent. The depth of nesting is bounded, so that no text
//! can exhaust the stack.

use super::lexer::{Token, Tokens};
use super::syntax::*;
use crate::error::{Span, SpanError};

type Result<T> = std::result::Result<T, SpanError>;

/// Maximum depth of nesting: more than any tool writes, and small enough for the stack of a thread.
const MAX_DEPTH: usize = 540;

/// Words of C that may follow one another in the name of a type.
const C_WORDS: [&str; 13] =
    ["void", "char", "short", "int", "long", "float", "double", "signed", "unsigned", "_Bool", "_Complex", "_Imaginary", "const"];

/// Words that cannot be the name of a field or type: tracers write an underscore before them. The
/// words of C are allowed, because tracers use them.
const RESERVED: [&str; 15] = [
    "align",
    "callsite",
    "clock",
    "enum",
    "env",
    "event",
    "floating_point",
    "integer",
    "stream",
    "string",
    "struct",
    "trace",
    "typealias",
    "typedef",
    "variant",
];

/// Words that begin a type expression.
const TYPES: [&str; 6] = ["integer", "floating_point", "string", "struct", "variant", "enum"];

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

    /// A word that may be the name of a field, type or event.
    fn identifier(&mut self, what: &str) -> Result<String> {
        let span = self.span();
        let word = self.word(what)?;
        if RESERVED.contains(&word.as_str()) {
            return Err(SpanError::new(span, format!("`{word}` is a reserved word and cannot be {what}")));
        }
        Ok(word)
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

    /// `struct name { … };`. The grammar allows several before one semicolon, as in C.
    fn named_type(&mut self) -> Result<Item> {
        let start = self.span();
        let ty = self.type_expr()?;
        if !self.is_named_type() {
            self.expect(";")?;
        }
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
                let name = self.type_name("the alias's name")?;
                self.expect(";")?;
                let kind = ItemKind::Alias { ty, declarators, names: vec![name] };
                Ok(Some(Item { span: self.from(start), kind }))
            }
            Some("typedef") => {
                self.at += 1;
                let ty = self.type_expr()?;
                let declarators = self.declarators()?;
                // A `typealias` may define such a word, but a `typedef` may not.
                if let Some(Declarator { name, span, .. }) = declarators.iter().find(|d| C_WORDS.contains(&d.name.as_str())) {
                    return Err(SpanError::new(*span, format!("`{name}` is a reserved word and cannot be the name of a typedef")));
                }
                self.expect(";")?;
                let names = declarators.iter().map(|d| d.name.clone()).collect();
                Ok(Some(Item { span: self.from(start), kind: ItemKind::Alias { ty, declarators, names } }))
            }
            _ => Ok(None),
        }
    }

    /// Words of C, or one other word, followed by stars: `unsigned long *`. `const` is dropped,
    /// because it has no meaning in a trace.
    fn type_name(&mut self, what: &str) -> Result<String> {
        let mut name = String::new();
        while let Some(word) = self.peek_word().filter(|w| C_WORDS.contains(w)) {
            if word != "const" {
                name.push_str(if name.is_empty() { "" } else { " " });
                name.push_str(word);
            }
            self.at += 1;
        }
        if name.is_empty() {
            name = self.identifier(what)?;
        }
        loop {
            if self.eat("*") {
                name.push_str(" *");
            } else if self.peek_word() == Some("const") {
                self.at += 1;
            } else {
                return Ok(name);
            }
        }
    }

    /// An item of a trace, clock, stream or event block: an assignment or a declaration.
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

    /// The attributes of `integer { … }` and similar types: assignments.
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

    /// A path to a field. Only a path of several words may begin with a reserved word.
    fn reference(&mut self, what: &str) -> Result<Vec<String>> {
        if self.is_mark(1, ".") || self.is_mark(1, "->") {
            return self.path(what);
        }
        Ok(vec![self.identifier(what)?])
    }

    fn value(&mut self) -> Result<Value> {
        match self.peek() {
            Some(Token::Word(_)) => Ok(Value::Path(self.path("a value")?)),
            Some(Token::Text(text)) => {
                let text = text.clone();
                self.at += 1;
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
        let Some(word) = self.peek_word().map(str::to_owned) else { return self.wrong("a type") };
        if !TYPES.contains(&word.as_str()) {
            let kind = TypeKind::Named(self.type_name("a type")?);
            return Ok(TypeExpr { span: self.from(start), kind });
        }
        self.at += 1;
        let kind = match word.as_str() {
            "integer" => TypeKind::Integer(self.attributes()?),
            "floating_point" => TypeKind::Float(self.attributes()?),
            "string" => TypeKind::String(if self.is_mark(0, "{") { self.attributes()? } else { Vec::new() }),
            "struct" => {
                let name = self.optional_name()?;
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
                let name = self.optional_name()?;
                let tag_start = self.span();
                let mut tag = None;
                if self.eat("<") {
                    let path = self.reference("the tag's name")?;
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
                let name = self.optional_name()?;
                let base = if self.eat(":") { Some(Box::new(self.type_expr()?)) } else { None };
                let body = if self.is_mark(0, "{") { Some(self.enumerators()?) } else { None };
                if name.is_none() && body.is_none() {
                    return self.wrong("a name or `{`");
                }
                TypeKind::Enum { name, base, body }
            }
            _ => return self.wrong("a type"),
        };
        let ty = TypeExpr { span: self.from(start), kind };
        if self.is_mark(0, "*") {
            return Err(SpanError::new(ty.span, "a pointer to this is not in the language"));
        }
        Ok(ty)
    }

    fn optional_name(&mut self) -> Result<Option<String>> {
        self.peek_word().is_some().then_some(()).map(|()| self.identifier("a type's name")).transpose()
    }

    fn optional_body(&mut self) -> Result<Option<Vec<Item>>> {
        if !self.is_mark(0, "{") {
            return Ok(None);
        }
        self.block(Parser::member).map(Some)
    }

    fn enumerators(&mut self) -> Result<Vec<Enumerator>> {
        let start = self.span();
        self.expect("{")?;
        let mut list = Vec::new();
        while !self.eat("}") {
            let label_start = self.span();
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
            list.push(Enumerator { label, span: self.from(label_start), range });
            if !self.eat(",") && !self.is_mark(0, "}") {
                return self.wrong("`,` or `}`");
            }
        }
        if list.is_empty() {
            return Err(SpanError::new(self.from(start), "an enumeration has no label"));
        }
        Ok(list)
    }

    fn declarators(&mut self) -> Result<Vec<Declarator>> {
        let mut list = Vec::new();
        loop {
            let span = self.span();
            let name = self.identifier("a name")?;
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
                Some(Token::Word(_)) => Bound::Field(self.reference("a length")?),
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
