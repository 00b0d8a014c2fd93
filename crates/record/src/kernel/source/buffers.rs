//! The buffers of the tracer's instance: one for each CPU that is present, as large as the free
//! memory allows.

use crate::kernel::plan::{KernelError, Request};
use longpole_ftrace::Instance;
use std::fs;

/// Size of each CPU's buffer in bytes, unless the user chose one.
const BUFFER: u64 = 20 << 20;
/// Divisor of the free memory: all buffers together take at most a quarter of it.
const SHARE: u64 = 4;
/// Smallest size of each CPU's buffer in bytes.
const SMALLEST_BUFFER: u64 = 1 << 20;

/// Sets the size of the buffers. Returns the size in bytes, and a diagnostic if it is less than
/// wanted.
pub(super) fn size_buffers(instance: &Instance, request: &Request, cpus: u64) -> Result<(u64, Option<String>), KernelError> {
    let wanted = request.buffer.unwrap_or(BUFFER);
    let most = match request.buffer {
        Some(_) => u64::MAX,
        None => available_memory().map_or(u64::MAX, |free| (free / SHARE / cpus.max(1)).max(SMALLEST_BUFFER)),
    };
    let mut size = wanted.min(most);
    loop {
        match instance.set_buffer_size_kb(size >> 10) {
            Ok(()) => break,
            Err(_) if size / 2 >= SMALLEST_BUFFER => size /= 2,
            Err(error) => return Err(error.into()),
        }
    }
    let note = || format!("the kernel's buffers have {} KiB per CPU instead of {}: memory is scarce", size >> 10, wanted >> 10);
    Ok((size, (size < wanted).then(note)))
}

fn available_memory() -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    Some(line.trim().trim_end_matches(" kB").parse::<u64>().ok()? << 10)
}

/// Returns the CPUs that are present. The tracer has folders for all CPUs that could ever be.
pub(super) fn present(cpus: Vec<u32>) -> Vec<u32> {
    let present = crate::files::cpus::listed("/sys/devices/system/cpu/present");
    let found: Vec<u32> = cpus.iter().copied().filter(|cpu| present.contains(cpu)).collect();
    if found.is_empty() {
        cpus
    } else {
        found
    }
}
