//! What must come out: the same model decoded in this process, every sequence in step.

use eager_core::{Candidate, Decoded, Engine, Forest, Grove, Key, Next, SeqId};

use crate::model;

#[derive(Debug, thiserror::Error)]
#[error("never")]
pub struct Never;

pub struct Reference;

struct Slot {
    id: SeqId,
    /// The sequence and the place for which the request that decodes it was opened.
    key: Key,
    began: usize,
}

/// How a request's seed follows from the sequence and the place.
fn seed(key: Key, position: usize) -> u64 {
    (key.uniform(position) * f64::from(1u32 << 31)) as u64
}

impl Engine for Reference {
    type Error = Never;

    fn grow(&mut self, forest: &mut dyn Forest) -> Result<(), Never> {
        while let Some(mut grove) = forest.next(true) {
            let mut slots: Vec<Slot> = Vec::new();
            while !grove.is_done() {
                take_orders(&mut grove, &mut slots);
                slots.sort_by_key(|slot| (grove.tree().get(slot.id).len(), slot.id));
                // Nobody has to wait for the first in order.
                step(&mut grove, &mut slots);
            }
            forest.done(grove);
        }
        Ok(())
    }
}

fn take_orders(grove: &mut Grove, slots: &mut Vec<Slot>) {
    while let Some(id) = grove.next_order() {
        let sequence = grove.tree().get(id);
        slots.push(Slot { id, key: sequence.key, began: sequence.len() });
    }
}

/// Decodes a token of the first sequence.
fn step(grove: &mut Grove, slots: &mut Vec<Slot>) {
    let Slot { id, key, began } = slots[0];
    let path = [grove.prompt(), &grove.tree().path(id)].concat();
    let (all, at) = (model::next(&path), grove.tree().get(id).len());
    let temperature = f64::from(grove.settings().sampling.temperature);
    let drawn = model::draw(&all, temperature, seed(key, began), at - began);
    let candidate = |&(token, logprob): &(u32, f64)| Candidate { token, logprob: logprob as f32 };
    let top: Vec<Candidate> = all.iter().take(20).map(candidate).collect();
    let next = grove.offer(id, &Decoded { top: &top, sampled: candidate(&drawn) });
    assert_ne!(next, Next::Wait, "the first in order was told to wait");
    let known = slots.len();
    take_orders(grove, slots);
    let sequence = grove.tree().get(id);
    if sequence.tokens.last() != Some(&drawn.0) {
        // The request goes on for the fork that took its token, if one did; this sequence has a request of its own.
        let is_twin = |slot: &&mut Slot| {
            let fork = grove.tree().get(slot.id);
            (fork.parent, fork.len(), fork.tokens.last()) == (Some(id), at + 1, Some(&drawn.0))
        };
        if let Some(twin) = slots[known..].iter_mut().find(is_twin) {
            (twin.key, twin.began) = (key, began);
        }
        (slots[0].key, slots[0].began) = (sequence.key, at + 1);
    }
    if next == Next::Done {
        slots.remove(0);
    }
}
