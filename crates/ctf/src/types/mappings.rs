//! The labels of an enumeration. Very few enumerations have overlapping ranges, and lookups must
//! not pay for them; so overlaps are searched for once, when the mappings are made.

use std::collections::HashMap;
use std::ops::Deref;

/// A label and the range of values that it names, both ends included.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// The label.
    pub label: String,
    /// Least value.
    pub low: i128,
    /// Greatest value.
    pub high: i128,
}

impl Mapping {
    /// Returns true if the value is in the range.
    #[inline]
    pub fn holds(&self, value: i128) -> bool {
        self.low <= value && value <= self.high
    }

    /// The bits of a flag, whose range counts bits instead of values.
    pub fn mask(&self) -> u64 {
        let (low, high) = (self.low.clamp(0, 64) as u32, self.high.clamp(-1, 63) as i64);
        let bits = (high + 1 - i64::from(low)).clamp(0, 64) as u32;
        u64::MAX.checked_shr(64 - bits).unwrap_or(0).checked_shl(low).unwrap_or(0)
    }
}

/// Labels and their ranges, in the order of the metadata.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mappings {
    all: Vec<Mapping>,
    /// The mappings to search if ranges overlap: overlapping ranges of one label are merged, and
    /// all ranges of a label are at the position of its first one. Empty if no ranges overlap.
    overlapping: Vec<Mapping>,
}

impl Mappings {
    /// The mappings to search for a value that can have several labels, at most one mapping per
    /// label and value. Empty if no value has more than one label.
    #[inline]
    pub fn overlapping(&self) -> &[Mapping] {
        &self.overlapping
    }

    /// The labels of `value`, in the order of the metadata. A value may have none or several.
    pub fn labels(&self, value: i128) -> impl Iterator<Item = &str> {
        let among = if self.overlapping.is_empty() { &self.all } else { &self.overlapping };
        among.iter().filter(move |mapping| mapping.holds(value)).map(|mapping| mapping.label.as_str())
    }
}

impl Deref for Mappings {
    type Target = [Mapping];

    #[inline]
    fn deref(&self) -> &[Mapping] {
        &self.all
    }
}

impl From<Vec<Mapping>> for Mappings {
    fn from(all: Vec<Mapping>) -> Mappings {
        let mut ranges: Vec<(i128, i128)> = all.iter().map(|mapping| (mapping.low, mapping.high)).collect();
        ranges.sort_unstable();
        let overlap = ranges.windows(2).any(|pair| pair[1].0 <= pair[0].1);
        let overlapping = if overlap { by_label(&all) } else { Vec::new() };
        Mappings { all, overlapping }
    }
}

impl FromIterator<Mapping> for Mappings {
    fn from_iter<I: IntoIterator<Item = Mapping>>(mappings: I) -> Mappings {
        Vec::from_iter(mappings).into()
    }
}

/// Groups the mappings by label and merges the overlapping ranges of a label.
fn by_label(all: &[Mapping]) -> Vec<Mapping> {
    let mut first: HashMap<&str, usize> = HashMap::new();
    let mut sorted: Vec<(usize, &Mapping)> =
        all.iter().enumerate().map(|(at, mapping)| (*first.entry(&mapping.label).or_insert(at), mapping)).collect();
    sorted.sort_unstable_by_key(|(first, mapping)| (*first, mapping.low));
    let mut grouped: Vec<Mapping> = Vec::with_capacity(all.len());
    for (_, mapping) in sorted {
        match grouped.last_mut() {
            Some(last) if last.label == mapping.label && mapping.low <= last.high => last.high = last.high.max(mapping.high),
            _ => grouped.push(mapping.clone()),
        }
    }
    grouped
}
