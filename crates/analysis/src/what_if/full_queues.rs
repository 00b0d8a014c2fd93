//! Bounded queues in which machines waited for room, and how often. They are worth a larger
//! capacity.

use longpole_model::hash::IdMap;
use longpole_model::interaction::{QueueId, Vocabulary};
use longpole_model::tokens::Shape;

/// A bounded queue in which machines waited for room: name, capacity, number of waits.
pub type FullQueue = (String, u64, u64);

/// Counter of waits for room.
#[derive(Clone, Debug, Default)]
pub struct FullQueues {
    capacities: IdMap<QueueId, u64>,
    waits: IdMap<QueueId, u64>,
}

impl FullQueues {
    pub fn declare(&mut self, queue: QueueId, shape: Shape) {
        if let Some(capacity) = shape.capacity {
            self.capacities.insert(queue, capacity);
        }
    }

    /// Counts a wait for room that has ended.
    pub fn waited(&mut self, queue: QueueId) {
        *self.waits.entry(queue).or_default() += 1;
    }

    /// Returns the queues, the one with the most waits first.
    pub fn full(&self, vocabulary: &Vocabulary) -> Vec<FullQueue> {
        let capacity = |queue| self.capacities.get(queue).copied().unwrap_or(0);
        let full_queues = self.waits.iter().map(|(queue, &count)| (vocabulary.queue_name(*queue).to_owned(), capacity(queue), count));
        let mut full: Vec<FullQueue> = full_queues.collect();
        full.sort_by(|a, b| b.2.cmp(&a.2).then_with(|| a.0.cmp(&b.0)));
        full
    }
}
