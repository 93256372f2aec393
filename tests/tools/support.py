"""Loads the scripts under tools/ and bench/, which have no suffix, as modules."""

import importlib.machinery
import importlib.util
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]


def load(path):
    name = pathlib.PurePath(path).name
    sys.path.insert(0, str((ROOT / path).parent))
    loader = importlib.machinery.SourceFileLoader(name, str(ROOT / path))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(name, loader))
    sys.modules[name] = module
    loader.exec_module(module)
    return module
