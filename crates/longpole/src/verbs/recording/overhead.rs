//! `longpole overhead`: measures what a probe costs here, relative to the least possible cost, and
//! checks the budgets.

use crate::overhead::{self, Estimate, Key, Measurement, Threads};
use crate::render::answer;
use crate::render::table::Table;
use serde_json::{json, Value};
use std::io::{self, Write};
use std::process::ExitCode;

/// Number of events in a batch, so that the 16-byte events of one batch fill half a sub-buffer of
/// the 4 MiB ring.
const TURNS: u32 = 32_768;

/// Measure what a probe costs here: on, off, compiled out, against a bare time-stamp read
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  longpole overhead                  all probes, in an executable and in a library; takes some seconds
  longpole overhead --rounds 301     narrower intervals on a busy host
  longpole overhead --quick          only one 16-byte event; takes less than 0.1 s
  longpole overhead --json | jq '.budgets[] | select(.outcome != \"met\")'")]
pub struct Args {
    /// Measure only one 16-byte event
    #[arg(long)]
    quick: bool,

    /// Number of rounds; each round runs every loop once
    #[arg(long, default_value_t = 101, value_parser = clap::value_parser!(u32).range(15..=999))]
    rounds: u32,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let measurement = if args.quick { overhead::measure_quick()? } else { overhead::measure(args.rounds, TURNS)? };
    if let Some(lost) = measurement.lost.filter(|&lost| lost != 0) {
        anyhow::bail!("{lost} events were lost during the measurement, so its figures are invalid");
    }
    let budgets = budgets(&measurement);
    let mut out = io::BufWriter::new(io::stdout().lock());
    if args.json {
        answer::write_json(&mut out, &json_of(&measurement, &budgets))?;
    } else {
        text(&measurement, &budgets, &mut out)?;
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

/// The permitted cost of a probe, and the cost measured here.
struct Budget {
    what: &'static str,
    place: String,
    value: Estimate,
    unit: &'static str,
    least: f64,
    most: f64,
}

impl Budget {
    /// Returns the outcome. If the interval contains the limit, it proves neither.
    fn outcome(&self) -> &'static str {
        if self.value.low >= self.least && self.value.high <= self.most {
            "met"
        } else if self.value.low > self.most || self.value.high < self.least {
            "missed"
        } else {
            "not resolved"
        }
    }
}

const PLACES: [&str; 2] = ["executable", "library"];

fn budgets(measurement: &Measurement) -> Vec<Budget> {
    let mut budgets = Vec::new();
    let mut add = |what, place: &str, value: Option<Estimate>, unit, least, most| {
        if let Some(value) = value {
            budgets.push(Budget { what, place: place.to_owned(), value, unit, least, most });
        }
    };
    for place in PLACES {
        let key = |state, probe, threads| Key::new(place, state, probe, threads);
        let mark = key("on", "mark", Threads::One);
        add("16-byte event, on, to the limit", place, measurement.to_limit(&mark), "x", 0.0, 1.25);
        for (what, threads) in
            [("first of two threads, to one alone", Threads::FirstOfTwo), ("second of two threads, to one alone", Threads::SecondOfTwo)]
        {
            add(what, place, measurement.ratio(&key("on", "mark", threads), &mark), "x", 0.85, 1.15);
        }
        add("off, beyond the empty loop", place, measurement.cost(&key("off", "mark", Threads::One)), "ns", f64::MIN, 0.5);
        for (what, probe, most) in
            [("bytes of a span edge", "span edge", 8.0), ("bytes of a span edge, argument", "span edge, argument", 16.0)]
        {
            let bytes = measurement.bytes(&key("on", probe, Threads::One)).map(|bytes| bytes as f64);
            add(what, place, bytes.map(|bytes| Estimate { median: bytes, low: bytes, high: bytes }), "", 0.0, most);
        }
    }
    budgets
}

fn text(measurement: &Measurement, budgets: &[Budget], out: &mut impl Write) -> anyhow::Result<()> {
    writeln!(out, "Cost in ns of a turn without the loop around it: median and 95 % interval over rounds; CPU time of the thread.")?;
    writeln!(out, "The limit is a bare time-stamp read and a store of 32 bytes, in the same round.\n")?;
    let mut table = Table::new(&["probe", "", "in", "threads", ">ns", ">95 %", ">to the limit", ">95 %", ">bytes"]);
    for key in measurement.keys().filter(|key| key.probe != "empty") {
        let Some(cost) = measurement.cost(key) else { continue };
        let limit = measurement.to_limit(key).filter(|_| key.state == "on");
        let threads = match key.threads {
            Threads::One => "one",
            Threads::FirstOfTwo => "two, first",
            Threads::SecondOfTwo => "two, second",
        };
        table.row([
            key.probe.clone(),
            key.state.clone(),
            key.place.clone(),
            threads.to_owned(),
            format!("{:.2}", cost.median),
            interval(&cost, ""),
            limit.map_or(String::new(), |limit| format!("{:.2} x", limit.median)),
            limit.map_or(String::new(), |limit| interval(&limit, "")),
            measurement.bytes(key).map_or(String::new(), |bytes| bytes.to_string()),
        ]);
    }
    table.print(out)?;

    let mut table = Table::new(&["two probes, nothing between", "in", ">effective ns", ">total ns"]);
    for (place, probe, effective, total) in measurement.pairs() {
        table.row([probe.to_owned(), place.to_owned(), format!("{:.1}", effective.median), format!("{:.1}", total.median)]);
    }
    if !table.is_empty() {
        writeln!(out, "\nEffective: the time by which a measured interval is too long. Total: the time that the pair adds to the interval around it.\n")?;
        table.print(out)?;
    }

    let mut table = Table::new(&["once", "in", ">ns", ">95 %", ">the next", ">page faults"]);
    for (what, place, first, next, faults) in measurement.rare_events() {
        table.row([
            what.to_owned(),
            place.to_owned(),
            format!("{:.0}", first.median),
            format!("{:.0}-{:.0}", first.low, first.high),
            format!("{:.0}", next.median),
            format!("{:.0}", faults.median),
        ]);
    }
    if !table.is_empty() {
        writeln!(out)?;
        table.print(out)?;
    }

    let mut table = Table::new(&["budget", "in", ">measured", ">95 %", ">budget", ""]);
    for budget in budgets {
        let limit = match budget.least {
            least if least > 0.0 => format!("{least}-{} {}", budget.most, budget.unit),
            _ => format!("{} {}", budget.most, budget.unit),
        };
        table.row([
            budget.what.to_owned(),
            budget.place.clone(),
            format!("{:.2} {}", budget.value.median, budget.unit),
            interval(&budget.value, ""),
            limit,
            budget.outcome().to_owned(),
        ]);
    }
    writeln!(out)?;
    table.print(out)?;
    Ok(())
}

fn interval(estimate: &Estimate, unit: &str) -> String {
    format!("{:.2}-{:.2}{unit}", estimate.low, estimate.high)
}

fn json_of(measurement: &Measurement, budgets: &[Budget]) -> Value {
    let probes: Vec<Value> = measurement
        .keys()
        .filter(|key| key.probe != "empty")
        .map(|key| {
            let (threads, thread) = match key.threads {
                Threads::One => (1, 1),
                Threads::FirstOfTwo => (2, 1),
                Threads::SecondOfTwo => (2, 2),
            };
            json!({
                "probe": key.probe, "state": key.state, "place": key.place, "threads": threads, "thread": thread,
                "cost_ns": measurement.cost(key),
                "to_limit": measurement.to_limit(key).filter(|_| key.state == "on"),
                "bytes": measurement.bytes(key),
            })
        })
        .collect();
    let pairs: Vec<Value> = measurement
        .pairs()
        .into_iter()
        .map(|(place, probe, effective, total)| json!({"probe": probe, "place": place, "effective_ns": effective, "total_ns": total}))
        .collect();
    let once: Vec<Value> = measurement
        .rare_events()
        .into_iter()
        .map(|(what, place, first, next, faults)| {
            json!({"what": what, "place": place, "first_ns": first, "next_ns": next, "page_faults": faults})
        })
        .collect();
    let budgets: Vec<Value> = budgets
        .iter()
        .map(|budget| {
            json!({
                "what": budget.what, "place": budget.place, "unit": budget.unit, "measured": budget.value,
                "least": (budget.least > 0.0).then_some(budget.least), "most": budget.most, "outcome": budget.outcome(),
            })
        })
        .collect();
    json!({
        "probe_cost_ns": measurement.cost(&Key::new("executable", "on", "mark", Threads::One)).map(|cost| cost.median),
        "frequency_hz": measurement.frequency_hz, "lost": measurement.lost,
        "probes": probes, "pairs": pairs, "once": once, "budgets": budgets,
    })
}
