"""The training documents: drawn by the `acorn-corpus` command, tokenised, packed into batches.

`acorn-corpus` (in this crate) is the only generator of problems. Build it once:

    cargo build --release -p eager-acorn --bin acorn-corpus

A batch is one long row of whole documents, one after the other. Attention is kept inside each document by the
table of their offsets, so nothing is spent on padding but the tail of the row.
"""

import itertools
import json
import os
import subprocess
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypedDict

import numpy as np
from tokenizers import Tokenizer

RECIPE = Path(__file__).resolve().parent
WORKSPACE = RECIPE.parents[2]

# Longer documents would be left out; the longest of the first hundred thousand has 285 tokens.
LONGEST_DOCUMENT = 400
# No document is shorter (the shortest seen has 35 tokens), which bounds how many a batch can hold.
SHORTEST_DOCUMENT = 32
# What cross entropy skips.
NO_TARGET = -100
# Documents handed to the tokenizer at a time.
TOKENISE_AT_ONCE = 512


class Document(TypedDict):
    """What the recipe reads of a line that `acorn-corpus` prints."""

    problem: str
    think: str
    boxed: str


@dataclass
class Batch:
    """Packed documents. The first three arrays have one entry a token."""

    tokens: np.ndarray  # int64
    targets: np.ndarray  # int64: the next token, or NO_TARGET where it is not acorn's to say
    positions: np.ndarray  # int32: from 0 in every document
    offsets: np.ndarray  # int32: where documents begin, then the length of the row to fill the table up


def corpus_command() -> Path:
    """The built command: $ACORN_CORPUS, or the workspace's release build."""
    if chosen := os.environ.get("ACORN_CORPUS"):
        return Path(chosen)
    target = Path(os.environ.get("CARGO_TARGET_DIR", WORKSPACE / "target"))
    return target / "release" / "acorn-corpus"


def documents(seed: int, count: int | None = None, threads: int = 1) -> Iterator[Document]:
    """Training documents, `count` of them or without end. Closing the iterator ends the command."""
    command = corpus_command()
    if not command.exists():
        build = "cargo build --release -p eager-acorn --bin acorn-corpus"
        raise FileNotFoundError(f"{command} is not built: {build}")
    arguments = [str(command), "--seed", str(seed), "--threads", str(threads)]
    if count is not None:
        arguments += ["--documents", str(count)]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True, encoding="utf-8") as process:
        assert process.stdout is not None  # it was asked for above
        for line in process.stdout:
            yield json.loads(line)


def prompt_text(problem: str) -> str:
    """A problem as the chat template writes it."""
    return f"<|im_start|>user\n{problem}<|im_end|>\n<|im_start|>assistant\n"


def full_text(document: Document) -> str:
    """A whole document: the prompt, the trace, the answer."""
    answer = f"<think>\n{document['think']}</think>\n\\boxed{{{document['boxed']}}}<|im_end|>"
    return prompt_text(document["problem"]) + answer


def tokenised(source: Iterable[Document], tokenizer: Tokenizer) -> Iterator[list[int]]:
    """The token ids of each document, a few hundred documents at a time."""
    texts = map(full_text, source)
    while some := list(itertools.islice(texts, TOKENISE_AT_ONCE)):
        for encoding in tokenizer.encode_batch_fast(some, add_special_tokens=False):
            yield encoding.ids


def pack(rows: Iterable[list[int]], think: int, size: int) -> Iterator[Batch]:
    """Batches of `size` tokens. `think` is the id of <think>: what acorn learns to say begins there."""
    held: list[list[int]] = []
    length = 0
    for row in rows:
        if len(row) > LONGEST_DOCUMENT:
            continue
        if length + len(row) > size:
            yield _batch(held, think, size)
            held, length = [], 0
        held.append(row)
        length += len(row)


def _batch(rows: list[list[int]], think: int, size: int) -> Batch:
    lengths = [len(row) for row in rows]
    used = sum(lengths)
    tokens = np.zeros(size, np.int64)
    tokens[:used] = np.concatenate(rows)

    # The unused tail is one more document, with nothing to learn.
    starts = np.concatenate([[0], np.cumsum(lengths)]) if used < size else np.cumsum([0, *lengths[:-1]])
    offsets = np.full(size // SHORTEST_DOCUMENT + 2, size, np.int32)
    if len(starts) >= len(offsets):
        raise ValueError(f"{len(starts)} documents in one batch: SHORTEST_DOCUMENT no longer holds")
    offsets[: len(starts)] = starts
    positions = np.arange(size) - np.repeat(starts, np.diff(np.append(starts, size)))

    targets = np.full(size, NO_TARGET, np.int64)
    # There may be one start more than rows: the tail.
    for start, row in zip(starts, rows, strict=False):
        # The token before <think> already has <think> as its target.
        first = start + row.index(think)
        targets[first - 1 : start + len(row) - 1] = tokens[first : start + len(row)]
    return Batch(tokens, targets, positions.astype(np.int32), offsets)
