//! Styles: the colour and the height of each class of states, under the keys of Trace Compass.

use super::outputs;
use super::reply::{self, Answer, Status};
use longpole_analysis::timeline::StateClass;
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use serde_json::{json, Map, Value};

const CLASSES: [StateClass; 8] = [
    StateClass::Running,
    StateClass::Call,
    StateClass::Interrupt,
    StateClass::Runnable,
    StateClass::Blocked,
    StateClass::Asleep,
    StateClass::Unknown,
    StateClass::Lost,
];

/// Keys of what is no state.
pub(crate) const ARROW: &str = "arrow";
pub(crate) const LOSS: &str = "loss";
pub(crate) const FINDING: &str = "finding";

/// Returns the key of a class, its colour, and its height as a part of the row's.
fn of_class(class: StateClass) -> (&'static str, &'static str, f64) {
    match class {
        StateClass::Running => ("running", "#2f9157", 1.0),
        StateClass::Call => ("call", "#2f6fd0", 1.0),
        StateClass::Interrupt => ("interrupt", "#8250c4", 0.75),
        StateClass::Runnable => ("runnable", "#e2a633", 0.5),
        StateClass::Blocked => ("blocked", "#cf3a3a", 0.5),
        StateClass::Asleep => ("asleep", "#e6eaef", 0.33),
        StateClass::Unknown => ("unknown", "#868d97", 0.5),
        StateClass::Lost => ("lost", "#8f959e", 1.0),
    }
}

pub(crate) fn key(class: StateClass) -> &'static str {
    of_class(class).0
}

/// The style of an element: a reference to one of [`all`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct StyleKey(pub &'static str);

impl Serialize for StyleKey {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut style = serializer.serialize_map(Some(2))?;
        style.serialize_entry("parentKey", self.0)?;
        style.serialize_entry("values", &Map::new())?;
        style.end()
    }
}

pub(crate) fn all(output: &str) -> Answer {
    outputs::find(output)?;
    let mut styles: Map<String, Value> = Map::new();
    for (key, colour, height) in CLASSES.map(of_class) {
        let values = json!({"style-name": key, "background-color": colour, "height": height, "opacity": 1.0, "style-group": "States"});
        styles.insert(key.to_owned(), json!({"values": values}));
    }
    let others = [
        (ARROW, json!({"style-name": "critical path", "color": "#cf3a3a", "width": 2})),
        (LOSS, json!({"style-name": "lost events", "color": "#8f959e", "background-color": "#8f959e", "opacity": 0.35})),
        (FINDING, json!({"style-name": "finding", "color": "#0b57d0", "background-color": "#0b57d0", "opacity": 0.15})),
    ];
    for (key, values) in others {
        styles.insert(key.to_owned(), json!({"values": values}));
    }
    reply::model(&json!({"styles": styles}), &Status::Completed)
}
