//! `longpole report`: the bottleneck in one sentence, then what it stands on.

use crate::input::Input;
use crate::pass;
use crate::table::{number, percent, Table};
use crate::verbs::{latency, queues};
use longpole_analysis::report::Report;
use std::io::{self, Write};
use std::process::ExitCode;

/// Name the bottleneck, with its evidence.
#[derive(clap::Args)]
#[command(after_help = "\
The verdict is the stage behind a full and before an empty queue, and the state in which it spends its time; or that nothing stands out.

Examples:
  longpole report                            of the newest recording
  longpole report --begin +2s                without the first two seconds
  longpole report --json | jq .verdict")]
pub struct Args {
    #[command(flatten)]
    input: Input,
}

pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let (pass, trace) = pass::read(&args.input, None)?;
    let report = pass.report(trace.probe_cost_ns());
    pass::write(&args.input, (&pass, &trace), &report, print)
}

pub fn print(out: &mut impl Write, report: &Report) -> io::Result<()> {
    writeln!(out, "{}", report.verdict.text)?;
    if !report.findings.is_empty() {
        writeln!(out, "\nFINDINGS")?;
        let mut table = Table::new(&["finding", "subject", ">count", ">share"]);
        for finding in &report.findings {
            table.row([finding.kind.clone(), finding.subject.clone(), number(finding.count), percent(finding.share)]);
        }
        table.print(out)?;
        for finding in &report.findings {
            writeln!(out, "  - {}", finding.advice)?;
        }
    }
    writeln!(out, "\nQUEUES")?;
    queues::print(out, &report.queues)?;
    writeln!(out)?;
    latency::print(out, &report.latency)
}
