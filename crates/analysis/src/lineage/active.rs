//! The active path of one machine: its own time as it is, each of its blocks replaced by what its lineage says of that time.
//!
//! What lies within the block of the lineage of its cause explains the block; blocks of others in there are splices, explained alike
//! ([`super::segments`]). The time before the machine's first line, and between two lives, is explained by what gave it life.
//! What has been explained is final, so only the time of the machine's open block is ever looked back at.

use longpole_model::interaction::MachineId;
use std::collections::HashMap;

/// Key, start and end.
pub type Piece = (u32, u64, u64);

#[derive(Clone, Debug)]
pub struct Active {
    /// None before it has come.
    machine: Option<MachineId>,
    /// The path so far, without gaps; only if the segments are asked for.
    path: Option<Vec<Piece>>,
    profile: HashMap<u32, u64>,
    /// Since when it is blocked or does not exist.
    since: Option<u64>,
    /// What it was in the meantime, in case that no cause is found.
    meanwhile: Vec<Piece>,
    mark: Option<Mark>,
}

/// The path as it was at the end that counts so far.
#[derive(Clone, Debug)]
struct Mark {
    length: usize,
    last: Option<Piece>,
    profile: HashMap<u32, u64>,
    meanwhile: Vec<Piece>,
}

impl Active {
    pub fn new(keep_segments: bool) -> Active {
        Active {
            machine: None,
            path: keep_segments.then(Vec::new),
            profile: HashMap::new(),
            since: None,
            meanwhile: Vec::new(),
            mark: None,
        }
    }

    pub fn meet(&mut self, machine: MachineId) {
        self.machine = Some(machine);
    }

    pub fn begin(&mut self, t: u64) {
        self.since = Some(t);
    }

    /// Until when everything is explained.
    pub fn settled(&self, now: u64) -> u64 {
        self.since.unwrap_or(now)
    }

    /// The machine was in one state for this time.
    pub fn own(&mut self, machine: MachineId, piece: Piece) {
        if Some(machine) != self.machine {
            return;
        }
        match self.since {
            Some(_) => append(&mut self.meanwhile, piece),
            None => self.add(piece),
        }
    }

    pub fn blocked(&mut self, machine: MachineId, now: u64) {
        if Some(machine) == self.machine {
            self.since.get_or_insert(now);
        }
    }

    /// The block ended without a cause: it stays.
    pub fn ended(&mut self, machine: MachineId) {
        if Some(machine) == self.machine {
            self.keep();
        }
    }

    fn keep(&mut self) {
        self.since = None;
        for piece in std::mem::take(&mut self.meanwhile) {
            self.add(piece);
        }
    }

    /// The block ended, or a life began; `back` says what happened since then, newest first.
    pub fn explained(&mut self, machine: MachineId, back: impl FnOnce(u64) -> Vec<Piece>) {
        if Some(machine) != self.machine {
            return;
        }
        let Some(since) = self.since.take() else { return };
        self.meanwhile.clear();
        for piece in back(since).into_iter().rev() {
            self.add(piece);
        }
    }

    pub fn vanished(&mut self, machine: MachineId, now: u64) {
        if Some(machine) == self.machine {
            self.keep();
            self.since = Some(now);
        }
    }

    fn add(&mut self, piece: Piece) {
        *self.profile.entry(piece.0).or_default() += piece.2.saturating_sub(piece.1);
        if let Some(path) = &mut self.path {
            append(path, piece);
        }
    }

    /// The end is here, as long as no later one comes. Where the machine never was, its time is of this key.
    pub fn mark(&mut self, now: u64, unknown: u32) {
        let mut meanwhile = self.meanwhile.clone();
        if let (Some(since), true) = (self.since, meanwhile.is_empty()) {
            append(&mut meanwhile, (unknown, since, now));
        }
        let mut profile = self.profile.clone();
        for &(key, start, end) in &meanwhile {
            *profile.entry(key).or_default() += end.saturating_sub(start);
        }
        let path = self.path.as_deref().unwrap_or_default();
        self.mark = Some(Mark { length: path.len(), last: path.last().copied(), profile, meanwhile });
    }

    /// There was no such machine from begin to end.
    pub fn never(&mut self, begin: u64, end: u64, unknown: u32) {
        let profile = HashMap::from([(unknown, end - begin)]);
        self.mark = Some(Mark { length: 0, last: None, profile, meanwhile: vec![(unknown, begin, end)] });
    }

    /// Profile and path to the end that was marked.
    pub fn finish(self) -> (HashMap<u32, u64>, Option<Vec<Piece>>) {
        let Some(mark) = self.mark else { return (self.profile, self.path) };
        let path = self.path.map(|mut path| {
            path.truncate(mark.length);
            if let (Some(last), Some(marked)) = (path.last_mut(), mark.last) {
                *last = marked;
            }
            mark.meanwhile.iter().for_each(|&piece| append(&mut path, piece));
            path
        });
        (mark.profile, path)
    }
}

fn append(path: &mut Vec<Piece>, piece: Piece) {
    if piece.1 >= piece.2 {
        return;
    }
    match path.last_mut() {
        Some(last) if last.0 == piece.0 && last.2 == piece.1 => last.2 = piece.2,
        _ => path.push(piece),
    }
}
