//! Matrix products: rows of activations against a weight matrix that was packed once.
//!
//! Quantised weights stay quantised ([`blocks`](super::blocks)); what is stored as floats is multiplied as floats
//! ([`floats`](super::floats)). In both, a result is one chain of operations over the inputs in order, whichever rows are
//! computed beside it: a row's result does not depend on its neighbours.

use std::ops::Range;

use super::ahead::Ahead;
use super::blocks::BlockPanels;
use super::floats::FloatPanels;
use super::input::Input;
use super::isa::Isa;
use super::results::Results;
use super::shares::{Shares, Taste};
use super::sheet::Sheet;
use crate::load::Tensor;
use crate::threads::Threads;

/// Rows that meet a panel before the next panel does: their codes should stay in the cache.
const ROW_BLOCK: usize = 64;
/// Tasks that a thread should find in a product, so that none waits long for the last.
const TASKS_PER_THREAD: usize = 8;
/// The same for a matrix unit, which begins slowly: of a task's first weights, none were asked for ahead.
const MATRIX_TASKS: usize = 4;
/// Widths of tiles in a short task.
const SHORT_TASK: usize = 2;
/// Panels and rows of a whole tile, which is how most units multiply them.
const TILE: usize = 4;
/// Rows that a matrix unit multiplies together.
const MATRIX_ROWS: usize = 32;
/// Rows of which a matrix unit's codes should stay in the second cache.
const MATRIX_BLOCK: usize = 256;

/// A weight matrix, laid out for [`matmul`].
#[derive(Debug)]
pub(crate) struct Packed {
    pub(super) inputs: usize,
    pub(super) outputs: usize,
    parts: Vec<Part>,
}

/// Consecutive outputs with weights of one kind.
#[derive(Debug)]
struct Part {
    /// Its first output.
    first: usize,
    outputs: usize,
    layout: Layout,
}

#[derive(Debug)]
enum Layout {
    Blocks(BlockPanels),
    Floats(FloatPanels),
}

impl Part {
    /// Outputs in a panel.
    fn width(&self) -> usize {
        match self.layout {
            Layout::Blocks(_) => BlockPanels::WIDTH,
            Layout::Floats(_) => FloatPanels::WIDTH,
        }
    }

    fn panels(&self) -> usize {
        self.outputs.div_ceil(self.width())
    }
}

impl Packed {
    /// Packs matrices of the same width, one below the other, as a single one.
    pub fn stack(isa: Isa, tensors: &[Tensor<'_>]) -> Self {
        let mut packed = Packed { inputs: tensors[0].cols(), outputs: 0, parts: Vec::new() };
        for tensor in tensors {
            let layout = BlockPanels::pack(isa, tensor)
                .map_or_else(|| Layout::Floats(FloatPanels::pack(tensor)), Layout::Blocks);
            packed.parts.push(Part { first: packed.outputs, outputs: tensor.rows(), layout });
            packed.outputs += tensor.rows();
        }
        packed
    }

    /// Bytes that the weights take.
    pub fn bytes(&self) -> usize {
        let bytes = |part: &Part| match &part.layout {
            Layout::Blocks(panels) => panels.bytes(),
            Layout::Floats(panels) => panels.bytes(),
        };
        self.parts.iter().map(bytes).sum()
    }

    /// The weights of one output, as an embedding table wants them.
    pub fn output(&self, index: usize, into: &mut [f32]) {
        let part = self.parts.iter().rfind(|part| part.first <= index).expect("the first part starts at 0");
        match &part.layout {
            Layout::Blocks(panels) => panels.output(index - part.first, into),
            Layout::Floats(panels) => panels.output(index - part.first, into),
        }
    }

    /// Every column whose number is a multiple of this begins a panel, if it can be had: a multiple of `columns`, and of what
    /// a kernel likes to multiply together.
    pub(super) fn step(&self, isa: Isa, columns: usize) -> Option<usize> {
        let tile = if isa.has_matrix_unit() { 1 } else { TILE };
        let begins = |part: &Part| part.first.is_multiple_of(part.width());
        let step = self.parts.iter().map(Part::width).fold(columns, least_common_multiple);
        self.parts.iter().all(begins).then(|| least_common_multiple(step, tile * BlockPanels::WIDTH))
    }

    /// The parts whose weights are quantised.
    pub(super) fn blocks(&self) -> impl Iterator<Item = &BlockPanels> {
        self.parts.iter().filter_map(|part| match &part.layout {
            Layout::Blocks(panels) => Some(panels),
            Layout::Floats(_) => None,
        })
    }
}

/// `out[r] = W x[r]` for every row of `x`.
pub(crate) fn matmul(threads: &Threads, isa: Isa, weights: &Packed, x: &Input, out: &mut Results) {
    matmul_asking(threads, isa, weights, x, None, out);
}

/// The same. Where the kernel has time for it, what is ahead is asked for meanwhile.
pub(crate) fn matmul_asking(
    threads: &Threads,
    isa: Isa,
    weights: &Packed,
    x: &Input,
    ahead: Option<&Ahead<'_>>,
    out: &mut Results,
) {
    let all = [Group { weights: 0, rows: 0..x.rows() }];
    multiply_groups(threads, isa, std::slice::from_ref(weights), &all, x, ahead, out);
}

fn least_common_multiple(a: usize, b: usize) -> usize {
    let (mut divisor, mut rest) = (a, b);
    while rest != 0 {
        (divisor, rest) = (rest, divisor % rest);
    }
    a / divisor * b
}

/// Neighbouring rows that are multiplied with the same one of several matrices.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Group {
    pub weights: usize,
    pub rows: Range<usize>,
}

/// The same with several matrices of one shape: each is read once for all rows of its group. Every row is in one group.
pub(crate) fn matmul_grouped(
    threads: &Threads,
    isa: Isa,
    weights: &[Packed],
    groups: &[Group],
    x: &Input,
    out: &mut Results,
) {
    multiply_groups(threads, isa, weights, groups, x, None, out);
}

fn multiply_groups(
    threads: &Threads,
    isa: Isa,
    weights: &[Packed],
    groups: &[Group],
    x: &Input,
    ahead: Option<&Ahead<'_>>,
    out: &mut Results,
) {
    let Some(shape) = weights.first() else { return };
    out.resize(x.rows(), shape.outputs);
    let stride = out.stride();
    let sheet = Sheet::new(out.all_mut(), stride);
    let panels: usize = shape.parts.iter().map(Part::panels).sum();
    let rows = groups.iter().map(|group| group.rows.len()).max().unwrap_or(0);
    let shares =
        Shares::new(panels, rows, groups.len(), taste(isa, threads.count(), shape, rows, groups.len()));
    threads.run(groups.len() * shares.count(), |_, task| {
        let group = &groups[task / shares.count()];
        let (panels, rows) = shares.task(task % shares.count());
        let within = |row: usize| (group.rows.start + row).min(group.rows.end);
        let rows = within(rows.start)..within(rows.end);
        // SAFETY: every panel of a group's band is in one task only; columns of different panels are apart, and so are rows of
        // different bands and groups.
        unsafe { multiply(isa, &weights[group.weights], panels, &rows, x, ahead, sheet) };
    });
}

/// Rows that meet a panel before the next panel does.
pub(super) fn row_block(isa: Isa) -> usize {
    if isa.has_matrix_unit() { MATRIX_BLOCK } else { ROW_BLOCK }
}

/// Rows, so many at a time.
pub(super) fn bands(rows: &Range<usize>, height: usize) -> impl Iterator<Item = Range<usize>> {
    let end = rows.end;
    rows.clone().step_by(height).map(move |first| first..end.min(first + height))
}

/// What a kernel likes the tasks of such a product to be, where so many matrices are multiplied.
pub(super) fn taste(isa: Isa, threads: usize, weights: &Packed, rows: usize, matrices: usize) -> Taste {
    let quantised = weights.blocks().next().is_some();
    let unfolded = isa.unfolds_from().filter(|&least| rows >= least);
    let wanted = TASKS_PER_THREAD * threads;
    let plain = Taste { width: TILE, height: TILE, least: TILE, wanted, enough: wanted, round: None };
    match unfolded {
        // Takes panels one by one. It prepares their weights for all rows of a band: those are as few as there can be.
        _ if quantised && isa.has_matrix_unit() => Taste {
            width: 1,
            height: MATRIX_ROWS,
            least: MATRIX_ROWS,
            wanted: MATRIX_TASKS * threads,
            enough: threads,
            round: None,
        },
        // Prepares them as well. Tasks are short all the same: one that another process interrupts is not waited for long.
        Some(least) if quantised => {
            let short = weights.outputs / (SHORT_TASK * TILE * BlockPanels::WIDTH);
            Taste {
                least,
                wanted: wanted.max(short * matrices),
                enough: threads,
                round: Some(threads),
                ..plain
            }
        }
        _ => plain,
    }
}

/// Some rows against some panels of a matrix.
///
/// # Safety
/// Nobody else writes these rows' columns of these panels.
unsafe fn multiply(
    isa: Isa,
    weights: &Packed,
    panels: Range<usize>,
    rows: &Range<usize>,
    x: &Input,
    ahead: Option<&Ahead<'_>>,
    out: Sheet<'_>,
) {
    let mut before = 0;
    for part in &weights.parts {
        let within = |panel: usize| panel.clamp(before, before + part.panels()) - before;
        let range = within(panels.start)..within(panels.end);
        if !range.is_empty() {
            // SAFETY: the caller's promise.
            unsafe { multiply_panels(isa, part, range, rows, x, ahead, out) };
        }
        before += part.panels();
    }
}

/// Some rows against some columns of a matrix, which must begin and end where panels do.
///
/// # Safety
/// Nobody else writes these rows' columns.
pub(super) unsafe fn multiply_columns(
    isa: Isa,
    weights: &Packed,
    columns: &Range<usize>,
    rows: &Range<usize>,
    x: &Input,
    ahead: Option<&Ahead<'_>>,
    out: Sheet<'_>,
) {
    for part in &weights.parts {
        let within = |column: usize| column.clamp(part.first, part.first + part.outputs) - part.first;
        let (start, end) = (within(columns.start), within(columns.end));
        if start < end {
            debug_assert!(start.is_multiple_of(part.width()));
            debug_assert!(end.is_multiple_of(part.width()) || end == part.outputs);
            let panels = start / part.width()..end.div_ceil(part.width());
            // SAFETY: the caller's promise.
            unsafe { multiply_panels(isa, part, panels, rows, x, ahead, out) };
        }
    }
}

/// Some rows against some panels of a part.
///
/// # Safety
/// Nobody else writes these rows' columns of these panels.
unsafe fn multiply_panels(
    isa: Isa,
    part: &Part,
    panels: Range<usize>,
    rows: &Range<usize>,
    x: &Input,
    ahead: Option<&Ahead<'_>>,
    out: Sheet<'_>,
) {
    let columns = |panels: Range<usize>| {
        let column = |panel: usize| part.first + (panel * part.width()).min(part.outputs);
        // SAFETY: the caller's promise; other rows of the columns are not written.
        unsafe { out.columns(column(panels.start)..column(panels.end)) }
    };
    match &part.layout {
        Layout::Floats(weights) => {
            for panel in panels {
                let floats = x.floats(rows);
                weights.multiply(isa, panel, floats, rows.start, &mut columns(panel..panel + 1));
            }
        }
        Layout::Blocks(weights) => {
            let mut out = columns(panels.clone());
            for some in bands(rows, row_block(isa)) {
                weights.multiply(isa, panels.clone(), x.codes(), some, ahead, &mut out);
            }
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::kernel::blocks::tests::dot;
    use crate::kernel::rows::tests::{near, numbers};
    use crate::load::DType;
    use proptest::prelude::*;

    /// Random rows as a file holds them: any bytes, and scales below 2, subnormal ones too.
    pub fn stored(seed: u64, name: u64, dtype: DType, outputs: usize, inputs: usize) -> Vec<u8> {
        if dtype == DType::F32 {
            return bytemuck::cast_slice(&numbers(seed, name, outputs * inputs)).to_vec();
        }
        let count = outputs * inputs / dtype.block_len() * dtype.block_bytes();
        let mut bytes: Vec<u8> =
            numbers(seed, name, count).iter().map(|x| ((x + 2.0) * 64.0) as u8).collect();
        // The high bytes of the scales: without their highest exponent bit, none says infinity.
        let high: &[usize] = match dtype {
            DType::Q2K => &[81, 83],
            DType::Q3K => &[109],
            DType::Q6K => &[209],
            DType::Q4_1 | DType::Q5_1 | DType::Q4K | DType::Q5K => &[1, 3],
            // An exponent of 8 bits, of a number that can be seen.
            DType::MXFP4 => &[],
            _ => &[1],
        };
        for block in bytes.chunks_mut(dtype.block_bytes()) {
            for &at in high {
                block[at] &= 0xbf;
            }
            if dtype == DType::MXFP4 {
                block[0] = 118 + block[0] % 16;
            }
        }
        bytes
    }

    fn multiply(threads: &Threads, isa: Isa, weights: &Packed, x: &[f32], out: &mut Results) {
        let mut input = Input::default();
        input.fill(threads, isa, x.len() / weights.inputs, weights, |row, into| {
            into.copy_from_slice(&x[row * weights.inputs..][..weights.inputs]);
        });
        matmul(threads, isa, weights, &input, out);
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

        /// Parts of several types, one below the other.
        #[test]
        fn stacked_matrices_multiply(
            seed: u64,
            rows in prop::sample::select(vec![1usize, 2, 5, 16, 70]),
            blocks in 1usize..4,
            parts in prop::collection::vec(
                (1usize..50, prop::sample::select(vec![DType::F32, DType::Q8_0, DType::Q4_1])), 1..4),
            count in 1usize..4,
        ) {
            let inputs = 32 * blocks;
            let data: Vec<Vec<u8>> =
                (1..).zip(&parts).map(|(name, &(outputs, dtype))| stored(seed, name, dtype, outputs, inputs)).collect();
            let tensor = |(&(outputs, dtype), data)| Tensor { dtype, shape: vec![outputs, inputs], data };
            let tensors: Vec<Tensor<'_>> = parts.iter().zip(data.iter().map(Vec::as_slice)).map(tensor).collect();
            let all: Vec<(DType, &[u8])> =
                tensors.iter().flat_map(|t| t.data.chunks(t.row_bytes()).map(|row| (t.dtype, row))).collect();
            let x = numbers(seed, 0, rows * inputs);
            let threads = Threads::new(count).unwrap();
            // Used again and again, as in a run: what an earlier product left must not show.
            let (mut out, mut alone) = (Results::default(), Results::default());
            for isa in Isa::available() {
                let weights = Packed::stack(isa, &tensors);
                multiply(&threads, isa, &weights, &x, &mut out);
                for (at, x) in x.chunks(inputs).enumerate() {
                    let got = out.row(at);
                    prop_assert_eq!(got.len(), all.len());
                    for (&got, &(dtype, row)) in got.iter().zip(&all) {
                        let (want, size) = if dtype == DType::F32 {
                            let weights: &[f32] = bytemuck::cast_slice(row);
                            let terms = || x.iter().zip(weights).map(|(&x, &w)| f64::from(x) * f64::from(w));
                            (terms().sum(), terms().map(f64::abs).sum())
                        } else {
                            dot(isa, x, dtype, row)
                        };
                        prop_assert!(near(got, want, size, 1e-5), "{isa}: {got} for {want}");
                    }
                    multiply(&threads, isa, &weights, x, &mut alone);
                    let bits = |row: &[f32]| row.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
                    prop_assert_eq!(bits(got), bits(alone.row(0)), "{} alone", isa);
                }
            }
        }
    }

    /// Rows go to matrices of their own, and come out as from that matrix alone.
    #[test]
    fn groups_multiply_as_alone() {
        let (inputs, outputs, counts) = (96, 40, [3usize, 1, 0, 70]);
        let threads = Threads::new(2).unwrap();
        for (isa, dtype) in
            Isa::available().into_iter().flat_map(|isa| [(isa, DType::MXFP4), (isa, DType::F32)])
        {
            let data: Vec<Vec<u8>> = (0..4).map(|name| stored(3, name, dtype, outputs, inputs)).collect();
            let pack =
                |data: &Vec<u8>| Packed::stack(isa, &[Tensor { dtype, shape: vec![outputs, inputs], data }]);
            let weights: Vec<Packed> = data.iter().map(pack).collect();
            let x = numbers(3, 9, counts.iter().sum::<usize>() * inputs);
            let (mut groups, mut at) = (Vec::new(), 0);
            for (weights, count) in counts.into_iter().enumerate() {
                groups.push(Group { weights, rows: at..at + count });
                at += count;
            }
            let mut input = Input::default();
            input.fill(&threads, isa, at, &weights[0], |row, into| {
                into.copy_from_slice(&x[row * inputs..][..inputs]);
            });
            let (mut out, mut alone) = (Results::default(), Results::default());
            matmul_grouped(&threads, isa, &weights, &groups, &input, &mut out);
            for Group { weights: at, rows } in groups {
                multiply(&threads, isa, &weights[at], &x[rows.start * inputs..rows.end * inputs], &mut alone);
                let bits = |x: &[f32]| x.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
                for (at, row) in rows.enumerate() {
                    assert_eq!(bits(out.row(row)), bits(alone.row(at)), "{isa} {dtype:?}");
                }
            }
        }
    }
}
