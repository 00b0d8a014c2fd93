//! A library of Rust with a probe: loaded at run time, or linked into a program of C that has probes, too.
use longpole_probe as longpole;

#[no_mangle]
pub extern "C" fn probe_of_library(number: u64) {
    longpole::mark!("library", number);
}
