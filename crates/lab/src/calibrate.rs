//! Which theta suits a model? The paper's protocol: try a few on a handful of problems, and keep one for all that follows.
//!
//! The paper sweeps 1.8 to 2.7, where its four models hesitate. Other models hesitate elsewhere, so the grid has, beside the
//! paper's values, quantiles of the entropies that the model itself showed.
//!
//! Saving and spending want different thetas. EAGer-init is to save without losing: of the thetas that solve as many problems
//! as the best one, that with the fewest tokens. Full EAGer spends what it saved where nothing is solved yet: the same rule,
//! judged after its second pass, which lets a higher theta win.

use eager_core::Metrics;
use eager_core::entropy::percentile;

/// The thetas of the paper's sweep.
pub const PAPER: [f32; 10] = [1.8, 1.9, 2.0, 2.1, 2.2, 2.3, 2.4, 2.5, 2.6, 2.7];

/// A model that is surer than this, in nats, does not hesitate. Most steps are like that and would crowd out the others.
pub const CERTAIN: f32 = 0.05;

/// Percentiles, of the entropies of the other steps, that are tried.
pub const PERCENTILES: [f64; 7] = [10.0, 25.0, 50.0, 75.0, 90.0, 97.0, 99.5];

/// The thetas to try, ascending: the paper's and the model's own. Of those above every entropy seen only the lowest stays:
/// nothing forks there, so they are all alike.
pub fn grid(entropies: &[f32]) -> Vec<f32> {
    let unsure: Vec<f32> = entropies.iter().copied().filter(|&h| h >= CERTAIN).collect();
    let own = PERCENTILES.iter().filter_map(|&p| percentile(&unsure, p)).map(|h| two_digits(h as f32));
    let highest = entropies.iter().copied().fold(0.0, f32::max);
    let mut grid: Vec<f32> = PAPER.into_iter().chain(own).filter(|&theta| theta > 0.0).collect();
    grid.sort_by(f32::total_cmp);
    grid.dedup();
    let forking = grid.iter().filter(|&&theta| theta <= highest).count();
    grid.truncate(forking + 1);
    grid
}

/// A theta that a person can read and type again.
pub(crate) fn two_digits(value: f32) -> f32 {
    // What was just printed as a number parses as one.
    format!("{value:.1e}").parse().unwrap_or(value)
}

/// What a theta came to on the calibration problems.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize)]
pub struct Point {
    pub theta: f32,
    pub metrics: Metrics,
}

/// The theta of a method: of those that solve as many problems as the best, the one with the fewest tokens; of equals, the
/// highest.
pub fn choose(points: &[Point]) -> Option<Point> {
    let best = points.iter().map(|p| p.metrics.pass_at_k).max_by(f64::total_cmp)?;
    let as_good = points.iter().filter(|p| p.metrics.pass_at_k >= best - 1e-9);
    let cheapest =
        as_good.min_by(|a, b| a.metrics.tokens.cmp(&b.metrics.tokens).then(b.theta.total_cmp(&a.theta)));
    cheapest.copied()
}

/// How often each theta was chosen, the most frequent first: the paper's robustness table.
pub fn agreement(chosen: &[f32]) -> Vec<(f32, usize)> {
    let mut counts: Vec<(f32, usize)> = Vec::new();
    for &theta in chosen {
        match counts.iter_mut().find(|(known, _)| *known == theta) {
            Some((_, count)) => *count += 1,
            None => counts.push((theta, 1)),
        }
    }
    counts.sort_by(|a, b| b.1.cmp(&a.1).then(a.0.total_cmp(&b.0)));
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(theta: f32, pass_at_k: f64, tokens: usize) -> Point {
        Point { theta, metrics: Metrics { pass_at_k, tokens, ..Metrics::default() } }
    }

    #[test]
    fn a_theta_must_not_lose_problems_and_then_saves_tokens() {
        let points = [point(0.2, 0.9, 500), point(0.3, 0.9, 300), point(0.5, 0.8, 100), point(0.4, 0.9, 300)];
        assert_eq!(choose(&points).map(|p| p.theta), Some(0.4));
        assert_eq!(choose(&[]), None);
    }

    #[test]
    fn the_grid_is_the_papers_and_the_models_own() {
        let timid: Vec<f32> = (0..1000).map(|i| i as f32 / 1000.0).collect();
        let grid = super::grid(&timid);
        assert_eq!(grid, [0.14, 0.29, 0.52, 0.76, 0.9, 0.97, 0.99, 1.8]);
        let bold: Vec<f32> = (0..1000).map(|i| i as f32 * 3.0 / 1000.0).collect();
        let grid = super::grid(&bold);
        assert!(PAPER.iter().all(|theta| grid.contains(theta)), "{grid:?}");
        // Nothing is known about the model: one theta of the paper's, above all.
        assert_eq!(super::grid(&[]), [1.8]);
    }

    #[test]
    fn the_most_frequent_choice_comes_first() {
        assert_eq!(agreement(&[2.0, 2.1, 2.0, 2.0]), [(2.0, 3), (2.1, 1)]);
    }
}
