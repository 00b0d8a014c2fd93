//! Limits the analysis of a recorded command to the command itself: the path begins with the
//! command.
//!
//! Before that, the recording contains only the recorder's own start. It is left out unless the
//! user named a begin (`--begin`). Events before it still count as causes.

use crate::global;
use crate::input;
use crate::input::machine_log;
use crate::render::table::duration;
use longpole_analysis::pipeline::has_kernel_ids;
use longpole_trace::Catalogue;
use longpole_trace::ClassId;
use longpole_trace::Event;
use longpole_trace::Item;
use longpole_trace::Moment;
use longpole_trace::Options;
use longpole_trace::StreamKind;
use longpole_trace::Trace;
use std::path::Path;

/// Number of kernel events after which the search for the command's begin ends. The recorder starts
/// the command as soon as it can.
const MAX_LOOKED_AT: usize = 1 << 21;

/// Returns `part`; if no begin was named and the trace is the recording of a command, with the
/// command's begin as its begin. With `--verbose`, a note is printed in that case.
pub fn part(path: &Path, part: Options) -> Options {
    if part.begin.is_some() || part.dump.is_some() || machine_log::is_one(path) || machine_log::is_pipe(path) {
        return part;
    }
    match begin(path, part.clone()) {
        Some((begin, before)) => {
            if global::is_verbose() {
                let before = duration(before);
                eprintln!("longpole: note: the path begins with the command, {before} after the recording began; --all includes that time");
            }
            Options { begin: Some(Moment::At(begin)), ..part }
        }
        None => part,
    }
}

/// Returns the time in ns at which the command began, and the time since the trace's begin. Errors
/// are ignored here; the code that reads the whole trace reports them.
fn begin(path: &Path, part: Options) -> Option<(i64, u64)> {
    let mut trace = input::open(&[path.to_owned()], part).ok()?;
    let recordings = trace.recordings();
    let pid = recordings.iter().find_map(|recording| recording.command_pid).filter(|_| has_kernel_ids(recordings))?;
    let start = trace.start_ns()?;
    trace.leave_out(&[StreamKind::User, StreamKind::Packets, StreamKind::Samples]);
    let at = born(&mut trace, pid)?;
    Some((at, u64::try_from(at.checked_sub(start)?).ok()?))
}

/// Returns the time at which the process first executed a program, or otherwise of its fork.
fn born(trace: &mut Trace, pid: i32) -> Option<i64> {
    let (mut forks, mut execs, mut known) = (Vec::new(), Vec::new(), 0);
    let mut forked = None;
    for _ in 0..MAX_LOOKED_AT {
        let Ok(Some((item, catalogue))) = trace.next_with_catalogue() else { break };
        let Item::Event(event) = item else { continue };
        while known < catalogue.classes.len() {
            match catalogue.classes[known].event_name.as_str() {
                "sched_process_fork" => forks.push(ClassId(known as u32)),
                "sched_process_exec" => execs.push(ClassId(known as u32)),
                _ => {}
            }
            known += 1;
        }
        if execs.contains(&event.class) && names(catalogue, &event, &["tid", "pid"], pid) {
            return Some(event.t_ns);
        }
        if forks.contains(&event.class) && names(catalogue, &event, &["child_tid", "child_pid"], pid) {
            forked.get_or_insert(event.t_ns);
        }
    }
    forked
}

fn names(catalogue: &Catalogue, event: &Event<'_>, fields: &[&str], pid: i32) -> bool {
    let class = &catalogue.classes[event.class.0 as usize];
    let at = fields.iter().find_map(|name| class.fields.iter().position(|field| field == name));
    at.and_then(|at| event.fields.get(at)).and_then(|value| value.as_i64()) == Some(i64::from(pid))
}
