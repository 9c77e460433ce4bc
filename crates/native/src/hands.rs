//! Who computes which rows of a step.
//!
//! *Together*, all threads share out every product: each weight is prepared once for all rows. But then what a thread has computed
//! is read by the others, several times a layer, and every time all wait for the last. *Apart*, each thread takes some of the
//! sequences through all layers by itself: nothing goes from processor to processor, and nobody waits before the end, but every
//! thread prepares all weights.
//!
//! Which is faster depends on how far the processors are from each other, and on a virtual machine that changes from one minute to
//! the next. So both are tried. A row's results are the same to the last bit, whoever computes it in whatever company.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use eager_core::{Settings, Token};

use crate::forward::{Forward, Plans, Scratch};
use crate::kernel::{Isa, KvType};
use crate::model::{Batch, Model, Row};
use crate::pace::Pace;
use crate::pages::{Pool, SharedPages};
use crate::phases::{Phase, Phases, Stopwatch};
use crate::sampler::{Ask, Draw, Sampler};
use crate::scheduler::{Pick, Plot};
use crate::threads::Threads;
use crate::token_rules::Rules;

/// Rows that a thread should have by itself: for fewer, `winograd` would not prepare weights.
const LEAST_ROWS: usize = 12;
/// Rows that kernels multiply together.
const TILE: usize = 4;

/// Rows that are computed together, and what that takes. The memory is kept: a step in which nobody begins or ends allocates nothing.
#[derive(Debug)]
struct Hand {
    batch: Batch,
    plans: Plans,
    asks: Vec<Ask>,
    /// The tokens of the sequences that have rules about what came before, one after another.
    paths: Vec<Token>,
    sampler: Sampler,
    scratch: Scratch,
}

/// All that a pass needs beside rows.
#[derive(Debug, Clone, Copy)]
struct Pass<'a> {
    model: &'a Model,
    threads: &'a Threads,
    kv: KvType,
    pool: SharedPages<'a>,
}

impl Hand {
    fn new(model: &Model) -> Self {
        Hand {
            batch: Batch::default(),
            plans: Plans::new(model),
            asks: Vec::new(),
            paths: Vec::new(),
            sampler: Sampler::default(),
            scratch: Scratch::default(),
        }
    }

    fn take(&mut self, picks: &[Pick], plots: &[Plot]) {
        let Hand { batch, asks, paths, .. } = self;
        batch.clear();
        asks.clear();
        paths.clear();
        for pick in picks {
            let plot = &plots[pick.plot];
            let slot = &plot.slots[pick.slot];
            let end = slot.table.len();
            let table = batch.tables.add(slot.table.pages());
            let row = |position| Row {
                token: slot.tokens[position],
                position,
                table,
                logits: pick.completes && position + 1 == end,
            };
            batch.add((end - pick.tokens..end).map(row));
            if pick.completes {
                let sequence = plot.grove.tree().get(slot.id);
                let Settings { top_k, sampling, .. } = **plot.grove.settings();
                let rules = Rules::of(plot.grove.settings(), plot.grove.prompt().len(), &slot.tokens, paths);
                asks.push(Ask { top_k, sampling, uniform: sequence.key.uniform(sequence.len()), rules });
            }
        }
    }

    /// Computes its rows and reads their logits. False when some are not numbers.
    fn compute(&mut self, Pass { model, threads, kv, pool }: Pass<'_>) -> bool {
        let Hand { batch, plans, asks, paths, sampler, scratch } = self;
        let mut pass = Forward { model, threads, kv, pool, scratch };
        // SAFETY: a page to which a sequence's rows write is that sequence's alone: its table was grown for them, and `Table::grow`
        // copies what is shared. All rows of a sequence are one hand's.
        let logits = unsafe { pass.run(batch, plans) };
        let sound = sampler.read(threads, model.isa, logits, (asks, paths));
        self.scratch.watch.lap(Phase::Sample);
        sound
    }
}

/// All hands: one, or as many as there are threads.
#[derive(Debug)]
pub(crate) struct Hands {
    hands: Vec<Hand>,
    /// For a thread that computes a hand by itself: nobody else takes part.
    alone: Threads,
    /// How many have rows in this step.
    busy: usize,
    /// Together, or apart.
    pace: Pace,
}

impl Hands {
    pub fn new(model: &Model) -> Self {
        Hands { hands: vec![Hand::new(model)], alone: Threads::alone(), busy: 0, pace: Pace::default() }
    }

    /// The first hand's is everybody's: it has rows in every step.
    pub fn watch(&mut self) -> &mut Stopwatch {
        &mut self.hands[0].scratch.watch
    }

    pub fn phases(&self) -> Phases {
        self.hands[0].scratch.watch.phases.clone()
    }

    /// Computes the picked rows and reads the logits of the sequences that are complete. False when some are not numbers.
    pub fn compute(
        &mut self,
        model: &Model,
        threads: &Threads,
        kv: KvType,
        pool: &mut Pool,
        (picks, plots): (&[Pick], &[Plot]),
    ) -> bool {
        let begun = Instant::now();
        let choice = may_part(model.isa, threads.count(), picks);
        let hands = if choice && self.pace.goes_second() { threads.count() } else { 1 };
        self.hands.resize_with(self.hands.len().max(hands), || Hand::new(model));
        self.busy = hands;
        for (at, hand) in self.hands[..hands].iter_mut().enumerate() {
            let first = |hand: usize| picks.len().min(picks.len().div_ceil(TILE) * hand / hands * TILE);
            hand.take(&picks[first(at)..first(at + 1)], plots);
        }
        self.watch().lap(Phase::Schedule);
        let pass = Pass { model, threads, kv, pool: pool.shared() };
        let sound = match &mut self.hands[..self.busy] {
            [hand] => hand.compute(pass),
            hands => apart(hands, threads, Pass { threads: &self.alone, ..pass }),
        };
        if choice {
            self.pace.took(begun.elapsed(), picks.len());
        }
        sound
    }

    /// What was drawn, in the order of the picks that were complete.
    pub fn draws(&self) -> impl Iterator<Item = &Draw> {
        self.hands[..self.busy].iter().flat_map(|hand| hand.sampler.draws())
    }
}

/// Are there two ways to compute these rows? Only where every sequence decodes: a prompt's rows belong together. And a matrix unit
/// wants as many rows as it can get for the weights that it prepared.
fn may_part(isa: Isa, threads: usize, picks: &[Pick]) -> bool {
    let decodes = |pick: &Pick| pick.tokens == 1 && pick.completes;
    threads > 1 && !isa.has_matrix_unit() && picks.len() >= LEAST_ROWS * threads && picks.iter().all(decodes)
}

/// Every hand is computed by one of the threads.
fn apart(hands: &mut [Hand], threads: &Threads, pass: Pass<'_>) -> bool {
    let sound = AtomicBool::new(true);
    threads.chunks(hands, 1, |_, _, hand| {
        if !hand[0].compute(pass) {
            sound.store(false, Ordering::Relaxed);
        }
    });
    // What the first waited for the others.
    hands[0].scratch.watch.lap(Phase::Between);
    sound.into_inner()
}
