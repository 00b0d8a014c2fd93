//! What the server tells about itself.

use super::reply::{self, Answer};
use serde_json::json;
use std::fs;
use std::thread;

/// Version of the protocol.
const TSP_VERSION: &str = "0.6.0";

pub(crate) fn health() -> Answer {
    reply::plain(&json!({"status": "UP"}))
}

pub(crate) fn identifier() -> Answer {
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    reply::plain(&json!({
        "version": env!("CARGO_PKG_VERSION"),
        "os": "Linux",
        "osArch": std::env::consts::ARCH,
        "osVersion": kernel.trim(),
        "cpuCount": thread::available_parallelism().map_or(1, |cpus| cpus.get()),
        "maxMemory": memory_of_host().unwrap_or(0),
        "launcherName": "longpole",
        "productId": "longpole",
        "tspVersion": TSP_VERSION,
    }))
}

/// Returns the memory of the host in bytes, which the server may use.
fn memory_of_host() -> Option<u64> {
    let all = fs::read_to_string("/proc/meminfo").ok()?;
    let line = all.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    line.split_whitespace().next()?.parse::<u64>().ok().map(|kib| kib * 1024)
}
