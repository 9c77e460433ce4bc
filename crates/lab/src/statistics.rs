//! How sure is a number that comes from a handful of problems?
//!
//! A benchmark is a sample of problems, so what a report says is uncertain because other problems could have been in it.
//! The percentile bootstrap (Efron 1979) answers by drawing: 2,000 times as many problems as there are, with replacement,
//! and the statistic of each drawn set. The middle 95% of these are the interval.
//!
//! Problems are what is drawn, never sequences or seeds: sequences of one problem resemble each other. A problem that was
//! run with several seeds counts once, with its average. Two methods are compared on the same draws, problem by problem,
//! which takes the difficulty of the problems out of the difference.
//!
//! The draws are a function of a fixed seed, so a report of the same runs has the same intervals to the last digit.
//!
//! Drawing cannot show what it never saw: of 4 problems of which 4 are solved, every draw solves all. So a share that is 0 or
//! 1, or of fewer than 30 problems, has Wilson's interval (1927) instead, and a difference of such shares Newcombe's, which
//! puts two of Wilson's together for paired data (1998, his method 10). A problem that counts in part, as an average over
//! seeds, is taken as the same part of a problem.

use eager_core::Key;
use serde::{Deserialize, Serialize};

/// How often problems are drawn anew.
pub const RESAMPLES: usize = 2000;
/// The share of draws that an interval holds.
pub const LEVEL: f64 = 0.95;
const SEED: u64 = 1979;
/// Fewer problems than this are too few to draw shares from.
pub const FEW: usize = 30;
/// The normal distribution's quantile that leaves 2.5% above it.
const Z: f64 = 1.959_963_984_540_054;

/// How an interval was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum IntervalKind {
    Bootstrap,
    Wilson,
    Newcombe,
}

/// Where the number lies for 95% of the sets of problems that could have been there.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    pub low: f64,
    pub high: f64,
    pub kind: IntervalKind,
}

impl Interval {
    pub fn contains(&self, value: f64) -> bool {
        (self.low..=self.high).contains(&value)
    }

    /// The same interval on a scale that is `by` times as fine.
    fn scaled(self, by: f64) -> Self {
        let (a, b) = (self.low * by, self.high * by);
        Interval { low: a.min(b), high: a.max(b), ..self }
    }
}

/// A number and how sure it is.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    pub value: f64,
    /// `None` with fewer than two problems: one problem says nothing about others.
    pub interval: Option<Interval>,
}

impl Estimate {
    pub fn scaled(self, by: f64) -> Self {
        Estimate { value: self.value * by, interval: self.interval.map(|i| i.scaled(by)) }
    }
}

/// The average; `None` of nothing.
pub fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// Pearson's correlation; `None` where one side does not vary.
pub fn pearson(x: &[f64], y: &[f64]) -> Option<f64> {
    correlation(x.iter().copied().zip(y.iter().copied()))
}

fn correlation(pairs: impl Iterator<Item = (f64, f64)> + Clone) -> Option<f64> {
    let (mut n, mut sum_x, mut sum_y) = (0.0, 0.0, 0.0);
    for (x, y) in pairs.clone() {
        n += 1.0;
        sum_x += x;
        sum_y += y;
    }
    // Around the means, or large values would cancel away what varies.
    let (mean_x, mean_y) = (sum_x / n, sum_y / n);
    let (mut xx, mut yy, mut xy) = (0.0, 0.0, 0.0);
    for (x, y) in pairs {
        let (dx, dy) = (x - mean_x, y - mean_y);
        xx += dx * dx;
        yy += dy * dy;
        xy += dx * dy;
    }
    // Equal values differ from their mean by rounding alone.
    let varies = |squares: f64, mean: f64| squares.sqrt() > 8.0 * f64::EPSILON * n * mean.abs();
    let r = xy / (xx.sqrt() * yy.sqrt());
    (varies(xx, mean_x) && varies(yy, mean_y) && r.is_finite()).then(|| r.clamp(-1.0, 1.0))
}

/// The drawn sets of problems, as indices.
#[derive(Debug, Clone)]
pub struct Bootstrap {
    problems: usize,
    draws: Vec<u32>,
}

impl Bootstrap {
    pub fn new(problems: usize) -> Self {
        let draw = |resample: usize| {
            let key = Key::prompt(SEED, resample as u64);
            (0..problems).map(move |at| (key.uniform(at) * problems as f64) as u32)
        };
        Bootstrap { problems, draws: (0..RESAMPLES).flat_map(draw).collect() }
    }

    /// The interval of any statistic of a set of problems. Draws for which it has no value are left out.
    pub fn interval(&self, statistic: impl Fn(&[u32]) -> Option<f64>) -> Option<Interval> {
        if self.problems < 2 {
            return None;
        }
        let mut seen: Vec<f64> = self.draws.chunks(self.problems).filter_map(statistic).collect();
        seen.sort_by(f64::total_cmp);
        let tail = (1.0 - LEVEL) / 2.0;
        let (low, high) = (quantile(&seen, tail)?, quantile(&seen, 1.0 - tail)?);
        Some(Interval { low, high, kind: IntervalKind::Bootstrap })
    }

    /// The mean over problems.
    ///
    /// # Panics
    /// When there is not one value for each problem; so do the others.
    pub fn mean(&self, values: &[f64]) -> Option<Estimate> {
        self.check(values);
        let drawn = |draw: &[u32]| Some(total(values, draw) / draw.len() as f64);
        Some(Estimate { value: mean(values)?, interval: self.interval(drawn) })
    }

    /// The mean of `ours - theirs`, problem by problem.
    pub fn difference(&self, ours: &[f64], theirs: &[f64]) -> Option<Estimate> {
        self.check(ours);
        self.check(theirs);
        self.mean(&ours.iter().zip(theirs).map(|(a, b)| a - b).collect::<Vec<_>>())
    }

    /// The share of problems for which something holds.
    pub fn share(&self, values: &[f64]) -> Option<Estimate> {
        self.check(values);
        let value = mean(values)?;
        let is_extreme = !(1e-9..=1.0 - 1e-9).contains(&value);
        match values.len() < FEW || is_extreme {
            true => Some(Estimate { value, interval: Some(wilson(value, values.len())) }),
            false => self.mean(values),
        }
    }

    /// The difference of two such shares, problem by problem.
    pub fn share_difference(&self, ours: &[f64], theirs: &[f64]) -> Option<Estimate> {
        self.check(ours);
        self.check(theirs);
        let value = mean(ours)? - mean(theirs)?;
        // Where no problem differs from the others, neither does any draw.
        let mut differences = ours.iter().zip(theirs).map(|(a, b)| a - b);
        let varies = differences.any(|difference| (difference - value).abs() > 1e-9);
        match varies && ours.len() >= FEW {
            true => self.difference(ours, theirs),
            false => Some(Estimate { value, interval: Some(newcombe(ours, theirs)) }),
        }
    }

    /// The ratio of two sums over the same problems, such as the tokens of two methods.
    pub fn ratio(&self, ours: &[f64], theirs: &[f64]) -> Option<Estimate> {
        self.check(ours);
        self.check(theirs);
        let divide = |a: f64, b: f64| (b != 0.0).then(|| a / b);
        let drawn = |draw: &[u32]| divide(total(ours, draw), total(theirs, draw));
        let value = divide(ours.iter().sum(), theirs.iter().sum())?;
        Some(Estimate { value, interval: self.interval(drawn) })
    }

    pub fn pearson(&self, x: &[f64], y: &[f64]) -> Option<Estimate> {
        self.check(x);
        self.check(y);
        let drawn = |draw: &[u32]| correlation(draw.iter().map(|&i| (x[i as usize], y[i as usize])));
        Some(Estimate { value: pearson(x, y)?, interval: self.interval(drawn) })
    }

    fn check(&self, values: &[f64]) {
        assert_eq!(values.len(), self.problems, "one value for each problem");
    }
}

/// The score interval of a share of so many problems.
fn wilson(share: f64, problems: usize) -> Interval {
    let n = problems as f64;
    let share = share.clamp(0.0, 1.0);
    let shrunk = 1.0 + Z * Z / n;
    let middle = (share + Z * Z / (2.0 * n)) / shrunk;
    let reach = Z / shrunk * (share * (1.0 - share) / n + Z * Z / (4.0 * n * n)).sqrt();
    Interval {
        low: (middle - reach).clamp(0.0, share),
        high: (middle + reach).clamp(share, 1.0),
        kind: IntervalKind::Wilson,
    }
}

/// The interval of the difference of two shares of the same problems.
fn newcombe(ours: &[f64], theirs: &[f64]) -> Interval {
    let n = ours.len() as f64;
    // Both, only ours, only theirs, neither.
    let (mut both, mut only_ours, mut only_theirs, mut neither) = (0.0, 0.0, 0.0, 0.0);
    for (a, b) in ours.iter().zip(theirs) {
        both += a * b;
        only_ours += a * (1.0 - b);
        only_theirs += (1.0 - a) * b;
        neither += (1.0 - a) * (1.0 - b);
    }
    let (a, b) = ((both + only_ours) / n, (both + only_theirs) / n);
    let (of_a, of_b) = (wilson(a, ours.len()), wilson(b, ours.len()));
    let margins = (a * (1.0 - a) * b * (1.0 - b)).sqrt() * n * n;
    let together = both * neither - only_ours * only_theirs;
    // What few problems have in common may be chance.
    let together = if together > 0.0 { (together - n / 2.0).max(0.0) } else { together };
    let correlation = if margins > 0.0 { together / margins } else { 0.0 };
    let apart = |x: f64, y: f64| (x * x - 2.0 * correlation * x * y + y * y).max(0.0).sqrt();
    let difference = a - b;
    Interval {
        low: (difference - apart(a - of_a.low, of_b.high - b)).max(-1.0),
        high: (difference + apart(of_a.high - a, b - of_b.low)).min(1.0),
        kind: IntervalKind::Newcombe,
    }
}

fn total(values: &[f64], draw: &[u32]) -> f64 {
    draw.iter().map(|&i| values[i as usize]).sum()
}

/// Linear interpolation between the neighbours of the rank, in a sorted list.
fn quantile(sorted: &[f64], share: f64) -> Option<f64> {
    let rank = share * sorted.len().checked_sub(1)? as f64;
    let (below, above) = (sorted[rank.floor() as usize], sorted[rank.ceil() as usize]);
    Some(below + (above - below) * rank.fract())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn close(a: f64, b: f64) -> bool {
        (a - b).abs() <= 1e-9 * (1.0 + a.abs().max(b.abs()))
    }

    /// Means, deviations and products one after the other, as a textbook has it.
    fn slow_pearson(x: &[f64], y: &[f64]) -> f64 {
        let n = x.len() as f64;
        let (mx, my) = (x.iter().sum::<f64>() / n, y.iter().sum::<f64>() / n);
        let covariance: f64 = x.iter().zip(y).map(|(a, b)| (a - mx) * (b - my)).sum::<f64>() / n;
        let deviation = |v: &[f64], m: f64| (v.iter().map(|a| (a - m).powi(2)).sum::<f64>() / n).sqrt();
        covariance / (deviation(x, mx) * deviation(y, my))
    }

    /// A bootstrap with an index list for each resample and a full sort, drawing as `Bootstrap` says it does.
    fn slow_interval(n: usize, statistic: impl Fn(&[usize]) -> f64) -> Interval {
        let mut seen = Vec::new();
        for resample in 0..RESAMPLES as u64 {
            let mut drawn = Vec::new();
            for at in 0..n {
                drawn.push((Key::prompt(SEED, resample).uniform(at) * n as f64).floor() as usize);
            }
            seen.push(statistic(&drawn));
        }
        seen.sort_by(|a, b| a.partial_cmp(b).unwrap());
        let at = |share: f64| {
            let rank = share * (seen.len() - 1) as f64;
            let (below, above) = (seen[rank as usize], seen[(rank as usize + 1).min(seen.len() - 1)]);
            below * (1.0 - rank.fract()) + above * rank.fract()
        };
        Interval { low: at(0.025), high: at(0.975), kind: IntervalKind::Bootstrap }
    }

    #[test]
    fn correlations_that_are_known() {
        for (y, r) in [([10.0, 20.0, 30.0], 1.0), ([3.0, 2.0, 1.0], -1.0), ([1.0, 0.0, 1.0], 0.0)] {
            assert!(close(pearson(&[1.0, 2.0, 3.0], &y).unwrap(), r), "{y:?}");
        }
        for constant in [0.0, 1.0, 0.1, -1e9] {
            assert_eq!(
                pearson(&[constant; 3], &[3.0, 2.0, 1.0]),
                None,
                "what does not vary has no correlation"
            );
        }
        assert_eq!(pearson(&[], &[]), None);
    }

    #[test]
    fn nothing_and_one_problem_have_no_interval() {
        assert_eq!(Bootstrap::new(0).mean(&[]), None);
        assert_eq!(Bootstrap::new(1).mean(&[0.5]), Some(Estimate { value: 0.5, interval: None }));
        assert_eq!(Bootstrap::new(2).ratio(&[1.0, 1.0], &[0.0, 0.0]), None);
    }

    #[test]
    fn the_interval_of_a_mean_is_about_two_standard_errors_wide() {
        let values: Vec<f64> = (0..400).map(|i| f64::from(i % 2)).collect();
        let estimate = Bootstrap::new(400).mean(&values).unwrap();
        let Interval { low, high, .. } = estimate.interval.unwrap();
        let reach = (high - low) / 2.0;
        assert!((reach - 1.96 * 0.5 / 20.0).abs() < 0.004, "{reach}");
    }

    #[test]
    fn a_method_that_is_always_a_little_better_is_surely_better() {
        let theirs: Vec<f64> = (0..50).map(|i| f64::from(i % 10) / 10.0).collect();
        let ours: Vec<f64> = theirs.iter().map(|v| v + 0.01).collect();
        let bootstrap = Bootstrap::new(50);
        let apart = bootstrap.mean(&ours).unwrap().interval.unwrap();
        assert!(apart.contains(bootstrap.mean(&theirs).unwrap().value), "unpaired intervals overlap");
        assert!(bootstrap.difference(&ours, &theirs).unwrap().interval.unwrap().low > 0.0);
    }

    /// The examples of Wilson's and Newcombe's intervals in Newcombe (1998): 81 of 263, 15 of 148, 0 of 20 and 1 of 29; and
    /// of 50 pairs 36 both, 12 only the one and 2 only the other.
    #[test]
    fn few_problems_have_the_intervals_of_the_literature() {
        for (right, n, low, high) in [
            (81.0, 263, 0.2553, 0.3662),
            (15.0, 148, 0.0624, 0.1605),
            (0.0, 20, 0.0, 0.1611),
            (1.0, 29, 0.0061, 0.1718),
        ] {
            let Interval { low: l, high: h, .. } = wilson(right / n as f64, n);
            assert!((l - low).abs() < 5e-5 && (h - high).abs() < 5e-5, "{right} of {n}: {l} to {h}");
        }
        let pairs = |counts: [usize; 4]| -> (Vec<f64>, Vec<f64>) {
            let cells = [(1.0, 1.0), (1.0, 0.0), (0.0, 1.0), (0.0, 0.0)];
            cells.into_iter().zip(counts).flat_map(|(pair, n)| vec![pair; n]).unzip()
        };
        let (ours, theirs) = pairs([36, 12, 2, 0]);
        let Interval { low, high, .. } = newcombe(&ours, &theirs);
        assert!((low - 0.0569).abs() < 5e-5 && (high - 0.3404).abs() < 5e-5, "{low} to {high}");
    }

    #[test]
    fn all_of_a_few_is_not_certainty() {
        let four = Bootstrap::new(4).share(&[1.0; 4]).unwrap();
        let interval = four.interval.unwrap();
        assert_eq!((four.value, interval.high, interval.kind), (1.0, 1.0, IntervalKind::Wilson));
        assert!((interval.low - 0.5101).abs() < 5e-5, "{interval:?}");
        let one = Bootstrap::new(1).share(&[0.0]).unwrap().interval.unwrap();
        assert!((one.high - 0.7935).abs() < 5e-5, "{one:?}");
        // The same of each problem is no certainty either.
        let same = Bootstrap::new(4).share_difference(&[1.0; 4], &[1.0; 4]).unwrap();
        let interval = same.interval.unwrap();
        assert_eq!((same.value, interval.kind), (0.0, IntervalKind::Newcombe));
        assert!(interval.low < -0.4 && interval.high > 0.4, "{interval:?}");
        assert_eq!(Bootstrap::new(0).share(&[]), None);
    }

    #[test]
    fn enough_problems_are_drawn_from() {
        let half: Vec<f64> = (0..FEW).map(|i| f64::from(u8::from(i % 2 == 0))).collect();
        let bootstrap = Bootstrap::new(FEW);
        assert_eq!(bootstrap.share(&half), bootstrap.mean(&half));
        let none = vec![0.0; FEW];
        assert_eq!(bootstrap.share(&none).unwrap().interval.unwrap().kind, IntervalKind::Wilson);
        assert_eq!(bootstrap.share_difference(&half, &none), bootstrap.difference(&half, &none));
        let few = Bootstrap::new(FEW - 1).share(&half[1..]).unwrap();
        assert_eq!(few.interval.unwrap().kind, IntervalKind::Wilson);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]
        #[test]
        fn estimates_equal_the_slow_reference(pairs in prop::collection::vec((0.0f64..1.0, 1.0f64..9.0), 2..40)) {
            let (x, y): (Vec<f64>, Vec<f64>) = pairs.into_iter().unzip();
            let n = x.len();
            let bootstrap = Bootstrap::new(n);
            let average = |v: &[f64], drawn: &[usize]| drawn.iter().map(|&i| v[i]).sum::<f64>() / drawn.len() as f64;
            for (ours, theirs) in [
                (bootstrap.mean(&x).unwrap(), slow_interval(n, |d| average(&x, d))),
                (bootstrap.difference(&x, &y).unwrap(), slow_interval(n, |d| average(&x, d) - average(&y, d))),
                (bootstrap.ratio(&x, &y).unwrap(), slow_interval(n, |d| average(&x, d) / average(&y, d))),
            ] {
                let ours = ours.interval.unwrap();
                prop_assert!(close(ours.low, theirs.low) && close(ours.high, theirs.high), "{ours:?} {theirs:?}");
            }
        }

        #[test]
        fn pearson_equals_the_slow_reference(pairs in prop::collection::vec((-5.0f64..5.0, 0.0f64..1.0), 4..60)) {
            let (x, y): (Vec<f64>, Vec<f64>) = pairs.into_iter().unzip();
            let estimate = Bootstrap::new(x.len()).pearson(&x, &y).unwrap();
            prop_assert!((estimate.value - slow_pearson(&x, &y)).abs() < 1e-9);
            let interval = estimate.interval.unwrap();
            prop_assert!(-1.0 <= interval.low && interval.low <= interval.high && interval.high <= 1.0);
        }
    }
}
