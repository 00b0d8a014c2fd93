//! Losses and packet paths as text.

use crate::render::length::Length;
use crate::render::style::{painted, Role};
use crate::render::table::{duration, number, percent, plain, utc, Table};
use longpole_analysis::network::counters::{CounterLine, CountersAnswer, Listed};
use longpole_analysis::network::packet_loss::{LossLine, Person};
use longpole_analysis::network::packets::{FlowLine, PacketPathLine, PacketsAnswer, SingleLine};
use std::io::{self, Write};

/// Number of rows for which the first screen has room: of losses, legs and flows.
const FIRST_LOSSES: usize = 3;
const FIRST_LEGS: usize = 4;
const FIRST_FLOWS: usize = 3;

/// Prints the losses; nothing if there are none.
pub fn losses(out: &mut impl Write, lines: &[LossLine], length: Length) -> io::Result<()> {
    if lines.is_empty() {
        return Ok(());
    }
    let lost: u64 = lines.iter().filter(|line| line.lost).map(|line| line.count).sum();
    let all: u64 = lines.iter().filter(|line| line.lost).map(|line| line.datagrams).sum();
    let estimated = lines.iter().any(|line| line.lost && line.estimated);
    let what = if all > lost {
        format!("{} buffers, {} datagrams{}", number(lost), number(all), if estimated { " or more" } else { "" })
    } else {
        format!("{} packets", number(lost))
    };
    match lines.iter().find(|line| line.lost) {
        Some(worst) if worst.count == lost => writeln!(out, "LOST: {what}: {}", plain(worst.text.clone()))?,
        Some(worst) => writeln!(out, "LOST: {what}, {} of them: {}", number(worst.count), plain(worst.text.clone()))?,
        None => writeln!(out, "LOST: none; only packets without a receiver were discarded")?,
    }
    let mut table = Table::new(&["where", ">packets", "~first", "~last", "~reason", "~function", "sent by", "for"]);
    for line in lines {
        table.row([
            line.text.clone(),
            number(line.count),
            time(line.first_ns),
            time(line.last_ns),
            line.reason.clone().unwrap_or_default(),
            line.symbol.clone().unwrap_or_default(),
            line.sender.as_ref().map_or_else(String::new, thread_name),
            line.owner.as_ref().map_or_else(String::new, thread_name),
        ]);
        if line.lost {
            table.paint(Role::Limit);
        }
    }
    table.print_first(out, length.rows(FIRST_LOSSES))?;
    writeln!(out)
}

/// Prints the differences between the kernel's counters and the losses in events; nothing if there
/// are none.
pub fn counters(out: &mut impl Write, answer: &CountersAnswer) -> io::Result<()> {
    let counting: Vec<&CounterLine> = answer.counters.iter().filter(|line| line.named.is_some()).collect();
    for line in counting.iter().filter(|line| line.unnamed() > 0) {
        let (counter, delta, named) = (plain(line.counter.clone()), number(line.delta.unwrap_or(0)), line.named.unwrap_or(0));
        let what = match line.counter.ends_with("errors") && line.of == "link" {
            true => format!("has {} more packets with errors", number(line.unnamed())),
            false => format!("dropped {} more packets", number(line.unnamed())),
        };
        writeln!(out, "{} {what} than events show ({counter} {delta}, events {})", counted_by(line), number(named))?;
    }
    if answer.without_interface > 0 && counting.iter().any(|line| line.unnamed() > 0) {
        writeln!(out, "  {} of the losses above have no known interface", number(answer.without_interface))?;
    }
    if answer.unplaced > 0 {
        writeln!(
            out,
            "  {} of the losses above are not compared with a counter, because they are of too many kinds",
            number(answer.unplaced)
        )?;
    }
    let uncounted = |line: &CounterLine| line.uncounted() > 0 || line.delta.is_none();
    for line in counting.iter().filter(|line| uncounted(line)) {
        let (name, counter, named) = (counted_by(line), plain(line.counter.clone()), number(line.named.unwrap_or(0)));
        match line.delta {
            Some(delta) => {
                let more = number(line.uncounted());
                writeln!(
                    out,
                    "{name}: events name {more} more losses than the kernel counted ({counter} {}, events {named})",
                    number(delta)
                )?;
            }
            None => writeln!(out, "{name}: events name {named} losses, and its counter {counter} was not read at the begin and the end")?,
        }
    }
    if counting.iter().any(|line| uncounted(line)) {
        writeln!(out, "  {}", why(answer))?;
    }
    let mut agreeing = [Vec::new(), Vec::new()];
    for line in counting.iter().filter(|line| line.unnamed() == 0 && !uncounted(line)) {
        let (delta, named) = (line.delta.unwrap_or(0), line.named.unwrap_or(0));
        let name = format!("{} {} {}", counted_by(line), plain(line.counter.clone()), number(delta));
        match delta == named {
            true => agreeing[0].push(name),
            false => agreeing[1].push(format!("{name} (events {}, {} of them while it was read)", number(named), number(line.unsure))),
        }
    }
    if !agreeing[0].is_empty() {
        writeln!(out, "events account for all that the kernel counted as {}", agreeing[0].join(", "))?;
    }
    if !agreeing[1].is_empty() {
        writeln!(out, "events agree with what the kernel counted as {}", agreeing[1].join(", "))?;
    }
    if answer.left_out > 0 {
        let why = "there were too many, or their initial value is unknown";
        writeln!(out, "{} of the kernel's counters are not in the recording: {why}", number(answer.left_out))?;
    }
    if answer.not_read.count > 0 {
        writeln!(out, "counters of these namespaces were not read: {}", listed(&answer.not_read))?;
    }
    if !counting.is_empty() || answer.left_out > 0 || answer.not_read.count > 0 {
        writeln!(out)?;
    }
    Ok(())
}

fn counted_by(line: &CounterLine) -> String {
    let name = match (&line.interface, line.of.as_str()) {
        (Some(interface), of) => {
            let name = match line.namespace.as_deref() {
                Some("") => interface.clone(),
                Some(namespace) => format!("{namespace}/{interface}"),
                None if line.delta.is_some_and(|delta| delta > 0) => format!("{interface} (of several namespaces)"),
                None => interface.clone(),
            };
            if of == "qdisc" {
                format!("qdisc of {name}")
            } else {
                name
            }
        }
        (None, "udp") => "UDP".to_owned(),
        (None, "ip") => "IP".to_owned(),
        (None, "tcp") => "TCP".to_owned(),
        (None, "backlog") => "the CPUs' backlogs".to_owned(),
        (None, of) => of.to_owned(),
    };
    plain(name)
}

/// Returns the reasons why events can show losses that no counter has.
fn why(answer: &CountersAnswer) -> String {
    let mut reasons = Vec::new();
    if answer.gone.count > 0 {
        reasons.push(format!("gone before the end, with their counters: {}", listed(&answer.gone)));
    }
    if answer.not_read.count > 0 {
        reasons.push(format!("not read: {}", listed(&answer.not_read)));
    }
    if answer.left_out > 0 {
        reasons.push(format!("{} counters are left out", number(answer.left_out)));
    }
    match reasons.is_empty() {
        true => {
            "they may belong to a namespace or an interface that existed only for a while, or the kernel counts them elsewhere".to_owned()
        }
        false => reasons.join("; "),
    }
}

fn listed(some: &Listed) -> String {
    let names = plain(some.names.join(", "));
    match some.count.saturating_sub(some.names.len() as u64) {
        0 => names,
        more => format!("{names} and {} more", number(more)),
    }
}

pub fn each_loss(out: &mut impl Write, lines: impl Iterator<Item = SingleLine>, not_kept: u64) -> io::Result<()> {
    for line in lines {
        let length = line.length.map_or_else(String::new, |length| format!(" {length} bytes"));
        let (mark, kind) = (if line.kind.lost { "lost" } else { "dropped" }, &line.kind);
        let device = kind.device.as_ref().map_or_else(String::new, |device| format!(" device {device}"));
        let sender = kind.sender.as_ref().map_or_else(String::new, |sender| format!(" sent by {}", thread_name(sender)));
        let symbol = kind.symbol.as_ref().map_or_else(String::new, |symbol| format!(" in {symbol}"));
        writeln!(out, "{} {mark}{length} {}", utc(line.t_ns), plain(format!("{}{symbol}{device}{sender}", kind.text)))?;
    }
    if not_kept > 0 {
        writeln!(out, "and {} more: --begin and --end choose a part", number(not_kept))?;
    }
    Ok(())
}

pub fn packet_paths(out: &mut impl Write, answer: &PacketsAnswer, length: Length) -> io::Result<()> {
    let share =
        answer.complete_share.map_or_else(|| "none whose end is in the trace".to_owned(), |share| format!("{} complete", percent(share)));
    writeln!(out, "JOURNEYS: {} packets, {share}", number(answer.count))?;
    let ends = &answer.ends;
    let parts = [
        (ends.read, "read by a receive call"),
        (ends.stream, "came to a stream's socket"),
        (ends.lost, "lost or thrown away"),
        (ends.left, "left by a device"),
        (ends.split, "cut into segments"),
        (ends.kernel, "taken by the kernel itself"),
        (ends.waiting, "still in transit at the end"),
        (ends.unknown, "of unknown end"),
    ];
    let parts: Vec<String> =
        parts.iter().filter(|(count, _)| *count > 0).map(|(count, text)| format!("{} {text}", number(*count))).collect();
    writeln!(out, "  {}", parts.join(", "))?;
    let mut table = Table::new(&["leg", ">count", ">min", ">p50", ">p99", ">max"]);
    let exact = |ns: Option<u64>| ns.map_or_else(|| "-".to_owned(), duration);
    for leg in answer.legs.iter().filter(|leg| leg.times.count > 0) {
        let times = &leg.times;
        table.row([
            leg.text.to_owned(),
            number(times.count),
            exact(times.min_ns),
            exact(times.p50_ns),
            exact(times.p99_ns),
            exact(times.max_ns),
        ]);
    }
    table.print_first(out, length.rows(FIRST_LEGS))?;
    let mut table = Table::new(&["from", "to", ">packets", ">complete", ">lost", ">p50", ">p99"]);
    for flow in &answer.flows {
        let whole = &flow.whole;
        let complete = percent(flow.complete as f64 / flow.packets.max(1) as f64);
        table.row([from(flow), to(flow), number(flow.packets), complete, number(flow.ends.lost), exact(whole.p50_ns), exact(whole.p99_ns)]);
    }
    table.print_first(out, length.rows(FIRST_FLOWS))?;
    if answer.given_up > 0 {
        writeln!(out, "{} packets were not followed, because too many were in transit", number(answer.given_up))?;
    }
    let missing = match (answer.lost_events, answer.uncounted_losses) {
        (0, 0) => return Ok(()),
        (lost, 0) => format!("{} kernel events", number(lost)),
        (lost, gaps) => format!("{} kernel events and those of {} gaps of unknown size", number(lost), number(gaps)),
    };
    let caveat = format!("UNKNOWN: {missing} are missing: packets may have been lost without an event of the group `net`");
    writeln!(out, "{}", painted(Role::Caveat, caveat))
}

fn from(flow: &FlowLine) -> String {
    flow.from.as_ref().map_or_else(|| "(kernel or outside)".to_owned(), thread_name)
}

fn to(flow: &FlowLine) -> String {
    let socket = match (flow.protocol, flow.port) {
        (Some(protocol), Some(port)) => Some(format!("{protocol} port {port}")),
        (Some(protocol), None) => Some(protocol.to_owned()),
        (None, port) => port.map(|port| format!("port {port}")),
    };
    match (&flow.to, socket, &flow.device) {
        (Some(to), Some(socket), _) => format!("{} ({socket})", thread_name(to)),
        (Some(to), None, _) => thread_name(to),
        (None, Some(socket), _) => socket,
        (None, None, Some(device)) => format!("device {device}"),
        (None, None, None) => "unknown".to_owned(),
    }
}

fn thread_name(person: &Person) -> String {
    format!("{}/{}", person.name, person.tid)
}

/// Returns the time of day with microseconds.
fn time(ns: i64) -> String {
    utc(ns).get(11..26).unwrap_or_default().to_owned()
}

pub fn packet_path(out: &mut impl Write, path: &PacketPathLine) -> io::Result<()> {
    let ns = path.end_ns.saturating_sub(path.begin_ns).max(0) as u64;
    let complete = if path.complete { "complete" } else { "not complete" };
    writeln!(out, "JOURNEY {}: {} bytes, {}, {complete}", number(path.number), number(path.length.into()), duration(ns))?;
    let mut table = Table::new(&["~time", ">since begin", "step", "~>CPU", "by", "in call", "~device", "~>bytes", "~socket"]);
    let since = |t_ns: i64| format!("+{}", duration(t_ns.saturating_sub(path.begin_ns).max(0) as u64));
    if let (Some(sender), Some(call)) = (&path.sender, &path.send_call) {
        table.row([time_ns(path.begin_ns), since(path.begin_ns), "send call".to_owned(), String::new(), thread_name(sender), call.clone()]);
    }
    let mut wakeup = path.wakeup.as_ref();
    for step in &path.steps {
        if let Some(wakeup) = wakeup.take_if(|wakeup| wakeup.start_ns <= step.t_ns) {
            let reader = path.reader.as_ref().map_or_else(String::new, thread_name);
            table.row([time_ns(wakeup.wake_ns), since(wakeup.wake_ns), format!("{reader} is woken"), String::new(), wakeup.waker.clone()]);
            table.row([time_ns(wakeup.start_ns), since(wakeup.start_ns), format!("{reader} runs")]);
        }
        table.row([
            time_ns(step.t_ns),
            since(step.t_ns),
            step.step.to_owned(),
            step.cpu.to_string(),
            step.by.clone().unwrap_or_else(|| "unknown".to_owned()),
            step.call.clone().unwrap_or_default(),
            step.device.clone().unwrap_or_default(),
            step.length.map_or_else(String::new, |length| number(length.into())),
            step.socket.clone().unwrap_or_default(),
        ]);
    }
    table.print(out)?;
    if let Some(probes) = &path.probes {
        if !probes.open.is_empty() {
            writeln!(out, "the receive call is in {}", plain(probes.open.join(" > ")))?;
        }
        for probe in &probes.after {
            writeln!(out, "then {} {} {}", time_ns(probe.t_ns), since(probe.t_ns), plain(probe.name.clone()))?;
        }
    }
    for frame in &path.frames {
        let way = match frame.outbound {
            Some(true) => "out of",
            Some(false) => "in by",
            None => "at",
        };
        writeln!(
            out,
            "captured {way} {} at {}, {} bytes ({}):",
            plain(frame.device.clone()),
            time_ns(frame.t_ns),
            number(frame.length.into()),
            plain(frame.capture.clone())
        )?;
        for line in frame.bytes.as_bytes().chunks(64) {
            let pairs: Vec<_> = line.chunks(2).map(String::from_utf8_lossy).collect();
            writeln!(out, "  {}", pairs.join(" "))?;
        }
    }
    Ok(())
}

/// Returns the time of day with nanoseconds.
fn time_ns(ns: i64) -> String {
    utc(ns).get(11..).unwrap_or_default().to_owned()
}
