"""What a person sees: the command on real model files.

CERA_BINARY names the command. A model that is not in $CERA_MODELS (default ~/.cache/cera-models) skips its tests,
or fails them with CERA_REQUIRE_MODEL=1 (smollm2) and CERA_REQUIRE_MODEL=all (qwen05 too).
"""

import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

CERA = os.environ.get("CERA_BINARY", "build/release/cera")
MODELS = pathlib.Path(os.environ.get("CERA_MODELS") or pathlib.Path.home() / ".cache/cera-models")
REQUIRED = os.environ.get("CERA_REQUIRE_MODEL", "")
CORPUS = pathlib.Path(__file__).resolve().parents[1] / "fidelity/corpus"
TIMEOUT_S = 240
MEMORY_ALLOWANCE_BYTES = 120_000_000  # beyond the mapped file, at 2,048 tokens of context


def model(name):
    path = MODELS / f"{name}.gguf"
    if path.exists():
        return path
    if REQUIRED == "all" or (REQUIRED == "1" and name == "smollm2"):
        raise AssertionError(f"{path} is required and missing: tools/get_model {name}")
    raise unittest.SkipTest(f"{path} is missing: tools/get_model {name}")


def run(*args, stdin=None):
    """(exit code, standard output, standard error)"""
    done = subprocess.run([CERA, *map(str, args)], input=stdin, stdin=None if stdin else subprocess.DEVNULL,
                          capture_output=True, text=True, timeout=TIMEOUT_S)
    return done.returncode, done.stdout, done.stderr


class AnswersTest(unittest.TestCase):
    def answer(self, *args):
        code, out, err = run("run", *args, "--temperature", 0)
        self.assertEqual(code, 0, err)
        return out

    def test_completion_names_paris(self):
        prompt = ("-p", "The capital of France is", "--raw", "--max-tokens", 8)
        self.assertIn("Paris", self.answer("-m", model("smollm2"), *prompt))

    def test_chat_names_mars(self):
        prompt = ("-p", "Which planet is known as the red planet?", "--max-tokens", 40)
        self.assertIn("Mars", self.answer("-m", model("smollm2"), *prompt))

    def test_qwen05_reverses_a_string(self):
        prompt = "Write a Python function reverse_string(s) that returns the string reversed. Code only."
        text = self.answer("-m", model("qwen05"), "-p", prompt, "--max-tokens", 200)
        block = re.search(r"```(?:python)?\n(.*?)```", text, re.DOTALL)
        code = (block.group(1) if block else text) + "\nimport sys\nprint(reverse_string(sys.argv[1]))\n"
        with tempfile.TemporaryDirectory() as folder:
            for word in ("stressed", "", "añ日b"):
                done = subprocess.run([sys.executable, "-I", "-c", code, word], cwd=folder, capture_output=True,
                                      text=True, encoding="utf-8", timeout=20)
                self.assertEqual(done.stdout.rstrip("\n").split("\n")[-1], word[::-1], f"{text}\n{done.stderr}")


class BehaviourTest(unittest.TestCase):
    def test_the_same_seed_gives_the_same_text(self):
        args = ("run", "-m", model("smollm2"), "-p", "Tell me a story.", "--max-tokens", 24, "--temperature", 1)
        texts = [run(*args, "--seed", seed, "--threads", threads)[1] for seed, threads in ((1, 1), (1, 2), (2, 2))]
        self.assertEqual(texts[0], texts[1])
        self.assertNotEqual(texts[0], texts[2])

    def test_logits_do_not_depend_on_tier_or_threads(self):
        args = ("logits", "-m", model("smollm2"), "-p", "One, two, three,", "--json")
        first = json.loads(run(*args, "--threads", 1)[1])
        self.assertGreater(len(first), 49000)
        self.assertEqual(json.loads(run(*args, "--threads", 2)[1]), first)

    def test_memory_at_2048_tokens(self):
        path = model("smollm2")
        command = [CERA, "run", "-m", path, "--file", CORPUS / "prose.txt", "--raw", "--context-size", 2048,
                   "--max-tokens", 400, "--temperature", 0]
        with tempfile.TemporaryFile() as err:
            child = subprocess.Popen([str(part) for part in command], stdin=subprocess.DEVNULL,
                                     stdout=subprocess.DEVNULL, stderr=err)
            _, status, usage = os.wait4(child.pid, 0)
            err.seek(0)
            self.assertEqual(os.waitstatus_to_exitcode(status), 0, err.read().decode())
        peak_bytes = usage.ru_maxrss * 1024
        self.assertLessEqual(peak_bytes, path.stat().st_size + MEMORY_ALLOWANCE_BYTES)

    def test_exit_codes(self):
        self.assertEqual(run("run", "-m", "/no/such/file.gguf", "-p", "x")[0], 1)
        self.assertEqual(run("run", "--no-such-option")[0], 2)
        self.assertEqual(run("--version")[0], 0)
        code, out, err = run("run", "-m", __file__, "-p", "x")
        self.assertEqual((code, out), (1, ""))
        self.assertRegex(err, r"error: ")


if __name__ == "__main__":
    unittest.main()
