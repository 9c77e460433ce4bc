//! Models split over several GGUF files.

use std::path::{Path, PathBuf};

use tempfile::TempDir;

use super::gguf_writer::{Writer, tiny};
use eager_native::load::Checkpoint;

/// A model in three parts, the first with all the metadata and no tensors, as `llama-gguf-split` can write it.
fn parts() -> [Writer; 3] {
    let whole = tiny("llama")
        .tensor("rope_freqs.weight", &[1])
        .change("rope_freqs.weight", |t| t.data = 2f32.to_le_bytes().into());
    let total = whole.tensors.len() as u32;
    let split = |number: u32, tensors: &[usize]| {
        let mut part = if number == 0 { whole.clone() } else { Writer::new() };
        part.tensors = tensors.iter().map(|&at| whole.tensors[at].clone()).collect();
        part.u32("split.no", number).u32("split.count", 3).u32("split.tensors.count", total)
    };
    let all: Vec<usize> = (0..total as usize).collect();
    [split(0, &[]), split(1, &all[..5]), split(2, &all[5..])]
}

fn name(at: usize) -> String {
    format!("tree-{:05}-of-00003.gguf", at + 1)
}

fn write(parts: &[Writer]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (at, part) in parts.iter().enumerate() {
        std::fs::write(folder.path().join(name(at)), part.bytes()).unwrap();
    }
    folder
}

#[track_caller]
fn refused(path: PathBuf, expected: &[&str]) {
    let message = Checkpoint::open(&path).unwrap_err().to_string();
    for part in expected {
        assert!(message.contains(part), "{message:?} lacks {part:?}");
    }
}

#[test]
fn any_part_opens_the_whole_model() {
    let folder = write(&parts());
    let whole = Checkpoint::from_gguf_bytes(tiny("llama").leak()).unwrap();
    for at in 0..3 {
        let split = Checkpoint::open(&folder.path().join(name(at))).unwrap();
        assert_eq!(split.parameters(), whole.parameters());
        for tensor in ["token_embd.weight", "blk.0.attn_norm.weight", "blk.0.ffn_down.weight"] {
            assert_eq!(split.tensor(tensor).unwrap().data, whole.tensor(tensor).unwrap().data, "{tensor}");
        }
        assert_eq!(
            split.config.rope_factors,
            Some(vec![2.0]),
            "a tensor that is configuration, in a later part"
        );
    }
    let unnamed: Vec<Writer> = parts().map(|part| part.without("general.name")).into();
    assert_eq!(Checkpoint::open(&write(&unnamed).path().join(name(1))).unwrap().name, "tree");
}

#[test]
fn parts_that_do_not_belong_together_are_told_apart() {
    let at = |folder: &TempDir, at: usize| folder.path().join(name(at));
    let missing = write(&parts());
    std::fs::remove_file(at(&missing, 2)).unwrap();
    refused(at(&missing, 0), &["tree-00003-of-00003.gguf is missing", "download all parts"]);

    let renamed = write(&parts());
    std::fs::rename(at(&renamed, 0), renamed.path().join("tree.gguf")).unwrap();
    refused(renamed.path().join("tree.gguf"), &["its name does not tell"]);

    let [first, second, third] = parts();
    let swapped = write(&[first.clone(), third.clone(), second.clone()]);
    refused(at(&swapped, 0), &["tree-00002-of-00003.gguf", "part 3 of 3", "its place is 2 of 3"]);

    let mut again = third.clone();
    again.tensors.push(second.tensors[0].clone());
    let twice = write(&[first.clone(), second.clone(), again]);
    refused(at(&twice, 0), &["tree-00003-of-00003.gguf", "\"token_embd.weight\" is in another part"]);

    let mut fewer = third.clone();
    fewer.tensors.pop();
    refused(at(&write(&[first.clone(), second.clone(), fewer]), 0), &["tensors, but it speaks of"]);

    let folder = write(&[first, second]);
    std::fs::write(at(&folder, 2), &third.bytes()[..200]).unwrap();
    refused(at(&folder, 0), &["tree-00003-of-00003.gguf", "ends"]);
    refused(Path::new("/nowhere/tree-00001-of-00003.gguf").into(), &["/nowhere"]);
}
