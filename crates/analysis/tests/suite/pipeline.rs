//! Reading a trace through several analyses at once, through the interface of the library.

use longpole_analysis::critical_path;
use longpole_analysis::pipeline::passes::report_pass::path_of_log;
use longpole_analysis::pipeline::{spool_to_end, Error, Interactions, Request, Selection};
use longpole_analysis::report::Report;
use longpole_analysis::what_if::{self, Scenario};
use longpole_model::rules::Rules;
use longpole_trace::{Moment, Options, Trace};
use std::cell::Cell;
use std::fs::{self, File};
use std::path::PathBuf;
use std::rc::Rc;
use tempfile::TempDir;

/// A client that waits for a server: of each 100 ns, the server computes for 80.
fn round_trips(rounds: u64) -> String {
    let mut lines = String::new();
    let mut line = |text: String| lines += &format!("{text}\n");
    line(r#"{"t":0,"machine":"client","state":"ask"}"#.to_owned());
    line(r#"{"t":0,"machine":"server","blocked":"idle"}"#.to_owned());
    for t in (0..rounds).map(|round| round * 100) {
        line(format!(r#"{{"t":{},"machine":"client","put":"requests"}}"#, t + 20));
        line(format!(r#"{{"t":{},"machine":"server","get":"requests"}}"#, t + 20));
        line(format!(r#"{{"t":{},"machine":"server","state":"compute"}}"#, t + 20));
        line(format!(r#"{{"t":{},"machine":"client","blocked":"reply"}}"#, t + 20));
        line(format!(r#"{{"t":{},"machine":"server","put":"replies"}}"#, t + 100));
        line(format!(r#"{{"t":{},"machine":"client","get":"replies"}}"#, t + 100));
        line(format!(r#"{{"t":{},"machine":"client","state":"ask"}}"#, t + 100));
        line(format!(r#"{{"t":{},"machine":"server","blocked":"idle"}}"#, t + 100));
    }
    line(format!(r#"{{"t":{},"end":"client"}}"#, rounds * 100));
    lines
}

/// A machine log on disk, in a folder that exists as long as it.
struct Log {
    _folder: TempDir,
    path: PathBuf,
}

impl Log {
    fn new(text: &str) -> Log {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("machines.jsonl");
        fs::write(&path, text).unwrap();
        Log { _folder: folder, path }
    }

    fn open(&self, part: Options) -> Result<Interactions, Error> {
        Interactions::of_log(File::open(&self.path).unwrap(), &self.path, part)
    }
}

fn request(selection: &Selection) -> Request<'_> {
    Request { selection, progress: None, keep_end: true, sensitivity: false }
}

fn halved() -> what_if::Options {
    what_if::Options { scenarios: vec![Scenario::parse("server::compute x0.5").unwrap()], ..what_if::Options::default() }
}

#[test]
fn a_report_of_a_log_has_the_path_and_the_predictions() {
    let log = Log::new(&round_trips(1000));
    let critical = path_of_log(&mut log.open(Options::default()).unwrap(), request(&Selection::default()), None).unwrap();
    let report = Report::of_machines(critical);
    let rows = report.criticality.unwrap();
    assert_eq!((rows[0].machine.as_str(), rows[0].state.as_str()), ("server", "compute"));
    assert!((rows[0].share - 0.8).abs() < 0.001, "{}", rows[0].share);
    let predictions = report.predictions.unwrap();
    let halved = predictions.iter().find(|prediction| prediction.change == "server::compute x0.5").unwrap();
    assert!((halved.gain.unwrap() - 100.0 / 60.0 + 1.0).abs() < 0.01, "{:?}", halved.gain);
}

#[test]
fn a_spool_yields_the_same_predictions_as_the_log() {
    let log = Log::new(&round_trips(1000));
    let direct = log.open(Options::default()).unwrap().what_if(halved()).unwrap();
    let mut interactions = log.open(Options::default()).unwrap();
    let end = spool_to_end(&mut interactions, &Selection::default(), None).unwrap();
    let spooled = interactions.what_if_from_spool(&end.spool, halved()).unwrap();
    assert_eq!(spooled.predictions[0].predicted_ns, direct.predictions[0].predicted_ns);
    assert_eq!(direct.predictions[0].predicted_ns, Some(60_000));
}

#[test]
fn a_part_in_which_nothing_lies_is_an_error_with_the_part() {
    let log = Log::new(&round_trips(10));
    let part = Options { begin: Some(Moment::AfterStart(5_000)), ..Options::default() };
    let error = log.open(part).unwrap().critical_path(critical_path::Options::default()).err().unwrap();
    let Error::NothingInPart { paths, part } = error else { panic!("{error}") };
    assert_eq!(paths, std::slice::from_ref(&log.path));
    assert_eq!(part.begin, Some(Moment::AfterStart(5_000)));
}

#[test]
fn a_part_that_ends_before_it_begins_is_refused() {
    let log = Log::new(&round_trips(10));
    let part = Options { begin: Some(Moment::AfterStart(500)), end: Some(Moment::At(100)), ..Options::default() };
    let error = log.open(part).unwrap().critical_path(critical_path::Options::default()).err().unwrap();
    assert!(matches!(error, Error::EndsBeforeBegin), "{error}");
}

#[test]
fn a_log_has_no_time_of_day() {
    let log = Log::new(&round_trips(10));
    let part = Options { begin: Some(Moment::parse("11:00:00").unwrap()), ..Options::default() };
    assert!(matches!(log.open(part), Err(Error::TimeOfDay)));
}

#[test]
fn a_selection_that_no_thread_fits_is_an_error_with_the_selection() {
    let log = Log::new(&round_trips(10));
    let selection = Selection { process: Some("nginx".to_owned()), ..Selection::default() };
    let error = spool_to_end(&mut log.open(Options::default()).unwrap(), &selection, None).err().unwrap();
    assert_eq!(error.to_string(), "the trace has no thread of process nginx");
}

#[test]
fn an_invalid_line_is_an_error_with_the_log_and_the_line() {
    let log = Log::new("{\"t\":5,\"machine\":\"A\",\"state\":\"run\"}\n{\"t\":4,\"machine\":\"A\",\"state\":\"run\"}\n");
    let error = log.open(Options::default()).unwrap().critical_path(critical_path::Options::default()).err().unwrap();
    let text = error.to_string();
    assert!(text.contains("machines.jsonl") && text.contains("line 2"), "{text}");
}

#[test]
fn the_end_of_a_trace_is_observed_once() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace.json");
    let events: Vec<String> = (0..10).map(|n| format!(r#"{{"ph":"B","name":"work","ts":{n},"pid":1,"tid":1}}"#)).collect();
    fs::write(&path, format!("[{}]", events.join(","))).unwrap();
    let trace = Trace::open(&[&path], Options::default()).unwrap();
    let mut interactions = Interactions::of_trace(trace, &[path], Options::default(), Rules::built_in().unwrap()).unwrap();
    let seen = Rc::new(Cell::new(0));
    let observed = seen.clone();
    interactions.at_end(move |_| observed.set(observed.get() + 1));
    while interactions.next_interaction().unwrap().is_some() {}
    assert_eq!(seen.get(), 1);
    assert!(interactions.next_interaction().unwrap().is_none());
    assert_eq!(seen.get(), 1);
}
