//! `longpole serve`: offers traces to other viewers and to scripts, by the Trace Server Protocol.
//!
//! Clients open the traces below the roots. Each is read like a trace of `view`.

use super::view::Viewed;
use crate::input::Input;
use crate::say;
use longpole_serve::{Options, Server};
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

/// Offer traces to other viewers and to scripts, by the Trace Server Protocol
#[derive(clap::Args)]
#[command(after_help = "\
The first line of the output is the address of the protocol. It contains a token: without it, the
server answers nothing. The server runs until it is interrupted (Ctrl-C).

Examples:
  longpole serve --root traces                                  the traces below one directory
  longpole serve --root traces --port 8080 --no-token           for a viewer with a fixed address
  curl \"$ADDRESS/health\"                                      with the address that was printed")]
pub struct Args {
    /// Directory below which clients may open traces; may be given several times
    #[arg(long, value_name = "DIR", required = true)]
    root: Vec<PathBuf>,

    /// Port on 127.0.0.1 [default: a free one]
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    port: u16,

    /// Answer without a token in the address: every user of this host may read the traces
    #[arg(long)]
    no_token: bool,
}

pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let options = Options { roots: args.root, port: args.port, without_token: args.no_token, ..Default::default() };
    let server = Server::start(options, Arc::new(Viewed::new(Input::default())))?;
    say(server.protocol_address())?;
    io::stdout().flush()?;
    server.run()?;
    Ok(ExitCode::SUCCESS)
}
