"""Writes a trained folder as one GGUF file.

    python export_gguf.py --model DIR --out acorn-q8_0.gguf

Matrices are quantised to q8_0 (or kept as f16), norms stay f32; tokenizer and chat template go inside.
"""

import argparse
import json
from pathlib import Path
from typing import Any

import gguf
import numpy as np
from gguf import GGMLQuantizationType, LlamaFileType, TokenType
from safetensors.torch import load_file

ARCHITECTURE = "qwen3"
FORMATS = {
    "q8_0": (GGMLQuantizationType.Q8_0, LlamaFileType.MOSTLY_Q8_0),
    "f16": (GGMLQuantizationType.F16, LlamaFileType.MOSTLY_F16),
}
TOP_NAMES = {"embed_tokens": "token_embd", "norm": "output_norm"}
BLOCK_NAMES = {
    "input_layernorm": "attn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
    "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}


def gguf_name(name: str) -> str:
    """`model.layers.3.mlp.up_proj.weight` is `blk.3.ffn_up.weight` in a GGUF."""
    bare = name.removeprefix("model.").removesuffix(".weight")
    if bare in TOP_NAMES:
        return f"{TOP_NAMES[bare]}.weight"
    _, layer, rest = bare.split(".", 2)
    return f"blk.{layer}.{BLOCK_NAMES[rest]}.weight"


def token_type(added: dict[str, Any]) -> TokenType:
    """How a decoder should treat an added token."""
    if added["content"].startswith("<|unused"):
        return TokenType.UNUSED
    return TokenType.CONTROL if added["special"] else TokenType.USER_DEFINED


def add_model(writer: gguf.GGUFWriter, config: dict[str, Any], name: str, file_type: LlamaFileType) -> None:
    """The architecture's numbers."""
    writer.add_name(name)
    writer.add_file_type(file_type)
    writer.add_quantization_version(gguf.GGML_QUANT_VERSION)
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_head_count_kv(config["num_key_value_heads"])
    writer.add_key_length(config["head_dim"])
    writer.add_value_length(config["head_dim"])
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_rope_freq_base(config["rope_theta"])


def add_tokenizer(writer: gguf.GGUFWriter, config: dict[str, Any], model: Path) -> None:
    """Tokens, merges and the chat template."""
    tokenizer = json.loads((model / "tokenizer.json").read_text(encoding="utf-8"))
    template = json.loads((model / "tokenizer_config.json").read_text(encoding="utf-8"))["chat_template"]
    tokens = {index: token for token, index in tokenizer["model"]["vocab"].items()}
    types = dict.fromkeys(tokens, TokenType.NORMAL)
    for added in tokenizer["added_tokens"]:
        tokens[added["id"]] = added["content"]
        types[added["id"]] = token_type(added)
    ids = range(config["vocab_size"])
    if set(tokens) != set(ids):
        raise ValueError(f"the tokenizer has {len(tokens)} tokens, the model {config['vocab_size']} rows")
    merges = [merge if isinstance(merge, str) else " ".join(merge) for merge in tokenizer["model"]["merges"]]

    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("qwen2")
    writer.add_token_list([tokens[index] for index in ids])
    writer.add_token_types([types[index] for index in ids])
    writer.add_token_merges(merges)
    writer.add_eos_token_id(config["eos_token_id"])
    writer.add_pad_token_id(config["pad_token_id"])
    writer.add_add_bos_token(False)
    writer.add_chat_template(template)


def add_weights(writer: gguf.GGUFWriter, model: Path, quantization: GGMLQuantizationType) -> None:
    """Every tensor, under its GGUF name."""
    for name, tensor in load_file(model / "model.safetensors").items():
        values = tensor.float().numpy()
        if values.ndim == 1:
            writer.add_tensor(gguf_name(name), values)
        elif quantization == GGMLQuantizationType.F16:
            writer.add_tensor(gguf_name(name), values.astype(np.float16))
        else:
            quantised = gguf.quants.quantize(values, quantization)
            writer.add_tensor(gguf_name(name), quantised, raw_dtype=quantization)


def export(model: Path, out: Path, form: str, name: str) -> None:
    """Writes the folder `model` as the GGUF file `out`."""
    quantization, file_type = FORMATS[form]
    config = json.loads((model / "config.json").read_text())
    writer = gguf.GGUFWriter(out, ARCHITECTURE)
    add_model(writer, config, name, file_type)
    add_tokenizer(writer, config, model)
    add_weights(writer, model, quantization)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def main() -> None:
    parser = argparse.ArgumentParser(description="Write a trained folder as a GGUF file.")
    parser.add_argument("--model", type=Path, required=True, help="folder that train.py wrote")
    parser.add_argument("--out", type=Path, required=True, help="the GGUF file")
    parser.add_argument("--format", choices=FORMATS, default="q8_0", help="how to store the matrices")
    parser.add_argument("--name", default="acorn", help="general.name in the file")
    arguments = parser.parse_args()
    export(arguments.model, arguments.out, arguments.format, arguments.name)
    print(f"{arguments.out}: {arguments.out.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
