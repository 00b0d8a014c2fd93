//! What the page shows in addition to the states, as the texts that answer its requests: so they
//! are small while a trace is open, and can be kept with the timeline.

use longpole_analysis::latency::Case;
use longpole_analysis::pipeline::pictures::{PicturedLatency, PicturedWaits, Pictures};
use longpole_analysis::queues::QueueSeries;
use longpole_analysis::scheduling::flame_graph::FlameGraph;
use serde::{Deserialize, Serialize};
use serde_json::{json, Value};
use std::collections::HashMap;

/// The answers in JSON: docs/internals/viewer-interface.md.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PictureAnswers {
    pub(crate) stacks: String,
    pub(crate) latencies: String,
    /// Cases and histogram of each latency.
    pub(crate) cases: Vec<String>,
    pub(crate) queues: String,
    /// Depths over time of each queue.
    pub(crate) depths: Vec<String>,
    pub(crate) waits: String,
    /// The folded graph of the critical path.
    pub(crate) graph: String,
}

impl Default for PictureAnswers {
    fn default() -> PictureAnswers {
        PictureAnswers::new(&Pictures::default(), 0)
    }
}

impl PictureAnswers {
    /// `origin` is the begin of the timeline in ns on the trace's clock.
    pub fn new(pictures: &Pictures, origin: u64) -> PictureAnswers {
        let since = |t_ns: i64| u64::try_from(t_ns).unwrap_or(0).saturating_sub(origin);
        let flames = pictures.flames.as_ref();
        let on_path = flames.and_then(|flames| flames.on_path.as_ref());
        let latencies = pictures.latencies.iter().map(|it| json!({"latency": it.of.latency, "row": it.row.map(|row| row.0)}));
        let queues: Vec<_> = pictures.queues.iter().map(|it| &it.of.queue).collect();
        let queue_rows: Vec<_> = pictures.queues.iter().map(|it| it.row.map(|row| row.0)).collect();
        PictureAnswers {
            stacks: json!({"all": flames.map(|flames| flame_graph(&flames.all)), "path": on_path.map(flame_graph)}).to_string(),
            latencies: json!({"latencies": latencies.collect::<Vec<Value>>()}).to_string(),
            cases: pictures.latencies.iter().map(|it| cases(it, since)).collect(),
            queues: json!({"queues": queues, "rows": queue_rows}).to_string(),
            depths: pictures.queues.iter().map(|it| depths(&it.of, since)).collect(),
            waits: waits(pictures.waits.as_ref()),
            graph: graph(None),
        }
    }

    /// Adds the folded graph of the critical path, as the page shows it; `None` without a path.
    pub fn with_graph(self, of: Option<Value>) -> PictureAnswers {
        PictureAnswers { graph: graph(of), ..self }
    }
}

fn graph(of: Option<Value>) -> String {
    json!({"graph": of}).to_string()
}

/// A frame is five numbers, since there may be many of them; a name is sent once.
pub(crate) fn flame_graph(graph: &FlameGraph) -> Value {
    let (mut names, mut places) = (Vec::new(), HashMap::new());
    let mut frames = Vec::new();
    for frame in &graph.frames {
        let place = *places.entry(frame.name.as_str()).or_insert_with(|| {
            names.push(frame.name.as_str());
            names.len() - 1
        });
        frames.push(json!([frame.depth, place, frame.code as u8, frame.count, frame.own]));
    }
    json!({
        "samples": graph.counts.busy, "lost": graph.counts.lost, "beyond": graph.counts.beyond, "left_out": graph.left_out,
        "least": graph.least, "unit": graph.unit, "names": names, "frames": frames,
    })
}

fn cases(PicturedLatency { of, .. }: &PicturedLatency, since: impl Fn(i64) -> u64) -> String {
    let cases: Vec<[u64; 2]> = of.cases.iter().map(|&Case { begin_ns, ns }| [since(begin_ns), ns]).collect();
    let left_out = of.latency.times.count.saturating_sub(cases.len() as u64);
    json!({"cases": cases, "left_out": left_out, "buckets": of.buckets}).to_string()
}

fn depths(queue: &QueueSeries, since: impl Fn(i64) -> u64) -> String {
    let depths = queue.depths.clone().unwrap_or_default();
    json!({"begin": since(depths.begin_ns), "width": depths.width_ns, "depths": depths.bins}).to_string()
}

fn waits(waits: Option<&PicturedWaits>) -> String {
    let Some(PicturedWaits { of, rows }) = waits else { return json!({"waits": null, "rows": []}).to_string() };
    let rows: Vec<_> = rows.iter().map(|rows| rows.map(|row| row.map(|row| row.0))).collect();
    json!({"waits": of, "rows": rows}).to_string()
}
