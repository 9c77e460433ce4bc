//! Many rows against four panels with half of the multiplications, where additions are cheaper.
//!
//! Two products are one, up to what belongs to one side alone (S. Winograd, *A New Algorithm for Inner Product*, 1968):
//!
//! > x₀w₀ + x₁w₁ = (x₀ + w₁)(x₁ + w₀) − x₀x₁ − w₀w₁
//!
//! A processor with twice as many pipes for additions of whole numbers as for products then has less to do. Sums are taken modulo
//! 2³², so it does not matter that those on the right are large: what is left in the end is the exact sum, as any other
//! kernel has it, and so are the results, to the last bit.
//!
//! The products of neighbouring activations are summed up when they become codes, and those of weights here, where a block is
//! unfolded once for all rows. So blocks come first and rows second, and results wait in the nearest cache.
//!
//! Additions leave the pipes that multiply idle a third of the time. So what multiplies at the end of a tile, where sums become
//! floats and meet their scales, is done during the next one.

#[macro_use]
mod instructions;
pub(super) mod narrow;
mod prepare;
mod step;

use std::arch::x86_64::*;
use std::mem::MaybeUninit;
use std::ops::Range;

use super::codes::CodeView;
use super::table::Kind;
use super::tile::{NIBBLES, groups};
use super::{Panel, UNFOLDED_ROWS};
use crate::kernel::sheet::Columns;
use crate::kernel::unit::{Crossing, LANES, Line};

use prepare::{At, Unfolded, lines, prepare};
use step::{Factors, Left, PANELS, RECORD, ROWS, Results, WORDS, Work, finish};

/// Rows whose results wait in the nearest cache.
const MOST_ROWS: usize = 64;

/// The rows that should be multiplied here, and those that are left.
pub(super) fn suitable(rows: Range<usize>, panels: &[Panel<'_>]) -> (Range<usize>, Range<usize>) {
    let many = match panels.len() == PANELS && rows.len() >= UNFOLDED_ROWS {
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
    let Ok(panels) = panels.try_into() else { return };
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
/// The machine must have AVX-512 with VNNI. Rows must be a multiple of four, and no more than `MOST_ROWS`.
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
    let groups = const { groups(CODES) };
    let (tiles, blocks) = (rows.len() / ROWS, panels[0].lines.len() / lines(CODES));
    // SAFETY: the caller vouches for the instructions and for the rows, of which every tile is written before it is read, and
    // blocks are unfolded before they are multiplied, or by the first tile. What steps are told of stays until the next has finished them.
    unsafe {
        // Of those that are not used nothing is written: they may be most.
        let mut results = [const { MaybeUninit::<Results>::uninit() }; MOST_ROWS / ROWS];
        for tile in &mut results[..tiles] {
            tile.write(Results::ZERO);
        }
        let results = results.as_mut_ptr();
        let mut unfolded = MaybeUninit::<Unfolded<U, PANELS>>::uninit();
        let unfolded = unfolded.as_mut_ptr();
        // Before the first step there was none: what it would have left is added to nothing.
        let (mut nothing, zero) = (Results::ZERO, [0f32; ROWS * RECORD / size_of::<f32>()]);
        let zeros: Factors = std::mem::zeroed();
        let mut left = Left {
            sums: std::mem::zeroed(),
            records: zero.as_ptr().cast(),
            factors: &zeros,
            results: &raw mut nothing,
        };
        let mut ahead = x.pieces(blocks * tiles);
        for b in 0..blocks {
            for p in 0..PANELS {
                let at = At { block: b, blocks, place: p, together: PANELS };
                prepare::<U, K, PANELS, CODES, MINS, true>(&panels[p], at, unfolded);
                if CODES == NIBBLES {
                    (*unfolded).begins[0][p] =
                        crossed_nibbles(&panels[p].lines[b * lines(CODES)..][..lines(CODES)]);
                }
            }
            let records = x.blocks(rows.clone(), b, WORDS).as_ptr().cast();
            // What is there already is asked for again where nothing is left.
            let mut pieces = [records; MOST_ROWS / ROWS];
            for piece in &mut pieces[..tiles] {
                *piece = ahead.next().unwrap_or(records);
            }
            // Where results will go, of a tile a block: all at once, they would have to be waited for.
            if let Some(tile) = (b + tiles).checked_sub(blocks) {
                expect(&rows, tile, first_column, out);
            }
            let mut work = Work {
                records,
                tiles,
                next: x.distance(WORDS),
                ahead: pieces.as_ptr(),
                block: unfolded.cast(),
                factors: (&raw const (*unfolded).factors[b % 2]).cast(),
                results: results.cast(),
            };
            if CODES == NIBBLES {
                step::unfold::<MINS>(
                    &mut work,
                    panels.each_ref().map(|panel| &panel.lines[b * lines(CODES)]),
                    &mut left,
                );
            }
            match groups {
                _ if work.tiles == 0 => {}
                1 => step::multiply::<1, MINS>(&work, &mut left),
                _ => step::multiply::<2, MINS>(&work, &mut left),
            }
        }
        match groups {
            1 => finish::<U, 1, MINS>(&left),
            _ => finish::<U, 2, MINS>(&left),
        }
        for row in rows.clone() {
            for p in 0..PANELS {
                let at = row - rows.start;
                let result = &(*results.add(at / ROWS)).assume_init_ref().0[at % ROWS][p];
                out.put(row, first_column + p * LANES, result);
            }
        }
    }
}

/// Asks for the places of a tile's results.
#[inline(always)]
fn expect(rows: &Range<usize>, tile: usize, first_column: usize, out: &mut Columns<'_>) {
    let first = rows.start + tile * ROWS;
    for row in first..first + ROWS {
        for p in 0..PANELS {
            out.expect(row, first_column + p * LANES);
        }
    }
}

/// What the products of neighbouring codes sum to, with the other sign, of nibbles as they lie: neighbours share a byte.
///
/// # Safety
/// The machine must have AVX-512 with VNNI.
#[inline(always)]
unsafe fn crossed_nibbles(lines: &[Line]) -> __m512i {
    // SAFETY: the caller vouches for the instructions, and 64 bytes are read of every line.
    unsafe {
        let low = _mm512_set1_epi8(0xf);
        let mut sum = _mm512_setzero_si512();
        for line in lines {
            let line = _mm512_load_si512(line.0.as_ptr().cast());
            let upper = _mm512_and_si512(_mm512_srli_epi16::<4>(line), low);
            sum = _mm512_dpbusd_epi32(sum, _mm512_and_si512(line, low), upper);
        }
        _mm512_sub_epi32(_mm512_setzero_si512(), sum)
    }
}
