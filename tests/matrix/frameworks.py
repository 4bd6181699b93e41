"""The frameworks whose shapes are run, where they are installed."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec

from tests.matrix.shape import Shape

FRAMEWORKS = {"langchain": "langchain_core", "llama_index": "llama_index.core"}
"""Package of shapes here, and the distribution's module that it needs."""


def shapes(framework: str) -> tuple[Shape, ...]:
    module = FRAMEWORKS[framework]
    package = f"tests.matrix.{framework}"
    if find_spec(module.partition(".")[0]) is None or find_spec(package) is None:
        return ()
    found: tuple[Shape, ...] = import_module(package).SHAPES
    return found
