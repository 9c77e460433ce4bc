//! A feed-forward layer of experts, of which every token uses a few.
//!
//! A small matrix, the router, scores the experts for a row; the best few work on it, and their results are added with
//! weights. Rows are sorted by expert, so that an expert's weights are read once a step for all rows that need it. What a
//! row gets does not depend on who else is there: its experts do the same operations, and are added in the order of their
//! scores.

use crate::forward::{Forward, Residual, Scratch};
use crate::kernel::{
    Gate, Group, Input, Packed, Results, Route, limited_swiglu, matmul, matmul_grouped, route,
};
use crate::load::{ExpertPart, Experts, LoadError};
use crate::model::{Layer, Packing};
use crate::phases::Phase;

#[derive(Debug)]
pub(crate) struct Mixture {
    /// How many experts a row uses.
    used: usize,
    gate: Gate,
    router: Packed,
    router_bias: Vec<f32>,
    /// Of each expert.
    gate_up: Vec<Packed>,
    down: Vec<Packed>,
    /// Of all experts, one after the other.
    gate_bias: Vec<f32>,
    up_bias: Vec<f32>,
    down_bias: Vec<f32>,
}

impl Mixture {
    pub fn load(pack: &Packing<'_>, layer: usize, experts: Experts) -> Result<Self, LoadError> {
        let Packing { checkpoint, isa } = *pack;
        let (mut gate_up, mut down) = (Vec::new(), Vec::new());
        // Where the file has experts otherwise, they are put together here.
        let mut buffers = [Vec::new(), Vec::new(), Vec::new()];
        for expert in 0..experts.count {
            let [one, two, three] = &mut buffers;
            let gate = checkpoint.expert(layer, ExpertPart::Gate, expert, one)?;
            let up = checkpoint.expert(layer, ExpertPart::Up, expert, two)?;
            gate_up.push(Packed::stack(isa, &[gate, up]));
            down.push(Packed::stack(isa, &[checkpoint.expert(layer, ExpertPart::Down, expert, three)?]));
        }
        checkpoint.let_experts_go(layer);
        Ok(Mixture {
            used: experts.used,
            gate: Gate { alpha: experts.alpha, limit: experts.limit },
            router: pack.matrix(&format!("blk.{layer}.ffn_gate_inp"))?,
            router_bias: pack.vector(&format!("blk.{layer}.ffn_gate_inp.bias"))?,
            gate_up,
            down,
            gate_bias: checkpoint.expert_bias(layer, ExpertPart::Gate)?,
            up_bias: checkpoint.expert_bias(layer, ExpertPart::Up)?,
            down_bias: checkpoint.expert_bias(layer, ExpertPart::Down)?,
        })
    }

    pub fn bytes(&self) -> usize {
        let experts = self.gate_up.iter().chain(&self.down);
        self.router.bytes() + experts.map(Packed::bytes).sum::<usize>()
    }
}

/// A row on its way to one expert.
#[derive(Debug, Clone, Copy)]
struct Visit {
    row: usize,
    /// Which of the row's experts it is.
    rank: usize,
    expert: usize,
}

/// Buffers that experts need, kept from step to step.
#[derive(Debug, Default)]
pub(crate) struct Mixing {
    /// Of all rows, one after the other: the experts of each, best first.
    routes: Vec<Route>,
    /// The same, sorted by expert.
    visits: Vec<Visit>,
    groups: Vec<Group>,
    /// For each route, where its visit is.
    places: Vec<usize>,
    input: Input,
    product: Results,
}

impl Mixing {
    /// Sends every row to its experts.
    fn send(&mut self, mixture: &Mixture, rows: usize, scores: &Results) {
        let used = mixture.used;
        self.routes.clear();
        for row in 0..rows {
            route(scores.row(row), &mixture.router_bias, used, &mut self.routes);
        }
        let visit =
            |(at, route): (usize, &Route)| Visit { row: at / used, rank: at % used, expert: route.expert };
        self.visits.clear();
        self.visits.extend(self.routes.iter().enumerate().map(visit));
        self.visits.sort_unstable_by_key(|visit| (visit.expert, visit.row, visit.rank));
        self.groups.clear();
        self.places.resize(self.routes.len(), 0);
        for (at, visit) in self.visits.iter().enumerate() {
            self.places[visit.row * used + visit.rank] = at;
            match self.groups.last_mut() {
                Some(group) if group.weights == visit.expert => group.rows.end += 1,
                _ => self.groups.push(Group { weights: visit.expert, rows: at..at + 1 }),
            }
        }
    }
}

impl Forward<'_> {
    pub(crate) fn mix(&mut self, layer: &Layer, mixture: &Mixture, before: Residual<'_>) {
        let (isa, threads) = (self.model.isa, self.threads);
        let (hidden, ffn) = (self.model.config.hidden, self.model.config.ffn);
        self.normalise(&layer.ffn_norm, &mixture.router, before);
        let Scratch { watch, input, product, mixing, .. } = &mut *self.scratch;
        let rows = input.rows();
        matmul(threads, isa, &mixture.router, input, product);
        mixing.send(mixture, rows, product);
        let Mixing { routes, visits, groups, places, input: visitors, product: found } = mixing;

        visitors.fill(threads, isa, visits.len(), &mixture.gate_up[0], |at, into| {
            into.copy_from_slice(input.row(visits[at].row));
        });
        watch.lap(Phase::Between);
        matmul_grouped(threads, isa, &mixture.gate_up, groups, visitors, found);
        watch.lap(Phase::Matrices);
        visitors.fill(threads, isa, visits.len(), &mixture.down[0], |at, into| {
            let (gate, up) = found.row(at).split_at(ffn);
            let own = visits[at].expert * ffn..(visits[at].expert + 1) * ffn;
            let biases = [&mixture.gate_bias[own.clone()], &mixture.up_bias[own]];
            limited_swiglu(isa, [gate, up], biases, mixture.gate, into);
        });
        watch.lap(Phase::Between);
        matmul_grouped(threads, isa, &mixture.down, groups, visitors, found);
        watch.lap(Phase::Matrices);

        product.resize(rows, hidden);
        let product = product.shared();
        threads.run(rows, |_, row| {
            // SAFETY: every row is in one task only.
            let into = unsafe { product.row(row) };
            into.fill(0.0);
            for at in row * mixture.used..(row + 1) * mixture.used {
                let Route { expert, weight } = routes[at];
                let bias = &mixture.down_bias[expert * hidden..][..hidden];
                let found = found.row(places[at]);
                for ((into, found), bias) in into.iter_mut().zip(found).zip(bias) {
                    *into += weight * (found + bias);
                }
            }
        });
        watch.lap(Phase::Between);
    }
}
