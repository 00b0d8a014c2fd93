//! Gives every probe arguments that count their evaluations, and prints the count. A test builds it
//! with and without `disable`.
use longpole::AsName;
use longpole::Direction;
use longpole::Enumeration;
use longpole::Field;
use longpole::MarkKind;
use longpole::Name;
use longpole::Object;
use longpole::Order;
use longpole::Queue;
use longpole::Ref;
use longpole::Unit;
use longpole::Value;
use longpole::Word;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

static EVALUATED: AtomicU32 = AtomicU32::new(0);
static NAME: Name = Name::new("name");
static QUEUE: Queue = Queue::with("queue", 5, Order::Lifo, Unit::Bytes);

fn number() -> u64 {
    u64::from(EVALUATED.fetch_add(1, Relaxed))
}

fn text() -> &'static str {
    number();
    "text"
}

/// Types of the program that are constructed in the same way with and without the feature.
#[derive(Debug)]
struct Channel {
    probe: std::sync::Arc<Queue>,
}

impl AsName for Channel {
    fn as_name(&self) -> Ref<'_> {
        self.probe.as_name()
    }
}

struct Id(u64);

impl Word for Id {
    fn word(self) -> u64 {
        self.0
    }
}

fn wrapped(queue: &impl AsName, value: impl Value, object: impl Object, field: impl Field) {
    longpole::queue_put!(queue, Id(number()));
    longpole::counter!(queue, value);
    longpole::mark!(queue, number(), object);
    longpole::event!(queue, field = field);
}

/// Probes that need no recorder.
fn counters() {
    longpole::log_tsc!(number());
    longpole::log_tsc!(number(), text());
    longpole::trace_tsc!(number(), text());
    longpole::trace_point_start!(number());
    longpole::trace_point_stop!(number());
    assert!(longpole::trace_point_result!(number()).is_none());
    longpole::trace_point_print!();
    longpole::trace_point_reset!();
}

fn main() {
    if std::env::args().len() > 1 {
        counters();
    }
    longpole::state!(text(), text());
    longpole::state_here!(text());
    longpole::begin!(text());
    longpole::begin!("literal", number());
    longpole::begin_here!();
    longpole::end!(text());
    longpole::end!(NAME, number());
    longpole::end_here!();
    longpole::mark!(text());
    longpole::mark!(text(), number());
    longpole::mark!(text(), number(), &text());
    longpole::mark!("literal", number(), number(), MarkKind::Plain);
    longpole::mark_here!(number());
    longpole::counter!(text(), number());
    longpole::counter!("literal", number() as f32);
    longpole::counter_here!(number());
    longpole::rpc_call!(text(), number());
    longpole::rpc_returned!("literal", number());
    longpole::rpc_dispatch!(text(), number());
    longpole::rpc_reply!(NAME, number());
    longpole::rpc_call_here!(number());
    longpole::rpc_returned_here!(number());
    longpole::rpc_dispatch_here!(number());
    longpole::rpc_reply_here!(number());
    longpole::signal_submit!(text(), number());
    longpole::signal_receive!("literal", number());
    longpole::signal_wait!(text());
    longpole::signal_submit_here!(number());
    longpole::signal_receive_here!(number());
    longpole::signal_wait_here!();
    longpole::queue_put!(QUEUE, number());
    longpole::queue_get!(&QUEUE, number());
    longpole::queue_peek!(text(), number());
    longpole::queue_reserve!(text(), number());
    longpole::queue_size!("literal", number());
    longpole::queue_wait_empty!(QUEUE);
    longpole::queue_wait_full!(text());
    longpole::queue_put_here!(number());
    longpole::queue_get_here!(number());
    longpole::queue_peek_here!(number());
    longpole::queue_reserve_here!(number());
    longpole::queue_size_here!(number());
    longpole::queue_wait_empty_here!();
    longpole::queue_wait_full_here!();
    longpole::link!(number(), number());
    longpole::flow!(number());
    longpole::packet!(text(), Direction::In, text().as_bytes());
    longpole::packet_here!(Direction::Out, text().as_bytes());
    longpole::event!(text(), one = number(), two = text());
    longpole::event!("literal", one = number());
    longpole::event_here!(one = number());
    longpole::event!("wide", array = [number()], colour = Enumeration::new(number() as i64, "red=0"));
    longpole::log!(text());
    longpole::log!("{} {}", number(), text());
    let channel = Channel { probe: std::sync::Arc::new(Queue::new("channel", 5)) };
    let same: &Name = &channel.probe;
    longpole::begin!(same, number());
    wrapped(&channel, 5i32, &channel, [1u16, 2]);
    wrapped(&channel.probe, 0.5, 7u8, std::sync::Arc::<str>::from("text"));
    println!("{}", EVALUATED.load(Relaxed));
}
