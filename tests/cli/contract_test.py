"""The command line as scripts rely on it: results on stdout and nothing else there, exit codes, messages.

usage: contract_test.py CERA WRITE_SCRIPT_MODEL     (the programs; the model is tests/session/script_model.h)
"""

import json
import os
import pty
import signal
import subprocess
import sys
import tempfile
import unittest

CERA, WRITE_MODEL = sys.argv[1:3]
FOLDER = tempfile.TemporaryDirectory()
TEXT = "abcdefghijklmnopqrstuvwxyzé世!"  # what the model answers
TIMEOUT_S = 60


def model(name, *options):
    path = os.path.join(FOLDER.name, name + ".gguf")
    if not os.path.exists(path):
        subprocess.run([WRITE_MODEL, path, *options], check=True)
    return path


def file(name, data):
    path = os.path.join(FOLDER.name, name)
    with open(path, "wb") as out:
        out.write(data if isinstance(data, bytes) else data.encode())
    return path


def cera(*args, stdin=b"", env=None, **options):
    done = subprocess.run([CERA, *map(str, args)], input=stdin, capture_output=True, timeout=TIMEOUT_S,
                          env={**os.environ, **(env or {})}, **options)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


class ContractTest(unittest.TestCase):
    def ok(self, *args, **options):
        code, out, err = cera(*args, **options)
        self.assertEqual(code, 0, err)
        return out, err

    def out(self, *args, **options):
        return self.ok(*args, **options)[0]

    def fails(self, code, *args, says="", **options):
        """Nothing on stdout; one line `error: ...`, and for a usage error what to try."""
        got, out, err = cera(*args, **options)
        self.assertEqual((got, out), (code, ""), err)
        errors = [line for line in err.split("\n") if line.startswith("error: ")]
        self.assertEqual(len(errors), 1, err)
        self.assertIn(says, errors[0])
        if code == 2:
            self.assertRegex(err, r"\ntry: cera( \w+)? --help\n$")


class GeneralTest(ContractTest):
    def test_version(self):
        self.assertRegex(self.out("--version"), r"^cera \d+\.\d+\.\d+\n$")
        self.assertEqual(self.out("run", "--version"), self.out("--version"))

    def test_help_is_a_result(self):
        commands = ("run", "tokenize", "logits", "perplexity", "inspect", "bench", "cpu")
        for command in commands:
            self.assertIn(command, self.out("--help"))
            self.assertIn("Usage: cera " + command, self.out(command, "--help"))
        for option in ("--temperature", "0.7", "--top-k", "40", "--top-p", "0.95", "--min-p", "0.05"):
            self.assertIn(option, self.out("run", "--help"))

    def test_usage_errors(self):
        m = ("-m", model("script"))
        self.fails(2)
        self.fails(2, "bogus")
        self.fails(2, "run", "-p", "x", says="--model")
        self.fails(2, "run", *m, says="-p TEXT")
        self.fails(2, "tokenize", *m, says="-t TEXT")
        self.fails(2, "run", *m, "-p", "x", "--no-such-option", says="--no-such-option")
        self.fails(2, "run", *m, "-p", "x", "-p", "y")
        for other in (("--file", "x"), ("-",)):
            self.fails(2, "run", *m, "-p", "x", *other, says="excludes")
        for other in (("--system", "x"), ("--chat-template", "x"), ("--template-arg", "a=b")):
            self.fails(2, "run", *m, "-p", "x", "--raw", *other, says="excludes")
        self.fails(2, "perplexity", *m)
        self.fails(2, "perplexity", *m, "--file", "x", "--reference", "y", says="excludes")

    def test_values_out_of_range(self):
        m = ("run", "-m", model("script"), "-p", "x")
        for option, value in (("--temperature", -1), ("--temperature", "nan"), ("--temperature", "warm"),
                              ("--top-k", -1), ("--top-p", 1.5), ("--min-p", -1), ("--repetition-penalty", 0),
                              ("--max-tokens", -1), ("--max-tokens", "1e99"), ("--threads", 0), ("--seed", -1),
                              ("--seed", "99999999999999999999"), ("--seed", "x"), ("--stop", ""),
                              ("--logit-bias", "x"), ("--logit-bias", "1=nan"), ("--logit-bias", "9999=1"),
                              ("--template-arg", "x"), ("--context-size", 1), ("--context-size", 5242880),
                              ("--context-size", -5), ("--device", "tpu"), ("--kv-type", "q4")):
            with self.subTest(option=option, value=value):
                self.fails(2, *m, option, value)

    def test_runtime_errors(self):
        m = model("script")
        self.fails(1, "run", "-m", "/no/such/model.gguf", "-p", "x", says="/no/such/model.gguf")
        self.fails(1, "run", "-m", __file__, "-p", "x", says="contract_test.py")
        self.fails(1, "run", "-m", m, "--file", "/no/such/text", says="/no/such/text")
        self.fails(1, "run", "-m", m, "-p", "x", "--device", "gpu", says="no GPU backend in this build")
        self.fails(1, "run", "-m", m, "-p", "x", "--pre-tokenizer", "klingon", says="klingon")

    def test_messages_stay_on_one_line(self):
        self.fails(1, "run", "-m", "/no\nsuch\x1b[31mfile", "-p", "x", says="/no\\nsuch\\x1b[31mfile")

    @unittest.skipUnless(os.path.exists("/dev/full"), "needs /dev/full")
    def test_a_full_disk_is_an_error(self):
        with open("/dev/full", "wb") as full:
            for args in (("tokenize", "-m", model("script"), "-t", "x"), ("cpu",),
                         ("run", "-m", model("script"), "-p", "x")):
                done = subprocess.run([CERA, *args], stdout=full, stderr=subprocess.PIPE, timeout=TIMEOUT_S)
                self.assertEqual(done.returncode, 1)
                self.assertIn(b"error: stdout: cannot write", done.stderr)


class RunTest(ContractTest):
    def test_chat(self):
        out, err = self.ok("run", "-m", model("script"), "-p", "Hello", "--temperature", 0)
        self.assertEqual(out, TEXT)
        self.assertRegex(err, r"prompt: 25 tokens, [\d.]+ tok/s; output: 32 tokens, [\d.]+ tok/s; "
                              r"first token after \d+ ms\nseed: \d+; finished: stop_token\n")

    def test_sources_of_the_prompt(self):
        m = ("run", "-m", model("script"), "--raw")
        self.assertEqual(self.out(*m, "-p", "w"), "xyzé世!")
        self.assertEqual(self.out(*m, "--prompt", "w"), "xyzé世!")
        self.assertEqual(self.out(*m, "--file", file("w.txt", "vw")), "xyzé世!")
        self.assertEqual(self.out(*m, "-", stdin=b"w"), "xyzé世!")
        self.assertEqual(self.out(*m, "-", stdin=b"w\n"), TEXT)  # byte for byte: the newline counts
        self.assertEqual(self.out(*m, "-p", "-x"), "yzé世!")  # a prompt may begin with a dash

    def test_raw_prompts_are_template_text(self):
        m = ("run", "-m", model("script"), "--raw", "--max-tokens", 1)
        self.assertIn("prompt: 3 tokens", self.ok(*m, "-p", "a<|im_end|>")[1])  # with BOS
        m = ("run", "-m", model("no_bos", "--no-bos"), "--raw", "--max-tokens", 1)
        self.assertIn("prompt: 2 tokens", self.ok(*m, "-p", "a<|im_end|>")[1])

    def test_system_and_template(self):
        m = ("run", "-m", model("script"), "-p", "x", "--temperature", 0)
        plain = "<|bos|><|im_start|>user\nx<|im_end|>\n<|im_start|>assistant\n"
        system = "<|im_start|>system\nBe brief.<|im_end|>\n"
        count = len("".join(plain.split("<|bos|>")).replace("<|im_start|>", "S").replace("<|im_end|>", "E")) + 1
        self.assertIn(f"prompt: {count} tokens", self.ok(*m)[1])
        count += len(system.replace("<|im_start|>", "S").replace("<|im_end|>", "E"))
        self.assertIn(f"prompt: {count} tokens", self.ok(*m, "--system", "Be brief.")[1])
        template = file("t.jinja", "{{ messages[0].content }}{{ start if start is string else start + 1 }}")
        m += ("--chat-template", template)
        self.assertEqual(self.out(*m, "--template-arg", "start=w"), "xyzé世!")
        self.assertEqual(self.out(*m, "--template-arg", "start=4", "--max-tokens", 3), "678")
        self.assertEqual(self.out(*m, "--template-arg", 'start="v"'), "wxyzé世!")
        deep = "start=" + 50000 * "["  # as a string it is too long a prompt, as JSON too deep
        self.fails(1, *m, "--template-arg", deep, says="50001 tokens do not fit")
        self.fails(2, *m, "--template-arg", deep + 50000 * "]", says="nested deeper")

    def test_a_model_without_template_completes(self):
        m = ("run", "-m", model("plain", "--no-template"), "-p", "w")
        out, err = self.ok(*m)
        self.assertEqual(out, "xyzé世!")
        self.assertRegex(err, "(?m)^note: the model has no chat template")
        self.assertNotIn("note:", self.ok(*m, "--raw")[1])
        self.fails(1, *m, "--system", "x", says="no chat template")

    def test_template_errors_name_the_place(self):
        bad = file("bad.jinja", "ok\n{% for %}")
        self.fails(1, "run", "-m", model("script"), "-p", "x", "--chat-template", bad, says="line 2")

    def test_stops(self):
        m = ("run", "-m", model("script"), "--raw", "-p", "a")
        out, err = self.ok(*m, "--stop", "zz", "--stop", "fg")
        self.assertEqual(out, "bcde")
        self.assertIn("finished: stop_string", err)
        self.assertEqual(self.out(*m, "--stop", "[fg]", "--max-tokens", 7), "bcdefgh")  # no list syntax
        self.assertEqual(self.out(*m, "--stop", "世"), "bcdefghijklmnopqrstuvwxyzé")
        out, err = self.ok(*m, "--max-tokens", 3)
        self.assertEqual(out, "bcd")
        self.assertIn("finished: max_tokens", err)
        self.assertEqual(self.out(*m, "--max-tokens", 0), "")

    def test_full_context_is_said(self):
        m = ("run", "-m", model("script"), "--raw", "--context-size", 30)
        out, err = self.ok(*m, "-p", "5")
        self.assertEqual(out, "6789012345678901234567890123")
        self.assertIn("finished: context_full", err)
        self.assertIn("the context of 30 tokens is full", err)
        self.fails(1, *m, "-p", "5" * 30, says="31 tokens do not fit in the context of 30")  # C1: both numbers

    def test_seeds(self):
        m = ("run", "-m", model("script"), "--raw", "-p", "a", "--temperature", 40, "--top-k", 0, "--top-p", 1,
             "--min-p", 0, "--ignore-end", "--max-tokens", 40)
        one, err = self.ok(*m, "--seed", 1)
        self.assertIn("seed: 1;", err)
        self.assertEqual(self.out(*m, "--seed", 1), one)
        self.assertNotEqual(self.out(*m, "--seed", 2), one)
        fresh, err = self.ok(*m)
        printed = err.split("seed: ")[1].split(";")[0]
        self.assertEqual(self.out(*m, "--seed", printed), fresh)  # P8

    def test_sampling_flags_reach_the_sampler(self):
        m = ("run", "-m", model("script"), "--raw", "-p", "a", "--temperature", 0, "--max-tokens", 4)
        self.assertEqual(self.out(*m), "bcde")
        self.assertEqual(self.out(*m, "--logit-bias", f"{ord('b')}=-inf", "--logit-bias", f"{ord('x')}=9"), "xyz\ufffd")
        self.assertEqual(self.out(*m, "--logit-bias", f"{ord('c')}=-100", "--logit-bias", f"{ord('5')}=9"), "b567")
        looping = ("run", "-m", model("script"), "--raw", "-p", "8", "--temperature", 0, "--max-tokens", 12)
        self.assertEqual(self.out(*looping), "901234567890")
        self.assertNotEqual(self.out(*looping, "--presence-penalty", 100, "--ignore-end"), "901234567890")
        self.assertNotEqual(self.out(*looping, "--repetition-penalty", 1e9, "--frequency-penalty", 1,
                                     "--ignore-end"), "901234567890")

    def test_invalid_bytes(self):
        m = ("run", "-m", model("script"))
        out, err = self.ok(*m, "--raw", "-", stdin=b"a\x80\xffw")
        self.assertEqual(out, "xyzé世!")
        self.assertIn("warning: 2 bytes of the text are not valid UTF-8", err)
        self.assertIn("warning: 1 byte of the text is not valid UTF-8", self.ok(*m, "-", stdin=b"a\x80w")[1])
        self.assertEqual(self.out(*m, "--raw", "-p", "?"), "\ufffd~")  # and invalid output never leaves

    def test_plain_reading_and_threads(self):
        for options in ((), ("--no-mmap",), ("--threads", 1), ("--threads", 3), ("--kv-type", "f32"),
                        ("--device", "cpu")):
            self.assertEqual(self.out("run", "-m", model("script"), "-p", "x", "--temperature", 0, *options), TEXT)
        self.assertEqual(self.out("run", "-m", model("script"), "-p", "x", env={"CERA_CPU_TIER": "scalar"}), TEXT)

    def test_verbose_says_more(self):
        self.assertIn("info: cpu", self.ok("run", "-m", model("script"), "-p", "x", "-v")[1])

    def interrupt(self, command, n_signals):
        child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        start = child.stdout.read(20)
        for _ in range(n_signals):
            child.send_signal(signal.SIGINT)
        rest, err = child.communicate(timeout=TIMEOUT_S)
        return child.returncode, (start + rest).decode(), err.decode()

    def test_interrupt(self):
        m = model("long", "--context", "1000000")
        command = [CERA, "run", "-m", m, "--raw", "-p", "0", "--context-size", "100000", "--max-tokens", "99000"]
        code, out, err = self.interrupt(command, 1)
        self.assertEqual(code, 130)
        self.assertTrue(out.startswith("12345678901234567890"))
        self.assertIn("finished: cancelled", err)
        self.assertIn("error: interrupted", err)

    def test_progress_only_on_a_terminal(self):
        m = ["run", "-m", model("long", "--context", "1000000"), "--raw", "-p", "5" * 3000, "--max-tokens", "2"]
        out, err = self.ok(*m)
        self.assertEqual(out, "67")
        self.assertNotIn("\r", err)
        ours, theirs = pty.openpty()
        child = subprocess.Popen([CERA, *m], stdout=subprocess.PIPE, stderr=theirs)
        os.close(theirs)
        shown = b""
        try:
            while block := os.read(ours, 4096):
                shown += block
        except OSError:  # the other end is closed
            pass
        self.assertEqual(child.communicate(timeout=TIMEOUT_S)[0], b"67")
        self.assertEqual(child.returncode, 0)
        self.assertIn(b"prompt 1024/3001", shown)
        self.assertIn(b"\r\x1b[K---", shown)  # erased before the statistics
        os.close(ours)


class TokenizeTest(ContractTest):
    def test_lists(self):
        m = ("tokenize", "-m", model("script"))
        self.assertEqual(self.out(*m, "-t", "Aé"), "[65, 195, 169]\n")
        self.assertEqual(self.out(*m, "-t", ""), "[]\n")
        self.assertEqual(self.out(*m, "--file", file("t.txt", "a\n")), "[97, 10]\n")
        self.assertEqual(self.out(*m, "-", stdin=b"ab"), "[97, 98]\n")

    def test_special(self):
        m = ("tokenize", "-m", model("script"), "-t", "a<|im_end|>")
        self.assertEqual(json.loads(self.out(*m)), list(b"a<|im_end|>"))
        self.assertEqual(json.loads(self.out(*m, "--special")), [256, 97, 258])

    def test_invalid_bytes(self):
        out, err = self.ok("tokenize", "-m", model("script"), "-", stdin=b"\xff")
        self.assertEqual(json.loads(out), list("\ufffd".encode()))
        self.assertIn("1 byte of the text is not valid UTF-8", err)


class LogitsTest(ContractTest):
    def test_all_and_top(self):
        m = ("logits", "-m", model("script"), "-p", "a")
        logits = json.loads(self.out(*m))
        self.assertEqual(len(logits), 260)
        self.assertEqual(max(range(260), key=logits.__getitem__), ord("b"))
        self.assertEqual(json.loads(self.out(*m, "--json")), logits)
        top = json.loads(self.out(*m, "--top-k", 3, "--json"))
        self.assertEqual(top, [[ord("b"), logits[ord("b")]], [0, 0], [1, 0]])
        self.assertEqual(len(json.loads(self.out(*m, "--top-k", 1000))), 260)

    def test_the_prompt_must_fit(self):
        self.fails(1, "logits", "-m", model("script"), "-p", "a" * 512, says="513 tokens do not fit in the context of 512")
        self.assertEqual(len(json.loads(self.out("logits", "-m", model("script"), "-p", "a" * 511))), 260)


class PerplexityTest(ContractTest):
    def test_text_and_json(self):
        m = ("perplexity", "-m", model("script"), "--context-size", 16)
        text = file("digits.txt", "0123456789" * 6)
        result = json.loads(self.out(*m, "--file", text, "--json"))
        self.assertEqual((result["chunks"], result["positions"]), (3, 21))  # 61 tokens with BOS
        self.assertAlmostEqual(result["perplexity"], 1, places=4)
        self.assertRegex(self.out(*m, "--file", text), r"^perplexity: 1\.0000 \+/- ")
        self.assertEqual(json.loads(self.out(*m, "--file", text, "--json", "--chunks", 2))["positions"], 14)

    def test_reference(self):
        m = ("perplexity", "-m", model("script"))
        saved = os.path.join(FOLDER.name, "saved.bin")
        text = file("mixed.txt", "0123456789xyz" * 6)
        self.out(*m, "--context-size", 16, "--file", text, "--save-logits", saved)
        result = json.loads(self.out(*m, "--reference", saved, "--json"))
        self.assertEqual(result["context_size"], 16)
        self.assertAlmostEqual(result["reference"]["mean_kl"], 0, places=4)
        self.assertEqual(result["reference"]["same_top1"], 1)
        self.assertIn("KL:", self.out(*m, "--reference", saved))
        self.fails(2, *m, "--reference", saved, "--context-size", 32)
        self.fails(2, *m, "--reference", saved, "--save-logits", saved, says="overwrite")
        self.fails(1, *m, "--reference", text, says="not a file of log-probabilities")

    def test_too_little_text(self):
        self.fails(2, "perplexity", "-m", model("script"), "--file", file("short.txt", "abc"), says="chunk of 512")


class InspectTest(ContractTest):
    def test_text(self):
        out = self.out("inspect", "-m", model("script"))
        for part in ("general.architecture", '"llama"', "token_embd.weight", "F32", "288 x 260", "blk.0.attn_q",
                     "run on cpu", "weights", "state", "activations"):
            self.assertIn(part, out)

    def test_json(self):
        out = json.loads(self.out("inspect", "-m", model("script"), "--json"))
        self.assertEqual(out["metadata"]["llama.block_count"], 1)
        self.assertEqual(out["metadata"]["tokenizer.ggml.tokens"]["size"], 260)
        self.assertEqual(len(out["tensors"]), 12)
        self.assertEqual(out["run"]["memory_bytes"]["kv_per_token"], 2 * 32 * 2)
        self.assertTrue(all(op["kernel"] for op in out["run"]["ops"]))

    def test_a_file_that_cannot_run(self):
        with open(model("script"), "rb") as good:
            data = good.read()
        path = file("clama.gguf", data.replace(b"\x05" + bytes(7) + b"llama", b"\x05" + bytes(7) + b"clama", 1))
        self.fails(1, "run", "-m", path, "-p", "x", says="clama")
        out = self.out("inspect", "-m", path)
        self.assertIn("token_embd.weight", out)
        self.assertRegex(out, "cannot run: .*clama")
        self.assertIn("clama", json.loads(self.out("inspect", "-m", path, "--json"))["cannot_run"])


class BenchTest(ContractTest):
    ARGS = ("--prompt-tokens", 40, "--max-tokens", 8, "--runs", 3, "--depth", 30)

    def test_json(self):
        out = json.loads(self.out("bench", "-m", model("script"), *self.ARGS, "--json", "--explain", "--threads", 2))
        for name in ("prefill_tok_s", "decode_tok_s", "ttft_ms"):
            self.assertEqual(list(out[name]), ["p10", "p50", "p90"])
            self.assertLessEqual(0, out[name]["p10"])
            self.assertLessEqual(out[name]["p10"], out[name]["p50"])
            self.assertLessEqual(out[name]["p50"], out[name]["p90"])
        self.assertGreater(out["peak_rss_bytes"], 1 << 20)
        self.assertLess(out["peak_rss_bytes"], 128 << 20)  # without the buffer that measures the roof
        self.assertEqual((out["threads"], out["device"]), (2, "cpu"))
        self.assertGreater(out["roof_read_gb_s"], 0)
        self.assertIn("embed", " ".join(op["op"] for op in out["ops"]["decode"]))

    def test_text(self):
        out = self.out("bench", "-m", model("script"), *self.ARGS, "--explain")
        for part in ("prefill", "decode", "tok/s", "first token", "peak memory", "GB/s", "GOPS"):
            self.assertIn(part, out)

    def test_too_long_for_the_model(self):
        self.fails(2, "bench", "-m", model("script"), "--prompt-tokens", 600)
        self.fails(2, "bench", "-m", model("script"), "--prompt-tokens", 0)


class CpuTest(ContractTest):
    def test_text_and_json(self):
        out = self.out("cpu")
        for part in ("tier:", "features:", "cores:", "cgroup:", "threads:"):
            self.assertIn(part, out)
        cpu = json.loads(self.out("cpu", "--json"))
        self.assertGreaterEqual(cpu["threads"], 1)
        self.assertEqual(json.loads(self.out("cpu", "--json", env={"CERA_CPU_TIER": "scalar"}))["tier"], "scalar")
        self.assertIn("avx9", cera("cpu", env={"CERA_CPU_TIER": "avx9"})[2])
        self.assertEqual(json.loads(self.out("cpu", "--json", "--threads", 1))["threads"], 1)


if __name__ == "__main__":
    with FOLDER:
        unittest.main(argv=sys.argv[:1])
