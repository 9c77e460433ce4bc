//! A tree as it is written to disk.
//!
//! Files come from strangers, or from a disk that was full: a tree is made of one only when its parts fit together, so that
//! nothing that walks the tree later has to doubt it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serializer};

use super::{SeqId, Sequence, Spot, Tree};
use crate::chance::Key;

/// Map keys must be strings in JSON, so remembered places are a list: the sequence, the position, and what is open there.
#[derive(Debug, Deserialize)]
pub(super) struct Stored {
    key: Key,
    sequences: Vec<Sequence>,
    spots: Vec<(SeqId, usize, Spot)>,
}

pub(super) fn spots<S: Serializer>(spots: &BTreeMap<(SeqId, usize), Spot>, to: S) -> Result<S::Ok, S::Error> {
    to.collect_seq(spots.iter().map(|(&(id, at), spot)| (id, at, spot)))
}

/// What was read is not a tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum NotATree {
    #[error(
        "sequence {0} has a different number of tokens, log-probabilities and entropies; the file is damaged"
    )]
    Uneven(usize),
    #[error(
        "sequence {0} does not leave an earlier sequence where that one has a token of its own; the file is damaged"
    )]
    Detached(usize),
    #[error("position {at} of sequence {id} is remembered, but is no token of its own; the file is damaged")]
    Misplaced { id: usize, at: usize },
}

impl TryFrom<Stored> for Tree {
    type Error = NotATree;

    fn try_from(Stored { key, sequences, spots }: Stored) -> Result<Self, NotATree> {
        let owns = |id: usize, at: usize| {
            sequences
                .get(id)
                .is_some_and(|s: &Sequence| at.checked_sub(s.fork_at).is_some_and(|own| own < s.tokens.len()))
        };
        for (id, sequence) in sequences.iter().enumerate() {
            let own = sequence.tokens.len();
            if sequence.logprobs.len() != own || sequence.entropy.len() != own {
                return Err(NotATree::Uneven(id));
            }
            let attached = match sequence.parent {
                Some(SeqId(parent)) => parent < id && owns(parent, sequence.fork_at),
                None => sequence.fork_at == 0,
            };
            if !attached {
                return Err(NotATree::Detached(id));
            }
        }
        if let Some(&(SeqId(id), at, _)) = spots.iter().find(|&&(SeqId(id), at, _)| !owns(id, at)) {
            return Err(NotATree::Misplaced { id, at });
        }
        let roots = sequences.iter().filter(|s| s.parent.is_none()).count();
        let spots = spots.into_iter().map(|(id, at, spot)| ((id, at), spot)).collect();
        Ok(Tree { key, roots, sequences, spots })
    }
}
