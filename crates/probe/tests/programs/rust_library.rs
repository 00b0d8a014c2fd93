//! A Rust library with a probe. It is loaded at run time, or linked into a C program that also has
//! probes.
use longpole_probe as longpole;

#[no_mangle]
pub extern "C" fn probe_of_library(number: u64) {
    longpole::mark!("library", number);
}
