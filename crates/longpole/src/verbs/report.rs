//! `longpole report`: the bottleneck in one sentence, then what it stands on.

use crate::input::{self, Input};
use crate::kernel;
use crate::packets::kernel::Kernel;
use crate::pass;
use crate::table::{number, percent, plain, Table};
use crate::verbs::{latency, queues};
use anyhow::Context;
use longpole_analysis::packet_loss::Places;
use longpole_analysis::report::{Pass, Report};
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
    let paths = args.input.paths()?;
    let kernels = kernel::sources(&paths, &input::open(&paths, args.input.options())?);
    if kernels != 1 {
        if kernels > 1 {
            eprintln!("longpole: note: lost packets are not told: the kernel's events of {kernels} recordings cannot be told as one; ask each by itself");
        }
        let (pass, trace) = pass::read(&args.input, None)?;
        let report = pass.report(trace.probe_cost_ns());
        return pass::write(&args.input, (&pass, &trace), &report, print);
    }
    let places = Places::built_in().context("a built-in rule file is wrong")?;
    let mut pass = Pass::new().context("a built-in rule file is wrong")?;
    let kernel = Kernel::read(&args.input, &paths, None, |catalogue, item| pass.item(catalogue, item))?;
    pass.lost(&kernel.packets(|packets| packets.losses(&places)), kernel.journeys.count);
    let report = pass.report(kernel.reading.trace.probe_cost_ns());
    pass::write(&args.input, (&pass, &kernel.reading.trace), &report, print)
}

pub fn print(out: &mut impl Write, report: &Report) -> io::Result<()> {
    for finding in report.findings.iter().filter(|finding| finding.foremost) {
        writeln!(out, "{}.", finding.what)?;
    }
    writeln!(out, "{}", plain(report.verdict.text.clone()))?;
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
