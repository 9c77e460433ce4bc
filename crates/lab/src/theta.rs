//! A theta for a model that nobody has calibrated.
//!
//! Models hesitate at different entropies. At a theta that a model never reaches, nothing forks, and a method that forks is
//! one sample at the price of its name. So where nothing is known a few short samples are looked at, and theta is the
//! entropy that a quarter of those steps reach where the model hesitates at all. This costs seconds. Which theta solves
//! problems is another question, which [`calibrate`](crate::calibrate) answers.

use eager_core::entropy::percentile;
use eager_core::{Engine, Forking, Method, Plan, Prompt, Settings, Tree, Watch};
use serde::{Deserialize, Serialize};

use crate::calibrate::{CERTAIN, two_digits};

/// Most prompts that are looked at, with one sample each.
pub const SAMPLES: usize = 10;
/// Most tokens of each.
pub const TOKENS: usize = 512;
/// The percentile of the entropies above [`CERTAIN`].
pub const PERCENTILE: f64 = 75.0;
/// No run's own, so that no run's sequences decide where it forks.
const SEED: u64 = 0x74_6865_7461;

/// A theta, and what it took to find it. These tokens are beside those of the runs, whose metrics do not count them.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct FoundTheta {
    pub theta: f32,
    pub samples: usize,
    pub tokens: usize,
}

/// Looks at one sample each of some of these prompts, spread over all. What was decoded counts, even where the watch or an
/// error ended it; `None` where that is nothing.
pub fn find<E: Engine>(
    engine: &mut E,
    prompts: &[Prompt],
    watch: &mut dyn Watch,
) -> (Option<FoundTheta>, Result<(), E::Error>) {
    let count = prompts.len().min(SAMPLES);
    let prompts: Vec<Prompt> = (0..count).map(|i| short(&prompts[i * prompts.len() / count])).collect();
    // Nothing forks with one sequence, whatever theta is.
    let plan = Plan::new(SEED, Forking::new(f32::INFINITY, 1));
    let mut trees = plan.plant(&prompts);
    let ended = plan.first_pass(engine, Method::FullParallel, &prompts, &mut trees, watch);
    (of(&trees), ended)
}

fn short(prompt: &Prompt) -> Prompt {
    let max_tokens = prompt.settings.max_tokens.min(TOKENS);
    Prompt { settings: Settings { max_tokens, ..(*prompt.settings).clone() }.into(), ..prompt.clone() }
}

fn of(trees: &[Tree]) -> Option<FoundTheta> {
    let sequences = || trees.iter().flat_map(Tree::sequences);
    let entropies: Vec<f32> = sequences().flat_map(|sequence| sequence.entropy.iter().copied()).collect();
    (!entropies.is_empty()).then(|| FoundTheta {
        theta: suits(&entropies),
        samples: sequences().count(),
        tokens: entropies.len(),
    })
}

/// A theta that some of these steps reach. A model that never hesitates forks where it begins to.
fn suits(entropies: &[f32]) -> f32 {
    let unsure: Vec<f32> = entropies.iter().copied().filter(|&entropy| entropy > CERTAIN).collect();
    let highest = unsure.iter().copied().fold(CERTAIN, f32::max);
    // Rounded up it may lie above all of them.
    percentile(&unsure, PERCENTILE).map_or(CERTAIN, |theta| two_digits(theta as f32).min(highest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quarter_of_the_unsure_steps_reach_it() {
        let sure = vec![0.01; 900];
        let unsure: Vec<f32> = (1..=100).map(|i| i as f32 / 100.0).collect();
        // Of 0.06 to 1.00.
        assert_eq!(suits(&[sure.clone(), unsure].concat()), 0.76);
        assert_eq!(suits(&sure), CERTAIN, "it never hesitates");
        assert_eq!(suits(&[0.4567]), 0.4567, "0.46 would be out of its reach");
    }
}
