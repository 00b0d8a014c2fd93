//! Reads a trace once through all analyses of probes, for `latency`, `queues` and `diff`. `cpu` and
//! `report` read it otherwise and use [`ProbeReading`] and its footer.

pub use crate::render::answer::write;

use crate::input::empty_range;
use crate::input::Input;
use crate::passes::kernel;
use crate::render::answer::{Asked, Source};
use crate::render::diagnostics;
use crate::render::event_count::EventCount;
use crate::render::table::{number, plain};
use anyhow::Context;
use longpole_analysis::latency::event_pairs::Pairs;
use longpole_analysis::pipeline::kernel_sources;
use longpole_analysis::report::ProbePass;
use longpole_analysis::scheduling::thread_time::Accounts;
use longpole_analysis::stages::left_out::LeftOut;
use longpole_analysis::stats::distinct::{MAX_NAMES, OTHER_NAMES};
use longpole_trace::Item;
use longpole_trace::Trace;
use std::io::{self, Write};

/// Reads the trace. Returns the analyses, and the trace with its descriptions. Prints the trace's
/// diagnostics.
pub fn read(input: &Input, mut pairs: Option<&mut Pairs>) -> anyhow::Result<ProbeReading> {
    let mut pass = ProbePass::with_rules(input.rules()?).context("a built-in rule file is wrong")?;
    let mut trace = input.open()?;
    let events = feed(&mut trace, &mut pass, pairs.as_deref_mut())?;
    empty_range::check(&trace, &input.completed_paths()?, &input.options())?;
    diagnostics::print(&trace);
    if let Some(pairs) = pairs {
        pairs.check(trace.catalogue())?;
    }
    Ok(ProbeReading { pass, trace, events, from_begin: false })
}

/// The analyses after the trace's last event, and the trace with its descriptions.
pub struct ProbeReading {
    pub pass: ProbePass,
    pub trace: Trace,
    /// Number of events that were read, of all kinds.
    pub events: u64,
    /// True if events before `--begin` were read and counted, too.
    pub from_begin: bool,
}

/// Passes all items of a trace to all analyses. Returns the number of events.
pub fn feed(trace: &mut Trace, pass: &mut ProbePass, mut pairs: Option<&mut Pairs>) -> anyhow::Result<u64> {
    let mut events = 0;
    while let Some((item, catalogue)) = trace.next_with_catalogue()? {
        if let (Some(pairs), Item::Event(event)) = (pairs.as_deref_mut(), &item) {
            pairs.event(catalogue, event);
        }
        events += u64::from(matches!(item, Item::Event(_)));
        pass.item(catalogue, &item);
    }
    Ok(events)
}

/// Like [`read`], but if the trace has kernel events, the times of spans are also given net, that
/// is, without the time that the scheduler and interrupts took.
pub fn read_net(input: &Input, mut pairs: Option<&mut Pairs>) -> anyhow::Result<ProbeReading> {
    match kernel_sources(&input.completed_paths()?, &input.open()?) {
        0 => return read(input, pairs),
        1 => {}
        _ => {
            eprintln!("longpole: note: times include the time in which threads did not run: the kernel's events of several recordings cannot be analysed together");
            return read(input, pairs);
        }
    }
    let mut pass = ProbePass::with_rules(input.rules()?).context("a built-in rule file is wrong")?;
    let mut accounts = Accounts::default();
    let reading = kernel::read_with(input, &mut accounts, |linux, accounts, catalogue, item, in_part| {
        if !in_part {
            return;
        }
        let mut account = None;
        if let Item::Event(event) = item {
            account = accounts.at(linux, catalogue, event);
            if let Some(pairs) = pairs.as_deref_mut() {
                pairs.event(catalogue, event);
            }
        }
        pass.item_with(catalogue, item, account);
    })?;
    if let Some(pairs) = pairs {
        pairs.check(reading.trace.catalogue())?;
    }
    Ok(ProbeReading { pass, trace: reading.trace, events: reading.events, from_begin: true })
}

impl Source for &ProbeReading {
    fn trace(&self) -> &Trace {
        &self.trace
    }

    fn footer(&self, asked: &dyn Asked, out: &mut dyn Write) -> io::Result<()> {
        footer(out, asked, self)
    }
}

/// Returns the verbs that use the kernel events in this trace.
fn verbs(trace: &Trace) -> Vec<&'static str> {
    let catalogue = trace.catalogue();
    let holds = |beginnings: &[&str]| {
        catalogue.classes.iter().any(|class| beginnings.iter().any(|beginning| class.event_name.starts_with(beginning)))
    };
    let all: [(&[&'static str], &[&str]); 4] = [
        (&["cpu", "sched"], &["sched_switch"]),
        (&["irq"], &["irq_handler_entry", "irq_softirq_entry", "softirq_entry"]),
        (&["syscalls"], &["syscall_entry", "page_fault"]),
        (&["packets"], &["net_dev", "net_if_receive", "netif_", "skb_"]),
    ];
    all.into_iter().filter(|(_, events)| holds(events)).flat_map(|(verbs, _)| verbs.iter().copied()).collect()
}

/// Maximum number of names for people; the JSON answer contains all.
const MAX_LEFT_OUT: usize = 8;

/// Prints the functions that the recording left out according to its description.
fn left_out(out: &mut (impl Write + ?Sized), functions: &[LeftOut]) -> io::Result<()> {
    if functions.is_empty() {
        return Ok(());
    }
    let named = |it: &LeftOut| plain(format!("{} ({} ns)", it.function, number(it.mean_ns)));
    let names: Vec<String> = functions.iter().take(MAX_LEFT_OUT).map(named).collect();
    let more = functions.len().saturating_sub(names.len());
    let more = if more == 0 { String::new() } else { format!(" and {} more", number(more as u64)) };
    writeln!(
        out,
        "not recorded, because their calls are short and many (their time counts as that of their callers): {}{more}",
        names.join(", ")
    )
}

/// Prints the number of events, the cost of probes, and what is not in the answer.
pub fn footer(out: &mut (impl Write + ?Sized), asked: &dyn Asked, reading: &ProbeReading) -> io::Result<()> {
    let inputs = reading.pass.inputs();
    let lost = inputs.lost.saturating_add(inputs.kernel_lost);
    let gaps = inputs.uncounted_losses.saturating_add(inputs.uncounted_kernel_losses);
    let count = EventCount { events: reading.events, lost, gaps }.line(asked, reading.from_begin);
    if inputs.events == 0 && inputs.kernel_events > 0 {
        let answers = match verbs(&reading.trace) {
            verbs if verbs.is_empty() => "longpole print shows them".to_owned(),
            verbs => format!("longpole {} answer from them", verbs.join(", ")),
        };
        return writeln!(out, "\n{count}; none of probes: {answers}");
    }
    let cost = match reading.trace.probe_cost_ns() {
        Some(ns) if ns > 0.0 => format!("a probe costs {ns:.1} ns"),
        _ => "probe cost not measured".to_owned(),
    };
    writeln!(out, "\n{count}; {cost}")?;
    left_out(out, &inputs.left_out)?;
    if inputs.other_names > 0 {
        let (events, most) = (number(inputs.other_names), number(MAX_NAMES as u64));
        writeln!(out, "{events} of them have names beyond the first {most} of their kind, and are counted under {OTHER_NAMES}")?;
    }
    Ok(())
}
