//! Reads a trace once through all analyses: what `latency`, `queues`, `cpu` and `report` have in common.

use crate::input::Input;
use anyhow::Context;
use longpole_analysis::pairs::Pairs;
use longpole_analysis::report::Pass;
use longpole_trace::{Item, Trace};
use std::io::{self, Write};
use std::process::ExitCode;

/// The pass, and the trace for what it says of itself.
pub fn read(input: &Input, mut pairs: Option<&mut Pairs>) -> anyhow::Result<(Pass, Trace)> {
    let mut pass = Pass::new().context("a built-in rule file is wrong")?;
    let mut trace = input.open()?;
    while let Some((item, catalogue)) = trace.next_with_catalogue()? {
        if let (Some(pairs), Item::Event(event)) = (pairs.as_deref_mut(), &item) {
            pairs.event(catalogue, event);
        }
        pass.item(catalogue, &item);
    }
    for oddity in trace.oddities() {
        eprintln!("longpole: {oddity}");
    }
    Ok((pass, trace))
}

/// What stands beside every number: loss, and the probes' own cost.
pub fn footer(out: &mut impl Write, pass: &Pass, trace: &Trace) -> io::Result<()> {
    let inputs = pass.inputs();
    let cost = match trace.probe_cost_ns() {
        Some(ns) if ns > 0.0 => format!("a probe costs {ns:.1} ns"),
        _ => "probe cost not measured".to_owned(),
    };
    let lost = match (inputs.lost, inputs.uncounted_losses) {
        (lost, 0) => format!("{} lost", crate::table::number(lost)),
        (lost, gaps) => format!("{} lost and {gaps} gaps that nobody counted", crate::table::number(lost)),
    };
    writeln!(out, "\n{} events, {lost}; {cost}", crate::table::number(inputs.events))
}

/// A damaged trace was answered as far as it could be read, and that is a failure.
pub fn exit(trace: &Trace) -> ExitCode {
    if trace.is_damaged() {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    }
}
