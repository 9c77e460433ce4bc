//! Rows of numbers: what products give, and what is added up.

use super::buffer::Buffer;
use super::lanes::LANES;
use crate::shared_slice::SharedSlice;

/// Rows of numbers, of which every one begins on a cache line.
///
/// A row takes an odd number of lines. Neighbours in a column thus lie in different parts of the cache: were they a power of
/// two apart, they would all have to share a few places of it.
#[derive(Debug, Default)]
pub(crate) struct Results {
    numbers: Buffer<f32>,
    rows: usize,
    width: usize,
}

impl Results {
    /// Makes room for so many rows. What they hold is what an earlier product left.
    pub fn resize(&mut self, rows: usize, width: usize) {
        (self.rows, self.width) = (rows, width);
        let len = rows * self.stride();
        self.numbers.at_least(len);
    }

    pub fn rows(&self) -> usize {
        self.rows
    }

    /// From a row to the next.
    pub(super) fn stride(&self) -> usize {
        (self.width.div_ceil(LANES) | 1) * LANES
    }

    pub fn row(&self, row: usize) -> &[f32] {
        &self.numbers[row * self.stride()..][..self.width]
    }

    /// All rows with all that lies between them.
    pub(super) fn all_mut(&mut self) -> &mut [f32] {
        let len = self.rows * self.stride();
        &mut self.numbers[..len]
    }

    /// For tasks that each write rows of their own.
    pub fn shared(&mut self) -> SharedRows<'_> {
        let (stride, width) = (self.stride(), self.width);
        SharedRows { all: SharedSlice::new(self.all_mut()), stride, width }
    }
}

/// Rows that tasks divide among themselves.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SharedRows<'a> {
    all: SharedSlice<'a, f32>,
    stride: usize,
    width: usize,
}

impl<'a> SharedRows<'a> {
    /// # Safety
    /// While the row is in use, nobody else may take it.
    #[allow(clippy::mut_from_ref)] // what the safety rule is about
    pub unsafe fn row(&self, row: usize) -> &'a mut [f32] {
        // SAFETY: the caller's promise; rows are apart.
        unsafe { self.all.part(row * self.stride..row * self.stride + self.width) }
    }
}
