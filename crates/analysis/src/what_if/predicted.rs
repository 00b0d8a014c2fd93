//! The form of a prediction in JSON, the same in `what-if` and `report`.

use super::answer::Prediction;
use serde::{Serialize, Serializer};

/// A prediction with its position in a sequence of changes.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Predicted<'a> {
    #[serde(flatten)]
    pub prediction: &'a Prediction,
    /// Position among the changes that are best made one after the other; `None` for a change by
    /// itself.
    pub step: Option<u64>,
}

/// Serializes predictions of changes by themselves.
pub fn alone<S: Serializer>(predictions: &Option<Vec<Prediction>>, serializer: S) -> Result<S::Ok, S::Error> {
    match predictions {
        Some(predictions) => serializer.collect_seq(predictions.iter().map(|prediction| Predicted { prediction, step: None })),
        None => serializer.serialize_none(),
    }
}
