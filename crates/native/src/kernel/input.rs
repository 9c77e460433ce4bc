//! What products are given: rows of activations, in the forms that weights want.

use std::ops::Range;

use super::blocks::{BLOCK, BlockPanels, CodeRows, SharedCodes};
use super::buffer::Buffer;
use super::isa::Isa;
use super::matmul::Packed;
use crate::shared_slice::SharedSlice;
use crate::threads::Threads;

/// Rows to be multiplied.
#[derive(Debug, Default)]
pub(crate) struct Input {
    floats: Buffer<f32>,
    codes: CodeRows,
    rows: usize,
    width: usize,
}

impl Input {
    /// How many rows there are.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// A row as floats.
    pub fn row(&self, row: usize) -> &[f32] {
        self.floats(&(row..row + 1))
    }

    /// Some rows as floats, one after the other.
    pub(super) fn floats(&self, rows: &Range<usize>) -> &[f32] {
        &self.floats[rows.start * self.width..rows.end * self.width]
    }

    pub(super) fn codes(&self) -> &CodeRows {
        &self.codes
    }

    /// Computes every row by `fill(row, into)`, for a product with these weights.
    pub fn fill(
        &mut self,
        threads: &Threads,
        isa: Isa,
        rows: usize,
        weights: &Packed,
        fill: impl Fn(usize, &mut [f32]) + Sync,
    ) {
        /// Rows that are worth a task.
        const TASK_ROWS: usize = 4;
        let filling = self.begin(isa, rows, weights);
        threads.run(rows.div_ceil(TASK_ROWS), |_, task| {
            for row in task * TASK_ROWS..rows.min((task + 1) * TASK_ROWS) {
                // SAFETY: every row is in one task only.
                unsafe { filling.put(row, 0..filling.width, |into| fill(row, into)) };
            }
        });
    }

    /// Makes room for rows that tasks will fill, for a product with these weights.
    pub fn begin(&mut self, isa: Isa, rows: usize, weights: &Packed) -> Filling<'_> {
        let width = weights.inputs;
        (self.rows, self.width) = (rows, width);
        let coded = weights.blocks().next().is_some();
        self.codes.resize(isa, if coded { rows } else { 0 }, width);
        Filling {
            isa,
            width,
            rows,
            floats: SharedSlice::new(self.floats.at_least(rows * width)),
            codes: coded.then(|| self.codes.shared()),
            sums: weights.blocks().any(BlockPanels::needs_sums),
        }
    }
}

/// Rows that tasks divide among themselves.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Filling<'a> {
    isa: Isa,
    width: usize,
    rows: usize,
    floats: SharedSlice<'a, f32>,
    codes: Option<SharedCodes<'a>>,
    /// Whether weights ask what activations sum to.
    sums: bool,
}

impl Filling<'_> {
    /// Columns of which a multiple should be filled at a time, and whether their codes then wait for the rest of the row.
    fn grain(&self) -> (usize, bool) {
        let whole_rows = self.codes.is_some() && self.isa.has_matrix_unit();
        (if self.codes.is_some() { BLOCK } else { 1 }, whole_rows)
    }

    /// Columns that can be filled by themselves, or a multiple of them.
    pub fn columns(&self) -> usize {
        self.grain().0
    }

    /// Fills some columns of a row: a multiple of [`columns`](Self::columns), beginning at one.
    ///
    /// # Safety
    /// Nobody else may fill the same columns of the row at the same time.
    pub unsafe fn put(&self, row: usize, columns: Range<usize>, fill: impl FnOnce(&mut [f32])) {
        assert!(row < self.rows && columns.end <= self.width);
        let at = row * self.width;
        // SAFETY: the caller's promise; rows and columns are apart, by the assertion.
        let floats = unsafe { self.floats.part(at + columns.start..at + columns.end) };
        fill(floats);
        let (grain, whole_rows) = self.grain();
        let Some(codes) = self.codes else { return };
        if !whole_rows || columns.len() == self.width {
            debug_assert!(columns.start.is_multiple_of(grain) && columns.len().is_multiple_of(grain));
            // SAFETY: as above, and there is room for all of them.
            unsafe { codes.fill(self.isa, row, columns.start / BLOCK, floats, self.sums) };
        }
    }

    /// When rows were filled in parts: does what could not be done before they were whole.
    pub fn finish(&self, threads: &Threads) {
        let (_, whole_rows) = self.grain();
        let Some(codes) = self.codes.filter(|_| whole_rows) else { return };
        threads.run(self.rows, |_, row| {
            // SAFETY: every row is in one task only, and there is room for all of them.
            unsafe {
                let floats = self.floats.part(row * self.width..(row + 1) * self.width);
                codes.fill(self.isa, row, 0, floats, self.sums);
            }
        });
    }
}
