//! Rotations stretched to longer contexts than a model was first trained with.
//!
//! A head's pairs turn with position, each at its own frequency. A stretch slows the slow ones down, so that a longer
//! context takes no more of a turn than the old one did, and leaves the fast ones alone, which tell neighbours apart.
//! Llama 3 and YaRN differ in where slow begins. Both come down to a divisor for each frequency; YaRN also makes scores a
//! little larger.

use std::f64::consts::PI;

use super::config::Config;

/// How frequencies are stretched.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Stretch {
    /// All alike.
    Linear { factor: f32 },
    /// Slow and fast by how often a wave turns in the `original` context.
    Llama3 { factor: f32, low: f32, high: f32, original: f32 },
    /// The same, blended between two of the frequencies by their number.
    Yarn(Yarn),
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Yarn {
    pub factor: f32,
    pub original: f32,
    /// Turns in the original context from which a wave is fast, and up to which it is slow.
    pub fast: f32,
    pub slow: f32,
    /// Are the two frequencies rounded, outwards, to those that there are?
    pub truncate: bool,
}

impl Yarn {
    pub const FAST: f32 = 32.0;
    pub const SLOW: f32 = 1.0;

    /// What YaRN multiplies queries and keys with, unless it is told otherwise. A model may want only a part of the
    /// logarithm.
    pub fn scale(factor: f32, part: f32) -> f32 {
        if factor <= 1.0 { 1.0 } else { 0.1 * part * factor.ln() + 1.0 }
    }

    /// Between which frequencies those are that are blended.
    fn range(&self, theta: f64, dim: f64) -> (f64, f64) {
        let number = |turns: f32| {
            dim * (f64::from(self.original) / (f64::from(turns) * 2.0 * PI)).ln() / (2.0 * theta.ln())
        };
        let (low, high) = (number(self.fast), number(self.slow));
        let (low, high) = if self.truncate { (low.floor(), high.ceil()) } else { (low, high) };
        (low.max(0.0), high.min(dim - 1.0))
    }
}

impl Stretch {
    /// What each frequency is divided by; `None` if by nothing.
    pub fn divisors(&self, theta: f32, head_dim: usize) -> Option<Vec<f32>> {
        let (theta, dim) = (f64::from(theta), head_dim as f64);
        let divisor = |i: usize| match *self {
            Self::Linear { factor } => f64::from(factor),
            Self::Llama3 { factor, low, high, original } => {
                let turns = f64::from(original) / (2.0 * PI * theta.powf(2.0 * i as f64 / dim));
                let fast = (turns - f64::from(low)) / f64::from(high - low);
                blend(factor, fast)
            }
            Self::Yarn(yarn) => {
                let (low, high) = yarn.range(theta, dim);
                let wide = if low == high { 0.001 } else { high - low };
                blend(yarn.factor, 1.0 - (i as f64 - low) / wide)
            }
        };
        // Checked with everything else later; until then a wild size must not be allocated.
        let divisors: Vec<f32> = (0..(head_dim / 2).min(1 << 12)).map(|i| divisor(i) as f32).collect();
        divisors.iter().any(|d| *d != 1.0).then_some(divisors)
    }
}

/// The divisor of a frequency that is so fast, from 0 to 1.
fn blend(factor: f32, fast: f64) -> f64 {
    let fast = fast.clamp(0.0, 1.0);
    1.0 / ((1.0 - fast) / f64::from(factor) + fast)
}

impl Config {
    /// How fast each pair of a head turns with position.
    pub(crate) fn frequencies(&self) -> Vec<f32> {
        let frequency = |i: usize| {
            let plain = self.rope_theta.powf(-((2 * i) as f32) / self.head_dim as f32);
            self.rope_factors.as_ref().map_or(plain, |factors| plain / factors[i])
        };
        (0..self.head_dim / 2).map(frequency).collect()
    }
}
