//! The viewer's server: offers traces to the page in the browser, over HTTP on the loopback.
//!
//! [`Server`] holds the traces. Each is read once, in a thread of its own, by the [`Analyst`] that
//! the command passes in; its states go to a [`Timeline`](longpole_analysis::timeline::Timeline),
//! from which requests are answered, also during the reading. docs/internals/viewer-interface.md
//! describes the requests.
//!
//! This crate opens no trace, and computes no answer about one. It decides who may ask: only
//! requests with the token in their address, from the server's own page ([`access`]).

mod access;
mod address;
mod api;
mod event_places;
mod events;
mod html;
mod instance;
mod notes;
mod page;
mod path_walk;
mod picture_answers;
mod reading;
mod roots;
mod server;
mod shared;
mod tiles;
mod tsp;
mod uuid;

pub use address::Token;
pub use events::{EventFrom, EventLine, EventLines, EventQuery};
pub use html::{HtmlError, HtmlReport};
pub use page::is_included;
pub use picture_answers::PictureAnswers;
pub use reading::{Analyst, LiveState, Phase, Reading, TraceCounts};
pub use server::{Error, Options, Server};
