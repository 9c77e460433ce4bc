//! The vector unit of 64-bit ARM, which every such processor has.

use std::arch::aarch64::*;
use std::arch::asm;

use super::{Factors, Field, LANES, Line, Pairs, Unit};

/// Four quarters of 4 lanes. What a word's two numbers meet lies apart, because a multiplication takes one number for all
/// lanes.
#[derive(Debug)]
pub(crate) struct Neon;

/// The codes that meet the first number of a word, for all lanes, and those that meet the second.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Apart([int16x8_t; 2], [int16x8_t; 2]);

// Every `unsafe` calls an instruction of the unit, which every such machine has, or reads or writes exactly the bytes of a
// reference.
impl Unit for Neon {
    type Sums = [int32x4_t; 4];
    type Codes = Apart;
    type Strip = [uint16x8x2_t; 2];
    type List = int8x16_t;
    type Floats = [float32x4_t; 4];
    const ROWS: usize = 3;
    const WIDE: bool = false;
    const PER_WORD: usize = 2;
    const ADDED: i32 = 0;

    #[inline(always)]
    unsafe fn zero() -> [float32x4_t; 4] {
        // SAFETY: see above.
        unsafe { [vdupq_n_f32(0.0); 4] }
    }

    #[inline(always)]
    unsafe fn begin(sum: i32) -> [int32x4_t; 4] {
        // SAFETY: see above.
        unsafe { [vdupq_n_s32(sum); 4] }
    }

    #[inline(always)]
    unsafe fn nibbles<const K: usize>(line: &Line) -> Apart {
        // SAFETY: see above.
        unsafe { each_half(apart(line), |shorts| vreinterpretq_s16_u16(nibble::<K>(shorts))) }
    }

    #[inline(always)]
    unsafe fn list(numbers: &[i8; 16]) -> int8x16_t {
        // SAFETY: see above.
        unsafe { vld1q_s8(numbers.as_ptr()) }
    }

    #[inline(always)]
    unsafe fn listed<const K: usize>(line: &Line, list: int8x16_t) -> Apart {
        // SAFETY: see above.
        unsafe {
            // The nibble goes to the upper of two bytes, is looked up there, and comes down with its sign.
            each_half(apart(line), |shorts| {
                let upper = vreinterpretq_u8_u16(vshlq_n_u16::<8>(nibble::<K>(shorts)));
                vshrq_n_s16::<8>(vreinterpretq_s16_s8(vqtbl1q_s8(list, upper)))
            })
        }
    }

    #[inline(always)]
    unsafe fn strip<const WIDTH: usize, const SECOND: usize>(
        lines: &[Line],
        pair: usize,
    ) -> [uint16x8x2_t; 2] {
        // SAFETY: see above.
        unsafe {
            let (low, top) = Field::of_strip(WIDTH, pair, SECOND);
            let mut strip = field(apart(&lines[low.line]), low);
            if let Some(top) = top {
                let upper = field(apart(&lines[top.line]), top);
                for half in 0..2 {
                    strip[half].0 = vorrq_u16(strip[half].0, upper[half].0);
                    strip[half].1 = vorrq_u16(strip[half].1, upper[half].1);
                }
            }
            strip
        }
    }

    #[inline(always)]
    unsafe fn strip_codes<const WIDTH: usize, const K: usize>(strip: [uint16x8x2_t; 2]) -> Apart {
        // SAFETY: see above.
        unsafe {
            each_half(strip, |shorts| {
                let signed = vreinterpretq_s16_u16(shorts);
                match (WIDTH, K) {
                    (8, 0) => vshrq_n_s16::<8>(vshlq_n_s16::<8>(signed)),
                    (8, _) => vshrq_n_s16::<8>(signed),
                    (_, 0) => vandq_s16(signed, vdupq_n_s16(0xff)),
                    _ => vreinterpretq_s16_u16(vshrq_n_u16::<8>(shorts)),
                }
            })
        }
    }

    #[inline(always)]
    unsafe fn dot(mut sums: [int32x4_t; 4], codes: Apart, word: i32) -> [int32x4_t; 4] {
        // SAFETY: see above.
        unsafe {
            let word = vreinterpret_s16_s32(vdup_n_s32(word));
            let Apart(first, second) = codes;
            for half in 0..2 {
                let (low, high) = (2 * half, 2 * half + 1);
                sums[low] = vmlal_lane_s16::<0>(sums[low], vget_low_s16(first[half]), word);
                sums[high] = vmlal_high_lane_s16::<0>(sums[high], first[half], word);
                sums[low] = vmlal_lane_s16::<1>(sums[low], vget_low_s16(second[half]), word);
                sums[high] = vmlal_high_lane_s16::<1>(sums[high], second[half], word);
            }
            sums
        }
    }

    #[inline(always)]
    unsafe fn factors(from: Factors<'_>) -> [float32x4_t; 4] {
        // SAFETY: see above.
        unsafe {
            match from {
                Factors::Half(half) => halves(pair_of_shorts(half.as_ptr().cast())),
                Factors::Full(full) => {
                    let full = full.as_ptr();
                    [vld1q_f32(full), vld1q_f32(full.add(4)), vld1q_f32(full.add(8)), vld1q_f32(full.add(12))]
                }
                Factors::Fine(steps, of) => {
                    let (steps, of) = (vld1q_s8(steps.as_ptr()), pair_of_shorts(of.as_ptr().cast()));
                    let (low, high) = (vmovl_s8(vget_low_s8(steps)), vmovl_high_s8(steps));
                    let steps = [
                        vmovl_s16(vget_low_s16(low)),
                        vmovl_high_s16(low),
                        vmovl_s16(vget_low_s16(high)),
                        vmovl_high_s16(high),
                    ];
                    let mut factors = halves(of);
                    for quarter in 0..4 {
                        factors[quarter] = vmulq_f32(vcvtq_f32_s32(steps[quarter]), factors[quarter]);
                    }
                    factors
                }
                Factors::Exponents(exponents) => {
                    let exponents = vld1q_u8(exponents.as_ptr());
                    let (low, high) = (vmovl_u8(vget_low_u8(exponents)), vmovl_high_u8(exponents));
                    let power = |bits: uint32x4_t| vreinterpretq_f32_u32(vshlq_n_u32::<23>(bits));
                    [
                        power(vmovl_u16(vget_low_u16(low))),
                        power(vmovl_high_u16(low)),
                        power(vmovl_u16(vget_low_u16(high))),
                        power(vmovl_high_u16(high)),
                    ]
                }
            }
        }
    }

    #[inline(always)]
    unsafe fn add_sums(
        mut results: [float32x4_t; 4],
        sums: [int32x4_t; 4],
        factors: [float32x4_t; 4],
        scale: f32,
    ) -> [float32x4_t; 4] {
        // SAFETY: see above.
        unsafe {
            for quarter in 0..4 {
                let factors = vmulq_n_f32(factors[quarter], scale);
                results[quarter] = vfmaq_f32(results[quarter], vcvtq_f32_s32(sums[quarter]), factors);
            }
            results
        }
    }

    #[inline(always)]
    unsafe fn add_scaled(
        mut results: [float32x4_t; 4],
        factors: [float32x4_t; 4],
        scale: f32,
    ) -> [float32x4_t; 4] {
        // SAFETY: see above.
        unsafe {
            for quarter in 0..4 {
                results[quarter] = vfmaq_n_f32(results[quarter], factors[quarter], scale);
            }
            results
        }
    }

    #[inline(always)]
    unsafe fn store(results: [float32x4_t; 4]) -> [f32; LANES] {
        // SAFETY: see above.
        unsafe {
            let mut out = [0.0; LANES];
            for quarter in 0..4 {
                vst1q_f32(out[4 * quarter..][..4].as_mut_ptr(), results[quarter]);
            }
            out
        }
    }
}

// As above.
impl Pairs for Neon {
    const HELD: usize = 7;

    #[inline(always)]
    unsafe fn shorts(from: &[i16; 2 * LANES]) -> Apart {
        // SAFETY: see above.
        unsafe {
            let (low, high) = (vld2q_s16(from.as_ptr()), vld2q_s16(from.as_ptr().add(LANES)));
            Apart([low.0, high.0], [low.1, high.1])
        }
    }

    #[inline(always)]
    unsafe fn bytes_as_shorts(from: &[i8; 2 * LANES]) -> Apart {
        // SAFETY: see above.
        unsafe {
            let bytes = vld2q_s8(from.as_ptr());
            let wide = |bytes: int8x16_t| [vmovl_s8(vget_low_s8(bytes)), vmovl_high_s8(bytes)];
            Apart(wide(bytes.0), wide(bytes.1))
        }
    }

    #[inline(always)]
    unsafe fn load_sums(from: &[i32; LANES]) -> [int32x4_t; 4] {
        let from = from.as_ptr();
        // SAFETY: see above.
        unsafe { [vld1q_s32(from), vld1q_s32(from.add(4)), vld1q_s32(from.add(8)), vld1q_s32(from.add(12))] }
    }

    #[inline(always)]
    unsafe fn store_sums(sums: [int32x4_t; 4], into: &mut [i32; LANES]) {
        for quarter in 0..4 {
            // SAFETY: see above.
            unsafe { vst1q_s32(into[4 * quarter..][..4].as_mut_ptr(), sums[quarter]) };
        }
    }
}

/// A line's numbers of 16 bits, in two halves of 8 outputs: the first of every output, and the second.
#[inline]
#[target_feature(enable = "neon")]
fn apart(line: &Line) -> [uint16x8x2_t; 2] {
    let shorts = line.0.as_ptr().cast::<u16>();
    // SAFETY: reads the 64 bytes of a line, which are aligned.
    unsafe { [vld2q_u16(shorts), vld2q_u16(shorts.add(LANES))] }
}

/// Codes, from what lies apart already.
#[inline]
#[target_feature(enable = "neon")]
fn each_half(shorts: [uint16x8x2_t; 2], code: impl Fn(uint16x8_t) -> int16x8_t) -> Apart {
    let [low, high] = shorts;
    Apart([code(low.0), code(high.0)], [code(low.1), code(high.1)])
}

#[inline]
#[target_feature(enable = "neon")]
fn nibble<const K: usize>(shorts: uint16x8_t) -> uint16x8_t {
    let low = vdupq_n_u16(15);
    match K {
        0 => vandq_u16(shorts, low),
        1 => vandq_u16(vshrq_n_u16::<4>(shorts), low),
        2 => vandq_u16(vshrq_n_u16::<8>(shorts), low),
        _ => vshrq_n_u16::<12>(shorts),
    }
}

/// The bits of a strip in one plane. What crosses from byte to byte is masked away.
#[inline]
#[target_feature(enable = "neon")]
fn field(line: [uint16x8x2_t; 2], of: Field) -> [uint16x8x2_t; 2] {
    // Bytes are shifted, so nothing crosses; to shift by less than nothing is to shift down.
    let move_by = vdupq_n_s8((of.up - of.down as i32) as i8);
    let mask = vdupq_n_u8(of.mask);
    let place = |shorts: uint16x8_t| {
        let bytes = vshlq_u8(vreinterpretq_u8_u16(shorts), move_by);
        vreinterpretq_u16_u8(vandq_u8(bytes, mask))
    };
    let [low, high] = line;
    [uint16x8x2_t(place(low.0), place(low.1)), uint16x8x2_t(place(high.0), place(high.1))]
}

/// # Safety
/// There are 16 numbers to be read.
#[inline]
#[target_feature(enable = "neon")]
unsafe fn pair_of_shorts(from: *const u16) -> [uint16x8_t; 2] {
    // SAFETY: the caller's promise.
    unsafe { [vld1q_u16(from), vld1q_u16(from.add(8))] }
}

/// 16 numbers in half precision as floats.
#[inline]
#[target_feature(enable = "neon")]
fn halves([low, high]: [uint16x8_t; 2]) -> [float32x4_t; 4] {
    let wide = |half: uint16x4_t| {
        let floats: float32x4_t;
        // By hand, because the type that the compiler has for such numbers is not stable.
        // SAFETY: the instruction is part of every such processor, and touches registers only.
        unsafe {
            asm!(
                "fcvtl {floats:v}.4s, {half:v}.4h",
                floats = out(vreg) floats,
                half = in(vreg) half,
                options(pure, nomem, nostack, preserves_flags),
            );
        }
        floats
    };
    [wide(vget_low_u16(low)), wide(vget_high_u16(low)), wide(vget_low_u16(high)), wide(vget_high_u16(high))]
}
