//! Which sequences run in the next step, and whose memory they run in.
//!
//! Sequences have an order of precedence: older groves first, and within a grove shorter paths first, then older ones.
//! It is the order in which strategies decide forks, so the first of a grove never waits for another. A sequence whose
//! pages were taken is *set aside*; later it shares what it can from its relatives and computes the rest again, like a
//! prompt. Under scarce memory a run slows down but does not stall: when all who have pages wait for one who has none,
//! it gets theirs.

use eager_core::{Grove, SeqId, Token};

use crate::kernel::PAGE;
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
    /// Its pages were taken, and it has not come back yet.
    pub evicted: bool,
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
    /// Rows of one sequence's prompt while others decode.
    pub chunk: usize,
}

impl Slot {
    fn missing(&self) -> usize {
        self.tokens.len() - self.table.len()
    }

    fn is_runnable(&self) -> bool {
        !self.finished && self.held.is_none()
    }

    /// What sequences of a grove are ordered by.
    fn precedence(&self) -> (usize, SeqId) {
        (self.tokens.len(), self.id)
    }

    /// Waits for memory after its pages were taken.
    pub fn is_set_aside(&self) -> bool {
        self.evicted && !self.finished
    }

    /// Gives its pages back.
    pub fn clear(&mut self, pool: &mut Pool) {
        self.table.clear(pool);
        self.computed = 0;
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
                evicted: false,
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

    /// The slots of sequences whose last step is not decided yet, in order of precedence.
    pub fn held(&self) -> Vec<usize> {
        let mut held: Vec<usize> = (0..self.slots.len()).filter(|&i| self.slots[i].held.is_some()).collect();
        held.sort_by_key(|&i| self.slots[i].precedence());
        held
    }

    /// The relative with which a slot shares most.
    fn source(&self, slot: usize) -> Source {
        let wanted = &self.slots[slot];
        let prompt = self.grove.prompt().len();
        // At least one token must be computed: its logits are what is asked for.
        let most = wanted.tokens.len() - 1;
        let mut best = Source { slot, shared: 0, promised: 0 };
        for (at, other) in self.slots.iter().enumerate().filter(|(_, s)| s.table.len() > 0) {
            let common = (prompt + self.grove.tree().common(wanted.id, other.id)).min(most);
            let ready = common.min(other.computed);
            if ready > best.shared {
                best = Source { slot: at, shared: ready, ..best };
            }
            if other.is_runnable() && other.computed < common {
                best.promised = best.promised.max(common.min(other.tokens.len()));
            }
        }
        best
    }
}

/// Where a sequence can get the beginning of its path.
#[derive(Debug, Clone, Copy)]
struct Source {
    slot: usize,
    /// Tokens that can be shared now.
    shared: usize,
    /// Tokens that could be shared once a relative has computed what it is about to.
    promised: usize,
}

/// A sequence: its plot, and its slot there.
type Who = (usize, usize);

/// The rows of a step. Its memory is kept for the next.
#[derive(Debug, Default)]
pub(crate) struct Schedule {
    /// Live sequences that have pages, in order of precedence.
    resident: Vec<Who>,
    /// Those without that want to run.
    absent: Vec<Who>,
    picks: Vec<Pick>,
}

impl Schedule {
    /// Who runs, in the order in which strategies want to decide: by position.
    pub fn picks(&self) -> &[Pick] {
        &self.picks
    }

    /// Chooses the rows of the next step and makes room for them.
    ///
    /// Whoever has pages goes on; whoever has none comes in where there is room to spare. Only when nobody else can run does
    /// a sequence get pages at the cost of another, for every such change means computing a path again. The error is the
    /// length of a sequence that does not fit though it has all pages to itself.
    pub fn choose(&mut self, plots: &mut [Plot], pool: &mut Pool, limits: Limits) -> Result<(), usize> {
        self.list(plots);
        let Schedule { resident, absent, picks } = self;
        // A long step makes those wait who have a token to come; without them, the longer it is the faster a prompt is done.
        let decodes = |&(p, s): &Who| {
            let slot: &Slot = &plots[p].slots[s];
            slot.is_runnable() && slot.missing() == 1
        };
        let chunk = if resident.iter().any(decodes) { limits.chunk } else { limits.rows };
        let mut step = Step { plots, pool, chunk, rows: limits.rows, picks };
        for (at, &who) in resident.iter().enumerate() {
            // Those before it that do not run are waiting; they are disturbed only for the sake of somebody who can run.
            let first = step.picks.is_empty();
            let before = if first { &resident[..at] } else { &[] };
            if step.is_runnable(who) && !step.pick(who, before.iter().chain(&resident[at + 1..])) {
                if first {
                    return Err(step.tokens(who));
                }
                break;
            }
        }
        let going = step.picks.len();
        for &who in &*absent {
            if step.rows == 0 {
                break;
            }
            let forced = step.picks.is_empty();
            let came = step.bring_in(who, going, forced);
            if came && step.pick(who, if forced { resident.iter() } else { [].iter() }) {
                continue;
            }
            // Nobody keeps pages without running: whoever runs would have to copy what it shares with them.
            step.leave(who);
            if forced {
                return Err(step.tokens(who));
            }
        }
        picks.sort_unstable_by_key(|p| (p.plot, plots[p.plot].slots[p.slot].precedence()));
        Ok(())
    }

    /// Lists everybody anew.
    fn list(&mut self, plots: &[Plot]) {
        let Schedule { resident, absent, picks } = self;
        resident.clear();
        absent.clear();
        picks.clear();
        for (p, plot) in plots.iter().enumerate() {
            for (s, slot) in plot.slots.iter().enumerate().filter(|(_, slot)| !slot.finished) {
                if slot.table.len() > 0 {
                    resident.push((p, s));
                } else if slot.is_runnable() {
                    absent.push((p, s));
                }
            }
        }
        for all in [resident, absent] {
            all.sort_unstable_by_key(|&(p, s)| (p, plots[p].slots[s].precedence()));
        }
    }
}

/// A step in the making.
struct Step<'a> {
    plots: &'a mut [Plot],
    pool: &'a mut Pool,
    /// Rows that one sequence may take.
    chunk: usize,
    /// Rows left.
    rows: usize,
    picks: &'a mut Vec<Pick>,
}

impl Step<'_> {
    fn is_runnable(&self, (plot, slot): Who) -> bool {
        self.plots[plot].slots[slot].is_runnable()
    }

    fn tokens(&self, (plot, slot): Who) -> usize {
        self.plots[plot].slots[slot].tokens.len()
    }

    fn leave(&mut self, (plot, slot): Who) {
        self.plots[plot].slots[slot].clear(self.pool);
    }

    /// Gives a sequence without pages what its relatives have in common with it, if it is worth running now.
    fn bring_in(&mut self, (plot, slot): Who, going: usize, forced: bool) -> bool {
        let Source { slot: source, shared, promised } = self.plots[plot].source(slot);
        // Waiting for a relative is cheaper than computing the same twice.
        if !forced && promised > shared {
            return false;
        }
        // Shared first, so that reclaiming the relative's pages cannot take them away.
        let table = self.plots[plot].slots[source].table.share(self.pool, shared);
        let newcomer = &mut self.plots[plot].slots[slot];
        newcomer.computed = table.len();
        newcomer.table = table;
        // It must leave the others room for a page each, or somebody would have to leave again soon.
        let needed = newcomer.missing().div_ceil(PAGE) + 1 + going;
        forced || needed <= self.pool.available() || reclaim_finished(self.plots, self.pool, needed)
    }

    /// Takes a sequence into the step, with pages from `victims` (the last first) where it must.
    fn pick<'v>(&mut self, (plot, slot): Who, victims: impl DoubleEndedIterator<Item = &'v Who>) -> bool {
        let tokens = self.plots[plot].slots[slot].missing().min(self.chunk).min(self.rows);
        if tokens == 0 {
            return false;
        }
        let mut victims = victims.rev();
        loop {
            let needed = self.plots[plot].slots[slot].table.pages_to_grow(self.pool, tokens);
            if needed <= self.pool.available() {
                break;
            }
            // A relative that gives up its share may also spare this one a copy: count again.
            if !reclaim_one(self.plots, self.pool) {
                let Some(&(p, s)) = victims.next() else { return false };
                self.plots[p].slots[s].clear(self.pool);
                self.plots[p].slots[s].evicted = true;
            }
        }
        let chosen = &mut self.plots[plot].slots[slot];
        if chosen.table.grow(self.pool, tokens).is_err() {
            return false;
        }
        chosen.evicted = false;
        self.rows -= tokens;
        self.picks.push(Pick { plot, slot, tokens, completes: chosen.missing() == 0 });
        true
    }
}

/// Frees what one finished sequence still holds, if there is such a one.
fn reclaim_one(plots: &mut [Plot], pool: &mut Pool) -> bool {
    let mut slots = plots.iter_mut().flat_map(|p| &mut p.slots);
    let found = slots.find(|s| s.finished && s.table.len() > 0);
    found.map(|slot| slot.clear(pool)).is_some()
}

/// Frees what finished sequences still hold, until so many pages are available.
fn reclaim_finished(plots: &mut [Plot], pool: &mut Pool, needed: usize) -> bool {
    while pool.available() < needed {
        if !reclaim_one(plots, pool) {
            return false;
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use eager_core::strategy::FullParallel;
    use eager_core::{Key, Settings};

    use super::*;

    fn plot(prompt: usize) -> Plot {
        let strategy = Box::new(FullParallel { sequences: 1 });
        Plot::new(Grove::new(
            0,
            Key::prompt(0, 0),
            vec![1; prompt].into(),
            Arc::new(Settings::default()),
            strategy,
        ))
    }

    /// Nobody has to wait long for a token because of another's prompt.
    #[test]
    fn a_prompt_takes_all_rows_unless_another_decodes() {
        let mut pool = Pool::new(100, 64);
        let limits = Limits { rows: 256, chunk: 64 };
        let rows = |plots: &mut [Plot], pool: &mut Pool| -> Vec<usize> {
            let mut schedule = Schedule::default();
            schedule.choose(plots, pool, limits).unwrap();
            for pick in schedule.picks() {
                let slot = &mut plots[pick.plot].slots[pick.slot];
                slot.computed = slot.table.len();
            }
            schedule.picks().iter().map(|pick| pick.tokens).collect()
        };
        let mut plots = vec![plot(300)];
        assert_eq!(rows(&mut plots, &mut pool), [256]);
        assert_eq!(rows(&mut plots, &mut pool), [44]);
        // The first token came; another prompt comes in beside it.
        plots[0].slots[0].tokens.push(1);
        plots.push(plot(300));
        assert_eq!(rows(&mut plots, &mut pool), [1, 64]);
    }
}
