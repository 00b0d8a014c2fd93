//! `longpole model`: the machines of a trace as a machine log.

use crate::input::Input;
use crate::{machine_log, WrongUsage};
use std::io::{self, BufWriter};
use std::process::ExitCode;

/// Write the machines of a trace as a machine log: JSON lines that anybody can read, change and have analysed
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  longpole model simulation.jsonl                            the same in the form that we write
  longpole model --end +1s simulation.jsonl > begin.jsonl    its first second")]
pub struct Args {
    #[command(flatten)]
    input: Input,
}

pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let paths = args.input.paths()?;
    let [path] = paths.as_slice() else {
        return Err(WrongUsage("a machine log is of one trace; name one".to_owned()).into());
    };
    machine_log::needed(path, "machines")?;
    if args.input.begin.is_some() {
        return Err(
            WrongUsage("--begin: what machines did before decides what they do later; only --end cuts a machine log".to_owned()).into()
        );
    }
    machine_log::open(path, args.input.options())?.copy(BufWriter::new(io::stdout().lock()))?;
    Ok(ExitCode::SUCCESS)
}
