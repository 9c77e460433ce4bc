//! The page tables of a step.

use std::ops::Range;

/// Page tables, one after the other, as they are in this step. Its memory is kept for the next.
#[derive(Debug, Default)]
pub(crate) struct Tables {
    pages: Vec<u32>,
    /// Which pages are whose.
    places: Vec<Range<usize>>,
}

impl Tables {
    pub fn clear(&mut self) {
        self.pages.clear();
        self.places.clear();
    }

    /// Adds a table, and gives its number.
    pub fn add(&mut self, pages: &[u32]) -> usize {
        let first = self.pages.len();
        self.pages.extend_from_slice(pages);
        self.places.push(first..self.pages.len());
        self.places.len() - 1
    }

    /// The pages of the table with this number.
    pub fn pages(&self, table: usize) -> &[u32] {
        &self.pages[self.places[table].clone()]
    }
}
