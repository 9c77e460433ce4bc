//! The innermost loop: what a tile of four rows and four panels adds to its results for a block, or for half of it.

use std::arch::asm;
use std::arch::x86_64::*;
use std::mem::offset_of;

use crate::kernel::ahead::PIECE;
use crate::kernel::blocks::BLOCK;
use crate::kernel::blocks::codes::Beside;
use crate::kernel::unit::{LANES, Unit};

/// Panels that are unfolded together.
pub const PANELS: usize = 4;
/// Rows of a tile.
pub const ROWS: usize = 4;
/// Words of a block, two activations each.
pub const WORDS: usize = BLOCK / 2;
/// Bytes of a row's record of a block, and where in it lies what is beside the words.
pub const RECORD: usize = BESIDE + size_of::<Beside>();
const BESIDE: usize = WORDS * size_of::<i32>();

/// Two lines a panel are asked for.
const _: () = assert!(PIECE == PANELS * 128);

/// Something for each row and panel of a tile.
type Tile<T> = [[T; PANELS]; ROWS];

/// The results of a tile, which lie where vectors can be loaded.
#[repr(C, align(64))]
pub struct Results(pub Tile<[f32; LANES]>);

impl Results {
    pub const ZERO: Self = Results([[[0.0; LANES]; PANELS]; ROWS]);
}

/// What makes floats of a group's sums.
#[repr(C, align(64))]
pub struct Factors {
    pub scales: [__m512; PANELS],
    pub mins: [__m512; PANELS],
}

/// A block of four panels, ready to be multiplied with any number of rows.
#[repr(C, align(64))]
pub struct Unfolded {
    /// For every two words: the codes that meet the first, and those that meet the second.
    pub codes: [[[__m512i; PANELS]; 2]; WORDS / 2],
    /// For every group of inputs, what sums begin with.
    pub begins: [[__m512i; PANELS]; 2],
    /// What is done to them in the end, of this block and of the one before it: of blocks with even numbers, and of the others.
    pub factors: [[Factors; 2]; 2],
}

/// What a step, which is a group of inputs of a tile, leaves to the next.
pub struct Left {
    /// What it summed up. The next sums up in the same place.
    pub sums: Sums,
    /// Of its first row, the scale and what the activations sum to.
    pub scale: *const f32,
    pub total: *const f32,
    pub factors: *const Factors,
    pub results: *mut Results,
}

/// The sums of a tile.
#[repr(C, align(64))]
pub struct Sums(pub Tile<__m512i>);

/// Adds what a step has left to its results, as the next would do.
///
/// # Safety
/// The machine must have AVX-512 with VNNI, and what the step was told of must still be there.
#[inline(always)]
pub unsafe fn finish<U, const MINS: bool>(left: &Left)
where
    U: Unit<Sums = __m512i, Codes = __m512i, Floats = __m512>,
{
    // SAFETY: the caller vouches for the instructions, and for what is pointed to.
    unsafe {
        let results = &mut *left.results;
        for r in 0..ROWS {
            let (scale, total) = (*left.scale.byte_add(r * RECORD), *left.total.byte_add(r * RECORD));
            for p in 0..PANELS {
                let result = &mut results.0[r][p];
                let before = _mm512_load_ps(result.as_ptr());
                let mut sum = U::add_sums(before, left.sums.0[r][p], (*left.factors).scales[p], scale);
                if MINS {
                    sum = U::add_scaled(sum, (*left.factors).mins[p], total);
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
    ($minima:tt) => {
        concat!("vmovaps zmm28, zmmword ptr [{factors}]\n", factors!(@$minima), "add {factors}, 64\n")
    };
    (@with) => { "vmovaps zmm29, zmmword ptr [{factors} + {mins}]\n" };
    // Nothing but a comment: an operand that is not used is an error.
    (@without) => { "# {mins}\n" };
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
/// the step before has left. Asks for the rows' next block, which is so many bytes behind this one, and for the piece that is
/// ahead. All of it is spelt out: with 16 sums and eight vectors of codes there are few registers left, and a
/// compiler that wants more, or does one after the other, spends the time that the additions save.
///
/// # Safety
/// The machine must have AVX-512 with VNNI. There must be the records of four rows; the block must be unfolded, with its factors;
/// and what the last step was told of must still be there. What is only asked for may be anywhere.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vnni,fma")]
pub unsafe fn step<const FIRST: usize, const PAIRS: usize, const MINS: bool>(
    records: *const u8,
    next: usize,
    ahead: *const u8,
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
                    factors!($minima),
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
                    ahead = inout(reg) ahead => _,
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
