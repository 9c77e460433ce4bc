//! Which problems, in which order, and the hash that tells two choices apart.

use std::collections::HashSet;

use eager_lab::suite::{Request, Suite};

use crate::{ids, open, refused};

fn acorn() -> Request {
    Request::new("acorn")
}

fn only(ids: &[&str]) -> Vec<String> {
    ids.iter().map(|&id| id.to_owned()).collect()
}

#[test]
fn named_ones_come_in_the_suites_order() {
    let suite = open(&Request { only: only(&["p5-4", "c1-1", "a3-2", "c1-1"]), ..acorn() });
    assert_eq!(ids(&suite), ["c1-1", "a3-2", "p5-4"]);
}

#[test]
fn ids_that_do_not_exist_are_named() {
    let error = refused(&Request { only: only(&["c1-1", "x1", "x 2"]), ..acorn() });
    assert_eq!(error, "acorn has no problem 'x1', 'x 2'; its ids look like c1-1");
}

#[test]
fn a_shuffle_is_a_permutation_that_depends_on_its_seed() {
    let all = open(&acorn());
    let shuffled = |seed| open(&Request { shuffle: Some(seed), ..acorn() });
    assert_eq!(ids(&shuffled(7)), ids(&shuffled(7)));
    assert_ne!(ids(&shuffled(7)), ids(&shuffled(8)));
    assert_ne!(ids(&shuffled(7)), ids(&all));
    let sorted = |suite: &Suite| ids(suite).into_iter().map(str::to_owned).collect::<HashSet<_>>();
    assert_eq!(sorted(&shuffled(7)), sorted(&all));
}

#[test]
fn named_first_then_shuffled_then_limited() {
    let some = only(&["c1-1", "c1-2", "c1-3", "c1-4", "c2-1", "c2-2"]);
    let all = open(&Request { only: some.clone(), shuffle: Some(3), ..acorn() });
    let limited = open(&Request { only: some, shuffle: Some(3), limit: Some(2), ..acorn() });
    assert_eq!(all.problems.len(), 6);
    assert_eq!(ids(&limited), ids(&all)[..2]);
    // A shuffled suite is cut as any other: a longer run begins with the shorter one.
    let longer = open(&Request { shuffle: Some(3), limit: Some(9), ..acorn() });
    let shorter = open(&Request { shuffle: Some(3), limit: Some(4), ..acorn() });
    assert_eq!(ids(&shorter), ids(&longer)[..4]);
}

#[test]
fn acorn_gives_as_many_as_are_asked_for() {
    let families = |suite: &Suite| {
        let groups: HashSet<String> = suite.problems.iter().filter_map(|p| p.group.clone()).collect();
        groups.len()
    };
    let table: &[(&str, Request, usize)] = &[
        ("the fixed ones", acorn(), 60),
        ("some, spread over families", Request { limit: Some(3), ..acorn() }, 3),
        ("more than there are fixed ones", Request { limit: Some(150), ..acorn() }, 150),
        ("generated anew", Request { problem_seed: Some(5), ..acorn() }, 60),
        ("so many to choose from", Request { problems: Some(90), limit: Some(30), ..acorn() }, 30),
    ];
    for (what, request, count) in table {
        let suite = open(request);
        assert_eq!(suite.problems.len(), *count, "{what}");
        assert_eq!(families(&suite), 3, "{what}");
    }
}

#[test]
fn acorns_problems_depend_on_their_seed() {
    let texts = |seed, limit| -> HashSet<String> {
        let suite = open(&Request { problem_seed: seed, limit, ..acorn() });
        suite.problems.into_iter().map(|problem| problem.text).collect()
    };
    assert_eq!(texts(None, None), texts(Some(0), None));
    assert_eq!(texts(None, Some(150)), texts(Some(1), Some(150)));
    // Easy problems are few, and some come again.
    assert!(texts(Some(1), Some(150)).intersection(&texts(Some(2), Some(150))).count() < 30);
}

#[test]
fn hashes_tell_choices_apart() {
    let hash = |request: Request| open(&request).hash;
    let plain = hash(acorn());
    assert_eq!(plain, hash(acorn()));
    assert_eq!(plain.len(), 64);
    // Hashes are kept in runs, so they may not change with the program.
    assert_eq!(plain, "d058084971a0c377e9829edbc8036e7f6142b3a38a52dcb1090b040b825accf7");
    let others = [
        Request { limit: Some(59), ..acorn() },
        Request { shuffle: Some(1), ..acorn() },
        Request { problem_seed: Some(1), ..acorn() },
        Request { only: only(&["c1-1"]), ..acorn() },
        Request { template: Some("{{ problem }} Go!".to_owned()), ..acorn() },
    ];
    let mut hashes: HashSet<String> = others.into_iter().map(hash).collect();
    hashes.insert(plain);
    assert_eq!(hashes.len(), 6);
}

#[test]
fn what_makes_no_sense_is_refused() {
    let table: &[(Request, &str)] = &[
        (
            Request::new("nonsense"),
            "there is no suite 'nonsense'; there are aime2024, aime2025, hmmt-feb-2025",
        ),
        (Request { limit: Some(0), ..acorn() }, "a limit of 0 leaves no problem"),
        (Request { problems: Some(0), ..acorn() }, "acorn can give from 1 to 10000 problems, not 0"),
        (Request { limit: Some(10_001), ..acorn() }, "acorn can give from 1 to 10000 problems, not 10001"),
        (
            Request { grader: Some(eager_lab::judge::Kind::Exact), ..acorn() },
            "acorn has its own fields and grader; they can be named for a .jsonl file",
        ),
        (Request { problem_seed: Some(1), ..Request::new("gsm8k") }, "only acorn's are generated"),
    ];
    for (request, expected) in table {
        let error = Suite::open(request).unwrap_err();
        assert!(error.is_usage(), "{error}");
        assert!(error.to_string().contains(expected), "{error}");
    }
}
