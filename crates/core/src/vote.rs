//! Majority vote over answers.

/// An answer and how many sequences gave it.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Votes {
    pub answer: String,
    pub count: usize,
}

/// Counts answers, most votes first; ties go to the answer that came first. Sequences without an answer abstain.
pub fn tally<'a>(answers: impl IntoIterator<Item = Option<&'a str>>) -> Vec<Votes> {
    let mut votes: Vec<Votes> = Vec::new();
    for answer in answers.into_iter().flatten() {
        match votes.iter_mut().find(|v| v.answer == answer) {
            Some(known) => known.count += 1,
            None => votes.push(Votes { answer: answer.to_owned(), count: 1 }),
        }
    }
    votes.sort_by_key(|v| std::cmp::Reverse(v.count));
    votes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_frequent_answer_wins_and_the_first_breaks_ties() {
        let votes = tally([Some("7"), None, Some("8"), Some("8"), Some("7"), Some("9")]);
        let seen: Vec<_> = votes.iter().map(|v| (v.answer.as_str(), v.count)).collect();
        assert_eq!(seen, [("7", 2), ("8", 2), ("9", 1)]);
        assert!(tally([None, None]).is_empty());
    }
}
