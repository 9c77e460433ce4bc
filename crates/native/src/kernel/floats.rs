//! Weights as floats: for each input, the 32 weights of a panel that it meets, side by side. Those that are stored as bfloat16
//! stay that: widening one is a shift.

use rayon::prelude::*;

use super::isa::{Isa, multiversion};
use super::lanes::{LANES, Lanes};
use super::sheet::Columns;
use crate::load::{DType, Tensor};

/// Outputs in a panel.
const PANEL: usize = 2 * LANES;
/// Rows in the tallest tile: their 6 x 32 results stay in registers while a panel is walked.
const TILE: usize = 6;

/// The weights that an input meets in a panel.
trait PanelRow: Copy + Send + Sync {
    const ZERO: Self;

    fn put(&mut self, lane: usize, weight: f32);

    fn lanes(&self) -> [Lanes; 2];
}

impl PanelRow for [Lanes; 2] {
    const ZERO: Self = [Lanes::ZERO; 2];

    fn put(&mut self, lane: usize, weight: f32) {
        self[lane / LANES].0[lane % LANES] = weight;
    }

    #[inline(always)]
    fn lanes(&self) -> [Lanes; 2] {
        *self
    }
}

/// The upper halves of floats whose lower halves are zero.
#[derive(Debug, Clone, Copy)]
#[repr(C, align(64))]
struct Upper([u16; PANEL]);

impl PanelRow for Upper {
    const ZERO: Self = Upper([0; PANEL]);

    fn put(&mut self, lane: usize, weight: f32) {
        self.0[lane] = (weight.to_bits() >> 16) as u16;
    }

    #[inline(always)]
    fn lanes(&self) -> [Lanes; 2] {
        let mut lanes = [Lanes::ZERO; 2];
        for half in 0..2 {
            for i in 0..LANES {
                lanes[half].0[i] = f32::from_bits(u32::from(self.0[half * LANES + i]) << 16);
            }
        }
        lanes
    }
}

#[derive(Debug)]
pub(super) struct FloatPanels {
    inputs: usize,
    rows: Rows,
}

#[derive(Debug)]
enum Rows {
    Whole(Vec<[Lanes; 2]>),
    Upper(Vec<Upper>),
}

impl FloatPanels {
    pub const WIDTH: usize = PANEL;

    pub fn pack(tensor: &Tensor<'_>) -> Self {
        let rows = match tensor.dtype {
            DType::BF16 => Rows::Upper(pack(tensor)),
            _ => Rows::Whole(pack(tensor)),
        };
        FloatPanels { inputs: tensor.cols(), rows }
    }

    pub fn bytes(&self) -> usize {
        match &self.rows {
            Rows::Whole(rows) => size_of_val(rows.as_slice()),
            Rows::Upper(rows) => size_of_val(rows.as_slice()),
        }
    }

    pub fn output(&self, index: usize, into: &mut [f32]) {
        let (panel, lane) = (index / PANEL, index % PANEL);
        let rows = panel * self.inputs..(panel + 1) * self.inputs;
        match &self.rows {
            Rows::Whole(all) => output(&all[rows], lane, into),
            Rows::Upper(all) => output(&all[rows], lane, into),
        }
    }

    /// All rows of `x` against one panel, whose results go to these columns from row `first` on.
    pub fn multiply(&self, isa: Isa, panel: usize, x: &[f32], first: usize, out: &mut Columns<'_>) {
        let rows = panel * self.inputs..(panel + 1) * self.inputs;
        match &self.rows {
            Rows::Whole(all) => multiply_whole(isa, x, &all[rows], first, out),
            Rows::Upper(all) => multiply_upper(isa, x, &all[rows], first, out),
        }
    }
}

fn pack<R: PanelRow>(tensor: &Tensor<'_>) -> Vec<R> {
    let (outputs, inputs) = (tensor.rows(), tensor.cols());
    let mut rows = vec![R::ZERO; inputs * outputs.div_ceil(PANEL)];
    rows.par_chunks_mut(inputs).enumerate().for_each(|(panel, rows)| {
        let mut weights = vec![0.0; inputs];
        for (lane, output) in (panel * PANEL..outputs.min((panel + 1) * PANEL)).enumerate() {
            tensor.rows_to_f32(output, 1, &mut weights);
            for (row, &weight) in rows.iter_mut().zip(&weights) {
                row.put(lane, weight);
            }
        }
    });
    rows
}

fn output(rows: &[impl PanelRow], lane: usize, into: &mut [f32]) {
    for (value, row) in into.iter_mut().zip(rows) {
        *value = row.lanes()[lane / LANES].0[lane % LANES];
    }
}

multiversion! {
    /// All rows against one panel.
    fn multiply_whole(x: &[f32], panel: &[[Lanes; 2]], first: usize, out: &mut Columns<'_>) = whole_lanes
}

multiversion! {
    /// The same, for weights that are widened on the way.
    fn multiply_upper(x: &[f32], panel: &[Upper], first: usize, out: &mut Columns<'_>) = upper_lanes
}

#[inline(always)]
fn whole_lanes<const FMA: bool>(x: &[f32], panel: &[[Lanes; 2]], first: usize, out: &mut Columns<'_>) {
    multiply_panel::<_, FMA>(x, panel, first, out);
}

#[inline(always)]
fn upper_lanes<const FMA: bool>(x: &[f32], panel: &[Upper], first: usize, out: &mut Columns<'_>) {
    multiply_panel::<_, FMA>(x, panel, first, out);
}

#[inline(always)]
fn multiply_panel<R: PanelRow, const FMA: bool>(x: &[f32], panel: &[R], first: usize, out: &mut Columns<'_>) {
    let inputs = panel.len();
    for (at, x) in x.chunks(TILE * inputs).enumerate() {
        let put = |r: usize, results: &[f32; PANEL]| out.put(first + at * TILE + r, 0, results);
        match x.len() / inputs {
            6 => tile::<R, 6, FMA>(x, panel, put),
            5 => tile::<R, 5, FMA>(x, panel, put),
            4 => tile::<R, 4, FMA>(x, panel, put),
            3 => tile::<R, 3, FMA>(x, panel, put),
            2 => tile::<R, 2, FMA>(x, panel, put),
            _ => tile::<R, 1, FMA>(x, panel, put),
        }
    }
}

#[inline(always)]
fn tile<R: PanelRow, const ROWS: usize, const FMA: bool>(
    x: &[f32],
    panel: &[R],
    mut put: impl FnMut(usize, &[f32; PANEL]),
) {
    let inputs = panel.len();
    let rows: [&[f32]; ROWS] = std::array::from_fn(|r| &x[r * inputs..][..inputs]);
    let mut sums = [[Lanes::ZERO; 2]; ROWS];
    for (i, weights) in panel.iter().enumerate() {
        let weights = weights.lanes();
        for r in 0..ROWS {
            let value = rows[r][i];
            sums[r][0].add_product::<FMA>(value, &weights[0]);
            sums[r][1].add_product::<FMA>(value, &weights[1]);
        }
    }
    for (r, sums) in sums.iter().enumerate() {
        let mut results = [0.0; PANEL];
        results[..LANES].copy_from_slice(&sums[0].0);
        results[LANES..].copy_from_slice(&sums[1].0);
        put(r, &results);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::rows::tests::{near, numbers};
    use crate::kernel::sheet::Sheet;
    use half::bf16;
    use proptest::prelude::*;

    fn multiply(isa: Isa, panels: &FloatPanels, x: &[f32], outputs: usize) -> Vec<f32> {
        let mut out = vec![f32::NAN; x.len() / panels.inputs * outputs];
        for panel in 0..outputs.div_ceil(PANEL) {
            let columns = panel * PANEL..outputs.min((panel + 1) * PANEL);
            // SAFETY: nobody else writes.
            panels.multiply(isa, panel, x, 0, &mut unsafe { Sheet::new(&mut out, outputs).columns(columns) });
        }
        out
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

        /// Against plain loops in double precision. Those who fuse agree to the last bit, and a row in company with
        /// the same row alone.
        #[test]
        fn panels_multiply(
            seed: u64,
            rows in 1usize..20,
            inputs in 1usize..100,
            outputs in 1usize..100,
            upper in any::<bool>(),
        ) {
            let (mut weights, x) = (numbers(seed, 0, outputs * inputs), numbers(seed, 1, rows * inputs));
            let shape = vec![outputs, inputs];
            let panels = if upper {
                let short: Vec<bf16> = weights.iter().map(|&x| bf16::from_f32(x)).collect();
                weights = short.iter().map(|x| x.to_f32()).collect();
                let data: Vec<u8> = short.iter().flat_map(|x| x.to_le_bytes()).collect();
                FloatPanels::pack(&Tensor { dtype: DType::BF16, shape, data: &data })
            } else {
                FloatPanels::pack(&Tensor { dtype: DType::F32, shape, data: bytemuck::cast_slice(&weights) })
            };
            let mut fused: Option<Vec<f32>> = None;
            for isa in Isa::available() {
                let out = multiply(isa, &panels, &x, outputs);
                for (x, out) in x.chunks(inputs).zip(out.chunks(outputs)) {
                    let alone = multiply(isa, &panels, x, outputs);
                    for (o, weights) in weights.chunks(inputs).enumerate() {
                        let products = || x.iter().zip(weights).map(|(&x, &w)| f64::from(x) * f64::from(w));
                        let (want, size) = (products().sum::<f64>(), products().map(f64::abs).sum());
                        prop_assert!(near(out[o], want, size, 1e-5), "{isa}: {} for {want}", out[o]);
                        prop_assert_eq!(out[o].to_bits(), alone[o].to_bits(), "{} alone", isa);
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
