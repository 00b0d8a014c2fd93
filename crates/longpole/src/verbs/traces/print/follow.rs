//! `print --follow`: prints a trace while it is written, until the recorder ends or a signal stops
//! it.

use super::Lines;
use crate::render::diagnostics::print_one;
use crate::WrongUsage;
use longpole_record::Stop;
use longpole_trace::Catalogue;
use longpole_trace::Diagnostic;
use longpole_trace::Error;
use longpole_trace::Item;
use longpole_trace::Live;
use longpole_trace::Moment;
use longpole_trace::Options;
use longpole_trace::Recording;
use longpole_trace::RecordingFollower;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Time between two reads.
const PAUSE: Duration = Duration::from_millis(50);
/// Time after which an event of a program is certainly in the recording's files: three periods of a
/// recorder with default settings, and the duration of its turn.
const WRITE_DELAY: Duration = Duration::from_millis(350);

/// The trace that grows.
enum Growing {
    Recording(Box<RecordingFollower>, PathBuf),
    Foreign(Box<Live>),
}

pub fn run(paths: &[PathBuf], options: Options, strict: bool, mut lines: Lines<impl Write>) -> anyhow::Result<ExitCode> {
    let stop = Stop::install()?;
    let mut growing = Growing::open(paths, &options)?;
    let mut part = Part { begin: options.begin, end: options.end, range: None };
    let mut shown = 0;
    loop {
        // Checked before reading: what was written before the end was requested is then certainly
        // read.
        let stopped = stop.count() > 0;
        let last = stopped || growing.has_ended();
        growing.look(last)?;
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let until = if last { i64::MAX } else { i64::try_from(now.saturating_sub(WRITE_DELAY).as_nanos()).unwrap_or(i64::MAX) };
        while let Some((item, catalogue)) = growing.next(until)? {
            if part.holds(&item) {
                lines.item(&item, catalogue)?;
            }
            // A writer that is faster than this loop would never be caught up with; a second signal
            // ends the loop.
            if stopped && stop.count() > 1 {
                break;
            }
        }
        lines.flush_tail()?;
        let diagnostics = growing.diagnostics();
        diagnostics[shown.min(diagnostics.len())..].iter().for_each(print_one);
        shown = diagnostics.len();
        let damaged = diagnostics.iter().any(Diagnostic::is_damage);
        if last || strict && damaged {
            lines.end()?;
            return Ok(if damaged { ExitCode::FAILURE } else { ExitCode::SUCCESS });
        }
        std::thread::sleep(PAUSE);
    }
}

impl Growing {
    fn open(paths: &[PathBuf], options: &Options) -> anyhow::Result<Growing> {
        if options.dump.is_some() {
            return Err(WrongUsage("a raw log of a kernel does not grow; leave --follow out".to_owned()).into());
        }
        let recordings: Vec<PathBuf> = paths.iter().filter_map(|path| longpole_trace::recording_at(path)).collect();
        match (recordings.as_slice(), paths.len()) {
            ([], _) => Ok(Growing::Foreign(Box::new(Live::open(paths, options.shifts.clone())?))),
            ([recording], 1) => Ok(Growing::Recording(Box::new(RecordingFollower::open(recording)?), recording.clone())),
            _ => Err(WrongUsage("--follow accepts one recording; name only that".to_owned()).into()),
        }
    }

    /// Returns true if the recorder has ended the recording, or if its process no longer exists.
    fn has_ended(&self) -> bool {
        let Growing::Recording(_, path) = self else { return false };
        match Recording::read(path) {
            Ok(Some(recording)) => {
                let gone = |pid: i32| !Path::new("/proc").join(pid.to_string()).exists();
                recording.end_ns.is_some() || recording.recorder_pid.is_some_and(gone)
            }
            _ => false,
        }
    }

    fn look(&mut self, last: bool) -> Result<(), Error> {
        match self {
            Growing::Recording(follower, _) if last => follower.refresh_all(),
            Growing::Recording(follower, _) => follower.refresh(),
            Growing::Foreign(live) if last => live.refresh_all(),
            Growing::Foreign(live) => live.refresh(),
        }
    }

    fn next(&mut self, until: i64) -> Result<Option<(Item<'_>, &Catalogue)>, Error> {
        match self {
            Growing::Recording(follower, _) => follower.next_until(until),
            // The clock of a foreign trace may differ from ours, so no event is held back.
            Growing::Foreign(live) => live.next(),
        }
    }

    fn diagnostics(&self) -> &[Diagnostic] {
        match self {
            Growing::Recording(follower, _) => follower.diagnostics(),
            Growing::Foreign(live) => live.diagnostics(),
        }
    }
}

/// The requested range of time.
struct Part {
    begin: Option<Moment>,
    end: Option<Moment>,
    /// The range in ns; known after the first item.
    range: Option<(i64, i64)>,
}

impl Part {
    fn holds(&mut self, item: &Item<'_>) -> bool {
        let (from, to) = match item {
            Item::Event(event) => (event.t_ns, event.t_ns),
            Item::Loss(loss) => (loss.begin_ns, loss.end_ns),
        };
        let (begin, end) = *self.range.get_or_insert_with(|| {
            let resolve = |moment: Option<Moment>, else_ns: i64| moment.map_or(else_ns, |moment| moment.resolve(to));
            (resolve(self.begin, i64::MIN), resolve(self.end, i64::MAX))
        });
        to >= begin && from <= end
    }
}
