//! How a product is cut into tasks.
//!
//! A task is some panels and some rows. Panels are worth sharing out first, because whoever has a panel reads its weights; but
//! a thread that gets one task more than the others makes them wait, so where panels are few or do not go round, rows are
//! shared out as well.

use std::ops::Range;

/// What a kernel likes its tasks to be.
#[derive(Debug, Clone, Copy)]
pub(super) struct Taste {
    /// Panels that it multiplies together.
    pub width: usize,
    /// Rows that it multiplies together.
    pub height: usize,
    /// Rows that are worth a task.
    pub least: usize,
    /// Tasks that there should be, where there are panels enough.
    pub wanted: usize,
    /// Tasks that are worth cutting rows for, where panels are few.
    pub enough: usize,
    /// Threads that share out the rows of panels that do not go round, if any.
    pub round: Option<usize>,
}

/// The tasks of a product.
#[derive(Debug)]
pub(super) struct Shares {
    panels: usize,
    /// Panels that are multiplied together.
    width: usize,
    /// Such units that are shared out in columns, which differ by one unit at most, the larger ones first.
    units: usize,
    columns: usize,
    bands: Bands,
    /// Units that are left, each with bands of its own.
    rest: usize,
    rest_bands: Bands,
    /// Threads that do a share of both, one after the other.
    threads: usize,
}

/// Rows, in so many bands of this height.
#[derive(Debug, Clone, Copy)]
struct Bands {
    count: usize,
    height: usize,
}

impl Bands {
    /// At most so many, of as many rows as a kernel likes.
    fn new(rows: usize, count: usize, taste: Taste) -> Self {
        let height = rows.div_ceil(count.max(1)).max(taste.least).next_multiple_of(taste.height);
        Bands { count: rows.div_ceil(height).max(1), height }
    }

    fn rows(self, band: usize) -> Range<usize> {
        band * self.height..(band + 1) * self.height
    }
}

impl Shares {
    /// Of so many panels and rows, where as many tasks are made for each of `groups` matrices.
    pub fn new(panels: usize, rows: usize, groups: usize, taste: Taste) -> Self {
        let (all, groups) = (panels.div_ceil(taste.width), groups.max(1));
        let rest = match taste.round {
            Some(threads) if groups == 1 => all % threads,
            _ => 0,
        };
        let units = all - rest;
        let columns = taste.wanted.div_ceil(groups).min(units);
        let mut bands = 1;
        while bands * columns * groups < taste.enough && rows / (2 * bands) >= taste.least {
            bands *= 2;
        }
        Shares {
            panels,
            width: taste.width,
            units,
            columns,
            bands: Bands::new(rows, bands, taste),
            rest,
            rest_bands: Bands::new(rows, taste.round.unwrap_or(1), taste),
            threads: taste.round.unwrap_or(1),
        }
    }

    /// How many tasks there are for a matrix.
    pub fn count(&self) -> usize {
        self.columns * self.bands.count + self.rest * self.rest_bands.count
    }

    /// The panels and rows of a task. There may be fewer rows than it says, or none.
    pub fn task(&self, task: usize) -> (Range<usize>, Range<usize>) {
        let (units, rows) = match self.turn(task) {
            Ok(task) => {
                let column = task % self.columns;
                (self.column(column)..self.column(column + 1), self.bands.rows(task / self.columns))
            }
            Err(task) => {
                let unit = self.units + task % self.rest;
                (unit..unit + 1, self.rest_bands.rows(task / self.rest))
            }
        };
        (units.start * self.width..(units.end * self.width).min(self.panels), rows)
    }

    /// Which of the columns' bands a task is, or which of the rest's. Threads do neighbouring tasks: each should have its share of
    /// both.
    fn turn(&self, task: usize) -> Result<usize, usize> {
        let (whole, rest) = (self.columns * self.bands.count, self.rest * self.rest_bands.count);
        let even = whole.is_multiple_of(self.threads) && rest.is_multiple_of(self.threads);
        let threads = if even { self.threads } else { 1 };
        let (whole, rest) = (whole / threads, rest / threads);
        let (thread, task) = (task / (whole + rest), task % (whole + rest));
        match task.checked_sub(whole) {
            None => Ok(thread * whole + task),
            Some(task) => Err(thread * rest + task),
        }
    }

    /// The first unit of a column.
    fn column(&self, column: usize) -> usize {
        self.units / self.columns * column + column.min(self.units % self.columns)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Every panel and row is in one task, whatever there is and whoever asks.
        #[test]
        fn everything_is_shared_out_once(
            panels in 0usize..80,
            rows in 1usize..80,
            groups in 1usize..4,
            (width, height, least) in prop::sample::select(vec![(1, 32, 32), (4, 4, 4), (4, 4, 8), (4, 4, 12)]),
            wanted in 1usize..40,
            enough in 1usize..40,
            round in prop::option::of(1usize..9),
        ) {
            let shares = Shares::new(panels, rows, groups, Taste { width, height, least, wanted, enough, round });
            let mut found = vec![0; panels * rows];
            for task in 0..shares.count() {
                let (panels, some) = shares.task(task);
                for panel in panels {
                    for row in some.start..some.end.min(rows) {
                        found[panel * rows + row] += 1;
                    }
                }
            }
            prop_assert!(found.iter().all(|&count| count == 1));
        }
    }

    /// 9 units for two threads are four for each, and half of the last.
    #[test]
    fn what_does_not_go_round_is_cut_across() {
        let taste = Taste { width: 4, height: 4, least: 12, wanted: 16, enough: 2, round: Some(2) };
        let shares = Shares::new(36, 32, 1, taste);
        let tasks: Vec<_> = (0..shares.count()).map(|task| shares.task(task)).collect();
        assert_eq!(tasks.len(), 10);
        // Of either thread: four units, and half of the last.
        for (thread, tasks) in tasks.chunks(5).enumerate() {
            assert!(tasks[..4].iter().all(|(panels, rows)| panels.len() == 4 && *rows == (0..32)));
            assert_eq!(tasks[..4].first().map(|(panels, _)| panels.start), Some(16 * thread));
            assert_eq!(tasks[4], (32..36, 16 * thread..16 * (thread + 1)));
        }
    }
}
