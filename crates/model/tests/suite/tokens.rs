//! Which put caused a get, and which get made the space for a put.

use longpole_model::ids::{MachineId, QueueId};
use longpole_model::tokens::{Amount, Origin, Queues, Shape, Taken};

const QUEUE: QueueId = QueueId(0);
const ONE: Amount = Amount::Units(1);

fn queues(shape: Shape) -> Queues<u32> {
    let mut queues = Queues::new(1 << 10);
    queues.declare(QUEUE, shape);
    queues
}

fn from(origin: u32) -> Taken<u32> {
    Taken { units: 1, missing: 0, cause: Origin::From(origin) }
}

#[test]
fn the_put_that_made_a_merge_queue_non_empty_is_the_cause_until_the_queue_is_empty() {
    let mut queues = queues(Shape { merge: true, ..Shape::default() });
    for (opens, merges) in [(1, 2), (3, 4)] {
        queues.put(QUEUE, 1, None, opens);
        queues.put(QUEUE, 1, None, merges);
        assert_eq!(queues.known(), 1);
        assert_eq!(std::mem::take(&mut queues.spent), [merges]);
        assert_eq!(queues.peek(QUEUE, ONE, None), from(opens));
        assert_eq!([queues.get(QUEUE, ONE, None), queues.get(QUEUE, ONE, None)], [from(opens); 2]);
        assert_eq!((queues.known(), std::mem::take(&mut queues.spent)), (0, vec![opens]));
    }
}

#[test]
fn the_cause_of_units_that_are_missing_is_unknown() {
    for merge in [false, true] {
        let mut queues = queues(Shape { merge, ..Shape::default() });
        queues.put(QUEUE, 1, None, 7);
        let missing = Taken { units: 1, missing: 1, cause: Origin::Unknown };
        assert_eq!(queues.peek(QUEUE, Amount::Units(2), None), missing, "{merge}");
        assert_eq!(queues.get(QUEUE, Amount::Units(2), None), missing, "{merge}");
        assert_eq!(queues.get(QUEUE, ONE, None), Taken { units: 0, missing: 1, cause: Origin::Unknown }, "{merge}");
        assert_eq!(queues.get(QUEUE, Amount::All, None), Taken { units: 0, missing: 0, cause: Origin::None }, "{merge}");
    }
}

#[test]
fn units_that_were_there_from_the_begin_have_no_cause() {
    let mut queues = queues(Shape { initial: 1, ..Shape::default() });
    queues.put(QUEUE, 1, None, 7);
    assert_eq!(queues.get(QUEUE, ONE, None), Taken { units: 1, missing: 0, cause: Origin::None });
    assert_eq!(queues.get(QUEUE, ONE, None), from(7));
}

#[test]
fn the_space_for_a_put_is_the_reserved_one_and_then_that_of_the_oldest_get() {
    let mut queues = queues(Shape { capacity: Some(2), ..Shape::default() });
    let (one, other) = (MachineId(0), MachineId(1));
    // The space from the begin is used up.
    assert_eq!(queues.take_space(QUEUE, one, 2), Taken { units: 2, missing: 0, cause: Origin::None });
    queues.put(QUEUE, 2, None, 1);
    assert_eq!(queues.take_space(QUEUE, one, 1), Taken { units: 0, missing: 1, cause: Origin::Unknown });
    queues.get(QUEUE, Amount::All, None);
    queues.give_space(QUEUE, 1, 10);
    queues.give_space(QUEUE, 1, 11);
    // No more than fits into the capacity.
    queues.give_space(QUEUE, 1, 12);
    assert_eq!(queues.reserve(QUEUE, one, 1), from(10));
    assert_eq!(queues.take_space(QUEUE, other, 1), from(11));
    assert_eq!(queues.take_space(QUEUE, one, 1), from(10));
    assert_eq!(queues.take_space(QUEUE, one, 1).missing, 1);
}

#[test]
fn beyond_the_limit_the_fullest_queues_forget_the_older_half_until_an_eighth_is_free() {
    let mut queues: Queues<u32> = Queues::new(16);
    let put = |queues: &mut Queues<u32>, queue: u32, count: u32| (0..count).for_each(|at| queues.put(QueueId(queue), 1, None, at));
    // Queues of two tokens, of which the first was used longest ago, and one of three.
    (1..=7).for_each(|queue| put(&mut queues, queue, 2));
    put(&mut queues, 0, 2);
    assert_eq!((queues.known(), queues.forgotten()), (16, 0));
    put(&mut queues, 0, 1);
    assert_eq!((queues.known(), queues.forgotten()), (14, 3));
    let mut causes = |queue: u32| [(); 2].map(|()| queues.get(QueueId(queue), ONE, None).cause);
    assert_eq!(causes(0), [Origin::Unknown, Origin::Unknown]);
    assert_eq!(causes(1), [Origin::Unknown, Origin::From(1)]);
    assert_eq!(causes(2), [Origin::From(0), Origin::From(1)]);
}
