"""Our files read by the gguf package, and its files read by us: check_writer.py LINES_PROGRAM"""

import pathlib
import struct
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent))
from python_check import require

np, gguf = require("numpy", "gguf")

NAMES = ["u8", "i8", "u16", "i16", "u32", "i32", "f32", "bool", "string", "array", "u64", "i64", "f64"]


def scalar(kind, part):
    """A value as our program prints it; `part` is the array of its bytes or elements."""
    if kind == "string":
        return "'" + bytes(part).hex()
    value = part[0]
    if kind in ("f32", "f64"):
        return struct.pack(">d", float(value)).hex()
    if kind == "bool":
        return "true" if value else "false"
    return str(int(value))


def strip_nested(line):
    """The package flattens arrays of arrays, so these are compared by their key alone."""
    key, kind, value = line.split(" ", 2)
    return f"{key} {kind}" if value.startswith("array[") else line


def lines_of(path):
    reader = gguf.GGUFReader(path)
    lines = []
    for key, field in sorted(reader.fields.items(), key=lambda item: item[0].encode()):
        if key.startswith("GGUF."):  # made up by the package from the header
            continue
        kinds = [NAMES[kind] for kind in field.types]
        if kinds[0] != "array":
            shown = scalar(kinds[0], field.parts[field.data[0]])
            lines.append(f"{key} {kinds[0]} {shown}")
        elif kinds.count("array") > 1:
            lines.append(f"{key} array")
        else:
            elements = "".join(scalar(kinds[1], field.parts[i]) + "," for i in field.data)
            lines.append(f"{key} array {kinds[1]}[{elements}]")
    for tensor in reader.tensors:
        shape = "".join(f"{int(n)}," for n in tensor.shape)
        data = np.ascontiguousarray(tensor.data).tobytes().hex()
        lines.append(f"tensor {tensor.name} {tensor.tensor_type.name} {shape} {tensor.data_offset} {data}")
    return lines


def write_with_package(path):
    writer = gguf.GGUFWriter(path, "sample")
    writer.add_uint8("a.u8", 200)
    writer.add_int8("a.i8", -100)
    writer.add_uint16("a.u16", 60000)
    writer.add_int16("a.i16", -30000)
    writer.add_uint32("a.u32", 4000000000)
    writer.add_int32("a.i32", -2000000000)
    writer.add_uint64("a.u64", 2**64 - 1)
    writer.add_int64("a.i64", -(2**63))
    writer.add_float32("a.f32", 0.1)
    writer.add_float64("a.f64", 0.1)
    writer.add_bool("a.bool", True)
    writer.add_string("a.string", "a string with é and 😊")
    writer.add_array("b.strings", ["", "x", "a longer string, on the heap"])
    writer.add_array("b.ints", [1, -2, 3])
    writer.add_array("b.floats", [0.5, -1.25])
    writer.add_array("b.bools", [True, False])
    writer.add_custom_alignment(64)
    rng = np.random.default_rng(3)
    writer.add_tensor("f32", rng.normal(size=(3, 5)).astype(np.float32))
    writer.add_tensor("f16", rng.normal(size=(2, 3, 4)).astype(np.float16))
    for kind in (gguf.GGMLQuantizationType.Q8_0, gguf.GGMLQuantizationType.Q5_1):
        data = gguf.quants.quantize(rng.normal(size=(2, 64)).astype(np.float32), kind)
        writer.add_tensor(kind.name, data, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def compare(program, path, label):
    run = subprocess.run([program, "read", path], stdout=subprocess.PIPE, check=True)
    ours = [strip_nested(line) for line in run.stdout.decode().splitlines()]
    theirs = lines_of(path)
    for left, right in zip(ours, theirs):
        if left != right:
            print(f"{label}:\n  ours   {left[:200]}\n  theirs {right[:200]}")
            return False
    print(f"{label}: {len(ours)} lines, the package has {len(theirs)}")
    return len(ours) == len(theirs) > 15


def main():
    program = sys.argv[1]
    with tempfile.TemporaryDirectory() as folder:
        ours, theirs = f"{folder}/ours.gguf", f"{folder}/theirs.gguf"
        subprocess.run([program, "write", ours], check=True)
        write_with_package(theirs)
        results = [compare(program, ours, "our file"), compare(program, theirs, "the package's file")]
    return 0 if all(results) else 1


sys.exit(main())
