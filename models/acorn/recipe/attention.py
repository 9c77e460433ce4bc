"""Causal attention over packed documents: fast on a GPU, plain on a CPU."""

import torch
from torch import Tensor
from torch.nn import functional

import corpus


def repeat_heads(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    """One key and value head for every query head."""
    times = q.shape[1] // k.shape[1]
    return k.repeat_interleave(times, 1), v.repeat_interleave(times, 1)


def dense(q: Tensor, k: Tensor, v: Tensor, offsets: Tensor) -> Tensor:
    """By a mask over all pairs of tokens. Quadratic in the batch: for checks and miniatures."""
    k, v = repeat_heads(q, k, v)
    index = torch.arange(q.shape[0], device=q.device)
    document = torch.searchsorted(offsets.long(), index, right=True)
    mask = (document[:, None] == document[None]) & (index[:, None] >= index[None])
    q, k, v = (tensor.transpose(0, 1) for tensor in (q, k, v))
    return functional.scaled_dot_product_attention(q, k, v, attn_mask=mask).transpose(0, 1)


def flash(q: Tensor, k: Tensor, v: Tensor, offsets: Tensor) -> Tensor:
    """By torch's flash attention for rows of different lengths: a private function, hence `check_flash`."""
    k, v = repeat_heads(q, k, v)
    q, k, v = q.bfloat16(), k.bfloat16(), v.bfloat16()
    longest = corpus.LONGEST_DOCUMENT
    dropout, causal, debug_mask = 0.0, True, False
    return torch.ops.aten._flash_attention_forward(
        q, k, v, offsets, offsets, longest, longest, dropout, causal, debug_mask
    )[0]


def check_flash(tolerance: float = 0.03) -> None:
    """Compares `flash` and its gradients with `dense` on the GPU; raises if they are apart."""
    generator = torch.Generator("cuda").manual_seed(0)
    offsets = torch.tensor([0, 300, 700, 1024, 1400, 1750, 2048, 2048], device="cuda", dtype=torch.int32)
    inputs = [torch.randn(2048, heads, 32, device="cuda", generator=generator) for heads in (8, 4, 4)]

    def outputs(attention) -> list[Tensor]:
        leaves = [tensor.clone().requires_grad_() for tensor in inputs]
        result = attention(*leaves, offsets).float()
        result.pow(2).sum().backward()
        return [result.detach(), *(leaf.grad for leaf in leaves)]

    for fast, plain in zip(outputs(flash), outputs(dense), strict=True):
        error = ((fast - plain).norm() / plain.norm()).item()
        if not error < tolerance:
            raise RuntimeError(f"this torch's flash attention is off by {error:.1e}; try torch 2.9")
