//! What is known of each side, and which statements that forbids: what is missing in one recording
//! looks like a change of the system.

use crate::stats::text::{number, percent};
use serde::Serialize;

/// Largest share of lost events of a side; beyond it, counts and times do not show what happened.
const MAX_LOST: f64 = 0.001;

/// What is known of one recording, and what is missing.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Known {
    /// `None` if there is no critical path.
    pub unknown_share: Option<f64>,
    pub contradictions: Option<u64>,
    pub events: u64,
    pub lost: u64,
    pub uncounted_losses: u64,
}

/// Reasons why a change cannot be certain.
#[derive(Clone, Debug, Default)]
pub struct Obstacles {
    /// Reasons that concern shares of the critical path.
    pub path: Vec<String>,
    /// Reasons that concern everything.
    pub events: Vec<String>,
}

impl Known {
    fn loses(&self) -> bool {
        self.uncounted_losses > 0 || self.lost as f64 > MAX_LOST * self.events.saturating_add(self.lost) as f64
    }

    fn losses(&self) -> String {
        match self.uncounted_losses {
            0 => format!("{} events are lost", number(self.lost)),
            more => format!("{} events are lost, and {} losses have no number", number(self.lost), number(more)),
        }
    }

    /// Returns a description of what is missing, `None` if nothing is.
    pub fn missing(&self) -> Option<String> {
        let mut clauses = Vec::new();
        match self.unknown_share {
            None => clauses.push("there is no critical path".to_owned()),
            Some(share) if share > 0.0 => clauses.push(format!("{} of the critical path is unknown", percent(share))),
            Some(_) => {}
        }
        match self.contradictions {
            Some(1) => clauses.push("it contradicts itself once".to_owned()),
            Some(count @ 2..) => clauses.push(format!("it contradicts itself {} times", number(count))),
            _ => {}
        }
        if self.lost > 0 || self.uncounted_losses > 0 {
            clauses.push(self.losses());
        }
        (!clauses.is_empty()).then(|| clauses.join(", "))
    }
}

impl Obstacles {
    /// Collects the reasons. `max_unknown` is the largest share of a path that may be unknown.
    pub fn of(a: &Known, b: &Known, max_unknown: f64) -> Obstacles {
        let mut obstacles = Obstacles::default();
        for (known, other, which) in [(a, b, "first"), (b, a, "second")] {
            match known.unknown_share {
                // If neither side has a path, none is compared.
                None if other.unknown_share.is_none() => {}
                None => obstacles.path.push(format!("the {which} trace has no critical path")),
                Some(share) if share > max_unknown => {
                    let share = percent(share);
                    obstacles
                        .path
                        .push(format!("{share} of the {which} trace's critical path is unknown; at most {} may be", percent(max_unknown)));
                }
                Some(_) => {}
            }
            if known.loses() {
                obstacles.events.push(format!("in the {which} trace {}", known.losses()));
            }
        }
        obstacles
    }

    /// Returns why shares of the critical path cannot be compared, if so.
    pub fn of_shares(&self) -> Option<String> {
        let all: Vec<&str> = self.path.iter().chain(&self.events).map(String::as_str).collect();
        (!all.is_empty()).then(|| all.join("; "))
    }

    /// Returns why times and rates cannot be compared, if so.
    pub fn of_times(&self) -> Option<String> {
        (!self.events.is_empty()).then(|| self.events.join("; "))
    }
}
