//! HumanEval+: functions to be written, and tests for them.

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use eager_grade::code;
use eager_grade::sandbox::Policy;
use flate2::read::GzDecoder;
use sha2::{Digest, Sha256};

use super::{Problem, SuiteError, fetch};
use crate::judge::{Judge, Programs};

pub(super) fn problems(path: &Path, unsafe_code: bool) -> Result<Vec<Problem>, SuiteError> {
    let unreadable = |reason: String| SuiteError::Data { path: path.to_owned(), reason };
    let tests = code::Problem::load(path).map_err(|error| unreadable(error.to_string()))?;
    let hash = unpacked_hash(path).map_err(|error| unreadable(error.to_string()))?;
    let texts: Vec<(String, String)> =
        tests.iter().map(|problem| (problem.id.clone(), problem.prompt.clone())).collect();
    let policy = if unsafe_code { Policy::AcceptMissing } else { Policy::RequireAll };
    let programs = Arc::new(Programs::new(tests, hash, policy));
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

/// SHA-256 of what the file holds, however it was packed.
fn unpacked_hash(path: &Path) -> std::io::Result<String> {
    let mut text = Vec::new();
    GzDecoder::new(File::open(path)?).read_to_end(&mut text)?;
    Ok(fetch::hex(&Sha256::digest(&text)))
}
