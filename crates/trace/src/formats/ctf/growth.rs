//! Reading a stream file while it is written.

use super::{CtfSource, Plan};
use crate::error::Error;
use crate::files::file::StreamFile;
use longpole_ctf::{DecodeErrorKind, Metadata};
use std::rc::Rc;
use std::sync::Arc;

/// Parts of a trace that are still being written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Growth {
    None,
    Stream,
    /// The stream and the metadata, which may be written after the events that need them.
    Both,
}

impl CtfSource {
    /// Continues where the source reached the end, with the new length of the file and the new
    /// metadata.
    pub fn grow(&mut self, file: &StreamFile, streams: usize, read: &(Arc<Metadata>, Rc<Plan>), growth: Growth) -> Result<(), Error> {
        *self.decoder.source_mut() = file.window(streams).map_err(Error::io(&file.path))?;
        self.decoder.resume(&read.0);
        self.plan = read.1.clone();
        self.path.clone_from(&file.path);
        (self.growth, self.awaits_metadata) = (growth, false);
        Ok(())
    }

    /// Releases the file and its window until the file grows.
    pub fn rest(&mut self) -> Result<(), Error> {
        let nothing = StreamFile { path: self.path.clone(), length: 0 };
        *self.decoder.source_mut() = nothing.window(usize::MAX).map_err(Error::io(&self.path))?;
        Ok(())
    }

    /// Returns true if the source ended at an event that the metadata does not describe.
    pub fn waits_for_metadata(&self) -> bool {
        self.awaits_metadata
    }

    /// Returns true if the error may disappear once more of the trace is written.
    #[cold]
    pub(super) fn waits_for(&mut self, error: &DecodeErrorKind) -> bool {
        self.awaits_metadata = matches!(error, DecodeErrorKind::UnknownEvent { .. }) && self.growth == Growth::Both;
        self.awaits_metadata || matches!(error, DecodeErrorKind::Truncated { .. }) && self.growth != Growth::None
    }

    /// Ends the growth. Returns true if there is a loss to yield that waited for the next packet.
    pub fn end_growth(&mut self) -> bool {
        self.growth = Growth::None;
        self.pending_loss.is_some()
    }
}
