//! Rows of activations against panels of 16 outputs.

use std::ops::Range;

use super::codes::{CodeBlock, CodeRows};
use super::{BLOCK, Panel};
use crate::kernel::sheet::Columns;
use crate::kernel::unit::{LANES, Line, Unit};
use crate::load::runs::Codes;

/// Panels of a wide tile.
pub(super) const WIDE: usize = 4;

// The kinds of [`Codes`], known where the code for a tile is made.
const BYTES: u8 = 0;
const NIBBLES: u8 = 1;
const LISTED: u8 = 2;

/// Some rows against some panels of one matrix, in tiles as large as the unit likes them. Results go to the columns from
/// `first_column` on.
///
/// # Safety
/// The machine must have the unit's instructions.
#[inline(always)]
pub(super) unsafe fn multiply<U: Unit>(
    x: &CodeRows,
    rows: Range<usize>,
    panels: &[Panel<'_>],
    first_column: usize,
    out: &mut Columns<'_>,
) {
    let mut at = rows.start;
    while at < rows.end {
        let height = (rows.end - at).min(U::ROWS);
        macro_rules! tile {
            ($($rows:literal)*) => {
                match height {
                    // SAFETY: the caller vouches for the instructions.
                    $($rows => unsafe { tile::<U, { $rows }>(x, at, panels, first_column, out) },)*
                    _ => unreachable!("no unit has tiles of {height} rows"),
                }
            };
        }
        tile!(1 2 3 4);
        at += height;
    }
}

/// # Safety
/// The machine must have the unit's instructions.
#[inline(always)]
unsafe fn tile<U: Unit, const ROWS: usize>(
    x: &CodeRows,
    first: usize,
    panels: &[Panel<'_>],
    first_column: usize,
    out: &mut Columns<'_>,
) {
    // Known at compile time: a height that this unit never asks for costs no code.
    if ROWS > U::ROWS {
        return;
    }
    let (wide, rest) = panels.as_chunks::<WIDE>();
    let mut column = first_column;
    // SAFETY: the caller vouches for the instructions.
    unsafe {
        for panels in wide {
            match (U::WIDE, panels[0].codes) {
                (true, Codes::Nibbles) => walk::<U, ROWS, WIDE, NIBBLES>(x, first, *panels, column, out),
                (true, Codes::Listed(_)) => walk::<U, ROWS, WIDE, LISTED>(x, first, *panels, column, out),
                (true, Codes::Bytes) => walk::<U, ROWS, WIDE, BYTES>(x, first, *panels, column, out),
                (false, _) => one_by_one::<U, ROWS>(x, first, panels, column, out),
            }
            column += WIDE * LANES;
        }
        one_by_one::<U, ROWS>(x, first, rest, column, out);
    }
}

/// # Safety
/// The machine must have the unit's instructions.
#[inline(always)]
unsafe fn one_by_one<U: Unit, const ROWS: usize>(
    x: &CodeRows,
    first: usize,
    panels: &[Panel<'_>],
    first_column: usize,
    out: &mut Columns<'_>,
) {
    for (at, panel) in panels.iter().enumerate() {
        let column = first_column + at * LANES;
        // SAFETY: the caller vouches for the instructions.
        unsafe {
            match panel.codes {
                Codes::Nibbles => walk::<U, ROWS, 1, NIBBLES>(x, first, [*panel], column, out),
                Codes::Listed(_) => walk::<U, ROWS, 1, LISTED>(x, first, [*panel], column, out),
                Codes::Bytes => walk::<U, ROWS, 1, BYTES>(x, first, [*panel], column, out),
            }
        }
    }
}

/// Walks panels of one matrix block by block. A block's sums are whole numbers and exact; its scales then take them into
/// the results. Every row's operations are its own: they do not depend on which other rows are in the tile.
///
/// # Safety
/// The machine must have the unit's instructions.
#[inline(always)]
unsafe fn walk<U: Unit, const ROWS: usize, const PANELS: usize, const CODES: u8>(
    x: &CodeRows,
    first: usize,
    panels: [Panel<'_>; PANELS],
    first_column: usize,
    out: &mut Columns<'_>,
) {
    let lines = if CODES == BYTES { BLOCK / 4 } else { BLOCK / 8 };
    let groups = panels[0].groups;
    let list = match panels[0].codes {
        Codes::Listed(list) => list,
        _ => &[0; 16],
    };
    // Plain loops throughout: iterators over arrays are not always inlined into code for a vector unit.
    // SAFETY: the caller vouches for the instructions.
    unsafe {
        let list = U::list(list);
        let mut results = [[U::zero(); PANELS]; ROWS];
        for b in 0..panels[0].lines.len() / lines {
            let mut blocks = [CodeBlock::EMPTY; ROWS];
            for r in 0..ROWS {
                blocks[r] = x.block(first + r, b, BLOCK / U::PER_WORD);
            }
            let mut block_lines = [panels[0].lines; PANELS];
            for p in 0..PANELS {
                block_lines[p] = &panels[p].lines[b * lines..][..lines];
            }
            for g in 0..groups {
                let mut sums = [[U::begin(0); PANELS]; ROWS];
                if CODES != NIBBLES {
                    for r in 0..ROWS {
                        sums[r] = [U::begin(blocks[r].total(g, groups)); PANELS];
                    }
                }
                for line in g * lines / groups..(g + 1) * lines / groups {
                    add_line::<U, ROWS, PANELS, CODES>(&mut sums, &block_lines, line, list, &blocks);
                }
                for p in 0..PANELS {
                    let scales = U::factors(panels[p].scales.at(b * groups + g));
                    for r in 0..ROWS {
                        results[r][p] = U::add_sums(results[r][p], sums[r][p], scales, blocks[r].scale());
                    }
                }
            }
            for p in 0..PANELS {
                if let Some(mins) = panels[p].mins {
                    let mins = U::factors(mins.at(b));
                    for r in 0..ROWS {
                        results[r][p] = U::add_scaled(results[r][p], mins, blocks[r].sum());
                    }
                }
            }
        }
        for r in 0..ROWS {
            for p in 0..PANELS {
                out.put(first + r, first_column + p * LANES, &U::store(results[r][p]));
            }
        }
    }
}

/// Adds the products with line number `at` of a block. A word of activations is read once for all panels.
///
/// # Safety
/// The machine must have the unit's instructions.
#[inline(always)]
unsafe fn add_line<U: Unit, const ROWS: usize, const PANELS: usize, const CODES: u8>(
    sums: &mut [[U::Sums; PANELS]; ROWS],
    lines: &[&[Line]; PANELS],
    at: usize,
    list: U::List,
    blocks: &[CodeBlock<'_>; ROWS],
) {
    let steps = if CODES == BYTES { 4 } else { 8 } / U::PER_WORD;
    // One after the other by hand: a loop whose body depends on the step is not unrolled.
    // SAFETY: the caller vouches for the instructions.
    unsafe {
        add_words::<U, ROWS, PANELS, CODES, 0>(sums, lines, at, steps, list, blocks);
        if steps > 1 {
            add_words::<U, ROWS, PANELS, CODES, 1>(sums, lines, at, steps, list, blocks);
        }
        if steps > 2 {
            add_words::<U, ROWS, PANELS, CODES, 2>(sums, lines, at, steps, list, blocks);
            add_words::<U, ROWS, PANELS, CODES, 3>(sums, lines, at, steps, list, blocks);
        }
    }
}

/// Adds the products of word number `K` of a line.
///
/// # Safety
/// The machine must have the unit's instructions.
#[inline(always)]
unsafe fn add_words<U: Unit, const ROWS: usize, const PANELS: usize, const CODES: u8, const K: usize>(
    sums: &mut [[U::Sums; PANELS]; ROWS],
    lines: &[&[Line]; PANELS],
    at: usize,
    steps: usize,
    list: U::List,
    blocks: &[CodeBlock<'_>; ROWS],
) {
    // SAFETY: the caller vouches for the instructions.
    unsafe {
        let code = |line: &Line| match CODES {
            NIBBLES => U::nibbles::<K>(line),
            LISTED => U::listed::<K>(line, list),
            _ => U::bytes::<K>(line),
        };
        let mut codes = [code(&lines[0][at]); PANELS];
        for p in 1..PANELS {
            codes[p] = code(&lines[p][at]);
        }
        for r in 0..ROWS {
            let word = blocks[r].word(at * steps + K);
            for p in 0..PANELS {
                sums[r][p] = U::dot(sums[r][p], codes[p], word);
            }
        }
    }
}
