//! The `longpole` command. Dispatches to one file per verb and turns the outcome into an exit
//! status: 0 for success, 1 for failure, 2 for wrong usage; a closed pipe is success.
//!
//! Answers go to stdout; diagnostics and notes go to stderr.
//!
//! - `verbs/` has one file per verb: its arguments, and `run`, which reads and prints.
//! - `input/` opens what the arguments name; `passes/` reads a trace once for several analyses.
//! - `render/` turns answers into text, tables and pictures.

mod global;
mod help;
mod input;
mod log;
mod mount;
mod output_tee;
mod overhead;
mod packets;
pub mod passes;
mod patterns;
pub mod render;
mod sync;
mod top;
mod verbs;

use crate::render::style::{painted, Role};
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use std::io;
use std::process::ExitCode;

/// Names the one thing that holds a running system back.
#[derive(Parser)]
#[command(name = "longpole", version, about, disable_help_subcommand = true)]
struct Command {
    #[command(flatten)]
    global: global::GlobalArgs,
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Record a command, a process, or everything with probes
    Record(Box<verbs::recording::record::Args>),
    /// Start a recording that runs in the background
    Start(verbs::recording::start::Args),
    /// Stop the recording that `start` began
    Stop(verbs::recording::stop::Args),
    /// Write what the running recording holds at this moment; the recording continues
    Snapshot(verbs::recording::snapshot::Args),
    /// Show what is being recorded now
    Status(verbs::recording::status::Args),
    /// List the subjects that can be recorded, or the recordings
    List(verbs::recording::list::Args),
    /// Show what can be recorded here and how to enable the rest; or validate a trace
    Check(verbs::recording::check::Args),
    /// Show what a trace contains: streams, events, losses, clock
    Info(verbs::traces::info::Args),
    /// Print the events of a trace in the order of time
    Print(verbs::traces::print::Args),
    /// Write a trace in another format: CTF 1.8, CTF 2, JSON lines
    Convert(verbs::traces::convert::Args),
    /// Merge several traces into one, on one clock
    Merge(verbs::traces::merge::Args),
    /// Measure latencies: calls, spans, signals, activity, or between any two events
    Latency(Box<verbs::answers::latency::Args>),
    /// Measure queues: depth, full and empty shares, batches, residence
    Queues(verbs::answers::queues::Args),
    /// Measure the time of CPUs, and of threads in each state
    Cpu(verbs::answers::cpu::Args),
    /// Measure interrupts and softirqs, and the delay to the threads that they wake
    Irq(verbs::answers::irq::Args),
    /// Measure how long threads wait for a CPU, and which threads have it meanwhile
    Sched(verbs::answers::sched::Args),
    /// Measure system calls: count, time, errors
    Syscalls(verbs::answers::syscalls::Args),
    /// Show where packets were lost, follow them through the kernel, count captured traffic
    Packets(verbs::answers::packets::Args),
    /// Show the critical path: the states and links that nothing else could have hidden
    Path(verbs::answers::path::Args),
    Diff(verbs::answers::diff::Args),
    /// Predict the effect of a change by replaying the trace with it
    WhatIf(verbs::answers::what_if::Args),
    /// Fold the critical path into a graph of its states: text, JSON, DOT, SVG
    Graph(verbs::answers::graph::Args),
    /// Write the machines of a trace as a machine log
    Model(verbs::traces::model::Args),
    /// Check rules that define what events mean, alone or against a trace
    Rules(verbs::traces::rules::Args),
    /// Name the bottleneck, with its evidence
    Report(verbs::answers::report::Args),
    View(verbs::traces::view::Args),
    Top(verbs::recording::top::Args),
    Serve(verbs::traces::serve::Args),
    /// Show programs with probes as directories: what is recorded, and events as text
    Mount(verbs::recording::mount::Args),
    /// Record a packet pipeline with a bottleneck, explain it, fix it, record again
    Demo(verbs::demo::Args),
    /// Measure what a probe costs on this host
    Overhead(verbs::recording::overhead::Args),
    /// Run a command and show the CPU time of each of its threads
    Util(verbs::recording::util::Args),
    /// Print the script that makes a shell complete verbs and options
    Completions(verbs::completions::Args),
    /// Print the manual page of the command or of a verb
    Man(verbs::man::Args),
}

fn main() -> ExitCode {
    // These two are not verbs: only this command itself starts processes with them.
    if std::env::args_os().nth(1).is_some_and(|verb| verb == output_tee::VERB) {
        output_tee::pass_on();
        return ExitCode::SUCCESS;
    }
    if std::env::args_os().nth(1).is_some_and(|verb| verb == input::unpacked::VERB) {
        input::unpacked::remove_afterwards();
        return ExitCode::SUCCESS;
    }
    let matches = help::grouped(Command::command()).get_matches();
    let Command { global, verb } = Command::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    global.set();
    let outcome = match verb {
        Verb::Record(args) => verbs::recording::record::run(*args),
        Verb::Start(args) => verbs::recording::start::run(args),
        Verb::Stop(args) => verbs::recording::stop::run(args),
        Verb::Snapshot(args) => verbs::recording::snapshot::run(args),
        Verb::Status(args) => verbs::recording::status::run(args),
        Verb::List(args) => verbs::recording::list::run(args),
        Verb::Check(args) => verbs::recording::check::run(args),
        Verb::Info(args) => verbs::traces::info::run(args),
        Verb::Print(args) => verbs::traces::print::run(args),
        Verb::Convert(args) => verbs::traces::convert::run(args),
        Verb::Merge(args) => verbs::traces::merge::run(args),
        Verb::Latency(args) => verbs::answers::latency::run(*args),
        Verb::Queues(args) => verbs::answers::queues::run(args),
        Verb::Cpu(args) => verbs::answers::cpu::run(args),
        Verb::Irq(args) => verbs::answers::irq::run(args),
        Verb::Sched(args) => verbs::answers::sched::run(args),
        Verb::Syscalls(args) => verbs::answers::syscalls::run(args),
        Verb::Packets(args) => verbs::answers::packets::run(args),
        Verb::Path(args) => verbs::answers::path::run(args),
        Verb::Diff(args) => verbs::answers::diff::run(args),
        Verb::WhatIf(args) => verbs::answers::what_if::run(args),
        Verb::Graph(args) => verbs::answers::graph::run(args),
        Verb::Model(args) => verbs::traces::model::run(args),
        Verb::Rules(args) => verbs::traces::rules::run(args),
        Verb::Report(args) => verbs::answers::report::run(args),
        Verb::View(args) => verbs::traces::view::run(args),
        Verb::Top(args) => verbs::recording::top::run(args),
        Verb::Serve(args) => verbs::traces::serve::run(args),
        Verb::Mount(args) => verbs::recording::mount::run(args),
        Verb::Demo(args) => verbs::demo::run(args),
        Verb::Overhead(args) => verbs::recording::overhead::run(args),
        Verb::Util(args) => verbs::recording::util::run(args),
        Verb::Completions(args) => verbs::completions::run(args),
        Verb::Man(args) => verbs::man::run(args),
    };
    render::terminal::progress::end();
    let code = match outcome {
        Ok(code) => code,
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            let error = input::explained::explained(error);
            anstream::eprintln!("{} {}", painted(Role::Error, "longpole:"), message(&error));
            if error.is::<WrongUsage>() {
                ExitCode::from(2)
            } else {
                ExitCode::FAILURE
            }
        }
    };
    input::unpacked::remove();
    code
}

/// Arguments that contradict each other; exit status 2, like an error that clap finds itself.
#[derive(Debug)]
pub(crate) struct WrongUsage(pub String);

impl std::fmt::Display for WrongUsage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for WrongUsage {}

/// Prints a line of the answer. Unlike `println!` it returns an error if the pipe is closed,
/// instead of panicking.
pub(crate) fn say(line: impl std::fmt::Display) -> io::Result<()> {
    use io::Write;
    writeln!(io::stdout().lock(), "{line}")
}

/// Returns the error and its causes in one line, without control characters that a name in a trace
/// could use to control the terminal. Library errors that include their cause in their own text are
/// not followed by it again.
pub(crate) fn in_one_line(error: &anyhow::Error) -> String {
    render::table::plain(chained(error))
}

/// Like [`in_one_line`], but keeps line breaks, because some errors draw the place in the input on
/// lines of their own.
pub(crate) fn message(error: &anyhow::Error) -> String {
    let whole = chained(error);
    whole.lines().map(|line| render::table::plain(line.to_owned())).collect::<Vec<_>>().join("\n")
}

fn chained(error: &anyhow::Error) -> String {
    let mut line = error.to_string();
    for cause in error.chain().skip(1).map(ToString::to_string) {
        if !line.ends_with(&cause) {
            line.extend([": ", &cause]);
        }
    }
    line
}

/// Returns true if the reader of the output has closed the pipe. `longpole print | head` must end
/// quietly, so this is not an error.
pub(crate) fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        let kind = cause.downcast_ref::<io::Error>().map(io::Error::kind);
        kind.or_else(|| cause.downcast_ref::<serde_json::Error>()?.io_error_kind()) == Some(io::ErrorKind::BrokenPipe)
    })
}
