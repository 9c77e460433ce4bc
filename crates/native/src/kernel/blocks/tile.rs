//! Rows of activations against panels of 16 outputs.

use std::ops::Range;

use super::codes::{CodeBlock, CodeView};
use super::place::PAIRS;
use super::table::Kind;
use super::{BLOCK, Panel};
use crate::kernel::sheet::Columns;
use crate::kernel::unit::{LANES, Line, Unit};
use crate::load::runs::Codes;

/// Panels of a wide tile.
pub(super) const WIDE: usize = 4;

// The kinds of [`Codes`](crate::load::runs::Codes), known where the code for a tile is made: how many bits they have, or
// that they are listed.
pub(super) const LISTED: usize = 0;
pub(super) const TWO: usize = 2;
pub(super) const THREE: usize = 3;
pub(super) const NIBBLES: usize = 4;
pub(super) const FIVE: usize = 5;
pub(super) const SIX: usize = 6;
pub(super) const BYTES: usize = 8;

/// Calls `f::<kind of scales, kind of codes, are there minima>(...)` for what a panel is made of. Every kind has a function
/// of its own: compilers take far longer over one that can do all.
macro_rules! by_kind {
    ($panel:expr, $f:ident($($arg:expr),*)) => {{
        use $crate::kernel::blocks::table::{Exponents, Fine, Full, Half, TablePart as T};
        use $crate::kernel::blocks::tile::{BYTES, FIVE, LISTED, NIBBLES, SIX, THREE, TWO};
        use $crate::load::runs::Codes;
        match ($panel.codes, $panel.scales, $panel.mins.is_some()) {
            (Codes::Listed(_), T::Half(_), _) => $f::<Half, LISTED, false>($($arg),*),
            (Codes::Listed(_), T::Fine { .. }, _) => $f::<Fine, LISTED, false>($($arg),*),
            (Codes::Listed(_), T::Exponents(_), _) => $f::<Exponents, LISTED, false>($($arg),*),
            (Codes::Listed(_), T::Full(_), _) => $f::<Full, LISTED, false>($($arg),*),
            (Codes::Bytes, T::Half(_), _) => $f::<Half, BYTES, false>($($arg),*),
            (Codes::Bits(TWO, _), T::Fine { .. }, _) => $f::<Fine, TWO, true>($($arg),*),
            (Codes::Bits(THREE, _), T::Fine { .. }, _) => $f::<Fine, THREE, false>($($arg),*),
            (Codes::Bits(NIBBLES, _), T::Half(_), _) => $f::<Half, NIBBLES, true>($($arg),*),
            (Codes::Bits(NIBBLES, _), T::Fine { .. }, _) => $f::<Fine, NIBBLES, true>($($arg),*),
            (Codes::Bits(FIVE, _), T::Half(_), false) => $f::<Half, FIVE, false>($($arg),*),
            (Codes::Bits(FIVE, _), T::Half(_), true) => $f::<Half, FIVE, true>($($arg),*),
            (Codes::Bits(FIVE, _), T::Fine { .. }, _) => $f::<Fine, FIVE, true>($($arg),*),
            (Codes::Bits(SIX, _), T::Fine { .. }, _) => $f::<Fine, SIX, false>($($arg),*),
            (codes, ..) => unreachable!("no type has {codes:?} with such scales"),
        }
    }};
}
pub(super) use by_kind;

/// An array of what is said of each panel, of which there are one or four. Spelt out: a loop would be unrolled too late for
/// its results to stay in registers, and a closure might not be inlined.
macro_rules! each_panel {
    ($p:ident => $of:expr) => {{
        const { assert!(PANELS == 1 || PANELS == 4) };
        let $p = 0;
        let mut all = [$of; PANELS];
        if PANELS == 4 {
            let $p = 1 % PANELS;
            all[$p] = $of;
            let $p = 2 % PANELS;
            all[$p] = $of;
            let $p = 3 % PANELS;
            all[$p] = $of;
        }
        all
    }};
}

/// Parts of a block with a scale of their own, for a kind of codes.
pub(super) const fn groups(codes: usize) -> usize {
    if matches!(codes, TWO | THREE | SIX) { 2 } else { 1 }
}

/// Panels side by side, with all that is known of them taken apart: many tiles follow, and each would have to.
struct Side<'a, K: Kind, const PANELS: usize> {
    lines: [&'a [Line]; PANELS],
    scales: [K::Part<'a>; PANELS],
    /// Where there are minima; else the scales again.
    mins: [K::Part<'a>; PANELS],
    list: &'a [i8; 16],
    surplus: i32,
}

impl<'a, K: Kind, const PANELS: usize> Side<'a, K, PANELS> {
    fn new(panels: &[Panel<'a>; PANELS]) -> Self {
        Side {
            lines: each_panel!(p => panels[p].lines),
            scales: each_panel!(p => K::of(panels[p].scales)),
            mins: each_panel!(p => K::of(panels[p].mins.unwrap_or(panels[p].scales))),
            list: match panels[0].codes {
                Codes::Listed(list) => list,
                _ => &[0; 16],
            },
            surplus: panels[0].surplus,
        }
    }
}

/// Some rows against some panels of one matrix. Results go to the columns from `first_column` on.
///
/// # Safety
/// The machine must have the unit's instructions.
#[inline(always)]
pub(super) unsafe fn multiply<U: Unit, K: Kind, const CODES: usize, const MINS: bool>(
    x: CodeView<'_>,
    rows: Range<usize>,
    panels: &[Panel<'_>],
    first_column: usize,
    out: &mut Columns<'_>,
) {
    debug_assert!(panels.iter().all(|panel| panel.groups == groups(CODES)));
    // Few models have codes of 2 or 3 bits: they are not worth the time to compile a second kind of tile.
    let (wide, rest) = match U::WIDE && CODES != TWO && CODES != THREE {
        true => panels.as_chunks::<WIDE>(),
        false => (&[][..], panels),
    };
    let mut column = first_column;
    // SAFETY: the caller vouches for the instructions.
    unsafe {
        for panels in wide {
            tiles::<U, K, WIDE, CODES, MINS>(x, &rows, &Side::new(panels), column, out);
            column += WIDE * LANES;
        }
        for panel in rest {
            tiles::<U, K, 1, CODES, MINS>(x, &rows, &Side::new(&[*panel]), column, out);
            column += LANES;
        }
    }
}

/// Some rows against panels, in tiles as high as the unit likes them.
///
/// # Safety
/// The machine must have the unit's instructions.
#[inline(always)]
unsafe fn tiles<U: Unit, K: Kind, const PANELS: usize, const CODES: usize, const MINS: bool>(
    x: CodeView<'_>,
    rows: &Range<usize>,
    side: &Side<'_, K, PANELS>,
    column: usize,
    out: &mut Columns<'_>,
) {
    let mut at = rows.start;
    while at < rows.end {
        let height = (rows.end - at).min(U::ROWS);
        macro_rules! tile {
            ($($rows:literal)*) => {
                match height {
                    // Known at compile time: a height that this unit never asks for costs no code.
                    // SAFETY: the caller vouches for the instructions.
                    $($rows if $rows <= U::ROWS => unsafe {
                        walk::<U, K, { $rows }, PANELS, CODES, MINS>(x, at, side, column, out)
                    },)*
                    _ => unreachable!("no unit has tiles of {height} rows"),
                }
            };
        }
        tile!(1 2 3 4);
        at += height;
    }
}

/// Walks panels of one matrix block by block. A block's sums are whole numbers and exact; its scales then take them into
/// the results. Every row's operations are its own: they do not depend on which other rows are in the tile.
///
/// # Safety
/// The machine must have the unit's instructions.
#[inline(always)]
unsafe fn walk<
    U: Unit,
    K: Kind,
    const ROWS: usize,
    const PANELS: usize,
    const CODES: usize,
    const MINS: bool,
>(
    x: CodeView<'_>,
    first: usize,
    side: &Side<'_, K, PANELS>,
    first_column: usize,
    out: &mut Columns<'_>,
) {
    let lines = if CODES == LISTED { 4 } else { CODES };
    // All that can be is known at compile time: a condition in the loop would double its code.
    let groups = const { groups(CODES) };
    let surplus = match CODES {
        TWO | NIBBLES => 0,
        LISTED | BYTES => U::ADDED,
        _ => side.surplus,
    };
    let (scales, mins) = (side.scales, side.mins);
    // Plain loops throughout: iterators over arrays are not always inlined into code for a vector unit.
    // SAFETY: the caller vouches for the instructions.
    unsafe {
        let list = U::list(side.list);
        let mut results = [[U::zero(); PANELS]; ROWS];
        for b in 0..side.lines[0].len() / lines {
            let mut blocks = [CodeBlock::EMPTY; ROWS];
            for r in 0..ROWS {
                blocks[r] = x.block(first + r, b, BLOCK / U::PER_WORD);
            }
            let block_lines = each_panel!(p => &side.lines[p][b * lines..][..lines]);
            for g in 0..groups {
                let mut sums = [[U::begin(0); PANELS]; ROWS];
                for r in 0..ROWS {
                    sums[r] = [U::begin((-surplus).wrapping_mul(blocks[r].total(g, groups))); PANELS];
                }
                for pair in g * PAIRS / groups..(g + 1) * PAIRS / groups {
                    if CODES == NIBBLES || CODES == LISTED {
                        add_line::<U, ROWS, PANELS, CODES>(&mut sums, &block_lines, pair, list, &blocks);
                    } else {
                        add_strip::<U, ROWS, PANELS, CODES, 0>(&mut sums, &block_lines, pair, &blocks);
                        add_strip::<U, ROWS, PANELS, CODES, 1>(&mut sums, &block_lines, pair, &blocks);
                    }
                }
                for p in 0..PANELS {
                    let scales = U::factors(K::at(scales[p], b * groups + g, b));
                    for r in 0..ROWS {
                        results[r][p] = U::add_sums(results[r][p], sums[r][p], scales, blocks[r].scale());
                    }
                }
                if MINS {
                    for p in 0..PANELS {
                        let mins = U::factors(K::at(mins[p], b * groups + g, b));
                        for r in 0..ROWS {
                            results[r][p] = U::add_scaled(results[r][p], mins, blocks[r].sum(g, groups));
                        }
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

/// Adds the products with a pair of strips that is a line, whose nibbles come down one by one. A word of activations is read
/// once for all panels.
///
/// # Safety
/// The machine must have the unit's instructions.
#[inline(always)]
unsafe fn add_line<U: Unit, const ROWS: usize, const PANELS: usize, const CODES: usize>(
    sums: &mut [[U::Sums; PANELS]; ROWS],
    lines: &[&[Line]; PANELS],
    pair: usize,
    list: U::List,
    blocks: &[CodeBlock<'_>; ROWS],
) {
    // One after the other by hand: a loop whose body depends on the step is not unrolled.
    // SAFETY: the caller vouches for the instructions.
    unsafe {
        add_nibbles::<U, ROWS, PANELS, CODES, 0>(sums, lines, pair, list, blocks);
        add_nibbles::<U, ROWS, PANELS, CODES, 1>(sums, lines, pair, list, blocks);
        if U::PER_WORD == 2 {
            add_nibbles::<U, ROWS, PANELS, CODES, 2>(sums, lines, pair, list, blocks);
            add_nibbles::<U, ROWS, PANELS, CODES, 3>(sums, lines, pair, list, blocks);
        }
    }
}

/// Adds the products of word number `K` of a line.
///
/// # Safety
/// The machine must have the unit's instructions.
#[inline(always)]
unsafe fn add_nibbles<U: Unit, const ROWS: usize, const PANELS: usize, const CODES: usize, const K: usize>(
    sums: &mut [[U::Sums; PANELS]; ROWS],
    lines: &[&[Line]; PANELS],
    at: usize,
    list: U::List,
    blocks: &[CodeBlock<'_>; ROWS],
) {
    // SAFETY: the caller vouches for the instructions.
    unsafe {
        let code = |line: &Line| match CODES {
            NIBBLES => U::nibbles::<K>(line),
            _ => U::listed::<K>(line, list),
        };
        let codes = each_panel!(p =>  code(&lines[p][at]));
        add_word::<U, ROWS, PANELS>(sums, &codes, at * (8 / U::PER_WORD) + K, blocks);
    }
}

/// Adds the products with one strip.
///
/// # Safety
/// The machine must have the unit's instructions.
#[inline(always)]
unsafe fn add_strip<
    U: Unit,
    const ROWS: usize,
    const PANELS: usize,
    const CODES: usize,
    const SECOND: usize,
>(
    sums: &mut [[U::Sums; PANELS]; ROWS],
    lines: &[&[Line]; PANELS],
    pair: usize,
    blocks: &[CodeBlock<'_>; ROWS],
) {
    // SAFETY: the caller vouches for the instructions.
    unsafe {
        let strips: [U::Strip; PANELS] = each_panel!(p =>  U::strip::<CODES, SECOND>(lines[p], pair));
        // The words of two strips take turns.
        let word = pair * (8 / U::PER_WORD) + SECOND;
        let codes = each_panel!(p =>  U::strip_codes::<CODES, 0>(strips[p]));
        add_word::<U, ROWS, PANELS>(sums, &codes, word, blocks);
        if U::PER_WORD == 2 {
            let codes = each_panel!(p =>  U::strip_codes::<CODES, 1>(strips[p]));
            add_word::<U, ROWS, PANELS>(sums, &codes, word + 2, blocks);
        }
    }
}

/// Adds the products of the rows' words at one place with the codes that meet them.
///
/// # Safety
/// The machine must have the unit's instructions.
#[inline(always)]
unsafe fn add_word<U: Unit, const ROWS: usize, const PANELS: usize>(
    sums: &mut [[U::Sums; PANELS]; ROWS],
    codes: &[U::Codes; PANELS],
    at: usize,
    blocks: &[CodeBlock<'_>; ROWS],
) {
    for r in 0..ROWS {
        let word = blocks[r].word(at);
        for p in 0..PANELS {
            // SAFETY: the caller vouches for the instructions.
            sums[r][p] = unsafe { U::dot(sums[r][p], codes[p], word) };
        }
    }
}
