//! Suites as a specification: what each holds, what can be chosen from it, and what is said when it cannot be had.
//!
//! Benchmarks are not part of the repository. Tests on them look into the folder that `EAGER_DATA` names, and say so where
//! they cannot.

mod benchmarks;
mod choosing;
mod fetch;
mod file;
#[cfg(unix)]
mod judging;
mod prompt;

use eager_lab::suite::{Request, Suite};

fn open(request: &Request) -> Suite {
    Suite::open(request).unwrap_or_else(|error| panic!("{error}"))
}

fn refused(request: &Request) -> String {
    match Suite::open(request) {
        Ok(suite) => panic!("{} was opened, with {} problems", suite.name, suite.problems.len()),
        Err(error) => error.to_string(),
    }
}

fn ids(suite: &Suite) -> Vec<&str> {
    suite.problems.iter().map(|problem| problem.id.as_str()).collect()
}
