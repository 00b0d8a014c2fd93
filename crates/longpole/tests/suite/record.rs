//! Recordings of probes: how they begin and end, which events they contain, and who may make them.

mod chunks;
mod faces;
mod modes;
mod peers;
mod recording;
mod recording_begin;
mod steady;
mod triggers;
mod two_recorders;
mod typed_events;
mod users;
