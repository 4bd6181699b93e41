"""Prints the matrix as a table: what is right of every shape in every way.

python -m tests.matrix.table [framework]
"""

from __future__ import annotations

import logging
import sys
import warnings
from collections.abc import Iterator

from tests.matrix.check import check
from tests.matrix.frameworks import FRAMEWORKS, shapes
from tests.matrix.shape import Shape

COLUMNS = ("question", "contexts", "answer", "spans")


def main(frameworks: list[str]) -> int:
    """Prints the table; the number of rows that are wrong is the exit status, at most 1."""
    warnings.simplefilter("ignore")
    logging.disable()
    print(f"| framework | group | shape | way | {' | '.join(COLUMNS)} |")
    print("|---" * (4 + len(COLUMNS)) + "|")
    rows = right = 0
    for framework in frameworks or FRAMEWORKS:
        for cells, fine in _rows(framework):
            print(f"| {framework} | {' | '.join(cells)} |", flush=True)
            rows, right = rows + 1, right + fine
    print(f"\n{right} of {rows} rows all right")
    return int(right < rows)


def _rows(framework: str) -> Iterator[tuple[list[str], bool]]:
    for shape in shapes(framework):
        for way in shape.ways:
            if shape.missing is None:
                yield _row(shape, way)


def _row(shape: Shape, way: str) -> tuple[list[str], bool]:
    try:
        wrong = check(shape, way)
    except Exception as error:  # noqa: BLE001 - a row of the table, not the end of it
        wrong = dict.fromkeys(COLUMNS, type(error).__name__)
    marks = ["wrong" if column in wrong else "right" for column in COLUMNS]
    return [shape.group, shape.name, way, *marks], not wrong


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
