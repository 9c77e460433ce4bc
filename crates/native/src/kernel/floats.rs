//! Weights as floats: for each input, the 32 weights of a panel that it meets, side by side.

use rayon::prelude::*;

use super::isa::{Isa, multiversion};
use super::lanes::{LANES, Lanes};
use super::matmul::{PANEL, TILE};
use crate::load::Tensor;

type PanelRow = [Lanes; 2];

#[derive(Debug)]
pub(super) struct FloatPanels {
    inputs: usize,
    rows: Vec<PanelRow>,
}

impl FloatPanels {
    pub fn pack(inputs: usize, outputs: usize, parts: &[Tensor<'_>]) -> Self {
        let mut rows = vec![[Lanes::ZERO; 2]; inputs * outputs.div_ceil(PANEL)];
        let every: Vec<(&Tensor<'_>, usize)> =
            parts.iter().flat_map(|part| (0..part.shape[0]).map(move |row| (part, row))).collect();
        rows.par_chunks_mut(inputs).zip(every.par_chunks(PANEL)).for_each(|(rows, outputs)| {
            let mut weights = vec![0.0; inputs];
            for (lane, (part, row)) in outputs.iter().enumerate() {
                part.rows_to_f32(*row, 1, &mut weights);
                for (row, &weight) in rows.iter_mut().zip(&weights) {
                    row[lane / LANES].0[lane % LANES] = weight;
                }
            }
        });
        FloatPanels { inputs, rows }
    }

    pub fn output(&self, index: usize, into: &mut [f32]) {
        let (panel, lane) = (index / PANEL, index % PANEL);
        for (value, row) in into.iter_mut().zip(&self.rows[panel * self.inputs..]) {
            *value = row[lane / LANES].0[lane % LANES];
        }
    }

    /// All rows of `x` against one panel.
    pub fn multiply(&self, isa: Isa, panel: usize, x: &[f32], out: &mut [f32]) {
        multiply_panel(isa, x, &self.rows[panel * self.inputs..][..self.inputs], out);
    }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::rows::tests::{near, numbers};
    use crate::load::DType;
    use proptest::prelude::*;

    fn multiply(isa: Isa, panels: &FloatPanels, x: &[f32]) -> Vec<f32> {
        let (rows, count) = (x.len() / panels.inputs, panels.rows.len() / panels.inputs);
        let mut out = vec![f32::NAN; rows * PANEL * count];
        for (panel, out) in out.chunks_mut(rows * PANEL).enumerate() {
            panels.multiply(isa, panel, x, out);
        }
        out
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

        /// Against plain loops in double precision. Those who fuse agree to the last bit, and a row in company with
        /// the same row alone.
        #[test]
        fn panels_multiply(seed: u64, rows in 1usize..20, inputs in 1usize..100, outputs in 1usize..100) {
            let (weights, x) = (numbers(seed, 0, outputs * inputs), numbers(seed, 1, rows * inputs));
            let shape = vec![outputs, inputs];
            let tensor = Tensor { dtype: DType::F32, shape, data: bytemuck::cast_slice(&weights) };
            let panels = FloatPanels::pack(inputs, outputs, &[tensor]);
            let mut fused: Option<Vec<f32>> = None;
            for isa in Isa::available() {
                let out = multiply(isa, &panels, &x);
                for (r, x) in x.chunks(inputs).enumerate() {
                    let alone = multiply(isa, &panels, x);
                    for (o, weights) in weights.chunks(inputs).enumerate() {
                        let (panel, lane) = (o / PANEL, o % PANEL);
                        let got = out[(panel * rows + r) * PANEL + lane];
                        let products = || x.iter().zip(weights).map(|(&x, &w)| f64::from(x) * f64::from(w));
                        let (want, size) = (products().sum::<f64>(), products().map(f64::abs).sum());
                        prop_assert!(near(got, want, size, 1e-5), "{isa}: {got} for {want}");
                        prop_assert_eq!(got.to_bits(), alone[panel * PANEL + lane].to_bits(), "{} alone", isa);
                    }
                }
                if isa.to_string() != "portable" {
                    prop_assert!(fused.get_or_insert(out.clone()) == &out, "{isa} differs from a wider unit");
                }
            }
            let mut got = vec![f32::NAN; inputs];
            for (o, weights) in weights.chunks(inputs).enumerate() {
                panels.output(o, &mut got);
                prop_assert_eq!(&got, weights);
            }
        }
    }
}
