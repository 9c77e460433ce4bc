//! Text becomes the tokens that real models were trained on.
//!
//! Ten thousand lines for each vocabulary, cut by us from its tokenizer.json and from its GGUF, and by `tokenizers`,
//! `tiktoken` or `sentencepiece`; `prepare.py` fetches the vocabularies and writes what those say. Every tenth line is also
//! read back, token by token.

use std::path::{Path, PathBuf};

use eager_native::load::Tokenizer;

fn read<T: serde::de::DeserializeOwned>(path: &Path) -> T {
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

/// How many lines this form of the vocabulary cuts otherwise, and the first of them.
fn differences(form: &Path, lines: &[String], expected: &[Vec<u32>]) -> (usize, Option<String>) {
    let tokenizer = Tokenizer::open(form).unwrap();
    let mut found = (0, None);
    for (at, (line, expected)) in lines.iter().zip(expected).enumerate() {
        let ids = tokenizer.encode(line).unwrap();
        if ids != *expected {
            found.0 += 1;
            found.1.get_or_insert_with(|| format!("{line:?}: {ids:?}, not {expected:?}"));
        }
        if at % 10 == 0 {
            let mut stream = tokenizer.stream();
            let said: String = ids.iter().map(|&id| stream.push(id).to_owned()).collect();
            assert_eq!(said + &stream.finish(), tokenizer.decode(&ids), "{}: {line:?}", form.display());
        }
    }
    found
}

#[test]
fn lines_are_cut_as_the_reference_cuts_them() {
    let Some(folder) = std::env::var_os("EAGER_TEST_VOCABULARIES").map(PathBuf::from) else {
        eprintln!(
            "skipped: EAGER_TEST_VOCABULARIES names no folder that tests/vocabularies/prepare.py has made"
        );
        return;
    };
    let mut names: Vec<PathBuf> = folder.read_dir().unwrap().map(|entry| entry.unwrap().path()).collect();
    names.sort();
    assert!(!names.is_empty());
    let mut wrong = Vec::new();
    for vocabulary in names {
        let lines: Vec<String> = read(&vocabulary.join("lines.json"));
        let expected: Vec<Vec<u32>> = read(&vocabulary.join("ids.json"));
        assert_eq!((lines.len(), expected.len()), (10_000, 10_000));
        for form in ["tokenizer.json", "vocab.gguf"].map(|file| vocabulary.join(file)) {
            if !form.is_file() {
                continue;
            }
            let (count, first) = differences(&form, &lines, &expected);
            let name = form.strip_prefix(&folder).unwrap_or(&form).display().to_string();
            // On stderr, so that the log of a run tells which were checked.
            eprintln!("checked {name}: {} of {} lines equal", lines.len() - count, lines.len());
            wrong.extend(first.map(|first| format!("{name}: {count} lines, first {first}")));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn harmony_closes_its_reasoning_with_two_tokens() {
    let Some(folder) = std::env::var_os("EAGER_TEST_VOCABULARIES").map(PathBuf::from) else { return };
    let path = folder.join("gpt-oss/vocab.gguf");
    if !path.is_file() {
        eprintln!("skipped: the vocabulary of gpt-oss is not there");
        return;
    }
    let tokenizer = Tokenizer::open(&path).unwrap();
    // Whatever the model is called: its fine-tunes and its larger brother have the same channels.
    let marker = tokenizer.reasoning_end().unwrap();
    assert_eq!(marker, [200_005, 17_196]);
    let turn = tokenizer.encode("<|end|><|start|>assistant<|channel|>final<|message|>42<|return|>").unwrap();
    assert!(turn.windows(2).any(|pair| pair == marker), "{turn:?}");
}
