//! What the reference solution returns, and how long it takes: what programs are held against.

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use super::conversation::{Conversation, Heard};
use super::equality::{Check, Tolerance, preview};
use super::extract::Candidate;
use super::marshal::parse;
use super::{CodeError, Problem};
use crate::sandbox::Sandbox;

/// Less than this a program is never given, for one input.
const LEAST: Duration = Duration::from_secs(1);
/// As much as this times the reference's own time.
const FACTOR: u32 = 4;
/// More than this it is never given, for the base inputs or for the others.
const MOST: Duration = Duration::from_secs(60);
/// Patience with the reference itself, for one input; the slowest takes a fraction of a second.
const REFERENCE: Duration = Duration::from_secs(60);
/// The longest output of a reference, in bytes; the longest there is has 7 million.
const LONGEST: usize = 256 << 20;

/// The tests of a problem.
#[derive(Debug)]
pub(super) struct Reference {
    /// One for each input, the base ones first.
    pub expected: Vec<Expected>,
}

#[derive(Debug)]
pub(super) struct Expected {
    pub check: Check,
    /// The processor time that a program may use.
    pub limit: Duration,
    /// The length of the longest answer that could be right.
    pub room: usize,
    /// Of how many values it could consist, and some more, so that most wrong ones can be shown.
    pub parts: usize,
    /// For people.
    pub shown: String,
}

impl Reference {
    /// Runs the reference solution, in the sandbox as any other.
    pub fn compute(sandbox: &Sandbox, problem: &Problem, cancel: &AtomicBool) -> Result<Self, CodeError> {
        let fail = |reason: String| CodeError::Reference { id: problem.id.clone(), reason };
        let solution =
            Candidate { head: problem.prompt.clone(), text: problem.canonical_solution.clone(), free: false };
        let count = problem.input_count();
        let mut conversation = Conversation::start(sandbox, problem, &[solution], 0..count, cancel)?;
        for letter in [b'C', b'L'] {
            match conversation.next(REFERENCE, LONGEST)? {
                Heard::Answer(heard, _) if heard == letter => {}
                other => return Err(fail(format!("{other:?}"))),
            }
        }
        let mut expected = Vec::with_capacity(count);
        let mut tolerance = Tolerance(problem.atol);
        for index in 0..count {
            if index == problem.base.len() {
                tolerance = Tolerance(problem.atol);
            }
            match conversation.next(REFERENCE, LONGEST)? {
                Heard::Answer(b'V', payload) => {
                    let one = Expected::new(problem, index, &payload, &mut tolerance);
                    expected.push(one.ok_or_else(|| fail(format!("input {index}: no plain data")))?);
                }
                Heard::Answer(_, error) => return Err(fail(String::from_utf8_lossy(&error).into_owned())),
                other => return Err(fail(format!("input {index}: {other:?}"))),
            }
        }
        Ok(Self { expected })
    }

    /// The processor time for a run of inputs together.
    pub fn limit(&self, inputs: std::ops::Range<usize>) -> Duration {
        let sum: Duration = self.expected[inputs].iter().map(|expected| expected.limit).sum();
        sum.min(MOST) + Duration::from_secs(1)
    }
}

impl Expected {
    fn new(problem: &Problem, index: usize, payload: &[u8], tolerance: &mut Tolerance) -> Option<Self> {
        let (time, data) = payload.split_at_checked(8)?;
        let time = Duration::from_nanos(u64::from_le_bytes(time.try_into().ok()?));
        let data = data.get(1..)?;
        let check = match problem.polynomial(index) {
            Some(coefficients) => Check::Root { coefficients, atol: problem.atol },
            None => tolerance.check(data)?,
        };
        let value = parse(data)?;
        Some(Self {
            check,
            limit: LEAST.max(time * FACTOR),
            // Equal values differ in length by less than this: `True` is one byte, `1.0` is nine.
            room: 10 * data.len() + (64 << 10),
            parts: value.parts() + 1000,
            shown: preview(&value),
        })
    }
}
