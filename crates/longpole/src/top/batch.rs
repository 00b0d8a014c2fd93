//! Prints periods as text, or as JSON.

use crate::render::answer::write_json_line;
use crate::render::length::Length;
use crate::render::style::{painted, title, Role};
use crate::render::table::{duration, number, percent, plain, Table};
use longpole_analysis::live::{order, Consumer, Period, ThreadUse};
use std::io::{self, Write};

/// What is printed of each period.
#[derive(Clone, Copy, Debug)]
pub struct Printed<'a> {
    /// Number of threads per CPU, and of queues and latencies.
    pub rows: usize,
    /// Only threads that this text selects; see [`order::is_selected`].
    pub filter: Option<&'a str>,
}

/// Prints the period as one line of JSON.
pub fn json(out: &mut impl Write, period: &Period) -> io::Result<()> {
    write_json_line(out, period)?;
    out.flush()
}

/// Prints the period for people: the verdict, and the threads with the most time on each CPU.
pub fn text(out: &mut impl Write, period: &Period, printed: Printed<'_>) -> io::Result<()> {
    writeln!(
        out,
        "{}",
        title(plain(format!("PERIOD {} at {}, {}: {}", period.number, time(period.end_ns), length(period), events(period))))
    )?;
    if period.skipped > 0 {
        writeln!(out, "{}", painted(Role::Caveat, skipped(period.skipped)))?;
    }
    writeln!(out, "{}", plain(period.verdict.clone()))?;
    if let Some(path) = &period.path {
        writeln!(out, "{}", plain(format!("critical path: {}::{} {}", path.machine, path.state, percent(path.share))))?;
    }
    let is_shown = |thread: &&ThreadUse| printed.filter.is_none_or(|text| order::is_selected(thread, text));
    match &period.cpus {
        Some(cpus) => {
            let mut table = Table::new(&["CPU", ">busy", "~>irq", "~>softirq", ">share", "thread", ">tid"]);
            for cpu in cpus {
                let is_shown = |consumer: &&Consumer| {
                    printed.filter.is_none_or(|text| period.threads.iter().any(|it| it.tid == consumer.tid && order::is_selected(it, text)))
                };
                let consumers = cpu.consumers.iter().filter(is_shown).take(printed.rows);
                let of_cpu = [cpu.cpu.to_string(), percent(cpu.busy), percent(cpu.irq), percent(cpu.softirq)];
                let mut head = Some(of_cpu);
                for consumer in consumers {
                    let head = head.take().unwrap_or_default();
                    let name = name(&consumer.process, &consumer.name);
                    table.row(head.into_iter().chain([percent(consumer.share), name, id(consumer.tid)]));
                }
                if let Some(idle) = head {
                    table.row(idle);
                }
            }
            table.print(out)?;
        }
        None => {
            let mut table = Table::new(&["thread", ">tid", ">running", ">blocked", "most often in"]);
            for thread in period.threads.iter().filter(is_shown).take(printed.rows) {
                let state = thread.probe_state.clone().unwrap_or_default();
                table.row([name(&thread.process, &thread.name), id(thread.tid), percent(thread.running), percent(thread.blocked), state]);
            }
            table.print_first(out, Length::default().rows(usize::MAX))?;
        }
    }
    probes(out, period, printed.rows)?;
    writeln!(out)?;
    out.flush()
}

/// Prints queues and latencies, if there are any.
fn probes(out: &mut impl Write, period: &Period, rows: usize) -> io::Result<()> {
    let share = |share: Option<f64>| share.map_or_else(|| "-".to_owned(), percent);
    if !period.queues.is_empty() {
        let mut table = Table::new(&["queue", ">level", ">max", ">capacity", ">full", ">empty", ">puts", ">gets"]);
        for queue in period.queues.iter().take(rows) {
            table.row([
                queue.name.clone(),
                queue.mean.map_or_else(|| "-".to_owned(), |mean| format!("{mean:.1}")),
                queue.max.map_or_else(|| "-".to_owned(), number),
                queue.capacity.map_or_else(|| "-".to_owned(), number),
                share(queue.full),
                share(queue.empty),
                number(queue.puts),
                number(queue.gets),
            ]);
        }
        table.print(out)?;
    }
    if !period.latencies.is_empty() {
        let mut table = Table::new(&["latency", "", ">count", ">mean", ">p99", ">max"]);
        let exact = |ns: Option<u64>| ns.map_or_else(|| "-".to_owned(), duration);
        for latency in period.latencies.iter().take(rows) {
            let (mean, of) = (latency.mean_ns.map(|ns| ns.round() as u64), between(latency));
            table.row([latency.name.clone(), of, number(latency.count), exact(mean), exact(latency.p99_ns), exact(latency.max_ns)]);
        }
        table.print(out)?;
    }
    Ok(())
}

/// Returns the kind of the latency, and whose it is.
pub fn between(latency: &longpole_analysis::live::Latency) -> String {
    use longpole_analysis::latency::Kind;
    let kind = match latency.kind {
        Kind::Rpc => "call",
        Kind::Span => "span",
        Kind::Signal => "signal",
        Kind::Activity => "activity",
        Kind::Object => "object",
        Kind::Custom => "custom",
    };
    match (&latency.machine, &latency.peer) {
        (Some(machine), Some(peer)) if latency.kind == Kind::Signal => format!("{kind} {peer} → {machine}"),
        (Some(machine), Some(peer)) => format!("{kind} {machine} → {peer}"),
        (Some(machine), None) => format!("{kind} of {machine}"),
        _ => kind.to_owned(),
    }
}

/// Returns the name of a thread, after that of its process.
pub fn name(process: &str, thread: &str) -> String {
    match process {
        "" => thread.to_owned(),
        process => format!("{process}/{thread}"),
    }
}

fn id(tid: Option<i32>) -> String {
    tid.map_or_else(String::new, |tid| tid.to_string())
}

/// Returns the length of the period.
pub fn length(period: &Period) -> String {
    format!("{:.1} s", period.seconds())
}

/// Returns the rates of events and losses.
pub fn events(period: &Period) -> String {
    let rate = |count: u64| number((count as f64 / period.seconds()).round() as u64);
    let events = &period.events;
    let lost = match events.probes_lost + events.kernel_lost {
        0 => "none lost".to_owned(),
        lost => format!("{} lost", number(lost)),
    };
    format!("{} kernel events/s, {} probe events/s, {lost}", rate(events.kernel), rate(events.probes))
}

/// Returns the sentence about periods that were not analysed.
pub fn skipped(count: u64) -> String {
    match count {
        1 => "1 period before this one was not analysed: reading takes longer than a period".to_owned(),
        count => format!("{} periods before this one were not analysed: reading takes longer than a period", number(count)),
    }
}

/// Returns the time of day in UTC.
pub fn time(unix_ns: i64) -> String {
    let seconds = unix_ns.div_euclid(1_000_000_000).rem_euclid(86_400);
    format!("{:02}:{:02}:{:02} UTC", seconds / 3600, seconds / 60 % 60, seconds % 60)
}
