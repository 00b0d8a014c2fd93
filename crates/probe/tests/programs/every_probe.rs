//! Every probe once per turn, with each kind of name: the same as `tests/programs/every_probe.c` in
//! C, and what only Rust has.
use longpole_probe as longpole;
use longpole_probe::{Direction, MarkKind, Name, Queue};

static NAME: Name = Name::new("of many places");

fn turn(i: i32, text: &str, queue: &Queue) -> i32 {
    let buffer = *b"changing\0\0";
    let changing = "changing".to_owned();
    longpole::state!("machine", "state");
    longpole::state!("machine", text);
    longpole::state!(text, "state");
    longpole::state!(queue, changing);
    longpole::state_here!("state");
    longpole::begin!("plain");
    longpole::end!("plain", i);
    longpole::begin_here!();
    longpole::end_here!();
    longpole::span!("scope");
    longpole::span!("scope with argument", i);
    longpole::span_here!();
    longpole::span!(text);
    longpole::span!(changing);
    longpole::mark!("mark");
    longpole::mark!("mark", 1);
    longpole::mark!("mark", 1, &buffer);
    longpole::mark!("mark", 1, text, MarkKind::ObjectNew);
    longpole::mark_here!(4);
    longpole::counter!("integer", i);
    longpole::counter!("real", 1.5);
    longpole::counter!(text, -2.5);
    longpole::counter_here!(i);
    longpole::rpc_call!("call", i);
    longpole::rpc_returned!("call", i);
    longpole::rpc_dispatch!("call", i);
    longpole::rpc_reply!("call", i);
    longpole::rpc_call_here!(i);
    longpole::signal_submit!("signal", 1);
    longpole::signal_receive!("signal", 1);
    longpole::signal_wait!("loop");
    longpole::signal_wait_here!();
    longpole::queue_put!(queue, 1);
    longpole::queue_get!(queue, 1);
    longpole::queue_peek!(queue, 1);
    longpole::queue_reserve!("literal", 1);
    longpole::queue_wait_empty!("literal");
    longpole::queue_wait_full!("literal");
    longpole::queue_size!(text, 3);
    longpole::link!(1, 2);
    longpole::flow!(i);
    longpole::packet!("interface", Direction::In, &buffer);
    longpole::packet_here!(Direction::Out, &buffer);
    longpole::event!("event", integer = 1, real = 2.0, text = "value", unsigned = 3u32);
    longpole::event!("event without a field");
    longpole::event!(text, pointer = text.as_ptr());
    longpole::event!("event with eight", a = 1, b = 2, c = 3, d = 4, e = 5, f = 6, g = 7, h = text);
    longpole::event_here!(only = i);
    longpole::log!("text");
    longpole::log!(text);
    i
}

/// Calls the probes that only Rust has: byte arrays in events, formatted texts, handles outside of
/// functions.
fn more(i: i32) {
    longpole::begin!(NAME);
    longpole::end!(NAME, i);
    longpole::event!("bytes", bytes = b"\x01\x02\x03", r#type = true);
    longpole::log!("number {i} of {}", 10);
    let closure = || longpole::mark_here!(5);
    closure();
}

/// A program's own statics and functions may have any name, even if they are arguments of probes.
fn of_the_program() {
    static SITE: u64 = 6;
    static END: u64 = 7;
    const HERE: u64 = 8;
    fn here() -> u64 {
        9
    }
    longpole::mark!("own", SITE);
    longpole::mark_here!(here());
    longpole::span!("own", END);
    longpole::counter!("own", HERE);
    longpole::counter_here!(here());
    longpole::event!("own", site = SITE, here = here());
    longpole::event_here!(here = here());
    longpole::rpc_call_here!(here());
    longpole::state!("own", "state");
}

fn main() {
    longpole::label!("tests -> every probe");
    let queue = Queue::new("made at run time", 5);
    let text = std::env::args().next().unwrap_or_default();
    for i in 0..10 {
        turn(i, &text, &queue);
    }
    if std::env::args().nth(1).is_some() {
        more(0);
        of_the_program();
    }
}
