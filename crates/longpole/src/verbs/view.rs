//! `longpole view`: shows traces in the browser.
//!
//! Starts a server on the loopback, prints its address and opens it. The server reads each trace
//! once; the same reading fills the timeline and yields the report.

use crate::in_one_line;
use crate::input::interactions;
use crate::input::subject::SubjectArgs;
use crate::input::Input;
use crate::passes::one_report::{self, Shown};
use crate::passes::predictions;
use crate::say;
use crate::WrongUsage;
use anyhow::{bail, Context};
use longpole_analysis::pipeline::spool_to_end;
use longpole_analysis::what_if::predicted::Predicted;
use longpole_analysis::what_if::{Options, Scenario};
use longpole_serve::{is_included, Analyst, Reading, Server, TraceCounts};
use serde_json::Value;
use std::collections::HashMap;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::sync::mpsc::{channel, SendError, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use tempfile::NamedTempFile;

/// Show traces in the browser: the verdict, a timeline, the critical path.
#[derive(clap::Args)]
#[command(mut_arg("json", |json| json.hide(true)))]
#[command(after_help = "\
The first line of the output is the address of the page. It contains a token: without it, the server
answers nothing. The server runs until it is interrupted (Ctrl-C).

Examples:
  longpole view                              the newest recording
  longpole view --no-open --port 8123 DIR    only print the address; on a fixed port")]
pub struct Args {
    #[command(flatten)]
    input: Input,

    /// Print the address, and do not open it
    #[arg(long)]
    no_open: bool,

    /// Port on 127.0.0.1 [default: a free one]
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    port: u16,
}

pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    if args.input.json {
        bail!(WrongUsage("view has no answer in JSON; `longpole report --json` has".to_owned()));
    }
    if !is_included() {
        bail!("view is not included, because this program was built without the page; install Node, and build it with `make`");
    }
    let traces = args.input.paths()?;
    let options = longpole_serve::Options { traces, port: args.port, ..Default::default() };
    let server = Server::start(options, Arc::new(Viewed::new(args.input)))?;
    let address = server.address();
    say(&address)?;
    io::stdout().flush()?;
    let _page = if args.no_open { None } else { open(&address)? };
    server.run()?;
    Ok(ExitCode::SUCCESS)
}

/// Opens the address in the user's browser. Without one, the user has the printed address.
///
/// The arguments of a process can be read by other users, and the address contains the token. So
/// the browser opens a file that only this user can read, and that leads to the address. The file
/// is removed when the result is dropped.
fn open(address: &str) -> io::Result<Option<NamedTempFile>> {
    let mut page = tempfile::Builder::new().prefix("longpole-").suffix(".html").tempfile()?;
    writeln!(page, "<!doctype html><meta http-equiv=\"refresh\" content=\"0;url={address}\"><title>Longpole</title>")?;
    let opened = Command::new("xdg-open").arg(page.path()).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    if let Ok(mut browser) = opened {
        // It ends soon; waiting for it leaves no dead process behind.
        thread::spawn(move || browser.wait());
        return Ok(Some(page));
    }
    Ok(None)
}

/// A question about changes, and where its answer goes.
struct Question {
    changes: Vec<String>,
    answer: Sender<Result<Value, String>>,
}

/// Reads traces for the server.
pub(super) struct Viewed {
    input: Input,
    /// Threads that answer questions about changes, by trace. A trace is read again at the first
    /// question, and what the replays need stays in the memory of its thread.
    replays: Mutex<HashMap<PathBuf, Sender<Question>>>,
}

impl Analyst for Viewed {
    fn read(&self, path: &Path, reading: &Reading) -> Result<Value, String> {
        let states_known = |events, lost| reading.analyses(TraceCounts { events, lost });
        let shown = Shown { timeline: reading.timeline.clone(), states_known: &states_known };
        let read = one_report::read(&self.input, path, (&SubjectArgs::default(), false), Some(&shown));
        let report = read.and_then(|one| {
            reading.keep(one.pictures);
            Ok(serde_json::to_value(&one.report)?)
        });
        report.map_err(|error| in_one_line(&error))
    }

    fn what_if(&self, path: &Path, changes: &[String]) -> Result<Value, String> {
        let (answer, answered) = channel();
        let question = Question { changes: changes.to_vec(), answer };
        let mut replays = self.replays.lock().unwrap_or_else(PoisonError::into_inner);
        let questions = replays.entry(path.to_owned()).or_insert_with(|| self.answer_questions(path));
        // The thread has ended if the trace could not be read; it is tried again.
        if let Err(SendError(question)) = questions.send(question) {
            *questions = self.answer_questions(path);
            drop(questions.send(question));
        }
        drop(replays);
        answered.recv().unwrap_or_else(|_| Err("the trace cannot be replayed; `longpole what-if` says why".to_owned()))
    }

    fn whole(&self, path: &Path) -> PathBuf {
        // A recording has directories of traces, `kernel` and `user/NAME`, at most two below it.
        let above = path.ancestors().skip(1).take(2).find(|above| longpole_trace::is_recording(above));
        above.unwrap_or(path).to_owned()
    }
}

impl Viewed {
    /// Reads traces with these arguments.
    pub fn new(input: Input) -> Viewed {
        Viewed { input, replays: Mutex::default() }
    }

    /// Starts a thread that answers questions about changes of a trace, one after the other.
    fn answer_questions(&self, path: &Path) -> Sender<Question> {
        let (questions, asked) = channel::<Question>();
        let input = self.input.of(path);
        thread::spawn(move || {
            let replays = Replays::read(&input).map_err(|error| in_one_line(&error));
            for Question { changes, answer } in asked {
                let predicted = replays.as_ref().map_err(Clone::clone).and_then(|replays| replays.predict(&changes));
                // The request may have been cancelled, so that nobody receives the answer.
                drop(answer.send(predicted));
                if replays.is_err() {
                    return;
                }
            }
        });
        questions
    }
}

/// What replays need of a trace.
struct Replays {
    interactions: longpole_analysis::pipeline::Interactions,
    end: longpole_analysis::pipeline::PathEnd,
}

impl Replays {
    fn read(input: &Input) -> anyhow::Result<Replays> {
        let mut interactions = interactions::open(&input.of_command()?)?;
        let subject = SubjectArgs::default();
        let end = spool_to_end(&mut interactions, &subject.selection(), None).context("the trace cannot be replayed")?;
        Ok(Replays { interactions, end })
    }

    fn predict(&self, changes: &[String]) -> Result<Value, String> {
        let scenarios: Vec<Scenario> = changes.iter().map(|change| Scenario::parse(change)).collect::<Result<_, _>>()?;
        let options = |scenarios: Vec<Scenario>| Options { scenarios, ..Options::default() };
        let (answer, _) = predictions::at_path_end(&self.interactions, &self.end, scenarios, options).map_err(|error| error.to_string())?;
        let rows: Vec<Predicted<'_>> = answer.predictions.iter().map(|prediction| Predicted { prediction, step: None }).collect();
        serde_json::to_value(rows).map_err(|error| error.to_string())
    }
}
