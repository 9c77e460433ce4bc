//! Ways into the readers for the fuzz targets, which have bytes and no files.
//!
//! Each opens what it is given and then uses it as the engine would: what opens must also read. Chat templates are compiled
//! and not run; see [`chat`](super::chat) for what a hostile one can do.

use std::collections::HashMap;

use super::bytes::Bytes;
use super::{Checkpoint, Entry, LoadError, Tensor, Tokenizer, hf};

/// A whole model.
pub fn gguf(bytes: &[u8]) -> Result<(), LoadError> {
    let file = "fuzz.gguf".to_owned();
    let checkpoint = Checkpoint::from_gguf(vec![(Bytes::Owned(bytes.to_vec()), file)], "fuzz")?;
    for (name, shape) in checkpoint.config.tensors() {
        read(&checkpoint.tensor_with_shape(&name, &shape)?);
    }
    use_tokenizer(&checkpoint.tokenizer);
    Ok(())
}

/// One file of weights.
pub fn safetensors(bytes: &[u8]) -> Result<(), LoadError> {
    let mut tensors: HashMap<String, Entry> = HashMap::new();
    hf::read_tensors(bytes, 0, "fuzz.safetensors", &mut tensors)?;
    for (name, entry) in tensors {
        let dtype = entry.readable("fuzz.safetensors", &name)?;
        read(&Tensor { dtype, shape: entry.shape, data: &bytes[entry.start..entry.end] });
    }
    Ok(())
}

/// A tokenizer.json.
pub fn tokenizer(bytes: &[u8]) -> Result<(), LoadError> {
    use_tokenizer(&Tokenizer::from_json(bytes, "fuzz.json")?);
    Ok(())
}

/// The first and last row: a shape may claim more rows than are worth decoding.
fn read(tensor: &Tensor<'_>) {
    let mut row = vec![0.0; tensor.cols()];
    for first in [0, tensor.rows() - 1] {
        tensor.rows_to_f32(first, 1, &mut row);
    }
    assert_eq!(tensor.data.len(), tensor.rows() * tensor.row_bytes());
}

fn use_tokenizer(tokenizer: &Tokenizer) {
    if let Ok(ids) = tokenizer.encode("Where is it unsure? \u{1f333} 42\n  <|im_end|>") {
        let mut stream = tokenizer.stream();
        for id in ids {
            stream.push(id);
        }
        stream.finish();
    }
}
