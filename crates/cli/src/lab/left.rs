//! How long a command with several runs still takes.
//!
//! Prompts are decoded many at a time and end close together: when the first is done, most of the work of all may be, so the
//! share of prompts that are done says little. Tokens do say it: those that are decoded, of as many as the prompts will have
//! if they are like those that are done. A run to come is taken to last as long as the last one of its method.

use std::time::Duration;

use eager_core::Method;

/// What is known of the runs of a command, from what has been seen of them.
#[derive(Debug, Default)]
pub struct TimeLeft {
    /// The methods of the runs that are still to begin.
    ahead: Vec<Method>,
    current: Option<Method>,
    /// How long complete runs took, the last one last.
    took: Vec<(Method, Duration)>,
    /// Prompts of the stage that is under way, those of them that are done, and the tokens of these.
    prompts: usize,
    done: usize,
    tokens: usize,
}

impl TimeLeft {
    /// Before any of these runs; those that are complete already take no time.
    pub fn new(runs: impl Iterator<Item = Method>) -> Self {
        TimeLeft { ahead: runs.collect(), ..TimeLeft::default() }
    }

    /// It is a run's turn. One that turns out to be complete already takes no time after all.
    pub fn begin(&mut self, method: Method, is_complete: bool) {
        // One that was taken for complete and is not was not counted.
        if let Some(at) = self.ahead.iter().position(|&ahead| ahead == method) {
            self.ahead.remove(at);
        }
        self.current = (!is_complete).then_some(method);
        self.stage(0);
    }

    /// A stage of it begins, with so many prompts to decode.
    pub fn stage(&mut self, prompts: usize) {
        (self.prompts, self.done, self.tokens) = (prompts, 0, 0);
    }

    /// A prompt of the stage is done; so many of its tokens were decoded in it.
    pub fn grown(&mut self, tokens: usize) {
        self.done += 1;
        self.tokens += tokens;
    }

    /// The run is complete.
    pub fn complete(&mut self, took: Duration) {
        self.took.extend(self.current.take().map(|method| (method, took)));
    }

    /// What is left, when a run has gone on for `run` and its stage for `stage`, in which so many tokens were decoded.
    pub fn left(&self, run: Duration, stage: Duration, decoded: usize) -> Option<Duration> {
        let current = match self.current {
            None => Duration::ZERO,
            Some(method) => {
                let like_the_last = || Some(self.like(method)?.saturating_sub(run));
                self.left_of_stage(stage, decoded).or_else(like_the_last)?
            }
        };
        let unlike_any = || self.current.map(|_| run + current);
        let ahead = self.ahead.iter().map(|&method| self.like(method).or_else(unlike_any));
        Some(current + ahead.sum::<Option<Duration>>()?)
    }

    fn left_of_stage(&self, stage: Duration, decoded: usize) -> Option<Duration> {
        if self.done == 0 || decoded == 0 {
            return None;
        }
        let all = self.tokens as f64 / self.done as f64 * self.prompts as f64;
        Some(stage.mul_f64((all / decoded as f64 - 1.0).max(0.0)))
    }

    /// How long the last run of a method took, or else the last run of all.
    fn like(&self, method: Method) -> Option<Duration> {
        let of_method = self.took.iter().rev().find(|(known, _)| *known == method);
        of_method.or(self.took.last()).map(|&(_, took)| took)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// Ten prompts that are decoded together, in 21 runs of ten seconds, as in a calibration: whenever something is said, it is
    /// not off by more than a quarter of what is left.
    #[test]
    fn all_runs_count_and_prompts_that_end_together_do_not_deceive() {
        let methods = [Method::FullParallel].into_iter().chain([Method::EagerInit; 20]);
        let mut time = TimeLeft::new(methods.clone());
        // Prompts are 90 to 99 tokens long, and every second each gets ten.
        let lengths: Vec<usize> = (90..100).collect();
        let mut silent = 0;
        for (run, method) in (0..).zip(methods) {
            time.begin(method, false);
            time.stage(lengths.len());
            for second in 1..=10u32 {
                let reached = 10 * second as usize;
                lengths
                    .iter()
                    .filter(|&&length| (reached - 9..=reached).contains(&length))
                    .for_each(|&l| time.grown(l));
                let decoded = lengths.iter().map(|&length| length.min(reached)).sum();
                let truth = SECOND * (10 - second) + 10 * SECOND * (20 - run);
                match time.left(second * SECOND, second * SECOND, decoded) {
                    None => silent += 1,
                    Some(left) => {
                        assert!(
                            left.abs_diff(truth) <= truth / 4 + SECOND,
                            "run {run}, {second} s: {left:?} for {truth:?}"
                        );
                    }
                }
            }
            time.complete(10 * SECOND);
        }
        assert_eq!(silent, 8, "only before the very first prompt is done is nothing known");
        assert_eq!(time.left(Duration::ZERO, Duration::ZERO, 0), Some(Duration::ZERO));
    }

    #[test]
    fn a_run_is_taken_to_be_like_the_last_of_its_method() {
        let [full, init] = [Method::FullParallel, Method::EagerInit];
        let mut time = TimeLeft::new([full, init, full, init, init].into_iter());
        time.begin(full, false);
        time.complete(30 * SECOND);
        let between = |time: &TimeLeft| time.left(Duration::ZERO, Duration::ZERO, 0).unwrap();
        assert_eq!(between(&time), 4 * 30 * SECOND);
        time.begin(init, false);
        time.complete(10 * SECOND);
        assert_eq!(between(&time), 30 * SECOND + 2 * 10 * SECOND);
        time.begin(full, true);
        assert_eq!(between(&time), 2 * 10 * SECOND, "it was there already");
        time.begin(Method::Esc, false);
        time.complete(SECOND);
        assert_eq!(between(&time), 2 * 10 * SECOND, "nobody had counted it");
    }
}
