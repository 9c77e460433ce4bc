"""Muon for the matrices, AdamW for the rest.

Muon replaces a matrix's momentum by the nearest orthogonal matrix (nearly: five steps of a Newton-Schulz
iteration), so that every direction of the matrix learns at the same pace. The embedding and the norms are no
maps between vectors, so they stay with AdamW.
"""

import torch
from torch import Tensor, nn

# The quintic whose iteration pulls all singular values towards one; found by Keller Jordan.
NEWTON_SCHULZ = (3.4445, -4.7750, 2.0315)
ITERATIONS = 5
# Momentum rises over the first steps, while gradients still change quickly.
FIRST_MOMENTUM, MOMENTUM, MOMENTUM_STEPS = 0.85, 0.95, 300
WEIGHT_DECAY = 0.01
ADAM_CLIP = 1.0


def orthogonalise(matrices: Tensor) -> Tensor:
    """Nearly the orthogonal factor of each matrix in the stack."""
    # bfloat16 is enough for this iteration, and fast on a GPU.
    x = matrices.bfloat16() if matrices.is_cuda else matrices
    tall = x.shape[-2] > x.shape[-1]
    if tall:
        x = x.mT
    x = x / (x.norm(dim=(-2, -1), keepdim=True) + 1e-7)
    a, b, c = NEWTON_SCHULZ
    for _ in range(ITERATIONS):
        square = x @ x.mT
        x = a * x + (b * square + c * square @ square) @ x
    return (x.mT if tall else x).float()


class Optimizer:
    """One step of both optimizers. Matrices of one shape are stacked and orthogonalised together."""

    def __init__(self, model: nn.Module, matrix_rate: float, other_rate: float) -> None:
        self.matrix_rate, self.other_rate = matrix_rate, other_rate
        self.matrices: dict[torch.Size, list[nn.Parameter]] = {}
        self.others: list[nn.Parameter] = []
        for name, parameter in model.named_parameters():
            if parameter.dim() == 2 and "embed" not in name:
                self.matrices.setdefault(parameter.shape, []).append(parameter)
            else:
                self.others.append(parameter)
        self.momentum = {
            shape: torch.zeros(len(same), *shape, device=same[0].device)
            for shape, same in self.matrices.items()
        }
        fused = self.others[0].is_cuda
        self.adam = torch.optim.AdamW(self.others, betas=(0.9, 0.95), weight_decay=0.0, fused=fused)
        self.steps = 0

    def step(self, scale: float) -> None:
        """Applies the gradients at `scale` times the full rates, and clears them."""
        for group in self.adam.param_groups:
            group["lr"] = self.other_rate * scale
        torch.nn.utils.clip_grad_norm_(self.others, ADAM_CLIP)
        self.adam.step()
        self._muon(self.matrix_rate * scale)
        self.steps += 1
        for parameters in (self.others, *self.matrices.values()):
            for parameter in parameters:
                parameter.grad = None

    @torch.no_grad()
    def _muon(self, rate: float) -> None:
        progress = min(1.0, self.steps / MOMENTUM_STEPS)
        beta = FIRST_MOMENTUM + (MOMENTUM - FIRST_MOMENTUM) * progress
        for shape, parameters in self.matrices.items():
            gradients = torch.stack([parameter.grad for parameter in parameters])
            momentum = self.momentum[shape].lerp_(gradients, 1 - beta)
            # Nesterov: look ahead along the momentum. A tall matrix needs larger entries for the same effect.
            updates = orthogonalise(gradients.lerp(momentum, beta)) * max(1.0, shape[0] / shape[1]) ** 0.5
            for parameter, update in zip(parameters, updates, strict=True):
                parameter.mul_(1 - rate * WEIGHT_DECAY).add_(update, alpha=-rate)
