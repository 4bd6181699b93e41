"""Write the table of shapes in docs/capture-reference.md from the matrix of tests.

python docs/shapes_table.py
"""

from __future__ import annotations

import sys
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "capture-reference.md"
MARK = "<!-- Written by `python docs/shapes_table.py`. -->\n"
END = "<!-- End of the output of `python docs/shapes_table.py`. -->\n"


def page() -> str:
    """Return the page as it should be, with a row for each group of shapes."""
    text, mark, rest = PAGE.read_text(encoding="utf-8").partition(MARK)
    return text + mark + _table() + END + rest.partition(END)[2]


def _table() -> str:
    sys.path.insert(0, str(ROOT))
    from tests.matrix.frameworks import shapes

    groups = defaultdict(list)
    for shape in shapes("langchain"):
        groups[shape.group].append(shape)
    lines = ["", "| group | captured automatically | rightly gives no sample | needs code |"]
    lines.append("|---|---|---|---|")
    for group, members in groups.items():
        written = [f"{one.name}: `{one.write}`" for one in members if one.write]
        unwritten = [one for one in members if not one.write]
        captured = [one.name for one in unwritten if one.expected(one.ways[0])]
        none = [one.name for one in unwritten if one.name not in captured]
        cells = ("; ".join(cell) for cell in (captured, none, written))
        lines.append(f"| {group} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
