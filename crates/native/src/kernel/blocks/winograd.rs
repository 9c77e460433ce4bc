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
mod step;

use std::arch::x86_64::*;
use std::mem::MaybeUninit;
use std::ops::Range;

use super::codes::CodeView;
use super::place::PAIRS;
use super::table::Kind;
use super::tile::{BYTES, LISTED, NIBBLES, TWO, groups};
use super::{Panel, UNFOLDED_ROWS};
use crate::kernel::sheet::Columns;
use crate::kernel::unit::{LANES, Line, Unit, ask_for};
use crate::load::runs::Codes;

use step::{Factors, Left, PANELS, RECORD, ROWS, Results, Unfolded, WORDS, Work, finish};

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
    U: Unit<Sums = __m512i, Codes = __m512i, Floats = __m512>,
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
    U: Unit<Sums = __m512i, Codes = __m512i, Floats = __m512>,
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
        let mut unfolded = MaybeUninit::<Unfolded>::uninit();
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
                prepare::<U, K, CODES, MINS>(&panels[p], b, blocks, p, unfolded);
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
                block: unfolded,
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

/// Lines of a block of a panel.
const fn lines(codes: usize) -> usize {
    if codes == LISTED { 4 } else { codes }
}

/// Prepares a block of panel `p`: its scales and minima, what sums begin with, and (but for nibbles, which the first tile unfolds)
/// its codes. Asks for what will be prepared next.
///
/// # Safety
/// The machine must have AVX-512 with VNNI. Nothing need be there where it goes, but there must be room.
#[inline(always)]
unsafe fn prepare<U, K, const CODES: usize, const MINS: bool>(
    panel: &Panel<'_>,
    b: usize,
    blocks: usize,
    p: usize,
    into: *mut Unfolded,
) where
    U: Unit<Sums = __m512i, Codes = __m512i, Floats = __m512>,
    K: Kind,
{
    let (count, groups) = const { (lines(CODES), groups(CODES)) };
    let lines = &panel.lines[b * count..][..count];
    // The block behind this one, or the first of the panel that takes this one's place.
    let panels_between = if b + 1 == blocks { PANELS - 1 } else { 0 };
    for at in 0..count {
        ask_for(lines.as_ptr().wrapping_add((1 + panels_between * blocks) * count + at));
    }
    let (scales, mins) = (K::of(panel.scales), K::of(panel.mins.unwrap_or(panel.scales)));
    // SAFETY: the caller vouches for the instructions, and for the place.
    unsafe {
        let factors = &raw mut (*into).factors[b % 2];
        for g in 0..groups {
            let entry = K::at(scales, b * groups + g, b);
            ask_for(entry.place().wrapping_add(size_of::<Line>()));
            (*factors)[g].scales[p] = U::factors(entry);
            if MINS {
                let entry = K::at(mins, b * groups + g, b);
                ask_for(entry.place().wrapping_add(size_of::<Line>()));
                (*factors)[g].mins[p] = U::factors(entry);
            }
            if CODES == NIBBLES {
                (*into).begins[g][p] = crossed_nibbles(lines);
                continue;
            }
            let mut begin = U::begin(0);
            for pair in g * PAIRS / groups..(g + 1) * PAIRS / groups {
                let codes = unfold::<U, CODES>(panel, lines, pair);
                for half in 0..2 {
                    let (first, second) = (codes[2 * half], codes[2 * half + 1]);
                    begin = _mm512_sub_epi32(begin, _mm512_madd_epi16(first, second));
                    (*into).codes[2 * pair + half][0][p] = first;
                    (*into).codes[2 * pair + half][1][p] = second;
                }
            }
            (*into).begins[g][p] = begin;
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

/// The codes that meet four words, of all kinds but nibbles.
///
/// # Safety
/// The machine must have AVX-512 with VNNI.
#[inline(always)]
unsafe fn unfold<U, const CODES: usize>(panel: &Panel<'_>, lines: &[Line], pair: usize) -> [__m512i; 4]
where
    U: Unit<Sums = __m512i, Codes = __m512i, Floats = __m512>,
{
    // SAFETY: the caller vouches for the instructions.
    unsafe {
        match CODES {
            LISTED => {
                let list = match panel.codes {
                    Codes::Listed(list) => list,
                    _ => &[0; 16],
                };
                let (line, list) = (&lines[pair], U::list(list));
                [
                    U::listed::<0>(line, list),
                    U::listed::<1>(line, list),
                    U::listed::<2>(line, list),
                    U::listed::<3>(line, list),
                ]
            }
            _ => {
                let (first, second) = (U::strip::<CODES, 0>(lines, pair), U::strip::<CODES, 1>(lines, pair));
                let codes = [
                    U::strip_codes::<CODES, 0>(first),
                    U::strip_codes::<CODES, 0>(second),
                    U::strip_codes::<CODES, 1>(first),
                    U::strip_codes::<CODES, 1>(second),
                ];
                if matches!(CODES, TWO | BYTES) {
                    return codes;
                }
                // Once here, instead of from every row's sums.
                let surplus = _mm512_set1_epi16(panel.surplus as i16);
                let less = |codes: __m512i| _mm512_sub_epi16(codes, surplus);
                [less(codes[0]), less(codes[1]), less(codes[2]), less(codes[3])]
            }
        }
    }
}
