"""tools/base_file.py against divergences computed from the exact distributions."""

import pathlib
import tempfile
import unittest

import numpy
import support

base_file = support.load("tools/base_file.py")

N_CTX, N_VOCAB, N_CHUNK = 8, 37, 5
SCORED = N_CTX - 1 - N_CTX // 2


def log_softmax(logits):
    shifted = logits - logits.max(axis=1, keepdims=True)
    return shifted - numpy.log(numpy.exp(shifted).sum(axis=1, keepdims=True))


def write(path, logits, tokens):
    """The format as llama-perplexity writes it: 16 bits per entry, clipped 16 nats below the best."""
    with open(path, "wb") as file:
        file.write(b"_logits_" + numpy.array([N_CTX, N_VOCAB, N_CHUNK], numpy.int32).tobytes())
        file.write(tokens.astype(numpy.int32).tobytes())
        for row in log_softmax(logits):
            lowest = max(row.min(), row.max() - 16)
            scale = (row.max() - lowest) / 65535
            codes = numpy.clip(numpy.rint((row - lowest) / scale), 0, 65535).astype(numpy.uint16)
            file.write(numpy.array([scale, lowest], numpy.float32).tobytes())
            file.write(codes.tobytes() + b"\0\0" * (N_VOCAB % 2))


class BaseFileTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        random = numpy.random.default_rng(3)
        self.tokens = random.integers(0, N_VOCAB, (N_CHUNK, N_CTX))
        self.logits = random.normal(0, 2, (N_CHUNK * SCORED, N_VOCAB))
        self.noise = random.normal(0, 0.1, self.logits.shape)

    def file(self, name, logits):
        path = pathlib.Path(self.folder.name) / name
        write(path, logits, self.tokens)
        return path

    def compare(self, first, second):
        files = [base_file.read(self.file(name, x)) for name, x in (("p", first), ("q", second))]
        return base_file.compare(*files)

    def test_divergence_of_equal_files_is_zero(self):
        result = self.compare(self.logits, self.logits)
        self.assertEqual((result.kl, result.same_top), (0, 1))
        self.assertEqual(result.positions, N_CHUNK * SCORED)

    def test_divergence(self):
        log_p, log_q = log_softmax(self.logits), log_softmax(self.logits + self.noise)
        expected = (numpy.exp(log_p) * (log_p - log_q)).sum(axis=1).mean()
        self.assertGreater(expected, 1e-3)
        self.assertAlmostEqual(self.compare(self.logits, self.logits + self.noise).kl / expected, 1, places=2)

    def test_clipped_entries_are_left_out(self):
        self.logits[:, 5] = self.logits.max(axis=1) - 40
        worse = self.logits + self.noise
        moved = worse.copy()
        moved[:, 5] += 20  # still clipped in both: must not matter
        self.assertAlmostEqual(self.compare(self.logits, worse).kl, self.compare(self.logits, moved).kl, places=6)

    def test_same_top_counts_clear_positions_only(self):
        first = numpy.zeros((N_CHUNK * SCORED, N_VOCAB))
        first[:, 1] = 1.0
        first[:5, 2] = 0.9                # five positions without a clear winner
        second = first.copy()
        second[:7, 3] = 5.0               # another winner in seven, five of them unclear
        result = self.compare(first, second)
        self.assertEqual(result.clear, N_CHUNK * SCORED - 5)
        self.assertAlmostEqual(result.same_top, 1 - 2 / result.clear)

    def test_perplexity(self):
        base = base_file.read(self.file("p", self.logits))
        log_p = log_softmax(self.logits)
        expected = numpy.exp(-log_p[numpy.arange(len(log_p)), self.tokens[:, N_CTX // 2 + 1:].reshape(-1)].mean())
        self.assertAlmostEqual(base_file.perplexity(base) / expected, 1, places=3)

    def test_broken_files_are_refused(self):
        path = self.file("p", self.logits)
        data = path.read_bytes()
        for broken in (b"", b"_logitz_" + data[8:], data[:15], data[:-2]):
            path.write_bytes(broken)
            with self.assertRaises(ValueError):
                base_file.read(path)
        other = self.file("q", self.logits)
        self.tokens = self.tokens + 1
        with self.assertRaises(ValueError):
            base_file.compare(base_file.read(other), base_file.read(self.file("r", self.logits)))


if __name__ == "__main__":
    unittest.main()
