//! Finished runs, for the page: `--runs DIR` shows what lies there.
//!
//! A run is named by its place below the folder. Names that clients send are only ever compared with the names of runs that
//! were found; no path is made of them, so nothing outside the folder can be asked for. Links that lead out of it are not
//! followed.
//!
//! - `GET /eager/runs`: all runs with what was asked and what came out.
//! - `GET /eager/runs/{run}`: one run: `manifest`, `metrics`, `headline`, `tables` and its problems.
//! - `GET /eager/runs/{run}/report`: the same as the report's own page.
//! - `GET /eager/runs/{run}/problems/{id}`: one problem's tree, in the words of [`crate::grow`]: `branches`, `forks`,
//!   `votes`, `end`.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use axum::Json;
use axum::extract::{Path as Parameters, State};
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use eager_core::{Finish, Token};
use eager_lab::report::{self, Report, Table};
use eager_lab::run::{Asked, Manifest, Run, Sample, SampleSequence, lines, read_manifest};
use serde::Serialize;
use serde_json::{Value, json};

use crate::app::App;
use crate::error::ApiError;
use crate::grow::{Ballot, Fork, Sum, Way, count_votes};
use crate::leaf::{finish_words, plain};
use crate::model::Speech;
use crate::voice::Voice;

/// How deep runs may lie below the folder.
const DEPTH: usize = 4;
/// More are not listed.
const MOST: usize = 2000;

/// A run's place.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) name: String,
    pub(crate) folder: PathBuf,
    pub(crate) manifest: Manifest,
}

/// All runs below a folder, in order of their names. What cannot be read is no run.
fn find(root: &Path) -> Vec<Found> {
    let mut found = Vec::new();
    let Ok(root) = root.canonicalize() else { return found };
    search(&root, &root, DEPTH, &mut found);
    found.sort_by(|a, b| a.name.cmp(&b.name));
    found
}

fn search(root: &Path, folder: &Path, depth: usize, found: &mut Vec<Found>) {
    if found.len() >= MOST {
        return;
    }
    if let Ok(Some(manifest)) = read_manifest(folder) {
        // Where the folder is itself a run, it has its own name: "." would not survive in an address.
        let place = folder.strip_prefix(root).ok().filter(|place| *place != Path::new(""));
        let name =
            place.or(folder.file_name().map(Path::new)).unwrap_or(folder).to_string_lossy().into_owned();
        found.push(Found { name, folder: folder.to_owned(), manifest });
        return;
    }
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    // The type of an entry is that of the link where it is one, so links are left alone.
    let below = entries.flatten().filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    if depth > 0 {
        below.for_each(|entry| search(root, &entry.path(), depth - 1, found));
    }
}

/// Looks for runs on a thread that may wait for the disk, and does something with what there is.
pub(crate) async fn with_runs<T: Send + 'static>(
    app: &App,
    what: impl FnOnce(Vec<Found>) -> Result<T, ApiError> + Send + 'static,
) -> Result<T, ApiError> {
    let root = app.options.runs.clone();
    let root =
        root.ok_or_else(|| ApiError::not_found("this server shows no runs; start it with --runs DIR"))?;
    let done = tokio::task::spawn_blocking(move || what(find(&root))).await;
    done.map_err(|_| ApiError::internal("the runs could not be read"))?
}

async fn with_run<T: Send + 'static>(
    app: &App,
    name: String,
    what: impl FnOnce(Found) -> Result<T, ApiError> + Send + 'static,
) -> Result<T, ApiError> {
    let pick = move |found: Vec<Found>| {
        let run = found.into_iter().find(|run| run.name == name);
        run.ok_or_else(|| ApiError::not_found("there is no such run")).and_then(what)
    };
    with_runs(app, pick).await
}

pub(crate) fn unreadable(error: impl std::fmt::Display) -> ApiError {
    // Paths of this machine are none of the client's business.
    tracing::warn!(%error, "a run cannot be read");
    ApiError::internal("the run cannot be read; the log says why")
}

/// What came out, as the run itself has written it.
fn metrics(folder: &Path) -> Value {
    let text = std::fs::read(folder.join("metrics.json")).unwrap_or_default();
    serde_json::from_slice(&text).unwrap_or(Value::Null)
}

/// What was asked of a run and what came out, in a list of runs.
pub(crate) fn describe(run: &Found) -> Value {
    json!({
        "name": run.name,
        "model": run.manifest.model.name,
        "suite": run.manifest.suite.name,
        "suite_hash": run.manifest.suite.hash,
        "problems": run.manifest.suite.problems,
        "method": run.manifest.method,
        "theta": run.manifest.parameters.theta.map(plain),
        "max_sequences": run.manifest.parameters.max_sequences,
        "seed": run.manifest.seed,
        "metrics": metrics(&run.folder),
    })
}

pub async fn list(State(app): State<Arc<App>>) -> Result<Json<Value>, ApiError> {
    let all = move |found: Vec<Found>| Ok(found.iter().map(describe).collect::<Vec<_>>());
    with_runs(&app, all).await.map(|runs| Json(json!({"runs": runs})))
}

pub async fn run(
    State(app): State<Arc<App>>,
    Parameters(name): Parameters<String>,
) -> Result<Json<Value>, ApiError> {
    with_run(&app, name, |found| {
        let runs = [Run::read(&found.folder).map_err(unreadable)?];
        let report = Report::new(&runs, report::Options::default());
        let [run] = &runs;
        // Where the run has its folder is none of the client's business, nor is where the model lies.
        let mut manifest = json!(run.manifest);
        manifest["model"]["path"] = Value::Null;
        Ok(Json(json!({
            "name": found.name,
            "manifest": manifest,
            "metrics": metrics(&found.folder),
            "headline": report.headline(),
            "warnings": report.warnings(),
            "tables": report.tables().iter().map(table).collect::<Vec<_>>(),
            "problems": run.samples.iter().map(|sample| line(sample, &run.problems)).collect::<Vec<_>>(),
        })))
    })
    .await
}

/// A table as it is drawn.
pub(crate) fn table(table: &Table) -> Value {
    let row = |row: &report::Row| match &row.heading {
        Some(heading) => json!({"heading": heading}),
        None => {
            let entry = |entry: &report::Entry| json!({"text": entry.text, "interval": entry.interval, "value": entry.value, "best": entry.best});
            json!({"entries": row.entries.iter().map(entry).collect::<Vec<_>>()})
        }
    };
    let column = |column: &report::Column| json!({"name": column.name, "meaning": column.meaning, "words": column.words});
    json!({
        "title": table.title,
        "note": table.note,
        "columns": table.columns.iter().map(column).collect::<Vec<_>>(),
        "rows": table.rows.iter().map(row).collect::<Vec<_>>(),
    })
}

/// How many of a problem's sequences are right.
pub(crate) fn right(sample: &Sample) -> usize {
    sample.sequences.iter().filter(|s| s.correct == Some(true)).count()
}

/// A problem in the list of a run.
fn line(sample: &Sample, problems: &[Asked]) -> Value {
    let asked = problems.iter().find(|asked| asked.id == sample.id);
    let votes = votes(sample);
    json!({
        "id": sample.id,
        "problem": asked.map(|asked| &asked.problem),
        "gold": asked.and_then(|asked| asked.gold.as_ref()),
        "sequences": sample.sequences.len(),
        "right": right(sample),
        "tokens": sample.tokens_generated,
        "answer": votes.first().map(|votes| &votes.answer),
        "tied": votes.first().is_some_and(|votes| votes.tied),
        "saturated": sample.saturated,
    })
}

pub async fn report(
    State(app): State<Arc<App>>,
    Parameters(name): Parameters<String>,
) -> Result<Response, ApiError> {
    let html = with_run(&app, name, |found| {
        let runs = [Run::read(&found.folder).map_err(unreadable)?];
        Ok(Report::new(&runs, report::Options::default()).html())
    });
    let mut response = html.await?.into_response();
    // The report is one page with everything inside it, and needs nothing from anywhere.
    let policy = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:; \
                  base-uri 'none'; form-action 'none'; frame-ancestors 'none'; sandbox allow-scripts";
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
    headers.insert("content-security-policy", HeaderValue::from_static(policy));
    Ok(response)
}

pub async fn problem(
    State(app): State<Arc<App>>,
    Parameters((name, id)): Parameters<(String, String)>,
) -> Result<Response, ApiError> {
    let words = Arc::clone(&app.model.words);
    with_run(&app, name, move |found| {
        let missing = || ApiError::not_found("the run has no such problem");
        let mut samples = lines::<Sample>(&found.folder.join("samples.jsonl")).map_err(unreadable)?;
        let sample = loop {
            let sample = samples.next().ok_or_else(missing)?.map_err(unreadable)?;
            if sample.id == id {
                break sample;
            }
        };
        let problems = lines::<Asked>(&found.folder.join("problems.jsonl")).map_err(unreadable)?;
        let asked = problems.filter_map(Result::ok).find(|asked| asked.id == id);
        let kind = [(header::CONTENT_TYPE, "application/json")];
        Ok((kind, tree(&found, &sample, asked.as_ref(), &words)).into_response())
    })
    .await
}

/// A branch of a finished tree: what `tokens` and `finish` tell of a growing one.
#[derive(Debug, Serialize)]
struct Branch<'a> {
    branch: usize,
    parent: Option<usize>,
    at: usize,
    /// One for each token; `None` where this server's model is not the run's, so that it cannot tell.
    text: Option<Vec<String>>,
    /// All that the branch says by itself, in one piece.
    own_text: String,
    entropy: &'a [f32],
    p: Vec<f32>,
    forced: &'a [usize],
    finish: &'static str,
    answer: Option<&'a str>,
    correct: Option<bool>,
}

fn tree(found: &Found, sample: &Sample, asked: Option<&Asked>, words: &Arc<dyn Speech>) -> String {
    let spelled = Spelled::new(sample, words);
    let branches: Vec<Branch> =
        (0..sample.sequences.len()).map(|index| branch(sample, index, spelled.as_ref())).collect();
    let forks: Vec<Fork> =
        (0..sample.sequences.len()).filter_map(|index| fork(sample, index, spelled.as_ref())).collect();
    let votes = votes(sample);
    let apart = sample.sequences.iter().map(|s| s.fork_at + s.tokens.len()).sum();
    let cap = found.manifest.parameters.max_sequences;
    let end = Sum {
        forks: forks.len(),
        answer: votes.first().map(|votes| votes.answer.clone()),
        seconds: sample.seconds,
        ..Sum::new(sample.tokens_generated, apart, sample.sequences.len(), cap)
    };
    let manifest = &found.manifest;
    let shown = Shown {
        run: &found.name,
        id: &sample.id,
        model: &manifest.model.name,
        method: &manifest.method,
        theta: manifest.parameters.theta,
        cap: manifest.parameters.max_sequences,
        prompt_tokens: sample.prompt_tokens,
        problem: asked.map(|asked| asked.problem.as_str()),
        gold: asked.and_then(|asked| asked.gold.as_deref()),
        branches,
        forks,
        votes,
        end,
    };
    // Written at once, not by way of a JSON value, which would make doubles of all floats and write them at twice the length.
    serde_json::to_string(&shown).unwrap_or_default()
}

/// A finished tree.
#[derive(Debug, Serialize)]
struct Shown<'a> {
    run: &'a str,
    id: &'a str,
    model: &'a str,
    method: &'a str,
    theta: Option<f32>,
    cap: usize,
    prompt_tokens: usize,
    problem: Option<&'a str>,
    gold: Option<&'a str>,
    branches: Vec<Branch<'a>>,
    forks: Vec<Fork>,
    votes: Vec<Ballot>,
    end: Sum,
}

fn votes(sample: &Sample) -> Vec<Ballot> {
    let ballot = |(index, sequence): (usize, &SampleSequence)| {
        let answer = sequence.answer.clone().filter(|_| sequence.finish != Some(Finish::Halted));
        (index, answer, sequence.weight.unwrap_or(1.0))
    };
    let ballots: Vec<_> = sample.sequences.iter().enumerate().map(ballot).collect();
    count_votes(ballots.iter().map(|(index, answer, weight)| (*index, answer.as_deref(), *weight)))
}

/// The text of every own token of every branch.
struct Spelled(Vec<Vec<String>>);

impl Spelled {
    /// Spells all tokens with this server's words; `None` where they do not say what the run has written down, for then it
    /// was another model's.
    fn new(sample: &Sample, words: &Arc<dyn Speech>) -> Option<Self> {
        let spell = |index: usize| {
            let sequence = &sample.sequences[index];
            let path: Vec<Token> = sample.path(index, |s| &s.tokens);
            if words.decode(&path) != sequence.text {
                return None;
            }
            let mut voice = Voice::new(Arc::clone(words), Arc::from([]), 0);
            let pieces = path.iter().map(|&token| voice.push(token).to_owned());
            Some(pieces.collect::<Vec<_>>().split_off(sequence.fork_at.min(path.len())))
        };
        (0..sample.sequences.len()).map(spell).collect::<Option<Vec<_>>>().map(Spelled)
    }

    fn token(&self, sample: &Sample, mut index: usize, at: usize) -> Option<&str> {
        // A parent comes before its child, or the file was edited.
        while let Some(parent) =
            sample.sequences[index].parent.filter(|&p| p < index && at < sample.sequences[index].fork_at)
        {
            index = parent;
        }
        let own = at.checked_sub(sample.sequences[index].fork_at)?;
        self.0.get(index)?.get(own).map(String::as_str)
    }
}

fn branch<'a>(sample: &'a Sample, index: usize, spelled: Option<&Spelled>) -> Branch<'a> {
    let sequence = &sample.sequences[index];
    let text = spelled.and_then(|spelled| spelled.0.get(index).cloned());
    let own_text = text.as_ref().map_or_else(|| own_text(sample, index), |text| text.concat());
    Branch {
        branch: index,
        parent: sequence.parent,
        at: sequence.fork_at,
        text,
        own_text,
        entropy: &sequence.entropy,
        p: sequence.logprobs.iter().map(|logprob| logprob.exp()).collect(),
        forced: &sequence.forced,
        finish: finish_words(sequence.finish, false).1,
        answer: sequence.answer.as_deref(),
        correct: sequence.correct,
    }
}

/// What a sequence says after its text has parted from its parent's.
fn own_text(sample: &Sample, index: usize) -> String {
    let sequence = &sample.sequences[index];
    let parent = sequence.parent.and_then(|parent| sample.sequences.get(parent));
    let shared = parent.map_or(0, |parent| {
        let same = parent.text.chars().zip(sequence.text.chars()).take_while(|(a, b)| a == b);
        same.map(|(a, _)| a.len_utf8()).sum()
    });
    sequence.text[shared..].to_owned()
}

fn fork(sample: &Sample, index: usize, spelled: Option<&Spelled>) -> Option<Fork> {
    let sequence = &sample.sequences[index];
    let (parent, at) = (sequence.parent.filter(|&parent| parent < index)?, sequence.fork_at);
    let way = |branch: usize| {
        let logprobs: Vec<f32> = sample.path(branch, |s| &s.logprobs);
        let text = spelled.and_then(|spelled| spelled.token(sample, branch, at)).unwrap_or_default();
        Way { branch, text: text.to_owned(), p: logprobs.get(at).map_or(0.0, |logprob| logprob.exp()) }
    };
    let entropy = sequence.entropy.first().copied().unwrap_or(0.0);
    Some(Fork { branch: index, parent, at, entropy, candidates: [way(parent), way(index)] })
}
