//! Rows of activations against 16 outputs.

use std::ops::Range;

use super::codes::{CodeBlock, CodeRows};
use super::unit::{LANES, Line, Unit};
use super::{BLOCK, Panel};

/// Some rows against one panel, in tiles as tall as the unit likes them. `out` gets each row's results.
///
/// # Safety
/// The machine must have the unit's instructions.
#[inline(always)]
pub(super) unsafe fn multiply<U: Unit>(
    x: &CodeRows,
    rows: Range<usize>,
    panel: Panel<'_>,
    mut out: impl FnMut(usize, &[f32; LANES]),
) {
    let mut at = rows.start;
    while at < rows.end {
        let height = (rows.end - at).min(U::ROWS);
        macro_rules! tile {
            ($($rows:literal)*) => {
                match height {
                    // SAFETY: the caller vouches for the instructions.
                    $($rows => unsafe { tile::<U, { $rows }>(x, at, panel, &mut out) },)*
                    _ => unreachable!("no unit has tiles of {height} rows"),
                }
            };
        }
        tile!(1 2 3 4 5 6 7 8);
        at += height;
    }
}

/// # Safety
/// The machine must have the unit's instructions.
#[inline(always)]
unsafe fn tile<U: Unit, const ROWS: usize>(
    x: &CodeRows,
    first: usize,
    panel: Panel<'_>,
    out: &mut impl FnMut(usize, &[f32; LANES]),
) {
    // Known at compile time: a height that this unit never asks for costs no code.
    if ROWS > U::ROWS {
        return;
    }
    // SAFETY: the caller vouches for the instructions.
    unsafe {
        let results = match panel.nibbles {
            true => walk::<U, ROWS, true>(x, first, panel),
            false => walk::<U, ROWS, false>(x, first, panel),
        };
        for r in 0..ROWS {
            out(first + r, &U::store(results[r]));
        }
    }
}

/// Walks the panel block by block. A block's sums are whole numbers and exact; its scales then take them into the results.
/// Every row's operations are its own: they do not depend on which other rows are in the tile.
///
/// # Safety
/// The machine must have the unit's instructions.
#[inline(always)]
unsafe fn walk<U: Unit, const ROWS: usize, const NIBBLES: bool>(
    x: &CodeRows,
    first: usize,
    panel: Panel<'_>,
) -> [U::Floats; ROWS] {
    let lines_per_block = if NIBBLES { BLOCK / 8 } else { BLOCK / 4 };
    let lines_per_group = lines_per_block / panel.groups;
    // SAFETY: the caller vouches for the instructions.
    unsafe {
        let mut results = [U::zero(); ROWS];
        for (b, lines) in panel.lines.chunks_exact(lines_per_block).enumerate() {
            // Plain loops throughout: iterators over arrays are not always inlined into code for a vector unit.
            let mut blocks = [CodeBlock::EMPTY; ROWS];
            for r in 0..ROWS {
                blocks[r] = x.block(first + r, b, BLOCK / U::PER_WORD);
            }
            for (g, lines) in lines.chunks_exact(lines_per_group).enumerate() {
                let mut sums = [U::begin(0); ROWS];
                if !NIBBLES {
                    for r in 0..ROWS {
                        sums[r] = U::begin(blocks[r].total(g, panel.groups));
                    }
                }
                for (at, line) in lines.iter().enumerate() {
                    add_line::<U, ROWS, NIBBLES>(&mut sums, line, g * lines_per_group + at, &blocks);
                }
                let scales = U::factors(panel.scales.at(b * panel.groups + g));
                for r in 0..ROWS {
                    results[r] = U::add_sums(results[r], sums[r], scales, blocks[r].scale());
                }
            }
            if let Some(mins) = panel.mins {
                let mins = U::factors(mins.at(b));
                for r in 0..ROWS {
                    results[r] = U::add_scaled(results[r], mins, blocks[r].sum());
                }
            }
        }
        results
    }
}

/// Adds the products with line number `at` of a block.
///
/// # Safety
/// The machine must have the unit's instructions.
#[inline(always)]
unsafe fn add_line<U: Unit, const ROWS: usize, const NIBBLES: bool>(
    sums: &mut [U::Sums; ROWS],
    line: &Line,
    at: usize,
    blocks: &[CodeBlock<'_>; ROWS],
) {
    let steps = if NIBBLES { 8 } else { 4 } / U::PER_WORD;
    for k in 0..steps {
        // SAFETY: the caller vouches for the instructions.
        unsafe {
            let codes = if NIBBLES { U::nibbles(line, k) } else { U::bytes(line, k) };
            for r in 0..ROWS {
                sums[r] = U::dot(sums[r], codes, blocks[r].word(at * steps + k));
            }
        }
    }
}
