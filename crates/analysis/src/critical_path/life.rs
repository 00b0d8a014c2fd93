//! What is known of one machine: its state, where its lineage stands, and its recent past.

use super::key::State;
use super::tree::NodeId;
use longpole_model::interaction::MachineId;
use longpole_model::names::NameId;
use std::collections::VecDeque;

/// The end of a lineage: a hold on a node of the tree, and a place in the log of segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tip {
    pub node: NodeId,
    pub segment: u32,
}

#[derive(Clone, Debug)]
pub struct Life {
    /// None before its first line, and when it is forgotten.
    pub tip: Option<Tip>,
    /// Between its first line and its stop.
    pub exists: bool,
    /// It had a line of its own.
    pub seen: bool,
    pub class: Option<NameId>,
    /// What it does when it is neither blocked nor interrupted.
    pub state: State,
    pub block: Option<Block>,
    /// Contexts that are on top of it.
    pub above: u32,
    pub context: Option<Context>,
    /// It has been a context.
    pub was_context: bool,
    /// How often it has stopped.
    pub lives: u32,
    /// Until when its time is charged, and to which key the time after that goes.
    pub since: u64,
    pub key: u32,
    pub past: Past,
    /// When it took something last.
    pub took: Option<u64>,
    /// Until when it is settled that what it did is not known after all.
    pub unsaid: u64,
}

/// A block that has not ended.
#[derive(Clone, Copy, Debug)]
pub struct Block {
    pub why: NameId,
    pub start: u64,
    /// Where the machine's segments stood when it began.
    pub segment: u32,
}

#[derive(Clone, Copy, Debug)]
pub struct Context {
    pub below: Option<MachineId>,
    /// Its lineage has a cause, or will have none.
    pub caused: bool,
}

impl Default for Life {
    fn default() -> Life {
        Life {
            tip: None,
            exists: false,
            seen: false,
            class: None,
            state: State::Run,
            block: None,
            above: 0,
            context: None,
            was_context: false,
            lives: 0,
            since: 0,
            key: 0,
            past: Past::default(),
            took: None,
            unsaid: 0,
        }
    }
}

impl Life {
    pub fn visible(&self) -> State {
        match self.block {
            _ if !self.exists => State::Unknown,
            _ if self.above > 0 => State::Interrupted,
            Some(block) => State::Blocked(block.why),
            None => self.state,
        }
    }
}

/// The recent past of a machine: a cause may lie before now. What is older than its bound is forgotten.
#[derive(Clone, Debug, Default)]
pub struct Past {
    /// Begin and key of the machine's own time; each lasts until the next.
    pub spans: VecDeque<(u64, u32)>,
    /// When its lineage became another one, and what it was until then; none: it was not.
    pub jumps: VecDeque<(u64, Option<Tip>)>,
    /// Moments at which it said no more than that it is there, and its lineage then: somebody may come back to them however much it does afterwards.
    pub marks: VecDeque<(u64, Tip)>,
    /// Its first line. What lies behind that and is not known was forgotten.
    pub born: Option<u64>,
}

impl Past {
    pub fn span(&mut self, start: u64, key: u32, most: usize) {
        if self.spans.back().is_some_and(|last| last.1 == key) {
            return;
        }
        if self.spans.len() >= most {
            self.spans.pop_front();
        }
        self.spans.push_back((start, key));
    }

    /// Gives back the tip that is forgotten for it.
    pub fn jump(&mut self, t: u64, before: Option<Tip>, most: usize) -> Option<Tip> {
        self.born.get_or_insert(t);
        self.jumps.push_back((t, before));
        if self.jumps.len() > most {
            return self.jumps.pop_front().and_then(|oldest| oldest.1);
        }
        None
    }

    /// Gives back the tip that is forgotten for it.
    pub fn mark(&mut self, t: u64, tip: Tip, most: usize) -> Option<Tip> {
        let forgotten = if self.marks.len() >= most { self.marks.pop_front() } else { None };
        self.marks.push_back((t, tip));
        forgotten.map(|mark| mark.1)
    }

    /// Gives back the tip that was marked at this moment.
    pub fn unmark(&mut self, t: u64) -> Option<Tip> {
        let marked = self.marks.back().is_some_and(|last| last.0 == t);
        marked.then(|| self.marks.pop_back()).flatten().map(|mark| mark.1)
    }

    /// The lineage at a moment that was marked.
    pub fn marked(&self, at: u64) -> Option<Tip> {
        let found = self.marks.binary_search_by_key(&at, |mark| mark.0).ok()?;
        Some(self.marks[found].1)
    }

    /// All that hold a lineage.
    pub fn tips(&mut self) -> impl Iterator<Item = &mut Tip> {
        let jumps = self.jumps.iter_mut().filter_map(|jump| jump.1.as_mut());
        jumps.chain(self.marks.iter_mut().map(|mark| &mut mark.1))
    }

    /// The lineage that the machine had at `at`: its tip (none: the one of now) and until when it grew.
    pub fn epoch(&self, at: u64, now: u64) -> Option<(Option<Tip>, u64)> {
        let later = self.jumps.partition_point(|jump| jump.0 <= at);
        // Before the first jump that is remembered nothing is known.
        if later == 0 {
            return None;
        }
        match self.jumps.get(later) {
            None => Some((None, now)),
            Some((until, tip)) => tip.map(|tip| (Some(tip), *until)),
        }
    }

    /// Whether its own time from `at` on is remembered.
    pub fn reaches(&self, at: u64) -> bool {
        self.spans.front().is_some_and(|first| first.0 <= at)
    }

    /// Its own time from `at` to `end` as (key, from, to), newest first.
    pub fn charges(&self, at: u64, end: u64) -> impl Iterator<Item = (u32, u64, u64)> + '_ {
        let mut until = end;
        let spans = self.spans.iter().rev().map(move |&(start, key)| {
            let to = until;
            until = until.min(start);
            (key, start, to)
        });
        spans.take_while(move |&(_, _, to)| to > at)
    }
}
