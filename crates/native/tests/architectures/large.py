"""Writes a GGUF file of a real model's shape with random weights, for measuring memory and speed.

    pip install gguf==0.19.0 numpy==2.4.6
    python3 large.py qwen3-4b qwen3-4b.gguf      # Q4_K with a Q6_K embedding, 2.4 GB
    python3 large.py qwen3-4b-q4_k_m q4.gguf     # as llama.cpp's Q4_K_M: some matrices in Q6_K, 2.5 GB
    python3 large.py qwen3-4b-q5_k_m q5.gguf     # the same with Q5_K, 2.9 GB
    python3 large.py gpt-oss-20b gpt-oss-20b.gguf  # experts in MXFP4, the rest in Q8_0, 12 GB

Weights are so large that activations keep their size from layer to layer, as in a trained model.
"""

import math
import sys

import gguf
import numpy as np
from gguf import GGMLQuantizationType as Q

SHAPES = {
    "qwen3-4b": dict(
        arch="qwen3", hidden=2560, layers=36, heads=32, kv_heads=8, head_dim=128, ffn=9728, vocab=151936,
        context=40960, theta=1e6, matrices=Q.Q4_K, embedding=Q.Q6_K, tied=True,
    ),
    "gpt-oss-20b": dict(
        arch="gpt-oss", hidden=2880, layers=24, heads=64, kv_heads=8, head_dim=64, ffn=2880, vocab=201088,
        context=131072, theta=150000.0, matrices=Q.Q8_0, embedding=Q.Q8_0, tied=False, experts=32, used=4, window=128,
    ),
}
SHAPES["qwen3-4b-q4_k_m"] = dict(SHAPES["qwen3-4b"], more=Q.Q6_K)
SHAPES["qwen3-4b-q5_k_m"] = dict(SHAPES["qwen3-4b-q4_k_m"], matrices=Q.Q5_K)
rng = np.random.default_rng(1)


def has_more(s, layer):
    """Does a file with a mixture of types give this layer's values and way back more bits? llama.cpp's rule."""
    eighth = s["layers"] // 8
    return "more" in s and (layer < eighth or layer >= 7 * s["layers"] // 8 or (layer - eighth) % 3 == 2)


def half(numbers):
    return numbers.astype(np.float16).view(np.uint8).reshape(len(numbers), 2)


def blocks(kind, rows, cols):
    """Random blocks whose numbers have a mean of zero and a deviation of one over the root of a row's length."""
    length, size = gguf.GGML_QUANT_SIZES[kind]
    count = rows * cols // length
    data = np.frombuffer(bytearray(rng.bytes(count * size)), np.uint8).reshape(count, size)
    deviation = rng.uniform(0.9, 1.1, count) / math.sqrt(cols)
    if kind == Q.MXFP4:
        data[:, 0] = 127 + round(math.log2(1 / math.sqrt(cols) / 2.9))
    elif kind == Q.Q8_0:
        data[:, :2] = half(deviation / 74)
    elif kind in (Q.Q4_K, Q.Q5_K):
        # All scales and minima are 32, of 63, and the minimum is the mean of the codes.
        mean, spread = (7.5, 4.6) if kind == Q.Q4_K else (15.5, 9.2)
        data[:, :2], data[:, 2:4] = half(deviation / (32 * spread)), half(deviation * mean / (32 * spread))
        data[:, 4:12], data[:, 12:16] = 0xA0, 0
    elif kind == Q.Q6_K:
        data[:, 192:208], data[:, 208:] = 64, half(deviation / (64 * 18.5))
    return data.reshape(rows, -1)


def tensors(s):
    """Name, shape and type of every tensor; a type of F32 with a mean, zero for biases."""
    q, kv, hidden, ffn = s["heads"] * s["head_dim"], s["kv_heads"] * s["head_dim"], s["hidden"], s["ffn"]
    moe, kind = "experts" in s, s["matrices"]
    yield "token_embd.weight", (s["vocab"], hidden), s["embedding"], None
    if not s["tied"]:
        yield "output.weight", (s["vocab"], hidden), s["embedding"], None
    yield "output_norm.weight", (hidden,), Q.F32, 1
    for layer in range(s["layers"]):
        at = f"blk.{layer}."
        more = s["more"] if has_more(s, layer) else kind
        yield at + "attn_norm.weight", (hidden,), Q.F32, 1
        yield at + ("post_attention_norm.weight" if moe else "ffn_norm.weight"), (hidden,), Q.F32, 1
        for part, shape in [("q", (q, hidden)), ("k", (kv, hidden)), ("v", (kv, hidden)), ("output", (hidden, q))]:
            yield at + f"attn_{part}.weight", shape, more if part == "v" else kind, None
            if moe:
                yield at + f"attn_{part}.bias", shape[:1], Q.F32, 0
        if s["arch"] == "qwen3":
            yield at + "attn_q_norm.weight", (s["head_dim"],), Q.F32, 1
            yield at + "attn_k_norm.weight", (s["head_dim"],), Q.F32, 1
        if moe:
            yield at + "attn_sinks.weight", (s["heads"],), Q.F32, 0
            yield at + "ffn_gate_inp.weight", (s["experts"], hidden), Q.F32, 0
            yield at + "ffn_gate_inp.bias", (s["experts"],), Q.F32, 0
        for part, shape in [("gate", (ffn, hidden)), ("up", (ffn, hidden)), ("down", (hidden, ffn))]:
            if moe:
                yield at + f"ffn_{part}_exps.weight", (s["experts"], *shape), Q.MXFP4, None
                yield at + f"ffn_{part}_exps.bias", (s["experts"], shape[0]), Q.F32, 0
            else:
                yield at + f"ffn_{part}.weight", shape, more if part == "down" else kind, None


def metadata(w, s):
    w.add_context_length(s["context"])
    w.add_embedding_length(s["hidden"])
    w.add_block_count(s["layers"])
    w.add_head_count(s["heads"])
    w.add_head_count_kv(s["kv_heads"])
    w.add_key_length(s["head_dim"])
    w.add_value_length(s["head_dim"])
    w.add_layer_norm_rms_eps(1e-6)
    w.add_rope_freq_base(s["theta"])
    w.add_feed_forward_length(s["ffn"])
    if "experts" in s:
        w.add_expert_count(s["experts"])
        w.add_expert_used_count(s["used"])
        w.add_expert_feed_forward_length(s["ffn"])
        w.add_sliding_window(s["window"])
        w.add_rope_scaling_type(gguf.RopeScalingType.YARN)
        w.add_rope_scaling_factor(32.0)
        w.add_rope_scaling_orig_ctx_len(4096)
    # A vocabulary of its own size would only take time: prompts are random tokens.
    w.add_tokenizer_model("gpt2")
    w.add_tokenizer_pre("qwen2")
    w.add_token_list(["a", "b", "ab", "<|end|>"])
    w.add_token_types([1, 1, 1, 3])
    w.add_token_merges(["a b"])
    w.add_eos_token_id(3)


def main():
    name, path = sys.argv[1:]
    s = SHAPES[name]
    w = gguf.GGUFWriter(path, s["arch"])
    metadata(w, s)
    listed = list(tensors(s))
    for tensor, shape, kind, _ in listed:
        if kind == Q.F32:
            w.add_tensor_info(tensor, shape, np.dtype(np.float32), math.prod(shape) * 4)
        else:
            length, size = gguf.GGML_QUANT_SIZES[kind]
            row = shape[-1] // length * size
            w.add_tensor_info(tensor, (*shape[:-1], row), np.dtype(np.uint8), math.prod(shape[:-1]) * row, raw_dtype=kind)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_ti_data_to_file()
    for tensor, shape, kind, mean in listed:
        if kind == Q.F32:
            spread = 1 / math.sqrt(shape[-1]) if "inp" in tensor else 0.1
            w.write_tensor_data((mean + spread * rng.standard_normal(shape)).astype(np.float32))
        else:
            w.write_tensor_data(blocks(kind, math.prod(shape[:-1]), shape[-1]))
    w.close()


main()
