//! Quantised rows as runs of 32 small whole numbers.
//!
//! Kernels that multiply whole numbers want what quantised types have in common: 32 codes of at most a byte, a scale and
//! perhaps a minimum, of which some types have another for each half. This is the same knowledge as in
//! [`dequant`](super::dequant), which is what it is tested against. It is written to be fast, eight codes at a time and
//! inlined where the type is known: loading a model means to take every one of its weights through here.

use half::f16;

use super::DType;
use super::dequant::{E2M1, UNEVEN, e8m0_half, iq4_xs_scale, q3k_scale, scale_and_min};

/// Numbers in a run.
pub(crate) const RUN: usize = 32;

/// What the codes of a type are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Codes {
    /// Whole numbers with a sign.
    Bytes,
    /// Four bits, which stand for one of these.
    Listed(&'static [i8; 16]),
    /// So many bits (2 to 6), which stand for what they say less this.
    Bits(usize, i32),
}

/// How a type keeps its scales, and its minima where it has them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scales {
    /// In half precision, one for each run.
    Half,
    /// Small multiples of one that 256 numbers share; see [`multiples`].
    Multiples,
    /// Powers of two.
    Powers,
}

/// What the runs of a type are like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RunKind {
    pub codes: Codes,
    pub scales: Scales,
    /// Parts of a run with a scale (and a minimum) of their own: 1 or 2.
    pub groups: usize,
    pub min: bool,
}

/// What Q4_0's codes stand for.
const EVEN: [i8; 16] = [-8, -7, -6, -5, -4, -3, -2, -1, 0, 1, 2, 3, 4, 5, 6, 7];

impl DType {
    /// `None` for floats.
    #[inline(always)]
    pub(crate) fn runs(self) -> Option<RunKind> {
        let kind = |codes, scales, groups, min| Some(RunKind { codes, scales, groups, min });
        match self {
            Self::F32 | Self::F16 | Self::BF16 => None,
            Self::Q4_0 => kind(Codes::Listed(&EVEN), Scales::Half, 1, false),
            Self::Q4_1 => kind(Codes::Bits(4, 0), Scales::Half, 1, true),
            Self::Q5_0 => kind(Codes::Bits(5, 16), Scales::Half, 1, false),
            Self::Q5_1 => kind(Codes::Bits(5, 0), Scales::Half, 1, true),
            Self::Q8_0 => kind(Codes::Bytes, Scales::Half, 1, false),
            Self::Q2K => kind(Codes::Bits(2, 0), Scales::Multiples, 2, true),
            Self::Q3K => kind(Codes::Bits(3, 4), Scales::Multiples, 2, false),
            Self::Q4K => kind(Codes::Bits(4, 0), Scales::Multiples, 1, true),
            Self::Q5K => kind(Codes::Bits(5, 0), Scales::Multiples, 1, true),
            Self::Q6K => kind(Codes::Bits(6, 32), Scales::Multiples, 2, false),
            Self::IQ4_NL => kind(Codes::Listed(&UNEVEN), Scales::Half, 1, false),
            Self::IQ4_XS => kind(Codes::Listed(&UNEVEN), Scales::Multiples, 1, false),
            Self::MXFP4 => kind(Codes::Listed(&E2M1), Scales::Powers, 1, false),
        }
    }
}

/// A scale and a minimum that a block has in half precision (zero where it has none). Those of [`Scales::Multiples`] are
/// what its runs have multiples of.
#[inline(always)]
pub(crate) fn shared(dtype: DType, block: &[u8]) -> [f16; 2] {
    let half = |byte: usize| f16::from_le_bytes([block[byte], block[byte + 1]]);
    match dtype {
        DType::Q4_1 | DType::Q5_1 => [half(0), half(2)],
        DType::Q4K | DType::Q5K => [half(0), -half(2)],
        DType::Q2K => [half(80), -half(82)],
        DType::Q3K => [half(108), f16::ZERO],
        DType::Q6K => [half(208), f16::ZERO],
        _ => [half(0), f16::ZERO],
    }
}

/// A run's scales and minima as multiples of what its block shares.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Multiples {
    pub scales: [i8; 2],
    pub mins: [i8; 2],
}

/// The multiples of run number `at` of a block, whose type must have them.
#[inline(always)]
pub(crate) fn multiples(dtype: DType, block: &[u8], at: usize) -> Multiples {
    let scales = |scales: [i8; 2]| Multiples { scales, mins: [0; 2] };
    match dtype {
        DType::Q2K => {
            let [a, b] = [block[2 * at], block[2 * at + 1]];
            Multiples { scales: [(a & 15) as i8, (b & 15) as i8], mins: [(a >> 4) as i8, (b >> 4) as i8] }
        }
        DType::Q3K => scales([q3k_scale(block, 2 * at), q3k_scale(block, 2 * at + 1)]),
        DType::Q4K | DType::Q5K => {
            let (scale, min) = scale_and_min(&block[4..16], at);
            Multiples { scales: [scale as i8; 2], mins: [min as i8; 2] }
        }
        DType::Q6K => scales([block[192 + 2 * at] as i8, block[193 + 2 * at] as i8]),
        DType::IQ4_XS => scales([iq4_xs_scale(block, at); 2]),
        _ => unreachable!("{dtype:?} has scales of its own in every run"),
    }
}

/// The exponent that a block's scale has as a float, where its type has [`Scales::Powers`]; zero for one that is too small
/// for a normal float.
#[inline(always)]
pub(crate) fn exponent(block: &[u8]) -> u8 {
    block[0].saturating_sub(1)
}

/// The scale of a block whose type has [`Scales::Powers`].
pub(crate) fn power(block: &[u8]) -> f32 {
    e8m0_half(block[0])
}

/// The codes of a run as bits, a byte each: eight to a number, the first lowest.
pub(crate) type CodeBits = [u64; RUN / 8];

// No iterators, and no `map` over arrays, from here on: they are not always inlined, and every weight of a model comes by.

/// The same byte, eight times.
const fn each(byte: u8) -> u64 {
    u64::from_ne_bytes([byte; 8])
}

/// Eight bytes at a time, shifted down, of which these bits are kept.
#[inline(always)]
fn fields(bytes: &[u8], shift: usize, kept: u8) -> CodeBits {
    let (words, _) = bytes[..RUN].as_chunks::<8>();
    let mut fields = [0; RUN / 8];
    for i in 0..RUN / 8 {
        fields[i] = u64::from_le_bytes(words[i]) >> shift & each(kept);
    }
    fields
}

/// Puts bits above those that are there.
#[inline(always)]
fn topped(codes: CodeBits, tops: CodeBits, shift: usize) -> CodeBits {
    let mut both = codes;
    for i in 0..RUN / 8 {
        both[i] |= tops[i] << shift;
    }
    both
}

/// 16 bytes of nibbles: the lower ones are the first 16 codes.
#[inline(always)]
fn nibbles(bytes: &[u8]) -> CodeBits {
    let (words, _) = bytes[..RUN / 2].as_chunks::<8>();
    let (a, b) = (u64::from_le_bytes(words[0]), u64::from_le_bytes(words[1]));
    let kept = each(15);
    [a & kept, b & kept, a >> 4 & kept, b >> 4 & kept]
}

/// 4 bytes of single bits.
#[inline(always)]
fn bits(bytes: &[u8]) -> CodeBits {
    let mut spread = [0; RUN / 8];
    for i in 0..RUN / 8 {
        // Copies nine bits apart: the highest bit of byte `i` is then bit `7 - i` of what was copied.
        let copies = u64::from(bytes[i]).wrapping_mul(0x8040_2010_0804_0201);
        spread[i] = (copies >> 7 & each(1)).swap_bytes();
    }
    spread
}

/// The codes of run number `at` of a block, whose type must have runs.
#[inline(always)]
pub(crate) fn codes(dtype: DType, b: &[u8], at: usize) -> CodeBits {
    match dtype {
        DType::Q4_0 | DType::IQ4_NL => nibbles(&b[2..]),
        DType::Q4_1 => nibbles(&b[4..]),
        DType::Q5_0 => topped(nibbles(&b[6..]), bits(&b[2..6]), 4),
        DType::Q5_1 => topped(nibbles(&b[8..]), bits(&b[4..8]), 4),
        DType::Q8_0 => fields(&b[2..], 0, 0xff),
        DType::MXFP4 => nibbles(&b[1..]),
        DType::IQ4_XS => nibbles(&b[8 + 16 * at..]),
        DType::Q2K => fields(&b[16 + at / 4 * 32..], at % 4 * 2, 3),
        DType::Q3K => topped(fields(&b[32 + at / 4 * 32..], at % 4 * 2, 3), fields(b, at, 1), 2),
        DType::Q4K => fields(&b[16 + at / 2 * 32..], at % 2 * 4, 15),
        DType::Q5K => topped(fields(&b[48 + at / 2 * 32..], at % 2 * 4, 15), fields(&b[16..], at, 1), 4),
        DType::Q6K => {
            let (part, run) = (at / 4, at % 4);
            let low = fields(&b[part * 64 + run % 2 * 32..], run / 2 * 4, 15);
            topped(low, fields(&b[128 + part * 32..], run * 2, 3), 4)
        }
        DType::F32 | DType::F16 | DType::BF16 => unreachable!("{dtype:?} has no runs"),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::load::Tensor;
    use proptest::prelude::*;

    /// All types that have runs.
    pub const TYPES: [DType; 13] = [
        DType::MXFP4,
        DType::Q4_0,
        DType::Q4_1,
        DType::Q5_0,
        DType::Q5_1,
        DType::Q8_0,
        DType::Q2K,
        DType::Q3K,
        DType::Q4K,
        DType::Q5K,
        DType::Q6K,
        DType::IQ4_NL,
        DType::IQ4_XS,
    ];

    /// 32 numbers of one row: number `i` is `scales[i / 16] * codes[i] + mins[i / 16]`.
    #[derive(Debug, Clone, Copy, PartialEq)]
    pub struct Run {
        pub codes: [i32; RUN],
        pub scales: [f32; 2],
        pub mins: [f32; 2],
    }

    /// What all the parts say together, for every run of a row.
    pub fn runs(dtype: DType, row: &[u8]) -> Vec<Run> {
        let kind = dtype.runs().unwrap();
        let run = |block: &[u8], at: usize| {
            let stored: [u8; RUN] = bytemuck::cast(codes(dtype, block, at).map(u64::to_le_bytes));
            let codes = stored.map(|bits| match kind.codes {
                Codes::Bytes => i32::from(bits as i8),
                Codes::Listed(list) => i32::from(list[usize::from(bits)]),
                Codes::Bits(width, minus) => {
                    assert!(bits < 1 << width);
                    i32::from(bits) - minus
                }
            });
            let [scale, min] = shared(dtype, block).map(f16::to_f32);
            let times = |steps: [i8; 2], of: f32| steps.map(|step| f32::from(step) * of);
            let (scales, mins) = match kind.scales {
                Scales::Half => ([scale; 2], [min; 2]),
                Scales::Powers => ([power(block); 2], [0.0; 2]),
                Scales::Multiples => {
                    let steps = multiples(dtype, block, at);
                    (times(steps.scales, scale), times(steps.mins, min))
                }
            };
            Run { codes, scales, mins }
        };
        let blocks = row.chunks_exact(dtype.block_bytes());
        blocks.flat_map(|block| (0..dtype.block_len() / RUN).map(move |at| run(block, at))).collect()
    }

    proptest! {
        /// Any bytes at all, as long as their scales are numbers.
        #[test]
        fn runs_say_what_dequantising_says(
            dtype in prop::sample::select(TYPES.as_slice()),
            bytes in prop::collection::vec(any::<u8>(), 2 * 210),
        ) {
            let data = &bytes[..2 * dtype.block_bytes()];
            let shape = vec![2 * dtype.block_len()];
            let plain = Tensor { dtype, shape, data }.to_f32();
            prop_assume!(plain.iter().all(|x| x.is_finite()));
            let runs = runs(dtype, data);
            prop_assert_eq!(runs.len() * RUN, plain.len());
            let kind = dtype.runs().unwrap();
            for run in &runs {
                prop_assert!(kind.groups == 2 || run.scales[0] == run.scales[1] && run.mins[0] == run.mins[1]);
                prop_assert!(kind.min || run.mins == [0.0; 2]);
            }
            for (i, &want) in plain.iter().enumerate() {
                let Run { codes, scales, mins } = runs[i / RUN];
                let got = scales[i % RUN / 16] * codes[i % RUN] as f32 + mins[i % RUN / 16];
                prop_assert_eq!(got, want, "{:?} {}", dtype, i);
            }
        }
    }
}
