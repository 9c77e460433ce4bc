//! From logits to the most likely tokens and a sampled one.

use std::sync::atomic::{AtomicBool, Ordering};

use eager_core::{Candidate, Sampling, Token};

use crate::kernel::{Isa, Ranking, Results, Survey};
use crate::shared_slice::SharedSlice;
use crate::threads::Threads;
use crate::token_rules::{RuledLogits, Rules};

/// Where the most likely tokens do not hold what top-p keeps, so many times as many are looked at.
const MORE: usize = 16;

/// The most likely tokens (best first) and the one that was drawn, with log-probabilities before temperature.
#[derive(Debug, Clone)]
pub(crate) struct Draw {
    pub top: Vec<Candidate>,
    pub sampled: Candidate,
}

impl Draw {
    /// One that is yet to be made.
    fn blank() -> Self {
        Draw { top: Vec::new(), sampled: Candidate { token: 0, logprob: 0.0 } }
    }
}

/// What is wanted of a row of logits.
#[derive(Debug, Clone)]
pub(crate) struct Ask {
    /// How many of the most likely tokens.
    pub top_k: usize,
    pub sampling: Sampling,
    /// The number in [0, 1) that decides the draw.
    pub uniform: f64,
    /// What changes the logits first.
    pub rules: Option<Rules>,
}

/// Reads the logits of a step. Its memory is kept for the next.
#[derive(Debug, Default)]
pub(crate) struct Sampler {
    /// Of this step, and then some of an earlier one that was longer.
    draws: Vec<Draw>,
    count: usize,
    /// Of every thread.
    readers: Vec<Reader>,
}

impl Sampler {
    /// Reads as many rows as are asked about. `paths` has what their rules look back on. False when some are not numbers.
    pub fn read(
        &mut self,
        threads: &Threads,
        isa: Isa,
        logits: &Results,
        (asks, paths): (&[Ask], &[Token]),
    ) -> bool {
        self.count = asks.len();
        self.draws.resize_with(self.draws.len().max(self.count), Draw::blank);
        self.readers.resize_with(self.readers.len().max(threads.count()), Reader::default);
        let readers = SharedSlice::new(&mut self.readers);
        let sound = AtomicBool::new(true);
        threads.chunks(&mut self.draws[..self.count], 1, |worker, row, into| {
            // SAFETY: a worker runs one task at a time.
            let reader = unsafe { &mut readers.part(worker..worker + 1)[0] };
            if !reader.read(isa, logits.row(row), (&asks[row], paths), &mut into[0]) {
                sound.store(false, Ordering::Relaxed);
            }
        });
        sound.into_inner()
    }

    /// What was drawn, in the order in which it was asked for.
    pub fn draws(&self) -> &[Draw] {
        &self.draws[..self.count]
    }
}

/// Reads one row of logits at a time.
#[derive(Debug, Default)]
struct Reader {
    found: Survey,
    ranking: Ranking,
    /// Of those tokens that are kept, the weight that each holds together with all before it.
    running: Vec<f64>,
    ruled: RuledLogits,
}

impl Reader {
    /// False when the logits are not numbers.
    fn read(&mut self, isa: Isa, logits: &[f32], (ask, paths): (&Ask, &[Token]), into: &mut Draw) -> bool {
        let Some(rules) = &ask.rules else { return self.draw(isa, logits, ask, into) };
        let mut ruled = std::mem::take(&mut self.ruled);
        let sound = self.draw(isa, ruled.apply(rules, logits, paths), ask, into);
        self.ruled = ruled;
        sound
    }

    fn draw(&mut self, isa: Isa, logits: &[f32], ask: &Ask, into: &mut Draw) -> bool {
        // A temperature so low that its inverse overflows is as good as none.
        let inverse = 1.0 / ask.sampling.temperature;
        let greedy = ask.sampling.temperature <= 0.0 || !inverse.is_finite();
        let scale = if greedy { 1.0 } else { inverse };
        self.found.look(isa, logits, ask.top_k.max(1), scale);
        let Some(&best) = self.found.best.first() else { return false };
        if !(best.1.is_finite() && self.found.total.is_finite()) {
            return false;
        }
        let log_total = f64::from(best.1) + self.found.total.ln();
        let candidate = |(token, logit): (Token, f32)| Candidate {
            token,
            logprob: (f64::from(logit) - log_total) as f32,
        };
        into.top.clear();
        into.top.extend(self.found.best.iter().take(ask.top_k).copied().map(candidate));
        into.sampled = candidate(if greedy { best } else { self.sample(isa, logits, scale, ask) });
        true
    }

    /// Draws from the distribution after temperature, top-k, top-p and min-p, in this order.
    fn sample(&mut self, isa: Isa, logits: &[f32], scale: f32, ask: &Ask) -> (Token, f32) {
        let Reader { found, ranking, running, .. } = self;
        let sampling = &ask.sampling;
        let top = found.best[0].1;
        let weight = |logit: f32| f64::from((logit - top) * scale).exp();
        let (top_p, least) = (f64::from(sampling.top_p), f64::from(sampling.min_p));
        if (1..logits.len()).contains(&sampling.top_k) {
            let sorted = match found.best.get(..sampling.top_k) {
                Some(best) => best,
                None => ranking.best(isa, logits, sampling.top_k),
            };
            let everything: f64 = sorted.iter().map(|&(_, logit)| weight(logit)).sum();
            nucleus(sorted, weight, everything * top_p, least, running);
            return pick(sorted, running, ask.uniform);
        }
        let enough = found.scaled * top_p;
        // Nearly always a few tokens hold all that top-p keeps; only when they do not is more of the vocabulary looked at.
        let few = nucleus(&found.best, weight, enough, least, running);
        if few < found.best.len() {
            return pick(&found.best, running, ask.uniform);
        }
        let count = MORE * few;
        // None of the others weighs more than the last of these.
        let at_most = running[few - 1] + (count - few) as f64 * weight(found.best[few - 1].1);
        if at_most >= enough {
            let more = ranking.best(isa, logits, count);
            if nucleus(more, weight, enough, least, running) < more.len() {
                return pick(more, running, ask.uniform);
            }
        }
        // If all that weigh less were left out, top-p would still have enough. Half of that is well clear of rounding.
        let lightest = 0.5 * ((found.scaled - enough) / logits.len() as f64).max(least);
        let all = ranking.above(logits, top + lightest.ln() as f32 / scale);
        nucleus(all, weight, enough, least, running);
        pick(all, running, ask.uniform)
    }
}

/// Leaves in `running`, of those of the sorted tokens that are kept, the weight that each holds together with all before it,
/// and says how many they are.
fn nucleus(
    sorted: &[(Token, f32)],
    weight: impl Fn(f32) -> f64,
    enough: f64,
    least: f64,
    running: &mut Vec<f64>,
) -> usize {
    running.clear();
    let mut mass = 0.0;
    for &(_, logit) in sorted {
        let w = weight(logit);
        if !running.is_empty() && (mass >= enough || w < least) {
            break;
        }
        mass += w;
        running.push(mass);
    }
    running.len()
}

/// The token at which the running weight passes this share of all.
fn pick(tokens: &[(Token, f32)], running: &[f64], share: f64) -> (Token, f32) {
    let last = running.len() - 1;
    let mark = share * running[last];
    // Rounding may leave the mark a hair above the sum.
    tokens[running.partition_point(|&passed| passed <= mark).min(last)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use eager_core::Key;
    use proptest::prelude::*;

    fn draw(reader: &mut Reader, isa: Isa, logits: &[f32], ask: &Ask) -> Option<Draw> {
        let mut draw = Draw::blank();
        reader.read(isa, logits, (ask, &[]), &mut draw).then_some(draw)
    }

    /// The distribution that the settings describe, by the book: sorted, each filter a plain loop.
    fn distribution(logits: &[f32], sampling: &Sampling) -> Vec<(Token, f64)> {
        let mut all: Vec<(Token, f64)> = (0..)
            .zip(logits)
            .map(|(t, &x)| (t, (f64::from(x) / f64::from(sampling.temperature)).exp()))
            .collect();
        all.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        if sampling.top_k > 0 {
            all.truncate(sampling.top_k);
        }
        let sum: f64 = all.iter().map(|x| x.1).sum();
        let mut mass = 0.0;
        let enough = all.iter().position(|x| {
            mass += x.1;
            mass >= sum * f64::from(sampling.top_p)
        });
        all.truncate(enough.map_or(all.len(), |at| at + 1));
        let least = all[0].1 * f64::from(sampling.min_p);
        all.retain(|x| x.1 >= least);
        let sum: f64 = all.iter().map(|x| x.1).sum();
        all.into_iter().map(|(t, w)| (t, w / sum)).collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

        /// A number in [0, 1) gives the token in whose share it lies; only at the very edge of a share may it be the next.
        #[test]
        fn draws_follow_the_distribution(
            seed: u64,
            len in 1usize..3000,
            spread in 0.5f64..8.0,
            temperature in 0.2f32..2.0,
            top_p in 0.05f32..1.0,
            top_k in prop::sample::select(vec![0usize, 0, 1, 5, 50, 1000]),
            min_p in prop::sample::select(vec![0f32, 0.0, 0.01, 0.3]),
            uniform in 0f64..1.0,
        ) {
            let key = Key::prompt(seed, 0);
            let logits: Vec<f32> = (0..len).map(|i| (key.uniform(i) * spread) as f32).collect();
            let sampling = Sampling { temperature, top_p, top_k, min_p };
            let ask = Ask { top_k: 20, sampling, uniform, rules: None };
            let shares = distribution(&logits, &sampling);
            // Used again and again, as in a run: what an earlier row left must not show.
            let mut reader = Reader::default();
            for isa in Isa::available() {
                let drawn = draw(&mut reader, isa, &logits, &ask).unwrap();
                let mut passed = 0.0;
                let at = shares.iter().position(|(token, share)| {
                    passed += share;
                    *token == drawn.sampled.token
                });
                // The last that a filter keeps may hang on a rounding: then it is missing here, but it is the very next.
                let edge = 2e-4;
                match at {
                    Some(at) => {
                        prop_assert!(uniform <= passed + edge, "{isa}: {uniform} beyond {passed}");
                        prop_assert!(uniform >= passed - shares[at].1 - edge, "{isa}: {uniform} before {passed}");
                    }
                    None => prop_assert!(uniform >= 1.0 - shares.last().unwrap().1 - edge, "{isa}: not in the distribution"),
                }
                let sum: f64 = logits.iter().map(|&x| f64::from(x).exp()).sum();
                let logprob = f64::from(logits[drawn.sampled.token as usize]) - sum.ln();
                prop_assert!((f64::from(drawn.sampled.logprob) - logprob).abs() < 1e-5);
                prop_assert_eq!(drawn.top.len(), len.min(20));
            }
        }
    }

    #[test]
    fn logits_that_are_no_numbers_give_nothing() {
        let ask = Ask { top_k: 2, sampling: Sampling::default(), uniform: 0.5, rules: None };
        for bad in [f32::NAN, f32::INFINITY] {
            assert!(draw(&mut Reader::default(), Isa::detect(), &[0.0, bad, 1.0], &ask).is_none());
        }
        assert!(draw(&mut Reader::default(), Isa::detect(), &[f32::NEG_INFINITY; 3], &ask).is_none());
    }
}
