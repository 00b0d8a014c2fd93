//! Colours, named by what they mean. The text that a verb prints carries them as ANSI escape
//! sequences; [`output`](crate::render::terminal::output) removes the sequences where colours are
//! not wanted.
//!
//! A meaning has one style, and there are few of them, so that a coloured line is worth a look.
//! Text from a trace must pass through `table::plain` before it is painted.

use anstyle::{AnsiColor, Style};
use std::fmt::Display;

/// Meaning of a coloured text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The sentence that is the answer, and the titles of its parts.
    Headline,
    /// The row of the bottleneck.
    Bottleneck,
    /// A number beyond a limit, such as lost events.
    Limit,
    /// A limitation of the answer.
    Caveat,
    Error,
}

impl Role {
    const fn style(self) -> Style {
        match self {
            Role::Headline => Style::new().bold(),
            Role::Bottleneck => AnsiColor::Yellow.on_default().bold(),
            Role::Limit => AnsiColor::Yellow.on_default(),
            Role::Caveat => Style::new().dimmed(),
            Role::Error => AnsiColor::Red.on_default().bold(),
        }
    }
}

/// Returns the text in the style of its meaning. An empty text stays empty.
pub fn painted(role: Role, text: impl Display) -> String {
    let text = text.to_string();
    let style = role.style();
    match text.is_empty() {
        true => text,
        false => format!("{style}{text}{style:#}"),
    }
}

/// Returns the title of a part of an answer.
pub fn title(text: impl Display) -> String {
    painted(Role::Headline, text)
}
