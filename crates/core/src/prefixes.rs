//! How many distinct prefixes the sequences of a prompt have.
//!
//! Sequences that are sampled one by one decode the same beginning many times. An engine that decodes each distinct prefix
//! once would pay for the nodes of the trie of their tokens, and not for its paths. Comparing methods by that count takes out
//! what a better engine would give to all of them.
//!
//! It also has to be known what fewer samples would have cost. A node through which m of n sequences run is among the nodes
//! of k of them, drawn without replacement, unless all k are drawn from the others. So the number of nodes for each m is all
//! that is needed, and the expectation is exact.

use crate::entropy::Token;
use crate::metrics::pass_at_k;
use crate::tree::Tree;

/// The nodes of the trie of a prompt's sequences, by how many sequences run through them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Prefixes {
    /// `nodes[m - 1]` is the number of nodes through which exactly m sequences run. Its length is the number of sequences.
    nodes: Vec<usize>,
}

/// Nodes on the way to a sequence, at depths from `above` (without it) to `deepest`. `first` is the first sequence, in
/// the order of their tokens, that runs through them.
struct Run {
    above: usize,
    deepest: usize,
    first: usize,
}

impl Prefixes {
    /// Counts the prefixes of these paths.
    pub fn of(mut paths: Vec<Vec<Token>>) -> Self {
        // In the order of their tokens, the sequences that share a prefix stand together.
        paths.sort_unstable();
        let mut nodes = vec![0; paths.len()];
        let mut open: Vec<Run> = Vec::new();
        for (at, path) in paths.iter().enumerate() {
            let shared = at.checked_sub(1).map_or(0, |before| common(&paths[before], path));
            close(&mut open, shared, at, &mut nodes);
            if path.len() > shared {
                open.push(Run { above: shared, deepest: path.len(), first: at });
            }
        }
        close(&mut open, 0, paths.len(), &mut nodes);
        Prefixes { nodes }
    }

    pub fn of_tree(tree: &Tree) -> Self {
        Prefixes::of(tree.ids().map(|id| tree.path(id)).collect())
    }

    pub fn sequences(&self) -> usize {
        self.nodes.len()
    }

    /// Distinct prefixes, counted as the tokens that end them.
    pub fn distinct(&self) -> usize {
        self.nodes.iter().sum()
    }

    /// The expected number of distinct prefixes of k of the sequences, drawn without replacement.
    pub fn expected(&self, k: usize) -> f64 {
        let among = |(users, &nodes): (usize, &usize)| match nodes {
            0 => 0.0,
            _ => nodes as f64 * pass_at_k(self.sequences(), users, k),
        };
        (1..).zip(&self.nodes).map(among).sum()
    }
}

/// How many leading tokens two paths share.
fn common(a: &[Token], b: &[Token]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

/// Counts the nodes deeper than `depth`: the sequence `at` does not run through them, and so none after it does.
fn close(open: &mut Vec<Run>, depth: usize, at: usize, nodes: &mut [usize]) {
    while let Some(run) = open.last_mut().filter(|run| run.deepest > depth) {
        let kept = run.above.max(depth);
        nodes[at - run.first - 1] += run.deepest - kept;
        run.deepest = kept;
        if run.deepest == run.above {
            open.pop();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use proptest::prelude::*;

    use super::*;

    fn slow(paths: &[&Vec<Token>]) -> usize {
        let prefixes = paths.iter().flat_map(|path| (1..=path.len()).map(|end| &path[..end]));
        prefixes.collect::<HashSet<_>>().len()
    }

    #[test]
    fn a_shared_beginning_counts_once() {
        let paths = vec![vec![1, 2, 3], vec![1, 2, 4], vec![1, 2], vec![5]];
        let prefixes = Prefixes::of(paths);
        // 1 and 12 have three users; 123, 124 and 5 one each.
        assert_eq!(prefixes.nodes, [3, 0, 2, 0]);
        assert_eq!((prefixes.distinct(), prefixes.sequences()), (5, 4));
        // One sequence: the mean length. All: every prefix.
        assert_eq!(prefixes.expected(1), 9.0 / 4.0);
        assert_eq!(prefixes.expected(4), 5.0);
        assert_eq!((prefixes.expected(0), Prefixes::of(Vec::new()).expected(2)), (0.0, 0.0));
    }

    proptest! {
        /// Few tokens and short paths, so that much is shared.
        #[test]
        fn expectations_are_means_over_all_draws(
            paths in prop::collection::vec(prop::collection::vec(0u32..3, 0..6), 1..8),
            k in 0usize..9,
        ) {
            let prefixes = Prefixes::of(paths.clone());
            prop_assert_eq!(prefixes.distinct(), slow(&paths.iter().collect::<Vec<_>>()));
            let drawn = k.min(paths.len());
            let (mut sum, mut draws) = (0, 0);
            for subset in (0u32..1 << paths.len()).filter(|s| s.count_ones() as usize == drawn) {
                let kept = paths.iter().enumerate().filter(|(at, _)| subset & (1 << at) != 0);
                sum += slow(&kept.map(|(_, path)| path).collect::<Vec<_>>());
                draws += 1;
            }
            let expected = f64::from(u32::try_from(sum).unwrap()) / f64::from(draws);
            prop_assert!((prefixes.expected(k) - expected).abs() < 1e-9, "{} {expected}", prefixes.expected(k));
        }
    }
}
