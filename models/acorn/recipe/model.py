"""The Qwen3 architecture in plain torch, over packed documents.

Parameters carry the names of transformers' Qwen3ForCausalLM, so the saved folder loads there unchanged.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.nn import functional

Config = dict[str, Any]
# (queries, keys, values, document offsets) -> attended values; each [tokens, heads, head size].
Attention = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]

ACORN: Config = {
    "architectures": ["Qwen3ForCausalLM"],
    "model_type": "qwen3",
    "vocab_size": 384,
    "hidden_size": 256,
    "intermediate_size": 768,
    "num_hidden_layers": 8,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "head_dim": 32,
    "hidden_act": "silu",
    "max_position_embeddings": 1024,
    "rms_norm_eps": 1e-6,
    "rope_theta": 10000.0,
    "rope_scaling": None,
    "attention_bias": False,
    "attention_dropout": 0.0,
    "tie_word_embeddings": True,
    "use_cache": True,
    "use_sliding_window": False,
    "sliding_window": None,
    "max_window_layers": 8,
    "initializer_range": 0.02,
    "bos_token_id": None,
    "eos_token_id": 378,
    "pad_token_id": 376,
    "torch_dtype": "bfloat16",
}


class RmsNorm(nn.Module):
    def __init__(self, size: int, epsilon: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.epsilon = epsilon

    def forward(self, x: Tensor) -> Tensor:
        wide = x.float()
        scale = torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + self.epsilon)
        return (wide * scale * self.weight.float()).to(x.dtype)


def rotary_tables(positions: Tensor, head_size: int, theta: float) -> tuple[Tensor, Tensor]:
    """Cosines and sines, [tokens, head size]; both halves of a head turn by the same angles."""
    pairs = torch.arange(0, head_size, 2, device=positions.device, dtype=torch.float32)
    angles = positions.float()[:, None] * theta ** (-pairs / head_size)
    angles = torch.cat([angles, angles], -1)
    return angles.cos(), angles.sin()


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Turns [tokens, heads, head size] by the tables."""
    left, right = x.chunk(2, dim=-1)
    return x * cos[:, None] + torch.cat([-right, left], -1) * sin[:, None]


class SelfAttention(nn.Module):
    def __init__(self, config: Config) -> None:
        super().__init__()
        hidden, self.head_size = config["hidden_size"], config["head_dim"]
        queries = config["num_attention_heads"] * self.head_size
        keys = config["num_key_value_heads"] * self.head_size
        self.q_proj = nn.Linear(hidden, queries, bias=False)
        self.k_proj = nn.Linear(hidden, keys, bias=False)
        self.v_proj = nn.Linear(hidden, keys, bias=False)
        self.o_proj = nn.Linear(queries, hidden, bias=False)
        self.q_norm = RmsNorm(self.head_size, config["rms_norm_eps"])
        self.k_norm = RmsNorm(self.head_size, config["rms_norm_eps"])

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor, offsets: Tensor, attention: Attention) -> Tensor:
        heads = (x.shape[0], -1, self.head_size)
        q = rotate(self.q_norm(self.q_proj(x).view(heads)).float(), cos, sin)
        k = rotate(self.k_norm(self.k_proj(x).view(heads)).float(), cos, sin)
        v = self.v_proj(x).view(heads)
        return self.o_proj(attention(q, k, v, offsets).reshape(x.shape[0], -1))


class Mlp(nn.Module):
    def __init__(self, config: Config) -> None:
        super().__init__()
        hidden, inner = config["hidden_size"], config["intermediate_size"]
        self.gate_proj = nn.Linear(hidden, inner, bias=False)
        self.up_proj = nn.Linear(hidden, inner, bias=False)
        self.down_proj = nn.Linear(inner, hidden, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.down_proj(functional.silu(self.gate_proj(x)) * self.up_proj(x))


class Block(nn.Module):
    def __init__(self, config: Config) -> None:
        super().__init__()
        hidden, epsilon = config["hidden_size"], config["rms_norm_eps"]
        self.self_attn = SelfAttention(config)
        self.mlp = Mlp(config)
        self.input_layernorm = RmsNorm(hidden, epsilon)
        self.post_attention_layernorm = RmsNorm(hidden, epsilon)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor, offsets: Tensor, attention: Attention) -> Tensor:
        x = x + self.self_attn(self.input_layernorm(x), cos, sin, offsets, attention)
        return x + self.mlp(self.post_attention_layernorm(x))


class Trunk(nn.Module):
    """Everything below the output layer. Only here so that parameter names begin with `model.`."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.embed_tokens = nn.Embedding(config["vocab_size"], config["hidden_size"])
        self.layers = nn.ModuleList(Block(config) for _ in range(config["num_hidden_layers"]))
        self.norm = RmsNorm(config["hidden_size"], config["rms_norm_eps"])


class Acorn(nn.Module):
    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        self.model = Trunk(config)
        for name, parameter in self.named_parameters():
            if parameter.dim() == 2:
                nn.init.normal_(parameter, std=config["initializer_range"])
            if name.endswith(("o_proj.weight", "down_proj.weight")):
                # These write to the residual stream; summed over all layers they should start small.
                parameter.data.div_((2 * config["num_hidden_layers"]) ** 0.5)

    def forward(self, tokens: Tensor, positions: Tensor, offsets: Tensor, attention: Attention) -> Tensor:
        """Logits of every token, [tokens, vocabulary]."""
        x = self.model.embed_tokens(tokens)
        cos, sin = rotary_tables(positions, self.config["head_dim"], self.config["rope_theta"])
        for block in self.model.layers:
            x = block(x, cos, sin, offsets, attention)
        # The output layer is the embedding again.
        return functional.linear(self.model.norm(x), self.model.embed_tokens.weight)

    def save(self, folder: Path) -> None:
        """Writes bf16 weights and the configuration."""
        folder.mkdir(parents=True, exist_ok=True)
        weights = {
            name: value.detach().to("cpu", torch.bfloat16).contiguous()
            for name, value in self.state_dict().items()
        }
        save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
        (folder / "config.json").write_text(json.dumps(self.config, indent=1))

    @staticmethod
    def load(folder: Path) -> "Acorn":
        """Reads what `save` wrote, as float32."""
        acorn = Acorn(json.loads((folder / "config.json").read_text()))
        weights = load_file(folder / "model.safetensors")
        acorn.load_state_dict({name: value.float() for name, value in weights.items()})
        return acorn
