//! Rewrites the words and forms of the release candidates of CTF 2 to those of CTF2-SPEC-2.0.
//!
//! LTTng 2.14 before its release and the first traces for Trace Compass were written by
//! CTF2-SPECRC-4.0 to 7.0. What these say in another way, and what has the same meaning, is
//! rewritten in the parsed JSON before the schema is built. So the other modules know only the
//! final specification. Example: `"fixed-length-unsigned-enumeration"` becomes
//! `"fixed-length-unsigned-integer"`, which has had `mappings` since CTF2-SPECRC-8.0.

use super::syntax::{Json, Kind, Member};
use crate::diagnostic::DiagnosticKind;
use crate::error::Span;

/// Field classes of enumerations, and the integers that have labels instead.
const TYPES: [(&str, &str); 4] = [
    ("fixed-length-unsigned-enumeration", "fixed-length-unsigned-integer"),
    ("fixed-length-signed-enumeration", "fixed-length-signed-integer"),
    ("variable-length-unsigned-enumeration", "variable-length-unsigned-integer"),
    ("variable-length-signed-enumeration", "variable-length-signed-integer"),
];

/// Properties whose value is the location of a field.
const LOCATIONS: [&str; 2] = ["length-field-location", "selector-field-location"];

/// First elements of the location of a field that are the name of a scope.
const ORIGINS: [&str; 6] = [
    "packet-header",
    "packet-context",
    "event-record-header",
    "event-record-common-context",
    "event-record-specific-context",
    "event-record-payload",
];

/// Properties whose members have names of the user's choice. Nothing in them is rewritten.
const OF_USERS: [&str; 6] = ["attributes", "extensions", "user-attributes", "environment", "mappings", "flags"];

/// Role of a UUID that names the trace class instead of the metadata stream, up to
/// CTF2-SPECRC-5.0.
const UUID_ROLE: (&str, &str) = ("trace-class-uuid", "metadata-stream-uuid");

/// A place at which something was rewritten.
pub(crate) struct Draft {
    pub span: Span,
    pub kind: DiagnosticKind,
}

/// Rewrites all fragments. Returns what was rewritten, in the order of the text.
pub(crate) fn rewrite(fragments: &mut [Json]) -> Vec<Draft> {
    let mut drafts = Drafts::default();
    for fragment in fragments.iter_mut() {
        if text_of(fragment, "type") == Some("clock-class") {
            drafts.clock(fragment);
        }
        drafts.value(fragment);
    }
    if drafts.uuid_role {
        move_uuid(fragments);
    }
    drafts.list
}

#[derive(Default)]
struct Drafts {
    list: Vec<Draft>,
    /// Set if a role says that a field holds the UUID of the trace class.
    uuid_role: bool,
}

impl Drafts {
    fn found(&mut self, span: Span, found: &'static str, read_as: &'static str) {
        self.list.push(Draft { span, kind: DiagnosticKind::Draft { found, read_as } });
    }

    /// Rewrites a value and everything in it. The parser bounds the depth.
    fn value(&mut self, json: &mut Json) {
        match &mut json.kind {
            Kind::List(items) => items.iter_mut().for_each(|item| self.value(item)),
            Kind::Object(members) => members.iter_mut().for_each(|member| self.member(member)),
            _ => {}
        }
    }

    fn member(&mut self, Member { name, value }: &mut Member) {
        if OF_USERS.contains(&name.as_str()) {
            return;
        }
        let span = value.span;
        match &mut value.kind {
            Kind::Text(text) if name == "type" => {
                if let Some((found, read_as)) = TYPES.iter().find(|(found, _)| found == text) {
                    *text = (*read_as).to_owned();
                    self.found(span, found, read_as);
                }
            }
            Kind::List(items) if LOCATIONS.contains(&name.as_str()) => {
                value.kind = location(std::mem::take(items), span);
                self.found(span, "a field location that is an array", "one that is an object");
            }
            Kind::List(items) if name == "roles" => {
                for item in items {
                    if let Kind::Text(role) = &mut item.kind {
                        if role == UUID_ROLE.0 {
                            *role = UUID_ROLE.1.to_owned();
                            self.uuid_role = true;
                            self.found(item.span, UUID_ROLE.0, UUID_ROLE.1);
                        }
                    }
                }
            }
            _ => self.value(value),
        }
    }

    /// Renames the offset of a clock class that has no id. In CTF2-SPEC-2.0 each clock class has an
    /// id, so there another property of this name belongs to nobody and is ignored.
    fn clock(&mut self, fragment: &mut Json) {
        let Kind::Object(members) = &mut fragment.kind else { return };
        if members.iter().any(|member| member.name == "id" || member.name == "offset-from-origin") {
            return;
        }
        if let Some(offset) = members.iter_mut().find(|member| member.name == "offset") {
            offset.name = "offset-from-origin".to_owned();
            self.found(offset.value.span, "`offset` of a clock class", "`offset-from-origin`");
        }
    }
}

/// The location of a field as an object.
fn location(mut path: Vec<Json>, span: Span) -> Kind {
    let mut members = Vec::with_capacity(2);
    if let Some(Kind::Text(origin)) = path.first().map(|first| &first.kind) {
        if ORIGINS.contains(&origin.as_str()) {
            members.push(Member { name: "origin".to_owned(), value: path.remove(0) });
        }
    }
    members.push(Member { name: "path".to_owned(), value: Json { span, kind: Kind::List(path) } });
    Kind::Object(members)
}

/// Copies the UUID of the trace class to the preamble, if that has none.
fn move_uuid(fragments: &mut [Json]) {
    let trace = fragments.iter().find(|fragment| text_of(fragment, "type") == Some("trace-class"));
    let uuid = trace.and_then(|trace| get(trace, "uuid")).cloned();
    let Some(Json { kind: Kind::Object(preamble), .. }) = fragments.first_mut() else { return };
    if let Some(value) = uuid.filter(|_| preamble.iter().all(|member| member.name != "uuid")) {
        preamble.push(Member { name: "uuid".to_owned(), value });
    }
}

fn get<'j>(json: &'j Json, name: &str) -> Option<&'j Json> {
    let Kind::Object(members) = &json.kind else { return None };
    members.iter().find(|member| member.name == name).map(|member| &member.value)
}

fn text_of<'j>(json: &'j Json, name: &str) -> Option<&'j str> {
    match &get(json, name)?.kind {
        Kind::Text(text) => Some(text),
        _ => None,
    }
}
