//! Memory that is asked for while there is something else to do.
//!
//! Products keep the vector unit busy and leave the memory idle; attention over pages that nobody shares waits for memory. So
//! while products are computed, the pages that the next layer's attention will read are asked for, a few lines at a time: all
//! at once, they would have to be waited for.

use std::sync::atomic::{AtomicUsize, Ordering};

/// Bytes that are asked for at a time.
pub(super) const PIECE: usize = 512;

/// Places in memory of which all threads together ask for one piece after the other.
#[derive(Debug)]
pub(crate) struct Ahead<'a> {
    places: &'a [*const u8],
    /// Where in each place the pieces begin, and how many there are.
    offset: usize,
    pieces: usize,
    /// How many of all were taken.
    taken: AtomicUsize,
}

// SAFETY: addresses that are asked for and never read.
unsafe impl Sync for Ahead<'_> {}

impl<'a> Ahead<'a> {
    /// Of each place, so many bytes from an offset on.
    pub fn new(places: &'a [*const u8], offset: usize, bytes: usize) -> Self {
        Ahead { places, offset, pieces: bytes.div_ceil(PIECE), taken: AtomicUsize::new(0) }
    }

    /// Leaves the next `count` pieces to the caller.
    pub(super) fn take(&self, count: usize) -> Pieces<'a> {
        let first = self.taken.fetch_add(count, Ordering::Relaxed);
        let place = first.checked_div(self.pieces).unwrap_or(usize::MAX);
        Pieces {
            left: count,
            places: self.places.get(place..).unwrap_or(&[]),
            offset: self.offset,
            pieces: self.pieces,
            piece: first.checked_rem(self.pieces).unwrap_or(0),
        }
    }
}

/// Some of them.
#[derive(Debug, Default)]
pub(super) struct Pieces<'a> {
    left: usize,
    places: &'a [*const u8],
    offset: usize,
    pieces: usize,
    /// The next of the first place.
    piece: usize,
}

impl Pieces<'_> {
    /// Is there nothing more to ask for?
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.left == 0 || self.places.is_empty()
    }
}

impl Iterator for Pieces<'_> {
    type Item = *const u8;

    /// Where the next one begins.
    #[inline(always)]
    fn next(&mut self) -> Option<*const u8> {
        let (first, others) = self.places.split_first()?;
        self.left = self.left.checked_sub(1)?;
        let at = first.wrapping_add(self.offset + self.piece * PIECE);
        self.piece += 1;
        if self.piece == self.pieces {
            (self.places, self.piece) = (others, 0);
        }
        Some(at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_piece_is_asked_for_once() {
        let memory = vec![0u8; 10_000];
        let places: Vec<*const u8> = (0..3).map(|at| &raw const memory[at * 3000]).collect();
        // 2,100 bytes are five pieces.
        let ahead = Ahead::new(&places, 40, 2_100);
        let mut found: Vec<_> = Vec::new();
        for count in [3, 4, 1, 6, 7, 2] {
            found.extend(ahead.take(count));
        }
        let want = places.iter().flat_map(|place| (0..5).map(move |at| place.wrapping_add(40 + at * PIECE)));
        assert_eq!(found, want.collect::<Vec<_>>());
        assert_eq!(Ahead::new(&places, 0, 0).take(5).next(), None);
        assert_eq!(Ahead::new(&[], 0, 100).take(5).next(), None);
    }
}
