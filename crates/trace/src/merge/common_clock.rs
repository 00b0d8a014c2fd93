//! A clock that several inputs have in common, each of which measured by itself where its 0 is; and inputs whose clocks cannot be one.

use crate::diagnostic::Diagnostic;
use crate::merge::Key;
use crate::open::part::Part;
use std::collections::HashMap;
use std::path::Path;

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
    pub fn shift(&mut self, root: usize, part: &Part, diagnostics: &mut Vec<Diagnostic>) -> i64 {
        let Some((uuid, clock)) = part.clocks.first().and_then(|clock| Some((clock.uuid.clone()?, clock))) else { return 0 };
        let own = Known { root, frequency_hz: clock.frequency_hz, offset_ns: clock.offset_ns };
        let known = self.0.entry(uuid).or_insert(own);
        let by_ns = known.offset_ns.saturating_sub(clock.offset_ns);
        let same = known.root != root && known.frequency_hz == clock.frequency_hz;
        if !same || by_ns == 0 || by_ns.unsigned_abs() > MOST_APART {
            return 0;
        }
        diagnostics.push(Diagnostic::CommonClock { path: part.path.clone(), by_ns });
        by_ns
    }
}

const DAY: u64 = 86_400_000_000_000;

/// What was recorded together begins within a day. `ends`: the number behind the last stream of each path; `firsts`: when streams begin.
pub(crate) fn apart<P: AsRef<Path>>(paths: &[P], ends: &[usize], firsts: &[Key]) -> Vec<Diagnostic> {
    let mut begins = vec![None; paths.len()];
    for first in firsts {
        let begin = &mut begins[ends.partition_point(|end| *end <= first.stream as usize)];
        *begin = Some(begin.map_or(first.t_ns, |known: i64| known.min(first.t_ns)));
    }
    let mut begins = paths.iter().zip(begins).filter_map(|(path, begin_ns)| Some((path.as_ref(), begin_ns?)));
    let Some((other, reference_ns)) = begins.next() else { return Vec::new() };
    let apart = begins.filter(|(_, begin_ns)| begin_ns.abs_diff(reference_ns) >= DAY);
    let told = |(path, begin_ns): (&Path, i64)| Diagnostic::ClocksApart {
        path: path.to_owned(),
        other: other.to_owned(),
        days: begin_ns.abs_diff(reference_ns) / DAY,
        later: begin_ns > reference_ns,
    };
    apart.map(told).collect()
}
