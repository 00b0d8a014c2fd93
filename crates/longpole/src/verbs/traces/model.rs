//! `longpole model`: writes the machines of a trace as a machine log.

use crate::input::interactions;
use crate::input::Input;
use crate::WrongUsage;
use std::io::{self, BufWriter};
use std::process::ExitCode;

/// Write the machines of a trace as a machine log: JSON lines that can be edited and analysed
#[derive(clap::Args)]
#[command(mut_arg("all", crate::input::all_without_effect))]
#[command(after_help = "\
Examples:
  longpole model > machines.jsonl                            of the newest recording
  longpole model simulation.jsonl                            an existing log, rewritten in normal form
  longpole model --end +1s simulation.jsonl > begin.jsonl    its first second")]
pub struct Args {
    #[command(flatten)]
    input: Input,
}

pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let mut interactions = interactions::open(&args.input)?;
    if args.input.begin.is_some() {
        let text = "--begin cannot be used here: states at TIME depend on earlier events. Use --end to shorten the log.";
        return Err(WrongUsage(text.to_owned()).into());
    }
    interactions.write(BufWriter::new(io::stdout().lock()))?;
    Ok(ExitCode::SUCCESS)
}
