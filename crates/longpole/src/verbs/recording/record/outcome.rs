//! What `longpole record` prints at the end, and its exit status.

use super::OWN_FAILURE;
use longpole_record::{InterfacesOutcome, Outcome, Stop};
use std::os::unix::process::ExitStatusExt;
use std::process::{ExitCode, ExitStatus};

/// Prints the outcome of a recording to stderr. Diagnostics in `already_printed` were printed at
/// the start and are skipped.
pub fn print(outcome: &Outcome, already_printed: &[String]) {
    for diagnostic in outcome.diagnostics.iter().filter(|diagnostic| !already_printed.contains(diagnostic)) {
        eprintln!("longpole: note: {diagnostic}");
    }
    let lost = if outcome.lost > 0 { format!(", {} events lost", crate::render::table::number(outcome.lost)) } else { String::new() };
    match &outcome.empty {
        Some(why) => eprintln!("longpole: nothing was recorded: {why}"),
        None if outcome.recorded == 0
            && outcome.lost == 0
            && (outcome.kernel.is_some() || outcome.samples.is_some() || outcome.interfaces.is_some()) => {}
        None if outcome.recorded == 0 => eprintln!("longpole: {} packets captured{lost}", crate::render::table::number(outcome.packets)),
        None => {
            let streams = if outcome.lanes == 1 { "stream" } else { "streams" };
            eprintln!("longpole: {} of events in {} {streams}{lost}", crate::render::table::bytes(outcome.recorded), outcome.lanes);
        }
    }
    if let Some(kernel) = &outcome.kernel {
        let number = crate::render::table::number;
        eprintln!("longpole: {} kernel events on {} CPUs, {} lost", number(kernel.events), kernel.cpus, number(kernel.lost));
    }
    if let Some(samples) = &outcome.samples {
        let number = crate::render::table::number;
        let waits = if samples.waits > 0 { format!(" ({} of waits and wake-ups)", number(samples.waits)) } else { String::new() };
        eprintln!("longpole: {} stacks{waits} of {} CPUs, {} lost", number(samples.samples), samples.cpus, number(samples.lost));
    }
    if let Some(InterfacesOutcome { packets, lost, interfaces }) = outcome.interfaces {
        let number = crate::render::table::number;
        let devices = if interfaces == 1 { "network device" } else { "network devices" };
        eprintln!("longpole: {} packets of {interfaces} {devices}, {} lost", number(packets), number(lost));
    }
    eprintln!("longpole: recording: {}", outcome.path.display());
}

pub fn exit_code(status: Option<ExitStatus>, has_command: bool, stop: &Stop, outcome: &Outcome) -> ExitCode {
    let code = match status {
        Some(status) => code_of(status),
        None if has_command => stop.signal().map_or(0, |signal| 128u8.wrapping_add(signal as u8)),
        None => 0,
    };
    if code == 0 && outcome.empty.is_some() {
        return ExitCode::FAILURE;
    }
    ExitCode::from(code)
}

/// Returns the exit status as a shell does: 128 plus the number of the signal that ended the
/// process.
pub fn code_of(status: ExitStatus) -> u8 {
    match (status.code(), status.signal()) {
        (Some(code), _) => code as u8,
        (None, Some(signal)) => 128u8.wrapping_add(signal as u8),
        (None, None) => OWN_FAILURE,
    }
}
