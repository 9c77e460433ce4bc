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

use std::arch::asm;
use std::arch::x86_64::*;
use std::mem::MaybeUninit;
use std::ops::Range;

use super::codes::{CodeBlock, CodeView};
use super::place::PAIRS;
use super::table::Kind;
use super::tile::{BYTES, LISTED, NIBBLES, TWO, groups};
use super::{BLOCK, Panel, UNFOLDED_ROWS};
use crate::kernel::sheet::Columns;
use crate::kernel::unit::{LANES, Line, Unit, ask_for};
use crate::load::runs::Codes;

/// Panels that are unfolded together.
const PANELS: usize = 4;
/// Rows of a tile.
const ROWS: usize = 4;
/// Rows whose results wait in the nearest cache.
const MOST_ROWS: usize = 64;
/// Words of a block, two activations each.
const WORDS: usize = BLOCK / 2;

/// Something for each row and panel of a tile.
type Tile<T> = [[T; PANELS]; ROWS];

/// The results of a tile, which lie where vectors can be loaded.
#[repr(C, align(64))]
struct Results(Tile<[f32; LANES]>);

/// A block of four panels, ready to be multiplied with any number of rows.
#[repr(C, align(64))]
struct Unfolded {
    /// For every two words: the codes that meet the first, and those that meet the second.
    codes: [[[__m512i; PANELS]; 2]; WORDS / 2],
    /// For every group of inputs: what sums begin with, the scales, and the minima.
    begins: [[__m512i; PANELS]; 2],
    scales: [[__m512; PANELS]; 2],
    mins: [[__m512; PANELS]; 2],
}

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
    let lines = if CODES == LISTED { 4 } else { CODES };
    let blocks = panels[0].lines.len() / lines;
    // SAFETY: the caller vouches for the instructions and for the rows, of which every tile is written before it is read.
    unsafe {
        // Of those that are not used nothing is written: they may be most.
        let mut results = [const { MaybeUninit::<Results>::uninit() }; MOST_ROWS / ROWS];
        for tile in &mut results[..rows.len() / ROWS] {
            tile.write(Results([[[0.0; LANES]; PANELS]; ROWS]));
        }
        let mut unfolded: Unfolded = std::mem::zeroed();
        for b in 0..blocks {
            for p in 0..PANELS {
                prepare::<U, K, CODES, MINS>(&panels[p], b, blocks, p, &mut unfolded);
            }
            for first in rows.clone().step_by(ROWS) {
                // Plain arrays and loops throughout: `map` is not always inlined into code for a vector unit.
                let of_row = |r: usize| x.block(first + r, b, WORDS);
                let block = [of_row(0), of_row(1), of_row(2), of_row(3)];
                if b + 1 == blocks {
                    for r in 0..ROWS {
                        for p in 0..PANELS {
                            out.expect(first + r, first_column + p * LANES);
                        }
                    }
                }
                let results = results[(first - rows.start) / ROWS].assume_init_mut();
                add_block::<U, CODES, MINS>(&block, panels[0].surplus, &unfolded, results);
            }
        }
        for row in rows.clone() {
            for p in 0..PANELS {
                let at = row - rows.start;
                let result = &results[at / ROWS].assume_init_ref().0[at % ROWS][p];
                out.put(row, first_column + p * LANES, result);
            }
        }
    }
}

/// Unfolds a block of panel `p`, with its scales and minima, and asks for what will be unfolded next.
///
/// # Safety
/// The machine must have AVX-512 with VNNI.
#[inline(always)]
unsafe fn prepare<U, K, const CODES: usize, const MINS: bool>(
    panel: &Panel<'_>,
    b: usize,
    blocks: usize,
    p: usize,
    into: &mut Unfolded,
) where
    U: Unit<Sums = __m512i, Codes = __m512i, Floats = __m512>,
    K: Kind,
{
    let count = if CODES == LISTED { 4 } else { CODES };
    let groups = const { groups(CODES) };
    let lines = &panel.lines[b * count..][..count];
    // The block behind this one, or the first of the panel that takes this one's place.
    let panels_between = if b + 1 == blocks { PANELS - 1 } else { 0 };
    for at in 0..count {
        ask_for(lines.as_ptr().wrapping_add((1 + panels_between * blocks) * count + at));
    }
    let (scales, mins) = (K::of(panel.scales), K::of(panel.mins.unwrap_or(panel.scales)));
    // SAFETY: the caller vouches for the instructions.
    unsafe {
        unfold::<U, CODES>(panel, lines, p, into);
        for g in 0..groups {
            let entry = K::at(scales, b * groups + g, b);
            ask_for(entry.place().wrapping_add(size_of::<Line>()));
            into.scales[g][p] = U::factors(entry);
            if MINS {
                let entry = K::at(mins, b * groups + g, b);
                ask_for(entry.place().wrapping_add(size_of::<Line>()));
                into.mins[g][p] = U::factors(entry);
            }
        }
    }
}

/// Adds a block's products to the results of a tile, and asks for the rows' next blocks.
///
/// # Safety
/// The machine must have AVX-512 with VNNI.
#[inline(always)]
unsafe fn add_block<U, const CODES: usize, const MINS: bool>(
    block: &[CodeBlock<'_>; ROWS],
    surplus: i32,
    unfolded: &Unfolded,
    results: &mut Results,
) where
    U: Unit<Sums = __m512i, Codes = __m512i, Floats = __m512>,
{
    let groups = const { groups(CODES) };
    let surplus = if matches!(CODES, TWO | NIBBLES | LISTED | BYTES) { 0 } else { surplus };
    for r in 0..ROWS {
        // They lie behind these.
        let words = block[r].words().as_ptr();
        ask_for(words.wrapping_add(2 * WORDS));
        ask_for(words.wrapping_add(3 * WORDS));
    }
    // SAFETY: the caller vouches for the instructions; there are two words of each row for every pair, and pairs in every group.
    unsafe {
        for g in 0..groups {
            let mut sums = [[U::begin(0); PANELS]; ROWS];
            let mut words = [std::ptr::null(); ROWS];
            let pairs = g * WORDS / 2 / groups..(g + 1) * WORDS / 2 / groups;
            for r in 0..ROWS {
                let minus = surplus.wrapping_mul(block[r].total(g, groups));
                let begin = U::begin(minus.wrapping_add(block[r].crossed(g, groups)).wrapping_neg());
                for p in 0..PANELS {
                    sums[r][p] = _mm512_add_epi32(unfolded.begins[g][p], begin);
                }
                words[r] = block[r].words()[2 * pairs.start..2 * pairs.end].as_ptr();
            }
            add_pairs(&mut sums, &unfolded.codes[pairs], words);
            for r in 0..ROWS {
                for p in 0..PANELS {
                    let (scales, scale) = (unfolded.scales[g][p], block[r].scale());
                    let result = &mut results.0[r][p];
                    let mut sum = U::add_sums(_mm512_load_ps(result.as_ptr()), sums[r][p], scales, scale);
                    // All minima after all sums, as in any other kernel.
                    if MINS && g == groups - 1 {
                        for g in 0..groups {
                            sum = U::add_scaled(sum, unfolded.mins[g][p], block[r].sum(g, groups));
                        }
                    }
                    _mm512_store_ps(result.as_mut_ptr(), sum);
                }
            }
        }
    }
}

/// Unfolds the codes of a block of panel `p`, and sums up the products of those that meet neighbouring words.
///
/// # Safety
/// The machine must have AVX-512 with VNNI.
#[inline(always)]
unsafe fn unfold<U, const CODES: usize>(panel: &Panel<'_>, lines: &[Line], p: usize, into: &mut Unfolded)
where
    U: Unit<Sums = __m512i, Codes = __m512i, Floats = __m512>,
{
    let groups = const { groups(CODES) };
    let list = match panel.codes {
        Codes::Listed(list) => list,
        _ => &[0; 16],
    };
    // SAFETY: the caller vouches for the instructions.
    unsafe {
        let list = U::list(list);
        for g in 0..groups {
            let mut crossed = [U::begin(0); 2];
            for pair in g * PAIRS / groups..(g + 1) * PAIRS / groups {
                let codes = match CODES {
                    NIBBLES => {
                        let line = &lines[pair];
                        [
                            U::nibbles::<0>(line),
                            U::nibbles::<1>(line),
                            U::nibbles::<2>(line),
                            U::nibbles::<3>(line),
                        ]
                    }
                    LISTED => {
                        let line = &lines[pair];
                        [
                            U::listed::<0>(line, list),
                            U::listed::<1>(line, list),
                            U::listed::<2>(line, list),
                            U::listed::<3>(line, list),
                        ]
                    }
                    _ => {
                        let (first, second) =
                            (U::strip::<CODES, 0>(lines, pair), U::strip::<CODES, 1>(lines, pair));
                        [
                            U::strip_codes::<CODES, 0>(first),
                            U::strip_codes::<CODES, 0>(second),
                            U::strip_codes::<CODES, 1>(first),
                            U::strip_codes::<CODES, 1>(second),
                        ]
                    }
                };
                for half in 0..2 {
                    let (first, second) = (codes[2 * half], codes[2 * half + 1]);
                    let products = _mm512_madd_epi16(first, second);
                    crossed[half] = _mm512_add_epi32(crossed[half], products);
                    into.codes[2 * pair + half][0][p] = first;
                    into.codes[2 * pair + half][1][p] = second;
                }
            }
            let crossed = _mm512_add_epi32(crossed[0], crossed[1]);
            into.begins[g][p] = _mm512_sub_epi32(_mm512_setzero_si512(), crossed);
        }
    }
}

/// Two words of a row, each with the other's codes added, against each other, for four panels. The codes that meet the first word
/// are in registers 16 to 19, those that meet the second in 20 to 23.
macro_rules! row {
    ($words:literal, $a:literal, $b:literal, $c:literal, $d:literal) => {
        concat!(
            "vpbroadcastd zmm24, dword ptr [{", $words, "}]\n",
            "vpbroadcastd zmm25, dword ptr [{", $words, "} + 4]\n",
            "add {", $words, "}, 8\n",
            row!(@panel "zmm16", "zmm20", $a),
            row!(@panel "zmm17", "zmm21", $b),
            row!(@panel "zmm18", "zmm22", $c),
            row!(@panel "zmm19", "zmm23", $d),
        )
    };
    (@panel $first:literal, $second:literal, $sums:literal) => {
        concat!(
            "vpaddw zmm26, zmm24, ", $second, "\n",
            "vpaddw zmm27, zmm25, ", $first, "\n",
            "vpdpwssd {", $sums, "}, zmm26, zmm27\n",
        )
    };
}

/// Adds the products of pairs of words with their codes. The loop is spelt out: with 16 sums and eight vectors of codes there
/// are few registers left, and a compiler that wants more spends the time that the additions save.
///
/// # Safety
/// There must be a pair, and each row must have two words for each of them.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
unsafe fn add_pairs(sums: &mut Tile<__m512i>, codes: &[[[__m512i; PANELS]; 2]], words: [*const i32; ROWS]) {
    debug_assert!(!codes.is_empty());
    let [[a0, a1, a2, a3], [b0, b1, b2, b3], [c0, c1, c2, c3], [d0, d1, d2, d3]] = sums;
    // SAFETY: reads the codes, which are aligned as vectors are, and as many words as the caller vouches for; writes registers.
    unsafe {
        asm!(
            "2:",
            "vmovdqa64 zmm16, zmmword ptr [{codes}]",
            "vmovdqa64 zmm17, zmmword ptr [{codes} + 64]",
            "vmovdqa64 zmm18, zmmword ptr [{codes} + 128]",
            "vmovdqa64 zmm19, zmmword ptr [{codes} + 192]",
            "vmovdqa64 zmm20, zmmword ptr [{codes} + 256]",
            "vmovdqa64 zmm21, zmmword ptr [{codes} + 320]",
            "vmovdqa64 zmm22, zmmword ptr [{codes} + 384]",
            "vmovdqa64 zmm23, zmmword ptr [{codes} + 448]",
            "add {codes}, 512",
            row!("w0", "a0", "a1", "a2", "a3"),
            row!("w1", "b0", "b1", "b2", "b3"),
            row!("w2", "c0", "c1", "c2", "c3"),
            row!("w3", "d0", "d1", "d2", "d3"),
            "dec {left}",
            "jnz 2b",
            codes = inout(reg) codes.as_ptr() => _,
            left = inout(reg) codes.len() => _,
            w0 = inout(reg) words[0] => _,
            w1 = inout(reg) words[1] => _,
            w2 = inout(reg) words[2] => _,
            w3 = inout(reg) words[3] => _,
            a0 = inout(zmm_reg) *a0, a1 = inout(zmm_reg) *a1, a2 = inout(zmm_reg) *a2, a3 = inout(zmm_reg) *a3,
            b0 = inout(zmm_reg) *b0, b1 = inout(zmm_reg) *b1, b2 = inout(zmm_reg) *b2, b3 = inout(zmm_reg) *b3,
            c0 = inout(zmm_reg) *c0, c1 = inout(zmm_reg) *c1, c2 = inout(zmm_reg) *c2, c3 = inout(zmm_reg) *c3,
            d0 = inout(zmm_reg) *d0, d1 = inout(zmm_reg) *d1, d2 = inout(zmm_reg) *d2, d3 = inout(zmm_reg) *d3,
            out("zmm16") _, out("zmm17") _, out("zmm18") _, out("zmm19") _,
            out("zmm20") _, out("zmm21") _, out("zmm22") _, out("zmm23") _,
            out("zmm24") _, out("zmm25") _, out("zmm26") _, out("zmm27") _,
            options(readonly, nostack),
        );
    }
}
