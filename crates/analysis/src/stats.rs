//! TODO room stats

pub mod distinct;
pub mod histogram;
pub mod nearest;
pub mod samples;
pub mod text;
pub mod windows;
