//! What a vector unit does for products of whole numbers, and how to do it without one.

#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
pub(crate) mod amx;
#[cfg(target_arch = "x86_64")]
pub(crate) mod avx2;
#[cfg(target_arch = "x86_64")]
pub(crate) mod avx512;
mod field;
#[cfg(target_arch = "aarch64")]
pub(crate) mod neon;
mod walk;

use half::f16;

use crate::kernel::isa::BASELINE;
use crate::kernel::lanes::fma;

use field::Field;
pub(crate) use field::{lines_of_planes, lower_bits};
pub(crate) use walk::{Walk, Whole};

/// Outputs that are computed together: one lane each.
pub(crate) const LANES: usize = 16;

/// 64 bytes of codes, four for each of 16 outputs.
#[derive(Debug, Clone, Copy, PartialEq)]
#[repr(C, align(64))]
pub(crate) struct Line(pub [u8; 64]);

impl Default for Line {
    fn default() -> Self {
        Line([0; 64])
    }
}

// SAFETY: bytes, of which every value is valid, zero too.
unsafe impl bytemuck::Zeroable for Line {}
// SAFETY: as above, and without a gap: they are as many as they are aligned to.
unsafe impl bytemuck::Pod for Line {}

/// 16 scales or minima, one for each output.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Factors<'a> {
    Half(&'a [f16; LANES]),
    Full(&'a [f32; LANES]),
    /// Small multiples of what several share.
    Fine(&'a [i8; LANES], &'a [f16; LANES]),
    /// Powers of two, or zero: the exponents of floats.
    Exponents(&'a [u8; LANES]),
}

#[cfg(target_arch = "x86_64")]
impl Factors<'_> {
    /// Where they are.
    #[inline(always)]
    pub fn place(&self) -> *const u8 {
        match self {
            Factors::Half(half) => half.as_ptr().cast(),
            Factors::Full(full) => full.as_ptr().cast(),
            Factors::Fine(steps, _) => steps.as_ptr().cast(),
            Factors::Exponents(exponents) => exponents.as_ptr(),
        }
    }

    /// How many bytes it is from there to the next ones.
    #[inline(always)]
    pub fn bytes(&self) -> usize {
        match self {
            Factors::Half(half) => size_of_val(*half),
            Factors::Full(full) => size_of_val(*full),
            Factors::Fine(steps, _) => size_of_val(*steps),
            Factors::Exponents(exponents) => size_of_val(*exponents),
        }
    }
}

/// Brings a line into the first cache before it is needed. It may be any place: one that is not there is not read.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub(crate) fn ask_for<T>(line: *const T) {
    // SAFETY: prefetching is a hint that reads nothing and cannot fault; SSE is part of x86-64.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(line.cast());
    }
}

/// Brings a line into the second cache, which can wait for more of them at a time than the first, where the machine can be
/// asked to.
#[inline(always)]
pub(crate) fn ask_for_later<T>(line: *const T) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: as above.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T1>(line.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = line;
}

/// A vector unit. Every operation acts on 16 lanes.
///
/// Activations come in *words* of 32 bits: two numbers of 16 bits or four of 8. [`Unit::dot`] multiplies a word with the
/// codes of as many inputs of each output.
///
/// # Safety
/// The operations may be called only on machines with the unit's instructions, and are fast only inside functions that are
/// compiled for them.
pub(crate) trait Unit {
    /// 16 sums.
    type Sums: Copy;
    /// Codes of 16 outputs, as [`Unit::dot`] wants them.
    type Codes: Copy;
    /// Four bytes of each output.
    type Strip: Copy;
    /// What 16 nibbles stand for.
    type List: Copy;
    /// 16 floats.
    type Floats: Copy;
    /// Rows in the tallest tile whose sums and results stay in registers.
    const ROWS: usize;
    /// Are several panels at a time better than one? They are where reading activations would hold the unit up.
    const WIDE: bool;
    /// Activations in a word.
    const PER_WORD: usize;
    /// What codes with a sign have too much when they are multiplied.
    const ADDED: i32;

    unsafe fn zero() -> Self::Floats;
    /// The same sum in every lane.
    unsafe fn begin(sum: i32) -> Self::Sums;
    /// The nibbles of a line that meet word `K` of its inputs.
    unsafe fn nibbles<const K: usize>(line: &Line) -> Self::Codes;
    unsafe fn list(numbers: &[i8; 16]) -> Self::List;
    /// What the nibbles of a line that meet word `K` of its inputs stand for.
    unsafe fn listed<const K: usize>(line: &Line, list: Self::List) -> Self::Codes;
    /// The first or second strip of a block's pair, for codes of `WIDTH` bits, as bytes.
    unsafe fn strip<const WIDTH: usize, const SECOND: usize>(lines: &[Line], pair: usize) -> Self::Strip;
    /// The codes of a strip that meet word `K` of its inputs: those of 8 bits have a sign.
    unsafe fn strip_codes<const WIDTH: usize, const K: usize>(strip: Self::Strip) -> Self::Codes;
    /// Adds the products of a word of activations with each output's codes.
    unsafe fn dot(sums: Self::Sums, codes: Self::Codes, word: i32) -> Self::Sums;
    unsafe fn factors(from: Factors<'_>) -> Self::Floats;
    /// `results + sums * (factors * scale)`
    unsafe fn add_sums(
        results: Self::Floats,
        sums: Self::Sums,
        factors: Self::Floats,
        scale: f32,
    ) -> Self::Floats;
    /// `results + factors * scale`
    unsafe fn add_scaled(results: Self::Floats, factors: Self::Floats, scale: f32) -> Self::Floats;
    unsafe fn store(results: Self::Floats) -> [f32; LANES];
}

/// A unit whose words hold two numbers of 16 bits, for what is not packed in advance.
///
/// # Safety
/// As for [`Unit`].
pub(crate) trait Pairs: Unit + Sized {
    /// Sums and codes that registers hold together.
    const HELD: usize;

    /// A pair of codes for each lane.
    unsafe fn shorts(from: &[i16; 2 * LANES]) -> Self::Codes;
    /// The same, from codes of 8 bits.
    unsafe fn bytes_as_shorts(from: &[i8; 2 * LANES]) -> Self::Codes;
    unsafe fn load_sums(from: &[i32; LANES]) -> Self::Sums;
    unsafe fn store_sums(sums: Self::Sums, into: &mut [i32; LANES]);
    /// Adds the products of each query's words with the lines of each list to their sums. All lists must be there.
    #[inline(always)]
    unsafe fn walk<T: Whole, const N: usize, const WIDE: usize>(
        of: Walk<T, N, WIDE>,
        sums: &mut [[Self::Sums; WIDE]; N],
    ) {
        // SAFETY: the caller's promise.
        unsafe { walk::walk::<Self, T, N, WIDE>(of, sums) }
    }
}

/// A unit that multiplies codes of weights with each other, for products of which two are taken in one.
///
/// # Safety
/// As for [`Unit`].
#[cfg(target_arch = "x86_64")]
pub(crate) trait Crossing: Unit {
    /// Pairs of words (a bit each) of which products are taken one by one all the same, because that keeps all pipes busy.
    const PLAIN: u8;

    /// `codes - surplus`
    unsafe fn less(codes: Self::Codes, surplus: i16) -> Self::Codes;
    /// `sums - first * second`, modulo 2³²
    unsafe fn less_products(sums: Self::Sums, first: Self::Codes, second: Self::Codes) -> Self::Sums;
}

/// Compiles `$body::<U>` for every unit with [`Pairs`] and defines `$name`, which takes an [`Isa`](super::Isa) first and runs
/// the version made for it.
macro_rules! on_pairs {
    ($(#[$doc:meta])* $vis:vis fn $name:ident<$t:ident: $bound:path>($($arg:ident: $ty:ty),* $(,)?) = $body:ident) => {
        $(#[$doc])*
        $vis fn $name<$t: $bound>(isa: $crate::kernel::Isa, $($arg: $ty),*) {
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx2,fma,f16c")]
            fn avx2<$t: $bound>($($arg: $ty),*) {
                // SAFETY: these are the unit's instructions; so for the next two.
                unsafe { $body::<$crate::kernel::unit::avx2::Avx2, $t>($($arg),*) }
            }
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,fma,f16c")]
            fn avx512<$t: $bound>($($arg: $ty),*) {
                // SAFETY: see above.
                unsafe { $body::<$crate::kernel::unit::avx512::Avx512, $t>($($arg),*) }
            }
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,fma,f16c")]
            fn vnni<$t: $bound>($($arg: $ty),*) {
                // SAFETY: see above.
                unsafe { $body::<$crate::kernel::unit::avx512::Vnni, $t>($($arg),*) }
            }
            use $crate::kernel::isa::Level;
            match isa.0 {
                // SAFETY: plain code needs no special instructions.
                Level::Portable => unsafe { $body::<$crate::kernel::unit::Plain, $t>($($arg),*) },
                // SAFETY: every such machine has the unit.
                #[cfg(target_arch = "aarch64")]
                Level::Neon => unsafe { $body::<$crate::kernel::unit::neon::Neon, $t>($($arg),*) },
                // SAFETY: an `Isa` of this level exists only where the machine reported these features; so for the next two.
                #[cfg(target_arch = "x86_64")]
                Level::Avx2 => unsafe { avx2::<$t>($($arg),*) },
                // SAFETY: see above.
                #[cfg(target_arch = "x86_64")]
                Level::Avx512 => unsafe { avx512::<$t>($($arg),*) },
                // SAFETY: see above.
                #[cfg(target_arch = "x86_64")]
                Level::Vnni | Level::Winograd | Level::Vnni8 => unsafe { vnni::<$t>($($arg),*) },
                // SAFETY: see above.
                #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
                Level::Amx => unsafe { vnni::<$t>($($arg),*) },
            }
        }
    };
}
pub(crate) use on_pairs;

/// No vector unit that we know of: plain loops, which the compiler vectorises as it can.
#[derive(Debug)]
pub(crate) struct Plain;

impl Unit for Plain {
    type Sums = [i32; LANES];
    type Codes = [[i16; 2]; LANES];
    type Strip = [u8; 64];
    type List = [i16; 16];
    type Floats = [f32; LANES];
    const ROWS: usize = 4;
    const WIDE: bool = false;
    const PER_WORD: usize = 2;
    const ADDED: i32 = 0;

    #[inline(always)]
    unsafe fn zero() -> [f32; LANES] {
        [0.0; LANES]
    }

    #[inline(always)]
    unsafe fn begin(sum: i32) -> [i32; LANES] {
        [sum; LANES]
    }

    #[inline(always)]
    unsafe fn nibbles<const K: usize>(line: &Line) -> [[i16; 2]; LANES] {
        let nibble = |lane: usize, i: usize| i16::from(line.0[lane * 4 + i / 2] >> (i % 2 * 4) & 15);
        std::array::from_fn(|lane| [nibble(lane, K), nibble(lane, K + 4)])
    }

    #[inline(always)]
    unsafe fn list(numbers: &[i8; 16]) -> [i16; 16] {
        numbers.map(i16::from)
    }

    #[inline(always)]
    unsafe fn listed<const K: usize>(line: &Line, list: [i16; 16]) -> [[i16; 2]; LANES] {
        // SAFETY: plain code needs no special instructions.
        unsafe { Self::nibbles::<K>(line) }.map(|pair| pair.map(|nibble| list[nibble as usize & 15]))
    }

    #[inline(always)]
    unsafe fn strip<const WIDTH: usize, const SECOND: usize>(lines: &[Line], pair: usize) -> [u8; 64] {
        let field = |byte: u8, of: Field| {
            let byte = byte >> of.down;
            of.mask & if of.up < 0 { byte >> -of.up } else { byte << of.up }
        };
        let (low, top) = Field::of_strip(WIDTH, pair, SECOND);
        let mut strip = lines[low.line].0.map(|byte| field(byte, low));
        if let Some(top) = top {
            for (strip, byte) in strip.iter_mut().zip(lines[top.line].0) {
                *strip |= field(byte, top);
            }
        }
        strip
    }

    #[inline(always)]
    unsafe fn strip_codes<const WIDTH: usize, const K: usize>(strip: [u8; 64]) -> [[i16; 2]; LANES] {
        let signed = |byte: u8| if WIDTH == 8 { i16::from(byte as i8) } else { i16::from(byte) };
        std::array::from_fn(|lane| [signed(strip[lane * 4 + K]), signed(strip[lane * 4 + K + 2])])
    }

    #[inline(always)]
    unsafe fn dot(mut sums: [i32; LANES], codes: [[i16; 2]; LANES], word: i32) -> [i32; LANES] {
        let [a, b]: [i16; 2] = bytemuck::cast(word);
        for (sum, code) in sums.iter_mut().zip(codes) {
            let products = [i32::from(a) * i32::from(code[0]), i32::from(b) * i32::from(code[1])];
            // Sums that matter do not overflow; those over what a page held before may, here as in a vector unit.
            *sum = sum.wrapping_add(products[0]).wrapping_add(products[1]);
        }
        sums
    }

    #[inline(always)]
    unsafe fn factors(from: Factors<'_>) -> [f32; LANES] {
        match from {
            Factors::Half(half) => half.map(f16::to_f32_const),
            Factors::Full(full) => *full,
            Factors::Fine(steps, of) => std::array::from_fn(|i| f32::from(steps[i]) * of[i].to_f32_const()),
            Factors::Exponents(exponents) => exponents.map(|e| f32::from_bits(u32::from(e) << 23)),
        }
    }

    #[inline(always)]
    unsafe fn add_sums(
        mut results: [f32; LANES],
        sums: [i32; LANES],
        factors: [f32; LANES],
        scale: f32,
    ) -> [f32; LANES] {
        for i in 0..LANES {
            results[i] = fma::<BASELINE>(sums[i] as f32, factors[i] * scale, results[i]);
        }
        results
    }

    #[inline(always)]
    unsafe fn add_scaled(mut results: [f32; LANES], factors: [f32; LANES], scale: f32) -> [f32; LANES] {
        for i in 0..LANES {
            results[i] = fma::<BASELINE>(factors[i], scale, results[i]);
        }
        results
    }

    #[inline(always)]
    unsafe fn store(results: [f32; LANES]) -> [f32; LANES] {
        results
    }
}

impl Pairs for Plain {
    const HELD: usize = 7;

    #[inline(always)]
    unsafe fn shorts(from: &[i16; 2 * LANES]) -> [[i16; 2]; LANES] {
        std::array::from_fn(|lane| [from[2 * lane], from[2 * lane + 1]])
    }

    #[inline(always)]
    unsafe fn bytes_as_shorts(from: &[i8; 2 * LANES]) -> [[i16; 2]; LANES] {
        std::array::from_fn(|lane| [from[2 * lane].into(), from[2 * lane + 1].into()])
    }

    #[inline(always)]
    unsafe fn load_sums(from: &[i32; LANES]) -> [i32; LANES] {
        *from
    }

    #[inline(always)]
    unsafe fn store_sums(sums: [i32; LANES], into: &mut [i32; LANES]) {
        *into = sums;
    }
}
