//! The end of the path that a report shows: of the command, or of the replies at the anchor.

use super::follow::{self, Follower};
use super::parties::{self, Parties};
use super::{Error, Interactions, ProgressTimes, Selection, Spool, SpoolWriter, SPILL, WINDOW};
use crate::critical_path::{self, Answer};
use crate::scheduling::sampled_waits::SampledWaits;
use crate::verdict;
use crate::verdict::anchor::Anchor;
use crate::verdict::data::{Basis, Outcome, Verdict};
use crate::verdict::facts::off_path::OffPathCollector;
use crate::verdict::facts::traffic::Traffic;
use crate::verdict::parts::Parts;
use crate::verdict::questions::stations::Stations;
use longpole_model::causes::Composer;
use longpole_model::interaction::{Effect, Interaction};
use longpole_trace::{Catalogue, Item};

/// The interactions up to the end of the path that a report shows.
pub struct PathEnd {
    pub spool: Spool,
    /// That path by subject; `None` if it has no segments.
    pub parts: Option<Parts>,
    /// Places where work waits for other work.
    pub stations: Stations,
    /// Waits whose stacks were sampled.
    pub waits: SampledWaits,
}

/// Spools the interactions up to the end of the path that a report shows, or up to the replies of
/// the selected threads. With `progress`, the path ends at the last of these events.
pub fn spool_to_end(interactions: &mut Interactions, selection: &Selection, mut progress: Option<ProgressTimes>) -> Result<PathEnd, Error> {
    let (mut writer, mut traffic, mut off_path) = (SpoolWriter::default(), Traffic::default(), OffPathCollector::default());
    let mut waits = SampledWaits::default();
    let feed = |composer: &mut Composer, catalogue: &Catalogue, item: &Item<'_>| {
        composer.item_with(catalogue, item, &mut (&mut off_path, &mut waits));
        waits.item(composer.linux(), catalogue, item);
        off_path.after(composer.linux());
        if let Some(progress) = &mut progress {
            progress.item(composer, catalogue, item);
        }
    };
    follow::follow_fed(interactions, feed, [&mut [&mut writer as &mut dyn Follower, &mut traffic][..]])?;
    let mut spool = writer.finish(interactions.vocabulary());
    let mut parties = Parties::new(interactions, traffic, off_path, selection)?;
    let choice = parties.choice(interactions, path_range(interactions, &parties.traffic));
    let anchor = parties::anchor(interactions, &choice, progress, (false, selection))?;
    let mut answer = path_to(interactions, &mut spool, anchor.as_ref())?;
    let Some(segments) = answer.segments.take() else {
        return Ok(PathEnd { spool, parts: None, stations: Stations::default(), waits });
    };
    let parts = Parts::new(&answer, &segments, &mut parties.subjects, parties.limits.considerable_share);
    let wakeups_between = verdict::wakeups_between(&parties.traffic, &parties.subjects, interactions.vocabulary());
    let by_states = Verdict::new(Outcome::Unknown, Basis::States);
    let stations = parties.case(interactions, (&answer, &parts), &wakeups_between, &by_states).stations();
    Ok(PathEnd { spool, parts: Some(parts), stations, waits })
}

/// Returns begin and end of the path to the end of the command, or of the requested part.
pub(super) fn path_range(interactions: &Interactions, traffic: &Traffic) -> (u64, u64) {
    let (begin, last) = traffic.range();
    (begin, traffic.end_mark().unwrap_or(interactions.until().map_or(last, |until| until.max(last))))
}

/// Computes the path that a report shows. If it is that of an anchor, narrows the spool to the part
/// that leads to its end.
pub(super) fn path_to(interactions: &Interactions, spool: &mut Spool, anchor: Option<&Anchor>) -> Result<Answer, Error> {
    if let Some(anchor) = anchor {
        let end = match &anchor.event {
            Some(_) => anchor.end_ns,
            None => last_reply(interactions, spool, anchor)?.filter(|&last| last > anchor.begin_ns).unwrap_or(anchor.end_ns),
        };
        let name = interactions.vocabulary().machine_name(anchor.machine).to_owned();
        spool.narrow(name, anchor.begin_ns, end);
    }
    // No other analysis runs at this time, so a second thread computes the times of the path,
    // window by window.
    let (window, spill) = (Some(WINDOW), Some(SPILL));
    let options = critical_path::Options { segments: true, spill, window, jobs: 2, ..critical_path::Options::default() };
    interactions.path_from_spool(spool, options)
}

/// Returns the last time at which another machine woke the anchor's thread, which counts as its
/// last reply.
fn last_reply(interactions: &Interactions, spool: &Spool, anchor: &Anchor) -> Result<Option<u64>, Error> {
    let is_reply = |interaction: &Interaction| match interaction.effect {
        Effect::Wake { machine, cause: Some(cause) } => machine == anchor.machine && cause.by != machine && interaction.t <= anchor.end_ns,
        _ => false,
    };
    let last = spool.last(is_reply).map_err(|source| interactions.unreadable_spool(source))?;
    Ok(last.map(|interaction| interaction.t))
}
