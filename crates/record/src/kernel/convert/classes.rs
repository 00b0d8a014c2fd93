//! The classes of the converted trace, their ids, and what is done with each event of the kernel.

use super::super::layout::encode::Plan;
use super::super::layout::{Int, Kind, Layout, I32};
use super::super::masks;
use super::calls::Calls;
use super::follow::{follow, Follow};
use super::marks::{self, Marks};
use super::source::Description;
use super::state_events;
use longpole_ftrace::{ByteOrder, EventFormat, Field};

/// What is done with an event of the kernel, by the id of its format.
pub enum Class {
    Plain {
        id: u16,
        plan: Box<Plan>,
        follow: Box<Follow>,
        /// For a switch, the field with the thread that runs next.
        to: Option<Box<Field>>,
    },
    SysEnter,
    SysExit,
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
    /// `with_context` states that each event names its thread. `long_size` is the size in bytes of
    /// a `long` of the recorded kernel.
    pub fn new(
        formats: &[EventFormat],
        description: &Description,
        layout: &Layout,
        order: ByteOrder,
        (with_context, long_size): (bool, usize),
    ) -> Classes {
        let mut names = Vec::new();
        let mut filters = Vec::new();
        let mut by_format: Vec<Option<Class>> = Vec::new();
        let mut calls = Calls::default();
        for format in formats {
            let class = match (format.system.as_str(), format.name.as_str()) {
                ("raw_syscalls", "sys_enter") if calls.enter(format, order) => Class::SysEnter,
                ("raw_syscalls", "sys_exit") if calls.exit(format, order) => Class::SysExit,
                marker if marker == masks::MARKER => match Marks::new(format) {
                    Some(marks) => Class::Mark(marks),
                    None => continue,
                },
                (system, name) => {
                    let plan = Plan::new(format, layout.event(system, name), order, long_size);
                    let id = names.len() as u16;
                    names.push((plan.name.clone(), plan.fields.clone()));
                    filters.push(description.filter(system, name).map(str::to_owned));
                    let to = ((system, name) == ("sched", "sched_switch")).then(|| format.field("next_pid")).flatten();
                    Class::Plain { id, plan: Box::new(plan), follow: Box::new(follow(format, with_context)), to: to.cloned().map(Box::new) }
                }
            };
            let at = usize::from(format.id);
            if by_format.len() <= at {
                by_format.resize_with(at + 1, || None);
            }
            by_format[at] = Some(class);
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
