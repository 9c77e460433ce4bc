//! A result that several tasks write at once.

use std::marker::PhantomData;
use std::ops::Range;

/// Rows of floats of which every task writes its own columns.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sheet<'a> {
    data: *mut f32,
    rows: usize,
    width: usize,
    _borrow: PhantomData<&'a mut [f32]>,
}

// SAFETY: a sheet is a borrow of floats, which may be sent and shared; writing from several threads is what `put` makes its
// callers promise to do apart from each other.
unsafe impl Send for Sheet<'_> {}
// SAFETY: as above.
unsafe impl Sync for Sheet<'_> {}

impl<'a> Sheet<'a> {
    pub fn new(data: &'a mut [f32], width: usize) -> Self {
        debug_assert!(data.len().is_multiple_of(width));
        Sheet { data: data.as_mut_ptr(), rows: data.len() / width, width, _borrow: PhantomData }
    }

    /// Writes the values that fit into `columns`.
    ///
    /// # Safety
    /// Nobody else may write these columns of this row at the same time.
    #[inline(always)]
    pub unsafe fn put<const N: usize>(&self, row: usize, columns: Range<usize>, values: &[f32; N]) {
        assert!(row < self.rows && columns.start <= columns.end && columns.end <= self.width);
        // SAFETY: the place is inside the borrowed slice, by the assertion, and the caller's alone.
        unsafe {
            let into = self.data.add(row * self.width + columns.start);
            match columns.len() {
                // Nearly always: a few vector stores instead of a call.
                count if count >= N => into.cast::<[f32; N]>().write_unaligned(*values),
                count => std::ptr::copy_nonoverlapping(values.as_ptr(), into, count),
            }
        }
    }
}
