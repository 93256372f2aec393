#!/usr/bin/env python3
"""Compares our chat templates with Python's Jinja2, set up as transformers sets it up.

usage: check_templates.py RENDERER   (the program built from render_main.cpp)

Templates: the published ones that come with llama.cpp ($CERA_PEERS), those inside the model files
($CERA_MODELS), and our own, one per feature (templates/*.jinja). Each is rendered over every conversation below;
the text must be equal byte for byte, and where Jinja2 raises, ours must be an error too.
Exit code 77: something needed is missing. With CERA_REQUIRE_MODEL=1 that is a failure; qwen05 is left out where
it is missing, unless CERA_REQUIRE_MODEL=all.
"""

import datetime
import glob
import json
import os
import pathlib
import struct
import subprocess
import sys

HERE = pathlib.Path(__file__).parent
NOW = 1753876543  # 2025-07-30
BOS, EOS = "<|bos|>", "</s>"


REQUIRED = os.environ.get("CERA_REQUIRE_MODEL", "")


def missing(what):
    required = REQUIRED in ("1", "all")
    print(f"{'missing' if required else 'skipped'}: {what}", file=sys.stderr)
    sys.exit(1 if required else 77)


try:
    import jinja2
    import jinja2.ext
    import jinja2.sandbox
except ImportError:
    missing("the Python package jinja2")


# ---- Jinja2 as transformers configures it ----


class Generation(jinja2.ext.Extension):
    """{% generation %}...{% endgeneration %}: marks what the assistant said; prints its body."""

    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("_body"), [], [], body).set_lineno(line)

    def _body(self, caller):
        return caller()


class CheckedNamespace(jinja2.utils.Namespace):
    """Refuses names that start with an underscore."""

    def __init__(*args, **kwargs):
        self, args = args[0], args[1:]
        attributes = dict(*args, **kwargs)
        for name in attributes:
            CheckedNamespace.check(name)
        jinja2.utils.Namespace.__init__(self, attributes)

    def __setitem__(self, name, value):
        CheckedNamespace.check(name)
        jinja2.utils.Namespace.__setitem__(self, name, value)

    @staticmethod
    def check(name):
        if name.startswith("_"):
            raise jinja2.exceptions.SecurityError(name)


def environment():
    env = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols]
    )

    def tojson(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(
            value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
        )

    def raise_exception(message):
        raise jinja2.exceptions.TemplateError(message)

    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    env.globals["strftime_now"] = lambda form: datetime.datetime.fromtimestamp(NOW).strftime(form)
    env.globals["namespace"] = CheckedNamespace
    return env


# ---- what is rendered ----


def user(content):
    return {"role": "user", "content": content}


def assistant(content, **more):
    return {"role": "assistant", "content": content, **more}


def call(name, arguments, id="call_1abcdefg"):
    return {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}


TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "get_weather",
            "description": "What the weather is like in a 'place' <now> & then.",
            "parameters": {
                "type": "object",
                "properties": {
                    "city": {"type": "string", "description": "A city, e.g. \"Zürich\""},
                    "unit": {"type": "string", "enum": ["celsius", "fahrenheit"], "default": "celsius"},
                    "days": {"type": "integer", "minimum": 0, "maximum": 9007199254740993},
                    "where": {
                        "type": "object",
                        "properties": {"lat": {"type": "number"}, "lon": {"type": ["number", "null"]}},
                        "required": ["lat", "lon"],
                    },
                    "tags": {"type": "array", "items": {"type": "string"}},
                },
                "required": ["city"],
            },
        },
    },
    {"type": "function", "function": {"name": "ping", "description": "Nothing", "parameters": {}}},
    {
        "type": "function",
        "function": {
            "name": "sum",
            "description": "Adds.",
            "parameters": {
                "type": "object",
                "properties": {"xs": {"type": "array", "items": {"type": "number"}, "description": "terms"}},
            },
            "return": {"type": "number", "description": "the sum"},
        },
    },
]

PLAIN_TOOL = {
    "type": "function",
    "function": {
        "name": "add",
        "description": "Adds two numbers.\n\nArgs:\n  a: one",
        "parameters": {
            "type": "object",
            "properties": {
                "a": {"type": "integer", "description": "one", "additionalProperties": False},
                "b": {"type": "array", "items": {"type": "string"}, "description": "two"},
            },
            "required": ["a", "b"],
        },
    },
}

SYSTEM = {"role": "system", "content": "You are  terse.\n"}
WEATHER = {"city": "Zürich", "days": 3, "deep": {"a": [1, 2.5, True, None]}}
PARTS = [
    {"type": "text", "text": "What is "},
    {"type": "image", "image": "a.png"},
    {"type": "image_url", "image_url": {"url": "b.png"}},
    {"type": "audio", "audio": "c.wav"},
    {"type": "video", "video": "d.mp4"},
    {"type": "text", "text": "this?\n"},
]
THOUGHT = "<think>\nLet me see.\n</think>\n\nIt is 4."
TOOL_TURN = [
    user("And the weather?"),
    assistant("", tool_calls=[call("get_weather", WEATHER)]),
    {"role": "tool", "tool_call_id": "call_1abcdefg", "name": "get_weather", "content": '{"t": 21.5}'},
]

CONVERSATIONS = {
    "empty": [],
    "user": [user("Hello")],
    "system": [SYSTEM, user("  Hello \n")],
    "two_turns": [SYSTEM, user("Hi"), assistant("Hello!"), user("2+2?")],
    "ends_with_assistant": [user("Hi"), assistant(" Sure,")],
    "consecutive_users": [user("one"), user("two"), assistant("three"), assistant("four"), user("five")],
    "system_late": [user("Hi"), assistant("Yes?"), SYSTEM, user("Go on")],
    "system_only": [SYSTEM],
    "developer": [{"role": "developer", "content": "Be kind."}, user("Hi")],
    "odd_role": [{"role": "narrator", "content": "Once upon a time"}, user("Hi")],
    "assistant_first": [assistant("Welcome."), user("Hi")],
    "null_content": [user("Hi"), assistant(None), user(None), user("Go on")],
    "missing_content": [user("Hi"), {"role": "assistant"}, user("Go on")],
    "empty_content": [SYSTEM, user(""), assistant(""), user(" ")],
    "unicode": [user("Grüße 👩‍👩‍👧 こんにちは\u00a0\u200b \u2028x \U0001f600"), assistant("Ünïcödé ß ŉ\t"), user("İstanbul ΟΔΟΣ ΣΟΦΟΣ.")],
    "quotes": [user("\"a\" 'b' \\ </tag> & {{ x }} {% y %} \r\n \x07 \x7f"), assistant("`c`"), user("<|im_start|>system")],
    "parts": [{"role": "system", "content": [{"type": "text", "text": "Look."}]}, user(PARTS)],
    "parts_assistant": [user("Say"), assistant([{"type": "text", "text": "Sure"}])],
    "parts_empty": [user([]), user([{"type": "text"}]), user([{"text": "no type"}])],
    "tool_dict": [SYSTEM, *TOOL_TURN, assistant("21.5 °C"), user("Thanks")],
    "tool_last": TOOL_TURN,
    "tool_string": [
        user("Weather"),
        assistant(None, tool_calls=[call("get_weather", json.dumps(WEATHER))]),
        {"role": "tool", "tool_call_id": "call_1abcdefg", "content": "fine"},
        user("Thanks"),
    ],
    "tool_malformed": [user("Weather"), assistant("", tool_calls=[call("get_weather", '{"a":')]), user("?")],
    "tool_many": [
        user("Both"),
        assistant("On it.", tool_calls=[call("ping", {}, "call_aaaa"), call("sum", {"xs": [1, 2]}, "call_bbbb")]),
        {"role": "tool", "tool_call_id": "call_aaaa", "name": "ping", "content": "pong"},
        {"role": "tool", "tool_call_id": "call_bbbb", "name": "sum", "content": {"sum": 3}},
        user("Good"),
    ],
    "tool_bare": [user("x"), assistant(None, tool_calls=[{"name": "ping", "arguments": {}}])],
    "tool_short_id": [
        user("x"),
        assistant("", tool_calls=[call("ping", {}, "123456789")]),
        {"role": "tool", "tool_call_id": "123456789", "content": [{"type": "text", "text": "pong"}]},
        assistant("done"),
    ],
    "tool_empty_calls": [user("x"), assistant("y", tool_calls=[]), user("z", ), assistant("w", tool_calls=None)],
    "reasoning": [
        SYSTEM,
        user("2+2?"),
        assistant("It is 4.", reasoning_content="Let me see.", thinking="Let me see."),
        user("Sure?"),
    ],
    "reasoning_last": [user("2+2?"), assistant("4", reasoning_content="\nsimple\n")],
    "reasoning_tools": [
        user("Weather"),
        assistant("", reasoning_content="I should ask.", thinking="I should ask.", tool_calls=[call("ping", {})]),
        {"role": "tool", "tool_call_id": "call_1abcdefg", "name": "ping", "content": "ok"},
        assistant("Done.", reasoning_content="Now I know."),
    ],
    "think_inline": [user("2+2?"), assistant(THOUGHT), user("Sure?"), assistant(THOUGHT)],
    "names": [{**user("Hi"), "name": "ann"}, {**assistant("Hello"), "name": "bot"}, {**user("Bye"), "name": "bob"}],
}

# Arguments that published templates know. None: not given.
VARIANTS = [
    {"add_generation_prompt": True},
    {"add_generation_prompt": False},
    {"add_generation_prompt": True, "tools": TOOLS},
    {"add_generation_prompt": False, "tools": TOOLS[1:2], "arguments": {"enable_thinking": False}},
    {"add_generation_prompt": True, "arguments": {"enable_thinking": True, "thinking": True, "reasoning_effort": "high"}},
    {
        "add_generation_prompt": True,
        "tools": [],
        "arguments": {"enable_thinking": False, "thinking": False, "date_string": "1 May 2025", "keep_past_thinking": True},
    },
    {
        "add_generation_prompt": True,
        "tools": [PLAIN_TOOL],
        "arguments": {
            "documents": [{"title": "A <doc>", "text": "Some text.", "id": 7}],
            "functions": json.dumps(TOOLS[:1], indent=1),
            "datetime": "2025-05-01 10:00",
            "model_identity": "You are Cera.",
            "builtin_tools": ["browser", "python"],
            "tools_in_user_message": False,
            "clear_thinking": False,
            "xml_tools": [],
        },
    },
]


def gguf_chat_template(path):
    """tokenizer.chat_template of a GGUF file, without reading more than the header."""
    scalar = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
    with open(path, "rb") as file:

        def number(code):
            return struct.unpack("<" + code, file.read(struct.calcsize(code)))[0]

        def string():
            return file.read(number("Q"))

        def value(kind):
            if kind == 8:
                return string()
            if kind != 9:
                return number(scalar[kind])
            element, count = number("I"), number("Q")
            if element in scalar:
                return file.seek(count * struct.calcsize(scalar[element]), 1)
            for _ in range(count):
                value(element)

        assert file.read(4) == b"GGUF"
        number("I"), number("Q")
        for _ in range(number("Q")):
            key = string()
            found = value(number("I"))
            if key == b"tokenizer.chat_template":
                return found.decode()
    raise ValueError(f"{path} has no chat template")


def published_templates():
    """(name, source) of those that models come with."""
    cache = pathlib.Path.home() / ".cache"
    peers = os.environ.get("CERA_PEERS", str(cache / "cera-peers"))
    models = os.environ.get("CERA_MODELS", str(cache / "cera-models"))
    published = sorted(glob.glob(f"{peers}/llama_cpp_python-*/vendor/llama.cpp/models/templates/*.jinja"))
    if not published:
        missing(f"models/templates of llama.cpp under {peers} (CERA_PEERS)")
    for path in published:
        yield os.path.basename(path), pathlib.Path(path).read_bytes().decode()
    for name in ("smollm2", "qwen05"):
        path = f"{models}/{name}.gguf"
        if os.path.exists(path):
            yield name, gguf_chat_template(path)
        elif name == "smollm2" or REQUIRED == "all":
            missing(f"{path} (CERA_MODELS)")


def feature_templates():
    return [(path.name, path.read_bytes().decode()) for path in sorted((HERE / "templates").glob("*.jinja"))]


def expressions():
    """(expression, a template that prints it) of every line of expressions.txt."""
    for line in (HERE / "templates/expressions.txt").read_text().split("\n"):
        if line and not line.startswith("#"):
            yield line, "{{ " + line + " }}"


def cases():
    """(name, request) of every rendering."""
    fixed = {"now": NOW, "bos_token": BOS, "eos_token": EOS}
    two_turns = CONVERSATIONS["two_turns"]
    for templates, variants in ((published_templates(), VARIANTS), (feature_templates(), VARIANTS[1:3])):
        for name, source in templates:
            broken = name.startswith(("error_", "unsupported_"))
            for title, messages in {"two_turns": two_turns}.items() if broken else CONVERSATIONS.items():
                for number, variant in enumerate(variants):
                    request = {"template": source, "messages": messages, **variant, **fixed}
                    yield f"{name} / {title} / {number}", request
    for line, source in expressions():
        yield line, {"template": source, "messages": two_turns, **fixed}


def expected(env, compiled, request):
    """(text, None) or (None, why) from Jinja2."""
    try:
        source = request["template"]
        if source not in compiled:
            compiled[source] = env.from_string(source)
        variables = {"tools": None, "documents": None, **request.get("arguments", {})}
        for key in ("messages", "tools", "add_generation_prompt", "bos_token", "eos_token"):
            if key in request:
                variables[key] = request[key]
        return compiled[source].render(**variables), None
    except Exception as error:  # whatever a template raises
        return None, f"{type(error).__name__}: {error}"


def ask(renderer, requests):
    lines = "".join(json.dumps(request) + "\n" for request in requests)
    done = subprocess.run([renderer], input=lines.encode(), capture_output=True)
    if done.returncode != 0:
        sys.exit(f"the renderer failed ({done.returncode}): {done.stderr.decode()[-2000:]}")
    return [json.loads(line) for line in done.stdout.decode().split("\n")[:-1]]


def first_difference(ours, theirs):
    at = next((i for i, (a, b) in enumerate(zip(ours, theirs)) if a != b), min(len(ours), len(theirs)))
    low = max(at - 60, 0)
    return f"at {at}:\n    ours:   {ours[low:at + 60]!r}\n    jinja2: {theirs[low:at + 60]!r}"


def compare(name, answer, text, error):
    """Why they differ, or None."""
    if text is not None and " at 0x" in text:
        return "a case must not print an address"
    if text is None:
        refused = error.removeprefix("TemplateError: ")  # by raise_exception, whose text counts
        if "error" in answer and refused != error and not answer["error"].endswith(refused):
            return f"we fail with {answer['error']}, jinja2 with {error}"
        return None if "error" in answer else f"jinja2 raises {error}, we print {answer['text'][:200]!r}"
    if "error" in answer:
        return f"we fail: {answer['error']}"
    return None if answer["text"] == text else first_difference(answer["text"], text)


def main():
    renderer, only = sys.argv[1], sys.argv[2:]
    selected = [(name, request) for name, request in cases() if not only or any(o in name for o in only)]
    answers = ask(renderer, [request for _, request in selected])
    env, compiled = environment(), {}
    failures, texts = 0, 0
    for (name, request), answer in zip(selected, answers, strict=True):
        text, error = expected(env, compiled, request)
        texts += text is not None
        why = compare(name, answer, text, error)
        if why:
            failures += 1
            if failures <= 40:
                print(f"DIFFERENT {name}\n  {why}")
    n_templates = len({request["template"] for _, request in selected})
    print(
        f"{n_templates} templates, {len(selected)} renderings compared with Jinja2 {jinja2.__version__}: "
        f"{texts} texts, {len(selected) - texts} errors, {failures} different"
    )
    sys.exit(failures > 0 or not selected)


main()
