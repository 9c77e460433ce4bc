//! The small operations between the matrix products, one row at a time.

use super::isa::multiversion;
use super::lanes::{LANES, Lanes, exp};
use crate::load::RopeStyle;

multiversion! {
    /// `out = x / rms(x) * weight`.
    pub(crate) fn rms_norm(x: &[f32], weight: &[f32], eps: f32, out: &mut [f32]) = rms_norm_lanes
}

#[inline(always)]
fn rms_norm_lanes<const FMA: bool>(x: &[f32], weight: &[f32], eps: f32, out: &mut [f32]) {
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
    let scale = 1.0 / ((squares.sum() + rest) / x.len() as f32 + eps).sqrt();
    for ((out, &x), &weight) in out.iter_mut().zip(x).zip(weight) {
        *out = x * scale * weight;
    }
}

multiversion! {
    /// `out = silu(gate) * up`.
    pub(crate) fn swiglu(gate: &[f32], up: &[f32], out: &mut [f32]) = swiglu_lanes
}

#[inline(always)]
fn swiglu_lanes<const FMA: bool>(gate: &[f32], up: &[f32], out: &mut [f32]) {
    for ((out, &gate), &up) in out.iter_mut().zip(gate).zip(up) {
        *out = gate / (1.0 + exp::<FMA>(-gate)) * up;
    }
}

multiversion! {
    /// `sum of e^((x - top) * scale)`, in double precision across chunks so that large vocabularies keep their tail.
    pub(crate) fn exp_sum(x: &[f32], top: f32, scale: f32) -> f64 = exp_sum_lanes
}

#[inline(always)]
fn exp_sum_lanes<const FMA: bool>(x: &[f32], top: f32, scale: f32) -> f64 {
    let chunks = x.chunks_exact(LANES);
    let rest: f32 = chunks.remainder().iter().map(|x| exp::<FMA>((x - top) * scale)).sum();
    let mut total = f64::from(rest);
    for chunk in chunks {
        total += f64::from(Lanes::load(chunk).map(|x| exp::<FMA>((x - top) * scale)).sum());
    }
    total
}

multiversion! {
    /// The largest value; NaN is ignored.
    pub(crate) fn max(x: &[f32]) -> f32 = max_lanes
}

#[inline(always)]
fn max_lanes<const FMA: bool>(x: &[f32]) -> f32 {
    let larger = |a: f32, b: f32| if a > b { a } else { b };
    let chunks = x.chunks_exact(LANES);
    let mut best = chunks.remainder().iter().fold(f32::NEG_INFINITY, |a, &b| if b > a { b } else { a });
    let mut lanes = Lanes::splat(f32::NEG_INFINITY);
    for chunk in chunks {
        for i in 0..LANES {
            lanes.0[i] = if chunk[i] > lanes.0[i] { chunk[i] } else { lanes.0[i] };
        }
    }
    best = larger(lanes.max(), best);
    best
}

/// Rotates the pairs of one head by the angles whose cosines and sines are given.
pub(crate) fn rope(head: &mut [f32], cos: &[f32], sin: &[f32], style: RopeStyle) {
    let half = head.len() / 2;
    for i in 0..half {
        let (a, b) = match style {
            RopeStyle::Interleaved => (2 * i, 2 * i + 1),
            RopeStyle::Halves => (i, i + half),
        };
        let (x, y) = (head[a], head[b]);
        head[a] = x * cos[i] - y * sin[i];
        head[b] = y * cos[i] + x * sin[i];
    }
}
