//! A request about one output of one experiment.

use super::experiments::Experiment;
use super::outputs::{self, Output, Shape};
use super::parameters::{Parameters, TimeRange};
use super::reply::Refused;
use super::Protocol;
use std::sync::Arc;

pub(crate) struct ExperimentRequest {
    pub experiment: Arc<Experiment>,
    pub output: Output,
    pub parameters: Parameters,
}

impl ExperimentRequest {
    /// Finds the experiment and the output, which must have this shape if one is given, and reads
    /// the parameters.
    pub fn read(
        protocol: &Protocol,
        experiment: &str,
        output: &str,
        shape: Option<Shape>,
        body: &[u8],
    ) -> Result<ExperimentRequest, Refused> {
        let experiment = protocol.experiments.find(experiment)?;
        let output = match shape {
            Some(shape) => outputs::of_shape(output, shape)?,
            None => outputs::find(output)?,
        };
        Ok(ExperimentRequest { experiment, output, parameters: Parameters::read(body)? })
    }

    /// Returns the requested range, or else that of the whole experiment.
    pub fn range(&self) -> Result<TimeRange, Refused> {
        self.parameters.range(self.experiment.range())
    }
}
