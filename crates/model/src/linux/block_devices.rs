//! The names of block devices, from the dump of the system's state. Other events contain only the
//! number: 254:0 is `vda` on one host and another device on the next.

use std::collections::HashMap;

/// Number of the minor bits in the `dev_t` of the kernel's events.
const MINOR_BITS: u32 = 20;
/// Maximum number of names that are remembered; a damaged trace may claim any number of devices.
const MAX_NAMES: usize = 1 << 12;

/// Names of block devices by their numbers.
#[derive(Debug, Default)]
pub struct BlockDevices {
    names: HashMap<i64, String>,
}

impl BlockDevices {
    /// Adds a device from the dump.
    pub(super) fn dumped(&mut self, device: i64, name: &[u8]) {
        if !name.is_empty() && self.names.len() < MAX_NAMES {
            self.names.insert(device, String::from_utf8_lossy(name).into_owned());
        }
    }

    /// Returns the device's name, such as `vda`. A device that is not in the dump is named by its
    /// number, such as `disk 254:0`.
    pub fn name(&self, device: i64) -> String {
        let number = || format!("disk {}:{}", device >> MINOR_BITS, device & ((1 << MINOR_BITS) - 1));
        self.names.get(&device).cloned().unwrap_or_else(number)
    }
}
