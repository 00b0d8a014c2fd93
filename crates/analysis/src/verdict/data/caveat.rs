//! Caveats: facts that make a verdict less certain.

use crate::critical_path::Answer;
use crate::verdict::data::Named;
use crate::verdict::limits::MAX_CONTRADICTORY_SHARE;
use crate::verdict::not_recorded::NotRecorded;
use crate::verdict::sentence;
use serde::ser::SerializeStruct;
use serde::{Serialize, Serializer};

/// A fact that makes the verdict less certain.
#[derive(Clone, Debug, PartialEq)]
pub enum Caveat {
    /// Events were lost.
    LostEvents {
        count: u64,
        /// Advice to lose fewer events ([`crate::verdict::lost_events::remedy`]).
        remedy: String,
    },
    /// A share of the path is unknown. `contradictory` is true if events on the path contradict
    /// each other.
    UnknownTime { share: f64, contradictory: bool },
    /// Events contradict each other.
    Contradictions(Contradictions),
    /// No event shows when threads run, so the state may be work or a wait.
    RunningUnknown,
    /// A thread has set a timer whose signal may be what ends the run.
    Timer { machine: String, call: String },
    /// Programs unrelated to the path use the CPUs. `example` is one of them.
    Bystanders { share: f64, example: Named },
    /// More events arrived than could be stored, and the recorder switched off some kinds.
    SwitchedOff { kinds: Vec<NotRecorded> },
}

impl Caveat {
    fn kind(&self) -> &'static str {
        match self {
            Caveat::LostEvents { .. } => "lost_events",
            Caveat::UnknownTime { .. } => "unknown_time",
            Caveat::Contradictions(_) => "contradictions",
            Caveat::RunningUnknown => "running_unknown",
            Caveat::Timer { .. } => "timer",
            Caveat::Bystanders { .. } => "bystanders",
            Caveat::SwitchedOff { .. } => "switched_off",
        }
    }
}

impl Serialize for Caveat {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let share = match self {
            Caveat::UnknownTime { share, .. } | Caveat::Bystanders { share, .. } => Some(share),
            _ => None,
        };
        let count = match self {
            Caveat::LostEvents { count, .. } => Some(*count),
            Caveat::Contradictions(counts) => Some(counts.contradictions + counts.negative_links),
            _ => None,
        };
        let mut out = serializer.serialize_struct("Caveat", 5)?;
        out.serialize_field("kind", self.kind())?;
        out.serialize_field("share", &share)?;
        out.serialize_field("count", &count)?;
        out.serialize_field("text", &sentence::caveat(self))?;
        out.serialize_field("remedy", &sentence::remedy_of(self))?;
        out.end()
    }
}

/// Counts of events that contradict each other: events are missing, or clocks differ, so the
/// verdict may be wrong.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Contradictions {
    /// Number of interactions that contradict earlier ones.
    pub contradictions: u64,
    /// Number of links that end before they begin.
    pub negative_links: u64,
    /// Number of wake-ups of machines that were not blocked.
    pub ignored_wakeups: u64,
}

impl Contradictions {
    pub fn of(answer: &Answer) -> Contradictions {
        Contradictions {
            contradictions: answer.contradictions,
            negative_links: answer.negative_links,
            ignored_wakeups: answer.ignored_wakeups,
        }
    }

    /// Returns whether the contradictions are so numerous that the absence of a bottleneck cannot
    /// be stated.
    pub fn are_too_many(&self, interactions: u64) -> bool {
        (self.contradictions + self.negative_links) as f64 > MAX_CONTRADICTORY_SHARE * interactions as f64
    }

    pub fn is_none(&self) -> bool {
        *self == Contradictions::default()
    }
}
