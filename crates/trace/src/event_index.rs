//! Places of the items of a trace by number: so that a reader that wants some lines of a long trace
//! need not read it from its begin.
//!
//! The index is filled while a trace is read for another reason. It has marks at items at equal
//! distances. A trace that is opened at the time of a mark yields the same items from there on,
//! because items of one time are ordered by their streams.

use crate::event::{Catalogue, Item};
use serde::{Deserialize, Serialize};

/// Number of items between two marks at first, and the maximum number of marks. Where a trace needs
/// more, every second one is dropped.
const SPACING: u64 = 1024;
const MAX_MARKS: usize = 1 << 14;
/// Numbers of items are exact in JavaScript.
const MAX_ITEMS: u64 = 1 << 53;

/// Numbers and times of some items of a trace, and the numbers of its events by name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventIndex {
    items: u64,
    spacing: u64,
    /// Time in ns of each mark's item, and the number of the first item with this time.
    marks: Vec<(i64, u64)>,
    /// Time of the last item, and the number of the first item with this time.
    last: Option<(i64, u64)>,
    /// Time of the earliest item, if an item is earlier than one before it. Then the places of
    /// items depend on where the reading begins, so there is only one place, the begin.
    disordered_from: Option<i64>,
    /// Number of events of each class.
    #[serde(skip)]
    classes: Vec<u64>,
    /// Number of events of each name, most frequent first.
    names: Vec<(String, u64)>,
}

/// The place at which reading begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventPlace {
    /// Begin of the part to open, in ns.
    pub t_ns: i64,
    /// Number of the first item that is then yielded.
    pub first: u64,
}

impl Default for EventIndex {
    fn default() -> EventIndex {
        EventIndex {
            items: 0,
            spacing: SPACING,
            marks: Vec::new(),
            last: None,
            disordered_from: None,
            classes: Vec::new(),
            names: Vec::new(),
        }
    }
}

impl EventIndex {
    /// Counts the next item of the trace.
    #[inline]
    pub fn add(&mut self, item: &Item<'_>) {
        let t_ns = item.t_ns();
        if self.last.is_some_and(|(last_ns, _)| t_ns < last_ns) {
            self.disorder(t_ns);
        }
        let first = match self.last {
            Some((last_ns, first)) if last_ns == t_ns => first,
            _ => self.items,
        };
        self.last = Some((t_ns, first));
        if self.items.is_multiple_of(self.spacing) {
            self.mark((t_ns, first));
        }
        self.items += 1;
        if let Item::Event(event) = item {
            let class = event.class.0 as usize;
            if class >= self.classes.len() {
                self.classes.resize(class + 1, 0);
            }
            self.classes[class] += 1;
        }
    }

    #[cold]
    fn disorder(&mut self, t_ns: i64) {
        let begin = self.marks.first().map_or(t_ns, |&(begin, _)| begin);
        self.disordered_from = Some(self.disordered_from.unwrap_or(begin).min(t_ns));
    }

    #[cold]
    fn mark(&mut self, mark: (i64, u64)) {
        if self.marks.len() == MAX_MARKS {
            let mut place = 0;
            self.marks.retain(|_| {
                place += 1;
                place % 2 == 1
            });
            self.spacing *= 2;
        }
        self.marks.push(mark);
    }

    /// Adds the names of the classes, after the last item.
    pub fn finish(&mut self, catalogue: &Catalogue) {
        let mut names: Vec<(String, u64)> = Vec::new();
        let mut counted: Vec<(&str, u64)> =
            catalogue.classes.iter().zip(&self.classes).map(|(class, &count)| (class.event_name.as_str(), count)).collect();
        counted.sort_unstable();
        for (name, count) in counted.into_iter().filter(|&(_, count)| count > 0) {
            match names.last_mut().filter(|(last, _)| last == name) {
                Some((_, sum)) => *sum += count,
                None => names.push((name.to_owned(), count)),
            }
        }
        names.sort_by(|(a, a_count), (b, b_count)| b_count.cmp(a_count).then_with(|| a.cmp(b)));
        self.names = names;
    }

    /// Returns true if the index may be one that was filled: of a file, it may be anything.
    pub fn is_sound(&self) -> bool {
        let is_ascending = self.marks.windows(2).all(|two| two[0] <= two[1]) || self.disordered_from.is_some();
        let has_all = self.spacing > 0 && self.marks.len() as u64 == self.items.div_ceil(self.spacing);
        has_all && is_ascending && self.marks.iter().all(|&(_, first)| first < self.items) && self.items < MAX_ITEMS
    }

    /// Returns the number of items: events and losses.
    pub fn items(&self) -> u64 {
        self.items
    }

    /// Returns the number of events of each name, the most frequent first.
    pub fn names(&self) -> &[(String, u64)] {
        &self.names
    }

    /// Returns the last place from which the item with this number is yielded; `None` if there are
    /// no items.
    pub fn place_of(&self, item: u64) -> Option<EventPlace> {
        if let Some(t_ns) = self.disordered_from {
            return Some(EventPlace { t_ns, first: 0 });
        }
        let mark = usize::try_from(item / self.spacing).unwrap_or(usize::MAX).min(self.marks.len().checked_sub(1)?);
        self.marks.get(mark).map(|&(t_ns, first)| EventPlace { t_ns, first })
    }

    /// Returns the last place from which all items at this time and later are yielded; `None` if
    /// there are no items.
    pub fn place_at(&self, t_ns: i64) -> Option<EventPlace> {
        if let Some(t_ns) = self.disordered_from {
            return Some(EventPlace { t_ns, first: 0 });
        }
        let after = self.marks.partition_point(|&(mark_ns, _)| mark_ns < t_ns);
        self.marks.get(after.saturating_sub(1)).map(|&(t_ns, first)| EventPlace { t_ns, first })
    }
}
