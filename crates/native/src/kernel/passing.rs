//! Products whose results are passed on where they are computed.
//!
//! A product is computed some columns at a time, each by one thread. Were all of its results written down before anybody reads
//! them, most would go from the cache of one processor to that of another. Instead, whoever has computed some passes them on at
//! once; they lie in memory that is this thread's alone, and stay in its cache.

use std::ops::Range;

use super::ahead::Ahead;
use super::buffer::Buffer;
use super::input::Input;
use super::isa::Isa;
use super::lanes::LANES;
use super::matmul::{Packed, bands, multiply_columns, row_block, taste};
use super::shares::{Shares, Taste};
use super::sheet::Sheet;
use crate::shared_slice::SharedSlice;
use crate::threads::Threads;

/// Memory for the results that are passed on, for each thread.
#[derive(Debug, Default)]
pub(crate) struct Patches(Vec<Buffer<f32>>);

/// Which results are passed on together.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Together {
    /// Of so many matrices of one shape, one below the other, the same columns.
    pub matrices: usize,
    /// So many columns, or a multiple of them.
    pub columns: usize,
}

/// Results of some rows and columns.
#[derive(Debug)]
pub(crate) struct Patch<'a> {
    pub rows: Range<usize>,
    /// Of each matrix.
    pub columns: Range<usize>,
    numbers: &'a mut [f32],
    stride: usize,
    width: usize,
}

impl Patch<'_> {
    /// What a row has in these columns: those of the first matrix, then those of the next.
    pub fn row(&mut self, row: usize) -> &mut [f32] {
        &mut self.numbers[(row - self.rows.start) * self.stride..][..self.width]
    }
}

/// What is multiplied. Where the kernel has time for it, what is ahead is asked for meanwhile.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Product<'a> {
    pub weights: &'a Packed,
    pub x: &'a Input,
    pub ahead: Option<&'a Ahead<'a>>,
}

/// Multiplies every row with the weights, and calls `pass` with results until it has seen each of them once.
pub(crate) fn matmul_passing(
    threads: &Threads,
    isa: Isa,
    Product { weights, x, ahead }: Product<'_>,
    together: Together,
    patches: &mut Patches,
    pass: impl Fn(Patch<'_>) + Sync,
) {
    let width = weights.outputs / together.matrices;
    // Where panels do not begin at such columns, one task has all of them.
    let step = weights.step(isa, together.columns).unwrap_or(width);
    let liked = Taste { width: 1, ..taste(isa, threads.count(), weights, x.rows(), 1) };
    let shares = Shares::new(width.div_ceil(step), x.rows(), 1, liked);
    patches.0.resize_with(patches.0.len().max(threads.count()), Buffer::default);
    let patches = SharedSlice::new(&mut patches.0);
    threads.run(shares.count(), |worker, task| {
        let (units, rows) = shares.task(task);
        let columns = units.start * step..width.min(units.end * step);
        // SAFETY: a worker runs one task at a time.
        let buffer = unsafe { &mut patches.part(worker..worker + 1)[0] };
        for rows in bands(&(rows.start..rows.end.min(x.rows())), row_block(isa)) {
            let of_row = together.matrices * columns.len();
            // As in `Results`: neighbours in a column should not have to share a few places of the cache.
            let stride = (of_row.div_ceil(LANES) | 1) * LANES;
            let numbers = buffer.at_least(rows.len() * stride);
            for matrix in 0..together.matrices {
                let (before, first) = (matrix * columns.len(), matrix * width + columns.start);
                let sheet = Sheet::window(numbers, stride, rows.start, first - before);
                // SAFETY: the memory is this worker's.
                unsafe {
                    multiply_columns(isa, weights, &(first..first + columns.len()), &rows, x, ahead, sheet)
                };
            }
            pass(Patch { rows, columns: columns.clone(), numbers, stride, width: of_row });
        }
    });
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use proptest::prelude::*;

    use super::*;
    use crate::kernel::matmul::matmul;
    use crate::kernel::matmul::tests::stored;
    use crate::kernel::results::Results;
    use crate::kernel::rows::tests::numbers;
    use crate::load::{DType, Tensor};

    proptest! {
        #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

        /// Every result is passed on once, to the last bit as a product gives it, in columns that belong together.
        #[test]
        fn all_results_are_passed_on(
            seed: u64,
            rows in prop::sample::select(vec![1usize, 5, 12, 32, 70]),
            dtype in prop::sample::select(vec![DType::F32, DType::Q8_0, DType::Q4_1, DType::Q6K]),
            matrices in 1usize..3,
            columns in prop::sample::select(vec![1usize, 16, 24, 32, 64]),
            units in 1usize..9,
            count in 1usize..4,
        ) {
            let (inputs, outputs) = (256, columns * units);
            let data: Vec<Vec<u8>> =
                (0..matrices).map(|name| stored(seed, name as u64, dtype, outputs, inputs)).collect();
            let tensor = |data| Tensor { dtype, shape: vec![outputs, inputs], data };
            let tensors: Vec<Tensor<'_>> = data.iter().map(|data| tensor(data.as_slice())).collect();
            let from = numbers(seed, 9, rows * inputs);
            let threads = Threads::new(count).unwrap();
            let (mut x, mut patches, mut want) = (Input::default(), Patches::default(), Results::default());
            for isa in Isa::available() {
                let weights = Packed::stack(isa, &tensors);
                x.fill(&threads, isa, rows, &weights, |row, into| {
                    into.copy_from_slice(&from[row * inputs..][..inputs]);
                });
                matmul(&threads, isa, &weights, &x, &mut want);
                let found = Mutex::new(vec![Vec::new(); rows * matrices * outputs]);
                let (product, together) = (Product { weights: &weights, x: &x, ahead: None }, Together { matrices, columns });
                matmul_passing(&threads, isa, product, together, &mut patches, |mut patch| {
                    assert!(patch.columns.start.is_multiple_of(columns) && patch.columns.end.is_multiple_of(columns));
                    let (some, mut found) = (patch.columns.clone(), found.lock().unwrap());
                    for row in patch.rows.clone() {
                        for (at, result) in patch.row(row).iter().enumerate() {
                            let column = at / some.len() * outputs + some.start + at % some.len();
                            found[row * matrices * outputs + column].push(result.to_bits());
                        }
                    }
                });
                for (row, found) in found.into_inner().unwrap().chunks(matrices * outputs).enumerate() {
                    let want: Vec<_> = want.row(row).iter().map(|x| vec![x.to_bits()]).collect();
                    prop_assert_eq!(found, want, "{} row {}", isa, row);
                }
            }
        }
    }
}
