//! Who had the CPU while the path waited for one: a second reading of a recording whose path says that this matters.

use crate::interactions::Interactions;
use crate::table::{percent, plain};
use crate::{input, machine_log};
use anyhow::Context;
use longpole_analysis::keepers::{self, Keepers};
use longpole_analysis::lineage::{Answer, Path as Segments, Row};
use longpole_model::linux::Linux;
use longpole_trace::{Item, Moment, Options};
use std::path::Path;

/// What a second reading is to find out.
pub struct Question<'a> {
    path: &'a Path,
    end: Option<Moment>,
    keepers: Keepers,
}

/// What it found.
pub struct Found {
    keepers: Keepers,
    linux: Linux,
}

/// None: it would tell nothing that matters.
pub fn question<'a>(interactions: &'a Interactions, answer: &Answer, segments: &Segments) -> Option<Question<'a>> {
    let (path, end) = interactions.place();
    if !keepers::matter(answer) || machine_log::is_pipe(path) || interactions.trace().is_none() {
        return None;
    }
    Some(Question { path, end, keepers: Keepers::new(segments, &interactions.seats()) })
}

impl Question<'_> {
    pub fn read(self) -> anyhow::Result<Found> {
        let Question { path, end, mut keepers } = self;
        let mut trace = input::open(&[path.to_owned()], Options { end, ..Options::default() })?;
        let mut linux = Linux::new(i64::MIN, i64::MAX).context("a built-in rule file is wrong")?;
        while let Some((item, catalogue)) = trace.next_with_catalogue()? {
            match &item {
                Item::Event(event) => linux.event(catalogue, event, &mut keepers),
                Item::Loss(loss) => linux.loss(catalogue, loss, &mut keepers),
            }
        }
        linux.finish(&mut keepers);
        Ok(Found { keepers, linux })
    }
}

impl Found {
    /// Told in the rows of the answer. What the trace does not tell stays unknown.
    pub fn tell(&self, segments: &Segments, answer: &mut Answer) {
        self.keepers.tell(&self.linux, segments, answer);
    }
}

/// All of it, for who has nothing else to do meanwhile.
pub fn tell(interactions: &Interactions, answer: &mut Answer) -> anyhow::Result<()> {
    let Some(segments) = answer.segments.take() else { return Ok(()) };
    let found = question(interactions, answer, &segments).map(Question::read).transpose();
    let told = found.map(|found| found.iter().for_each(|found| found.tell(&segments, answer)));
    answer.segments = Some(segments);
    told
}

/// Waits with less of the path are not explained to people.
const LEAST_SHARE: f64 = 0.05;
const MOST_KEEPERS: usize = 4;

/// A line for each wait for a CPU that matters.
pub fn lines(rows: &[Row]) -> impl Iterator<Item = String> + '_ {
    rows.iter().filter(|row| row.share >= LEAST_SHARE).filter_map(|row| {
        let kept = row.kept_by.as_ref().filter(|kept| !kept.is_empty())?;
        let by: Vec<String> = kept.iter().take(MOST_KEEPERS).map(|it| format!("{} {}", it.name, percent(it.share))).collect();
        Some(plain(format!("during {}::{} the CPU had: {}", row.machine, row.state, by.join(", "))))
    })
}
