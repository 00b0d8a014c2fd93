//! The classes of the converted trace, their ids, and what is done with each event of the kernel.

use super::super::layout::encode::Plan;
use super::super::layout::{Int, Kind, Layout, I32};
use super::super::masks;
use super::super::single_calls::SingleCall;
use super::calls::{Calls, FieldOffsets};
use super::follow::{follow, Follow};
use super::marks::{self, Marks};
use super::state_events;
use longpole_ftrace::{ByteOrder, EventFormat, Field};
use std::collections::HashSet;

/// What is done with an event of the kernel, by the id of its format.
pub enum Class {
    Plain {
        id: u16,
        plan: Box<Plan>,
        follow: Box<Follow>,
        /// For a switch, the field with the thread that runs next.
        to: Option<Box<Field>>,
    },
    SysEnter(FieldOffsets),
    SysExit(FieldOffsets),
    /// A mark that the recorder itself wrote among the events.
    Mark(Marks),
}

/// All classes. Ids follow the order of the formats, then come our own classes.
pub struct Classes {
    /// The class of each format, by the kernel's id.
    by_format: Vec<Option<Class>>,
    /// Name and fields of each class, by its id.
    pub names: Vec<(String, Vec<(String, Kind)>)>,
    /// Filters of the recording, by the id of the class; shorter than `names`.
    pub filters: Vec<Option<String>>,
    pub calls: Calls,
    /// First id of the classes of the state dump.
    pub dump: u16,
    /// Id of the class for events whose format was not saved.
    pub unknown: u16,
    /// Id of our event for a thread that runs although no switch to it is in the trace.
    pub running: u16,
    /// Id of our event for the CPUs on which a thread may run. The next id is the same for masks
    /// that were read at the end of the recording.
    pub mask: u16,
    /// Id of our event for events that are not recorded any more.
    pub switched_off: u16,
}

impl Classes {
    /// `filter` returns the filter with which an event was recorded. `with_context` states that
    /// each event names its thread. `long_size` is the size in bytes of a `long` of the recorded
    /// kernel.
    pub fn new(
        formats: &[EventFormat],
        filter: impl Fn(&str, &str) -> Option<String>,
        layout: &Layout,
        order: ByteOrder,
        (with_context, long_size): (bool, usize),
    ) -> Classes {
        let mut names = Vec::new();
        let mut filters = Vec::new();
        let mut by_format: Vec<Option<Class>> = Vec::new();
        let mut calls = Calls::default();
        let (single_calls, table) = (complete(formats), layout.calls.iter().map(|call| call.name.as_str()).collect::<HashSet<_>>());
        for format in formats {
            let single = SingleCall::of(&format.system, &format.name).filter(|call| single_calls.contains(call));
            let in_table = single.is_some_and(|single| table.contains(single.name));
            let of_call = call_class(format, order, in_table);
            let class = match (format.system.as_str(), format.name.as_str()) {
                _ if of_call.is_some() => of_call,
                marker if marker == masks::MARKER => match Marks::new(format) {
                    Some(marks) => Some(Class::Mark(marks)),
                    None => continue,
                },
                (system, name) => {
                    let plan = Plan::new(format, layout.event(system, name), order, long_size);
                    let id = names.len() as u16;
                    names.push((single.map_or_else(|| plan.name.clone(), SingleCall::class_name), plan.fields.clone()));
                    filters.push(filter(system, name));
                    let to = ((system, name) == ("sched", "sched_switch")).then(|| format.field("next_pid")).flatten();
                    let (to, follow) = (to.cloned().map(Box::new), Box::new(follow(format, with_context)));
                    Some(Class::Plain { id, plan: Box::new(plan), follow, to })
                }
            };
            let at = usize::from(format.id);
            if by_format.len() <= at {
                by_format.resize_with(at + 1, || None);
            }
            by_format[at] = class;
        }
        let mut own = |classes: Vec<(String, Vec<(String, Kind)>)>| {
            let first = names.len() as u16;
            names.extend(classes);
            first
        };
        let field = |name: &str, kind| (name.to_owned(), kind);
        let bytes = Kind::List(32, Int { base: 16, ..Int::unsigned(8) });
        let dump = own(state_events::classes());
        let unknown = own(vec![("unknown".to_owned(), vec![field("id", Kind::Int(Int::unsigned(16))), field("bytes", bytes)])]);
        let running = own(vec![("longpole_running".to_owned(), vec![field("tid", Kind::Int(I32))])]);
        let mask = own(vec![marks::Mask::class(), marks::Mask::class_at_end()]);
        let switched_off = own(vec![marks::SwitchedOffEvent::class()]);
        calls.name(layout, &mut names);
        Classes { by_format, names, filters, calls, dump, unknown, running, mask, switched_off }
    }

    /// The class of an event with this id of the kernel's.
    pub fn get(&self, id: u16) -> Option<&Class> {
        self.by_format.get(usize::from(id))?.as_ref()
    }

    /// Name of the class for a `system:name` of the kernel, if it was recorded.
    pub fn name_of(&self, formats: &[EventFormat], event: &str) -> Option<String> {
        let format = formats.iter().find(|format| event.split_once(':') == Some((&format.system, &format.name)))?;
        match self.get(format.id) {
            Some(Class::Plain { id, .. }) => Some(self.names[usize::from(*id)].0.clone()),
            _ => None,
        }
    }
}

/// Returns what is done with an event of system calls that is converted with the table of calls.
/// `single` is true for such an event of a single call. `None` for other events, and for formats
/// without the expected fields.
fn call_class(format: &EventFormat, order: ByteOrder, single: bool) -> Option<Class> {
    let all = format.system == "raw_syscalls";
    match format.name.as_str() {
        name if (single || all) && name.starts_with("sys_enter") => FieldOffsets::enter(format, order).map(Class::SysEnter),
        name if (single || all) && name.starts_with("sys_exit") => FieldOffsets::exit(format, order).map(Class::SysExit),
        _ => None,
    }
}

/// Returns the events of single calls of which begin and end were recorded. Empty if the events of
/// all calls were recorded as well: then the former repeat some of them, and keep the kernel's
/// names.
fn complete(formats: &[EventFormat]) -> HashSet<SingleCall<'_>> {
    if formats.iter().any(|format| format.system == "raw_syscalls") {
        return HashSet::new();
    }
    let all: HashSet<SingleCall<'_>> = formats.iter().filter_map(|format| SingleCall::of(&format.system, &format.name)).collect();
    all.iter().filter(|call| all.contains(&call.other_end())).copied().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ORDER: ByteOrder = ByteOrder::NATIVE;

    fn format(id: u16, system: &str, name: &str, fields: &str) -> EventFormat {
        let common = "\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n";
        EventFormat::parse(system, &format!("name: {name}\nID: {id}\nformat:\n{common}{fields}")).unwrap()
    }

    fn read() -> [EventFormat; 2] {
        let number = "\tfield:int __syscall_nr;\toffset:8;\tsize:4;\tsigned:1;\n";
        let words = "\tfield:unsigned int fd;\toffset:16;\tsize:8;\tsigned:0;\n\tfield:char * buf;\toffset:24;\tsize:8;\tsigned:0;\n";
        let enter = format(5, "syscalls", "sys_enter_read", &format!("{number}{words}"));
        let exit = format(6, "syscalls", "sys_exit_read", &format!("{number}\tfield:long ret;\toffset:16;\tsize:8;\tsigned:1;\n"));
        [enter, exit]
    }

    fn classes(formats: &[EventFormat], arch: &str) -> Classes {
        let layout = Layout::new(arch).unwrap();
        Classes::new(formats, |_, _| None, &layout, ORDER, (false, 8))
    }

    /// Name of the class of a record, and the payload.
    fn written(classes: &Classes, id: u16, record: &[u8]) -> (String, Vec<u8>) {
        let mut out = Vec::new();
        let id = match classes.get(id) {
            Some(Class::SysEnter(place)) => {
                classes.calls.write_enter(place, record, &mut out);
                classes.calls.enter_id(place, record)
            }
            Some(Class::SysExit(place)) => {
                classes.calls.write_exit(place, record, &mut out);
                classes.calls.exit_id(place, record)
            }
            Some(Class::Plain { id, .. }) => *id,
            _ => panic!("format {id} has no class"),
        };
        (classes.names[usize::from(id)].0.clone(), out)
    }

    #[test]
    fn an_event_of_a_single_call_has_the_class_of_that_call() {
        let record = |words: &[u64]| {
            let words: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
            [&[0; 8][..], &0i32.to_ne_bytes(), &[0; 4], &words].concat()
        };
        let with_table = classes(&read(), "x86_64");
        let (name, payload) = written(&with_table, 5, &record(&[7, 0x1000, 99]));
        assert_eq!((name.as_str(), &payload[..4]), ("syscall_entry_read", &7u32.to_ne_bytes()[..]));
        assert_eq!(payload[payload.len() - 8..], 99u64.to_ne_bytes());
        // A record that ends early has zeros for what is missing.
        assert_eq!(written(&with_table, 5, &record(&[7])).1[4..], [0; 8]);
        assert_eq!(written(&with_table, 6, &record(&[42])), ("syscall_exit_read".to_owned(), 42i64.to_ne_bytes().to_vec()));

        let without_table = classes(&read(), "aarch64");
        let name = |id| written(&without_table, id, &record(&[])).0;
        assert_eq!((name(5).as_str(), name(6).as_str()), ("syscall_entry_read", "syscall_exit_read"));
    }

    #[test]
    fn an_event_of_a_single_call_keeps_its_name_where_it_would_count_twice_or_has_no_end() {
        let [enter, exit] = read();
        let name = |formats: &[EventFormat]| written(&classes(formats, "x86_64"), 5, &[0; 40]).0;
        assert_eq!(name(std::slice::from_ref(&enter)), "sys_enter_read");
        let all = format(7, "raw_syscalls", "sys_enter", "\tfield:long id;\toffset:8;\tsize:8;\tsigned:1;\n");
        assert_eq!(name(&[enter, exit, all]), "sys_enter_read");
    }
}
