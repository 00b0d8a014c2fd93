//! Queues of replies: each call has one (`rpc:X:reply:ID`), which is used once and never again.
//!
//! The first ones are queues like any other. If a log has more, a queue is reused for the next call
//! as soon as it is empty; otherwise memory would grow with each call. Links from such queues have
//! the name `rpc:X:reply:*`. A queue with tokens of several flows is never reused, because only the
//! analysis knows which of them a get takes.

use longpole_model::interaction::{QueueId, Vocabulary};
use longpole_model::names::NameId;
use longpole_model::tokens::Amount;
use std::collections::HashMap;

/// Number of queues of replies that keep their name.
pub const MAX_NAMED: usize = 1 << 16;

/// Largest number of further calls that may wait for their reply at a time.
pub const MAX_LIVE: usize = 1 << 20;

#[derive(Debug, Default)]
pub struct Replies {
    named: usize,
    live: HashMap<String, Live>,
    free: HashMap<NameId, Vec<QueueId>>,
}

/// The units in the queue, all of the flow `flow`.
#[derive(Debug)]
struct Live {
    queue: QueueId,
    units: u64,
    flow: Option<NameId>,
    /// True if the units are of several flows.
    mixed: bool,
}

pub enum Use {
    Named,
    Put(u64, Option<NameId>),
    Got(Amount, Option<NameId>),
}

impl Replies {
    /// Returns the queue with this name. `with` is the operation on it.
    pub fn queue(&mut self, vocabulary: &mut Vocabulary, name: &str, with: Use) -> Result<QueueId, String> {
        let Some(call) = call_of(name) else { return Ok(vocabulary.queue_of_text(name)) };
        if let Some(known) = vocabulary.known_queue(name) {
            return Ok(known);
        }
        if self.named < MAX_NAMED {
            self.named += 1;
            return Ok(vocabulary.queue_of_text(name));
        }
        if !self.live.contains_key(name) {
            if self.live.len() >= MAX_LIVE {
                return Err(format!("more than {MAX_LIVE} calls wait for a reply"));
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
            // A get of one flow takes no units of another flow.
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

/// Returns whether this is the name of a queue of replies.
pub fn is_one(name: &str) -> bool {
    call_of(name).is_some()
}

/// Returns `rpc:X` for `rpc:X:reply:ID`.
fn call_of(name: &str) -> Option<&str> {
    const MARK: &[u8] = b":reply:";
    let call = name.strip_prefix("rpc:")?;
    // The search is bytewise and from the end, because the text after the mark is short.
    let at = call.as_bytes().windows(MARK.len()).rposition(|part| part[0] == b':' && part == MARK)?;
    Some(&name[.."rpc:".len() + at])
}
