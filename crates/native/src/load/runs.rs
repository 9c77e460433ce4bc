//! Quantised rows as runs of 32 small whole numbers.
//!
//! Kernels that multiply whole numbers want what most quantised types have in common: 32 codes of at most a byte, a scale
//! (two where it changes in the middle, as in `Q6K`), and perhaps a minimum. This is the same knowledge as in
//! [`dequant`](super::dequant), which is what it is tested against.

use half::f16;

use super::DType;
use super::dequant::{E2M1, UNEVEN, e8m0_half, iq4_xs_scale, scale_and_min};

/// Numbers in a run.
pub(crate) const RUN: usize = 32;

/// 32 numbers of one row: number `i` is `scales[i / 16] * codes[i] + min`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Run {
    pub codes: [i8; RUN],
    pub scales: [f32; 2],
    pub min: f32,
}

/// What the codes of a type can be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Codes {
    Bytes,
    /// From 0 to 15.
    Nibbles,
    /// One of these.
    Listed(&'static [i8; 16]),
}

/// What the runs of a type are like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RunKind {
    pub codes: Codes,
    /// Different scales in a run: 1 or 2.
    pub scales: usize,
    pub min: bool,
    /// Runs that share what their scales and minima are small multiples of (see [`multiples`]); 1 if none do.
    pub together: usize,
}

/// A run's scales and minimum as multiples of what its block shares.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Multiples {
    pub scales: [i8; 2],
    pub scale_of: f16,
    pub min: i8,
    pub min_of: f16,
}

impl DType {
    /// `None` for what cannot be read as [`Run`]s: floats, and `Q2K`, whose minimum changes every 16 numbers.
    pub(crate) fn runs(self) -> Option<RunKind> {
        let kind = |codes, scales, min, together| Some(RunKind { codes, scales, min, together });
        match self {
            Self::F32 | Self::F16 | Self::BF16 | Self::Q2K => None,
            Self::Q4_0 | Self::Q4_1 => kind(Codes::Nibbles, 1, true, 1),
            Self::Q4K => kind(Codes::Nibbles, 1, true, 8),
            Self::Q5_1 => kind(Codes::Bytes, 1, true, 1),
            Self::Q5K => kind(Codes::Bytes, 1, true, 8),
            Self::Q5_0 | Self::Q8_0 => kind(Codes::Bytes, 1, false, 1),
            Self::Q3K | Self::Q6K => kind(Codes::Bytes, 2, false, 8),
            Self::IQ4_NL | Self::IQ4_XS => kind(Codes::Listed(&UNEVEN), 1, false, 1),
            Self::MXFP4 => kind(Codes::Listed(&E2M1), 1, false, 1),
        }
    }
}

/// The scales and minima of a row's runs as small multiples. Its type must have them so.
pub(crate) fn multiples(dtype: DType, row: &[u8]) -> impl Iterator<Item = Multiples> + '_ {
    let per_block = dtype.block_len() / RUN;
    row.chunks_exact(dtype.block_bytes()).flat_map(move |b| {
        let half = |byte: usize| f16::from_le_bytes([b[byte], b[byte + 1]]);
        (0..per_block).map(move |at| match dtype {
            DType::Q4K | DType::Q5K => {
                let (scale, min) = scale_and_min(&b[4..16], at);
                Multiples { scales: [scale as i8; 2], scale_of: half(0), min: min as i8, min_of: -half(2) }
            }
            DType::Q3K | DType::Q6K => {
                let (scale, of) = match dtype {
                    DType::Q3K => ([q3k_scale(b, at * 2), q3k_scale(b, at * 2 + 1)], half(108)),
                    _ => ([b[192 + at * 2] as i8, b[193 + at * 2] as i8], half(208)),
                };
                Multiples { scales: scale, scale_of: of, min: 0, min_of: f16::ZERO }
            }
            _ => unreachable!("{dtype:?} has scales of its own in every run"),
        })
    })
}

/// All runs of a row. Its type must have them.
pub(crate) fn runs(dtype: DType, row: &[u8]) -> impl Iterator<Item = Run> + '_ {
    let per_block = dtype.block_len() / RUN;
    row.chunks_exact(dtype.block_bytes())
        .flat_map(move |block| (0..per_block).map(move |at| run(dtype, block, at)))
}

fn codes(code: impl Fn(usize) -> i8) -> [i8; RUN] {
    std::array::from_fn(code)
}

/// The run at one place of a block.
fn run(dtype: DType, b: &[u8], at: usize) -> Run {
    let half = |byte: usize| f16::from_le_bytes([b[byte], b[byte + 1]]).to_f32();
    let nibble = |bytes: &[u8], i: usize| (bytes[i % 16] >> (i / 16 * 4) & 15) as i8;
    let fifth = |bytes: &[u8], i: usize| ((bytes[i / 8] >> (i % 8) & 1) << 4) as i8;
    match dtype {
        DType::Q4_0 => {
            Run { codes: codes(|i| nibble(&b[2..], i)), scales: [half(0); 2], min: -8.0 * half(0) }
        }
        DType::Q4_1 => Run { codes: codes(|i| nibble(&b[4..], i)), scales: [half(0); 2], min: half(2) },
        DType::Q5_0 => {
            let code = |i| (nibble(&b[6..], i) | fifth(&b[2..], i)) - 16;
            Run { codes: codes(code), scales: [half(0); 2], min: 0.0 }
        }
        DType::Q5_1 => {
            let code = |i| nibble(&b[8..], i) | fifth(&b[4..], i);
            Run { codes: codes(code), scales: [half(0); 2], min: half(2) }
        }
        DType::Q8_0 => Run { codes: codes(|i| b[2 + i] as i8), scales: [half(0); 2], min: 0.0 },
        DType::MXFP4 => {
            let code = |i| E2M1[nibble(&b[1..], i) as usize];
            Run { codes: codes(code), scales: [e8m0_half(b[0]); 2], min: 0.0 }
        }
        DType::IQ4_NL | DType::IQ4_XS => {
            let (scale, nibbles) = match dtype {
                DType::IQ4_NL => (half(0), &b[2..]),
                _ => (half(0) * iq4_xs_scale(b, at), &b[8 + 16 * at..]),
            };
            let code = |i| UNEVEN[nibble(nibbles, i) as usize];
            Run { codes: codes(code), scales: [scale; 2], min: 0.0 }
        }
        DType::Q3K => q3k(b, at),
        DType::Q4K | DType::Q5K => {
            let (scale, min) = scale_and_min(&b[4..16], at);
            let (fifths, nibbles) =
                if dtype == DType::Q5K { (&b[16..48], &b[48..]) } else { (&b[..0], &b[16..]) };
            let code = |i: usize| {
                let low = nibbles[at / 2 * 32 + i] >> (at % 2 * 4) & 15;
                (low | fifths.get(i).map_or(0, |f| (f >> at & 1) << 4)) as i8
            };
            Run { codes: codes(code), scales: [half(0) * scale; 2], min: -half(2) * min }
        }
        DType::Q6K => {
            let (part, run) = (at / 4, at % 4);
            let code = |i: usize| {
                let low = b[part * 64 + run % 2 * 32 + i] >> (run / 2 * 4) & 15;
                let top = b[128 + part * 32 + i] >> (run * 2) & 3;
                (low | top << 4) as i8 - 32
            };
            let scale = |i: usize| half(208) * f32::from(b[192 + at * 2 + i] as i8);
            Run { codes: codes(code), scales: [scale(0), scale(1)], min: 0.0 }
        }
        DType::F32 | DType::F16 | DType::BF16 | DType::Q2K => unreachable!("{dtype:?} has no runs"),
    }
}

fn q3k(b: &[u8], at: usize) -> Run {
    let (third, quants) = (&b[..32], &b[32..96]);
    let code = |i: usize| {
        let low = quants[at / 4 * 32 + i] >> (at % 4 * 2) & 3;
        low as i8 - if third[i] >> at & 1 == 0 { 4 } else { 0 }
    };
    let scale =
        |half: usize| f16::from_le_bytes([b[108], b[109]]).to_f32() * f32::from(q3k_scale(b, at * 2 + half));
    Run { codes: std::array::from_fn(code), scales: [scale(0), scale(1)], min: 0.0 }
}

fn q3k_scale(b: &[u8], i: usize) -> i8 {
    let packed = &b[96..108];
    let (low, high) = (packed[i % 8] >> (i / 8 * 4) & 15, packed[8 + i % 4] >> (i / 4 * 2) & 3);
    (low | high << 4) as i8 - 32
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::load::Tensor;
    use proptest::prelude::*;

    /// All types that have runs.
    pub const TYPES: [DType; 12] = [
        DType::MXFP4,
        DType::Q4_0,
        DType::Q4_1,
        DType::Q5_0,
        DType::Q5_1,
        DType::Q8_0,
        DType::Q3K,
        DType::Q4K,
        DType::Q5K,
        DType::Q6K,
        DType::IQ4_NL,
        DType::IQ4_XS,
    ];

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
            let runs: Vec<Run> = runs(dtype, data).collect();
            prop_assert_eq!(runs.len() * RUN, plain.len());
            let kind = dtype.runs().unwrap();
            for run in &runs {
                let possible = |c: &i8| match kind.codes {
                    Codes::Bytes => true,
                    Codes::Nibbles => (0..16).contains(c),
                    Codes::Listed(list) => list.contains(c),
                };
                prop_assert!(run.codes.iter().all(possible));
                prop_assert!(kind.scales == 2 || run.scales[0] == run.scales[1]);
                prop_assert!(kind.min || run.min == 0.0);
            }
            if kind.together > 1 {
                for (of, run) in multiples(dtype, data).zip(&runs) {
                    let times = |step: i8, of: f16| f32::from(step) * of.to_f32();
                    prop_assert_eq!(of.scales.map(|step| times(step, of.scale_of)), run.scales);
                    prop_assert_eq!(times(of.min, of.min_of), run.min);
                }
            }
            for (i, &want) in plain.iter().enumerate() {
                let Run { codes, scales, min } = runs[i / RUN];
                let got = scales[i % RUN / 16] * f32::from(codes[i % RUN]) + min;
                // Q4_0 subtracts before it multiplies; with a minimum both are rounded apart.
                prop_assert!((got - want).abs() <= 1e-6 * (want.abs() + min.abs()), "{dtype:?} {i}: {got} for {want}");
            }
        }
    }
}
