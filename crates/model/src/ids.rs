//! Ids of machines and queues: indices into the tables of a
//! [`Vocabulary`](crate::interaction::Vocabulary). They are a room of their own because tokens,
//! steps and interactions all name machines and queues.

/// A machine: an index that the vocabulary assigns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MachineId(pub u32);

/// A queue of tokens: an index that the vocabulary assigns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct QueueId(pub u32);
