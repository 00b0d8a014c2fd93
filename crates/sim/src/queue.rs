//! A queue while it runs: its content, the tokens on their way, and the machines that wait.
//!
//! Machines are served in the order in which they arrived. What a machine provides goes to the
//! waiting machine at once, so a machine that arrives later cannot take it.

use crate::system::Id;
use std::collections::VecDeque;

/// Units on their way; `caller` is the calling machine if they are a call.
#[derive(Clone, Copy, Debug)]
pub struct Token {
    pub n: u64,
    pub caller: Id,
}

/// What a get asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Want {
    Units(u64),
    All,
    Look(u64),
}

/// The state of a queue.
#[derive(Clone, Debug, Default)]
pub struct Running {
    pub units: u64,
    /// True if the units are calls.
    pub is_call: bool,
    /// Callers, in the order of their calls.
    pub callers: VecDeque<Id>,
    /// Free units; `None` means unlimited.
    pub space: Option<u64>,
    pub arriving: VecDeque<(u64, Token)>,
    pub returning: VecDeque<(u64, u64)>,
    /// Reserved space, by machine; only machines that have reserved some.
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

    /// Takes units, or looks at them, and returns their number.
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

    /// Space that the machine needs for a put of `n` in addition to what it has reserved.
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
