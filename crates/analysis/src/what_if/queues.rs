//! The purposes of queues, from their declaration or first use.

use super::at_once::AtOnce;
use super::locks::Lock;
use super::room::Room;
use super::{Kind, Known, WhatIf};
use longpole_model::interaction::{QueueId, Vocabulary};
use longpole_model::kinds::QueueKind;
use longpole_model::tokens::{Order, Shape, Unit};

impl WhatIf {
    pub(super) fn declare(&mut self, vocabulary: &Vocabulary, queue: QueueId, shape: Shape) {
        let asked = self.scale.queue(vocabulary.queue_name(queue));
        let has_room = !asked.is_empty();
        if has_room {
            self.rooms.insert(queue, Room::new(shape.initial, &asked));
        }
        self.full.declare(queue, shape);
        let kind = match vocabulary.queue_kind(queue) {
            QueueKind::Replies => Kind::Replies,
            QueueKind::Calls => Kind::Calls,
            QueueKind::Items | QueueKind::Signals if shape.merge => Kind::Signals,
            QueueKind::Items | QueueKind::Signals => Kind::Items,
        };
        let is_lock = shape.capacity == Some(1) && shape.initial == 1;
        if is_lock {
            self.more_lines();
            let name = vocabulary.queue_name(queue);
            let asked = self.scale.at_once(&[String::new(), name.to_owned(), name.to_owned(), String::new()]);
            self.scale.are_met(&asked);
            self.locks.insert(queue, Lock::new(self.layout, AtOnce::new(self.layout, &asked)));
        }
        let at = queue.0 as usize;
        if at >= self.known.len() {
            self.known.resize(at + 1, Known::default());
        }
        let known = &mut self.known[at];
        let is_lifo = shape.order == Order::Lifo;
        let room = shape.capacity.filter(|_| !is_lifo && shape.unit == Unit::Items && !shape.merge);
        *known = Known {
            kind: Some(kind),
            is_lock: known.is_lock || is_lock,
            room,
            puts: shape.initial,
            is_lifo,
            has_room: known.has_room || has_room,
            ..*known
        };
    }

    /// A queue without a declaration is declared with defaults at its first use.
    pub(super) fn used(&mut self, vocabulary: &Vocabulary, queue: QueueId) {
        if self.known(queue).kind.is_none() {
            self.declare(vocabulary, queue, Shape::default());
        }
    }

    pub(super) fn kind(&self, queue: QueueId) -> Kind {
        self.known(queue).kind.unwrap_or(Kind::Items)
    }

    #[inline]
    pub(super) fn known(&self, queue: QueueId) -> Known {
        self.known.get(queue.0 as usize).copied().unwrap_or_default()
    }
}
