//! A prediction as JSON tells it, in `what-if` and `report` alike.

use crate::what_if::Prediction;
use serde::{Serialize, Serializer};

#[derive(Clone, Copy, Debug, Serialize)]
pub struct Predicted<'a> {
    #[serde(flatten)]
    pub prediction: &'a Prediction,
    /// Its place among the fixes that are best made one after the other. None: it is one change by itself.
    pub step: Option<u64>,
}

/// Changes by themselves.
pub fn alone<S: Serializer>(predictions: &Option<Vec<Prediction>>, serializer: S) -> Result<S::Ok, S::Error> {
    match predictions {
        Some(predictions) => serializer.collect_seq(predictions.iter().map(|prediction| Predicted { prediction, step: None })),
        None => serializer.serialize_none(),
    }
}
