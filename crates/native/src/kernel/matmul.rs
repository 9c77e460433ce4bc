//! Matrix products: rows of activations against a weight matrix that was packed once.
//!
//! Weights lie in panels of 32 outputs: for each input, the 32 weights that it meets, side by side. A tile of up to six
//! rows keeps its 6 x 32 results in registers while it walks the panel. Each result is one chain of multiply-adds over the
//! inputs in order, whichever tile height it is computed in: a row's result does not depend on its neighbours.

use rayon::prelude::*;

use super::isa::{Isa, multiversion};
use super::lanes::{LANES, Lanes};
use crate::load::Tensor;

/// Outputs in a panel.
pub(crate) const PANEL: usize = 2 * LANES;
/// Rows in the tallest tile.
const TILE: usize = 6;

type PanelRow = [Lanes; 2];

/// A weight matrix, laid out for [`matmul`].
#[derive(Debug)]
pub(crate) struct Packed {
    inputs: usize,
    outputs: usize,
    panels: Vec<PanelRow>,
}

impl Packed {
    /// Packs matrices of the same width, one below the other, as a single one.
    pub fn stack(parts: &[Tensor<'_>]) -> Self {
        let inputs = parts[0].shape[1];
        let outputs = parts.iter().map(|t| t.shape[0]).sum();
        let mut panels = vec![[Lanes::ZERO; 2]; inputs * usize::div_ceil(outputs, PANEL)];
        let mut row = vec![0.0; inputs];
        let mut output = 0;
        for part in parts {
            for i in 0..part.shape[0] {
                part.rows_to_f32(i, 1, &mut row);
                let (panel, lane) = (output / PANEL, output % PANEL);
                for (input, &weight) in row.iter().enumerate() {
                    panels[panel * inputs + input][lane / LANES].0[lane % LANES] = weight;
                }
                output += 1;
            }
        }
        Packed { inputs, outputs, panels }
    }

    pub fn outputs(&self) -> usize {
        self.outputs
    }

    /// The weights of one output, as an embedding table wants them.
    pub fn output(&self, index: usize, into: &mut [f32]) {
        let (panel, lane) = (index / PANEL, index % PANEL);
        let rows = &self.panels[panel * self.inputs..][..self.inputs];
        for (value, row) in into.iter_mut().zip(rows) {
            *value = row[lane / LANES].0[lane % LANES];
        }
    }
}

/// The result of a [`matmul`]: panel by panel, so that threads write apart from each other.
#[derive(Debug, Default)]
pub(crate) struct Panels {
    data: Vec<f32>,
    rows: usize,
    outputs: usize,
}

impl Panels {
    /// Calls `f(first output, values)` for each stretch of a row.
    pub fn row(&self, row: usize, mut f: impl FnMut(usize, &[f32])) {
        for (panel, values) in self.data.chunks(self.rows * PANEL).enumerate() {
            let first = panel * PANEL;
            let width = PANEL.min(self.outputs - first);
            f(first, &values[row * PANEL..][..width]);
        }
    }

    pub fn copy_row(&self, row: usize, into: &mut [f32]) {
        self.row(row, |first, values| into[first..first + values.len()].copy_from_slice(values));
    }
}

/// `out[r] = W x[r]` for every row of `x`.
pub(crate) fn matmul(isa: Isa, weights: &Packed, x: &[f32], out: &mut Panels) {
    let (rows, inputs) = (x.len() / weights.inputs, weights.inputs);
    out.rows = rows;
    out.outputs = weights.outputs;
    out.data.resize(rows * PANEL * usize::div_ceil(weights.outputs, PANEL), 0.0);
    let panels = weights.panels.par_chunks(inputs);
    out.data
        .par_chunks_mut(rows * PANEL)
        .zip(panels)
        .for_each(|(out, panel)| multiply_panel(isa, x, panel, out));
}

multiversion! {
    /// All rows against one panel.
    fn multiply_panel(x: &[f32], panel: &[PanelRow], out: &mut [f32]) = multiply_panel_lanes
}

#[inline(always)]
fn multiply_panel_lanes<const FMA: bool>(x: &[f32], panel: &[PanelRow], out: &mut [f32]) {
    let inputs = panel.len();
    for (x, out) in x.chunks(TILE * inputs).zip(out.chunks_mut(TILE * PANEL)) {
        match x.len() / inputs {
            6 => tile::<6, FMA>(x, panel, out),
            5 => tile::<5, FMA>(x, panel, out),
            4 => tile::<4, FMA>(x, panel, out),
            3 => tile::<3, FMA>(x, panel, out),
            2 => tile::<2, FMA>(x, panel, out),
            _ => tile::<1, FMA>(x, panel, out),
        }
    }
}

#[inline(always)]
fn tile<const ROWS: usize, const FMA: bool>(x: &[f32], panel: &[PanelRow], out: &mut [f32]) {
    let inputs = panel.len();
    let rows: [&[f32]; ROWS] = std::array::from_fn(|r| &x[r * inputs..][..inputs]);
    let mut sums = [[Lanes::ZERO; 2]; ROWS];
    for (i, weights) in panel.iter().enumerate() {
        for r in 0..ROWS {
            let value = rows[r][i];
            sums[r][0].add_product::<FMA>(value, &weights[0]);
            sums[r][1].add_product::<FMA>(value, &weights[1]);
        }
    }
    for (sums, out) in sums.iter().zip(out.chunks_mut(PANEL)) {
        out[..LANES].copy_from_slice(&sums[0].0);
        out[LANES..].copy_from_slice(&sums[1].0);
    }
}
