//! The same with vectors of 256 bits: a tile is four rows and one panel, so that the codes of two words stay in registers beside
//! its sums.
//!
//! Here a product of 16-bit numbers takes an addition of its own, so there are as many operations with half of the
//! multiplications as with all of them. But additions go anywhere, and multiplications crowd two of four pipes: eight sums and two
//! words take 9 cycles instead of 11 on AMD's Zen 3.

use std::arch::asm;
use std::arch::x86_64::*;
use std::mem::{MaybeUninit, offset_of};
use std::ops::Range;

use super::super::Panel;
use super::super::codes::CodeView;
use super::super::table::Kind;
use super::super::tile::{WIDE, groups};
use super::MOST_ROWS;
use super::prepare::{At, Factors, Unfolded, expect_codes, expect_scales, lines, scale, unfold};
use super::step::{RECORD, ROWS, SCALE, WORDS, offsets};
use crate::kernel::ahead::PIECE;
use crate::kernel::sheet::Columns;
use crate::kernel::unit::avx2::Avx2;
use crate::kernel::unit::{Crossing, LANES};

/// The panels of a piece's tile ask for two lines each.
const PART: usize = PIECE / WIDE;
const _: () = assert!(PART == 128);

// What the instructions say of where things lie.
const _: () = assert!(ROWS == 4 && size_of::<Results>() == 4 * 64 && size_of::<[__m256i; 2]>() == 64);
const _: () =
    assert!(offset_of!(Unfolded<Avx2, 1>, codes) == 0 && offset_of!(Unfolded<Avx2, 1>, begins) == 16 * 64);

/// The results of a tile.
#[repr(C, align(64))]
struct Results([[f32; LANES]; ROWS]);

/// Some rows, a multiple of four, against up to four panels of one matrix. Results go to the columns from `first_column` on.
///
/// # Safety
/// The machine must have AVX2 with fused multiplications and half precision.
#[inline(always)]
pub unsafe fn multiply<U, K, const CODES: usize, const MINS: bool>(
    x: CodeView<'_>,
    rows: Range<usize>,
    panels: &[Panel<'_>],
    first_column: usize,
    out: &mut Columns<'_>,
) where
    U: Crossing<Sums = [__m256i; 2], Codes = [__m256i; 2], Floats = [__m256; 2]>,
    K: Kind,
{
    assert!(rows.len().is_multiple_of(ROWS) && panels.len() <= WIDE);
    let mut first = rows.start;
    while first < rows.end {
        let some = first..rows.end.min(first + MOST_ROWS);
        first = some.end;
        // SAFETY: the caller vouches for the instructions, and rows are counted here.
        unsafe { walk::<U, K, CODES, MINS>(x, some, panels, first_column, out) };
    }
}

/// As many rows as can wait for the next block: at least four.
///
/// # Safety
/// The machine must have AVX2 with fused multiplications and half precision. Rows must be a multiple of four, and no more than
/// `MOST_ROWS`; panels no more than `WIDE`.
#[inline(always)]
unsafe fn walk<U, K, const CODES: usize, const MINS: bool>(
    x: CodeView<'_>,
    rows: Range<usize>,
    panels: &[Panel<'_>],
    first_column: usize,
    out: &mut Columns<'_>,
) where
    U: Crossing<Sums = [__m256i; 2], Codes = [__m256i; 2], Floats = [__m256; 2]>,
    K: Kind,
{
    let Some(panel) = panels.first() else { return };
    let (tiles, blocks) = (rows.len() / ROWS, panel.lines.len() / lines(CODES));
    // SAFETY: the caller vouches for the instructions and for the rows, of which every tile is written before it is read, and
    // blocks are prepared before they are multiplied.
    unsafe {
        // Of those that are not used nothing is written: they may be most.
        let mut results = [const { [const { MaybeUninit::<Results>::uninit() }; MOST_ROWS / ROWS] }; WIDE];
        for results in &mut results[..panels.len()] {
            for tile in &mut results[..tiles] {
                tile.write(Results([[0.0; LANES]; ROWS]));
            }
        }
        let mut unfolded = MaybeUninit::<Unfolded<U, 1>>::uninit();
        let unfolded = unfolded.as_mut_ptr();
        // All of a piece is asked for only where all panels are there.
        let mut ahead = x.pieces(if panels.len() == WIDE { blocks * tiles } else { 0 });
        for b in 0..blocks {
            let records = x.blocks(rows.clone(), b, WORDS).as_ptr().cast();
            // What is there already is asked for again where nothing is left.
            let mut pieces = [records; MOST_ROWS / ROWS];
            for piece in &mut pieces[..tiles] {
                *piece = ahead.next().unwrap_or(records);
            }
            for (p, panel) in panels.iter().enumerate() {
                let at = At { block: b, blocks, place: 0, together: panels.len() };
                expect_codes::<CODES>(panel, at, 1);
                expect_scales::<K, CODES, MINS>(panel, at);
                scale::<U, K, 1, CODES, MINS>(panel, at, unfolded);
                unfold::<U, 1, CODES>(panel, at, unfolded);
                let work = Work {
                    records,
                    tiles,
                    ahead: pieces.as_ptr(),
                    part: p * PART,
                    block: unfolded.cast(),
                    factors: (&raw const (*unfolded).factors).cast(),
                    results: results[p].as_mut_ptr().cast(),
                };
                match const { groups(CODES) } {
                    1 => step::<1, MINS>(work),
                    _ => step::<2, MINS>(work),
                }
            }
        }
        for (p, results) in results[..panels.len()].iter().enumerate() {
            for row in rows.clone() {
                let at = row - rows.start;
                let result = &results[at / ROWS].assume_init_ref().0[at % ROWS];
                out.put(row, first_column + p * LANES, result);
            }
        }
    }
}

/// Some tiles, and the block of weights that they meet.
struct Work {
    /// The records of the first tile's rows; those of the others lie behind them.
    records: *const u8,
    tiles: usize,
    /// For every tile, what else is asked for, and which part of it.
    ahead: *const *const u8,
    part: usize,
    block: *const Unfolded<Avx2, 1>,
    /// Of each group.
    factors: *const Factors<Avx2, 1>,
    /// Of the first tile; those of the others lie behind them.
    results: *mut Results,
}

/// Calls a macro for every row of a tile, with its number, where its record is, and the registers of its sums. Those are the upper
/// ones, because instructions are a byte shorter where the last thing they read is in one of the others.
macro_rules! each_row {
    ($call:ident!($($arg:tt)*)) => {
        concat!(
            $call!($($arg)* 0, "{records}", "ymm8", "ymm9"),
            $call!($($arg)* 1, "{second}", "ymm10", "ymm11"),
            $call!($($arg)* 2, "{third}", "ymm12", "ymm13"),
            $call!($($arg)* 3, "{fourth}", "ymm14", "ymm15"),
        )
    };
}

/// What a row's sums begin with: the panel's own and the row's.
#[rustfmt::skip]
macro_rules! begin_row {
    ($group:literal, $crossed:literal, $r:literal, $record:literal, $a:literal, $b:literal) => {
        lines! {
            "vpbroadcastd ymm4, dword ptr [", $record, " + ", $crossed, "]";
            "vpaddd ", $a, ", ymm4, ymmword ptr [{block} + {begins} + 64*", $group, "]";
            "vpaddd ", $b, ", ymm4, ymmword ptr [{block} + {begins} + 64*", $group, " + 32]";
        }
    };
}

/// Two words of a row, each with the other's codes added, against each other. The codes that meet the first word are in registers
/// 0 and 1, those that meet the second in 2 and 3.
#[rustfmt::skip]
macro_rules! multiply_row {
    ($end:literal, $r:literal, $record:literal, $a:literal, $b:literal) => {
        lines! {
            "vpbroadcastd ymm4, dword ptr [", $record, " + {word} + ", $end, "]";
            "vpbroadcastd ymm5, dword ptr [", $record, " + {word} + ", $end, " + 4]";
            "vpaddw ymm6, ymm4, ymm2";
            "vpaddw ymm7, ymm5, ymm0";
            "vpmaddwd ymm6, ymm6, ymm7";
            "vpaddd ", $a, ", ", $a, ", ymm6";
            "vpaddw ymm4, ymm4, ymm3";
            "vpaddw ymm5, ymm5, ymm1";
            "vpmaddwd ymm4, ymm4, ymm5";
            "vpaddd ", $b, ", ", $b, ", ymm4";
        }
    };
}

/// Sums become floats and are added to the results, in the operations of `Unit::add_sums` and `Unit::add_scaled`. The scales are
/// in registers 0 and 1, the minima in 2 and 3.
#[rustfmt::skip]
macro_rules! finish_row {
    ($total:literal, $minima:tt, $r:literal, $record:literal, $a:literal, $b:literal) => {
        concat!(
            lines! {
                "vbroadcastss ymm4, dword ptr [", $record, " + {scale}]";
                "vcvtdq2ps ", $a, ", ", $a;
                "vcvtdq2ps ", $b, ", ", $b;
                "vmulps ymm5, ymm4, ymm0";
                "vmulps ymm4, ymm4, ymm1";
                "vfmadd213ps ", $a, ", ymm5, ymmword ptr [{results} + 64*", $r, "]";
                "vfmadd213ps ", $b, ", ymm4, ymmword ptr [{results} + 64*", $r, " + 32]";
            },
            finish_row!(@$minima $total, $record, $a, $b),
            lines! {
                "vmovaps ymmword ptr [{results} + 64*", $r, "], ", $a;
                "vmovaps ymmword ptr [{results} + 64*", $r, " + 32], ", $b;
            },
        )
    };
    (@with $total:literal, $record:literal, $a:literal, $b:literal) => {
        lines! {
            "vbroadcastss ymm4, dword ptr [", $record, " + ", $total, "]";
            "vfmadd231ps ", $a, ", ymm4, ymm2";
            "vfmadd231ps ", $b, ", ymm4, ymm3";
        }
    };
    // Nothing but a comment: an operand that is not used is an error.
    (@without $total:literal, $record:literal, $a:literal, $b:literal) => { concat!("# ", $total, "\n") };
}

/// The minima of a group, where there are any.
#[rustfmt::skip]
macro_rules! load_minima {
    (with $group:literal) => {
        lines! {
            "vmovaps ymm2, ymmword ptr [{factors} + {of_group}*", $group, " + {mins}]";
            "vmovaps ymm3, ymmword ptr [{factors} + {of_group}*", $group, " + {mins} + 32]";
        }
    };
    (without $group:literal) => { "# {mins}\n" };
}

/// A group of inputs of a tile, whose words end at byte `$end` of a record and are `$bytes` long.
#[rustfmt::skip]
macro_rules! group {
    ($group:literal, $crossed:literal, $total:literal, $minima:tt, $bytes:literal, $end:literal) => {
        concat!(
            each_row!(begin_row!($group, $crossed,)),
            lines! {
                "mov {word}, -", $bytes;
                "lea {codes}, [{block} + 16*(", $end, " - ", $bytes, ")]";
                ".p2align 5";
                "3:";
                "vmovdqa ymm0, ymmword ptr [{codes}]";
                "vmovdqa ymm1, ymmword ptr [{codes} + 32]";
                "vmovdqa ymm2, ymmword ptr [{codes} + 64]";
                "vmovdqa ymm3, ymmword ptr [{codes} + 96]";
                "add {codes}, 128";
            },
            each_row!(multiply_row!($end,)),
            lines! {
                "add {word}, 8";
                "jnz 3b";
                "vmovaps ymm0, ymmword ptr [{factors} + {of_group}*", $group, "]";
                "vmovaps ymm1, ymmword ptr [{factors} + {of_group}*", $group, " + 32]";
            },
            load_minima!($minima $group),
            each_row!(finish_row!($total, $minima,)),
        )
    };
}

/// Multiplies a block: for every tile, sums up the products of each group's words with their codes, and adds them to its results.
/// Spelt out: there is no register to spare, and a compiler that wants one more goes through memory for it. The innermost loop is
/// not unrolled: two pairs of words at a time take a tenth longer on AMD's Zen 3, and all eight a sixth, as fetching
/// instructions is then what it waits for.
///
/// # Safety
/// The machine must have AVX2 with fused multiplications. There must be a tile, and the records of the rows of all; the block must
/// be ready, with its factors. What is only asked for may be anywhere.
#[inline]
#[target_feature(enable = "avx2,fma")]
unsafe fn step<const GROUPS: usize, const MINS: bool>(work: Work) {
    debug_assert!(work.tiles > 0);
    // SAFETY: reads what the caller vouches for, vectors where they are aligned; writes results and registers.
    unsafe {
        macro_rules! run {
            ([$($group:expr),*], $($offset:ident = $value:expr),*) => {
                asm!(
                    "2:",
                    "mov {word}, qword ptr [{list}]",
                    "add {list}, 8",
                    "prefetcht1 [{word} + {part}]",
                    "prefetcht1 [{word} + {part} + 64]",
                    $($group,)*
                    "add {records}, 4*{record}",
                    "add {second}, 4*{record}",
                    "add {third}, 4*{record}",
                    "add {fourth}, 4*{record}",
                    "add {results}, 4*64",
                    "dec {tiles}",
                    "jnz 2b",
                    records = inout(reg) work.records => _,
                    second = inout(reg) work.records.wrapping_add(RECORD) => _,
                    third = inout(reg) work.records.wrapping_add(2 * RECORD) => _,
                    fourth = inout(reg) work.records.wrapping_add(3 * RECORD) => _,
                    results = inout(reg) work.results => _,
                    tiles = inout(reg) work.tiles => _,
                    list = inout(reg) work.ahead => _,
                    part = in(reg) work.part,
                    word = out(reg) _,
                    codes = out(reg) _,
                    block = in(reg) work.block,
                    factors = in(reg) work.factors,
                    record = const RECORD,
                    scale = const SCALE,
                    begins = const offset_of!(Unfolded<Avx2, 1>, begins),
                    mins = const offset_of!(Factors<Avx2, 1>, mins),
                    of_group = const size_of::<Factors<Avx2, 1>>(),
                    $($offset = const $value,)*
                    out("ymm0") _, out("ymm1") _, out("ymm2") _, out("ymm3") _,
                    out("ymm4") _, out("ymm5") _, out("ymm6") _, out("ymm7") _,
                    out("ymm8") _, out("ymm9") _, out("ymm10") _, out("ymm11") _,
                    out("ymm12") _, out("ymm13") _, out("ymm14") _, out("ymm15") _,
                    options(nostack),
                )
            };
            ($minima:tt) => {
                match GROUPS {
                    1 => run!(
                        [group!(0, "{crossed}", "{total}", $minima, 64, 64)],
                        total = offsets(1, 0).0, crossed = offsets(1, 0).1
                    ),
                    _ => run!(
                        [
                            group!(0, "{crossed0}", "{total0}", $minima, 32, 32),
                            group!(1, "{crossed1}", "{total1}", $minima, 32, 64)
                        ],
                        total0 = offsets(2, 0).0, crossed0 = offsets(2, 0).1,
                        total1 = offsets(2, 1).0, crossed1 = offsets(2, 1).1
                    ),
                }
            };
        }
        if MINS { run!(with) } else { run!(without) }
    }
}
