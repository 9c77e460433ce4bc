//! Every number can be computed again from `samples.jsonl`: by a reader that is as plain as can be, with the same result.

use std::collections::{HashMap, HashSet};

use eager_core::Finish;
use eager_lab::bench::metrics;
use eager_lab::run::{Sample, SampleSequence};
use proptest::prelude::*;
use serde_json::Value;

fn sequence() -> impl Strategy<Value = SampleSequence> {
    let answer = prop::option::of(prop::sample::select(vec!["7", "8", "9"]));
    let weight = prop::option::of(prop::sample::select(vec![0.5f32, 1.0, 2.0]));
    (answer, 0usize..6, weight).prop_map(|(answer, tokens, weight)| SampleSequence {
        tokens: (0..tokens).map(|i| u32::from(i > 1 && answer == Some("7"))).collect(),
        // An impossible token that a method forced.
        logprobs: (0..tokens).map(|i| if i == 4 { f32::NEG_INFINITY } else { -0.5 }).collect(),
        entropy: vec![0.25; tokens],
        parent: None,
        fork_at: 0,
        forced: Vec::new(),
        finish: Some(Finish::Stop),
        text: String::new(),
        answer: answer.map(str::to_owned),
        correct: Some(answer == Some("7")),
        score: None,
        weight,
    })
}

fn sample() -> impl Strategy<Value = Sample> {
    (prop::collection::vec(sequence(), 1..7), 0.0..9.0f64).prop_map(|(sequences, seconds)| Sample {
        id: "p".to_owned(),
        prompt_tokens: 3,
        tokens_generated: sequences.iter().map(|s| s.tokens.len()).sum(),
        sequences_total: sequences.len(),
        saturated: false,
        seconds,
        granted: None,
        sequences,
    })
}

/// The metrics by their definitions, from the text of the lines alone.
fn slowly(lines: &[String]) -> [f64; 8] {
    let [mut pass, mut cons, mut rate, mut sequences, mut tokens, mut distinct, mut ties, mut seconds] =
        [0.0; 8];
    for line in lines {
        let line: Value = serde_json::from_str(line).unwrap();
        let all = line["sequences"].as_array().unwrap();
        let right = all.iter().filter(|s| s["correct"] == true).count() as f64;
        pass += f64::from(right > 0.0);
        rate += right / all.len() as f64;
        sequences += all.len() as f64;
        tokens += all.iter().map(|s| s["tokens"].as_array().unwrap().len()).sum::<usize>() as f64;
        let mut prefixes = HashSet::new();
        for sequence in all {
            let path: Vec<u64> =
                sequence["tokens"].as_array().unwrap().iter().map(|t| t.as_u64().unwrap()).collect();
            prefixes.extend((1..=path.len()).map(|end| path[..end].to_vec()));
        }
        distinct += prefixes.len() as f64;
        seconds += line["seconds"].as_f64().unwrap();
        let mut votes: HashMap<&str, f64> = HashMap::new();
        for sequence in all {
            if let Some(answer) = sequence["answer"].as_str() {
                *votes.entry(answer).or_default() += sequence["weight"].as_f64().unwrap_or(1.0);
            }
        }
        let most = votes.values().copied().fold(0.0, f64::max);
        ties += f64::from(votes.values().filter(|&&weight| weight == most).count() > 1);
        // The first that was given among the heaviest.
        let winner = all.iter().find(|s| s["answer"].as_str().is_some_and(|a| votes[a] == most));
        cons += f64::from(winner.is_some_and(|s| s["correct"] == true));
    }
    let n = lines.len().max(1) as f64;
    [pass / n, cons / n, rate / n, sequences, tokens, distinct, ties, seconds]
}

proptest! {
    #[test]
    fn metrics_are_what_their_definitions_say(samples in prop::collection::vec(sample(), 0..12)) {
        let lines: Vec<String> = samples.iter().map(|s| serde_json::to_string(s).unwrap()).collect();
        let read: Vec<Sample> = lines.iter().map(|line| serde_json::from_str(line).unwrap()).collect();
        prop_assert_eq!(&read, &samples);
        let fast = metrics(&read);
        let counts = [fast.sequences, fast.tokens, fast.tokens_distinct, fast.ties].map(|n| n as f64);
        let fast = [&[fast.pass_at_k, fast.cons_at_k, fast.pass_rate], &counts[..], &[fast.seconds]].concat();
        for (fast, slow) in fast.into_iter().zip(slowly(&lines)) {
            prop_assert!((fast - slow).abs() < 1e-9, "{} is not {}", fast, slow);
        }
    }
}
