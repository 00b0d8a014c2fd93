//! The files of a recording: where it is written, its streams and its captures.

use crate::output::captures::Captures;
use crate::output::destination::Destination;
use crate::output::disk::Disk;
use crate::output::lanes::Lanes;
use crate::output::recording::Reserve;

/// The files that are being written.
#[derive(Debug)]
pub(crate) struct Files {
    pub destination: Destination,
    pub lanes: Lanes,
    pub captures: Captures,
    /// Room for the end of the recording.
    pub reserve: Reserve,
    pub disk: Disk,
}

impl Files {
    pub fn new(destination: Destination) -> Files {
        let reserve = Reserve::make(&destination.folder.path());
        Files { destination, lanes: Lanes::default(), captures: Captures::default(), reserve, disk: Disk::default() }
    }
}
