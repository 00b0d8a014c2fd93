//! Properties of a CTF trace as a whole, from its metadata.

use crate::diagnostic::Diagnostic;
use crate::event::StreamKind;
use crate::files::ctf_trace::{self, CtfClock, CtfTrace};
use longpole_ctf::types::{Roles, StructType, Type};
use longpole_ctf::{EnvValue, Metadata};
use std::path::Path;

/// Returns the kind of the trace's streams.
pub(crate) fn kind(metadata: &Metadata) -> StreamKind {
    match metadata.trace.env_text("domain") {
        Some("kernel") => StreamKind::Kernel,
        Some("longpole-samples") => StreamKind::Samples,
        _ => StreamKind::User,
    }
}

/// The tracer that wrote a trace, if the reader knows something about its order of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tracer {
    /// Longpole's recorder.
    Longpole,
    /// Longpole's export of another trace.
    LongpoleConvert,
    LttngUst,
    LttngModules,
    Other,
}

impl Tracer {
    pub(crate) fn of(metadata: &Metadata) -> Tracer {
        match metadata.trace.env_text("tracer_name") {
            Some("longpole") => Tracer::Longpole,
            Some("longpole-convert") => Tracer::LongpoleConvert,
            Some("lttng-ust") => Tracer::LttngUst,
            Some("lttng-modules") => Tracer::LttngModules,
            _ => Tracer::Other,
        }
    }

    /// Returns true if the tracer writes the packets of a file in the order of time.
    pub(crate) fn orders_packets(self) -> bool {
        self != Tracer::Other
    }

    /// Returns true if the tracer also writes the events within a packet in the order of time.
    pub(crate) fn orders_events(self) -> bool {
        matches!(self, Tracer::Longpole | Tracer::LongpoleConvert)
    }
}

/// Returns the diagnostics that follow from the metadata alone.
pub(crate) fn diagnostics(directory: &Path, metadata: &Metadata) -> Vec<Diagnostic> {
    let mut diagnostics = Vec::new();
    if let Some(pages) = env_number(metadata, "damaged_pages").and_then(|pages| u64::try_from(pages).ok()).filter(|pages| *pages > 0) {
        diagnostics.push(Diagnostic::DamagedPages { path: directory.to_owned(), pages });
    }
    let contexts: Vec<&StructType> = metadata.streams.iter().filter_map(|stream| stream.packet_context.as_deref()).collect();
    if !contexts.is_empty() && !contexts.iter().any(|context| counts_losses(context)) {
        diagnostics.push(Diagnostic::Uncounted { path: directory.to_owned() });
    }
    diagnostics
}

pub(super) fn env_number(metadata: &Metadata, key: &str) -> Option<i64> {
    match metadata.trace.env(key) {
        Some(EnvValue::Int(value)) => Some(*value),
        _ => None,
    }
}

/// Returns true if a packet's context counts lost events or numbers the packets.
fn counts_losses(context: &StructType) -> bool {
    context.fields().iter().any(|member| match &member.ty {
        Type::Int(int) => {
            matches!(member.name.as_str(), "events_discarded" | "packet_seq_num")
                || int.roles.has(Roles::DISCARDED)
                || int.roles.has(Roles::SEQUENCE)
        }
        Type::VarInt(int) => int.roles.has(Roles::DISCARDED) || int.roles.has(Roles::SEQUENCE),
        Type::Struct(inner) => counts_losses(inner),
        _ => false,
    })
}

/// Returns the trace's description of itself.
pub(crate) fn ctf_trace(directory: &Path, metadata: &Metadata) -> CtfTrace {
    let clock = |clock: &longpole_ctf::Clock| CtfClock {
        name: clock.name.clone(),
        description: clock.description.clone(),
        uuid: clock.uuid.as_ref().map(ctf_trace::uuid),
        frequency_hz: clock.frequency,
        offset_ns: clock.ns(0),
    };
    CtfTrace {
        path: directory.to_owned(),
        uuid: metadata.trace.uuid.as_ref().map(ctf_trace::uuid),
        environment: metadata.trace.env.clone(),
        clocks: metadata.clocks.iter().map(clock).collect(),
    }
}
