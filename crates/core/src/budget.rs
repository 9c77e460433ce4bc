//! What easy prompts saved, and who gets it: the arithmetic of Algorithm 2.

/// The paper's limit on what is spent again, in multiples of M.
pub const SURPLUS: usize = 2;

/// `min(M * |D| - sequences, surplus * M)`: the sequences that may be added over all prompts. A surplus of 0 is no limit.
pub fn saved(cap: usize, sequences: &[usize], surplus: usize) -> usize {
    let used: usize = sequences.iter().sum();
    let most = if surplus == 0 { usize::MAX } else { cap.saturating_mul(surplus) };
    cap.saturating_mul(sequences.len()).saturating_sub(used).min(most)
}

/// Shares a budget evenly among `prompts`; what does not divide goes to the first ones.
pub fn shares(budget: usize, prompts: usize) -> impl Iterator<Item = usize> {
    let (each, over) = (budget.checked_div(prompts).unwrap_or(0), budget.checked_rem(prompts).unwrap_or(0));
    (0..prompts).map(move |i| each + usize::from(i < over))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_surplus_is_capped_at_twice_m() {
        let saved = |cap, sequences| saved(cap, sequences, SURPLUS);
        assert_eq!(saved(32, &[32, 32]), 0);
        assert_eq!(saved(32, &[32, 1]), 31);
        assert_eq!(saved(32, &[1, 1, 1, 1]), 64);
        // A rerun may have brought a prompt above the cap.
        assert_eq!(saved(2, &[9, 1]), 0);
        assert_eq!(saved(2, &[]), 0);
        assert_eq!(super::saved(32, &[1, 1, 1, 1], 0), 124);
    }

    proptest! {
        #[test]
        fn shares_add_up_and_differ_by_one_at_most(budget in 0usize..1000, prompts in 1usize..50) {
            let all: Vec<usize> = shares(budget, prompts).collect();
            prop_assert_eq!(all.len(), prompts);
            prop_assert_eq!(all.iter().sum::<usize>(), budget);
            prop_assert!(all[0] - all[prompts - 1] <= 1);
        }
    }
}
