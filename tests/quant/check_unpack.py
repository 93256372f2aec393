"""Compares our unpacking with the gguf package's, bit for bit: check_unpack.py UNPACK_PROGRAM"""

import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent))
from python_check import require

np, gguf, quants = require("numpy", "gguf", "gguf.quants")

TYPES = ["F32", "F16", "BF16", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q4_K", "Q5_K", "Q6_K"]
# Byte offsets of the f16 scales in a block.
SCALES = {"Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2], "Q8_0": [0],
          "Q4_K": [0, 2], "Q5_K": [0, 2], "Q6_K": [208]}
BLOCKS = 3000


def sample_blocks(name, block_bytes, rng):
    """Random bytes (scales may be NaN or infinite), then the same with ordinary scales."""
    wild = rng.integers(0, 256, (BLOCKS, block_bytes), dtype=np.uint8)
    if name in ("F16", "BF16"):  # every value there is
        return np.arange(65536, dtype=np.uint16).view(np.uint8).reshape(-1, block_bytes)
    tame = wild.copy()
    for offset in SCALES.get(name, []):
        scales = rng.normal(0, 0.1, BLOCKS).astype(np.float16)
        tame[:, offset:offset + 2] = scales.view(np.uint8).reshape(BLOCKS, 2)
    return np.concatenate([wild, tame])


def check(program, name, rng):
    kind = gguf.GGMLQuantizationType[name]
    block_size, block_bytes = gguf.GGML_QUANT_SIZES[kind]
    blocks = sample_blocks(name, block_bytes, rng)
    with np.errstate(all="ignore"):
        wanted = np.ascontiguousarray(quants.dequantize(blocks, kind), dtype=np.float32).ravel()
    run = subprocess.run([program, name], input=blocks.tobytes(), stdout=subprocess.PIPE, check=True)
    got = np.frombuffer(run.stdout, dtype=np.float32)
    assert got.size == wanted.size == len(blocks) * block_size, f"{name}: {got.size} values"
    same = (got.view(np.uint32) == wanted.view(np.uint32)) | (np.isnan(got) & np.isnan(wanted))
    finite = int(np.isfinite(wanted).sum())
    assert finite > wanted.size // 3, f"{name}: only {finite} finite values were compared"
    if not same.all():
        at = int(np.flatnonzero(~same)[0])
        print(f"{name}: {int((~same).sum())} of {same.size} values differ, the first in block "
              f"{at // block_size} at {at % block_size}: {got[at]!r} instead of {wanted[at]!r}")
    return bool(same.all())


def main():
    rng = np.random.default_rng(7)
    results = [check(sys.argv[1], name, rng) for name in TYPES]
    print(f"{sum(results)} of {len(TYPES)} types agree bit for bit")
    return 0 if all(results) else 1


sys.exit(main())
