//! A result that several tasks write at once.

use std::marker::PhantomData;
use std::ops::Range;

#[cfg(target_arch = "x86_64")]
use super::lanes::LANES;

/// Rows of floats of which every task writes its own columns.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sheet<'a> {
    data: *mut f32,
    rows: usize,
    width: usize,
    /// The row and the column of a larger sheet that its first stands for.
    top: usize,
    left: usize,
    _borrow: PhantomData<&'a mut [f32]>,
}

// SAFETY: a sheet is a borrow of floats, which may be sent and shared; writing from several threads is what `columns`
// makes its callers promise to do apart from each other.
unsafe impl Send for Sheet<'_> {}
// SAFETY: as above.
unsafe impl Sync for Sheet<'_> {}

impl<'a> Sheet<'a> {
    pub fn new(data: &'a mut [f32], width: usize) -> Self {
        Sheet::window(data, width, 0, 0)
    }

    /// Part of a larger one: the first row and column here are that row and column there.
    pub fn window(data: &'a mut [f32], width: usize, top: usize, left: usize) -> Self {
        debug_assert!(data.len().is_multiple_of(width));
        Sheet { data: data.as_mut_ptr(), rows: data.len() / width, width, top, left, _borrow: PhantomData }
    }

    /// Some of its columns.
    ///
    /// # Safety
    /// While they are in use, nobody else may write the same rows of these columns.
    pub unsafe fn columns(self, range: Range<usize>) -> Columns<'a> {
        assert!(self.left <= range.start && range.start <= range.end && range.end <= self.left + self.width);
        Columns { sheet: self, first: range.start - self.left, end: range.end - self.left }
    }
}

/// Columns that are one task's.
#[derive(Debug)]
pub(super) struct Columns<'a> {
    sheet: Sheet<'a>,
    first: usize,
    end: usize,
}

impl Columns<'_> {
    /// Asks for the places of so many lanes of 16 from column `first` on, which another processor may have: what is written after
    /// that would otherwise have to wait as well.
    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    pub fn expect(&mut self, row: usize, first: usize, lanes: usize) {
        use std::arch::x86_64::{_MM_HINT_ET0, _mm_prefetch};
        let at = (row - self.sheet.top) * self.sheet.width + self.first + first;
        let place = self.sheet.data.wrapping_add(at);
        for lane in 0..lanes {
            // SAFETY: prefetching is a hint that cannot fault, wherever the place is.
            unsafe { _mm_prefetch::<_MM_HINT_ET0>(place.wrapping_add(lane * LANES).cast()) };
        }
    }

    /// How many columns there are from `first` on, counted from the first of these; where they begin in the first of some rows,
    /// and how far that is from the next row's.
    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    pub fn place(&mut self, rows: Range<usize>, first: usize) -> (usize, *mut f32, usize) {
        let (sheet, at) = (self.sheet, self.first + first);
        assert!(sheet.top <= rows.start && rows.start < rows.end && rows.end <= sheet.top + sheet.rows);
        assert!(at <= self.end);
        // SAFETY: inside the borrowed slice, by the assertions here and in `columns`.
        (self.end - at, unsafe { sheet.data.add((rows.start - sheet.top) * sheet.width + at) }, sheet.width)
    }

    /// Writes values from column `first` on, counted from the first of these; what lies beyond the last is dropped.
    #[inline(always)]
    pub fn put<const N: usize>(&mut self, row: usize, first: usize, values: &[f32; N]) {
        let (row, first) = (row.wrapping_sub(self.sheet.top), self.first + first);
        assert!(row < self.sheet.rows && first <= self.end);
        // SAFETY: the place is inside the borrowed slice, by the assertions here and in `columns`, whose caller promised that
        // it is this task's alone.
        unsafe {
            let into = self.sheet.data.add(row * self.sheet.width + first);
            match self.end - first {
                // Nearly always: a few vector stores instead of a call.
                count if count >= N => into.cast::<[f32; N]>().write_unaligned(*values),
                count => std::ptr::copy_nonoverlapping(values.as_ptr(), into, count),
            }
        }
    }
}
