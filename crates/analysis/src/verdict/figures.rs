//! Figures that the reasons of a verdict are made of ([`super::because::Because`]).

use super::data::{Named, StateNamed};
use crate::findings::Finding;
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

/// A share that would be enough, and how many times as much as the next one it must be then.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Enough {
    pub share: f64,
    pub lead: f64,
}

/// A change, and what it would bring.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Change {
    pub change: String,
    pub gain: f64,
}

/// What a neighbour of a stage waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum WaitedFor {
    /// Space in a queue that the stage empties.
    Space,
    /// Items from a queue that the stage fills.
    Items,
    /// What it left behind in a queue that the stage empties, when it had ended.
    Backlog,
}

/// A finding that the verdict rests on, in the words of its rule.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Found {
    pub finding: String,
    pub count: u64,
    pub share: f64,
    /// Two standard errors of the share.
    pub error: Option<f64>,
    /// What is so, as a clause.
    pub what: String,
    pub remedy: String,
}

impl Found {
    /// In a sentence of its own.
    pub fn of(finding: &Finding) -> Found {
        let Finding { kind, count, share, error, what, remedy, .. } = finding.clone();
        Found { finding: kind, count, share, error, what, remedy }
    }

    /// In a sentence that has named the machine, which is "it" therefore.
    pub fn of_it(finding: &Finding) -> Found {
        Found { what: finding.of_it.clone(), ..Found::of(finding) }
    }
}

/// What some of several recordings name; nothing where they name no bottleneck.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Agreed {
    pub subject: Option<Named>,
    pub state: Option<StateNamed>,
    /// How many recordings name it.
    pub runs: u64,
}
