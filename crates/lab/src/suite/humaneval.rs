//! HumanEval+: functions to be written, and tests for them.

use std::path::Path;
use std::sync::Arc;

use eager_grade::code;
use eager_grade::sandbox::Policy;

use super::{Problem, SuiteError};
use crate::judge::{Judge, Programs};

pub(super) fn problems(path: &Path, unsafe_code: bool) -> Result<Vec<Problem>, SuiteError> {
    let tests = code::Problem::load(path)
        .map_err(|error| SuiteError::Data { path: path.to_owned(), reason: error.to_string() })?;
    let texts: Vec<(String, String)> =
        tests.iter().map(|problem| (problem.id.clone(), problem.prompt.clone())).collect();
    let policy = if unsafe_code { Policy::AcceptMissing } else { Policy::RequireAll };
    let programs = Arc::new(Programs::new(tests, policy));
    let problem = |(id, text): (String, String)| Problem {
        text,
        choices: Vec::new(),
        message: String::new(),
        // Many programs are right; the tests say which.
        gold: None,
        group: None,
        judge: Judge::Code { programs: Arc::clone(&programs), id: id.clone() },
        id,
    };
    Ok(texts.into_iter().map(problem).collect())
}
