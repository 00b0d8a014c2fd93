//! Tooltips: what is known about a state of a time graph that the pointer is on.

use super::entries;
use super::experiment_request::ExperimentRequest;
use super::grid;
use super::parameters::TimeRange;
use super::reply::{self, Answer, Refused};
use super::styles;
use crate::reading::Reading;
use longpole_analysis::timeline::{Listing, RowId, StateInterval};
use serde_json::{Map, Value};

/// Number of states that are named if an element is a bin of several ones.
const MAX_NAMED: usize = 5;

/// Name, class, time and row of the state at a time. An element that is a bin of several states has
/// those with most of its time.
pub(crate) fn tooltip(request: &ExperimentRequest) -> Answer {
    let experiment = &request.experiment;
    let element = request.parameters.object("requested_element");
    let number = |name: &str| element.and_then(|element| element.get(name)?.as_u64());
    let t = request.parameters.time().or(number("time"));
    let t = t.ok_or_else(|| Refused::bad("name a time: `requested_times`"))?;
    let entry = request.parameters.items().and_then(|items| items.first().copied());
    let entry = entry.ok_or_else(|| Refused::bad("name an entry: `requested_items`"))?;
    let kind = element.and_then(|element| element.get("elementType")?.as_str());
    let (trace, row) = entries::row_of(entry);
    let model = match (experiment.traces.get(trace), row) {
        (Some(reading), Some(row)) if kind.is_none_or(|kind| kind.eq_ignore_ascii_case("state")) => {
            let begin = number("time").unwrap_or(t);
            let end = begin.saturating_add(number("duration").unwrap_or(0).max(1));
            Hovered { reading, listing: reading.timeline.listing(), row }.described(begin, end)?
        }
        _ => Map::new(),
    };
    reply::model(&model, &experiment.status())
}

/// The row that the pointer is on.
struct Hovered<'a> {
    reading: &'a Reading,
    listing: Listing,
    row: RowId,
}

impl Hovered<'_> {
    fn described(&self, begin: u64, end: u64) -> Result<Map<String, Value>, Refused> {
        let range = grid::relative(self.reading, TimeRange { begin, end, samples: 1 });
        let mut model = Map::new();
        if let Some(row) = self.listing.rows.iter().find(|known| known.id == self.row) {
            model.insert("Row".to_owned(), [row.name.as_str(), row.detail.as_str()].join(" ").trim_end().into());
        }
        match self.reading.timeline.states(self.row, range, 1)? {
            (states, false) => states.iter().for_each(|state| self.describe_state(state, &mut model)),
            (_, true) => {
                model.insert("Begin".to_owned(), format!("{begin} ns").into());
                model.insert("Duration".to_owned(), format!("{} ns", end - begin).into());
                for sum in self.reading.timeline.distributions(&[self.row], range)?.iter().take(MAX_NAMED) {
                    let name = self.listing.states.get(sum.state as usize).map_or("", |state| state.name.as_str());
                    model.insert(name.to_owned(), format!("{} times, {} ns", sum.count, sum.total_ns).into());
                }
            }
        }
        if let Some(segment) =
            self.reading.timeline.path((range.0, range.0 + 1), 1)?.0.first().filter(|segment| segment.row == Some(self.row))
        {
            let ns = segment.interval.end - segment.interval.begin;
            model.insert("On the critical path for".to_owned(), format!("{ns} ns").into());
        }
        Ok(model)
    }

    fn describe_state(&self, state: &StateInterval, model: &mut Map<String, Value>) {
        if let Some(name) = self.listing.states.get(state.state.0 as usize) {
            model.insert("State".to_owned(), name.name.as_str().into());
            model.insert("Class".to_owned(), styles::key(name.class).into());
        }
        model.insert("Begin".to_owned(), format!("{} ns", self.reading.origin() + state.begin).into());
        model.insert("Duration".to_owned(), format!("{} ns", state.end - state.begin).into());
    }
}
