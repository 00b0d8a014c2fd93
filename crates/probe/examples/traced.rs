//! A program that says what it does by `tracing`: nothing in it knows of Longpole but the line that installs the layer.
//!
//!     cargo build --release -p longpole-probe --example traced
//!     longpole record -- target/release/examples/traced
use tracing::{debug, info, info_span, instrument, trace, warn, Span};
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::prelude::*;

#[derive(Debug)]
struct Order {
    article: u32,
    count: u8,
}

#[instrument(skip(order), fields(article = order.article, cents))]
fn price(order: &Order, customer: &str) -> u64 {
    let cents = u64::from(order.article) * 10 * u64::from(order.count);
    Span::current().record("cents", cents);
    debug!(?order, discount = 0.5, "priced");
    cents
}

/// A task that another one leads to, and that ends in another thread than it began in; a library that uses `log`.
fn follower(before: &Span) {
    let span = info_span!(parent: before, "follower");
    span.follows_from(before);
    let _ = std::thread::spawn(move || span.in_scope(|| log::warn!(target: "library", "said by {}", "log"))).join();
}

/// What a task of an asynchronous program does: a span that two threads enter one after the other.
fn two_threads(span: Span) {
    let other = span.clone();
    span.in_scope(|| info!("first half"));
    let second = std::thread::Builder::new().name("second".into());
    let thread = second.spawn(move || other.in_scope(|| info!("second half"))).expect("a thread");
    let _ = thread.join();
}

fn optional(first: Option<u64>, second: Option<u64>) {
    info!(name: "optional", first, second);
}

fn main() {
    let filter = Targets::new().with_default(LevelFilter::DEBUG).with_target("noisy", LevelFilter::WARN);
    tracing_subscriber::registry().with(longpole_probe::tracing::layer().with_lives(true).with_filter(filter)).init();

    info!("open");
    for count in 0..3 {
        let cents = price(&Order { article: 7, count }, "somebody");
        info!(cents, ok = true, change = -5i64, "sold");
    }
    let task = info_span!("task", number = 4);
    follower(&task);
    two_threads(task);
    optional(Some(1), None);
    optional(None, Some(2));
    optional(Some(3), Some(4));
    info!(target: "noisy", "not recorded");
    warn!(target: "noisy", bytes = &b"\x00\xff"[..], "recorded");
    trace!("not recorded either");
    let text = "long ".repeat(2000);
    info!(text, error = &std::io::Error::other("an error") as &(dyn std::error::Error + 'static), "cut");
}
