//! The innermost loop: what a tile of four rows and four panels adds to its results for a block, or for half of it.

use std::arch::asm;
use std::arch::x86_64::*;
use std::mem::offset_of;

use crate::kernel::ahead::PIECE;
use crate::kernel::blocks::BLOCK;
use crate::kernel::blocks::codes::Beside;
use crate::kernel::unit::avx512::Vnni;
use crate::kernel::unit::{LANES, Line, Unit};

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
pub type Factors = super::prepare::Factors<Vnni, PANELS>;
/// A block of four panels.
pub type Unfolded = super::prepare::Unfolded<Vnni, PANELS>;

/// What a step, which is a group of inputs of a tile, leaves to the next.
pub struct Left {
    /// What it summed up. The next sums up in the same place.
    pub sums: Sums,
    /// The records of its rows.
    pub records: *const u8,
    pub factors: *const Factors,
    pub results: *mut Results,
}

/// The sums of a tile.
#[repr(C, align(64))]
pub struct Sums(pub Tile<__m512i>);

/// Where in a record it says what the activations of a group sum to, and what their neighbours' products do.
pub const fn offsets(groups: usize, group: usize) -> (usize, usize) {
    match groups {
        1 => (BESIDE + offset_of!(Beside, sum), BESIDE + offset_of!(Beside, crossed)),
        _ => (
            BESIDE + offset_of!(Beside, half_sums) + group * size_of::<f32>(),
            BESIDE + offset_of!(Beside, half_crossed) + group * size_of::<i32>(),
        ),
    }
}
/// The same for its scale.
pub const SCALE: usize = BESIDE + offset_of!(Beside, scale);

/// Adds what the last step has left to its results, as the next would do.
///
/// # Safety
/// The machine must have AVX-512 with VNNI, and what the step was told of must still be there.
#[inline(always)]
pub unsafe fn finish<U, const GROUPS: usize, const MINS: bool>(left: &Left)
where
    U: Unit<Sums = __m512i, Codes = __m512i, Floats = __m512>,
{
    // SAFETY: the caller vouches for the instructions, and for what is pointed to.
    unsafe {
        let results = &mut *left.results;
        for r in 0..ROWS {
            let record = left.records.byte_add(r * RECORD);
            let (total, _) = const { offsets(GROUPS, GROUPS - 1) };
            let (scale, total) = (*record.byte_add(SCALE).cast(), *record.byte_add(total).cast());
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

/// Some tiles, and the block of weights that they meet.
pub struct Work {
    /// The records of the first tile's rows; those of the others lie behind them.
    pub records: *const u8,
    pub tiles: usize,
    /// How many bytes it is to the rows' next block, which is asked for.
    pub next: usize,
    /// For every tile, what else is asked for.
    pub ahead: *const *const u8,
    pub block: *mut Unfolded,
    /// Of each group.
    pub factors: *const Factors,
    /// Of the first tile; those of the others lie behind them.
    pub results: *mut Results,
}

/// The instructions, with what they are told of.
macro_rules! assembly {
    ([$($line:expr),*], $work:ident, $left:ident, { $($operands:tt)* }) => {
        asm!(
            $($line,)*
            block = in(reg) $work.block,
            records = inout(reg) $work.records => _,
            next = inout(reg) $work.records.wrapping_byte_add($work.next) => _,
            sums = in(reg) &raw mut $left.sums,
            last = inout(reg) $left.records,
            last_factors = inout(reg) $left.factors,
            last_results = inout(reg) $left.results,
            record = const RECORD,
            begins = const offset_of!(Unfolded, begins),
            scale = const SCALE,
            mins = const offset_of!(Factors, mins),
            $($operands)*
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

/// Multiplies a block: for every tile, sums up the products of each group's words with their codes, and gives out what the step
/// before has left. All of it is spelt out: with 16 sums and eight vectors of codes there are few registers left, and a
/// compiler that wants more, or does one after the other, spends the time that the additions save. So does whatever is done
/// between two tiles.
///
/// # Safety
/// The machine must have AVX-512 with VNNI. There must be a tile, and the records of the rows of all; the block must be unfolded,
/// with its factors; and what the last step was told of must still be there. What is only asked for may be anywhere.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vnni,fma")]
pub unsafe fn multiply<const GROUPS: usize, const MINS: bool>(work: &Work, left: &mut Left) {
    // SAFETY: reads what the caller vouches for and what is borrowed, vectors where they are aligned; writes sums, results and
    // registers.
    unsafe {
        macro_rules! run {
            ([$($step:expr),*], $($offset:ident = $value:expr),*) => {
                assembly!(
                    [
                        ".p2align 5",
                        "2:",
                        "mov {ahead}, qword ptr [{list}]",
                        "add {list}, 8",
                        $($step,)*
                        "add {records}, 4*{record}",
                        "add {next}, 4*{record}",
                        "add {results}, {tile}",
                        "dec {tiles}",
                        "jnz 2b"
                    ],
                    work, left,
                    {
                        ahead = out(reg) _,
                        list = inout(reg) work.ahead => _,
                        factors = in(reg) work.factors,
                        results = inout(reg) work.results => _,
                        tiles = inout(reg) work.tiles => _,
                        tile = const size_of::<Results>(),
                        of_group = const size_of::<Factors>(),
                        $($offset = const $value,)*
                    }
                )
            };
            ($minima:tt) => {
                match GROUPS {
                    1 => run!(
                        [
                            step!(load, 0, "{crossed}", ("{total}", $minima), [[0, 1], [2, 3], [4, 5], [6, 7]]),
                            leave!(0)
                        ],
                        total = offsets(1, 0).0, crossed = offsets(1, 0).1
                    ),
                    _ => run!(
                        [
                            ask!(0), ask!(1),
                            step!(load, 0, "{crossed0}", ("{total1}", $minima), [[0], [1], [2], [3]]),
                            leave!(0),
                            ask!(2), ask!(3),
                            step!(load, 1, "{crossed1}", ("{total0}", $minima), [[4], [5], [6], [7]]),
                            leave!(1)
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

/// The first tile of a block of nibbles, which are unfolded meanwhile from where they lie in each panel. What is left of the work
/// are the other tiles, if any, for which the block is ready then.
///
/// # Safety
/// As for [`multiply`], but that of the block only what sums begin with must be there, and its factors; and all its lines.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vnni,fma")]
pub unsafe fn unfold<const MINS: bool>(work: &mut Work, lines: [&Line; PANELS], left: &mut Left) {
    let places = lines.map(|line| (&raw const *line).cast::<u8>());
    let stride = places[1].addr().wrapping_sub(places[0].addr());
    // As they do in a matrix, one behind the other.
    assert!(places.iter().enumerate().all(|(p, place)| *place == places[0].wrapping_byte_add(p * stride)));
    static NIBBLE: u32 = 0x000f_000f;
    // SAFETY: as above; writes the block's codes as well.
    unsafe {
        macro_rules! run {
            ($minima:tt) => {
                assembly!(
                    [step!(unfold, 0, "{crossed}", ("{total}", $minima), [[0, 1], [2, 3], [4, 5], [6, 7]])],
                    work, left,
                    {
                        ahead = in(reg) *work.ahead,
                        lines = in(reg) places[0],
                        second_lines = in(reg) places[1],
                        stride = in(reg) stride,
                        nibble = in(reg) &raw const NIBBLE,
                        total = const offsets(1, 0).0,
                        crossed = const offsets(1, 0).1,
                    }
                )
            };
        }
        if MINS {
            run!(with)
        } else {
            run!(without)
        }
        (left.records, left.factors, left.results) = (work.records, work.factors, work.results);
        work.records = work.records.byte_add(ROWS * RECORD);
        work.results = work.results.add(1);
        work.ahead = work.ahead.add(1);
    }
    work.tiles -= 1;
}
