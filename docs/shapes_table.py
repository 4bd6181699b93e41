"""Write the table of shapes in docs/capture-reference.md from the matrix of tests.

python docs/shapes_table.py
"""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "capture-reference.md"
MARK = "<!-- Written by `python docs/shapes_table.py`. -->\n"
DRAWN = " next to a document"
END = "<!-- End of the output of `python docs/shapes_table.py`. -->\n"


def page() -> str:
    """Return the page, with a row for each shape."""
    text, mark, rest = PAGE.read_text(encoding="utf-8").partition(MARK)
    return text + mark + _table() + END + rest.partition(END)[2]


def _table() -> str:
    sys.path.insert(0, str(ROOT))
    from tests.matrix.frameworks import shapes

    lines = ["", "| group | pipeline or event | expected result |", "|---|---|---|"]
    for shape in sorted(shapes("langchain"), key=lambda one: one.group):
        is_captured = shape.expected(shape.ways[0])
        result = "captured" if is_captured else "no sample"
        if shape.write:
            result = f"captured with `{shape.write}`"
        # Each run draws the forms of a step's result.
        name = f"a step's result{DRAWN}" if shape.name.endswith(DRAWN) else shape.name
        lines.append(f"| {shape.group} | {name} | {result} |")
    return "\n".join(dict.fromkeys(lines)) + "\n\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
