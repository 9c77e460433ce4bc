//! ESC and DeepConf, written down from their papers: whole sequences one after another, every mean taken anew.

use std::collections::HashMap;

use eager_core::{Candidate, Token};

use super::{Generated, Path, sampled_path};
use crate::scripted::{Case, answer};

/// ESC: windows of samples, until one is of one mind.
pub fn esc(case: &Case, prompt: usize) -> Generated {
    let m = case.forking.cap;
    let windows = case.esc.windows.unwrap_or(8);
    // Settled: M is shared among the windows, rounded up.
    let window = case.esc.window.unwrap_or(m.div_ceil(windows).max(2));
    // Settled: M is the limit unless both numbers are given.
    let most = if case.esc.window.is_some() && case.esc.windows.is_some() { window * windows } else { m };
    let mut all = Generated::default();
    while all.paths.len() < most {
        let mut answers: Vec<Option<Token>> = Vec::new();
        for _ in 0..window {
            if all.paths.len() == most {
                break;
            }
            let path = sampled_path(case, prompt, all.paths.len(), |_| false);
            answers.push(answer(&path.tokens));
            all.paths.push(path);
        }
        // Settled: who gives no answer agrees with nobody.
        if answers.iter().all(Option::is_some) && answers.windows(2).all(|pair| pair[0] == pair[1]) {
            break;
        }
    }
    all
}

/// What DeepConf made of a prompt: its sequences, what their votes weigh, and whether they were given up.
#[derive(Debug, Default)]
pub struct Confident {
    pub all: Generated,
    pub weights: Vec<f32>,
    pub halted: Vec<bool>,
}

/// C_i: minus the mean log-probability of the top k.
fn token_confidence(top: &[Candidate]) -> f32 {
    let mut sum = 0.0;
    for candidate in top {
        sum -= f64::from(candidate.logprob);
    }
    (sum / top.len() as f64) as f32
}

fn token_confidences(case: &Case, prompt: usize, path: &[Token]) -> Vec<f32> {
    let at = |i: usize| {
        let candidates = case.script.candidates(&case.prompt(prompt), &path[..i]);
        token_confidence(&candidates[..case.settings.top_k.min(candidates.len())])
    };
    (0..path.len()).map(at).collect()
}

fn mean(values: &[f32]) -> f32 {
    (values.iter().map(|&v| f64::from(v)).sum::<f64>() / values.len() as f64) as f32
}

/// The least of the group confidences. Settled: what is shorter than a group is one.
fn lowest_group(confidences: &[f32], window: usize) -> f32 {
    if confidences.len() < window {
        return mean(confidences);
    }
    confidences.windows(window).map(mean).fold(f32::INFINITY, f32::min)
}

/// The value that lies `rank` of the way through the sorted values, between its neighbours where it has to.
fn percentile(values: &[f32], percent: f64) -> f32 {
    let mut sorted: Vec<f64> = values.iter().map(|&v| f64::from(v)).collect();
    sorted.sort_by(f64::total_cmp);
    let rank = percent / 100.0 * (sorted.len() - 1) as f64;
    let (below, above) = (sorted[rank.floor() as usize], sorted[rank.ceil() as usize]);
    (below + (above - below) * rank.fract()) as f32
}

/// beta = V(a) / sum of V reaches 0.95, where V(a) sums the weights of the sequences with answer a.
fn is_settled(found: &Confident, bar: f32) -> bool {
    let mut votes: HashMap<Token, f64> = HashMap::new();
    for (path, &weight) in found.all.paths.iter().zip(&found.weights) {
        // Settled: who lies below the bar has no vote, and a weight of nothing is none.
        if let (Some(answer), true) = (answer(&path.tokens), weight >= bar && weight > 0.0) {
            *votes.entry(answer).or_default() += f64::from(weight);
        }
    }
    let all: f64 = votes.values().sum();
    votes.values().any(|vote| *vote >= 0.95 * all)
}

/// DeepConf online: a warm-up, a bar, and the rest under it.
pub fn deepconf(case: &Case, prompt: usize) -> Confident {
    let (m, options) = (case.forking.cap, case.deepconf);
    // Settled: half of M is warm-up; one sequence at least.
    let warmup = options.warmup.unwrap_or(m / 2).max(1).min(m);
    let mut found = Confident::default();
    for root in 0..warmup {
        found.all.paths.push(sampled_path(case, prompt, root, |_| false));
    }
    let lengths: usize = found.all.paths.iter().map(|p| p.tokens.len()).sum();
    // Settled: groups of 2,048 tokens, or of a quarter of the mean length.
    let window = options.window.unwrap_or((lengths / (4 * warmup)).clamp(1, 2048));
    let weigh = |path: &Path| lowest_group(&token_confidences(case, prompt, &path.tokens), window);
    found.weights = found.all.paths.iter().map(weigh).collect();
    found.halted = vec![false; warmup];
    let bar = percentile(&found.weights, 100.0 * (1.0 - options.keep));

    for root in warmup..m {
        if options.consensus && case.reads_answers && is_settled(&found, bar) {
            break;
        }
        let fails = |path: &[Token]| {
            let confidences = token_confidences(case, prompt, path);
            confidences.len() >= window && mean(&confidences[confidences.len() - window..]) < bar
        };
        let path = sampled_path(case, prompt, root, fails);
        // Settled: what the model or the length ended was not given up.
        let halted = case.finish(&path.tokens).is_none();
        found.weights.push(weigh(&path));
        found.halted.push(halted);
        found.all.paths.push(path);
    }
    // Settled: who lies below the bar has no vote, the warm-up included.
    found.weights.iter_mut().filter(|weight| **weight < bar).for_each(|weight| *weight = 0.0);
    found
}
