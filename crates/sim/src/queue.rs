//! A queue while it runs: what is in it, what is on its way, and who waits.
//!
//! Who comes first is served first, and what one gives goes to the one who waits at once: nobody who comes later can take it away.

use crate::system::Id;
use std::collections::VecDeque;

/// Units on their way; the caller, where they are a call.
#[derive(Clone, Copy, Debug)]
pub struct Token {
    pub n: u64,
    pub caller: Id,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Want {
    Units(u64),
    All,
    Look(u64),
}

#[derive(Clone, Debug, Default)]
pub struct Running {
    pub units: u64,
    /// Whether its units are calls.
    pub is_call: bool,
    /// Callers in the order of their calls.
    pub callers: VecDeque<Id>,
    /// None: unlimited.
    pub space: Option<u64>,
    pub arriving: VecDeque<(u64, Token)>,
    pub returning: VecDeque<(u64, u64)>,
    /// Per machine that has some.
    pub reserved: Vec<(Id, u64)>,
    pub getters: VecDeque<(Id, Want)>,
    pub putters: VecDeque<(Id, Token, bool)>,
    pub puts: u64,
    pub gets: u64,
}

impl Running {
    pub fn can_get(&self, want: Want) -> bool {
        match want {
            Want::Units(n) | Want::Look(n) => self.units >= n,
            Want::All => self.units > 0,
        }
    }

    /// How many units are got.
    pub fn get(&mut self, want: Want) -> u64 {
        match want {
            Want::Look(n) => n,
            Want::Units(n) => {
                self.units -= n;
                n
            }
            Want::All => std::mem::take(&mut self.units),
        }
    }

    /// What the machine still needs for a put of `n`, beyond what it reserved.
    fn needs(&self, machine: Id, n: u64) -> u64 {
        let early = self.reserved.iter().find(|reserved| reserved.0 == machine).map_or(0, |reserved| reserved.1);
        n - early.min(n)
    }

    pub fn can_put(&self, machine: Id, n: u64, reserve: bool) -> bool {
        let needs = if reserve { n } else { self.needs(machine, n) };
        self.space.is_none_or(|space| space >= needs)
    }

    pub fn take_space(&mut self, machine: Id, n: u64, reserve: bool) {
        let needs = if reserve { n } else { self.needs(machine, n) };
        let Some(space) = &mut self.space else { return };
        *space -= needs;
        match self.reserved.iter().position(|reserved| reserved.0 == machine) {
            Some(at) if reserve => self.reserved[at].1 += n,
            None if reserve => self.reserved.push((machine, n)),
            Some(at) => {
                self.reserved[at].1 -= n - needs;
                if self.reserved[at].1 == 0 {
                    self.reserved.remove(at);
                }
            }
            None => {}
        }
    }
}
