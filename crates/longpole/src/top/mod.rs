//! The live view of `longpole top`: records the running system period by period, and shows each
//! period on the terminal.
//!
//! - [`recorder`] records: it writes each period as a chunk in memory. In [`source`], a second
//!   thread reads the finished chunk as `report` reads a recording, while the next one is recorded.
//!   If reading takes longer than a period, periods are skipped and counted.
//! - [`view`] has the state of the screen: what is shown, and what each key does.
//! - [`draw`] draws it; [`terminal`] prepares the terminal, and restores it at any end.
//! - [`batch`] prints periods as text or JSON.

pub mod batch;
mod draw;
mod lines;
mod recorder;
pub mod screen;
pub mod source;
mod terminal;
mod view;
