//! Worker pools: threads with one name that take from the same queues and put into the same queues
//! form one stage.
//!
//! Each of them alone would cause only a part of the waiting. The busiest one, the *leader*,
//! represents the pool: its states show the pool's work.

use crate::stages::Stages;
use longpole_model::actors::{ActorId, Actors};
use longpole_model::interaction::QueueId;
use std::collections::HashMap;

#[derive(Debug, Default)]
pub(crate) struct Pools {
    /// Leader of each actor's pool; the actor itself if it is not in a pool.
    pub leader: Vec<usize>,
    pub members: HashMap<usize, Vec<usize>>,
}

/// Common properties of the threads of a pool: host, label, thread name, inputs, outputs.
type Kind<'a> = (&'a str, &'a str, &'a str, Vec<QueueId>, Vec<QueueId>);

impl Pools {
    /// Finds the pools. `work_ns` is the working time of each actor.
    pub fn find(actors: &Actors, stages: &Stages, work_ns: &[u64]) -> Pools {
        let mut alike: HashMap<Kind<'_>, Vec<usize>> = HashMap::new();
        for (at, actor) in actors.all().iter().enumerate() {
            let Some(stage) = stages.of(ActorId(at as u32)) else { continue };
            let mut inputs: Vec<_> = stage.inputs.iter().filter_map(|input| input.queue).collect();
            let mut outputs: Vec<_> = stage.outputs.iter().map(|output| output.queue).collect();
            // A thread without inputs is a source: several sources need not do the same work.
            if inputs.is_empty() || (actor.label.is_empty() && actor.thread.is_empty()) {
                continue;
            }
            inputs.sort_unstable();
            outputs.sort_unstable();
            alike.entry((&actor.host, &actor.label, &actor.thread, inputs, outputs)).or_default().push(at);
        }
        let mut pools = Pools { leader: (0..actors.all().len()).collect(), members: HashMap::new() };
        for members in alike.into_values().filter(|members| members.len() > 1) {
            let Some(&leader) = members.iter().max_by_key(|&&at| (work_ns.get(at).copied().unwrap_or(0), std::cmp::Reverse(at))) else {
                continue;
            };
            members.iter().for_each(|&member| pools.leader[member] = leader);
            pools.members.insert(leader, members);
        }
        pools
    }

    /// Returns all threads of the stage with this leader.
    pub fn of(&self, leader: usize) -> &[usize] {
        self.members.get(&leader).map_or_else(|| self.leader.get(leader).map_or(&[], std::slice::from_ref), Vec::as_slice)
    }

    pub fn is_leader(&self, at: usize) -> bool {
        self.leader.get(at) == Some(&at)
    }
}
