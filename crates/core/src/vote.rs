//! Majority vote over answers.

use std::fmt;

use crate::entropy::Token;
use crate::tree::{Finish, SeqId, Tree};

/// What was generated on one path, without the prompt, and how it ended.
#[derive(Debug, Clone, PartialEq)]
pub struct EndedPath {
    pub tokens: Vec<Token>,
    /// `None` where it was broken off. What did not end by itself may not have got to its answer.
    pub finish: Option<Finish>,
}

impl EndedPath {
    pub fn of(tree: &Tree, id: SeqId) -> Self {
        EndedPath { tokens: tree.path(id), finish: tree.get(id).finish }
    }
}

/// Reads answers out of generated tokens.
///
/// The method knows tokens only, so whoever knows the tokenizer and the kind of problem lends it this. Equal strings mean
/// equal answers among the paths of one call; `None` is a path that gave no answer.
pub trait Answers: fmt::Debug + Send + Sync {
    /// One answer for each path, in the same order.
    fn answers(&self, paths: &[EndedPath]) -> Vec<Option<String>>;

    /// Is each path right? False where nobody knows.
    fn right(&self, paths: &[EndedPath]) -> Vec<bool>;
}

/// An answer and who gave it.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct Votes {
    pub answer: String,
    /// How many sequences gave it.
    pub count: usize,
    /// What their votes weigh together: as much as `count` where all weigh the same.
    pub weight: f64,
    /// Another answer has as much, and no other has more: the vote is a tie.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub tied: bool,
}

/// Counts answers, most votes first; ties go to the answer that came first. Sequences without an answer abstain.
pub fn tally<'a>(answers: impl IntoIterator<Item = Option<&'a str>>) -> Vec<Votes> {
    weighted_tally(answers.into_iter().map(|answer| (answer, 1.0)))
}

/// Adds up the weights of answers, the heaviest first; ties go to the answer that came first. Sequences without an answer,
/// and votes that do not weigh more than nothing, abstain.
pub fn weighted_tally<'a>(ballots: impl IntoIterator<Item = (Option<&'a str>, f32)>) -> Vec<Votes> {
    let mut votes: Vec<Votes> = Vec::new();
    let given = ballots.into_iter().filter_map(|(answer, weight)| Some((answer?, weight)));
    for (answer, weight) in given.filter(|&(_, weight)| weight > 0.0) {
        let weight = f64::from(weight);
        match votes.iter_mut().find(|v| v.answer == answer) {
            Some(known) => {
                known.count += 1;
                known.weight += weight;
            }
            None => votes.push(Votes { answer: answer.to_owned(), count: 1, weight, tied: false }),
        }
    }
    // A stable sort: ties stay in order of appearance.
    votes.sort_by(|a, b| b.weight.total_cmp(&a.weight));
    let most = votes.first().map_or(0.0, |winner| winner.weight);
    let leading = votes.iter().take_while(|v| v.weight == most).count();
    if leading > 1 {
        votes[..leading].iter_mut().for_each(|v| v.tied = true);
    }
    votes
}

/// The answers that tie for the most votes, the one that came first before the others; none where one answer won.
pub fn tied(votes: &[Votes]) -> &[Votes] {
    &votes[..votes.iter().take_while(|v| v.tied).count()]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(votes: &[Votes]) -> Vec<(&str, usize, f64)> {
        votes.iter().map(|v| (v.answer.as_str(), v.count, v.weight)).collect()
    }

    #[test]
    fn the_most_frequent_answer_wins_and_the_first_breaks_ties() {
        let votes = tally([Some("7"), None, Some("8"), Some("8"), Some("7"), Some("9")]);
        assert_eq!(seen(&votes), [("7", 2, 2.0), ("8", 2, 2.0), ("9", 1, 1.0)]);
        assert!(tally([None, None]).is_empty());
    }

    #[test]
    fn a_heavy_vote_beats_many_light_ones() {
        let votes = weighted_tally([(Some("7"), 1.0), (Some("8"), 2.5), (Some("7"), 1.0), (None, 9.0)]);
        assert_eq!(seen(&votes), [("8", 1, 2.5), ("7", 2, 2.0)]);
        let votes = weighted_tally([(Some("7"), 1.5), (Some("8"), 3.0), (Some("7"), 1.5)]);
        assert_eq!(seen(&votes), [("7", 2, 3.0), ("8", 1, 3.0)]);
    }

    #[test]
    fn a_tie_is_said_to_be_one() {
        let names =
            |votes: &[Votes]| -> Vec<String> { tied(votes).iter().map(|v| v.answer.clone()).collect() };
        let votes = tally([Some("7"), None, Some("8"), Some("8"), Some("7"), Some("9")]);
        assert_eq!(names(&votes), ["7", "8"]);
        let said = serde_json::to_value(&votes).unwrap();
        assert_eq!((&said[0]["tied"], &said[2].get("tied")), (&true.into(), &None));
        assert!(names(&tally([Some("7"), Some("8"), Some("8")])).is_empty());
        assert!(names(&tally([Some("7"), Some("7")])).is_empty() && names(&tally([None])).is_empty());
        // Weights decide, not heads.
        assert_eq!(
            names(&weighted_tally([(Some("7"), 1.5), (Some("8"), 3.0), (Some("7"), 1.5)])),
            ["7", "8"]
        );
    }

    #[test]
    fn votes_without_weight_abstain() {
        assert!(weighted_tally([(Some("7"), 0.0), (Some("8"), -1.0), (Some("9"), f32::NAN)]).is_empty());
    }
}
