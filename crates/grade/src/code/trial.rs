//! One response on trial: its program is run on every input, and every output is compared.

use std::ops::Range;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use super::behaviour::Behaviour;
use super::conversation::{Conversation, Heard};
use super::equality::preview;
use super::extract::Candidate;
use super::marshal::parse_within;
use super::reference::{Expected, Reference};
use super::{CodeError, Outcome, Problem, Verdict};
use crate::sandbox::Sandbox;

/// For finding the program in the response and loading it.
const LOADING: Duration = Duration::from_secs(4);
/// For a run of inputs, beyond the processor time that it may take: sleep that nobody asked for.
const SLACK: Duration = Duration::from_secs(5);
/// Answers other than values are short.
const SHORT: usize = 4096;

pub(super) struct Trial<'a> {
    pub sandbox: &'a Sandbox,
    pub problem: &'a Problem,
    pub reference: &'a Reference,
    pub candidates: &'a [Candidate],
    pub cancel: &'a AtomicBool,
}

/// What an answer, or the lack of one, says about an input.
enum Finding {
    Right,
    Wrong(String),
    /// The process can be of no further use.
    Lost(Outcome),
}

impl Trial<'_> {
    /// Base inputs and the others run in one process, which saves a start. Only if it is lost on a base input do
    /// the others get a second one: they are judged on their own.
    pub fn verdict(&self) -> Result<Verdict, CodeError> {
        let fail = |reason: &str| Outcome::Fail { input: None, reason: reason.to_owned() };
        if self.candidates.is_empty() {
            let outcome = fail("the response holds no program");
            return Ok(Verdict { program: None, behaviour: None, base: outcome.clone(), plus: outcome });
        }
        let (base, all) = (self.problem.base.len(), self.problem.input_count());
        let mut conversation = self.converse(0..all)?;
        let program = match self.load(&mut conversation)? {
            Ok(number) => self.candidates[number].program(),
            Err((number, outcome)) => {
                let program = number.map(|number| self.candidates[number].program());
                return Ok(Verdict { program, behaviour: None, base: outcome.clone(), plus: outcome });
            }
        };
        let mut behaviour = Behaviour::default();
        let (base_outcome, lost) = self.run(&mut conversation, 0..base, Some(&mut behaviour))?;
        let (program, behaviour) = (Some(program), behaviour.digest());
        if lost {
            conversation = self.converse(base..all)?;
            if let Err((_, outcome)) = self.load(&mut conversation)? {
                return Ok(Verdict { program, behaviour, base: base_outcome, plus: outcome });
            }
        }
        let (plus_outcome, _) = self.run(&mut conversation, base..all, None)?;
        Ok(Verdict { program, behaviour, base: base_outcome, plus: plus_outcome })
    }

    fn converse(&self, inputs: Range<usize>) -> Result<Conversation<'_>, CodeError> {
        Conversation::start(self.sandbox, self.problem, self.candidates, inputs, self.cancel)
    }

    /// Waits until the program is loaded. The number of the candidate that is a program, with the outcome for all
    /// inputs if that is as far as it gets.
    fn load(
        &self,
        conversation: &mut Conversation<'_>,
    ) -> Result<Result<usize, (Option<usize>, Outcome)>, CodeError> {
        let fail = |reason: String| Outcome::Fail { input: None, reason };
        let number = match conversation.next(LOADING, SHORT)? {
            Heard::Answer(b'C', number) => {
                number.try_into().map(u32::from_le_bytes).unwrap_or(u32::MAX) as usize
            }
            Heard::Answer(b'N', _) => {
                let reason =
                    format!("no part of the response is Python that defines {}", self.problem.entry_point);
                return Ok(Err((None, fail(reason))));
            }
            other => return Ok(Err((None, lost(other, None)))),
        };
        if number >= self.candidates.len() {
            return Ok(Err((None, malformed(None))));
        }
        Ok(match conversation.next(LOADING, SHORT)? {
            Heard::Answer(b'L', _) => Ok(number),
            Heard::Answer(b'X', error) => {
                Err((Some(number), fail(format!("loading it raised {}", String::from_utf8_lossy(&error)))))
            }
            other => Err((Some(number), lost(other, None))),
        })
    }

    /// The outcome of a run of inputs, and whether the process was lost in it. After a failure in the base inputs
    /// the rest of them is only listened to: they are few, and the process is wanted for the others.
    fn run(
        &self,
        conversation: &mut Conversation<'_>,
        inputs: Range<usize>,
        mut behaviour: Option<&mut Behaviour>,
    ) -> Result<(Outcome, bool), CodeError> {
        let first = inputs.start;
        let limit = self.reference.limit(inputs.clone());
        let together = conversation.used() + limit;
        conversation.allow(limit + SLACK);
        let mut outcome = Outcome::Pass;
        for index in inputs.clone() {
            let expected = &self.reference.expected[index];
            let left = together.saturating_sub(conversation.used());
            let heard = conversation.next(expected.limit.min(left), expected.room)?;
            if let Some(behaviour) = &mut behaviour {
                behaviour.add(&heard, expected.parts);
            }
            let input = Some(index - first);
            match judge(heard, expected, input) {
                Finding::Right => {}
                Finding::Wrong(reason) if outcome.passed() => {
                    outcome = Outcome::Fail { input, reason };
                    if inputs.end == self.problem.input_count() {
                        return Ok((outcome, false));
                    }
                }
                Finding::Wrong(_) => {}
                Finding::Lost(lost) => return Ok((if outcome.passed() { lost } else { outcome }, true)),
            }
        }
        Ok((outcome, false))
    }
}

fn judge(heard: Heard, expected: &Expected, input: Option<usize>) -> Finding {
    match heard {
        Heard::Answer(b'V', payload) => {
            // Eight bytes of time, which we measure ourselves, and one that says whether the type is built in.
            let value = payload.get(9..).and_then(|data| parse_within(data, expected.parts));
            let Some((value, plain)) = value.zip(payload.get(8).map(|plain| *plain == 1)) else {
                let reason = format!("expected {}, got more than that, or no plain data", expected.shown);
                return Finding::Wrong(reason);
            };
            if expected.check.passes(&value, plain) {
                return Finding::Right;
            }
            Finding::Wrong(format!("expected {}, got {}", expected.shown, preview(&value)))
        }
        Heard::Answer(b'X', error) => {
            Finding::Wrong(format!("it raised {}", String::from_utf8_lossy(&error)))
        }
        Heard::Answer(b'U', kind) => Finding::Wrong(format!(
            "it returned a {}, which is no plain data",
            String::from_utf8_lossy(&kind)
        )),
        other => Finding::Lost(lost(other, input)),
    }
}

fn lost(heard: Heard, input: Option<usize>) -> Outcome {
    match heard {
        Heard::Timeout(reason) => Outcome::Timeout { input, reason: reason.to_owned() },
        Heard::Ended(reason) => Outcome::Error { input, reason },
        Heard::TooLong => {
            Outcome::Fail { input, reason: "the output is far longer than the expected one".to_owned() }
        }
        Heard::Answer(..) => malformed(input),
    }
}

fn malformed(input: Option<usize>) -> Outcome {
    Outcome::Error { input, reason: "the program broke the protocol of the harness".to_owned() }
}
