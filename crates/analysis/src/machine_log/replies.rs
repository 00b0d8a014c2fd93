//! Queues of replies: each call has its own (`rpc:X:reply:ID`), used once and never again.
//!
//! The first of them are queues like any other. Where a log has more, a queue is given to the next
//! call as soon as it is empty, or memory would grow with every call. Links from such queues are
//! those of `rpc:X:reply:*`. A queue into which tokens of several flows were put is never handed
//! on: what a get takes of them is for the analysis to know.

use longpole_model::interaction::{QueueId, Vocabulary};
use longpole_model::names::NameId;
use longpole_model::tokens::Amount;
use std::collections::HashMap;

/// Queues of replies that keep their name.
pub const MOST_NAMED: usize = 1 << 16;

/// Calls that may wait for their reply beyond that.
pub const MOST_LIVE: usize = 1 << 20;

#[derive(Debug, Default)]
pub struct Replies {
    named: usize,
    live: HashMap<String, Live>,
    free: HashMap<NameId, Vec<QueueId>>,
}

/// Units that are in the queue, all of this flow.
#[derive(Debug)]
struct Live {
    queue: QueueId,
    units: u64,
    flow: Option<NameId>,
    /// They are of several.
    mixed: bool,
}

pub enum Use {
    Named,
    Put(u64, Option<NameId>),
    Got(Amount, Option<NameId>),
}

impl Replies {
    /// The queue of this name. `with` is what is done with it now.
    pub fn queue(&mut self, vocabulary: &mut Vocabulary, name: &str, with: Use) -> Result<QueueId, String> {
        let Some(call) = call_of(name) else { return Ok(vocabulary.queue_of_text(name)) };
        if let Some(known) = vocabulary.known_queue(name) {
            return Ok(known);
        }
        if self.named < MOST_NAMED {
            self.named += 1;
            return Ok(vocabulary.queue_of_text(name));
        }
        if !self.live.contains_key(name) {
            if self.live.len() >= MOST_LIVE {
                return Err(format!("more than {MOST_LIVE} calls wait for a reply"));
            }
            let shared = vocabulary.names.intern(&format!("{call}:reply:*"));
            let free = self.free.get_mut(&shared).and_then(Vec::pop);
            let queue = vocabulary.passing_queue(name, shared, free);
            self.live.insert(name.to_owned(), Live { queue, units: 0, flow: None, mixed: false });
        }
        let Some(live) = self.live.get_mut(name) else { return Ok(vocabulary.queue_of_text(name)) };
        let queue = live.queue;
        match with {
            Use::Named => return Ok(queue),
            Use::Put(n, flow) => {
                live.mixed |= live.units > 0 && live.flow != flow;
                (live.units, live.flow) = (live.units.saturating_add(n), flow);
            }
            // It takes nothing of another flow.
            Use::Got(_, Some(flow)) if live.flow != Some(flow) => {}
            Use::Got(Amount::Units(n), _) => live.units = live.units.saturating_sub(n),
            Use::Got(Amount::All, _) => live.units = 0,
        }
        if live.units == 0 && !live.mixed {
            self.live.remove(name);
            let shared = vocabulary.link_id(queue);
            self.free.entry(shared).or_default().push(queue);
        }
        Ok(queue)
    }
}

/// Whether a queue of this name is one.
pub fn is_one(name: &str) -> bool {
    call_of(name).is_some()
}

/// `rpc:X` of `rpc:X:reply:ID`.
fn call_of(name: &str) -> Option<&str> {
    const MARK: &[u8] = b":reply:";
    let call = name.strip_prefix("rpc:")?;
    // Byte by byte from behind: what comes after it is short.
    let at = call.as_bytes().windows(MARK.len()).rposition(|part| part[0] == b':' && part == MARK)?;
    Some(&name[.."rpc:".len() + at])
}
