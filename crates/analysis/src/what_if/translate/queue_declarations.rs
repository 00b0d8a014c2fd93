//! Declarations of queues, from their declaration in the trace or their first use.

use super::queue_uses::{Purpose, QueueUse};
use super::state::Translation;
use crate::what_if::service::changed_capacity::ChangedCapacity;
use longpole_model::interaction::{QueueId, Vocabulary};
use longpole_model::kinds::QueueKind;
use longpole_model::tokens::{Order, Shape, Unit};

impl Translation {
    /// Notes what a queue is for, and which scenarios change it.
    pub fn declare(&mut self, vocabulary: &Vocabulary, queue: QueueId, shape: Shape) {
        let asked = self.changes.queue(vocabulary.queue_name(queue));
        let has_changed_capacity = !asked.is_empty();
        if has_changed_capacity {
            self.replay.here().service.capacities.insert(queue, ChangedCapacity::new(shape.initial, &asked));
        }
        self.full.declare(queue, shape);
        let purpose = match vocabulary.queue_kind(queue) {
            QueueKind::Replies => Purpose::Replies,
            QueueKind::Calls => Purpose::Calls,
            QueueKind::Items | QueueKind::Signals if shape.merge => Purpose::Signals,
            QueueKind::Items | QueueKind::Signals => Purpose::Items,
        };
        let is_lock = shape.capacity == Some(1) && shape.initial == 1;
        if is_lock {
            let name = vocabulary.queue_name(queue);
            let changes = self.changes.places(&[String::new(), name.to_owned(), name.to_owned(), String::new()]);
            let layout = self.replay.layout;
            self.replay.here().service.add_lock(queue, layout, &changes);
        }
        let is_lifo = shape.order == Order::Lifo;
        let ordered_room = shape.capacity.filter(|_| !is_lifo && shape.unit == Unit::Items && !shape.merge);
        self.replay.set_ordered_room(queue, ordered_room);
        let used = self.uses.make(queue);
        *used = QueueUse {
            purpose: Some(purpose),
            is_lock: used.is_lock || is_lock,
            puts: shape.initial,
            is_lifo,
            ordered_room,
            has_changed_capacity: used.has_changed_capacity || has_changed_capacity,
            ..*used
        };
    }

    /// A queue without a declaration is declared with defaults at its first use.
    pub fn ensure_declared(&mut self, vocabulary: &Vocabulary, queue: QueueId) {
        if self.queue_use(queue).purpose.is_none() {
            self.declare(vocabulary, queue, Shape::default());
        }
    }

    pub fn purpose(&self, queue: QueueId) -> Purpose {
        self.queue_use(queue).purpose.unwrap_or(Purpose::Items)
    }

    #[inline]
    pub fn queue_use(&self, queue: QueueId) -> QueueUse {
        self.uses.get(queue).copied().unwrap_or_default()
    }
}
