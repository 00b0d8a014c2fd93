//! A program that says what it does by `tracing`: nothing in it knows of Longpole but the line that
//! installs the layer.
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

/// A task that another one leads to, and that ends in another thread than it began in; a library
/// that uses `log`.
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

/// An event with the largest number of fields that `tracing` takes.
fn many() {
    info!(
        name: "many",
        a = 1, b = 2, c = 3, d = 4, e = 5, f = 6, g = 7, h = 8, i = 9, j = 10, k = 11, l = 12, m = 13, n = 14, o = 15, p = 16,
        aa = 17, bb = 18, cc = 19, dd = 20, ee = 21, ff = 22, gg = 23, hh = 24, ii = 25, jj = 26, kk = 27, ll = 28, mm = 29, nn = 30, oo = 31, pp = 32
    );
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
    many();
    optional(Some(1), None);
    optional(None, Some(2));
    optional(Some(3), Some(4));
    info!(target: "noisy", "not recorded");
    warn!(target: "noisy", bytes = &b"\x00\xff"[..], "recorded");
    trace!("not recorded either");
    let text = "long ".repeat(2000);
    info!(text, error = &std::io::Error::other("an error") as &(dyn std::error::Error + 'static), "cut");
}
