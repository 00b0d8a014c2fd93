//! A clock that several inputs have in common, each of which measured by itself where its 0 is; and inputs whose clocks cannot be one.

use crate::oddity::Oddity;
use crate::part::Part;
use std::collections::HashMap;
use std::path::PathBuf;

/// Clocks of one uuid that differ by more are no common clock, but one that was started anew.
const MOST_APART: u64 = 1_000_000_000;

/// By uuid, what was said of a clock first.
#[derive(Default)]
pub(crate) struct CommonClocks(HashMap<String, Known>);

struct Known {
    root: usize,
    frequency_hz: u64,
    offset_ns: i64,
}

impl CommonClocks {
    /// What brings the clock of an input to what another input says of the same clock. `root`: which of the paths that are read it lies at or below.
    pub fn shift(&mut self, root: usize, part: &Part, oddities: &mut Vec<Oddity>) -> i64 {
        let Some((uuid, clock)) = part.clocks.first().and_then(|clock| Some((clock.uuid.clone()?, clock))) else { return 0 };
        let own = Known { root, frequency_hz: clock.frequency_hz, offset_ns: clock.offset_ns };
        let known = self.0.entry(uuid).or_insert(own);
        let by_ns = known.offset_ns.saturating_sub(clock.offset_ns);
        let same = known.root != root && known.frequency_hz == clock.frequency_hz;
        if !same || by_ns == 0 || by_ns.unsigned_abs() > MOST_APART {
            return 0;
        }
        oddities.push(Oddity::CommonClock { path: part.path.clone(), by_ns });
        by_ns
    }
}

const DAY: u64 = 86_400_000_000_000;

/// What was recorded together begins within a day. `inputs`: each with the time of its first event, if it has one.
pub(crate) fn apart(inputs: Vec<(PathBuf, Option<i64>)>) -> Vec<Oddity> {
    let mut begins = inputs.into_iter().filter_map(|(path, begin_ns)| Some((path, begin_ns?)));
    let Some((first, reference_ns)) = begins.next() else { return Vec::new() };
    let days = |begin_ns: i64| (begin_ns.abs_diff(reference_ns) / DAY, begin_ns > reference_ns);
    let apart = begins.map(|(path, begin_ns)| (path, days(begin_ns))).filter(|(_, (days, _))| *days > 0);
    apart.map(|(path, (days, later))| Oddity::ClocksApart { path, other: first.clone(), days, later }).collect()
}
