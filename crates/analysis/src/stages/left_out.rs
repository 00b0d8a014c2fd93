//! Functions that `longpole/auto.h` recorded for a while, found too short, and left out from then
//! on. Their time is part of their callers' time.
//!
//! The library reports such a function by an event with the function's name: the only kind of event
//! whose class has a place in a file.

use longpole_trace::event::{Catalogue, Event};
use longpole_trace::Value;
use serde::Serialize;
use std::collections::BTreeMap;

/// Largest number of functions that are distinguished.
const MAX_FUNCTIONS: usize = 10_000;

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LeftOut {
    pub function: String,
    /// Mean time of its calls while they were recorded; the longest of all processes.
    pub mean_ns: u64,
}

#[derive(Default)]
pub struct Gathered {
    /// For each class, whether its events report a left-out function.
    reports: Vec<bool>,
    functions: BTreeMap<String, u64>,
}

impl Gathered {
    #[inline]
    pub fn event(&mut self, catalogue: &Catalogue, event: &Event<'_>) {
        let class = event.class.0 as usize;
        if class >= self.reports.len() {
            let more = catalogue.classes.iter().skip(self.reports.len());
            self.reports.extend(more.map(|class| {
                let placed = class.attributes.iter().any(|(key, _)| key == "offset" || key == "function");
                placed && class.event_name.starts_with("event:") && class.fields == ["left_out_ns"]
            }));
        }
        if self.reports.get(class) == Some(&true) {
            self.add(catalogue, event);
        }
    }

    #[cold]
    fn add(&mut self, catalogue: &Catalogue, event: &Event<'_>) {
        let Some(ns) = event.fields.first().and_then(Value::as_u64) else { return };
        let name = catalogue.classes[event.class.0 as usize].event_name.trim_start_matches("event:");
        if self.functions.len() < MAX_FUNCTIONS || self.functions.contains_key(name) {
            longest(&mut self.functions, name, ns);
        }
    }

    pub fn answer(&self) -> Vec<LeftOut> {
        sorted(&self.functions)
    }
}

/// Merges the functions of several recordings.
pub fn together<'a>(all: impl Iterator<Item = &'a LeftOut>) -> Vec<LeftOut> {
    let mut functions = BTreeMap::new();
    all.for_each(|it| longest(&mut functions, &it.function, it.mean_ns));
    sorted(&functions)
}

fn longest(functions: &mut BTreeMap<String, u64>, name: &str, ns: u64) {
    match functions.get_mut(name) {
        Some(known) => *known = (*known).max(ns),
        None => {
            functions.insert(name.to_owned(), ns);
        }
    }
}

fn sorted(functions: &BTreeMap<String, u64>) -> Vec<LeftOut> {
    let mut out: Vec<_> = functions.iter().map(|(function, &mean_ns)| LeftOut { function: function.clone(), mean_ns }).collect();
    out.sort_by_key(|left_out| std::cmp::Reverse(left_out.mean_ns));
    out
}
