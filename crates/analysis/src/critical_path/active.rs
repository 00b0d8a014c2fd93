//! The active path of one machine: its own time, with each block replaced by what it waited for.
//!
//! A block is replaced by the part of the path of its cause that lies within the block. Blocks of
//! other machines within that part are splices and are replaced in the same way
//! ([`crate::critical_path::storage::segments`]). The time before the machine's first interaction,
//! and between two lives, is replaced by the path of what started the life.
//!
//! What has been replaced is final. Therefore only the time of the machine's open block is looked
//! up again, and the path itself can be written to a file.

use crate::critical_path::storage::runs::Runs;
use crate::critical_path::storage::segments::{Forward, Part, Spill};
use longpole_model::interaction::MachineId;
use std::collections::HashMap;

/// Key, start and end in ns.
pub type Piece = (u32, u64, u64);

/// The active path of one machine while it is built.
#[derive(Clone, Debug)]
pub struct Active {
    /// `None` until the machine appears.
    machine: Option<MachineId>,
    /// The path up to now, without gaps; `None` unless the segments were requested.
    path: Option<Track>,
    profile: HashMap<u32, u64>,
    /// Start of the path in ns.
    begin: u64,
    /// Start of the current block, or of the time in which the machine does not exist; `None` if it
    /// works. Not before `begin`.
    since: Option<u64>,
    /// The machine's own states since `since`, used if no cause is found.
    meanwhile: Vec<Piece>,
    mark: Option<EndOfPath>,
}

/// The newest pieces in memory, and the older ones in a file.
#[derive(Clone, Debug)]
struct Track {
    pieces: Vec<Piece>,
    /// Stretches in the file, each with its number of pieces.
    written: Vec<(Part, usize)>,
    before: usize,
    runs: Runs,
    spill: Option<Spill>,
}

impl Track {
    fn add(&mut self, piece: Piece) {
        append(&mut self.pieces, piece);
        if let Some(spill) = self.spill.filter(|spill| self.pieces.len() > spill.from.max(1)) {
            // A file that cannot be written costs memory, not the answer.
            if self.write(spill).is_none() {
                self.spill = None;
            }
        }
    }

    /// Writes all pieces but the last one, which may still grow.
    fn write(&mut self, spill: Spill) -> Option<()> {
        let last = self.pieces.pop()?;
        let number = match (self.pieces.first(), self.pieces.last()) {
            (Some(&(_, start, _)), Some(&(_, _, end))) => {
                let number = self.runs.write(spill.make, self.pieces.iter().copied());
                number.map(|number| Part::Run { number, start, end })
            }
            _ => return None,
        };
        let Ok(part) = number else {
            self.pieces.push(last);
            return None;
        };
        self.written.push((part, self.pieces.len()));
        self.before += self.pieces.len();
        self.pieces.clear();
        self.pieces.push(last);
        Some(())
    }

    fn length(&self) -> usize {
        self.before + self.pieces.len()
    }

    /// Returns the path as it was when it had `length` pieces and ended with `last`, followed by
    /// `then`.
    fn finish(mut self, length: usize, last: Option<Piece>, then: &[Piece]) -> Forward {
        let (mut parts, mut count) = (Vec::new(), 0);
        for (part, pieces) in self.written {
            if count >= length {
                break;
            }
            count += pieces;
            // Pieces behind the last one are later than its end, so the end cuts them off.
            parts.push(match (part, last) {
                (Part::Run { number, start, end }, Some(last)) if count >= length => Part::Run { number, start, end: end.min(last.2) },
                (part, _) => part,
            });
        }
        self.pieces.truncate(length.saturating_sub(self.before));
        if let (Some(newest), Some(marked)) = (self.pieces.last_mut(), last) {
            *newest = marked;
        }
        then.iter().for_each(|&piece| append(&mut self.pieces, piece));
        parts.extend(self.pieces.into_iter().map(Part::Piece));
        Forward::new(parts, self.runs)
    }
}

/// The path at the current end mark.
#[derive(Clone, Debug)]
struct EndOfPath {
    length: usize,
    last: Option<Piece>,
    profile: HashMap<u32, u64>,
    meanwhile: Vec<Piece>,
}

impl Active {
    pub fn new(keep_segments: bool, spill: Option<Spill>) -> Active {
        let path = Track { pieces: Vec::new(), written: Vec::new(), before: 0, runs: Runs::default(), spill };
        Active {
            machine: None,
            path: keep_segments.then_some(path),
            profile: HashMap::new(),
            begin: 0,
            since: None,
            meanwhile: Vec::new(),
            mark: None,
        }
    }

    /// Number of pieces of the path in memory.
    pub fn pieces_in_memory(&self) -> usize {
        self.path.as_ref().map_or(0, |path| path.pieces.len())
    }

    /// Sets the machine whose path this is, at its first interaction.
    pub fn set_machine(&mut self, machine: MachineId) {
        self.machine = Some(machine);
    }

    /// Sets the start of the path to `t` ns. The time until the machine appears is replaced like a
    /// block.
    pub fn begin(&mut self, t: u64) {
        self.begin = t;
        self.since = Some(t);
    }

    /// Time until which the path is final, in ns.
    pub fn final_until(&self, now: u64) -> u64 {
        self.since.unwrap_or(now)
    }

    /// Adds time that the machine spent in one state.
    pub fn add_own(&mut self, machine: MachineId, piece: Piece) {
        if Some(machine) != self.machine {
            return;
        }
        match self.since {
            Some(_) => append(&mut self.meanwhile, piece),
            None => self.add(piece),
        }
    }

    /// Begins a block of the machine.
    pub fn begin_block(&mut self, machine: MachineId, now: u64) {
        if Some(machine) == self.machine {
            self.since.get_or_insert(now.max(self.begin));
        }
    }

    /// Ends a block without a cause: the block itself stays on the path.
    pub fn end_block_without_cause(&mut self, machine: MachineId) {
        if Some(machine) == self.machine {
            self.add_meanwhile();
        }
    }

    fn add_meanwhile(&mut self) {
        self.since = None;
        for piece in std::mem::take(&mut self.meanwhile) {
            self.add(piece);
        }
    }

    /// Ends a block, or begins a life. `happened` returns the pieces that replace the time since
    /// then, in their order.
    pub fn replace_block<P: IntoIterator<Item = Piece>>(&mut self, machine: MachineId, happened: impl FnOnce(u64) -> P) {
        if Some(machine) != self.machine {
            return;
        }
        let Some(since) = self.since.take() else { return };
        self.meanwhile.clear();
        for piece in happened(since) {
            self.add(piece);
        }
    }

    /// Ends a life of the machine. The time from `now` on waits for the cause of its next life.
    pub fn end_life(&mut self, machine: MachineId, now: u64) {
        if Some(machine) == self.machine {
            self.add_meanwhile();
            self.since = Some(now.max(self.begin));
        }
    }

    fn add(&mut self, piece: Piece) {
        *self.profile.entry(piece.0).or_default() += piece.2.saturating_sub(piece.1);
        if let Some(path) = &mut self.path {
            path.add(piece);
        }
    }

    /// Marks the end here; a later mark replaces this one. If the machine never appeared, its time
    /// is charged to the key `unknown`.
    pub fn mark_end(&mut self, now: u64, unknown: u32) {
        let mut meanwhile = self.meanwhile.clone();
        if let (Some(since), true) = (self.since, meanwhile.is_empty()) {
            append(&mut meanwhile, (unknown, since, now));
        }
        let mut profile = self.profile.clone();
        for &(key, start, end) in &meanwhile {
            *profile.entry(key).or_default() += end.saturating_sub(start);
        }
        let (length, last) = self.path.as_ref().map_or((0, None), |path| (path.length(), path.pieces.last().copied()));
        self.mark = Some(EndOfPath { length, last, profile, meanwhile });
    }

    /// Marks an end for a machine that did not exist from start to end.
    pub fn mark_end_without_machine(&mut self, begin: u64, end: u64, unknown: u32) {
        let profile = HashMap::from([(unknown, end - begin)]);
        self.mark = Some(EndOfPath { length: 0, last: None, profile, meanwhile: vec![(unknown, begin, end)] });
    }

    /// Returns the profile and the path to the end mark.
    pub fn finish(self) -> (HashMap<u32, u64>, Option<Forward>) {
        let Active { path, profile, mark, .. } = self;
        let mark = mark.unwrap_or_else(|| {
            let (length, last) = path.as_ref().map_or((0, None), |path| (path.length(), path.pieces.last().copied()));
            EndOfPath { length, last, profile, meanwhile: Vec::new() }
        });
        let path = path.map(|path| path.finish(mark.length, mark.last, &mark.meanwhile));
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
