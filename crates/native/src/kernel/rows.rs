//! The small operations between the matrix products, one row at a time.
//!
//! Plain loops throughout: iterators over two slices at a time are not always inlined into code for a vector unit.

use super::isa::multiversion;
use super::lanes::{LANES, Lanes, exp};
use crate::load::RopeStyle;

multiversion! {
    /// `out = x / rms(x) * weight`.
    pub(crate) fn rms_norm(x: &[f32], weight: &[f32], eps: f32, out: &mut [f32]) = rms_norm_lanes
}

#[inline(always)]
fn rms_norm_lanes<const FMA: bool>(x: &[f32], weight: &[f32], eps: f32, out: &mut [f32]) {
    let (scale, len) = (norm_scale(x, eps), out.len());
    let (x, weight) = (&x[..len], &weight[..len]);
    for i in 0..len {
        out[i] = x[i] * scale * weight[i];
    }
}

multiversion! {
    /// The same, where it is no longer needed as it was.
    pub(crate) fn rms_norm_in_place(x: &mut [f32], weight: &[f32], eps: f32) = rms_norm_in_place_lanes
}

#[inline(always)]
fn rms_norm_in_place_lanes<const FMA: bool>(x: &mut [f32], weight: &[f32], eps: f32) {
    let (scale, len) = (norm_scale(x, eps), x.len());
    let weight = &weight[..len];
    for i in 0..len {
        x[i] = x[i] * scale * weight[i];
    }
}

/// `1 / rms(x)`
#[inline(always)]
fn norm_scale(x: &[f32], eps: f32) -> f32 {
    let mut squares = Lanes::ZERO;
    let chunks = x.chunks_exact(LANES);
    let mut rest = 0.0;
    for &value in chunks.remainder() {
        rest += value * value;
    }
    for chunk in chunks {
        for i in 0..LANES {
            squares.0[i] += chunk[i] * chunk[i];
        }
    }
    1.0 / ((squares.sum() + rest) / x.len() as f32 + eps).sqrt()
}

multiversion! {
    /// `x += y`.
    pub(crate) fn add(x: &mut [f32], y: &[f32]) = add_lanes
}

#[inline(always)]
fn add_lanes<const FMA: bool>(x: &mut [f32], y: &[f32]) {
    let len = x.len();
    let y = &y[..len];
    for i in 0..len {
        x[i] += y[i];
    }
}

multiversion! {
    /// `out = silu(gate) * up`.
    pub(crate) fn swiglu(gate: &[f32], up: &[f32], out: &mut [f32]) = swiglu_lanes
}

#[inline(always)]
fn swiglu_lanes<const FMA: bool>(gate: &[f32], up: &[f32], out: &mut [f32]) {
    let len = out.len();
    let (gate, up) = (&gate[..len], &up[..len]);
    for i in 0..len {
        out[i] = gate[i] / (1.0 + exp::<FMA>(-gate[i])) * up[i];
    }
}

/// gpt-oss's gate: how steep it is, and what it is limited to.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Gate {
    pub alpha: f32,
    pub limit: f32,
}

multiversion! {
    /// `out = g * sigmoid(alpha * g) * (u + 1)`, where `g` and `u` are gate and up, each with what is to be added to it, the
    /// first limited from above and the second on both sides.
    pub(crate) fn limited_swiglu(
        gate_up: [&[f32]; 2],
        biases: [&[f32]; 2],
        shape: Gate,
        out: &mut [f32],
    ) = limited_swiglu_lanes
}

#[inline(always)]
fn limited_swiglu_lanes<const FMA: bool>(
    [gate, up]: [&[f32]; 2],
    [gate_bias, up_bias]: [&[f32]; 2],
    Gate { alpha, limit }: Gate,
    out: &mut [f32],
) {
    let len = out.len();
    let (gate, up) = (&gate[..len], &up[..len]);
    let (gate_bias, up_bias) = (&gate_bias[..len], &up_bias[..len]);
    for i in 0..len {
        let (gate, up) = (gate[i] + gate_bias[i], up[i] + up_bias[i]);
        // Comparisons, not `min`, which would make numbers of what is none.
        let gate = if gate > limit { limit } else { gate };
        let up = if up > limit { limit } else { up };
        let up = if up < -limit { -limit } else { up };
        out[i] = gate / (1.0 + exp::<FMA>(-alpha * gate)) * (up + 1.0);
    }
}

multiversion! {
    /// Rotates the pairs of one head by the angles whose cosines and sines are given.
    pub(crate) fn rope(head: &mut [f32], cos: &[f32], sin: &[f32], style: RopeStyle) = rope_lanes
}

#[inline(always)]
fn rope_lanes<const FMA: bool>(head: &mut [f32], cos: &[f32], sin: &[f32], style: RopeStyle) {
    /// Pairs that are turned together.
    const PAIRS: usize = LANES;
    let turn = |x: f32, y: f32, cos: f32, sin: f32| (x * cos - y * sin, y * cos + x * sin);
    match style {
        RopeStyle::Interleaved => {
            let (pairs, rest) = head.as_chunks_mut::<{ 2 * PAIRS }>();
            let (cos_chunks, cos_rest) = cos.as_chunks::<PAIRS>();
            let (sin_chunks, sin_rest) = sin.as_chunks::<PAIRS>();
            for at in 0..pairs.len() {
                let (pairs, cos, sin) = (&mut pairs[at], &cos_chunks[at], &sin_chunks[at]);
                // Taken apart and put together again, so that the middle is a vector operation.
                let (mut x, mut y) = ([0.0; PAIRS], [0.0; PAIRS]);
                for i in 0..PAIRS {
                    (x[i], y[i]) = (pairs[2 * i], pairs[2 * i + 1]);
                }
                for i in 0..PAIRS {
                    (x[i], y[i]) = turn(x[i], y[i], cos[i], sin[i]);
                }
                for i in 0..PAIRS {
                    (pairs[2 * i], pairs[2 * i + 1]) = (x[i], y[i]);
                }
            }
            let (rest, _) = rest.as_chunks_mut::<2>();
            for i in 0..rest.len() {
                (rest[i][0], rest[i][1]) = turn(rest[i][0], rest[i][1], cos_rest[i], sin_rest[i]);
            }
        }
        RopeStyle::Halves => {
            let (first, second) = head.split_at_mut(cos.len());
            let (second, sin) = (&mut second[..cos.len()], &sin[..cos.len()]);
            for i in 0..cos.len() {
                (first[i], second[i]) = turn(first[i], second[i], cos[i], sin[i]);
            }
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::kernel::Isa;
    use eager_core::Key;
    use proptest::prelude::*;

    /// Numbers between -2 and 2 that a seed and a name stand for.
    pub fn numbers(seed: u64, name: u64, count: usize) -> Vec<f32> {
        let key = Key::prompt(seed, name);
        (0..count).map(|i| (key.uniform(i) * 4.0 - 2.0) as f32).collect()
    }

    /// Is `got` as near to `want` as `tolerance` allows for numbers of this size?
    pub fn near(got: f32, want: f64, size: f64, tolerance: f64) -> bool {
        (f64::from(got) - want).abs() <= tolerance * size
    }

    fn doubles(x: &[f32]) -> impl Iterator<Item = f64> + '_ {
        x.iter().map(|&x| f64::from(x))
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn rms_norm_is_what_it_says(seed: u64, len in 1usize..200, eps in 1e-6f32..1e-2) {
            let (x, weight) = (numbers(seed, 0, len), numbers(seed, 1, len));
            let square = doubles(&x).map(|x| x * x).sum::<f64>() / len as f64;
            for isa in Isa::available() {
                let mut out = vec![f32::NAN; len];
                rms_norm(isa, &x, &weight, eps, &mut out);
                let mut same = x.clone();
                rms_norm_in_place(isa, &mut same, &weight, eps);
                prop_assert_eq!(&same, &out);
                for i in 0..len {
                    let want = f64::from(x[i]) / (square + f64::from(eps)).sqrt() * f64::from(weight[i]);
                    prop_assert!(near(out[i], want, want.abs(), 2e-6), "{isa}: {} for {want}", out[i]);
                }
            }
        }

        #[test]
        fn swiglu_is_what_it_says(seed: u64, len in 1usize..100, size in 0.1f32..60.0) {
            let gate: Vec<f32> = numbers(seed, 0, len).iter().map(|x| x * size).collect();
            let up = numbers(seed, 1, len);
            for isa in Isa::available() {
                let mut out = vec![f32::NAN; len];
                swiglu(isa, &gate, &up, &mut out);
                for i in 0..len {
                    let g = f64::from(gate[i]);
                    let want = g / (1.0 + (-g).exp()) * f64::from(up[i]);
                    // Far below zero the exponential is limited: what is left is nothing either way.
                    let size = want.abs().max(1e-30);
                    prop_assert!(near(out[i], want, size, 2e-6), "{isa}: {} for {want}", out[i]);
                }
            }
        }

        #[test]
        fn limited_swiglu_is_what_it_says(seed: u64, len in 1usize..100, size in 0.1f32..20.0) {
            let at = |name: u64| numbers(seed, name, len).iter().map(|x| x * size).collect::<Vec<f32>>();
            let (gate, up, biases) = (at(0), at(1), [at(2), at(3)]);
            let shape = Gate { alpha: 1.702, limit: 7.0 };
            for isa in Isa::available() {
                let mut out = vec![f32::NAN; len];
                limited_swiglu(isa, [&gate, &up], [&biases[0], &biases[1]], shape, &mut out);
                for i in 0..len {
                    let g = f64::from(gate[i] + biases[0][i]).min(7.0);
                    let u = f64::from(up[i] + biases[1][i]).clamp(-7.0, 7.0);
                    let want = g / (1.0 + (-f64::from(shape.alpha) * g).exp()) * (u + 1.0);
                    let size = (want.abs() * (u.abs() + 1.0) / (u + 1.0).abs()).max(1e-30);
                    prop_assert!(near(out[i], want, size, 4e-6), "{isa}: {} for {want}", out[i]);
                }
            }
        }

        #[test]
        fn rope_rotates_pairs(seed: u64, half in 1usize..40, angle in -50f64..50.0) {
            let head = numbers(seed, 0, 2 * half);
            let angles: Vec<f64> = (0..half).map(|i| angle / (i + 1) as f64).collect();
            let cos: Vec<f32> = angles.iter().map(|a| a.cos() as f32).collect();
            let sin: Vec<f32> = angles.iter().map(|a| a.sin() as f32).collect();
            for style in [RopeStyle::Interleaved, RopeStyle::Halves] {
                let mut got = head.clone();
                rope(Isa::detect(), &mut got, &cos, &sin, style);
                for (i, angle) in angles.iter().enumerate() {
                    let (a, b) = if style == RopeStyle::Interleaved { (2 * i, 2 * i + 1) } else { (i, half + i) };
                    let (x, y) = (f64::from(head[a]), f64::from(head[b]));
                    // The same turn, seen as a length and a direction.
                    let (length, turned) = (x.hypot(y), y.atan2(x) + angle);
                    prop_assert!(near(got[a], length * turned.cos(), length, 1e-6));
                    prop_assert!(near(got[b], length * turned.sin(), length, 1e-6));
                }
            }
        }
    }
}
