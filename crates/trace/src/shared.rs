//! What the streams of a trace share while they are read: the catalogue, diagnostics, and counts.

pub(crate) mod subject;

use crate::diagnostic::Diagnostic;
use crate::event::{Catalogue, Class, ClassId, Loss, Stream, StreamId, StreamKind, Subject, SubjectId};
use crate::files::ctf_trace::Packets;
use std::collections::HashMap;

/// Maximum number of threads, subjects or CPUs that one map of a source remembers, because a
/// hostile input could name any number.
pub(crate) const MAX_REMEMBERED: usize = 1 << 16;

/// State that all streams add to while they are read.
#[derive(Default)]
pub(crate) struct Shared {
    pub catalogue: Catalogue,
    pub diagnostics: Vec<Diagnostic>,
    /// Set if a stream ends at its first damage.
    pub strict: bool,
    /// Value of [`crate::Options::partial_events`].
    pub partial_events: bool,
    /// Set if only items after a moment are requested ([`crate::Options::begin`]).
    pub has_begin: bool,
    /// Packet counts, indexed by stream.
    pub packet_counts: Vec<Packets>,
    /// Set when a stream has ended at damage.
    pub a_stream_ended_at_damage: bool,
    /// Loss that the stream advanced last has reached, in the time of that stream's own clock
    /// (before its [`crate::Shift`]).
    pub loss_ahead: Option<Loss>,
    subjects: HashMap<Subject, SubjectId>,
}

impl Shared {
    pub fn subject(&mut self, subject: Subject) -> SubjectId {
        if let Some(&known) = self.subjects.get(&subject) {
            return known;
        }
        let id = SubjectId(self.catalogue.subjects.len() as u32);
        self.catalogue.subjects.push(subject.clone());
        self.subjects.insert(subject, id);
        id
    }

    pub fn class(&mut self, class: Class) -> ClassId {
        self.catalogue.classes.push(class);
        ClassId(self.catalogue.classes.len() as u32 - 1)
    }

    pub fn stream(&mut self, name: String, kind: StreamKind) -> StreamId {
        self.catalogue.streams.push(Stream { name, kind });
        StreamId(self.catalogue.streams.len() as u32 - 1)
    }

    pub fn packets(&mut self, stream: StreamId) -> &mut Packets {
        let index = stream.0 as usize;
        if index >= self.packet_counts.len() {
            self.packet_counts.resize(index + 1, Packets::default());
        }
        &mut self.packet_counts[index]
    }

    pub fn stream_name(&self, stream: StreamId) -> String {
        self.catalogue.streams[stream.0 as usize].name.clone()
    }
}
