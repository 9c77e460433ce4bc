"""Trains a tokenizer on the corpus: byte-level BPE behind Qwen2's way of splitting, digits one by one.

    python build_tokenizer.py --out DIR

This makes a new tokenizer for new weights. The tokenizer in ../weights belongs to the weights beside it: it
was trained by this method on an earlier mix of the corpus (before "step by step"), so its merges are not what
this script finds today, and the shipped weights understand no other.
"""

import argparse
import json
from pathlib import Path

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

import corpus

# Contractions, words, single digits, punctuation, line ends, spaces: the pattern of Qwen2.
SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
# In the order of their ids. The think tags are ordinary text to a decoder, as in Qwen3.
ADDED = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<think>", "</think>"]
CHAT_TEMPLATE = (
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
MOST_TOKENS = 480
RAREST_MERGE = 20
# The vocabulary is filled up to a multiple of this, which matrix units like.
ROUND_TO = 64


def training_texts(seed: int, count: int) -> list[str]:
    """What stands between the added tokens of `count` documents: they are never merged with anything."""
    texts: list[str] = []
    for document in corpus.documents(seed, count):
        texts += [
            "user\n" + document["problem"],
            "\n",
            "assistant\n",
            "\n" + document["think"],
            "\n\\boxed{" + document["boxed"] + "}",
            "system\n",
        ]
    return texts


def build(texts: list[str]) -> Tokenizer:
    """Trains the merges and adds the added tokens behind them."""
    tokenizer = Tokenizer(models.BPE())
    # The GGUF calls this cut "qwen2", and that composes accents first.
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(SPLIT), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=MOST_TOKENS,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        min_frequency=RAREST_MERGE,
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    # One by one, so that the ids keep this order.
    for content in ADDED:
        special = "think" not in content
        add = tokenizer.add_special_tokens if special else tokenizer.add_tokens
        add([AddedToken(content, special=special, normalized=False)])
    missing = -tokenizer.get_vocab_size() % ROUND_TO
    tokenizer.add_special_tokens(
        [AddedToken(f"<|unused_{i}|>", special=True, normalized=False) for i in range(missing)]
    )
    return tokenizer


def save(tokenizer: Tokenizer, out: Path) -> None:
    """Writes tokenizer.json and the tokenizer_config.json with the chat template."""
    out.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(out / "tokenizer.json"))
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": 1024,
        "bos_token": None,
        "eos_token": "<|im_end|>",
        "pad_token": "<|endoftext|>",
        "clean_up_tokenization_spaces": False,
        "chat_template": CHAT_TEMPLATE,
    }
    (out / "tokenizer_config.json").write_text(json.dumps(config, indent=1))


def main() -> None:
    parser = argparse.ArgumentParser(description="Train a tokenizer on acorn's corpus.")
    parser.add_argument("--out", type=Path, required=True, help="folder for the two files")
    parser.add_argument("--documents", type=int, default=12_000, help="documents to train on")
    parser.add_argument("--seed", type=int, default=1000, help="which corpus")
    arguments = parser.parse_args()

    tokenizer = build(training_texts(arguments.seed, arguments.documents))
    save(tokenizer, arguments.out)
    print(f"{tokenizer.get_vocab_size()} tokens, in {arguments.out}")


if __name__ == "__main__":
    main()
