//! Clocks that several inputs share, and inputs whose clocks cannot be the same.
//!
//! A tracer that writes several traces with the same clock (CTF: the same uuid) measures the
//! clock's offset for each of them, and the results differ slightly. [`CommonClocks`] takes the
//! first one for all. [`diagnose_distant_begins`] finds inputs that begin a day or more apart,
//! because their clocks probably have different origins.

use crate::diagnostic::Diagnostic;
use crate::files::ctf_trace::CtfTrace;
use crate::merge::Key;
use std::collections::HashMap;
use std::path::Path;

/// Largest difference in ns between two offsets of the same clock. A clock with the same uuid and a
/// larger difference was restarted in between, so it is not the same clock.
const MAX_APART: u64 = 1_000_000_000;

/// The first description of each clock, by uuid.
#[derive(Default)]
pub(crate) struct CommonClocks(HashMap<String, Known>);

struct Known {
    root: usize,
    frequency_hz: u64,
    offset_ns: i64,
}

impl CommonClocks {
    /// Returns the shift in ns from the clock of an input to the same clock in an earlier input, or
    /// 0. `root` is the index of the input path that contains the trace; traces of the same path
    /// are never shifted.
    pub fn shift(&mut self, root: usize, ctf_trace: &CtfTrace, diagnostics: &mut Vec<Diagnostic>) -> i64 {
        let Some((uuid, clock)) = ctf_trace.clocks.first().and_then(|clock| Some((clock.uuid.clone()?, clock))) else { return 0 };
        let own = Known { root, frequency_hz: clock.frequency_hz, offset_ns: clock.offset_ns };
        let known = self.0.entry(uuid).or_insert(own);
        let by_ns = known.offset_ns.saturating_sub(clock.offset_ns);
        let same = known.root != root && known.frequency_hz == clock.frequency_hz;
        if !same || by_ns == 0 || by_ns.unsigned_abs() > MAX_APART {
            return 0;
        }
        diagnostics.push(Diagnostic::CommonClock { path: ctf_trace.path.clone(), by_ns });
        by_ns
    }
}

const DAY: u64 = 86_400_000_000_000;

/// Reports inputs that begin a day or more apart from the first one, because inputs that were
/// recorded together begin within a day. `ends` holds, for each path, the number after its last
/// stream; `firsts` holds the begin of streams.
pub(crate) fn diagnose_distant_begins<P: AsRef<Path>>(paths: &[P], ends: &[usize], firsts: &[Key]) -> Vec<Diagnostic> {
    let mut begins = vec![None; paths.len()];
    for first in firsts {
        let begin = &mut begins[ends.partition_point(|end| *end <= first.slot as usize)];
        *begin = Some(begin.map_or(first.t_ns, |known: i64| known.min(first.t_ns)));
    }
    let mut begins = paths.iter().zip(begins).filter_map(|(path, begin_ns)| Some((path.as_ref(), begin_ns?)));
    let Some((other, reference_ns)) = begins.next() else { return Vec::new() };
    let distant = begins.filter(|(_, begin_ns)| begin_ns.abs_diff(reference_ns) >= DAY);
    let diagnostic = |(path, begin_ns): (&Path, i64)| Diagnostic::ClocksApart {
        path: path.to_owned(),
        other: other.to_owned(),
        days: begin_ns.abs_diff(reference_ns) / DAY,
        later: begin_ns > reference_ns,
    };
    distant.map(diagnostic).collect()
}
