//! The generator draws what it has always drawn.
//!
//! The fixture was written by the program that drew the corpus of the shipped weights: two documents of every
//! family and grade, one on each side of the split, and the first documents of some mixed streams. If this
//! test fails, the random stream or the order of drawing has changed, and held-out problems may no longer be
//! held out.

use eager_acorn::{Corpus, Document, Split};
use serde::Deserialize;

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Drawn {
    Training,
    HeldOut,
    /// The first document of a corpus, family and grade drawn as well.
    Mixed,
}

#[derive(Deserialize)]
struct Recorded {
    seed: u64,
    drawn: Drawn,
    document: Document,
}

#[test]
fn documents_are_as_recorded() {
    let recorded: Vec<Recorded> = serde_json::from_str(include_str!("fixtures/documents.json")).unwrap();
    assert!(recorded.len() >= 48);
    for Recorded { seed, drawn, document } in recorded {
        let drawn = match drawn {
            Drawn::Training => Document::new(document.family, document.grade, Split::Training, seed),
            Drawn::HeldOut => Document::new(document.family, document.grade, Split::HeldOut, seed),
            Drawn::Mixed => Corpus::new(seed).next().unwrap(),
        };
        assert_eq!(drawn, document, "seed {seed}");
    }
}
