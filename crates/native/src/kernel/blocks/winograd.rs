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

use std::arch::asm;
use std::arch::x86_64::*;
use std::mem::{MaybeUninit, offset_of};
use std::ops::Range;

use super::codes::{Beside, CodeView};
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
/// Bytes of a row's record of a block, and where in it lies what is beside the words.
const RECORD: usize = BESIDE + size_of::<Beside>();
const BESIDE: usize = WORDS * size_of::<i32>();

/// Something for each row and panel of a tile.
type Tile<T> = [[T; PANELS]; ROWS];

/// The results of a tile, which lie where vectors can be loaded.
#[repr(C, align(64))]
struct Results(Tile<[f32; LANES]>);

impl Results {
    const ZERO: Self = Results([[[0.0; LANES]; PANELS]; ROWS]);
}

/// What makes floats of a group's sums.
#[repr(C, align(64))]
struct Factors {
    scales: [__m512; PANELS],
    mins: [__m512; PANELS],
}

/// A block of four panels, ready to be multiplied with any number of rows.
#[repr(C, align(64))]
struct Unfolded {
    /// For every two words: the codes that meet the first, and those that meet the second.
    codes: [[[__m512i; PANELS]; 2]; WORDS / 2],
    /// For every group of inputs, what sums begin with.
    begins: [[__m512i; PANELS]; 2],
    /// What is done to them in the end, of this block and of the one before it: of blocks with even numbers, and of the others.
    factors: [[Factors; 2]; 2],
}

/// What a step, which is a group of inputs of a tile, leaves to the next.
struct Left {
    /// What it summed up. The next sums up in the same place.
    sums: Sums,
    /// Of its first row, the scale and what the activations sum to.
    scale: *const f32,
    total: *const f32,
    factors: *const Factors,
    results: *mut Results,
    /// What is to be asked for.
    ahead: *const u8,
}

/// The sums of a tile.
#[repr(C, align(64))]
struct Sums(Tile<__m512i>);

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
    // blocks are unfolded before they are multiplied. What steps are told of stays until the next has finished them.
    unsafe {
        // Of those that are not used nothing is written: they may be most.
        let mut results = [const { MaybeUninit::<Results>::uninit() }; MOST_ROWS / ROWS];
        for tile in &mut results[..tiles] {
            tile.write(Results::ZERO);
        }
        let mut unfolded = MaybeUninit::<Unfolded>::uninit();
        let unfolded = unfolded.as_mut_ptr();
        // Before the first step there was none: what it would have left is added to nothing.
        let (mut nothing, zero) = (Results::ZERO, [0.0; ROWS * RECORD / size_of::<f32>()]);
        let zeros: Factors = std::mem::zeroed();
        let mut left = Left {
            sums: std::mem::zeroed(),
            scale: zero.as_ptr(),
            total: zero.as_ptr(),
            factors: &zeros,
            results: &raw mut nothing,
            ahead: std::ptr::null(),
        };
        let mut ahead = x.pieces(blocks * tiles);
        for b in 0..blocks {
            for p in 0..PANELS {
                prepare::<U, K, CODES, MINS>(&panels[p], b, blocks, p, unfolded);
            }
            let first = x.blocks(rows.clone(), b, WORDS).as_ptr();
            let next = x.distance(WORDS);
            for tile in 0..tiles {
                if b + 1 == blocks {
                    let first = rows.start + tile * ROWS;
                    for r in 0..ROWS {
                        for p in 0..PANELS {
                            out.expect(first + r, first_column + p * LANES);
                        }
                    }
                }
                let records = first.byte_add(tile * ROWS * RECORD).cast();
                // What is there already is asked for again where nothing is left.
                left.ahead = ahead.next().unwrap_or(records);
                let results = results[tile].as_mut_ptr();
                let factors = &raw const (*unfolded).factors[b % 2];
                if groups == 1 {
                    step::<0, 8, MINS>(records, next, unfolded, factors.cast(), results, &mut left);
                } else {
                    step::<0, 4, MINS>(records, next, unfolded, factors.cast(), results, &mut left);
                    step::<4, 4, MINS>(records, next, unfolded, factors.cast(), results, &mut left);
                }
            }
        }
        finish::<U, MINS>(&left);
        for row in rows.clone() {
            for p in 0..PANELS {
                let at = row - rows.start;
                let result = &results[at / ROWS].assume_init_ref().0[at % ROWS][p];
                out.put(row, first_column + p * LANES, result);
            }
        }
    }
}

/// Lines of a block of a panel.
const fn lines(codes: usize) -> usize {
    if codes == LISTED { 4 } else { codes }
}

/// Unfolds a block of panel `p`, with its scales and minima, and asks for what will be unfolded next.
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

/// The codes that meet four words.
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
            NIBBLES => {
                let line = &lines[pair];
                [U::nibbles::<0>(line), U::nibbles::<1>(line), U::nibbles::<2>(line), U::nibbles::<3>(line)]
            }
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

/// Adds what a step has left to its results, as the next would do.
///
/// # Safety
/// The machine must have AVX-512 with VNNI, and what the step was told of must still be there.
#[inline(always)]
unsafe fn finish<U, const MINS: bool>(left: &Left)
where
    U: Unit<Sums = __m512i, Codes = __m512i, Floats = __m512>,
{
    // SAFETY: the caller vouches for the instructions, and for what is pointed to.
    unsafe {
        let (factors, results) = (&*left.factors, &mut *left.results);
        for r in 0..ROWS {
            let (scale, total) = (*left.scale.byte_add(r * RECORD), *left.total.byte_add(r * RECORD));
            for p in 0..PANELS {
                let result = &mut results.0[r][p];
                let before = _mm512_load_ps(result.as_ptr());
                let mut sum = U::add_sums(before, left.sums.0[r][p], factors.scales[p], scale);
                if MINS {
                    sum = U::add_scaled(sum, factors.mins[p], total);
                }
                _mm512_store_ps(result.as_mut_ptr(), sum);
            }
        }
    }
}

/// Calls a macro with the number of a row of a tile and the registers of its sums.
macro_rules! row {
    (0, $call:ident!($($arg:tt)*)) => { $call!($($arg)* 0, "zmm0", "zmm1", "zmm2", "zmm3") };
    (1, $call:ident!($($arg:tt)*)) => { $call!($($arg)* 1, "zmm4", "zmm5", "zmm6", "zmm7") };
    (2, $call:ident!($($arg:tt)*)) => { $call!($($arg)* 2, "zmm8", "zmm9", "zmm10", "zmm11") };
    (3, $call:ident!($($arg:tt)*)) => { $call!($($arg)* 3, "zmm12", "zmm13", "zmm14", "zmm15") };
}

/// What a row's sums begin with: the panels' own, in registers 16 to 19, and the row's.
macro_rules! begin {
    ($r:literal, $a:literal, $b:literal, $c:literal, $d:literal) => {
        concat!(
            "vpaddd ",
            $a,
            ", zmm16, dword ptr [{crossed} + {record}*",
            $r,
            "]{{1to16}}\n",
            "vpaddd ",
            $b,
            ", zmm17, dword ptr [{crossed} + {record}*",
            $r,
            "]{{1to16}}\n",
            "vpaddd ",
            $c,
            ", zmm18, dword ptr [{crossed} + {record}*",
            $r,
            "]{{1to16}}\n",
            "vpaddd ",
            $d,
            ", zmm19, dword ptr [{crossed} + {record}*",
            $r,
            "]{{1to16}}\n",
        )
    };
}

/// Two words of a row, each with the other's codes added, against each other, for four panels. The codes that meet the first word
/// are in registers 16 to 19, those that meet the second in 20 to 23.
macro_rules! multiply {
    ($pair:literal, $r:literal, $a:literal, $b:literal, $c:literal, $d:literal) => {
        concat!(
            "vpbroadcastd zmm24, dword ptr [{words} + {record}*", $r, " + 8*", $pair, "]\n",
            "vpbroadcastd zmm25, dword ptr [{words} + {record}*", $r, " + 8*", $pair, " + 4]\n",
            multiply!(@panel "zmm16", "zmm20", $a),
            multiply!(@panel "zmm17", "zmm21", $b),
            multiply!(@panel "zmm18", "zmm22", $c),
            multiply!(@panel "zmm19", "zmm23", $d),
        )
    };
    (@panel $first:literal, $second:literal, $sums:literal) => {
        concat!(
            "vpaddw zmm26, zmm24, ", $second, "\n",
            "vpaddw zmm27, zmm25, ", $first, "\n",
            "vpdpwssd ", $sums, ", zmm26, zmm27\n",
        )
    };
}

/// Keeps a row's sums for the next step.
macro_rules! keep {
    ($r:literal, $a:literal, $b:literal, $c:literal, $d:literal) => {
        concat!(
            "vmovdqa64 zmmword ptr [{sums} + 256*",
            $r,
            "], ",
            $a,
            "\n",
            "vmovdqa64 zmmword ptr [{sums} + 256*",
            $r,
            " + 64], ",
            $b,
            "\n",
            "vmovdqa64 zmmword ptr [{sums} + 256*",
            $r,
            " + 128], ",
            $c,
            "\n",
            "vmovdqa64 zmmword ptr [{sums} + 256*",
            $r,
            " + 192], ",
            $d,
            "\n",
        )
    };
}

/// The scales and minima of a panel, for what the last step has left.
macro_rules! factors {
    () => {
        concat!(
            "vmovaps zmm28, zmmword ptr [{factors}]\n",
            "vmovaps zmm29, zmmword ptr [{factors} + {mins}]\n",
            "add {factors}, 64\n",
        )
    };
}

/// What the last step has left for a row and this panel: the same operations as in [`finish`].
macro_rules! last {
    ($r:literal, $minima:tt) => {
        concat!(
            "vcvtdq2ps zmm31, zmmword ptr [{sums} + 256*", $r, "]\n",
            "vmulps zmm30, zmm28, dword ptr [{scale} + {record}*", $r, "]{{1to16}}\n",
            "vfmadd213ps zmm31, zmm30, zmmword ptr [{results} + 256*", $r, "]\n",
            last!(@$minima $r),
            "vmovaps zmmword ptr [{results} + 256*", $r, "], zmm31\n",
        )
    };
    (@with $r:literal) => {
        concat!("vfmadd231ps zmm31, zmm29, dword ptr [{total} + {record}*", $r, "]{{1to16}}\n")
    };
    // Nothing but a comment: an operand that is not used is an error.
    (@without $r:literal) => { "# {total}\n" };
}

/// A pair of words of every row, with some of what the last step has left between the rows.
macro_rules! pair {
    ($pair:literal, $between:expr, $behind:expr) => {
        concat!(
            "vmovdqa64 zmm16, zmmword ptr [{codes} + 512*",
            $pair,
            "]\n",
            "vmovdqa64 zmm17, zmmword ptr [{codes} + 512*",
            $pair,
            " + 64]\n",
            "vmovdqa64 zmm18, zmmword ptr [{codes} + 512*",
            $pair,
            " + 128]\n",
            "vmovdqa64 zmm19, zmmword ptr [{codes} + 512*",
            $pair,
            " + 192]\n",
            "vmovdqa64 zmm20, zmmword ptr [{codes} + 512*",
            $pair,
            " + 256]\n",
            "vmovdqa64 zmm21, zmmword ptr [{codes} + 512*",
            $pair,
            " + 320]\n",
            "vmovdqa64 zmm22, zmmword ptr [{codes} + 512*",
            $pair,
            " + 384]\n",
            "vmovdqa64 zmm23, zmmword ptr [{codes} + 512*",
            $pair,
            " + 448]\n",
            row!(0, multiply!($pair,)),
            row!(1, multiply!($pair,)),
            $between,
            row!(2, multiply!($pair,)),
            row!(3, multiply!($pair,)),
            $behind,
        )
    };
}

/// What is done for each of four panels of the last step: two pairs of a block, or one of half a block.
macro_rules! pairs {
    (8, $minima:tt) => {
        concat!(
            pair!(0, last!(0, $minima), last!(1, $minima)),
            pair!(1, last!(2, $minima), last!(3, $minima)),
            "add {codes}, 1024\n",
            "add {words}, 16\n",
        )
    };
    (4, $minima:tt) => {
        concat!(
            pair!(
                0,
                concat!(last!(0, $minima), last!(1, $minima)),
                concat!(last!(2, $minima), last!(3, $minima))
            ),
            "add {codes}, 512\n",
            "add {words}, 8\n",
        )
    };
}

/// Sums up the products of `PAIRS` pairs of a tile's words, from pair `FIRST` of a block on, with their codes, and gives out what
/// the step before has left. All of it is spelt out: with 16 sums and eight vectors of codes there are few registers left, and a
/// compiler that wants more, or does one after the other, spends the time that the additions save.
///
/// # Safety
/// The machine must have AVX-512 with VNNI. There must be the records of four rows; the block must be unfolded, with its factors;
/// and what the last step was told of must still be there. The next block's records need not: they may be any number of bytes
/// away.
#[inline(always)]
unsafe fn step<const FIRST: usize, const PAIRS: usize, const MINS: bool>(
    records: *const u8,
    next: usize,
    block: *const Unfolded,
    factors: *const Factors,
    results: *mut Results,
    left: &mut Left,
) {
    let group = FIRST / PAIRS;
    let (crossed, total) = match WORDS / 2 / PAIRS {
        1 => (offset_of!(Beside, crossed), offset_of!(Beside, sum)),
        _ => (
            offset_of!(Beside, half_crossed) + group * size_of::<i32>(),
            offset_of!(Beside, half_sums) + group * size_of::<f32>(),
        ),
    };
    // SAFETY: reads what the caller vouches for and what is borrowed, vectors where they are aligned; writes sums, the results of
    // the last step, and registers.
    unsafe {
        macro_rules! run {
            ($pairs:tt, $minima:tt) => {
                asm!(
                    "vmovdqa64 zmm16, zmmword ptr [{begins}]",
                    "vmovdqa64 zmm17, zmmword ptr [{begins} + 64]",
                    "vmovdqa64 zmm18, zmmword ptr [{begins} + 128]",
                    "vmovdqa64 zmm19, zmmword ptr [{begins} + 192]",
                    row!(0, begin!()),
                    row!(1, begin!()),
                    row!(2, begin!()),
                    row!(3, begin!()),
                    ".p2align 5",
                    "2:",
                    factors!(),
                    "prefetcht0 [{next}]",
                    "prefetcht0 [{next} + 64]",
                    "add {next}, 128",
                    "prefetcht1 [{ahead}]",
                    "prefetcht1 [{ahead} + 64]",
                    "add {ahead}, 128",
                    pairs!($pairs, $minima),
                    "add {sums}, 64",
                    "add {results}, 64",
                    "dec {panels}",
                    "jnz 2b",
                    "sub {sums}, 256",
                    row!(0, keep!()),
                    row!(1, keep!()),
                    row!(2, keep!()),
                    row!(3, keep!()),
                    codes = inout(reg) &raw const (*block).codes[FIRST] => _,
                    begins = in(reg) &raw const (*block).begins[group],
                    words = inout(reg) records.byte_add(2 * FIRST * size_of::<i32>()) => _,
                    next = inout(reg) records.wrapping_byte_add(next) => _,
                    crossed = in(reg) records.byte_add(BESIDE + crossed),
                    sums = inout(reg) &mut left.sums => _,
                    scale = in(reg) left.scale,
                    total = in(reg) left.total,
                    factors = inout(reg) left.factors => _,
                    results = inout(reg) left.results => _,
                    panels = inout(reg) PANELS => _,
                    ahead = inout(reg) left.ahead => _,
                    record = const RECORD,
                    mins = const offset_of!(Factors, mins),
                    out("zmm0") _, out("zmm1") _, out("zmm2") _, out("zmm3") _,
                    out("zmm4") _, out("zmm5") _, out("zmm6") _, out("zmm7") _,
                    out("zmm8") _, out("zmm9") _, out("zmm10") _, out("zmm11") _,
                    out("zmm12") _, out("zmm13") _, out("zmm14") _, out("zmm15") _,
                    out("zmm16") _, out("zmm17") _, out("zmm18") _, out("zmm19") _,
                    out("zmm20") _, out("zmm21") _, out("zmm22") _, out("zmm23") _,
                    out("zmm24") _, out("zmm25") _, out("zmm26") _, out("zmm27") _,
                    out("zmm28") _, out("zmm29") _, out("zmm30") _, out("zmm31") _,
                    options(nostack),
                )
            };
        }
        match (PAIRS, MINS) {
            (8, true) => run!(8, with),
            (8, false) => run!(8, without),
            (4, true) => run!(4, with),
            (4, false) => run!(4, without),
            _ => unreachable!("a block has eight pairs, and half of it four"),
        }
        left.scale = records.byte_add(BESIDE + offset_of!(Beside, scale)).cast();
        left.total = records.byte_add(BESIDE + total).cast();
        left.factors = factors.add(group);
    }
    left.results = results;
}
