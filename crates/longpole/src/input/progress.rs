//! `--progress EVENT`: selects the events that count as progress.

use crate::input::filter::{EventSelector, Filter, Patterns};
use longpole_analysis::pipeline::{ProgressEvents, ProgressTimes};
use longpole_trace::Catalogue;
use longpole_trace::Event;

/// The selected events.
#[derive(Clone, Debug)]
pub struct Progress {
    pub text: String,
    filter: Option<Filter>,
    names: Option<Patterns>,
}

impl Progress {
    pub fn parse(text: &str) -> Result<Progress, String> {
        let is_name = !text.contains(char::is_whitespace) && !text.contains(['=', '<', '>', '&', '|', '!', '(', ')', '~']);
        let (filter, names) = match is_name {
            true => (None, Some(Patterns::parse(text)?)),
            false => (Some(Filter::parse(text)?), None),
        };
        Ok(Progress { text: text.to_owned(), filter, names })
    }

    /// Returns an empty collection of the times of these events.
    pub fn times(&self) -> ProgressTimes<'static> {
        ProgressTimes::new(&self.text, EventSelector::new(self.filter.clone(), self.names.clone()))
    }
}

impl ProgressEvents for EventSelector {
    fn matches(&mut self, event: &Event<'_>, catalogue: &Catalogue) -> bool {
        self.passes(event, catalogue)
    }

    fn why_none(&self) -> Option<String> {
        self.notes().into_iter().next()
    }
}
