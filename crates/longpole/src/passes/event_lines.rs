//! Reads some events of a trace as lines, for `view`: those from a number or a time on, or those
//! before it, that match a filter. The trace is opened at the last known place before them.

use crate::input::filter::{EventSelector, Filter};
use crate::input::{self, Input};
use crate::render::events::Printer;
use longpole_serve::{EventFrom, EventLine, EventLines, EventQuery};
use longpole_trace::{EventIndex, EventPlace, Item, Moment, Options, Trace};
use std::collections::VecDeque;
use std::io;
use std::path::{Path, PathBuf};

/// The trace from which lines are read, and its index.
pub struct Source<'a> {
    pub input: &'a Input,
    pub path: &'a Path,
    pub index: &'a EventIndex,
    /// Begin of the timeline in ns on the trace's clock.
    pub origin: u64,
}

/// Reads the lines that `complete` completes, and returns true for.
///
/// # Errors
///
/// If the filter is not understood, or the trace cannot be read.
pub fn read(source: &Source<'_>, query: &EventQuery, complete: &dyn Fn(&mut EventLine) -> bool) -> anyhow::Result<EventLines> {
    let filter = query.filter.as_deref().map(Filter::parse).transpose().map_err(anyhow::Error::msg)?;
    let mut lines = Lines { source, complete, selector: EventSelector::new(filter, None), printer: Printer::new(io::sink()) };
    let items = source.index.items();
    let from = match query.from {
        EventFrom::Number(number) => number.min(items),
        EventFrom::Time(t) => source.first_at(t)?,
    };
    let limit = query.limit.max(1);
    let mut answer = match query.backwards {
        false => lines.after(from, limit, query.searched)?,
        true => lines.before(from, limit, query.searched)?,
    };
    answer.notes = lines.selector.notes();
    Ok(answer)
}

impl Source<'_> {
    fn since_origin(&self, t_ns: i64) -> i64 {
        t_ns.saturating_sub_unsigned(self.origin)
    }

    /// Opens the trace at a place, as it was opened when the index was made.
    fn open(&self, place: EventPlace) -> anyhow::Result<Trace> {
        let paths: [PathBuf; 1] = [self.path.to_owned()];
        input::open(&paths, Options { begin: Some(Moment::At(place.t_ns)), ..self.input.options() })
    }

    /// Returns the number of the first item at this time or later.
    fn first_at(&self, t: u64) -> anyhow::Result<u64> {
        let t_ns = i64::try_from(self.origin.saturating_add(t)).unwrap_or(i64::MAX);
        let Some(place) = self.index.place_at(t_ns) else { return Ok(0) };
        let mut trace = self.open(place)?;
        let mut number = place.first;
        while trace.next_item()?.is_some_and(|item| item.t_ns() < t_ns) {
            number += 1;
        }
        Ok(number.min(self.index.items()))
    }
}

struct Lines<'a> {
    source: &'a Source<'a>,
    complete: &'a dyn Fn(&mut EventLine) -> bool,
    selector: EventSelector,
    printer: Printer<io::Sink>,
}

impl Lines<'_> {
    /// Returns the lines from a number on.
    fn after(&mut self, from: u64, limit: usize, searched: u64) -> anyhow::Result<EventLines> {
        let items = self.source.index.items();
        let until = items.min(from.saturating_add(searched));
        let mut lines = Vec::new();
        let mut after = until;
        let read_to = self.each(from..until, |line| {
            if lines.len() == limit {
                after = line.number;
                return false;
            }
            lines.push(line);
            true
        })?;
        // A trace that has become shorter has no items after its end.
        let has_ended = read_to < after;
        let before = (from > 0).then_some(from);
        Ok(EventLines { items, lines, before, after: (after < items && !has_ended).then_some(after), notes: Vec::new() })
    }

    /// Returns the last lines before a number. Parts of the trace are read from the last one back,
    /// each of them forwards.
    fn before(&mut self, to: u64, limit: usize, searched: u64) -> anyhow::Result<EventLines> {
        let items = self.source.index.items();
        let least = to.saturating_sub(searched);
        let mut found: VecDeque<EventLine> = VecDeque::new();
        // Often all items are asked for; the farther the search, the larger are the parts.
        let (mut begin, mut size) = (to, limit as u64);
        while begin > least && found.len() < limit {
            let end = begin;
            begin = end.saturating_sub(size).max(least);
            size *= 4;
            let wanted = limit - found.len();
            let mut part = VecDeque::new();
            self.each(begin..end, |line| {
                if part.len() == wanted {
                    part.pop_front();
                }
                part.push_back(line);
                true
            })?;
            part.append(&mut found);
            found = part;
        }
        let first = match found.front() {
            Some(line) if found.len() == limit => line.number,
            _ => begin,
        };
        let before = (first > 0).then_some(first);
        Ok(EventLines { items, lines: found.into(), before, after: (to < items).then_some(to), notes: Vec::new() })
    }

    /// Calls `take` with the line of each selected item with a number in this range, until it
    /// returns false. Returns the number of the item that was not read any more.
    fn each(&mut self, numbers: std::ops::Range<u64>, mut take: impl FnMut(EventLine) -> bool) -> anyhow::Result<u64> {
        let Lines { source, complete, selector, printer } = self;
        let place = source.index.place_of(numbers.start).filter(|_| !numbers.is_empty());
        let Some(place) = place else { return Ok(numbers.start) };
        let mut trace = source.open(place)?;
        // Times in a filter are relative to the begin of the whole timeline.
        selector.begins_anew(i64::try_from(source.origin).unwrap_or(i64::MAX));
        printer.begin_anew();
        let mut number = place.first;
        while number < numbers.end {
            let Some((item, catalogue)) = trace.next_with_catalogue()? else { break };
            let is_selected = match &item {
                Item::Event(event) => selector.passes(event, catalogue),
                Item::Loss(_) => true,
            };
            if number >= numbers.start && is_selected {
                let (cpu, tid) = match &item {
                    Item::Event(event) => (event.cpu, catalogue.subjects.get(event.subject.0 as usize).and_then(|subject| subject.tid)),
                    Item::Loss(_) => (None, None),
                };
                let texts = printer.texts(&item, catalogue);
                let t = source.since_origin(item.t_ns());
                let mut line = EventLine { number, t, cpu, who: texts.who, tid, row: None, name: texts.name, text: texts.values };
                if complete(&mut line) && !take(line) {
                    break;
                }
            }
            number += 1;
        }
        Ok(number)
    }
}
