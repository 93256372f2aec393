#!/usr/bin/env python3
"""Makes texts.json and ids/*.json, the golden token ids of the tokenizer tests.

Every id list comes from two independent implementations, llama.cpp's library and Hugging Face `tokenizers`,
over the vocabulary of the same GGUF file. Where they differ the script fails, unless the difference is listed
in EXPLAINED; a listed difference that does not exist is a failure, too. What is written is Hugging Face's.

Needs: pip packages tokenizers and gguf, a C++ compiler, and the built llama.cpp below $CERA_PEERS.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from gguf import GGUFReader
from tokenizers import AddedToken, Regex, Tokenizer, models, pre_tokenizers

import corpus

HERE = Path(__file__).parent
HOME = Path.home()
MODELS = Path(os.environ.get("CERA_MODELS", HOME / ".cache/cera-models"))
PEERS = Path(os.environ.get("CERA_PEERS", HOME / ".cache/cera-peers"))
LLAMA = PEERS / "llama_cpp_python-0.3.36/vendor/llama.cpp"

# name: (file, pre-tokenizer instead of the file's, the rules below)
CASES = {
    "smollm2": (MODELS / "smollm2.gguf", "", "digits"),
    "qwen05": (MODELS / "qwen05.gguf", "", "qwen2"),
    "gpt-2": (LLAMA / "models/ggml-vocab-gpt-2.gguf", "", "gpt2"),
    "llama-bpe": (LLAMA / "models/ggml-vocab-llama-bpe.gguf", "", "llama3"),
    "refact": (LLAMA / "models/ggml-vocab-refact.gguf", "", "digits"),
    "starcoder": (LLAMA / "models/ggml-vocab-starcoder.gguf", "", "digits"),
    "command-r": (LLAMA / "models/ggml-vocab-command-r.gguf", "", "digits"),
    "mpt": (LLAMA / "models/ggml-vocab-mpt.gguf", "", "gpt2"),
    "falcon": (LLAMA / "models/ggml-vocab-falcon.gguf", "", "falcon"),
    "deepseek-coder": (LLAMA / "models/ggml-vocab-deepseek-coder.gguf", "", "deepseek-coder"),
    "qwen35": (LLAMA / "models/ggml-vocab-qwen35.gguf", "", "qwen35"),
    "gpt-neox-default": (LLAMA / "models/ggml-vocab-gpt-neox.gguf", "", "default"),
    "llama-bpe-as-lfm2": (LLAMA / "models/ggml-vocab-llama-bpe.gguf", "lfm2", "llama3"),
    "llama-bpe-as-dbrx": (LLAMA / "models/ggml-vocab-llama-bpe.gguf", "dbrx", "dbrx"),
    "llama-bpe-as-deepseek-v3": (LLAMA / "models/ggml-vocab-llama-bpe.gguf", "deepseek-v3", "deepseek-v3"),
    "gpt-2-as-smollm": (LLAMA / "models/ggml-vocab-gpt-2.gguf", "smollm", "digits"),
    "qwen05-as-default": (MODELS / "qwen05.gguf", "default", "default"),
}

WORDS = r"[^\r\n\p{L}\p{N}]?\p{L}+"
TAIL = r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
CONTRACTIONS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|"
BYTES = lambda use_regex: pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=use_regex)
SPLIT = lambda regex: pre_tokenizers.Split(Regex(regex), "isolated")

# As the models' tokenizer.json have them: pre-tokenizers in order, and ignore_merges.
RULES = {
    "gpt2": ([BYTES(True)], False),
    "digits": ([pre_tokenizers.Digits(individual_digits=True), BYTES(True)], False),
    "llama3": ([SPLIT(CONTRACTIONS + WORDS + r"|\p{N}{1,3}" + TAIL), BYTES(False)], True),
    "dbrx": ([SPLIT(CONTRACTIONS + WORDS + r"|\p{N}{1,3}" + TAIL), BYTES(False)], False),
    "qwen2": ([SPLIT(CONTRACTIONS + WORDS + r"|\p{N}" + TAIL), BYTES(False)], False),
    "qwen35": (
        [
            SPLIT(
                CONTRACTIONS + r"[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}"
                r"| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
            ),
            BYTES(False),
        ],
        False,
    ),
    "falcon": (
        [pre_tokenizers.Punctuation("contiguous"), BYTES(True), SPLIT("[0-9][0-9][0-9]")],
        False,
    ),
    # Nobody publishes this one: it is what readers of GGUF do when a file does not say.
    "default": (
        [SPLIT(r"[\p{P}\$\+<=>\^~\|]+"), SPLIT(GPT2), SPLIT(r"\p{N}+"), SPLIT("[0-9][0-9][0-9]"),
         BYTES(False)],
        False,
    ),
    "deepseek-coder": (
        [SPLIT("[\r\n]"), SPLIT(r"\s?\p{L}+"), SPLIT(r"\s?\p{P}+"), SPLIT("[一-龥ࠀ-一가-퟿]+"), SPLIT(r"\p{N}"),
         BYTES(False)],
        False,
    ),
    "deepseek-v3": (
        [
            SPLIT(r"\p{N}{1,3}"),
            SPLIT("[一-龥぀-ゟ゠-ヿ]+"),
            SPLIT(
                r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"
                r"| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
            ),
            BYTES(False),
        ],
        False,
    ),
}

# (case or *, text, mode or *): why llama.cpp differs.
OVERLONG = "ill-formed UTF-8: llama.cpp reads overlong forms and surrogates as if they were characters"
BEYOND = "ill-formed UTF-8: llama.cpp throws above U+10FFFF"
INERT = "llama.cpp recognises user-defined tokens in content, too; here content is never markup"
END_OF_S = "llama.cpp takes the ordinary token '</s>' for a control token because of its spelling"
EXPLAINED = {
    ("*", "invalid/9", "*"): OVERLONG,
    ("*", "invalid/10", "*"): OVERLONG,
    ("*", "invalid/11", "*"): OVERLONG,
    ("*", "invalid/12", "*"): BEYOND,
    ("*", "invalid/13", "*"): BEYOND,
    ("qwen05", "special/19", "content"): INERT,
    ("qwen05-as-default", "special/19", "content"): INERT,
    ("command-r", "special/20", "content"): INERT,
    ("mpt", "special/27", "content"): INERT,
    ("gpt-neox-default", "special/27", "content"): INERT,
    ("qwen35", "special/27", "content"): INERT,
    ("deepseek-coder", "special/14", "content"): INERT,
    ("qwen05", "special/14", "template"): END_OF_S,
    ("qwen05-as-default", "special/14", "template"): END_OF_S,
    ("qwen35", "special/14", "template"): END_OF_S,
    ("smollm2", "symbol/26", "*"): "bytes without a token: llama.cpp drops them after merging, not before",
    ("llama-bpe-as-deepseek-v3", "symbol/24", "*"): "U+1C89 is a letter since Unicode 16; llama.cpp has 15.1",
}

CONTROL, USER_DEFINED, UNKNOWN = 3, 4, 2


def is_plain(spelling):
    """A user-defined token that is no markup: white space, letters and digits only, or one character."""
    import unicodedata

    return len(spelling) == 1 or all(c.isspace() or unicodedata.category(c)[0] in "LMN" for c in spelling)


def hugging_face(path, rules):
    """Two tokenizers: for template text (all added tokens) and for content (none but the plain ones)."""
    reader = GGUFReader(path)
    field = lambda name: reader.fields["tokenizer.ggml." + name].contents()
    tokens, kinds = field("tokens"), field("token_type")
    merges = [tuple(rule.split(" ")) for rule in field("merges")]
    steps, ignore_merges = RULES[rules]
    added = [i for i, kind in enumerate(kinds) if kind in (CONTROL, USER_DEFINED, UNKNOWN)]
    plain = [i for i in added if kinds[i] == USER_DEFINED and is_plain(tokens[i])]
    made = []
    for recognised in (added, plain):
        hidden = set(added) - set(recognised)
        vocab = {token: i for i, token in enumerate(tokens) if i not in hidden}
        tokenizer = Tokenizer(models.BPE(vocab=vocab, merges=merges, ignore_merges=ignore_merges))
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence(steps)
        tokenizer.add_tokens([AddedToken(tokens[i], normalized=False) for i in recognised])
        for i in recognised:
            assert tokenizer.token_to_id(tokens[i]) == i, (path, i)
        made.append(tokenizer)
    return made


def hugging_face_ids(path, rules, texts):
    template, content = hugging_face(path, rules)
    read = [corpus.replaced(raw) for _, raw in texts]
    return {
        "template": [template.encode(text, add_special_tokens=False).ids for text in read],
        "content": [content.encode(text, add_special_tokens=False).ids for text in read],
    }


def build_llama_helper(folder):
    binary = Path(folder) / "llama_ids"
    library = LLAMA / "build/bin"
    subprocess.run(
        ["g++", "-std=c++17", "-O1", "-I", LLAMA / "include", "-I", LLAMA / "ggml/include", "-o", binary,
         HERE / "llama_ids.cpp", "-L", library, "-lllama", "-lggml", "-lggml-base", f"-Wl,-rpath,{library}"],
        check=True,
    )
    return binary


def llama_ids(binary, path, pre, texts):
    lines = [f"{flag} {raw.hex()}" for flag in (1, 0) for _, raw in texts]
    done = subprocess.run([binary, path, pre], input="\n".join(lines) + "\n", text=True, check=True,
                          stdout=subprocess.PIPE)
    ids = [[int(i) for i in line.split()] for line in done.stdout.splitlines()]
    assert len(ids) == 2 * len(texts)
    return {"template": ids[: len(texts)], "content": ids[len(texts):]}


def explanation(case, name, mode, used):
    for key in EXPLAINED:
        if key[0] in (case, "*") and key[1] == name and key[2] in (mode, "*"):
            used.add(key)
            return EXPLAINED[key]
    return None


def write_texts(texts):
    lines = []
    for name, raw in texts:
        try:
            entry = {"text": raw.decode()}
        except UnicodeDecodeError:
            entry = {"hex": raw.hex()}
        lines.append(f"{json.dumps(name)}: {json.dumps(entry)}")
    (HERE / "texts.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")


def write_ids(case, texts, ids):
    compact = lambda value: json.dumps(value, separators=(",", ":"))
    path, pre, _ = CASES[case]
    place = "models" if path.parent == MODELS else "peers"
    entries = []
    for i, (name, _) in enumerate(texts):
        entry = {"template": ids["template"][i]}
        if ids["content"][i] != ids["template"][i]:
            entry["content"] = ids["content"][i]
        entries.append(f"{json.dumps(name)}: {compact(entry)}")
    head = {"file": path.name, "place": place, "pre": pre}
    (HERE / "ids").mkdir(exist_ok=True)
    (HERE / "ids" / f"{case}.json").write_text(
        "{" + json.dumps(head)[1:-1] + ",\n\"ids\": {\n" + ",\n".join(entries) + "\n}}\n"
    )


def main():
    texts = corpus.texts()
    assert len({name for name, _ in texts}) == len(texts)
    problems, used = [], set()
    with tempfile.TemporaryDirectory() as folder:
        binary = build_llama_helper(folder)
        for case in sys.argv[1:] or CASES:
            path, pre, rules = CASES[case]
            ours = hugging_face_ids(path, rules, texts)
            theirs = llama_ids(binary, path, pre, texts)
            for mode in ("template", "content"):
                for (name, raw), a, b in zip(texts, ours[mode], theirs[mode]):
                    if a != b and not explanation(case, name, mode, used):
                        problems.append(f"{case} {name} {mode}: {raw!r}\n  hf    {a}\n  llama {b}")
            write_ids(case, texts, ours)
            print(case, "done", flush=True)
    if not sys.argv[1:]:
        problems += [f"{key}: explained, but there is no difference" for key in EXPLAINED.keys() - used]
    write_texts(texts)
    print("\n".join(problems))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
