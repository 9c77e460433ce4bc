//! Runs side by side: `GET /eager/compare?run=A&run=B`.
//!
//! The tables are those of a report over these runs, so that what is said here and what `eager report` says is the same.
//! Below them stands every problem with what each run made of it. That only makes sense where all were asked the same, so
//! runs of different suites are refused.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use axum::Json;
use axum::extract::{RawQuery, State};
use eager_lab::report::{self, Report};
use eager_lab::run::{Asked, Run, Sample};
use serde_json::{Value, json};

use crate::app::App;
use crate::error::ApiError;
use crate::runs::{Found, describe, right, table, unreadable, with_runs};

/// A table with more columns is not read by anybody.
const MOST: usize = 8;

pub async fn compare(
    State(app): State<Arc<App>>,
    RawQuery(query): RawQuery,
) -> Result<Json<Value>, ApiError> {
    let names = chosen(query.as_deref().unwrap_or_default())?;
    with_runs(&app, move |found| side_by_side(&pick(found, &names)?)).await.map(Json)
}

/// The runs that a query names, each once.
fn chosen(query: &str) -> Result<Vec<String>, ApiError> {
    let mut names: Vec<String> = Vec::new();
    for (key, name) in form_urlencoded::parse(query.as_bytes()) {
        if key == "run" && !names.iter().any(|known| *known == name) {
            names.push(name.into_owned());
        }
    }
    if (2..=MOST).contains(&names.len()) {
        return Ok(names);
    }
    Err(ApiError::bad("run", format!("name between 2 and {MOST} runs: /eager/compare?run=A&run=B")))
}

/// The runs of these names, in the order in which they were asked for.
fn pick(found: Vec<Found>, names: &[String]) -> Result<Vec<Found>, ApiError> {
    let mut found: HashMap<String, Found> = found.into_iter().map(|run| (run.name.clone(), run)).collect();
    let missing = || ApiError::not_found("there is no such run");
    let picked: Vec<Found> =
        names.iter().map(|name| found.remove(name).ok_or_else(missing)).collect::<Result<_, _>>()?;
    let same = picked.windows(2).all(|pair| pair[0].manifest.suite.hash == pair[1].manifest.suite.hash);
    if same {
        return Ok(picked);
    }
    Err(ApiError::bad("run", "these runs are of different suites; only runs of one suite can be compared"))
}

fn side_by_side(found: &[Found]) -> Result<Value, ApiError> {
    let runs: Vec<Run> =
        found.iter().map(|run| Run::read(&run.folder)).collect::<Result<_, _>>().map_err(unreadable)?;
    let report = Report::new(&runs, report::Options::default());
    Ok(json!({
        "suite": found[0].manifest.suite.name,
        "runs": found.iter().map(describe).collect::<Vec<_>>(),
        "headline": report.headline(),
        "warnings": report.warnings(),
        "tables": report.tables().iter().map(table).collect::<Vec<_>>(),
        "problems": problems(&runs),
    }))
}

/// Every problem, with what each run made of it; null where a run has not come to it.
fn problems(runs: &[Run]) -> Vec<Value> {
    let by_id = |run: &'_ Run| -> HashMap<String, Value> {
        run.samples.iter().map(|sample| (sample.id.clone(), outcome(sample))).collect()
    };
    let made: Vec<_> = runs.iter().map(by_id).collect();
    // In the suite's order, where it may be written down; a run's samples are in the order in which they ended.
    let asked: HashMap<&str, &Asked> =
        runs.iter().flat_map(|run| &run.problems).map(|asked| (asked.id.as_str(), asked)).collect();
    let suite = runs.iter().flat_map(|run| &run.problems).map(|asked| &asked.id);
    let ids = suite.chain(runs.iter().flat_map(|run| &run.samples).map(|sample| &sample.id));
    let mut told = HashSet::new();
    let line = |id: &String| {
        let asked = asked.get(id.as_str());
        json!({
            "id": id,
            "problem": asked.map(|asked| &asked.problem),
            "gold": asked.and_then(|asked| asked.gold.as_ref()),
            "runs": made.iter().map(|run| run.get(id)).collect::<Vec<_>>(),
        })
    };
    ids.filter(|&id| told.insert(id)).map(line).collect()
}

fn outcome(sample: &Sample) -> Value {
    json!({"sequences": sample.sequences.len(), "right": right(sample), "tokens": sample.tokens_generated})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_names_two_runs_or_a_few_more() {
        let many: String = (0..9).map(|i| format!("run={i}&")).collect();
        let table: [(&str, Option<&[&str]>); 8] = [
            ("run=a&run=b", Some(&["a", "b"])),
            ("run=b&other=1&run=a&run=b", Some(&["b", "a"])),
            ("run=a%2Fb+c&run=%CE%B8", Some(&["a/b c", "θ"])),
            ("run=a", None),
            ("run=a&run=a", None),
            ("", None),
            ("&&=&run", None),
            (&many, None),
        ];
        for (query, names) in table {
            let expected = names.map(|names| names.iter().map(|&name| name.to_owned()).collect());
            assert_eq!(chosen(query).ok(), expected, "{query}");
        }
    }
}
