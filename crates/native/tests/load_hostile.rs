//! Files from strangers: whatever they claim, loading ends soon, with an error, in little memory.

#[path = "load/gguf_writer.rs"]
mod gguf_writer;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::io::{Seek, SeekFrom, Write};
use std::path::PathBuf;

use eager_native::load::{Checkpoint, LoadError};
use gguf_writer::{ARRAY, STRING, Writer, tiny};
use proptest::prelude::*;
use serde_json::json;

/// The system's allocator, with a count of what this thread holds and of the most it ever held.
struct Counting;

thread_local! {
    static HELD: Cell<isize> = const { Cell::new(0) };
    static PEAK: Cell<isize> = const { Cell::new(0) };
}

fn count(change: isize) {
    HELD.set(HELD.get() + change);
    PEAK.set(PEAK.get().max(HELD.get()));
}

// SAFETY: every call goes unchanged to the system's allocator; counting in constant-initialised thread-locals
// without destructors allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        // SAFETY: the caller's promise, passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count(-(layout.size() as isize));
        // SAFETY: the caller's promise, passed on.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Runs something and tells how much memory it held at most.
fn peak<T>(run: impl FnOnce() -> T) -> (T, usize) {
    let before = HELD.get();
    PEAK.set(before);
    let result = run();
    (result, (PEAK.get() - before) as usize)
}

/// Refused, in one line, without memory to speak of.
#[track_caller]
fn refused_cheaply(what: &str, writer: &Writer) -> LoadError {
    let bytes = writer.leak();
    let (result, held) = peak(|| Checkpoint::from_gguf_bytes(bytes));
    let error = result.expect_err(what);
    assert!(held < 1 << 20, "{what}: held {held} bytes");
    assert!(!error.to_string().contains('\n'), "{what}: {error}");
    error
}

#[test]
fn every_truncation_is_called_that() {
    let whole = tiny("qwen3").leak();
    assert!(Checkpoint::from_gguf_bytes(whole).is_ok());
    for len in 0..whole.len() {
        let error = Checkpoint::from_gguf_bytes(&whole[..len]).unwrap_err();
        assert!(matches!(error, LoadError::Truncated { .. }), "{len}: {error}");
    }
}

#[test]
fn a_truncation_names_what_it_cut() {
    let whole = tiny("qwen3").leak();
    let at = |text: &str| {
        whole.windows(text.len()).position(|bytes| bytes == text.as_bytes()).unwrap() + text.len()
    };
    for (len, expected) in [
        (whole.len() - 1, "its tensor \"blk.0.attn_k_norm.weight\""),
        (at("qwen3.block_count") + 5, "its key \"qwen3.block_count\""),
        (at("tokenizer.ggml.tokens") + 20, "its key \"tokenizer.ggml.tokens\""),
        (at("blk.0.ffn_up.weight") + 5, "the tensor \"blk.0.ffn_up.weight\""),
    ] {
        let error = Checkpoint::from_gguf_bytes(&whole[..len]).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn a_file_that_is_not_what_its_name_says_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let gguf = tiny("llama").bytes();
    let write = |name: &str, bytes: &[u8]| std::fs::write(folder.path().join(name), bytes).unwrap();
    for name in ["config.json", "tokenizer.json"] {
        write(name, &std::fs::read(acorn().join(name)).unwrap());
    }
    write("weights.gguf", &std::fs::read(acorn().join("tokenizer.json")).unwrap());
    write("model.safetensors", &gguf);
    write("empty.gguf", b"");
    write("text.txt", b"hello");
    let mut table = vec![
        ("weights.gguf", "does not start with \"GGUF\""),
        ("model.safetensors", "model.safetensors"),
        ("empty.gguf", "truncated"),
        ("text.txt", "text.txt"),
    ];
    if cfg!(unix) {
        #[cfg(unix)]
        std::os::unix::fs::symlink("round.gguf", folder.path().join("round.gguf")).unwrap();
        table.push(("round.gguf", "round.gguf"));
    }
    for (name, expected) in table {
        let error = Checkpoint::open(&folder.path().join(name)).expect_err(name).to_string();
        assert!(error.contains(expected) && !error.contains('\n'), "{name}: {error}");
    }
}

#[test]
fn huge_counts_allocate_nothing() {
    for huge in [1 << 20, 1 << 40, (1 << 61) + 1, u64::MAX - 7, u64::MAX] {
        refused_cheaply("tensors", &Writer { tensor_count: Some(huge), ..tiny("llama") });
        refused_cheaply("metadata", &Writer { metadata_count: Some(huge), ..tiny("llama") });
        refused_cheaply("a text", &tiny("llama").raw("general.name", STRING, huge.to_le_bytes()));
        for kind in 0..=12 {
            refused_cheaply("a list", &tiny("llama").array("general.tags", kind, huge, []));
            refused_cheaply("tokens", &tiny("llama").array("tokenizer.ggml.tokens", kind, huge, []));
        }
        for at in 0..2 {
            let wide = tiny("llama").change("token_embd.weight", |t| t.shape[at] = huge);
            refused_cheaply("a dimension", &wide);
        }
        let far = tiny("llama").change("output_norm.weight", |t| t.offset = Some(huge & !31));
        refused_cheaply("an offset", &far);
        for key in ["embedding_length", "block_count", "attention.head_count", "attention.head_count_kv"] {
            refused_cheaply(key, &tiny("llama").u64(&format!("llama.{key}"), huge));
        }
        for key in ["attention.key_length", "feed_forward_length"] {
            refused_cheaply(key, &tiny("llama").u64(&format!("llama.{key}"), huge));
        }
        let scaled =
            tiny("llama").u64("llama.attention.key_length", huge).f32("llama.rope.scaling.factor", 2.0);
        refused_cheaply("rope factors", &scaled);
        refused_cheaply("alignment", &tiny("llama").u64("general.alignment", huge));
        refused_cheaply("an end token", &tiny("llama").u64("tokenizer.ggml.eos_token_id", huge));
    }
}

#[test]
fn products_that_overflow_are_noticed() {
    for shape in
        [vec![1 << 32, 1 << 32], vec![1 << 62, 4], vec![u64::MAX, u64::MAX], vec![1 << 21; 4], vec![0, 4]]
    {
        let error =
            refused_cheaply("shape", &tiny("llama").change("token_embd.weight", |t| t.shape = shape.clone()));
        assert!(
            error.to_string().contains("token_embd.weight") || error.to_string().contains("truncated"),
            "{error}"
        );
    }
    for shape in [vec![], vec![1; 5], vec![1; 1000]] {
        let error =
            refused_cheaply("rank", &tiny("llama").change("token_embd.weight", |t| t.shape = shape.clone()));
        assert!(error.to_string().contains("dimensions"), "{error}");
    }
    let ragged = tiny("llama").change("token_embd.weight", |t| t.kind = 8);
    assert!(refused_cheaply("blocks", &ragged).to_string().contains("whole blocks"));
    let skewed = tiny("llama").change("output_norm.weight", |t| t.offset = Some(4));
    assert!(refused_cheaply("alignment", &skewed).to_string().contains("aligned"));
}

#[test]
fn lists_of_lists_have_a_bottom() {
    let mut nest = Vec::new();
    for _ in 0..100_000 {
        nest.extend(ARRAY.to_le_bytes());
        nest.extend(1u64.to_le_bytes());
    }
    let error = refused_cheaply("nesting", &tiny("llama").raw("general.tags", ARRAY, nest));
    assert!(error.to_string().contains("too deeply"), "{error}");
    // Shallow ones are legal, and nobody's business.
    let pair =
        [&ARRAY.to_le_bytes()[..], &1u64.to_le_bytes(), &4u32.to_le_bytes(), &0u64.to_le_bytes()].concat();
    assert!(Checkpoint::from_gguf_bytes(tiny("llama").raw("general.tags", ARRAY, pair).leak()).is_ok());
}

#[test]
fn what_appears_twice_or_is_not_text_is_refused() {
    let twice = refused_cheaply("key", &tiny("llama").twice("llama.block_count"));
    assert!(twice.to_string().contains("llama.block_count"), "{twice}");
    let tensor = refused_cheaply("tensor", &tiny("llama").tensor("output_norm.weight", &[4]));
    assert!(tensor.to_string().contains("output_norm.weight"), "{tensor}");
    let garbled = [&1u64.to_le_bytes()[..], &[0xff]].concat();
    refused_cheaply("token", &tiny("llama").array("tokenizer.ggml.tokens", STRING, 1, &garbled));
    refused_cheaply("model", &tiny("llama").raw("tokenizer.ggml.model", STRING, &garbled));
    refused_cheaply("type", &tiny("llama").raw("general.name", 13, [0]));
}

fn use_everything(checkpoint: &Checkpoint) {
    for (name, rows) in [("token_embd.weight", checkpoint.config.vocab), ("output_norm.weight", 1)] {
        let tensor = checkpoint.tensor(name).unwrap();
        assert_eq!(tensor.rows(), rows);
        assert_eq!(tensor.to_f32().len(), tensor.rows() * tensor.cols());
    }
    let _ = checkpoint.encode_prompt("abc <|end|> <tool> 12");
    let _ = checkpoint.tokenizer.decode(&[0, 3, 7, u32::MAX]);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn damage_anywhere_never_panics(
        llama in any::<bool>(),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
    ) {
        let mut bytes = tiny(if llama { "llama" } else { "qwen3" }).bytes();
        for (at, value) in damage {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        let (result, held) = peak(|| Checkpoint::from_gguf_bytes(bytes.leak()));
        prop_assert!(held < 4 << 20, "held {held} bytes");
        if let Ok(checkpoint) = result {
            use_everything(&checkpoint);
        }
    }

    #[test]
    fn noise_is_not_a_model(noise in prop::collection::vec(any::<u8>(), 0..400)) {
        let header = [&b"GGUF"[..], &3u32.to_le_bytes(), &noise].concat();
        prop_assert!(Checkpoint::from_gguf_bytes(header.leak()).is_err());
        prop_assert!(Checkpoint::from_gguf_bytes(noise.leak()).is_err());
    }
}

fn acorn() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../models/acorn/weights")
}

/// A real header, with a real vocabulary in it.
#[test]
fn damage_to_acorn_never_panics() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("damaged.gguf");
    let original = std::fs::read(acorn().join("acorn-q8_0.gguf")).unwrap();
    std::fs::write(&path, &original).unwrap();
    let header = 20_000u64;
    let config = ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() };
    let overwrite = |at: u64, bytes: &[u8]| {
        let mut file = std::fs::File::options().write(true).open(&path).unwrap();
        file.seek(SeekFrom::Start(at)).unwrap();
        file.write_all(bytes).unwrap();
    };
    proptest!(config, |(at in 8..header, bytes in prop::collection::vec(any::<u8>(), 1..9))| {
        overwrite(at, &bytes);
        let (result, held) = peak(|| Checkpoint::open(&path));
        overwrite(0, &original[..header as usize + 16]);
        prop_assert!(held < 16 << 20, "held {held} bytes");
        // The file behind it is whole again, but the table was read from the damaged one.
        if let Ok(checkpoint) = result {
            use_everything(&checkpoint);
        }
    });
}

#[test]
fn damage_to_the_json_files_never_panics() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["config.json", "tokenizer.json", "tokenizer_config.json", "model.safetensors"] {
        std::fs::copy(acorn().join(name), folder.path().join(name)).unwrap();
    }
    let config = ProptestConfig { cases: 1000, failure_persistence: None, ..ProptestConfig::default() };
    let name = prop_oneof![Just("config.json"), Just("tokenizer.json"), Just("tokenizer_config.json")];
    // Characters that keep the file JSON, more often than not.
    let mark = prop::sample::select(b"0123456789-[]{}\",: aeE.".to_vec());
    let marks = prop::collection::vec(mark, 1..4);
    proptest!(config, |(name in name, at in any::<prop::sample::Index>(), marks in marks)| {
        let original = std::fs::read(acorn().join(name)).unwrap();
        let mut damaged = original.clone();
        let at = at.index(original.len());
        damaged.splice(at..(at + marks.len()).min(original.len()), marks);
        std::fs::write(folder.path().join(name), damaged).unwrap();
        let result = Checkpoint::open(folder.path());
        std::fs::write(folder.path().join(name), original).unwrap();
        if let Ok(checkpoint) = result {
            use_everything(&checkpoint);
        }
    });
}

/// Acorn with parts of its tokenizer replaced.
fn open_with_tokenizer(parts: &[(&str, serde_json::Value)]) -> Result<Checkpoint, LoadError> {
    let folder = tempfile::tempdir().unwrap();
    for name in ["config.json", "tokenizer_config.json", "model.safetensors"] {
        std::fs::copy(acorn().join(name), folder.path().join(name)).unwrap();
    }
    let json = std::fs::read(acorn().join("tokenizer.json")).unwrap();
    let mut json: serde_json::Value = serde_json::from_slice(&json).unwrap();
    for (part, instead) in parts {
        json[*part] = instead.clone();
    }
    std::fs::write(folder.path().join("tokenizer.json"), json.to_string()).unwrap();
    Checkpoint::open(folder.path())
}

/// Tokenizers that make the crate panic: when it is built, when it encodes, when it decodes.
fn provoke() {
    let empty_map = json!({"type": "Precompiled", "precompiled_charsmap": "AAAAAAAA"});
    let token = json!({"id": 0, "content": "abc", "single_word": false, "lstrip": false, "rstrip": false,
        "normalized": true, "special": false});
    let built = open_with_tokenizer(&[("normalizer", empty_map), ("added_tokens", json!([token]))]);
    let error = built.unwrap_err().to_string();
    assert!(error.ends_with("it is damaged"), "{error}");

    let encodes = open_with_tokenizer(&[("pre_tokenizer", json!({"type": "FixedLength", "length": 0}))]);
    let error = encodes.unwrap().tokenizer.encode("abc").unwrap_err().to_string();
    assert!(error.ends_with("it is damaged"), "{error}");

    let strip = json!({"type": "Strip", "content": "1", "start": 0, "stop": 99});
    let decodes = open_with_tokenizer(&[("decoder", strip)]).unwrap();
    let one = decodes.tokenizer.token("1").unwrap();
    assert_eq!(decodes.tokenizer.decode(&[one]), "1");
}

/// The user reads one sentence, not the crate's panic; a panic of the program's own is still told.
#[test]
fn a_damaged_tokenizer_panics_in_silence() {
    const CHILD: &str = "EAGER_TEST_PANIC";
    if std::env::var_os(CHILD).is_some() {
        provoke();
        assert!(std::thread::spawn(|| panic!("our own")).join().is_err());
        return;
    }
    let child = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "a_damaged_tokenizer_panics_in_silence", "--nocapture"])
        .env(CHILD, "1")
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&child.stderr);
    assert!(child.status.success(), "{told}");
    assert_eq!(told.matches("panicked").count(), 1, "{told}");
    assert!(told.contains("our own"), "{told}");
}

/// A folder with acorn's settings and the given bytes for weights.
fn open_with_weights(bytes: &[u8]) -> (Result<Checkpoint, LoadError>, usize) {
    let folder = tempfile::tempdir().unwrap();
    for name in ["config.json", "tokenizer.json", "tokenizer_config.json"] {
        std::fs::copy(acorn().join(name), folder.path().join(name)).unwrap();
    }
    std::fs::write(folder.path().join("model.safetensors"), bytes).unwrap();
    peak(|| Checkpoint::open(folder.path()))
}

fn safetensors(header: &str, claimed: Option<u64>, data: usize) -> Vec<u8> {
    let length = claimed.unwrap_or(header.len() as u64).to_le_bytes();
    [&length[..], header.as_bytes(), &vec![0; data]].concat()
}

#[test]
fn hostile_safetensors_are_refused() {
    let tensor = |shape: &str, range: &str| {
        format!(r#"{{"model.norm.weight":{{"dtype":"F32","shape":{shape},"data_offsets":{range}}}}}"#)
    };
    let max = u64::MAX;
    let deep = "[".repeat(1_000_000);
    for (what, bytes) in [
        ("empty", vec![]),
        ("a short length", vec![1, 2, 3]),
        ("a long header", safetensors("{}", Some(1 << 40), 0)),
        ("the longest header", safetensors("{}", Some(max), 0)),
        ("no JSON", safetensors("nonsense", None, 0)),
        ("nested JSON", safetensors(&deep, None, 0)),
        ("no tensors", safetensors("{}", None, 0)),
        ("data that is not there", safetensors(&tensor("[4]", "[0,16]"), None, 8)),
        ("a wrong range", safetensors(&tensor("[4]", "[0,8]"), None, 8)),
        ("a backward range", safetensors(&tensor("[4]", "[16,0]"), None, 16)),
        ("a huge shape", safetensors(&tensor(&format!("[{max},{max}]"), "[0,16]"), None, 16)),
        (
            "a huge range",
            safetensors(&tensor("[4611686018427387903]", &format!("[0,{}]", max - 3)), None, 16),
        ),
        ("an empty tensor", safetensors(&tensor("[0]", "[0,0]"), None, 0)),
        ("a scalar", safetensors(&tensor("[]", "[0,4]"), None, 4)),
        ("an unknown type", safetensors(&tensor("[4]", "[0,16]").replace("F32", "X9"), None, 16)),
    ] {
        let (result, held) = open_with_weights(&bytes);
        let error = result.expect_err(what).to_string();
        assert!(!error.contains('\n'), "{what}: {error}");
        assert!(held < 8 << 20, "{what}: held {held} bytes");
    }
}

#[test]
fn truncated_safetensors_are_called_that() {
    let whole = std::fs::read(acorn().join("model.safetensors")).unwrap();
    for len in [0, 7, 8, 100, whole.len() / 2, whole.len() - 1] {
        let error = open_with_weights(&whole[..len]).0.unwrap_err();
        assert!(matches!(error, LoadError::Truncated { .. }), "{len}: {error}");
    }
}
