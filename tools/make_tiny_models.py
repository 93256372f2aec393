#!/usr/bin/env python3
"""Writes tests/models/fixtures: tiny random models of each architecture and the logits that Hugging Face
transformers computes for them, in float32 with eager attention.

Only needed to change the fixtures; tests read the committed files. Needs torch and transformers (CPU is enough):

    python3 -m venv .venv && .venv/bin/pip install torch==2.6.0 transformers==5.24.0
    .venv/bin/python tools/make_tiny_models.py [NAME ...]

A fixture is NAME.json (the transformers config, the tensors by name, shape, mean and standard deviation, and the
token ids) and NAME.bin (the logits, little-endian float32 [positions, vocab]). Weights are not stored: both
this script and tests/models/tiny_model.h draw them from the same counter-based generator, to the same bits.

The usual small initialisation hides faults (without RoPE at all the logits hardly move), so everything here is
large: embeddings of deviation 1, matrices of 1.5 / sqrt(fan in), gains around 0.9 with some negative ones,
biases of deviation 0.5. tests/models/mutation_test.cpp proves that each feature matters.
"""

import json
import math
import pathlib
import sys

import numpy as np

FIXTURES = pathlib.Path(__file__).resolve().parent.parent / "tests" / "models" / "fixtures"
MASK = (1 << 64) - 1
GOLDEN = 0x9E3779B97F4A7C15


def fnv1a(text):
    value = 0xCBF29CE484222325
    for byte in text.encode():
        value = ((value ^ byte) * 0x100000001B3) & MASK
    return value


def random_words(seed, count):
    """splitmix64 at counters 1..count."""
    with np.errstate(over="ignore"):
        z = np.uint64(seed) + np.arange(1, count + 1, dtype=np.uint64) * np.uint64(GOLDEN)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return z ^ (z >> np.uint64(31))


def random_values(seed, count, mean, std):
    """Near-normal: the sum of the four 16-bit parts of a word. Exact until one multiplication and one addition."""
    words = random_words(seed, count)
    parts = sum(((words >> np.uint64(shift)) & np.uint64(0xFFFF)).astype(np.int64) for shift in (0, 16, 32, 48))
    scale = np.float32(std) / np.float32(37837)
    return (parts - 131070).astype(np.float32) * scale + np.float32(mean)


def tensor_recipe(name, shape):
    """Mean and standard deviation by the tensor's role."""
    if len(shape) == 1:
        return (0.0, 0.5) if name.endswith("bias") else (0.9, 0.6)
    if "embed_tokens" in name:
        return 0.0, 1.0
    if "conv.conv" in name:
        return 0.0, 0.8
    return 0.0, round(1.5 / math.sqrt(shape[-1]), 6)


BASE = dict(vocab_size=256, hidden_size=64, intermediate_size=96, num_hidden_layers=3, num_attention_heads=4,
            num_key_value_heads=2, max_position_embeddings=512, rms_norm_eps=1e-3, bos_token_id=1, eos_token_id=2,
            pad_token_id=None)
# A base so small that the ramp ends inside the eight pairs of a head, and starts inside them too.
YARN = dict(max_position_embeddings=4096, rope_parameters=dict(
    rope_type="yarn", rope_theta=100.0, factor=4.0, original_max_position_embeddings=1024))

# name: (architecture, config, positions)
MODELS = {
    # Long enough to cross a softmax span; factors of all three kinds.
    "llama": ("llama", dict(BASE, vocab_size=96, tie_word_embeddings=True, rope_parameters=dict(
        rope_type="llama3", rope_theta=500.0, factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
        original_max_position_embeddings=64)), 288),
    "llama_linear": ("llama", dict(BASE, tie_word_embeddings=False, attention_bias=True, rope_parameters=dict(
        rope_type="linear", rope_theta=10000.0, factor=4.0)), 80),
    "llama_yarn": ("llama", BASE | YARN | dict(tie_word_embeddings=False), 80),
    "qwen2": ("qwen2", dict(BASE, tie_word_embeddings=False, rope_parameters=dict(
        rope_type="default", rope_theta=1000.0)), 80),
    "qwen2_tied": ("qwen2", BASE | YARN | dict(tie_word_embeddings=True, num_attention_heads=6,
        num_key_value_heads=1, hidden_size=96, rope_parameters=dict(
            YARN["rope_parameters"], attention_factor=0.7, beta_fast=16.0, beta_slow=2.0)), 80),
    "qwen3": ("qwen3", dict(BASE, tie_word_embeddings=True, head_dim=24, rope_parameters=dict(
        rope_type="default", rope_theta=1000.0)), 80),
    "lfm2": ("lfm2", dict(vocab_size=256, hidden_size=64, intermediate_size=96, num_hidden_layers=4,
        num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=512, norm_eps=1e-3,
        bos_token_id=1, eos_token_id=2, pad_token_id=None, tie_word_embeddings=True, conv_L_cache=3,
        block_auto_adjust_ff_dim=False, layer_types=["conv", "full_attention", "conv", "full_attention"],
        rope_parameters=dict(rope_type="default", rope_theta=1000.0)), 80),
}


def build_model(architecture, config):
    import transformers
    prefix = {"llama": "Llama", "qwen2": "Qwen2", "qwen3": "Qwen3", "lfm2": "Lfm2"}[architecture]
    config = getattr(transformers, prefix + "Config")(**config)
    config._attn_implementation = "eager"
    return getattr(transformers, prefix + "ForCausalLM")(config).float().eval()


def fill(model, fixture):
    """Draws every parameter; returns the list of recipes, tied copies left out."""
    import torch
    recipes, seen = [], set()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.data_ptr() in seen:
                continue
            seen.add(parameter.data_ptr())
            shape = list(parameter.shape)
            mean, std = tensor_recipe(name, shape)
            values = random_values(fnv1a(f"{fixture}/{name}"), parameter.numel(), mean, std)
            parameter.copy_(torch.from_numpy(values.reshape(shape)))
            recipes.append(dict(name=name, shape=shape, mean=mean, std=std))
    return recipes


def make(fixture):
    import torch
    architecture, config, positions = MODELS[fixture]
    torch.set_num_threads(2)
    model = build_model(architecture, config)
    recipes = fill(model, fixture)
    ids = (random_words(fnv1a(f"{fixture}/ids"), positions) % np.uint64(config["vocab_size"])).astype(np.int64)
    with torch.no_grad():
        logits = model(torch.from_numpy(ids)[None], use_cache=False).logits[0].float().numpy()
        exact = model.double()(torch.from_numpy(ids)[None], use_cache=False).logits[0].double().numpy()
    noise = np.abs(logits - exact).max() / np.abs(exact).max()
    logits.astype("<f4").tofile(FIXTURES / f"{fixture}.bin")
    description = dict(name=fixture, architecture=architecture, config=config, ids=ids.tolist(), tensors=recipes)
    (FIXTURES / f"{fixture}.json").write_text("\n".join(compact(description)) + "\n")
    print(f"{fixture}: {positions} x {config['vocab_size']} logits, largest {np.abs(logits).max():.3f}, "
          f"float32 against float64 {noise:.2e} of the largest")


def compact(description):
    """JSON with one line per list of numbers and per tensor."""
    yield "{"
    for key in ("name", "architecture", "config", "ids"):
        yield f' "{key}": {json.dumps(description[key])},'
    yield ' "tensors": ['
    rows = [f"  {json.dumps(row)}" for row in description["tensors"]]
    yield ",\n".join(rows)
    yield " ]"
    yield "}"


def main():
    FIXTURES.mkdir(parents=True, exist_ok=True)
    for fixture in sys.argv[1:] or MODELS:
        make(fixture)


if __name__ == "__main__":
    main()
