//! HumanEval+ itself. Needs the data: skipped, with a word, unless `EAGER_DATA` names the folder that holds it.
#![cfg(target_os = "linux")]

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use eager_grade::code::{CodeGrader, Problem};
use eager_grade::sandbox::{Limits, Policy, Python, Sandbox};

fn problems() -> Option<Vec<Problem>> {
    let Some(data) = std::env::var_os("EAGER_DATA") else {
        println!("skipped: EAGER_DATA does not name a folder with the benchmarks");
        return None;
    };
    let problems = Problem::load(&Path::new(&data).join("HumanEvalPlus-v0.1.10.jsonl.gz")).unwrap();
    assert_eq!(problems.len(), 164);
    Some(problems)
}

fn grader(problems: Vec<Problem>) -> Arc<CodeGrader> {
    let sandbox = Sandbox::new(Python::find().unwrap(), Limits::default(), Policy::RequireAll).unwrap();
    Arc::new(CodeGrader::new(sandbox, problems).with_workers(2))
}

fn fence(code: &str) -> String {
    format!("Here it is:\n\n```python\n{code}\n```\n")
}

#[test]
fn every_reference_solution_passes() {
    let Some(problems) = problems() else { return };
    let solution = |problem: &Problem| {
        (problem.id.clone(), fence(&format!("{}{}", problem.prompt, problem.canonical_solution)))
    };
    let samples: Vec<_> = problems.iter().map(solution).collect();
    let grader = grader(problems);
    let start = Instant::now();
    let mut failed = Vec::new();
    for ((id, _), verdict) in samples.iter().zip(grader.grade_all(samples.clone())) {
        let verdict = verdict.unwrap();
        if !verdict.correct() {
            failed.push(format!("{id}: base {}; plus {}", verdict.base, verdict.plus));
        }
    }
    println!("164 reference solutions and what they return: {:.1} s", start.elapsed().as_secs_f64());
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

/// Four quick problems; the prompts of the last two bring functions that the solution needs.
#[test]
fn responses_of_many_forms() {
    let Some(mut problems) = problems() else { return };
    let chosen = ["HumanEval/0", "HumanEval/2", "HumanEval/38", "HumanEval/50"];
    problems.retain(|problem| chosen.contains(&problem.id.as_str()));
    let mut samples: Vec<(String, String, bool)> = Vec::new();
    for problem in &problems {
        let definition = format!("def {}(", problem.entry_point);
        let (_, rest) = problem.prompt.split_once(&definition).unwrap();
        let function = format!("{definition}{rest}{}", problem.canonical_solution);
        let body = &problem.canonical_solution;
        let forms = [
            (fence(&function), true),
            (function.clone(), true),
            (format!("Let me think.\n\n{function}\n\nThat is all there is to it!"), true),
            (fence(body), true),
            (body.clone(), true),
            (format!("{body}\n\nThis works because it does.\n"), true),
            (format!("<think>\n{}\n</think>\n{}", fence("def no(): pass"), fence(&function)), true),
            (format!("{}\nFor example:\n{}", fence(&function), fence("print(1)")), true),
            (String::new(), false),
            ("I do not know.".to_owned(), false),
            (fence(&format!("{definition}*_): return None")), false),
            (fence(&format!("{definition}*_): return (")), false),
            (fence("def another(): pass"), false),
            (format!("{}{}", fence(&function), fence(&format!("{definition}*_): return None"))), false),
        ];
        samples.extend(forms.map(|(response, right)| (problem.id.clone(), response, right)));
    }
    let grader = grader(problems);
    let stream: Vec<_> = samples.iter().map(|(id, response, _)| (id.clone(), response.clone())).collect();
    for ((id, response, right), verdict) in samples.iter().zip(grader.grade_all(stream)) {
        let verdict = verdict.unwrap();
        assert_eq!(verdict.correct(), *right, "{id}: {} {}\n{response}", verdict.base, verdict.plus);
    }
}
