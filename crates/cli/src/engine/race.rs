//! One run of a workload through [`Engine::grow`], with a clock.
//!
//! Prompts are computed one after the other, so sequences have their first tokens at different times. All wait at a
//! starting line until the last is there; then every timed step has all of them in it, at the same length.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use anyhow::{Context, bail};
use eager_core::strategy::{Start, Step, Verdict};
use eager_core::{Engine, Forest, Grove, Key, Pulse, SeqId, Settings, Strategy, Token, Tree};
use eager_native::load::Checkpoint;
use eager_native::{NativeEngine, Phases};

use super::workload::{Timed, Workload};
use crate::progress::Progress;

/// What the prompts are made from.
const SEED: u64 = 0;

/// What the clock saw.
#[derive(Debug, Clone, PartialEq)]
pub struct Timing {
    pub seconds: f64,
    pub steps: usize,
    /// Tokens decoded while it ran.
    pub decoded: usize,
    /// Share of the time that each phase took; empty when the engine does not say.
    pub phases: Vec<(&'static str, f64)>,
}

/// Runs a workload once; `None` when the user ended it.
pub fn run(
    engine: &mut NativeEngine,
    checkpoint: &Checkpoint,
    workload: &Workload,
    progress: Progress,
) -> anyhow::Result<Option<Timing>> {
    let line = Arc::new(Line { arrived: AtomicUsize::new(0), of: workload.branches });
    let settings = Arc::new(Settings { max_tokens: workload.length(), ..Settings::default() });
    let grove = |id: usize| {
        let prompt = prompt(checkpoint, id, workload.prompt());
        let runners =
            Runners { there: vec![false; workload.per_grove()], at: workload.own, line: line.clone() };
        Grove::new(id, Key::prompt(SEED, id as u64), prompt.into(), settings.clone(), Box::new(runners))
    };
    let groves: Vec<Grove> = (0..workload.groves()).map(grove).collect();
    let mut course = Course {
        groves: groves.into_iter(),
        workload,
        line: &line,
        progress,
        phases: engine.phases(),
        clock: None,
        timing: None,
        decoded: 0,
        end: End::Finished,
    };
    engine.grow(&mut course)?;
    match course.end {
        End::Interrupted => return Ok(None),
        End::SetAside => {
            bail!("{} ran out of memory for keys and values, which would be timed too", workload.name)
        }
        End::Finished => {}
    }
    // Nothing ends a sequence but its length.
    if course.decoded != workload.decoded() {
        bail!("{} decoded {} tokens instead of {}", workload.name, course.decoded, workload.decoded());
    }
    course.timing.map(Some).with_context(|| format!("the clock of {} never stopped", workload.name))
}

/// Tokens without a meaning, the same at every run; none that the model gives a special one.
fn prompt(checkpoint: &Checkpoint, index: usize, length: usize) -> Vec<Token> {
    let config = &checkpoint.config;
    let tokens = config.vocab.min(checkpoint.tokenizer.len());
    let key = Key::prompt(SEED, index as u64);
    let token = |at: usize| {
        let token = (key.uniform(at) * tokens as f64) as usize;
        let special = |t: Token| config.bos == Some(t) || config.stop_tokens.contains(&t);
        (if special(token as Token) { (token + 1) % tokens } else { token }) as Token
    };
    (0..length).map(token).collect()
}

/// Where sequences wait for each other.
#[derive(Debug)]
struct Line {
    arrived: AtomicUsize,
    of: usize,
}

impl Line {
    fn is_open(&self) -> bool {
        self.arrived.load(Ordering::Relaxed) >= self.of
    }
}

/// Full-parallel, with a wait at the line.
#[derive(Debug)]
struct Runners {
    /// Which sequences are at the line.
    there: Vec<bool>,
    /// The token of each that waits.
    at: usize,
    line: Arc<Line>,
}

impl Strategy for Runners {
    fn begin(&mut self, _: &Tree) -> Vec<Start> {
        vec![Start::Root; self.there.len()]
    }

    fn decide(&mut self, _: &Tree, id: SeqId, step: &Step<'_>) -> Verdict {
        if step.at != self.at {
            return Verdict::Keep;
        }
        if !std::mem::replace(&mut self.there[id.0], true) {
            self.line.arrived.fetch_add(1, Ordering::Relaxed);
        }
        if self.line.is_open() { Verdict::Keep } else { Verdict::Wait }
    }
}

/// A clock that runs.
struct Clock {
    begun: Instant,
    steps: usize,
}

enum End {
    Finished,
    Interrupted,
    /// Sequences had to give their memory away.
    SetAside,
}

/// The forest, which reads the clock after every step.
struct Course<'a> {
    groves: std::vec::IntoIter<Grove>,
    workload: &'a Workload,
    line: &'a Line,
    progress: Progress,
    phases: Phases,
    clock: Option<Clock>,
    timing: Option<Timing>,
    /// Tokens of the trees that came back.
    decoded: usize,
    end: End,
}

impl Course<'_> {
    fn start(&mut self) {
        self.phases.take();
        self.clock = Some(Clock { begun: Instant::now(), steps: 0 });
    }

    fn stop(&mut self, clock: &Clock) {
        let seconds = clock.begun.elapsed().as_secs_f64();
        let parts = self.phases.take();
        let phases = parts.into_iter().map(|(name, time)| (name, time.as_secs_f64() / seconds)).collect();
        let decoded = self.workload.branches * self.workload.tokens;
        self.timing = Some(Timing { seconds, steps: clock.steps, decoded, phases });
    }
}

impl Forest for Course<'_> {
    fn next(&mut self, _: bool) -> Option<Grove> {
        if self.workload.timed == Timed::Prefill && self.clock.is_none() && self.timing.is_none() {
            self.start();
        }
        self.groves.next()
    }

    fn done(&mut self, grove: Grove) {
        self.decoded += grove.tree().tokens_generated();
    }

    fn pulse(&mut self, pulse: &Pulse) -> ControlFlow<()> {
        if let Some(mut clock) = self.clock.take() {
            clock.steps += 1;
            if pulse.decoded >= self.workload.decoded() {
                self.stop(&clock);
            } else {
                self.clock = Some(clock);
            }
        } else if self.timing.is_none() && self.line.is_open() {
            self.start();
        }
        if pulse.waiting > 0 {
            self.end = End::SetAside;
            return ControlFlow::Break(());
        }
        let going = self.progress.decoded(pulse);
        if going.is_break() {
            self.end = End::Interrupted;
        }
        going
    }
}

#[cfg(test)]
mod tests {
    use eager_native::{Isa, Model, Options};

    use super::super::workload::CUSTOM;
    use super::*;
    use crate::interrupt::Interrupt;

    fn timing(workload: &Workload, options: Options) -> anyhow::Result<Timing> {
        let checkpoint = Checkpoint::from_gguf_bytes(eager_acorn::GGUF)?;
        let model = Arc::new(Model::load(&checkpoint, Isa::detect())?);
        let mut engine = NativeEngine::new(model, options)?;
        let progress = Progress::of_tokens("a test", workload.decoded(), &Interrupt::never());
        run(&mut engine, &checkpoint, workload, progress)?.context("interrupted")
    }

    #[test]
    fn every_timed_step_has_all_sequences_in_it() {
        let shared = Workload { branches: 5, shared: 150, own: 3, tokens: 4, ..CUSTOM };
        let private = Workload { shared: 0, private: 150, ..shared };
        for workload in [shared, private] {
            let Timing { steps, decoded, seconds, .. } = timing(&workload, Options::default()).unwrap();
            assert_eq!((steps, decoded), (4, 20), "{workload:?}");
            assert!(seconds > 0.0);
        }
    }

    #[test]
    fn steps_too_small_for_all_sequences_are_counted() {
        // Older prompts first: two pairs with two steps each, then the fifth alone.
        let workload = Workload { branches: 5, shared: 0, private: 20, tokens: 2, ..CUSTOM };
        let Timing { steps, decoded, .. } =
            timing(&workload, Options { rows: 2, ..Options::default() }).unwrap();
        assert_eq!((steps, decoded), (6, 10));
    }

    #[test]
    fn a_prefill_ends_with_the_first_token() {
        let workload = Workload { branches: 1, shared: 130, tokens: 1, timed: Timed::Prefill, ..CUSTOM };
        // Alone, a prompt has all rows of a step.
        let options = Options { rows: 50, chunk: 20, ..Options::default() };
        let Timing { steps, decoded, .. } = timing(&workload, options).unwrap();
        assert_eq!((steps, decoded), (3, 1));
    }

    #[test]
    fn a_run_short_of_memory_is_no_measure() {
        let workload = Workload { branches: 8, shared: 16, tokens: 60, ..CUSTOM };
        let kv_bytes = 12 * 16 * 4096;
        let error = timing(&workload, Options { kv_bytes, ..Options::default() }).unwrap_err();
        assert!(error.to_string().contains("ran out of memory"), "{error}");
    }
}
