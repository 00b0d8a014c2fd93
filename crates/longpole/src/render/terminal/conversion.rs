//! Progress of the conversion of the kernel's events, on stderr.

use crate::render::terminal::progress::Conversion;
use longpole_record::Stop;

/// Returns a callback that shows the progress of the conversion of kernel events if stderr is a
/// terminal, and that stops the conversion at the next signal.
pub fn progress(stop: Option<Stop>) -> impl FnMut(u64, u64) -> bool {
    let asked = stop.map(|stop| stop.count());
    let mut bar = Conversion::new();
    move |done, total| {
        bar.show(done, total);
        stop.map(|stop| stop.count()) == asked
    }
}
