//! What a recording was, as its end reports it.

use crate::stacks::SampleOutcome;
use std::path::PathBuf;

/// Result of a recording.
#[derive(Debug)]
pub struct Outcome {
    /// Path of the recording's folder.
    pub path: PathBuf,
    /// Bytes of recorded events.
    pub recorded: u64,
    /// Number of lost events.
    pub lost: u64,
    /// Number of stream files.
    pub lanes: usize,
    /// `None` if the kernel was not recorded.
    pub kernel: Option<KernelOutcome>,
    /// `None` if no stacks were sampled.
    pub samples: Option<SampleOutcome>,
    /// `None` if no interface was captured.
    pub interfaces: Option<InterfacesOutcome>,
    /// Number of packets in capture files.
    pub packets: u64,
    /// Reason why the recording holds no events; `None` if it holds some.
    pub empty: Option<String>,
    /// Notes about unexpected conditions, for the user.
    pub diagnostics: Vec<String>,
}

/// Result of recording the kernel's events.
#[derive(Clone, Copy, Debug)]
pub struct KernelOutcome {
    pub events: u64,
    /// Number of events that the kernel counted as lost.
    pub lost: u64,
    pub cpus: usize,
}

/// Result of capturing the packets of interfaces.
#[derive(Clone, Copy, Debug)]
pub struct InterfacesOutcome {
    pub packets: u64,
    /// Number of packets that were seen but are not in the file.
    pub lost: u64,
    pub interfaces: usize,
}
