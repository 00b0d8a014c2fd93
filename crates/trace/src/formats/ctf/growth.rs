//! A stream file that is read while it is written.

use super::{CtfSource, Plan};
use crate::error::Error;
use crate::open::file::StreamFile;
use longpole_ctf::{DecodeErrorKind, Metadata, Step};
use std::rc::Rc;
use std::sync::Arc;

/// What of a trace is still being written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Growth {
    None,
    Stream,
    /// Also the metadata, which may come later than the events.
    Both,
}

impl CtfSource {
    /// There is as much of its file now, and of the metadata: goes on where it came to its end.
    pub fn grow(&mut self, file: &StreamFile, streams: usize, read: &(Arc<Metadata>, Rc<Plan>), growth: Growth) -> Result<(), Error> {
        *self.decoder.source_mut() = file.window(streams).map_err(Error::io(&file.path))?;
        self.decoder.resume(&read.0);
        self.plan = read.1.clone();
        self.path.clone_from(&file.path);
        (self.growth, self.unknown) = (growth, false);
        Ok(())
    }

    /// Until it grows it needs neither its file nor memory.
    pub fn rest(&mut self) -> Result<(), Error> {
        let nothing = StreamFile { path: self.path.clone(), length: 0 };
        *self.decoder.source_mut() = nothing.window(usize::MAX).map_err(Error::io(&self.path))?;
        Ok(())
    }

    /// Whether it came to an end at an event that the metadata does not know.
    pub fn waits_for_metadata(&self) -> bool {
        self.unknown
    }

    /// Whether what is wrong may be right once more is there.
    #[cold]
    pub(super) fn waits_for(&mut self, error: &DecodeErrorKind) -> bool {
        self.unknown = matches!(error, DecodeErrorKind::UnknownEvent { .. }) && self.growth == Growth::Both;
        self.unknown || matches!(error, DecodeErrorKind::Truncated { .. }) && self.growth != Growth::None
    }

    /// Goes on behind the packet at this place, which was read before: what was lost since is told.
    pub fn resume_behind(&mut self, (offset, index): (u64, u64)) {
        self.decoder.seek(offset, index);
        while let Ok(Some(step)) = self.decoder.advance() {
            if step == Step::PacketBegin {
                self.decoder.skip_packet();
                return;
            }
        }
    }
}
