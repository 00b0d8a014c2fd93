//! Progress of the conversion of the kernel's events, on stderr.

use longpole_record::Stop;
use std::io::IsTerminal;

/// Returns a callback that shows the progress of the conversion of kernel events if stderr is a
/// terminal, and that stops the conversion at the next signal.
pub fn progress(stop: Option<Stop>) -> impl FnMut(u64, u64) -> bool {
    let asked = stop.map(|stop| stop.count());
    let shown = std::io::stderr().is_terminal();
    let mut last = None;
    move |done, total| {
        let percent = (u128::from(done) * 100).checked_div(u128::from(total)).unwrap_or(100).min(100);
        if shown && last != Some(percent) {
            last = Some(percent);
            eprint!("\rlongpole: converting the kernel's events: {percent} %");
            if percent == 100 {
                eprintln!();
            }
        }
        stop.map(|stop| stop.count()) == asked
    }
}
