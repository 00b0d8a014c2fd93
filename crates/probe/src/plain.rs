//! What probes are told besides names and numbers; with and without the feature `disable`.

/// The order of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    Fifo,
    Lifo,
}

/// What a queue holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    Items,
    Bytes,
}

/// What a mark stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub enum MarkKind {
    Plain = 0,
    ObjectNew = 1,
    ObjectDelete = 2,
    ObjectState = 3,
    Exception = 4,
    Failure = 5,
}

/// Which way a captured packet went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Direction {
    Unknown = 0,
    In = 1,
    Out = 2,
}
