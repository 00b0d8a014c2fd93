//! What `view` keeps of a trace that it has read, so that it is shown at once the next time: the
//! timeline, the report and the further pictures, in `derived/timeline` of the trace's folder.

use crate::input::Input;
use longpole_analysis::timeline::Timeline;
use longpole_serve::PictureAnswers;
use longpole_trace::derived::{self, Fingerprint, Place};
use longpole_trace::{is_recording, EventIndex};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::env;
use std::io::{self, Write};
use std::path::Path;

/// Minimum size in bytes of a trace of another tracer. Next to a smaller one, which is read at
/// once, nothing is written.
const MIN_FOREIGN: u64 = 4 << 20;

/// What belongs to the timeline.
#[derive(Serialize, Deserialize)]
pub struct Answers {
    pub events: u64,
    pub lost: u64,
    pub report: Value,
    pub pictures: PictureAnswers,
    pub index: EventIndex,
}

/// The place of what is kept of a trace, and what it must have been made from.
pub struct Kept {
    place: Place,
    key: String,
}

impl Kept {
    /// Returns `None` if nothing is kept of this trace: it is a file or small, a part of it is
    /// asked for, or it cannot be read.
    pub fn new(input: &Input, trace: &Path) -> Option<Kept> {
        if !trace.is_dir() || !input.is_as_recorded() {
            return None;
        }
        let of_trace = Fingerprint::of(trace).ok().filter(|it| it.bytes >= MIN_FOREIGN || is_recording(trace))?;
        // Another build of the program may give other answers, and so may other rules.
        let mut key = format!("{:016x} {}", of_trace.hash, if input.all { "all" } else { "command" });
        for file in input.rule_files().ok()?.into_iter().chain([env::current_exe().ok()?]) {
            key += &format!(" {:016x}", Fingerprint::of(&file).ok()?.hash);
        }
        let below = Path::new(derived::FOLDER).join("timeline");
        Some(Kept { place: Place { base: trace.to_owned(), below }, key })
    }

    /// Fills the timeline with what is kept; `None` if nothing is, or if it is not of this state of
    /// the trace.
    pub fn read(&self, timeline: &Timeline) -> Option<Answers> {
        let file = self.place.open().ok()?;
        let sound = |answers: &Answers| answers.index.is_sound();
        let answers = |attachment: &[u8]| serde_json::from_slice(attachment).ok().filter(sound);
        timeline.read_file(file, self.key.as_bytes(), answers).ok()?
    }

    /// Keeps a timeline that is complete.
    ///
    /// # Errors
    ///
    /// If it cannot be stored, for example in a folder of another user.
    pub fn store(&self, timeline: &Timeline, answers: &Answers) -> io::Result<()> {
        let attachment = serde_json::to_vec(answers)?;
        self.place.store(|file| {
            timeline.write_file(file, self.key.as_bytes(), &attachment)?;
            file.flush()
        })
    }
}
