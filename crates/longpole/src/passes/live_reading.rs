//! Follows a running recording for `view --live`: fills the timeline until the recorder ends.
//!
//! The recorder's files are the buffer between the two processes. A reader that is too slow falls
//! behind, and the recorder does not notice it.

use crate::input::in_progress;
use crate::render::table::plain;
use anyhow::{anyhow, bail, Context};
use longpole_analysis::pipeline::live_pass::LivePass;
use longpole_model::rules::Rules;
use longpole_record::runtime_dir::session::RunningRecording;
use longpole_record::RuntimeDir;
use longpole_serve::{LiveState, Reading, TraceCounts};
use longpole_trace::{Recording, RecordingFollower};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Nice value of the thread that reads: what is recorded, and the recorder, have priority.
const PATIENT: i32 = 10;
/// Time between two looks at the recording.
const PAUSE: Duration = Duration::from_millis(500);
/// Time after which an event of a program is certainly in the recording's files: three periods of a
/// recorder with default settings, and the duration of its turn.
const WRITE_DELAY: Duration = Duration::from_millis(350);
/// Time in which a recorder that has begun knows the process of its command.
const BEGIN_TIMEOUT: Duration = Duration::from_secs(5);

/// A recording in progress, and where recorders and their processes meet.
pub struct Followed {
    pub running: RunningRecording,
    pub runtime: RuntimeDir,
}

/// What has become of a recording.
enum Fate {
    /// Its recorder still writes to its directory.
    Running,
    /// Its recorder has ended, or has begun another chunk.
    Ended,
}

impl Followed {
    /// Fills the timeline of `reading` until the recording has ended. Returns when all of it can be
    /// read.
    ///
    /// # Errors
    ///
    /// If the recording's directory is no longer there.
    pub fn follow(&self, rules: Rules, reading: &Reading) -> anyhow::Result<()> {
        let follow = || {
            // Only this thread.
            let _ = rustix::process::setpriority_process(None, PATIENT);
            self.follow_here(rules, reading)
        };
        thread::scope(|scope| {
            let follower = thread::Builder::new().name("live".to_owned()).spawn_scoped(scope, follow).context("cannot start a thread")?;
            follower.join().unwrap_or_else(|_| Err(anyhow!("internal error: following the recording was given up")))
        })
    }

    fn follow_here(&self, rules: Rules, reading: &Reading) -> anyhow::Result<()> {
        reading.follows(TraceCounts::default(), LiveState::default());
        let mut step = Live::begin(&self.running.path, rules, reading);
        loop {
            // Looked at before reading, so that what was written before the end is read.
            let fate = self.fate()?;
            if let Ok(live) = &mut step {
                if let Err(error) = live.step(reading) {
                    step = Err(error);
                }
            }
            if let Err(error) = &step {
                let note = format!("the picture no longer grows: {}", crate::in_one_line(error));
                reading.follows(reading.counts(), LiveState { note: Some(note), ..LiveState::default() });
            }
            match fate {
                Fate::Ended => return Ok(()),
                Fate::Running => thread::sleep(PAUSE),
            }
        }
    }

    fn fate(&self) -> anyhow::Result<Fate> {
        let path = &self.running.path;
        let now = in_progress::again(&self.running, &self.runtime)?;
        if path.is_dir() {
            return Ok(if now.is_some_and(|now| now.path == *path) { Fate::Running } else { Fate::Ended });
        }
        match now.filter(|now| now.path != *path) {
            Some(now) => bail!("the recording is now {}; name that directory", plain(now.path.display().to_string())),
            None => bail!("{} was removed; what was read of it is shown", plain(path.display().to_string())),
        }
    }
}

/// The reading of a recording that grows.
struct Live {
    follower: RecordingFollower,
    pass: LivePass,
}

impl Live {
    fn begin(path: &Path, rules: Rules, reading: &Reading) -> anyhow::Result<Live> {
        let description = begun(path)?;
        let pass = LivePass::new(&description, rules, reading.timeline.clone())?;
        Ok(Live { follower: RecordingFollower::open(path)?, pass })
    }

    /// Reads what was written since the last step, as far as it is certain that no earlier event is
    /// still to come.
    fn step(&mut self, reading: &Reading) -> anyhow::Result<()> {
        let until = now_ns() - WRITE_DELAY.as_nanos() as i64;
        self.follower.refresh()?;
        while let Some((item, catalogue)) = self.follower.next_until(until)? {
            self.pass.item(catalogue, &item);
        }
        self.pass.show();
        let (events, lost) = self.pass.counts();
        let behind_ns = u64::try_from(now_ns() - until).unwrap_or(0);
        reading.follows(TraceCounts { events, lost }, LiveState { behind_ns, note: None });
        Ok(())
    }
}

fn now_ns() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(now.as_nanos()).unwrap_or(i64::MAX)
}

/// Returns the recording's description, which soon after its begin has the process of the command.
fn begun(path: &Path) -> anyhow::Result<Recording> {
    let since = Instant::now();
    loop {
        let read = Recording::read(path)?;
        let is_begun = |read: &Recording| read.command_pid.is_some() || read.command.as_array().is_none_or(Vec::is_empty);
        match read {
            Some(read) if is_begun(&read) || since.elapsed() >= BEGIN_TIMEOUT => return Ok(read),
            None if since.elapsed() >= BEGIN_TIMEOUT => bail!("the recorder has not described the recording"),
            _ => thread::sleep(PAUSE),
        }
    }
}
