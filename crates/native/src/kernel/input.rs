//! What products are given: rows of activations, in the forms that weights want.

use std::ops::Range;

use super::blocks::{BLOCK, BlockPanels, CodeRows, Floats, SharedCodes};
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
            let own = task * TASK_ROWS..rows.min((task + 1) * TASK_ROWS);
            // SAFETY: every row is in one task only.
            unsafe { filling.put(own, 0..filling.width, &fill) };
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
    /// Columns that can be filled by themselves, or a multiple of them.
    pub fn columns(&self) -> usize {
        if self.codes.is_some() { BLOCK } else { 1 }
    }

    /// Do codes wait until rows are whole?
    fn waits(&self) -> bool {
        self.isa.has_matrix_unit()
    }

    /// Fills some columns of some rows by `fill(row, into)`.
    ///
    /// # Safety
    /// Nobody else may fill the same columns of the rows. They must begin and end at a multiple of [`columns`](Self::columns).
    pub unsafe fn put(
        &self,
        rows: Range<usize>,
        columns: Range<usize>,
        mut fill: impl FnMut(usize, &mut [f32]),
    ) {
        for row in rows.clone() {
            // SAFETY: the caller's promise; rows and columns are apart, by the assertion.
            fill(row, unsafe { self.part(row, &columns) });
        }
        if !self.waits() || columns.len() == self.width {
            // SAFETY: as above.
            unsafe { self.encode(rows, columns) };
        }
    }

    /// When rows were filled in parts: does what could not be done before they were whole.
    pub fn finish(&self, threads: &Threads) {
        if self.waits() {
            // SAFETY: every row is in one task only.
            threads.run(self.rows, |_, row| unsafe { self.encode(row..row + 1, 0..self.width) });
        }
    }

    /// # Safety
    /// Nobody else may have these columns of the row.
    #[expect(clippy::mut_from_ref)] // what the safety rule is about
    unsafe fn part(&self, row: usize, columns: &Range<usize>) -> &mut [f32] {
        assert!(row < self.rows && columns.end <= self.width);
        let at = row * self.width;
        // SAFETY: the caller's promise; rows are apart, by the assertion.
        unsafe { self.floats.part(at + columns.start..at + columns.end) }
    }

    /// Turns what was filled into codes, where weights want them.
    ///
    /// # Safety
    /// As for [`put`](Self::put).
    unsafe fn encode(&self, rows: Range<usize>, columns: Range<usize>) {
        let Some(codes) = self.codes.filter(|_| !rows.is_empty()) else { return };
        assert!(columns.start.is_multiple_of(BLOCK) && columns.end.is_multiple_of(BLOCK));
        assert!(rows.end <= self.rows && columns.end <= self.width);
        let first = self.floats.place(rows.start * self.width + columns.start);
        let (blocks, x) = (columns.start / BLOCK..columns.end / BLOCK, Floats { first, stride: self.width });
        // SAFETY: the caller's promise; there is room for all rows and columns, of which these are some.
        unsafe { codes.fill(self.isa, rows, blocks, x, self.sums) };
    }
}
