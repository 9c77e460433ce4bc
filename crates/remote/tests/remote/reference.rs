//! What must come out: the same model decoded in this process, every sequence in step.

use eager_core::{Candidate, Decoded, Engine, Forest, Grove, Key, Next, SeqId};

use crate::model;

#[derive(Debug, thiserror::Error)]
#[error("never")]
pub struct Never;

pub struct Reference;

struct Slot {
    id: SeqId,
    /// Where the request that decodes it began.
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
                while let Some(id) = grove.next_order() {
                    slots.push(Slot { id, began: grove.tree().get(id).len() });
                }
                slots.sort_by_key(|slot| (grove.tree().get(slot.id).len(), slot.id));
                // Nobody has to wait for the first in order.
                if step(&mut grove, &mut slots[0]) {
                    slots.remove(0);
                }
            }
            forest.done(grove);
        }
        Ok(())
    }
}

fn step(grove: &mut Grove, slot: &mut Slot) -> bool {
    let path = [grove.prompt(), &grove.tree().path(slot.id)].concat();
    let (all, at) = (model::next(&path), grove.tree().get(slot.id).len());
    let temperature = f64::from(grove.settings().sampling.temperature);
    let drawn =
        model::draw(&all, temperature, seed(grove.tree().get(slot.id).key, slot.began), at - slot.began);
    let candidate = |&(token, logprob): &(u32, f64)| Candidate { token, logprob: logprob as f32 };
    let top: Vec<Candidate> = all.iter().take(20).map(candidate).collect();
    match grove.offer(slot.id, &Decoded { top: &top, sampled: candidate(&drawn) }) {
        Next::Wait => panic!("the first in order was told to wait"),
        Next::Done => true,
        Next::Feed(token) => {
            if token != drawn.0 {
                slot.began = at + 1;
            }
            false
        }
    }
}
