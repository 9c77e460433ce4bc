//! Talking to a harness that may have been taken over.
//!
//! After a tested program is loaded, nothing that comes out of its process can be believed, except that it came
//! from there. So every answer is checked for form, none is longer than a right answer could be, and time is
//! measured from outside. Time is what the program used, not what passed: a limit counts processor time, and the
//! time that the program slept, but not the time that it waited for a busy machine. Otherwise a verdict would
//! depend on who else is at work.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::marshal::Writer;
use super::{CodeError, Problem, extract::Candidate};
use crate::process;
use crate::sandbox::{Running, Sandbox, SandboxError};

const HARNESS: &str = include_str!("harness.py");
/// A letter and a length of four bytes.
const HEADER: usize = 5;
/// How often a wait is interrupted to see whether the caller still wants the answer.
const GLANCE: Duration = Duration::from_millis(50);
/// Less than this is not worth measuring.
const MOMENT: Duration = Duration::from_millis(1);

/// What was heard.
#[derive(Debug)]
pub(super) enum Heard {
    /// One answer, of the form that the harness gives.
    Answer(u8, Vec<u8>),
    /// An answer longer than there is room for.
    TooLong,
    /// Nothing, within the time.
    Timeout(&'static str),
    /// The process ended, or what it said was no answer; in words.
    Ended(String),
}

/// A running harness, and the clocks on it.
#[derive(Debug)]
pub(super) struct Conversation<'a> {
    running: Running,
    taken: usize,
    /// The processor time that the program has used: now, and when we heard its last answer.
    cpu: Duration,
    used: Duration,
    /// The time that it was ready to run while others ran, when we last looked.
    waited: Duration,
    /// How much longer it may work and sleep, over all answers to come.
    allowance: Duration,
    cancel: &'a AtomicBool,
}

impl<'a> Conversation<'a> {
    /// Starts a harness on these inputs of a problem.
    pub fn start(
        sandbox: &Sandbox,
        problem: &Problem,
        candidates: &[Candidate],
        inputs: std::ops::Range<usize>,
        cancel: &'a AtomicBool,
    ) -> Result<Self, CodeError> {
        let mut job = Writer::default();
        job.dict_start();
        job.text("entry");
        job.text(&problem.entry_point);
        job.text("candidates");
        job.list(candidates.len());
        for candidate in candidates {
            job.tuple(3);
            job.text(&candidate.head);
            job.text(&candidate.text);
            job.bool(candidate.free);
        }
        job.text("inputs");
        job.list(inputs.len());
        inputs.for_each(|index| job.0.extend(problem.input(index)));
        job.dict_end();
        let running = sandbox.start(HARNESS, job.0)?;
        let [cpu, used, waited] = [Duration::ZERO; 3];
        Ok(Self { running, taken: 0, cpu, used, waited, allowance: Duration::MAX, cancel })
    }

    /// From here on the program may work and sleep for this long in all: sleeping a little on each of a thousand
    /// inputs is not free either.
    pub fn allow(&mut self, allowance: Duration) {
        self.allowance = allowance;
    }

    /// The processor time used up to the last answer.
    pub fn used(&self) -> Duration {
        self.used
    }

    /// Waits for the next answer: for at most `limit` of processor time, for somewhat longer of sleep, and in any
    /// case not for ever.
    pub fn next(&mut self, limit: Duration, room: usize) -> Result<Heard, CodeError> {
        let asleep_limit = limit * 2 + Duration::from_secs(1);
        let wall_limit = limit * 30 + Duration::from_secs(30);
        let (mut listened, mut awake) = (Duration::ZERO, Duration::ZERO);
        loop {
            if let Some(heard) = self.take(room) {
                // The program may be further on already; what it used for that is its gain.
                self.used = self.cpu;
                return Ok(heard);
            }
            if self.cancel.load(Ordering::Relaxed) {
                return Err(CodeError::Cancelled);
            }
            if self.running.pipes.answered() {
                return Ok(Heard::Ended(self.last_words()));
            }
            let used = self.cpu.saturating_sub(self.used);
            if used > limit {
                return Ok(Heard::Timeout("used too much processor time"));
            }
            if awake > asleep_limit || listened > wall_limit || self.allowance.is_zero() {
                return Ok(Heard::Timeout("took too long"));
            }
            let (passed, waited) = self.listen((limit - used + MOMENT).min(GLANCE), room)?;
            listened += passed;
            let passed = passed.saturating_sub(waited);
            awake += passed;
            self.allowance = self.allowance.saturating_sub(passed);
        }
    }

    /// Listens for a while: how long it was, and how much of it the program spent waiting for its turn.
    fn listen(&mut self, patience: Duration, room: usize) -> Result<(Duration, Duration), CodeError> {
        self.running.pipes.received.drain(..self.taken);
        self.taken = 0;
        let start = Instant::now();
        self.running.pipes.turn(patience, room + 2 * HEADER).map_err(SandboxError::from)?;
        self.cpu = self.running.cpu().unwrap_or_default();
        // A while that became long says that we were not running ourselves: stopped, suspended, starved.
        let passed = start.elapsed().min(10 * GLANCE);
        if passed < MOMENT {
            return Ok((passed, Duration::ZERO));
        }
        let waited = self.running.waited().unwrap_or_default();
        let before = std::mem::replace(&mut self.waited, waited);
        Ok((passed, waited.saturating_sub(before)))
    }

    /// The next answer, if all of it has arrived or if it will be too long.
    fn take(&mut self, room: usize) -> Option<Heard> {
        let rest = &self.running.pipes.received[self.taken..];
        let (header, rest) = rest.split_at_checked(HEADER)?;
        let length = u32::from_le_bytes([header[1], header[2], header[3], header[4]]) as usize;
        if length > room {
            return Some(Heard::TooLong);
        }
        let payload = rest.get(..length)?.to_vec();
        self.taken += HEADER + length;
        Some(Heard::Answer(header[0], payload))
    }

    /// How the process ended. It has closed the pipe of its answers; if it lives on, it has nothing more to say.
    fn last_words(&mut self) -> String {
        let end = self.running.leash.ended().or_else(|| {
            // It may only just be closing its pipes.
            let _ = self.running.pipes.turn(GLANCE, 0);
            self.running.leash.ended()
        });
        let end = match end {
            Some(end) => process::describe(Some(end)),
            None => "closed the pipe of its answers".to_owned(),
        };
        let _ = self.running.pipes.turn(Duration::ZERO, 0);
        let complaints = self.running.pipes.complaints.text();
        let separator = if complaints.is_empty() { "" } else { ": " };
        format!("the program {end} before it had returned{separator}{complaints}")
    }
}
