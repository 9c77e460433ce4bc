"""Trains acorn from nothing.

    python train.py --out DIR --minutes 10     on one GPU
    python train.py --out DIR --smoke          twenty steps of a miniature on the CPU

The budget is time, not steps: the learning rate follows the share of the time that has gone by.
"""

import argparse
import json
import os
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
from tokenizers import Tokenizer
from torch import Tensor
from torch.nn import functional
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

import attention
import corpus
from model import ACORN, Acorn, Attention, Config
from optimizer import Optimizer

WEIGHTS = corpus.RECIPE.parent / "weights"
TOKENIZER_FILES = ("tokenizer.json", "tokenizer_config.json")
# Shares of the time: warming up, then at the full rate until the second mark, then falling to nearly nothing.
WARM_UP, FALL = 0.01, 0.4
FIRST_SCALE, LAST_SCALE = 0.02, 0.01
REPORT_EVERY = 250
SMOKE_STEPS = 20
SMOKE_BATCH = 1024
SMOKE_CONFIG = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2}


@dataclass
class Plan:
    """What a run does, as the arguments say."""

    config: Config
    device: str
    tokenizer: Path
    batch: int
    workers: int
    seed: int
    matrix_rate: float
    other_rate: float
    seconds: float
    most_steps: int | None


class Batches(IterableDataset):
    """An endless stream of packed batches. Every worker process draws a corpus of its own."""

    def __init__(self, tokenizer: Path, size: int, seed: int) -> None:
        self.tokenizer, self.size, self.seed = tokenizer, size, seed

    def __iter__(self) -> Iterator[tuple[Tensor, ...]]:
        worker = get_worker_info()
        seed = self.seed if worker is None else self.seed * worker.num_workers + worker.id
        tokenizer = Tokenizer.from_file(str(self.tokenizer / "tokenizer.json"))
        rows = corpus.tokenised(corpus.documents(seed), tokenizer)
        for batch in corpus.pack(rows, tokenizer.token_to_id("<think>"), self.size):
            yield tuple(map(torch.from_numpy, (batch.tokens, batch.targets, batch.positions, batch.offsets)))


def rate_scale(done: float) -> float:
    """The factor on the learning rates after this share of the time."""
    if done < FALL:
        return min(1.0, done / WARM_UP + FIRST_SCALE)
    return (1 - LAST_SCALE) * max(0.0, (1 - done) / (1 - FALL)) + LAST_SCALE


def choose_attention(device: str) -> Attention:
    """Flash attention on a GPU (once it has passed its check), dense elsewhere."""
    if device != "cuda":
        return attention.dense
    attention.check_flash()
    return attention.flash


def train(plan: Plan) -> tuple[Acorn, list[dict[str, float]]]:
    """Runs the plan; gives the model and a line of the log for every report."""
    torch.manual_seed(plan.seed)
    torch.set_float32_matmul_precision("high")
    on_gpu = plan.device == "cuda"
    attend = choose_attention(plan.device)
    acorn = Acorn(plan.config).to(plan.device)
    if on_gpu:
        # Block by block: all blocks have one shape, so the first one's code serves them all.
        for block in acorn.model.layers:
            block.compile(dynamic=False)
    optimizer = Optimizer(acorn, plan.matrix_rate, plan.other_rate)
    batches = DataLoader(
        Batches(plan.tokenizer, plan.batch, plan.seed),
        batch_size=None,
        num_workers=plan.workers,
        prefetch_factor=4 if plan.workers else None,
        pin_memory=on_gpu,
    )
    print(f"{sum(p.numel() for p in acorn.parameters()):,} parameters on {plan.device}", flush=True)

    def loss_of(tokens: Tensor, targets: Tensor, positions: Tensor, offsets: Tensor) -> Tensor:
        with torch.autocast(plan.device, torch.bfloat16, enabled=on_gpu):
            logits = acorn(tokens, positions, offsets, attend)
        return functional.cross_entropy(logits.float(), targets, ignore_index=corpus.NO_TARGET)

    begin = time.monotonic()
    budget, log, step, window = plan.seconds, [], 0, []
    for batch in batches:
        elapsed = time.monotonic() - begin
        done = elapsed / budget if plan.most_steps is None else step / plan.most_steps
        if done >= 1:
            break
        loss = loss_of(*(tensor.to(plan.device, non_blocking=True) for tensor in batch))
        loss.backward()
        optimizer.step(rate_scale(done))
        window.append(loss.detach())
        step += 1
        if step == 1:
            # Compiling belongs to the budget but not to the schedule, which starts here.
            loss.item()
            now = time.monotonic()
            begin, budget = now, budget - (now - begin)
        if step in (1, 10) or step % REPORT_EVERY == 0 or step == plan.most_steps:
            mean = torch.stack(window).mean().item()
            window.clear()
            seconds = time.monotonic() - begin
            log.append({"step": step, "tokens": step * plan.batch, "loss": mean, "seconds": seconds})
            millions = step * plan.batch / 1e6
            print(f"step {step}: {millions:.1f}M tokens, loss {mean:.4f}, {seconds:.0f} s", flush=True)
    return acorn, log


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Train acorn.")
    parser.add_argument("--out", type=Path, required=True, help="folder for weights, tokenizer and log")
    parser.add_argument("--minutes", type=float, default=10.0, help="time to train, compiling included")
    parser.add_argument("--tokenizer", type=Path, default=WEIGHTS, help="folder with a tokenizer.json")
    parser.add_argument("--batch", type=int, default=131_072, help="tokens a step")
    parser.add_argument("--matrix-rate", type=float, default=0.02, help="Muon's learning rate")
    parser.add_argument("--other-rate", type=float, default=0.003, help="AdamW's learning rate")
    parser.add_argument("--workers", type=int, default=14, help="processes that draw and tokenise")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--smoke", action="store_true", help="twenty steps of a miniature on the CPU")
    return parser.parse_args()


def plan_of(arguments: argparse.Namespace) -> Plan:
    """The plan that the arguments ask for."""
    tokenizer = Tokenizer.from_file(str(arguments.tokenizer / "tokenizer.json"))
    config = dict(
        ACORN,
        vocab_size=tokenizer.get_vocab_size(),
        eos_token_id=tokenizer.token_to_id("<|im_end|>"),
        pad_token_id=tokenizer.token_to_id("<|endoftext|>"),
    )
    if not arguments.smoke and not torch.cuda.is_available():
        raise SystemExit("training needs a CUDA GPU; --smoke runs a miniature on the CPU")
    return Plan(
        config=config | SMOKE_CONFIG if arguments.smoke else config,
        device="cpu" if arguments.smoke else "cuda",
        tokenizer=arguments.tokenizer,
        batch=SMOKE_BATCH if arguments.smoke else arguments.batch,
        workers=0 if arguments.smoke else arguments.workers,
        seed=arguments.seed,
        matrix_rate=arguments.matrix_rate,
        other_rate=arguments.other_rate,
        seconds=60 * arguments.minutes,
        most_steps=SMOKE_STEPS if arguments.smoke else None,
    )


def main() -> None:
    # Every worker tokenises on one core; the tokenizer's own threads would only get in each other's way.
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    arguments = parse_arguments()
    acorn, log = train(plan_of(arguments))
    acorn.save(arguments.out)
    for name in TOKENIZER_FILES:
        shutil.copyfile(arguments.tokenizer / name, arguments.out / name)
    (arguments.out / "train_log.json").write_text(json.dumps(log, indent=1))
    print(f"saved in {arguments.out}")


if __name__ == "__main__":
    main()
