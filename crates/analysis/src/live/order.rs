//! The order of threads in a live view, and which of them are selected.

use super::ThreadUse;

/// What threads are sorted by, the largest first; names and numbers the smallest first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    #[default]
    Running,
    Runnable,
    Blocked,
    Calls,
    Name,
    Tid,
}

impl Order {
    pub const ALL: [Order; 6] = [Order::Running, Order::Runnable, Order::Blocked, Order::Calls, Order::Name, Order::Tid];

    pub fn name(self) -> &'static str {
        match self {
            Order::Running => "running",
            Order::Runnable => "runnable",
            Order::Blocked => "blocked",
            Order::Calls => "calls",
            Order::Name => "name",
            Order::Tid => "tid",
        }
    }

    /// Returns the order after this one; after the last one, the first.
    pub fn next(self) -> Order {
        let at = Order::ALL.iter().position(|order| *order == self).unwrap_or(0);
        Order::ALL[(at + 1) % Order::ALL.len()]
    }
}

/// Sorts threads. Those that are equal are sorted by their time on CPUs, then by name and number.
pub fn sort(threads: &mut [ThreadUse], order: Order) {
    let share = |thread: &ThreadUse| match order {
        Order::Running => thread.running,
        Order::Runnable => thread.runnable.unwrap_or(0.0),
        Order::Blocked => thread.blocked,
        Order::Calls => thread.calls.unwrap_or(0.0),
        Order::Name | Order::Tid => 0.0,
    };
    threads.sort_by(|a, b| {
        let by_number = if order == Order::Tid { a.tid.cmp(&b.tid) } else { std::cmp::Ordering::Equal };
        let by_share = share(b).total_cmp(&share(a));
        let by_running = if order == Order::Name { std::cmp::Ordering::Equal } else { b.running.total_cmp(&a.running) };
        by_number.then(by_share).then(by_running).then_with(|| (&a.name, a.tid).cmp(&(&b.name, b.tid)))
    });
}

/// True if the name of the thread or of its process contains the text, in upper or lower case, or
/// one of its numbers is the text.
pub fn is_selected(thread: &ThreadUse, text: &str) -> bool {
    let contains = |name: &str| name.to_lowercase().contains(&text.to_lowercase());
    let is = |number: Option<i32>| number.is_some_and(|number| number.to_string() == text);
    contains(&thread.name) || contains(&thread.process) || is(thread.tid) || is(thread.pid)
}
