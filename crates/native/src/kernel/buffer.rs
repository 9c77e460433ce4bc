//! Memory for numbers of a step, kept for the next.

use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};

use bytemuck::Pod;

use super::unit::Line;

/// Numbers of which the first lies at the beginning of a cache line: elsewhere, every vector of 64 bytes would be part of two.
///
/// It only ever grows: to shrink it would mean to clear what it grows by again, many times a step.
#[derive(Debug)]
pub(crate) struct Buffer<T> {
    lines: Vec<Line>,
    of: PhantomData<T>,
}

impl<T: Pod> Buffer<T> {
    /// The first `len` numbers. What they are is what was last written, or zero.
    pub fn at_least(&mut self, len: usize) -> &mut [T] {
        let lines = (len * size_of::<T>()).div_ceil(size_of::<Line>());
        if self.lines.len() < lines {
            self.lines.resize(lines, Line::default());
        }
        &mut self[..len]
    }
}

impl<T> Default for Buffer<T> {
    fn default() -> Self {
        Buffer { lines: Vec::new(), of: PhantomData }
    }
}

impl<T: Pod> Deref for Buffer<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        bytemuck::cast_slice(&self.lines)
    }
}

impl<T: Pod> DerefMut for Buffer<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        bytemuck::cast_slice_mut(&mut self.lines)
    }
}
