//! Many rows against four panels with fewer multiplications, where additions are cheaper.
//!
//! Two products are one, up to what belongs to one side alone (S. Winograd, *A New Algorithm for Inner Product*, 1968):
//!
//! > x₀w₀ + x₁w₁ = (x₀ + w₁)(x₁ + w₀) − x₀x₁ − w₀w₁
//!
//! A processor with twice as many pipes for additions of whole numbers as for products then has less to do. Sums are taken modulo
//! 2³², so it does not matter that those on the right are large: what is left in the end is the exact sum, as any other
//! kernel has it, and so are the results, to the last bit.
//!
//! The products of neighbouring activations are summed up when they become codes, and those of weights where a block is
//! unfolded, once for all rows. So blocks come first and rows second, and results wait in the nearest cache.
//!
//! Additions leave the pipes that multiply idle a third of the time. So two of eight pairs of words are multiplied as they are,
//! and the next block is unfolded meanwhile.

#[macro_use]
mod instructions;
pub(super) mod narrow;
mod prepare;
mod step;

use std::arch::x86_64::*;
use std::mem::MaybeUninit;
use std::ops::Range;

use super::Panel;
use super::codes::CodeView;
use super::table::Kind;
use super::tile::groups;
use crate::kernel::sheet::Columns;
use crate::kernel::unit::{Crossing, LANES, Line};

use prepare::{At, Unfolded, expect_codes, expect_scales, lines, scale, unfold};
use step::{Next, PANELS, ROWS, Results, WORDS, Work, unfolds};

/// Rows whose results wait in the nearest cache.
const MOST_ROWS: usize = 64;

/// The rows that fill tiles, if there are enough of them, and those that are left.
pub(super) fn in_tiles(rows: Range<usize>, enough: usize) -> (Range<usize>, Range<usize>) {
    let many = match rows.len() >= enough {
        true => rows.start + rows.len() / ROWS * ROWS,
        false => rows.start,
    };
    (rows.start..many, many..rows.end)
}

/// Some rows, a multiple of four, against four panels of one matrix. Results go to the columns from `first_column` on.
///
/// # Safety
/// The machine must have AVX-512 with VNNI.
#[inline(always)]
pub(super) unsafe fn multiply<U, K, const CODES: usize, const MINS: bool>(
    x: CodeView<'_>,
    rows: Range<usize>,
    panels: &[Panel<'_>],
    first_column: usize,
    out: &mut Columns<'_>,
) where
    U: Crossing<Sums = __m512i, Codes = __m512i, Floats = __m512>,
    K: Kind,
{
    assert!(rows.len().is_multiple_of(ROWS));
    let panels = panels.try_into().expect("a tile is as wide as panels come together");
    let mut first = rows.start;
    while first < rows.end {
        let some = first..rows.end.min(first + MOST_ROWS);
        first = some.end;
        // SAFETY: the caller vouches for the instructions, and rows are counted here.
        unsafe { walk::<U, K, CODES, MINS>(x, some, panels, first_column, out) };
    }
}

/// As many rows as can wait for the next block.
///
/// # Safety
/// The machine must have AVX-512 with VNNI. Rows must be a multiple of four, at least four, and no more than `MOST_ROWS`.
#[inline(always)]
unsafe fn walk<U, K, const CODES: usize, const MINS: bool>(
    x: CodeView<'_>,
    rows: Range<usize>,
    panels: &[Panel<'_>; PANELS],
    first_column: usize,
    out: &mut Columns<'_>,
) where
    U: Crossing<Sums = __m512i, Codes = __m512i, Floats = __m512>,
    K: Kind,
{
    let (tiles, blocks) = (rows.len() / ROWS, panels[0].lines.len() / lines(CODES));
    // SAFETY: the caller vouches for the instructions and for the rows, of which every tile is written before it is read. Blocks are
    // prepared before they are multiplied; panels of one size lie one behind the other, by the assertion.
    unsafe {
        // Of those that are not used nothing is written: they may be most.
        let mut results = [const { MaybeUninit::<Results>::uninit() }; MOST_ROWS / ROWS];
        let results = results.as_mut_ptr().cast::<Results>();
        results.write_bytes(0, tiles);
        let mut unfolded = [const { MaybeUninit::<Unfolded<U, PANELS>>::uninit() }; 2];
        let stride = size_of_val(panels[0].lines);
        let place = |p: usize| panels[p].lines.as_ptr().addr();
        assert!(
            (1..PANELS).all(|p| place(p) == place(0) + p * stride && size_of_val(panels[p].lines) == stride)
        );
        // Panels of the next block that are unfolded beside products.
        let beside = if unfolds(CODES) { tiles.min(PANELS) } else { 0 };
        let distance = x.distance(WORDS) as isize;
        let mut ahead = x.pieces(blocks * tiles);
        // Where nothing is left to ask for, what is there already is asked for.
        let nothing: *const u8 = results.cast_const().cast();
        let mut pieces = [nothing; MOST_ROWS / ROWS];
        let mut asking = false;
        for b in 0..blocks {
            // Two places, if a block is unfolded while another is multiplied.
            let place = if unfolds(CODES) { b % 2 } else { 0 };
            let now = (&raw mut unfolded[place]).cast::<Unfolded<U, PANELS>>();
            let next = (&raw mut unfolded[1 - place]).cast();
            let at = |p| At { block: b, blocks, place: p, together: PANELS };
            for (p, panel) in panels.iter().enumerate() {
                expect_scales::<K, CODES, MINS>(panel, at(p));
                scale::<U, K, PANELS, CODES, MINS>(panel, at(p), now);
                if b == 0 || p >= beside {
                    expect_codes::<CODES>(panel, at(p), 1);
                    unfold::<U, PANELS, CODES>(panel, at(p), now);
                }
            }
            if asking || !ahead.is_empty() {
                asking = !ahead.is_empty();
                for piece in &mut pieces[..tiles] {
                    *piece = ahead.next().unwrap_or(nothing);
                }
            }
            // Where results will go, of a tile a block: all at once, they would have to be waited for.
            if let Some(tile) = (b + tiles).checked_sub(blocks) {
                let first = rows.start + tile * ROWS;
                for row in first..first + ROWS {
                    out.expect(row, first_column, PANELS);
                }
            }
            let records = x.blocks(rows.clone(), b, WORDS).as_ptr().cast();
            let work = Work {
                records,
                tiles,
                // Behind the last block, other panels meet the first one again.
                next: if b + 1 < blocks { distance } else { -(b as isize) * distance },
                ahead: pieces.as_ptr(),
                block: now.cast(),
                results,
            };
            if beside > 0 && b + 1 < blocks {
                let next = Next {
                    lines: panels[0].lines.as_ptr().add((b + 1) * lines(CODES)),
                    stride,
                    after: (At { block: b + 1, ..at(0) }.distance(1) * lines(CODES) * size_of::<Line>())
                        as isize,
                    into: next,
                    panels: beside,
                };
                step::multiply_unfolding::<CODES>(&work, &next);
            } else {
                match const { groups(CODES) } {
                    1 => step::multiply::<1, MINS>(&work),
                    _ => step::multiply::<2, MINS>(&work),
                }
            }
        }
        give_out(std::slice::from_raw_parts(results, tiles), rows, first_column, out);
    }
}

/// Puts the results of all tiles where they belong.
#[inline(always)]
fn give_out(tiles: &[Results], rows: Range<usize>, first_column: usize, out: &mut Columns<'_>) {
    assert_eq!(rows.len(), tiles.len() * ROWS);
    let (columns, mut into, stride) = out.place(rows.clone(), first_column);
    let results = tiles.iter().flat_map(|tile| &tile.0);
    // Else the last panel is not full.
    if columns >= PANELS * LANES {
        for result in results {
            // SAFETY: so many columns of every row are there and this task's: rows are counted above, and `place` counted columns.
            unsafe { into.cast::<[[f32; LANES]; PANELS]>().write_unaligned(*result) };
            into = into.wrapping_add(stride);
        }
    } else {
        for (row, result) in rows.zip(results) {
            for (p, lanes) in result.iter().enumerate() {
                out.put(row, first_column + p * LANES, lanes);
            }
        }
    }
}
