//! Grades HumanEval+ samples: `humaneval DATA.jsonl.gz < samples.jsonl > verdicts.jsonl`, where a sample is
//! `{"task_id": …, "solution": …}`. Verdicts come in the order of the samples.

#[cfg(unix)]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    use eager_grade::code::{CodeGrader, Problem};
    use eager_grade::sandbox::{Limits, Policy, Python, Sandbox};

    let data = std::env::args_os().nth(1).ok_or("usage: humaneval DATA.jsonl.gz < samples.jsonl")?;
    let sandbox = Sandbox::new(Python::find()?, Limits::default(), Policy::RequireAll)?;
    eprintln!("{}", sandbox.describe().join("\n"));
    let grader = std::sync::Arc::new(CodeGrader::new(sandbox, Problem::load(data.as_ref())?));
    let samples: Vec<(String, String)> = std::io::stdin()
        .lines()
        .map(|line| {
            let sample: serde_json::Value = serde_json::from_str(&line?)?;
            let text = |key: &str| sample[key].as_str().unwrap_or_default().to_owned();
            Ok((text("task_id"), format!("```python\n{}\n```", text("solution"))))
        })
        .collect::<Result<_, Box<dyn std::error::Error>>>()?;
    let start = std::time::Instant::now();
    let count = samples.len();
    for verdict in grader.grade_all(samples) {
        let verdict = verdict?;
        let line =
            serde_json::json!({ "base": verdict.base, "plus": verdict.plus, "correct": verdict.correct() });
        println!("{line}");
    }
    eprintln!("{count} samples in {:.1} s", start.elapsed().as_secs_f64());
    Ok(())
}

#[cfg(not(unix))]
fn main() {
    eprintln!("programs are graded on Unix only");
}
