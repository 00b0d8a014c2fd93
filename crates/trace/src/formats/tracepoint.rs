//! Fields of the kernel's events, decoded by the kernel's own format descriptions. Used for
//! trace.dat, raw pages and perf.data.
//!
//! A format is compiled once to a class and a plan, which then decodes the bytes of events to
//! values. Numbers and texts borrow from the bytes. Arrays of numbers, and texts that must be
//! formatted (`trace_printk` stores only its arguments), are created for each event and stored in
//! [`Made`] until the next event. A field that lies beyond the end of the bytes is empty.

use crate::event::{Class, ClassId};
use crate::shared::Shared;
use crate::value::Value;
use longpole_ctf::OwnedValue;
use longpole_ftrace::format::{Label, Shape};
use longpole_ftrace::printk::Printk;
use longpole_ftrace::{ByteOrder, EventFormat, Field, Formats};
use std::collections::HashMap;

/// Fields common to all events of a kernel. The flags say if an interrupt was served.
pub(crate) const COMMON: [&str; 3] = ["common_pid", "common_flags", "common_preempt_count"];

/// Maximum number of bytes of format text that are searched for labels, for all fields of an event.
/// The kernel's longest formats need a tenth of it.
const MAX_SEARCHED: usize = 4 << 20;

/// How one kernel stores numbers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Machine {
    pub order: ByteOrder,
    /// Size of a `long` in bytes.
    pub long: u32,
}

/// Plan for decoding events of one kind.
pub(crate) struct Plan {
    pub class: ClassId,
    fields: Vec<Planned>,
    /// Fields of [`COMMON`] that are shown as context.
    common: Vec<Field>,
    makes: bool,
}

struct Planned {
    field: Field,
    kind: Kind,
    labels: Vec<Label>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Text,
    Number,
    /// A number whose values have labels.
    Named,
    Bytes,
    /// An array of numbers of this many bytes each.
    Numbers(u32),
    /// The address of a text in the kernel's list of format strings.
    Address,
    /// The arguments of the text whose address is in the field with index `format`.
    Arguments {
        format: usize,
    },
}

/// Values of an event that do not exist in the record in this form.
#[derive(Default)]
pub(crate) struct Made(Vec<OwnedValue>);

/// Plans for a kernel's events, by the ids in its records.
pub(crate) struct Plans {
    machine: Machine,
    by_id: HashMap<u16, Plan>,
    /// Class of events whose id has no format.
    unknown: ClassId,
    printk: Printk,
}

impl Plans {
    /// Compiles the formats. With `context`, events also have the fields common to all events.
    /// `context` are the fields of [`COMMON`] that are shown as context.
    pub fn new(formats: &Formats, printk: Printk, machine: Machine, context: &[&str], shared: &mut Shared) -> Plans {
        let by_id = formats.iter().map(|format| (format.id, Plan::new(format, machine, context, shared))).collect();
        let fields = ["id", "bytes"].map(str::to_owned).to_vec();
        let unknown = shared.class(Class { event_name: "unknown".to_owned(), fields, bases: vec![10, 10], ..Class::default() });
        Plans { machine, by_id, unknown, printk }
    }

    pub fn get(&self, id: u16) -> Option<&Plan> {
        self.by_id.get(&id)
    }

    pub fn class(&self, id: u16) -> ClassId {
        self.get(id).map_or(self.unknown, |plan| plan.class)
    }

    /// Returns the values of the event's fields, followed by the common ones, and the number of the
    /// latter.
    pub fn values<'a>(&'a self, id: u16, record: &'a [u8], made: &'a Made) -> (impl Iterator<Item = Value<'a>>, usize) {
        let plan = self.get(id);
        let unknown = plan.is_none().then(|| [Value::U64(id.into()), Value::Bytes(record)]);
        let fields = plan.map_or(&[][..], |plan| &plan.fields);
        let common = plan.map_or(&[][..], |plan| &plan.common);
        let mut made = made.0.iter();
        let order = self.machine.order;
        let values = fields.iter().map(move |planned| planned.value(record, order, &mut made));
        let context = common.iter().map(move |field| number(field, record, order));
        (unknown.into_iter().flatten().chain(values).chain(context), common.len())
    }

    /// Creates the values that [`Plans::values`] needs for this record.
    #[inline]
    pub fn make(&self, id: u16, record: &[u8], made: &mut Made) {
        if self.get(id).is_some_and(|plan| plan.makes) {
            self.make_all(id, record, made);
        }
    }

    #[cold]
    fn make_all(&self, id: u16, record: &[u8], made: &mut Made) {
        made.0.clear();
        let Some(plan) = self.get(id) else { return };
        let Machine { order, long } = self.machine;
        for planned in &plan.fields {
            let field = &planned.field;
            let bytes = || field.bytes(record, order).unwrap_or_default();
            match planned.kind {
                Kind::Numbers(element) => {
                    let numbers = field.ints(record, order, element).into_iter().flatten();
                    made.0.push(OwnedValue::List(numbers.map(owned).collect()));
                }
                Kind::Address => {
                    let address = field.u64(record, order).unwrap_or(0);
                    made.0.push(match self.printk.text(address) {
                        Some(text) => OwnedValue::Str(text.to_vec()),
                        None => OwnedValue::U64(address),
                    });
                }
                Kind::Arguments { format } => {
                    let address = plan.fields.get(format).and_then(|format| format.field.u64(record, order).ok());
                    let format = address.and_then(|address| self.printk.text(address));
                    made.0.push(match format {
                        Some(format) => OwnedValue::Str(self.printk.print(format, bytes(), order, long as usize)),
                        None => OwnedValue::Bytes(bytes().to_vec()),
                    });
                }
                Kind::Text | Kind::Number | Kind::Named | Kind::Bytes => {}
            }
        }
    }
}

impl Plan {
    fn new(format: &EventFormat, machine: Machine, context: &[&str], shared: &mut Shared) -> Plan {
        // Labels are searched in the whole format text, once per field. A format that is too long
        // for this gets no labels.
        let named = format.fields.len().saturating_mul(format.print_fmt.len()) <= MAX_SEARCHED;
        let mut fields: Vec<Planned> = format.fields.iter().map(|field| Planned::new(format, field, machine, named)).collect();
        if format.system == "ftrace" {
            print_what_is_stored_apart(&format.name, &mut fields);
        }
        let common: Vec<Field> =
            context.iter().filter_map(|name| format.common.iter().find(|field| field.name == *name)).cloned().collect();
        let class = Class {
            event_name: format.name.clone(),
            fields: fields.iter().map(|planned| planned.field.name.clone()).collect(),
            bases: fields.iter().map(|planned| base(&planned.field)).collect(),
            context: common.iter().map(|field| field.name.clone()).collect(),
            ..Class::default()
        };
        let makes = fields.iter().any(|planned| matches!(planned.kind, Kind::Numbers(_) | Kind::Address | Kind::Arguments { .. }));
        Plan { class: shared.class(class), fields, common, makes }
    }
}

/// Plans the formatting of `trace_printk` and `trace_puts`: the former stores the address of its
/// format string and its raw arguments, the latter only the address of its text.
fn print_what_is_stored_apart(event: &str, fields: &mut [Planned]) {
    let at = |fields: &[Planned], name: &str| fields.iter().position(|planned| planned.field.name == name);
    match event {
        "bprint" => {
            if let (Some(format), Some(arguments)) = (at(fields, "fmt"), at(fields, "buf")) {
                fields[arguments].kind = Kind::Arguments { format };
                fields[format].kind = Kind::Address;
            }
        }
        "bputs" => {
            if let Some(text) = at(fields, "str") {
                fields[text].kind = Kind::Address;
            }
        }
        // The number of callers depends on the record, whatever size the format states.
        "kernel_stack" => {
            if let Some(caller) = at(fields, "caller") {
                fields[caller].field.size = 0;
            }
        }
        _ => {}
    }
}

impl Planned {
    fn new(format: &EventFormat, field: &Field, machine: Machine, named: bool) -> Planned {
        let mut labels = Vec::new();
        let kind = if field.is_text() {
            Kind::Text
        } else if field.shape == Shape::Scalar && matches!(field.size, 1 | 2 | 4 | 8) {
            if named {
                labels = format.labels(&field.name);
            }
            if labels.is_empty() {
                Kind::Number
            } else {
                Kind::Named
            }
        } else {
            match element(field, machine.long) {
                Some(size @ (2 | 4 | 8)) => Kind::Numbers(size),
                _ => Kind::Bytes,
            }
        };
        Planned { field: field.clone(), kind, labels }
    }

    #[inline]
    fn value<'a>(&'a self, record: &'a [u8], order: ByteOrder, made: &mut std::slice::Iter<'a, OwnedValue>) -> Value<'a> {
        let field = &self.field;
        match self.kind {
            Kind::Number => number(field, record, order),
            Kind::Text => Value::Str(field.text(record, order).unwrap_or_default()),
            Kind::Bytes => Value::Bytes(field.bytes(record, order).unwrap_or_default()),
            Kind::Named => {
                let Ok(value) = field.int(record, order) else { return Value::Bytes(&[]) };
                match self.labels.iter().find(|label| i128::from(label.value) == value) {
                    Some(label) => Value::Enum { value, label: &label.name },
                    None => number(field, record, order),
                }
            }
            Kind::Numbers(_) | Kind::Address | Kind::Arguments { .. } => made.next().map_or(Value::Bytes(&[]), Value::from),
        }
    }
}

/// Returns the size in bytes of an array's element. Masks consist of words of type `long`, whatever
/// the name of their type.
fn element(field: &Field, long: u32) -> Option<u32> {
    if field.shape == Shape::Scalar {
        return None;
    }
    let is_mask = ["cpumask_t", "struct cpumask", "nodemask_t"].iter().any(|name| field.type_text.contains(name));
    field.element_size(long).or(is_mask.then_some(long))
}

#[inline]
fn number<'a>(field: &'a Field, record: &'a [u8], order: ByteOrder) -> Value<'a> {
    match field.int(record, order) {
        Ok(value) => u64::try_from(value).map_or_else(|_| Value::I64(value as i64), Value::U64),
        Err(_) => Value::Bytes(field.bytes(record, order).unwrap_or_default()),
    }
}

fn owned(number: i128) -> OwnedValue {
    u64::try_from(number).map_or_else(|_| OwnedValue::I64(number as i64), OwnedValue::U64)
}

/// Returns the display base: 16 for addresses, else 10.
fn base(field: &Field) -> u8 {
    let is_address = field.type_text.trim_end().ends_with('*') || matches!(field.name.as_str(), "ip" | "parent_ip" | "caller" | "func");
    if is_address {
        16
    } else {
        10
    }
}
