//! Statistics of states as a tree: how often each row was in each state, and for how long.

use super::entries::{self, Shown};
use super::experiment_request::ExperimentRequest;
use super::grid;
use super::reply::{self, Answer};
use longpole_analysis::timeline::{Distribution, RowId};
use serde::Serialize;
use serde_json::json;

/// Number of rows that are read at once. While they are read, the reader of the trace waits.
const ROWS_AT_ONCE: usize = 256;

/// Numbers of entries that are states begin here, after those of rows of 2^12 traces.
const FIRST_STATE: u64 = 1 << 44;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Entry {
    id: u64,
    parent_id: i64,
    labels: Vec<String>,
    has_data: bool,
}

pub(crate) fn tree(request: &ExperimentRequest) -> Answer {
    let experiment = &request.experiment;
    let range = request.range()?;
    let mut entries: Vec<Entry> = Vec::new();
    let mut first_state = FIRST_STATE;
    let all = Shown::of(experiment, request.output);
    for shown in &all {
        let reading = &experiment.traces[shown.trace];
        if all.len() > 1 {
            entries.push(Entry {
                id: entries::of_head(shown.trace),
                parent_id: -1,
                labels: row_labels(reading.name.clone()),
                has_data: false,
            });
        }
        // Entries are numbered by row and state, so that they keep their numbers in other ranges.
        let states = shown.listing.states.len() as u64;
        let last_row = shown.listing.rows.iter().map(|row| u64::from(row.id.0)).max().unwrap_or(0);
        let mut add = |row: &longpole_analysis::timeline::Row, sums: &[&Distribution]| {
            let id = entries::of_row(shown.trace, row.id);
            let name = [row.name.as_str(), row.detail.as_str()].join(" ").trim_end().to_owned();
            entries.push(Entry {
                id,
                parent_id: entries::parent_of(experiment, shown.trace, row),
                labels: row_labels(name),
                has_data: false,
            });
            entries.extend(sums.iter().map(|sum| Entry {
                id: first_state + u64::from(row.id.0) * states + u64::from(sum.state),
                parent_id: id as i64,
                labels: state_labels(&shown.listing.states[sum.state as usize].name, sum),
                has_data: true,
            }));
        };
        let rows: Vec<_> = shown.rows().collect();
        for rows in rows.chunks(ROWS_AT_ONCE) {
            let ids: Vec<RowId> = rows.iter().filter(|row| entries::has_states(row.kind)).map(|row| row.id).collect();
            let sums = reading.timeline.distributions(&ids, grid::relative(reading, range))?;
            // A state that was added since the listing was made is in the next answer.
            let known: Vec<&Distribution> = sums.iter().filter(|sum| u64::from(sum.state) < states).collect();
            let mut sums = known.as_slice();
            for row in rows {
                let count = sums.iter().take_while(|sum| sum.row == row.id.0).count();
                let of_row;
                (of_row, sums) = sums.split_at(count);
                add(row, of_row);
            }
        }
        first_state += (last_row + 1) * states;
    }
    let column = |name: &str, tooltip: &str, kind: &str| json!({"name": name, "tooltip": tooltip, "dataType": kind});
    let headers = [
        column("Name", "Row or state", "STRING"),
        column("Count", "How often the row was in the state", "NUMBER"),
        column("Total (ns)", "Time in the state", "NUMBER"),
        column("Mean (ns)", "Mean duration of the state", "NUMBER"),
        column("p50 (ns)", "Half of the durations are not longer than this", "NUMBER"),
        column("p99 (ns)", "99 % of the durations are not longer than this", "NUMBER"),
        column("Max (ns)", "Longest duration of the state", "NUMBER"),
    ];
    // Hosts and processes are open, and their threads are not: a state is one of many.
    reply::model(&json!({"headers": headers, "entries": entries, "autoExpandLevel": 2}), &experiment.status())
}

fn row_labels(name: String) -> Vec<String> {
    let mut labels = vec![String::new(); 7];
    labels[0] = name;
    labels
}

fn state_labels(name: &str, sum: &Distribution) -> Vec<String> {
    let mean = sum.mean_ns.round() as u64;
    let numbers = [sum.count, sum.total_ns, mean, sum.p50_ns, sum.p99_ns, sum.max_ns];
    std::iter::once(name.to_owned()).chain(numbers.map(|number| number.to_string())).collect()
}
