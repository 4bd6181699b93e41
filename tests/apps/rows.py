"""Rows of the table, printed as JSON by an environment that has the packages."""

from __future__ import annotations

import json
import logging
import sys
import time
import warnings
from collections.abc import Sequence
from importlib import import_module
from typing import Any

from tests.matrix.check import check
from tests.matrix.shape import Shape


def row(shape: Shape, way: str) -> dict[str, Any]:
    """Run an application in one way and return what is wrong, by aspect."""
    began = time.monotonic()
    left_out = ""
    try:
        wrong = check(shape, way)
    except ImportError as error:
        # A package whose newest version does not fit that of another; ours is a failure.
        wrong = {"raised": f"{type(error).__name__}: {error}"}
        left_out = "" if (error.name or "").startswith("rag_eval_hooks") else str(error)
    except Exception as error:  # noqa: BLE001 - a row of the table, not the end of it
        wrong = {"raised": f"{type(error).__name__}: {error}"}
    seconds = round(time.monotonic() - began, 2)
    named = {"group": shape.group, "name": shape.name, "way": way}
    return {**named, "wrong": wrong, "left_out": left_out, "seconds": seconds}


def main(seed: int, modules: Sequence[str]) -> None:
    """Print a line for every application of some modules and every way of calling it."""
    warnings.simplefilter("ignore")
    logging.disable()
    for module in modules:
        for shape in import_module(f"tests.apps.{module}").shapes(seed):
            for way in shape.ways:
                print(json.dumps(row(shape, way)), flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
