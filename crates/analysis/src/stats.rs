//! Statistics that several analyses use: histograms and samples of times, windows of a run, bounds
//! on names, and the texts and suggestions in which they appear.
//!
//! A module belongs here if it knows nothing about the question of an analysis. What is computed
//! from the numbers belongs to the analysis; comparisons between runs belong to [`crate::compare`].

pub mod distinct;
pub mod evidence;
pub(crate) mod growing;
pub mod histogram;
pub mod nearest;
pub mod samples;
pub mod series;
pub mod text;
pub(crate) mod value_log;
pub mod windows;
