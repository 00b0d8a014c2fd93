//! The tokens of one queue in their order. The tokens of each flow are in a list of their
//! own, so that a get of one flow need not search all tokens.

use super::{append, forget, Order, Origin, OriginCounts, Taking, Token};
use crate::hash::IdMap;
use crate::names::NameId;
use std::collections::{BTreeMap, VecDeque};

/// The tokens of one queue.
#[derive(Clone, Debug)]
pub struct QueuedTokens<O> {
    plain: VecDeque<Token<O>>,
    flows: IdMap<NameId, FlowTokens<O>>,
    /// Empty lists whose memory is reused: many flows consist of one token that comes and
    /// goes.
    spare: Vec<VecDeque<Token<O>>>,
    /// The next token of each flow, by arrival.
    next: BTreeMap<u64, NameId>,
    units: u64,
    newest: u64,
}

/// The tokens of one flow.
#[derive(Clone, Debug)]
struct FlowTokens<O> {
    tokens: VecDeque<Token<O>>,
    units: u64,
}

const MAX_SPARE: usize = 4;

impl<O> Default for QueuedTokens<O> {
    fn default() -> QueuedTokens<O> {
        let (plain, flows, spare, next) = Default::default();
        QueuedTokens { plain, flows, spare, next, units: 0, newest: 0 }
    }
}

fn head<O>(tokens: &VecDeque<Token<O>>, order: Order) -> Option<&Token<O>> {
    match order {
        Order::Fifo => tokens.front(),
        Order::Lifo => tokens.back(),
    }
}

impl<O: Copy> QueuedTokens<O> {
    pub fn units(&self) -> u64 {
        self.units
    }

    /// Number of units of a flow, or of all flows.
    pub fn units_of(&self, flow: Option<NameId>) -> u64 {
        match flow {
            None => self.units,
            Some(flow) => self.flows.get(&flow).map_or(0, |of_flow| of_flow.units),
        }
    }

    /// Number of tokens, each of which is a run of units.
    pub fn runs(&self) -> usize {
        self.plain.len() + self.flows.values().map(|of_flow| of_flow.tokens.len()).sum::<usize>()
    }

    /// Adds a token. `joined` means that its origin does not matter: it is merged with the newest
    /// token if that one is in the same flow.
    pub fn add(&mut self, token: Token<O>, flow: Option<NameId>, order: Order, joined: bool) {
        self.units = self.units.saturating_add(token.n);
        let newest = std::mem::replace(&mut self.newest, token.seq);
        let tokens = match flow {
            None => &mut self.plain,
            Some(flow) => {
                let of_flow =
                    self.flows.entry(flow).or_insert_with(|| FlowTokens { tokens: self.spare.pop().unwrap_or_default(), units: 0 });
                of_flow.units = of_flow.units.saturating_add(token.n);
                if let Some(old) = head(&of_flow.tokens, order) {
                    self.next.remove(&old.seq);
                }
                &mut of_flow.tokens
            }
        };
        match tokens.back_mut().filter(|last| joined && last.seq == newest) {
            Some(last) => {
                last.n = last.n.saturating_add(token.n);
                last.seq = token.seq;
            }
            None => append(tokens, token),
        }
        if let (Some(flow), Some(now)) = (flow, head(tokens, order)) {
            self.next.insert(now.seq, flow);
        }
    }

    pub fn take(&mut self, take: &mut Taking<O>, flow: Option<NameId>, order: Order, count: &mut OriginCounts<'_, O>) {
        let before = take.units;
        if let Some(flow) = flow {
            self.take_flow(take, flow, order, count);
        } else if self.flows.is_empty() {
            take.from(&mut self.plain, order, count);
        } else {
            while take.open() > 0 && self.take_next(take, order, count) {}
        }
        self.units = self.units.saturating_sub(take.units - before);
    }

    /// Takes from the flow whose token is next in the order of the queue. Returns false if nothing
    /// was taken.
    fn take_next(&mut self, take: &mut Taking<O>, order: Order, count: &mut OriginCounts<'_, O>) -> bool {
        let plain = head(&self.plain, order).map(|token| (token.seq, token.n));
        let flow = match order {
            Order::Fifo => self.next.first_key_value(),
            Order::Lifo => self.next.last_key_value(),
        };
        let flow = flow.map(|(&seq, &flow)| (seq, flow));
        let plain_first = match (plain, flow) {
            (None, None) => return false,
            (Some(_), None) => true,
            (None, Some(_)) => false,
            (Some((plain, _)), Some((flow, _))) => (plain < flow) == (order == Order::Fifo),
        };
        let n = match (plain, flow) {
            (Some((_, n)), _) if plain_first => n,
            (_, Some((_, flow))) => self.flows.get(&flow).and_then(|of_flow| head(&of_flow.tokens, order)).map_or(0, |token| token.n),
            _ => 0,
        };
        let n = n.min(take.open());
        let wanted = std::mem::replace(&mut take.wanted, take.units + n);
        match flow.filter(|_| !plain_first) {
            Some((_, flow)) => self.take_flow(take, flow, order, count),
            None => take.from(&mut self.plain, order, count),
        }
        take.wanted = wanted;
        n > 0
    }

    fn take_flow(&mut self, take: &mut Taking<O>, flow: NameId, order: Order, count: &mut OriginCounts<'_, O>) {
        let Some(of_flow) = self.flows.get_mut(&flow) else { return };
        if let Some(old) = head(&of_flow.tokens, order) {
            self.next.remove(&old.seq);
        }
        let before = take.units;
        take.from(&mut of_flow.tokens, order, count);
        of_flow.units = of_flow.units.saturating_sub(take.units - before);
        match head(&of_flow.tokens, order) {
            Some(now) => {
                self.next.insert(now.seq, flow);
            }
            None => {
                let gone = self.flows.remove(&flow);
                self.spare.extend(gone.map(|of_flow| of_flow.tokens).filter(|_| self.spare.len() < MAX_SPARE));
            }
        }
    }

    /// Like [`QueuedTokens::take`], but removes nothing.
    pub fn peek(&self, take: &mut Taking<O>, flow: Option<NameId>, order: Order) {
        let of_flow = match flow {
            Some(flow) => match self.flows.get(&flow) {
                Some(of_flow) => &of_flow.tokens,
                None => return,
            },
            None => &self.plain,
        };
        if flow.is_some() || self.flows.is_empty() {
            match order {
                Order::Fifo => peek(take, of_flow.iter()),
                Order::Lifo => peek(take, of_flow.iter().rev()),
            }
            return;
        }
        let mut all: Vec<&Token<O>> = self.plain.iter().chain(self.flows.values().flat_map(|of_flow| &of_flow.tokens)).collect();
        all.sort_unstable_by_key(|token| token.seq);
        match order {
            Order::Fifo => peek(take, all.into_iter()),
            Order::Lifo => peek(take, all.into_iter().rev()),
        }
    }

    pub fn forget(&mut self, count: &mut OriginCounts<'_, O>) {
        forget(&mut self.plain, count);
        for of_flow in self.flows.values_mut() {
            // Forgetting changes the sequence numbers of a flow; the caller rebuilds the index
            // afterwards ([`QueuedTokens::index`]).
            forget(&mut of_flow.tokens, count);
        }
    }

    /// Rebuilds the index of next tokens after [`QueuedTokens::forget`].
    pub fn index(&mut self, order: Order) {
        self.next.clear();
        for (&flow, of_flow) in &self.flows {
            if let Some(token) = head(&of_flow.tokens, order) {
                self.next.insert(token.seq, flow);
            }
        }
    }

    pub fn each_origin(&mut self, visit: &mut impl FnMut(&mut O)) {
        for token in self.plain.iter_mut().chain(self.flows.values_mut().flat_map(|of_flow| &mut of_flow.tokens)) {
            if let Origin::From(origin) = &mut token.origin {
                visit(origin);
            }
        }
    }
}

fn peek<'a, O: Copy + 'a>(take: &mut Taking<O>, tokens: impl Iterator<Item = &'a Token<O>>) {
    for token in tokens {
        if take.open() == 0 {
            return;
        }
        take.note(token);
    }
}
