//! llama-server.

use std::path::PathBuf;
use std::sync::Arc;

use eager_core::{Method, Prompt, Sampling, Settings, Tree};
use eager_native::load::Checkpoint;
use eager_remote::{Check, Options, Verdict};

use crate::agreement::{Pair, embedded, grow, plan};
use crate::server::{Live, acorn, connect};

/// Where llama.cpp rounds activations to 8 bits and the embedded engine to 16, log-probabilities differ by up to this.
const ROUNDING: f32 = 0.1;

/// Has a check made on acorn, by a server with four slots, if there is one.
fn on_acorn(check: impl FnOnce(&Pair)) {
    let file = acorn("acorn-q8_0.gguf");
    let Some(live) = Live::llama_server(&file, 4) else { return };
    let checkpoint = Checkpoint::open(&file).unwrap();
    check(&Pair { url: live.url.clone(), checkpoint, rounding: ROUNDING });
}

#[test]
fn greedy_text_is_that_of_the_embedded_engine() {
    on_acorn(Pair::greedy_text_is_the_same);
}

#[test]
fn forks_are_where_the_embedded_engine_forks() {
    on_acorn(Pair::forks_are_at_the_same_places);
}

#[test]
fn every_method_finishes() {
    on_acorn(Pair::every_method_finishes);
}

/// A server that saves slots copies them at forks: the trees are the same, and next to nothing is computed again.
#[test]
fn forks_copy_their_slots() {
    let (file, folder) = (acorn("acorn-q8_0.gguf"), tempfile::tempdir().unwrap());
    let Some(live) = Live::saving_llama_server(&file, 8, folder.path()) else { return };
    let checkpoint = Checkpoint::open(&file).unwrap();
    let pair = Pair { url: live.url.clone(), checkpoint, rounding: ROUNDING };
    pair.forks_are_at_the_same_places();

    let check = Check::of(&live.url, &Options::default()).unwrap();
    let verdicts: Vec<_> = check.findings.iter().map(|finding| (finding.about, finding.verdict)).collect();
    eprintln!("{:#?}", check.findings);
    let all = ["token ids", "candidates", "streaming", "forks", "stopping", "words"];
    assert_eq!(verdicts, all.map(|about| (about, Verdict::Good)));
    assert!(std::fs::read_dir(&folder).unwrap().count() > 0, "nothing was saved");
}

/// Without that, a fork is computed from its beginning, and the check says what to do.
#[test]
fn the_check_names_the_flag_that_is_missing() {
    on_acorn(|Pair { url, .. }| {
        let check = Check::of(url, &Options::default()).unwrap();
        let forks = check.findings.iter().find(|finding| finding.about == "forks").unwrap();
        assert_eq!(forks.verdict, Verdict::Poor, "{forks:?}");
        assert!(forks.remedy.as_ref().unwrap().contains("--slot-save-path"));
        assert!(check.is_usable());
    });
}

/// So hot that acorn writes bytes at random: many a token is half a character, which the server does not report.
#[test]
fn tokens_within_a_character_are_found() {
    on_acorn(Pair::tokens_within_a_character_come_through);
}

/// A model whose vocabulary has pieces of characters: what the server does not report is found out, and is what the
/// embedded engine decodes.
#[test]
fn pictures_come_through_whole() {
    let Some(file) = std::env::var_os("EAGER_TEST_SMOLLM2").map(PathBuf::from) else {
        eprintln!("skipped: EAGER_TEST_SMOLLM2 names no model");
        return;
    };
    let Some(live) = Live::llama_server(&file, 2) else { return };
    let checkpoint = Checkpoint::open(&file).unwrap();
    let pair = Pair { url: live.url.clone(), checkpoint, rounding: ROUNDING };
    let checkpoint = &pair.checkpoint;
    let settings = Arc::new(Settings {
        sampling: Sampling { temperature: 0.0, ..Sampling::default() },
        max_tokens: 48,
        stop: checkpoint.config.stop_tokens.clone(),
        ..Settings::default()
    });
    let prompt = |(key, text): (u64, &str)| {
        let tokens = checkpoint.encode_prompt(text).unwrap().into();
        Prompt { tokens, settings: Arc::clone(&settings), key, answers: None }
    };
    let texts = [
        "\u{1f600}\u{1f601}\u{1f600}\u{1f601}\u{1f600}\u{1f601}",
        "\u{4f60}\u{597d}\u{ff0c}\u{4f60}\u{597d}\u{ff0c}\u{4f60}",
    ];
    let prompts: Vec<Prompt> = (0..).zip(texts).map(prompt).collect();
    let ours = grow(&mut embedded(checkpoint), Method::FullParallel, &plan(1), &prompts);
    let mut engine = connect(&pair.url);
    let theirs = grow(&mut engine, Method::FullParallel, &plan(1), &prompts);
    for (ours, theirs) in ours.iter().zip(&theirs) {
        eprintln!("{:?}", checkpoint.tokenizer.decode(&theirs.sequences()[0].tokens));
        eprintln!("{:?}", checkpoint.tokenizer.decode(&ours.sequences()[0].tokens));
        assert!(pair.same_but_for_ties(ours, theirs));
    }
    let tokens = theirs.iter().map(Tree::tokens_generated).sum::<usize>();
    assert_eq!((engine.traffic().tally().received, engine.traffic().tally().retries), (tokens, 0));
}
