//! The first bytes of a file, from which its format is detected.

use crate::error::Error;
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// Bytes that are read to detect a format: of a named file, and of one file among many.
const HEAD: usize = 64 << 10;
const SHORT: usize = 4 << 10;
/// First bytes of a file.
pub(crate) struct Head {
    pub bytes: Vec<u8>,
    /// Set if the bytes are the whole file.
    pub whole: bool,
}

impl Head {
    pub fn of(path: &Path) -> Result<Head, Error> {
        Head::up_to(HEAD, path)
    }

    /// Reads a short head. This is for directories with many files, most of which are no trace.
    pub fn of_many(path: &Path) -> Result<Head, Error> {
        Head::up_to(SHORT, path)
    }

    fn up_to(most: usize, path: &Path) -> Result<Head, Error> {
        let mut bytes = Vec::new();
        File::open(path).and_then(|file| file.take(most as u64).read_to_end(&mut bytes)).map_err(Error::io(path))?;
        Ok(Head { whole: bytes.len() < most, bytes })
    }

    pub fn begins(&self, with: &[u8]) -> bool {
        self.bytes.starts_with(with)
    }
}
