//! The prompts of one pass, as the forest that an engine grows.

use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::sync::Arc;

use eager_core::{Forest, Grove, Key, Prompt, Pulse, Strategy, Tree};

use super::clock::Clock;
use super::passes::Place;
use super::{BenchError, Observer};

/// A prompt that waits for its turn: from nothing, or from a tree that is to grow on.
pub(super) struct Seedling {
    pub index: usize,
    pub prompt: Prompt,
    pub from: From,
    pub strategy: Box<dyn Strategy>,
}

pub(super) enum From {
    Seed(u64),
    /// Loaded when its turn comes, so that not all trees are in memory.
    Place(Place),
}

/// Hands out at most so many prompts at a time and takes back what has grown.
pub(super) struct Nursery<'a> {
    waiting: VecDeque<Seedling>,
    growing: Vec<(usize, usize)>,
    at_once: usize,
    clock: Clock,
    /// Gets every prompt that is complete: its index, its tree, the seconds it is charged for.
    grown: &'a mut dyn FnMut(usize, Tree, f64) -> Result<(), BenchError>,
    observer: &'a mut dyn Observer,
    failed: Option<BenchError>,
    broken_off: bool,
}

impl<'a> Nursery<'a> {
    pub fn new(
        waiting: VecDeque<Seedling>,
        at_once: usize,
        grown: &'a mut dyn FnMut(usize, Tree, f64) -> Result<(), BenchError>,
        observer: &'a mut dyn Observer,
    ) -> Self {
        Nursery {
            waiting,
            growing: Vec::new(),
            at_once: at_once.max(1),
            clock: Clock::start(),
            grown,
            observer,
            failed: None,
            broken_off: false,
        }
    }

    /// Was the pass broken off by the observer, or by something that failed here?
    pub fn end(self) -> Result<ControlFlow<()>, BenchError> {
        match self.failed {
            Some(error) => Err(error),
            None if self.broken_off => Ok(ControlFlow::Break(())),
            None => Ok(ControlFlow::Continue(())),
        }
    }

    fn plant(&mut self, seedling: Seedling) -> Result<Grove, BenchError> {
        let Seedling { index, prompt, from, strategy } = seedling;
        let tree = match from {
            From::Seed(seed) => Tree::new(Key::prompt(seed, prompt.key)),
            From::Place(place) => place.tree()?,
        };
        self.growing.push((index, tree.tokens_generated()));
        Ok(Grove::resume(index, Arc::clone(&prompt.tokens), Arc::clone(&prompt.settings), tree, strategy))
    }
}

impl Forest for Nursery<'_> {
    fn next(&mut self, _idle: bool) -> Option<Grove> {
        if self.failed.is_some() || self.broken_off || self.growing.len() >= self.at_once {
            return None;
        }
        let seedling = self.waiting.pop_front()?;
        match self.plant(seedling) {
            Ok(grove) => Some(grove),
            Err(error) => {
                self.failed = Some(error);
                None
            }
        }
    }

    fn done(&mut self, grove: Grove) {
        let (index, complete) = (grove.id, grove.is_done());
        let at = self.growing.iter().position(|&(growing, _)| growing == index);
        let before = at.map_or(0, |at| self.growing.swap_remove(at).1);
        // What was broken off is decoded again when the run goes on: half a tree cannot be compared with a whole one.
        if !complete || self.failed.is_some() {
            return;
        }
        let tree = grove.into_tree();
        let decoded = tree.tokens_generated() - before;
        let seconds = self.clock.charge(decoded);
        self.observer.grown(&tree, decoded);
        match (self.grown)(index, tree, seconds) {
            Ok(()) => {}
            Err(BenchError::Stopped) => self.broken_off = true,
            Err(error) => self.failed = Some(error),
        }
        self.clock.go_on();
    }

    fn pulse(&mut self, pulse: &Pulse) -> ControlFlow<()> {
        self.clock.decoded(pulse.decoded);
        if self.failed.is_some() || self.broken_off {
            return ControlFlow::Break(());
        }
        let flow = self.observer.pulse(pulse);
        self.broken_off |= flow.is_break();
        flow
    }
}
