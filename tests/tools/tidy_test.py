"""tools/tidy finds each breach that it names, and nothing in a clean tree."""

import pathlib
import tempfile
import unittest

import support

tidy = support.load("tools/tidy")

CONFIG = """
layers = [["base"], ["text", "ops"], ["cli"]]
[limits]
file_lines = 40
architecture_file_lines = 20
function_lines = 10
"""
CLEAN = {
    "src/base/error.h": "#pragma once\n",
    "src/ops/op.h": '#pragma once\n#include "base/error.h"\n',
    "src/ops/op.cpp": '#include "ops/op.h"\n\nnamespace cera {\n\nint f(int x) {\n  return x;\n}\n\n}\n',
    "src/text/t.h": '#pragma once\n#include <string>\n#include "base/error.h"\n',
    "tests/CMakeLists.txt": "cera_test(base cera_base)\nadd_test(NAME tidy COMMAND tidy_test.py)\n",
    "tests/base/error_test.cpp": '#include "base/error.h"\n',
    "README.md": "See [the error type](src/base/error.h) and `src/ops/op.h`.\n",
}
LONG_BODY = "  f();\n" * 10


class TidyTest(unittest.TestCase):
    def findings(self, files, config=CONFIG):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            for path, text in {**CLEAN, "tools/tidy.toml": config, **files}.items():
                (root / path).parent.mkdir(parents=True, exist_ok=True)
                (root / path).write_text(text)
            return tidy.check(root)

    def expect(self, rule, path, text, line=None):
        found = self.findings({path: text})
        self.assertEqual([f.rule for f in found], [rule], [str(f) for f in found])
        self.assertEqual(found[0].path, path)
        if line:
            self.assertEqual(found[0].line, line)

    def expect_clean(self, path, text):
        self.assertEqual([str(f) for f in self.findings({path: text})], [])

    def test_clean_tree(self):
        self.assertEqual([str(f) for f in self.findings({})], [])

    def test_include_order(self):
        self.expect("include-order", "src/base/a.cpp", '#include "ops/op.h"\n')
        self.expect("include-order", "src/ops/a.cpp", '\n#include "text/t.h"\n', line=2)
        self.expect("include-order", "src/text/a.cpp", '#include "ops/op.h"\n')
        self.expect("include-order", "src/ops/a.cpp", '#include "op.h"\n')
        self.expect("include-order", "src/ops/a.cpp", '#include "../base/error.h"\n')
        self.expect("include-order", "src/ops/a.cpp", "#include <base/error.h>\n")
        self.expect_clean("src/cli/a.cpp", '#include "ops/op.h"\n#include "text/t.h"\n')
        self.expect_clean("src/ops/a.cpp", '// #include "text/t.h" would be wrong\n')

    def test_banned_calls(self):
        for call in ("std::abort();", "exit(1);", "throw 1;", 'printf("x");', "std::cerr << 1;",
                     'fprintf(stderr, "x");', 'fmt::print("x");', "assert(x);"):
            self.expect("banned-call", "src/ops/a.cpp", f"void f() {{\n  {call}\n}}\n", line=2)
        self.expect_clean("src/cli/a.cpp", 'void f() { printf("x"); }\n')
        self.expect("banned-call", "src/cli/a.cpp", "void f() { std::exit(1); }\n")
        self.expect_clean("src/ops/a.cpp", 'const char* s = "abort()";  // never throw\n')
        self.expect_clean("src/ops/a.cpp", "int n = snprintf(b, 1, f); static_assert(true); app.exit(1);\n")

    def test_sizes(self):
        self.expect("file-size", "src/ops/a.cpp", "// line\n" * 41)
        self.expect_clean("src/ops/a.cpp", "// line\n" * 40)
        function = "namespace a {\nstruct B {\n  int f(int x) const {\n" + LONG_BODY + "  }\n};\n}\n"
        self.expect("function-size", "src/ops/a.cpp", function, line=3)
        self.expect_clean("src/ops/a.cpp", "int f() {\n" + "  f();\n" * 8 + "}\n")
        self.expect_clean("src/ops/a.cpp", "struct B {\n" + "  int x;\n" * 20 + "};\n")
        self.expect_clean("src/ops/a.cpp", "const int kTable[] = {\n" + "  1,\n" * 20 + "};\n")
        self.expect("function-size", "tools/a.py", "def f():\n" + "    f()\n" * 10)

    def test_architecture_file_size(self):
        config = CONFIG.replace('["cli"]', '["models"]')
        found = self.findings({"src/models/arch/a.cpp": "// line\n" * 21}, config)
        self.assertEqual([f.rule for f in found], ["file-size"])

    def test_function_shapes(self):
        body = "{\n" + LONG_BODY + "}\n"
        shapes = {
            "A::A(int x) : a_{x}, b_(2) " + body: "A::A",
            "template <class T, class U = V<T>>\nauto f(T x) -> int " + body: "f",
            "[[nodiscard]] bool operator==(A a) noexcept " + body: "operator==",
            "TEST(Suite, Name) " + body: "TEST(Suite,Name)",
            "struct alignas(64) A { void g() " + body + "};": "g",
            "int f(std::string s = R\"(}{)\", char c = '{') " + body: "f",
            "const auto f = [](int x) " + body + ";": "lambda",
        }
        for code, name in shapes.items():
            blanked = tidy.blank_literals(code)
            found = [(n, code[a:b].count("\n")) for n, a, b in tidy.functions(blanked)]
            self.assertEqual(found[0][0], name, code)
            self.assertGreaterEqual(found[0][1], 10, code)

    def test_words(self):
        mark = "TO" + "DO"
        self.expect("todo", "src/ops/a.cpp", f"// {mark}: later\n")
        self.expect("todo", "README.md", f"{mark}() later\n")
        self.expect_clean("src/ops/a.cpp", f"// {mark}(needs a second backend): later\n")
        self.expect("machine-path", "README.md", "see /ho" + "me/somebody/x\n")
        self.expect("machine-path", "tools/a.py", "# get it from py" + "pi.org\n")
        self.expect_clean("README.md", "see docs/home/x and ~/work/y\n")

    def test_whitespace_and_headers(self):
        self.expect("whitespace", "src/ops/a.cpp", "int x;\n\tint y;\n", line=2)
        self.expect("whitespace", "src/ops/a.cpp", "int x; \n")
        self.expect("whitespace", "README.md", "text")
        self.expect("header-guard", "src/ops/a.h", "int f();\n")
        self.expect("header-guard", "src/ops/a.h", "#pragma once\nusing namespace std;\n", line=2)

    def test_registration(self):
        self.expect("test-registered", "tests/ops/a_test.cpp", "int x;\n")
        self.expect("test-registered", "tests/base/a.cpp", "int x;\n")
        self.expect("test-registered", "tests/base/a_test.py", "x = 1\n")
        self.expect_clean("tests/base/b_test.cpp", "int x;\n")
        self.expect_clean("tests/tools/tidy_test.py", "x = 1\n")
        check = {"tests/CMakeLists.txt": CLEAN["tests/CMakeLists.txt"] + "cera_python_check(ops unpack unpack x)\n",
                 "tests/ops/unpack_main.cpp": "int x;\n", "tests/ops/check_unpack.py": "x = 1\n"}
        self.assertEqual(self.findings(check), [])
        self.expect("test-registered", "tests/ops/check_unpack.py", "x = 1\n")
        fuzz = {"tests/fuzz/CMakeLists.txt": "file(GLOB f *_fuzz.cpp)\n", "tests/fuzz/a_fuzz.cpp": "int x;\n"}
        self.assertEqual(self.findings(fuzz), [])

    def test_links(self):
        self.expect("doc-link", "docs/a.md", "[x](../src/base/none.h)\n")
        self.expect("doc-link", "docs/a.md", "\nrun `tools/none`\n", line=2)
        self.expect_clean("docs/a.md", "[x](../src/base/error.h#top) [y](https://example.org) [z](#here)\n")

    def test_exceptions(self):
        entry = '[[exception]]\nrule = "banned-call"\nwhere = "src/ops/a.cpp"\nreason = "a test"\n'
        code = {"src/ops/a.cpp": "void f() { throw 1; }\n"}
        self.assertEqual(self.findings(code, CONFIG + entry), [])
        unused = self.findings({}, CONFIG + entry)
        self.assertEqual([f.rule for f in unused], ["exception"])
        by_pattern = entry.replace("src/ops/a.cpp", "src/ops/*")
        self.assertEqual(self.findings(code, CONFIG + by_pattern), [])
        by_name = entry.replace("banned-call", "function-size").replace("a.cpp", "a.cpp:f")
        long = {"src/ops/a.cpp": "void f() {\n" + LONG_BODY + "}\n"}
        self.assertEqual(self.findings(long, CONFIG + by_name), [])


if __name__ == "__main__":
    unittest.main()
