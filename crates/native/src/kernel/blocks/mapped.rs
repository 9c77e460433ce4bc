//! Memory for weights, which are most of what a process has.

use std::alloc::{Layout, handle_alloc_error};
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};

use bytemuck::Pod;
use memmap2::MmapMut;

/// Numbers in pages of their own, zero at first.
///
/// The system gives a page to whoever first writes to it: threads that pack weights clear it beside each other, and no
/// thread does it ahead for all. Large pages are not asked for: they made loading a third slower, and decoding no faster.
#[derive(Debug)]
pub(super) struct Mapped<T> {
    pages: MmapMut,
    of: PhantomData<T>,
}

impl<T: Pod> Mapped<T> {
    pub fn zeroed(len: usize) -> Self {
        let layout = Layout::array::<T>(len).expect("weights that a file holds fit in memory");
        let pages = MmapMut::map_anon(layout.size()).unwrap_or_else(|_| handle_alloc_error(layout));
        Self { pages, of: PhantomData }
    }
}

impl<T: Pod> Deref for Mapped<T> {
    type Target = [T];

    // As a call it would not be inlined where a product is compiled for a unit, and every panel asks.
    #[inline(always)]
    fn deref(&self) -> &[T] {
        bytemuck::cast_slice(&self.pages)
    }
}

impl<T: Pod> DerefMut for Mapped<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        bytemuck::cast_slice_mut(&mut self.pages)
    }
}
