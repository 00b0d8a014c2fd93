//! Follows which threads exist and which one runs, from the events, and writes that as the context
//! of each event.

use super::super::layout::encode::integer;
use super::super::layout::known_threads::KnownThreads;
use super::super::layout::{Kind, I32, MAX_RT_PRIO};
use longpole_ftrace::{ByteOrder, EventFormat, Field};
use serde_json::Value;

/// Value of the context fields for an event that no thread caused.
const NOBODY: i64 = -1;

/// What an event says about threads. The fields are its positions in a record.
pub enum Follow {
    Nothing,
    Made {
        pid: Field,
        flags: Field,
    },
    Gone {
        pid: Field,
    },
    /// Names and priorities of threads, as (tid, name, priority).
    Fields(Vec<(Field, Option<Field>, Option<Field>)>),
}

/// Returns what events of this format say about threads. With `all`, also names and priorities.
pub fn follow(format: &EventFormat, all: bool) -> Follow {
    let field = |name: &str| format.field(name).cloned();
    match (format.system.as_str(), format.name.as_str()) {
        ("task", "task_newtask") => match (field("pid"), field("clone_flags")) {
            (Some(pid), Some(flags)) => Follow::Made { pid, flags },
            _ => Follow::Nothing,
        },
        ("sched", "sched_process_free") => field("pid").map_or(Follow::Nothing, |pid| Follow::Gone { pid }),
        ("sched", "sched_switch") if all => {
            let side = |side: &str| {
                let part = |name: &str| field(&format!("{side}_{name}"));
                Some((part("pid")?, part("comm"), part("prio")))
            };
            Follow::Fields(["prev", "next"].into_iter().filter_map(side).collect())
        }
        ("task", "task_rename") if all => Follow::Fields(field("pid").map(|pid| (pid, field("newcomm"), None)).into_iter().collect()),
        _ => Follow::Nothing,
    }
}

impl Follow {
    /// Applies an event to the known threads.
    #[inline]
    pub fn see(&self, data: &[u8], order: ByteOrder, threads: &mut KnownThreads) {
        let int = |field: &Field| field.int(data, order).unwrap_or(0);
        match self {
            Follow::Nothing => {}
            Follow::Made { pid, flags } => threads.note_clone_flags(int(pid) as i32, int(flags) as u64),
            Follow::Gone { pid } => threads.remove(int(pid) as i32),
            Follow::Fields(fields) => {
                for (tid, comm, prio) in fields {
                    let thread = threads.of(int(tid) as i32);
                    if let Some(Ok(text)) = comm.as_ref().map(|comm| comm.text(data, order)) {
                        thread.comm = [0; 16];
                        let size = text.len().min(15);
                        thread.comm[..size].copy_from_slice(&text[..size]);
                    }
                    if let Some(prio) = prio {
                        thread.prio = int(prio) as i32;
                    }
                }
            }
        }
    }
}

/// The thread that runs on a CPU according to the recorded switches. Every record contains its
/// thread as well, but not every host records every switch: on virtual hosts, some switches of the
/// idle task are missing.
#[derive(Debug, Default)]
pub struct Running {
    tid: Option<i32>,
    /// True if a switch was seen. Without any, nothing could contradict a record.
    saw_switch: bool,
}

impl Running {
    /// Returns the thread that made this record if no switch to it was seen. `to` is the next
    /// thread if the record is itself a switch.
    #[inline]
    pub fn unseen(&mut self, tid: Option<i32>, to: Option<i32>) -> Option<i32> {
        let unseen = tid.filter(|_| self.saw_switch && to.is_none() && self.tid != tid);
        self.saw_switch |= to.is_some();
        self.tid = to.or(tid);
        unseen
    }

    /// Forgets the thread, because events are missing here.
    pub fn lost(&mut self) {
        self.tid = None;
    }
}

/// A context field: what every event says about the thread that was running.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ContextField {
    Tid,
    Pid,
    Ppid,
    Comm,
    Prio,
}

/// The context fields of every event in the trace.
#[derive(Debug, Default)]
pub struct Context {
    parts: Vec<ContextField>,
    tid: Option<Field>,
}

impl Context {
    /// Takes the fields that the user requested. If there are any, the thread's id is added,
    /// because readers need it to use the others.
    pub fn new(wanted: &Value, any: Option<&EventFormat>) -> Context {
        let mut parts: Vec<ContextField> = Vec::new();
        for name in wanted.as_array().into_iter().flatten().filter_map(Value::as_str) {
            let part = match name {
                "tid" => ContextField::Tid,
                "pid" => ContextField::Pid,
                "ppid" => ContextField::Ppid,
                "comm" | "procname" => ContextField::Comm,
                "prio" => ContextField::Prio,
                _ => continue,
            };
            if !parts.contains(&part) {
                parts.push(part);
            }
        }
        if !parts.is_empty() && !parts.contains(&ContextField::Tid) {
            parts.insert(0, ContextField::Tid);
        }
        Context { parts, tid: any.and_then(|format| format.field("common_pid")).cloned() }
    }

    pub fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// Returns the thread that made a record.
    #[inline]
    pub fn tid(&self, data: &[u8], order: ByteOrder) -> Option<i32> {
        self.tid.as_ref().and_then(|field| field.int(data, order).ok()).map(|tid| tid as i32)
    }

    /// Names and types of the fields, the same as in LTTng's contexts.
    pub fn fields(&self) -> Vec<(String, Kind)> {
        let field = |part: &ContextField| match part {
            ContextField::Tid => ("tid", Kind::Int(I32)),
            ContextField::Pid => ("pid", Kind::Int(I32)),
            ContextField::Ppid => ("ppid", Kind::Int(I32)),
            ContextField::Comm => ("procname", Kind::Text(16)),
            ContextField::Prio => ("prio", Kind::Int(I32)),
        };
        self.parts.iter().map(field).map(|(name, kind)| (name.to_owned(), kind)).collect()
    }

    /// Appends the context of a record.
    #[inline]
    pub fn write(&self, data: &[u8], order: ByteOrder, threads: &KnownThreads, out: &mut Vec<u8>) {
        if self.parts.is_empty() {
            return;
        }
        let tid = self.tid(data, order).unwrap_or(0);
        let thread = threads.get(tid);
        for part in &self.parts {
            match part {
                ContextField::Tid => integer(out, tid.into(), I32),
                ContextField::Pid => integer(out, thread.pid.into(), I32),
                ContextField::Ppid => integer(out, thread.ppid.into(), I32),
                ContextField::Comm => out.extend_from_slice(&thread.comm),
                ContextField::Prio => integer(out, i64::from(thread.prio) - MAX_RT_PRIO, I32),
            }
        }
    }

    /// Returns the context of an event that no thread caused.
    pub fn nobody(&self) -> Vec<u8> {
        let mut out = Vec::new();
        for part in &self.parts {
            match part {
                ContextField::Comm => out.extend_from_slice(&[0; 16]),
                _ => integer(&mut out, NOBODY, I32),
            }
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_running_thread_without_a_switch_is_reported_once() {
        let mut running = Running::default();
        // Nothing is known before the first switch.
        assert_eq!(running.unseen(Some(7), None), None);
        assert_eq!(running.unseen(Some(7), Some(0)), None);
        assert_eq!(running.unseen(Some(0), None), None);
        assert_eq!(running.unseen(Some(9), None), Some(9));
        assert_eq!(running.unseen(Some(9), None), None);
        // A switch contains the thread that leaves, so nothing is reported.
        assert_eq!(running.unseen(Some(8), Some(9)), None);
        running.lost();
        assert_eq!(running.unseen(Some(9), None), Some(9));
        assert_eq!(running.unseen(None, None), None);
    }
}
