//! Which sequences run in the next step, and whose memory they run in.
//!
//! Sequences have an order of precedence: older groves first, and within a grove shorter paths first, then older ones.
//! It is the order in which strategies decide forks, so the first sequence is never waiting for another, and it always
//! gets memory: a run under scarce memory slows down but does not stall. A sequence whose pages were taken is *set aside*;
//! later it shares what it can from its relatives and computes the rest again, like a prompt.

use eager_core::{Grove, SeqId, Token};

use crate::pages::{Pool, Table};
use crate::sampler::Draw;

/// A grove and the engine's side of its sequences.
#[derive(Debug)]
pub(crate) struct Plot {
    pub grove: Grove,
    pub slots: Vec<Slot>,
    /// Tokens that the tree had before this run.
    before: usize,
}

/// The engine's side of one sequence.
#[derive(Debug)]
pub(crate) struct Slot {
    pub id: SeqId,
    /// Prompt and path.
    pub tokens: Vec<Token>,
    /// Keys and values of the first of these tokens.
    pub table: Table,
    /// How much of the table has been computed; the rest is only reserved, for rows of the step in hand.
    pub computed: usize,
    /// A computed step that the strategy has not decided yet.
    pub held: Option<Draw>,
    /// It ended; its pages may still serve a branch that starts from it.
    pub finished: bool,
}

/// A sequence that runs in this step.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pick {
    pub plot: usize,
    pub slot: usize,
    /// Rows: the last so many tokens of its table.
    pub tokens: usize,
    /// Do they reach the end of its path, so that the next token can be decoded?
    pub completes: bool,
}

/// The size of a step.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    pub rows: usize,
    /// Rows of one sequence.
    pub chunk: usize,
}

impl Slot {
    fn missing(&self) -> usize {
        self.tokens.len() - self.table.len()
    }

    fn is_runnable(&self) -> bool {
        !self.finished && self.held.is_none()
    }

    /// Gives its pages back.
    pub fn clear(&mut self, pool: &mut Pool) {
        self.table.clear(pool);
        self.computed = 0;
    }

    /// Wants to run but has no memory.
    pub fn is_set_aside(&self) -> bool {
        !self.finished && self.table.len() == 0
    }
}

impl Plot {
    pub fn new(grove: Grove) -> Self {
        let before = grove.tree().tokens_generated();
        let mut plot = Plot { grove, slots: Vec::new(), before };
        plot.take_orders();
        // What the orders already hold was put there by this run's strategy.
        plot.before -= plot.slots.iter().map(|s| plot.grove.tree().get(s.id).tokens.len()).sum::<usize>();
        plot
    }

    pub fn take_orders(&mut self) {
        while let Some(id) = self.grove.next_order() {
            let mut tokens = self.grove.prompt().to_vec();
            tokens.extend(self.grove.tree().path(id));
            self.slots.push(Slot {
                id,
                tokens,
                table: Table::default(),
                computed: 0,
                held: None,
                finished: false,
            });
        }
    }

    /// Tokens decoded in this run.
    pub fn decoded(&self) -> usize {
        self.grove.tree().tokens_generated() - self.before
    }

    /// Sequences that want to run.
    pub fn wanted(&self) -> usize {
        self.slots.iter().filter(|s| s.is_runnable()).count()
    }

    /// The slots of live sequences, in order of precedence.
    pub fn in_order(&self) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.slots.len()).filter(|&i| !self.slots[i].finished).collect();
        order.sort_by_key(|&i| (self.slots[i].tokens.len(), self.slots[i].id));
        order
    }

    /// The relative with which a slot shares most: its slot and the tokens shared now.
    ///
    /// `None` when a relative is just computing more of what they share: waiting for it is cheaper than doing it twice.
    fn source(&self, slot: usize) -> Option<(usize, usize)> {
        let wanted = &self.slots[slot];
        let prompt = self.grove.prompt().len();
        // At least one token must be computed: its logits are what is asked for.
        let most = wanted.tokens.len() - 1;
        let (mut best, mut promised) = ((slot, 0), 0);
        for (at, other) in self.slots.iter().enumerate().filter(|(_, s)| s.table.len() > 0) {
            let common = (prompt + self.grove.tree().common(wanted.id, other.id)).min(most);
            let ready = common.min(other.computed);
            if ready > best.1 {
                best = (at, ready);
            }
            if other.is_runnable() && other.computed < common {
                promised = promised.max(common.min(other.tokens.len()));
            }
        }
        (promised <= best.1).then_some(best)
    }
}

/// Chooses the rows of the next step and makes room for them.
pub(crate) fn schedule(plots: &mut [Plot], pool: &mut Pool, limits: Limits) -> Vec<Pick> {
    let order: Vec<(usize, usize)> = plots
        .iter()
        .enumerate()
        .flat_map(|(p, plot)| plot.in_order().into_iter().map(move |s| (p, s)))
        .collect();
    let resident =
        plots.iter().flat_map(|p| &p.slots).filter(|s| s.is_runnable() && s.table.len() > 0).count();
    let mut picks: Vec<Pick> = Vec::new();
    let mut rows = limits.rows;
    for (at, &(plot, slot)) in order.iter().enumerate() {
        if rows == 0 {
            break;
        }
        if !plots[plot].slots[slot].is_runnable() {
            continue;
        }
        if plots[plot].slots[slot].table.len() == 0 {
            let Some((source, shared)) = plots[plot].source(slot) else { continue };
            let missing = plots[plot].slots[slot].tokens.len() - shared;
            // Whoever comes back must leave the others room to go on, or it would be set aside again at once.
            let needed = missing.div_ceil(crate::kernel::PAGE) + 1 + resident;
            if !picks.is_empty() && needed > pool.available() && !reclaim_finished(plots, pool, needed) {
                continue;
            }
            let table = plots[plot].slots[source].table.share(pool, shared);
            plots[plot].slots[slot].computed = table.len();
            plots[plot].slots[slot].table = table;
        }
        let tokens = plots[plot].slots[slot].missing().min(limits.chunk).min(rows);
        if !make_room(plots, pool, &order, at, tokens) {
            break;
        }
        rows -= tokens;
        picks.push(Pick { plot, slot, tokens, completes: plots[plot].slots[slot].missing() == 0 });
    }
    picks
}

/// Grows the table of the sequence at `order[at]`, taking pages from those that come after it where it must.
fn make_room(
    plots: &mut [Plot],
    pool: &mut Pool,
    order: &[(usize, usize)],
    at: usize,
    tokens: usize,
) -> bool {
    let (plot, slot) = order[at];
    let mut victims = order[at + 1..].iter().rev();
    loop {
        let needed = plots[plot].slots[slot].table.pages_to_grow(pool, tokens);
        if needed <= pool.available() || reclaim_finished(plots, pool, needed) {
            return plots[plot].slots[slot].table.grow(pool, tokens).is_ok();
        }
        let Some(&(p, s)) = victims.next() else { return false };
        plots[p].slots[s].clear(pool);
    }
}

/// Frees what finished sequences still hold, until so many pages are available.
fn reclaim_finished(plots: &mut [Plot], pool: &mut Pool, needed: usize) -> bool {
    for slot in plots.iter_mut().flat_map(|p| &mut p.slots).filter(|s| s.finished) {
        if pool.available() >= needed {
            break;
        }
        slot.clear(pool);
    }
    pool.available() >= needed
}
