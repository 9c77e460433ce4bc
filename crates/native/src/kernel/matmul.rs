//! Matrix products: rows of activations against a weight matrix that was packed once.
//!
//! Weights lie in panels of 32 outputs. Two packings exist: floats for everything ([`floats`](super::floats)), and bytes
//! for Q8_0 weights on machines with a dot product of bytes ([`bytes`](super::bytes)). In both, a result is one chain of
//! operations over the inputs in order, whichever rows are computed beside it: a row's result does not depend on its
//! neighbours.

use rayon::prelude::*;

use super::bytes::{BytePanels, ByteRows};
use super::floats::FloatPanels;
use super::isa::Isa;
use super::lanes::LANES;
use crate::load::{DType, Tensor};

/// Outputs in a panel.
pub(super) const PANEL: usize = 2 * LANES;
/// Rows in the tallest tile: their 6 x 32 results stay in registers while a panel is walked.
pub(super) const TILE: usize = 6;

/// A weight matrix, laid out for [`matmul`].
#[derive(Debug)]
pub(crate) struct Packed {
    inputs: usize,
    outputs: usize,
    panels: Layout,
}

#[derive(Debug)]
enum Layout {
    Floats(FloatPanels),
    Bytes(BytePanels),
}

impl Packed {
    /// Packs matrices of the same width, one below the other, as a single one.
    pub fn stack(isa: Isa, parts: &[Tensor<'_>]) -> Self {
        if !isa.has_byte_dot() || parts.iter().any(|t| t.dtype != DType::Q8_0) {
            return Self::floats(parts);
        }
        let (inputs, outputs) = size(parts);
        Packed { inputs, outputs, panels: Layout::Bytes(BytePanels::pack(inputs, outputs, parts)) }
    }

    /// As [`Packed::stack`], but never with bytes: nothing is rounded.
    pub fn floats(parts: &[Tensor<'_>]) -> Self {
        let (inputs, outputs) = size(parts);
        Packed { inputs, outputs, panels: Layout::Floats(FloatPanels::pack(inputs, outputs, parts)) }
    }

    pub fn outputs(&self) -> usize {
        self.outputs
    }

    /// The weights of one output, as an embedding table wants them.
    pub fn output(&self, index: usize, into: &mut [f32]) {
        match &self.panels {
            Layout::Floats(panels) => panels.output(index, into),
            Layout::Bytes(panels) => panels.output(index, into),
        }
    }
}

/// Inputs and outputs of matrices that are stacked.
fn size(parts: &[Tensor<'_>]) -> (usize, usize) {
    (parts[0].shape[1], parts.iter().map(|t| t.shape[0]).sum())
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
    out.rows = x.len() / weights.inputs;
    out.outputs = weights.outputs;
    out.data.resize(out.rows * PANEL * weights.outputs.div_ceil(PANEL), 0.0);
    let panels = out.data.par_chunks_mut(out.rows * PANEL).enumerate();
    match &weights.panels {
        Layout::Floats(weights) => panels.for_each(|(panel, out)| weights.multiply(isa, panel, x, out)),
        Layout::Bytes(weights) => {
            let x = ByteRows::quantise(isa, x, weights.inputs());
            panels.for_each(|(panel, out)| weights.multiply(isa, panel, &x, out));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::bytes::tests::{dot, q8_0};
    use crate::kernel::rows::tests::{near, numbers};
    use proptest::prelude::*;

    fn multiply(isa: Isa, weights: &Packed, x: &[f32], panels: &mut Panels) -> Vec<Vec<f32>> {
        matmul(isa, weights, x, panels);
        let rows = x.len() / weights.inputs;
        let copy = |row| {
            let mut out = vec![f32::NAN; weights.outputs()];
            panels.copy_row(row, &mut out);
            out
        };
        (0..rows).map(copy).collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

        /// Some parts of floats, some of bytes, one below the other.
        #[test]
        fn stacked_matrices_multiply(
            seed: u64,
            rows in 1usize..20,
            blocks in 1usize..4,
            parts in prop::collection::vec((1usize..50, any::<bool>()), 1..4),
            all_bytes: bool,
        ) {
            let inputs = 32 * blocks;
            let data = |(name, &(outputs, bytes)): (u64, &(usize, bool))| match bytes || all_bytes {
                true => (DType::Q8_0, outputs, q8_0(seed, name, outputs, inputs)),
                false => {
                    let floats = numbers(seed, name, outputs * inputs);
                    (DType::F32, outputs, bytemuck::cast_slice(&floats).to_vec())
                }
            };
            let data: Vec<(DType, usize, Vec<u8>)> = (1..).zip(&parts).map(data).collect();
            let tensors: Vec<Tensor<'_>> = data
                .iter()
                .map(|(dtype, outputs, data)| Tensor { dtype: *dtype, shape: vec![*outputs, inputs], data })
                .collect();
            // Every output: its weights, and the bytes they come from.
            let plain: Vec<f32> = tensors.iter().flat_map(Tensor::to_f32).collect();
            let plain: Vec<&[f32]> = plain.chunks(inputs).collect();
            let stored: Vec<&[u8]> = tensors.iter().flat_map(|t| t.data.chunks(t.row_bytes())).collect();
            let only_bytes = tensors.iter().all(|t| t.dtype == DType::Q8_0);

            let x = numbers(seed, 0, rows * inputs);
            // Used again and again, as in a run: what an earlier product left must not show.
            let mut panels = Panels::default();
            for isa in Isa::available() {
                let weights = Packed::stack(isa, &tensors);
                prop_assert_eq!(weights.outputs(), plain.len());
                let mut output = vec![f32::NAN; inputs];
                for (o, &plain) in plain.iter().enumerate() {
                    weights.output(o, &mut output);
                    prop_assert_eq!(&output, plain, "{}", isa);
                }
                let together = multiply(isa, &weights, &x, &mut panels);
                for (x, got) in x.chunks(inputs).zip(together) {
                    for (o, &got) in got.iter().enumerate() {
                        let (want, size) = if only_bytes && isa.has_byte_dot() {
                            dot(x, stored[o])
                        } else {
                            let terms = || x.iter().zip(plain[o]).map(|(&x, &w)| f64::from(x) * f64::from(w));
                            (terms().sum(), terms().map(f64::abs).sum())
                        };
                        prop_assert!(near(got, want, size, 1e-5), "{isa}: {got} for {want}");
                    }
                    let alone = multiply(isa, &weights, x, &mut panels);
                    let bits = |row: &[f32]| row.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
                    prop_assert_eq!(bits(&got), bits(&alone[0]), "{} alone", isa);
                }
            }
        }
    }
}
