//! The recorded command: its scheduling, and its output streams whose lines are recorded.

use crate::control::options::Options;
use crate::control::steady::{Granted, Steady};
use crate::output::account::Account;
use crate::output::command_output::CommandOutputs;
use serde_json::{json, Value};

/// The command, as far as the recorder knows it.
#[derive(Debug)]
pub(super) struct Command {
    /// Requested scheduling.
    asked: Option<Steady>,
    /// Scheduling that the command was granted, or the reason why it was not.
    steady: Option<Result<Granted, String>>,
    pub outputs: CommandOutputs,
}

impl Command {
    /// Tries the requested scheduling.
    pub fn new(options: &Options) -> Command {
        let steady = options.steady.map(|(steady, nice)| {
            let granted = steady.attempt(nice);
            granted.map_err(|why| format!("--steady has no effect on the command: {why}"))
        });
        Command { asked: options.steady.map(|(steady, _)| steady), steady, outputs: CommandOutputs::default() }
    }

    /// Scheduling that the command was granted.
    pub fn granted(&self) -> Option<String> {
        Some(self.steady.as_ref()?.as_ref().ok()?.to_string())
    }

    /// Reason why the requested scheduling was not granted.
    pub fn trouble(&self) -> Option<&str> {
        Some(self.steady.as_ref()?.as_ref().err()?.as_str())
    }

    /// Reads the scheduling that the command really has, while it is alive.
    pub fn look(&mut self, pid: i32, account: &mut Account) {
        if let (Some(Ok(expected)), Ok(granted)) = (&self.steady, Granted::of(pid)) {
            if *expected != granted {
                account.note(format!("the kernel gave the command {granted} instead of {expected}"));
            }
            self.steady = Some(Ok(granted));
        }
    }

    /// Entry in `longpole.json`.
    pub fn describe(&self) -> Option<Value> {
        let asked = self.asked?;
        match self.steady.as_ref()? {
            Ok(granted) => Some(granted.to_json(asked)),
            Err(why) => Some(json!({ "asked": asked.name(), "policy": null, "priority": null, "slice_ns": null, "why": why })),
        }
    }
}
