//! `longpole view`: shows traces in the browser.
//!
//! Starts a server on the loopback, prints its address and opens it. The server reads each trace
//! once; the same reading fills the timeline and yields the report.

use crate::in_one_line;
use crate::input::in_progress;
use crate::input::interactions;
use crate::input::subject::SubjectArgs;
use crate::input::Input;
use crate::packets::viewed_packet;
use crate::passes::compared::{self, Sides};
use crate::passes::event_lines;
use crate::passes::kept_view::{Answers, Kept};
use crate::passes::live_reading::Followed;
use crate::passes::one_report::{self, Shown};
use crate::passes::predictions;
use crate::passes::samples;
use crate::render::terminal::progress::ReadShare;
use crate::say;
use crate::WrongUsage;
use anyhow::{bail, Context};
use longpole_analysis::pipeline::samples::SampleScope;
use longpole_analysis::pipeline::spool_to_end;
use longpole_analysis::pipeline::wait_stacks::{WaitStack, WaitStacks};
use longpole_analysis::scheduling::flame_graph::FlameGraph;
use longpole_analysis::scheduling::sampled_waits::SampledWait;
use longpole_analysis::timeline::{PacketAt, Timeline};
use longpole_analysis::what_if::predicted::Predicted;
use longpole_analysis::what_if::{Options, Scenario};
use longpole_serve::{is_included, Analyst, EventLine, EventLines, EventQuery, PictureAnswers, Reading, Server, TraceCounts};
use longpole_trace::EventIndex;
use serde_json::Value;
use std::cell::Cell;
use std::collections::HashMap;
use std::io::{self, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::sync::mpsc::{channel, SendError, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

/// Show traces in the browser: the verdict, a timeline, the critical path.
#[derive(clap::Args)]
#[command(mut_arg("json", |json| json.hide(true)))]
#[command(after_help = "\
The first line of the output is the address of the page. It contains a token: without it, the server
answers nothing. The server runs until it is interrupted (Ctrl-C).

Examples:
  longpole view                              the newest recording
  longpole view --live                       the recording in progress, while it grows
  longpole view BEFORE AFTER                 two recordings, which the page can compare
  longpole view --no-open --port 8123 DIR    only print the address; on a fixed port")]
pub struct Args {
    #[command(flatten)]
    input: Input,

    /// Follow the recording in progress, or the one that is made in TRACE
    #[arg(long)]
    live: bool,

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
    let viewed = match args.live {
        true => Viewed { followed: Some(followed(&args.input)?), ..Viewed::new(args.input) },
        false => Viewed::new(args.input),
    };
    let traces = match &viewed.followed {
        Some(followed) => vec![followed.running.path.clone()],
        None => viewed.input.completed_paths()?,
    };
    let options = longpole_serve::Options { traces, port: args.port, ..Default::default() };
    let server = Server::start(options, Arc::new(viewed))?;
    let address = server.address();
    say(&address)?;
    io::stdout().flush()?;
    if !args.no_open {
        open(&address)?;
    }
    server.run()?;
    Ok(ExitCode::SUCCESS)
}

/// Returns the recording in progress that the arguments name.
fn followed(input: &Input) -> anyhow::Result<Followed> {
    let ([] | [_]) = input.traces.as_slice() else {
        bail!(WrongUsage("--live follows one recording; name only that".to_owned()));
    };
    if !input.is_as_recorded() {
        bail!(WrongUsage("--live shows all of a recording as it is; leave --begin, --end and --offset out".to_owned()));
    }
    let none = "nothing is being recorded; begin with `longpole record` or `longpole start`";
    let (running, runtime) = in_progress::in_directory(input.traces.first().map(PathBuf::as_path), none)?;
    let mode = in_progress::description(&running)["mode"].clone();
    if mode == "overwrite" {
        bail!("this recording keeps only its newest events, in memory, so it does not grow; `longpole snapshot` saves them for `longpole view`");
    }
    Ok(Followed { running, runtime })
}

/// Time in which a browser that was started reads the page that leads to the address.
const TIME_TO_READ: Duration = Duration::from_secs(10);

/// Opens the address in the user's browser. Without one, the user has the printed address.
///
/// The arguments of a process can be read by other users, and the address contains the token. So
/// the browser opens a file that only this user can read, and that leads to the address. The file
/// is removed when the browser has had time to read it.
fn open(address: &str) -> io::Result<()> {
    let mut page = tempfile::Builder::new().prefix("longpole-").suffix(".html").tempfile()?;
    writeln!(page, "<!doctype html><meta http-equiv=\"refresh\" content=\"0;url={address}\"><title>Longpole</title>")?;
    let opened = Command::new("xdg-open").arg(page.path()).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    if let Ok(mut browser) = opened {
        // It ends soon; waiting for it leaves no dead process behind.
        thread::spawn(move || {
            let _ = browser.wait();
            thread::sleep(TIME_TO_READ);
            drop(page);
        });
    }
    Ok(())
}

/// A question about changes, and where its answer goes.
struct Question {
    changes: Vec<String>,
    answer: Sender<Result<Value, String>>,
}

/// Reads traces for the server.
pub(super) struct Viewed {
    input: Input,
    /// The recording that is followed until it ends.
    followed: Option<Followed>,
    /// Threads that answer questions about changes, by trace. A trace is read again at the first
    /// question, and what the replays need stays in the memory of its thread.
    replays: Mutex<HashMap<PathBuf, Sender<Question>>>,
    /// Traces that were read, and are to be kept.
    to_keep: Mutex<HashMap<PathBuf, (Kept, TraceCounts)>>,
    /// What is compared of each trace, which is read again at its first comparison.
    sides: Sides,
    /// Stacks of the waits of each trace, with the generation of its timeline. They are read at the
    /// first question for one of them.
    wait_stacks: Mutex<HashMap<PathBuf, (u64, Arc<WaitStacks>)>>,
}

impl Analyst for Viewed {
    fn read(&self, path: &Path, reading: &Reading) -> Result<Value, String> {
        let Some(followed) = self.followed.as_ref().filter(|followed| followed.running.path == path) else {
            let (report, pictures, index) = self.read_into(&reading.timeline, path, reading)?;
            reading.keep(pictures, index);
            return Ok(report);
        };
        let follow = || followed.follow(self.input.rules()?, reading);
        follow().map_err(|error: anyhow::Error| in_one_line(&error))?;
        // The picture until now stays until the finished recording is read.
        reading.ends_live();
        let timeline = Arc::new(Timeline::default());
        let (report, pictures, index) = self.read_into(&timeline, path, reading)?;
        reading.timeline.replace_by(&timeline);
        // After the new rows, since the pictures refer to these.
        reading.keep(pictures, index);
        Ok(report)
    }

    fn keep(&self, path: &Path, reading: &Reading, report: &Value) {
        let to_keep = self.to_keep.lock().unwrap_or_else(PoisonError::into_inner).remove(path);
        if let Some((kept, TraceCounts { events, lost })) = to_keep {
            let pictures = reading.pictures().cloned().unwrap_or_default();
            let index = reading.event_index().cloned().unwrap_or_default();
            // Without it, the trace is read again the next time.
            drop(kept.store(&reading.timeline, &Answers { events, lost, report: report.clone(), pictures, index }));
        }
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

    fn diff(&self, base: &Path, new: &Path) -> Result<Value, String> {
        let compared = || {
            let rules = self.input.rules()?;
            let side = |path: &Path| self.sides.of(path, || compared::side(path, self.input.options(), &rules, self.input.all));
            Ok(serde_json::to_value(compared::difference(&*side(base)?, &*side(new)?)?)?)
        };
        compared().map_err(|error: anyhow::Error| in_one_line(&error))
    }

    fn events(
        &self,
        path: &Path,
        reading: &Reading,
        query: &EventQuery,
        complete: &dyn Fn(&mut EventLine) -> bool,
    ) -> Result<EventLines, String> {
        // A trace that could not be read has no index.
        let Some(index) = reading.event_index() else { return Ok(EventLines::default()) };
        let source = event_lines::Source { input: &self.input, path, index, origin: reading.timeline.range().0 };
        event_lines::read(&source, query, complete).map_err(|error| format!("{error:#}"))
    }

    fn stacks(&self, path: &Path, reading: &Reading, range: Range<i64>, scope: SampleScope) -> Result<Option<FlameGraph>, String> {
        let waits = reading.timeline.sampled_waits();
        samples::flame_graph(&self.input.of(path), &waits, range, scope).map_err(|error| in_one_line(&error))
    }

    fn wait_stack(&self, path: &Path, reading: &Reading, wait: &SampledWait) -> Result<Option<WaitStack>, String> {
        // Read while the lock is held, so that requests at the same time wait for the first one.
        let mut all = self.wait_stacks.lock().unwrap_or_else(PoisonError::into_inner);
        let generation = reading.timeline.generation();
        let stacks = match all.get(path).filter(|(of, _)| *of == generation) {
            Some((_, stacks)) => stacks.clone(),
            None => {
                let waits = reading.timeline.sampled_waits();
                let stacks = samples::wait_stacks(&self.input.of(path), &waits).map_err(|error| in_one_line(&error))?;
                let stacks = Arc::new(stacks);
                all.insert(path.to_owned(), (generation, stacks.clone()));
                stacks
            }
        };
        Ok(stacks.of(wait))
    }

    fn packet(&self, path: &Path, reading: &Reading, packet: &PacketAt) -> Result<Value, String> {
        viewed_packet::read(&self.input.of(path), &reading.timeline, packet).map_err(|error| in_one_line(&error))
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
        let (replays, to_keep, sides, wait_stacks) = Default::default();
        Viewed { input, followed: None, replays, to_keep, sides, wait_stacks }
    }

    /// Reads a trace into a timeline. Returns the report, and what else is shown with the states.
    fn read_into(&self, timeline: &Arc<Timeline>, path: &Path, reading: &Reading) -> Result<(Value, PictureAnswers, EventIndex), String> {
        let kept = Kept::new(&self.input, path);
        if let Some(Answers { events, lost, report, pictures, index }) = kept.as_ref().and_then(|kept| kept.read(timeline)) {
            reading.analyses(TraceCounts { events, lost });
            return Ok((report, pictures, index));
        }
        // The kernel counts what the process reads, so it is known only while it reads one trace.
        if let Some(share) = ReadShare::of(path).filter(|_| self.input.traces.len() <= 1) {
            reading.measure(move || share.now());
        }
        let counts = Cell::default();
        let states_known = |events, lost| {
            counts.set(TraceCounts { events, lost });
            reading.analyses(counts.get());
        };
        let shown = Shown { timeline: timeline.clone(), states_known: &states_known };
        let read = one_report::read(&self.input, path, (&SubjectArgs::default(), false), Some(&shown));
        let one = read.map_err(|error| in_one_line(&error))?;
        let pictures = PictureAnswers::new(&one.pictures, timeline.range().0).with_graph(one.graph);
        let report = serde_json::to_value(&one.report).map_err(|error| error.to_string())?;
        if let Some(kept) = kept {
            self.to_keep.lock().unwrap_or_else(PoisonError::into_inner).insert(path.to_owned(), (kept, counts.get()));
        }
        Ok((report, pictures, one.index))
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
