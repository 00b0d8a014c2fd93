//! Probes of `tracing`, recorded by a layer: ours, or one that writes Chrome's or Perfetto's
//! format. In the state "off" the subscriber's level filters them out.

use std::ffi::{c_char, CStr};
use std::path::PathBuf;
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::prelude::*;

loops! {
    event(i) { tracing::info!(a = i, b = i, "two"); }
    span(_i) { let _entered = tracing::info_span!("span").entered(); }
    event_off(i) { tracing::trace!(a = i, b = i, "two"); }
    span_off(_i) { let _entered = tracing::trace_span!("span").entered(); }
}

#[cfg(feature = "layer-ours")]
tables!([row!("event", event, 1, 8, 0), row!("span", span, 2, 16, 0)], [row!("event", event_off, 0, 1, 0), row!("span", span_off, 0, 1, 0)]);
#[cfg(not(feature = "layer-ours"))]
tables!([row!("event", event, 1, 128, 0), row!("span", span, 2, 256, 0)], [row!("event", event_off, 0, 1, 0), row!("span", span_off, 0, 1, 0)]);

/// Path of the trace file in the folder of the run.
#[allow(dead_code)]
fn file(folder: *const c_char, name: &str) -> PathBuf {
    // SAFETY: the caller passes a NUL-terminated string.
    PathBuf::from(unsafe { CStr::from_ptr(folder) }.to_string_lossy().into_owned()).join(name)
}

#[cfg(feature = "layer-ours")]
fn install(_folder: *const c_char) -> std::io::Result<()> {
    tracing_subscriber::registry().with(LevelFilter::INFO).with(longpole_probe::tracing::layer()).init();
    Ok(())
}

#[cfg(feature = "layer-chrome")]
static WRITER: std::sync::Mutex<Option<tracing_chrome::FlushGuard>> = std::sync::Mutex::new(None);

#[cfg(feature = "layer-chrome")]
fn install(folder: *const c_char) -> std::io::Result<()> {
    let file = std::fs::File::create(file(folder, "trace.json"))?;
    let (layer, guard) = tracing_chrome::ChromeLayerBuilder::new().writer(file).include_args(true).build();
    if let Ok(mut writer) = WRITER.lock() {
        *writer = Some(guard);
    }
    tracing_subscriber::registry().with(LevelFilter::INFO).with(layer).init();
    Ok(())
}

#[cfg(feature = "layer-perfetto")]
fn install(folder: *const c_char) -> std::io::Result<()> {
    let file = std::fs::File::create(file(folder, "trace.pftrace"))?;
    let layer = tracing_perfetto::PerfettoLayer::new(std::sync::Mutex::new(file)).with_debug_annotations(true);
    tracing_subscriber::registry().with(LevelFilter::INFO).with(layer).init();
    Ok(())
}

/// Installs the layer. Returns 0, or 1 on failure.
#[no_mangle]
pub extern "C" fn bench_begin(folder: *const c_char) -> i32 {
    match install(folder) {
        Ok(()) => 0,
        Err(error) => {
            eprintln!("cannot write the trace: {error}");
            1
        }
    }
}

/// Completes the trace.
#[no_mangle]
pub extern "C" fn bench_end() {
    #[cfg(feature = "layer-chrome")]
    if let Ok(mut writer) = WRITER.lock() {
        *writer = None;
    }
}
