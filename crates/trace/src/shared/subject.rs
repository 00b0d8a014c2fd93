//! Subjects of events, from what tracers write: contexts of packets (Longpole, Genode) and contexts
//! of events (LTTng).

use crate::event::{Subject, SubjectId};
use crate::shared::{Shared, MAX_REMEMBERED};
use longpole_ctf::types::{Encoding, Type};
use longpole_ctf::{EventRef, Field, OwnedValue, Packet, Value};
use std::cell::RefCell;
use std::collections::HashMap;

/// Names of the fields that describe the subject. If a trace has both fields of a pair, the first
/// is used.
const LABEL: [&str; 2] = ["label", "session_label"];
const THREAD: [&str; 2] = ["thread", "thread_name"];
const PID: [&str; 2] = ["pid", "vpid"];
const TID: [&str; 2] = ["tid", "vtid"];

/// Returns the subject that a packet's context names. What it does not name is taken from
/// `default`.
pub(crate) fn subject_of_packet(packet: &Packet, default: &Subject) -> Subject {
    let text = |names: [&str; 2]| names.iter().find_map(|name| packet.field(name)?.text());
    let number = |names: [&str; 2]| {
        let found = names.iter().find_map(|name| packet.field(name).and_then(OwnedValue::as_i64));
        found.and_then(|number| i32::try_from(number).ok())
    };
    Subject {
        host: default.host.clone(),
        label: text(LABEL).map_or_else(|| default.label.clone(), |label| label.into_owned()),
        thread: text(THREAD).map_or_else(|| default.thread.clone(), |thread| thread.into_owned()),
        pid: number(PID).or(default.pid),
        tid: number(TID).or(default.tid),
    }
}

/// Returns true if [`subject_of_packet`] uses this field of a packet's context, so that events need
/// not show it.
pub(crate) fn names_subject(field: &Field, context: &[Field]) -> bool {
    let first = |names: [&str; 2], holds: fn(&Type) -> bool| {
        let found = names.iter().find_map(|name| context.iter().find(|other| *other.name == **name && holds(&other.ty)));
        found.is_some_and(|found| found.name == field.name)
    };
    first(LABEL, is_text) || first(THREAD, is_text) || first(PID, is_id) || first(TID, is_id)
}

fn is_text(ty: &Type) -> bool {
    match ty {
        Type::String(_) | Type::Text(_) => true,
        Type::Array(array) => matches!(array.element(), Type::Int(int) if int.encoding != Encoding::None),
        _ => false,
    }
}

fn is_id(ty: &Type) -> bool {
    matches!(ty, Type::Int(int) if int.size <= 32)
}

/// Indices of the fields that name an event's subject, for one event class. Ids of the initial pid
/// namespace are preferred to those of another namespace, because kernel events use the former.
pub(crate) struct EventSubjects {
    pid: Option<usize>,
    tid: Option<usize>,
    procname: Option<usize>,
    /// Subjects that were seen. Many consecutive events have the same subject, so the last one is
    /// tried first.
    known: RefCell<Known>,
}

#[derive(Default)]
struct Known {
    last: Option<(Key, SubjectId)>,
    all: HashMap<Key, SubjectId>,
}

#[derive(Clone, PartialEq, Eq, Hash)]
struct Key {
    pid: Option<i64>,
    tid: Option<i64>,
    procname: Vec<u8>,
}

impl EventSubjects {
    /// Returns `None` if the contexts name no subject.
    pub fn find(context: &[Field]) -> Option<EventSubjects> {
        let field = |names: [&str; 2]| names.iter().find_map(|name| context.iter().position(|field| *field.name == **name));
        let (pid, tid) = (field(["pid", "vpid"]), field(["tid", "vtid"]));
        let procname = field(["procname", "procname"]);
        (pid.or(tid).or(procname).is_some()).then(|| EventSubjects { pid, tid, procname, known: RefCell::default() })
    }

    #[inline]
    pub fn subject(&self, event: &EventRef<'_>, default: &Subject, shared: &mut Shared) -> SubjectId {
        let number = |index: Option<usize>| index.and_then(|index| event.value(index)).and_then(|value| value.as_i64());
        let (pid, tid) = (number(self.pid), number(self.tid));
        let procname = match self.procname.and_then(|index| event.value(index)) {
            Some(Value::Str(name)) => name,
            _ => &[],
        };
        let mut known = self.known.borrow_mut();
        if let Some((key, id)) = &known.last {
            if key.pid == pid && key.tid == tid && key.procname == procname {
                return *id;
            }
        }
        let key = Key { pid, tid, procname: procname.to_vec() };
        let id = match known.all.get(&key) {
            Some(id) => *id,
            None => {
                let id32 = |number: Option<i64>| number.and_then(|number| i32::try_from(number).ok());
                let id = shared.subject(Subject {
                    host: default.host.clone(),
                    label: match procname {
                        [] => default.label.clone(),
                        name => String::from_utf8_lossy(name).into_owned(),
                    },
                    thread: String::new(),
                    pid: id32(pid).or(default.pid),
                    tid: id32(tid),
                });
                if known.all.len() >= MAX_REMEMBERED {
                    known.all.clear();
                }
                known.all.insert(key.clone(), id);
                id
            }
        };
        known.last = Some((key, id));
        id
    }
}
