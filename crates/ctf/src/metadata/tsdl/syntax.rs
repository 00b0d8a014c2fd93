//! The syntax tree of metadata text. It represents what was written, not what it means: names are
//! not resolved, and attributes are not checked.

use crate::error::Span;

#[derive(Clone, Debug)]
pub(crate) struct Item {
    pub span: Span,
    pub kind: ItemKind,
}

#[derive(Clone, Debug)]
pub(crate) enum ItemKind {
    /// `typealias OLD := NEW;` and `typedef OLD NEW;`
    Alias { ty: TypeExpr, declarators: Vec<Declarator>, names: Vec<String> },
    /// `struct name { … };` and similar declarations of a named type.
    Declare(TypeExpr),
    /// `trace { … };`, `stream { … };` …
    Block { keyword: String, items: Vec<Item> },
    /// `left = value;`
    Assign { left: String, value: Value, value_span: Span },
    /// `left := type;`
    AssignType { left: String, ty: TypeExpr },
    /// A member of a structure or variant.
    Member { ty: TypeExpr, declarators: Vec<Declarator> },
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value {
    Int(i128),
    Text(String),
    /// A word or dotted words.
    Path(Vec<String>),
}

#[derive(Clone, Debug)]
pub(crate) struct TypeExpr {
    pub span: Span,
    pub kind: TypeKind,
}

#[derive(Clone, Debug)]
pub(crate) enum TypeKind {
    Named(String),
    Integer(Vec<Item>),
    Float(Vec<Item>),
    String(Vec<Item>),
    Struct { name: Option<String>, body: Option<Vec<Item>>, align: Option<(i128, Span)> },
    Variant { name: Option<String>, tag: Option<(Vec<String>, Span)>, body: Option<Vec<Item>> },
    Enum { name: Option<String>, base: Option<Box<TypeExpr>>, body: Option<Vec<Enumerator>> },
}

#[derive(Clone, Debug)]
pub(crate) struct Enumerator {
    pub label: String,
    pub span: Span,
    pub range: Option<(i128, i128)>,
}

/// A name with its array brackets, innermost array last: `x[2][3]` has two.
#[derive(Clone, Debug)]
pub(crate) struct Declarator {
    pub name: String,
    pub span: Span,
    pub lengths: Vec<(Bound, Span)>,
}

#[derive(Clone, Debug)]
pub(crate) enum Bound {
    Fixed(u64),
    Field(Vec<String>),
}
