//! The random stream that every problem is drawn from.
//!
//! It is splitmix64, written out here rather than taken from a crate: the sixty fixed problems and the corpus
//! that acorn was trained on are functions of this exact stream, so it may never change under us.

use std::ops::RangeInclusive;

/// The state's increment: 2^64 divided by the golden ratio, made odd.
const GOLDEN_GAMMA: u64 = 0x9E37_79B9_7F4A_7C15;

/// A double has 53 bits of mantissa, so a uniform number in [0, 1) is a 53-bit integer over 2^53.
const MANTISSA_BITS: u32 = 53;

#[derive(Debug, Clone)]
pub(crate) struct Stream {
    state: u64,
}

impl Stream {
    /// A stream of its own for every seed. The first value is thrown away.
    pub(crate) fn seeded(seed: u64) -> Self {
        let mut rng = Self { state: seed };
        rng.next_u64();
        rng
    }

    pub(crate) fn next_u64(&mut self) -> u64 {
        self.state = self.state.wrapping_add(GOLDEN_GAMMA);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// Uniform in [0, 1).
    pub(crate) fn unit(&mut self) -> f64 {
        (self.next_u64() >> (u64::BITS - MANTISSA_BITS)) as f64 / (1_u64 << MANTISSA_BITS) as f64
    }

    pub(crate) fn coin(&mut self) -> bool {
        self.next_u64() & 1 == 1
    }

    /// Uniform over the range. The remainder favours small values by less than one part in 2^50 here.
    pub(crate) fn within(&mut self, range: RangeInclusive<u32>) -> u32 {
        let (low, high) = range.into_inner();
        let width = u64::from(high - low) + 1;
        // The remainder is at most `high - low`, which came from a u32.
        low + (self.next_u64() % width) as u32
    }

    /// One of the options, or `None` (and nothing drawn) where there are none.
    pub(crate) fn choose<T: Copy>(&mut self, options: &[T]) -> Option<T> {
        if options.is_empty() {
            return None;
        }
        let index = self.next_u64() % options.len() as u64;
        options.get(index as usize).copied()
    }

    /// An index, with a chance in proportion to its weight; `None` (and nothing drawn) where no weight is
    /// positive.
    pub(crate) fn weighted(&mut self, weights: &[f64]) -> Option<usize> {
        let total: f64 = weights.iter().sum();
        if total <= 0.0 {
            return None;
        }
        let mut left = self.unit() * total;
        let mut last = None;
        for (index, &weight) in weights.iter().enumerate().filter(|&(_, &weight)| weight > 0.0) {
            last = Some(index);
            left -= weight;
            if left <= 0.0 {
                break;
            }
        }
        // Rounding can leave a crumb after the last weight was taken off: then the last one it is.
        last
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_stream_is_splitmix64() {
        // The first outputs of the published algorithm for state 1234567.
        let mut rng = Stream { state: 1_234_567 };
        let stream: Vec<u64> = (0..3).map(|_| rng.next_u64()).collect();
        assert_eq!(stream, [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]);
    }

    #[test]
    fn nothing_to_choose_from_draws_nothing() {
        let mut rng = Stream::seeded(3);
        let before = rng.state;
        assert_eq!(rng.choose::<u32>(&[]), None);
        assert_eq!(rng.weighted(&[]), None);
        assert_eq!(rng.weighted(&[0.0, 0.0]), None);
        assert_eq!(rng.state, before);
    }

    proptest! {
        #[test]
        fn draws_stay_inside(seed: u64, low in 0_u32..1000, width in 0_u32..1000) {
            let mut rng = Stream::seeded(seed);
            let unit = rng.unit();
            prop_assert!((0.0..1.0).contains(&unit));
            let drawn = rng.within(low..=low + width);
            prop_assert!((low..=low + width).contains(&drawn));
        }

        #[test]
        fn a_weight_of_zero_is_never_drawn(seed: u64, weights in prop::collection::vec(0_u8..3, 1..20)) {
            let weights: Vec<f64> = weights.into_iter().map(f64::from).collect();
            match Stream::seeded(seed).weighted(&weights) {
                Some(index) => prop_assert!(weights[index] > 0.0),
                None => prop_assert!(weights.iter().all(|&weight| weight == 0.0)),
            }
        }
    }
}
