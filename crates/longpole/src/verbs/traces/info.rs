//! `longpole info`: shows what a trace contains. Reads everything once and stores only counts.

use crate::input::{self, empty_range, unpacked, Input};
use crate::packets::described;
use crate::render::answer;
use crate::render::length::Length;
use crate::render::style::title;
use crate::render::table::{bytes, duration, number, percent, plain, plain_lines, rate, utc, Table};
use crate::render::terminal::output;
use crate::render::terminal::screen::LINES;
use longpole_trace::{CtfTrace, Description, EnvValue, Loss, Packets, Recording, Run, StreamId, StreamKind, SwitchedOff, Trace, Unmerged};
use serde_json::{json, Map, Value};
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::ops::Range;
use std::process::ExitCode;

/// Show what a trace contains: streams, events by name, losses, clock, sources.
#[derive(clap::Args)]
#[command(mut_arg("all", crate::input::all_without_effect))]
#[command(after_help = "\
Examples:
  longpole info                              the newest recording
  longpole info --histogram traces/latest    with the number of events over time
  longpole info --json ~/lttng-traces/run1 | jq .lost
  longpole info --begin +1s --end +2s        only the second second")]
pub struct Args {
    #[command(flatten)]
    input: Input,

    #[command(flatten)]
    length: Length,

    /// Show the number of events over time
    #[arg(long)]
    histogram: bool,
}

pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let paths = args.input.completed_paths()?;
    let mut trace = input::open_stored(&paths, args.input.options())?;
    let mut counts = Counts::read(&mut trace)?;
    empty_range::check(&trace, &paths, &args.input.options())?;
    counts.captures(&trace)?;
    let path = unpacked::renamed(paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(" "));
    let mut out = if args.input.json { output::raw() } else { output::text() };
    if args.input.json {
        answer::write_json(&mut out, &counts.json(&trace, &path, args.histogram))?;
    } else {
        counts.text(&trace, &path, (args.histogram, args.length), &mut out)?;
    }
    out.flush()?;
    Ok(if trace.is_damaged() { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

#[derive(Default)]
struct Counts {
    events: u64,
    lost: u64,
    /// Number of losses for which the number of events is unknown.
    uncounted: u64,
    start_ns: Option<i64>,
    end_ns: Option<i64>,
    /// Event counts, indexed by class; `streams` is indexed by stream.
    classes: Vec<u64>,
    streams: Vec<StreamCount>,
    histogram: Histogram,
    diagnostics: Vec<String>,
    /// Descriptions of captures, with the names of their streams.
    described: Vec<(String, Description)>,
}

#[derive(Clone, Debug, Default)]
struct StreamCount {
    name: String,
    kind: Option<StreamKind>,
    events: u64,
    lost: u64,
    start_ns: Option<i64>,
    end_ns: Option<i64>,
    /// Packet counts of a CTF stream; `None` for other streams.
    packets: Option<Packets>,
}

impl Counts {
    fn read(trace: &mut Trace) -> anyhow::Result<Counts> {
        let mut counts = Counts::default();
        trace.read_unmerged(|part| match part {
            Unmerged::Events(run) => counts.events(run),
            Unmerged::Loss(loss) => counts.loss(loss),
        })?;
        for (index, stream) in trace.catalogue().streams.iter().enumerate() {
            let count = grown(&mut counts.streams, index as u32);
            count.name.clone_from(&stream.name);
            count.kind = Some(stream.kind);
            count.packets = Some(trace.packets(StreamId(index as u32))).filter(|packets| packets.bytes > 0);
        }
        counts.diagnostics = trace.diagnostics().iter().map(ToString::to_string).collect();
        counts.diagnostics.extend(trace.no_event().map(|why| why.to_string()));
        Ok(counts)
    }

    fn events(&mut self, run: &Run<'_>) {
        let events = run.len() as u64;
        self.events += events;
        run.each_class(|class, events| *grown(&mut self.classes, class.0) += events);
        let (first_ns, last_ns) = (run.t_ns(0), run.t_ns(run.len() - 1));
        let (start_ns, end_ns) = match run.is_ordered() {
            true => (first_ns, last_ns),
            false => (0..run.len()).map(|index| run.t_ns(index)).fold((first_ns, first_ns), |(start, end), t| (start.min(t), end.max(t))),
        };
        self.start_ns = Some(self.start_ns.map_or(start_ns, |start| start.min(start_ns)));
        self.end_ns = Some(self.end_ns.map_or(end_ns, |end| end.max(end_ns)));
        let stream = grown(&mut self.streams, run.stream().0);
        stream.events += events;
        stream.start_ns.get_or_insert(first_ns);
        stream.end_ns = Some(last_ns);
        match run.is_ordered() {
            true => self.histogram.add_ordered(0..run.len(), |index| run.t_ns(index)),
            false => (0..run.len()).for_each(|index| self.histogram.add(run.t_ns(index))),
        }
    }

    fn loss(&mut self, loss: &Loss) {
        let lost = loss.events.unwrap_or(0);
        self.lost = self.lost.saturating_add(lost);
        self.uncounted += u64::from(loss.events.is_none());
        let of_stream = &mut grown(&mut self.streams, loss.stream.0).lost;
        *of_stream = of_stream.saturating_add(lost);
    }

    /// Adds captures. Those of a recording are not streams of its events, but they are files that
    /// users ask about.
    fn captures(&mut self, trace: &Trace) -> anyhow::Result<()> {
        // A capture in a recording repeats what the recording's own description contains.
        let foreign = trace.captures().iter().filter(|_| trace.recordings().is_empty());
        for capture in foreign {
            self.described.push((capture.name.clone(), capture.describe()?.0));
        }
        for capture in trace.captures() {
            if self.streams.iter().any(|stream| stream.name == capture.name) {
                continue;
            }
            let (interfaces, diagnostics) = capture.count(i64::MIN, i64::MAX)?;
            let packets = interfaces.iter().flat_map(|interface| interface.directions).map(|traffic| traffic.packets).sum();
            let lost = interfaces.iter().filter_map(|interface| interface.dropped).fold(0, u64::saturating_add);
            let name = capture.name.clone();
            self.streams.push(StreamCount { name, kind: Some(StreamKind::Packets), events: packets, lost, ..StreamCount::default() });
            self.diagnostics.extend(diagnostics.iter().map(ToString::to_string));
        }
        Ok(())
    }

    fn names(&self, trace: &Trace) -> Vec<(String, u64)> {
        let mut sums: BTreeMap<&str, u64> = BTreeMap::new();
        for (class, &count) in trace.catalogue().classes.iter().zip(&self.classes) {
            if count > 0 {
                *sums.entry(&class.event_name).or_default() += count;
            }
        }
        let mut names: Vec<(String, u64)> = sums.into_iter().map(|(name, count)| (name.to_owned(), count)).collect();
        names.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        names
    }

    /// Returns the number of user-defined events whose fields were not recorded, because the name
    /// was made at run time, or because no event class was left.
    fn without_fields(&self, trace: &Trace) -> u64 {
        if trace.recordings().is_empty() {
            return 0;
        }
        let classes = trace.catalogue().classes.iter().zip(&self.classes);
        classes.filter(|(class, _)| class.event_name == "event" && class.fields == ["name"]).map(|(_, &count)| count).sum()
    }

    fn json(&self, trace: &Trace, path: &str, histogram: bool) -> Value {
        let names: Map<String, Value> = self.names(trace).into_iter().map(|(name, count)| (name, count.into())).collect();
        let streams: Vec<Value> = self
            .streams
            .iter()
            .map(|stream| {
                let kind = stream.kind.map(kind_name);
                json!({
                    "name": stream.name,
                    "kind": kind,
                    "events": stream.events,
                    "lost": stream.lost,
                    "start_ns": stream.start_ns,
                    "end_ns": stream.end_ns,
                    "packets": stream.packets.map(|packets| packets.packets),
                    "packets_lost": stream.packets.map(|packets| packets.lost),
                    "bytes": stream.packets.map(|packets| packets.bytes),
                })
            })
            .collect();
        let clock = trace.clock();
        let mut answer = json!({
            "path": path,
            "start_ns": self.start_ns,
            "end_ns": self.end_ns,
            "events": self.events,
            "lost": self.lost,
            "uncounted_losses": self.uncounted,
            "names": names,
            "streams": streams,
            "sources": trace.producers(),
            "traces": trace.ctf_traces().iter().map(ctf_trace_json).collect::<Vec<_>>(),
            "clock": {
                "source": clock.source,
                "frequency_hz": clock.frequency_hz,
                "offset_ns": clock.offset_ns,
                "residual_ns": clock.residual_ns,
            },
            "probe_cost_ns": trace.probe_cost_ns(),
            "diagnostics": self.diagnostics.iter().cloned().map(unpacked::renamed).collect::<Vec<_>>(),
            "without_fields": self.without_fields(trace),
        });
        if !self.described.is_empty() {
            answer["captures"] = self.described.iter().map(|(name, capture)| described::json(name, capture)).collect();
        }
        if let Some(recording) = trace.recordings().first() {
            if let Some(kernel) = &recording.kernel_events {
                let off = |off: &SwitchedOff| json!({ "what": off.what, "since_ns": off.since_ns });
                answer["switched_off"] = kernel.switched_off.iter().map(off).collect();
            }
            if let Some(chunk) = &recording.chunk {
                let removed = &chunk.removed;
                answer["chunk"] = json!({
                    "number": chunk.number,
                    "removed": {
                        "chunks": removed.chunks,
                        "events": removed.events,
                        "lost": removed.lost,
                        "kernel_events": removed.kernel_events,
                        "until_ns": removed.until_ns,
                    },
                });
            }
            if let Some(snapshot) = &recording.snapshot {
                answer["snapshot"] = json!({
                    "of": snapshot.of,
                    "when": snapshot.when,
                    "cause": snapshot.cause,
                    "event_ns": snapshot.event_ns,
                    "frozen_ns": snapshot.paused_ns,
                    "latency_ns": snapshot.latency_ns,
                });
            }
        }
        if histogram {
            answer["histogram"] = json!({
                "start_ns": self.start_ns,
                "width_ns": self.histogram.width_ns(),
                "events": self.histogram.used(),
            });
        }
        answer
    }

    fn text(&self, trace: &Trace, path: &str, (histogram, length): (bool, Length), out: &mut impl Write) -> io::Result<()> {
        writeln!(out, "{}", title(plain(path.to_owned())))?;
        let head = self.head(trace);
        head.print(out)?;
        let room = LINES.saturating_sub(OTHER_LINES + head.len()).max(2);
        ctf_traces(trace, out)?;

        writeln!(out, "\n{}", title("Streams"))?;
        self.stream_table().print_first(out, length.rows(room / 2))?;
        for (name, capture) in &self.described {
            described::text(name, capture, out)?;
        }

        writeln!(out, "\n{}", title("Events"))?;
        let mut names = Table::new(&["name", ">events", ">share"]);
        for (name, count) in self.names(trace) {
            names.row([name, number(count), percent(count as f64 / self.events.max(1) as f64)]);
        }
        names.print_first(out, length.rows(room.div_ceil(2)))?;
        match self.without_fields(trace) {
            0 => {}
            count => writeln!(
                out,
                "of {} events the fields are not recorded: their names were made at run time, or came after 65,000 others",
                number(count)
            )?,
        }

        if histogram && self.events > 0 {
            writeln!(out, "\n{} (a row is {})", title("Over time"), duration(self.histogram.width_ns()))?;
            self.histogram.print(out)?;
        }
        if !self.diagnostics.is_empty() {
            writeln!(out, "\n{}", title("Diagnostics"))?;
            for diagnostic in &self.diagnostics {
                writeln!(out, "  {}", plain_lines(diagnostic.to_string()))?;
            }
        }
        Ok(())
    }

    /// What holds for the whole trace: host, times, counts, clock.
    fn head(&self, trace: &Trace) -> Table {
        let mut head = Table::new(&["", ""]);
        if let Some(recording) = trace.recordings().first() {
            let system: Vec<&str> = [&recording.host, &recording.kernel].into_iter().flatten().map(String::as_str).collect();
            if !system.is_empty() {
                head.row(["host".to_owned(), system.join(", ")]);
            }
        }
        if !trace.producers().is_empty() {
            head.row(["sources".to_owned(), trace.producers().join(", ")]);
        }
        let length_ns = self.end_ns.zip(self.start_ns).map_or(0, |(end, start)| end.abs_diff(start));
        match (self.start_ns, self.end_ns) {
            (Some(start), Some(end)) => {
                head.row(["begin".to_owned(), utc(start)]);
                head.row(["end".to_owned(), utc(end)]);
                head.row(["duration".to_owned(), duration(length_ns)]);
            }
            _ => head.row(["duration", "no event"]),
        }
        let per_second = if length_ns > 0 { self.events as f64 * 1e9 / length_ns as f64 } else { 0.0 };
        head.row(["events".to_owned(), format!("{} ({})", number(self.events), rate(per_second, "events"))]);
        let all = self.events.saturating_add(self.lost);
        let share = if all > 0 { self.lost as f64 / all as f64 } else { 0.0 };
        let uncounted = match self.uncounted {
            0 => String::new(),
            some => format!(", and {} losses of an unknown number", number(some)),
        };
        head.row(["lost".to_owned(), format!("{} ({}){uncounted}", number(self.lost), percent(share))]);
        if let Some(recording) = trace.recordings().first() {
            self.recording_rows(recording, &mut head);
        }
        let clock = trace.clock();
        if let Some(frequency) = clock.frequency_hz {
            let source = clock.source.as_deref().unwrap_or("unknown source");
            let residual = clock.residual_ns.map_or("residual unknown".to_owned(), |ns| format!("residual {ns:.0} ns"));
            head.row(["clock".to_owned(), format!("{source}, {} Hz, {residual}", number(frequency))]);
        }
        if let Some(cost) = trace.probe_cost_ns() {
            head.row(["probe cost".to_owned(), format!("{cost:.1} ns")]);
        }
        let of_packets = |of: fn(&Packets) -> u64| self.streams.iter().filter_map(|stream| stream.packets.as_ref()).map(of).sum::<u64>();
        let stored = of_packets(|packets| packets.bytes);
        if stored > 0 {
            head.row(["stored".to_owned(), format!("{} in {} packets", bytes(stored), number(of_packets(|packets| packets.packets)))]);
        }
        head
    }

    /// What is particular to our own recordings: events that were switched off, the number of the
    /// chunk and what was removed before it, and the cause of a snapshot.
    fn recording_rows(&self, recording: &Recording, head: &mut Table) {
        for off in recording.kernel_events.iter().flat_map(|kernel| &kernel.switched_off) {
            let since = off.since_ns.zip(self.start_ns).map(|(since, start)| since.saturating_sub(start).max(0) as f64 / 1e9);
            let since = since.map_or(String::new(), |since| format!("from +{since:.3} s on, "));
            let what = format!("{since}{}: the kernel emitted more events than could be stored", off.what);
            head.row(["not recorded".to_owned(), plain(what)]);
        }
        if let Some(chunk) = &recording.chunk {
            let removed = &chunk.removed;
            head.row(["chunk".to_owned(), number(chunk.number)]);
            if removed.chunks > 0 {
                let kernel = match removed.kernel_events {
                    Some(0) => String::new(),
                    Some(events) => format!(" and {} of the kernel", number(events)),
                    None => " and an unknown number of the kernel".to_owned(),
                };
                let lost = if removed.lost > 0 { format!(", {} lost", number(removed.lost)) } else { String::new() };
                let until = removed.until_ns.map_or(String::new(), |until| format!(", until {}", utc(until)));
                let (chunks, events) = (number(removed.chunks), number(removed.events));
                head.row(["removed".to_owned(), format!("{chunks} older chunks with {events} events{kernel}{lost}{until}")]);
            }
        }
        if let Some(snapshot) = &recording.snapshot {
            let cause = snapshot.cause.as_deref().map_or(String::new(), |cause| format!(": {cause}"));
            let late = snapshot.latency_ns.map_or(String::new(), |late| format!(", paused {} later", duration(late)));
            head.row(["snapshot".to_owned(), plain(format!("of {}{cause}{late}", snapshot.of.as_deref().unwrap_or("?")))]);
        }
    }

    fn stream_table(&self) -> Table {
        let mut streams = Table::new(&["name", "kind", ">events", ">share", ">lost", "~>packets"]);
        for stream in &self.streams {
            let share = match stream.kind {
                // Captured packets are not events, so they have no share of the events.
                Some(StreamKind::Packets) if self.events == 0 => String::new(),
                _ if self.events == 0 || stream.events > self.events => String::new(),
                _ => percent(stream.events as f64 / self.events as f64),
            };
            let kind = stream.kind.map_or("", kind_name);
            let packets = stream.packets.map_or(String::new(), |packets| match packets.lost {
                0 => number(packets.packets),
                lost => format!("{}, {} missing", number(packets.packets), number(lost)),
            });
            streams.row([stream.name.as_str(), kind, &number(stream.events), &share, &number(stream.lost), &packets]);
        }
        streams
    }
}

/// Number of lines that are neither in the head nor rows of streams and events: the path; of each
/// table an empty line, a title, a head, and the number of further rows.
const OTHER_LINES: usize = 9;

/// Maximum number of traces that are described in the text.
const MAX_CTF_TRACES: usize = 16;

fn ctf_trace_json(ctf_trace: &CtfTrace) -> Value {
    let environment: Map<String, Value> = ctf_trace
        .environment
        .iter()
        .map(|(name, value)| {
            let value = match value {
                EnvValue::Int(value) => Value::from(*value),
                EnvValue::Text(text) => Value::from(text.as_str()),
            };
            (name.clone(), value)
        })
        .collect();
    let clocks: Vec<Value> = ctf_trace
        .clocks
        .iter()
        .map(|clock| {
            json!({
                "name": clock.name,
                "uuid": clock.uuid,
                "description": clock.description,
                "frequency_hz": clock.frequency_hz,
                "offset_ns": clock.offset_ns,
            })
        })
        .collect();
    json!({
        "path": unpacked::renamed(ctf_trace.path.display().to_string()),
        "uuid": ctf_trace.uuid,
        "environment": environment,
        "clocks": clocks,
    })
}

/// Prints what CTF traces contain about themselves. Traces of our own recorder were already
/// described.
fn ctf_traces(trace: &Trace, out: &mut impl Write) -> io::Result<()> {
    let foreign = || trace.ctf_traces().iter().filter(|ctf_trace| ctf_trace.text("tracer_name") != Some("longpole"));
    if !trace.recordings().is_empty() || foreign().next().is_none() {
        return Ok(());
    }
    writeln!(out, "\nTraces")?;
    for ctf_trace in foreign().take(MAX_CTF_TRACES) {
        let mut table = Table::new(&["", ""]);
        for (name, value) in &ctf_trace.environment {
            let value = match value {
                EnvValue::Int(value) => value.to_string(),
                EnvValue::Text(text) => text.clone(),
            };
            table.row([name.clone(), plain(value)]);
        }
        for clock in &ctf_trace.clocks {
            let of = clock.uuid.as_deref().map_or(String::new(), |uuid| format!(", {uuid}"));
            table.row([
                "clock".to_owned(),
                plain(format!("{}, {} Hz, 0 is {}{of}", clock.name, number(clock.frequency_hz), utc(clock.offset_ns))),
            ]);
        }
        if let Some(uuid) = &ctf_trace.uuid {
            table.row(["uuid".to_owned(), uuid.clone()]);
        }
        writeln!(out, "  {}", plain(unpacked::renamed(ctf_trace.path.display().to_string())))?;
        table.print(out)?;
    }
    match foreign().count().saturating_sub(MAX_CTF_TRACES) {
        0 => Ok(()),
        more => writeln!(out, "  and {} more", number(more as u64)),
    }
}

fn kind_name(kind: StreamKind) -> &'static str {
    match kind {
        StreamKind::User => "user",
        StreamKind::Kernel => "kernel",
        StreamKind::Packets => "packets",
        StreamKind::Samples => "samples",
    }
}

/// Returns the entry `index`, and adds it if needed: catalogues grow while a trace is read.
#[inline]
fn grown<T: Clone + Default>(list: &mut Vec<T>, index: u32) -> &mut T {
    let index = index as usize;
    if index >= list.len() {
        list.resize(index + 1, T::default());
    }
    &mut list[index]
}

/// Events over time in a fixed number of buckets. Their width doubles when the trace exceeds them,
/// so that one pass is enough although the length of the trace is not known before.
struct Histogram {
    start_ns: Option<i64>,
    /// Binary logarithm of the bucket width in ns.
    shift: u32,
    buckets: [u64; BUCKETS],
}

const BUCKETS: usize = 64;
const BAR: u64 = 60;

impl Default for Histogram {
    fn default() -> Histogram {
        Histogram { start_ns: None, shift: 0, buckets: [0; BUCKETS] }
    }
}

impl Histogram {
    fn add(&mut self, t_ns: i64) {
        let bucket = self.bucket(t_ns);
        self.buckets[bucket] += 1;
    }

    /// Adds the events with these indices, none of which is earlier than the one before it.
    /// Usually all are in one bucket, and then only the times of the first and the last are needed.
    fn add_ordered(&mut self, events: Range<usize>, t_ns: impl Fn(usize) -> i64 + Copy) {
        if events.is_empty() {
            return;
        }
        self.bucket(t_ns(events.start));
        let last = self.bucket(t_ns(events.end - 1));
        match self.bucket(t_ns(events.start)) == last {
            true => self.buckets[last] += events.len() as u64,
            false => {
                let middle = events.start + events.len() / 2;
                self.add_ordered(events.start..middle, t_ns);
                self.add_ordered(middle..events.end, t_ns);
            }
        }
    }

    /// Returns the bucket for an event, and widens all buckets if there is none for it.
    #[inline]
    fn bucket(&mut self, t_ns: i64) -> usize {
        let start_ns = *self.start_ns.get_or_insert(t_ns);
        // An event that arrived too late to be sorted is counted in the first bucket.
        let since = t_ns.saturating_sub(start_ns).max(0) as u64;
        while since >> self.shift >= BUCKETS as u64 {
            self.widen();
        }
        (since >> self.shift) as usize
    }

    #[cold]
    fn widen(&mut self) {
        for at in 0..BUCKETS / 2 {
            self.buckets[at] = self.buckets[2 * at] + self.buckets[2 * at + 1];
        }
        self.buckets[BUCKETS / 2..].fill(0);
        self.shift += 1;
    }

    fn width_ns(&self) -> u64 {
        1 << self.shift
    }

    fn used(&self) -> &[u64] {
        let used = self.buckets.iter().rposition(|&count| count > 0).map_or(0, |last| last + 1);
        &self.buckets[..used]
    }

    fn print(&self, out: &mut impl Write) -> io::Result<()> {
        let most = self.used().iter().copied().max().unwrap_or(0).max(1);
        let mut table = Table::new(&[">", ">", ""]);
        for (at, &count) in self.used().iter().enumerate() {
            let since = format!("+{}", duration((at as u64) << self.shift));
            // A bucket with few events still gets one letter, so that it is visible.
            let length = (u128::from(count) * u128::from(BAR) / u128::from(most)) as usize;
            let bar = "#".repeat(if count > 0 { length.max(1) } else { 0 });
            table.row([since, number(count), bar]);
        }
        table.print(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_histogram_loses_no_event_while_its_buckets_widen() {
        let mut histogram = Histogram::default();
        for t_ns in 0..10_000 {
            histogram.add(t_ns);
        }
        assert_eq!(histogram.width_ns(), 256);
        assert_eq!(histogram.used().iter().sum::<u64>(), 10_000);
        assert_eq!(histogram.used()[0], 256);
    }

    #[test]
    fn a_histogram_of_ordered_events_equals_that_of_single_events() {
        let times: Vec<i64> = (0..3000).map(|index| index * index / 7).collect();
        let (mut together, mut singly) = (Histogram::default(), Histogram::default());
        for range in [0..1, 1..2, 2..2000, 2000..2000, 2000..3000] {
            together.add_ordered(range, |index| times[index]);
        }
        times.iter().for_each(|&t_ns| singly.add(t_ns));
        assert_eq!((together.used(), together.width_ns()), (singly.used(), singly.width_ns()));
    }

    #[test]
    fn a_histogram_has_room_for_the_longest_possible_trace() {
        let mut histogram = Histogram::default();
        histogram.add(i64::MIN);
        histogram.add(i64::MAX);
        assert_eq!(histogram.used().iter().sum::<u64>(), 2);
    }
}
