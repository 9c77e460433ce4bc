//! acorn's own problems: sixty fixed ones, or as many generated ones as wanted.

use eager_acorn::Family;
use eager_grade::Grader;

use super::{Problem, Request, SuiteError};
use crate::judge::Judge;

/// The fixed ones.
const FIXED: usize = 60;
/// More than anyone has the patience for.
const MOST: usize = 10_000;
/// The seed of generated problems, where none is given. 0 would begin with the fixed ones.
const SEED: u64 = 1;

/// The problems to choose from. Up to sixty come from the fixed ones, unless a seed is given; more are all generated.
pub(super) fn problems(request: &Request) -> Result<Vec<Problem>, SuiteError> {
    // With ids given, a limit is about those and not about how many there are to choose from.
    let limit = if request.only.is_empty() { request.limit } else { None };
    let count = request.problems.or(limit.filter(|&limit| limit > FIXED)).unwrap_or(FIXED);
    if !(1..=MOST).contains(&count) {
        return Err(SuiteError::Misfit(format!("acorn can give from 1 to {MOST} problems, not {count}")));
    }
    let all = match request.problem_seed {
        None if count <= FIXED => eager_acorn::problems(),
        seed => generated(seed.unwrap_or(SEED), count),
    };
    Ok(spread(all, count).into_iter().map(problem).collect())
}

/// At least so many, as long as there are any: level-1 pairs run out early, and then the other cells give more.
fn generated(seed: u64, count: usize) -> Vec<eager_acorn::Problem> {
    let cells = Family::ALL.len() * usize::from(eager_acorn::LEVELS);
    let mut per_cell = count.div_ceil(cells);
    let mut all = eager_acorn::suite(seed, per_cell);
    while all.len() < count {
        per_cell += (count - all.len()).div_ceil(cells);
        let more = eager_acorn::suite(seed, per_cell);
        if more.len() == all.len() {
            break;
        }
        all = more;
    }
    all
}

/// So many of them, spread evenly: the problems are sorted by family and level, and the first few would all be alike.
pub(super) fn spread<T>(all: Vec<T>, count: usize) -> Vec<T> {
    let (len, count) = (all.len(), count.min(all.len()));
    let mut wanted = (0..count).map(|i| i * len / count).peekable();
    all.into_iter().enumerate().filter_map(|(at, one)| wanted.next_if_eq(&at).map(|_| one)).collect()
}

fn problem(problem: eager_acorn::Problem) -> Problem {
    let eager_acorn::Problem { id, family, problem: text, answer, numbers, .. } = problem;
    let grader = match (family, answer.parse()) {
        (Family::Countdown, Ok(target)) => {
            Grader::Expression { numbers: numbers.into_iter().map(i64::from).collect(), target }
        }
        _ => Grader::Exact { gold: answer.clone() },
    };
    Problem {
        id,
        text,
        choices: Vec::new(),
        message: String::new(),
        gold: Some(answer),
        group: Some(family.name().to_owned()),
        judge: Judge::Text(grader),
    }
}
