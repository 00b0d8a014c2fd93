//! Reads a trace once through all analyses of probes, for `latency`, `queues`, `cpu` and `report`.

pub use crate::render::answer::write;

use crate::input::empty_range;
use crate::input::Input;
use crate::passes::kernel;
use crate::render::answer::Source;
use crate::render::diagnostics;
use crate::render::table::{number, plain};
use anyhow::Context;
use longpole_analysis::latency::event_pairs::Pairs;
use longpole_analysis::pipeline::kernel_sources;
use longpole_analysis::report::Pass;
use longpole_analysis::scheduling::thread_time::Accounts;
use longpole_analysis::stages::left_out::LeftOut;
use longpole_analysis::stats::distinct::{MOST_NAMES, OTHER_NAMES};
use longpole_trace::Item;
use longpole_trace::Trace;
use std::io::{self, Write};

/// Reads the trace. Returns the analyses, and the trace with its descriptions. Prints the trace's
/// diagnostics.
pub fn read(input: &Input, mut pairs: Option<&mut Pairs>) -> anyhow::Result<(Pass, Trace)> {
    let mut pass = Pass::with_rules(input.rules()?).context("a built-in rule file is wrong")?;
    let mut trace = input.open()?;
    feed(&mut trace, &mut pass, pairs.as_deref_mut())?;
    empty_range::check(&trace, &input.paths()?, &input.options())?;
    diagnostics::print(&trace);
    if let Some(pairs) = pairs {
        pairs.check(trace.catalogue())?;
    }
    Ok((pass, trace))
}

/// Passes all items of a trace to all analyses.
pub fn feed(trace: &mut Trace, pass: &mut Pass, mut pairs: Option<&mut Pairs>) -> anyhow::Result<()> {
    while let Some((item, catalogue)) = trace.next_with_catalogue()? {
        if let (Some(pairs), Item::Event(event)) = (pairs.as_deref_mut(), &item) {
            pairs.event(catalogue, event);
        }
        pass.item(catalogue, &item);
    }
    Ok(())
}

/// Like [`read`], but if the trace has kernel events, the times of spans are also given net, that
/// is, without the time that the scheduler and interrupts took.
pub fn read_net(input: &Input, mut pairs: Option<&mut Pairs>) -> anyhow::Result<(Pass, Trace)> {
    match kernel_sources(&input.paths()?, &input.open()?) {
        0 => return read(input, pairs),
        1 => {}
        _ => {
            eprintln!("longpole: note: times are not net of what the scheduler took: the kernel's events of several recordings cannot be told as one");
            return read(input, pairs);
        }
    }
    let mut pass = Pass::with_rules(input.rules()?).context("a built-in rule file is wrong")?;
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
    Ok((pass, reading.trace))
}

impl Source for (&Pass, &Trace) {
    fn trace(&self) -> &Trace {
        self.1
    }

    fn footer(&self, out: &mut dyn Write) -> io::Result<()> {
        footer(out, self.0, self.1)
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
const MOST_LEFT_OUT: usize = 8;

/// Prints the functions that the recording left out according to its description.
fn left_out(out: &mut (impl Write + ?Sized), functions: &[LeftOut]) -> io::Result<()> {
    if functions.is_empty() {
        return Ok(());
    }
    let named = |it: &LeftOut| plain(format!("{} ({} ns)", it.function, number(it.mean_ns)));
    let names: Vec<String> = functions.iter().take(MOST_LEFT_OUT).map(named).collect();
    let more = functions.len().saturating_sub(names.len());
    let more = if more == 0 { String::new() } else { format!(" and {} more", number(more as u64)) };
    writeln!(out, "not recorded, for their calls are short and many (what they take is their callers' time): {}{more}", names.join(", "))
}

/// Prints the number of lost events, and the cost of probes.
pub fn footer(out: &mut (impl Write + ?Sized), pass: &Pass, trace: &Trace) -> io::Result<()> {
    let inputs = pass.inputs();
    let losses = |lost, gaps| match (lost, gaps) {
        (lost, 0) => format!("{} lost", number(lost)),
        (lost, gaps) => format!("{} lost and {} gaps that nobody counted", number(lost), number(gaps)),
    };
    if inputs.events == 0 && inputs.kernel_events > 0 {
        let answers = match verbs(trace) {
            verbs if verbs.is_empty() => "longpole print shows them".to_owned(),
            verbs => format!("longpole {} answer from them", verbs.join(", ")),
        };
        let lost = losses(inputs.kernel_lost, inputs.uncounted_kernel_losses);
        return writeln!(out, "\n{} kernel events, {lost}, and no probes: {answers}", number(inputs.kernel_events));
    }
    let cost = match trace.probe_cost_ns() {
        Some(ns) if ns > 0.0 => format!("a probe costs {ns:.1} ns"),
        _ => "probe cost not measured".to_owned(),
    };
    let lost = losses(inputs.lost, inputs.uncounted_losses);
    writeln!(out, "\n{} events, {lost}; {cost}", number(inputs.events))?;
    match (inputs.kernel_lost, inputs.uncounted_kernel_losses) {
        (0, 0) => {}
        (lost, 0) => writeln!(out, "of the kernel's events, {} are lost", number(lost))?,
        (lost, gaps) => writeln!(out, "of the kernel's events, {} are lost, and {} gaps nobody counted", number(lost), number(gaps))?,
    }
    left_out(out, &inputs.left_out)?;
    if inputs.other_names > 0 {
        let (events, most) = (number(inputs.other_names), number(MOST_NAMES as u64));
        writeln!(out, "{events} of them carry names beyond the {most} that are distinguished of a kind: they are under {OTHER_NAMES}")?;
    }
    Ok(())
}
