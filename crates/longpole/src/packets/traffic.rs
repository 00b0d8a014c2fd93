//! Traffic per interface and direction, from the captures of a trace, or from its `packet` events
//! if it has no captures.

use crate::render::diagnostics::print_one;
use crate::render::length::Length;
use crate::render::table::{bytes, number, rate, Table};
use longpole_trace::InterfaceCount;
use longpole_trace::Item;
use longpole_trace::Trace;
use longpole_trace::Traffic;
use longpole_trace::Value;
use serde_json::json;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io::{self, Write};

/// The interfaces of one capture file, or of the events of all streams.
pub struct Group {
    /// Name of the capture; `None` if the packets were counted from events.
    capture: Option<String>,
    interfaces: Vec<InterfaceCount>,
}

/// Counts the packets in the requested part of the trace. Also returns true if a part of it is
/// damaged.
pub fn count(trace: &mut Trace) -> anyhow::Result<(Vec<Group>, bool)> {
    let mut damaged = false;
    let mut groups = Vec::new();
    if trace.captures().is_empty() {
        groups.push(Group { capture: None, interfaces: from_events(trace)? });
        damaged |= trace.is_damaged();
        trace.diagnostics().iter().for_each(print_one);
    } else {
        let (begin_ns, end_ns) = trace.range();
        for capture in trace.captures() {
            let (interfaces, diagnostics) = capture.count(begin_ns, end_ns)?;
            damaged |= diagnostics.iter().any(longpole_trace::Diagnostic::is_damage);
            diagnostics.iter().for_each(print_one);
            groups.push(Group { capture: Some(capture.name.clone()), interfaces });
        }
    }
    Ok((groups, damaged))
}

/// Counts packets from probe events of the classes `packet:INTERFACE`, or `packet` with the
/// interface in a field.
fn from_events(trace: &mut Trace) -> anyhow::Result<Vec<InterfaceCount>> {
    let mut plans: Vec<Option<Plan>> = Vec::new();
    let mut counts: BTreeMap<String, InterfaceCount> = BTreeMap::new();
    while let Some((item, catalogue)) = trace.next_with_catalogue()? {
        let Item::Event(event) = item else { continue };
        let class = event.class.0 as usize;
        while plans.len() <= class {
            plans.push(catalogue.classes.get(plans.len()).and_then(Plan::new));
        }
        let Some(plan) = &plans[class] else { continue };
        let field = |index: Option<usize>| index.and_then(|index| event.fields.get(index));
        let name = match (&plan.interface, field(plan.name).and_then(Value::text)) {
            (Some(interface), _) => Cow::Borrowed(interface.as_str()),
            (None, Some(name)) => name,
            (None, None) => Cow::Borrowed("unknown"),
        };
        if !counts.contains_key(&*name) {
            counts.insert(name.to_string(), InterfaceCount { name: name.to_string(), ..InterfaceCount::default() });
        }
        let Some(count) = counts.get_mut(&*name) else { continue };
        let unsigned = |index| field(index).and_then(Value::as_u64).unwrap_or(0);
        // A value that is neither in nor out counts as unknown.
        let direction = usize::try_from(unsigned(plan.direction)).ok().filter(|&way| way <= 2).unwrap_or(0);
        count.directions[direction].add(Some(event.t_ns), unsigned(plan.length), unsigned(plan.captured));
    }
    Ok(counts.into_values().collect())
}

/// Indexes of the fields of a packet class.
struct Plan {
    interface: Option<String>,
    name: Option<usize>,
    direction: Option<usize>,
    length: Option<usize>,
    captured: Option<usize>,
}

impl Plan {
    fn new(class: &longpole_trace::Class) -> Option<Plan> {
        let interface = match class.event_name.split_once(':') {
            Some(("packet", interface)) => Some(interface.to_owned()),
            None if class.event_name == "packet" => None,
            _ => return None,
        };
        let field = |name: &str| class.fields.iter().position(|field| field == name);
        Some(Plan {
            interface,
            name: field("name").or_else(|| field("interface")),
            direction: field("direction"),
            length: field("length"),
            captured: field("captured"),
        })
    }
}

const DIRECTIONS: [&str; 3] = ["unknown", "in", "out"];

/// Returns the amount per second, over the time from the first to the last packet. `None` for a
/// single packet.
fn per_second(traffic: &Traffic, amount: u64) -> Option<f64> {
    let length_ns = traffic.last_ns?.abs_diff(traffic.first_ns?);
    (length_ns > 0).then(|| amount as f64 * 1e9 / length_ns as f64)
}

impl Group {
    pub fn is_empty(&self) -> bool {
        self.interfaces.is_empty()
    }

    pub fn json(&self) -> Vec<serde_json::Value> {
        let interfaces = self.interfaces.iter().map(|interface| {
            let directions: Vec<_> = interface
                .directions
                .iter()
                .zip(DIRECTIONS)
                .filter(|(traffic, _)| traffic.packets > 0)
                .map(|(traffic, direction)| {
                    json!({
                        "direction": direction,
                        "packets": traffic.packets,
                        "bytes": traffic.bytes,
                        "captured_bytes": traffic.captured,
                        "start_ns": traffic.first_ns,
                        "end_ns": traffic.last_ns,
                        "packets_per_s": per_second(traffic, traffic.packets),
                        "bits_per_s": per_second(traffic, traffic.bytes.saturating_mul(8)),
                    })
                })
                .collect();
            json!({
                "capture": self.capture,
                "interface": interface.name,
                "dropped": interface.dropped,
                "directions": directions,
            })
        });
        interfaces.collect()
    }
}

/// Number of rows for which the first screen has room.
const FIRST_ROWS: usize = 12;

pub fn text(groups: &[Group], length: Length, out: &mut impl Write) -> io::Result<()> {
    let columns = ["capture", "interface", "direction", ">packets", ">bytes", "~>packets/s", "~>bit/s", "~>captured", ">dropped"];
    let mut table = Table::new(&columns);
    for group in groups {
        let capture = group.capture.as_deref().unwrap_or("(events)");
        for interface in &group.interfaces {
            // Drops are not counted per direction, so they are shown in the first row.
            let mut dropped = interface.dropped.map_or("unknown".to_owned(), number);
            let seen = interface.directions.iter().zip(DIRECTIONS).filter(|(traffic, _)| traffic.packets > 0);
            let mut any = false;
            for (traffic, direction) in seen {
                any = true;
                let packets = per_second(traffic, traffic.packets).map_or(String::new(), |r| rate(r, ""));
                let bits = per_second(traffic, traffic.bytes.saturating_mul(8)).map_or(String::new(), |r| rate(r, "bit"));
                table.row([
                    capture,
                    &interface.name,
                    direction,
                    &number(traffic.packets),
                    &number(traffic.bytes),
                    &packets,
                    &bits,
                    &bytes(traffic.captured),
                    &std::mem::take(&mut dropped),
                ]);
            }
            if !any {
                table.row([capture, &interface.name, "", "0", "0", "", "", "", &dropped]);
            }
        }
    }
    table.print_first(out, length.rows(FIRST_ROWS))
}
