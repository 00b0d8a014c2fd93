//! What a user looks at: the page of the viewer, the report as a file, and the terminal.

mod foreign_names;
mod html_report;
mod kept_view;
mod live_view;
mod terminal;
mod top;
mod view_events;
mod view_stacks;
