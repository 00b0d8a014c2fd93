//! Figures from which the reasons of a verdict ([`crate::verdict::data::because::Because`]) are
//! built.

use crate::findings::Finding;
use crate::verdict::data::{Named, StateNamed};
use serde::Serialize;

/// A state of a stage, with its share of the stage's work.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StateShare {
    pub state: StateNamed,
    pub share: f64,
    /// Two standard errors of the share.
    pub error: f64,
}

/// A state of a machine, or of a class of machines, with its share of the path.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Measured {
    pub subject: Named,
    pub state: StateNamed,
    pub share: f64,
    /// Two standard errors of the share.
    pub error: f64,
}

/// A share that would be enough, and the factor by which it must then exceed the next share.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct RequiredShare {
    pub share: f64,
    pub lead: f64,
}

/// A change, and its predicted gain.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Change {
    pub change: String,
    pub gain: f64,
}

/// The object of a wait of a stage next to the named one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum WaitedFor {
    /// Space in a queue that the stage empties.
    Space,
    /// Items from a queue that the stage fills.
    Items,
    /// Items that the waiting stage had put into a queue before it ended, and that the named stage
    /// still has to process.
    Backlog,
}

/// A finding on which the verdict is based, in the words of its rule.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Found {
    pub finding: String,
    pub count: u64,
    pub share: f64,
    /// Two standard errors of the share.
    pub error: Option<f64>,
    /// Observation, as a clause.
    pub what: String,
    pub remedy: String,
}

impl Found {
    /// Returns the finding for a sentence of its own.
    pub fn of(finding: &Finding) -> Found {
        let Finding { kind, count, share, error, what, remedy, .. } = finding.clone();
        Found { finding: kind, count, share, error, what, remedy }
    }

    /// Returns the finding for a sentence that has already named the machine, which is "it" there.
    pub fn of_it(finding: &Finding) -> Found {
        Found { what: finding.of_it.clone(), ..Found::of(finding) }
    }
}

/// A bottleneck that some of several recordings name. Subject and state are `None` for recordings
/// that name no bottleneck.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Agreed {
    pub subject: Option<Named>,
    pub state: Option<StateNamed>,
    /// Number of recordings that name it.
    pub runs: u64,
}
