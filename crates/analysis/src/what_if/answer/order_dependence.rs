//! How much of a prediction depends on the order of service that is assumed.
//!
//! In a world where machines arrive in another order than in the trace, each is served in the order
//! of arrival. Whether the real system would do so is unknown; the interval of a prediction
//! includes the waits that depend on it.

use crate::what_if::replay::state::{EndMark, Replay};
use crate::what_if::service::arrival_order::ArrivalOrder;
use crate::what_if::service::places::PlacesOfWorlds;
use crate::what_if::translate::groups::Members;

/// Largest part of the time until the end that may depend on an order: what one machine waits less,
/// another one waits more.
const MAX_ORDER_DEPENDENT: f64 = 0.125;

/// Returns how much of each scenario's end depends on the order of service among the machines that
/// are connected with it, at most [`MAX_ORDER_DEPENDENT`] of the end.
pub fn order_dependent(replay: &Replay, end: &EndMark, members: &Members) -> Vec<f64> {
    let layout = replay.layout;
    let mut sums = vec![0.0; layout.scenarios];
    let mut add = |orders: &[ArrivalOrder], places: Option<&PlacesOfWorlds>| {
        orders.chunks_exact(2).zip(&mut sums).for_each(|(order, sum)| *sum += order[0].order_dependent);
        let of_places = places.into_iter().flat_map(PlacesOfWorlds::order_dependent);
        let kept = of_places.filter(|(lane, _)| layout.kept().contains(lane));
        kept.for_each(|(lane, more)| sums[layout.scenario_of(lane)] += more);
    };
    for (_, machine) in (0u32..).zip(&replay.machines).filter(|&(at, _)| members.has(at)) {
        machine.server.iter().for_each(|server| add(&server.orders, Some(&server.places)));
    }
    let locks = replay.service.locks.values().filter(|lock| lock.by.is_some_and(|by| members.has(by.0)));
    locks.for_each(|lock| add(&lock.orders, Some(&lock.places)));
    replay.cpus.one.iter().for_each(|(_, one)| add(&one.orders, None));
    for (scenario, sum) in sums.iter_mut().enumerate() {
        *sum = sum.min(MAX_ORDER_DEPENDENT * end.v[layout.of(scenario)[0]]);
    }
    sums
}
