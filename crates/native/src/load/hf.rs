//! A model as Hugging Face lays it out: a folder of JSON files and safetensors.
//!
//! Tensors are renamed to what GGUF calls them, so that the engine knows one set of names. A tensor that we
//! have no name for keeps its own, and is then refused by the same check that guards GGUF files.

use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};

use safetensors::tensor::{Dtype, Metadata};
use serde_json::Value;

use super::bytes::Bytes;
use super::{ChatTemplate, Checkpoint, DType, Entry, LoadError, Tokenizer, Words, experts, hf_config};

const INDEX: &str = "model.safetensors.index.json";
const WHOLE_FOLDER: &str = "download the whole folder of the model, or give a .gguf file";

pub(super) fn open_folder(folder: &Path) -> Result<Checkpoint, LoadError> {
    require_json_files(folder)?;
    let files = match read_json(folder, INDEX)? {
        Some(index) => indexed_files(folder, &index)?,
        None => loose_files(folder)?,
    };
    open(folder, &files)
}

/// One file of a folder: the whole model, or one shard of it, in which case the others are needed too.
pub(super) fn open_file(path: &Path) -> Result<Checkpoint, LoadError> {
    let folder = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    require_json_files(folder)?;
    if let Some(index) = read_json(folder, INDEX)? {
        let files = indexed_files(folder, &index)?;
        if files.iter().any(|file| file.file_name() == path.file_name()) {
            return open(folder, &files);
        }
    }
    open(folder, &[path.to_owned()])
}

/// How the model of a folder reads and writes; its weights may be elsewhere.
pub(super) fn words(folder: &Path) -> Result<Words, LoadError> {
    if !folder.join("tokenizer.json").is_file() {
        let advice = "a model's tokenizer.json and tokenizer_config.json are enough to speak to a server";
        return Err(LoadError::Incomplete { folder: folder.to_owned(), missing: "tokenizer.json", advice });
    }
    let config_json = folder.join("config.json").display().to_string();
    let settings = settings(folder, &config_json)?;
    let tokenizer = read_tokenizer(folder)?;
    Ok(Words {
        name: model_name(folder),
        stop_tokens: settings.stop_tokens(&tokenizer, tokenizer.len())?,
        bos: settings.bos(&tokenizer),
        chat: chat_template(folder, &settings)?,
        tokenizer,
    })
}

/// What the JSON files of a folder say; `file` is the one to name in errors.
fn settings<'a>(folder: &Path, file: &'a str) -> Result<hf_config::Settings<'a>, LoadError> {
    Ok(hf_config::Settings {
        config: read_json(folder, "config.json")?.unwrap_or_default(),
        generation: read_json(folder, "generation_config.json")?.unwrap_or_default(),
        tokenizer: read_json(folder, "tokenizer_config.json")?.unwrap_or_default(),
        file,
    })
}

fn open(folder: &Path, files: &[PathBuf]) -> Result<Checkpoint, LoadError> {
    let config_json = folder.join("config.json").display().to_string();
    let settings = settings(folder, &config_json)?;
    let mut tokenizer = read_tokenizer(folder)?;
    let mut tensors = HashMap::new();
    let mut bytes = Vec::new();
    for path in files {
        let part = Bytes::map(path)?;
        read_tensors(&part, bytes.len(), &path.display().to_string(), &mut tensors)?;
        bytes.push(part);
    }
    if settings.tied()? {
        tensors.remove("output.weight");
    } else if !tensors.contains_key("output.weight") {
        return Err(LoadError::MissingTensor { file: name_of(folder), name: "lm_head.weight".into() });
    }
    let vocab = tensors.get("token_embd.weight").and_then(|entry| entry.shape.first()).copied();
    let vocab = vocab.ok_or_else(|| LoadError::MissingTensor {
        file: name_of(folder),
        name: "model.embed_tokens.weight".into(),
    })?;
    let config = settings.read(&tokenizer, vocab)?;
    tokenizer.limit_to(vocab);
    let chat = chat_template(folder, &settings)?;
    let name = model_name(folder);
    let checkpoint = Checkpoint { config, tokenizer, chat, name, file: name_of(folder), tensors, bytes };
    checkpoint.check_tensors()?;
    Ok(checkpoint)
}

/// The name of the folder. In the cache of the hub that is a commit, and the model's name is two levels up:
/// `models--Qwen--Qwen3-4B/snapshots/0a1b…`.
fn model_name(folder: &Path) -> String {
    let resolved = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
    let part = |path: &Path| path.file_name().map(|name| name.to_string_lossy().into_owned());
    let cached = resolved.parent().filter(|parent| parent.ends_with("snapshots")).and_then(Path::parent);
    let repo = cached
        .and_then(part)
        .and_then(|repo| Some(repo.strip_prefix("models--")?.rsplit("--").next()?.to_owned()));
    repo.or_else(|| part(&resolved)).unwrap_or_else(|| name_of(folder))
}

fn name_of(path: &Path) -> String {
    path.display().to_string()
}

fn require_json_files(folder: &Path) -> Result<(), LoadError> {
    for missing in ["config.json", "tokenizer.json"] {
        if !folder.join(missing).is_file() {
            return Err(LoadError::Incomplete { folder: folder.to_owned(), missing, advice: WHOLE_FOLDER });
        }
    }
    Ok(())
}

fn read_file(path: &Path) -> Result<Option<Vec<u8>>, LoadError> {
    match std::fs::read(path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(LoadError::Io { path: path.to_owned(), source }),
    }
}

fn read_json(folder: &Path, name: &str) -> Result<Option<Value>, LoadError> {
    let path = folder.join(name);
    let Some(bytes) = read_file(&path)? else { return Ok(None) };
    let parsed = serde_json::from_slice(&bytes);
    parsed.map(Some).map_err(|e| LoadError::malformed(&name_of(&path), format!("it is not JSON: {e}")))
}

fn read_tokenizer(folder: &Path) -> Result<Tokenizer, LoadError> {
    let path = folder.join("tokenizer.json");
    let bytes = read_file(&path)?.unwrap_or_default();
    Tokenizer::from_json(&bytes, &name_of(&path))
}

/// The shards that an index names. They must lie beside it: an index cannot reach out of its folder.
fn indexed_files(folder: &Path, index: &Value) -> Result<Vec<PathBuf>, LoadError> {
    let file = name_of(&folder.join(INDEX));
    let map = index.get("weight_map").and_then(Value::as_object);
    let map = map.ok_or_else(|| LoadError::malformed(&file, "it has no \"weight_map\""))?;
    let mut names = BTreeSet::new();
    for name in map.values() {
        let plain = name.as_str().filter(|name| {
            name.ends_with(".safetensors") && !name.contains(['/', '\\', ':']) && !name.starts_with('.')
        });
        let why = || format!("it names {name}, which is not a .safetensors file beside it");
        names.insert(plain.ok_or_else(|| LoadError::malformed(&file, why()))?);
    }
    let files: Vec<PathBuf> = names.into_iter().map(|name| folder.join(name)).collect();
    match files.iter().find(|path| !path.is_file()) {
        Some(missing) => {
            let why = format!("{} is missing; {WHOLE_FOLDER}", missing.display());
            Err(LoadError::malformed(&file, why))
        }
        None => Ok(files),
    }
}

/// Without an index: `model.safetensors`, or else every safetensors file there is.
fn loose_files(folder: &Path) -> Result<Vec<PathBuf>, LoadError> {
    let single = folder.join("model.safetensors");
    if single.is_file() {
        return Ok(vec![single]);
    }
    let io = |source| LoadError::Io { path: folder.to_owned(), source };
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(io)? {
        let path = entry.map_err(io)?.path();
        if path.extension().is_some_and(|e| e == "safetensors") {
            files.push(path);
        }
    }
    files.sort();
    if files.is_empty() {
        let missing = "*.safetensors";
        return Err(LoadError::Incomplete { folder: folder.to_owned(), missing, advice: WHOLE_FOLDER });
    }
    Ok(files)
}

/// Adds the tensors of one file to the table. The length of the header is compared with the file before it is
/// parsed, and every tensor's place with the file before it is believed.
pub(super) fn read_tensors(
    bytes: &[u8],
    part: usize,
    file: &str,
    tensors: &mut HashMap<String, Entry>,
) -> Result<(), LoadError> {
    let truncated = |inside: &str| LoadError::Truncated { file: file.to_owned(), inside: inside.to_owned() };
    let (length, rest) = bytes.split_first_chunk().ok_or_else(|| truncated("its header"))?;
    let length = usize::try_from(u64::from_le_bytes(*length)).map_err(|_| truncated("its header"))?;
    let header = rest.get(..length).ok_or_else(|| truncated("its header"))?;
    let metadata: Metadata = serde_json::from_slice(header)
        .map_err(|e| LoadError::malformed(file, format!("its header cannot be read: {e}")))?;
    let data = size_of::<u64>() + length;
    for (name, info) in metadata.tensors() {
        if name.ends_with(".rotary_emb.inv_freq") {
            continue; // a constant that old checkpoints saved
        }
        let place = |offset: usize| data.checked_add(offset).filter(|&at| at <= bytes.len());
        let (start, end) = (place(info.data_offsets.0), place(info.data_offsets.1));
        let (Some(start), Some(end)) = (start, end) else {
            return Err(truncated(&format!("its tensor \"{name}\"")));
        };
        if info.shape.is_empty() || info.shape.contains(&0) {
            return Err(LoadError::malformed(file, format!("the tensor \"{name}\" is empty")));
        }
        let dtype = match info.dtype {
            Dtype::F32 => Ok(DType::F32),
            Dtype::F16 => Ok(DType::F16),
            Dtype::BF16 => Ok(DType::BF16),
            other => Err(format!("{other:?}")),
        };
        let entry = Entry { dtype, shape: info.shape.clone(), part, start, end };
        let known = gguf_name(&name).unwrap_or_else(|| name.clone());
        if tensors.insert(known, entry).is_some() {
            return Err(LoadError::malformed(file, format!("the tensor \"{name}\" appears twice")));
        }
    }
    Ok(())
}

/// What GGUF calls a tensor. Those of experts, which lie otherwise there, are named after what they hold.
fn gguf_name(name: &str) -> Option<String> {
    match name {
        "model.embed_tokens.weight" => return Some("token_embd.weight".into()),
        "model.norm.weight" => return Some("output_norm.weight".into()),
        "lm_head.weight" => return Some("output.weight".into()),
        _ => {}
    }
    let (layer, rest) = name.strip_prefix("model.layers.")?.split_once('.')?;
    let layer: usize = layer.parse().ok()?;
    if let Some(part) = rest.strip_prefix("mlp.experts.") {
        return experts::name(layer, part);
    }
    if rest == "self_attn.sinks" {
        return Some(format!("blk.{layer}.attn_sinks.weight"));
    }
    let (rest, ending) = rest.rsplit_once('.').filter(|(_, ending)| matches!(*ending, "weight" | "bias"))?;
    let part = match rest {
        "input_layernorm" => "attn_norm",
        "self_attn.q_proj" => "attn_q",
        "self_attn.k_proj" => "attn_k",
        "self_attn.v_proj" => "attn_v",
        "self_attn.o_proj" => "attn_output",
        "self_attn.q_norm" => "attn_q_norm",
        "self_attn.k_norm" => "attn_k_norm",
        "post_attention_layernorm" => "ffn_norm",
        "mlp.gate_proj" => "ffn_gate",
        "mlp.up_proj" => "ffn_up",
        "mlp.down_proj" => "ffn_down",
        "mlp.router" => "ffn_gate_inp",
        _ => return None,
    };
    Some(format!("blk.{layer}.{part}.{ending}"))
}

/// The template, from the file of its own that new models have, or from the tokenizer's settings.
fn chat_template(
    folder: &Path,
    settings: &hf_config::Settings<'_>,
) -> Result<Option<ChatTemplate>, LoadError> {
    let path = folder.join("chat_template.jinja");
    let (source, file) = match read_file(&path)? {
        Some(bytes) => {
            let text = String::from_utf8(bytes);
            (text.map_err(|_| LoadError::malformed(&name_of(&path), "it is not UTF-8"))?, path)
        }
        None => match settings.chat_template() {
            Some(text) => (text.to_owned(), folder.join("tokenizer_config.json")),
            None => return Ok(None),
        },
    };
    let token = |key| settings.token_text(key).map(str::to_owned);
    Ok(Some(ChatTemplate::new(&source, token("bos_token"), token("eos_token"), &name_of(&file))))
}
