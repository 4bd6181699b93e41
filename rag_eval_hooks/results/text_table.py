"""Tables as text, for a terminal and for Markdown."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final
from unicodedata import east_asian_width

__all__ = ["TextTable", "escaped", "markdown_table", "one_line", "shown_number", "text_table"]

_MOST_IN_CELL: Final = 100
_NUMBER: Final = re.compile(r"[-+]?[\d.,]*( \([\d.]+ %\))?")


@dataclass(frozen=True, slots=True)
class TextTable:
    """A table with a title; every cell is one line of text."""

    title: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]

    @property
    def numeric(self) -> list[bool]:
        """Columns that hold numbers alone, behind the first, which names the row."""
        columns = list(zip(*self.rows, strict=True))[1:]
        return [False, *(all(map(_NUMBER.fullmatch, cells)) for cells in columns)]


def text_table(table: TextTable) -> str:
    """Return a table for a terminal."""
    table = _clean(table)
    cells = [table.header, *table.rows]
    widths = [max(map(_width, column)) for column in zip(*cells, strict=True)]
    lines = (
        "  ".join(
            cell + " " * (width - _width(cell)) for cell, width in zip(row, widths, strict=True)
        )
        for row in cells
    )
    return "\n".join([table.title, *(f"  {line.rstrip()}" for line in lines)])


def markdown_table(table: TextTable) -> str:
    """Return a table for a pull request."""
    table = _clean(table)
    rows = "\n".join("| " + " | ".join(map(escaped, row)) + " |" for row in table.rows)
    head = "| " + " | ".join(map(escaped, table.header)) + " |"
    rule = "|" + " --- |" * len(table.header)
    return f"## {escaped(table.title)}\n\n{head}\n{rule}\n{rows}"


def one_line(text: str, width: int = 60) -> str:
    """Return a text on one line without control characters, cut at the end."""
    line = " ".join(text.split())
    shown = "".join(char if char.isprintable() else "?" for char in line)
    return shown if len(shown) <= width else shown[: width - 3].rstrip() + "..."


def shown_number(value: float) -> str:
    """Return a number with three digits, of which none stands for less than a thousandth."""
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}" if abs(value) >= 1 else f"{round(value, 3):g}"


def _clean(table: TextTable) -> TextTable:
    """Return the table without what would break a line: labels and keys are the application's."""
    rows = [[one_line(cell, _MOST_IN_CELL) for cell in row] for row in table.rows]
    header = [one_line(cell, _MOST_IN_CELL) for cell in table.header]
    return TextTable(one_line(table.title, _MOST_IN_CELL), header, rows)


def _width(text: str) -> int:
    return sum(2 if east_asian_width(char) in "WF" else 1 for char in text)


def escaped(text: str) -> str:
    """Return a text that Markdown shows as it is."""
    for char in "\\|<>*_`[]":
        text = text.replace(char, f"\\{char}")
    return text.replace("\n", "<br>")
