//! From stored blocks to floats.
//!
//! A block quantises a short run of one row. The old types (`Q4_0` to `Q8_0`) cover 32 numbers with one scale
//! and perhaps one minimum. The "K" types cover 256 with sub-blocks whose own scales are quantised in turn. The "IQ4"
//! types look their codes up in a table of uneven steps.
//! Layouts are ggml's; within a byte the low bits always come first. These functions are the definition that
//! faster kernels are tested against, so they are written to be read.

use half::{bf16, f16};

use super::DType;

/// Decodes whole blocks. `data` and `out` must be of matching lengths, as [`super::Tensor`] guarantees.
pub(super) fn to_f32(dtype: DType, data: &[u8], out: &mut [f32]) {
    let block: fn(&[u8], &mut [f32]) = match dtype {
        DType::F32 => |b, y| y[0] = f32::from_le_bytes([b[0], b[1], b[2], b[3]]),
        DType::F16 => |b, y| y[0] = half(b, 0),
        DType::BF16 => |b, y| y[0] = bf16::from_le_bytes([b[0], b[1]]).to_f32(),
        DType::Q4_0 => q4_0,
        DType::Q4_1 => q4_1,
        DType::Q5_0 => q5_0,
        DType::Q5_1 => q5_1,
        DType::Q8_0 => q8_0,
        DType::Q2K => q2k,
        DType::Q3K => q3k,
        DType::Q4K => q4k,
        DType::Q5K => q5k,
        DType::Q6K => q6k,
        DType::IQ4_NL => iq4_nl,
        DType::IQ4_XS => iq4_xs,
        DType::MXFP4 => mxfp4,
    };
    let blocks = data.chunks_exact(dtype.block_bytes());
    for (bytes, numbers) in blocks.zip(out.chunks_exact_mut(dtype.block_len())) {
        block(bytes, numbers);
    }
}

fn half(bytes: &[u8], at: usize) -> f32 {
    f16::from_le_bytes([bytes[at], bytes[at + 1]]).to_f32()
}

/// scale, 16 bytes of nibbles: low nibbles are the first 16 numbers, high nibbles the other 16.
fn q4_0(b: &[u8], y: &mut [f32]) {
    let d = half(b, 0);
    for (i, q) in b[2..].iter().enumerate() {
        y[i] = d * f32::from((q & 15) as i8 - 8);
        y[i + 16] = d * f32::from((q >> 4) as i8 - 8);
    }
}

/// scale, minimum, nibbles.
fn q4_1(b: &[u8], y: &mut [f32]) {
    let (d, m) = (half(b, 0), half(b, 2));
    for (i, q) in b[4..].iter().enumerate() {
        y[i] = d * f32::from(q & 15) + m;
        y[i + 16] = d * f32::from(q >> 4) + m;
    }
}

/// The fifth bits of 32 numbers, one bit each, moved into place above a nibble.
fn fifth_bits(b: &[u8], i: usize) -> (u8, u8) {
    let bits = u32::from_le_bytes([b[0], b[1], b[2], b[3]]);
    (((bits >> i) as u8 & 1) << 4, ((bits >> (i + 16)) as u8 & 1) << 4)
}

/// scale, fifth bits, nibbles.
fn q5_0(b: &[u8], y: &mut [f32]) {
    let d = half(b, 0);
    for (i, q) in b[6..].iter().enumerate() {
        let (low, high) = fifth_bits(&b[2..], i);
        y[i] = d * f32::from((q & 15 | low) as i8 - 16);
        y[i + 16] = d * f32::from((q >> 4 | high) as i8 - 16);
    }
}

/// scale, minimum, fifth bits, nibbles.
fn q5_1(b: &[u8], y: &mut [f32]) {
    let (d, m) = (half(b, 0), half(b, 2));
    for (i, q) in b[8..].iter().enumerate() {
        let (low, high) = fifth_bits(&b[4..], i);
        y[i] = d * f32::from(q & 15 | low) + m;
        y[i + 16] = d * f32::from(q >> 4 | high) + m;
    }
}

/// scale, 32 signed bytes.
fn q8_0(b: &[u8], y: &mut [f32]) {
    let d = half(b, 0);
    for (y, q) in y.iter_mut().zip(&b[2..]) {
        *y = d * f32::from(*q as i8);
    }
}

/// 16 bytes of (scale, minimum) nibbles, one per 16 numbers; 64 bytes of 2-bit numbers; both super-scales.
/// Each half of 128 numbers lies in 32 bytes: the first 32 numbers in the lowest bits, and so on.
fn q2k(b: &[u8], y: &mut [f32]) {
    let (scales, quants) = (&b[..16], &b[16..80]);
    let (d, dmin) = (half(b, 80), half(b, 82));
    for (n, y) in y.iter_mut().enumerate() {
        let (run, lane) = (n / 32, n % 32);
        let q = quants[run / 4 * 32 + lane] >> (run % 4 * 2) & 3;
        let scale = scales[n / 16];
        *y = d * f32::from(scale & 15) * f32::from(q) - dmin * f32::from(scale >> 4);
    }
}

/// 32 bytes of third bits (bit `n / 32` of byte `n % 32`; set means "no -4"), 64 bytes of 2-bit numbers, 16
/// scales of 6 bits in 12 bytes, the super-scale.
fn q3k(b: &[u8], y: &mut [f32]) {
    let (third, quants) = (&b[..32], &b[32..96]);
    let d = half(b, 108);
    for (n, y) in y.iter_mut().enumerate() {
        let (run, lane) = (n / 32, n % 32);
        let low = quants[run / 4 * 32 + lane] >> (run % 4 * 2) & 3;
        let minus = if third[lane] >> run & 1 == 0 { 4 } else { 0 };
        *y = d * f32::from(q3k_scale(b, n / 16)) * f32::from(low as i8 - minus);
    }
}

/// The scale of 16 numbers of `Q3K`, to be multiplied with that of its block.
#[inline]
pub(super) fn q3k_scale(b: &[u8], i: usize) -> i8 {
    let packed = &b[96..108];
    let low = packed[i % 8] >> (i / 8 * 4) & 15;
    let high = packed[8 + i % 4] >> (i / 4 * 2) & 3;
    (low | high << 4) as i8 - 32
}

/// The 8 scales and 8 minima of `Q4K` and `Q5K`, 6 bits each in 12 bytes: four of each lie open in the low 6
/// bits of bytes 0..8; the other four have nibbles in bytes 8..12 and their top bits above the first four.
#[inline]
pub(super) fn scale_and_min(packed: &[u8], i: usize) -> (u8, u8) {
    match i {
        0..4 => (packed[i] & 63, packed[i + 4] & 63),
        _ => (packed[i + 4] & 15 | packed[i - 4] >> 6 << 4, packed[i + 4] >> 4 | packed[i] >> 6 << 4),
    }
}

/// Both super-scales, 12 bytes of scales, 128 bytes of nibbles: every 32 bytes hold 64 numbers, low nibbles first.
fn q4k(b: &[u8], y: &mut [f32]) {
    let (d, dmin) = (half(b, 0), half(b, 2));
    for (run, y) in y.chunks_exact_mut(32).enumerate() {
        let (scale, min) = scale_and_min(&b[4..16], run);
        let quants = &b[16 + run / 2 * 32..][..32];
        for (y, q) in y.iter_mut().zip(quants) {
            *y = d * f32::from(scale) * f32::from(q >> (run % 2 * 4) & 15) - dmin * f32::from(min);
        }
    }
}

/// As `Q4K`, with 32 bytes of fifth bits (bit `n / 32` of byte `n % 32`) before the nibbles.
fn q5k(b: &[u8], y: &mut [f32]) {
    let (d, dmin) = (half(b, 0), half(b, 2));
    let fifth = &b[16..48];
    for (run, y) in y.chunks_exact_mut(32).enumerate() {
        let (scale, min) = scale_and_min(&b[4..16], run);
        let quants = &b[48 + run / 2 * 32..][..32];
        for (lane, y) in y.iter_mut().enumerate() {
            let q = quants[lane] >> (run % 2 * 4) & 15 | (fifth[lane] >> run & 1) << 4;
            *y = d * f32::from(scale) * f32::from(q) - dmin * f32::from(min);
        }
    }
}

/// 128 bytes of nibbles, 64 bytes of the two bits above them, 16 signed scales, the super-scale. Each half of 128
/// numbers: runs 0 and 1 in the low nibbles of 64 bytes, runs 2 and 3 in the high ones.
fn q6k(b: &[u8], y: &mut [f32]) {
    let (nibbles, tops, scales) = (&b[..128], &b[128..192], &b[192..208]);
    let d = half(b, 208);
    for (n, y) in y.iter_mut().enumerate() {
        let (part, run, lane) = (n / 128, n / 32 % 4, n % 32);
        let low = nibbles[part * 64 + run % 2 * 32 + lane] >> (run / 2 * 4) & 15;
        let top = tops[part * 32 + lane] >> (run * 2) & 3;
        *y = d * f32::from(scales[n / 16] as i8) * f32::from((low | top << 4) as i8 - 32);
    }
}

/// What the codes of `IQ4_NL` and `IQ4_XS` stand for: finer steps near zero, where most weights are.
pub(super) const UNEVEN: [i8; 16] =
    [-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113];

/// As `Q4_0`, with codes into the table.
fn iq4_nl(b: &[u8], y: &mut [f32]) {
    uneven(half(b, 0), &b[2..], y);
}

/// The super-scale, the upper two bits of eight scales, their lower nibbles, then 16 bytes of codes per 32 numbers.
fn iq4_xs(b: &[u8], y: &mut [f32]) {
    for (run, y) in y.chunks_exact_mut(32).enumerate() {
        uneven(half(b, 0) * f32::from(iq4_xs_scale(b, run)), &b[8 + 16 * run..][..16], y);
    }
}

/// The scale of a run of `IQ4_XS`, to be multiplied with that of its block.
#[inline]
pub(super) fn iq4_xs_scale(b: &[u8], run: usize) -> i8 {
    let low = b[4 + run / 2] >> (run % 2 * 4) & 15;
    let high = u16::from_le_bytes([b[2], b[3]]) >> (2 * run) & 3;
    (low | (high as u8) << 4) as i8 - 32
}

fn uneven(scale: f32, codes: &[u8], y: &mut [f32]) {
    for (i, q) in codes.iter().enumerate() {
        y[i] = scale * f32::from(UNEVEN[usize::from(q & 15)]);
        y[i + 16] = scale * f32::from(UNEVEN[usize::from(q >> 4)]);
    }
}

/// Twice what the four bits of a float with one of mantissa stand for: a sign, two bits of exponent.
pub(super) const E2M1: [i8; 16] = [0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12];

/// Half of the power of two that an exponent of 8 bits stands for.
pub(super) fn e8m0_half(exponent: u8) -> f32 {
    f32::from_bits(match exponent {
        0 | 1 => 0x0020_0000 << exponent, // too small for a normal number
        e => u32::from(e - 1) << 23,
    })
}

/// exponent, nibbles.
fn mxfp4(b: &[u8], y: &mut [f32]) {
    let d = e8m0_half(b[0]);
    for (i, q) in b[1..].iter().enumerate() {
        y[i] = d * f32::from(E2M1[usize::from(q & 15)]);
        y[i + 16] = d * f32::from(E2M1[usize::from(q >> 4)]);
    }
}
