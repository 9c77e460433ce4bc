//! The innermost loop: what tiles of four rows and four panels add to their results for a block.

use std::arch::asm;
use std::arch::x86_64::*;
use std::mem::offset_of;

use super::super::tile::{BYTES, NIBBLES};
use crate::kernel::ahead::PIECE;
use crate::kernel::blocks::BLOCK;
use crate::kernel::blocks::codes::Beside;
use crate::kernel::unit::avx512::Vnni;
use crate::kernel::unit::{Crossing, LANES, Line};

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
// What the instructions say of where things lie, and of which words are multiplied how.
const _: () = assert!(size_of::<__m512i>() == 64 && offset_of!(Unfolded, codes) == 0);
const _: () = assert!(Vnni::PLAIN == 1 << 2 | 1 << 5);

/// The results of a tile, which lie where vectors can be loaded.
#[repr(C, align(64))]
pub struct Results(pub [[[f32; LANES]; PANELS]; ROWS]);

type Factors = super::prepare::Factors<Vnni, PANELS>;
/// A block of four panels.
pub type Unfolded = super::prepare::Unfolded<Vnni, PANELS>;

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

/// Some tiles, and the block of weights that they meet.
pub struct Work {
    /// The records of the first tile's rows; those of the others lie behind them.
    pub records: *const u8,
    pub tiles: usize,
    /// How many bytes it is to the block that the rows meet next, which is asked for.
    pub next: isize,
    /// For every tile, what else is asked for.
    pub ahead: *const *const u8,
    pub block: *const Unfolded,
    /// Of the first tile; those of the others lie behind them.
    pub results: *mut Results,
}

/// The next block, of which every tile unfolds a panel, as long as there are any.
pub struct Next {
    /// Where the first panel's codes lie, and how many bytes it is from there to the next panel's.
    pub lines: *const Line,
    pub stride: usize,
    /// How many bytes it is to the block that is unfolded next, which is asked for.
    pub after: isize,
    pub into: *mut Unfolded,
    /// How many tiles do so.
    pub panels: usize,
}

/// The instructions, with what they are told of.
macro_rules! assembly {
    ([$($line:expr),*], $work:ident, { $($operands:tt)* }) => {
        asm!(
            $($line,)*
            block = in(reg) $work.block,
            records = inout(reg) $work.records => _,
            next = inout(reg) $work.records.wrapping_byte_offset($work.next) => _,
            ahead = out(reg) _,
            list = inout(reg) $work.ahead => _,
            results = inout(reg) $work.results => _,
            tile = const size_of::<Results>(),
            record = const RECORD,
            scale = const SCALE,
            begins = const offset_of!(Unfolded, begins),
            factors = const offset_of!(Unfolded, factors),
            of_group = const size_of::<Factors>(),
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

/// Multiplies a block: for every tile, sums up the products of each group's words with their codes and adds them to the results.
/// All of it is spelt out: with 16 sums and eight vectors of codes there are few registers left, and a compiler that wants more
/// spends the time that the additions save. So does whatever is done between two tiles.
///
/// # Safety
/// The machine must have AVX-512 with VNNI. There must be a tile; the records and results of the rows of all, and for each what is
/// ahead; and the block must be prepared. What is only asked for may be anywhere.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vnni,fma")]
pub unsafe fn multiply<const GROUPS: usize, const MINS: bool>(work: &Work) {
    debug_assert_ne!(work.tiles, 0);
    // SAFETY: reads what the caller vouches for, vectors where they are aligned; writes results and registers.
    unsafe {
        macro_rules! run {
            ($tile:expr, $($offset:ident = $value:expr),*) => {
                assembly!(
                    [tiles!("2", "{tiles}", $tile)],
                    work,
                    { tiles = inout(reg) work.tiles => _, $($offset = const $value,)* }
                )
            };
            ($minima:ident) => {
                match GROUPS {
                    1 => run!(
                        whole!($minima, nothing),
                        total = offsets(1, 0).0, crossed = offsets(1, 0).1
                    ),
                    _ => run!(
                        halves!($minima),
                        total0 = offsets(2, 0).0, crossed0 = offsets(2, 0).1,
                        total1 = offsets(2, 1).0, crossed1 = offsets(2, 1).1
                    ),
                }
            };
        }
        if MINS { run!(with) } else { run!(without) }
    }
}

/// Does [`multiply_unfolding`] know such codes?
pub const fn unfolds(codes: usize) -> bool {
    codes == NIBBLES || codes == BYTES
}

/// The same, while codes of the next block are unfolded. There is one group; nibbles have minima and bytes have none.
///
/// # Safety
/// As for [`multiply`]. All lines of the next block's panels must be there, and room for it where this block is not. There must be
/// a panel to be unfolded, and no more of them than tiles, or than [`PANELS`].
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vnni,fma")]
pub unsafe fn multiply_unfolding<const CODES: usize>(work: &Work, next: &Next) {
    debug_assert!(0 < next.panels && next.panels <= work.tiles.min(PANELS));
    static NIBBLE: u32 = 0x000f_000f;
    // SAFETY: as above; writes the next block's codes, and what its sums begin with, as well.
    unsafe {
        macro_rules! run {
            ($minima:ident, $kind:ident, { $($nibble:tt)* }) => {
                assembly!(
                    [
                        tiles!("2", "{unfolding}", whole!($minima, $kind)),
                        "test {tiles}, {tiles}",
                        "jz 4f",
                        tiles!("3", "{tiles}", whole!($minima, nothing)),
                        "4:"
                    ],
                    work,
                    {
                        unfolding = inout(reg) next.panels => _,
                        tiles = inout(reg) work.tiles - next.panels => _,
                        lines = inout(reg) next.lines => _,
                        stride = in(reg) next.stride,
                        after = in(reg) next.after,
                        into = inout(reg) next.into => _,
                        total = const offsets(1, 0).0,
                        crossed = const offsets(1, 0).1,
                        $($nibble)*
                    }
                )
            };
        }
        match CODES {
            NIBBLES => run!(with, nibbles, { nibble = sym NIBBLE, }),
            BYTES => run!(without, bytes, {}),
            _ => unreachable!("others are unfolded before"),
        }
    }
}
