//! The work that the CPUs of a host must do before the end.
//!
//! A machine that waits less for a CPU than in the trace runs next to others in the replay: their
//! order stays as observed. This may put more work into an interval than its CPUs can do. Nothing
//! that the end depends on is done earlier than all CPUs together can do it, so in each world the
//! end is not before that time.
//!
//! What counts is work on a CPU that a machine is known to have had, of machines that are connected
//! with the one whose end counts, and only the part that cannot have come after the end. The number
//! of CPUs is the largest number that was in use at once while other machines waited until one of
//! them was left.

use crate::what_if::replay::cpus::Host;
use crate::what_if::replay::state::{EndMark, Replay};
use crate::what_if::translate::groups::Members;
use crate::what_if::worlds::time_vector::{OBSERVED, UNCHANGED};
use longpole_model::hash::IdMap;
use longpole_model::interaction::{MachineId, Vocabulary};

/// Returns the earliest possible end of each lane as far as the CPUs decide it; 0 if they do not.
/// `members` are the machines that are connected with the one whose end counts.
pub fn soonest(replay: &Replay, vocabulary: &Vocabulary, end: &EndMark, members: &Members) -> Vec<f64> {
    let mut soonest = vec![0.0; replay.layout.len()];
    let known: Vec<(Host, u32)> = replay.cpus.used.iter().filter_map(|(host, used)| Some((*host, used.count(end.v[OBSERVED])?))).collect();
    if known.is_empty() {
        return soonest;
    }
    let mut work: IdMap<Host, Vec<f64>> = IdMap::default();
    for (at, machine) in (0u32..).zip(&replay.machines) {
        if machine.cpu.worked.is_empty() || machine.is_recorder || !members.has(at) {
            continue;
        }
        let all = work.entry(vocabulary.host_id(MachineId(at))).or_insert_with(|| vec![0.0; soonest.len()]);
        for (lane, all) in all.iter_mut().enumerate() {
            let after = (machine.v[lane] - end.v[lane]).max(0.0);
            *all += (machine.worked(lane) - after).max(0.0);
        }
    }
    for (host, group, gone) in replay.forgotten.iter() {
        if let Some(all) = work.get_mut(&host).filter(|_| members.has(group)) {
            for (lane, all) in all.iter_mut().enumerate() {
                *all += if gone.until[lane] <= end.v[lane] { gone.worked[lane].max(0.0) } else { 0.0 };
            }
        }
    }
    let bare = replay.layout.bare();
    for (host, cpus) in known {
        let Some(work) = work.get(&host) else { continue };
        let unchanged = |lane: usize| if bare.contains(&lane) { bare.start } else { UNCHANGED };
        let mut take = |lane: usize, more: u32| {
            // Scaled so that the unchanged replay just fits.
            let too_much = (work[unchanged(lane)] / (f64::from(cpus) * end.v[unchanged(lane)])).max(1.0);
            soonest[lane] = f64::max(soonest[lane], work[lane] / too_much / f64::from(cpus + more));
        };
        for scenario in 0..replay.layout.scenarios {
            replay.layout.of(scenario).into_iter().for_each(|lane| take(lane, replay.cpus.more[scenario]));
        }
    }
    soonest
}
