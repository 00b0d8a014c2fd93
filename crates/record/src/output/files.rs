//! The files of a recording: where it is written, its streams and its captures.

use crate::output::captures::Captures;
use crate::output::destination::Destination;
use crate::output::disk::Disk;
use crate::output::recording::Reserve;
use crate::output::stream_files::StreamFiles;

/// The files that are being written.
#[derive(Debug)]
pub(crate) struct Files {
    pub destination: Destination,
    pub stream_files: StreamFiles,
    pub captures: Captures,
    /// Room for the end of the recording.
    pub reserve: Reserve,
    pub disk: Disk,
}

impl Files {
    pub fn new(destination: Destination) -> Files {
        let reserve = Reserve::make(&destination.folder.path());
        Files { destination, stream_files: StreamFiles::default(), captures: Captures::default(), reserve, disk: Disk::default() }
    }
}
