"""bench/compare and tools/fidelity with stand-ins for the programs that they run."""

import contextlib
import io
import pathlib
import tempfile
import types
import unittest

import support

compare = support.load("bench/compare")
fidelity = support.load("tools/fidelity")

CERA = """#!/bin/sh
case "$1" in
  bench) echo '{"prefill_tok_s": {"p50": 300}, "decode_tok_s": {"p50": 90},
    "prefill_gops": 1, "roof_int8_gops": 2, "decode_gb_s": 3, "roof_read_gb_s": 4, "peak_rss_bytes": 5}' ;;
  run) echo ' Paris.' ;;
esac
"""
LLAMA_BENCH = """#!/bin/sh
echo '[{"n_prompt": 512, "n_gen": 0, "avg_ts": 200}, {"n_prompt": 0, "n_gen": 64, "avg_ts": 100}]'
"""


class CompareTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.tools = pathlib.Path(folder.name)
        scripts = {"cera": CERA, "llama-bench": LLAMA_BENCH, "llama-completion": "#!/bin/sh\necho Paris.\n"}
        for name, text in scripts.items():
            (self.tools / name).write_text(text)
            (self.tools / name).chmod(0o755)
        self.options = types.SimpleNamespace(cera=self.tools / "cera", tools=self.tools, threads=2, depth=0, pairs=3)

    def test_the_page_can_be_printed(self):
        report = compare.compare(self.options, pathlib.Path("m.gguf"))
        with contextlib.redirect_stdout(io.StringIO()) as out:
            compare.print_markdown([report])
        self.assertIn("| m | prefill | 300.0 (300–300) | 200.0 (200–200) | 1.50 (1.5–1.5) |", out.getvalue())
        self.assertIn("First 32 greedy tokens: the same", out.getvalue())

    def test_ratios_and_texts(self):
        result = compare.compare(self.options, pathlib.Path("m.gguf"))
        self.assertEqual(result["speed"]["prefill"]["ratio"], 1.5)
        self.assertEqual(result["speed"]["decode"]["ratio"], 0.9)
        self.assertTrue(result["same_text"])

    def test_medians_and_ranges(self):
        runs = [({"prefill": p, "decode": 1}, {"prefill": 10, "decode": 2}) for p in (5, 20, 10)]
        speed = compare.summary(runs)["prefill"]
        self.assertEqual((speed["cera"], speed["cera_range"], speed["ratio"]), (10, [5, 20], 1.0))

    def test_a_failing_program_is_reported(self):
        (self.tools / "llama-bench").write_text("#!/bin/sh\necho broken >&2\nexit 3\n")
        with self.assertRaisesRegex(compare.Failed, "broken"):
            compare.compare(self.options, pathlib.Path("m.gguf"))


class GatesTest(unittest.TestCase):
    GOOD = {"kl": 0.0036, "own_kl": 0.0036, "positions": 2805, "perplexity": 11.5, "clear": 2400,
            "same_top": 0.99}
    PEER = {"kl": 0.0036, "perplexity": 11.53}

    def failing(self, **changes):
        numbers = {**self.GOOD, **changes}
        if "kl" in changes:
            numbers["own_kl"] = numbers["kl"]
        rows = fidelity.gates("smollm2", self.PEER, numbers)
        return [what.strip() for what, _, _, holds in rows if not holds]

    def test_each_gate_can_fail(self):
        self.assertEqual(self.failing(), [])
        self.assertEqual(self.failing(positions=1999), ["scored positions"])
        self.assertEqual(self.failing(kl=0.0044), ["over KL(R || llama.cpp)"])
        self.assertEqual(self.failing(kl=0.0051), ["KL(R || cera)", "over KL(R || llama.cpp)"])
        self.assertEqual(self.failing(same_top=0.984), ["same best token, 2400 clear"])
        self.assertEqual(len(self.failing(perplexity=11.7)), 1)
        self.assertEqual(self.failing(own_kl=0.0037), ["by cera itself"])
        self.assertEqual(len(self.failing(kl=float("nan"))), 3)


if __name__ == "__main__":
    unittest.main()
