//! Runs on disk, shown to the page and nothing beyond them.

use std::path::Path;
use std::sync::Arc;

use eager_core::{Finish, Forking, Method, Outcome, Plan, Prompt, Settings, Tree};
use eager_lab::run::{Asked, FORMAT, Folder, Manifest, ModelInfo, Parameters, Sample, SuiteInfo};
use eager_native::NativeEngine;
use eager_serve::{Model, Options};
use serde_json::Value;

use crate::service::{HARD, Service, acorn};

/// Grows a tree with acorn.
fn tree(engine: &mut NativeEngine, model: &Model, tokens: &[u32]) -> Tree {
    let settings = Settings { max_tokens: 200, stop: model.stop.clone(), ..Settings::default() };
    let prompt = Prompt { tokens: tokens.into(), settings: Arc::new(settings), key: 1, answers: None };
    let plan = Plan::new(3, Forking::new(0.3, 6));
    let mut trees = plan.plant(std::slice::from_ref(&prompt));
    plan.first_pass(engine, Method::EagerInit, &[prompt], &mut trees, &mut ()).unwrap();
    trees.remove(0)
}

/// Writes a run of one problem, as `eager bench` does.
fn write(folder: &Path, id: &str) -> Sample {
    write_of(folder, id, "0")
}

/// The same, of a suite with this hash.
fn write_of(folder: &Path, id: &str, suite: &str) -> Sample {
    let (mut engine, model) = acorn();
    let tokens = model.words.encode(HARD).unwrap();
    let tree = tree(&mut engine, &model, &tokens);
    let graded = Outcome {
        answers: tree.ids().map(|id| Some(format!("{}", id.0 / 2))).collect(),
        correct: vec![false; tree.len()],
        tokens: tree.tokens_generated(),
        ..Outcome::default()
    };
    let manifest = Manifest {
        format: FORMAT,
        version: "0".to_owned(),
        model: ModelInfo {
            name: "acorn".to_owned(),
            hash: "0".to_owned(),
            path: Some("/home/somebody/secret.gguf".to_owned()),
            engine: "native".to_owned(),
        },
        suite: SuiteInfo { name: "test".to_owned(), hash: suite.to_owned(), problems: 1 },
        method: "eager-init".to_owned(),
        parameters: Parameters {
            max_sequences: 6,
            max_tokens: 200,
            temperature: 0.6,
            top_p: 0.95,
            top_k: 0,
            min_p: 0.0,
            theta: Some(0.3),
            entropy_top_k: 20,
            entropy_temperature: None,
            second_pass: None,
            options: Default::default(),
            defaults: Default::default(),
        },
        seed: 3,
        found_theta: None,
    };
    let texts = tree.ids().map(|id| model.words.decode(&tree.path(id))).collect();
    let sample = Sample::new(id.to_owned(), tokens.len(), &tree, &graded, true, texts);
    let asked = Asked { id: id.to_owned(), problem: HARD.to_owned(), gold: Some("68".to_owned()) };
    let mut folder = Folder::open(folder, &manifest, &[asked], false).unwrap();
    folder.append(&sample).unwrap();
    sample
}

async fn json(service: &Service, path: &str) -> Value {
    let response = service.get(path).await;
    assert_eq!(response.status(), 200, "{path}");
    response.json().await.unwrap()
}

#[tokio::test]
async fn a_run_is_shown_in_the_words_of_a_growing_tree() {
    let folder = tempfile::tempdir().unwrap();
    let sample = write(&folder.path().join("suite/eager-init"), "countdown/1");
    let service = Service::with(Options { runs: Some(folder.path().to_owned()), ..Options::default() });
    let list = json(&service, "/eager/runs").await;
    assert_eq!(list["runs"][0]["name"], "suite/eager-init");
    let run = json(&service, "/eager/runs/suite%2Feager-init").await;
    assert_eq!(run["problems"][0]["id"], "countdown/1");
    assert_eq!(run["problems"][0]["sequences"], sample.sequences.len());
    assert!(!run["tables"].as_array().unwrap().is_empty());
    assert!(run["manifest"]["model"]["path"].is_null(), "paths of this machine stay here");
    let tree = json(&service, "/eager/runs/suite%2Feager-init/problems/countdown%2F1").await;
    assert_eq!(tree["problem"], HARD);
    assert_eq!(tree["end"]["decoded"], sample.tokens_generated);
    assert_eq!(tree["forks"].as_array().unwrap().len(), sample.sequences.len() - 1);
    for (branch, sequence) in tree["branches"].as_array().unwrap().iter().zip(&sample.sequences) {
        let text: Vec<String> = serde_json::from_value(branch["text"].clone()).unwrap();
        assert_eq!(text.len(), sequence.tokens.len(), "a text for every token");
        assert!(sequence.text.ends_with(&text.concat()));
        assert_eq!(branch["finish"], if sequence.finish == Some(Finish::Stop) { "stop" } else { "length" });
    }
    for fork in tree["forks"].as_array().unwrap() {
        let [first, second] = [0, 1].map(|way| fork["candidates"][way]["p"].as_f64().unwrap());
        assert!(first >= second && second > 0.0, "{fork}");
        assert_ne!(fork["candidates"][0]["text"], fork["candidates"][1]["text"]);
    }
    let report = service.get("/eager/runs/suite%2Feager-init/report").await;
    assert_eq!(report.headers()["content-type"], "text/html; charset=utf-8");
    assert!(report.text().await.unwrap().contains("countdown/1"));
}

#[tokio::test]
async fn runs_of_one_suite_stand_side_by_side() {
    let folder = tempfile::tempdir().unwrap();
    let sample = write(&folder.path().join("a/b c"), "one");
    write(&folder.path().join("b"), "one");
    // One that has come to another problem.
    write(&folder.path().join("c"), "two");
    write_of(&folder.path().join("other"), "one", "1");
    let service = Service::with(Options { runs: Some(folder.path().to_owned()), ..Options::default() });
    let compared = json(&service, "/eager/compare?run=b&run=a%2Fb%20c&run=c").await;
    let names: Vec<&str> =
        compared["runs"].as_array().unwrap().iter().map(|run| run["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["b", "a/b c", "c"], "in the order in which they were asked for");
    assert!(!compared["tables"].as_array().unwrap().is_empty());
    let made = serde_json::json!({
        "sequences": sample.sequences.len(), "right": 0, "tokens": sample.tokens_generated,
    });
    assert_eq!(
        compared["problems"],
        serde_json::json!([
            {"id": "one", "problem": HARD, "gold": "68", "runs": [made, made, null]},
            {"id": "two", "problem": HARD, "gold": "68", "runs": [null, null, made]},
        ])
    );
    for (query, status, why) in [
        ("?run=b&run=other", 400, "different suites"),
        ("?run=b", 400, "between 2 and"),
        ("", 400, "between 2 and"),
        ("?run=b&run=nowhere", 404, "no such run"),
        ("?run=b&run=..%2Fb", 404, "no such run"),
    ] {
        let response = service.get(&format!("/eager/compare{query}")).await;
        assert_eq!(response.status(), status, "{query}");
        let told: Value = response.json().await.unwrap();
        assert!(told["error"]["message"].as_str().unwrap().contains(why), "{told}");
    }
    assert_eq!(Service::start().get("/eager/compare?run=b&run=c").await.status(), 404);
}

#[tokio::test]
async fn nothing_outside_the_folder_is_shown() {
    let folder = tempfile::tempdir().unwrap();
    let (inside, outside) = (folder.path().join("inside"), folder.path().join("outside"));
    write(&outside.join("run"), "secret");
    write(&inside.join("run"), "shown");
    #[cfg(unix)]
    std::os::unix::fs::symlink(outside.join("run"), inside.join("link")).unwrap();
    let service = Service::with(Options { runs: Some(inside), ..Options::default() });
    let list = json(&service, "/eager/runs").await;
    assert_eq!(list["runs"].as_array().unwrap().len(), 1, "{list}");
    for name in [
        "..%2Foutside%2Frun",
        "link",
        "run%2F..%2F..%2Foutside%2Frun",
        "%2Fetc",
        "..",
        ".",
        "%00",
        "run%2Fproblems",
        "C:%5C",
    ] {
        for path in ["", "/report", "/problems/secret"] {
            let status = service.get(&format!("/eager/runs/{name}{path}")).await.status();
            assert_eq!(status, 404, "{name}{path}");
        }
    }
    assert_eq!(service.get("/eager/runs/run/problems/secret").await.status(), 404);
    assert_eq!(service.get("/eager/runs/run/problems/shown").await.status(), 200);
    assert_eq!(Service::start().get("/eager/runs").await.status(), 404, "a server without --runs shows none");
}

#[tokio::test]
async fn a_folder_that_is_a_run_has_a_name_that_an_address_can_carry() {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("alone");
    write(&run, "only");
    let service = Service::with(Options { runs: Some(run), ..Options::default() });
    let list = json(&service, "/eager/runs").await;
    assert_eq!(list["runs"][0]["name"], "alone");
    assert_eq!(json(&service, "/eager/runs/alone").await["problems"][0]["id"], "only");
}
