"""Makes the fixtures of architectures.rs: for each architecture a small random model and what PyTorch computes with it.

    python3 -m venv venv && venv/bin/pip install torch==2.9.1 transformers==5.22.2 tokenizers==0.23.3 \
        safetensors==0.8.0 gguf==0.19.0 numpy==2.4.6 accelerate==1.15.0
    venv/bin/python make.py

A model is a folder as Hugging Face publishes it, with a config.json in the words that the published model uses, and the
same weights as a GGUF file. `reference.json` holds, for prompts that reach beyond every boundary (a page, a segment of
pages, the sliding window, the context before YaRN or Llama 3's stretch), the tokens that transformers chooses greedily in
float32 and the 20 largest log-probabilities of every step. Transformers reads the folder, so that names, layouts and
settings are checked as well, not only arithmetic.
"""

import json
import math
import sys
from pathlib import Path

import gguf
import numpy as np
import torch
from gguf import GGMLQuantizationType as Q
from safetensors.torch import save_file
from transformers import AutoConfig, AutoModelForCausalLM

HERE = Path(__file__).parent
# A byte, or two of them: GGUF cannot say that there are no merges.
VOCAB, MERGED, SPECIAL = 259, "th", ["<|begin|>", "<|end|>"]
CONTEXT, STEPS = 512, 12
# A page holds 16 tokens, a segment of attention 128.
PROMPTS = [1, 5, 16, 45, 170]

SMALL = dict(
    vocab_size=VOCAB, hidden_size=64, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4,
    num_key_value_heads=2, head_dim=16, max_position_embeddings=CONTEXT, rms_norm_eps=1e-5, hidden_act="silu",
    bos_token_id=257, eos_token_id=258,
)

# As the published config.json of each says it, with smaller numbers.
MODELS = {
    "llama": dict(
        SMALL, model_type="llama", architectures=["LlamaForCausalLM"], rope_theta=100000.0, tie_word_embeddings=True,
    ),
    "llama3": dict(
        SMALL, model_type="llama", architectures=["LlamaForCausalLM"], rope_theta=500000.0, tie_word_embeddings=False,
        attention_bias=False, mlp_bias=False,
        rope_scaling=dict(
            factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=64, rope_type="llama3",
        ),
    ),
    "smollm3": dict(
        SMALL, model_type="smollm3", architectures=["SmolLM3ForCausalLM"], rope_theta=5000000.0, num_hidden_layers=5,
        intermediate_size=64, tie_word_embeddings=True, no_rope_layers=[1, 1, 1, 0, 1], no_rope_layer_interval=4,
        layer_types=["full_attention"] * 5, use_sliding_window=False, sliding_window=None, attention_bias=False,
        mlp_bias=False, rope_scaling=None, pad_token_id=258,
    ),
    "qwen2": dict(
        SMALL, model_type="qwen2", architectures=["Qwen2ForCausalLM"], rope_theta=1000000.0, tie_word_embeddings=False,
        use_sliding_window=False, sliding_window=4096, max_window_layers=2,
    ),
    "qwen3": dict(
        SMALL, model_type="qwen3", architectures=["Qwen3ForCausalLM"], rope_theta=1000000.0, tie_word_embeddings=True,
        head_dim=32, attention_bias=False, use_sliding_window=False, sliding_window=None, rope_scaling=None,
    ),
    # DeepSeek-R1-0528-Qwen3-8B. Its `attn_factor` is one over what YaRN would scale by: it takes that scale away.
    "qwen3-yarn": dict(
        SMALL, model_type="qwen3", architectures=["Qwen3ForCausalLM"], rope_theta=1000000.0, tie_word_embeddings=False,
        head_dim=32, attention_bias=False, use_sliding_window=False, sliding_window=None,
        rope_scaling=dict(
            attn_factor=0.8782488562869419, factor=4.0, original_max_position_embeddings=128, rope_type="yarn",
        ),
    ),
    "gpt-oss": dict(
        SMALL, model_type="gpt_oss", architectures=["GptOssForCausalLM"], rope_theta=150000, tie_word_embeddings=False,
        intermediate_size=32, num_attention_heads=8, num_local_experts=8, num_experts_per_tok=4, experts_per_token=4,
        sliding_window=20, layer_types=["sliding_attention", "full_attention"], attention_bias=True, swiglu_limit=7.0,
        initial_context_length=64, pad_token_id=258,
        rope_scaling=dict(
            beta_fast=32.0, beta_slow=1.0, factor=32.0, original_max_position_embeddings=64, rope_type="yarn", truncate=False,
        ),
        quantization_config=dict(
            quant_method="mxfp4",
            modules_to_not_convert=[
                "model.layers.*.self_attn", "model.layers.*.mlp.router", "model.embed_tokens", "lm_head",
            ],
        ),
    ),
}
# The same with experts as plain numbers, as fine-tuned models are saved.
MODELS["gpt-oss-bf16"] = {k: v for k, v in MODELS["gpt-oss"].items() if k != "quantization_config"}
# Something is added to queries, keys, values and what attention gives.
MODELS["llama-bias"] = dict(MODELS["llama"], attention_bias=True)


def shapes(c):
    """Every tensor of a model and its shape, as Hugging Face names it."""
    hidden, ffn, kind = c["hidden_size"], c["intermediate_size"], c["model_type"]
    q, kv = c["num_attention_heads"] * c["head_dim"], c["num_key_value_heads"] * c["head_dim"]
    yield "model.embed_tokens.weight", (VOCAB, hidden)
    yield "model.norm.weight", (hidden,)
    if not c["tie_word_embeddings"]:
        yield "lm_head.weight", (VOCAB, hidden)
    for layer in range(c["num_hidden_layers"]):
        at = f"model.layers.{layer}."
        yield at + "input_layernorm.weight", (hidden,)
        yield at + "post_attention_layernorm.weight", (hidden,)
        for part, shape in [("q", (q, hidden)), ("k", (kv, hidden)), ("v", (kv, hidden)), ("o", (hidden, q))]:
            yield at + f"self_attn.{part}_proj.weight", shape
            if c.get("attention_bias") or kind == "qwen2" and part != "o":
                yield at + f"self_attn.{part}_proj.bias", shape[:1]
        if kind == "qwen3":
            yield at + "self_attn.q_norm.weight", (c["head_dim"],)
            yield at + "self_attn.k_norm.weight", (c["head_dim"],)
        if kind == "gpt_oss":
            experts = c["num_local_experts"]
            yield at + "self_attn.sinks", (c["num_attention_heads"],)
            yield at + "mlp.router.weight", (experts, hidden)
            yield at + "mlp.router.bias", (experts,)
            yield at + "mlp.experts.gate_up_proj", (experts, 2 * ffn, hidden)
            yield at + "mlp.experts.gate_up_proj_bias", (experts, 2 * ffn)
            yield at + "mlp.experts.down_proj", (experts, hidden, ffn)
            yield at + "mlp.experts.down_proj_bias", (experts, hidden)
        else:
            yield at + "mlp.gate_proj.weight", (ffn, hidden)
            yield at + "mlp.up_proj.weight", (ffn, hidden)
            yield at + "mlp.down_proj.weight", (hidden, ffn)


def weights(c, rng):
    """Random weights that bfloat16 holds exactly; experts also fit MXFP4. So large that every part matters."""
    out = {}
    for name, shape in shapes(c):
        noise = rng.standard_normal(shape).astype(np.float32)
        if "norm" in name:
            value = 1 + 0.2 * noise
        elif "sinks" in name:
            value = 1 + noise
        elif "gate_up_proj_bias" in name:
            value = 4 * noise  # beyond the limit of the gate, now and then
        elif "bias" in name:
            value = 0.3 * noise
        elif "embed" in name and not c["tie_word_embeddings"]:
            value = noise
        else:
            gain = 2.0 if "embed" in name or "lm_head" in name else 1.5
            value = noise * gain / math.sqrt(shape[-1])
        if "experts" in name and "bias" not in name:
            rows = value.reshape(-1, shape[-1])
            value = gguf.quants.dequantize(gguf.quants.quantize(rows, Q.MXFP4), Q.MXFP4).reshape(shape)
        out[name] = torch.from_numpy(value).bfloat16()
    return out


def mxfp4(tensor):
    """GGUF's blocks of a tensor: an exponent, then 32 codes, the first 16 in the low nibbles."""
    rows = tensor.float().numpy()
    blocks = gguf.quants.quantize(rows.reshape(-1, rows.shape[-1]), Q.MXFP4)
    assert np.array_equal(gguf.quants.dequantize(blocks, Q.MXFP4).reshape(rows.shape), rows)
    return blocks.reshape(*rows.shape[:-1], -1)


def hf_mxfp4(tensor):
    """The published form: codes, neighbours in one byte, apart from exponents."""
    blocks = mxfp4(tensor)
    blocks = blocks.reshape(*blocks.shape[:-1], -1, 17)
    exponents, codes = blocks[..., 0], blocks[..., 1:]
    codes = np.concatenate([codes & 15, codes >> 4], axis=-1)
    pairs = codes[..., 0::2] | codes[..., 1::2] << 4
    return torch.from_numpy(np.ascontiguousarray(pairs)), torch.from_numpy(np.ascontiguousarray(exponents))


def byte_tokens():
    """Byte-level BPE's letters for the 256 bytes, in the order of GPT-2, and the merged ones."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    rest = [b for b in range(256) if b not in plain]
    return [chr(b) for b in plain] + [chr(256 + i) for i in range(len(rest))] + [MERGED]


def write_folder(folder, c, tensors):
    folder.mkdir(parents=True, exist_ok=True)
    stored = {}
    for name, tensor in tensors.items():
        if name.endswith(("gate_up_proj", "down_proj")):
            if "quantization_config" in c:
                stored[name + "_blocks"], stored[name + "_scales"] = hf_mxfp4(tensor)
            else:
                stored[name] = tensor.transpose(1, 2).contiguous()
        else:
            stored[name] = tensor
    save_file(stored, folder / "model.safetensors", metadata={"format": "pt"})
    (folder / "config.json").write_text(json.dumps(c, indent=1) + "\n")
    vocab = {token: i for i, token in enumerate(byte_tokens())}
    added = [
        dict(id=257 + i, content=text, single_word=False, lstrip=False, rstrip=False, normalized=False, special=True)
        for i, text in enumerate(SPECIAL)
    ]
    tokenizer = dict(
        version="1.0", truncation=None, padding=None, added_tokens=added, normalizer=None,
        pre_tokenizer=dict(type="ByteLevel", add_prefix_space=False, trim_offsets=True, use_regex=True),
        post_processor=None, decoder=dict(type="ByteLevel", add_prefix_space=False, trim_offsets=True, use_regex=True),
        model=dict(type="BPE", vocab=vocab, merges=[list(MERGED)]),
    )
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer) + "\n")


# Hugging Face's name of a part, GGUF's name of it.
GGUF_NAMES = {
    "input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm", "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output",
    "self_attn.q_norm": "attn_q_norm", "self_attn.k_norm": "attn_k_norm", "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down", "mlp.router": "ffn_gate_inp",
}


def gguf_tensors(c, tensors):
    """Name, numbers and type of every tensor as llama.cpp's converter would write it."""
    top = {"model.embed_tokens.weight": "token_embd.weight", "model.norm.weight": "output_norm.weight",
           "lm_head.weight": "output.weight"}
    for name, tensor in tensors.items():
        if name in top:
            yield top[name], tensor, Q.BF16
            continue
        _, _, layer, rest = name.split(".", 3)
        at = f"blk.{layer}."
        if rest == "self_attn.sinks":
            yield at + "attn_sinks.weight", tensor, Q.F32
        elif rest.startswith("mlp.experts."):
            part, bias = rest.removeprefix("mlp.experts.").split("_proj")
            ending, kind = (".bias", Q.F32) if bias else (".weight", Q.MXFP4)
            if part == "gate_up":
                yield at + "ffn_gate_exps" + ending, tensor[:, 0::2].contiguous(), kind
                yield at + "ffn_up_exps" + ending, tensor[:, 1::2].contiguous(), kind
            else:
                yield at + "ffn_down_exps" + ending, tensor, kind
        else:
            part, ending = rest.rsplit(".", 1)
            known = GGUF_NAMES[part]
            if c["model_type"] == "gpt_oss" and known == "ffn_norm":
                known = "post_attention_norm"
            # llama.cpp turns neighbours, Hugging Face halves: rows of Llama's heads are reordered for that.
            if known in ("attn_q", "attn_k") and c["model_type"] in ("llama", "smollm3"):
                heads = c["num_attention_heads" if known == "attn_q" else "num_key_value_heads"]
                half = tensor.shape[0] // heads // 2
                tensor = tensor.reshape(heads, 2, half, *tensor.shape[1:]).transpose(1, 2).reshape(tensor.shape)
            yield f"{at}{known}.{ending}", tensor, Q.BF16 if tensor.dim() > 1 else Q.F32


def llama3_factors(c):
    """What the frequencies are divided by, from transformers' own."""
    from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

    scaled, _ = ROPE_INIT_FUNCTIONS["llama3"](c, device="cpu")
    plain = 1.0 / c.rope_parameters["rope_theta"] ** (torch.arange(0, c.head_dim, 2, dtype=torch.float) / c.head_dim)
    return (plain / scaled).numpy()


def write_gguf(path, c, config, tensors):
    arch = c["model_type"].replace("_", "-")
    w = gguf.GGUFWriter(path, arch)
    w.add_context_length(CONTEXT)
    w.add_embedding_length(c["hidden_size"])
    w.add_block_count(c["num_hidden_layers"])
    w.add_head_count(c["num_attention_heads"])
    w.add_head_count_kv(c["num_key_value_heads"])
    w.add_key_length(c["head_dim"])
    w.add_value_length(c["head_dim"])
    w.add_layer_norm_rms_eps(c["rms_norm_eps"])
    w.add_rope_freq_base(c["rope_theta"])
    w.add_feed_forward_length(c["intermediate_size"])
    scaling = c.get("rope_scaling") or {}
    if scaling.get("rope_type") == "yarn":
        w.add_rope_scaling_type(gguf.RopeScalingType.YARN)
        w.add_rope_scaling_factor(scaling["factor"])
        w.add_rope_scaling_orig_ctx_len(scaling["original_max_position_embeddings"])
        if "attn_factor" in scaling:
            w.add_rope_scaling_yarn_attn_factor(scaling["attn_factor"])
    if scaling.get("rope_type") == "llama3":
        w.add_tensor("rope_freqs.weight", llama3_factors(config).astype(np.float32))
    if arch == "gpt-oss":
        w.add_sliding_window(c["sliding_window"])
        w.add_expert_count(c["num_local_experts"])
        w.add_expert_used_count(c["num_experts_per_tok"])
        w.add_expert_feed_forward_length(c["intermediate_size"])
    w.add_tokenizer_model("gpt2")
    w.add_tokenizer_pre("gpt-4o" if arch == "gpt-oss" else "smollm" if arch == "smollm3" else "qwen2")
    w.add_token_list([*byte_tokens(), *SPECIAL])
    w.add_token_types([1] * 257 + [3] * 2)
    w.add_token_merges([" ".join(MERGED)])
    w.add_bos_token_id(257)
    w.add_eos_token_id(258)
    w.add_add_bos_token(False)
    for name, tensor, kind in gguf_tensors(c, tensors):
        numbers = tensor.float().numpy()
        if kind == Q.MXFP4:
            w.add_tensor(name, mxfp4(tensor), raw_dtype=Q.MXFP4)
        elif kind == Q.BF16 and numbers.ndim > 1:
            w.add_tensor(name, gguf.quants.quantize(numbers, Q.BF16), raw_dtype=Q.BF16)
        else:
            w.add_tensor(name, numbers)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


def load(folder):
    config = AutoConfig.from_pretrained(folder)
    scaling = config.rope_parameters
    if "attn_factor" in scaling:
        # Transformers knows the result under another name, and this key not at all.
        scaling["attention_factor"] = scaling.pop("attn_factor") * (0.1 * math.log(scaling["factor"]) + 1)
    model = AutoModelForCausalLM.from_pretrained(folder, config=config, dtype=torch.float32, attn_implementation="eager")
    # Experts in MXFP4 arrive as bfloat16, which holds them exactly.
    return config, model.float().eval()


@torch.no_grad()
def reference(model, rng):
    rows = []
    for length in PROMPTS:
        prompt = rng.integers(0, 256, length).tolist()
        tokens, steps = list(prompt), []
        for _ in range(STEPS):
            logprobs = torch.log_softmax(model(torch.tensor([tokens])).logits[0, -1], -1)
            top = torch.topk(logprobs, 20)
            steps.append(dict(token=top.indices[0].item(), top=[
                [i, round(p, 6)] for i, p in zip(top.indices.tolist(), top.values.tolist())
            ]))
            tokens.append(steps[-1]["token"])
        rows.append(dict(prompt_ids=prompt, steps=steps))
    return rows


def write_blocks(rng):
    """Random blocks of MXFP4, from the smallest exponents to large ones, and what PyPI's `gguf` makes of them."""
    exponents = np.array([0, 1, 2, 3, 100, 118, 126, 127, 128, 140, 200, 250], np.uint8)
    blocks = rng.integers(0, 256, (len(exponents), 17), dtype=np.uint8)
    blocks[:, 0] = exponents
    values = gguf.quants.dequantize(blocks.reshape(-1), Q.MXFP4).astype("<f4")
    assert np.isfinite(values).all()
    fixture = dict(bytes=blocks.tobytes().hex(), values=values.tobytes().hex())
    (HERE / "mxfp4_blocks.json").write_text(json.dumps(fixture) + "\n")


def main():
    """Makes the models named on the command line, or all."""
    wanted = sys.argv[1:]
    if not wanted:
        write_blocks(np.random.default_rng(7))
    for seed, (name, c) in enumerate(MODELS.items()):
        if wanted and name not in wanted:
            continue
        # The two forms of gpt-oss are one model.
        rng = np.random.default_rng(seed - (name == "gpt-oss-bf16"))
        folder = HERE / name
        tensors = weights(c, rng)
        write_folder(folder, c, tensors)
        config, model = load(folder)
        if name != "gpt-oss-bf16":
            write_gguf(folder / "model.gguf", c, config, tensors)
        rows = reference(model, rng)
        lines = ",\n".join(json.dumps(row) for row in rows)
        (folder / "reference.json").write_text('{"rows": [\n' + lines + "\n]}\n")
        parameters = sum(p.numel() for p in model.parameters())
        entropy = np.mean([-sum(math.exp(p) * p for _, p in s["top"]) for r in rows for s in r["steps"]])
        print(f"{name}: {parameters} parameters, mean entropy {entropy:.2f}")


main()
