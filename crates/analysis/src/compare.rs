//! TODO room compare

pub mod change;
pub mod diff;
pub mod repeated;
