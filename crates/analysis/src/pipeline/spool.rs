//! A store of interactions that are read several times, a few bytes each: in memory if they are
//! few, otherwise in a file without a name, of which nothing remains if this process is killed.

use super::Follower;
use longpole_model::interaction::block::Block;
use longpole_model::interaction::compact::{pack, Unpack};
use longpole_model::interaction::{Interaction, Vocabulary};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

/// Maximum size in memory, in bytes, before the interactions are written to the file.
const HELD: usize = 4 << 20;

/// Packs and stores the interactions that it receives.
#[derive(Default)]
pub struct SpoolWriter {
    held: Vec<u8>,
    /// Begin of each block in the file and the memory after it, in bytes.
    blocks: Vec<u64>,
    file: Option<File>,
    written: u64,
    /// Set if the file cannot be made or written, for example on a full disk. Everything then stays
    /// in memory, and the answer stays complete.
    full: bool,
    until: Option<u64>,
    begin: Option<u64>,
}

/// The stored interactions, which can be read any number of times.
pub struct Spool {
    from: SpoolWriter,
    vocabulary: Arc<Vocabulary>,
    /// The machine whose end is the end of the path; `None` for the one that the trace names.
    machine: Option<String>,
}

/// Size of the length that precedes each block, in bytes.
const LENGTH: usize = size_of::<u32>();

impl Follower for SpoolWriter {
    fn begin_at(&mut self, t: u64) {
        self.begin = Some(t);
    }

    fn interaction(&mut self, _: &Vocabulary, _: &Interaction) {}

    fn until(&mut self, t: u64) {
        self.until = Some(t);
    }

    fn block(&mut self, _: &mut Vocabulary, block: &Block) {
        let begin = self.held.len();
        self.blocks.push(self.written + begin as u64);
        self.held.extend_from_slice(&[0; LENGTH]);
        pack(block, &mut self.held);
        let length = (self.held.len() - begin - LENGTH) as u32;
        self.held[begin..begin + LENGTH].copy_from_slice(&length.to_ne_bytes());
        if self.held.len() >= HELD && !self.full {
            self.full = self.write().is_err();
        }
    }
}

impl SpoolWriter {
    fn write(&mut self) -> io::Result<()> {
        let file = match &mut self.file {
            Some(file) => file,
            None => self.file.insert(tempfile::tempfile()?),
        };
        file.write_all_at(&self.held, self.written)?;
        self.written += self.held.len() as u64;
        self.held.clear();
        Ok(())
    }

    /// Ends the collection. `vocabulary` has the names as of the last interaction.
    pub fn finish(self, vocabulary: &Vocabulary) -> Spool {
        Spool { from: self, vocabulary: Arc::new(vocabulary.clone()), machine: None }
    }

    fn read(&self, offset: u64, into: &mut [u8]) -> io::Result<()> {
        match (offset.checked_sub(self.written), &self.file) {
            (None, Some(file)) => file.read_exact_at(into, offset),
            (place, _) => {
                let place = place.unwrap_or(0) as usize;
                let held = self.held.get(place..place + into.len()).ok_or(io::ErrorKind::UnexpectedEof)?;
                into.copy_from_slice(held);
                Ok(())
            }
        }
    }
}

impl Spool {
    /// Calls `visit` for all interactions in order, with the names valid at each of them.
    pub fn each(&self, mut visit: impl FnMut(&Vocabulary, &Interaction)) -> io::Result<()> {
        let mut vocabulary = self.vocabulary.clone();
        let until = self.from.until.unwrap_or(u64::MAX);
        let mut piece = Unpack::default();
        for &block in &self.from.blocks {
            self.open(block, &mut piece)?;
            while let Some(interaction) = piece.next(&mut vocabulary) {
                if interaction.t > until {
                    return Ok(());
                }
                visit(&vocabulary, &interaction);
            }
        }
        Ok(())
    }

    /// Returns the last interaction that `matches`, also after the part to which the spool is
    /// limited. Reads the blocks from the last one on.
    pub fn last(&self, mut matches: impl FnMut(&Interaction) -> bool) -> io::Result<Option<Interaction>> {
        let (mut vocabulary, mut piece) = (self.vocabulary.clone(), Unpack::default());
        for &block in self.from.blocks.iter().rev() {
            self.open(block, &mut piece)?;
            let in_block = std::iter::from_fn(|| piece.next(&mut vocabulary));
            let found = in_block.filter(|interaction| matches(interaction)).last();
            if found.is_some() {
                return Ok(found);
            }
        }
        Ok(None)
    }

    /// Reads the block that begins at this offset.
    fn open(&self, block: u64, piece: &mut Unpack) -> io::Result<()> {
        let mut length = [0; LENGTH];
        self.from.read(block, &mut length)?;
        piece.turn(|bytes| {
            bytes.resize(u32::from_ne_bytes(length) as usize, 0);
            self.from.read(block + LENGTH as u64, bytes)
        })
    }

    /// Limits the spool to the part from `begin` to `end`, and sets the machine whose end is the
    /// end of the path.
    pub fn narrow(&mut self, machine: String, begin: u64, end: u64) {
        (self.machine, self.from.begin, self.from.until) = (Some(machine), Some(begin), Some(end));
    }

    /// Returns the machine whose end is the end of the path. `None` means the one that the trace
    /// names.
    pub fn machine(&self) -> Option<&str> {
        self.machine.as_deref()
    }

    /// Returns the begin of the requested part, and its end if the trace has interactions after it.
    pub fn range(&self) -> (Option<u64>, Option<u64>) {
        (self.from.begin, self.from.until)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use longpole_model::interaction::ahead::Ahead;
    use longpole_model::interaction::block::VocabularySize;
    use longpole_model::interaction::Effect;

    #[test]
    fn spooled_interactions_are_read_again_from_memory_and_from_the_file() {
        for count in [0, 1, 5000, 2_000_000u64] {
            let (mut writer, mut vocabulary, mut known) = (SpoolWriter::default(), Vocabulary::default(), VocabularySize::default());
            let machines = ["A", "B", "C"].map(|name| vocabulary.machine("", name));
            let state = vocabulary.names.intern("run");
            let at = |number: u64| Interaction {
                t: 1_000_000_000_000 + number * 70,
                line: number,
                effect: Effect::State { machine: machines[number as usize % 3], state },
            };
            for from in (0..count).step_by(Block::MAX_INTERACTIONS) {
                let (mut block, mut ahead) = (Block::default(), Ahead::default());
                ahead.interactions.extend((from..count).take(Block::MAX_INTERACTIONS).map(at));
                block.exchange(&mut ahead);
                block.close(&vocabulary, &mut known);
                writer.block(&mut Vocabulary::default(), &block);
            }
            assert_eq!(writer.written > 0, count > 1_000_000);
            let spool = writer.finish(&vocabulary);
            for _ in 0..2 {
                let mut number = 0;
                let each = spool.each(|vocabulary, interaction| {
                    assert_eq!(*interaction, at(number));
                    assert_eq!(vocabulary.machine_name(machines[2]), "C");
                    number += 1;
                });
                assert!(each.is_ok() && number == count);
            }
            for wanted in [0, count / 2, count.saturating_sub(1), count] {
                let last = spool.last(|interaction| interaction.line <= wanted).unwrap();
                assert_eq!(last, (count > 0).then(|| at(wanted.min(count - 1))));
            }
        }
    }
}
