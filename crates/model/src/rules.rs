//! Rule files: the meaning of events.
//!
//! A file is a list of `[[rule]]` entries. The first rule decides whose pattern matches the event's
//! name, whose fields exist and whose `when` holds. A wrong rule is rejected with the file, the
//! line, and what was expected: a rule that is silently skipped would make an answer silently
//! wrong.

pub mod plan;
pub mod value;

use longpole_predicate::Predicate;
use serde::de::DeserializeOwned;
use serde::Deserialize;
use std::ops::Range;
use std::sync::Arc;
use toml::Spanned;

const BUILT_IN: [(&str, &str); 3] = [
    ("probes.toml", include_str!("../rules/probes.toml")),
    ("genode.toml", include_str!("../rules/genode.toml")),
    ("sel4.toml", include_str!("../rules/sel4.toml")),
];

/// The rules about events of programs, in order of precedence.
#[derive(Clone, Debug, Default)]
pub struct Rules {
    pub(crate) rules: Vec<Rule>,
    /// Number of rules that are not built in; they come first.
    of_user: usize,
}

/// A rule that is not built in, for reports about rules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UserRule {
    pub file: String,
    pub line: usize,
    pub event: String,
}

/// A checked rule.
#[derive(Clone, Debug)]
pub(crate) struct Rule {
    pub file: Arc<str>,
    pub line: usize,
    pub pattern: Pattern,
    pub when: Option<Predicate>,
    pub action: Action,
    pub name: Option<Template>,
    pub machine: Option<Template>,
    /// The actor of the event, if that is not the event's thread.
    pub as_actor: Option<Template>,
    pub id: Option<Template>,
    pub count: Option<Template>,
    pub value: Option<Template>,
    pub object: Option<Template>,
    pub kind: Option<Template>,
}

/// What a rule makes of an event. Each action corresponds to an operation in [`crate::step::Op`],
/// or to none (`Ignore`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    State,
    Declared,
    Begin,
    End,
    Mark,
    Counter,
    Call,
    Returned,
    Dispatch,
    Reply,
    Submit,
    Receive,
    Wait,
    Put,
    Get,
    Peek,
    Reserve,
    WaitEmpty,
    WaitFull,
    Size,
    Flow,
    Block,
    Wake,
    Ignore,
}

impl Action {
    const ALL: [(&'static str, Action); 24] = [
        ("state", Action::State),
        ("declared", Action::Declared),
        ("begin", Action::Begin),
        ("end", Action::End),
        ("mark", Action::Mark),
        ("counter", Action::Counter),
        ("call", Action::Call),
        ("returned", Action::Returned),
        ("dispatch", Action::Dispatch),
        ("reply", Action::Reply),
        ("submit", Action::Submit),
        ("receive", Action::Receive),
        ("wait", Action::Wait),
        ("put", Action::Put),
        ("get", Action::Get),
        ("peek", Action::Peek),
        ("reserve", Action::Reserve),
        ("wait_empty", Action::WaitEmpty),
        ("wait_full", Action::WaitFull),
        ("size", Action::Size),
        ("flow", Action::Flow),
        ("block", Action::Block),
        ("wake", Action::Wake),
        ("ignore", Action::Ignore),
    ];

    fn needs_name(self) -> bool {
        !matches!(self, Action::Wait | Action::Flow | Action::Ignore)
    }
}

/// An event name in which `*` matches any text. The texts matched by stars are captured.
#[derive(Clone, Debug)]
pub struct Pattern {
    parts: Vec<String>,
}

impl Pattern {
    pub fn new(text: &str) -> Pattern {
        Pattern { parts: text.split('*').map(str::to_owned).collect() }
    }

    pub(crate) fn stars(&self) -> usize {
        self.parts.len() - 1
    }

    /// The pattern as it was written.
    pub fn text(&self) -> String {
        self.parts.join("*")
    }

    /// The texts matched by the stars; `None` if the name does not match. An earlier star takes as
    /// much as it can: in `state:*::*` the last `::` separates, because names of machines may be
    /// qualified.
    pub fn captures(&self, name: &str) -> Option<Vec<String>> {
        let (first, rest) = self.parts.split_first()?;
        let mut left = name.strip_prefix(first.as_str())?;
        let Some((last, middle)) = rest.split_last() else {
            return left.is_empty().then(Vec::new);
        };
        left = left.strip_suffix(last.as_str())?;
        let mut captures = Vec::new();
        for part in middle.iter().rev() {
            let at = left.rfind(part.as_str())?;
            captures.push(left[at + part.len()..].to_owned());
            left = &left[..at];
        }
        captures.push(left.to_owned());
        captures.reverse();
        Some(captures)
    }
}

/// The source of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Template {
    Text(String),
    Capture(usize),
    Field(String),
    /// A text followed by the value of a field.
    TextAndField(String, String),
}

/// Why a rule file was rejected, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file}:{line}: {message}")]
pub struct RuleError {
    pub file: String,
    pub line: usize,
    pub message: String,
}

impl RuleError {
    /// An error at a byte offset of the file's text.
    pub fn at(file: &str, text: &str, offset: usize, message: String) -> RuleError {
        RuleError { file: file.to_owned(), line: line_of(text, offset), message }
    }
}

/// The text of a rule file, with the file's name for errors.
pub(crate) struct RuleText<'a> {
    pub file: &'a str,
    pub text: &'a str,
}

impl RuleText<'_> {
    pub fn error(&self, span: Range<usize>, message: String) -> RuleError {
        RuleError::at(self.file, self.text, span.start, message)
    }

    /// The action of a rule, out of those that its kind of rules has.
    pub fn action<A: Copy>(&self, all: &[(&str, A)], text: &Spanned<String>) -> Result<A, RuleError> {
        all.iter().find(|(name, _)| name == text.get_ref()).map(|(_, action)| *action).ok_or_else(|| {
            let names: Vec<&str> = all.iter().map(|(name, _)| *name).collect();
            self.error(text.span(), format!("unknown action \"{}\": expected one of {}", text.get_ref(), names.join(", ")))
        })
    }

    /// The source of a value, in a rule whose pattern has `stars` stars.
    pub fn template(&self, text: Option<&Spanned<String>>, stars: usize) -> Result<Option<Template>, RuleError> {
        let Some(text) = text else { return Ok(None) };
        template(text.get_ref(), stars).map(Some).map_err(|message| self.error(text.span(), message))
    }
}

/// Parses a rule file. Unknown entries are rejected with their line.
pub fn parse<T: DeserializeOwned>(file: &str, text: &str) -> Result<T, RuleError> {
    toml::from_str(text).map_err(|error| {
        let offset = error.span().map_or(0, |span| span.start);
        RuleError::at(file, text, offset, error.message().trim().to_owned())
    })
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    rule: Vec<Spanned<Entry>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    event: Spanned<String>,
    #[serde(rename = "do")]
    action: Spanned<String>,
    when: Option<Spanned<String>>,
    name: Option<Spanned<String>>,
    machine: Option<Spanned<String>>,
    #[serde(rename = "as")]
    as_actor: Option<Spanned<String>>,
    id: Option<Spanned<String>>,
    count: Option<Spanned<String>>,
    value: Option<Spanned<String>>,
    object: Option<Spanned<String>>,
    kind: Option<Spanned<String>>,
}

impl Rule {
    /// Fields without which the rule does not apply.
    pub fn needed_fields(&self) -> impl Iterator<Item = &str> {
        [&self.name, &self.machine, &self.as_actor].into_iter().flatten().filter_map(|template| match template {
            Template::Field(field) | Template::TextAndField(_, field) => Some(field.as_str()),
            Template::Text(_) | Template::Capture(_) => None,
        })
    }
}

impl Rules {
    /// The rules that apply to every trace.
    pub fn built_in() -> Result<Rules, RuleError> {
        Rules::default().with_built_in()
    }

    /// Appends the built-in rules. The rules added before take precedence.
    pub fn with_built_in(mut self) -> Result<Rules, RuleError> {
        self.of_user = self.rules.len();
        for (file, text) in BUILT_IN {
            self.add(file, text)?;
        }
        Ok(self)
    }

    /// The rules that are not built in, in order.
    pub fn own(&self) -> impl Iterator<Item = UserRule> + '_ {
        self.rules[..self.of_user].iter().map(|rule| UserRule { file: rule.file.to_string(), line: rule.line, event: rule.pattern.text() })
    }

    pub fn has_of_user(&self) -> bool {
        self.of_user > 0
    }

    pub fn len(&self) -> usize {
        self.rules.len()
    }

    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// Appends the rules of a file; earlier rules take precedence. Nothing is added if one of them
    /// is wrong.
    pub fn add(&mut self, file: &str, text: &str) -> Result<(), RuleError> {
        let place = RuleText { file, text };
        let parsed: File = parse(file, text)?;
        let mut rules = Vec::new();
        let name: Arc<str> = file.into();
        for entry in parsed.rule {
            let span = entry.span();
            rules.push(check(entry.into_inner(), span, &place, &name)?);
        }
        self.rules.extend(rules);
        Ok(())
    }
}

fn check(entry: Entry, whole: Range<usize>, place: &RuleText<'_>, file: &Arc<str>) -> Result<Rule, RuleError> {
    let pattern = Pattern::new(entry.event.get_ref());
    let stars = pattern.stars();
    let action = place.action(&Action::ALL, &entry.action)?;
    let when = match &entry.when {
        Some(text) => Some(
            Predicate::parse(text.get_ref())
                .and_then(Predicate::with_plain_names)
                .map_err(|error| place.error(text.span(), format!("`when`: {error}")))?,
        ),
        None => None,
    };
    let template = |text: &Option<Spanned<String>>| place.template(text.as_ref(), stars);
    let rule = Rule {
        file: file.clone(),
        line: line_of(place.text, entry.event.span().start),
        name: template(&entry.name)?,
        machine: template(&entry.machine)?,
        as_actor: template(&entry.as_actor)?,
        id: template(&entry.id)?,
        count: template(&entry.count)?,
        value: template(&entry.value)?,
        object: template(&entry.object)?,
        kind: template(&entry.kind)?,
        pattern,
        when,
        action,
    };
    if rule.name.is_none() && action.needs_name() {
        return Err(place.error(whole, format!("expected `name` for `do = \"{}\"`", entry.action.get_ref())));
    }
    if rule.machine.is_none() && action == Action::State {
        return Err(place.error(whole, "expected `machine` for `do = \"state\"`".to_owned()));
    }
    Ok(rule)
}

fn template(text: &str, stars: usize) -> Result<Template, String> {
    if let Some(field) = text.strip_prefix('@') {
        return match field {
            "" => Err("expected the name of a field after `@`".to_owned()),
            _ => Ok(Template::Field(field.to_owned())),
        };
    }
    if let Some(number) = text.strip_prefix('$') {
        return match number.parse::<usize>() {
            Ok(number) if (1..=stars).contains(&number) => Ok(Template::Capture(number - 1)),
            _ => Err(format!("`{text}` refers to no star: expected $1 to ${stars} (the pattern has {stars})")),
        };
    }
    // A field is only recognised as a word of its own, so that an e-mail address is a text.
    match text.rsplit_once(" @") {
        Some((before, field)) if !field.is_empty() && !field.contains(char::is_whitespace) => {
            Ok(Template::TextAndField(format!("{before} "), field.to_owned()))
        }
        _ => Ok(Template::Text(text.to_owned())),
    }
}

fn line_of(text: &str, offset: usize) -> usize {
    1 + text.as_bytes()[..offset.min(text.len())].iter().filter(|&&byte| byte == b'\n').count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_built_in_rules_can_be_read() {
        assert!(Rules::built_in().unwrap().rules.len() > 40);
    }

    #[test]
    fn the_last_separator_separates_machine_and_state() {
        let captures = |name: &str| Pattern::new("state:*::*").captures(name);
        assert_eq!(captures("state:a::b").unwrap(), ["a", "b"]);
        assert_eq!(captures("state:ns::a::b").unwrap(), ["ns::a", "b"]);
        assert_eq!(captures("state:a"), None);
        assert_eq!(Pattern::new("exact").captures("exact").unwrap().len(), 0);
        assert_eq!(Pattern::new("exact").captures("exactly"), None);
        assert_eq!(Pattern::new("ab*ba").captures("aba"), None);
    }

    fn refused(text: &str) -> RuleError {
        Rules::default().add("mine.toml", text).unwrap_err()
    }

    #[test]
    fn a_wrong_rule_is_rejected_with_its_line_and_what_was_expected() {
        let error = refused("[[rule]]\nevent = \"a\"\ndo = \"jump\"\n");
        assert_eq!((error.file.as_str(), error.line), ("mine.toml", 3));
        assert!(error.message.contains("expected one of state"), "{error}");

        let error = refused("\n[[rule]]\nevent = \"a:*\"\ndo = \"begin\"\nname = \"$2\"\n");
        assert_eq!(error.line, 5);
        assert!(error.message.contains("$1 to $1"), "{error}");

        let error = refused("[[rule]]\nevent = \"a\"\ndo = \"begin\"\nwhen = \"x >\"\nname = \"n\"\n");
        assert_eq!(error.line, 4);
        assert!(error.message.contains("column 4"), "{error}");

        let error = refused("# nothing\n[[rule]]\nevent = \"a\"\ndo = \"put\"\n");
        assert_eq!(error.line, 2);
        assert!(error.message.contains("expected `name`"), "{error}");

        let error = refused("[[rule]]\nevent = \"a\"\ndo = \"wait\"\nspeed = 1\n");
        assert_eq!(error.line, 4);
        assert!(error.message.contains("speed"), "{error}");

        assert_eq!(refused("[[rule]\n").line, 1);
    }
}
