//! `/eager/grow`: the tree as it grows is the tree that has grown.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::service::{HARD, Service, chat, contents};

#[derive(Debug, Default)]
struct Branch {
    parent: Option<u64>,
    at: usize,
    text: Vec<String>,
    entropy: Vec<f64>,
    forced: Vec<u64>,
    finish: Option<Value>,
}

fn strings(value: &Value) -> Vec<String> {
    serde_json::from_value(value.clone()).unwrap()
}

/// Builds the tree from its events, as the page does.
fn build(events: &[(String, Value)]) -> BTreeMap<u64, Branch> {
    let mut tree: BTreeMap<u64, Branch> = BTreeMap::new();
    for (name, data) in events {
        let id = data["branch"].as_u64().unwrap_or(u64::MAX);
        match name.as_str() {
            "root" => assert!(tree.insert(id, Branch::default()).is_none()),
            "fork" => {
                let at = data["at"].as_u64().unwrap() as usize;
                let parent = data["parent"].as_u64();
                let branch = Branch { parent, at, ..Branch::default() };
                assert!(tree.insert(id, branch).is_none());
                let candidates = data["candidates"].as_array().unwrap();
                assert_eq!(
                    (candidates[0]["branch"].as_u64(), &candidates[1]["branch"]),
                    (parent, &data["branch"])
                );
                assert!(candidates.iter().all(|c| (0.0..=1.0).contains(&c["p"].as_f64().unwrap())));
            }
            "tokens" => {
                let branch = tree.get_mut(&id).unwrap();
                assert_eq!(
                    data["at"].as_u64().unwrap() as usize,
                    branch.at + branch.text.len(),
                    "none is missing"
                );
                branch.text.extend(strings(&data["text"]));
                branch.entropy.extend(serde_json::from_value::<Vec<f64>>(data["entropy"].clone()).unwrap());
                branch.forced.extend(serde_json::from_value::<Vec<u64>>(data["forced"].clone()).unwrap());
                assert_eq!(branch.text.len(), branch.entropy.len());
            }
            "finish" => assert!(tree.get_mut(&id).unwrap().finish.replace(data.clone()).is_none()),
            _ => {}
        }
    }
    tree
}

/// A branch's whole text, its parent's part included.
fn whole(tree: &BTreeMap<u64, Branch>, id: u64) -> String {
    let mut text: Vec<String> = Vec::new();
    let (mut at, mut end) = (Some(id), usize::MAX);
    while let Some(branch) = at.map(|at| &tree[&at]) {
        let own = branch.text.len().min(end.saturating_sub(branch.at));
        text.splice(0..0, branch.text[..own].iter().cloned());
        (at, end) = (branch.parent, branch.at);
    }
    text.concat()
}

#[tokio::test]
async fn a_growing_tree_becomes_the_grown_one() {
    let service = Service::start();
    for eager in [
        json!({}),
        json!({"method": "full-parallel"}),
        json!({"method": "eager-adapt", "theta": 0.6}),
        json!({"method": "esc"}),
    ] {
        let answer = service.chat(json!({"n": 8, "eager": eager})).await;
        let events = service.events("/eager/grow", &chat(HARD, json!({"n": 8, "eager": eager}))).await;
        assert_eq!(events[0].0, "start");
        assert_eq!(events[0].1["cap"], 8);
        let tree = build(&events);
        let texts: Vec<String> = tree.keys().map(|&id| whole(&tree, id)).collect();
        assert_eq!(texts, contents(&answer), "{eager}");
        let told = &answer["eager"];
        for (branch, choice) in tree.values().zip(told["choices"].as_array().unwrap()) {
            assert_eq!(branch.at as u64, choice["fork_at"]);
            assert_eq!(json!(branch.parent), choice["parent"]);
            let finish = branch.finish.as_ref().unwrap();
            assert_eq!(finish["finish"], choice["finish"]);
            assert_eq!(finish["answer"].is_null(), choice["answer"].is_null());
            if let Some(parent) = branch.parent {
                assert_eq!(
                    branch.forced.first(),
                    Some(&(branch.at as u64)),
                    "a branch begins with a forced token"
                );
                assert!(tree.contains_key(&parent));
            }
        }
        let (name, end) = events.last().unwrap();
        assert_eq!(name, "end");
        for (ours, theirs) in [
            ("decoded", "tokens_decoded"),
            ("full_parallel", "tokens_full_parallel"),
            ("apart", "tokens_apart"),
            ("full_samples", "tokens_full_samples"),
            ("shared", "shared"),
            ("saved", "saved"),
            ("forks", "forks"),
        ] {
            assert_eq!(end[ours], told[theirs], "{eager}");
        }
        let votes = events.iter().rfind(|(name, _)| name == "votes").unwrap();
        let counted: Vec<_> =
            votes.1["votes"].as_array().unwrap().iter().map(|v| (&v["answer"], &v["count"])).collect();
        let expected: Vec<_> =
            told["votes"][0].as_array().unwrap().iter().map(|v| (&v["answer"], &v["count"])).collect();
        assert_eq!(counted, expected);
        let decoded: usize = tree.values().map(|branch| branch.text.len()).sum();
        assert_eq!(end["decoded"], decoded, "every decoded token was told once");
    }
}
