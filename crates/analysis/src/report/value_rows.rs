//! The timeline's rows of what probes report as values: fill levels of queues, and counters.

use crate::counters::Counters;
use crate::queues::Queues;
use crate::step_pass::Scene;
use crate::timeline::{RowId, RowKind, Timeline, ValueSeries};
use longpole_model::actors::Actor;
use longpole_model::interaction::QueueId;
use longpole_model::tokens::Unit;
use std::collections::HashMap;
use std::io;

/// Adds a row for each queue and each counter whose values were kept. Returns the rows of the
/// queues.
///
/// # Errors
///
/// If the file of the values cannot be read.
pub fn add(timeline: &Timeline, scene: Scene<'_>, queues: &Queues, counters: &Counters) -> io::Result<HashMap<QueueId, RowId>> {
    let rows = queues.with_depths().map(|queue| Ok((queue, add_queue(timeline, scene, queues, queue)?))).collect::<io::Result<_>>()?;
    for counter in counters.all() {
        let actor = scene.vocabulary.actors.get(counter.actor);
        timeline.add_values(&ValueSeries {
            kind: RowKind::Counter,
            host: actor.map_or("", |actor| actor.host.as_str()),
            name: scene.vocabulary.names.text(counter.name),
            detail: actor.map_or_else(String::new, process),
            unit: None,
            capacity: None,
            each_change: &|visit| counter.values.each(visit),
        })?;
    }
    Ok(rows)
}

fn add_queue(timeline: &Timeline, scene: Scene<'_>, queues: &Queues, queue: QueueId) -> io::Result<RowId> {
    let shape = scene.vocabulary.shape(queue);
    let users = queues.producers(queue).iter().chain(queues.consumers(queue));
    let host = users.filter_map(|&user| scene.vocabulary.actors.get(user)).map(|actor| actor.host.as_str()).next();
    timeline.add_values(&ValueSeries {
        kind: RowKind::Queue,
        host: host.unwrap_or(""),
        name: scene.vocabulary.program_queue_name(queue),
        detail: shape.capacity.map_or_else(String::new, |capacity| format!("capacity {capacity}")),
        unit: Some(if shape.unit == Unit::Bytes { "bytes" } else { "items" }),
        capacity: shape.capacity,
        each_change: &|visit| queues.each_change(queue, shape.capacity, visit),
    })
}

fn process(actor: &Actor) -> String {
    match (actor.label.as_str(), actor.pid) {
        ("", None) => String::new(),
        (label, None) => label.to_owned(),
        ("", Some(pid)) => format!("pid {pid}"),
        (label, Some(pid)) => format!("{label}, pid {pid}"),
    }
}
