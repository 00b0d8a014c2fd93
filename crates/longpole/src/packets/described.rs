//! Prints the descriptions that captures contain, for `info`.

use crate::render::table::{number, plain, Table};
use longpole_trace::CaptureInterface;
use longpole_trace::Description;
use serde_json::{json, Map, Value};
use std::collections::BTreeMap;
use std::io::{self, Write};

/// Maximum number of lines per list that are printed.
const MAX_LINES: usize = 10;

pub fn text(name: &str, capture: &Description, out: &mut impl Write) -> io::Result<()> {
    let by = [("by ", &capture.application), ("on ", &capture.os), ("", &capture.hardware)];
    let by: String =
        by.iter().filter(|(_, texts)| !texts.is_empty()).map(|(word, texts)| format!(", {word}{}", texts.join(" and "))).collect();
    let sections = match (capture.format, capture.sections) {
        ("pcap", _) => String::new(),
        (_, 1) => ", one section".to_owned(),
        (_, count) => format!(", {} sections", number(count)),
    };
    writeln!(out, "\n{}", plain(format!("{name}: {}{sections}{by}", capture.format)))?;
    let mut table = Table::new(&[
        ">section",
        ">id",
        "interface",
        ">link",
        ">cap",
        ">unit",
        ">packets",
        ">received",
        ">dropped",
        ">dropped by OS",
        "more",
    ]);
    for interface in capture.interfaces.iter().take(MAX_LINES) {
        let counted = interface.statistics.unwrap_or_default();
        let count = |count: Option<u64>| count.map_or(String::new(), number);
        table.row([
            number(interface.section.into()),
            number(interface.id.into()),
            interface.name.clone(),
            interface.link_type.to_string(),
            if interface.snaplen == 0 { "none".to_owned() } else { number(interface.snaplen.into()) },
            interface.resolution.clone(),
            number(interface.packets),
            count(counted.received),
            count(counted.dropped),
            count(counted.os_dropped),
            plain(details(interface)),
        ]);
    }
    table.print(out)?;
    rest(capture.interfaces.len(), "interfaces", out)?;
    for comment in capture.comments.iter().take(MAX_LINES) {
        writeln!(out, "  comment: {}", plain(comment.clone()))?;
    }
    rest(capture.comments.len(), "comments", out)?;
    if capture.packet_comments > 0 {
        writeln!(out, "  {} comments of packets (`longpole print`)", number(capture.packet_comments))?;
    }
    for (address, names) in capture.names.iter().take(MAX_LINES) {
        writeln!(out, "  name: {}", plain(format!("{address} is {}", names.join(", "))))?;
    }
    rest(capture.names.len(), "names", out)?;
    for (kind, count) in &capture.secrets {
        writeln!(out, "  secrets: {} of {kind}", number(*count))?;
    }
    if capture.journal_entries > 0 {
        writeln!(out, "  entries of the journal: {}", number(capture.journal_entries))?;
    }
    blocks("custom blocks of enterprise", &capture.custom, |number| number.to_string(), out)?;
    blocks("blocks of the unknown type", &capture.unknown, |kind| format!("{kind:#x}"), out)?;
    if capture.more > 0 {
        writeln!(out, "  {} more of these are not listed", number(capture.more))?;
    }
    Ok(())
}

fn rest(count: usize, what: &str, out: &mut impl Write) -> io::Result<()> {
    match count.saturating_sub(MAX_LINES) {
        0 => Ok(()),
        more => writeln!(out, "  and {} more {what} (--json)", number(more as u64)),
    }
}

fn blocks(what: &str, blocks: &BTreeMap<u32, u64>, shown: impl Fn(u32) -> String, out: &mut impl Write) -> io::Result<()> {
    for (kind, count) in blocks.iter().take(MAX_LINES) {
        writeln!(out, "  {what} {}: {}", shown(*kind), number(*count))?;
    }
    rest(blocks.len(), what, out)
}

fn details(interface: &CaptureInterface) -> String {
    let text = |word: &str, text: &Option<String>| text.as_ref().map(|text| format!("{word}{text}"));
    let named = interface.description.clone().filter(|text| *text != interface.name);
    let mut parts: Vec<String> = [
        named,
        text("filter ", &interface.filter),
        interface.speed_bps.map(|speed| format!("{} bit/s", number(speed))),
        (interface.offset_s != 0).then(|| format!("times {} s later", interface.offset_s)),
        text("on ", &interface.os),
        interface.hardware.clone(),
    ]
    .into_iter()
    .flatten()
    .collect();
    parts.extend(interface.addresses.iter().take(MAX_LINES).cloned());
    parts.join(", ")
}

pub fn json(name: &str, capture: &Description) -> Value {
    let keyed =
        |map: &BTreeMap<u32, u64>| map.iter().map(|(key, count)| (key.to_string(), (*count).into())).collect::<Map<String, Value>>();
    let secrets: Map<String, Value> = capture.secrets.iter().map(|(kind, count)| (kind.clone(), (*count).into())).collect();
    let names: Vec<Value> = capture.names.iter().map(|(address, names)| json!({"address": address, "names": names})).collect();
    json!({
        "name": name,
        "format": capture.format,
        "sections": capture.sections,
        "hardware": capture.hardware,
        "os": capture.os,
        "application": capture.application,
        "interfaces": capture.interfaces.iter().map(interface).collect::<Vec<_>>(),
        "comments": capture.comments,
        "packet_comments": capture.packet_comments,
        "names": names,
        "secrets": secrets,
        "journal_entries": capture.journal_entries,
        "custom": keyed(&capture.custom),
        "unknown": keyed(&capture.unknown),
        "not_listed": capture.more,
    })
}

fn interface(interface: &CaptureInterface) -> Value {
    let statistics = interface.statistics.map(|counted| {
        json!({
            "t_ns": counted.t_ns,
            "received": counted.received,
            "dropped": counted.dropped,
            "accepted": counted.accepted,
            "os_dropped": counted.os_dropped,
            "delivered": counted.delivered,
        })
    });
    json!({
        "section": interface.section,
        "id": interface.id,
        "name": interface.name,
        "description": interface.description,
        "link_type": interface.link_type,
        "snaplen": interface.snaplen,
        "resolution": interface.resolution,
        "offset_s": interface.offset_s,
        "addresses": interface.addresses,
        "speed_bps": interface.speed_bps,
        "filter": interface.filter,
        "os": interface.os,
        "hardware": interface.hardware,
        "packets": interface.packets,
        "statistics": statistics,
    })
}
