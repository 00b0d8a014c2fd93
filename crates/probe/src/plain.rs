//! Enumerations for the arguments of probes. Used with and without the feature `disable`.

/// The order of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    Fifo,
    Lifo,
}

/// The unit of a queue's tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    Items,
    Bytes,
}

/// The meaning of a mark.
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

/// The direction of a captured packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Direction {
    Unknown = 0,
    In = 1,
    Out = 2,
}
