//! `longpole completions`: prints the script that makes a shell complete verbs and options, from
//! their definitions.

use clap::CommandFactory;
use clap_complete::Shell;
use std::io::{self, Write};
use std::process::ExitCode;

/// Print the script that makes a shell complete verbs and options.
#[derive(clap::Args)]
#[command(after_help = "\
`make install` puts them where bash, zsh and fish look.

Examples:
  source <(longpole completions bash)                          for this shell
  longpole completions zsh > ~/.zfunc/_longpole                where $fpath holds ~/.zfunc
  longpole completions fish > ~/.config/fish/completions/longpole.fish")]
pub struct Args {
    /// The shell
    #[arg(value_name = "SHELL")]
    shell: Shell,
}

pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let mut text = Vec::new();
    clap_complete::generate(args.shell, &mut crate::Command::command(), "longpole", &mut text);
    io::stdout().lock().write_all(&text)?;
    Ok(ExitCode::SUCCESS)
}
