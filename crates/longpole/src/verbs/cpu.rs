//! `longpole cpu`: the time of threads per state, by what the probes tell.

use crate::input::Input;
use crate::pass;
use crate::table::{duration, number, percent, Table};
use longpole_analysis::cpu::Cpu;
use std::io::{self, Write};
use std::process::ExitCode;

/// Measure the time of threads in each state.
#[derive(clap::Args)]
#[command(after_help = "\
Probes do not see the scheduler: a thread that is ready but not running counts as being in its state.

Examples:
  longpole cpu                               of the newest recording
  longpole cpu --json | jq '.threads[0].states'")]
pub struct Args {
    #[command(flatten)]
    input: Input,
}

pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let (pass, trace) = pass::read(&args.input, None)?;
    let answer = pass.cpu(trace.probe_cost_ns());
    let mut out = io::BufWriter::new(io::stdout().lock());
    if args.input.json {
        serde_json::to_writer_pretty(&mut out, &answer)?;
        writeln!(out)?;
    } else {
        print(&mut out, &answer)?;
        pass::footer(&mut out, &pass, &trace)?;
    }
    out.flush()?;
    Ok(pass::exit(&trace))
}

fn print(out: &mut impl Write, answer: &Cpu) -> io::Result<()> {
    if answer.threads.is_empty() {
        return writeln!(out, "no thread in this trace did anything");
    }
    let mut table = Table::new(&["thread", ">tid", ">time", ">activities", "state", ">in it", ">share", ">probes", "", ">lost"]);
    for thread in &answer.threads {
        for (at, state) in thread.states.iter().enumerate() {
            let first = |text: String| if at == 0 { text } else { String::new() };
            table.row([
                first(thread.name.clone()),
                first(thread.tid.map_or_else(String::new, |tid| tid.to_string())),
                first(duration(thread.total_ns)),
                first(thread.instances.map_or_else(String::new, number)),
                state.state.clone(),
                duration(state.ns),
                percent(state.share),
                if answer.probe_cost_ns.is_some() { duration(state.probe_ns) } else { "-".to_owned() },
                if state.idle { "idle".to_owned() } else { String::new() },
                first(number(thread.lost)),
            ]);
        }
    }
    table.print(out)?;
    if !answer.machines.is_empty() {
        writeln!(out, "\nDECLARED MACHINES")?;
        let mut table = Table::new(&["machine", "state", ">in it"]);
        for machine in &answer.machines {
            table.row([machine.machine.clone(), machine.state.clone(), duration(machine.ns)]);
        }
        table.print(out)?;
    }
    Ok(())
}
