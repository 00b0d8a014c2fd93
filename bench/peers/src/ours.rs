//! Every probe of `crates/probe` in a loop of its own: the loops of `ours.c`, in Rust.

use longpole_probe as longpole;

static QUEUE: longpole::Queue = longpole::Queue::new("bench queue", 1024);
static FRAME: [u8; 64] = [1; 64];
/// Number of calls after which a line is printed. It is never reached, because printing is not
/// measured.
const NEVER: u32 = i32::MAX as u32;

loops! {
    state(_i) { longpole::state!("machine", "state"); }
    begin(_i) { longpole::begin!("begin"); }
    begin_argument(i) { longpole::begin!("begin with argument", i); }
    end(_i) { longpole::end!("end"); }
    span(_i) { longpole::span!("span"); }
    span_argument(i) { longpole::span!("span with argument", i); }
    mark(_i) { longpole::mark!("mark"); }
    mark_data(i) { longpole::mark!("mark with data", i); }
    mark_object(i) { longpole::mark!("mark with object", i, i); }
    mark_kind(i) { longpole::mark!("mark with kind", i, i, longpole::MarkKind::ObjectNew); }
    gauge(i) { longpole::counter!("gauge", i); }
    gauge_real(i) { longpole::counter!("real gauge", i as f64); }
    rpc_call(i) { longpole::rpc_call!("call", i); }
    rpc_returned(i) { longpole::rpc_returned!("call", i); }
    rpc_dispatch(i) { longpole::rpc_dispatch!("call", i); }
    rpc_reply(i) { longpole::rpc_reply!("call", i); }
    signal_submit(i) { longpole::signal_submit!("signal", i); }
    signal_receive(i) { longpole::signal_receive!("signal", i); }
    signal_wait(_i) { longpole::signal_wait!("signal"); }
    queue_put(i) { longpole::queue_put!(QUEUE, i); }
    queue_get(i) { longpole::queue_get!(QUEUE, i); }
    queue_peek(i) { longpole::queue_peek!(QUEUE, i); }
    queue_reserve(i) { longpole::queue_reserve!(QUEUE, i); }
    queue_size(i) { longpole::queue_size!(QUEUE, i); }
    queue_wait_empty(_i) { longpole::queue_wait_empty!(QUEUE); }
    queue_wait_full(_i) { longpole::queue_wait_full!(QUEUE); }
    link(i) { longpole::link!(i, i); }
    flow(i) { longpole::flow!(i); }
    event(i) { longpole::event!("event", a = i, b = i); }
    packet(_i) { longpole::packet!("lo", longpole::Direction::In, &FRAME); }
    text(_i) { longpole::log!("sixteen letters."); }
    log_tsc(_i) { longpole::log_tsc!(NEVER, "scope"); }
    trace_tsc(_i) { longpole::trace_tsc!(NEVER, "scope"); }
    points(_i) { longpole::trace_point_start!(1); longpole::trace_point_stop!(1); }
}

static LOOPS: &[crate::Loop] = &[
    row!("state", state, 1, 1, 8),
    row!("begin", begin, 1, 1, 8),
    row!("begin, argument", begin_argument, 1, 1, 16),
    row!("end", end, 1, 1, 8),
    row!("span", span, 2, 2, 8),
    row!("span, argument", span_argument, 2, 2, 16),
    row!("mark", mark, 1, 1, 8),
    row!("mark, data", mark_data, 1, 1, 16),
    row!("mark, data and object", mark_object, 1, 1, 24),
    row!("mark, data, object, kind", mark_kind, 1, 1, 32),
    row!("counter, integer", gauge, 1, 1, 16),
    row!("counter, real", gauge_real, 1, 1, 16),
    row!("rpc call", rpc_call, 1, 1, 16),
    row!("rpc returned", rpc_returned, 1, 1, 16),
    row!("rpc dispatch", rpc_dispatch, 1, 1, 16),
    row!("rpc reply", rpc_reply, 1, 1, 16),
    row!("signal submit", signal_submit, 1, 1, 16),
    row!("signal receive", signal_receive, 1, 1, 16),
    row!("signal wait", signal_wait, 1, 1, 8),
    row!("queue put", queue_put, 1, 1, 16),
    row!("queue get", queue_get, 1, 1, 16),
    row!("queue peek", queue_peek, 1, 1, 16),
    row!("queue reserve", queue_reserve, 1, 1, 16),
    row!("queue size", queue_size, 1, 1, 16),
    row!("queue wait empty", queue_wait_empty, 1, 1, 8),
    row!("queue wait full", queue_wait_full, 1, 1, 8),
    row!("link", link, 1, 1, 24),
    row!("flow", flow, 1, 1, 16),
    row!("event, two fields", event, 1, 4, 24),
    row!("packet, 64 bytes", packet, 1, 4, 88),
    row!("log, 16 letters", text, 1, 4, 32),
    row!("LOG_TSC scope", log_tsc, 0, 2, 0),
    row!("TRACE_TSC scope", trace_tsc, 0, 2, 0),
    row!("TRACE_POINT pair", points, 0, 4, 0),
];

/// Call sites that are executed for the first time, one after the other.
macro_rules! sites {
    ($($name:literal)*) => {
        &[$({
            extern "C" fn site(value: u64) {
                longpole::mark!(concat!("first hit ", $name), value);
            }
            site
        }),*]
    };
}

static SITES: &[extern "C" fn(u64)] = sites!(
    "00" "01" "02" "03" "04" "05" "06" "07" "08" "09" "10" "11" "12" "13" "14" "15"
    "16" "17" "18" "19" "20" "21" "22" "23" "24" "25" "26" "27" "28" "29" "30" "31"
);

/// # Safety
///
/// `count` points to writable memory.
#[no_mangle]
pub unsafe extern "C" fn bench_sites(count: *mut u32) -> *const extern "C" fn(u64) {
    // SAFETY: the caller's promise.
    unsafe { count.write(SITES.len() as u32) };
    SITES.as_ptr()
}

/// # Safety
///
/// `count` points to writable memory.
#[no_mangle]
pub unsafe extern "C" fn bench_loops(_off: i32, count: *mut u32) -> *const crate::Loop {
    // SAFETY: the caller's promise.
    unsafe { count.write(LOOPS.len() as u32) };
    LOOPS.as_ptr()
}
