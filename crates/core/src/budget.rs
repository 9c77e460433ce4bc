//! What easy prompts saved, and who gets it: our reading of the paper's Section 3.2 and Algorithm 2.
//!
//! The surplus is what M sequences for every prompt would have been, less those that there are. Every chosen prompt gets an
//! even share b of it, and may grow to M + b sequences in all. So a prompt below M may be brought up to M even where its share
//! is 0, and M sequences a prompt are exceeded on the mean by what the chosen ones lacked, at most.
//!
//! The paper limits the surplus to 2M, "to avoid [...] disproportionately high generation budgets for single prompts". We take
//! that for a limit on each share. Its equation has it over all prompts; then most of what its tables spent could not have been.

/// The paper's limit on what is spent again, in multiples of M.
pub const SURPLUS: usize = 2;

/// How much of the surplus may be spent, in multiples of M; 0 is no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SurplusLimit {
    /// So much on each chosen prompt: our reading of the paper.
    EachPrompt(usize),
    /// So much on all of them together: the letter of the paper's equation.
    AllPrompts(usize),
    /// None of it: a prompt may grow to M and no further. For a prompt that is a set by itself.
    Nothing,
}

impl SurplusLimit {
    /// The same number as a limit over all prompts.
    pub fn over_all(self) -> Self {
        match self {
            SurplusLimit::EachPrompt(times) => SurplusLimit::AllPrompts(times),
            other => other,
        }
    }
}

/// `M * |D|` less the sequences that there are.
pub fn surplus(cap: usize, sequences: &[usize]) -> usize {
    cap.saturating_mul(sequences.len()).saturating_sub(sequences.iter().sum())
}

/// The shares of chosen prompts, each of which has a lot. What does not divide goes to the lowest lots, so that the order of
/// the prompts does not matter.
pub fn shares(surplus: usize, cap: usize, limit: SurplusLimit, lots: &[u64]) -> Vec<usize> {
    let most = |times: usize| if times == 0 { usize::MAX } else { cap.saturating_mul(times) };
    let (budget, each) = match limit {
        SurplusLimit::EachPrompt(times) => (surplus, most(times)),
        SurplusLimit::AllPrompts(times) => (surplus.min(most(times)), usize::MAX),
        SurplusLimit::Nothing => (0, 0),
    };
    let (even, over) =
        (budget.checked_div(lots.len()).unwrap_or(0), budget.checked_rem(lots.len()).unwrap_or(0));
    let mut by_lot: Vec<usize> = (0..lots.len()).collect();
    by_lot.sort_by_key(|&at| (lots[at], at));
    let mut shares = vec![even.min(each); lots.len()];
    by_lot[..over].iter().for_each(|&at| shares[at] = (even + 1).min(each));
    shares
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_surplus_is_what_was_not_used() {
        assert_eq!(surplus(32, &[32, 32]), 0);
        assert_eq!(surplus(32, &[32, 1]), 31);
        assert_eq!(surplus(32, &[1, 1, 1, 1]), 124);
        // Under the rule that counts live sequences only, a prompt may have more than M.
        assert_eq!(surplus(2, &[9, 1]), 0);
        assert_eq!(surplus(2, &[]), 0);
    }

    #[test]
    fn limits_hold_for_each_prompt_or_for_all() {
        use SurplusLimit::{AllPrompts, EachPrompt, Nothing};
        let of = |limit| shares(101, 8, limit, &[7, 9, 3]);
        assert_eq!(of(EachPrompt(SURPLUS)), [16, 16, 16]);
        assert_eq!(of(EachPrompt(5)), [34, 33, 34]);
        assert_eq!(of(EachPrompt(0)), [34, 33, 34]);
        assert_eq!(of(AllPrompts(SURPLUS)), [5, 5, 6]);
        assert_eq!(of(AllPrompts(0)), [34, 33, 34]);
        assert_eq!(of(Nothing), [0, 0, 0]);
        assert_eq!(shares(5, 8, EachPrompt(2), &[]), [0; 0]);
    }

    proptest! {
        #[test]
        fn shares_add_up_and_differ_by_one_at_most(surplus in 0usize..1000, lots in prop::collection::vec(any::<u64>(), 1..50)) {
            let all = shares(surplus, 4, SurplusLimit::AllPrompts(0), &lots);
            prop_assert_eq!(all.iter().sum::<usize>(), surplus);
            let (least, most) = (all.iter().min().copied(), all.iter().max().copied());
            prop_assert!(most.zip(least).is_some_and(|(most, least)| most - least <= 1));
        }

        #[test]
        fn shares_do_not_depend_on_the_order(
            surplus in 0usize..1000, lots in prop::collection::hash_set(any::<u64>(), 1..20), by in any::<u64>()
        ) {
            let lots: Vec<u64> = lots.into_iter().collect();
            let mut moved: Vec<usize> = (0..lots.len()).collect();
            moved.sort_by_key(|&at| lots[at].wrapping_mul(by | 1));
            let before = shares(surplus, 4, SurplusLimit::EachPrompt(SURPLUS), &lots);
            let after: Vec<u64> = moved.iter().map(|&at| lots[at]).collect();
            let after = shares(surplus, 4, SurplusLimit::EachPrompt(SURPLUS), &after);
            prop_assert_eq!(after, moved.iter().map(|&at| before[at]).collect::<Vec<_>>());
        }
    }
}
