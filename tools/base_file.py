"""Reads the files that `llama-perplexity --kl-divergence-base` writes and compares two of them.

A file holds the tokens it was made from and, for the second half of every chunk, the log-probabilities of the
whole vocabulary in 16 bits each:

    "_logits_" | int32 n_ctx | int32 n_vocab | int32 n_chunk | int32 tokens[n_chunk * n_ctx]
    n_chunk * (n_ctx - 1 - n_ctx / 2) rows of: float32 scale | float32 lowest | uint16 code[n_vocab, made even]

log p = lowest + scale * code. A token more than 16 nats below the row's best one is clipped: its code is 0 and
its value unknown. Clipped entries are left out of every sum here, whichever of the two files clips them.
"""

import dataclasses

import numpy


@dataclasses.dataclass
class BaseFile:
    n_ctx: int
    n_vocab: int
    tokens: numpy.ndarray  # [n_chunk, n_ctx] int32
    rows: numpy.ndarray    # [n_chunk * scored, 4 + n_vocab made even] uint16, mapped

    def __len__(self):
        return len(self.rows)

    def scored(self):
        """Scored positions of one chunk."""
        return self.n_ctx - 1 - self.n_ctx // 2

    def targets(self):
        """The token that each row predicts: [n_chunk * scored]."""
        first = self.n_ctx // 2
        return self.tokens[:, first + 1:].reshape(-1)

    def log_probs(self, row):
        """([n_vocab] float64, [n_vocab] bool: known, not clipped)"""
        scale, lowest = self.rows[row, :4].copy().view(numpy.float32).astype(numpy.float64)
        codes = self.rows[row, 4:4 + self.n_vocab]
        return lowest + scale * codes, codes > 0


def read(path):
    """Opens a base file; a ValueError says what is wrong with it."""
    with open(path, "rb") as file:
        if file.read(8) != b"_logits_":
            raise ValueError(f"{path}: not a file of log-probabilities")
        header = numpy.frombuffer(file.read(12), numpy.int32)
        if len(header) != 3 or min(header) <= 0:
            raise ValueError(f"{path}: broken header")
        n_ctx, n_vocab, n_chunk = (int(n) for n in header)
        tokens = numpy.frombuffer(file.read(4 * n_chunk * n_ctx), numpy.int32)
        offset = file.tell()
    width = 4 + 2 * ((n_vocab + 1) // 2)
    n_rows = n_chunk * (n_ctx - 1 - n_ctx // 2)
    data = numpy.memmap(path, numpy.uint16, mode="r", offset=offset)
    if tokens.size != n_chunk * n_ctx or data.size != n_rows * width:
        raise ValueError(f"{path}: {data.size // width} rows, {n_rows} expected (was its writer stopped?)")
    return BaseFile(n_ctx, n_vocab, tokens.reshape(n_chunk, n_ctx), data.reshape(n_rows, width))


@dataclasses.dataclass
class Comparison:
    positions: int
    kl: float             # mean KL(reference || other), nats
    kl_error: float       # its standard error
    clear: int            # positions whose top two in the reference are more than `gap` apart
    same_top: float       # share of the clear positions with the same top token


def compare(reference, other, gap=0.2):
    """KL divergence and agreement of the best token, position by position."""
    if reference.n_vocab != other.n_vocab or not numpy.array_equal(reference.tokens, other.tokens):
        raise ValueError("the two files were not made from the same tokens")
    divergences = numpy.empty(len(reference))
    clear = same = 0
    for row in range(len(reference)):
        log_p, known_p = reference.log_probs(row)
        log_q, known_q = other.log_probs(row)
        known = known_p & known_q
        divergences[row] = numpy.sum(numpy.exp(log_p[known]) * (log_p[known] - log_q[known]))
        second, first = numpy.partition(log_p, -2)[-2:]
        if first - second > gap:
            clear += 1
            same += int(log_p.argmax() == log_q.argmax())
    error = divergences.std(ddof=1) / len(divergences) ** 0.5
    return Comparison(len(reference), divergences.mean(), error, clear, same / max(clear, 1))


def perplexity(base):
    """Perplexity over the rows, with clipped targets at the clipping value (so: a lower bound)."""
    total = 0.0
    for row, target in enumerate(base.targets()):
        total -= base.log_probs(row)[0][target]
    return float(numpy.exp(total / len(base)))
