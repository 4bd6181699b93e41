"""Prints the matrix as a table: what is right of every shape in every way.

python -m tests.matrix.table [framework]

`RAGEVAL_SEED` replays the words of a former run.
"""

from __future__ import annotations

import logging
import sys
import warnings
from collections.abc import Iterator

from tests.matrix.check import check
from tests.matrix.frameworks import FRAMEWORKS, shapes
from tests.matrix.shape import Shape
from tests.support.variation import run_seed

COLUMNS = ("question", "contexts", "answer", "spans")


def main(frameworks: list[str]) -> int:
    """Prints the table, what is wrong and the seed; the exit status is 1 if anything is wrong."""
    warnings.simplefilter("ignore")
    logging.disable()
    print(f"| framework | group | shape | way | {' | '.join(COLUMNS)} |")
    print("|---" * (4 + len(COLUMNS)) + "|")
    rows = 0
    reasons: list[str] = []
    for framework in frameworks or FRAMEWORKS:
        for cells, wrong in _rows(framework):
            print(f"| {framework} | {' | '.join(cells)} |", flush=True)
            rows += 1
            reasons += [f"{framework}: {', '.join(cells[:3])}: {wrong}"] if wrong else []
    print("\n".join(["", *reasons, f"{rows - len(reasons)} of {rows} rows all right"]))
    print(f"seed {run_seed()}")
    return int(bool(reasons))


def _rows(framework: str) -> Iterator[tuple[list[str], dict[str, str]]]:
    for shape in shapes(framework):
        for way in shape.ways:
            if shape.missing is None:
                yield _row(shape, way)


def _row(shape: Shape, way: str) -> tuple[list[str], dict[str, str]]:
    try:
        wrong = check(shape, way)
    except Exception as error:  # noqa: BLE001 - a row of the table, not the end of it
        wrong = dict.fromkeys(COLUMNS, f"{type(error).__name__}: {error}")
    marks = ["wrong" if column in wrong else "right" for column in COLUMNS]
    return [shape.group, shape.name, way, *marks], wrong


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
