//! A slice that tasks divide among themselves.

use std::marker::PhantomData;
use std::ops::Range;

/// A slice of which tasks that run at once each take their own part.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SharedSlice<'a, T> {
    data: *mut T,
    len: usize,
    _borrow: PhantomData<&'a mut [T]>,
}

// SAFETY: a borrow of numbers that may be sent; `part` makes its callers promise to take different parts.
unsafe impl<T: Send> Send for SharedSlice<'_, T> {}
// SAFETY: as above.
unsafe impl<T: Send> Sync for SharedSlice<'_, T> {}

impl<'a, T> SharedSlice<'a, T> {
    pub fn new(data: &'a mut [T]) -> Self {
        SharedSlice { data: data.as_mut_ptr(), len: data.len(), _borrow: PhantomData }
    }

    /// Where a part begins of which only what is one's own is used.
    pub fn place(&self, at: usize) -> *const T {
        assert!(at <= self.len);
        // SAFETY: inside the borrowed slice, or its end, by the assertion.
        unsafe { self.data.add(at) }
    }

    /// # Safety
    /// While the part is in use, nobody else may take one that overlaps it.
    #[allow(clippy::mut_from_ref)] // what the safety rule is about
    #[inline(always)]
    pub unsafe fn part(&self, range: Range<usize>) -> &'a mut [T] {
        assert!(range.start <= range.end && range.end <= self.len);
        // SAFETY: inside the borrowed slice, by the assertion, and the caller's alone.
        unsafe { std::slice::from_raw_parts_mut(self.data.add(range.start), range.end - range.start) }
    }
}
