//! The matrices of experts, which files keep in three ways.
//!
//! GGUF has a tensor for all gates of a layer, one for all that is gated ("up") and one for all that leads back ("down"),
//! each with an expert after the other. The published gpt-oss has gate and up in one, their rows taking turns, as codes
//! of MXFP4 apart from their exponents. Where it was fine-tuned, the same holds plain numbers, with inputs and outputs
//! exchanged. From here on there is one way: [`Checkpoint::expert`] gives one matrix of one expert, as GGUF would
//! have it.

use super::config::Experts;
use super::{Checkpoint, DType, LoadError, Tensor};

/// One of an expert's matrices.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ExpertPart {
    Gate,
    Up,
    Down,
}

impl ExpertPart {
    const ALL: [Self; 3] = [Self::Gate, Self::Up, Self::Down];

    /// GGUF's name.
    fn own(self) -> &'static str {
        match self {
            Self::Gate => "ffn_gate_exps",
            Self::Up => "ffn_up_exps",
            Self::Down => "ffn_down_exps",
        }
    }

    /// Where Hugging Face keeps it: the tensor, the row that it begins with there, and how many rows on the next is.
    fn fused(self) -> (&'static str, usize, usize) {
        match self {
            Self::Gate => (GATE_UP, 0, 2),
            Self::Up => (GATE_UP, 1, 2),
            Self::Down => (DOWN, 0, 1),
        }
    }
}

const GATE_UP: &str = "ffn_gate_up_exps";
/// Not GGUF's name, since it lies otherwise.
const DOWN: &str = "ffn_down_exps_fused";

/// Codes in a byte of Hugging Face's blocks, and codes that share an exponent.
const PER_BYTE: usize = 2;
const BLOCK: usize = DType::MXFP4.block_len();
const BLOCK_BYTES: usize = DType::MXFP4.block_bytes();

/// What we call a tensor of experts in a Hugging Face file.
pub(super) fn name(layer: usize, part: &str) -> Option<String> {
    let (part, form) = part.split_once("_proj")?;
    let part = match part {
        "gate_up" => GATE_UP,
        "down" => DOWN,
        _ => return None,
    };
    let form = match form {
        "" => "weight",
        "_bias" => "bias",
        "_blocks" => "blocks",
        "_scales" => "scales",
        _ => return None,
    };
    Some(format!("blk.{layer}.{part}.{form}"))
}

/// How many numbers of the model an element of a tensor stands for.
pub(super) fn numbers_per_element(name: &str) -> usize {
    match name.rsplit('.').next() {
        Some("blocks") => PER_BYTE,
        Some("scales") => 0,
        _ => 1,
    }
}

/// Whether a tensor belongs to the experts of a layer.
pub(super) fn is_of_experts(name: &str) -> bool {
    name.contains("_exps.") || name.contains(DOWN)
}

/// How a file keeps its experts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Separate,
    Fused,
    FusedBlocks,
}

impl Checkpoint {
    fn form(&self) -> Form {
        if self.has(&format!("blk.0.{GATE_UP}.blocks")) {
            Form::FusedBlocks
        } else if self.has(&format!("blk.0.{GATE_UP}.weight")) {
            Form::Fused
        } else {
            Form::Separate
        }
    }

    /// Rows and columns of an expert's matrix.
    fn expert_shape(&self, part: ExpertPart) -> (usize, usize) {
        let (hidden, ffn) = (self.config.hidden, self.config.ffn);
        if part == ExpertPart::Down { (hidden, ffn) } else { (ffn, hidden) }
    }

    /// All tensors of experts, none for a model without; adds their names to those that are expected.
    pub(super) fn check_experts(&self, expected: &mut Vec<(String, Vec<usize>)>) -> Result<(), LoadError> {
        let Some(Experts { count, .. }) = self.config.experts else { return Ok(()) };
        let form = self.form();
        for layer in 0..self.config.layers {
            for part in ExpertPart::ALL {
                let (rows, cols) = self.expert_shape(part);
                let (fused, first, stride) = part.fused();
                if form != Form::Separate && first > 0 {
                    continue; // it is in the same tensor as the one before
                }
                let fused_name = |form: &str| format!("blk.{layer}.{fused}.{form}");
                let own_name = |form: &str| format!("blk.{layer}.{}.{form}", part.own());
                let list = match form {
                    Form::Separate => {
                        vec![
                            (own_name("weight"), vec![count, rows, cols]),
                            (own_name("bias"), vec![count, rows]),
                        ]
                    }
                    Form::Fused => vec![
                        (fused_name("weight"), vec![count, cols, stride * rows]),
                        (fused_name("bias"), vec![count, stride * rows]),
                    ],
                    Form::FusedBlocks if !cols.is_multiple_of(BLOCK) => {
                        let why = format!("its experts' rows of {cols} are not whole blocks of {BLOCK}");
                        return Err(LoadError::malformed(&self.file, why));
                    }
                    Form::FusedBlocks => {
                        let shape = [count, stride * rows, cols / BLOCK];
                        self.check_bytes(&fused_name("blocks"), &[&shape[..], &[BLOCK / PER_BYTE]].concat())?;
                        self.check_bytes(&fused_name("scales"), &shape)?;
                        expected.push((fused_name("blocks"), Vec::new()));
                        expected.push((fused_name("scales"), Vec::new()));
                        vec![(fused_name("bias"), vec![count, stride * rows])]
                    }
                };
                for (name, shape) in list {
                    self.tensor_with_shape(&name, &shape)?;
                    expected.push((name, shape));
                }
            }
        }
        Ok(())
    }

    /// A tensor of plain bytes, of this shape.
    fn check_bytes(&self, name: &str, shape: &[usize]) -> Result<(), LoadError> {
        let missing = || LoadError::MissingTensor { file: self.file.clone(), name: name.to_owned() };
        let entry = self.tensors.get(name).ok_or_else(missing)?;
        if entry.shape != shape {
            let (file, name, found) = (self.file.clone(), name.to_owned(), entry.shape.clone());
            return Err(LoadError::Shape { file, name, found, expected: shape.to_vec() });
        }
        if entry.end - entry.start != shape.iter().product::<usize>() {
            return Err(LoadError::malformed(
                &self.file,
                format!("the tensor \"{name}\" is not made of bytes"),
            ));
        }
        Ok(())
    }

    /// The bytes of a tensor that [`Checkpoint::check_bytes`] has seen.
    fn raw(&self, name: &str) -> Result<&[u8], LoadError> {
        let missing = || LoadError::MissingTensor { file: self.file.clone(), name: name.to_owned() };
        let entry = self.tensors.get(name).ok_or_else(missing)?;
        Ok(&self.bytes[entry.part][entry.start..entry.end])
    }

    /// One matrix of one expert, `[out, in]`. Where the file has it otherwise, it is put together in `buffer`.
    pub(crate) fn expert<'a>(
        &'a self,
        layer: usize,
        part: ExpertPart,
        expert: usize,
        buffer: &'a mut Vec<u8>,
    ) -> Result<Tensor<'a>, LoadError> {
        let (rows, cols) = self.expert_shape(part);
        let (fused, first, stride) = part.fused();
        let shape = vec![rows, cols];
        match self.form() {
            Form::Separate => {
                let all = self.tensor(&format!("blk.{layer}.{}.weight", part.own()))?;
                let bytes = rows * all.row_bytes();
                Ok(Tensor { dtype: all.dtype, shape, data: &all.data[expert * bytes..][..bytes] })
            }
            Form::Fused => {
                let all = self.tensor(&format!("blk.{layer}.{fused}.weight"))?;
                let mut numbers = vec![0.0; stride * rows * cols];
                all.rows_to_f32(expert * cols, cols, &mut numbers);
                buffer.clear();
                for row in 0..rows {
                    let column = numbers[first + row * stride..].iter().step_by(stride * rows);
                    buffer.extend(column.flat_map(|x| x.to_le_bytes()));
                }
                Ok(Tensor { dtype: DType::F32, shape, data: buffer })
            }
            Form::FusedBlocks => {
                let blocks = self.raw(&format!("blk.{layer}.{fused}.blocks"))?;
                let scales = self.raw(&format!("blk.{layer}.{fused}.scales"))?;
                let per_row = cols / BLOCK;
                buffer.resize(rows * per_row * BLOCK_BYTES, 0);
                for (row, into) in buffer.chunks_exact_mut(per_row * BLOCK_BYTES).enumerate() {
                    let at = (expert * stride * rows + first + row * stride) * per_row;
                    let blocks = blocks[at * BLOCK / PER_BYTE..].chunks_exact(BLOCK / PER_BYTE);
                    let from = scales[at..].iter().zip(blocks);
                    for (into, (scale, pairs)) in into.chunks_exact_mut(BLOCK_BYTES).zip(from) {
                        into[0] = *scale;
                        regroup(pairs, &mut into[1..]);
                    }
                }
                Ok(Tensor { dtype: DType::MXFP4, shape, data: buffer })
            }
        }
    }

    /// Says that a layer's experts were read for the last time.
    pub(crate) fn let_experts_go(&self, layer: usize) {
        for part in ExpertPart::ALL {
            let (fused, ..) = part.fused();
            self.let_go(&format!("blk.{layer}.{}.weight", part.own()));
            for form in ["weight", "blocks", "scales"] {
                self.let_go(&format!("blk.{layer}.{fused}.{form}"));
            }
        }
    }

    /// What is added to a part of all experts of a layer, one after the other.
    pub(crate) fn expert_bias(&self, layer: usize, part: ExpertPart) -> Result<Vec<f32>, LoadError> {
        if self.form() == Form::Separate {
            return Ok(self.tensor(&format!("blk.{layer}.{}.bias", part.own()))?.to_f32());
        }
        let (fused, first, stride) = part.fused();
        let all = self.tensor(&format!("blk.{layer}.{fused}.bias"))?.to_f32();
        Ok(all.into_iter().skip(first).step_by(stride).collect())
    }
}

/// From neighbours in a byte to GGUF's order: the first 16 in the low nibbles, the others above.
fn regroup(pairs: &[u8], into: &mut [u8]) {
    let code = |i: usize| pairs[i / PER_BYTE] >> (i % PER_BYTE * 4) & 15;
    for (i, into) in into.iter_mut().enumerate() {
        *into = code(i) | code(i + BLOCK / 2) << 4;
    }
}
